"""The admin API, `/admin/*`: keys, teams, the organisation, providers, usage and the audit log.

Every request needs a gateway key with the role `viewer` (to read) or `admin`, on loopback too. A page in a browser may
use it only if it comes from the gateway itself. `admin_openapi` describes the routes of this module.
"""

from __future__ import annotations

import asyncio
import logging
import time
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import msgspec

from penstock._gateway import admin_records as views
from penstock._gateway import error_responses
from penstock._gateway.admin_calls import AdminCall, AdminRoute
from penstock._gateway.admin_config_check import CHECK_ROUTES
from penstock._gateway.admin_custom_providers import CUSTOM_PROVIDER_ROUTES
from penstock._gateway.admin_providers import PROVIDER_ROUTES
from penstock._gateway.callers import Refusal, make_refusal
from penstock._gateway.endpoints import query_decimal, query_integer
from penstock._gateway.journal import COUNT
from penstock._gateway.key_editor import KeyEditError, KeyEditor
from penstock._gateway.limit_usage import cut_page
from penstock._gateway.limits import outage_refusal
from penstock._gateway.request_body import read_request_body
from penstock._http.response_writer import CancellableTask, send_response
from penstock._store.key_records import Key, Organisation, Team
from penstock._store.key_store import MAX_AUDIT_PAGE
from penstock._store.limit_store import StoreUnavailable
from penstock.errors import InputError, PenstockError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from penstock._gateway.callers import Caller
    from penstock._gateway.endpoints import Headers, IncomingRequest
    from penstock._gateway.services import Services
    from penstock._store.limit_store import LimitRule
    from penstock.events import Fault

PREFIX = "/admin"
MAX_BODY_BYTES = 256 * 1024
MAX_PAGE = 1_000  # rows
DAY = 86_400.0
USAGE_TIMEOUT = 10.0  # seconds for the store of limits
_READ_METHODS = frozenset({"GET", "HEAD"})
_HEADERS: Headers = (
    (b"content-type", b"application/json"),
    (b"cache-control", b"no-store"),
    (b"x-content-type-options", b"nosniff"),
    (b"cross-origin-resource-policy", b"same-origin"),
)
_STORE_AWAY = make_refusal(503, "overloaded", "the store is away; try again", code="store_unavailable", retry_after=1.0)
log = logging.getLogger("penstock.admin")


class AdminApi:
    """Answers requests to `/admin/*`."""

    def __init__(self, services: Services, describe: Callable[[], Any]) -> None:
        self._services = services
        self._describe = describe  # returns the OpenAPI description

    async def serve(self, incoming: IncomingRequest, scope: Any, receive: Any, send: Any) -> None:
        """Answer a request."""
        headers = _HEADERS
        try:
            status, body, tag = await self._answer(incoming, scope, receive)
            if tag:
                headers = (*headers, (b"etag", f'"{tag}"'.encode()))
        except Exception as error:
            if isinstance(error, OSError):
                log.error("the admin API failed at %s: %s", incoming.path, error)  # noqa: TRY400 — no bug of ours
            elif not isinstance(error, PenstockError):
                log.exception("the admin API failed at %s", incoming.path)
            status, body, more = _describe_error(_STORE_AWAY if isinstance(error, OSError) else error)
            headers = (*headers, *more)
        finally:
            incoming.release_body()
        await send_response(send, status, body, headers, head_only=incoming.method == "HEAD")

    async def _answer(self, incoming: IncomingRequest, scope: Any, receive: Any) -> tuple[int, bytes, str]:
        caller = self._services.access.admit_admin(
            scope,
            incoming.headers,
            write=incoming.method not in _READ_METHODS,
            owner=is_owner_route(incoming.method, incoming.path),
        )
        route, name = find_route(incoming.method, incoming.path)
        if route.path == f"{PREFIX}/openapi.json":
            return 200, msgspec.json.encode(await asyncio.to_thread(self._describe)), ""
        if route.method in {"POST", "PUT", "PATCH"}:
            await read_request_body(
                incoming,
                receive,
                CancellableTask(),
                self._services.body_bytes,
                limit=MAX_BODY_BYTES,
                patience=self._services.config.serve.read,
            )
        call = self._read_call(incoming, caller, name)
        result = await asyncio.to_thread(self._handle, route, call)
        body = b"" if result is None else msgspec.json.encode(result)
        return route.status, body, getattr(result, "etag", "")

    def _read_call(self, incoming: IncomingRequest, caller: Caller, name: str) -> AdminCall:
        services = self._services
        store = services.access.ring.store
        if store is None:
            raise make_refusal(409, "invalid", 'access.keys_file: "memory" keeps no keys; name a file', code="no_store")
        given = incoming.headers.get("if-match", "*").strip()
        editor = KeyEditor(store, f"key:{caller.key}", services.config)
        body = incoming.json_body() if incoming.raw else {}
        tag = None if given == "*" else given.strip('"')
        apply = partial(services.custom_providers_watcher.apply_on_loop, asyncio.get_running_loop())
        return AdminCall(services, caller, editor, name, incoming.query, body, tag, self._usage_reader(), apply)

    def _usage_reader(self) -> Callable[[Sequence[LimitRule]], list[int]]:
        """Return a function for a thread that asks the store of limits, which belongs to this loop."""
        loop, limits = asyncio.get_running_loop(), self._services.limits

        def read_usage(rules: Sequence[LimitRule]) -> list[int]:
            try:
                return asyncio.run_coroutine_threadsafe(limits.usage(rules), loop).result(USAGE_TIMEOUT)
            except (StoreUnavailable, TimeoutError):
                raise outage_refusal() from None

        return read_usage

    def _handle(self, route: AdminRoute, call: AdminCall) -> Any:
        result = route.handle(call)
        if route.method not in _READ_METHODS:
            self._services.access.ring.sync()  # this process sees its own change at once
        return result


