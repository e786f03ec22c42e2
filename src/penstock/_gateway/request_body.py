"""Reads request bodies within limits of size and time, decompresses them, and converts large ones in a thread.

All bodies together are limited too. When they are too large, the largest incomplete one is refused with 503, so that
small requests pass beside clients that send much and never finish.
"""

from __future__ import annotations

import asyncio
import contextvars
import sys
import zlib
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from penstock._gateway.callers import make_refusal
from penstock._gateway.error_responses import SHUTTING_DOWN
from penstock.errors import StreamFault
from penstock.events import Fault

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, MutableMapping

    from penstock._gateway.byte_budget import ByteBudget, ConnectionBytes
    from penstock._gateway.endpoints import IncomingRequest
    from penstock._http.response_writer import CancellableTask

    Message = MutableMapping[str, Any]
    Receive = Callable[[], Awaitable[Message]]

BUDGET_FULL = Fault(
    "overloaded",
    "the gateway holds as many bytes of requests as serve.body_total allows; try again later",
    status=503,
    code="too_many_body_bytes",
    retry_after=1.0,
)
DECOMPRESS_STEP = 2**18  # bytes that are decompressed before other requests get a turn


async def read_request_body(
    incoming: IncomingRequest,
    receive: Receive,
    reading: CancellableTask,
    budget: ByteBudget,
    *,
    limit: int,
    patience: float,
) -> None:
    """Read the body of a request. It counts in the budget from its first byte until `release_body` is called.

    `reading` cancels it: from outside, or when the budget is full.
    """
    account = budget.connect(limit, limit)
    _limit_reading(account, reading)
    try:
        raw = await receive_body(receive, limit, patience, account)
        if "content-encoding" in incoming.headers:
            raw = await decompress(raw, incoming.headers["content-encoding"], limit, account)
        incoming.raw = raw
    except asyncio.CancelledError:
        if not reading.absorb_cancellation():
            raise
        raise StreamFault(reading.fault or SHUTTING_DOWN) from None
    finally:
        account.close()
    incoming.count_body(budget)


def _limit_reading(account: ConnectionBytes, reading: CancellableTask) -> None:
    """Stop the current task with `BUDGET_FULL` when all bodies are too large and this is the largest."""
    task = asyncio.current_task()

    def give_up() -> None:
        account.abandon()
        if asyncio.current_task() is not task:  # else `_charge_bytes` raises
            reading.cancel_with(BUDGET_FULL)

    account.give_up = give_up


async def receive_body(receive: Receive, limit: int, patience: float, account: ConnectionBytes | None = None) -> bytes:
    """Receive a whole body, or raise a refusal. `account` counts its bytes as they arrive."""
    try:
        async with asyncio.timeout(patience):
            return await _receive_chunks(receive, limit, account)
    except TimeoutError:
        raise make_refusal(408, "timeout", f"the body did not come within {patience:g} s") from None


async def _receive_chunks(receive: Receive, limit: int, account: ConnectionBytes | None) -> bytes:
    body, more = bytearray(), True  # not a list: a client may send its body byte by byte
    while more and len(body) <= limit:
        message = await receive()
        if message.get("type") == "http.disconnect":
            raise make_refusal(400, "invalid", "the connection ended before the body did", code="incomplete_body")
        chunk: bytes = message.get("body", b"")
        _charge_bytes(account, len(chunk))
        body += chunk
        more = message.get("more_body", False)
    if len(body) > limit:
        raise make_refusal(413, "too-large", f"the body is over {limit} bytes")
    return bytes(body)


async def decompress(data: bytes, encoding: str, limit: int, account: ConnectionBytes | None = None) -> bytes:
    """Decompress a body, up to the size limit."""
    name = encoding.strip().lower()
    if name in ("", "identity"):
        return data
    if name not in ("gzip", "x-gzip", "deflate"):
        reason = f"a body with the content-encoding {name[:40]!r} cannot be read: send it as it is, or by gzip"
        raise make_refusal(415, "invalid", reason, code="unsupported_content_encoding")
    unpack = zlib.decompressobj(47)  # 32 + 15: gzip or zlib
    pieces: list[bytes] = []
    size, start = 0, 0
    while start < len(data) and not unpack.eof:
        rest = data[start : start + DECOMPRESS_STEP]
        start += DECOMPRESS_STEP
        while rest and not unpack.eof:
            try:
                piece = unpack.decompress(rest, DECOMPRESS_STEP)
            except zlib.error:
                raise make_refusal(400, "invalid", f"the body is not {name}, as its content-encoding says") from None
            rest = unpack.unconsumed_tail
            size += len(piece)
            if size > limit:
                raise make_refusal(413, "too-large", f"the body is over {limit} bytes")
            _charge_bytes(account, len(piece))
            pieces.append(piece)
            if size > DECOMPRESS_STEP:
                await asyncio.sleep(0)
    if not unpack.eof:
        raise make_refusal(400, "invalid", f"the body ends before its {name} does")
    return b"".join(pieces)


def _charge_bytes(account: ConnectionBytes | None, size: int) -> None:
    if account is not None:
        account.arrive(size)
        if account.abandoned:
            raise StreamFault(BUDGET_FULL)


T = TypeVar("T")


class ConversionThread:
    """Converts large requests in one thread, so that the event loop stays free for small ones.

    Waiting work is dropped when its request is cancelled; running work is finished. A single call of the JSON parser
    still blocks the event loop, because it holds the interpreter lock.
    """

    def __init__(self) -> None:
        self._pool: ThreadPoolExecutor | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._slot = asyncio.Semaphore(1)
        self._modules = 0  # loaded when types were last built

    async def run(self, work: Callable[[], T]) -> T:
        """Run `work` in the thread, with the caller's context variables."""
        loop = asyncio.get_running_loop()
        if self._loop is not loop:  # a semaphore belongs to one loop
            self._loop, self._slot = loop, asyncio.Semaphore(1)
        if self._pool is None:
            self._pool = ThreadPoolExecutor(1, "penstock-conversion")
        if len(sys.modules) != self._modules:
            build_types()
            self._modules = len(sys.modules)
        slot = self._slot
        # The pool's queue would keep the bodies of cancelled requests.
        await slot.acquire()
        try:
            running = loop.run_in_executor(self._pool, contextvars.copy_context().run, partial(_call_safely, work))
        except BaseException:
            slot.release()
            raise
        running.add_done_callback(lambda _: slot.release())
        return await asyncio.shield(running)

    def close(self) -> None:
        """Wait for running work."""
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)
            self._pool = None


def _call_safely(work: Callable[[], T]) -> T:
    try:
        return work()
    except StopIteration as error:  # a future cannot hold it and would never finish
        raise RuntimeError("the conversion of a request stopped early") from error


def build_types() -> None:
    """Make msgspec build the types of all loaded Structs. At first use in two threads at once it may crash.

    Large requests are converted in a thread while others are converted on the event loop.
    """
    waiting: list[type[msgspec.Struct]] = [msgspec.Struct]
    seen: set[type[msgspec.Struct]] = set()
    while waiting:
        for one in type.__subclasses__(waiting.pop()):
            if one not in seen:
                seen.add(one)
                waiting.append(one)
    for one in seen:
        if one.__module__.partition(".")[0] == "penstock":
            with suppress(Exception):  # a type that cannot be built is never decoded
                msgspec.json.Decoder(one)
