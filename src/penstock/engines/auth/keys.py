"""Schemes that only carry a key: none at all, bearer, a header of its own, the address."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.engines.auth.signing import Signed
from penstock.providers.address import quote

if TYPE_CHECKING:
    from penstock.engines.auth.secret import Secret
    from penstock.engines.auth.signing import Fetch, Headers
    from penstock.providers.registry import Credential


class NoAuth:
    """Nobody asks who is asking."""

    scheme = "none"
    steady = True  # the same for every request

    async def sign(
        self, method: str, url: str, headers: Headers, body: bytes = b"", fetch: Fetch | None = None
    ) -> Signed:
        return Signed(url, dict(headers))

    def secrets(self) -> tuple[str, ...]:
        return ()


class KeyAuth:
    """A key in a header: `authorization: Bearer …`, `x-api-key: …`, `api-key: …`."""

    steady = True

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
    steady = True  # the same for every request

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
