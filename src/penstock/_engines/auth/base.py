"""The form of every scheme: a request goes in, its address and headers come out, signed.

Schemes that must ask for a token are given a `Fetch`, so that they travel the same way as the request itself.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, Protocol, TypeAlias

from penstock._providers.address import quote
from penstock._redaction import MARK
from penstock.errors import MissingExtra

if TYPE_CHECKING:
    from penstock._providers.registry import Credential

Headers: TypeAlias = Mapping[str, str]
# method, address, headers, body → status, headers, body
Fetch: TypeAlias = Callable[[str, str, Headers, bytes], Awaitable[tuple[int, Headers, bytes]]]
_EARLY = 60.0  # seconds before its end at which a token is asked for anew


class Signed(NamedTuple):
    """A request's address and headers as they are sent."""

    url: str
    headers: dict[str, str]


class Auth(Protocol):
    """A way to say who is asking. `secrets`: the values that must be kept out of whatever is shown."""

    scheme: str

    async def sign(
        self, method: str, url: str, headers: Headers, body: bytes = b"", fetch: Fetch | None = None
    ) -> Signed: ...

    def secrets(self) -> tuple[str, ...]: ...


def import_library(name: str, package: str, extra: str) -> Any:
    """A module of an optional package, imported when a scheme first needs it."""
    try:
        return import_module(name)
    except ImportError as error:
        raise MissingExtra(package, extra) from error


class TokenCache:
    """A token that is kept until shortly before its end. Whoever comes while one is asked for waits for that one."""

    def __init__(self, ask: Callable[[Fetch | None], Awaitable[tuple[str, float]]]) -> None:
        self._ask = ask
        self._token = Secret("")
        self._until = 0.0
        self._lock = asyncio.Lock()

    async def get(self, fetch: Fetch | None) -> Secret:
        async with self._lock:
            if not self._token or time.monotonic() >= self._until:
                value, lasts = await self._ask(fetch)
                self._token = Secret(value)
                self._until = time.monotonic() + max(lasts - _EARLY, lasts / 2)
            return self._token

    def known(self) -> tuple[str, ...]:
        return (self._token.reveal(),) if self._token else ()


class Secret:
    """A key or token. `reveal()` is the only way to its value."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        return self._value

    def __bool__(self) -> bool:
        return bool(self._value)

    def __repr__(self) -> str:
        return f"Secret({MARK!r})" if self._value else "Secret('')"

    def __str__(self) -> str:
        return MARK if self._value else ""

    def __format__(self, spec: str) -> str:
        return format(str(self), spec)

    def __reduce__(self) -> NoReturn:
        message = "a secret is not to be written anywhere"
        raise TypeError(message)


class NoAuth:
    """Nobody asks who is asking."""

    scheme = "none"
    same_signature = True  # the same for every request

    async def sign(
        self, method: str, url: str, headers: Headers, body: bytes = b"", fetch: Fetch | None = None
    ) -> Signed:
        return Signed(url, dict(headers))

    def secrets(self) -> tuple[str, ...]:
        return ()


class KeyAuth:
    """A key in a header: `authorization: Bearer …`, `x-api-key: …`, `api-key: …`."""

    same_signature = True

    def __init__(self, key: Secret, row: Credential) -> None:
        self.scheme: str = row.scheme
        self._key = key
        self._header = row.header
        self._prefix = row.prefix or ("Bearer " if row.scheme == "bearer" else "")

    async def sign(
        self, method: str, url: str, headers: Headers, body: bytes = b"", fetch: Fetch | None = None
    ) -> Signed:
        return Signed(url, {**headers, self._header: self._prefix + self._key.reveal()})

    def secrets(self) -> tuple[str, ...]:
        return (self._key.reveal(),)


class QueryAuth:
    """A key in the address: `?key=…`. Whoever shows the address must hide it."""

    scheme = "query"
    same_signature = True  # the same for every request

    def __init__(self, key: Secret, row: Credential) -> None:
        self._key = key
        self._name = row.query

    async def sign(
        self, method: str, url: str, headers: Headers, body: bytes = b"", fetch: Fetch | None = None
    ) -> Signed:
        mark = "&" if "?" in url else "?"
        return Signed(f"{url}{mark}{self._name}={quote(self._key.reveal())}", dict(headers))

    def secrets(self) -> tuple[str, ...]:
        return (self._key.reveal(),)
