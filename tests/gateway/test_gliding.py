"""Chunks of one more word glide from the read to the write: what a client gets is what the long way would have given."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, cast

import hypothesis
import pytest
from hypothesis import strategies as st

from penstock.engines.connection import Connection
from penstock.engines.direct import parsing
from penstock.engines.incoming import Incoming
from penstock.engines.options import Timeouts
from penstock.engines.reading import Reading
from penstock.engines.record import Record
from penstock.engines.reply import Reply
from penstock.gateway import writing
from penstock.gateway.doors.door import Asked
from penstock.gateway.keeping import Keeping
from penstock.gateway.outlet import Outlet
from penstock.gateway.passthrough import client_stream
from penstock.gateway.streaming import Streaming
from penstock.messages.state import text_key
from penstock.request import Request, Text
from tests.gateway.stream_frames import readable, split
from tests.gateway.test_short_ways import OPENING, batches, chat_job
from tests.test_alike import LINES, frame

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.engines.express import Lane
    from penstock.engines.job import Job

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
LAST = b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'


class Ways:
    """What a connection asks of whoever keeps it: here nobody does."""

    web: Any = None
    tools = parsing()

    def put(self, *_: Any) -> None: ...
    def forget(self, *_: Any) -> None: ...


class Wire:
    """The other end of a connection, which is never slow and never closed."""

    def pause_reading(self) -> None: ...
    def resume_reading(self) -> None: ...
    def abort(self) -> None: ...
    def close(self) -> None: ...


class Stays:
    """A client that does not leave."""

    def ending(self) -> None: ...


class Counted(Streaming):
    """A stream that tells how many of its chunks glided."""

    glided = 0

    def _glide(self, lane: Lane, otherwise: Callable[[bytes], bool]) -> Callable[[bytes], bool] | None:
        def counted(chunk: bytes) -> bool:
            self.glided += 1
            return quick(chunk) if quick is not None else False

        def other(chunk: bytes) -> bool:
            self.glided -= 1
            return otherwise(chunk)

        quick = super()._glide(lane, other)
        return counted if quick is not None else None


class Written:
    """The line of a client that cannot always take more; `said` is what it was given."""

    lost = False

    def __init__(self, said: list[bytes], taken: list[bool]) -> None:
        self.flow, self._said, self._taken = self, said, iter(taken)

    @property
    def write_paused(self) -> bool:
        return not next(self._taken, True)

    def push(self, data: bytes) -> bool:
        if self.write_paused:
            return False
        self._said.append(data)
        return True

    def bare(self, framed: bytes) -> None:
        size, _, rest = framed.partition(b"\r\n")
        assert rest[-2:] == b"\r\n"
        assert len(rest) - 2 == int(size, 16)
        self._said.append(rest[:-2])

    def speaks(self, send: Any) -> bool:
        return False


async def client_gets(
    chunks: list[bytes], target: str, taken: list[bool], job: Job | None = None
) -> tuple[bytes, int, Keeping]:
    """What a client gets of chunks that come one by one, how many of them glided, and what was kept.

    `taken` says of each push whether the client could take it at once.
    """
    connection = Connection(cast("Any", Ways()), ())
    connection.connection_made(Wire())
    connection.data_received(HEAD)
    loop = asyncio.get_running_loop()
    limits = Timeouts()
    job = job or chat_job()
    reading = Reading(Incoming(connection, limits, loop, loop.time()), job)
    reply = Reply(reading, job, Record("m"), "native")
    said: list[bytes] = []

    async def send(message: Any) -> None:
        said.append(message.get("body", b""))

    line: Any = Written(said, taken)
    out = Outlet(send, cast("Any", Stays()), every=0, limit=1, line=line)
    out.prepare("sse", ())
    kept = Keeping()
    asked = Asked(Request(model="m"), target)
    way = client_stream(asked, reply)
    stream = Counted(reply, way, out, kept=kept, tap=None, tape=None)
    task = loop.create_task(stream.run())
    for chunk in chunks:
        connection.data_received(b"%x\r\n%b\r\n" % (len(chunk), chunk))
        for _ in range(4):  # a reader that waits goes on
            await asyncio.sleep(0)
    connection.data_received(b"0\r\n\r\n")
    await asyncio.wait_for(task, 10)
    assert out.size == len(b"".join(said))
    return b"".join(said), stream.glided, kept


def long_way(chunks: list[bytes], target: str) -> bytes:
    """The same by stages alone."""
    asked = Asked(Request(model="m"), target)
    if target == "openai-chat":
        return b"".join(frame for chunk in chunks for frame in split(chunk) if readable(frame))
    way = writing.Translation(asked)
    return b"".join(way.feed((b"", batch)) for batch in batches(chunks, short=False)) + way.finish()


@pytest.mark.parametrize("target", ["anthropic", "openai-chat", "responses"])
@hypothesis.given(st.lists(LINES, max_size=20), st.lists(st.booleans(), max_size=12))
@hypothesis.settings(deadline=None)
def test_a_client_gets_the_same(target: str, said: list[str], taken: list[bool]) -> None:
    chunks = [OPENING] * 5 + [b"data: " + frame(text) + b"\n\n" for text in said] + [OPENING, OPENING, LAST]
    made, _, kept = asyncio.run(client_gets(chunks, target, taken))
    assert made == long_way(chunks, target)
    texts = [event.text for batch in batches(chunks, short=False) for event in batch if hasattr(event, "text")]
    kept.events()
    assert kept.said.key == text_key([Text(text="".join(texts))])


@pytest.mark.parametrize("target", ["anthropic", "openai-chat"])
def test_most_words_glide(target: str) -> None:
    words = [b"data: " + frame(f" word {number} é") + b"\n\n" for number in range(100)]
    _, glided, _ = asyncio.run(client_gets([OPENING] * 5 + words + [LAST], target, []))
    assert glided >= 95
