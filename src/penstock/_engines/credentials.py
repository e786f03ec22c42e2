"""Finds the key of a provider (the caller's, the configured one, a variable or a stored key) and signs its requests.

A key that `penstock setup` stored is bound to the origin of the URL it was stored for. A custom provider may have
the name of a built-in one, or an account another URL: a key for one host is never sent to another.

Several configured keys of a provider are used in turn (`KeyRotation`).
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import msgspec

from penstock._engines.auth import Auth, Secret, auth_for
from penstock._engines.engine_interface import HttpRequest, UpstreamRequest
from penstock._engines.environ import stored_origin
from penstock._http_errors import rate_limit_reset
from penstock._lazy_patterns import lazy_pattern
from penstock._providers.registry import Provider, Setting, providers
from penstock.errors import InputError, provider_error
from penstock.events import Fault

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from penstock._engines.config import Account, Config
    from penstock._http.request_options import RequestOptions
    from penstock.errors import ProviderError


REFUSED_KEY_SECONDS = 300.0  # that a key without access or credit is set aside
LIMITED_KEY_SECONDS = 5.0  # that a rate-limited key is set aside, if the provider gives no time
MAX_KEY_SECONDS = 3600.0
_KEY_FAULTS = frozenset({"auth", "quota", "rate-limit"})
MAX_KEY_STATES = 1_000  # clients choose the names of models


class KeyRotation:
    """The keys of a provider that has several. They are used in turn.

    A key that the provider does not accept is set aside for all models; one that is rate-limited, for its model. If all
    keys are set aside, the one that is free first is used: the provider decides.
    """

    def __init__(self, keys: list[tuple[str, str]], clock: Callable[[], float] = time.monotonic) -> None:
        self.places: tuple[str, ...] = tuple(place for place, _ in keys)  # where they are configured: no secret
        self.keys: tuple[Secret, ...] = tuple(Secret(key) for _, key in keys)
        self._clock, self._next = clock, 0
        self._until: dict[tuple[int, str], float] = {}  # key and model (empty: all) → when it is free again

    def take(self, model: str) -> int:
        """Returns the number of the key for the next request."""
        count = len(self.keys)
        order = [(self._next + step) % count for step in range(count)]
        chosen = min(order, key=lambda number: self.seconds_left(number, model)) if self._until else order[0]
        self._next = (chosen + 1) % count
        return chosen

    def seconds_left(self, number: int, model: str) -> float:
        """Returns the seconds that a key is set aside for; 0 if it is free."""
        until = max(self._until.get((number, ""), 0.0), self._until.get((number, model), 0.0))
        return max(0.0, until - self._clock()) if until else 0.0

    def set_aside(self, place: str, model: str, error: ProviderError) -> str:
        """Sets a key aside if the error is about it. Returns a sentence if another key is free; else nothing."""
        if error.kind not in _KEY_FAULTS or place not in self.places:
            return ""
        if error.kind == "rate-limit":
            stated = error.retry_after or rate_limit_reset(error.headers, time.time(), refused=True)
            seconds = self._hold(place, model, stated or LIMITED_KEY_SECONDS)
        else:
            seconds = self._hold(place, "", REFUSED_KEY_SECONDS)
        if all(self.seconds_left(number, model) for number in range(len(self.keys))):
            return ""
        return f"the key of {place} is set aside for {seconds:.0f} s"

    def note_limit(self, place: str, model: str, left: float | None) -> None:
        """Sets a key aside if a response says that nothing is left of its limit, for so many seconds."""
        if left and place in self.places:
            self._hold(place, model, left)

    def _hold(self, place: str, model: str, seconds: float) -> float:
        seconds = min(seconds, MAX_KEY_SECONDS)
        if len(self._until) >= MAX_KEY_STATES:
            now = self._clock()
            self._until = {key: until for key, until in self._until.items() if until > now and not key[1]}
        self._until[self.places.index(place), model] = self._clock() + seconds
        return seconds


class AuthCache:
    """The auth of each provider and key. Cached, because tokens are fetched once and used until they expire."""

    def __init__(self, config: Config, env: Mapping[str, str], clock: Callable[[], float] = time.monotonic) -> None:
        self._config, self._env, self._clock = config, env, clock
        self._cache: dict[tuple[str, ...], Auth] = {}
        self._rotations: dict[str, tuple[list[tuple[str, str]], KeyRotation]] = {}

    def rotation(self, provider: str) -> KeyRotation | None:
        """Returns the keys of a provider that has several; else None. The state lasts as long as the keys."""
        keys = self._config.account(provider).configured_keys(self._env)
        if len(keys) < 2:  # noqa: PLR2004
            return None
        found = self._rotations.get(provider)
        if found is None or found[0] != keys:
            found = self._rotations[provider] = (keys, KeyRotation(keys, self._clock))
        return found[1]

    def get(self, upstream: UpstreamRequest, chosen: str = "") -> Auth:
        """Returns the auth for a request. `chosen`: one of several keys. Raises `AuthError` if the key is missing."""
        row, account = upstream.provider, self._config.account(upstream.provider.name)
        configured = [] if chosen or upstream.options.key else account.configured_keys(self._env)
        key = upstream.options.key or chosen or (configured[0][1] if configured else "")
        refusal = ""
        if not key and (account.variables or account.key_file or not any(self._env.get(name) for name in row.env)):
            stored = find_stored_key(row, account, self._env)
            key, refusal = stored.key, stored.refusal
        if (account.variables or account.key_file) and not key:
            names = " or ".join(account.variables)
            missing = f"{row.name} needs a key: {names}, which providers.{row.name}.env names, is not set"
            if account.key_file:
                files = " or ".join(account.key_files)
                missing = f"{row.name} needs a key: {files}, which providers.{row.name}.key_file names, has none"
            raise provider_error(Fault("auth", refusal or missing), provider=row.name, model=upstream.model)
        if refusal and not any(one.optional or one.ambient or one.scheme == "none" for one in row.credentials):
            raise provider_error(Fault("auth", refusal), provider=row.name, model=upstream.model)
        cache_key = (row.name, row.base_url, key, *(self._env.get(name, "") for name in (*row.env, row.stored_name)))
        auth = self._cache.get(cache_key)
        if auth is None:
            try:
                auth = auth_for(row, key=key, env=self._env, settings=account.settings)
            except InputError as error:
                raise provider_error(Fault("auth", str(error)), provider=row.name, model=upstream.model) from error
            if not upstream.options.key:  # a caller's own key is not cached
                self._cache[cache_key] = auth
        return auth


_URL_SETTING = lazy_pattern(r"\{([a-z_]+)\}")  # a setting at the start of a URL
_DEFAULT_PORTS = {"https": ":443", "http": ":80"}


class UsableKey(msgspec.Struct, frozen=True):
    """The stored key, or why it may not be sent."""

    key: str = ""
    refusal: str = ""

    def __repr__(self) -> str:
        return f"UsableKey(refusal={self.refusal!r})"


def find_stored_key(row: Provider, account: Account, env: Mapping[str, str]) -> UsableKey:
    """Returns the stored key of a provider, if it is for the provider's current URL."""
    key = env.get(row.stored_name, "")
    if not key:
        return UsableKey()
    bound, now = stored_origin(env, row.name), address_origin(row, account, env)
    own_address = not account.base_url and providers().get(row.name, row).base_url == row.base_url
    if bound == now or (not bound and own_address and row.name in providers()):
        return UsableKey(key)
    reason = f"is for {bound}" if bound else "does not say which address it is for"
    return UsableKey(
        refusal=f"the stored key of {row.name} {reason}, so it is not sent to {now or 'this address'}: `penstock setup "
        f"--provider {row.name}` stores one for it, or name a variable in providers.{row.name}.env"
    )


