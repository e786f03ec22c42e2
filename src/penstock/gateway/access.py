"""Who may come in: the Host and Origin of a request, and its gateway key. Gives a `Caller`, or raises `Refused`.

Names that are this machine's own are answered to, and pages that it serves; all else is said in the configuration, so
that no page on the web can talk to a gateway that listens on loopback. Leans on `keys`; knows no route.
"""

from __future__ import annotations

import asyncio
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from penstock.events import Fault
from penstock.gateway.callers import (
    ANONYMOUS,
    BEARER,
    OWN,
    Caller,
    check_key,
    host_name,
    ip_address,
    local_caller,
    loopback,
    read_keys,
    refused,
)
from penstock.gateway.keys import LOOK, KeyRing, digest
from penstock.http.header_fields import read_headers, repeated_header, response_header
from penstock.input_limits import MAX_HEADERS, MAX_PATH, MAX_QUERY

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping, MutableMapping

    from penstock.gateway.config import GatewayConfig

    End = Callable[[Fault], None]


FAMILIAR = 100
_WEBVIEWS = frozenset({"vscode-webview", "vscode-file", "app", "tauri"})  # programs on this machine, no web pages


class Access:
    """The door. `reload` puts another configuration in place; whoever is inside stays."""

    def __init__(self, config: GatewayConfig, env: Mapping[str, str] | None = None) -> None:
        self._ring = KeyRing(config, env)
        self.reload(config)

    def reload(self, config: GatewayConfig) -> None:
        self._ring.reload(config)  # first: a configuration whose keys cannot be read changes nothing
        self._config = config
        self._familiar: set[str] = set()  # values of Host that were looked at
        self._hosts = frozenset(name.lower() for name in (*config.access.hosts, config.serve.host))
        self._origins = frozenset(origin.lower().rstrip("/") for origin in config.access.origins)
        self._anonymous_caller = Caller(limits=config.limits)
        self._local_caller = Caller(limits=config.limits, sees="all")

    @property
    def keyed(self) -> bool:
        """Whether a gateway key is asked for."""
        return self._ring.required

    @property
    def keys_version(self) -> int:
        """A number that changes when the keys do."""
        self._ring.refresh()
        return self._ring.version

    def revoked(self, caller: Caller, *, open_ended: bool = False) -> Fault | None:
        """Why work that began earlier may not go on; None if it may.

        A caller without a key may finish what it began before the first key was made, unless it is `open_ended`: a feed
        or a connection that would otherwise stay for ever.
        """
        if caller.key_hash:
            if self._ring.holds(caller.key, caller.key_hash):
                return None
            said = f"the gateway key {caller.key!r} was revoked"
        elif open_ended and self._ring.required:
            said = "this gateway now requires a key; connect again with one"
        else:
            return None
        return Fault("auth", said, status=401, code="key_revoked")

    @property
    def origins(self) -> frozenset[str]:
        """Pages that the configuration names."""
        return self._origins

    @property
    def secrets(self) -> tuple[str, ...]:
        """Keys that are known by value, to be kept out of everything that is written."""
        return self._ring.secrets

    def admit(
        self, scope: MutableMapping[str, Any], headers: Mapping[str, str] | None = None, *, key: bool = True
    ) -> Caller:
        """Whoever sent this request. With `key` off only Host and Origin are looked at: health, pages.

        `headers` are the scope's, as `read_headers` reads them. Nothing here takes longer than the request is long:
        it happens before anything is known about who asks.
        """
        check_size(scope)
        headers = _headers(scope) if headers is None else headers
        if len(headers) != len(scope["headers"]):
            _check_repeated(scope)
        self.check_host(headers.get("host", ""))
        self.check_origin(headers)
        return self._caller(scope, headers) if key else Caller()

    def watch(self, scope: MutableMapping[str, Any]) -> None:
        """Let whoever asks for the metrics in, or not."""
        headers, open_to = _headers(scope), self._config.access.metrics
        free = open_to == "open" or (open_to == "local" and self._local(scope, headers))
        self.admit(scope, headers, key=not free)

    # ── browsers ──────────────────────────────────────────────────────────────────────────────────

    def check_host(self, host: str) -> None:
        """A page whose own name was made to point here still says that name in Host."""
        if host in self._familiar:
            return
        name = host_name(host)
        if name and "*" not in self._hosts and name not in self._hosts and not self._ours(name):
            said = f"this server does not answer to the name {name[:200]!r}: add it to access.hosts in penstock.toml"
            raise refused(403, "permission", said, code="host_not_allowed")
        if len(self._familiar) < FAMILIAR:
            self._familiar.add(host)

    def _ours(self, name: str) -> bool:
        """Loopback names, names that no stranger can own (no dot), and addresses where others are served at all."""
        if "." not in name and ":" not in name:
            return True
        if name.endswith(".localhost"):
            return True
        address = ip_address(name)
        return address is not None and (address.is_loopback or not loopback(self._config.serve.host))

    def check_origin(self, headers: Mapping[str, str]) -> None:
        """Pages of this machine may ask, and those named; whoever sends no Origin is no page."""
        origin = headers.get("origin", "")
        if not origin:
            if headers.get("sec-fetch-site") == "cross-site" and headers.get("sec-fetch-mode") != "navigate":
                raise refused(403, "permission", "a page of another site may not ask here", code="origin_not_allowed")
            return
        if not self._welcome(origin, headers.get("host", "")):
            said = f"the page {origin[:200]!r} may not ask here: add it to access.origins in penstock.toml"
            raise refused(403, "permission", said, code="origin_not_allowed")

    def _welcome(self, origin: str, host: str) -> bool:
        if "*" in self._origins or origin.lower() in self._origins:
            return True
        try:
            parts = urlsplit(origin)
            name = parts.hostname or ""
        except ValueError:
            return False
        if parts.scheme in _WEBVIEWS:
            return True
        return parts.scheme in {"http", "https"} and (parts.netloc.lower() == host.lower() or loopback(name))

    def cors(self, scope: MutableMapping[str, Any]) -> list[tuple[bytes, bytes]]:
        """The headers with which a welcome page may read its answer; none for whoever is no page."""
        headers = _headers(scope)
        allowed = response_header("access-control-allow-origin", headers.get("origin", ""))
        if allowed is None or not self._welcome(headers["origin"], headers.get("host", "")):
            return []
        return [allowed, (b"vary", b"origin"), _EXPOSED]

    def preflight(self, scope: MutableMapping[str, Any]) -> list[tuple[bytes, bytes]] | None:
        """The headers of an answer (204) to a browser that asks whether it may ask; None where this is no such."""
        headers = _headers(scope)
        if scope.get("method") != "OPTIONS" or "access-control-request-method" not in headers:
            return None
        self.admit(scope, headers, key=False)
        wished = response_header("access-control-allow-headers", headers.get("access-control-request-headers", "*"))
        if wished is None:
            raise refused(400, "invalid", "access-control-request-headers: expected the names of headers")
        made = [*self.cors(scope), wished, *_PREFLIGHT]
        if headers.get("access-control-request-private-network") == "true":
            made.append((b"access-control-allow-private-network", b"true"))
        return made

    # ── keys ──────────────────────────────────────────────────────────────────────────────────────

    def _caller(self, scope: MutableMapping[str, Any], headers: Mapping[str, str]) -> Caller:
        given = read_keys(scope, headers)
        if not self._ring.required:
            return self._stranger(scope, headers, given)
        held = next((key for key in map(self._ring.find, given.values()) if key is not None), None)
        if held is None:
            raise refused(401, "auth", self._unknown(bool(given)), code="invalid_api_key")
        name, key, hashed = held
        rest = {header: value for header, value in given.items() if self._ring.find(value) is None}
        return Caller(
            key=name, tenant=key.tenant or name, models=key.models, limits=key.limits or self._config.limits,
            sees=key.inspect, key_hash=hashed, **self._forward(headers, rest),
        )  # fmt: skip

    def _unknown(self, given: bool) -> str:  # noqa: FBT001 — whether a key was sent
        """Why a caller is not let in where a key is required, and what to do."""
        if self._ring:
            said = "the gateway key is not known here" if given else "no gateway key was sent"
            return f"{said}; `penstock keys add NAME` makes one"
        anew = "`penstock keys reset` and a restart return to local use without keys"
        if self._ring.problem:
            return f"{self._ring.problem}, so nobody is let in: the log says what is wrong with it; {anew}"
        said = "no gateway key is left, and this gateway has had keys, so it stays closed"
        return f"{said}: `penstock keys add NAME` makes a new one; {anew}"

    def _stranger(
        self, scope: MutableMapping[str, Any], headers: Mapping[str, str], given: Mapping[str, str]
    ) -> Caller:
        """Without any keys there are only callers of this machine, those who bring their own, or all, if so said."""
        config = self._config
        own, local = self._forward(headers, given), self._local(scope, headers)
        if not (config.access.anonymous or own or local):
            said = (
                "no gateway keys are set up, so only programs on this machine that connect to localhost, without a "
                "proxy, are served; `penstock keys add NAME` makes a key"
            )
            raise refused(401, "auth", said, code="invalid_api_key")
        if not own:
            return self._local_caller if local else self._anonymous_caller
        tenant = f"{ANONYMOUS}:{digest(own['secret'])[7:23]}"
        return Caller(tenant=tenant, limits=config.limits, sees="all" if local else "own", **own)

    def _local(self, scope: MutableMapping[str, Any], headers: Mapping[str, str]) -> bool:
        """Whether a program on this machine asks. With a proxy in front nobody can tell."""
        return not self._config.access.proxy and local_caller(scope, headers)

    def _forward(self, headers: Mapping[str, str], given: Mapping[str, str]) -> dict[str, Any]:
        """What is passed on to the provider. `x-penstock-key` never is: what stands there is meant for the gateway."""
        if not given or not self._config.forward:
            return {}
        theirs = {place: value for place, value in given.items() if place != OWN}
        if not theirs:
            return {}
        place, secret = next(iter(theirs.items()))
        check_key(place, secret, ascii_only=True)
        passed = {name: headers[name] for name in theirs if name in headers}
        return {"forward": passed or {BEARER: f"Bearer {secret}"}, "secret": secret}


