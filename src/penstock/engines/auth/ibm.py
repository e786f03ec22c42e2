"""IBM Cloud: an API key is exchanged for a token that lasts an hour. Needs no library."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import msgspec

from penstock.engines.auth.signing import Signed, Tokens
from penstock.errors import InputError, provider_error
from penstock.events import Fault
from penstock.faults import kind_of
from penstock.pick import as_object, number, text
from penstock.secrecy import hide

if TYPE_CHECKING:
    from penstock.engines.auth.secret import Secret
    from penstock.engines.auth.signing import Fetch, Headers

_GRANT = "urn:ibm:params:oauth:grant-type:apikey"
_HEADERS = {"content-type": "application/x-www-form-urlencoded", "accept": "application/json"}
_OK = 200


class IbmAuth:
    """`authorization: Bearer` with the token that the key was exchanged for."""

    scheme = "ibm"

    def __init__(self, key: Secret, token_url: str) -> None:
        self._key = key
        self._url = token_url
        self._tokens = Tokens(self._ask)

    async def sign(
        self, method: str, url: str, headers: Headers, body: bytes = b"", fetch: Fetch | None = None
    ) -> Signed:
        token = await self._tokens.get(fetch)
        return Signed(url, {**headers, "authorization": f"Bearer {token.reveal()}"})

    def secrets(self) -> tuple[str, ...]:
        return (self._key.reveal(), *self._tokens.known())

    async def _ask(self, fetch: Fetch | None) -> tuple[str, float]:
        if fetch is None:
            raise InputError("an IBM token must be asked for, and there is no way to ask: give `fetch`")
        form = urlencode({"grant_type": _GRANT, "apikey": self._key.reveal()}).encode()
        status, _, body = await fetch("POST", self._url, _HEADERS, form)
        said = as_object(_json(body))
        token = text(said, "access_token")
        if status == _OK and token:
            return token, float(number(said, "expires_in") or 3600)
        words = hide(text(said, "errorMessage", "message") or f"status {status}", self.secrets())
        code = text(said, "errorCode", "code")
        kind = "auth" if status == 400 else kind_of(code, status=status)  # noqa: PLR2004 — it says so of a wrong key
        raise provider_error(Fault(kind, f"no IBM token: {words}", status=status, code=code))


def _json(body: bytes) -> Any:
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
