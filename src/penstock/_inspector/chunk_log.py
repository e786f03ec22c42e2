"""The chunks of an answer with their times, held in few objects.

Most answers come in hundreds of small reads. A few at a time are joined into a block: the small objects are freed while
the processor's cache still has them, and the garbage collector has less to visit.
"""

from __future__ import annotations

import time
from array import array
from itertools import chain
from typing import NamedTuple

BLOCK_CHUNKS = 32  # chunks of a block
LARGE = 4096  # bytes of a chunk that closes its block
CHUNK_OVERHEAD = 16  # bytes of memory per chunk, in addition to its data
_now = time.monotonic


class _Block(NamedTuple):
    """Chunks that are joined. `ends`: where each of them ends in `data`."""

    data: bytes
    ends: array[int]


class ChunkLog:
    """The chunks of one answer, in order. One thread adds; any thread may read meanwhile.

    `size`: bytes of memory of the closed blocks. `limit`: the bytes it may have. A block that exceeds it is dropped,
    `full` is set, and nothing follows.
    """

    full: bool = False
    size: int = 0

    def __init__(self, limit: int) -> None:
        self.limit: int = limit
        self._blocks: list[bytes | _Block] = []  # a chunk that is alone in its block is itself
        self._times = array("d")
        self._open: list[bytes] = []  # chunks that are in no block yet

    def add(self, data: bytes) -> int:
        """Adds a chunk. Returns `size` if it has changed, else 0. Runs for every read of every answer."""
        if self.full:
            return 0
        self._times.append(_now())
        chunks, length = self._open, len(data)
        if length > LARGE:  # a block of its own: it is not copied
            if chunks:
                self.close_block()
            size = self.size + length + CHUNK_OVERHEAD
            if size > self.limit:
                return self._fill()
            self._blocks.append(data)
            self.size = size
            return size
        chunks.append(data)
        return self.close_block() if len(chunks) >= BLOCK_CHUNKS else 0

    def close_block(self) -> int:
        """Joins the newest chunks into a block. Returns `size`."""
        chunks = self._open
        if not chunks:
            return self.size
        self._open = []  # before the block is added: a reader must not see its chunks twice
        block = chunks[0] if len(chunks) == 1 else _join(chunks)
        size = self.size + sum(map(len, chunks)) + CHUNK_OVERHEAD * len(chunks)
        if size > self.limit:
            return self._fill()
        self._blocks.append(block)
        self.size = size
        return size

    def _fill(self) -> int:
        """There is no room for a block, and a smaller one must not follow. Returns `size`."""
        self.full, self.limit = True, self.size
        return self.size

    # ── reading ───────────────────────────────────────────────────────────────────────────────────

    @property
    def last_time(self) -> float | None:
        """When the last chunk came, by the monotonic clock."""
        return self._times[-1] if self._times else None

    def count_bytes(self) -> int:
        """Returns the bytes of all chunks."""
        closed, chunks = self._read_closed()
        blocks = (block if isinstance(block, bytes) else block.data for block in self._blocks[:closed])
        return sum(map(len, chain(blocks, chunks)))

    def _read_closed(self) -> tuple[int, list[bytes]]:
        """Returns how many blocks are closed, and the chunks after them."""
        while True:
            newest = self._open
            chunks = newest.copy()  # before the count: the earlier block is added before the first of these chunks
            closed = len(self._blocks)
            if newest is self._open:  # no block was closed meanwhile
                return closed, chunks

    def chunks_from(self, start: int) -> list[tuple[float, bytes]]:
        """Returns the chunks from an index on, with their times by the monotonic clock."""
        closed, newest = self._read_closed()
        found: list[bytes] = []
        count = 0
        for block in self._blocks[:closed]:
            chunk_count = 1 if isinstance(block, bytes) else len(block.ends)
            if count + chunk_count > start:
                chunks = [block] if isinstance(block, bytes) else _split(block)
                found += chunks[max(0, start - count) :]
            count += chunk_count
        found += newest[max(0, start - count) :]
        return list(zip(self._times[start : start + len(found)], found, strict=True))


def _join(chunks: list[bytes]) -> _Block:
    ends, end = array("L"), 0
    for chunk in chunks:
        end += len(chunk)
        ends.append(end)
    return _Block(b"".join(chunks), ends)


def _split(block: _Block) -> list[bytes]:
    starts = (0, *block.ends)
    return [block.data[first:last] for first, last in zip(starts, block.ends, strict=False)]


def make_empty_log() -> ChunkLog:
    """Returns a log that takes no chunks: that of a dropped turn."""
    log = ChunkLog(0)
    log.full = True
    return log
