"""The key that `penstock setup` stored for a provider. It is bound to the origin of the address it was stored for.

A provider of one's own may have the name of another, and an account may have another address than the table: a key
that was made for one host is not sent to another.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import msgspec

from penstock.engines.environ import stored_origin
from penstock.providers.registry import Setting, providers

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.engines.config import Account
    from penstock.providers.registry import Provider

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
