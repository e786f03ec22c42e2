"""Reads a stream as the gateway does, by the fast path for text and without it, and writes what each gives for a client.

The only place of the tests that knows how the fast path is switched.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

from penstock import _delta_templates as delta_templates
from penstock._bridge import parser
from penstock._engines import reply_decoding
from penstock._engines.engine_interface import UpstreamRequest
from penstock._gateway.client_stream import Passthrough, Translation
from penstock._gateway.endpoints import TurnRequest
from penstock._providers.registry import providers
from penstock._text_runs import DELTAS, expand_runs
from penstock.errors import ProviderError
from penstock.request import Request
from tests.support import run_streams as running

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.framing import Frame

LIMIT = 64 << 20
KINDS = {"sse": "text/event-stream", "ndjson": "application/x-ndjson"}


def framing_of(source: str) -> str:
    return "ndjson" if running.row(source).reads == "ndjson" else "sse"


def job(source: str) -> UpstreamRequest:
    """A request whose answer speaks that protocol."""
    row = providers()["openai"]
    endpoint = row.endpoint("chat", "m")
    assert endpoint is not None
    endpoint = replace(endpoint, framing=framing_of(source))
    return UpstreamRequest(
        provider=row, endpoint=endpoint, operation="chat", model="m", protocol=source, url="", stream=True
    )


class Incoming:
    """An answer that is there already."""

    status = 200

    def __init__(self, chunks: Sequence[bytes], kind: str) -> None:
        self.headers = {"content-type": kind}
        self._chunks = iter(chunks)

    async def read(self) -> bytes:
        return next(self._chunks, b"")

    def close(self) -> None: ...


class Answer:
    """What one reading gave: the events of each read, what was noted, the error that broke it, and bytes for clients."""

    def __init__(
        self, source: str, chunks: Sequence[bytes], *, fast: bool, few: bool = False, limit: int = LIMIT
    ) -> None:
        self._source = source
        self._pairs: list[tuple[bytes, list[Any]]] = []
        self.error = ""
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(delta_templates, "enabled", fast)
            patch.setattr(reply_decoding, "parser", partial(parser, limit=limit))
            if few:  # a few frames take the fast path, too
                patch.setattr(delta_templates, "FEWEST_FRAMES", 1)
                patch.setattr(delta_templates, "FEWEST_BYTES", 0)
            asyncio.run(self._read(chunks))
        self.events = [expand_runs(batch) for _, batch in self._pairs]

    async def _read(self, chunks: Sequence[bytes]) -> None:
        incoming: Any = Incoming(chunks, KINDS[framing_of(self._source)])
        reading = reply_decoding.NativeSource(incoming, job(self._source))
        reading.decoder.ledger.seed = "seed"
        try:
            while (pair := await reading.read()) is not None:
                self._pairs.append(pair)
        except ProviderError as error:
            self.error = str(error)
        notes = [(row.code, row.count) for row in reading.diagnostics]
        self.notes = notes, reading.decoder.irregular, reading.decoder.malformed
        self.taken_fast = reading.decoder.templates.hits

    @property
    def deltas(self) -> int:
        return sum(type(event) in DELTAS for batch in self.events for event in batch)

    def write(self, target: str) -> list[bytes]:
        """What a client of that protocol gets for each read; a client of the source's own gets unchanged bytes."""
        asked = TurnRequest(Request(model="m"), target, framing=running.row(target).writes)
        passing = target == self._source and framing_of(target) == "sse"
        stage = Passthrough(asked) if passing else Translation(asked)
        return [*map(stage.feed, self._pairs), stage.finish()]


def compare(source: str, chunks: Sequence[bytes], targets: Sequence[str], limit: int = LIMIT) -> Answer:
    """Both ways give the same: events, notes, and bytes for every client."""
    fast, normal = (
        Answer(source, chunks, fast=True, few=True, limit=limit),
        Answer(source, chunks, fast=False, limit=limit),
    )
    assert Answer(source, chunks, fast=True, limit=limit).events == normal.events
    assert (fast.events, fast.notes, fast.error) == (normal.events, normal.notes, normal.error)
    for target in targets if not fast.error else ():
        assert fast.write(target) == normal.write(target), target
    return fast


def written(source: str, frames: Sequence[Frame], end: bytes = b"\n") -> bytes:
    """Frames as bytes, without a look at their data."""
    if framing_of(source) == "ndjson":
        return b"".join(data + b"\n" for _, data in frames)
    return b"".join(
        (b"event: %b%b" % (name, end) if name else b"") + b"data: " + data + 2 * end for name, data in frames
    )
