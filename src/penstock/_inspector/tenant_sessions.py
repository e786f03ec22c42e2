"""Keeps the sessions of one tenant's turns that are held, in memory or on disk, up to date.

Nothing is done while nobody asks: `refresh` reads the turns that are new since the last call, in a worker thread.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from contextlib import contextmanager, suppress
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
from penstock._inspector.session_turns import SessionScope, SessionTurn
from penstock._inspector.turn_sessions import SessionIndex
from penstock._store.key_value import ID_PREFIX

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from penstock._inspector.capture_ring import LiveCaptures
    from penstock._inspector.live_capture import TurnCapture
    from penstock._inspector.schemas import TurnRow

OPERATIONS = frozenset({"", "chat", RESPONSES})  # that are part of a conversation
MAX_DISK_TURNS = 300  # the newest of the file: each must be read once
MAX_KNOWN_MESSAGES = 10_000  # whose digests are shared by turns
MAX_KNOWN_ANSWERS = 24  # decoded answers: a summary is looked for in those of 20 sessions


class DiskTurn(NamedTuple):
    """What reports need of a turn that is only on disk. `row` is None if it is not part of a conversation."""

    row: TurnRow | None = None
    silence: tuple[float, float] = (0.0, 0.0)


class TenantSessions:
    """The sessions of one tenant. Its lock is its own: no tenant waits for the sessions of another."""

    def __init__(self, captures: LiveCaptures, tenant: str) -> None:
        self.titles: dict[str, str] = {}  # turn → the user's first words
        self.on_disk: dict[str, DiskTurn] = {}  # turns that are only on disk, and were read
        self._captures, self._tenant = captures, tenant
        self._index = SessionIndex()
        self._digester = MessageDigester(MAX_KNOWN_MESSAGES)
        self._lock = threading.Lock()
        self._must_forget = False
        self._last: dict[str, tuple[CallDigest, ...]] = {}  # turn → its calls, once they were decoded
        self._answers: OrderedDict[str, AnswerDigest] = OrderedDict()  # of the turns that were decoded last
        self._responses: dict[str, str] = {}  # the provider's id of a response → turn
        self._grouped: set[str] = set()  # turns that were given to the index, which may have forgotten them since

    @contextmanager
    def refreshed(self) -> Generator[SessionIndex]:
        """Gives the sessions, with the newest turns. Other threads wait meanwhile."""
        try:
            with self._lock:
                self._refresh()
                yield self._index
        finally:
            self._forget_deleted()

    def forget_deleted(self) -> None:
        """Forgets the words of turns that are not held any more. Nothing is read.

        If another thread has the lock, that thread does it as soon as it is done: a deletion does not wait.
        """
        self._must_forget = True
        self._forget_deleted()

    def _forget_deleted(self) -> None:
        while self._must_forget and self._lock.acquire(blocking=False):
            try:
                self._must_forget = False
                if self._grouped:
                    self._find_held()
            finally:
                self._lock.release()

    def last_calls(self, turn: SessionTurn, *, decode: bool) -> tuple[CallDigest, ...]:
        """Returns the calls of a turn's answer. `decode`: it is decoded if it was not before."""
        known = self._last.get(turn.id)
        if known is None and decode and turn.ended is not None:
            known = self._last[turn.id] = turn.read_answer().calls
        return known or ()

    def _find_held(self) -> tuple[dict[str, TurnCapture], list[str]]:
        """Returns the turns in memory, and the ids of the newest ones that are only on disk. Forgets all others."""
        held = find_held(self._captures, self._tenant)
        stored = [name for name in self._captures.disk.list_turns(MAX_DISK_TURNS, self._tenant) if name not in held]
        known = {*self._grouped, *self.on_disk, *self._last, *self._answers}
        self._forget(known - held.keys() - set(stored))
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
            if name not in self.on_disk:
                fresh += self._read_from_disk(name)
        for turn in sorted(fresh, key=lambda one: one.time):
            if turn.previous_response:
                own = turn.previous_response.removeprefix(ID_PREFIX)  # if it is not the provider's
                turn.previous_response = self._responses.get(turn.previous_response, own)
            self._index.add_turn(turn)

    def _forget(self, gone: set[str]) -> None:
        for name in gone:
            self._index.remove_turn(name)
            self.titles.pop(name, None)
            self._last.pop(name, None)
            self._answers.pop(name, None)
            self.on_disk.pop(name, None)
        self._grouped -= gone
        if gone:
            self._digester.clear()
            self._responses = {response: turn for response, turn in self._responses.items() if turn not in gone}

    def _read_from_disk(self, name: str) -> list[SessionTurn]:
        """Reads a turn that is only on disk. If it was in memory before, its session is known."""
        kept = self._captures.disk.read_turn(name, self._tenant)
        if kept is None:
            return []
        row = kept.to_row()
        if row.operation not in OPERATIONS:
            self.on_disk[name] = DiskTurn()
            return []
        silence = find_silence([at for at, _ in kept.chunks if at is not None])
        self.on_disk[name] = DiskTurn(row, silence)
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
                self._responses[response] = turn.id

    def _read_answer(self, id: str) -> AnswerDigest:
        known = self._answers.get(id)
        if known is not None:
            return known
        turn = self._captures.find_turn(id, self._tenant)
        if turn is None or not turn.finished:
            return AnswerDigest()
        found = self._answers[id] = read_answer(turn.to_source())
        while len(self._answers) > MAX_KNOWN_ANSWERS:
            with suppress(KeyError):  # another thread, which writes a report, has removed it
                self._answers.popitem(last=False)
        return found

    def _read_lines(self, id: str) -> frozenset[bytes]:
        turn = self._captures.find_turn(id, self._tenant)
        if turn is None:
            return frozenset()
        return digest_edge_lines(read_request(turn.request, turn.request_protocol, cut=turn.request_cut).messages)


def find_held(captures: LiveCaptures, tenant: str | None) -> dict[str, TurnCapture]:
    """Returns the turns in memory whose content is kept, of one tenant or all."""
    found = dict(captures.captures).items()
    return {name: one for name, one in found if not one.dropped and tenant in {None, one.tenant}}


def longest_silence(capture: TurnCapture) -> tuple[float, float]:
    """Returns the longest time without bytes after the first, and when it began; in seconds.

    A stream that runs and has no byte yet is silent from its beginning on.
    """
    times = [at for at, _ in capture.chunks_from(0) if at is not None]
    if not capture.finished and (times or capture.turn_request.request.stream):
        times = [*(times or [0.0]), capture.elapsed]
    return find_silence(times)


def find_silence(times: Sequence[float]) -> tuple[float, float]:
    """Returns the longest time between two of some times, and when it began."""
    longest, since = max(((after - at, at) for at, after in pairwise(times)), default=(0.0, 0.0))
    return round(longest, 3), round(since, 3)
