"""The caller of a request: the gateway key it sent, what that key may do, and whether it is a local program."""

from __future__ import annotations

import ipaddress
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import parse_qsl, urlsplit

import msgspec

from penstock._http.header_fields import KEY_HEADERS, InvalidHeaderError, check_text
from penstock._store.key_records import UNLIMITED, Limit, Role
from penstock.errors import InputError, StreamFault
from penstock.events import Fault, FaultKind

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, MutableMapping

    from penstock.request import Request


GATEWAY_KEY_HEADER = "x-penstock-key"  # a gateway key, beside a provider's key in another header
AUTHORIZATION = "authorization"
_KEY_HEADER_SET = frozenset(KEY_HEADERS)
ANONYMOUS = "anonymous"
_PROXY_HEADERS = frozenset(
    "cdn-loop cf-connecting-ip cf-ray client-ip fly-client-ip forwarded max-forwards proxy-connection true-client-ip "
    "via x-client-ip x-cluster-client-ip x-envoy-external-address x-original-host x-original-url x-real-ip".split()
)
_FORWARDED = "x-forwarded"  # -for, -host, -proto, -port, -prefix, -server …
_OWN_SITE = frozenset({"", "none", "same-origin"})  # Sec-Fetch-Site: no browser, the address bar, our own page
MAX_FORWARDED = 32  # addresses that are read
_FORWARDED_LISTS = (b"x-forwarded-for", b"forwarded")
_OLD_HTTP = frozenset({"0.9", "1.0"})


class Refusal(StreamFault):
    """A request is refused. The fault has the reason; every protocol can write it."""

    def __init__(self, status: int, fault: Fault) -> None:
        super().__init__(fault)
        self.status = status


def make_refusal(
    status: int, kind: FaultKind, message: str, *, code: str = "", retry_after: float | None = None
) -> Refusal:
    """Return a `Refusal`."""
    return Refusal(status, Fault(kind, message, status=status, code=code, retry_after=retry_after))


class Caller(msgspec.Struct, frozen=True, kw_only=True):
    """Who sent a request. `key` names the gateway key, `tenant` owns its state, `models` are patterns that it may use.

    `shared_models` are the patterns of its team and of the organisation: a model must match one of each. `limits` are
    of the key, `team_limits` of all keys of its team, `organisation_limits` of all keys. `max_output`: tokens of an
    answer; 0 is the model's maximum.

    `forward` are the headers with the caller's own provider key and `secret` is that key; both are empty unless the
    configuration forwards keys. `sees`: whose turns it may inspect; `keeps_turns`: the inspector keeps its turns.
    `key_hash` is the hash of the gateway key, which
    distinguishes a revoked key from a new one of the same name; empty for callers without a key.
    """

    key: str = ANONYMOUS
    tenant: str = ANONYMOUS
    models: tuple[str, ...] = ("*",)
    shared_models: tuple[tuple[str, ...], ...] = ()
    limits: Limit = UNLIMITED
    team: str = ""
    team_limits: Limit = UNLIMITED
    organisation_limits: Limit = UNLIMITED
    role: Role = "user"
    max_output: int = 0
    forward: dict[str, str] = {}
    secret: str = ""
    sees: Literal["own", "all"] = "own"
    keeps_turns: bool = False
    key_hash: str = ""

    @property
    def visible_tenant(self) -> str | None:
        """The tenant whose turns it may inspect; None means all."""
        return None if self.sees == "all" else self.tenant

    def may_use(self, *models: str) -> bool:
        """Return whether the caller may use a model under one of these names."""
        return _match_any(self.models, models) and all(_match_any(patterns, models) for patterns in self.shared_models)

    def check_model(self, *models: str) -> None:
        """Raise if the caller may not use a model under any of these names."""
        if not self.may_use(*models):
            reason = f"the key {self.key!r} may not use the model {models[0]!r}"
            raise make_refusal(403, "permission", reason, code="model_not_allowed")

    def check_other_models(self, request: Request) -> None:
        """Raise if a request names other models for its provider to choose from, and the caller may not use all.

        OpenRouter takes such a list: https://openrouter.ai/docs/features/model-routing
        """
        if ("*" in self.models and not self.shared_models) or not request.extra:
            return
        if any(fields.get("models") for fields in request.extra.values()):
            reason = (
                f"models: the key {self.key!r} may not use all models, so it may not leave the choice to a provider"
            )
            raise make_refusal(403, "permission", reason, code="model_not_allowed")

    def __repr__(self) -> str:
        return f"Caller(key={self.key!r}, tenant={self.tenant!r}, models={self.models!r})"

    def __rich_repr__(self) -> Any:
        yield "key", self.key


