"""Responses and completions requests: what golden cases cannot show. Quirks, turns sent back, changed answers."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

from msgspec.structs import replace

from penstock import decoder, fold_all
from penstock import request as rq
from tests.support import corpus
from tests.support import request_protocols as requesting
from tests.support.each_case import each

read_request = partial(requesting.read, "responses")
write_request = partial(requesting.write, "responses")
quirks = partial(requesting.quirks, "responses")


def codes(draft: Any) -> set[str]:
    return {row.code for row in draft.diagnostics}


def said(*parts: rq.AnyPart) -> rq.Request:
    return rq.Request("m", [rq.Message("user", [rq.Text("Hi")]), rq.Message("assistant", list(parts))])


# ── what providers differ in ──────────────────────────────────────────────────────────────────────


def test_the_system_prompt_goes_where_the_provider_wants_it() -> None:
    asked = rq.Request("m", [rq.Message("system", [rq.Text("Be kind.")]), rq.Message("user", [rq.Text("Hi")])])
    assert write_request(asked).body["instructions"] == "Be kind."
    body = write_request(asked, quirks(instructions=False, system="developer")).body
    assert body["input"][0] == {"type": "message", "role": "developer", "content": "Be kind."}
    assert "instructions" not in body


@each(
    "way, items",
    [
        ("drop", []),
        ("text", [{"type": "message", "role": "assistant", "content": "Hm."}]),
        ("summary", [{"type": "reasoning", "id": "rs_ps1", "summary": [{"type": "summary_text", "text": "Hm."}]}]),
        (
            "content",
            [
                {
                    "type": "reasoning",
                    "id": "rs_ps1",
                    "summary": [],
                    "content": [{"type": "reasoning_text", "text": "Hm."}],
                }
            ],
        ),
    ],
)
def test_reasoning_without_a_seal_is_sent_as_the_provider_takes_it(way: Any, items: list[Any]) -> None:
    draft = write_request(said(rq.Reasoning("Hm.")), quirks(reasoning=way))
    assert draft.body["input"][1:] == items
    assert codes(draft) == ({"loss-reasoning"} if way == "drop" else set())


def test_settings_that_only_some_providers_have() -> None:
    asked = rq.Request("m", settings=rq.Settings(seed=1, stop=["a"], frequency_penalty=0.5))
    assert codes(write_request(asked)) == {"loss-setting"}
    body = write_request(asked, quirks(more=("seed", "stop", "frequency_penalty"), sealed=True)).body
    assert (body["seed"], body["stop"], body["frequency_penalty"]) == (1, ["a"], 0.5)
    assert body["include"] == ["reasoning.encrypted_content"]


def test_cache_points_where_they_are_understood() -> None:
    asked = rq.Request("m", [rq.Message("user", [rq.Text("Hi", cache="1h")])])
    assert codes(write_request(asked)) == {"loss-cache"}
    content = write_request(asked, quirks(cache=True)).body["input"][0]["content"]
    assert content == [{"type": "input_text", "text": "Hi", "prompt_cache_breakpoint": {"mode": "explicit"}}]


def test_completions_in_mistral_s_words() -> None:
    asked = rq.Request("m", [rq.Message("user", [rq.Text("x")])], settings=rq.Settings(seed=1, top_k=3))
    body = requesting.write("completions", asked, requesting.quirks("completions", seed="random_seed", top_k=True)).body
    assert body == {"model": "m", "prompt": "x", "random_seed": 1, "top_k": 3}


# ── turns and passes ──────────────────────────────────────────────────────────────────────────────


def test_a_turn_goes_back_as_the_items_it_came_in() -> None:
    output: list[dict[str, Any]] = [
        {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "Hm."}], "encrypted_content": "c"},
        {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search", "query": "q"}},
        {"type": "image_generation_call", "id": "ig_1", "status": "completed", "result": "aGk=", "output_format": "png"},
        {
            "type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "phase": "commentary",
            "content": [
                {"type": "output_text", "text": "One", "annotations": [{"type": "file_path", "file_id": "f", "index": 1}]},
                {"type": "output_text", "text": "Two", "annotations": []},
            ],
        },
        {"type": "local_shell_call", "id": "l_1", "call_id": "c_1", "status": "completed", "action": {"type": "exec"}},
        {"type": "function_call", "id": "fc_1", "call_id": "c_2", "name": "f", "arguments": "{}", "namespace": "n"},
        {"type": "custom_tool_call", "id": "ctc_1", "call_id": "c_3", "name": "g", "input": "free"},
    ]  # fmt: skip
    body = {"id": "resp_1", "object": "response", "status": "completed", "model": "m", "output": output}
    turn = fold_all(decoder("responses").body(json.dumps(body).encode()))[0]
    draft = write_request(rq.Request("m", [rq.Message("assistant", turn.parts)]))
    assert draft.body["input"] == output
    assert codes(draft) == set()


def test_recorded_turns_go_back_as_the_items_they_came_in() -> None:
    corpus.corpus_or_skip()

    def kinds(items: list[Any]) -> list[Any]:
        return [(item["type"], item.get("id"), item.get("call_id")) for item in items if not _is_blank(item)]

    compared = 0
    for entry in corpus.responses("openai-responses"):
        output = (next(entry.payloads(), None) or {}).get("output") or []
        turns = fold_all(decoder("responses").body(entry.body))
        if output and turns:
            made = write_request(rq.Request("m", [rq.Message("assistant", turns[0].parts)])).body["input"]
            assert kinds(made) == kinds(output), entry.name
            compared += 1
    assert compared > 100


def _is_blank(item: dict[str, Any]) -> bool:
    content = item.get("content")
    return item["type"] == "message" and not any(
        part.get("text") or part.get("refusal") for part in content or () if part
    )


def test_an_answer_that_was_cleared_is_sent_cleared() -> None:
    shell: Any = {
        "type": "shell_call_output",
        "call_id": "c",
        "output": [{"stdout": "long", "stderr": "", "outcome": {}}],
    }
    patch = {"type": "apply_patch_call_output", "call_id": "d", "status": "completed", "output": "long"}
    asked = read_request({"input": [shell, patch]})
    asked.messages[0].parts = [
        replace(part, content=[rq.Text("gone")]) if isinstance(part, rq.Result) else part
        for part in asked.messages[0].parts
    ]
    items = write_request(asked).body["input"]
    assert items[0]["output"] == [{"stdout": "gone", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}]
    assert items[1] == {**patch, "output": "gone"}


def test_ids_that_were_mapped_are_mapped_in_built_in_items() -> None:
    call = {"type": "local_shell_call", "id": "l", "call_id": "c", "status": "completed", "action": {"type": "exec"}}
    asked = read_request({"input": [call, {"type": "local_shell_call_output", "id": "c", "output": "x"}]})
    asked.messages[0].parts = [replace(part, id="new") for part in asked.messages[0].parts if isinstance(part, rq.Call)]
    asked.messages[1].parts = [
        replace(part, call="new") for part in asked.messages[1].parts if isinstance(part, rq.Result)
    ]
    items = write_request(asked).body["input"]
    assert items == [{**call, "call_id": "new"}, {"type": "local_shell_call_output", "id": "new", "output": "x"}]


def test_calls_of_free_text_and_their_answers_belong_together() -> None:
    call = rq.Call("c", "note", "free", form="text")
    asked = rq.Request("m", [rq.Message("assistant", [call]), rq.Message("tool", [rq.Result("c")])])
    kinds = [item["type"] for item in write_request(asked).body["input"]]
    assert kinds == ["custom_tool_call", "custom_tool_call_output"]
