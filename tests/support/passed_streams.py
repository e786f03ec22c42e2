"""Streams passed through without a socket: the client's bytes, the events that were noted, and a full decode beside it."""

from __future__ import annotations

import asyncio
from typing import Any, ClassVar, cast

from penstock import _protocols as protocols
from penstock import events as ev
from penstock._bridge import parser
from penstock._engines.engine_interface import DecisionLog, UpstreamRequest
from penstock._engines.reply import PREAMBLE, ModelReply
from penstock._engines.reply_decoding import NativeSource
from penstock._gateway.client_stream import Passthrough, client_stream
from penstock._gateway.endpoints import TurnRequest
from penstock._grammar import Guard
from penstock._providers.registry import providers
from penstock._text_runs import expand_runs
from penstock.request import Request
from tests.support import stream_frames
from tests.support.relayed_streams import client_gets
from tests.support.stream_frames import PROTOCOLS, readable, split, unended

__all__ = ["PREAMBLE", "Passed", "check_passed", "written_from_callback"]

ENDS = (ev.Finish, ev.Fault)


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


def check_passed(protocol: str, body: bytes, reads: list[bytes]) -> None:
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


def written_from_callback(protocol: str, reads: list[bytes], taken: list[bool]) -> bytes:
    """What a client gets that writes from within the callback of each read. `taken`: whether it could take a push."""
    return asyncio.run(client_gets(reads, protocol, taken, job_for(protocol)))[0]
