"""The model that plays an agent: it finds the client's tool, fills in what the tool needs, and says what came of it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from penstock import fold_all
from penstock import request as rq
from penstock.errors import InputError
from penstock.messages import read_request, write_request
from penstock.testing import NATURAL, answer, paced, play
from tests.support.each_case import each

ASK = (
    "<system-reminder>`rm -rf`</system-reminder>\nRun `cat nonce.txt` with your shell tool and tell me what it printed."
)


def tool(name: str, fields: dict[str, Any], *needed: str, **more: Any) -> rq.Tool:
    return rq.Tool(name, schema={"type": "object", "properties": fields, "required": list(needed)}, **more)


TEXT = {"type": "string"}
# The shells of the agents in the field, each among tools that only look like one.
SHELLS: dict[str, tuple[list[rq.Tool], str, dict[str, Any]]] = {
    "Claude Code": (
        [tool("Read", {"file_path": TEXT}, "file_path"), tool("BashOutput", {"bash_id": TEXT}, "bash_id"),
         tool("KillShell", {"shell_id": TEXT}, "shell_id"), tool("Bash", {"command": TEXT, "timeout": {"type": "number"}}, "command")],
        "Bash", {"command": "cat nonce.txt"}),
    "Codex": (
        [tool("write_stdin", {"session_id": {"type": "integer"}}, "session_id"), tool("exec_command", {"cmd": TEXT, "workdir": TEXT}, "cmd")],
        "exec_command", {"cmd": "cat nonce.txt"}),
    "Codex, before": ([tool("shell", {"command": {"type": "array", "items": TEXT}}, "command")], "shell", {"command": ["bash", "-lc", "cat nonce.txt"]}),
    "opencode": ([tool("bash", {"command": TEXT, "description": TEXT}, "command", "description")], "bash", {"command": "cat nonce.txt", "description": "penstock"}),
    "Qwen Code": (
        [tool("run_shell_command", {"command": TEXT, "is_background": {"type": "boolean"}}, "command", "is_background")],
        "run_shell_command", {"command": "cat nonce.txt", "is_background": False}),
    "Cline": ([tool("read_files", {"paths": {"type": "array", "items": TEXT}}, "paths"), tool("run_commands", {"commands": {"type": "array", "items": TEXT}}, "commands")],
              "run_commands", {"commands": ["cat nonce.txt"]}),
    "Goose": ([tool("developer__text_editor", {"command": {"enum": ["view"]}}, "command"), tool("developer__shell", {"command": TEXT}, "command")],
              "developer__shell", {"command": "cat nonce.txt"}),
    "no shell": ([tool("get_time", {"zone": {"enum": ["UTC", "CET"]}, "n": {"type": ["null", "integer"], "minimum": 3}}, "zone", "n")], "get_time", {"zone": "UTC", "n": 3}),
}  # fmt: skip


def _asked(tools: list[rq.Tool], *more: rq.Message, **fields: Any) -> rq.Request:
    return rq.Request("replay/agent", [rq.Message("user", [rq.Text(ASK)]), *more], tools, **fields)


@each("tools, name, sent", SHELLS.values())
def test_the_clients_own_shell_is_called(tools: list[rq.Tool], name: str, sent: dict[str, Any]) -> None:
    turn = fold_all(answer(_asked(tools)))[0]
    (call,) = turn.calls
    assert (call.name, json.loads(call.json)) == (name, sent)
    assert turn.finish is not None
    assert turn.finish.reason == "calls"


@each("protocol", ["openai-chat", "anthropic", "responses", "gemini", "uistream"])
def test_the_result_is_repeated_in_every_protocol(protocol: str) -> None:
    """A whole round: asked, called, answered with the result, all as a client of that protocol would say it."""
    first = _asked([SHELLS["opencode"][0][0]])
    (call,) = fold_all(answer(first, id="r1"))[0].calls
    said = rq.Message("assistant", [call])
    result = rq.Message("tool", [rq.Result(call.id, call.name, [rq.Text("zebra-42")])])
    body = write_request(_asked(first.tools, said, result), protocol).body
    again = read_request({**body, "model": "replay/agent"}, protocol)
    turn = fold_all(answer(again, id="r2"))[0]
    assert turn.text == "bash gave:\n\nzebra-42"
    assert turn.calls == []


def test_a_failure_is_told_as_one() -> None:
    result = rq.Message("tool", [rq.Result("c", "bash", [rq.Json('{"code":1}')], failed=True)])
    said = rq.Message("assistant", [rq.Call("c", "bash", "{}")])
    assert fold_all(answer(_asked([], said, result)))[0].text == 'bash failed with:\n\n{"code":1}'


def test_a_tool_of_free_text_gets_the_command() -> None:
    turn = fold_all(answer(_asked([rq.Tool("shell", kind="custom")])))[0]
    assert [(call.json, call.form) for call in turn.calls] == [("cat nonce.txt", "text")]


def test_what_may_not_be_called_is_not() -> None:
    tools = SHELLS["Goose"][0]
    assert fold_all(answer(_asked(tools, choice=rq.ToolChoice("none"))))[0].calls == []
    (call,) = fold_all(answer(_asked(tools, choice=rq.ToolChoice("tool", ["developer__text_editor"]))))[0].calls
    assert call.name == "developer__text_editor"
    assert fold_all(answer(_asked([rq.Tool("web_search", kind="provider")])))[0].calls == []


def test_without_tools_it_talks() -> None:
    turn = fold_all(answer(_asked([])))[0]
    assert turn.text.startswith("Offer me a tool")


def test_scripts_close_the_loop() -> None:
    """The other packaged models answer a result too, and other names are refused."""
    result = rq.Message("tool", [rq.Result("c", "read_gauge", [rq.Text("3 m")])])
    said = rq.Message("assistant", [rq.Call("c", "read_gauge", "{}")])
    turn = fold_all(answer(rq.Request("replay/tools", [said, result])))[0]
    assert turn.text.startswith("Thank you: the result arrived")
    nameless, text = (answer(rq.Request(name, [said, result])) for name in ("", "text"))
    assert nameless[1:] == text[1:]
    for name in ("gpt-5", "replay/gpt-5"):
        with pytest.raises(InputError, match="no packaged model"):
            answer(rq.Request(name, [said, result]))


SCHEMAS: st.SearchStrategy[Any] = st.deferred(
    lambda: st.one_of(
        st.just({"type": "string"}), st.just({"type": "boolean"}), st.just({"type": ["integer", "null"]}),
        st.builds(lambda least: {"type": "number", "minimum": least}, st.integers(-5, 5)),
        st.builds(lambda words: {"enum": words}, st.lists(st.text(max_size=3), min_size=1, max_size=3)),
        st.builds(lambda inner, least: {"type": "array", "items": inner, "minItems": least}, SCHEMAS, st.integers(0, 1)),
        st.builds(lambda inner: {"anyOf": [{"type": "null"}, inner]}, SCHEMAS),
        OBJECTS,
    )
)  # fmt: skip
OBJECTS: st.SearchStrategy[dict[str, Any]] = st.builds(
    lambda fields: {"type": "object", "properties": fields, "required": list(fields)},
    st.dictionaries(st.sampled_from(["a", "b", "c", "d"]), SCHEMAS, max_size=3),
)


def filled_in(schema: dict[str, Any]) -> Any:
    """The input of the call of a tool with this schema."""
    (call,) = fold_all(answer(_asked([rq.Tool("look", schema=schema)])))[0].calls
    return json.loads(call.json)


@given(OBJECTS)
def test_inputs_fit_their_schemas(schema: dict[str, Any]) -> None:
    Draft202012Validator(schema).validate(filled_in(schema))


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["type", "properties", "required", "items", "enum", "$ref", "anyOf", "a", "command"]),
                inner,
                max_size=4,
            )
        ),
        max_leaves=20,
    )
)
def test_no_schema_is_too_strange(schema: Any) -> None:
    assert filled_in(schema if isinstance(schema, dict) else {"properties": schema}) is not None


def test_a_natural_pace_waits_before_words_and_full_speed_never() -> None:
    from penstock.testing import FULL

    waits = [wait for wait, _ in paced(play("reasoning"))]
    assert waits[0] == 0
    assert set(waits) == {0, NATURAL.first, NATURAL.reasoning, NATURAL.delta}
    assert {wait for wait, _ in paced(play("reasoning"), FULL)} == {0}


@each("tag", ["userRequest", "user_query", "user_message", "task", "feedback", "UserRequest"])
def test_what_a_user_typed_is_found_in_the_tag_that_a_client_puts_around_it(tag: str) -> None:
    """As VS Code, Cursor and Cline send it: much around it, and much of that in backticks."""
    said = (
        "<context>\nThe file is `notes.md`, run `make`.\n</context>\n<reminder>Never run `rm -rf /`.</reminder>\n"
        f"<{tag} kind='x'>\n<attachment>`ls`</attachment>Run `cat nonce.txt` and tell me.\n</{tag}>\nUse `apply_patch`."
    )
    request = rq.Request("replay/agent", [rq.Message("user", [rq.Text(said)])], SHELLS["opencode"][0])
    (call,) = fold_all(answer(request))[0].calls
    assert json.loads(call.json)["command"] == "cat nonce.txt"


def test_a_tag_that_is_never_closed_is_no_tag() -> None:
    request = rq.Request(
        "m", [rq.Message("user", [rq.Text("<userRequest>Run `cat nonce.txt`.")])], SHELLS["opencode"][0]
    )
    (call,) = fold_all(answer(rq.Request("replay/agent", request.messages, request.tools)))[0].calls
    assert json.loads(call.json)["command"] == "cat nonce.txt"
