"""The body of a request, within its bounds of size and time; unpacked, where it came packed.

All bodies together are bounded too. When they are too large, the largest of those that are not whole is refused with
503: small requests pass beside clients that send much and never finish.
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

from penstock.errors import StreamFault
from penstock.events import Fault
from penstock.gateway.callers import refused
from penstock.gateway.error_responses import STOPPING

if TYPE_CHECKING:
    from collections.abc import Callable

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, MutableMapping

    from penstock.gateway.byte_budget import ByteBudget, ConnectionBytes
    from penstock.gateway.endpoints import Visit
    from penstock.http.disconnect import Stoppable

    Message = MutableMapping[str, Any]
    Receive = Callable[[], Awaitable[Message]]

FULL = Fault(
    "overloaded", "the gateway holds as many bytes of requests as serve.body_total allows; try again later", status=503,
    code="too_many_body_bytes", retry_after=1.0,
)  # fmt: skip
PIECE = 2**18  # bytes that are unpacked at once, so that other requests go on meanwhile


async def read_into(
    visit: Visit, receive: Receive, reading: Stoppable, budget: ByteBudget, *, limit: int, patience: float
) -> None:
    """Read the body of a visit. It counts in the budget from its first byte until `Visit.forget_body` is called.

    `reading` ends it, from outside or when the budget is used up.
    """
    account = budget.connect(limit, limit)
    _limit_reading(account, reading)
    try:
        raw = await body_of(receive, limit, patience, account)
        if "content-encoding" in visit.headers:
            raw = await unpacked(raw, visit.headers["content-encoding"], limit, account)
        visit.raw = raw
    except asyncio.CancelledError:
        if not reading.caught():
            raise
        raise StreamFault(reading.fault or STOPPING) from None
    finally:
        account.close()
    visit.count_body(budget)


def _limit_reading(account: ConnectionBytes, reading: Stoppable) -> None:
    """Have the current task stop reading, with `FULL`, when all bodies are too large and this is the largest."""
    task = asyncio.current_task()

    def give_up() -> None:
        account.abandon()
        if asyncio.current_task() is not task:  # else `_charge` raises
            reading.end_with(FULL)

    account.give_up = give_up


async def body_of(receive: Receive, limit: int, patience: float, account: ConnectionBytes | None = None) -> bytes:
    """All of it, or a refusal. `account` counts its bytes as they come."""
    try:
        async with asyncio.timeout(patience):
            return await _body(receive, limit, account)
    except TimeoutError:
        raise refused(408, "timeout", f"the body did not come within {patience:g} s") from None


async def _body(receive: Receive, limit: int, account: ConnectionBytes | None) -> bytes:
    message = await receive()
    _check_present(message)
    first: bytes = message.get("body", b"")
    _charge(account, len(first))
    if not message.get("more_body") and len(first) <= limit:
        return bytes(first)
    made = bytearray(first)  # not a list: a client may send its body byte by byte
    while message.get("more_body") and len(made) <= limit:
        message = await receive()
        _check_present(message)
        piece: bytes = message.get("body", b"")
        _charge(account, len(piece))
        made += piece
    if len(made) > limit:
        raise refused(413, "too-large", f"the body is over {limit} bytes")
    return bytes(made)


async def unpacked(data: bytes, encoding: str, limit: int, account: ConnectionBytes | None = None) -> bytes:
    """A body that was sent packed, as large as it may be and no larger."""
    name = encoding.strip().lower()
    if name in ("", "identity"):
        return data
    if name not in ("gzip", "x-gzip", "deflate"):
        said = f"a body with the content-encoding {name[:40]!r} cannot be read: send it as it is, or by gzip"
        raise refused(415, "invalid", said, code="unsupported_content_encoding")
    unpack = zlib.decompressobj(47)  # 32 + 15: gzip or zlib, whichever it is
    pieces: list[bytes] = []
    size, start = 0, 0
    while start < len(data) and not unpack.eof:
        rest = data[start : start + PIECE]
        start += PIECE
        while rest and not unpack.eof:
            try:
                piece = unpack.decompress(rest, PIECE)
            except zlib.error:
                raise refused(400, "invalid", f"the body is not {name}, as its content-encoding says") from None
            rest = unpack.unconsumed_tail
            size += len(piece)
            if size > limit:
                raise refused(413, "too-large", f"the body is over {limit} bytes")
            _charge(account, len(piece))
            pieces.append(piece)
            if size > PIECE:
                await asyncio.sleep(0)
    if not unpack.eof:
        raise refused(400, "invalid", f"the body ends before its {name} does")
    return b"".join(pieces)


def _charge(account: ConnectionBytes | None, size: int) -> None:
    if account is not None:
        account.arrive(size)
        if account.abandoned:
            raise StreamFault(FULL)


def _check_present(message: Message) -> None:
    """Raise if the client has left: what came of its body is not the request that it meant."""
    if message.get("type") == "http.disconnect":
        raise refused(400, "invalid", "the connection ended before the body did", code="incomplete_body")


T = TypeVar("T")
LARGE = 256 * 1024  # bytes of a body: to read a smaller one takes less than a thread does harm


class ConversionThread:
    """One thread. Work that waits for it is forgotten when its request is cancelled; work that runs is finished."""

    def __init__(self) -> None:
        self._pool: ThreadPoolExecutor | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._slot = asyncio.Semaphore(1)
        self._modules = 0  # that were loaded when types were built

    async def run(self, work: Callable[[], T]) -> T:
        """What `work` gives or raises. It sees the context variables of the caller."""
        loop = asyncio.get_running_loop()
        if self._loop is not loop:  # a semaphore belongs to one
            self._loop, self._slot = loop, asyncio.Semaphore(1)
        if self._pool is None:
            self._pool = ThreadPoolExecutor(1, "penstock-conversion")
        if len(sys.modules) != self._modules:
            build_types()
            self._modules = len(sys.modules)
        slot = self._slot
        # Not left to the pool's own queue, which would hold the bodies of cancelled requests.
        await slot.acquire()
        try:
            running = loop.run_in_executor(self._pool, contextvars.copy_context().run, partial(_finished, work))
        except BaseException:
            slot.release()
            raise
        running.add_done_callback(lambda _: slot.release())
        return await asyncio.shield(running)

    def close(self) -> None:
        """Wait for what runs."""
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)
            self._pool = None


def _finished(work: Callable[[], T]) -> T:
    try:
        return work()
    except StopIteration as error:  # a future cannot hold one, and would never be done
        raise RuntimeError("the conversion of a request stopped early") from error


def build_types() -> None:
    """Have msgspec build what it knows of every Struct that is loaded. It does so at first use, and may crash there.

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
            with suppress(Exception):  # what cannot be built is never read either
                msgspec.json.Decoder(one)