def is_admin_path(path: str) -> bool:
    """Return whether a path belongs to the admin API."""
    return path == PREFIX or path.startswith(f"{PREFIX}/")


def find_route(method: str, path: str) -> tuple[AdminRoute, str]:
    """Return the route of a path, and the name in it. Raises a refusal if there is none."""
    method = "GET" if method == "HEAD" else method
    segments, known = path.split("/"), False
    for route in ROUTES:
        shape = route.path.split("/")
        if len(shape) == len(segments) and all(a in {"{name}", b} for a, b in zip(shape, segments, strict=True)):
            if route.method == method:
                return route, unquote(segments[shape.index("{name}")]) if "{name}" in shape else ""
            known = True
    if known:
        raise make_refusal(405, "invalid", "this address takes another method", code="method_not_allowed")
    raise make_refusal(404, "not-found", f"nothing is served at this address; see {PREFIX}/openapi.json")


def is_owner_route(method: str, path: str) -> bool:
    """Return whether the owner of a gateway without keys may ask here."""
    try:
        return find_route(method, path)[0].owner
    except Refusal:
        return False


def _describe_error(error: Exception) -> tuple[int, bytes, Headers]:
    """Return the status, body and headers of an error. The body names the field that is wrong."""
    fault: Fault = error_responses.fault_from_error(error)
    status, field = error_responses.error_status(fault), ""
    if isinstance(error, KeyEditError):
        status, field = error.status, error.field
    elif isinstance(error, InputError) and fault.message.partition(": ")[0] in views.FIELDS:
        field = fault.message.partition(": ")[0]
    details = views.ErrorDetails(
        message=fault.message, code=fault.code or views.CODES.get(status, fault.kind), field=field
    )
    return status, msgspec.json.encode(views.ErrorBody(error=details)), error_responses.error_headers(fault)


# ── keys ──────────────────────────────────────────────────────────────────────────────────────────


def _list_keys(call: AdminCall) -> views.KeyPage:
    team, configured = call.query.get("team"), call.services.config.keys
    rows = {**call.records.keys, **configured}
    names = [name for name, key in sorted(rows.items()) if team is None or key.team == team]
    page, after = _cut_page(call, names)
    return views.KeyPage([views.KeyView.of(name, rows[name], configured=name in configured) for name in page], after)


def _cut_page(call: AdminCall, names: list[str]) -> tuple[list[str], str | None]:
    """Return the names of one page, and the last of them if more follow."""
    limit = query_integer(call.query, "limit", 100, least=1, most=MAX_PAGE)
    rest = [name for name in names if name > call.query.get("after", "")]
    return rest[:limit], rest[limit - 1] if len(rest) > limit else None


def _add_key(call: AdminCall) -> views.NewKeyView:
    name, fields = _take_name(call.body)
    secret, key = call.editor.create(name, fields)
    return views.NewKeyView.of(name, key, secret=secret)


