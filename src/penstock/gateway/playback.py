"""Recordings played back: byte for byte, at the speed they came or at once; to a pipe, or as a server's answers.

As a server it stands in for the provider that was recorded: clients and gateways can be pointed at it. Leans on
`store.recordings`; reads nothing of what is asked but to find the recording that was asked the same.
"""

from __future__ import annotations

import asyncio
import itertools
from typing import TYPE_CHECKING, Any

import msgspec

from penstock.http.header_fields import is_token, response_header
from penstock.json_depth import NestingError, decode_bounded
from penstock.secrecy import hide_values

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from penstock.store.recordings import Recording

BODY = 64 * 2**20
JSON = (b"content-type", b"application/json")
# What belongs to the connection that was recorded, or to an encoding that is gone.
_NOT = frozenset({
    "connection", "content-encoding", "content-length", "date", "keep-alive", "server", "set-cookie", "trailer",
    "transfer-encoding", "upgrade",
})  # fmt: skip


async def timed(recording: Recording, speed: float) -> AsyncIterator[bytes]:
    """The chunks, each at its time. `speed` 2 is twice as fast; 0 waits for nothing."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    for at, chunk in recording.chunks:
        wait = began + at / speed - loop.time() if speed else 0.0
        if wait > 0:
            await asyncio.sleep(wait)
        yield chunk


class Playback:
    """An ASGI application that answers with recordings: the one of the same request, else one after the other."""

    def __init__(self, recordings: Sequence[Recording], speed: float = 0.0) -> None:
        self._recordings = recordings
        self._speed = speed
        self._next = itertools.cycle(recordings)
        self._asked = {_key(one.header.request): one for one in reversed(recordings) if one.header.request is not None}

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await _lifespan(receive, send)
        elif scope["type"] == "http":
            await self._http(scope, receive, send)

    async def _http(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["method"] != "POST":
            models = [
                {"id": name, "object": "model"} for name in sorted({one.header.model for one in self._recordings})
            ]
            await _whole(send, msgspec.json.encode({"object": "list", "data": models}))
            return
        recording = self._chosen(await _body(receive))
        said = recording.header.headers.items()
        made = (response_header(name, value) for name, value in said if name.lower() not in _NOT and is_token(name))
        headers = [header for header in made if header is not None]
        await send({"type": "http.response.start", "status": recording.header.status, "headers": headers or [JSON]})
        async for chunk in timed(recording, self._speed):
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    def _chosen(self, body: bytes) -> Recording:
        try:
            asked = hide_values(decode_bounded(body))
        except (msgspec.DecodeError, NestingError):
            asked = None
        return self._asked.get(_key(asked)) or next(self._next)


def _key(request: Any) -> bytes:
    return msgspec.json.encode(request, order="deterministic")


async def _body(receive: Any) -> bytes:
    """The body, or as much of it as is read."""
    pieces: list[bytes] = []
    more = True
    while more and sum(map(len, pieces)) < BODY:
        message = await receive()
        pieces.append(message.get("body", b""))
        more = message.get("more_body", False)
    return b"".join(pieces)


async def _whole(send: Any, body: bytes) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [JSON]})
    await send({"type": "http.response.body", "body": body, "more_body": False})


async def _lifespan(receive: Any, send: Any) -> None:
    while True:
        message = await receive()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return
