"""The native transport: aiohttp, one pooled session for each distinct way of connecting, limits on every wait.

Leans on `options`, `tls` and `proxies`, and on `Reading` for what the bytes mean. `send` alone knows no provider and no
protocol: a method, an address, headers and bytes out; a status, headers and chunks in. Needs the extra `client`.
"""

from __future__ import annotations

import asyncio
import io
from importlib import import_module
from typing import TYPE_CHECKING, Any, Self

from penstock._version import __version__
from penstock.engines.environ import LIVE
from penstock.engines.reading import Reading
from penstock.errors import InputError, MissingExtra
from penstock.http import proxy_and_tls
from penstock.http.header_fields import check_request, check_url
from penstock.http.pool import IDLE_SECONDS, Direct
from penstock.http.proxy_and_tls import proxy_for
from penstock.http.response import Incoming
from penstock.http.transport_errors import broken, late, refused
from penstock.redaction import redact

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.engines.interface import Job, Outgoing
    from penstock.engines.options import RequestOptions, Timeouts
    from penstock.http.pool import Letter

AGENT = f"penstock/{__version__}"
_LARGE = 2**20  # bytes above which aiohttp wants a body as a file
_KEPT = 64  # sessions at most
_FINE = 2  # what the status of an answer begins with
_NO = 2**20  # bytes of a no


