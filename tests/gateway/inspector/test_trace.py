"""A turn that was watched, looked at afterwards: what the page shows is what came, what it meant, what the client got."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest

from penstock import _protocols as protocols
from penstock import events as ev
from penstock._bridge import parser
from penstock.testing import Reply
from tests.gateway.test_notices import Patience
from tests.support.client_requests import ASKING, ask, get, post
from tests.support.event_feed import Reader, ended, watching
from tests.support.inspector import inspected
from tests.support.openresponses import socket as web_socket

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.inspector import Inspected

PROVIDERS = (
    "openai-chat", "replay", "anthropic", "responses", "gemini", "bedrock", "cohere", "ollama",
)  # fmt: skip
MADE = re.compile(r'"[a-z_]+(_at|_duration)":("[^"]*"|\d+)')
SSE = {"content-type": "text/event-stream"}


@pytest.fixture(scope="module")
def watcher(gateway: Inspected) -> Iterator[Reader]:
    with watching(gateway.url) as reader:
        yield reader


def trace_of(gateway: Inspected, name: str, query: str = "") -> dict[str, Any]:
    reply = get(f"{gateway.url}/inspector/turns/{name}{query}")
    assert reply.status_code == 200, reply.text
    found: dict[str, Any] = reply.json()
    return found


def got(data: bytes, *, stream: bool) -> list[list[str]]:
    """What a client got, as frames."""
    if not stream:
        return [["", data.decode()]]
    frames = parser("auto")
    return [[name.decode(), data.decode()] for name, data in [*frames.feed([data]), *frames.finish()]]


def timeless(rows: list[list[str]]) -> list[list[str]]:
    """Some answers say when they were made, or how long that took: made again, they say another time."""
    return [[name, MADE.sub("", data)] for name, data in rows]


# ── every client, every provider ──────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("client", ASKING)
@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.usefixtures("watcher")
def test_the_trace_shows_what_the_client_got(gateway: Inspected, client: str, provider: str) -> None:
    for model in ("tools", "text") if client != "completions" else ("text",):
        for stream in (True, False):
            reply = ask(gateway.url, client, f"{provider}/{model}", stream=stream)
            assert reply.status_code == 200, reply.text
            name = reply.headers["x-request-id"]
            ended(gateway, name)
            trace = trace_of(gateway, name)
            outputs = [[row["name"], row["data"]] for row in trace["outputs"]]
            assert timeless(outputs) == timeless(got(reply.content, stream=stream)), (model, stream)
            assert trace["done"] is True
            assert trace["timed"] is True
            assert trace["row"]["id"] == name
            assert json.loads(trace["request"])
            lawful(trace)


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


@pytest.mark.usefixtures("watcher")
def test_any_other_consumer_sees_the_same_turn(gateway: Inspected) -> None:
    name = ask(gateway.url, "anthropic", "openai-chat/tools").headers["x-request-id"]
    ended(gateway, name)
    own = trace_of(gateway, name)
    assert own["consumer"] == "anthropic"
    for consumer in own["consumers"]:
        trace = trace_of(gateway, name, f"?as={consumer}")
        assert trace["consumer"] == consumer
        assert (trace["frames"], trace["events"]) == (own["frames"], own["events"])
        assert trace["outputs"]
        lawful(trace)


def test_a_web_socket_and_a_background_turn_are_watched_too(gateway: Inspected, watcher: Reader) -> None:
    def one(asked: str) -> str:
        found = [name for name, row in watcher.rows.items() if row["asked"] == asked and row["state"] == "finish"]
        return found[0] if found else ""

    with web_socket(gateway.url) as ws:
        ws.get_response(model="quick", input="Hi.")
    assert trace_of(gateway, watcher.until(lambda: one("quick")))["frames"]
    body = {"model": "replay/reasoning", "input": "Hi.", "background": True}
    begun = post(f"{gateway.url}/v1/responses", json=body)
    assert begun.json()["status"] == "queued"
    assert trace_of(gateway, watcher.until(lambda: one("replay/reasoning")))["frames"]


# ── what goes wrong ───────────────────────────────────────────────────────────────────────────────

HELLO: list[ev.AnyEvent] = [ev.Start(id="1", model="m"), ev.TextStart(0), ev.TextDelta(0, "Hello")]
END: list[ev.AnyEvent] = [*HELLO, ev.TextEnd(0), ev.Finish("stop")]


@pytest.mark.parametrize("client", ["openai-chat", "anthropic"])
def test_a_stream_that_breaks_is_shown_as_the_client_saw_it(client: str) -> None:
    whole = Reply.of("openai-chat", [*HELLO, ev.TextDelta(0, " there" * 500), ev.TextEnd(0), ev.Finish("stop")])
    with inspected(whole.disconnect(after=700)) as gateway, watching(gateway.url):
        reply = ask(gateway.url, client, "openai-chat/text")
        name = reply.headers["x-request-id"]
        ended(gateway, name)
        trace = trace_of(gateway, name)
        assert [[row["name"], row["data"]] for row in trace["outputs"]] == got(reply.content, stream=True)
        assert trace["row"]["state"] == "fault"
        marks = {mark["code"]: mark for mark in trace["marks"]}
        assert trace["events"][marks[trace["row"]["fault"]]["event"]]["type"] == "fault"
        assert marks["cut-frame"]["frame"] == len(trace["frames"]) - 1
        lawful(trace)


def test_a_refusal_is_shown_as_the_client_saw_it() -> None:
    with inspected(Reply.error("openai-chat", 401, "no such key")) as gateway, watching(gateway.url):
        reply = ask(gateway.url, "anthropic", "openai-chat/text")
        name = reply.headers["x-request-id"]
        ended(gateway, name)
        trace = trace_of(gateway, name)
        assert trace["row"]["state"] == "refused"
        assert [row["data"] for row in trace["outputs"]] == [reply.text]
        assert trace["frames"] == []
        assert trace["lost"] == "the provider openai-chat answered 401: there are no frames"
        assert trace["fault_by"] == "provider"


def test_what_a_client_is_told_before_its_answer_is_shown() -> None:
    """An editor hears that a provider is waited for; the others get signs of life."""
    limited = Reply.rate_limit("openai-chat", retry_after=12)
    with inspected(limited, Reply.of("openai-chat", END)) as gateway, watching(gateway.url):
        Patience(gateway).go.set()
        reply = ask(gateway.url, "vscode", "openai-chat/text")
        name = reply.headers["x-request-id"]
        ended(gateway, name)
        trace = trace_of(gateway, name)
        assert [[row["name"], row["data"]] for row in trace["outputs"]] == got(reply.content, stream=True)
        assert (trace["outputs"][0]["event"], trace["outputs"][0]["frame"]) == (None, None)
        assert "wait" in trace["outputs"][0]["data"]
        assert "wait" not in trace_of(gateway, name, "?as=events")["outputs"][0]["data"]


def test_what_cannot_be_read_is_shown_up_to_there() -> None:
    odd = b'data: {"id":"1","choices":[{"index":0,"delta":{"content":"Hi"}}]}\n\ndata: {oops\n\ndata: [DONE]\n\n'
    with inspected(Reply((odd,), headers=SSE)) as gateway, watching(gateway.url):
        name = ask(gateway.url, "anthropic", "openai-chat/text").headers["x-request-id"]
        ended(gateway, name)
        trace = trace_of(gateway, name)
        lawful(trace)
        assert [mark["frame"] for mark in trace["marks"] if mark["code"] == "malformed"] == [1]


# ── what is kept ──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.usefixtures("keeps_nothing")
def test_without_a_watcher_there_is_only_the_row(gateway: Inspected) -> None:
    with inspected() as other:
        reply = ask(other.url, "anthropic", "openai-chat/text")
        trace = trace_of(other, reply.headers["x-request-id"])
        assert (trace["frames"], trace["row"]["held"]) == ([], False)
        assert "nobody watched" in trace["lost"]
        assert trace["row"]["state"] == "finish"
    assert gateway.url  # the other's turns are none of this one's
    assert get(f"{gateway.url}/inspector/turns/{reply.headers['x-request-id']}").status_code == 404


@pytest.mark.usefixtures("keeps_nothing")
@pytest.mark.parametrize("provider", ["openai-chat", "replay"])
def test_a_turn_that_was_recorded_can_be_looked_at_later(tmp_path: Path, provider: str) -> None:
    with inspected(record={"path": str(tmp_path)}) as gateway:
        reply = ask(gateway.url, "anthropic", f"{provider}/tools")
        gateway.app.services.recorder.close()
        trace = trace_of(gateway, reply.headers["x-request-id"])
        assert trace["row"]["held"] is True
        assert trace["consumer"] == "anthropic"
        assert trace["protocol"] == ("openai-chat" if provider == "openai-chat" else "anthropic")
        assert "calls" in [event["body"].get("reason") for event in trace["events"]]
        lawful(trace)
        (row,) = get(f"{gateway.url}/inspector/turns").json()["rows"]
        assert row["held"] is True
        (listed,) = get(f"{gateway.url}/inspector/recordings").json()["recordings"]
        shown = get(f"{gateway.url}/inspector/recordings/{listed['name']}?as=openai-chat").json()
        assert shown["frames"] == trace["frames"]
        assert shown["consumer"] == "openai-chat"


# ── long texts ────────────────────────────────────────────────────────────────────────────────────


def test_a_long_frame_is_cut_and_has_an_address_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    from penstock._inspector import schemas

    monkeypatch.setattr(schemas, "MAX_FRAME_CHARACTERS", 1000)
    text = "long " * 2000
    events: list[ev.AnyEvent] = [*HELLO, ev.TextDelta(0, text), ev.TextEnd(0), ev.Finish("stop")]
    with inspected(Reply.of("openai-chat", events)) as gateway, watching(gateway.url):
        name = ask(gateway.url, "anthropic", "openai-chat/text").headers["x-request-id"]
        ended(gateway, name)
        trace = trace_of(gateway, name)
        for kind in ("frame", "output"):
            (place,) = [number for number, row in enumerate(trace[f"{kind}s"]) if row.get("cut")]
            row = trace[f"{kind}s"][place]
            assert len(row["data"]) == 1000 < row["size"]
            whole = get(f"{gateway.url}/inspector/turns/{name}/{kind}s/{place}")
            assert whole.headers["content-type"] == "text/plain; charset=utf-8"
            assert text in whole.text
            assert len(whole.content) == row["size"]
            none = get(f"{gateway.url}/inspector/turns/{name}/{kind}s/9999")
            assert (none.status_code, "numbered from 0" in none.json()["error"]["message"]) == (400, True)
        # The message needs all of what was said.
        assert [event["body"]["text"] for event in trace["events"] if event["type"] == "text-delta"][-1] == text


def test_every_consumer_has_an_encoder() -> None:
    from penstock._inspector.stream_traces import CONSUMERS

    assert set(CONSUMERS) == {name for name in protocols.MODULES if protocols.protocol(name).encoder}


@pytest.mark.parametrize(("count", "words"), [(1, "1 secret was"), (2, "2 secrets were"), (1200, "1,200 secrets were")])
def test_secrets_that_were_taken_out_are_counted(count: int, words: str) -> None:
    from penstock._inspector.stream_traces import format_secret_count

    assert format_secret_count(count) == f"{words} taken out of it"
