"""The `uistream` encoder against its readers: the class behind `useChat` of AI SDK 5, 6 and 7 rebuilds the same turn.

Every hand-written case and every recorded Chat and Anthropic stream is written as a UI stream and read by all three.
"""

from __future__ import annotations

import json
from itertools import takewhile
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

from penstock import events as ev
from penstock import fold_all
from penstock import request as rq
from tests.oracles.node.oracle import UI_VERSIONS, Oracles, Read, ReadJob, Version
from tests.support import corpus
from tests.support import run_streams as running
from tests.support.each_case import each
from tests.support.stream_cases import cases

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


Json = dict[str, Any]
ENDS = (ev.Finish, ev.Fault)
UNFINISHED = {"streaming", "input-streaming"}


@pytest.fixture(scope="module")
def oracles() -> Iterator[Oracles]:
    with Oracles() as pool:
        yield pool


def written(events: Sequence[ev.AnyEvent]) -> str:
    return running.write("uistream", events).decode()


def first_turn(events: Sequence[ev.AnyEvent]) -> list[ev.AnyEvent]:
    """A page reads one answer at a time."""
    said = list(takewhile(lambda event: not isinstance(event, ENDS), events))
    return [*said, events[len(said)]]


# ── a message as a page has it, beside a turn as we have it ───────────────────────────────────────


def parts(read: Read, *kinds: str) -> list[Json]:
    assert read.message is not None
    return [part for part in read.message["parts"] if part["type"].startswith(kinds)]


def told(read: Read, kind: str) -> str:
    return "".join(part["text"] for part in parts(read, kind) if part["type"] == kind)


def to_run(read: Read) -> list[tuple[str, str, Any]]:
    """The calls that a page would run."""
    return [
        (part["toolCallId"], part.get("toolName") or part["type"].removeprefix("tool-"), part["input"])
        for part in parts(read, "tool-", "dynamic-tool")
        if part["state"] == "input-available" and not part.get("providerExecuted")
    ]


def ran(read: Read) -> list[tuple[str, Any]]:
    shown = [part for part in parts(read, "tool-", "dynamic-tool") if part["state"].startswith("output-")]
    return [(part["toolCallId"], part["state"] == "output-error") for part in shown]


def of_turn(turn: rq.Turn) -> list[tuple[str, str, Any]]:
    return [(call.id, call.name, json.loads(call.json) if call.form == "json" else call.json) for call in turn.calls]


def differences(read: Read, turn: rq.Turn) -> list[str]:
    """In what a page's message is not the turn."""
    if read.error is not None and (turn.fault is None or read.error["kind"] != "chunk"):
        return [f"error {read.error}"]
    broken = [turn.parts[index] for index in turn.broken]
    whole = replace(turn, parts=[part for part in turn.parts if not any(part is one for one in broken)])
    left_open = [part for part in broken if not isinstance(part, rq.File) and not getattr(part, "choice", 0)]
    spoken = "".join(part.text for part in turn.parts if isinstance(part, rq.Text) and not part.choice)
    pairs = {
        "text": (told(read, "text"), spoken),
        "reasoning": (told(read, "reasoning"), turn.reasoning),
        "calls": (to_run(read), of_turn(whole)),
        "sources": ([part.get("url", "") for part in parts(read, "source-")], [source.url for source in turn.sources]),
        "unfinished": (len([part for part in parts(read, "") if part.get("state") in UNFINISHED]), len(left_open)),
    }
    return [f"{what}: {seen!r:.200} for {wanted!r:.200}" for what, (seen, wanted) in pairs.items() if seen != wanted]


def all_differences(oracles: Oracles, ai: Version, streams: dict[str, list[ev.AnyEvent]]) -> dict[str, list[str]]:
    reads = oracles.readui(ai, [ReadJob(sse=written(events)) for events in streams.values()])
    turns = [fold_all(events)[0] for events in streams.values()]
    found = {name: differences(read, turn) for name, read, turn in zip(streams, reads, turns, strict=True)}
    return {name: rows for name, rows in found.items() if rows}


