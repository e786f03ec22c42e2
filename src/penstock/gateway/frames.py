"""An answer as HTTP would send it → messages of a WebSocket: one for each event of a stream, one for a refusal."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import msgspec

from penstock import pick
from penstock.framing import SseParser
from penstock.gateway.outlet import BODY
from penstock.jsontext import loose

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

_OK, _SERVER = 200, 500
_DONE = b"[DONE]"
_ERROR = re.compile(rb'\s*\{\s*"type"\s*:\s*"error"')


def error_event(status: int, data: bytes) -> bytes:
    """The body of a refusal, or an error in mid-stream, as the message that ends a turn."""
    said = pick.as_object(loose(data)) if data[:1] == b"{" else {}
    error = pick.table(said, "error") or said
    full = {
        "type": pick.text(error, "type") or "server_error", "code": pick.text(error, "code") or "server_error",
        "message": pick.text(error, "message") or "the request failed", "param": error.get("param"),
    }  # fmt: skip
    return msgspec.json.encode({"type": "error", "sequence_number": 0, "status": status, "error": full})


class Frames:
    """In place of ASGI's `send`. `ended` once the response itself has said that it is over.

    A turn ends with one message: an error that a failed response follows is not sent, or it would be read as the
    answer to what is asked next. `lane` is the client's own name for it, which every message repeats.
    """

    def __init__(
        self, text: Callable[[bytes], Awaitable[None]], pause: Callable[[], Awaitable[None]], lane: Any = None
    ) -> None:
        self.ended = False
        self._say, self._pause = text, pause
        self._lane = b',"stream_id":%b}' % msgspec.json.encode(lane) if isinstance(lane, str) else b""
        self._status = _OK
        self._parser = SseParser()
        self._refusal = b""
        self._error = b""

    async def send(self, message: Any) -> None:
        if message["type"] != BODY:
            self._status = message["status"]
            return
        if self._status != _OK:
            self._refusal += message["body"]
        else:
            await self._events(message["body"])
        if not message["more_body"]:
            await self._over()

    async def _events(self, data: bytes) -> None:
        frames = self._parser.feed([data]) if data else []
        if not frames:
            await self._pause()
        for _, payload in frames:
            if _ERROR.match(payload):
                self._error = payload
            elif payload != _DONE:
                await self._text(payload)

    async def _text(self, payload: bytes) -> None:
        await self._say(payload.rstrip()[:-1] + self._lane if self._lane else payload)

    async def refuse(self, status: int, data: bytes) -> None:
        """Say no, in place of a response."""
        await self._text(error_event(status, data))

    async def _over(self) -> None:
        if self._status != _OK:
            await self.refuse(self._status, self._refusal)
        elif self._error and not self.ended:
            await self.refuse(_SERVER, self._error)
