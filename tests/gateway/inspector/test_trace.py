"""The trace of a turn: what came, what it meant, what the client got, and which caused which; from memory and disk."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock import bridge, decoder, tracer
from penstock import events as ev
from penstock.errors import FrameTooLarge
from penstock.framing import PARSERS, WRITERS
from penstock.testing import RecordingHeader, Reply, encode_events, wire, write_recording
from tests.support import run_streams as running
from tests.support import sample_streams
from tests.support.client_requests import ASKING, ask
from tests.support.event_feed import Reader, ended, watching
from tests.support.inspector import Inspected, inspected
from tests.support.inspector_bounds import bounds
from tests.support.inspector_calls import CLIENT, ask_inspector, delete, lost, say, trace_of, view
from tests.support.kept_on_disk import on_disk, recorded, without_times
from tests.support.openresponses import socket as web_socket
from tests.support.stream_cases import cases

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from tests.support.stream_cases import Case

PROVIDERS = ("openai-chat", "replay", "anthropic", "responses", "gemini", "bedrock", "cohere", "ollama")
MADE = re.compile(r'"[a-z_]+(_at|_duration)":("[^"]*"|\d+)')
SSE = {"content-type": "text/event-stream"}
LISTS = ("frames", "events", "outputs", "marks")
# A gateway that others can reach keeps turns only while somebody watches.
PUBLIC: dict[str, Any] = {"serve": {"host": "0.0.0.0", "pace": 0.0}, "access": {"trusted_proxies": ()}}  # noqa: S104


def got(data: bytes, *, stream: bool) -> list[list[str]]:
    """What a client got, as frames."""
    if not stream:
        return [["", data.decode()]]
    frames = PARSERS["auto"]()
    return [[name.decode(), data.decode()] for name, data in [*frames.feed([data]), *frames.finish()]]


def timeless(rows: list[list[str]]) -> list[list[str]]:
    """Some answers say when they were made, or how long that took: made again, they say another time."""
    return [[name, MADE.sub("", data)] for name, data in rows]


def outputs_of(trace: dict[str, Any]) -> list[list[str]]:
    return [[row["name"], row["data"]] for row in trace["outputs"]]


def lawful(trace: dict[str, Any]) -> None:
    """Every cause is there, and no later than its effect; times go on."""
    frames, events, outputs = trace["frames"], trace["events"], trace["outputs"]
    for event in events:
        assert event["frame"] is None or 0 <= event["frame"] < len(frames)
        assert event["type"] == event["body"]["type"]
    for output in outputs:
        assert output["event"] is None or 0 <= output["event"] < len(events)
        assert output["frame"] is None or 0 <= output["frame"] < len(frames)
        if output["event"] is not None and output["frame"] is not None:
            cause = events[output["event"]]["frame"]
            assert cause is not None
            assert cause <= output["frame"]
    times = [frame["t"] for frame in frames if frame["t"] is not None]
    assert times == sorted(times)
    for mark in trace["marks"]:
        for kind, rows in (("frame", frames), ("event", events), ("output", outputs)):
            assert mark[kind] is None or 0 <= mark[kind] < len(rows)


# ── every client, every provider ──────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Inspected, dict[str, tuple[Any, Any]]]]:
    """A gateway that was restarted; of turns of every client with every provider the traces and requests before."""
    folder = tmp_path_factory.mktemp("kept")
    before: dict[str, tuple[Any, Any]] = {}
    with inspected(**on_disk(folder)) as gateway:
        for client in ASKING:
            for provider in PROVIDERS:
                for model, stream in (("text" if client == "completions" else "tools", True), ("text", False)):
                    reply = ask(gateway.url, client, f"{provider}/{model}", stream=stream)
                    assert reply.status_code == 200, reply.text
                    name = reply.headers["x-request-id"]
                    ended(gateway, name)
                    trace = trace_of(gateway, name)
                    case = (client, provider, model, stream)
                    assert timeless(outputs_of(trace)) == timeless(got(reply.content, stream=stream)), case
                    assert (trace["done"], trace["timed"], trace["row"]["id"]) == (True, True, name), case
                    assert json.loads(trace["request"]), case
                    lawful(trace)
                    before[name] = (trace, view(gateway, f"turns/{name}/request"))
    assert (folder / "turns.sqlite").stat().st_mode & 0o777 == 0o600
    with inspected(**on_disk(folder)) as again:
        yield again, before


def test_the_trace_shows_what_the_client_got_also_after_a_restart(kept: tuple[Inspected, Any]) -> None:
    """Of every client with every provider, streamed and not."""
    gateway, before = kept
    assert len(before) == 2 * len(ASKING) * len(PROVIDERS)
    for name, (trace, request) in before.items():
        after = trace_of(gateway, name)
        case = (trace["consumer"], trace["row"]["provider"])
        for part in ("frames", "events", "marks", "request", "consumer", "protocol", "title"):
            assert after[part] == trace[part], (case, part)
        if trace["consumer"] != "ollama":  # its lines say when they were written
            assert without_times(after["outputs"]) == without_times(trace["outputs"]), case
        assert view(gateway, f"turns/{name}/request") == request, case
    assert {row["held"] for row in view(gateway, "turns", limit=500)["rows"]} == {True}


def test_any_other_consumer_sees_the_same_turn(gateway: Inspected) -> None:
    name = ask(gateway.url, "anthropic", "openai-chat/tools").headers["x-request-id"]
    ended(gateway, name)
    own = trace_of(gateway, name)
    assert own["consumer"] == "anthropic"
    for consumer in own["consumers"]:
        trace = trace_of(gateway, name, **{"as": consumer})
        assert trace["consumer"] == consumer
        assert (trace["frames"], trace["events"]) == (own["frames"], own["events"])
        assert trace["outputs"]
        lawful(trace)


def test_a_web_socket_and_a_background_turn_are_watched_too(gateway: Inspected) -> None:
    with watching(gateway.url) as watcher:

        def one(asked: str) -> str:
            found = [name for name, row in watcher.rows.items() if row["asked"] == asked and row["state"] == "finish"]
            return found[0] if found else ""

        with web_socket(gateway.url) as ws:
            ws.get_response(model="quick", input="Hi.")
        assert trace_of(gateway, watcher.until(lambda: one("quick")))["frames"]
        body = {"model": "replay/reasoning", "input": "Hi.", "background": True}
        assert CLIENT.post(f"{gateway.url}/v1/responses", json=body).json()["status"] == "queued"
        assert trace_of(gateway, watcher.until(lambda: one("replay/reasoning")))["frames"]


# ── what goes wrong ───────────────────────────────────────────────────────────────────────────────

HELLO: list[ev.AnyEvent] = [ev.Start(id="1", model="m"), ev.TextStart(0), ev.TextDelta(0, "Hello")]
END: list[ev.AnyEvent] = [*HELLO, ev.TextEnd(0), ev.Finish("stop")]


@pytest.mark.parametrize("client", ["openai-chat", "anthropic"])
def test_a_stream_that_breaks_is_shown_as_the_client_saw_it(client: str) -> None:
    whole = Reply.of("openai-chat", [*HELLO, ev.TextDelta(0, " there" * 500), ev.TextEnd(0), ev.Finish("stop")])
    with inspected(whole.disconnect(after=700)) as gateway:
        reply = ask(gateway.url, client, "openai-chat/text")
        name = reply.headers["x-request-id"]
        ended(gateway, name)
        trace = trace_of(gateway, name)
        assert outputs_of(trace) == got(reply.content, stream=True)
        assert trace["row"]["state"] == "fault"
        marks = {mark["code"]: mark for mark in trace["marks"]}
        assert trace["events"][marks[trace["row"]["fault"]]["event"]]["type"] == "fault"
        assert marks["cut-frame"]["frame"] == len(trace["frames"]) - 1
        lawful(trace)


def test_what_a_client_is_told_before_its_answer_is_shown() -> None:
    """An editor hears that a provider is waited for; the others get signs of life."""
    limited = Reply.rate_limit("openai-chat", retry_after=1)
    with inspected(limited, Reply.of("openai-chat", END), retries=2) as gateway:
        reply = ask(gateway.url, "vscode", "openai-chat/text")
        name = reply.headers["x-request-id"]
        ended(gateway, name)
        trace = trace_of(gateway, name)
        assert outputs_of(trace) == got(reply.content, stream=True)
        assert (trace["outputs"][0]["event"], trace["outputs"][0]["frame"]) == (None, None)
        assert "wait" in trace["outputs"][0]["data"]
        assert "wait" not in trace_of(gateway, name, **{"as": "events"})["outputs"][0]["data"]


def test_what_cannot_be_read_is_shown_up_to_there() -> None:
    odd = b'data: {"id":"1","choices":[{"index":0,"delta":{"content":"Hi"}}]}\n\ndata: {oops\n\ndata: [DONE]\n\n'
    with inspected(Reply((odd,), headers=SSE)) as gateway:
        trace = trace_of(gateway, say(gateway))
        lawful(trace)
        assert [mark["frame"] for mark in trace["marks"] if mark["code"] == "malformed"] == [1]


# ── what is not kept, and recordings ──────────────────────────────────────────────────────────────


def test_without_a_watcher_there_is_only_the_row(gateway: Inspected) -> None:
    with inspected(**PUBLIC) as other:
        name = say(other)
        trace = trace_of(other, name)
        assert (trace["frames"], trace["row"]["held"], trace["row"]["state"]) == ([], False, "finish")
        assert "nobody watched" in trace["lost"]
    assert ask_inspector(gateway, f"turns/{name}").status_code == 404, "it is a turn of the other gateway"


def test_a_turn_that_was_recorded_can_be_looked_at_later(tmp_path: Path) -> None:
    """With other clients, too. One that was refused opens with its facts."""
    refused = Reply.error("openai-chat", 401, "no such key")
    replies = (Reply.of("openai-chat", running.decode("anthropic", wire("tools", "anthropic"))), refused)
    with inspected(*replies, record={"path": str(tmp_path)}, **PUBLIC) as gateway:
        names = [ask(gateway.url, "anthropic", model).headers["x-request-id"]
                 for model in ("openai-chat/tools", "replay/tools", "openai-chat/text")]  # fmt: skip
        recorded(gateway)
        tapes = {row["name"]: row for row in view(gateway, "recordings")["recordings"]}
        assert len(tapes) == 3
        for name, protocol in zip(names, ("openai-chat", "anthropic"), strict=False):
            trace = trace_of(gateway, name)
            assert (trace["row"]["held"], trace["consumer"], trace["protocol"]) == (True, "anthropic", protocol)
            assert "calls" in [event["body"].get("reason") for event in trace["events"]]
            lawful(trace)
            shown = [view(gateway, f"recordings/{tape}", **{"as": "openai-chat"}) for tape in tapes]
            assert trace["frames"] in [one["frames"] for one in shown]
            assert {one["consumer"] for one in shown} == {"openai-chat"}
        trace = trace_of(gateway, names[2])
        assert (trace["row"]["state"], trace["row"]["http"], trace["frames"]) == ("refused", 401, [])
        assert trace["lost"] == "nothing of an answer was recorded: there are no frames"


def test_a_recording_shows_what_the_client_got(tmp_path: Path) -> None:
    """Byte for byte: as in memory, which passes the provider's frames through where the turn did."""
    with inspected(record={"path": str(tmp_path)}) as gateway:
        live: dict[str, Any] = {}
        for protocol in ("anthropic", "openai-chat", "responses", "vscode"):
            for model in ("anthropic/tools", "openai-chat/text", "replay/text"):
                name = ask(gateway.url, protocol, model).headers["x-request-id"]
                ended(gateway, name)
                live[name] = trace_of(gateway, name)
        assert delete(gateway).status_code == 200
        recorded(gateway)
        for name, trace in live.items():
            shown = trace_of(gateway, name)
            assert shown["consumer"] == trace["consumer"]
            data = [[row["data"] for row in without_times(one["outputs"])] for one in (shown, trace)]
            assert data[0] == data[1], trace["title"]