def is_apart(events: Sequence[ev.AnyEvent]) -> bool:
    """What a UI stream of a later version said goes back to one as it was, whoever reads it; and a page does not run a
    call that is answered, whoever should have run it.
    """
    answered = {event.call for event in events if isinstance(event, ev.Result)}
    clients = {event.id for event in events if isinstance(event, ev.CallEnd) and event.by == "client"}
    return bool(answered & clients) or any(getattr(event, "protocol", "") == "uistream" for event in events)


@each("ai", UI_VERSIONS)
def test_every_case_is_rebuilt(oracles: Oracles, ai: Version) -> None:
    streams = {case.id: first_turn(case.expected()) for case in cases()}
    ours = {name: events for name, events in streams.items() if not is_apart(events)}
    assert len(ours) > len(streams) - 10
    assert all_differences(oracles, ai, ours) == {}


@each("protocol", ["anthropic-messages", "openai-chat"])
@each("ai", UI_VERSIONS)
def test_recorded_streams_are_rebuilt(oracles: Oracles, ai: Version, protocol: str) -> None:
    """A fourth of them, another one for each version."""
    check_recorded(oracles, ai, protocol, slice(UI_VERSIONS.index(ai), None, 4))


@pytest.mark.nightly
@each("protocol", ["anthropic-messages", "openai-chat"])
@each("ai", UI_VERSIONS)
def test_every_recorded_stream_is_rebuilt(oracles: Oracles, ai: Version, protocol: str) -> None:
    check_recorded(oracles, ai, protocol, slice(None))


def check_recorded(oracles: Oracles, ai: Version, protocol: str, chosen: slice) -> None:
    corpus.corpus_or_skip()
    source = {"anthropic-messages": "anthropic"}.get(protocol, protocol)
    entries = corpus.streams(protocol)
    streams = {entry.name: first_turn(running.decode(source, entry.body)) for entry in entries[chosen]}
    assert len(entries) > 100
    assert all_differences(oracles, ai, streams) == {}


# ── one by one ────────────────────────────────────────────────────────────────────────────────────

START, STOP = ev.Start("msg_1", "harbour-1", 1772352000), ev.Finish("stop", "end_turn")


def read(oracles: Oracles, ai: Version, *events: ev.AnyEvent) -> Read:
    assert running.run("events", [running.encode("events", events)]).events == list(events)  # lawful
    (seen,) = oracles.readui(ai, [ReadJob(sse=written(events))])
    return seen


def call(index: int, name: str, json: str, **fields: Any) -> list[ev.AnyEvent]:
    start = ev.CallStart(index, name, "tide", **fields)
    return [start, ev.CallDelta(index, json), ev.CallEnd(index, name, "tide", json, **fields)]


@each("ai", UI_VERSIONS)
def test_a_cut_call_is_shown_as_failed_and_never_run(oracles: Oracles, ai: Version) -> None:
    *begun, _ = call(0, "c", '{"port":"F')
    seen = read(oracles, ai, START, *begun, ev.CallCut(0, "c", "tide", '{"port":"F'), ev.Finish("length", "max_tokens"))
    assert seen.error is None
    (part,) = parts(seen, "tool-")
    assert part["state"] == "output-error"
    assert part["errorText"]
    assert seen.finish_reason == "length"


@each("ai", UI_VERSIONS)
def test_what_a_fault_breaks_off_is_shown_as_unfinished_beside_the_error(oracles: Oracles, ai: Version) -> None:
    """A page must not count the call as answered, or it would send it to the model."""
    said: list[ev.AnyEvent] = [ev.TextStart(0), ev.TextDelta(0, "Half a "), ev.CallStart(1, "c", "tide")]
    said += [ev.CallDelta(1, '{"port":"F'), ev.TextEnd(0, broken=True)]
    fault = ev.Fault("network", "the connection broke")
    seen = read(oracles, ai, START, *said, ev.CallCut(1, "c", "tide", '{"port":"F', broken=True), fault)
    assert seen.error is not None
    assert [part.get("state") for part in parts(seen, "text", "tool-")] == ["streaming", "input-streaming"]
    assert seen.finish_reason is None


