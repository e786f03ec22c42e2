"""Finds the key of a provider (the caller's, the configured one, a variable or a stored key) and signs its requests.

A key that `penstock setup` stored is bound to the origin of the URL it was stored for. A custom provider may have
the name of a built-in one, or an account another URL: a key for one host is never sent to another.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import msgspec

from penstock._engines.auth import Auth, auth_for
from penstock._engines.engine_interface import HttpRequest, UpstreamRequest
from penstock._engines.environ import stored_origin
from penstock._providers.registry import Provider, Setting, providers
from penstock.errors import InputError, provider_error
from penstock.events import Fault

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from penstock._engines.config import Account, Config
    from penstock._http.request_options import RequestOptions


class AuthCache:
    """The auth of each provider and key. Cached, because tokens are fetched once and used until they expire."""

    def __init__(self, config: Config, env: Mapping[str, str]) -> None:
        self._config, self._env = config, env
        self._cache: dict[tuple[str, ...], Auth] = {}

    def get(self, upstream: UpstreamRequest) -> Auth:
        """Returns the auth for a request. Raises `AuthError` if the key is missing."""
        row, account = upstream.provider, self._config.account(upstream.provider.name)
        key = upstream.options.key or account.key or (self._env.get(account.env, "") if account.env else "")
        refusal = ""
        if not key and (account.env or not any(self._env.get(name) for name in row.env)):
            stored = find_stored_key(row, account, self._env)
            key, refusal = stored.key, stored.refusal
        if account.env and not key:
            missing = f"{row.name} needs a key: {account.env}, which providers.{row.name}.env names, is not set"
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


_URL_SETTING = re.compile(r"\{([a-z_]+)\}")  # a setting at the start of a URL
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
    address = account.base_url or row.base_url
    whole = _URL_SETTING.match(address)
    if whole:
        setting = row.settings.get(whole[1], Setting())
        value = account.settings.get(whole[1]) or next((env[one] for one in setting.env if env.get(one)), "")
        address = f"https://{value}" if value and "://" not in value else value or setting.default
    if not address.startswith(("https://", "http://")):
        return ""
    parts = urlsplit(address)
    host = parts.netloc.rpartition("@")[2].lower()
    return f"{parts.scheme}://{host.removesuffix(_DEFAULT_PORTS.get(parts.scheme, '/'))}"


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
