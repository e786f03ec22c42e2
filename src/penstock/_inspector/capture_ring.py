"""All captured turns: the newest in memory, the oldest first to go, and the pages that watch them."""

from __future__ import annotations

import asyncio
import math
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from penstock._gateway.endpoints import TurnRequest
from penstock._inspector import schemas
from penstock._inspector.disk_ring import DiskRing, KeptTurnSearch
from penstock._inspector.keeping_policy import KeepingPolicy
from penstock._inspector.live_capture import begin_capture
from penstock._inspector.memory_index import MemoryTextIndex
from penstock._inspector.turn_listeners import TurnListener
from penstock._inspector.worker_deletions import DeletedTurns, WorkerDeletions
from penstock.request import Request

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from penstock import events as ev
    from penstock._gateway.callers import Caller
    from penstock._gateway.endpoints import IncomingRequest
    from penstock._gateway.services import Services
    from penstock._gateway.turn import ActiveTurn
    from penstock._inspector.keeping_policy import Forgotten
    from penstock._inspector.kept_turn import KeptTurn
    from penstock._inspector.live_capture import TurnCapture
    from penstock._store.journal import JournalEntry
    from penstock._store.kept_turns_index import TextSearch

MAX_TURNS = 2_000  # captures, finished ones included
MAX_TOTAL_BYTES = 32 * 2**20  # of all captures
ENDED_STEP = 2**20  # bytes of the bound for each ended turn that may wait to be measured
BATCH = 32  # the part of the bounds that is freed at once: to free turn by turn would cost twice the time
KEEP_SECONDS = 300.0  # that captures are kept after the last listener left, if the policy does not keep them
_DAMAGED = "it is not in memory, and the file of kept turns cannot be read (the log says why)"
_DAMAGED_TURN = "its content on disk is damaged (the log says how). Delete the turn to remove it from the disk"


