"""The SDK engine: the vendors' SDKs send the requests, and our decoders read the payloads that they parse.

The SDKs use an HTTP client with the same request options as the native engine; penstock does the retries. Errors are
read from the response's bytes, so both engines raise the same ones. `sdk_vendors` knows the SDKs.
"""

from __future__ import annotations

import asyncio
import contextlib
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from penstock._engines.environ import LIVE
from penstock._engines.reply_decoding import ReplyDecoder
from penstock._engines.sdk_vendors import VENDOR_SDKS, VendorSdk, capture_response
from penstock._http.header_fields import check_request, check_url
from penstock._http.pool import IdleConnections
from penstock._http.proxy_and_tls import load_tls_context, proxy_for, tls_context, tls_key
from penstock._http.transport_errors import connection_error, response_error, timeout_error, wait_timeout_message
from penstock.errors import ProviderError, provider_error
from penstock.events import AnyEvent, Fault

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine, Mapping

    from penstock._diagnostics import Diagnostic
    from penstock._engines.engine_interface import ChunkEvents, HttpRequest, UpstreamRequest
    from penstock._http.request_options import RequestOptions

T = TypeVar("T")
_DRAIN_SECONDS = 1.0  # for the rest of a complete response
_tasks: set[asyncio.Task[None]] = set()  # the loop holds tasks weakly


class SdkEngine:
    """Sends requests with the vendors' SDKs. `unsupported_reason` says what they lack; then another engine is used."""

    name = "sdk"

    def __init__(self, *, idle_seconds: float = 0.0) -> None:
        self.clients = SdkClientPool(idle_seconds)
        self._loaded: set[tuple[type[VendorSdk], str]] = set()

    async def aclose(self) -> None:
        await self.clients.aclose()

    def unsupported_reason(self, upstream: UpstreamRequest) -> str:
        """Returns why no SDK can send this request; empty if one can."""
        vendor = VENDOR_SDKS.get(upstream.provider.sdk)
        if vendor is None:
            return f"no SDK is used for {upstream.provider.name}"
        can = vendor.capabilities
        turn = upstream.operation in can.operations
        if not turn and upstream.protocol not in can.fetches:
            return f"the SDK is not used for {upstream.operation}"
        if turn and (upstream.protocol not in can.streams or upstream.endpoint.framing not in {"auto", "sse"}):
            return f"the SDK does not speak {upstream.protocol} as it is spoken there"
        if upstream.provider.auth not in can.schemes:
            return f"the SDK cannot sign as {upstream.provider.auth} does"
        if not find_spec(can.package.partition(".")[0]) or not find_spec(can.package):
            return f"{can.package} is not installed: pip install 'penstock[sdk]'"
        return can.version_problem(upstream.provider.sdk) or vendor.url_problem(upstream.url)

    async def open(self, job: UpstreamRequest) -> SdkSource:
        """Sends a turn and waits for the response's head."""
        client = await self._client(job)
        source = SdkSource(client.vendor_sdk(job), job, lambda: self.clients.give_back(client))
        try:
            await _with_timeout(source.begin(), job)
        except BaseException:
            source.release()
            raise
        return source

    async def fetch(self, job: UpstreamRequest) -> tuple[Mapping[str, str], bytes]:
        """Sends a request that is not a turn. Returns headers and body."""
        client = await self._client(job)

        async def send() -> tuple[Any, bytes]:
            out = await _sign(job)
            try:
                return await client.vendor_sdk(job).fetch(out, job)
            except Exception as error:
                raise await _typed_error(error, job) from error

        try:
            response, body = await _with_timeout(send(), job)
        finally:
            self.clients.give_back(client)
        return _headers(response), body

    async def _client(self, job: UpstreamRequest) -> SdkClient:
        """Returns the HTTP client for the job's options. It keeps the connections."""
        kind = VENDOR_SDKS[job.provider.sdk]
        if (kind, job.protocol) not in self._loaded:
            await asyncio.to_thread(kind.load, job)  # takes seconds, which count for no timeout
            self._loaded.add((kind, job.protocol))
        options, web = job.options, kind.http_library()
        check_url(job.url)
        await load_tls_context(options)
        proxy = proxy_for(job.url, options, LIVE)
        limits = options.timeouts  # without the total, which differs between attempts and is checked elsewhere
        waits = (limits.connect, limits.first_byte, limits.between_bytes)
        key = (asyncio.get_running_loop(), web, proxy, waits, *tls_key(options))
        return self.clients.borrow(key, lambda: _http_client(web, options, proxy))


