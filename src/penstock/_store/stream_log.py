"""Logs of running streams: the bytes that a client gets, so that others can follow a stream and resume it.

A position in a stream is the number of bytes before it. A log holds whole frames: what is appended begins and ends
between two frames. A stream belongs to a tenant, is bounded in bytes, and is dropped some time after its end.
"""

from __future__ import annotations

import asyncio
import time
from bisect import bisect_right
from collections import OrderedDict
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

MIB = 2**20
MAX_STREAM_BYTES = 32 * MIB  # of one stream
MAX_LOG_BYTES = 256 * MIB  # of all streams in this process
KEEP = 300.0  # seconds after the end of a stream
PAGE_BYTES = 64 * 1024  # after which a page ends; a page has at least one append
# "": it runs. finished: its last frame is in the log. overflow: it was longer than the log allows, and its bytes were
# dropped. lost: the process that made it has died, or its bytes are gone. deleted: somebody has deleted it.
StreamState = Literal["", "finished", "overflow", "lost", "deleted"]


class LogPage(NamedTuple):
    """Some bytes of a stream, and the position after them. `state` is set if nothing follows them."""

    data: bytes
    position: int
    state: StreamState = ""


class Deletion(NamedTuple):
    """A stream that was deleted, and the position of this notice."""

    position: str
    tenant: str
    id: str


class LogReader(Protocol):
    """Reads one stream. Readers do not disturb each other: a slow one only falls behind."""

    head: bytes
    state: StreamState  # when it was opened
    is_local: bool  # it is a stream of this process

    async def read(self, position: int, wait: float) -> LogPage:
        """Returns the bytes after a position; an empty page if there are none in `wait` seconds.

        Raises `StoreUnavailable` if the log cannot be read.
        """
        ...


class LogWriter(Protocol):
    """Writes one stream. No call waits."""

    def when_cancelled(self, action: Callable[[], None]) -> None:
        """Sets what is called if somebody cancels the stream."""
        ...

    def append(self, data: bytes) -> bool:
        """Adds whole frames. False: the stream is too long, and nothing of it is held any more."""
        ...

    def finish(self) -> None:
        """Marks the stream as complete."""
        ...


class StreamLog(Protocol):
    """All streams. `head` is what readers need to know before they read; `name` is another name of the newest one."""

    def begin(self, tenant: str, id: str, head: bytes, name: str = "") -> LogWriter: ...
    async def find(self, tenant: str, name: str) -> str | None:
        """Returns the id of the newest stream of a name."""
        ...

    async def open(self, tenant: str, id: str) -> LogReader | None:
        """Returns a reader; None if the tenant has no such stream. Raises `StoreUnavailable`.

        The state of a stream that was deleted may be "deleted" for some time. It then has no head and no bytes.
        """
        ...

    async def cancel(self, tenant: str, id: str) -> None:
        """Asks whoever makes a stream to end it."""
        ...

    async def drop(self, tenant: str, id: str) -> None:
        """Deletes a stream at once, for all processes."""
        ...

    async def read_deletions(self, after: str) -> list[Deletion]:
        """Returns what processes have deleted after a position, the oldest first. Raises `StoreUnavailable`.

        Only for processes that do not share what they store besides.
        """
        ...

    async def flush(self) -> None:
        """Waits until other processes can see what was written."""
        ...

    async def aclose(self) -> None: ...


class MemoryStream:
    """A stream in memory: its writer and its reader."""

    is_local = True
    __slots__ = ("_changed", "_chunks", "_ends", "_log", "head", "key", "on_cancel", "size", "state")

    def __init__(self, log: MemoryStreamLog, key: tuple[str, str], head: bytes) -> None:
        self.head, self.key, self.size = head, key, 0
        self.state: StreamState = ""
        self.on_cancel: Callable[[], None] | None = None
        self._log = log
        self._chunks: list[bytes] = []
        self._ends: list[int] = []  # the position after each chunk
        self._changed: asyncio.Event | None = None  # set once there is more; None if nobody waits

    def when_cancelled(self, action: Callable[[], None]) -> None:
        self.on_cancel = action

    def append(self, data: bytes) -> bool:
        if self.state or not data:
            return not self.state
        if not self._log.allow(self.size, len(data)):
            self._end("overflow")
            return False
        self.size += len(data)
        self._chunks.append(data)
        self._ends.append(self.size)
        self._wake()
        return True

    def finish(self) -> None:
        if not self.state:
            self._end("finished")

    def page(self, position: int) -> LogPage:
        """Returns what follows a position."""
        index, size = bisect_right(self._ends, position), 0
        found: list[bytes] = []
        for chunk in self._chunks[index : index + PAGE_BYTES]:
            found.append(chunk)
            size += len(chunk)
            if size >= PAGE_BYTES:
                break
        if found:
            start = self._ends[index] - len(found[0])
            found[0] = found[0][max(position - start, 0) :]
        is_last = index + len(found) >= len(self._chunks)
        after = self._ends[index + len(found) - 1] if found else position
        return LogPage(b"".join(found), after, self.state if is_last else "")

    async def read(self, position: int, wait: float) -> LogPage:
        if position >= self.size and not self.state:
            self._changed = self._changed or asyncio.Event()
            try:
                await asyncio.wait_for(self._changed.wait(), wait)
            except TimeoutError:
                return LogPage(b"", position)
        return self.page(position)

    def drop(self, state: StreamState) -> int:
        """Drops the bytes, and returns their number."""
        freed = sum(map(len, self._chunks))
        self._chunks, self._ends, self.state = [], [], state
        self._wake()
        return freed

    def _end(self, state: StreamState) -> None:
        self.state = state
        self._log.end(self)
        self._wake()

    def _wake(self) -> None:
        if self._changed is not None:
            self._changed.set()
            self._changed = None