_EXPOSED = (b"access-control-expose-headers", b"*")
_PREFLIGHT = (
    (b"access-control-allow-methods", b"GET, POST, DELETE, OPTIONS"),
    (b"access-control-max-age", b"600"),
)


def check_size(scope: MutableMapping[str, Any]) -> None:
    """Raise if the address is too long to be looked at, or there are too many headers."""
    path, query = scope.get("raw_path") or scope["path"], scope.get("query_string") or b""
    if len(path) > MAX_PATH or len(query) > MAX_QUERY:
        what, most = ("path", MAX_PATH) if len(path) > MAX_PATH else ("query string", MAX_QUERY)
        raise refused(414, "invalid", f"the {what} is longer than {most} bytes", code="uri_too_long")
    if len(scope["headers"]) > MAX_HEADERS:
        raise refused(431, "invalid", f"there are more than {MAX_HEADERS} headers", code="too_many_headers")


def _headers(scope: MutableMapping[str, Any]) -> dict[str, str]:
    return read_headers(scope["headers"])


def _check_repeated(scope: MutableMapping[str, Any]) -> None:
    name = repeated_header(scope["headers"])
    if name:
        raise refused(400, "invalid", f"the header {name} was sent more than once", code="repeated_header")


_UNGUARDED = nullcontext()


