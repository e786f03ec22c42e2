"""Whether a request comes from a program on this machine: from loopback, to a loopback name, through no proxy."""

from __future__ import annotations

import ipaddress
from functools import lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, MutableMapping

_PROXY_HEADERS = frozenset({
    "cdn-loop", "cf-connecting-ip", "cf-ray", "client-ip", "fly-client-ip", "forwarded", "max-forwards",
    "proxy-connection", "true-client-ip", "via", "x-client-ip", "x-cluster-client-ip", "x-envoy-external-address",
    "x-original-host", "x-original-url", "x-real-ip",
})  # fmt: skip
_FORWARDED = "x-forwarded"  # -for, -host, -proto, -port, -prefix, -server …
_OLD_HTTP = frozenset({"0.9", "1.0"})


def local_caller(scope: MutableMapping[str, Any], headers: Mapping[str, str]) -> bool:
    """Whether a program on this machine asks for itself. A socket file is not enough: reverse proxies use those."""
    client = scope.get("client")
    if not client or not _loopback_address(client[0]):
        return False
    return _loopback_host(headers.get("host", "")) and not through_proxy(scope, headers)


def through_proxy(scope: MutableMapping[str, Any], headers: Mapping[str, str]) -> bool:
    """Whether a request shows that a proxy sent it for somebody else.

    HTTP/1.0 counts too: nginx long spoke it to its upstreams unless told otherwise, and it adds no header by default.
    https://nginx.org/en/docs/http/ngx_http_proxy_module.html#proxy_http_version
    """
    if scope.get("http_version") in _OLD_HTTP or not _PROXY_HEADERS.isdisjoint(headers):
        return True
    return _FORWARDED in " ".join(headers) and any(name.startswith(_FORWARDED) for name in headers)


def host_name(host: str) -> str:
    """`name:80` → `name`, `[::1]:80` → `::1`."""
    host = host.strip().lower().rstrip(".")
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.rpartition(":")[0] if host.count(":") == 1 else host


@lru_cache(1000)
def ip_address(name: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """An address, or None if the text is not one."""
    try:
        return ipaddress.ip_address(name)
    except ValueError:
        return None


def loopback(name: str) -> bool:
    """Whether a name or an address always means this machine."""
    address = ip_address(name)
    return address.is_loopback if address is not None else name == "localhost" or name.endswith(".localhost")


@lru_cache(1000)
def _loopback_host(host: str) -> bool:
    return loopback(host_name(host))


@lru_cache(1000)
def _loopback_address(name: str) -> bool:
    address = ip_address(name)
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        return address.ipv4_mapped.is_loopback  # how a socket for both versions shows 127.0.0.1
    return address is not None and address.is_loopback
