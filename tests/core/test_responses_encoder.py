"""What the Responses encoder writes, for every golden case of every protocol: lawful, complete, and readable by others.

The official SDK is asked twice: the schema of its own event types, and what its accumulator makes of our stream.
"""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import jsonschema
import pytest

from penstock import events as ev
from penstock import fold_all
from penstock import request as rq
from tests.oracles import openai_responses
from tests.oracles.outcome import arguments
from tests.support import run_streams as running
from tests.support import small_streams as small
from tests.support.case_loop import over
from tests.support.small_streams import Payload, chat, delta, fragment
from tests.support.stream_cases import Case, cases

pytestmark = pytest.mark.usefixtures("strict")
CASES = cases()
ENDS = frozenset({"response.completed", "response.incomplete", "response.failed"})
RUNNABLE = frozenset({"function_call", "custom_tool_call", "local_shell_call", "shell_call", "apply_patch_call"})
RESOURCE = frozenset({  # what Open Responses asks of a response
    "id", "object", "created_at", "completed_at", "status", "incomplete_details", "model", "previous_response_id",
    "instructions", "output", "error", "tools", "tool_choice", "truncation", "parallel_tool_calls", "text", "top_p",
    "presence_penalty", "frequency_penalty", "top_logprobs", "temperature", "reasoning", "usage", "max_output_tokens",
    "max_tool_calls", "store", "background", "service_tier", "metadata", "safety_identifier", "prompt_cache_key",
})  # fmt: skip


def payloads(case: Case) -> list[Payload]:
    return small.sent("responses", case.expected())


def turns(case: Case) -> list[list[Payload]]:
    """The payloads of each response."""
    found: list[list[Payload]] = []
    for payload in payloads(case):
        if payload["type"] == "response.created":
            found.append([])
        found[-1].append(payload)
    return found


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
def test_every_event_has_the_shape_that_the_sdk_declares_and_is_named_by_its_type(case: Case) -> None:
    frames = running.encode("responses", case.expected())
    assert [name.decode() for name, data in frames if data != b"[DONE]"] == [one["type"] for one in payloads(case)]
    for payload in payloads(case):
        error = jsonschema.exceptions.best_match(schemas()[payload["type"]].iter_errors(payload))
        assert error is None, f"{payload['type']} at {list(error.absolute_path)}: {error.message}"


@over(CASES)
def test_items_live_and_end_in_order(case: Case) -> None:
    """Announced before anything is said of them, numbered without gaps, done at most once, the same id throughout."""
    cuts = [call for call in case.expected() if isinstance(call, ev.CallCut)]
    fails = isinstance(case.expected()[-1], ev.Fault)
    for response in turns(case):
        items: dict[int, str] = {}
        done: set[int] = set()
        for number, payload in enumerate(response):
            assert payload.get("sequence_number", number) == number
            index = payload.get("output_index")
            if payload["type"] == "response.output_item.added":
                assert index == len(items)
                items[index] = payload["item"]["id"]
            elif index is not None:
                assert index not in done
                assert items[index] == payload.get("item_id", payload.get("item", {}).get("id", items[index]))
                done |= {index} if payload["type"] == "response.output_item.done" else set()
        assert len(set(items.values())) == len(items)
        # a call that was cut is never said to be done: clients run it at that word
        assert fails or len(items) - len(done) <= len(cuts)


@over(CASES)
def test_the_snapshot_is_complete_and_equals_what_was_streamed(case: Case) -> None:
    for response in turns(case):
        done = {one["output_index"]: one["item"] for one in small.of_type(response, "response.output_item.done")}
        for final in [one["response"] for one in response if one["type"] in ENDS]:
            assert set(final) >= RESOURCE
            assert final["id"]
            assert final["object"] == "response"
            assert [item for item in final["output"] if item in done.values()] == [done[at] for at in sorted(done)]
            usage = final["usage"]
            assert usage is None or {"input_tokens_details", "output_tokens_details", "total_tokens"} <= set(usage)


@over([case for case in CASES if case.protocol != "responses" and isinstance(case.expected()[-1], ev.Finish)])
def test_every_text_has_a_part_that_opens_and_closes_and_is_said_once(case: Case) -> None:
    for response in turns(case):
        added, ended = (small.of_type(response, f"response.content_part.{word}") for word in ("added", "done"))
        assert len(added) == len(ended)
        streamed: dict[tuple[int, int], str] = {}
        for payload in small.of_type(response, "response.output_text.delta"):
            streamed[_place(payload)] = streamed.get(_place(payload), "") + payload["delta"]
        assert set(streamed) <= set(map(_place, added))
        texts = {_place(one): one["text"] for one in small.of_type(response, "response.output_text.done")}
        assert {place: text for place, text in texts.items() if text} == streamed


def _place(payload: Payload) -> tuple[int, int]:
    return payload["output_index"], payload["content_index"]


@over([case for case in CASES if case.protocol == "responses"])
def test_the_official_client_reads_the_same_turns(case: Case) -> None:
    """Of the protocol's own cases. Those of others: `test_encoders`."""
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
    body = running.row("responses").body
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


def test_each_item_is_announced_reasoning_first_or_not() -> None:
    call = fragment(0, '{"a":1}', id="c1", type="function", name="put")
    said = [{"reasoning_content": "Hm."}, {"content": "Yes, "}, {"content": "yes."}, call]
    written = small.translated("openai-chat", "responses", chat(*map(delta, said), delta({}, "tool_calls")))
    added = [payload["item"]["type"] for payload in small.of_type(written, "response.output_item.added")]
    assert added == ["reasoning", "message", "function_call"]
