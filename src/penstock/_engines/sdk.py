"""The SDK engine: the vendors' own clients ask, and what they parse goes through the same decoders (`take`).

Their HTTP client is built from the same request options; retries are ours. Errors are read from the same bytes as the
native engine's, and so are the same. `vendors` knows the clients; here is what is true of all of them.
"""

from __future__ import annotations

import asyncio
import contextlib
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from penstock._engines.environ import LIVE
from penstock._engines.reading import ReplyDecoder
from penstock._engines.sdk_vendors import VENDOR_SDKS, VendorSdk, capture_response
from penstock._http.header_fields import check_request, check_url
from penstock._http.pool import IdleConnections
from penstock._http.proxy_and_tls import proxy_for, tls_context, tls_key
from penstock._http.transport_errors import connection_error, response_error, timeout_error
from penstock.errors import ProviderError, provider_error
from penstock.events import AnyEvent, Fault

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine, Mapping

    from penstock._diagnostics import Diagnostic
    from penstock._engines.interface import ChunkEvents, HttpRequest, UpstreamRequest
    from penstock._engines.options import RequestOptions

T = TypeVar("T")
_MOMENT = 1.0  # seconds that the end of a whole answer is waited for
_settling: set[asyncio.Task[None]] = set()  # a task that nobody holds may vanish


class SdkEngine:
    """Asks by the vendors' clients. What they lack it says, so that another engine is asked."""

    name = "sdk"

    def __init__(self, *, idle_seconds: float = 0.0) -> None:
        self.clients = SdkClientPool(idle_seconds)
        self._loaded: set[tuple[type[VendorSdk], str]] = set()

    async def aclose(self) -> None:
        await self.clients.aclose()

    def unsupported_reason(self, upstream: UpstreamRequest) -> str:
        """Why no client can do this; nothing where one can."""
        vendor = VENDOR_SDKS.get(upstream.provider.sdk)
        if vendor is None:
            return f"no SDK is used for {upstream.provider.name}"
        can = vendor.ability
        turn = upstream.operation in can.operations
        if not turn and upstream.protocol not in can.fetches:
            return f"the SDK is not used for {upstream.operation}"
        if turn and (upstream.protocol not in can.streams or upstream.endpoint.framing not in {"auto", "sse"}):
            return f"the SDK does not speak {upstream.protocol} as it is spoken there"
        if upstream.provider.auth not in can.schemes:
            return f"the SDK cannot sign as {upstream.provider.auth} does"
        if not find_spec(can.package.partition(".")[0]) or not find_spec(can.package):
            return f"{can.package} is not installed: pip install 'penstock[sdk]'"
        return can.unknown(upstream.provider.sdk) or vendor.missing(upstream)

    async def open(self, job: UpstreamRequest) -> SdkSource:
        """Ask, and wait for the answer to begin."""
        client = await self._client(job)
        source = SdkSource(_vendor(client, job), job, lambda: self.clients.give_back(client))
        try:
            await _in_time(source.begin(), job)
        except BaseException:
            source.release()
            raise
        return source

    async def fetch(self, job: UpstreamRequest) -> tuple[Mapping[str, str], bytes]:
        """Ask for something that is no turn."""
        client = await self._client(job)

        async def asked() -> tuple[Any, bytes]:
            out = await _signed(job)
            try:
                return await _vendor(client, job).fetch(out, job)
            except Exception as error:
                raise await _told(error, job) from error

        try:
            response, body = await _in_time(asked(), job)
        finally:
            self.clients.give_back(client)
        return _headers(response), body

    async def _client(self, job: UpstreamRequest) -> SdkClient:
        """The HTTP client for these options, which keeps the connections."""
        kind = VENDOR_SDKS[job.provider.sdk]
        if (kind, job.protocol) not in self._loaded:
            await asyncio.to_thread(kind.load, job)  # others go on meanwhile, and no limit counts it
            self._loaded.add((kind, job.protocol))
        options, web = job.options, kind.web()
        check_url(job.url)
        proxy = proxy_for(job.url, options, LIVE)
        limits = options.timeouts  # the total is watched elsewhere, and is another for each try
        waits = (limits.connect, limits.first_byte, limits.between_bytes)
        key = (asyncio.get_running_loop(), web, proxy, waits, *tls_key(options))
        return self.clients.borrow(key, lambda: _http_client(web, options, proxy))


