"""Admits requests by Host, Origin and gateway key. Returns a `Caller`, or raises a `Refusal`.

Local names and local pages are allowed; the configuration allows more. So no page on the web can use a gateway that
listens on loopback.
"""

from __future__ import annotations

import asyncio
from contextlib import AbstractContextManager, contextmanager, nullcontext
from hmac import compare_digest
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from msgspec.structs import replace

from penstock._gateway import callers
from penstock._gateway.callers import Caller, TrustedProxies, make_refusal
from penstock._gateway.keys import REFRESH_INTERVAL, KeyMatch, KeyRing, hash_key
from penstock._gateway.limits import MAX_KNOWN_CALLERS
from penstock._http.header_fields import read_headers, repeated_header, response_header
from penstock._input_limits import MAX_HEADERS, MAX_PATH, MAX_QUERY
from penstock._store.key_records import UNLIMITED, Team
from penstock.events import Fault

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping, MutableMapping

    from penstock._gateway.config import GatewayConfig

    End = Callable[[Fault], None]
    Scope = MutableMapping[str, Any]


MAX_KNOWN_HOSTS = 100
SESSION_HEADER = "x-penstock-session-token"
OWNER = "session"  # the name of a caller with the session token, who has no key
_NOT_LOCAL = (
    "no gateway keys are set up, so only programs on this machine that connect to localhost, without a proxy, are "
    "served; `penstock keys add NAME` makes a key. If serve.host or access.hosts is public, access.trusted_proxies "
    "must name the proxies, or be [] where there is none"
)
_WEBVIEWS = frozenset({"vscode-webview", "vscode-file", "app", "tauri"})  # local programs, not web pages


