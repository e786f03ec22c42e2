"""Turns that sent equal messages, found by the answers that they got."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock._inspector.session_digests import MessageDigest
    from penstock._inspector.session_turns import SessionTurn

MAX_COMPARED_TURNS = 64  # earlier turns that one turn is compared with, the newest first


class EqualRequests:
    """The turns of one request, in the order in which they began. Each answer is decoded once."""

    def __init__(self) -> None:
        self._turns: dict[str, SessionTurn] = {}
        self._by_answer: dict[bytes, dict[str, SessionTurn]] = {}
        self._unread: dict[str, SessionTurn] = {}  # their answers are not decoded yet

    def __len__(self) -> int:
        return len(self._turns)

    def add_turn(self, turn: SessionTurn) -> None:
        self._turns[turn.id] = self._unread[turn.id] = turn

    def remove_turn(self, turn: SessionTurn) -> None:
        self._turns.pop(turn.id, None)
        if self._unread.pop(turn.id, None) is None:
            answered = self._by_answer.get(turn.answer, {})
            answered.pop(turn.id, None)
            if not answered:
                self._by_answer.pop(turn.answer, None)

    def newest(self, limit: int = MAX_COMPARED_TURNS) -> Iterator[SessionTurn]:
        """Returns the newest turns, the newest first."""
        return islice(reversed(self._turns.values()), max(0, limit))

    def find_answered(self, message: MessageDigest) -> list[SessionTurn]:
        """Returns the newest turns whose answer is the message."""
        if not message.answer:
            return []
        self._read_answers()
        running = islice(reversed(self._unread.values()), MAX_COMPARED_TURNS)
        found = [one for one in running if one.has_answer(message)]
        return [*found, *islice(reversed(self._by_answer.get(message.digest, {}).values()), MAX_COMPARED_TURNS)]

    def _read_answers(self) -> None:
        """Reads the answers of turns that have ended since the last call."""
        for turn in [one for one in self._unread.values() if one.ended is not None]:
            del self._unread[turn.id]
            self._by_answer.setdefault(turn.find_answer(), {})[turn.id] = turn