# ── long texts and long turns ─────────────────────────────────────────────────────────────────────


def test_a_long_frame_is_cut_and_has_an_address_of_its_own() -> None:
    text = "long " * 20_000
    events: list[ev.AnyEvent] = [*HELLO, ev.TextDelta(0, text), ev.TextEnd(0), ev.Finish("stop")]
    with inspected(Reply.of("openai-chat", events)) as gateway:
        name = ask(gateway.url, "anthropic", "openai-chat/text").headers["x-request-id"]
        ended(gateway, name)
        trace = trace_of(gateway, name)
        for kind in ("frame", "output"):
            (place,) = [number for number, row in enumerate(trace[f"{kind}s"]) if row.get("cut")]
            row = trace[f"{kind}s"][place]
            assert len(row["data"]) == 65_536 < row["size"]
            whole = ask_inspector(gateway, f"turns/{name}/{kind}s/{place}")
            assert whole.headers["content-type"] == "text/plain; charset=utf-8"
            assert (text in whole.text, len(whole.content)) == (True, row["size"])
            none = ask_inspector(gateway, f"turns/{name}/{kind}s/9999")
            assert (none.status_code, "numbered from 0" in none.json()["error"]["message"]) == (400, True)
        # The message needs all of what was said.
        assert [event["body"]["text"] for event in trace["events"] if event["type"] == "text-delta"][-1] == text


