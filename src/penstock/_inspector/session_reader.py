"""The sessions of all turns that are held, in memory or on disk, tenant by tenant.

`tenant` limits what a caller gets; None means all. A caller of one tenant waits for that tenant's turns only.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TYPE_CHECKING

from penstock._inspector.session_reports import SessionFacts
from penstock._inspector.tenant_sessions import MAX_DISK_TURNS, TenantSessions, find_held, longest_silence

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock._inspector.capture_ring import LiveCaptures
    from penstock._inspector.schemas import TurnRow
    from penstock._inspector.session_digests import CallDigest
    from penstock._inspector.session_turns import SessionTurn, TurnSession
    from penstock._inspector.tenant_sessions import DiskTurn

MAX_TENANTS = 64  # whose sessions are remembered; those of others are found again when somebody asks


class SessionReader:
    """The sessions."""

    def __init__(self, captures: LiveCaptures) -> None:
        self._captures = captures
        self._tenants: OrderedDict[str, TenantSessions] = OrderedDict()  # the one that was asked for last is last
        self._lock = threading.Lock()  # of `_tenants`; never held while turns are read
        captures.on_deletion.append(self.forget_deleted)

    @property
    def titles(self) -> dict[str, str]:
        """The user's first words, by turn."""
        return {turn: title for one in self._known() for turn, title in dict(one.titles).items()}

    def forget_deleted(self) -> None:
        """Forgets the words of turns that are not held any more. Waits for nobody."""
        for one in self._known():
            one.forget_deleted()

    def _known(self) -> list[TenantSessions]:
        with self._lock:
            return list(self._tenants.values())

    def of_tenant(self, tenant: str) -> TenantSessions:
        """Returns the sessions of one tenant, as they were when they were last read."""
        with self._lock:
            found = self._tenants.get(tenant)
            if found is None:
                found = self._tenants[tenant] = TenantSessions(self._captures, tenant)
            self._tenants.move_to_end(tenant)
            if len(self._tenants) > MAX_TENANTS:
                self._tenants.popitem(last=False)
            return found

    def _select(self, tenant: str | None) -> list[TenantSessions]:
        """Returns the sessions of a tenant, or of all that have or had turns in memory or on disk."""
        if tenant is not None:
            return [self.of_tenant(tenant)]
        names = dict.fromkeys(one.tenant for one in find_held(self._captures, None).values())
        names |= dict.fromkeys(self._captures.disk.list_tenants(MAX_DISK_TURNS))
        with self._lock:
            names |= dict.fromkeys(self._tenants)  # what they had may be gone, and must be forgotten
        return [self.of_tenant(name) for name in names]

    def sessions(self, tenant: str | None) -> list[TurnSession]:
        """Returns all sessions, the one that was extended last first."""
        found: list[TurnSession] = []
        for one in self._select(tenant):
            with one.refreshed() as index:
                found += reversed(index.sessions.values())
        return found if tenant is not None else sorted(found, key=lambda one: one.last.time, reverse=True)

    def find_session(self, id: str, tenant: str | None) -> TurnSession | None:
        """Returns a session by its id, or by that of one of its turns."""
        for one in self._select(tenant):
            with one.refreshed() as index:
                found = index.find_session(id)
            if found is not None:
                return found
        return None

    def facts(self, window: Callable[[TurnRow], int], tenant: str | None, *, decode: bool = True) -> SessionFacts:
        """Returns what reports need. `decode`: answers are decoded for the calls of turns that nobody goes on from."""
        stored: dict[str, DiskTurn] = {}
        titles: dict[str, str] = {}
        selected = self._select(tenant)
        for one in selected:
            with one.refreshed():
                stored |= one.on_disk
                titles |= one.titles
        held = find_held(self._captures, tenant)

        def find_silence(turn: str) -> tuple[float, float]:
            if turn in held:
                return longest_silence(held[turn])
            return stored[turn].silence if turn in stored else (0.0, 0.0)

        def last_calls(turn: SessionTurn) -> tuple[CallDigest, ...]:
            return self.of_tenant(turn.scope.tenant).last_calls(turn, decode=decode)

        rows = {name: turn.row for name, turn in stored.items() if turn.row is not None}
        return SessionFacts(
            rows=rows | {name: capture.to_row() for name, capture in held.items()},
            titles=titles,
            silences=find_silence,
            last_calls=last_calls,
            window=cache_by_model(window),
        )

    def count_unread(self, tenant: str | None) -> int:
        """Returns how many turns on disk are too old to be read: their sessions are not known."""
        read = 0
        for one in self._select(tenant):
            with one.refreshed():
                read += len(one.on_disk)
        in_memory = sum(one.on_disk for one in find_held(self._captures, tenant).values())
        return max(0, self._captures.disk.count(tenant) - read - in_memory)

    def secrets(self, tenant: str | None) -> list[str]:
        """Returns the callers' own keys, which must not be shown."""
        held = list(self._captures.captures.values())
        return list({one.secret for one in held if one.secret and tenant in {None, one.tenant}})

    def find_previous(self, id: str, tenant: str | None) -> str:
        """Returns the id of the turn that a turn goes on from; empty if there is none, or if it is not held."""
        session = self.find_session(id, tenant)
        turn = next((turn for turn in session.turns if turn.id == id), None) if session is not None else None
        return turn.previous if turn is not None and self._captures.holds(turn.previous) else ""


def cache_by_model(window: Callable[[TurnRow], int]) -> Callable[[TurnRow], int]:
    """Returns the same function; it is called once for each model."""
    known: dict[tuple[str, str, str], int] = {}

    def cached(row: TurnRow) -> int:
        key = (row.provider, row.model, row.asked)
        if key not in known:
            known[key] = window(row)
        return known[key]

    return cached
