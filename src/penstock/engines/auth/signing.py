"""The form of every scheme: a request goes in, its address and headers come out, signed.

Schemes that must ask for a token are given a `Fetch`, so that they travel the same way as the request itself.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from importlib import import_module
from typing import Any, NamedTuple, Protocol, TypeAlias

from penstock.engines.auth.secret import Secret
from penstock.errors import MissingExtra

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


def library(name: str, package: str, extra: str) -> Any:
    """A module of an optional package, imported when a scheme first needs it."""
    try:
        return import_module(name)
    except ImportError as error:
        raise MissingExtra(package, extra) from error


class Tokens:
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