def _http_client(web: Any, options: RequestOptions, proxy: str | None) -> Any:
    limits = options.timeouts
    read = max(limits.first_byte, limits.between_bytes)
    timeout = web.Timeout(connect=limits.connect, read=read, write=limits.first_byte, pool=limits.connect)
    return web.AsyncClient(
        verify=tls_context(options),
        proxy=proxy,
        trust_env=False,
        timeout=timeout,
        follow_redirects=False,
        limits=web.Limits(max_connections=None, max_keepalive_connections=None),
        event_hooks={"response": [capture_response]},
    )


class SdkSource:
    """The source of the SDK engine: payloads that an SDK parsed."""

    raw = False

    def __init__(self, vendor: VendorSdk, job: UpstreamRequest, on_release: Callable[[], None]) -> None:
        self._on_release: Callable[[], None] | None = on_release  # called once, when the client is not needed any more
        self.status = 0
        self.headers: Mapping[str, str] = {}
        self._vendor, self._job = vendor, job
        self._decoding = ReplyDecoder(job)
        self._payloads: AsyncIterator[Any] | None = None
        self._body: Any = None
        self._response: Any = None
        now, limits = asyncio.get_running_loop().time(), job.options.timeouts
        self._first_byte_due, self._total_due = now + limits.first_byte, now + limits.total
        self._begun = self._done = False

    async def begin(self) -> None:
        job = self._job
        out = await _sign(job)
        try:
            if job.stream:
                self._response, self._payloads = await self._vendor.stream(out, job)
            else:
                self._response, self._body = await self._vendor.send(out, job)
        except Exception as error:
            raise await _typed_error(error, job) from error
        self.status, self.headers = self._response.status_code, _headers(self._response)

    async def read(self) -> ChunkEvents | None:
        if self._done:
            return None
        if self._payloads is None:
            self._done = True
            return b"", self._decoding.finish_body(self._decoding.decoder.read_payload(self._body))
        try:
            async with asyncio.timeout_at(self._due()):
                payload = await anext(self._payloads, None)
        except TimeoutError:
            await self.aclose()
            if self._decoding.pending:  # only optional frames are missing
                return b"", self._decoding.finish()
            past_total = asyncio.get_running_loop().time() >= self._total_due
            limits = self._job.options.timeouts
            message = wait_timeout_message(limits, began=self._begun, past_total=past_total)
            raise provider_error(Fault("timeout", message)) from None
        except Exception as error:  # noqa: BLE001 — each SDK has its own exceptions
            return b"", await self._finish_with_error(error)
        if payload is None:
            self._done = True
            return b"", self._decoding.finish()
        self._begun = True
        events = self._decoding.events(self._decoding.decoder.read_payload(payload))
        self._decoding.watch_end()
        return b"", events

    def _due(self) -> float:
        """Returns when the wait that begins now is too long. The wait for the first payload began with the request."""
        now = asyncio.get_running_loop().time()
        if self._decoding.pending:
            return min(self._total_due, self._decoding.until)
        between_bytes = self._job.options.timeouts.between_bytes
        return min(self._total_due, now + between_bytes if self._begun else max(now, self._first_byte_due))

    async def _finish_with_error(self, error: Exception) -> list[AnyEvent]:
        """Decodes an error that was part of the stream like any payload; raises any other error."""
        payload = self._vendor.error_payload(error)
        await self.aclose()
        if payload is None:
            raise await _typed_error(error, self._job) from error
        return self._decoding.finish(self._decoding.decoder.read_payload(payload))

    def end_with(self, fault: Fault) -> list[AnyEvent]:
        self._done = True
        return self._decoding.end_with(fault)

    def release(self) -> None:
        """Gives the client back to the pool."""
        on_release, self._on_release = self._on_release, None
        if on_release is not None:
            on_release()

    def complete(self) -> None:
        self._done = True
        if self._payloads is None:
            self.release()
            return
        closing = self.aclose() if self._decoding.over else self._drain(self._payloads)
        task = asyncio.get_running_loop().create_task(closing)
        _tasks.add(task)
        task.add_done_callback(_tasks.discard)

    async def _drain(self, payloads: AsyncIterator[Any]) -> None:
        """Reads the rest of a complete response, so that its connection can be reused."""
        with contextlib.suppress(Exception):
            async with asyncio.timeout(_DRAIN_SECONDS):
                async for _ in payloads:
                    pass
        await self.aclose()

    async def aclose(self) -> None:
        self._done = True
        streams: tuple[Any, ...] = (self._payloads, self._response)
        self._payloads = None
        try:
            for stream in streams:
                with contextlib.suppress(Exception):  # None, or closed already
                    await stream.aclose()
        finally:
            self.release()

    @property
    def diagnostics(self) -> list[Diagnostic]:
        return self._decoding.diagnostics


