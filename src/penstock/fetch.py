"""Remote files fetched into a request before it is converted: only where somebody switched it on, and behind a guard.

http and https alone, public addresses alone. A name is resolved once, every address it has is judged, and judged again
when a socket is made for it; a redirect starts over. Sizes and times are limited, types read off the bytes.
Below the line: this is IO, and needs the extra `fetch`.
"""

from __future__ import annotations

import asyncio
import socket
from base64 import b64encode
from collections.abc import Awaitable, Callable, Iterable, Sequence
from importlib import import_module
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from typing import Any, Literal, Self, TypeAlias

import msgspec
from msgspec.structs import replace

from penstock import request as rq
from penstock._diagnostics import Diagnostics
from penstock._http.header_fields import InvalidHeaderError, check_text
from penstock._input_limits import MAX_REQUEST_HEAD
from penstock._media import is_of_kind, sniff_media_type
from penstock._messages.traversal import change_list, with_messages
from penstock.errors import InputError, MissingExtra

Address: TypeAlias = IPv4Address | IPv6Address
OnFailure: TypeAlias = Literal["keep", "error"]
_FILES = frozenset({rq.File, rq.Result})
_NAT64 = IPv6Network("64:ff9b::/96")
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_OK = 200
_CHUNK = 65536
_HEADERS = {"Accept": "*/*", "Accept-Encoding": "identity", "User-Agent": "penstock"}


class FetchError(InputError):
    """A remote file that cannot or may not be had."""


def is_public(address: Address) -> bool:
    """Whether an address belongs to the open internet, also when it hides inside another."""
    if isinstance(address, IPv6Address):
        hidden = address.ipv4_mapped or address.sixtofour or (address.teredo[1] if address.teredo else None)
        if address in _NAT64:
            hidden = IPv4Address(int(address) & 0xFFFFFFFF)
        if hidden is not None and not is_public(hidden):
            return False
        if address.is_site_local:
            return False
    return address.is_global and not (
        address.is_private
        or address.is_loopback
        or address.is_link_local
        or address.is_multicast
        or address.is_reserved
        or address.is_unspecified
    )


