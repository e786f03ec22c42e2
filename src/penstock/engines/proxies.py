"""Which proxy an address is reached through: what the options say, else the environment, less what needs none."""

from __future__ import annotations

import re
from functools import lru_cache
from ipaddress import ip_address, ip_network
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from penstock.engines.surroundings import LIVE
from penstock.http.request_head import check_url

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from penstock.engines.options import RequestOptions

_PORT = re.compile(r"(\[.+\]|[^:]+):(\d+)")


def proxy_for(url: str, options: RequestOptions, env: Mapping[str, str] = LIVE) -> str | None:
    """The proxy's address, or None for the straight way."""
    if options.proxy == "none":
        return None
    scheme, host, port = _place(url)
    if options.proxy != "environment":
        return None if bypassed(host, port, options.no_proxy) else options.proxy
    found = _said(f"{scheme}_proxy", env) or _said("all_proxy", env)
    if not found or not found.lower().startswith(("http://", "https://")):
        return None  # no other kind is spoken here
    check_url(found, f"the proxy that the environment names for {scheme}")
    without = (*options.no_proxy, *_said("no_proxy", env).split(","))
    return None if bypassed(host, port, without) else found


@lru_cache(1000)
def _place(url: str) -> tuple[str, str, int]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)


def _said(name: str, env: Mapping[str, str]) -> str:
    value = env.get(name) or env.get(name.upper()) or ""
    if not value:
        return ""
    # HTTP_PROXY in capitals is what a web server makes of a request's header Proxy: where one runs us, it is not ours.
    return "" if name == "http_proxy" and not env.get(name) and "REQUEST_METHOD" in env else value


def bypassed(host: str, port: int, rules: Iterable[str]) -> bool:
    """Whether a host is reached without a proxy."""
    return any(_fits(host.lower().rstrip("."), port, rule.strip().lower()) for rule in rules if rule.strip())


def _fits(host: str, port: int, rule: str) -> bool:
    if rule == "*":
        return True
    if "/" in rule:
        return _inside(host, rule)
    ported = _PORT.fullmatch(rule)
    if ported is not None:
        if int(ported[2]) != port:
            return False
        rule = ported[1]
    rule = rule.strip("[]").removeprefix("*").lstrip(".")
    return host == rule or host.endswith(f".{rule}")


def _inside(host: str, rule: str) -> bool:
    try:
        return ip_address(host) in ip_network(rule, strict=False)
    except ValueError:
        return False
