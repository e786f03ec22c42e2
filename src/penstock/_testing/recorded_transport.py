"""The transport of a client with a cassette: replays recorded responses, and records real ones as they are read."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Any

from penstock._client.api import Client
from penstock._client.sync_client import SyncClient
from penstock._engines.engine_pool import EnginePool
from penstock._engines.native import NativeEngine
from penstock._engines.router import Router
from penstock._http.response import UpstreamResponse
from penstock._testing.offline_client import OfflineRouter
from penstock.errors import ProviderError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock._engines.engine_interface import HttpRequest, UpstreamRequest
    from penstock._engines.request_plan import RequestPlan
    from penstock._http.request_options import RequestOptions
    from penstock._testing.cassette_file import RecordedResponse
    from penstock._testing.exchange_recorder import ExchangeRecorder, OpenExchange

CUT = "the recorded connection ended here, before the body did"


class ObservedBody:
    """A response that is read by `UpstreamResponse`. Everything that is read goes into the exchange, too."""

    def __init__(self, source: Any, exchange: OpenExchange) -> None:
        self.status: int = source.status
        self.headers: Mapping[str, str] = source.headers
        self._source, self._content = source, source.content
        self._exchange = exchange
        self._wanted = True

    @property
    def content(self) -> ObservedBody:
        return self

    @property
    def connection(self) -> Any:
        return self._source.connection

    @property
    def last_read_at(self) -> float:
        return getattr(self._content, "last_read_at", 0.0)

    async def readany(self) -> bytes:
        data: bytes = await self._content.readany()
        self._exchange.add_chunk(data)
        return data

    def at_eof(self) -> bool:
        self._wanted = False  # asked when the client has all it needs
        return bool(self._content.at_eof())

    def set_exception(self, error: BaseException) -> None:
        self._content.set_exception(error)

    def release(self) -> None:
        self._exchange.finish(complete=True)
        self._source.close()  # an idle connection would outlive a test that does not close its client

    def close(self) -> None:
        self._exchange.finish(complete=not self._wanted)
        self._source.close()


class ReplayedBody:
    """A recorded response, in place of a connection."""

    connection = None

    def __init__(self, response: RecordedResponse, *, waits: bool) -> None:
        self.status: int = response.status
        self.headers: dict[str, str] = dict(response.headers)
        self._chunks = [chunk for chunk in reversed(response.chunks()) if chunk[1]]
        self._complete, self._waits = response.complete, waits
        self._error: BaseException | None = None

    @property
    def content(self) -> ReplayedBody:
        return self

    async def readany(self) -> bytes:
        if self._error is not None:
            raise self._error
        if self._chunks:
            wait, data = self._chunks.pop()
            await asyncio.sleep(wait if self._waits else 0)
            return data
        if not self._complete:
            raise ConnectionResetError(CUT)
        return b""

    def at_eof(self) -> bool:
        return not self._chunks and self._complete

    def set_exception(self, error: BaseException) -> None:
        self._error = error

    def release(self) -> None:
        """There is no connection to give back."""

    close = release


class RecordedEngine(NativeEngine):
    """The native engine with a cassette. Requests for tokens are sent and never recorded."""

    def __init__(self, cassette: ExchangeRecorder) -> None:
        super().__init__()
        self._cassette = cassette

    async def _send_job(self, job: UpstreamRequest) -> UpstreamResponse:
        out = job.to_http()
        if self._cassette.can_replay(out.method, out.url, out.headers, out.body):
            job.sign = None  # a signature needs keys, and perhaps a request for a token
        return await super()._send_job(job)

    async def send(
        self, out: HttpRequest, options: RequestOptions, job: UpstreamRequest | None = None
    ) -> UpstreamResponse:
        if job is None:
            return await super().send(out, options)
        secrets = job.secrets
        recorded = self._cassette.replay(out.method, out.url, out.headers, out.body, secrets)
        if recorded is not None:
            loop = asyncio.get_running_loop()
            body = ReplayedBody(recorded, waits=self._cassette.waits)
            return UpstreamResponse(body, options.timeouts, loop, loop.time())
        exchange = self._cassette.start(out.method, out.url, out.headers, out.body, secrets)
        try:
            response = await super().send(out, options)  # without the job: no head is prepared for later requests
        except BaseException:
            self._cassette.discard(exchange)
            raise
        exchange.set_head(response.status, response.headers)
        response.wrap_source(lambda source: ObservedBody(source, exchange))
        return response


class KeylessEnginePool(EnginePool):
    """Signs requests if there is a key. A request without one may be in the cassette."""

    def sign(self, upstream: UpstreamRequest, plan: RequestPlan) -> str:
        try:
            return super().sign(upstream, plan)
        except ProviderError:
            upstream.sign = None
            return ""


def _recorded_router(cassette: ExchangeRecorder, config: Any, env: Mapping[str, str] | None) -> Router:
    engine = RecordedEngine(cassette)
    if not cassette.records:
        return OfflineRouter(engine, config, os.environ if env is None else env)
    router = Router(config, env=env)
    router.engines = KeylessEnginePool(router.config, router.env, {"native": engine, "sdk": engine})
    return router


def recorded_client(cassette: ExchangeRecorder, config: Any, options: Mapping[str, Any]) -> Client:
    """Returns a client whose requests are recorded or replayed."""
    rest = dict(options)
    return Client(router=_recorded_router(cassette, config, rest.pop("env", None)), **rest)


def recorded_sync_client(cassette: ExchangeRecorder, config: Any, options: Mapping[str, Any]) -> SyncClient:
    """Returns the same without async."""
    rest = dict(options)
    return SyncClient(router=_recorded_router(cassette, config, rest.pop("env", None)), **rest)