class LiveCaptures:
    """All captures, the oldest first, and all listeners."""

    def __init__(self, services: Services) -> None:
        self.captures: dict[str, TurnCapture] = {}
        self.size: int = 0
        self.max_size: int = MAX_TOTAL_BYTES
        self.ended: list[TurnCapture] = []  # captures whose end is not measured yet
        self.max_ended: int = MAX_TOTAL_BYTES // ENDED_STEP
        self.closed: bool = False
        self.policy: KeepingPolicy = KeepingPolicy(services, memory=MAX_TOTAL_BYTES, minutes=KEEP_SECONDS / 60)
        self._services = services
        self._loop: Any = None
        self.listeners: set[TurnListener] = set()
        self.disk: DiskRing = DiskRing(services, self._on_disk_removal, self.policy.unwritten)
        self._memory_index = MemoryTextIndex(lambda: list(self.captures.values()), lambda: services.secrets)
        self.text_index: TextSearch = KeptTurnSearch(self._memory_index, self.disk)
        self.on_deletion: list[Callable[[], None]] = [self._memory_index.forget_turns]  # who else has texts of turns
        self.deletions: WorkerDeletions = WorkerDeletions(services, self)
        self._timer: asyncio.TimerHandle | None = None
        services.watch = self

    def secrets(self) -> tuple[str, ...]:
        """Returns the secrets that the gateway knows by value."""
        return tuple(self._services.secrets)

    # ── listeners ───────────────────────────────────────────────────────────────────────────────

    def add_listener(self, tenant: str | None) -> TurnListener:
        """Adds a listener. `tenant`: whose turns; None means all."""
        self._loop = asyncio.get_running_loop()
        listener = TurnListener(tenant)
        self.listeners.add(listener)
        self._services.estimates.on_estimate = self._on_estimate
        if self._timer is not None:
            self._timer.cancel()
        return listener

    def remove_listener(self, listener: TurnListener) -> None:
        """Removes a listener. Captures that the policy does not keep stay for a while: listeners may come back."""
        if listener not in self.listeners:
            return
        self.listeners.discard(listener)
        if not self.listeners:
            self._services.estimates.on_estimate = None
            self._timer = asyncio.get_running_loop().call_later(KEEP_SECONDS, self.clear_unwatched)

    def clear_unwatched(self) -> None:
        """Deletes the captures of finished turns that only watching has kept; those that run now, later."""
        self.measure_ended()
        unkept = [capture for capture in self.captures.values() if not capture.keeps]
        for capture in unkept:
            if capture.finished:
                self.forget_capture(capture, "unwatched")
        if not self.listeners and not all(capture.finished for capture in unkept):
            self._timer = asyncio.get_running_loop().call_later(KEEP_SECONDS, self.clear_unwatched)

    def clear(self) -> None:
        """Deletes the captures of all finished turns."""
        self.delete_captures(None, None)

    def delete_captures(self, ids: Collection[str] | None, tenant: str | None, until: float = math.inf) -> set[str]:
        """Deletes the captures of finished turns, all or by their ids, of one tenant or all. Returns their ids.

        Those that ended after `until`, by the monotonic clock, stay.
        """
        self.measure_ended()
        found = [
            one
            for one in self.captures.values()
            if one.finished
            and (ids is None or one.id in ids)
            and tenant in {None, one.tenant}
            and one.end_time() <= until
        ]
        for capture in found:
            self.forget_capture(capture, "deleted")
        return {one.id for one in found}

    async def delete_turns(self, ids: Collection[str] | None, tenant: str | None) -> DeletedTurns:
        """Deletes the content of finished turns in memory and on disk, and of the index; in other workers, too.

        Raises OSError if the file cannot be changed.
        """
        deleted = self.delete_captures(ids, tenant)
        try:
            elsewhere = await self.deletions.delete_elsewhere(ids, tenant)  # first: they may be writing some
            stored = await asyncio.to_thread(self.disk.delete_turns, ids, tenant)
        finally:
            await asyncio.to_thread(self._forget_texts)
        for name, owner in stored.items():
            self._on_removal(name, owner, "deleted")
        for name in elsewhere.ids - stored.keys():
            self.policy.forget(name, "deleted")
        ids_of_all = {*deleted, *elsewhere.ids, *stored}
        return DeletedTurns(ids_of_all, elsewhere.pending, elsewhere.errors, self.disk.remaining_text())

    def delete_written(self, ids: Collection[str]) -> None:
        """Deletes what was written of turns while they were deleted in memory, and their words.

        Raises OSError if the file cannot be changed. Not for the event loop.
        """
        try:
            if ids:
                self.disk.delete_turns(ids, None)
        finally:
            self._forget_texts()

    def _forget_texts(self) -> None:
        for forget in self.on_deletion:
            forget()

    def close(self) -> None:
        """Ends all streams, because the gateway stops."""
        self.closed = True
        for listener in self.listeners:
            listener.news.set()
        for capture in self.captures.values():
            capture.wake_followers()

    def close_files(self) -> None:
        """Writes what waits. Not for the event loop."""
        self.disk.close()

    # ── turns ──────────────────────────────────────────────────────────────────────────────

    def begin(self, turn: ActiveTurn) -> TurnCapture | None:
        """A turn begins. Returns None if it is not kept, and nobody watches or too many turns wait to be shown."""
        incoming, request, captures = turn.incoming, turn.turn_request, self.captures
        keeps = self.policy.keeps(incoming.caller)
        if not keeps and not self._is_watched(incoming.caller):
            self._note_pause(incoming)
            return None
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
        if request is None:
            request = TurnRequest(Request(model=""), turn.endpoint.protocol)
        capture = captures[incoming.id] = begin_capture(incoming, request, self, turn, keeps=keeps)
        if len(captures) > MAX_TURNS:
            self._drop_surplus()
        if self.listeners:
            self._notify(capture)
        return capture

    def _note_pause(self, incoming: IncomingRequest) -> None:
        if self.policy.paused:
            self.policy.forget(incoming.id, "paused")

    def _is_watched(self, caller: Caller) -> bool:
        if self.policy.paused:
            return False
        return any(listener.has_room(caller.tenant) for listener in self.listeners)

    def _drop_surplus(self) -> None:
        self._drop_oldest(size=self.max_size, count=MAX_TURNS - MAX_TURNS // BATCH)

    def on_change(self, capture: TurnCapture) -> None:
        """The answer of a turn begins."""
        if self.listeners:
            self._notify(capture)

    def on_refusal(self, incoming: IncomingRequest, fault: ev.Fault, row: JournalEntry) -> None:
        """A request is refused before it becomes a turn. Those of unknown callers are not kept."""
        if incoming.caller is not None:
            keeps = self.policy.keeps(incoming.caller)
            if keeps or self._is_watched(incoming.caller):
                request = TurnRequest(Request(model=row.asked), row.protocol)
                capture = self.captures[incoming.id] = begin_capture(incoming, request, self, None, keeps=keeps)
                if len(self.captures) > MAX_TURNS:
                    self._drop_surplus()
                capture.on_refusal(fault, row)
            else:
                self._note_pause(incoming)
        self.on_journal_row(row)

    def on_finish(self, capture: TurnCapture) -> None:
        """A captured turn is complete: it is written to disk, if turns are kept there."""
        if capture.keeps and self.disk.enabled:
            capture.disk_failure = self.disk.add(capture)

    def switch_disk(self, *, on: bool) -> None:
        """Keeps turns on disk from now on, those in memory included; or no more."""
        self.measure_ended()
        self.disk.switched = on
        for capture in list(self.captures.values()) if on else ():
            if capture.finished and not capture.on_disk:
                self.on_finish(capture)

    def on_journal_row(self, row: JournalEntry, *, is_update: bool = False) -> None:
        """A turn ends, or its row changes after that (`is_update`)."""
        if is_update:  # at its end a capture is given its row by `on_end`
            capture = self.captures.get(row.request_id)
            if capture is not None and capture.entry is not None:
                capture.entry = row
        for listener in self.listeners:
            listener.on_turn(row.request_id, row.tenant, row, is_update=is_update)

    def _on_estimate(self, row: JournalEntry) -> None:
        """Called in the thread that estimates."""
        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(partial(self.on_journal_row, row, is_update=True))

    def _notify(self, capture: TurnCapture) -> None:
        for listener in self.listeners:
            listener.on_turn(capture.id, capture.tenant)

    # ── bounds ────────────────────────────────────────────────────────────────────────────────────

    def make_room(self, capture: TurnCapture) -> None:
        """A capture has grown. The oldest finished captures are deleted; if none is finished, this one is dropped."""
        if not self._drop_oldest(size=self.max_size - self.max_size // BATCH) and capture.turn is not None:
            self.size -= capture.drop()
            self._on_removal(capture.id, capture.tenant, "too-large")

    def measure_ended(self) -> None:
        """Measures the turns that have ended since the last time."""
        ended, self.ended = self.ended, []
        for capture in ended:
            self.size += capture.measure_end()
        if self.size > self.max_size and ended:
            self.make_room(ended[-1])

    def _drop_oldest(self, *, size: int, count: int = MAX_TURNS) -> bool:
        """Deletes the oldest captures of finished turns. Returns False if those that are left are still too large."""
        captures, listeners, writes = self.captures, self.listeners, self.disk.writes
        if self.ended:
            self.measure_ended()
        excess, surplus = self.size - size, len(captures) - count
        found: list[TurnCapture] = []
        for capture in captures.values():
            if capture.turn is None:
                found.append(capture)
                excess -= capture.size
                if excess <= 0 and len(found) >= surplus:
                    break
        freed = 0
        for capture in found:
            if listeners or capture.disk_failure is not None or not capture.keeps or (writes and not capture.on_disk):
                self.forget_capture(capture, "memory")  # what waits for the disk is not written then
            else:  # nobody need be told, and `explain` finds the reason by itself
                del captures[capture.id]
                freed += capture.size
        self.size -= freed
        return self.size <= self.max_size

    def forget_capture(self, capture: TurnCapture, reason: Forgotten) -> None:
        """Deletes a capture, and remembers why."""
        self.size -= capture.drop()
        del self.captures[capture.id]
        if not capture.on_disk or reason == "deleted":
            why = (capture.disk_failure or reason) if reason == "memory" else reason
            if why != "memory" or not capture.keeps:  # otherwise `explain` finds the reason by itself
                self.policy.forget(capture.id, why)
            if self.listeners:
                self._tell_removal(capture.id, capture.tenant)

    def _on_disk_removal(self, id: str, tenant: str, reason: Forgotten) -> None:
        """Called in the keeper's thread: a turn was not written, or went from the file."""
        if self._loop is not None:
            with suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(self._forget_on_disk, id, tenant, reason)
        else:
            self.policy.forget(id, reason)

    def _forget_on_disk(self, id: str, tenant: str, reason: Forgotten) -> None:
        capture = self.captures.get(id)
        if capture is None:
            self._on_removal(id, tenant, reason)
        else:
            capture.on_disk, capture.disk_failure = False, reason

    def _on_removal(self, id: str, tenant: str, reason: Forgotten) -> None:
        self.policy.forget(id, reason)
        self._tell_removal(id, tenant)

    def _tell_removal(self, id: str, tenant: str) -> None:
        for listener in self.listeners:
            listener.on_removal(id, tenant)

    # ── for the inspector ────────────────────────────────────────────────────────────────────────

    def get(self, id: str, tenant: str | None) -> TurnCapture | None:
        """Returns the capture of a turn, if the tenant may see it."""
        capture = self.captures.get(id)
        return capture if capture is not None and tenant in {None, capture.tenant} else None

    def find_turn(self, id: str, tenant: str | None) -> TurnCapture | KeptTurn | None:
        """Returns a turn with its content, if it is kept and the tenant may see it. May read a file."""
        capture = self.get(id, tenant)
        if capture is not None and not capture.dropped:
            return capture
        return self.disk.read_turn(id, tenant)

    def holds(self, id: str) -> bool:
        """True if the content of a turn is kept. May read a file."""
        return bool(self.find_kept((id,)))

    def find_kept(self, ids: Collection[str]) -> frozenset[str]:
        """Returns those of some turns whose content is kept. May read a file."""
        found = ((name, self.captures.get(name)) for name in ids)
        in_memory = frozenset(name for name, capture in found if capture is not None and not capture.dropped)
        others = [name for name in ids if name not in in_memory]
        return in_memory | self.disk.find_kept(others) if others else in_memory

    def explain_missing(self, entry: JournalEntry) -> str:
        """Returns why the content of a turn is not kept. May look for a file."""
        table, is_disk_used = self._services.config.inspector, self.disk.is_used()
        if self.disk.is_damaged(entry.request_id):
            return _DAMAGED_TURN
        missing = self.disk.find_missing(entry.request_id) if is_disk_used else None
        is_known = entry.request_id in self.policy.forgotten or (missing is not None and missing.reason)
        if (self.disk.problem or self.disk.damage) and not is_known:
            return f"{_DAMAGED}: there is only its row in the journal"
        reason = self.policy.explain(
            entry, disk=table.size, days=table.days, is_disk_used=is_disk_used, missing=missing
        )
        return f"{reason}: there is only its row in the journal"

    def row(self, id: str, entry: JournalEntry | None) -> schemas.TurnRow | None:
        """Returns the current row of a turn."""
        capture = self.captures.get(id)
        if capture is not None:
            return capture.to_row()
        return schemas.row_from_journal(entry, held=False) if entry is not None else None

    def running_rows(self, tenant: str | None) -> list[schemas.TurnRow]:
        """Returns the rows of running turns; only those of `tenant`, if one is given."""
        return [
            capture.to_row()
            for capture in self.captures.values()
            if not capture.finished and tenant in {None, capture.tenant}
        ]
