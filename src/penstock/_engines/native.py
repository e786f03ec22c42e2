"""The native engine: sends requests with `http.pool.UpstreamClient` and decodes the responses.

Needs the extra `client`. `send` works without a provider and a protocol: a method, a URL, headers and bytes out;
status, headers and chunks in.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock._engines.attempt_trace import MAX_ERROR_BODY_BYTES
from penstock._engines.environ import LIVE
from penstock._engines.reply_decoding import NativeSource
from penstock._http.header_fields import check_url
from penstock._http.pool import UpstreamClient
from penstock._http.proxy_and_tls import certificate_files, load_tls_context, needs_tls, proxy_for
from penstock._http.transport_errors import response_error
from penstock._version import __version__

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock._engines.engine_interface import HttpRequest, UpstreamRequest
    from penstock._http.request_options import RequestOptions
    from penstock._http.response import UpstreamResponse

AGENT = f"penstock/{__version__}"
_SUCCESS = 2  # first digit of the status
_MAX_ERROR_BODY = 2**20  # bytes


class NativeEngine:
    """Sends requests. One for a process or a client: it owns the connections. `direct=False`: over aiohttp only."""

    name = "native"

    def __init__(self, *, direct: bool = True) -> None:
        self._http = UpstreamClient(direct=direct)

    async def aclose(self) -> None:
        """Closes every connection."""
        await self._http.aclose()

    def unsupported_reason(self, upstream: UpstreamRequest) -> str:
        """Returns nothing: every request that has a URL can be sent."""
        return ""

    async def open(self, job: UpstreamRequest) -> NativeSource:
        """Sends a turn's request and decodes its response."""
        return NativeSource(await self._send_job(job), job)

    async def fetch(self, job: UpstreamRequest) -> tuple[Mapping[str, str], bytes]:
        """Sends a request that is not a turn. Returns headers and body."""
        response = await self._send_job(job)
        return response.headers, await response.read_all()

    async def _send_job(self, job: UpstreamRequest) -> UpstreamResponse:
        prepared, trace = job.request_heads.get(self), job.trace
        if prepared is not None:
            body = job.encode_body()
            if trace is not None:
                trace.prepared, trace.body = prepared, body
            response = await self._http.send_prepared(prepared, body, job.options.timeouts, trace)
        else:
            out = job.to_http()
            if job.sign is not None:
                out = await job.sign(out)
            response = await self.send(out, job.options, job)
        if trace is not None:
            trace.set_response(response.status, response.headers)
        if response.status // 100 != _SUCCESS:
            body = await response.read_all(_MAX_ERROR_BODY)
            if trace is not None:
                trace.error_body = body[:MAX_ERROR_BODY_BYTES]
            raise response_error(
                response.status, response.headers, body, job.secrets, job.protocol, job.provider.name, job.model
            )
        return response

    async def send(
        self, out: HttpRequest, options: RequestOptions, job: UpstreamRequest | None = None
    ) -> UpstreamResponse:
        """Sends a request and waits for the response's head, whatever its status."""
        if needs_tls(out.url, options):
            await load_tls_context(options)  # raises for certificates that cannot be used
        check_url(out.url)
        proxy, headers = proxy_for(out.url, options, LIVE), _request_headers(out)
        prepared = self._http.prepare(out.method, out.url, headers, options) if proxy is None else None
        trace = job.trace if job is not None else None
        if trace is not None:
            trace.method, trace.url, trace.headers, trace.body = out.method, out.url, headers, out.body
        if prepared is None:
            return await self._http.send(out.method, out.url, headers, out.body, options, proxy)
        if job is not None and job.same_signature and not certificate_files(options):
            job.request_heads[self] = prepared
        return await self._http.send_prepared(prepared, out.body, options.timeouts, trace)


def _request_headers(out: HttpRequest) -> dict[str, str]:
    """Returns the headers of a request. A stream is requested uncompressed: compression delays its events."""
    accept = "text/event-stream, application/json" if out.stream else "application/json"
    encoding = "identity" if out.stream else "gzip, deflate"
    headers = {"accept": accept, "accept-encoding": encoding, "user-agent": AGENT}
    if out.body:
        headers["content-type"] = "application/json"
    for name, value in out.headers.items():
        headers[name.lower()] = value
    return headers
