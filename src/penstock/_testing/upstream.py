"""A scripted upstream: a real server on this machine that sends the given replies and keeps the requests.

    async with Upstream(Reply.text("It is six.")) as up:
        ... ask something of up.url, in any dialect ...
        assert up.requests[0].json["model"] == "…"

Needs aiohttp. Every wait has a limit: a stalled answer ends after `patience` seconds.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Generator, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any, Self, TypeAlias

from penstock._client.sync_client import LoopThread
from penstock._testing.dialects import SDK_NAMES, Dialect, require_dialect, sdk_path, sdk_variables
from penstock._testing.exchange_log import ExchangeLog, LoggedRequest
from penstock._testing.replies import Reply
from penstock.errors import InputError, MissingExtra

if TYPE_CHECKING:
    import ssl

    from penstock._client.api import Client
    from penstock._client.sync_client import SyncClient

Answer: TypeAlias = "Reply | str | Callable[[ReceivedRequest], Reply | Awaitable[Reply]]"
HOST = "127.0.0.1"
_BODY_LIMIT = 64 * 2**20
_REFUSED = 400  # clients do not send a refused request again


class ReceivedRequest(LoggedRequest):
    """A request. `disconnected` is set when the client left before the end; `finished` when the answer is over."""

    def __init__(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> None:
        super().__init__(method, target, headers, body)
        self.disconnected: asyncio.Event = asyncio.Event()
        self.finished: asyncio.Event = asyncio.Event()
        self.disconnected_at: float = 0.0  # by time.monotonic
        self.sent: int = 0  # bytes of the answer that were written

    @property
    def host(self) -> str:
        """The host that the request was for, before a client of `Upstream.client` sent it here."""
        return self.headers.get("x-forwarded-host") or self.headers.get("host", "")


class Upstream(ExchangeLog):
    """Answers each request with the next reply; the last reply is repeated.

    A reply may be a text, or a function of the request. `script` replaces the replies; `requests` are those received
    so far. `keep_alive=False` closes each connection after its answer. `port` is 0 for any free port.
    """

    def __init__(
        self,
        *replies: Answer,
        patience: float = 30.0,
        tls: ssl.SSLContext | None = None,
        host: str = HOST,
        port: int = 0,
        keep_alive: bool = True,
    ) -> None:
        self.requests: list[ReceivedRequest] = []
        self.problems: list[str] = []  # requests that could not be answered, and why
        self.url: str = ""
        self._replies: list[Answer] = list(replies)
        self._patience = patience
        self._tls = tls
        self._host = host
        self._port = port
        self._keep_alive = keep_alive
        self._runner: Any = None
        self._changed = asyncio.Condition()

    def script(self, *replies: Answer) -> None:
        """Replaces the replies."""
        self._replies = list(replies)

    def logged_requests(self) -> list[ReceivedRequest]:
        """Returns the requests so far."""
        return self.requests

    async def wait_for_request(self, count: int = 1) -> ReceivedRequest:
        """Waits until so many requests were received. Returns the last of them."""
        async with asyncio.timeout(self._patience), self._changed:
            await self._changed.wait_for(lambda: len(self.requests) >= count)
        return self.requests[count - 1]

    # ── clients ───────────────────────────────────────────────────────────────────────────────────

    def client(self, config: Any = None, **options: Any) -> Client:
        """Returns a `Client` that sends the requests to every provider here. It needs no keys and does not wait."""
        from penstock._testing.offline_client import redirected_client  # noqa: PLC0415 — it imports the engines

        return redirected_client(self.url, config, options)

    def sync_client(self, config: Any = None, **options: Any) -> SyncClient:
        """Returns a `SyncClient` of the same kind."""
        from penstock._testing.offline_client import redirected_sync_client  # noqa: PLC0415 — as above

        return redirected_sync_client(self.url, config, options)

    def base_url(self, name: str = "openai") -> str:
        """Returns the base URL for a vendor's SDK, by the name of the provider or protocol."""
        return self.url + sdk_path(name)

    def sdk_environment(self) -> dict[str, str]:
        """Returns environment variables that point the vendors' SDKs here, with keys that are made up."""
        return sdk_variables({name: self.base_url(name) for name in SDK_NAMES})

    # ── the server ────────────────────────────────────────────────────────────────────────────────

    async def __aenter__(self) -> Self:
        web = load_web()
        app = web.Application(client_max_size=_BODY_LIMIT)
        app.router.add_route("*", "/{any:.*}", self._handle)
        self._runner = web.AppRunner(app, handler_cancellation=True, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, self._host, self._port, ssl_context=self._tls)
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
            return await self._answer(request, received, await self._reply_or_refusal(received))
        except (ConnectionError, asyncio.CancelledError):
            received.disconnected_at = time.monotonic()
            received.disconnected.set()
            raise
        finally:
            received.finished.set()

    async def _reply_or_refusal(self, received: ReceivedRequest) -> Reply:
        """Returns the reply. If there is none, the client gets an error that says so, and `problems` has it."""
        try:
            return await self._reply(received)
        except InputError as error:
            self.problems.append(f"{received!r}: {error}")
            refusal = Reply.error("", _REFUSED, str(error), headers={"x-should-retry": "false"})
            return refusal.encode_for(received.dialect or Dialect("openai-chat"))

    async def _reply(self, received: ReceivedRequest) -> Reply:
        if not self._replies:
            raise InputError("a scripted upstream received a request and has no reply: give it one with `script(…)`")
        answer = self._replies[0] if len(self._replies) == 1 else self._replies.pop(0)
        if isinstance(answer, str):
            answer = Reply.text(answer)
        reply = answer if isinstance(answer, Reply) else answer(received)
        found = await reply if isinstance(reply, Awaitable) else reply
        if not found.events:
            return found
        dialect = received.dialect
        if dialect is None and not found.protocol:
            dialect = require_dialect(received.path, received.query, None)
        return found.encode_for(dialect or Dialect(found.protocol, stream=True), received.model)

    async def _answer(self, request: Any, received: ReceivedRequest, reply: Reply) -> Any:
        if reply.wait:
            await asyncio.sleep(reply.wait)
        if not reply.head:
            return self._drop(request)
        received.answer_status, received.answer_data = reply.status, reply.data
        received.answer_type = reply.headers.get("content-type", "")
        response = load_web().StreamResponse(status=reply.status, headers=reply.headers)
        if not (reply.pace or reply.failure or reply.size or len(reply.chunks) > 1):
            response.content_length = len(reply.data)
        if not self._keep_alive:
            response.force_close()
        await response.prepare(request)
        for step in reply.steps():
            if isinstance(step, bytes):
                await response.write(step)
                received.sent += len(step)
            elif isinstance(step, float | int):
                await asyncio.sleep(step)
            else:
                received.answer_data = reply.data[: received.sent]
                if step == "stall":
                    await asyncio.sleep(self._patience)
                return self._drop(request)
        await response.write_eof()
        return response

    def _drop(self, request: Any) -> Any:
        """Closes the connection: in order for TCP, in the middle of a response for HTTP."""
        if request.transport is not None:
            request.transport.close()
        return load_web().Response()  # never sent


def load_web() -> Any:
    """Returns the module `aiohttp.web`."""
    try:
        return import_module("aiohttp.web")
    except ImportError as error:
        raise MissingExtra("aiohttp", "client") from error


@contextmanager
def scripted(
    *replies: Answer, tls: ssl.SSLContext | None = None, port: int = 0, keep_alive: bool = True
) -> Generator[Upstream]:
    """Runs an upstream in a thread while the `with` block runs. `port` is 0 for any free port.

    Examples:
        >>> with scripted("Hello!") as upstream, upstream.sync_client() as client:
        ...     client.chat("openai/gpt-5", "Hi").text
        'Hello!'
        >>> upstream.requests[0].prompt
        'Hi'
    """
    thread = LoopThread()

    async def start() -> Upstream:
        return await Upstream(*replies, tls=tls, port=port, keep_alive=keep_alive).__aenter__()

    up = thread.run(start())
    try:
        yield up
    finally:
        thread.close(up.__aexit__())
