"""A scripted upstream: a real server on this machine that sends the given replies and keeps the requests.

    async with Upstream(Reply.of("anthropic", events)) as up:
        ... ask something of up.url ...
        assert up.requests[0].json["model"] == "…"

Needs aiohttp. Every wait has a limit: a stalled answer ends after `patience` seconds.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any, Self, TypeAlias

import msgspec

from penstock._testing.replies import Reply
from penstock.errors import InputError, MissingExtra

if TYPE_CHECKING:
    import ssl

Answer: TypeAlias = "Reply | Callable[[ReceivedRequest], Reply | Awaitable[Reply]]"
HOST = "127.0.0.1"
_BODY_LIMIT = 64 * 2**20


class ReceivedRequest:
    """A request. `disconnected` is set when the client left before the end; `finished` when the answer is over."""

    def __init__(self, method: str, target: str, headers: dict[str, str], body: bytes) -> None:
        self.method = method
        self.target = target  # path and query, as they were sent
        self.headers = headers  # names in lower case
        self.body = body
        self.disconnected: asyncio.Event = asyncio.Event()
        self.finished: asyncio.Event = asyncio.Event()
        self.disconnected_at: float = 0.0  # by time.monotonic
        self.sent = 0  # bytes of the answer that were written

    @property
    def path(self) -> str:
        return self.target.partition("?")[0]

    @property
    def query(self) -> str:
        return self.target.partition("?")[2]

    @property
    def json(self) -> Any:
        """The body as JSON."""
        return msgspec.json.decode(self.body)

    def __repr__(self) -> str:
        return f"<{self.method} {self.path}, {len(self.body)} bytes>"


class Upstream:
    """Answers each request with the next reply; the last reply is repeated.

    A reply may be a function of the request. `script` replaces the replies; `requests` are those received so far.
    """

    def __init__(
        self, *replies: Answer, patience: float = 30.0, tls: ssl.SSLContext | None = None, host: str = HOST
    ) -> None:
        self.requests: list[ReceivedRequest] = []
        self.url: str = ""
        self._replies: list[Answer] = list(replies)
        self._patience = patience
        self._tls = tls
        self._host = host
        self._runner: Any = None
        self._changed = asyncio.Condition()

    def script(self, *replies: Answer) -> None:
        """Replaces the replies."""
        self._replies = list(replies)

    async def wait_for_request(self, count: int = 1) -> ReceivedRequest:
        """Waits until so many requests were received. Returns the last of them."""
        async with asyncio.timeout(self._patience), self._changed:
            await self._changed.wait_for(lambda: len(self.requests) >= count)
        return self.requests[count - 1]

    async def __aenter__(self) -> Self:
        web = _web()
        app = web.Application(client_max_size=_BODY_LIMIT)
        app.router.add_route("*", "/{any:.*}", self._handle)
        self._runner = web.AppRunner(app, handler_cancellation=True, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, self._host, 0, ssl_context=self._tls)
        await site.start()
        port = self._runner.addresses[0][1]
        self.url = f"{'https' if self._tls else 'http'}://{self._host}:{port}"
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._runner.cleanup()

    async def _handle(self, request: Any) -> Any:
        headers = {name.lower(): value for name, value in request.headers.items()}
        received = ReceivedRequest(request.method, request.raw_path, headers, await request.read())
        try:
            async with self._changed:
                self.requests.append(received)
                self._changed.notify_all()
            return await self._answer(request, received, await self._reply(received))
        except (ConnectionError, asyncio.CancelledError):
            received.disconnected_at = time.monotonic()
            received.disconnected.set()
            raise
        finally:
            received.finished.set()

    async def _reply(self, received: ReceivedRequest) -> Reply:
        if not self._replies:
            raise InputError("a scripted upstream received a request and has no reply: give it one")
        answer = self._replies[0] if len(self._replies) == 1 else self._replies.pop(0)
        reply = answer if isinstance(answer, Reply) else answer(received)
        return await reply if isinstance(reply, Awaitable) else reply

    async def _answer(self, request: Any, received: ReceivedRequest, reply: Reply) -> Any:
        if reply.wait:
            await asyncio.sleep(reply.wait)
        if not reply.head:
            return self._drop(request)
        response = _web().StreamResponse(status=reply.status, headers=reply.headers)
        if not (reply.pace or reply.failure or len(reply.chunks) > 1):
            response.content_length = len(reply.data)
        await response.prepare(request)
        for step in reply.steps():
            if isinstance(step, bytes):
                await response.write(step)
                received.sent += len(step)
            elif isinstance(step, float | int):
                await asyncio.sleep(step)
            elif step == "cut":
                return self._drop(request)
            else:
                await asyncio.sleep(self._patience)
                return self._drop(request)
        await response.write_eof()
        return response

    def _drop(self, request: Any) -> Any:
        """Closes the connection: in order for TCP, in the middle of a response for HTTP."""
        if request.transport is not None:
            request.transport.close()
        return _web().Response()  # never sent


def _web() -> Any:
    try:
        return import_module("aiohttp.web")
    except ImportError as error:
        raise MissingExtra("aiohttp", "client") from error


_LIMIT = 30.0


@contextmanager
def scripted(*replies: Answer, tls: ssl.SSLContext | None = None) -> Generator[Upstream]:
    """Runs an upstream in a thread while the `with` block runs."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()

    async def start() -> Upstream:
        return await Upstream(*replies, tls=tls).__aenter__()

    up = asyncio.run_coroutine_threadsafe(start(), loop).result(_LIMIT)
    try:
        yield up
    finally:
        asyncio.run_coroutine_threadsafe(up.__aexit__(), loop).result(_LIMIT)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(_LIMIT)
        loop.close()