def follow(gateway: Inspected, name: str, consumer: str = "") -> list[tuple[str, Any]]:
    with Reader(f"{gateway.url}/inspector/turns/{name}/follow?as={consumer}") as reader:
        reader.until(lambda: reader.over)
        return reader.events


def test_a_long_turn_comes_in_pages_that_are_the_whole_trace() -> None:
    """Each page is larger than the one before, and says how much has come."""
    long, short = (Reply(tuple(sample_streams.many(events)), headers=SSE) for events in (6_000, 50))
    with inspected(long, short) as gateway:
        name = say(gateway, model="anthropic/text")
        whole, pages = trace_of(gateway, name, **{"as": "openai-chat"}), follow(gateway, name, "openai-chat")
        assert [said for said, _ in pages] == ["trace", *["more"] * (len(pages) - 1)]
        assert 3 <= len(pages) <= 8
        for rows in LISTS:
            assert [row for _, page in pages for row in page[rows]] == whole[rows]
        assert [page["done"] for _, page in pages] == [*[False] * (len(pages) - 1), True]
        progress = [page.get("progress", 1.0) for _, page in pages]
        assert progress == sorted(set(progress))
        assert (progress[-1], progress[0] < 0.5) == (1.0, True)
        sizes = [len(page["frames"]) for _, page in pages[:-1]]
        assert sizes[1] > 1.3 * sizes[0]
        ((said, page),) = follow(gateway, say(gateway, model="anthropic/text"))
        assert (said, page["done"], page.get("progress", 1.0)) == ("trace", True, 1.0)
        refused = ask_inspector(gateway, f"turns/{name}/follow", **{"as": "nobody"})
        assert (refused.status_code, "as: nobody is called" in refused.text) == (400, True)
        delete(gateway)
        ((said, page),) = follow(gateway, name)
        assert (said, page["lost"], page["frames"]) == ("trace", lost(gateway, name), [])


