"""Which custom providers an admin may add: their names, and their addresses.

The admin API can be used from a browser, so it takes less than `penstock.toml`: no address from which a cloud gives
credentials to its machines. A host name is looked up when a provider is added, changed or tested, and not with every
request: `penstock.toml` and the network's own rules are for gateways whose admins are not trusted.
"""

from __future__ import annotations

import ipaddress
import re
import socket
from typing import TYPE_CHECKING, TypeAlias
from urllib.parse import urlsplit

from penstock._engines.config import Account, Config, check_account
from penstock._gateway.callers import is_loopback
from penstock._http.header_fields import check_text, check_url
from penstock._input_limits import MAX_MODEL_NAME
from penstock._providers.registry import COMPATIBLE, find_provider, providers
from penstock._store.custom_providers import MAX_MODELS, MAX_TITLE, MAX_URL
from penstock.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock._providers.registry import Provider
    from penstock._store.custom_providers import CustomProvider

Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
_HOST = re.compile(r"[a-z0-9._-]+")
_SIMPLE_SCHEMES = frozenset({"bearer", "header"})  # a key is all that they need
# Link-local, and the addresses at which clouds serve credentials: https://www.alibabacloud.com/help/en/ecs/user-guide/
# view-instance-metadata, https://learn.microsoft.com/azure/virtual-network/what-is-ip-address-168-63-129-16,
# https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/instancedata-data-retrieval.html. Over IPv6, in this order: AWS
# (EKS Pod Identity too), Google Cloud, Oracle Cloud, Scaleway, Linode, Alibaba Cloud.
_REFUSED_NETWORKS = tuple(
    ipaddress.ip_network(one)
    for one in (
        "169.254.0.0/16 fe80::/10 100.100.100.200/32 168.63.129.16/32 192.0.0.192/32 fd00:ec2::/32 fd20:ce::254/128 "
        "fd00:c1::a9fe:a9fe/128 fd00:42::42/128 fd00:a9fe:a9fe::1/128 fd00:100::100:200/128"
    ).split()
)
# IPv6 networks whose addresses end with an IPv4 address: IPv4-compatible (RFC 4291), IPv4-translated (RFC 2765) and
# the well-known prefix of NAT64 (RFC 6052). The local prefix of NAT64 (RFC 8215) may have it in any of four places.
_IPV4_ENDINGS = tuple(ipaddress.IPv6Network(one) for one in ("::/96", "::ffff:0:0:0/96", "64:ff9b::/96"))
_LOCAL_NAT64 = ipaddress.IPv6Network("64:ff9b:1::/48")
_IPV4_BYTES = ((6, 7, 9, 10), (7, 9, 10, 11), (9, 10, 11, 12), (12, 13, 14, 15))  # RFC 6052, section 2.2
_METADATA_NAMES = frozenset({"metadata", "metadata.google.internal", "metadata.goog", "instance-data"})
_METADATA_ENDINGS = (".metadata.google.internal", ".metadata.goog", "instance-data.ec2.internal")
_PRIVATE_ENDINGS = (".local", ".lan", ".internal", ".home.arpa", ".localhost")


def make_account(custom: CustomProvider) -> Account:
    """Return the account of a custom provider, as `penstock.toml` would have it."""
    fields = {"title": custom.title} if custom.title else {}
    return Account(base_url=custom.base_url, like=custom.like, models=custom.models, fields=fields)


def list_templates() -> list[Provider]:
    """Return the providers that a custom one can behave like: those that need only an address and a key."""
    rows = [row for row in providers().values() if row.engine == "native" and row.auth in _SIMPLE_SCHEMES]
    return [row for row in rows if row.name == COMPATIBLE or not row.settings]


def check_custom_name(name: str) -> None:
    """Raise unless a new custom provider may have this name."""
    if not _NAME.fullmatch(name):
        reason = "expected 1 to 64 lower-case letters, digits, dots, hyphens and underscores, a letter or digit first"
        raise InputError(f"name: {reason}")
    known = find_provider(name)
    if known is not None:
        raise InputError(f"name: {name!r} is {known.title}, which penstock knows: choose another name")