class Revocations:
    """All that runs with a key. Looks for changed keys every `LOOK` seconds while there is anything."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._running: dict[object, tuple[Caller, End, bool]] = {}
        self._seen = access.keys_version
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._running)

    def guard(self, caller: Caller | None, end: End, *, open_ended: bool = False) -> AbstractContextManager[None]:
        """Call `end`, once, if the caller's key is revoked before this is left. See `Access.revoked`."""
        if caller is None or not (caller.key_hash or open_ended):
            return _UNGUARDED
        return self._guarded(caller, end, open_ended=open_ended)

    @contextmanager
    def _guarded(self, caller: Caller, end: End, *, open_ended: bool) -> Generator[None]:
        fault = self._access.revoked(caller, open_ended=open_ended)
        if fault is not None:  # revoked between the request's head and now
            end(fault)
            yield
            return
        name = object()
        self._running[name] = (caller, end, open_ended)
        self._watch()
        try:
            yield
        finally:
            self._running.pop(name, None)

    def _watch(self) -> None:
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(LOOK, self._tick)

    def _tick(self) -> None:
        self._timer = None
        version = self._access.keys_version
        if version != self._seen:
            self._seen = version
            self._end_revoked()
        if self._running:
            self._watch()

    def _end_revoked(self) -> None:
        for name, (caller, end, open_ended) in list(self._running.items()):
            fault = self._access.revoked(caller, open_ended=open_ended)
            if fault is not None:
                self._running.pop(name, None)
                end(fault)
