"""The inspector in front of a gateway: it answers `/` and `/inspector/…` and passes all else to the gateway.

It accepts the same callers and keys as the gateway, and in browsers only its own page.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from penstock._gateway.callers import ANONYMOUS, Caller, Refusal, make_refusal
from penstock._gateway.routes import mounted_path
from penstock._inspector import api_router
from penstock._inspector.act_routes import ActRoutes
from penstock._inspector.api_router import PREFIX, ApiResponse, Route, encode_in_worker, encode_redacted
from penstock._inspector.capture_ring import LiveCaptures
from penstock._inspector.file_inspector import FileRoutes, describe_inspector
from penstock._inspector.keeping_routes import KeepingRoutes
from penstock._inspector.request_routes import RequestRoutes
from penstock._inspector.row_bounds import RowBounds
from penstock._inspector.session_routes import SessionRoutes
from penstock._inspector.session_token import SESSION_NEEDED, check_session, open_session_token
from penstock._inspector.static_files import StaticFiles
from penstock._inspector.tenant_limits import TenantWorkerSlots, current_tenant
from penstock._inspector.turn_list import TurnListRoutes
from penstock._inspector.turn_routes import TurnRoutes

if TYPE_CHECKING:
    from penstock._gateway.app import App
    from penstock._gateway.catalogue import ModelEntry
    from penstock._gateway.endpoints import IncomingRequest
    from penstock._gateway.services import Services
    from penstock._tokens.estimate import HybridTokenEstimator

MODEL_LIST_TIMEOUT = 0.5  # seconds
_FILE_PATHS = frozenset(f"{PREFIX}/{name}" for name in ("trace", "export", "breakdown"))  # no turns: uploaded files
_NO_ACCESS = "the inspector is for this machine, or for a gateway key: `penstock keys add NAME` makes one"


class Inspector:
    """An ASGI application around the gateway's."""

    closes_websockets = True  # the gateway does

    turns: TurnRoutes
    sessions: SessionRoutes

    def __init__(self, app: App, pages: StaticFiles | None = None) -> None:
        self.app: App = app
        self.services: Services = app.services
        self.watch: LiveCaptures = LiveCaptures(self.services)
        self.session_token: str = open_session_token(self.services.config.data)
        self.services.access.owner_token = self.session_token
        self.services.known_secrets.add(self.session_token)
        work, pages = TenantWorkerSlots(), pages or StaticFiles()
        files = FileRoutes(work, pages, lambda: self.services.secrets, self._estimator)
        turns = self.turns = TurnRoutes(self.services, self.watch, work, files)
        sessions = self.sessions = SessionRoutes(self.services, self.watch, work)
        listing = TurnListRoutes(self.services, self.watch, work, RowBounds(self.session_token))
        keeping = KeepingRoutes(self.services, self.watch, work)
        requests = RequestRoutes(self.services, self.watch, work, sessions.reader, turns.find_request)
        act = ActRoutes(self.services, work, turns.find_request)
        self._work = work
        self._listing: asyncio.Task[list[ModelEntry]] | None = None
        routes: dict[tuple[str, str], Route] = {
            ("GET", "about"): self._about,
            ("GET", "live"): listing.live,
            ("GET", "turns"): listing.turns,
            ("GET", "complete"): listing.complete,
            ("GET", "previews"): listing.previews,
            ("GET", "sessions"): sessions.sessions,
            ("GET", "sessions/*"): sessions.session,
            ("GET", "keeping"): keeping.state,
            ("POST", "keeping"): keeping.switch,
            ("DELETE", "turns"): keeping.delete_all,
            ("DELETE", "turns/*"): keeping.delete_one,
            ("POST", "trace"): files.trace,
            ("POST", "export"): files.export,
            ("POST", "breakdown"): files.breakdown,
            ("POST", "convert"): act.convert,
        }
        routes |= _list_turn_routes(turns, requests, act)
        self._router = api_router.ApiRouter(routes, self._admit, frozenset({"about"}), pages)

    def _estimator(self, tenant: str) -> HybridTokenEstimator:
        return self.services.estimators.find(tenant)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http" and self._is_inspector_path(scope):
            self.watch.deletions.apply_deletions()  # so that no turn is shown that another worker has deleted
            await self._router(scope, receive, send)
        else:
            await self.app(scope, receive, send)

    def _is_inspector_path(self, scope: Any) -> bool:
        path = mounted_path(scope)
        if path == "/":  # without a page, the gateway's own says what to do
            return scope["method"] in api_router.READ_METHODS and self._router.pages.built
        return path == PREFIX or path.startswith(f"{PREFIX}/")

    def pause_watchdog(self) -> None:
        """Stops reports of a blocked event loop while the server starts."""
        self.app.pause_watchdog()

    def resume_watchdog(self) -> None:
        """Starts them again."""
        self.app.resume_watchdog()

    def stopping(self) -> None:
        """Ends the streams of listeners, so that the server does not wait for them."""
        self.watch.close()
        self.app.stopping()

    def end_answers(self) -> None:
        """Ends all answers, because the time for shutdown is over."""
        self.app.end_answers()

    def _admit(self, scope: Any, incoming: IncomingRequest, keyed: bool) -> None:  # noqa: FBT001 — as `ApiRouter` calls it
        access = self.services.access
        access.admit(scope, incoming.headers, key=False)
        if incoming.path == "/" or incoming.path.startswith(f"{PREFIX}/assets/"):
            return
        api_router.check_origin(incoming.headers, access.origins)
        try:
            caller = access.admit(scope, incoming.headers)
            if caller.sees == "own" and caller.tenant == ANONYMOUS:
                raise make_refusal(403, "permission", _NO_ACCESS, code="not_yours")
            if incoming.path not in _FILE_PATHS:
                check_session(caller, incoming.headers, self.session_token)
            incoming.caller, incoming.services = caller, self.services
            current_tenant.set(caller.visible_tenant)
        except Refusal as error:
            if keyed:
                raise
            if error.fault.code == SESSION_NEEDED:
                incoming.services = self.services  # `_about` tells the two refusals apart by it

    # ── about ─────────────────────────────────────────────────────────────────────────────────────

    async def _about(self, incoming: IncomingRequest) -> ApiResponse:
        """`GET /inspector/about`: what the inspector offers; without a valid key, that one is needed."""
        recorder, caller = self.services.recorder, incoming.caller
        recording: dict[str, Any] = {"on": recorder.folder is not None}
        journal = self.services.journal.rows is not None
        if caller is None:
            key = "session" if incoming.services is not None else "needed"
            about = describe_inspector(recording=recording, journal=journal, live=True, sees="own", key=key)
            return ApiResponse(encode_redacted(about))
        if recorder.folder is not None and caller.sees == "all":
            recording |= {"dir": str(recorder.folder), "size": recorder.size, "total": recorder.total}
        entries = [entry for entry in await self._models() if caller.may_use(entry.name)]
        about = describe_inspector(
            recording=recording,
            journal=journal,
            live=True,
            sees=caller.sees,
            key="ok" if self.services.access.keyed else "none",
            models=[{"id": entry.name, "provider": entry.model.provider} for entry in entries],
        )
        return ApiResponse(await encode_in_worker(about, self.services.secrets, self._work))

    async def _models(self) -> list[ModelEntry]:
        """Returns all models that are known within `MODEL_LIST_TIMEOUT`: some providers list theirs slowly."""
        catalogue = self.services.catalogue
        if self._listing is None or self._listing.done():
            self._listing = asyncio.create_task(catalogue.entries(Caller()))
        with suppress(TimeoutError):
            async with asyncio.timeout(MODEL_LIST_TIMEOUT):
                return await asyncio.shield(self._listing)
        return catalogue.configured_entries()


def _list_turn_routes(turns: TurnRoutes, requests: RequestRoutes, act: ActRoutes) -> dict[tuple[str, str], Route]:
    """Returns the routes of one turn or recording, and those that count all."""
    return {
        ("GET", "turns/*"): turns.turn,
        ("GET", "turns/*/follow"): turns.follow,
        ("GET", "turns/*/export"): turns.export,
        ("GET", "turns/*/breakdown"): turns.breakdown,
        ("GET", "turns/*/request"): requests.request,
        ("GET", "turns/*/copy"): act.copy,
        ("GET", "turns/*/headers"): act.headers,
        ("GET", "turns/*/frames/*"): partial(turns.text, "frame"),
        ("GET", "turns/*/outputs/*"): partial(turns.text, "output"),
        ("GET", "recordings"): turns.recordings,
        ("GET", "recordings/*"): turns.recording,
        ("GET", "recordings/*/export"): turns.recording_export,
        ("GET", "recordings/*/breakdown"): turns.recording_breakdown,
        ("GET", "usage"): turns.usage,
        ("GET", "tokens"): turns.tokens,
    }