class Access:
    """Admits requests. `reload` replaces the configuration; requests that are running continue."""

    def __init__(self, config: GatewayConfig, env: Mapping[str, str] | None = None) -> None:
        self.owner_token: str = ""  # the inspector's session token; empty without an inspector
        self.ring: KeyRing = KeyRing(config, env)
        self.reload(config)

    def reload(self, config: GatewayConfig) -> None:
        self.ring.reload(config)  # first: it raises if the keys cannot be read, and then nothing changes
        self._config = config
        self._allowed_hosts: set[str] = set()  # values of Host that were allowed
        self._hosts = frozenset(name.lower() for name in (*config.access.hosts, config.serve.host))
        self.origins: frozenset[str] = frozenset(origin.lower().rstrip("/") for origin in config.access.origins)
        self.proxies: TrustedProxies = TrustedProxies(config.access.trusted_proxies or ())
        self._is_public = any(not callers.is_loopback(name) for name in self._hosts)
        self._anonymous_caller = Caller(
            limits=config.limits, organisation_limits=config.organisation.limits or UNLIMITED
        )
        self._local_caller = replace(self._anonymous_caller, sees="all")
        self._callers: dict[tuple[str, str], Caller] = {}  # of keys
        self._callers_version = -1  # of the keys

    @property
    def keyed(self) -> bool:
        """Whether callers need a gateway key."""
        return self.ring.required

    @property
    def keys_version(self) -> int:
        """A number that changes whenever the keys change."""
        self.ring.refresh()
        return self.ring.version

    def revocation_fault(self, caller: Caller, *, open_ended: bool = False) -> Fault | None:
        """Return the fault that ends a caller's running work; None if it may continue.

        A caller without a key may finish what it began before there were keys, unless it is `open_ended`: a feed
        or a connection that would otherwise never end.
        """
        if caller.key_hash:
            if self.ring.holds(caller.key, caller.key_hash):
                return None
            expired = self.ring.has_expired(caller.key, caller.key_hash)
            reason = f"the gateway key {caller.key!r} {'has expired' if expired else 'was revoked'}"
        elif open_ended and self.ring.required:
            reason = "this gateway now requires a key; connect again with one"
        else:
            return None
        return Fault("auth", reason, status=401, code="key_revoked")

    def admit(self, scope: Scope, headers: Mapping[str, str] | None = None, *, key: bool = True) -> Caller:
        """Return the caller of a request, or raise a refusal. Without `key` only Host and Origin are checked.

        `headers` are the scope's headers from `read_headers`. The work is linear in the size of the request,
        because the caller is not known yet.
        """
        check_size(scope)
        headers = read_headers(scope["headers"]) if headers is None else headers
        if len(headers) != len(scope["headers"]) and (name := repeated_header(scope["headers"])):
            raise make_refusal(400, "invalid", f"the header {name} was sent more than once", code="repeated_header")
        self._check_host(headers.get("host", ""))
        self._check_origin(headers)
        return self._caller(scope, headers) if key else Caller()

    def admit_metrics(self, scope: Scope) -> None:
        """Admit a request for metrics, or raise a refusal."""
        headers, open_to = read_headers(scope["headers"]), self._config.access.metrics
        free = open_to == "open" or (open_to == "local" and self._is_local(scope, headers))
        self.admit(scope, headers, key=not free)

    def admit_admin(self, scope: Scope, headers: Mapping[str, str], *, write: bool, owner: bool = False) -> Caller:
        """Return the caller of an admin request, or raise a refusal. No key in the URL counts.

        `owner`: on a gateway without keys, a local caller with the session token may ask, too.
        """
        self.admit(scope, headers, key=False)
        callers.check_own_page(headers)
        sent = callers.read_keys(scope, headers)
        sent.pop("?key", None)
        match = next(filter(None, map(self.ring.find, sent.values())), None)
        if match is None and owner and self._is_owner(scope, headers):
            return replace(self._local_caller, key=OWNER, role="admin")
        if match is None:
            reason = "the admin API needs a gateway key with the role admin or viewer, and none that is valid was sent"
            raise make_refusal(
                401, "auth", f"{reason}; `penstock keys add NAME --admin` makes one", code="invalid_api_key"
            )
        if match.key.role == "user" or (write and match.key.role != "admin"):
            need, least = ("admin", "admin") if write else ("viewer or admin", "viewer")
            advice = f"`penstock keys edit {match.name} --role {least}` gives it"
            reason = f"the key {match.name!r} has the role {match.key.role}, and this needs {need}; {advice}"
            raise make_refusal(403, "permission", reason, code="role_not_allowed")
        return self._keyed_caller(match, {})

    def _is_owner(self, scope: Scope, headers: Mapping[str, str]) -> bool:
        """Return whether a local caller has sent the session token of a gateway without keys."""
        if self.ring.required or not self.owner_token or not self._is_local(scope, headers):
            return False
        sent = headers.get(SESSION_HEADER, "").encode("utf-8", "replace")
        return compare_digest(sent, self.owner_token.encode())

    # ── browsers ──────────────────────────────────────────────────────────────────────────────────

    def _check_host(self, host: str) -> None:
        """Raise if the Host is not allowed. Stops DNS rebinding: such a page sends its own name as Host."""
        if host in self._allowed_hosts:
            return
        name = callers.parse_host(host)
        if name and "*" not in self._hosts and name not in self._hosts and not self._is_local_name(name):
            reason = f"this server does not answer to the name {name[:200]!r}: add it to access.hosts in penstock.toml"
            raise make_refusal(403, "permission", reason, code="host_not_allowed")
        if len(self._allowed_hosts) < MAX_KNOWN_HOSTS:
            self._allowed_hosts.add(host)

    def _is_local_name(self, name: str) -> bool:
        """Return whether a host is always allowed: loopback, names without a dot, addresses if others are served."""
        if ("." not in name and ":" not in name) or name.endswith(".localhost"):
            return True
        address = callers.parse_ip(name)
        return address is not None and (address.is_loopback or not callers.is_loopback(self._config.serve.host))

    def _check_origin(self, headers: Mapping[str, str]) -> None:
        """Raise if the Origin is neither local nor allowed. Requests without Origin are not from pages."""
        origin = headers.get("origin", "")
        if not origin:
            if headers.get("sec-fetch-site") == "cross-site" and headers.get("sec-fetch-mode") != "navigate":
                reason = "a page of another site may not ask here"
                raise make_refusal(403, "permission", reason, code="origin_not_allowed")
        elif not self._allows_origin(origin, headers.get("host", "")):
            reason = f"the page {origin[:200]!r} may not ask here: add it to access.origins in penstock.toml"
            raise make_refusal(403, "permission", reason, code="origin_not_allowed")

    def _allows_origin(self, origin: str, host: str) -> bool:
        if "*" in self.origins or origin.lower() in self.origins:
            return True
        try:
            parts = urlsplit(origin)
            name = parts.hostname or ""
        except ValueError:
            return False
        is_local = parts.netloc.lower() == host.lower() or callers.is_loopback(name)
        return parts.scheme in _WEBVIEWS or (parts.scheme in {"http", "https"} and is_local)

    def cors(self, scope: Scope) -> list[tuple[bytes, bytes]]:
        """Return the CORS headers for an allowed page; none for other clients."""
        headers = read_headers(scope["headers"])
        allowed = response_header("access-control-allow-origin", headers.get("origin", ""))
        if allowed is None or not self._allows_origin(headers["origin"], headers.get("host", "")):
            return []
        return [allowed, (b"vary", b"origin"), _EXPOSED]

    def preflight(self, scope: Scope) -> list[tuple[bytes, bytes]] | None:
        """Return the headers of the response to a CORS preflight; None if the request is not a preflight."""
        headers = read_headers(scope["headers"])
        if scope.get("method") != "OPTIONS" or "access-control-request-method" not in headers:
            return None
        self.admit(scope, headers, key=False)
        allowed = response_header("access-control-allow-headers", headers.get("access-control-request-headers", "*"))
        if allowed is None:
            raise make_refusal(400, "invalid", "access-control-request-headers: expected the names of headers")
        private = headers.get("access-control-request-private-network") == "true"
        return [*self.cors(scope), allowed, *_PREFLIGHT, *([_PRIVATE_NETWORK] if private else [])]

    # ── keys ──────────────────────────────────────────────────────────────────────────────────────

    def _caller(self, scope: Scope, headers: Mapping[str, str]) -> Caller:
        sent = callers.read_keys(scope, headers)
        if not self.ring.required:
            return self._keyless_caller(scope, headers, sent)
        match = next(filter(None, map(self.ring.find, sent.values())), None)
        if match is None:
            expired = next(filter(None, map(self.ring.find_expired, sent.values())), None)
            if expired is not None:
                raise make_refusal(401, "auth", _explain_expired_key(expired.name), code="key_expired")
            raise make_refusal(401, "auth", self._explain_unknown_key(bool(sent)), code="invalid_api_key")
        if len(sent) == 1:
            return self._find_caller(match)
        rest = {header: value for header, value in sent.items() if self.ring.find(value) is None}
        return self._keyed_caller(match, self._forwarded_key(headers, rest))

    def _find_caller(self, match: KeyMatch) -> Caller:
        """Return the caller of a key. The same one as long as no key changes."""
        if self._callers_version != self.ring.version or len(self._callers) >= MAX_KNOWN_CALLERS:
            self._callers, self._callers_version = {}, self.ring.version
        found = self._callers.get((match.name, match.hash))
        if found is None:
            found = self._callers[match.name, match.hash] = self._keyed_caller(match, {})
        return found

    def _keyed_caller(self, match: KeyMatch, forwarded: dict[str, Any]) -> Caller:
        name, key, organisation = match.name, match.key, self.ring.organisation
        team = self.ring.find_team(key.team) if key.team else Team()
        if team is None:
            reason = (
                f"the team {key.team!r} of the key {name!r} does not exist; `penstock teams add {key.team}` makes it"
            )
            raise make_refusal(403, "permission", reason, code="team_not_found")
        return Caller(
            key=name,
            tenant=key.tenant or name,
            models=key.models,
            shared_models=tuple(models for models in (team.models, organisation.models) if "*" not in models),
            limits=key.limits or self._config.limits,
            team=key.team,
            team_limits=team.limits or UNLIMITED,
            organisation_limits=organisation.limits or UNLIMITED,
            role=key.role,
            max_output=key.max_output,
            sees=key.inspect,
            keeps_turns=key.inspect_keep,
            key_hash=match.hash,
            **forwarded,
        )

    def _explain_unknown_key(self, given: bool) -> str:  # noqa: FBT001 — whether a key was sent
        """Return why a caller without a valid key is refused, and what to do."""
        if self.ring:
            reason = "the gateway key is not known here" if given else "no gateway key was sent"
            return f"{reason}; `penstock keys add NAME` makes one"
        anew = "`penstock keys reset` and a restart return to local use without keys"
        if self.ring.problem:
            return f"{self.ring.problem}, so nobody is let in: the log says what is wrong with it; {anew}"
        reason = "no gateway key is left, and this gateway has had keys, so it stays closed"
        return f"{reason}: `penstock keys add NAME` makes a new one; {anew}"

    def _keyless_caller(self, scope: Scope, headers: Mapping[str, str], sent: Mapping[str, str]) -> Caller:
        """Return the caller if there are no gateway keys: a local program, one with a provider key, or anyone."""
        forwarded, local = self._forwarded_key(headers, sent), self._is_local(scope, headers)
        if not (self._config.access.anonymous or forwarded or local):
            raise make_refusal(401, "auth", _NOT_LOCAL, code="invalid_api_key")
        if not forwarded:
            return self._local_caller if local else self._anonymous_caller
        tenant = f"{callers.ANONYMOUS}:{hash_key(forwarded['secret'])[7:23]}"
        return replace(self._local_caller if local else self._anonymous_caller, tenant=tenant, **forwarded)

    def _is_local(self, scope: Scope, headers: Mapping[str, str]) -> bool:
        """Return whether a local program sent the request. Never true behind a proxy.

        With keys, or where others can reach the gateway, a proxy may run on this machine that leaves no sign. Then
        nobody is local until `access.trusted_proxies` names the proxies.
        """
        table = self._config.access
        if table.proxy or (table.trusted_proxies is None and (self._is_public or self.ring.required)):
            return False
        return callers.is_local_caller(scope, headers) and not self.proxies.trusts(callers.peer_address(scope))

    def client_address(self, scope: Scope) -> str:
        """Return the address of the client: the peer, or what a trusted proxy says; empty for a socket file."""
        return self.proxies.client_address(scope)

    def _forwarded_key(self, headers: Mapping[str, str], sent: Mapping[str, str]) -> dict[str, Any]:
        """Return what is forwarded to the provider. `x-penstock-key` is never forwarded: it is the gateway's."""
        theirs = {name: key for name, key in sent.items() if name != callers.GATEWAY_KEY_HEADER}
        if not theirs or not self._config.forward:
            return {}
        name, secret = next(iter(theirs.items()))
        callers.check_key(name, secret, ascii_only=True)
        passed = {name: headers[name] for name in theirs if name in headers}
        return {"forward": passed or {callers.AUTHORIZATION: f"Bearer {secret}"}, "secret": secret}


