"""Turns and sessions as the grouping sees them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple, TypeAlias

import msgspec

from penstock._inspector.session_digests import AnswerDigest, MessageDigest

OVERLAP_SECONDS = 0.25  # a client may send its next turn before the gateway has written the end of the last

TurnLink: TypeAlias = Literal["start", "continue", "retry", "edit", "compact", "fork"]
"""How a turn belongs to its session: it begins it, goes on, sends the same again, changes earlier messages, replaces
them by a summary; or it begins a session that shares messages with one that was busy."""


class SessionScope(NamedTuple):
    """Whose turns may be in one session."""

    tenant: str
    key: str
    client: str


def _no_answer() -> AnswerDigest:
    return AnswerDigest()


class SessionTurn(msgspec.Struct, eq=False):
    """A turn as the grouping sees it. `ended` is None while it runs. `add_turn` sets the fields below the functions.

    `system_digest` is that of its system messages. `previous_response`: the turn whose response the request names.

    `read_answer` and `read_lines` are only called where messages do not suffice: the answer must be decoded for it.
    `read_lines` returns the digests of the lines of the turn's first and last messages.
    """

    id: str
    scope: SessionScope
    time: float
    ended: float | None = None
    failed: bool = False
    messages: tuple[MessageDigest, ...] = ()
    protocol: str = ""
    system_digest: bytes = b""
    previous_response: str = ""
    read_answer: Callable[[], AnswerDigest] = _no_answer
    read_lines: Callable[[], frozenset[bytes]] = frozenset
    session: str = ""
    previous: str = ""  # the turn that it goes on from
    link: TurnLink = "start"
    shared: int = 0  # messages that it shares with the previous turn
    digest: bytes = b""  # of all its messages
    answer: bytes = b""  # the digest of its answer, once it was decoded

    def is_like(self, other: SessionTurn) -> bool:
        """True if both have the same protocol and the same system messages."""
        return (self.protocol, self.system_digest) == (other.protocol, other.system_digest)

    def has_answer(self, message: MessageDigest) -> bool:
        """True if the message is the answer of this turn."""
        return message.answer and self.find_answer() == message.digest

    def find_answer(self) -> bytes:
        """Returns the digest of its answer. It is decoded once."""
        found = self.answer or self.read_answer().digest
        if self.ended is not None:
            self.answer = found
        return found

    def is_running_at(self, time: float) -> bool:
        """True if the turn began before that time, and ended after it."""
        return self.time <= time and not self.has_ended_before(time)

    def has_ended_before(self, time: float) -> bool:
        """True if the turn ended before that time, or as good as that."""
        return self.ended is not None and self.ended <= time + OVERLAP_SECONDS

    @property
    def new_messages(self) -> tuple[MessageDigest, ...]:
        """The messages that the previous turn did not have."""
        return self.messages[self.shared :]


class TurnSession(msgspec.Struct, eq=False):
    """A session: its turns in the order in which they began. Its id is that of its first turn."""

    id: str
    scope: SessionScope
    turns: list[SessionTurn] = []
    forked_from: str = ""  # the session that it shares messages with
    prefixes: dict[bytes, str] = {}  # → the last turn that has it
    answers: dict[bytes, str] = {}  # the same
    active: list[SessionTurn] = []  # that had not ended when the last turn began

    @property
    def last(self) -> SessionTurn:
        return self.turns[-1]

    def add_turn(self, turn: SessionTurn) -> None:
        """Adds a turn that begins after all others. Those that ended before it need not be looked at any more."""
        self.turns.append(turn)
        self.active = [*(one for one in self.active if not one.has_ended_before(turn.time)), turn]

    def remove_turn(self, turn: SessionTurn) -> None:
        """Removes one of its turns."""
        self.turns.remove(turn)
        self.active = [one for one in self.active if one is not turn]

    def is_busy_at(self, time: float, *, except_for: str = "") -> bool:
        """True if one of its turns runs at that time, which is not before its last turn began."""
        return any(turn.is_running_at(time) for turn in self.active if turn.id != except_for)