class MemoryStreamLog:
    """A `StreamLog` in memory. `size`: bytes of one stream; `total`: bytes of all; `keep`: seconds after the end.

    Over the total, the streams that ended first are dropped. If only running streams are left, the one that grows
    overflows.
    """

    def __init__(
        self,
        *,
        size: int = MAX_STREAM_BYTES,
        total: int = MAX_LOG_BYTES,
        keep: float = KEEP,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.keep = keep
        self._size, self._total, self._clock = size, total, clock
        self._used = 0
        self._streams: dict[tuple[str, str], MemoryStream] = {}
        self._ids: dict[tuple[str, str], str] = {}  # tenant and name → id
        self._names: dict[tuple[str, str], str] = {}  # tenant and id → name
        self._ended: OrderedDict[tuple[str, str], float] = OrderedDict()  # when each stream expires

    def __len__(self) -> int:
        return len(self._streams)

    def begin(self, tenant: str, id: str, head: bytes, name: str = "") -> MemoryStream:
        self._expire()
        stream = self._streams[tenant, id] = MemoryStream(self, (tenant, id), head)
        if name:
            self._ids[tenant, name] = id
            self._names[tenant, id] = name
        return stream

    async def find(self, tenant: str, name: str) -> str | None:
        self._expire()
        return self._ids.get((tenant, name))

    def get(self, tenant: str, id: str) -> MemoryStream | None:
        """Returns a stream that is not expired."""
        self._expire()
        return self._streams.get((tenant, id))

    async def open(self, tenant: str, id: str) -> LogReader | None:
        return self.get(tenant, id)

    async def cancel(self, tenant: str, id: str) -> None:
        stream = self.get(tenant, id)
        if stream is not None and not stream.state and stream.on_cancel is not None:
            stream.on_cancel()

    async def drop(self, tenant: str, id: str) -> None:
        await self.cancel(tenant, id)
        if (tenant, id) in self._streams:
            self._drop((tenant, id), "deleted")

    async def read_deletions(self, after: str) -> list[Deletion]:
        """There are no other processes."""
        return []

    async def flush(self) -> None:
        """Nobody else can see this memory."""

    async def aclose(self) -> None:
        for key in list(self._streams):
            self._drop(key, "lost")

    # ── for streams ───────────────────────────────────────────────────────────────────────────────

    def allow(self, size: int, more: int) -> bool:
        """Counts the bytes that a stream grows by. False if they are too many."""
        if size + more > self._size:
            return False
        while self._used + more > self._total and self._ended:
            self._drop(next(iter(self._ended)), "lost")
        if self._used + more > self._total:
            return False
        self._used += more
        return True

    def end(self, stream: MemoryStream) -> None:
        """Notes that a stream has ended. The bytes of one that is too long are dropped at once."""
        stream.on_cancel = None
        self._ended[stream.key] = self._clock() + self.keep
        if stream.state == "overflow":
            self._used -= stream.drop("overflow")
        self._expire()

    def _expire(self) -> None:
        now = self._clock()
        while self._ended and next(iter(self._ended.values())) <= now:
            self._drop(next(iter(self._ended)), "lost")

    def _drop(self, key: tuple[str, str], state: StreamState) -> None:
        self._ended.pop(key, None)
        stream = self._streams.pop(key)
        named = (key[0], self._names.pop(key, ""))
        if self._ids.get(named) == key[1]:
            del self._ids[named]
        self._used -= stream.drop(stream.state if stream.state == "overflow" else state)
