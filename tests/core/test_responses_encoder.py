"""What the Responses encoder writes, for every golden case of every protocol: lawful, complete, and readable by others.

The official SDK is asked twice: the schema of its own event types, and what its accumulator makes of our stream.
"""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import jsonschema
import msgspec

from penstock import _protocols as protocols
from penstock import events as ev
from penstock import request as rq
from penstock._fold import fold_all
from tests.oracles import openai_responses
from tests.oracles.outcome import arguments
from tests.support import run_streams as running
from tests.support.case_loop import over
from tests.support.stream_cases import Case, cases

CASES = cases()
ENDS = frozenset({"response.completed", "response.incomplete", "response.failed"})
RUNNABLE = frozenset({"function_call", "custom_tool_call", "local_shell_call", "shell_call", "apply_patch_call"})
RESOURCE = frozenset({  # what Open Responses asks of a response
    "id", "object", "created_at", "completed_at", "status", "incomplete_details", "model", "previous_response_id",
    "instructions", "output", "error", "tools", "tool_choice", "truncation", "parallel_tool_calls", "text", "top_p",
    "presence_penalty", "frequency_penalty", "top_logprobs", "temperature", "reasoning", "usage", "max_output_tokens",
    "max_tool_calls", "store", "background", "service_tier", "metadata", "safety_identifier", "prompt_cache_key",
})  # fmt: skip


def payloads(case: Case) -> list[dict[str, Any]]:
    frames = running.encode("responses", case.expected())
    return [json.loads(data) for _, data in frames if data != b"[DONE]"]


@cache
def schemas() -> dict[str, jsonschema.Draft202012Validator]:
    """One validator for each event type of the SDK: a union of sixty would explain nothing."""
    from openai.types.responses import ResponseStreamEvent
    from pydantic import TypeAdapter

    whole = TypeAdapter(ResponseStreamEvent).json_schema()
    kinds = {
        rule["properties"]["type"]["const"]: name for name, rule in whole["$defs"].items() if _is_event(name, rule)
    }
    return {
        kind: jsonschema.Draft202012Validator({"$ref": f"#/$defs/{name}", "$defs": whole["$defs"]})
        for kind, name in kinds.items()
    }


def _is_event(name: str, rule: dict[str, Any]) -> bool:
    return name.endswith("Event") and "const" in rule.get("properties", {}).get("type", {})


@over([case for case in CASES if case.protocol != "responses"])
def test_every_event_has_the_shape_that_the_sdk_declares(case: Case) -> None:
    for payload in payloads(case):
        error = jsonschema.exceptions.best_match(schemas()[payload["type"]].iter_errors(payload))
        assert error is None, f"{payload['type']} at {list(error.absolute_path)}: {error.message}"


@over(CASES)
def test_items_live_and_end_in_order(case: Case) -> None:
    """Announced before anything is said of them, numbered without gaps, done at most once, the same id throughout."""
    items: dict[int, str] = {}
    done: set[int] = set()
    number = 0
    for payload in payloads(case):
        if payload["type"] == "response.created":
            items, done, number = {}, set(), 0
        assert payload.get("sequence_number", number) == number
        number += 1
        index = payload.get("output_index")
        if payload["type"] == "response.output_item.added":
            assert index == len(items)
            items[index] = payload["item"]["id"]
        elif index is not None:
            assert index not in done
            assert items[index] == payload.get("item_id", payload.get("item", {}).get("id", items[index]))
            done |= {index} if payload["type"] == "response.output_item.done" else set()
    assert len(set(items.values())) == len(items)


@over(CASES)
def test_the_snapshot_is_complete_and_equals_what_was_streamed(case: Case) -> None:
    done: dict[int, Any] = {}
    for payload in payloads(case):
        if payload["type"] == "response.created":
            done = {}
        elif payload["type"] == "response.output_item.done":
            done[payload["output_index"]] = payload["item"]
        elif payload["type"] in ENDS:
            response = payload["response"]
            assert set(response) >= RESOURCE
            assert [item for item in response["output"] if item in done.values()] == [done[at] for at in sorted(done)]
            usage = response["usage"]
            assert usage is None or {"input_tokens_details", "output_tokens_details", "total_tokens"} <= set(usage)