async def system_resolver(host: str, port: int) -> list[str]:
    """The addresses of a host, as the system knows them."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(row[4][0]) for row in found))


class FetchLimits(msgspec.Struct, frozen=True):
    """What may be fetched, and how much of it. `allow` judges addresses; tests are the only ones to loosen it."""

    size: int = 20 * 2**20  # bytes of one file
    seconds: float = 15.0  # for one file, redirects and all
    redirects: int = 3
    files: int = 32  # of one request
    at_once: int = 4
    ports: frozenset[int] = frozenset({80, 443})
    allow: Callable[[Address], bool] = is_public
    resolve: Callable[[str, int], Awaitable[Sequence[str]]] = system_resolver


class Fetcher:
    """A function that fetches one file behind the guard, or raises a `FetchError`. Adapters take it as `fetch`."""

    def __init__(self, limits: FetchLimits | None = None) -> None:
        try:
            import_module("aiohttp")
        except ImportError:
            raise MissingExtra("aiohttp", "fetch") from None
        self.limits: FetchLimits = limits or FetchLimits()

    async def __call__(self, url: str) -> rq.File:
        """The file with its data."""
        return await fetch(url, self.limits)


async def fetch(url: str, limits: FetchLimits | None = None) -> rq.File:
    """One remote file, or a `FetchError`."""
    async with _Fetching(limits or FetchLimits()) as fetching:
        found = await fetching.outcome(url)
    if isinstance(found, FetchError):
        raise found
    return found


async def fetch_files(
    request: rq.Request, *, limits: FetchLimits | None = None, failing: OnFailure = "keep"
) -> tuple[rq.Request, Diagnostics]:
    """The request with its remote files in it. One that fails stays an address, or is an error."""
    notes, bounds = Diagnostics("fetch"), limits or FetchLimits()
    urls = list(dict.fromkeys(_urls(request)))
    if len(urls) > bounds.files:
        notes.add("fetch-limit", f"of {len(urls)} remote files only the first {bounds.files} are fetched")
    if not urls:
        return request, notes
    async with _Fetching(bounds) as fetching:
        found = await asyncio.gather(*(fetching.outcome(url) for url in urls[: bounds.files]))
    files: dict[str, rq.File] = {}
    for url, outcome in zip(urls, found, strict=False):
        if isinstance(outcome, rq.File):
            files[url] = outcome
        elif failing == "error":
            raise outcome
        else:
            notes.add("fetch-failed", str(outcome))
    return _filled(request, files, notes), notes


def _urls(request: rq.Request) -> Iterable[str]:
    for message in request.messages:
        for part in message.parts:
            for file in part.content if type(part) is rq.Result else (part,):
                if type(file) is rq.File and _remote(file):
                    yield file.url


def _remote(file: rq.File) -> bool:
    return not file.data and file.url.lower().startswith(("http://", "https://"))


def _filled(request: rq.Request, files: dict[str, rq.File], notes: Diagnostics) -> rq.Request:
    def filled(part: Any) -> Any:
        if type(part) is rq.Result:
            content = change_list(part.content, _FILES, filled)
            return part if content is part.content else replace(part, content=content)
        got = files.get(part.url) if _remote(part) else None
        if got is None:
            return part
        if not is_of_kind(part.media, got.data):
            notes.add("fetch-type", f"a file said to be {part.media!r} is {got.media!r} and is left as an address")
            return part
        return replace(part, url="", data=got.data, media=got.media)

    messages = [_changed(message, change_list(message.parts, _FILES, filled)) for message in request.messages]
    return with_messages(request, messages)


def _changed(message: rq.Message, parts: list[Any]) -> rq.Message:
    return message if parts is message.parts else replace(message, parts=parts)


class _Fetching:
    """One client for the files of one request. It has no cookies, no proxy and no credentials."""

    def __init__(self, limits: FetchLimits) -> None:
        self._limits = limits
        self._turns = asyncio.Semaphore(limits.at_once)

    async def __aenter__(self) -> Self:
        try:
            http = self._aiohttp = import_module("aiohttp")
            self._url: Any = import_module("yarl").URL  # the reading of addresses that the connection will use
        except ImportError:
            raise MissingExtra("aiohttp", "fetch") from None
        connector = http.TCPConnector(
            resolver=self,
            socket_factory=self._socket,
            use_dns_cache=False,
            force_close=True,
            limit=self._limits.at_once,
        )
        self._session = http.ClientSession(
            connector=connector,
            cookie_jar=http.DummyCookieJar(),
            trust_env=False,
            auto_decompress=False,
            headers=_HEADERS,
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._session.close()

    # ── addresses ─────────────────────────────────────────────────────────────────────────────────

    async def resolve(self, host: str, port: int = 0, family: int = 0) -> list[dict[str, Any]]:
        """What aiohttp asks of a resolver."""
        addresses = [ip_address(found.partition("%")[0]) for found in await self._limits.resolve(host, port)]
        self._judge(host, addresses)
        return [
            {
                "hostname": host,
                "host": str(address),
                "port": port,
                "proto": 0,
                "flags": socket.AI_NUMERICHOST,
                "family": socket.AF_INET if address.version == 4 else socket.AF_INET6,  # noqa: PLR2004
            }
            for address in addresses
        ]

    def _socket(self, row: Any) -> socket.socket:
        """The last gate: whatever the address was written like, this is where the connection goes."""
        family, kind, proto, _, address = row
        self._judge(str(address[0]), [ip_address(str(address[0]).partition("%")[0])])
        return socket.socket(family, kind, proto)

    async def close(self) -> None:
        """What aiohttp asks of a resolver: there is nothing to close."""

    def _judge(self, host: str, addresses: list[Address]) -> None:
        """One bad address is enough: a name that points at both sides of a wall is a trick."""
        if not addresses:
            raise FetchError(f"{host} has no address")
        if not all(self._limits.allow(address) for address in addresses):
            raise FetchError(f"{host} is not on the open internet")

    def _checked(self, url: Any) -> Any:
        """An address that may be asked, or an error."""
        if url.scheme not in ("http", "https") or not url.host:
            raise FetchError(f"{url.scheme or 'nothing'}: is not fetched, only http and https")
        if url.user or url.password:
            raise FetchError(f"{url.host}: an address with a name and password in it is not fetched")
        if url.port not in self._limits.ports:
            raise FetchError(f"{url.host}: port {url.port} is not fetched from")
        return url

    # ── files ─────────────────────────────────────────────────────────────────────────────────────

    async def outcome(self, url: str) -> rq.File | FetchError:
        """The file, or why there is none."""
        try:
            async with self._turns, asyncio.timeout(self._limits.seconds):
                return await self._file(url)
        except FetchError as error:
            return error
        except TimeoutError:
            return FetchError(f"no whole file within {self._limits.seconds:g} seconds")
        except (self._aiohttp.ClientError, OSError, ValueError) as error:
            return FetchError(f"a file could not be fetched: {self._reason(error)}")

    def _reason(self, error: Exception) -> str:
        """What went wrong, in words. The library's own message may show the address, which may hold a secret."""
        web = self._aiohttp
        rows: tuple[tuple[Any, str], ...] = (
            (web.ClientConnectorDNSError, "its host is not known"),
            (web.ClientSSLError, "TLS failed, or its certificate is not trusted"),
            (web.ClientConnectorError, "its host cannot be reached"),
            ((web.ServerDisconnectedError, web.ClientPayloadError, ConnectionError), "the connection broke"),
            (web.ClientResponseError, "what came is not HTTP"),
            (ValueError, "its address is not valid"),
        )
        return next((words for kind, words in rows if isinstance(error, kind)), "the connection failed")

    def _parsed(self, address: str) -> Any:
        try:
            check_text(address, "the address of a file", ascii_only=False, limit=MAX_REQUEST_HEAD)
        except InvalidHeaderError as error:
            raise FetchError(str(error)) from None
        return self._url(address)

    async def _file(self, address: str) -> rq.File:
        url = self._parsed(address)
        for _ in range(self._limits.redirects + 1):
            async with self._session.get(self._checked(url), allow_redirects=False) as response:
                if response.status not in _REDIRECTS:
                    return await self._read(url.host, response)
                url = url.join(self._parsed(response.headers.get("Location", "")))
        raise FetchError(f"{url.host}: more than {self._limits.redirects} redirects")

    async def _read(self, host: str, response: Any) -> rq.File:
        """The body. Errors name the host alone: a path may hold a secret."""
        limit = self._limits.size
        if response.status != _OK:
            raise FetchError(f"{host}: status {response.status}")
        if response.headers.get("Content-Encoding", "identity").lower() != "identity":
            raise FetchError(f"{host}: compressed though it was asked not to be")
        if (response.content_length or 0) > limit:
            raise FetchError(f"{host}: over the limit of {limit} bytes")
        data = bytearray()
        async for chunk in response.content.iter_chunked(_CHUNK):
            data += chunk
            if len(data) > limit:
                raise FetchError(f"{host}: over the limit of {limit} bytes")
        text = b64encode(data).decode()
        label = response.content_type or "application/octet-stream"
        if not is_of_kind(label, text):  # a page that explains an error may be labelled as a picture
            raise FetchError(f"{host}: a file labelled {label!r} that does not begin like one")
        return rq.File(sniff_media_type(text) or label, data=text)