class Native:
    """Sends requests. One for a process or a client: it keeps the connections."""

    name = "native"

    def __init__(self) -> None:
        try:
            self._aiohttp: Any = import_module("aiohttp")
        except ImportError:
            raise MissingExtra("aiohttp", "client") from None
        self._sessions: dict[tuple[object, ...], Any] = {}
        self._retired: list[Any] = []
        self._direct = Direct(self._aiohttp)
        self._troubles: tuple[type[Exception], ...] = (TimeoutError, self._aiohttp.ClientError, OSError, ValueError)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close every connection."""
        self._direct.close()
        await asyncio.sleep(0)  # in which connections learn of it
        sessions = [*self._sessions.values(), *self._retired]
        self._sessions, self._retired = {}, []
        for session in sessions:
            await session.close()

    def lacks(self, job: Job) -> str:
        """Nothing: what has an address can be asked for."""
        return ""

    async def open(self, job: Job) -> Reading:
        """Ask, and read the answer as a turn."""
        return Reading(await self._asked(job), job)

    async def fetch(self, job: Job) -> tuple[Mapping[str, str], bytes]:
        """Ask for something that is no turn."""
        incoming = await self._asked(job)
        return incoming.headers, await incoming.whole()

    async def _asked(self, job: Job) -> Incoming:
        letter = job.letters.get(self)
        if letter is not None:
            incoming = await self._posted(letter, job.data(), job.options.timeouts)
        else:
            out = job.outgoing()
            if job.sign is not None:
                out = await job.sign(out)
            incoming = await self.send(out, job.options, job)
        if incoming.status // 100 != _FINE:
            body = await incoming.whole(_NO)
            raise refused(
                incoming.status, incoming.headers, body, job.secrets, job.protocol, job.provider.name, job.model
            )
        return incoming

    async def send(self, out: Outgoing, options: RequestOptions, job: Job | None = None) -> Incoming:
        """Send a request and wait for the head of its answer, whatever its status."""
        loop, limits = asyncio.get_running_loop(), options.timeouts
        secure = proxy_and_tls.context(options)  # what is wrong with it is the caller's, not the way's
        check_url(out.url)
        started = loop.time()
        try:
            until = started + min(limits.first_byte, limits.total)
            response = await self._response(loop, out, options, secure, until, job)
        except self._troubles as error:
            raise self._told(error, limits, out.url) from error
        return Incoming(response, limits, loop, started)

    async def _posted(self, letter: Letter, body: bytes, limits: Timeouts) -> Incoming:
        """The same for a request whose like was sent before."""
        loop = asyncio.get_running_loop()
        started = loop.time()
        until = started + min(limits.first_byte, limits.total)
        try:
            response = await self._direct.send(letter, body, connect=limits.connect, until=until)
        except self._troubles as error:
            raise self._told(error, limits) from error
        return Incoming(response, limits, loop, started)

    def _told(self, error: Exception, limits: Timeouts, url: str = "") -> Exception:
        """Trouble on the way in our words. What was wrong with the request itself is told as it is."""
        if isinstance(error, InputError):
            return error
        if isinstance(error, TimeoutError):
            return late(error, limits)
        if isinstance(error, self._aiohttp.InvalidURL | self._aiohttp.NonHttpUrlClientError):
            return InputError(f"{redact(url)!r} is no address to ask at")
        return broken(error)

    async def _response(
        self, loop: asyncio.AbstractEventLoop, out: Outgoing, options: RequestOptions, secure: Any, until: float,
        job: Job | None,
    ) -> Any:  # fmt: skip
        """By the straight way where there is one, else as aiohttp goes."""
        limits, proxy, headers = options.timeouts, proxy_for(out.url, options, LIVE), _headers(out)
        letter = self._direct.letter(out.method, out.url, headers, secure) if proxy is None else None
        if letter is not None:
            if job is not None and job.steady and not proxy_and_tls.files(options):
                job.letters[self] = letter
            return await self._direct.send(letter, out.body, connect=limits.connect, until=until)
        check_request(out.method, out.url, headers)  # aiohttp looks for line breaks alone
        async with asyncio.timeout_at(until):
            return await self._session(loop, options).request(
                out.method, self._place(out.url), data=_body(out.body), headers=headers, allow_redirects=False,
                proxy=proxy, timeout=self._limits(limits.connect),
            )  # fmt: skip

    def _place(self, url: str) -> Any:
        # As it is: an address that was signed must not be spelt anew (yarl would make ':' of '%3A').
        return self._aiohttp.client.URL(url, encoded=url.isascii() and " " not in url)

    def _limits(self, connect: float) -> Any:
        # All but the connection's own limit is watched by `Incoming`, which does not count a consumer's time.
        return self._aiohttp.ClientTimeout(total=None, sock_connect=connect)

    def _session(self, loop: asyncio.AbstractEventLoop, options: RequestOptions) -> Any:
        key = (loop, *proxy_and_tls.key_of(options))
        found = self._sessions.get(key)
        if found is None or found.closed:
            found = self._sessions[key] = self._made(options)
            while len(self._sessions) > _KEPT:  # answers may still be coming over it
                self._retired.append(self._sessions.pop(next(iter(self._sessions))))
        return found

    def _made(self, options: RequestOptions) -> Any:
        web = self._aiohttp
        # No limit on connections: how many streams may run at once is for the one who opens them to say.
        connector = web.TCPConnector(ssl=proxy_and_tls.context(options), limit=0, keepalive_timeout=IDLE_SECONDS)
        return web.ClientSession(
            connector=connector, cookie_jar=web.DummyCookieJar(), trust_env=False, max_line_size=65536,
            max_field_size=65536, skip_auto_headers=("User-Agent", "Accept-Encoding", "Accept", "Content-Type"),
        )  # fmt: skip


def _headers(out: Outgoing) -> dict[str, str]:
    """What a request always says. A stream is asked for as it is: what is packed comes late."""
    accept = "text/event-stream, application/json" if out.stream else "application/json"
    made = {
        "accept": accept, "accept-encoding": "identity" if out.stream else "gzip, deflate", "user-agent": AGENT,
    }  # fmt: skip
    if out.body:
        made["content-type"] = "application/json"
    for name, value in out.headers.items():
        made[name.lower()] = value
    return made


def _body(body: bytes) -> Any:
    return io.BytesIO(body) if len(body) > _LARGE else body or None
