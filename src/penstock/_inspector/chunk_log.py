"""The chunks of an answer with their times, held in few objects.

Most answers come in hundreds of small reads. A few at a time are joined into a block: the small objects are freed while
the processor's cache still has them, and the garbage collector has less to visit.
"""

from __future__ import annotations

import time
from array import array
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
    and `full` is set.
    """

    __slots__ = ("_blocks", "_closed", "_open", "_times", "full", "limit", "received", "size")

    def __init__(self, limit: int) -> None:
        self.limit: int = limit
        self.full: bool = False
        self.size: int = 0
        self.received: int = 0  # bytes of data in closed blocks
        self._blocks: list[bytes | _Block] = []  # a chunk that is alone in its block is itself
        self._times = array("d")
        self._open: list[bytes] = []  # chunks that are in no block yet
        # Closed blocks, and the chunks after them: replaced as one, for other threads. None: no block is closed.
        self._closed: tuple[int, list[bytes]] | None = None

    def add(self, data: bytes) -> bool:
        """Adds a chunk. True if a block was closed, so that `size` has changed. Runs for every read of every answer."""
        if self.full:
            return False
        chunks, length = self._open, len(data)
        self._times.append(_now())
        size = self.size + length + CHUNK_OVERHEAD
        if length > LARGE and not chunks and size <= self.limit:  # a block of its own, at once
            self.size = size
            self.received += length
            self._blocks.append(data)
            self._closed = (len(self._blocks), chunks)
            return True
        chunks.append(data)
        if length > LARGE or len(chunks) >= BLOCK_CHUNKS:
            self.close_block()
            return True
        return False

    def close_block(self) -> None:
        """Joins the newest chunks into a block."""
        chunks = self._open
        if not chunks:
            return
        chunk_count = len(chunks)
        block = chunks[0] if chunk_count == 1 else _join(chunks)
        received = len(block) if isinstance(block, bytes) else len(block.data)
        size = self.size + received + CHUNK_OVERHEAD * chunk_count
        if size > self.limit:
            self.full = True
        else:
            self.size = size
            self.received += received
            self._blocks.append(block)
        self._open = []
        self._closed = (len(self._blocks), self._open)

    # ── reading ───────────────────────────────────────────────────────────────────────────────────

    @property
    def last_time(self) -> float | None:
        """When the last chunk came, by the monotonic clock."""
        return self._times[-1] if self._times else None

    def count_bytes(self) -> int:
        """Returns the bytes of all chunks."""
        received, (_, chunks) = self.received, self._read_closed()
        return received + sum(map(len, list(chunks)))

    def _read_closed(self) -> tuple[int, list[bytes]]:
        newest = self._open  # read first: if a block is closed meanwhile, `_closed` has the list that counts
        return self._closed or (0, newest)

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