@each("ai", UI_VERSIONS)
def test_parallel_calls_keep_their_own_input(oracles: Oracles, ai: Version) -> None:
    events: list[ev.AnyEvent] = [
        ev.CallStart(0, "a", "tide"), ev.CallStart(1, "b", "tide"), ev.CallDelta(0, '{"n":'), ev.CallDelta(1, '{"n":'),
        ev.CallDelta(1, "2}"), ev.CallDelta(0, "1}"), ev.CallEnd(1, "b", "tide", '{"n":2}'),
        ev.CallEnd(0, "a", "tide", '{"n":1}'),
    ]  # fmt: skip
    seen = read(oracles, ai, START, *events, ev.Finish("calls", "tool_use"))
    assert to_run(seen) == [("a", "tide", {"n": 1}), ("b", "tide", {"n": 2})]
    assert seen.finish_reason == "tool-calls"


@each("ai", UI_VERSIONS)
def test_a_result_without_its_call_does_not_end_the_stream(oracles: Oracles, ai: Version) -> None:
    seen = read(oracles, ai, START, ev.Result(0, "earlier", "tide", "1"), ev.TextStart(1), ev.TextDelta(1, "Hi"), ev.TextEnd(1), STOP)  # fmt: skip
    assert seen.error is None
    assert told(seen, "text") == "Hi"


@each("ai", UI_VERSIONS)
def test_what_was_run_upstream_is_shown_and_not_run(oracles: Oracles, ai: Version) -> None:
    sdk: Json = {"by": "provider", "extra": {"aisdk": {"sdk": True}}}
    seen = read(
        oracles, ai, START,
        *call(0, "provider", "{}", by="provider"), ev.Result(1, "provider", "tide", '{"ebb":6}'),
        *call(2, "sdk", "{}", **sdk), ev.Result(3, "sdk", "tide", '"no port"', failed=True),
        *call(4, "unanswered", "{}", **sdk), *call(5, "provider-only", "{}", by="provider"), STOP,
    )  # fmt: skip
    assert seen.error is None
    assert to_run(seen) == []
    assert ran(seen) == [("provider", False), ("sdk", True)]
    assert [part.get("providerExecuted") for part in parts(seen, "tool-")] == [True, None, True, True]


@each("ai", UI_VERSIONS)
def test_a_step_waits_for_open_parts(oracles: Oracles, ai: Version) -> None:
    events: list[ev.AnyEvent] = [
        ev.TextStart(0), ev.TextDelta(0, "One "), ev.CallStart(1, "c", "tide"), ev.Step(2), ev.TextDelta(0, "two."),
        ev.CallDelta(1, "{}"), ev.TextEnd(0), ev.CallEnd(1, "c", "tide", "{}"), ev.TextStart(2), ev.TextDelta(2, "Three"),
        ev.TextEnd(2),
    ]  # fmt: skip
    seen = read(oracles, ai, START, *events, STOP)
    assert seen.error is None
    assert [part["text"] for part in parts(seen, "text")] == ["One two.", "Three"]
    assert to_run(seen) == [("c", "tide", {})]
    assert [part["type"] for part in parts(seen, "")].count("step-start") == 2


@each("ai", UI_VERSIONS)
def test_state_comes_back_from_the_page(oracles: Oracles, ai: Version) -> None:
    signed = {"anthropic": {"signature": "c2ln"}}
    kept = {"type": "compaction", "content": "so far"}
    seen = read(
        oracles, ai, START, ev.ReasoningStart(0), ev.ReasoningDelta(0, "hm"), ev.ReasoningEnd(0, signed),
        ev.Opaque(1, "anthropic", "compaction", kept), STOP,
    )  # fmt: skip
    (reasoning,), (data,) = parts(seen, "reasoning"), parts(seen, "data-")
    assert reasoning["providerMetadata"] == signed
    assert data["data"] == {"protocol": "anthropic", "kind": "compaction", "data": kept}
    (turn,) = fold_all(running.decode_body("uistream", json.dumps(seen.message).encode()))
    assert [p.extra for p in turn.parts if isinstance(p, rq.Reasoning)] == [signed]
    assert [p.data for p in turn.parts if isinstance(p, rq.Opaque)] == [kept]


