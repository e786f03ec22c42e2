"""The inspector's routes of sessions: the list, and one session turn by turn."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Any

from penstock._gateway.callers import make_refusal
from penstock._gateway.endpoints import query_integer
from penstock._inspector.api_router import ApiResponse, encode_in_worker
from penstock._inspector.context_window import find_context_window
from penstock._inspector.journal_access import visible_tenant
from penstock._inspector.session_reader import SessionReader
from penstock._inspector.session_reports import SessionFacts, SessionReport, SessionRow, report_session

if TYPE_CHECKING:
    from penstock._gateway.endpoints import IncomingRequest
    from penstock._gateway.services import Services
    from penstock._inspector.capture_ring import LiveCaptures
    from penstock._inspector.file_inspector import WorkerSlots

DEFAULT_SESSIONS = 100
MAX_LISTED_SESSIONS = 1_000


class SessionRoutes:
    """The routes. `reader` has the sessions."""

    def __init__(self, services: Services, captures: LiveCaptures, work: WorkerSlots) -> None:
        self.reader: SessionReader = SessionReader(captures)
        self._services, self._work = services, work
        self._find_window = partial(find_context_window, services)

    async def sessions(self, incoming: IncomingRequest) -> ApiResponse:
        """`GET /inspector/sessions`: the sessions of the turns that are held, the latest first.

        `unread`: older turns on disk, which are not read for it. With `turn`, the session of that turn, and the ids of
        its turns; none if it has none.
        """
        tenant, turn = visible_tenant(incoming), incoming.query.get("turn", "")
        limit = min(query_integer(incoming.query, "limit", DEFAULT_SESSIONS), MAX_LISTED_SESSIONS)

        def read() -> dict[str, Any]:
            facts, now = self.reader.facts(self._find_window, tenant, decode=False), time.time()
            if turn:
                return self._find_turn(turn, tenant, facts)
            found = self.reader.sessions(tenant)
            reports = (report_session(session, facts, now) for session in found[:limit])
            rows: list[SessionRow] = [report.session for report in reports if report is not None]
            unread = self.reader.count_unread(tenant)
            return {"sessions": rows, "more": max(0, len(found) - limit), "unread": unread}

        return await self._respond(await self._work.run(read), tenant)

    async def session(self, incoming: IncomingRequest) -> ApiResponse:
        """`GET /inspector/sessions/ID`: one session. `ID` is its own, or that of one of its turns."""
        id, tenant = incoming.params["one"], visible_tenant(incoming)  # noqa: A001

        def read() -> SessionReport | None:
            found = self.reader.find_session(id, tenant)
            facts = self.reader.facts(self._find_window, tenant)
            return report_session(found, facts, time.time()) if found is not None else None

        report = await self._work.run(read)
        if report is None:
            message = f"there is no session {id[:100]!r} here, or none that this key may see: its turns are not held"
            raise make_refusal(404, "not-found", message)
        return await self._respond(report, tenant)

    def _find_turn(self, turn: str, tenant: str | None, facts: SessionFacts) -> dict[str, Any]:
        session = self.reader.find_session(turn, tenant)
        report = report_session(session, facts, time.time()) if session is not None else None
        if report is None:
            return {"sessions": [], "turns": [], "more": 0}
        return {"sessions": [report.session], "turns": [step.row.id for step in report.steps], "more": 0}

    async def _respond(self, value: Any, tenant: str | None) -> ApiResponse:
        secrets = [*self._services.secrets, *self.reader.secrets(tenant)]
        return ApiResponse(await encode_in_worker(value, secrets, self._work))
