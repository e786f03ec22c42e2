"""Who is asking: one module for each scheme, chosen by what a provider's row says, never by its name.

`auth = auth_for(provider, key=…, env=…)`, then for every request
`signed = await auth.sign(method, url, headers, body, fetch)`. Schemes that need a library need its extra.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock._engines.auth.aws import AwsAuth
from penstock._engines.auth.base import Auth, Fetch, KeyAuth, NoAuth, QueryAuth, Secret, Signed
from penstock._engines.auth.oauth_tokens import GoogleAuth, IbmAuth
from penstock._http.header_fields import check_text
from penstock._providers.address import fill_template
from penstock.errors import InputError

__all__ = ["NO_AUTH", "Auth", "Fetch", "Secret", "Signed", "auth_for", "choose_credential"]


if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from penstock._providers.registry import Credential, Provider

    Make = Callable[[Provider, Credential, str, Mapping[str, str], Mapping[str, str]], Auth]

NO_AUTH: Auth = NoAuth()


def auth_for(
    provider: Provider,
    *,
    key: str = "",
    env: Mapping[str, str] | None = None,
    settings: Mapping[str, str] | None = None,
    scheme: str = "",
) -> Auth:
    """How to sign for a provider. `key` in place of what the environment holds; `scheme`: which of its ways."""
    around = env or {}
    row = choose_credential(provider, key=key, env=around, scheme=scheme)
    found = key or next((around[name] for name in row.env if around.get(name)), "")
    return _SCHEMES[row.scheme](provider, row, found, around, settings or {})


def choose_credential(
    provider: Provider, *, key: str = "", env: Mapping[str, str] | None = None, scheme: str = ""
) -> Credential:
    """The row of the credential that will be used."""
    rows = [row for row in provider.credentials if not scheme or row.scheme == scheme]
    if not rows:
        known = ", ".join(row.scheme for row in provider.credentials)
        raise InputError(f"{provider.name} has no auth {scheme!r}; it has: {known}")
    around = env or {}
    present = (row for row in rows if any(around.get(name) for name in row.env))
    ambient = (row for row in rows if row.ambient)
    return rows[0] if key else next(present, None) or next(ambient, None) or rows[0]


def _none(*_: object) -> Auth:
    return NO_AUTH


def _keyed(provider: Provider, row: Credential, key: str, *_: object) -> Auth:
    if not key and row.optional:
        return NO_AUTH
    return KeyAuth(_needed(provider, row, key), row)


def _query(provider: Provider, row: Credential, key: str, *_: object) -> Auth:
    return QueryAuth(_needed(provider, row, key), row)


def _aws(provider: Provider, row: Credential, key: str, env: Mapping[str, str], settings: Mapping[str, str]) -> Auth:
    return AwsAuth(
        row.service, fill_template(provider, "{region}", settings=settings, env=env), {**env, **_pair(key, env)}
    )


def _google(_provider: Provider, row: Credential, key: str, env: Mapping[str, str], _: object) -> Auth:
    return GoogleAuth(row.scope, env, key)


def _ibm(provider: Provider, row: Credential, key: str, env: Mapping[str, str], settings: Mapping[str, str]) -> Auth:
    return IbmAuth(_needed(provider, row, key), fill_template(provider, row.token_url, settings=settings, env=env))


def _pair(key: str, env: Mapping[str, str]) -> dict[str, str]:
    """AWS keys come in pairs: in a configuration, `id:secret` or `id:secret:token`."""
    names = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
    parts = key.split(":", 2) if ":" in key and key not in env.values() else []
    return dict(zip(names, parts, strict=False))


def _needed(provider: Provider, row: Credential, key: str) -> Secret:
    if key:
        check_text(key.strip(), f"the key for {provider.name}")
        return Secret(key.strip())
    where = " or ".join(row.env) or "a key"
    raise InputError(
        f"{provider.name} needs a key: `penstock setup --provider {provider.name}` stores one, or set {where}"
    )


_SCHEMES: dict[str, Make] = {
    "none": _none,
    "bearer": _keyed,
    "header": _keyed,
    "query": _query,
    "aws": _aws,
    "google": _google,
    "ibm": _ibm,
}
