"""Recognises turns of clients that compact the conversation: a summary stands for messages, and the newest may stay.

The summary is the answer of an earlier turn, or the client's own. Answers are decoded for it: only of a few sessions.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock._inspector.session_turns import SessionTurn, TurnSession

MAX_COMPARED_SESSIONS = 20  # whose newest answer is looked for in a turn
MAX_CHECKED_SESSIONS = 200  # the ones that were extended last: which of them may be compacted is looked at
COMPACTION_SECONDS = 3_600.0  # after a session's last turn: later, its newest answer is not looked for
MIN_DISTINCT_CHARACTERS = 40  # of an answer that identifies a session by itself


def find_compacted(sessions: Iterable[TurnSession], turn: SessionTurn) -> TurnSession | None:
    """Returns the session whose newest answer is in the turn: as a message, or as lines of its first or last ones."""
    if not turn.messages:
        return None
    kept = _distinct_answers(turn)
    begins_with_answer = turn.messages[0].answer  # then nobody has written a summary
    newest = islice(sessions, MAX_CHECKED_SESSIONS)
    recent = list(islice((one for one in newest if _may_be_compacted(one, turn)), MAX_COMPARED_SESSIONS))
    found = next((one for one in recent if kept and one.last.find_answer() in kept), None)
    if found is not None or begins_with_answer or not recent:
        return found
    lines = turn.read_lines()
    return next((one for one in recent if lines and _shares_lines(lines, one.last)), None)


def is_compacted(turn: SessionTurn, last: SessionTurn, shared: int) -> bool:
    """True if a turn that keeps the first messages of a session leaves later ones out, and keeps what came after them.

    It is shorter than the last turn, and has lines of that turn's answer, or answers behind the messages they share.
    """
    if len(turn.messages) >= len(last.messages):
        return False
    kept = {message.digest for message in turn.messages[shared:] if message.answer}
    if any(message.answer and message.digest in kept for message in last.messages[shared:]):
        return True
    return (bool(kept) and last.find_answer() in kept) or _shares_lines(turn.read_lines(), last)


def _may_be_compacted(session: TurnSession, turn: SessionTurn) -> bool:
    return (
        session.scope == turn.scope
        and turn.time - session.last.time <= COMPACTION_SECONDS
        and len(session.last.messages) > len(turn.messages)
        and not session.is_busy_at(turn.time)
    )


def _distinct_answers(turn: SessionTurn) -> set[bytes]:
    """Returns the digests of a turn's answers that are long enough to be no other session's."""
    return {one.digest for one in turn.messages if one.answer and one.characters >= MIN_DISTINCT_CHARACTERS}


def _shares_lines(lines: frozenset[bytes], last: SessionTurn) -> bool:
    return not lines.isdisjoint(last.read_answer().lines)