def _take_name(body: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    name = body.get("name")
    if not isinstance(name, str):
        raise KeyEditError("name: expected a text", field="name")
    return name, {field: value for field, value in body.items() if field != "name"}


def _show_key(call: AdminCall) -> views.KeyView:
    configured = call.services.config.keys
    key = configured.get(call.name) or call.records.keys.get(call.name)
    if key is None:
        raise KeyEditError(f"there is no key {call.name!r}", status=404)
    return views.KeyView.of(call.name, key, configured=call.name in configured)


def _edit_key(call: AdminCall) -> views.KeyView:
    return views.KeyView.of(call.name, call.editor.edit(call.name, call.body, call.tag))


def _rotate_key(call: AdminCall) -> views.NewKeyView:
    overlap = call.body.get("overlap", 0.0)
    unknown = [field for field in call.body if field != "overlap"]
    if unknown:
        raise KeyEditError(f"{unknown[0]}: no such field; there is: overlap", field=unknown[0])
    if isinstance(overlap, bool) or not isinstance(overlap, int | float):
        raise KeyEditError("overlap: expected a number of seconds", field="overlap")
    secret, key = call.editor.rotate(call.name, overlap, call.tag)
    return views.NewKeyView.of(call.name, key, secret=secret)


def _revoke_key(call: AdminCall) -> None:
    call.editor.revoke(call.name, call.tag)


# ── teams and the organisation ────────────────────────────────────────────────────────────────────


def _list_teams(call: AdminCall) -> views.TeamPage:
    records, config = call.records, call.services.config
    rows = {**records.teams, **config.teams}
    members = views.count_members({**records.keys, **config.keys})
    page, after = _cut_page(call, sorted(rows))
    teams = [
        views.TeamView.of(name, rows[name], members.get(name, 0), configured=name in config.teams) for name in page
    ]
    return views.TeamPage(teams, after)


def _add_team(call: AdminCall) -> views.TeamView:
    name, fields = _take_name(call.body)
    return views.TeamView.of(name, call.editor.add_team(name, fields), 0)


def _show_team(call: AdminCall) -> views.TeamView:
    team = call.services.config.teams.get(call.name) or call.records.teams.get(call.name)
    if team is None:
        raise KeyEditError(f"there is no team {call.name!r}", status=404)
    return _view_team(call, team)


def _view_team(call: AdminCall, team: Team) -> views.TeamView:
    config = call.services.config
    members = views.count_members({**call.records.keys, **config.keys})
    return views.TeamView.of(call.name, team, members.get(call.name, 0), configured=call.name in config.teams)


def _edit_team(call: AdminCall) -> views.TeamView:
    return _view_team(call, call.editor.edit_team(call.name, call.body, call.tag))


def _remove_team(call: AdminCall) -> None:
    call.editor.remove_team(call.name, call.tag)


def _show_organisation(call: AdminCall) -> views.OrganisationView:
    configured = call.services.config.organisation
    if configured != Organisation():
        return views.OrganisationView.of(configured, configured=True)
    return views.OrganisationView.of(call.records.organisation)


def _edit_organisation(call: AdminCall) -> views.OrganisationView:
    return views.OrganisationView.of(call.editor.edit_organisation(call.body, call.tag))


# ── usage and audit ───────────────────────────────────────────────────────────────────────────────


def _show_usage(call: AdminCall) -> views.KeyUsageReport:
    group = call.query.get("by", "key")
    if group not in {"key", "team"}:
        raise KeyEditError(f"by: expected key or team, found {group[:40]!r}", field="by")
    now = time.time()
    since, until = query_decimal(call.query, "since", now - DAY), query_decimal(call.query, "until", now)
    journal = call.services.journal
    if journal.rows is None:
        raise KeyEditError("journal.path: there is no journal, so usage is not known", status=409)
    journal.flush()
    sums = journal.rows.by("key", since=since, until=until, without=COUNT)
    rows = [views.UsageView.of(one) for one in sums]
    if group == "team":
        keys: Mapping[str, Key] = {**call.records.keys, **call.services.config.keys}
        rows = views.sum_by_team(rows, {name: key.team for name, key in keys.items()})
    return views.KeyUsageReport(by=group, since=since, until=until, data=rows)


def _show_limits(call: AdminCall) -> views.LimitPage:
    limit = query_integer(call.query, "limit", 100, least=1, most=MAX_PAGE)
    scope, name, after = (call.query.get(field, "") for field in ("scope", "name", "after"))
    if scope not in {"", "organisation", "team", "key"}:
        raise KeyEditError(f"scope: expected organisation, team or key, found {scope[:40]!r}", field="scope")
    found = [one for one in call.services.list_limits() if scope in {"", one.kind} and name in {"", one.name}]
    page, following = cut_page(found, limit, after)
    return views.LimitPage.of(page, call.read_usage([rule for one in page for rule in one.rules]), following)


def _show_caller(call: AdminCall) -> views.CallerView:
    return views.CallerView(name=call.caller.key, role=call.caller.role, owner=not call.caller.key_hash)


def _show_audit(call: AdminCall) -> views.AuditPage:
    limit = query_integer(call.query, "limit", 100, least=1, most=MAX_AUDIT_PAGE)
    before = query_integer(call.query, "before", 0)
    rows = call.editor.store.audit(limit=limit, before=before or None)
    return views.AuditPage(rows, rows[-1].id if len(rows) == limit and rows[-1].id > 1 else None)


def _no_handler(_: AdminCall) -> None:
    """The description is answered without a store."""


_PAGE = {"limit": f"rows of a page, 1 to {MAX_PAGE}", "after": "the `next` of the page before"}
_USAGE = {"by": "key or team", "since": "seconds since the epoch (a day ago)", "until": "the same (now)"}
_LIMITS = {**_PAGE, "scope": "only this: organisation, team or key", "name": "only this team or key"}
_AUDIT = {"limit": f"rows of a page, 1 to {MAX_AUDIT_PAGE}", "before": "the `next` of the page before"}
ROUTES = (
    AdminRoute("GET", "/admin/openapi.json", "This description", _no_handler, dict[str, Any]),
    AdminRoute("GET", "/admin/me", "The key of this request", _show_caller, views.CallerView, owner=True),
    AdminRoute(
        "GET", "/admin/keys", "List keys", _list_keys, views.KeyPage, query={**_PAGE, "team": "only keys of this team"}
    ),
    AdminRoute(
        "POST", "/admin/keys", "Make a key. Its secret is shown once", _add_key, views.NewKeyView, views.NewKey, 201
    ),
    AdminRoute("GET", "/admin/keys/{name}", "Show a key", _show_key, views.KeyView, tagged=True),
    AdminRoute("PATCH", "/admin/keys/{name}", "Change a key", _edit_key, views.KeyView, views.KeyFields, tagged=True),
    AdminRoute("DELETE", "/admin/keys/{name}", "Revoke a key", _revoke_key, None, status=204, tagged=True),
    AdminRoute(
        "POST",
        "/admin/keys/{name}/rotate",
        "Give a key a new secret, which is shown once",
        _rotate_key,
        views.NewKeyView,
        views.Rotation,
        tagged=True,
    ),
    AdminRoute("GET", "/admin/teams", "List teams", _list_teams, views.TeamPage, query=_PAGE),
    AdminRoute("POST", "/admin/teams", "Make a team", _add_team, views.TeamView, views.NewTeam, 201),
    AdminRoute("GET", "/admin/teams/{name}", "Show a team", _show_team, views.TeamView, tagged=True),
    AdminRoute(
        "PATCH", "/admin/teams/{name}", "Change a team", _edit_team, views.TeamView, views.TeamFields, tagged=True
    ),
    AdminRoute("DELETE", "/admin/teams/{name}", "Remove a team", _remove_team, None, status=204, tagged=True),
    AdminRoute(
        "GET", "/admin/organisation", "Show the organisation", _show_organisation, views.OrganisationView, tagged=True
    ),
    AdminRoute(
        "PATCH",
        "/admin/organisation",
        "Change the organisation",
        _edit_organisation,
        views.OrganisationView,
        views.OrganisationFields,
        tagged=True,
    ),
    *PROVIDER_ROUTES,
    *CUSTOM_PROVIDER_ROUTES,
    *CHECK_ROUTES,
    AdminRoute("GET", "/admin/usage", "Usage by key or team", _show_usage, views.KeyUsageReport, query=_USAGE),
    AdminRoute("GET", "/admin/limits", "What is used of limits now", _show_limits, views.LimitPage, query=_LIMITS),
    AdminRoute(
        "GET", "/admin/audit", "The audit log, the newest first", _show_audit, views.AuditPage, query=_AUDIT, owner=True
    ),
)
