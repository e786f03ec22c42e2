"""Signs requests: by a key in a header or in the URL, by AWS Signature Version 4, by Google's or IBM's access tokens.

`auth_for` chooses the scheme by the provider's row, never by its name. AWS and Google need the libraries of the extras
`aws` and `google`. A token is fetched with the request's own `Fetch`, so it uses the same proxy, TLS and timeouts.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Callable, Coroutine, Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, Protocol, TypeAlias
from urllib.parse import urlencode

import msgspec
from msgspec.structs import replace

from penstock._http.header_fields import check_text
from penstock._lenient_fields import as_object, get_integer, get_text
from penstock._providers.urls import fill_template, quote
from penstock._redaction import MARK, redact
from penstock._vendor_errors import fault_kind
from penstock.errors import InputError, MissingExtra, provider_error
from penstock.events import Fault

if TYPE_CHECKING:
    from penstock._engines.engine_interface import HttpRequest
    from penstock._providers.registry import Credential, Provider

TextMapping: TypeAlias = Mapping[str, str]
# method, URL, headers, body → status, headers, body
Fetch: TypeAlias = Callable[[str, str, TextMapping, bytes], Coroutine[Any, Any, tuple[int, TextMapping, bytes]]]


class Auth(Protocol):
    """Signs the requests for one provider. `secrets` returns the values that must not be shown."""

    async def sign(self, request: HttpRequest, fetch: Fetch, /) -> HttpRequest: ...
    def secrets(self) -> tuple[str, ...]: ...


class Secret:
    """A key or token. Only `reveal` returns its value."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        return self._value

    def __bool__(self) -> bool:
        return bool(self._value)

    def __repr__(self) -> str:
        return f"Secret({str(self)!r})"

    def __str__(self) -> str:
        return MARK if self._value else ""

    def __reduce__(self) -> NoReturn:
        raise TypeError("a secret is not to be written anywhere")


class AuthSettings(NamedTuple):
    """What the auth of a provider is created from. `key`: the caller's or the environment's, if any."""

    provider: Provider
    row: Credential
    key: str
    env: TextMapping
    settings: TextMapping

    def fill(self, template: str) -> str:
        return fill_template(self.provider, template, settings=self.settings, env=self.env)

    def require_key(self) -> Secret:
        """Returns the key. Raises if there is none; the message names the variables that may hold it."""
        name, key = self.provider.name, self.key.strip()
        if not key:
            variables = " or ".join(self.row.env) or "a key"
            raise InputError(f"{name} needs a key: `penstock setup --provider {name}` stores one, or set {variables}")
        check_text(key, f"the key for {name}")
        return Secret(key)


def auth_for(
    provider: Provider, *, key: str = "", env: TextMapping | None = None, settings: TextMapping | None = None
) -> Auth:
    """Returns the auth of a provider. `key` replaces the key in the environment."""
    env = env or {}
    row = choose_credential(provider, key=key, env=env)
    key = key or next((env[name] for name in row.env if env.get(name)), "")
    return _TOKEN_SCHEMES.get(row.scheme, KeyAuth)(AuthSettings(provider, row, key, env, settings or {}))


def choose_credential(provider: Provider, *, key: str = "", env: Mapping[str, str] | None = None) -> Credential:
    """Returns the credential to use: one whose variable is set, else one that needs no key, else the first."""
    rows, env = provider.credentials, env or {}
    present = (row for row in rows if any(env.get(name) for name in row.env))
    ambient = (row for row in rows if row.ambient)
    return rows[0] if key else next(present, None) or next(ambient, None) or rows[0]


def _import_library(name: str, package: str, extra: str) -> Any:
    """Returns a module of an optional package, imported on first use."""
    try:
        return import_module(name)
    except ImportError as error:
        raise MissingExtra(package, extra) from error


class KeyAuth:
    """A key in a header (`authorization: Bearer …`, `x-api-key: …`) or in the URL (`?key=…`); or no key."""

    same_signature = True  # for every request

    def __init__(self, source: AuthSettings) -> None:
        row = self._row = source.row
        without_key = row.scheme == "none" or (row.optional and not source.key)
        self._key = Secret("") if without_key else source.require_key()
        self._prefix = row.prefix or ("Bearer " if row.scheme == "bearer" else "")

    async def sign(self, request: HttpRequest, _fetch: Fetch) -> HttpRequest:
        if not self._key:
            return request
        if self._row.scheme == "query":
            mark = "&" if "?" in request.url else "?"
            return replace(request, url=f"{request.url}{mark}{self._row.query}={quote(self._key.reveal())}")
        return replace(request, headers={**request.headers, self._row.header: self._prefix + self._key.reveal()})

    def secrets(self) -> tuple[str, ...]:
        return (self._key.reveal(),) if self._key else ()


# ── AWS ───────────────────────────────────────────────────────────────────────────────────────────

_KEY, _SECRET, _TOKEN = "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"  # names, not values


