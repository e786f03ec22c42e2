"""Section E: what a Responses client is sent."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from penstock import events as ev
from tests.support import run_streams as running
from tests.support import small_streams as small
from tests.support.case_loop import over
from tests.support.small_streams import chat, delta, fragment
from tests.support.stream_cases import Case, cases

KNOWN = {
    "response.created", "response.in_progress", "response.completed", "response.incomplete", "response.failed", "error",
    "response.output_item.added", "response.output_item.done", "response.content_part.added", "response.content_part.done",
    "response.output_text.delta", "response.output_text.done", "response.output_text.annotation.added",
    "response.refusal.delta", "response.refusal.done", "response.function_call_arguments.delta",
    "response.function_call_arguments.done", "response.custom_tool_call_input.delta",
    "response.custom_tool_call_input.done", "response.reasoning_summary_part.added",
    "response.reasoning_summary_part.done", "response.reasoning_summary_text.delta",
    "response.reasoning_summary_text.done", "response.reasoning_text.delta", "response.reasoning_text.done",
    "response.web_search_call.in_progress", "response.web_search_call.searching", "response.web_search_call.completed",
    "response.code_interpreter_call.in_progress", "response.code_interpreter_call.interpreting",
    "response.code_interpreter_call.completed", "response.code_interpreter_call_code.delta",
    "response.code_interpreter_call_code.done",
}  # fmt: skip
FINAL = ("response.completed", "response.incomplete")
FOREIGN = [case for case in small.finished() if case.protocol != "responses"]
THINKS = chat(delta({"reasoning_content": "Hm."}), delta({"content": "Yes, "}), delta({"content": "yes."}),
              delta(fragment(0, '{"a":1}', id="c1", type="function", name="put")), delta({}, "tool_calls"))  # fmt: skip


def turns(case: Case) -> list[list[dict[str, Any]]]:
    """The payloads of each response."""
    found: list[list[dict[str, Any]]] = []
    for payload in small.sent("responses", case.expected()):
        if payload["type"] == "response.created":
            found.append([])
        found[-1].append(payload)
    return found


@over(FOREIGN)
def test_nothing_is_said_of_an_item_before_it_is_added_or_after_it_is_done(case: Case) -> None:
    for payloads in turns(case):
        state: dict[Any, str] = {}
        for payload in payloads:
            kind, index = payload["type"], payload.get("output_index")
            if kind == "response.output_item.added":
                assert index not in state
                state[index] = "open"
            elif index is not None:
                assert state.get(index) == "open", kind
            if kind == "response.output_item.done":
                state[index] = "done"
        cut = [call for call in case.expected() if isinstance(call, ev.CallCut)]
        # a call that was cut is never said to be done: clients run it at that word
        assert list(state.values()).count("open") <= len(cut)


def test_each_item_is_announced_reasoning_first_or_not() -> None:
    payloads = small.translated("openai-chat", "responses", THINKS)
    added = [payload["item"]["type"] for payload in small.of_type(payloads, "response.output_item.added")]
    assert added == ["reasoning", "message", "function_call"]


@over(FOREIGN)
def test_every_text_has_a_part_that_opens_and_closes(case: Case) -> None:
    payloads = [payload for response in turns(case) for payload in response]
    count = Counter(payload["type"] for payload in payloads)
    assert count["response.content_part.added"] == count["response.content_part.done"]
    texts = {(p["output_index"], p["content_index"]) for p in small.of_type(payloads, "response.output_text.delta")}
    parts = {(p["output_index"], p["content_index"]) for p in small.of_type(payloads, "response.content_part.added")}
    assert texts <= parts


@over(FOREIGN)
def test_the_final_snapshot_is_what_was_streamed(case: Case) -> None:
    for payloads in turns(case):
        (final,) = [payload["response"] for payload in small.of_type(payloads, *FINAL)]
        done = [p["item"] for p in sorted(payloads, key=_place) if p["type"] == "response.output_item.done"]
        assert [item for item in final["output"] if item.get("status") != "incomplete" or item in done] == done
        assert final["id"]
        assert final["model"]
        assert final["object"] == "response"


def _place(payload: dict[str, Any]) -> int:
    return int(payload.get("output_index", -1))


@over(FOREIGN)
def test_indices_count_up_and_ids_stay(case: Case) -> None:
    for payloads in turns(case):
        added = small.of_type(payloads, "response.output_item.added")
        assert [payload["output_index"] for payload in added] == list(range(len(added)))
        assert [payload["sequence_number"] for payload in payloads] == list(range(len(payloads)))
        ids = {payload["output_index"]: payload["item"]["id"] for payload in added}
        assert len(set(ids.values())) == len(ids)
        for payload in payloads:
            if "item_id" in payload:
                assert payload["item_id"] == ids[payload["output_index"]]


@over(FOREIGN)
def test_a_text_is_said_once(case: Case) -> None:
    for payloads in turns(case):
        streamed: dict[tuple[int, int], str] = {}
        for payload in small.of_type(payloads, "response.output_text.delta"):
            place = payload["output_index"], payload["content_index"]
            streamed[place] = streamed.get(place, "") + payload["delta"]
        for payload in small.of_type(payloads, "response.output_text.done"):
            assert streamed.get((payload["output_index"], payload["content_index"]), "") == payload["text"]


@pytest.mark.parametrize("where", ["delta", "done", "item", "completed"])
def test_a_text_that_comes_again_in_done_and_completed_is_read_once(where: str) -> None:
    """From `where` on it is told each time; two messages stay two."""
    stages = ["delta", "done", "item", "completed"]
    told = set(stages[stages.index(where) :])
    payloads: list[dict[str, Any]] = [{"type": "response.created", "response": {"id": "r"}}]
    items = []
    for index, text in enumerate(["One.", "Two."]):
        at = {"item_id": f"m{index}", "output_index": index, "content_index": 0}
        full = {
            "id": f"m{index}",
            "type": "message",
            "role": "assistant",
            "content": [{"type": "output_text", "text": text}],
        }
        bare = {**full, "content": []}
        items.append(full)
        payloads.append({"type": "response.output_item.added", "output_index": index, "item": bare})
        payloads += [{"type": "response.output_text.delta", **at, "delta": text}] * ("delta" in told)
        payloads += [{"type": "response.output_text.done", **at, "text": text}] * ("done" in told)
        item = full if "item" in told else bare
        payloads.append({"type": "response.output_item.done", "output_index": index, "item": item})
    payloads.append({"type": "response.completed", "response": {"id": "r", "status": "completed", "output": items}})
    found = small.turn("responses", small.response(*payloads))
    assert [part.text for part in found.parts] == ["One.", "Two."]  # type: ignore[union-attr]


@over([case for case in cases() if case.protocol != "responses"])
def test_only_standard_events_leave_each_named_by_its_type(case: Case) -> None:
    frames = running.encode("responses", case.expected())
    payloads = small.sent("responses", case.expected())
    assert {payload["type"] for payload in payloads} <= KNOWN
    assert [name.decode() for name, data in frames if data != b"[DONE]"] == [payload["type"] for payload in payloads]
