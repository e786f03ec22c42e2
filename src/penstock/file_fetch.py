"""Fetches the files that a request names by URL, before the request is converted. Off unless switched on.

Only http and https, and only public addresses. A host name is resolved once; every address is checked, and again when
its socket is created. Each redirect is checked in the same way. Sizes and times are limited, and the media type is
read from the bytes. Needs the extra `fetch`.
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
    """A remote file that cannot or may not be fetched."""


def is_public(address: Address) -> bool:
    """True if an address is on the public internet. An IPv6 address may hold an IPv4 address, which is checked too."""
    if isinstance(address, IPv6Address):
        embedded = address.ipv4_mapped or address.sixtofour or (address.teredo[1] if address.teredo else None)
        if address in _NAT64:
            embedded = IPv4Address(int(address) & 0xFFFFFFFF)
        if address.is_site_local or (embedded is not None and not is_public(embedded)):
            return False
    kinds = "private loopback link_local multicast reserved unspecified"
    return address.is_global and not any(getattr(address, f"is_{kind}") for kind in kinds.split())


async def system_resolver(host: str, port: int) -> list[str]:
    """Returns the addresses of a host, from the system's resolver."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(row[4][0]) for row in found))


class FetchLimits(msgspec.Struct, frozen=True):
    """What may be fetched, and how much. `allow` decides about addresses; only tests replace it."""

    size: int = 20 * 2**20  # bytes of one file
    seconds: float = 15.0  # for one file, redirects included
    redirects: int = 3
    files: int = 32  # of one request
    at_once: int = 4
    ports: frozenset[int] = frozenset({80, 443})
    allow: Callable[[Address], bool] = is_public
    resolve: Callable[[str, int], Awaitable[Sequence[str]]] = system_resolver


class Fetcher:
    """A function that fetches one file within limits, or raises a `FetchError`. Adapters take it as `fetch`."""

    def __init__(self, limits: FetchLimits | None = None) -> None:
        _import_aiohttp()
        self.limits: FetchLimits = limits or FetchLimits()

    async def __call__(self, url: str) -> rq.File:
        """Returns the file with its data."""
        return await fetch(url, self.limits)


async def fetch(url: str, limits: FetchLimits | None = None) -> rq.File:
    """Returns one remote file. Raises a `FetchError` if it cannot be fetched."""
    async with _FileSession(limits or FetchLimits()) as session:
        result = await session.fetch(url)
    if isinstance(result, FetchError):
        raise result
    return result


async def fetch_files(
    request: rq.Request, *, limits: FetchLimits | None = None, failing: OnFailure = "keep"
) -> tuple[rq.Request, Diagnostics]:
    """Returns the request with the data of its remote files. A file that fails stays a URL, or is an error.

    Examples:
        An address inside your network is not asked:

        >>> image = rq.File(media="image/png", url="http://127.0.0.1/secret.png")
        >>> request = rq.Request(model="m", messages=[rq.Message("user", [image])])
        >>> fetched, diagnostics = asyncio.run(fetch_files(request))
        >>> fetched == request, len(diagnostics)
        (True, 1)
    """
    diagnostics, bounds = Diagnostics("fetch"), limits or FetchLimits()
    urls = list(dict.fromkeys(_remote_urls(request)))
    if len(urls) > bounds.files:
        diagnostics.add("fetch-limit", f"of {len(urls)} remote files only the first {bounds.files} are fetched")
    if not urls:
        return request, diagnostics
    async with _FileSession(bounds) as session:
        results = await asyncio.gather(*(session.fetch(url) for url in urls[: bounds.files]))
    files: dict[str, rq.File] = {}
    for url, result in zip(urls, results, strict=False):
        if isinstance(result, rq.File):
            files[url] = result
        elif failing == "error":
            raise result
        else:
            diagnostics.add("fetch-failed", str(result))
    return _insert_files(request, files, diagnostics), diagnostics


def _remote_urls(request: rq.Request) -> Iterable[str]:
    for message in request.messages:
        for part in message.parts:
            for file in part.content if type(part) is rq.Result else (part,):
                if type(file) is rq.File and _is_remote(file):
                    yield file.url


def _is_remote(file: rq.File) -> bool:
    return not file.data and file.url.lower().startswith(("http://", "https://"))


def _insert_files(request: rq.Request, files: dict[str, rq.File], diagnostics: Diagnostics) -> rq.Request:
    def insert(part: Any) -> Any:
        if type(part) is rq.Result:
            content = change_list(part.content, _FILES, insert)
            return part if content is part.content else replace(part, content=content)
        file = files.get(part.url) if _is_remote(part) else None
        if file is None:
            return part
        if not is_of_kind(part.media, file.data):
            message = f"a file said to be {part.media!r} is {file.media!r} and is left as an address"
            diagnostics.add("fetch-type", message)
            return part
        return replace(part, url="", data=file.data, media=file.media)

    def insert_all(message: rq.Message) -> rq.Message:
        parts = change_list(message.parts, _FILES, insert)
        return message if parts is message.parts else replace(message, parts=parts)

    return with_messages(request, [insert_all(message) for message in request.messages])