async def _sign(job: UpstreamRequest) -> HttpRequest:
    """Returns the signed request. Its head is checked here, because each SDK checks it differently."""
    out = job.to_http()
    if job.sign is not None:
        out = await job.sign(out)
    check_request(out.method, out.url, out.headers)
    return out


async def _with_timeout(work: Coroutine[Any, Any, T], job: UpstreamRequest) -> T:
    """Returns the result of a coroutine. Raises if it takes longer than the timeout of the first byte."""
    limits = job.options.timeouts
    try:
        async with asyncio.timeout(min(limits.first_byte, limits.total)):
            return await work
    except TimeoutError as error:
        raise timeout_error(error, limits) from error


async def _typed_error(error: Exception, job: UpstreamRequest) -> ProviderError:
    """Returns our error for an SDK's error, read from the response's bytes."""
    if isinstance(error, ProviderError):
        return error
    response: Any = getattr(error, "response", None)
    status: Any = getattr(response, "status_code", None) or getattr(error, "code", None)
    if not isinstance(status, int):
        return connection_error(error)
    body = await _error_body(response, error)
    return response_error(status, _headers(response), body, job.secrets, job.protocol, job.provider.name, job.model)


def _headers(response: Any) -> dict[str, str]:
    return {name.lower(): value for name, value in getattr(response, "headers", {}).items()}


async def _error_body(response: Any, error: Exception) -> bytes:
    """Returns the body of an error response; if it cannot be read, the fields that the SDK parsed."""
    with contextlib.suppress(Exception):
        return bytes(await response.aread())
    details = getattr(error, "details", None) or getattr(error, "body", None)
    return msgspec.json.encode(details, enc_hook=repr) if details is not None else b""


MAX_IDLE_CLIENTS = 64


class SdkClient:
    """An HTTP client and the SDK objects that use it. `idle_since`: when its last user gave it back."""

    def __init__(self, key: tuple[object, ...], http: Any, clients: SdkClientPool) -> None:
        self.key, self.http = key, http
        self.users, self.idle_since = 0, 0.0
        self._sdks: dict[type[VendorSdk], VendorSdk] = {}
        self._clients = clients

    def vendor_sdk(self, job: UpstreamRequest) -> VendorSdk:
        """Returns the SDK of the job's provider over this client."""
        kind = VENDOR_SDKS[job.provider.sdk]
        if kind not in self._sdks:
            self._sdks[kind] = kind(self.http)
        return self._sdks[kind]

    def close(self) -> None:
        """Called by the idle timer."""
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

    def borrow(self, key: tuple[object, ...], create: Callable[[], Any]) -> SdkClient:
        """Returns the client with this key; creates its HTTP client if there is none."""
        client = self._open.get(key)
        if client is None:
            client = self._open[key] = SdkClient(key, create(), self)
        elif not client.users:
            self._idle_clients(key).discard(client)
        client.users += 1
        return client

    def give_back(self, client: SdkClient) -> None:
        client.users -= 1
        if not client.users and self._open.get(client.key) is client:
            self._idle_clients(client.key).add(client.key, client)

    def close(self, client: SdkClient) -> None:
        del self._open[client.key]
        task = asyncio.get_running_loop().create_task(client.http.aclose())
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    async def aclose(self) -> None:
        """Closes all clients, also those in use."""
        clients, self._open = list(self._open.values()), {}
        for client in clients:
            self._idle_clients(client.key).discard(client)
            await client.http.aclose()
        await asyncio.gather(*self._closing)
        self._idle = {}

    def _idle_clients(self, key: tuple[object, ...]) -> IdleConnections[SdkClient]:
        loop: Any = key[0]
        if loop not in self._idle:
            self._idle[loop] = IdleConnections(loop, self._idle_seconds, MAX_IDLE_CLIENTS)
        return self._idle[loop]
