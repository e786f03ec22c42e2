"""The chunks of an answer with their times, held in few objects.

Most answers come in hundreds of small reads. A few at a time are joined into a block: the small objects are freed while
the processor's cache still has them, and the garbage collector has less to visit.
"""

from __future__ import annotations

import time
from array import array
from itertools import accumulate
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

if TYPE_CHECKING:
    from collections.abc import Sequence

BLOCK_CHUNKS = 32  # chunks of a block
LARGE = 4096  # bytes of a chunk, on average: chunks of larger blocks are not copied
CHUNK_OVERHEAD = 16  # bytes of memory per chunk, in addition to its data
_OPEN_ITEMS = 2 * BLOCK_CHUNKS  # items of the open block
_now = time.monotonic


class _Block(NamedTuple):
    """Chunks and their times. `data`: the chunks, or all of them joined; then `ends` tells where each of them ends."""

    times: Sequence[float]
    data: bytes | list[bytes]
    ends: Sequence[int] = ()


class ChunkLog(msgspec.Struct, eq=False):
    """The chunks of one answer, in order. One thread adds; any thread may read meanwhile.

    `size`: bytes of memory. `limit`: those that it may have. A chunk that exceeds it is dropped, `full` is set, and
    nothing follows. It is a structure because one is made for every turn, and a structure is made fastest.
    """

    limit: int
    size: int = 0
    full: bool = False
    _blocks: list[_Block] | None = None  # None: all chunks are open
    _open: list[Any] = []  # of the chunks that are in no block yet: the time and the data of each, in turn

    def add(self, data: bytes) -> int:
        """Adds a chunk. Returns `size`. Runs for every read of every answer."""
        size = self.size + len(data) + CHUNK_OVERHEAD
        if size > self.limit:
            self.full, self.limit = True, self.size  # a smaller chunk must not follow
            return self.size
        self.size = size
        opened = self._open
        opened += (_now(), data)
        if len(opened) >= _OPEN_ITEMS:
            self.close_block()
        return size

    def close_block(self) -> int:
        """Joins the newest chunks into a block; a chunk that is alone stays as it is. Returns `size`."""
        opened = self._open
        if len(opened) > 2:  # noqa: PLR2004 — the time and the data of one
            self._open = []  # before the block is added: a reader must not see its chunks twice
            block = _make_block(opened[::2], opened[1::2])
            if self._blocks is None:
                self._blocks = [block]
            else:
                self._blocks.append(block)
        return self.size

    # ── reading ───────────────────────────────────────────────────────────────────────────────────

    def _read_blocks(self) -> list[_Block]:
        """Returns all blocks; the last one has the chunks that are in none."""
        while True:
            newest = self._open
            opened = newest.copy()  # before the blocks: the earlier one is added before the first of these chunks
            blocks = list(self._blocks or ())
            if newest is self._open:  # no block was closed meanwhile
                return [*blocks, _Block(opened[::2], opened[1::2])]

    @property
    def last_time(self) -> float | None:
        """When the last chunk came, by the monotonic clock."""
        return next((block.times[-1] for block in reversed(self._read_blocks()) if block.times), None)

    def count_bytes(self) -> int:
        """Returns the bytes of all chunks."""
        return sum(map(_count_bytes, self._read_blocks()))

    def chunks_from(self, start: int, limit: int | None = None) -> list[tuple[float, bytes]]:
        """Returns the chunks from an index on, at most `limit`, with their times by the monotonic clock."""
        found: list[tuple[float, bytes]] = []
        count = 0
        for block in self._read_blocks():
            chunk_count = len(block.times)
            if count + chunk_count > start:
                first = max(0, start - count)
                found += zip(block.times[first:], _split(block)[first:], strict=True)
            count += chunk_count
            if limit is not None and len(found) >= limit:
                break
        return found[:limit]


def _make_block(times: list[float], chunks: list[bytes]) -> _Block:
    ends = array("L", accumulate(map(len, chunks)))
    if ends[-1] > LARGE * len(chunks):
        return _Block(array("d", times), chunks)
    return _Block(array("d", times), b"".join(chunks), ends)


def _split(block: _Block) -> list[bytes]:
    data, ends = block.data, block.ends
    if not isinstance(data, bytes):
        return data
    return [data[first:last] for first, last in zip((0, *ends), ends, strict=False)]


def _count_bytes(block: _Block) -> int:
    return len(block.data) if isinstance(block.data, bytes) else sum(map(len, block.data))


def make_empty_log() -> ChunkLog:
    """Returns a log that takes no chunks: that of a dropped turn."""
    return ChunkLog(0, full=True)
