"""An answer as HTTP would send it → messages of a WebSocket: one for each event of a stream, one for a refusal."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import msgspec

from penstock import pick, protocols
from penstock.events import Fault
from penstock.framing import SseParser
from penstock.gateway import refusing
from penstock.http.response_writer import BODY
from penstock.jsontext import loose

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from penstock.gateway.doors.door import Headers

_OK = 200
_DONE = b"[DONE]"
_ERROR = re.compile(rb'\s*\{\s*"type"\s*:\s*"error"')
_FAILED = re.compile(rb'\s*\{\s*"type"\s*:\s*"response\.failed"')


def error_event(status: int, data: bytes, headers: Headers) -> bytes:
    """The body of a refusal, or an error in mid-stream, as the message that ends a turn.

    It carries what HTTP would say beside the body: Codex repeats a request after a 429 only if `headers` say when
    (https://github.com/openai/codex/blob/main/codex-rs/codex-api/src/endpoint/responses_websocket.rs).
    """
    said = pick.as_object(loose(data)) if data[:1] == b"{" else {}
    error = pick.table(said, "error") or said
    sort = pick.text(error, "type") or "server_error"
    full = {
        "type": sort, "code": pick.text(error, "code") or sort,  # a text, always: OpenAI's schema says so
        "message": pick.text(error, "message") or "the request failed", "param": error.get("param"),
    }  # fmt: skip
    event = {"type": "error", "sequence_number": 0, "status": status, "error": full, "headers": _header_table(headers)}
    return msgspec.json.encode(event)


def failure_event(data: bytes) -> bytes:
    """A `response.failed` in mid-turn, with the status that the error has in HTTP and with when to come back."""
    status, _, headers = _failure(data)
    said = pick.as_object(loose(data))
    return msgspec.json.encode({**said, "status": status, "headers": _header_table(headers)}) if said else data


def _failure(data: bytes) -> tuple[int, bytes, Headers]:
    """An error in mid-stream as HTTP would say it, by its own words: flat, or in an object of its own."""
    decode = protocols.decoder("responses")
    events = [*decode.feed([(b"", data)]), *decode.finish()]
    fault = next((event for event in events if isinstance(event, Fault)), Fault("server", ""))
    headers = tuple(one for one in refusing.headers_of(fault) if one[0] != refusing.REFUSED_BY)
    return refusing.status_of(fault, "responses"), refusing.body_of("responses", fault), headers


def _header_table(headers: Headers) -> dict[str, str]:
    """Headers as a frame has them, without those that describe a body."""
    return {
        name.decode("latin-1"): value.decode("latin-1")
        for name, value in headers if not name.startswith(b"content-")
    }  # fmt: skip


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
        self._headers: Headers = ()
        self._error = b""

    async def send(self, message: Any) -> None:
        if message["type"] != BODY:
            self._status, self._headers = message["status"], tuple(message.get("headers") or ())
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
                await self._text(failure_event(payload) if _FAILED.match(payload) else payload)

    async def _text(self, payload: bytes) -> None:
        await self._say(payload.rstrip()[:-1] + self._lane if self._lane else payload)

    async def refuse(self, status: int, data: bytes, headers: Headers) -> None:
        """Say no, in place of a response."""
        await self._text(error_event(status, data, headers))

    async def _over(self) -> None:
        if self._status != _OK:
            await self.refuse(self._status, self._refusal, self._headers)
        elif self._error and not self.ended:
            await self.refuse(*_failure(self._error))
