"""Tools are renamed and rewritten for a provider and mapped back: every agent recognises its tools."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from hypothesis import given
from hypothesis import strategies as st

from penstock import events as ev
from penstock import fold_all, unfold
from penstock import request as rq
from penstock.messages import PROFILES, Profile
from tests.support.each_case import each
from tests.support.request_passes import FREE_TEXT_KEY as CARRIED
from tests.support.request_passes import (
    INPUT,
    PLAIN,
    Diagnostics,
    IdentifierRule,
    OriginalTool,
    RestoreToolNames,
    fit_names,
    map_names,
    unwrap_free_text,
    wrap_free_text,
)
from tests.support.talks import NAMES, REQUESTS, ask, assistant, call, codes, plain, result, steady, tool, user

if TYPE_CHECKING:
    from collections.abc import Sequence

TARGET = Profile(protocol="there", names=PLAIN)
RULES = [PLAIN, PROFILES["gemini"].names, PROFILES["cohere"].names, IdentifierRule("A-Za-z0-9_", limit=12)]
SOME = st.lists(
    st.one_of(st.text(max_size=80), NAMES, st.sampled_from(["a.b", "a_b", "a b", "a_b_" + "0" * 8])), max_size=20
)


def mapped(request: rq.Request, profile: Profile = TARGET) -> tuple[rq.Request, dict[str, OriginalTool], list[str]]:
    notes = Diagnostics()
    made, back = map_names(request, profile, notes)
    return made, back, codes(notes)


def answered(back: dict[str, OriginalTool], *calls: rq.Call, protocol: str = "responses") -> list[rq.Call]:
    """What a client gets to see of calls that a provider made."""
    stage = RestoreToolNames(back, protocol=protocol)
    turn = rq.Turn("t", parts=list(calls), finish=ev.Finish("calls"))
    out: list[Any] = []
    for event in unfold(turn):
        out += stage.feed([event])
    out += stage.finish()
    return [part for part in fold_all(out)[0].parts if isinstance(part, rq.Call)]


# ── names ─────────────────────────────────────────────────────────────────────────────────────────


@each("rule", RULES)
@given(SOME)
def test_a_map_is_one_to_one_and_everything_fits(rule: IdentifierRule, names: list[str]) -> None:
    table = fit_names(names, rule)
    made = [table.get(name, name) for name in dict.fromkeys(names)]
    assert len(set(made)) == len(made)
    assert all(rule.fits(name) for name in made)
    assert not any(rule.fits(name) for name in table)
    assert fit_names(list(reversed(names)), rule) == table


def test_a_dot_and_an_underscore_are_two_tools() -> None:
    tools = [rq.Tool("a.b"), rq.Tool("a_b"), rq.Tool("a b")]
    made, back, found = mapped(ask(user("hi"), tools=tools))
    names = [tool.name for tool in made.tools]
    assert len(set(names)) == 3
    assert names[1] == "a_b"
    assert {was.name for was in back.values()} == {"a.b", "a b"}
    assert found == ["names", "names"]


def test_a_name_stays_readable_where_that_is_unique() -> None:
    made, back, _ = mapped(ask(tools=[rq.Tool("github.create_issue")]))
    assert made.tools[0].name == "github_create_issue"
    assert back == {"github_create_issue": OriginalTool("github.create_issue")}


def test_tools_choice_history_and_results_change_together_and_come_back() -> None:
    request = ask(
        user("hi"), assistant(call("c", "a.b")), tool(result("c", name="a.b")), tools=[rq.Tool("a.b"), rq.Tool("c")]
    )
    request.choice = rq.ToolChoice("tool", ["a.b"], {"openai-chat": {"choice": "whatever"}})
    made, back, _ = mapped(request)
    called, answer = made.messages[1].parts[0], made.messages[2].parts[0]
    assert isinstance(called, rq.Call)
    assert isinstance(answer, rq.Result)
    assert made.choice is not None
    assert [made.tools[0].name, called.name, answer.name, *made.choice.names] == ["a_b"] * 4
    assert made.choice.extra is None
    assert made.tools[1] is request.tools[1]
    assert [one.name for one in answered(back, call("x", "a_b"), call("y", "c"))] == ["a.b", "c"]


def test_nothing_to_do_is_the_same_object() -> None:
    request = ask(user("hi"), assistant(call("c", "read")), tool(result("c", name="read")), tools=[rq.Tool("read")])
    assert mapped(request) == (request, {}, [])
    assert mapped(request)[0] is request


@given(REQUESTS, st.sampled_from(list(PROFILES.values())))
def test_every_tool_of_any_request_fits_and_comes_back(request_: rq.Request, profile: Profile) -> None:
    made = steady(request_, lambda one, notes: map_names(one, profile, notes)[0])
    _, back = map_names(request_, profile, Diagnostics())
    names = [(tool.namespace, tool.name) for tool in made.tools]
    assert len(set(names)) == len(names)
    assert all(not profile.names.strict or profile.names.fits(tool.name) for tool in made.tools)
    assert profile.custom or not any(tool.kind == "custom" for tool in made.tools)
    assert profile.namespaces or not any(tool.namespace for tool in made.tools)
    for old, new in zip(request_.tools, made.tools, strict=True):
        was = back.get(new.name, OriginalTool(new.name))
        assert was.name == old.name
        assert was.namespace == ("" if profile.namespaces else old.namespace)


# ── namespaces ────────────────────────────────────────────────────────────────────────────────────


def test_namespaces_are_flattened_and_restored() -> None:
    tools = [rq.Tool("read", namespace="fs"), rq.Tool("read", namespace="web"), rq.Tool("read"), rq.Tool("fs__read")]
    before = call("c", "read", extra={"responses": {"namespace": "web", "id": "fc_1"}})
    made, back, _ = mapped(ask(user("hi"), assistant(before), tool(result("c", name="read")), tools=tools))
    names = [tool.name for tool in made.tools]
    assert len(set(names)) == 4
    assert names[1:] == ["web__read", "read", "fs__read"]
    assert not any(tool.namespace for tool in made.tools)
    called, answer = made.messages[1].parts[0], made.messages[2].parts[0]
    assert (called.name, answer.name) == ("web__read", "web__read")  # type: ignore[union-attr]
    assert called.extra == {"responses": {"id": "fc_1"}}  # type: ignore[union-attr]
    first, second = answered(back, call("x", names[0]), call("y", "web__read"))
    assert (first.name, first.extra) == ("read", {"responses": {"namespace": "fs"}})
    assert (second.name, second.extra) == ("read", {"responses": {"namespace": "web"}})


def test_a_target_with_namespaces_keeps_them() -> None:
    request = ask(user("hi"), tools=[rq.Tool("read", namespace="fs")])
    assert mapped(request, PROFILES["responses"])[0] is request


# ── free text ─────────────────────────────────────────────────────────────────────────────────────


def test_free_text_is_wrapped_and_unwrapped() -> None:
    patch = "*** Begin Patch\n+ “quoted”\n"
    tools = [
        rq.Tool(
            "apply_patch",
            "Changes files.",
            {"type": "grammar", "syntax": "lark", "definition": "start: /x/"},
            kind="custom",
        )
    ]
    request = ask(
        user("hi"), assistant(call("c", "apply_patch", patch, form="text")), tool(result("c", form="text")), tools=tools
    )
    made, back, found = mapped(request)
    offered, called = made.tools[0], made.messages[1].parts[0]
    assert offered.kind == "function"
    assert offered.schema is not None
    assert offered.schema["required"] == ["input"]
    assert "start: /x/" in json.dumps(offered.schema)
    assert isinstance(called, rq.Call)
    assert (called.form, json.loads(called.json)) == ("json", {"input": patch})
    assert made.messages[2].parts[0].form == "json"  # type: ignore[union-attr]
    assert found == ["custom-tool"]
    [seen] = answered(back, call("x", "apply_patch", wrap_free_text(patch)))
    assert (seen.name, seen.form, seen.json) == ("apply_patch", "text", patch)


def test_a_choice_of_a_wrapped_tool_is_a_choice_of_a_function() -> None:
    request = ask(tools=[rq.Tool("p", kind="custom")])
    request.choice = rq.ToolChoice("tool", ["p"], {"openai-chat": {"_": {"kind": "custom"}}})
    made, _, _ = mapped(request)
    assert made.choice == rq.ToolChoice("tool", ["p"])


@given(st.text())
def test_any_text_survives_wrapping(text: str) -> None:
    assert unwrap_free_text(wrap_free_text(text)) == text


@each(
    "given_, text",
    [
        ('{"input":"x"}', "x"), ('{"patch":"x"}', "x"), ('"x"', "x"), ('{"a":"x","b":"y"}', None),
        ('{"input":1}', None), ("{", None), ("", None),
    ],
)  # fmt: skip
def test_a_model_that_does_not_keep_to_the_schema(given_: str, text: str | None) -> None:
    assert unwrap_free_text(given_) == text


def test_what_cannot_be_unwrapped_is_handed_on_as_it_is() -> None:
    stage = RestoreToolNames({"p": OriginalTool("p", form="text")})
    events = [
        ev.Start(),
        ev.CallStart(0, "c", "p"),
        ev.CallDelta(0, "[1]"),
        ev.CallEnd(0, "c", "p", "[1]"),
        ev.Finish("calls"),
    ]
    out = stage.feed(events)
    assert out[3] == ev.CallEnd(0, "c", "p", "[1]", form="text")
    assert codes(stage.diagnostics) == ["not-wrapped"]


def test_a_cut_call_stays_cut() -> None:
    stage = RestoreToolNames({"p_": OriginalTool("p.", form="text")})
    out = stage.feed(
        [
            ev.Start(),
            ev.CallStart(0, "c", "p_"),
            ev.CallDelta(0, '{"input":"ab'),
            ev.CallCut(0, "c", "p_", '{"input":"ab'),
        ]
    )
    assert out[-1] == ev.CallCut(0, "c", "p.", '{"input":"ab', form="text")


def test_the_word_for_the_one_string_is_the_same_everywhere() -> None:
    assert INPUT == CARRIED


# ── the stage ─────────────────────────────────────────────────────────────────────────────────────


def batches(events: Sequence[Any], stage: RestoreToolNames) -> list[Any]:
    return [out for event in events for out in stage.feed([event])]


def test_a_stream_of_a_renamed_tool_streams_on() -> None:
    stage = RestoreToolNames({"a_b": OriginalTool("a.b")}, ids={"Ab3dE6gH9": "toolu_1"})
    events = [
        ev.Start("t"), ev.CallStart(0, "c", "a_b"), ev.TextStart(1), ev.TextDelta(1, "x"), ev.CallDelta(0, '{"n":'), ev.CallDelta(0, "1}"),
        ev.CallEnd(0, "c", "a_b", '{"n":1}'), ev.TextEnd(1), ev.Ask(2, "Ab3dE6gH9", "q"), ev.Finish("calls"),
    ]  # fmt: skip
    out = batches(events, stage)
    assert out == [
        ev.Start("t"), ev.CallStart(0, "c", "a.b"), ev.TextStart(1), ev.TextDelta(1, "x"), ev.CallDelta(0, '{"n":'), ev.CallDelta(0, "1}"),
        ev.CallEnd(0, "c", "a.b", '{"n":1}'), ev.TextEnd(1), ev.Ask(2, "toolu_1", "q"), ev.Finish("calls"),
    ]  # fmt: skip


def test_what_a_provider_runs_keeps_its_name() -> None:
    stage = RestoreToolNames({"a_b": OriginalTool("a.b", form="text")})
    events = [
        ev.Start(),
        ev.CallStart(0, "c", "a_b", "provider"),
        ev.CallDelta(0, "{}"),
        ev.CallEnd(0, "c", "a_b", "{}", "provider"),
    ]
    assert batches(events, stage) == events


# ── tools of other kinds ──────────────────────────────────────────────────────────────────────────


def test_a_built_in_tool_that_the_client_runs_is_offered_as_a_function() -> None:
    bash = rq.Tool("bash", kind="provider", extra={"anthropic": {"tool": {"type": "bash_20250124", "name": "bash"}}})
    made, back, found = mapped(ask(tools=[bash]))
    assert (made.tools[0].name, made.tools[0].kind) == ("bash", "function")
    assert "command" in (made.tools[0].schema or {})["properties"]
    assert back == {}
    assert found == ["tool-wrapped"]
    assert mapped(ask(tools=[bash]), PROFILES["anthropic"])[0].tools == [bash]


def test_calls_of_a_built_in_tool_become_its_items_again() -> None:
    shell = rq.Tool("local_shell", kind="provider", extra={"responses": {"tool": {"type": "local_shell"}}})
    _, back, _ = mapped(ask(tools=[shell]))
    action = {"type": "exec", "command": ["ls"]}
    [seen] = answered(back, call("x", "local_shell", json.dumps({"action": action})))
    item = {"type": "local_shell_call", "call_id": "x", "status": "completed", "action": action}
    assert seen.extra == {"responses": {"item": item}}


def test_an_unknown_tool_with_a_schema_is_offered_as_a_function() -> None:
    raw = {"type": "gadget", "name": "spin", "description": "Spins.", "parameters": {"type": "object"}}
    odd = rq.Tool("spin", kind="unknown", extra={"openai-chat": {"tool": raw}})
    made, _, found = mapped(ask(tools=[odd]))
    assert made.tools == [rq.Tool("spin", "Spins.", {"type": "object"})]
    assert found == ["tool-wrapped"]


def test_an_unknown_tool_without_one_is_left_for_the_writer_to_judge() -> None:
    odd = rq.Tool("web_search", kind="provider", extra={"responses": {"tool": {"type": "web_search"}}})
    request = ask(tools=[odd])
    assert mapped(request)[0] is request


def test_nothing_given_is_changed() -> None:
    request = ask(
        user("hi"), assistant(call("c", "a.b", "x", form="text")), tools=[rq.Tool("a.b", kind="custom", namespace="n")]
    )
    before = plain(request)
    mapped(request)
    assert plain(request) == before
