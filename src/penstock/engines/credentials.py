"""How a provider's requests are signed: by the caller's key, the configuration's, a variable's or a stored one."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import msgspec
from msgspec.structs import replace

from penstock.engines.auth import auth_for
from penstock.engines.environ import stored_origin
from penstock.engines.interface import Outgoing
from penstock.errors import InputError, provider_error
from penstock.events import Fault
from penstock.providers.registry import Setting, providers

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.engines.auth import Auth
    from penstock.engines.config import Account, Config
    from penstock.engines.interface import Job
    from penstock.engines.options import RequestOptions
    from penstock.providers.registry import Provider


class Credentials:
    """What signs requests, by provider and key. Kept, because tokens are fetched once and used until they expire."""

    def __init__(self, config: Config, env: Mapping[str, str]) -> None:
        self._config, self._env = config, env
        self._known: dict[tuple[str, ...], Auth] = {}

    def auth(self, job: Job) -> Auth:
        """What signs a job; an `AuthError` where its key is missing."""
        row, account = job.provider, self._config.account(job.provider.name)
        key = job.options.key or account.key or (self._env.get(account.env, "") if account.env else "")
        refusal = ""
        if not key and (account.env or not any(self._env.get(name) for name in row.env)):
            stored = find_stored_key(row, account, self._env)
            key, refusal = stored.key, stored.refusal
        if account.env and not key:
            said = f"{row.name} needs a key: {account.env}, which providers.{row.name}.env names, is not set"
            raise provider_error(Fault("auth", refusal or said), provider=row.name, model=job.model)
        if refusal and not any(one.optional or one.ambient or one.scheme == "none" for one in row.credentials):
            raise provider_error(Fault("auth", refusal), provider=row.name, model=job.model)
        named = (row.name, row.base_url, key, *(self._env.get(name, "") for name in (*row.env, row.stored_name)))
        auth = self._known.get(named)
        if auth is None:
            try:
                auth = auth_for(row, key=key, env=self._env, settings=account.settings)
            except InputError as error:
                raise provider_error(Fault("auth", str(error)), provider=row.name, model=job.model) from error
            if not job.options.key:  # a caller's own key is not kept
                self._known[named] = auth
        return auth


_WHOLE = re.compile(r"\{([a-z_]+)\}")  # a setting that an address begins with
_PORTS = {"https": ":443", "http": ":80"}


class UsableKey(msgspec.Struct, frozen=True):
    """The stored key, or why the one that is stored may not be sent."""

    key: str = ""
    refusal: str = ""

    def __repr__(self) -> str:
        return f"UsableKey(refusal={self.refusal!r})"


def find_stored_key(row: Provider, account: Account, env: Mapping[str, str]) -> UsableKey:
    """The stored key of a provider at the address that it has now."""
    key = env.get(row.stored_name, "")
    if not key:
        return UsableKey()
    bound, now = stored_origin(env, row.name), origin_of(row, account, env)
    own_address = not account.base_url and providers().get(row.name, row).base_url == row.base_url
    if bound == now or (not bound and own_address and row.name in providers()):
        return UsableKey(key)
    told = f"is for {bound}" if bound else "does not say which address it is for"
    return UsableKey(
        refusal=f"the stored key of {row.name} {told}, so it is not sent to {now or 'this address'}: `penstock setup "
        f"--provider {row.name}` stores one for it, or name a variable in providers.{row.name}.env"
    )


def origin_of(row: Provider, account: Account, env: Mapping[str, str]) -> str:
    """Scheme and host of a provider's address; empty where a setting is missing.

    A setting inside of a host, such as a region, stays a setting: the host is the vendor's whatever it says. One that
    is a whole address is filled in.
    """
    address = account.base_url or row.base_url
    whole = _WHOLE.match(address)
    if whole:
        setting = row.settings.get(whole[1], Setting())
        said = account.settings.get(whole[1]) or next((env[one] for one in setting.env if env.get(one)), "")
        address = f"https://{said}" if said and "://" not in said else said or setting.default
    if not address.startswith(("https://", "http://")):
        return ""
    parts = urlsplit(address)
    host = parts.netloc.rpartition("@")[2].lower()
    return f"{parts.scheme}://{host.removesuffix(_PORTS.get(parts.scheme, '/'))}"


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