def address_origin(row: Provider, account: Account, env: Mapping[str, str]) -> str:
    """Returns scheme and host of a provider's URL; empty if a setting is missing.

    A setting inside a host, such as a region, is not filled in: the host is the vendor's whatever the value. A setting
    that is the whole URL is filled in.
    """
    return url_origin(_fill_address(row, account, env))


def url_origin(address: str) -> str:
    """Returns scheme and host of a URL, with the port if it is not the scheme's own; empty for other text."""
    if not address.startswith(("https://", "http://")):
        return ""
    parts = urlsplit(address)
    host = parts.netloc.rpartition("@")[2].lower()
    return f"{parts.scheme}://{host.removesuffix(_DEFAULT_PORTS.get(parts.scheme, '/'))}"


def shown_address(row: Provider, account: Account, env: Mapping[str, str]) -> str:
    """Returns a provider's URL as people may see it: without a user name, a password and a query."""
    origin = address_origin(row, account, env)
    return origin and origin + urlsplit(_fill_address(row, account, env)).path.rstrip("/")


def _fill_address(row: Provider, account: Account, env: Mapping[str, str]) -> str:
    """Returns a provider's URL. Only a setting at its start, which is the host or the whole URL, is filled in."""
    address = account.base_url or row.base_url
    whole = _URL_SETTING.match(address)
    if not whole:
        return address
    setting = row.settings.get(whole[1], Setting())
    value = account.settings.get(whole[1]) or next((env[one] for one in setting.env if env.get(one)), "")
    start = f"https://{value}" if value and "://" not in value else value or setting.default
    return start and start.rstrip("/") + address[whole.end() :]


class RequestSigner:
    """Signs the requests of one plan. `same_signature`: all requests get the same headers.

    Tokens are fetched with the same options (proxy, TLS, timeouts) as the request itself.
    """

    def __init__(self, auth: Auth, options: RequestOptions, native: Any) -> None:
        self.same_signature: bool = getattr(auth, "same_signature", False)
        self.secrets: Callable[[], tuple[str, ...]] = auth.secrets  # a function: tokens change
        self._auth, self._options, self._native = auth, options, native

    async def __call__(self, out: HttpRequest) -> HttpRequest:
        return await self._auth.sign(out, self._fetch)

    async def _fetch(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes
    ) -> tuple[int, Mapping[str, str], bytes]:
        request = HttpRequest(url=url, method=method, headers=dict(headers), body=body)
        response = await self._native.send(request, self._options)
        return response.status, response.headers, await response.read_all(2**20)