def _http_client(web: Any, options: RequestOptions, proxy: str | None) -> Any:
    limits = options.timeouts
    patience = web.Timeout(
        connect=limits.connect,
        read=max(limits.first_byte, limits.between_bytes),
        write=limits.first_byte,
        pool=limits.connect,
    )
    return web.AsyncClient(
        verify=tls_context(options),
        proxy=proxy,
        trust_env=False,
        timeout=patience,
        follow_redirects=False,
        limits=web.Limits(max_connections=None, max_keepalive_connections=None),
        event_hooks={"response": [capture_response]},
    )


def _vendor(client: SdkClient, job: UpstreamRequest) -> VendorSdk:
    kind = VENDOR_SDKS[job.provider.sdk]
    found = client.vendors.get(kind)
    if found is None:
        found = client.vendors[kind] = kind(client.http)
    made: VendorSdk = found
    return made


class SdkSource:
    """The source of the SDK engine: payloads that somebody else parsed."""

    raw = False

    def __init__(self, vendor: VendorSdk, job: UpstreamRequest, released: Callable[[], None] | None = None) -> None:
        self._released = released  # called once, when the client is not needed any more
        self.status = 0
        self.headers: Mapping[str, str] = {}
        self._vendor = vendor
        self._job = job
        self._decoding = ReplyDecoder(job)
        self._payloads: AsyncIterator[Any] | None = None
        self._whole: Any = None
        self._response: Any = None
        now, limits = asyncio.get_running_loop().time(), job.options.timeouts
        self._first, self._ends = now + limits.first_byte, now + limits.total
        self._begun = self._done = False

    async def begin(self) -> None:
        job = self._job
        out = await _signed(job)
        try:
            if job.stream:
                self._response, self._payloads = await self._vendor.stream(out, job)
            else:
                self._response, self._whole = await self._vendor.whole(out, job)
        except Exception as error:
            raise await _told(error, job) from error
        self.status = self._response.status_code
        self.headers = _headers(self._response)

    async def read(self) -> ChunkEvents | None:
        if self._done:
            return None
        if self._payloads is None:
            self._done = True
            return b"", self._decoding.whole(self._decoding.decoder.take(self._whole))
        try:
            async with asyncio.timeout_at(self._limit()):
                payload = await anext(self._payloads, None)
        except TimeoutError:
            await self.aclose()
            if self._decoding.pending:  # the answer has said how it ends
                return b"", self._decoding.finish()
            raise provider_error(Fault("timeout", self._late())) from None
        except Exception as error:  # noqa: BLE001 — each vendor has a tree of its own
            return b"", await self._trouble(error)
        if payload is None:
            self._done = True
            return b"", self._decoding.finish()
        self._begun = True
        events = self._decoding.events(self._decoding.decoder.take(payload))
        self._decoding.watch_end()
        return b"", events

    def _limit(self) -> float:
        """When the wait that begins now is too long. Up to the first payload it began with the request."""
        now = asyncio.get_running_loop().time()
        if self._decoding.pending:
            return min(self._ends, self._decoding.until)
        return min(self._ends, now + self._job.options.timeouts.between_bytes if self._begun else max(now, self._first))

    def _late(self) -> str:
        limits = self._job.options.timeouts
        if asyncio.get_running_loop().time() >= self._ends:
            return f"no end within {limits.total:g} s (timeouts.total)"
        if not self._begun:
            return f"no answer within {limits.first_byte:g} s (timeouts.first_byte)"
        return f"nothing more within {limits.between_bytes:g} s (timeouts.between_bytes)"

    async def _trouble(self, error: Exception) -> list[AnyEvent]:
        """An error that stood in the stream is read like any other payload; anything else is trouble on the way."""
        payload = self._vendor.in_band(error, begun=True)
        await self.aclose()
        if payload is None:
            raise await _told(error, self._job) from error
        return self._decoding.finish(self._decoding.decoder.take(payload))

    def end_with(self, fault: Fault) -> list[AnyEvent]:
        self._done = True
        return self._decoding.end_with(fault)

    def release(self) -> None:
        """Let go of the client."""
        released, self._released = self._released, None
        if released is not None:
            released()

    def complete(self) -> None:
        self._done = True
        if self._payloads is None:
            self.release()
        else:
            task = asyncio.get_running_loop().create_task(self.aclose() if self._decoding.over else self._rest())
            _settling.add(task)
            task.add_done_callback(_settling.discard)

    async def _rest(self) -> None:
        """What is left of a whole answer is taken in passing, so that its connection can be used again."""
        with contextlib.suppress(Exception):
            async with asyncio.timeout(_MOMENT):
                while await anext(self._payloads or _nothing(), None) is not None:
                    pass
        await self.aclose()

    async def aclose(self) -> None:
        self._done = True
        payloads, self._payloads = self._payloads, None
        try:
            for thing in (payloads, self._response):
                with contextlib.suppress(Exception):  # it is of no more interest
                    await getattr(thing, "aclose", _none)()
        finally:
            self.release()

    @property
    def diagnostics(self) -> list[Diagnostic]:
        return self._decoding.diagnostics