def _explain_expired_key(name: str) -> str:
    advice = (
        f"`penstock keys edit {name} --expires 90d` extends it, and `penstock keys rotate {name}` gives it a new secret"
    )
    return f"the gateway key {name!r} has expired; {advice}"


_PRIVATE_NETWORK = (b"access-control-allow-private-network", b"true")
_EXPOSED = (b"access-control-expose-headers", b"*")
_PREFLIGHT = ((b"access-control-allow-methods", b"GET, POST, DELETE, OPTIONS"), (b"access-control-max-age", b"600"))


def check_size(scope: Scope) -> None:
    """Raise if the path or query is too long, or if there are too many headers."""
    path, query = scope.get("raw_path") or scope["path"], scope.get("query_string") or b""
    if len(path) > MAX_PATH or len(query) > MAX_QUERY:
        what, most = ("path", MAX_PATH) if len(path) > MAX_PATH else ("query string", MAX_QUERY)
        raise make_refusal(414, "invalid", f"the {what} is longer than {most} bytes", code="uri_too_long")
    if len(scope["headers"]) > MAX_HEADERS:
        raise make_refusal(431, "invalid", f"there are more than {MAX_HEADERS} headers", code="too_many_headers")


_NO_GUARD = nullcontext()


class Revocations:
    """Ends what a caller runs (streams, turns, connections) when its gateway key is revoked.

    Checks for changed keys every `REFRESH_INTERVAL` seconds while anything runs.
    """

    def __init__(self, access: Access) -> None:
        self._access = access
        self._running: dict[object, tuple[Caller, End, bool]] = {}
        self._seen = access.keys_version
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._running)

    def guard(self, caller: Caller | None, end: End, *, open_ended: bool = False) -> AbstractContextManager[None]:
        """Return a context that calls `end` once if the caller's key is revoked meanwhile. See `Access.revoked`."""
        if caller is None or not (caller.key_hash or open_ended):
            return _NO_GUARD
        return self._guarded(caller, end, open_ended=open_ended)

    @contextmanager
    def _guarded(self, caller: Caller, end: End, *, open_ended: bool) -> Generator[None]:
        fault = self._access.revocation_fault(caller, open_ended=open_ended)
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
            self._timer = asyncio.get_running_loop().call_later(REFRESH_INTERVAL, self._tick)

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
            fault = self._access.revocation_fault(caller, open_ended=open_ended)
            if fault is not None:
                self._running.pop(name, None)
                end(fault)