def _import_aiohttp() -> Any:
    try:
        return import_module("aiohttp")
    except ImportError:
        raise MissingExtra("aiohttp", "fetch") from None


class _FileSession:
    """The HTTP client for the files of one request. It has no cookies, no proxy and no credentials."""

    def __init__(self, limits: FetchLimits) -> None:
        self._limits = limits
        self._slots = asyncio.Semaphore(limits.at_once)

    async def __aenter__(self) -> Self:
        http = self._aiohttp = _import_aiohttp()
        self._url: Any = import_module("yarl").URL  # aiohttp's parser: the check sees the URL that is connected to
        connector = http.TCPConnector(
            resolver=self,
            socket_factory=self._create_socket,
            use_dns_cache=False,
            force_close=True,
            limit=self._limits.at_once,
        )
        options = {"cookie_jar": http.DummyCookieJar(), "trust_env": False, "auto_decompress": False}
        self._session = http.ClientSession(connector=connector, headers=_HEADERS, **options)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._session.close()

    # ── addresses ─────────────────────────────────────────────────────────────────────────────────

    async def resolve(self, host: str, port: int = 0, family: int = 0) -> list[dict[str, Any]]:
        """Returns the addresses of a host, as aiohttp's interface of resolvers."""
        addresses = [ip_address(found.partition("%")[0]) for found in await self._limits.resolve(host, port)]
        self._check_addresses(host, addresses)
        families = {4: socket.AF_INET, 6: socket.AF_INET6}
        fixed = {"hostname": host, "port": port, "proto": 0, "flags": socket.AI_NUMERICHOST}
        return [{**fixed, "host": str(one), "family": families[one.version]} for one in addresses]

    def _create_socket(self, row: Any) -> socket.socket:
        """Checks the address that the connection really uses, however the URL was written."""
        family, kind, proto, _, address = row
        self._check_addresses(str(address[0]), [ip_address(str(address[0]).partition("%")[0])])
        return socket.socket(family, kind, proto)

    async def close(self) -> None:
        """Closes nothing: part of aiohttp's interface of resolvers."""

    def _check_addresses(self, host: str, addresses: list[Address]) -> None:
        """Raises unless all addresses are public: a name with public and private addresses is an attack."""
        if not addresses:
            raise FetchError(f"{host} has no address")
        if not all(self._limits.allow(address) for address in addresses):
            raise FetchError(f"{host} is not on the open internet")

    def _check_url(self, url: Any) -> None:
        """Raises unless a URL may be fetched."""
        if url.scheme not in ("http", "https") or not url.host:
            raise FetchError(f"{url.scheme or 'nothing'}: is not fetched, only http and https")
        if url.user or url.password:
            raise FetchError(f"{url.host}: an address with a name and password in it is not fetched")
        if url.port not in self._limits.ports:
            raise FetchError(f"{url.host}: port {url.port} is not fetched from")

    # ── files ─────────────────────────────────────────────────────────────────────────────────────

    async def fetch(self, url: str) -> rq.File | FetchError:
        """Returns the file, or the error."""
        try:
            async with self._slots, asyncio.timeout(self._limits.seconds):
                return await self._follow(url)
        except FetchError as error:
            return error
        except TimeoutError:
            return FetchError(f"no whole file within {self._limits.seconds:g} seconds")
        except (self._aiohttp.ClientError, OSError, ValueError) as error:
            return FetchError(f"a file could not be fetched: {self._reason(error)}")

    def _reason(self, error: Exception) -> str:
        """Returns our own message: the library's may show the URL, which may hold a secret."""
        web = self._aiohttp
        rows: tuple[tuple[Any, str], ...] = (
            (web.ClientConnectorDNSError, "its host is not known"),
            (web.ClientSSLError, "TLS failed, or its certificate is not trusted"),
            (web.ClientConnectorError, "its host cannot be reached"),
            ((web.ServerDisconnectedError, web.ClientPayloadError, ConnectionError), "the connection broke"),
            (web.ClientResponseError, "what came is not HTTP"),
            (ValueError, "its address is not valid"),
        )
        return next((message for kind, message in rows if isinstance(error, kind)), "the connection failed")

    def _parse(self, address: str) -> Any:
        try:
            check_text(address, "the address of a file", ascii_only=False, limit=MAX_REQUEST_HEAD)
        except InvalidHeaderError as error:
            raise FetchError(str(error)) from None
        return self._url(address)

    async def _follow(self, address: str) -> rq.File:
        url = self._parse(address)
        for _ in range(self._limits.redirects + 1):
            self._check_url(url)
            async with self._session.get(url, allow_redirects=False) as response:
                if response.status not in _REDIRECTS:
                    return await self._read(url.host, response)
                url = url.join(self._parse(response.headers.get("Location", "")))
        raise FetchError(f"{url.host}: more than {self._limits.redirects} redirects")

    async def _read(self, host: str, response: Any) -> rq.File:
        """Returns the file. Errors name only the host: a path may hold a secret."""
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
        if not is_of_kind(label, text):  # an error page may be labelled as an image
            raise FetchError(f"{host}: a file labelled {label!r} that does not begin like one")
        return rq.File(sniff_media_type(text) or label, data=text)
