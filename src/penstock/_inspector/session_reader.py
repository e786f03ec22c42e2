"""Keeps the sessions of the turns that are held, in memory or on disk, up to date.

Nothing is done while nobody asks: `refresh` reads the turns that are new since the last call, in a worker thread.
"""

from __future__ import annotations

import threading
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from penstock._gateway.client_names import product_name
from penstock._gateway.endpoints.stored_responses import RESPONSES
from penstock._inspector.kept_turn import KeptTurn
from penstock._inspector.session_digests import AnswerDigest, CallDigest
from penstock._inspector.session_messages import (
    ID_CHUNKS,
    MessageDigester,
    digest_edge_lines,
    read_answer,
    read_request,
    read_response_id,
    session_title,
)
from penstock._inspector.session_reports import SessionFacts
from penstock._inspector.session_turns import SessionScope, SessionTurn, TurnSession
from penstock._inspector.turn_sessions import SessionIndex
from penstock._store.key_value import ID_PREFIX

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from penstock._inspector.capture_ring import LiveCaptures
    from penstock._inspector.live_capture import TurnCapture
    from penstock._inspector.schemas import TurnRow

OPERATIONS = frozenset({"", "chat", RESPONSES})  # that are part of a conversation
MAX_DISK_TURNS = 300  # the newest of the file: each must be read once


class _DiskTurn(NamedTuple):
    """What reports need of a turn that is only on disk. `row` is None if it is not part of a conversation."""

    tenant: str
    row: TurnRow | None = None
    silence: tuple[float, float] = (0.0, 0.0)