class AwsAuth:
    """AWS Signature Version 4 for one service in one region, by botocore.

    The keys are those of the given environment, else what botocore finds: a profile, a role. Only the headers that AWS
    must see are signed, so that a proxy cannot invalidate the signature.
    """

    def __init__(self, source: AuthSettings) -> None:
        _botocore("auth")  # a missing library is reported now, not with the first request
        # At DEBUG botocore logs the canonical request, which holds the session token.
        logging.getLogger("botocore.auth").addFilter(_above_debug)
        self._service, self._region = source.row.service, source.fill("{region}")
        env = {**source.env, **_split_aws_key(source.key, source.env)}
        self._env = {name: env[name] for name in (_KEY, _SECRET, _TOKEN, "AWS_PROFILE") if env.get(name)}
        self._credentials: Any = None  # botocore's; they renew themselves
        self._current_secrets: tuple[str, ...] = ()
        self._lock = asyncio.Lock()

    async def sign(self, request: HttpRequest, _fetch: Fetch) -> HttpRequest:
        signed = {name: value for name, value in request.headers.items() if _is_signed(name.lower())}
        aws_request: Any = _botocore("awsrequest").AWSRequest(request.method, request.url, signed, request.body)
        _botocore("auth").SigV4Auth(await self._keys(), self._service, self._region).add_auth(aws_request)
        added = {str(name).lower(): str(value) for name, value in aws_request.headers.items()}
        return replace(request, headers={**request.headers, **added})

    def secrets(self) -> tuple[str, ...]:
        return tuple(self._env[name] for name in (_SECRET, _TOKEN) if name in self._env) + self._current_secrets

    async def _keys(self) -> Any:
        if _KEY in self._env and _SECRET in self._env:
            return _botocore("credentials").Credentials(self._env[_KEY], self._env[_SECRET], self._env.get(_TOKEN))
        async with self._lock:
            keys = await asyncio.to_thread(self._find_keys)  # reads files and may send requests
        self._current_secrets = tuple(filter(None, (keys.secret_key, keys.token)))
        return keys

    def _find_keys(self) -> Any:
        if self._credentials is None:
            self._credentials = _botocore("session").Session(profile=self._env.get("AWS_PROFILE")).get_credentials()
        if self._credentials is None:
            choices = f"set {_KEY} and {_SECRET}, or AWS_PROFILE, or run where there is a role"
            raise InputError(f"no AWS credentials were found: {choices}")
        return self._credentials.get_frozen_credentials()


def _split_aws_key(key: str, env: Mapping[str, str]) -> dict[str, str]:
    """Returns the variables of a key that a configuration gives as `id:secret` or `id:secret:token`."""
    parts = key.split(":", 2) if ":" in key and key not in env.values() else []
    return dict(zip((_KEY, _SECRET, _TOKEN), parts, strict=False))


def _above_debug(record: logging.LogRecord) -> bool:
    return record.levelno > logging.DEBUG


def _botocore(module: str) -> Any:
    return _import_library(f"botocore.{module}", "botocore", "aws")


def _is_signed(name: str) -> bool:
    return name == "content-type" or name.startswith("x-amz-")


# ── Google ────────────────────────────────────────────────────────────────────────────────────────

# Types of credentials that a file may hold → the module and the method that load them.
_GOOGLE_TYPES = {
    "service_account": ("google.oauth2.service_account", "from_service_account_info"),
    "authorized_user": ("google.oauth2.credentials", "from_authorized_user_info"),
    "external_account": ("google.auth.identity_pool", "from_info"),
    "external_account_authorized_user": ("google.auth.external_account_authorized_user", "from_info"),
    "impersonated_service_account": ("google.auth.impersonated_credentials", "from_impersonated_service_account_info"),
}
_GOOGLE_FILE = "GOOGLE_APPLICATION_CREDENTIALS"
_GOOGLE_TIMEOUT = 30.0  # seconds for a token


