"""The body of a request, within its bounds of size and time."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from penstock.gateway.access import refused

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, MutableMapping

    Message = MutableMapping[str, Any]
    Receive = Callable[[], Awaitable[Message]]


async def body_of(receive: Receive, limit: int, patience: float) -> bytes:
    """All of it, or a refusal."""
    message = await receive()
    first: bytes = message.get("body", b"")
    if not message.get("more_body") and len(first) <= limit:
        return first
    try:
        async with asyncio.timeout(patience):
            return await _rest(receive, message, first, limit)
    except TimeoutError:
        raise refused(408, "timeout", f"the body did not come within {patience:g} s") from None


async def _rest(receive: Receive, message: Message, first: bytes, limit: int) -> bytes:
    pieces, size = [first], len(first)
    while message.get("more_body") and size <= limit:
        message = await receive()
        pieces.append(message.get("body", b""))
        size += len(pieces[-1])
    if size > limit:
        raise refused(413, "too-large", f"the body is over {limit} bytes")
    return b"".join(pieces)