@over(CASES)
def test_the_official_client_reads_the_same_turns(case: Case) -> None:
    events = case.expected()
    body = running.write("responses", events, {"done": False})  # the oracle splits several responses by itself
    for turn, told in zip(fold_all(events), openai_responses.sdk_outcomes(body), strict=True):
        assert told.failed is None
        if turn.fault:
            assert turn.fault.message.rstrip(".") in (told.error or "")  # the vendor says more: test_vendor_errors
            continue
        assert (told.text, told.refusal, told.reasoning) == (turn.text, turn.refusal, turn.reasoning)
        whole = [(call.id, call.json if call.form == "text" else arguments(call.json)) for call in turn.calls]
        cut = {part.id for part in turn.parts if isinstance(part, rq.Call) and part.cut}
        assert [(name, given) for name, _, given in told.calls if name not in cut] == whole


@over(CASES)
def test_a_cut_call_is_never_done_nor_whole(case: Case) -> None:
    """Codex runs a call when its item is done, others when the response is: neither may see half of one."""
    cut = {event.id for event in case.expected() if isinstance(event, ev.CallCut) and event.by == "client"}
    for payload in payloads(case):
        if payload["type"] == "response.output_item.done":
            assert payload["item"].get("call_id") not in cut
        for item in payload.get("response", {}).get("output", ()):
            if item.get("call_id") in cut:
                assert (item["type"], item["status"]) == ("function_call", "incomplete")
                assert isinstance(arguments(item["arguments"]), str), "half of a call must not parse"


@over(CASES)
def test_what_the_provider_runs_is_not_offered_to_the_client(case: Case) -> None:
    starts = [event for event in case.expected() if isinstance(event, ev.CallStart) and event.by == "provider"]
    upstream = {event.id for event in starts} - {
        event.id for event in case.expected() if isinstance(event, ev.CallStart) and event.by == "client"
    }
    for payload in payloads(case):
        item = payload.get("item", {})
        if item.get("call_id") in upstream and item["type"] in RUNNABLE:
            assert item["environment"]["type"].startswith("container"), "only a container of the provider may run it"


@over(CASES)
def test_a_body_is_the_last_snapshot_without_cut_calls(case: Case) -> None:
    body = protocols.protocol("responses").body
    assert body is not None
    whole = json.loads(body(running.encode("responses", case.expected())))
    last = payloads(case)[-1]
    if last["type"] == "response.failed":
        assert whole == {"error": payloads(case)[-2]["error"]}
    else:
        kept = [item for item in last["response"]["output"] if not _is_cut(item)]
        assert whole == {**last["response"], "output": kept}


def _is_cut(item: dict[str, Any]) -> bool:
    return bool(item["type"] == "function_call" and item["status"] == "incomplete")


def test_citations_before_all_text_wait_for_it() -> None:
    source = ev.Source(0, "https://moon.example", "Moon")
    events: list[ev.AnyEvent] = [
        ev.Start(),
        source,
        ev.TextStart(1),
        ev.TextDelta(1, "Far."),
        ev.TextEnd(1),
        ev.Finish("stop"),
    ]
    kinds = [name.decode() for name, _ in running.encode("responses", events)]
    assert kinds.index("response.content_part.added") < kinds.index("response.output_text.annotation.added")


def test_texts_that_follow_each_other_are_one_message() -> None:
    events: list[ev.AnyEvent] = [ev.Start("resp_9")]
    for index in range(3):
        events += [ev.TextStart(index), ev.TextDelta(index, f"{index} "), ev.TextEnd(index)]
    events.append(ev.Finish("stop"))
    (message,) = msgspec.json.decode(running.encode("responses", events)[-2][1])["response"]["output"]
    assert message["id"] == "msg_9_0"
    assert [part["text"] for part in message["content"]] == ["0 ", "1 ", "2 "]


def test_foreign_reasoning_is_a_summary_or_what_the_caller_asked_for() -> None:
    thought = ev.ReasoningStart(0), ev.ReasoningDelta(0, "Hm."), ev.ReasoningEnd(0)
    events: list[ev.AnyEvent] = [ev.Start(), *thought, ev.Finish("stop")]
    for style, kind in {
        "summary": "response.reasoning_summary_text.delta",
        "reasoning_text": "response.reasoning_text.delta",
        "reasoning": "response.reasoning.delta",
    }.items():
        assert kind.encode() in [name for name, _ in running.encode("responses", events, {"reasoning": style})]


def test_the_request_is_echoed_where_the_caller_gives_it() -> None:
    frames = running.encode("responses", [ev.Start(), ev.Finish("stop")], {"settings": {"temperature": 0.25}})
    assert json.loads(frames[0][1])["response"]["temperature"] == 0.25