def check_custom_provider(name: str, custom: CustomProvider) -> None:
    """Raise if a custom provider cannot be used. The message begins with the field."""
    if not _NAME.fullmatch(name):
        check_custom_name(name)
    if custom.like not in {row.name for row in list_templates()}:
        known = find_provider(custom.like)
        reason = f"{known.title} needs more settings: add it in penstock.toml" if known else "no provider"
        raise InputError(f"like: {custom.like[:100]!r}: {reason}")
    check_text(custom.title, "title:", ascii_only=False, limit=MAX_TITLE)
    if len(custom.models) > MAX_MODELS:
        raise InputError(f"models: expected at most {MAX_MODELS}, found {len(custom.models)}")
    for model in custom.models:
        check_text(model, "models: a name", ascii_only=False, limit=MAX_MODEL_NAME)
        if not model or model != model.strip():
            raise InputError("models: a name is empty, or begins or ends with a space")
    _check_base_url(custom.base_url)
    account = make_account(custom)
    check_account(account, Config(providers={name: account}).provider(name))


def _check_base_url(url: str) -> None:
    if len(url) > MAX_URL:
        raise InputError(f"base_url: expected at most {MAX_URL} characters, found {len(url)}")
    check_url(url, "base_url:")
    parts = urlsplit(url)
    if "@" in parts.netloc:
        raise InputError("base_url: it holds a user name or password; leave them out, and give the key as the key")
    if "?" in url:
        raise InputError("base_url: it has a query (?…): leave it out")
    if "{" in url or "}" in url:
        raise InputError("base_url: it has a setting in braces: add such a provider in penstock.toml")
    _check_host((parts.hostname or "").rstrip("."))


def _check_host(host: str) -> None:
    """Raise unless a host may be asked. Other spellings of an address, such as 0xa9fea9fe, count as the address."""
    address = _read_address(host)
    if address is None and not _HOST.fullmatch(host):
        raise InputError("base_url: expected a host of ASCII letters, digits, dots and hyphens (xn--… for others)")
    if host in _METADATA_NAMES or host.endswith(_METADATA_ENDINGS):
        raise InputError(_refusal(host))
    if address is not None:
        _check_address(host, address)


def _check_address(host: str, address: Address) -> None:
    for one in _embedded_addresses(address):
        if one.is_unspecified:
            raise InputError(f"base_url: {host} is no address of a server: write 127.0.0.1 for this machine")
        if one.is_multicast or any(one in network for network in _REFUSED_NETWORKS):
            raise InputError(_refusal(host))


def _refusal(host: str) -> str:
    reason = "is link-local, multicast or a cloud's metadata service, which gives out credentials"
    return f"base_url: {host} {reason}: only penstock.toml may name it"


def _read_address(host: str) -> Address | None:
    """Return an address in any form that the system's resolver takes; None for a name."""
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        pass
    try:
        return ipaddress.IPv4Address(socket.inet_aton(host))
    except (OSError, UnicodeError):
        return None


def _embedded_addresses(address: Address) -> Iterator[Address]:
    """Yield an address, and the IPv4 addresses that may be inside it."""
    yield address
    if not isinstance(address, ipaddress.IPv6Address):
        return
    inside = address.ipv4_mapped or address.sixtofour or (address.teredo[1] if address.teredo else None)
    if inside is not None:
        yield inside
    if any(address in network for network in _IPV4_ENDINGS):
        yield ipaddress.IPv4Address(address.packed[-4:])
    if address in _LOCAL_NAT64:
        for places in _IPV4_BYTES:
            possible = ipaddress.IPv4Address(bytes(address.packed[place] for place in places))
            if not possible.is_unspecified:  # the address is in another of the places
                yield possible


def check_resolved_host(url: str) -> None:
    """Raise if the name in a URL leads to an address that may not be asked. Waits for the system's resolver."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    try:
        found = socket.getaddrinfo(host, parts.port or 443, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return  # a request to it fails too, and says why
    for row in found:
        address = _read_address(str(row[4][0]).partition("%")[0])
        if address is not None and not address.is_unspecified:
            _check_address(f"{host} leads to {address}, which", address)


def describe_exposure(url: str) -> str:
    """Return a warning if requests go through a network that is not known to be private, and are not encrypted."""
    parts = urlsplit(url)
    host = (parts.hostname or "").rstrip(".")
    address = _read_address(host)
    private = address.is_private if address is not None else "." not in host or host.endswith(_PRIVATE_ENDINGS)
    if parts.scheme != "http" or private or is_loopback(host):
        return ""
    return "The address begins with http://: the key and all prompts and answers are sent unencrypted."
