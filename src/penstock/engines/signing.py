"""Auth applied to a request as it leaves. Tokens are fetched the way the request itself travels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from penstock.engines.job import Outgoing

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.engines.auth import Auth
    from penstock.engines.options import RequestOptions


class Signing:
    """Signs the requests of one plan. `steady`: every one alike."""

    def __init__(self, auth: Auth, options: RequestOptions, native: Any) -> None:
        self.steady: bool = getattr(auth, "steady", False)
        self.secrets = auth.secrets  # as they are now: tokens change
        self._auth = auth
        self._options = options
        self._native = native

    async def __call__(self, out: Outgoing) -> Outgoing:
        signed = await self._auth.sign(out.method, out.url, out.headers, out.body, self._fetch)
        return replace(out, url=signed.url, headers=signed.headers)

    async def _fetch(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes
    ) -> tuple[int, Mapping[str, str], bytes]:
        incoming = await self._native.send(
            Outgoing(url=url, method=method, headers=dict(headers), body=body), self._options
        )
        return incoming.status, incoming.headers, await incoming.whole(2**20)