@each("ai", UI_VERSIONS)
def test_files_sources_and_data(oracles: Oracles, ai: Version) -> None:
    seen = read(
        oracles, ai, START, ev.FileStart(0, "image/png"), ev.FileDelta(0, "aW1"), ev.FileDelta(0, "n"), ev.FileEnd(0),
        ev.Source(1, "https://tide.example", "Tides", quote="ebb"), ev.Source(2, title="Almanac", media="application/pdf"),
        ev.Data("weather", '{"wind":3}', "w1"), ev.Data("note", '"hi"', transient=True), STOP,
    )  # fmt: skip
    assert seen.error is None
    assert [part["url"] for part in parts(seen, "file")] == ["data:image/png;base64,aW1n"]
    assert [part["type"] for part in parts(seen, "source-")] == ["source-url", "source-document"]
    assert [part["data"] for part in parts(seen, "data-")] == [{"wind": 3}]
    assert [part["data"] for part in seen.data] == [{"wind": 3}, "hi"]


@each("reason", ["stop", "length", "calls", "filter", "refusal", "pause", "other"])
@each("ai", UI_VERSIONS)
def test_every_reason_is_one_that_readers_know(oracles: Oracles, ai: Version, reason: ev.Reason) -> None:
    seen = read(oracles, ai, START, ev.Usage(40, 12, 10), ev.Finish(reason, "odd_word"))
    assert seen.error is None
    assert seen.message is not None
    assert seen.finish_reason in {"stop", "length", "tool-calls", "content-filter"}
    assert seen.message["metadata"]["rawFinishReason"] == "odd_word"
    assert seen.message["metadata"]["usage"]["inputTokens"] == 40
    assert seen.message["metadata"]["model"] == "harbour-1"


@each("ai", UI_VERSIONS)
def test_a_fault_is_the_page_s_error(oracles: Oracles, ai: Version) -> None:
    said: list[ev.AnyEvent] = [ev.TextStart(0), ev.TextDelta(0, "Ebb"), ev.TextEnd(0)]
    seen = read(oracles, ai, START, *said, ev.Fault("overloaded", "busy"))
    assert seen.error is not None
    assert (seen.error["kind"], seen.error["message"]) == ("chunk", "busy")
    assert told(seen, "text") == "Ebb"
    stopped = read(oracles, ai, START, *said, ev.Fault("cancelled", "stopped"))
    assert stopped.error is None
    assert told(stopped, "text") == "Ebb"


@each("ai", UI_VERSIONS)
def test_the_body_is_the_message_that_a_page_builds(oracles: Oracles, ai: Version) -> None:
    events: list[ev.AnyEvent] = [
        START, ev.ReasoningStart(0), ev.ReasoningDelta(0, "hm"), ev.ReasoningEnd(0, {"anthropic": {"signature": "c2ln"}}),
        ev.TextStart(1), ev.TextDelta(1, "Ebb"), ev.TextEnd(1), *call(2, "c", '{"port":1}'), ev.Finish("calls", "tool_use"),
    ]  # fmt: skip
    seen = read(oracles, ai, *events)
    frames = running.encode("uistream", events)
    body = running.row("uistream").body
    assert body is not None
    message = json.loads(body(frames))
    assert message["metadata"].pop("finishReason") == seen.finish_reason
    assert seen.message is not None
    keys = {"type", "text", "state", "providerMetadata", "toolCallId", "input", "callProviderMetadata"}
    shown = [{key: value for key, value in part.items() if key in keys} for part in seen.message["parts"]]
    assert {**message, "parts": message["parts"]} == {**seen.message, "parts": shown}
