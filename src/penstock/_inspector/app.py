"""The inspector before a gateway: `/` and what is below `/inspector` is its own, all else goes on to the gateway.

Leans on `turns` and `files` for what is answered. Lets in whoever the gateway lets in, by the same keys, and no page
but its own.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from penstock import _protocols as protocols
from penstock._gateway.callers import ANONYMOUS, Caller, Refusal, make_refusal
from penstock._gateway.routes import mounted_path
from penstock._inspector.api import (
    PREFIX,
    READ_METHODS,
    ApiResponse,
    ApiRouter,
    Route,
    StaticFiles,
    check_origin,
    encode_redacted,
)
from penstock._inspector.live_capture import LiveCaptures
from penstock._inspector.single_file import FileRoutes, WorkerSlots
from penstock._inspector.traces import CONSUMERS
from penstock._inspector.turns import TurnRoutes
from penstock._version import __version__

if TYPE_CHECKING:
    from penstock._gateway.app import App
    from penstock._gateway.catalogue import ModelEntry
    from penstock._gateway.endpoints import IncomingRequest
    from penstock._gateway.services import Services

MODEL_LIST_TIMEOUT = 0.5  # seconds that lists of models are waited for
_NO_ACCESS = "the inspector is for this machine, or for a gateway key: `penstock keys add NAME` makes one"


class Inspector:
    """An ASGI application around the gateway's."""

    closes_websockets = True  # the gateway does

    turns: TurnRoutes

    def __init__(self, app: App, pages: StaticFiles | None = None) -> None:
        self.app: App = app
        self.services: Services = app.services
        self.watch: LiveCaptures = LiveCaptures(self.services)
        work, pages = WorkerSlots(), pages or StaticFiles()
        files = FileRoutes(work, pages, lambda: self.services.secrets)
        turns = self.turns = TurnRoutes(self.services, self.watch, work, files)
        self._listing: asyncio.Task[list[ModelEntry]] | None = None
        routes: dict[tuple[str, str], Route] = {
            ("GET", "about"): self._about,
            ("GET", "live"): turns.live,
            ("GET", "turns"): turns.turns,
            ("GET", "turns/*"): turns.turn,
            ("GET", "turns/*/follow"): turns.follow,
            ("GET", "turns/*/export"): turns.export,
            ("GET", "turns/*/frames/*"): turns.frame,
            ("GET", "turns/*/outputs/*"): turns.output,
            ("GET", "recordings"): turns.recordings,
            ("GET", "recordings/*"): turns.recording,
            ("GET", "recordings/*/export"): turns.recording_export,
            ("GET", "usage"): turns.usage,
            ("GET", "tokens"): turns.tokens,
            ("POST", "trace"): files.trace,
            ("POST", "export"): files.export,
        }
        self._serving = ApiRouter(routes, self._admit, frozenset({"about"}), pages)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http" and self._is_inspector_path(scope):
            await self._serving(scope, receive, send)
        else:
            await self.app(scope, receive, send)

    def _is_inspector_path(self, scope: Any) -> bool:
        path = mounted_path(scope)
        if path == "/":  # without a page, the gateway's own says what to do
            return scope["method"] in READ_METHODS and self._serving.pages.built
        return path == PREFIX or path.startswith(f"{PREFIX}/")

    def stopping(self) -> None:
        """The server stops: whoever listens is let go, so that nobody waits for them."""
        self.watch.close()
        self.app.stopping()

    def end_answers(self) -> None:
        """The time for answers to become whole is over."""
        self.app.end_answers()

    def _admit(self, scope: Any, visit: IncomingRequest, keyed: bool) -> None:  # noqa: FBT001 — as `Serving` asks
        access = self.services.access
        access.admit(scope, visit.headers, key=False)
        if visit.path == "/" or visit.path.startswith(f"{PREFIX}/assets/"):
            return
        check_origin(visit.headers, access.origins)
        try:
            caller = access.admit(scope, visit.headers)
            if caller.sees == "own" and caller.tenant == ANONYMOUS:
                raise make_refusal(403, "permission", _NO_ACCESS, code="not_yours")
            visit.caller, visit.services = caller, self.services
        except Refusal:
            if keyed:
                raise

    # ── about ─────────────────────────────────────────────────────────────────────────────────────

    async def _about(self, visit: IncomingRequest) -> ApiResponse:
        """`GET /inspector/about`: what there is here. Without a key, that one is needed, and little else."""
        recorder, caller = self.services.recorder, visit.caller
        told: dict[str, Any] = {
            "version": __version__,
            "models": [],
            "consumers": CONSUMERS,
            "protocols": list(protocols.MODULES),
            "recording": {"on": recorder.folder is not None},
            "journal": self.services.journal.rows is not None,
            "live": True,
            "sees": "own",
            "key": "needed",
        }
        if caller is None:
            return ApiResponse(encode_redacted(told))
        told["key"] = "ok" if self.services.access.keyed else "none"
        told["sees"] = caller.sees
        told["models"] = [
            {"id": entry.name, "provider": entry.model.provider}
            for entry in await self._models()
            if caller.may_use(entry.name)
        ]
        if recorder.folder is not None and caller.sees == "all":
            told["recording"] |= {"dir": str(recorder.folder), "size": recorder.size, "total": recorder.total}
        return ApiResponse(encode_redacted(told, self.services.secrets))

    async def _models(self) -> list[ModelEntry]:
        """All models, as far as they are known soon: providers may take their time to list theirs."""
        catalogue = self.services.catalogue
        if self._listing is None or self._listing.done():
            self._listing = asyncio.create_task(catalogue.entries(Caller()))
        with suppress(TimeoutError):
            async with asyncio.timeout(MODEL_LIST_TIMEOUT):
                return await asyncio.shield(self._listing)
        return catalogue.configured_entries()