class GoogleAuth:
    """Google access tokens, renewed when they expire. A key is the JSON of a service account.

    google-auth is not asynchronous, so it runs in a thread.
    """

    def __init__(self, source: AuthSettings) -> None:
        self._google: Any = _import_library("google.auth", "google-auth", "google")
        self._scopes = [source.row.scope]
        self._path = source.env.get(_GOOGLE_FILE, "")
        self._key = source.key if source.key.lstrip().startswith("{") else ""
        self._credentials: Any = None
        self._lock = asyncio.Lock()

    async def sign(self, request: HttpRequest, fetch: Fetch) -> HttpRequest:
        async with self._lock:
            if self._credentials is None:
                self._credentials = await asyncio.to_thread(self._find_credentials)
            if not self._credentials.valid:
                await self._renew(fetch)
        project: Any = getattr(self._credentials, "quota_project_id", None)
        headers = {**request.headers, **({"x-goog-user-project": str(project)} if project else {})}
        return replace(request, headers={**headers, "authorization": f"Bearer {self._credentials.token}"})

    def secrets(self) -> tuple[str, ...]:
        return tuple(filter(None, (getattr(self._credentials, "token", None), self._key)))

    async def _renew(self, fetch: Fetch) -> None:
        transport = _GoogleTransport(fetch, asyncio.get_running_loop(), self._google.exceptions.TransportError)
        try:
            async with asyncio.timeout(_GOOGLE_TIMEOUT):
                await asyncio.to_thread(self._credentials.refresh, transport)
        except TimeoutError as error:
            raise provider_error(Fault("timeout", f"no Google token within {_GOOGLE_TIMEOUT:g} s")) from error
        except self._google.exceptions.GoogleAuthError as error:
            if transport.error is not None:
                raise transport.error from None
            raise provider_error(Fault("auth", f"no Google token: {redact(str(error))[:500]}")) from None

    def _find_credentials(self) -> Any:
        """Reads the credentials from the key or the file; without them asks the machine."""
        try:
            if self._key or self._path:
                return self._load(self._key or Path(self._path).read_text(encoding="utf-8"))
            return self._google.default(scopes=self._scopes)[0]
        except (self._google.exceptions.GoogleAuthError, ValueError, OSError, RecursionError) as error:
            reason = redact(str(error)).partition("\n")[0][:300]
            message = f"no Google credentials were found ({reason}): set {_GOOGLE_FILE} to a file of them"
            raise InputError(message) from None

    def _load(self, text: str) -> Any:
        info = json.loads(text)
        kind = get_text(as_object(info), "type")
        if kind not in _GOOGLE_TYPES:
            raise ValueError(f"credentials of the type {kind!r}; known are: {', '.join(_GOOGLE_TYPES)}")
        module, method = _GOOGLE_TYPES[kind]
        library = _import_library(module, "google-auth", "google")
        return getattr(library.Credentials, method)(info, scopes=self._scopes)


class _GoogleResponse(NamedTuple):
    """The response that google-auth expects of a transport."""

    status: int
    headers: TextMapping
    data: bytes


class _GoogleTransport:
    """The transport of google-auth: sends its requests with `fetch`, from the thread that google-auth runs in."""

    def __init__(self, fetch: Fetch, loop: asyncio.AbstractEventLoop, transport_error: type[Exception]) -> None:
        self.fetch, self.loop, self.transport_error = fetch, loop, transport_error
        self.error: Exception | None = None

    def __call__(
        self, url: str, method: str = "GET", body: bytes | str | None = None, headers: Any = None, **_: Any
    ) -> _GoogleResponse:
        data = body.encode() if isinstance(body, str) else body or b""
        future = asyncio.run_coroutine_threadsafe(self.fetch(method, url, dict(headers or {}), data), self.loop)
        try:
            return _GoogleResponse(*future.result(_GOOGLE_TIMEOUT))
        except Exception as error:
            self.error = error if not isinstance(error, TimeoutError) else None
            future.cancel()
            raise self.transport_error("the request for a token failed") from error


# ── IBM ───────────────────────────────────────────────────────────────────────────────────────────

_IBM_GRANT = "urn:ibm:params:oauth:grant-type:apikey"
_IBM_HEADERS = {"content-type": "application/x-www-form-urlencoded", "accept": "application/json"}
_OK, _BAD_REQUEST = 200, 400
_RENEW_EARLY = 60.0  # seconds before a token expires


class IbmAuth:
    """IBM access tokens, exchanged for the key. Requests that arrive during an exchange wait for it."""

    def __init__(self, source: AuthSettings) -> None:
        self._key, self._url = source.require_key(), source.fill(source.row.token_url)
        self._token = Secret("")
        self._renew_at = 0.0
        self._lock = asyncio.Lock()

    async def sign(self, request: HttpRequest, fetch: Fetch) -> HttpRequest:
        async with self._lock:
            if not self._token or time.monotonic() >= self._renew_at:
                value, lifetime = await self._exchange_key(fetch)
                self._token = Secret(value)
                self._renew_at = time.monotonic() + max(lifetime - _RENEW_EARLY, lifetime / 2)
        return replace(request, headers={**request.headers, "authorization": f"Bearer {self._token.reveal()}"})

    def secrets(self) -> tuple[str, ...]:
        return tuple(secret.reveal() for secret in (self._key, self._token) if secret)

    async def _exchange_key(self, fetch: Fetch) -> tuple[str, float]:
        form = urlencode({"grant_type": _IBM_GRANT, "apikey": self._key.reveal()}).encode()
        status, _, body = await fetch("POST", self._url, _IBM_HEADERS, form)
        try:
            fields = as_object(msgspec.json.decode(body))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            fields = {}
        token = get_text(fields, "access_token")
        if status == _OK and token:
            return token, float(get_integer(fields, "expires_in") or 3600)
        message = redact(get_text(fields, "errorMessage", "message") or f"status {status}", self.secrets())
        code = get_text(fields, "errorCode", "code")
        kind = "auth" if status == _BAD_REQUEST else fault_kind(code, status=status)  # its answer to a wrong key
        raise provider_error(Fault(kind, f"no IBM token: {message}", status=status, code=code))


_TOKEN_SCHEMES: dict[str, Callable[[AuthSettings], Auth]] = {"aws": AwsAuth, "google": GoogleAuth, "ibm": IbmAuth}