async def _signed(job: UpstreamRequest) -> HttpRequest:
    """The request as it leaves, with a head that may be sent: what the clients check differs from one to the next."""
    out = job.to_http()
    if job.sign is not None:
        out = await job.sign(out)
    check_request(out.method, out.url, out.headers)
    return out


async def _in_time(asked: Coroutine[Any, Any, T], job: UpstreamRequest) -> T:
    """What is asked for, within the limit on the first byte."""
    limits = job.options.timeouts
    try:
        async with asyncio.timeout(min(limits.first_byte, limits.total)):
            return await asked
    except TimeoutError as error:
        raise timeout_error(error, limits) from error


async def _told(error: Exception, job: UpstreamRequest) -> ProviderError:
    """A vendor's error as ours, from the bytes it came from."""
    if isinstance(error, ProviderError):
        return error
    response: Any = getattr(error, "response", None)
    status: Any = getattr(response, "status_code", None) or getattr(error, "code", None)
    if not isinstance(status, int):
        return connection_error(error)
    body = await _bytes(response, error)
    return response_error(status, _headers(response), body, job.secrets, job.protocol, job.provider.name, job.model)


def _headers(response: Any) -> dict[str, str]:
    return {name.lower(): value for name, value in getattr(response, "headers", {}).items()}


async def _none() -> None:
    """There is nothing to close."""


async def _nothing() -> AsyncIterator[Any]:
    return
    yield


async def _bytes(response: Any, error: Exception) -> bytes:
    """The body behind an error, as it was sent where it is still to be had."""
    with contextlib.suppress(Exception):
        return bytes(await response.aread())
    details = getattr(error, "details", None) or getattr(error, "body", None)
    return msgspec.json.encode(details, enc_hook=repr) if details is not None else b""


MAX_IDLE_CLIENTS = 64


class SdkClient:
    """An HTTP client and the SDK objects made over it. `idle_since`: when its last user gave it back."""

    def __init__(self, key: tuple[object, ...], http: Any, clients: SdkClientPool) -> None:
        self.key, self.http = key, http
        self.vendors: dict[Any, Any] = {}
        self.users = 0
        self.idle_since = 0.0
        self._clients = clients

    def close(self) -> None:
        """Called by the timer, in the event loop."""
        self._clients.close(self)


class SdkClientPool:
    """The clients of an engine. `borrow` and `give_back` are called in the event loop that the key begins with."""

    def __init__(self, idle_seconds: float = 0.0) -> None:
        self._idle_seconds = idle_seconds
        self._open: dict[tuple[object, ...], SdkClient] = {}
        self._idle: dict[object, IdleConnections[SdkClient]] = {}  # by event loop
        self._closing: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        return len(self._open)

    def borrow(self, key: tuple[object, ...], make: Callable[[], Any]) -> SdkClient:
        """The client for a way of connecting, new or used before."""
        found = self._open.get(key)
        if found is None:
            found = self._open[key] = SdkClient(key, make(), self)
        elif not found.users:
            self._of(key).discard(found)
        found.users += 1
        return found

    def give_back(self, client: SdkClient) -> None:
        client.users -= 1
        if not client.users and self._open.get(client.key) is client:
            self._of(client.key).add(client.key, client)

    def close(self, client: SdkClient) -> None:
        del self._open[client.key]
        task = asyncio.get_running_loop().create_task(client.http.aclose())
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    async def aclose(self) -> None:
        """Close all clients, those in use too."""
        found, self._open = list(self._open.values()), {}
        for client in found:
            self._of(client.key).discard(client)
            await client.http.aclose()
        await asyncio.gather(*self._closing)
        self._idle = {}

    def _of(self, key: tuple[object, ...]) -> IdleConnections[SdkClient]:
        loop: Any = key[0]
        found = self._idle.get(loop)
        if found is None:
            found = self._idle[loop] = IdleConnections(loop, self._idle_seconds, MAX_IDLE_CLIENTS)
        return found
