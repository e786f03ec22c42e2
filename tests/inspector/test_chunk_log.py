"""The chunks of an answer: joined in memory, and read as they came."""

from __future__ import annotations

import sys
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock._inspector.chunk_log import BLOCK_CHUNKS, LARGE, ChunkLog, make_empty_log

CHUNKS = st.lists(st.one_of(st.binary(max_size=20), st.sampled_from([b"x" * LARGE, b"y" * (LARGE + 1)])), max_size=90)


@given(CHUNKS, st.integers(0, 100), st.sets(st.integers(0, 90)))
def test_chunks_are_read_as_they_came(chunks: list[bytes], start: int, closings: set[int]) -> None:
    log = ChunkLog(2**20)
    for number, chunk in enumerate(chunks):
        log.add(chunk)
        if number in closings:
            log.close_block()
    found = log.chunks_from(start)
    assert [chunk for _, chunk in found] == chunks[start:]
    assert [log.chunks_from(start, limit) for limit in range(5)] == [found[:limit] for limit in range(5)]
    assert [at for at, _ in found] == sorted(at for at, _ in found)
    assert log.count_bytes() == sum(map(len, chunks))
    assert (log.last_time is None) == (not chunks)


def test_a_chunk_beyond_the_limit_is_dropped_and_none_follows() -> None:
    log = ChunkLog(2_000)
    for number in range(4 * BLOCK_CHUNKS):
        log.add(b"%04d" % number * 5)
    log.add(b"")  # is small enough for what is left
    kept = [chunk for _, chunk in log.chunks_from(0)]
    assert log.full
    assert kept == [b"%04d" % number * 5 for number in range(len(kept))]
    assert 2_000 - 36 < log.size <= 2_000
    before = log.size
    assert log.add(b"late") == before
    assert len(log.chunks_from(0)) == len(kept)


def test_an_empty_log_takes_nothing() -> None:
    log = make_empty_log()
    assert not log.add(b"x")
    assert log.full
    log.close_block()
    assert log.chunks_from(0) == []
    assert log.count_bytes() == 0


@pytest.mark.slow
def test_another_thread_reads_each_chunk_once_while_they_come() -> None:
    """Between two looks blocks are closed: none of their chunks may be missing, or there twice."""
    log, count, started = ChunkLog(2**30), 200_000, threading.Event()

    def write() -> None:
        started.wait(10)
        for number in range(count):
            log.add(b"%d" % number)

    writer = threading.Thread(target=write)
    writer.start()
    started.set()
    read: list[bytes] = []
    while len(read) < count:
        read += [chunk for _, chunk in log.chunks_from(len(read))]
        assert read[-1:] == ([b"%d" % (len(read) - 1)] if read else [])
    writer.join(10)
    assert read == [b"%d" % number for number in range(count)]


def test_small_chunks_leave_few_objects() -> None:
    """They are copied into blocks: the log holds none of them."""
    log, chunks = ChunkLog(2**20), [bytes([number % 256]) * 50 for number in range(BLOCK_CHUNKS * 10)]
    held = [sys.getrefcount(chunk) for chunk in chunks]
    for number in range(len(chunks)):
        log.add(chunks[number])
    assert [sys.getrefcount(chunk) for chunk in chunks] == held