class SessionReader:
    """The sessions of all turns that are held. `tenant` limits what a caller gets; None means all."""

    def __init__(self, captures: LiveCaptures) -> None:
        self.titles: dict[str, str] = {}  # turn → the user's first words
        self._captures = captures
        self._index = SessionIndex()
        self._digester = MessageDigester()
        self._lock = threading.Lock()
        captures.on_deletion.append(self.forget_deleted)
        self._last: dict[str, tuple[CallDigest, ...]] = {}  # turn → its calls, once they were decoded
        self._on_disk: dict[str, _DiskTurn] = {}  # turns that are only on disk, and were read
        self._responses: dict[tuple[str, str], str] = {}  # tenant and the provider's id of a response → turn
        self._grouped: set[str] = set()  # turns that were given to the index, which may have forgotten them since

    def forget_deleted(self) -> None:
        """Forgets the words of turns that are not held any more. Nothing is read."""
        with self._lock:
            if self._grouped:
                self._find_held()

    def sessions(self, tenant: str | None) -> list[TurnSession]:
        """Returns all sessions, the one that was extended last first."""
        with self._lock:
            self._refresh()
            return [one for one in reversed(self._index.sessions.values()) if tenant in {None, one.scope.tenant}]

    def find_session(self, id: str, tenant: str | None) -> TurnSession | None:
        """Returns a session by its id, or by that of one of its turns."""
        with self._lock:
            self._refresh()
            found = self._index.find_session(id)
        return found if found is not None and tenant in {None, found.scope.tenant} else None

    def facts(self, window: Callable[[TurnRow], int], *, decode: bool = True) -> SessionFacts:
        """Returns what reports need. `decode`: answers are decoded for the calls of turns that nobody goes on from."""
        with self._lock:
            self._refresh()
            stored = dict(self._on_disk)
        held = {name: capture for name, capture in dict(self._captures.captures).items() if not capture.dropped}

        def find_silence(turn: str) -> tuple[float, float]:
            if turn in held:
                return _longest_silence(held[turn])
            return stored[turn].silence if turn in stored else (0.0, 0.0)

        rows = {name: turn.row for name, turn in stored.items() if turn.row is not None}
        return SessionFacts(
            rows=rows | {name: capture.to_row() for name, capture in held.items()},
            titles=self.titles,
            silences=find_silence,
            last_calls=partial(self._last_calls, decode=decode),
            window=cache_by_model(window),
        )

    def count_unread(self, tenant: str | None) -> int:
        """Returns how many turns on disk are too old to be read: their sessions are not known."""
        with self._lock:
            self._refresh()
            read = sum(tenant in {None, turn.tenant} for turn in self._on_disk.values())
        held = dict(self._captures.captures).values()
        in_memory = sum(one.on_disk and not one.dropped and tenant in {None, one.tenant} for one in held)
        return max(0, self._captures.disk.count(tenant) - read - in_memory)

    def secrets(self, tenant: str | None) -> list[str]:
        """Returns the callers' own keys, which must not be shown."""
        held = list(self._captures.captures.values())
        return list({one.secret for one in held if one.secret and tenant in {None, one.tenant}})

    def _last_calls(self, turn: SessionTurn, *, decode: bool) -> tuple[CallDigest, ...]:
        known = self._last.get(turn.id)
        if known is None and decode and turn.ended is not None:
            known = self._last[turn.id] = turn.read_answer().calls
        return known or ()

    def find_previous(self, id: str, tenant: str | None) -> str:
        """Returns the id of the turn that a turn goes on from; empty if there is none, or if it is not held."""
        session = self.find_session(id, tenant)
        turn = next((turn for turn in session.turns if turn.id == id), None) if session is not None else None
        return turn.previous if turn is not None and self._captures.holds(turn.previous) else ""

    def _find_held(self) -> tuple[dict[str, TurnCapture], list[str]]:
        """Returns the turns in memory, and the ids of the newest ones that are only on disk. Forgets all others."""
        held = {name: one for name, one in dict(self._captures.captures).items() if not one.dropped}
        stored = [name for name in self._captures.disk.list_turns(MAX_DISK_TURNS) if name not in held]
        self._forget({*self._grouped, *self._on_disk} - held.keys() - set(stored))
        return held, stored

    def _refresh(self) -> None:
        held, stored = self._find_held()
        fresh: list[SessionTurn] = []
        for name, capture in held.items():
            known = self._index.turns.get(name)
            if name not in self._grouped:
                fresh += self._read_turn(capture, capture.time)
            elif known is not None and known.ended is None:
                self._update_end(known, capture)
        for name in stored:
            if name not in self._on_disk:
                fresh += self._read_from_disk(name)
        for turn in sorted(fresh, key=lambda one: one.time):
            if turn.previous_response:
                own = turn.previous_response.removeprefix(ID_PREFIX)  # if it is not the provider's
                turn.previous_response = self._responses.get((turn.scope.tenant, turn.previous_response), own)
            self._index.add_turn(turn)

    def _forget(self, gone: set[str]) -> None:
        for name in gone:
            self._index.remove_turn(name)
            self.titles.pop(name, None)
            self._last.pop(name, None)
            self._on_disk.pop(name, None)
        self._grouped -= gone
        if gone:
            self._digester.clear()
            self._responses = {response: turn for response, turn in self._responses.items() if turn not in gone}

    def _read_from_disk(self, name: str) -> list[SessionTurn]:
        """Reads a turn that is only on disk. If it was in memory before, its session is known."""
        kept = self._captures.disk.read_turn(name, None)
        if kept is None:
            return []
        row = kept.to_row()
        if row.operation not in OPERATIONS:
            self._on_disk[name] = _DiskTurn(kept.tenant)
            return []
        silence = _find_silence([at for at, _ in kept.chunks if at is not None])
        self._on_disk[name] = _DiskTurn(kept.tenant, row, silence)
        return self._read_turn(kept, row.time) if name not in self._grouped else []

    def _read_turn(self, turn: TurnCapture | KeptTurn, began: float) -> list[SessionTurn]:
        row = turn.to_row()
        self._grouped.add(turn.id)
        if row.operation not in OPERATIONS:
            return []
        protocol, secrets = turn.request_protocol, turn.known_secrets()
        messages, system_digest, previous_response = read_request(turn.request, protocol, cut=turn.request_cut)
        self.titles[turn.id] = session_title(messages, secrets)
        made = SessionTurn(
            id=turn.id,
            scope=SessionScope(turn.tenant, row.key, row.client or product_name(row.agent)),
            time=began,
            messages=self._digester.digest_messages(messages, secrets),
            protocol=protocol,
            system_digest=system_digest,
            previous_response=previous_response,
            read_answer=partial(self._read_answer, turn.id),
            read_lines=partial(self._read_lines, turn.id),
        )
        self._update_end(made, turn)
        return [made]

    def _update_end(self, turn: SessionTurn, found: TurnCapture | KeptTurn) -> None:
        if not found.finished:
            return
        row = found.to_row()
        turn.ended, turn.failed = turn.time + (row.duration or 0.0), row.state != "finish"
        if found.answer_protocol == RESPONSES:  # else the client got the gateway's id
            begin = found.chunks[:ID_CHUNKS] if isinstance(found, KeptTurn) else found.chunks_from(0, ID_CHUNKS)
            response = read_response_id(begin)
            if response:
                self._responses[turn.scope.tenant, response] = turn.id

    def _read_answer(self, id: str) -> AnswerDigest:
        turn = self._captures.find_turn(id, None)
        return read_answer(turn.to_source()) if turn is not None and turn.finished else AnswerDigest()

    def _read_lines(self, id: str) -> frozenset[bytes]:
        turn = self._captures.find_turn(id, None)
        if turn is None:
            return frozenset()
        return digest_edge_lines(read_request(turn.request, turn.request_protocol, cut=turn.request_cut).messages)


def _longest_silence(capture: TurnCapture) -> tuple[float, float]:
    """Returns the longest time without bytes after the first, and when it began; in seconds.

    A stream that runs and has no byte yet is silent from its beginning on.
    """
    times = [at for at, _ in capture.chunks_from(0) if at is not None]
    if not capture.finished and (times or capture.turn_request.request.stream):
        times = [*(times or [0.0]), capture.elapsed]
    return _find_silence(times)


def _find_silence(times: Sequence[float]) -> tuple[float, float]:
    longest, since = max(((after - at, at) for at, after in pairwise(times)), default=(0.0, 0.0))
    return round(longest, 3), round(since, 3)


def cache_by_model(window: Callable[[TurnRow], int]) -> Callable[[TurnRow], int]:
    """Returns the same function; it is called once for each model."""
    known: dict[tuple[str, str, str], int] = {}

    def cached(row: TurnRow) -> int:
        key = (row.provider, row.model, row.asked)
        if key not in known:
            known[key] = window(row)
        return known[key]

    return cached