# ── golden streams ────────────────────────────────────────────────────────────────────────────────

STREAMED = [case for case in cases() if case.streamed]
TARGETS = list(running.targets())
ORDER = {"frame": (None,), "event": ("frame", None), "output": ("event", "frame", None)}  # a kind → what may cause it


def traced(case: Case, target: str, chunks: Iterable[bytes] = ()) -> Any:
    framing = case.framing if case.streamed else "body"
    made = tracer(case.source, target, framing=framing, source_options=case.options)
    for place, chunk in enumerate(chunks or [case.body]):
        made.feed(chunk, float(place))
    made.finish()
    return made


def items(made: Any, kind: str) -> list[Any]:
    return [step.item for step in made.steps if step.kind == kind]


def test_a_trace_says_what_a_bridge_does_and_why() -> None:
    """Each golden stream for two targets in turn: all targets get many of each protocol."""

    def kind(made: Any, number: int | None) -> str | None:
        return None if number is None else made.steps[number].kind

    for place, case in enumerate(STREAMED):
        for target in {TARGETS[place % len(TARGETS)], TARGETS[(place // len(TARGETS)) % len(TARGETS)]}:
            made, name = traced(case, target), f"{case.id} as {target}"
            pipe = bridge(case.source, target, framing=case.framing, source_options=case.options)
            writer = WRITERS[running.row(target).writes]()
            written = b"".join([*writer.feed(items(made, "output")), *writer.finish()])
            assert written == b"".join([*pipe.feed([case.body]), *pipe.finish()]), name
            assert sorted(str(row.row) for row in made.findings) == sorted(map(str, pipe.diagnostics)), name
            assert items(made, "event") == case.expected(), name
            for number, step in enumerate(made.steps):
                assert kind(made, step.cause) in ORDER[step.kind], name
                assert step.cause is None or step.cause < number, name
                assert kind(made, step.of) in {"event", None}, name


def test_the_events_of_a_frame_are_those_that_it_means() -> None:
    """Against the decoder itself, fed one frame at a time. An answer in one piece is one frame."""
    for case in STREAMED:
        made, decode = traced(case, "events"), decoder(case.source, **case.options)
        for number, step in enumerate(made.steps):
            if step.kind == "frame":
                found = [one.item for one in made.steps if one.kind == "event" and one.cause == number]
                assert found == decode.feed([step.item]), case.id
    for case in (case for case in cases() if not case.streamed):
        made = traced(case, "events", running.crumbs(case.body, 7))
        assert items(made, "frame") == [(b"", case.body)], case.id
        assert items(made, "event") == case.expected(), case.id


@given(st.data())
def test_however_it_is_cut_the_trace_is_the_same(data: st.DataObject) -> None:
    case = data.draw(st.sampled_from([case for case in STREAMED if len(case.body) < 3000]))
    at = data.draw(st.integers(0, len(case.body)))
    whole, halves = traced(case, "openai-chat"), traced(case, "openai-chat", [case.body[:at], case.body[at:]])
    bare = [[(step.kind, step.cause, step.of, step.item) for step in made.steps] for made in (whole, halves)]
    assert bare[0] == bare[1]
    assert {step.at for step in halves.steps} <= {None, 0.0, 1.0}


def test_what_was_held_back_says_which_event_it_is_of(gateway: Inspected) -> None:
    """Two texts at once, for a consumer that knows one at a time: the second leaves when the first is over."""
    events: list[ev.AnyEvent] = [
        ev.Start(), ev.TextStart(0), ev.TextStart(1, choice=0), ev.TextDelta(1, "later"), ev.TextDelta(0, "now"),
        ev.TextEnd(0), ev.TextEnd(1), ev.Finish("stop"),
    ]  # fmt: skip
    body = b"".join(encode_events("events", events))
    trace = CLIENT.post(f"{gateway.url}/inspector/trace?protocol=events&as=anthropic", content=body).json()
    (output,) = [row for row in trace["outputs"] if "later" in row["data"]]
    assert trace["events"][output["event"]]["body"] == {"type": "text-delta", "index": 1, "text": "later"}
    assert (output["event"], output["frame"]) == (3, 5)


def test_the_end_is_told_as_it_was_where_that_is_known() -> None:
    hi, network = b'data: {"id":"1","choices":[{"index":0,"delta":{"content":"Hi"}}]}\n\n', ev.Fault("network", "broke")
    made = tracer("openai-chat", "events")
    made.feed(hi)
    made.finish(network)
    assert made.events[-1] == network
    assert made.steps[-1].cause is not None  # the output of the fault; the fault itself comes of the end
    assert made.steps[made.steps[-1].cause].cause is None
    case = next(case for case in STREAMED if isinstance(case.expected()[-1], ev.Finish))
    made = tracer(case.source, "events", source_options=case.options)
    made.feed(case.body)
    made.finish(network)
    assert made.events == case.expected(), "an end that came is no other"
    made = tracer("openai-chat", "vscode", limit=200)
    made.feed(hi)
    with pytest.raises(FrameTooLarge):
        made.feed(b"data: " + b"x" * 500)
    made.finish(ev.Fault("malformed", "too large"), broken=True)
    assert made.events[-1] == ev.Fault("malformed", "too large")


def test_an_uploaded_golden_stream_has_its_events(gateway: Inspected) -> None:
    """For one client each."""
    consumers = view(gateway, "about")["consumers"]
    for place, case in enumerate(STREAMED):
        if case.options:
            continue
        query = {"protocol": case.source, "as": consumers[place % len(consumers)]}
        reply = CLIENT.post(f"{gateway.url}/inspector/trace", params=query, content=case.body)
        assert reply.status_code == 200, (case.id, reply.text)
        expected = msgspec.json.decode(msgspec.json.encode(case.expected()))
        assert [event["body"] for event in reply.json()["events"]] == expected, case.id
        lawful(reply.json())


# ── files ─────────────────────────────────────────────────────────────────────────────────────────


def test_a_recording_has_its_times(gateway: Inspected, tmp_path: Path) -> None:
    hi = b'data: {"id":"1","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"Hi"}}]}\n\n'
    made = RecordingHeader(protocol="openai-chat", model="m", provider="p", request={"a": 1}, cut=True)
    write_recording(tmp_path / "one.tape", made, [(0.25, hi), (1.5, hi)])
    trace = CLIENT.post(f"{gateway.url}/inspector/trace", content=(tmp_path / "one.tape").read_bytes()).json()
    assert [frame["t"] for frame in trace["frames"]] == [0.25, 1.5]
    assert (trace["timed"], trace["request"]) == (True, '{"a":1}')
    assert "cut at its bound" in trace["lost"]


def test_an_answer_is_kept_up_to_a_bound() -> None:
    said = Reply.of("openai-chat", [*HELLO, *[ev.TextDelta(0, " there")] * 60, ev.TextEnd(0), ev.Finish("stop")])
    with bounds(answer=4_000), inspected(said.slow(0.001)) as gateway:
        trace = trace_of(gateway, say(gateway))
        assert 0 < sum(frame["size"] for frame in trace["frames"]) <= 4_000
        assert "only the beginning" in trace["lost"]
