"""A server on this machine that records and replays, for programs that use the SDKs of vendors.

`http://127.0.0.1:…/openai/v1` stands for `https://api.openai.com/v1`: the first part of the path is the provider.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from penstock._client.sync_client import LoopThread
from penstock._engines.engine_interface import HttpRequest
from penstock._engines.native import NativeEngine
from penstock._http.header_fields import MANAGED
from penstock._http.request_options import RequestOptions
from penstock._providers.registry import provider
from penstock._testing.dialects import Dialect, find_dialect, provider_name, sdk_path
from penstock._testing.exchange_log import LoggedRequest
from penstock._testing.exchange_recorder import ExchangeRecorder, UnrecordedRequest
from penstock._testing.replies import Reply
from penstock._testing.upstream import HOST, load_web
from penstock.errors import InputError, PenstockError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock._testing.cassette_file import RecordedResponse

_BODY_BYTES = 64 * 2**20
_REFUSED = 400  # clients do not send a refused request again
_BAD_GATEWAY = 502
# The transport sets these itself, or removes the encoding that they describe.
_NOT_FORWARDED = MANAGED | {"accept-encoding", "content-encoding"}


class RecordingProxy:
    """The server, in a thread. `base_url` starts it."""

    def __init__(self, cassette: ExchangeRecorder) -> None:
        self._cassette = cassette
        self._origins: dict[str, str] = {}
        self._thread = LoopThread()
        self._engine: NativeEngine | None = None
        self._runner: Any = None
        self._url = self._thread.run(self._start())

    def base_url(self, name: str, upstream: str = "") -> str:
        """Returns the base URL of a provider's SDK."""
        known = provider_name(name)
        origin = upstream or _origin(known)
        self._origins[known] = origin.rstrip("/")
        return f"{self._url}/{known}{sdk_path(name)}"

    def close(self) -> None:
        """Ends the server and all connections."""
        self._thread.close(self._stop())

    async def _start(self) -> str:
        web = load_web()
        self._engine = NativeEngine()
        app = web.Application(client_max_size=_BODY_BYTES)
        app.router.add_route("*", "/{any:.*}", self._handle)
        self._runner = web.AppRunner(app, handler_cancellation=True, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, HOST, 0).start()
        return f"http://{HOST}:{self._runner.addresses[0][1]}"

    async def _stop(self) -> None:
        await self._runner.cleanup()
        if self._engine is not None:
            await self._engine.aclose()

    async def _handle(self, request: Any) -> Any:
        body = await request.read()
        name, _, rest = request.raw_path.removeprefix("/").partition("/")
        url = f"{self._origins.get(name, f'http://{name}.invalid')}/{rest}"
        headers = {name.lower(): value for name, value in request.headers.items()}
        try:
            recorded = self._cassette.replay(request.method, url, headers, body)
            if recorded is not None:
                return await self._play(request, recorded)
            return await self._forward(request, url, headers, body)
        except UnrecordedRequest as error:
            return await self._refuse(request, f"/{rest}", body, _REFUSED, str(error))
        except PenstockError as error:
            return await self._refuse(request, f"/{rest}", body, _BAD_GATEWAY, str(error))

    async def _play(self, request: Any, recorded: RecordedResponse) -> Any:
        response = await self._begin(request, recorded.status, recorded.headers)
        for wait, chunk in recorded.chunks():
            if wait and self._cassette.waits:
                await asyncio.sleep(wait)
            await response.write(chunk)
        if not recorded.complete:
            return _drop(request)
        await response.write_eof()
        return response

    async def _forward(self, request: Any, url: str, headers: Mapping[str, str], body: bytes) -> Any:
        """Sends a request to the provider, and its response to the client, chunk by chunk."""
        assert self._engine is not None  # noqa: S101 — the server is running
        exchange = self._cassette.start(request.method, url, headers, body)
        sent = {name: value for name, value in headers.items() if name not in _NOT_FORWARDED}
        out = HttpRequest(url=url, method=request.method, headers=sent, body=body, stream=True)
        try:
            incoming = await self._engine.send(out, RequestOptions())
        except BaseException:
            self._cassette.discard(exchange)
            raise
        exchange.set_head(incoming.status, incoming.headers)
        complete = False
        try:
            response = await self._begin(request, incoming.status, incoming.headers)
            while chunk := await incoming.read():
                exchange.add_chunk(chunk)
                await response.write(chunk)
            complete = True
        except PenstockError:
            return _drop(request)
        finally:
            exchange.finish(complete=complete)
            incoming.close()
        await response.write_eof()
        return response

    async def _begin(self, request: Any, status: int, headers: Mapping[str, str]) -> Any:
        passed = {name: value for name, value in headers.items() if name.lower() not in _NOT_FORWARDED}
        response = load_web().StreamResponse(status=status, headers=passed)
        response.force_close()
        await response.prepare(request)
        return response

    async def _refuse(self, request: Any, path: str, body: bytes, status: int, message: str) -> Any:
        """Answers with an error of the client's protocol that SDKs do not retry."""
        logged = LoggedRequest(request.method, path, {}, body)
        dialect = find_dialect(logged.path) or Dialect("openai-chat")
        reply = Reply.error(dialect.protocol, status, message, headers={"x-should-retry": "false"})
        response = await self._begin(request, status, reply.headers)
        await response.write(reply.data)
        await response.write_eof()
        return response


def _drop(request: Any) -> Any:
    """Closes the connection in the middle of a response."""
    if request.transport is not None:
        request.transport.close()
    return load_web().Response()  # never sent


def _origin(name: str) -> str:
    """Returns the scheme and host of a provider."""
    address = provider(name).base_url
    if "{" in address.partition("://")[2].partition("/")[0] or not address.startswith("http"):
        raise InputError(f"{name}: its address depends on the account: base_url({name!r}, upstream='https://…')")
    parts = urlsplit(address)
    return f"{parts.scheme}://{parts.netloc}"
