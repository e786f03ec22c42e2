"""Google access tokens, by google-auth (the extra `google`): a service account's file, or what the machine offers.

google-auth is not asynchronous, so it runs in a thread; whatever it asks for travels by the request's own `Fetch`.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import msgspec

from penstock._engines.auth.base import Fetch, Headers, Secret, Signed, TokenCache, import_library
from penstock._lenient_fields import as_object, get_integer, get_text
from penstock._lenient_fields import get_text as text_of
from penstock._redaction import redact
from penstock._vendor_errors import fault_kind
from penstock.errors import InputError, provider_error
from penstock.events import Fault

if TYPE_CHECKING:
    from collections.abc import Mapping


# the types of credentials that a file may hold, and what makes them
_KINDS = {
    "service_account": ("google.oauth2.service_account", "from_service_account_info"),
    "authorized_user": ("google.oauth2.credentials", "from_authorized_user_info"),
    "external_account": ("google.auth.identity_pool", "from_info"),
    "external_account_authorized_user": ("google.auth.external_account_authorized_user", "from_info"),
    "impersonated_service_account": ("google.auth.impersonated_credentials", "from_impersonated_service_account_info"),
}
_FILE = "GOOGLE_APPLICATION_CREDENTIALS"
_LIMIT = 30.0  # seconds for a token


class GoogleAuth:
    """`authorization: Bearer` with a token that is renewed when it must be. `key`: the JSON of a service account."""

    scheme = "google"

    def __init__(self, scope: str, env: Mapping[str, str], key: str = "") -> None:
        self._google: Any = import_library("google.auth", "google-auth", "google")
        self._scopes = [scope]
        self._path = env.get(_FILE, "")
        self._key = key if key.lstrip().startswith("{") else ""
        self._credentials: Any = None
        self._lock = asyncio.Lock()

    async def sign(
        self, method: str, url: str, headers: Headers, body: bytes = b"", fetch: Fetch | None = None
    ) -> Signed:
        async with self._lock:
            if self._credentials is None:
                self._credentials = await asyncio.to_thread(self._look)
            if not self._credentials.valid:
                await self._renew(fetch)
        project: Any = getattr(self._credentials, "quota_project_id", None)
        more = {"x-goog-user-project": str(project)} if project else {}
        return Signed(url, {**headers, **more, "authorization": f"Bearer {self._credentials.token}"})

    def secrets(self) -> tuple[str, ...]:
        token: Any = getattr(self._credentials, "token", None)
        return tuple(filter(None, (token, self._key)))

    async def _renew(self, fetch: Fetch | None) -> None:
        if fetch is None:
            raise InputError("a Google token must be asked for, and there is no way to ask: give `fetch`")
        asking = _Asking(fetch, asyncio.get_running_loop(), self._google.exceptions.TransportError)
        try:
            async with asyncio.timeout(_LIMIT):
                await asyncio.to_thread(self._credentials.refresh, asking)
        except TimeoutError as error:
            raise provider_error(Fault("timeout", f"no Google token within {_LIMIT:g} s")) from error
        except self._google.exceptions.GoogleAuthError as error:
            if asking.error is not None:
                raise asking.error from None
            raise provider_error(Fault("auth", f"no Google token: {redact(str(error))[:500]}")) from None

    def _look(self) -> Any:
        """Files are read, and without one the machine is asked what it offers."""
        try:
            if self._key or self._path:
                return self._loaded(self._key or Path(self._path).read_text(encoding="utf-8"))
            return self._google.default(scopes=self._scopes)[0]
        except (self._google.exceptions.GoogleAuthError, ValueError, OSError, RecursionError) as error:
            said = redact(str(error)).partition("\n")[0][:300]
            raise InputError(f"no Google credentials were found ({said}): set {_FILE} to a file of them") from None

    def _loaded(self, text: str) -> Any:
        info = json.loads(text)
        kind = text_of(as_object(info), "type")
        if kind not in _KINDS:
            raise ValueError(f"credentials of the type {kind!r}; known are: {', '.join(_KINDS)}")
        module, make = _KINDS[kind]
        return getattr(import_library(module, "google-auth", "google").Credentials, make)(info, scopes=self._scopes)


class _Asking:
    """What google-auth calls a transport request: asks by our `fetch`, from the thread it runs in."""

    def __init__(self, fetch: Fetch, loop: asyncio.AbstractEventLoop, broken: type[Exception]) -> None:
        self._broken = broken
        self._fetch = fetch
        self._loop = loop
        self.error: Exception | None = None

    def __call__(
        self,
        url: str,
        method: str = "GET",
        body: bytes | str | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: float | None = None,
        **_: Any,
    ) -> _Answer:
        data = body.encode() if isinstance(body, str) else body or b""
        asked = asyncio.run_coroutine_threadsafe(
            _awaited(self._fetch, method, url, dict(headers or {}), data), self._loop
        )
        try:
            return _Answer(*asked.result(_LIMIT))
        except Exception as error:
            self.error = error if not isinstance(error, TimeoutError) else None
            asked.cancel()
            raise self._broken("the request for a token failed") from error


class _Answer:
    """What google-auth calls a response."""

    def __init__(self, status: int, headers: Headers, data: bytes) -> None:
        self.status = status
        self.headers = headers
        self.data = data


async def _awaited(fetch: Fetch, method: str, url: str, headers: Headers, body: bytes) -> tuple[int, Headers, bytes]:
    return await fetch(method, url, headers, body)


_GRANT = "urn:ibm:params:oauth:grant-type:apikey"
_HEADERS = {"content-type": "application/x-www-form-urlencoded", "accept": "application/json"}
_OK = 200


class IbmAuth:
    """`authorization: Bearer` with the token that the key was exchanged for."""

    scheme = "ibm"

    def __init__(self, key: Secret, token_url: str) -> None:
        self._key = key
        self._url = token_url
        self._tokens = TokenCache(self._ask)

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
        token = get_text(said, "access_token")
        if status == _OK and token:
            return token, float(get_integer(said, "expires_in") or 3600)
        words = redact(get_text(said, "errorMessage", "message") or f"status {status}", self.secrets())
        code = get_text(said, "errorCode", "code")
        kind = "auth" if status == 400 else fault_kind(code, status=status)  # noqa: PLR2004 — it says so of a wrong key
        raise provider_error(Fault(kind, f"no IBM token: {words}", status=status, code=code))


def _json(body: bytes) -> Any:
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