def _match_any(patterns: tuple[str, ...], models: tuple[str, ...]) -> bool:
    return "*" in patterns or any(fnmatchcase(model, pattern) for model in models for pattern in patterns)


def read_keys(scope: MutableMapping[str, Any], headers: Mapping[str, str]) -> dict[str, str]:
    """Return the keys of a request by their header or parameter, in the order in which they are tried."""
    query = scope.get("query_string") or b""
    if not query and _KEY_HEADER_SET.isdisjoint(headers):
        return {}
    keys: dict[str, str] = {}
    for name in KEY_HEADERS:
        value = headers.get(name, "").strip()
        if name == AUTHORIZATION:
            scheme, _, value = value.partition(" ")
            value = value.strip() if scheme.lower() == "bearer" else ""
        if value:
            keys[name] = value
    if b"key" in query or b"%" in query:  # its name may be percent-encoded
        asked = [value for name, value in parse_qsl(query.decode("latin-1"), keep_blank_values=True) if name == "key"]
        if len(asked) > 1:
            raise make_refusal(400, "invalid", "the query has more than one key=", code="repeated_key")
        keys |= {"?key": asked[0]} if asked and asked[0] else {}
    for location, value in keys.items():
        check_key(location, value)
    return keys


def check_key(place: str, value: str, *, ascii_only: bool = False) -> None:
    """Raise if a key is not a valid header value. The message names its location, never its value."""
    where = "the key in ?key=" if place == "?key" else f"the key in the header {place}"
    try:
        check_text(value, where, ascii_only=ascii_only)
    except InvalidHeaderError as error:
        raise make_refusal(400, "invalid", str(error), code="invalid_key_syntax") from None


def is_local_caller(scope: MutableMapping[str, Any], headers: Mapping[str, str]) -> bool:
    """Return whether a local program sent the request. A Unix socket is not enough: reverse proxies use those."""
    client = scope.get("client")
    if not client or not _loopback_address(client[0]):
        return False
    return _loopback_host(headers.get("host", "")) and not is_proxied(scope, headers)


def is_proxied(scope: MutableMapping[str, Any], headers: Mapping[str, str]) -> bool:
    """Return whether a request shows signs of a proxy.

    HTTP/1.0 is such a sign: nginx long used it for upstreams by default, and adds no header by default.
    https://nginx.org/en/docs/http/ngx_http_proxy_module.html#proxy_http_version
    """
    if scope.get("http_version") in _OLD_HTTP or not _PROXY_HEADERS.isdisjoint(headers):
        return True
    return _FORWARDED in " ".join(headers) and any(name.startswith(_FORWARDED) for name in headers)


def peer_address(scope: MutableMapping[str, Any]) -> str:
    """Return the address that a connection comes from; empty for a socket file."""
    client = scope.get("client")
    return client[0] if client else ""


