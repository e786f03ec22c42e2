"""Responses of Starlette, which FastAPI uses, too. Imported when the first one is made."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

from penstock.errors import MissingExtra

try:
    from starlette.responses import Response
except ImportError as error:
    raise MissingExtra("starlette", "serve") from error

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.background import BackgroundTask
    from starlette.types import Receive, Scope, Send

    from penstock._client.response_stream import ResponseStream

CLIENT_CLOSED = 499  # nginx's status for a client that left


class AnswerResponse(Response):
    """Streams an answer. The status is known after the first chunk, so that the head is sent then.

    Starlette's own streaming response does not watch for a client that leaves if the server speaks ASGI 2.4, until
    there is a chunk to send; this one always does, also before the first chunk.
    """

    def __init__(self, stream: ResponseStream, headers: Mapping[str, str] | None = None) -> None:
        self.status_code = stream.status
        self.background: BackgroundTask | None = None
        self._stream = stream
        self._is_started = False
        self.init_headers({**stream.headers, **(headers or {})})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        sending = asyncio.create_task(self._send_chunks(send))
        watching = asyncio.create_task(_wait_for_disconnect(receive))
        try:
            await asyncio.wait([sending, watching], return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (sending, watching):
                task.cancel()
            await asyncio.wait([sending, watching])
            await self._stream.aclose()
        if not sending.cancelled():
            sending.result()
        elif not self._is_started:
            await self._send_nothing(send)
        if self.background is not None:
            await self.background()

    async def _send_nothing(self, send: Send) -> None:
        """Ends a response that nobody waits for: a middleware expects one, and an access log shows it."""
        with suppress(OSError):
            await send({"type": "http.response.start", "status": CLIENT_CLOSED, "headers": []})
            await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _send_chunks(self, send: Send) -> None:
        stream = self._stream
        before = dict(stream.headers)
        await stream.open()
        if stream.headers != before:  # an error: its headers replace those of the stream
            for name in before:
                del self.headers[name]
            self.headers.update(stream.headers)
        self.status_code, self._is_started = stream.status, True
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        async for chunk in stream.chunks():
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


class ErrorResponse(Response):
    """An HTTP error in the protocol of the client."""

    def __init__(self, error: tuple[int, dict[str, str], bytes], headers: Mapping[str, str] | None = None) -> None:
        status, fields, body = error
        super().__init__(body, status, {**fields, **(headers or {})})


async def _wait_for_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
