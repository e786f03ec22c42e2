"""The body of a request, within its bounds of size and time; unpacked, where it came packed."""

from __future__ import annotations

import asyncio
import zlib
from typing import TYPE_CHECKING, Any

from penstock.gateway.access import refused

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, MutableMapping

    Message = MutableMapping[str, Any]
    Receive = Callable[[], Awaitable[Message]]


async def body_of(receive: Receive, limit: int, patience: float) -> bytes:
    """All of it, or a refusal."""
    message = await receive()
    _check_present(message)
    first: bytes = message.get("body", b"")
    if not message.get("more_body") and len(first) <= limit:
        return first
    try:
        async with asyncio.timeout(patience):
            return await _rest(receive, message, first, limit)
    except TimeoutError:
        raise refused(408, "timeout", f"the body did not come within {patience:g} s") from None


def unpacked(data: bytes, encoding: str, limit: int) -> bytes:
    """A body that was sent packed, as large as it may be and no larger."""
    name = encoding.strip().lower()
    if name in ("", "identity"):
        return data
    if name not in ("gzip", "x-gzip", "deflate"):
        said = f"a body with the content-encoding {name[:40]!r} cannot be read: send it as it is, or by gzip"
        raise refused(415, "invalid", said, code="unsupported_content_encoding")
    unpack = zlib.decompressobj(47)  # 32 + 15: gzip or zlib, whichever it is
    try:
        made = unpack.decompress(data, limit + 1)
    except zlib.error:
        raise refused(400, "invalid", f"the body is not {name}, as its content-encoding says") from None
    if len(made) > limit:
        raise refused(413, "too-large", f"the body is over {limit} bytes")
    if not unpack.eof:
        raise refused(400, "invalid", f"the body ends before its {name} does")
    return made


async def _rest(receive: Receive, message: Message, first: bytes, limit: int) -> bytes:
    pieces, size = [first], len(first)
    while message.get("more_body") and size <= limit:
        message = await receive()
        _check_present(message)
        pieces.append(message.get("body", b""))
        size += len(pieces[-1])
    if size > limit:
        raise refused(413, "too-large", f"the body is over {limit} bytes")
    return b"".join(pieces)


def _check_present(message: Message) -> None:
    """Raise if the client has left: what came of its body is not the request that it meant."""
    if message.get("type") == "http.disconnect":
        raise refused(400, "invalid", "the connection ended before the body did", code="incomplete_body")