class TrustedProxies:
    """The reverse proxies whose `X-Forwarded-For` or `Forwarded` is believed. Those of anybody else are not read."""

    def __init__(self, networks: Iterable[str]) -> None:
        self._networks = [parse_network(network, f"[{number}]") for number, network in enumerate(networks)]

    def trusts(self, address: str) -> bool:
        """Return whether an address is one of the proxies."""
        found = parse_ip(address) if self._networks else None
        if isinstance(found, ipaddress.IPv6Address):
            found = found.ipv4_mapped or found
        return found is not None and any(found in network for network in self._networks)

    def client_address(self, scope: MutableMapping[str, Any]) -> str:
        """Return the address of the client. Each proxy appends the peer that it saw, so addresses are read backwards.

        If both headers are there and differ, the proxy set only one of them, and nobody knows which: neither counts.
        """
        peer = peer_address(scope)
        if not self.trusts(peer):
            return peer
        lists = {name: _read_forwarded(scope, name) for name in _FORWARDED_LISTS}
        found = {self._last_stranger(addresses) or peer for addresses in lists.values() if addresses}
        return found.pop() if len(found) == 1 else peer

    def _last_stranger(self, addresses: list[str]) -> str:
        """Return the last address that is not a proxy's; empty if it is not an address, or if there is none."""
        for address in reversed(addresses):
            if not self.trusts(address):
                return address if parse_ip(address) is not None else ""
        return ""


def parse_network(text: str, place: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network:
    """Return a network. Raises `InputError` if the text is not one; `place` is where it stands."""
    try:
        return ipaddress.ip_network(text)
    except ValueError:
        raise InputError(f"{place}: {_network_error(text)}") from None


def _network_error(text: str) -> str:
    """Return what is wrong with a network that cannot be read, and what it should be."""
    try:
        fix = f"write {ipaddress.ip_network(text, strict=False)}, or {text.partition('/')[0]} for that one address"
    except ValueError:
        return f"expected an address such as 10.0.0.7 or a network such as 10.0.0.0/8 or fd00::/8, found {text!r}"
    return f"expected a network without bits of a host, found {text!r}: {fix}"


def _read_forwarded(scope: MutableMapping[str, Any], name: bytes) -> list[str]:
    """Return the last addresses of `X-Forwarded-For` or `Forwarded`, which may be sent in several lines."""
    text = b",".join(value for header, value in scope["headers"] if header == name).decode("latin-1")
    items = [item.strip() for item in text.split(",")[-MAX_FORWARDED:]] if text else []
    if name == b"forwarded":
        pairs = ([pair.strip() for pair in item.split(";")] for item in items)
        items = [next((pair[4:] for pair in item if pair[:4].lower() == "for="), "") for item in pairs]
    return [parse_host(item.strip('"')) for item in items]


def check_own_page(headers: Mapping[str, str]) -> None:
    """Raise if a page sends the request that does not come from the gateway itself."""
    origin = headers.get("origin", "").lower()
    try:
        own = urlsplit(origin).netloc == headers.get("host", "").lower() if origin else True
    except ValueError:
        own = False
    if not own or headers.get("sec-fetch-site", "") not in _OWN_SITE:
        reason = "only a page of this gateway may use the admin API from a browser"
        raise make_refusal(403, "permission", reason, code="origin_not_allowed")


def parse_host(host: str) -> str:
    """`name:80` → `name`, `[::1]:80` → `::1`."""
    host = host.strip().lower().rstrip(".")
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.rpartition(":")[0] if host.count(":") == 1 else host


@lru_cache(1000)
def parse_ip(name: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Return an IP address; None if the text is not one."""
    try:
        return ipaddress.ip_address(name)
    except ValueError:
        return None


def is_loopback(name: str) -> bool:
    """Return whether a name or address always means this machine."""
    address = parse_ip(name)
    return address.is_loopback if address is not None else name == "localhost" or name.endswith(".localhost")


@lru_cache(1000)
def _loopback_host(host: str) -> bool:
    return is_loopback(parse_host(host))


@lru_cache(1000)
def _loopback_address(name: str) -> bool:
    address = parse_ip(name)
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        return address.ipv4_mapped.is_loopback  # how a socket for both versions shows 127.0.0.1
    return address is not None and address.is_loopback
