"""Passthrough: what is noted of a stream is what a full decode says, and the client gets the upstream's bytes.

The streams are generated: frames of every kind in any order, with garbage among them, in any grouping into reads.
"""

from __future__ import annotations

import asyncio
from typing import Any, ClassVar, cast

import hypothesis
import pytest
from hypothesis import strategies as st

from penstock import _protocols as protocols
from penstock import events as ev
from penstock._bridge import parser
from penstock._engines.engine_interface import DecisionLog, UpstreamRequest
from penstock._engines.reply import ModelReply
from penstock._engines.reply_decoding import NativeSource
from penstock._gateway.client_stream import Passthrough, client_stream
from penstock._gateway.endpoints import TurnRequest
from penstock._grammar import Guard
from penstock._providers.registry import providers
from penstock._text_runs import expand_runs
from penstock.request import Request
from tests.support import stream_frames
from tests.support.relayed_streams import client_gets
from tests.support.stream_frames import (
    CHAT_OPENING,
    GARBAGE,
    PROTOCOLS,
    chat,
    readable,
    said,
    split,
    sse,
    streams,
    unended,
)

ENDS = (ev.Finish, ev.Fault)
SETTINGS = hypothesis.settings(deadline=None, max_examples=60)


class Reads:
    """An answer that comes in these reads: what a `Reading` asks of an incoming one."""

    status = 200
    headers: ClassVar = {"content-type": "text/event-stream"}

    def __init__(self, reads: list[bytes]) -> None:
        self._reads = iter(reads)
        self.taken = b""

    async def read(self) -> bytes:
        chunk = next(self._reads, b"")
        self.taken += chunk
        return chunk

    def drain(self) -> None: ...
    def close(self) -> None: ...


def job_for(protocol: str, secrets: tuple[str, ...] = ()) -> UpstreamRequest:
    provider, operation, _, _ = PROTOCOLS[protocol]
    row = providers()[provider]
    endpoint = row.endpoint(operation, "m")
    assert endpoint is not None
    return UpstreamRequest(
        provider=row, endpoint=endpoint, operation=operation, model="m", protocol=protocol, url="", stream=True,
        secrets=secrets,
    )  # fmt: skip


class Passed:
    """A stream passed through: the client's bytes, the events that were noted, and what was read for them."""

    def __init__(
        self, protocol: str, reads: list[bytes], secrets: tuple[str, ...] = (), *, begun: bool = False
    ) -> None:
        self.incoming = Reads(reads)
        self.events: list[Any] = []
        self.sent = b""
        asyncio.run(self._run(protocol, secrets, begun))

    async def _run(self, protocol: str, secrets: tuple[str, ...], begun: bool) -> None:
        """`begun`: as the engine gives a reply, read up to its first content; those reads are held back."""
        job = job_for(protocol, secrets)
        source = NativeSource(cast("Any", self.incoming), job)
        source.decoder.ledger.seed = ""  # calls without an id get the ids that a full decode gives them
        self.reply = ModelReply(source, job, DecisionLog("m"), "native")
        if begun:
            await self.reply.begin()
        way = client_stream(TurnRequest(Request("m"), protocol, options={"id": "one"}), self.reply)
        assert isinstance(way, Passthrough)
        self.way = way
        while (pair := await self.reply.read_with_runs()) is not None:
            self.events += expand_runs(pair[1])
            self.sent += way.feed(pair)
        self.sent += way.finish()


def decoded(protocol: str, body: bytes) -> list[Any]:
    """A full decode of all bytes at once, up to the first terminal event."""
    frames, decoder, guard = parser("sse"), protocols.decoder(protocol), Guard()
    events = guard.feed([*decoder.feed([*frames.feed([body]), *frames.finish()]), *decoder.finish()])
    events += guard.finish()
    last = next(place for place, event in enumerate(events) if isinstance(event, ENDS))
    return events[: last + 1]


def check(protocol: str, body: bytes, reads: list[bytes]) -> None:
    passed, full = Passed(protocol, reads), decoded(protocol, body)
    assert passed.events == full
    assert passed.reply.end == full[-1]
    usages = [event for event in full if isinstance(event, ev.Usage) and not event.step]
    assert passed.reply.usage == (usages[-1] if usages else None)
    frames = split(passed.incoming.taken)
    if isinstance(full[-1], ev.Finish):
        kept = stream_frames.passed(frames)
        assert passed.sent == b"".join(kept)
        assert passed.way.withheld == len(frames) - len(kept)
    else:
        # An error in plain text is written in the protocol's form, and nothing follows it.
        plain = [
            place for place, frame in enumerate(frames) if frame.startswith(b"event: error") and not readable(frame)
        ]
        frames = frames[: plain[0]] if plain else frames
        before = b"".join(frame for frame in frames if readable(frame) and not unended(frame))
        assert passed.sent.startswith(before.rstrip(b"\r\n"))  # a blank line may wait for more, and is then dropped
        again = decoded(protocol, passed.sent)
        assert isinstance(again[-1], ev.Fault)


