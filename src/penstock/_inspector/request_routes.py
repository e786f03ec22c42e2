"""The route of a turn's request: `GET /inspector/turns/ID/request`, both halves of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock._inspector.api_router import ApiResponse, encode_redacted
from penstock._inspector.context_window import find_context_window
from penstock._inspector.journal_access import visible_tenant
from penstock._inspector.request_view import (
    RequestView,
    compare_requests,
    read_canonical,
    view_request,
    without_bodies,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock._gateway.endpoints import IncomingRequest
    from penstock._gateway.services import Services
    from penstock._inspector.capture_ring import LiveCaptures
    from penstock._inspector.file_inspector import WorkerSlots
    from penstock._inspector.kept_turn import KeptTurn
    from penstock._inspector.live_capture import TurnCapture
    from penstock._inspector.session_reader import SessionReader
    from penstock._inspector.stream_traces import TraceSource

RECORDED = "only a recording of this turn is there: the tab Request of the answer has what was recorded"


class RequestRoutes:
    """The routes of requests. A caller sees the turns of its own tenant, or all.

    `find_request` returns a turn that the caller may see, also one whose content is not kept.
    """

    def __init__(
        self,
        services: Services,
        captures: LiveCaptures,
        work: WorkerSlots,
        sessions: SessionReader,
        find_request: Callable[[IncomingRequest], tuple[TraceSource, dict[str, str]]],
    ) -> None:
        self._services, self._captures, self._work, self._sessions = services, captures, work, sessions
        self._find_request = find_request

    async def request(self, incoming: IncomingRequest) -> ApiResponse:
        """`GET /inspector/turns/ID/request`. With `bodies=none`: only the attempts and the losses."""
        return await self._work.run(lambda: self._response(incoming))

    def _response(self, incoming: IncomingRequest) -> ApiResponse:
        tenant = visible_tenant(incoming)
        bodies = incoming.query.get("bodies", "all") != "none"
        turn = self._captures.find_turn(incoming.params["one"], tenant)
        if turn is None:
            why = self._explain_missing(incoming)
            return ApiResponse(encode_redacted(RequestView(kept=False, canonical_error=why), self._services.secrets))
        secrets = [*self._services.secrets, *turn.known_secrets()]
        view = self._view(turn, tenant) if bodies else without_bodies(turn)
        return ApiResponse(encode_redacted(view, secrets))

    def _explain_missing(self, incoming: IncomingRequest) -> str:
        """Returns why the request of a turn is not kept. A turn that is not there is a 404."""
        source, _ = self._find_request(incoming)
        return source.request_lost if source.gone else RECORDED

    def _view(self, turn: TurnCapture | KeptTurn, tenant: str | None) -> RequestView:
        row, protocol = turn.to_row(), turn.request_protocol
        view = view_request(turn, protocol=protocol, method=turn.method, path=turn.path or row.route)
        view.window = find_context_window(self._services, row) or None
        if view.canonical is not None:
            view.canonical.model = view.canonical.model or row.asked  # some protocols have the model in the path
            self._add_previous(view, turn.id, tenant, turn.known_secrets())
        return view

    def _add_previous(self, view: RequestView, id: str, tenant: str | None, secrets: tuple[str, ...]) -> None:
        name = self._sessions.find_previous(id, tenant)
        turn = self._captures.find_turn(name, tenant) if name else None
        if turn is None or view.canonical is None:
            return
        before, _ = read_canonical(turn, turn.request_protocol)
        if before is not None:
            before.model = before.model or turn.to_row().asked
            view.previous = compare_requests(name, before, view.canonical, (*secrets, *turn.known_secrets()))