@pytest.mark.parametrize("protocol", PROTOCOLS)
@hypothesis.given(data=st.data())
@SETTINGS
def test_what_is_noted_is_what_a_full_decode_says(protocol: str, data: Any) -> None:
    body, reads = data.draw(streams(protocol))
    check(protocol, body, reads)


@pytest.mark.parametrize("protocol", PROTOCOLS)
@hypothesis.given(data=st.data())
@SETTINGS
def test_a_client_gets_the_same_bytes_over_a_connection(protocol: str, data: Any) -> None:
    """Writing from within the read's callback changes nothing."""
    _, reads = data.draw(streams(protocol))
    slow = st.lists(st.booleans(), max_size=8)
    sent, _ = asyncio.run(client_gets(reads, protocol, data.draw(slow), job_for(protocol)))
    passed = Passed(protocol, reads)
    if isinstance(passed.reply.end, ev.Finish):
        assert sent == passed.sent
    else:  # the error form of the gateway holds the time of the turn
        assert split(sent)[:-3] == split(passed.sent)[:-3]


X = {
    "error": sse({"error": {"message": "upstream exploded", "type": "server_error", "code": 500}}),
    "length": chat({"finish_reason": "length"}),
    "call": chat({
        "delta": {"tool_calls": [{"index": 0, "id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}]}
    }),
    "usage": sse({"id": "c", "choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 9, "total_tokens": 16}}),
    "second choice": chat({"index": 1, "delta": {"content": " two"}}),
}  # fmt: skip


@pytest.mark.parametrize("between", X)
def test_a_frame_between_two_texts_of_one_read_is_seen(between: str) -> None:
    one_read = 3 * said(" a") + X[between] + 3 * said(" b")
    reads = [CHAT_OPENING, *[said(" w")] * 5, one_read, chat({"finish_reason": "stop"}), b"data: [DONE]\n\n"]
    check("openai-chat", b"".join(reads), reads)
    passed = Passed("openai-chat", reads)
    end = passed.reply.end
    if between == "error":
        assert isinstance(end, ev.Fault)
        assert end.message == "upstream exploded"
    else:
        assert isinstance(end, ev.Finish)
        assert end.reason == {"length": "length", "call": "calls"}.get(between, "stop")
        assert (passed.reply.usage is not None) == (between == "usage")


@pytest.mark.parametrize("garbage", range(len(GARBAGE)))
@pytest.mark.parametrize("size", [1, 7, 100_000])
def test_garbage_is_withheld_and_counted(garbage: int, size: int) -> None:
    good = CHAT_OPENING + said(" a"), said(" b") + chat({"finish_reason": "stop"}) + b"data: [DONE]\n\n"
    body = good[0] + GARBAGE[garbage] + b": ping\n\n" + good[1]
    passed = Passed("openai-chat", [body[at : at + size] for at in range(0, len(body), size)])
    assert passed.sent == good[0] + b": ping\n\n" + good[1]
    assert passed.way.withheld == 1
    assert passed.reply.end == ev.Finish("stop", "stop")


KEY = "company-internal-credential-0123456789"


@pytest.mark.parametrize("size", [1, 50, 100_000])
@pytest.mark.parametrize("key", [KEY, "sk-ant-api03-abcdefghijklmnop"], ids=["by value", "by form"])
def test_a_credential_is_removed_from_an_error_and_nowhere_else(key: str, size: int) -> None:
    before = CHAT_OPENING + said(f" {key}")
    error = sse(
        {"error": {"message": f"Incorrect API key provided: {key}", "code": 401, "x": [1.5, None, "é"]}}, "error"
    )
    passed = Passed("openai-chat", _reads(before + error, size), (KEY,))
    assert passed.sent.startswith(before)
    rest = passed.sent[len(before) :]
    assert key.encode() not in rest
    assert rest.startswith(b"event: error\ndata: ")
    assert b'"code":401' in rest
    assert b"[1.5,null," in rest
    assert isinstance(passed.reply.end, ev.Fault)


def test_a_credential_is_found_behind_escapes() -> None:
    escaped = "".join(f"\\u{ord(letter):04x}" for letter in KEY)
    error = f'data: {{"error":{{"message":"bad key {escaped}"}}}}\n\n'.encode()
    passed = Passed("openai-chat", [CHAT_OPENING, error], (KEY,))
    assert escaped.encode() not in passed.sent
    assert KEY.encode() not in passed.sent


def test_an_error_without_a_credential_passes_as_it_is() -> None:
    error = b'data:  {"error" : {"message": "overloaded \\u00e9", "code": 503}}\r\n\r\n'
    passed = Passed("openai-chat", [CHAT_OPENING, error], (KEY,))
    assert passed.sent == CHAT_OPENING + error


def _reads(body: bytes, size: int) -> list[bytes]:
    return [body[at : at + size] for at in range(0, len(body), size)]
