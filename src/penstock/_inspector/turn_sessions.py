"""Groups turns into sessions: the turns of one conversation of one client with one key.

Clients send the whole conversation with every turn, so a turn belongs to the session whose messages are the longest
prefix of its own. Only digests of messages are compared. System messages are left out: clients put the date and other
things that change into them.

These cases are harder:

- A retry sends the same messages again. It stays in the session.
- An edited message, or one that the client takes away, leaves a shorter common prefix. It counts if an answer of the
  model is in it: two sessions may begin with the same words, but get different answers.
- A client that compacts the conversation begins again with a summary. It is recognised by answers that it keeps, or by
  lines of the summary, which is the answer of an earlier turn (`session_compaction.py`).
- Subagents run at the same time and may share the beginning of a conversation. A turn never joins a session that is
  busy with another turn: it begins its own session, with a reference to the other.
- Equal first messages ("hello") at different times are different sessions, unless the earlier turn failed, and this
  one has the same system message and the same protocol: an agent asks for a title with the user's first words, too.
- A request may name the response that it goes on from, and leave the conversation out. It gets the messages of that
  turn, so that it is compared like any other.
"""

from __future__ import annotations

from collections import OrderedDict
from hashlib import blake2b
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from penstock._inspector.equal_requests import MAX_COMPARED_TURNS, EqualRequests
from penstock._inspector.session_compaction import MIN_DISTINCT_CHARACTERS, find_compacted, is_compacted
from penstock._inspector.session_digests import MessageDigest
from penstock._inspector.session_turns import SessionScope, SessionTurn, TurnLink, TurnSession

if TYPE_CHECKING:
    from collections.abc import Iterable

MAX_SESSIONS = 2_500  # more than turns are held; the ones that were extended least recently are forgotten first
MAX_GROUPED_TURNS = 5_000  # of all sessions
MAX_CHAINED_MESSAGES = 5_000  # of one turn; further ones are ignored
RETRY_SECONDS = 600.0  # after a failed first turn: later, equal words are a new session
_SIZE = 16  # bytes of a digest


class _Match(NamedTuple):
    session: TurnSession
    previous: SessionTurn
    shared: int
    link: TurnLink


class SessionIndex:
    """All sessions. Turns are added in the order in which they began."""

    def __init__(self) -> None:
        self.sessions: OrderedDict[str, TurnSession] = OrderedDict()  # the latest last
        self.turns: dict[str, SessionTurn] = {}
        self._by_prefix: dict[bytes, dict[str, None]] = {}  # → sessions that have it
        self._requests: dict[bytes, EqualRequests] = {}  # → turns whose messages are exactly this prefix
        self._by_answer: dict[bytes, str] = {}  # → the last session that has this answer

    @property
    def entry_count(self) -> int:
        """How many digests are remembered."""
        return len(self._by_prefix) + len(self._requests) + len(self._by_answer)

    def add_turn(self, turn: SessionTurn) -> TurnSession:
        """Adds a turn to its session, or begins a session."""
        previous = self._find_response_turn(turn)
        before = (*previous.messages, _answer_message(previous)) if previous is not None else ()
        turn.messages = (*before, *turn.messages)[:MAX_CHAINED_MESSAGES]
        prefixes = chain_digests(turn)
        turn.digest = prefixes[-1] if prefixes else b""
        if previous is not None:
            match: _Match | None = self._match_previous_response(turn, previous)
        else:
            match = self._match_messages(turn, prefixes)
        if match is not None and match.link == "edit" and is_compacted(turn, match.session.last, match.shared):
            match = match._replace(link="compact")
        if match is None or match.link == "fork":
            session = TurnSession(turn.id, turn.scope, forked_from=match.session.id if match is not None else "")
            self.sessions[turn.id] = session
        else:
            session = match.session
        if match is not None:
            turn.previous, turn.shared, turn.link = match.previous.id, match.shared, match.link
        turn.session = session.id
        session.add_turn(turn)
        self.turns[turn.id] = turn
        self.sessions.move_to_end(session.id)
        self._index_turn(session, turn, prefixes)
        self._enforce_limits()
        return session

    def find_session(self, id: str) -> TurnSession | None:
        """Returns the session with this id, or the one that has the turn with this id."""
        turn = self.turns.get(id)
        return self.sessions.get(id) or (self.sessions.get(turn.session) if turn is not None else None)

    # ── matching ──────────────────────────────────────────────────────────────────────────────────

    def _find_response_turn(self, turn: SessionTurn) -> SessionTurn | None:
        """Returns the turn whose response the request names, if it is known and of the same client and key."""
        found = self.turns.get(turn.previous_response)
        return found if found is not None and found.scope == turn.scope else None

    def _match_previous_response(self, turn: SessionTurn, previous: SessionTurn) -> _Match:
        """The turn goes on from a turn that it names, or sends again what went on from there."""
        equal = self._requests.get(turn.digest, EqualRequests()).newest()  # also of sessions with the same words
        same = [one for one in equal if one.previous_response == turn.previous_response]
        again = self._match_same_request(turn, same, has_answer=True)
        if again is not None:
            return again
        session, shared = self.sessions[previous.session], min(len(previous.messages), len(turn.messages))
        if session.is_busy_at(turn.time, except_for=previous.id):
            return _Match(session, previous, shared, "fork")
        return _Match(session, previous, shared, "continue" if session.last is previous else "edit")

    def _match_messages(self, turn: SessionTurn, prefixes: list[bytes]) -> _Match | None:
        return self._match_prefix(turn, prefixes) or self._match_answers(turn) or self._match_summary(turn)

    def _match_prefix(self, turn: SessionTurn, prefixes: list[bytes]) -> _Match | None:
        """Returns the session that shares the longest prefix."""
        first_answer = next((at for at, message in enumerate(turn.messages) if message.answer), len(turn.messages))
        room = MAX_COMPARED_TURNS  # for all prefixes together
        for shared in range(len(prefixes), 0, -1):
            prefix, has_answer = prefixes[shared - 1], shared > first_answer
            earlier, match = self._requests.get(prefix), None
            if earlier is not None and shared == len(prefixes):
                match = self._match_same_request(turn, earlier.newest(), has_answer=has_answer)
                if match is not None and match.link == "retry" and not match.previous.failed:
                    match = self._match_waiting(turn, prefixes, match.previous) or match
            elif earlier is not None and room > 0:
                match = self._match_request(turn, earlier, shared, room)
                room -= len(earlier)
            if match is None and has_answer and prefix in self._by_prefix:
                match = self._match_edited(turn, prefix, shared)
            if match is not None:
                return match
        return None

    def _match_same_request(
        self, turn: SessionTurn, earlier: Iterable[SessionTurn], *, has_answer: bool
    ) -> _Match | None:
        """The same messages were sent before: a retry, if the client could know the end of the earlier turn."""
        for one in earlier:
            session = self.sessions[one.session]
            if session.is_busy_at(turn.time):
                if has_answer:
                    return _Match(session, one, len(turn.messages), "fork")
                continue
            recent = turn.time - (one.ended or one.time) <= RETRY_SECONDS
            if has_answer or (one.failed and recent and one.is_like(turn) and session.last is one):
                return _Match(session, one, len(turn.messages), "retry")
        return None

    def _match_waiting(self, turn: SessionTurn, prefixes: list[bytes], same: SessionTurn) -> _Match | None:
        """The turn is as one that has succeeded: a program that runs again, if a session waits for exactly this turn.

        That session has begun after the other turn, or speaks the protocol of this one while the other does not.
        """
        is_like_same, room = same.is_like(turn), MAX_COMPARED_TURNS
        for shared in range(len(prefixes) - 1, 0, -1):
            earlier = self._requests.get(prefixes[shared - 1])
            for one in earlier.newest(room) if earlier is not None else ():
                room -= 1
                if is_like_same and one.time <= same.time:
                    break
                session = self.sessions[one.session]
                if one.is_like(turn) and session.last is one and one.has_answer(turn.messages[shared]):
                    busy = session.is_busy_at(turn.time, except_for=one.id)
                    return None if busy else _Match(session, one, shared, "continue")
        return None

    def _match_request(self, turn: SessionTurn, earlier: EqualRequests, shared: int, limit: int) -> _Match | None:
        """The turn goes on from the request of an earlier one: from the one whose answer it has, else the latest.

        An agent may go on with another protocol. Then it has the answer; else another program has begun alike.
        """
        following, newest = turn.messages[shared], list(earlier.newest(limit))
        others = any(one.protocol != turn.protocol for one in newest)

        def is_busy(one: SessionTurn) -> bool:
            return self.sessions[one.session].is_busy_at(turn.time, except_for=one.id if following.answer else "")

        found = earlier.find_answered(following) if len(earlier) > 1 or others else []
        answered = {one.id for one in found}
        possible = found or [one for one in newest if one.protocol == turn.protocol]
        if not possible:
            return None
        best = max(possible, key=lambda one: (
            one.id in answered, not is_busy(one), one.protocol == turn.protocol,
            one.system_digest == turn.system_digest, self.sessions[one.session].last is one, one.time,
        ))  # fmt: skip
        session = self.sessions[best.session]
        if is_busy(best):
            return _Match(session, best, shared, "fork")
        return _Match(session, best, shared, "continue" if session.last is best else "edit")

    def _match_edited(self, turn: SessionTurn, prefix: bytes, shared: int) -> _Match:
        """Some messages are as before, an answer among them; then the conversation differs."""
        found = [self.sessions[one] for one in islice(reversed(self._by_prefix[prefix]), MAX_COMPARED_TURNS)]
        idle = next((one for one in found if not one.is_busy_at(turn.time)), None)
        session = idle or found[0]
        previous = self.turns.get(session.prefixes[prefix], session.last)
        return _Match(session, previous, shared, "fork" if idle is None else "edit")

    def _match_answers(self, turn: SessionTurn) -> _Match | None:
        """The beginning differs, but answers of a session are in it: the client has removed earlier messages."""
        for message in reversed(turn.messages):
            if message.answer and message.characters >= MIN_DISTINCT_CHARACTERS:
                id = self._by_answer.get(_keyed(turn.scope, message.digest))  # noqa: A001
                session = self.sessions.get(id or "")
                if session is not None and not session.is_busy_at(turn.time):
                    return _Match(session, session.last, 0, "compact")
        return None

    def _match_summary(self, turn: SessionTurn) -> _Match | None:
        """The turn has the newest answer of a session, or lines of it in its first or last messages: a summary."""
        session = find_compacted(reversed(self.sessions.values()), turn)
        return _Match(session, session.last, 0, "compact") if session is not None else None

    # ── index and bounds ──────────────────────────────────────────────────────────────────────────

    def _index_turn(self, session: TurnSession, turn: SessionTurn, prefixes: list[bytes]) -> None:
        for prefix in prefixes:
            if prefix not in session.prefixes:
                self._by_prefix.setdefault(prefix, {})[session.id] = None
            session.prefixes[prefix] = turn.id
        if prefixes:
            self._requests.setdefault(turn.digest, EqualRequests()).add_turn(turn)
        for message in turn.messages:
            if message.answer and message.characters >= MIN_DISTINCT_CHARACTERS:
                answer = _keyed(turn.scope, message.digest)
                session.answers[answer] = turn.id
                self._by_answer[answer] = session.id

    def remove_turn(self, id: str) -> None:
        """Removes a turn that is not kept any more. Its session stays as long as it has others."""
        turn = self.turns.pop(id, None)
        if turn is None:
            return
        self._remove_request(turn)
        session = self.sessions[turn.session]
        session.remove_turn(turn)
        for prefix in chain_digests(turn):
            if session.prefixes.get(prefix) == id:
                del session.prefixes[prefix]
                _remove_id(self._by_prefix, prefix, session.id)
        for message in turn.messages:
            answer = _keyed(turn.scope, message.digest) if message.answer else b""
            if session.answers.get(answer) == id:
                self._forget_answer(session, answer)
        if not session.turns:
            self._forget_session(session)

    def _enforce_limits(self) -> None:
        while len(self.sessions) > MAX_SESSIONS:
            self._forget_session(next(iter(self.sessions.values())))
        while len(self.turns) > MAX_GROUPED_TURNS:
            self.remove_turn(next(iter(self.turns)))

    def _forget_session(self, session: TurnSession) -> None:
        del self.sessions[session.id]
        for turn in session.turns:
            del self.turns[turn.id]
            self._remove_request(turn)
        for prefix in session.prefixes:
            _remove_id(self._by_prefix, prefix, session.id)
        for answer in list(session.answers):
            self._forget_answer(session, answer)

    def _remove_request(self, turn: SessionTurn) -> None:
        earlier = self._requests.get(turn.digest)
        if earlier is not None:
            earlier.remove_turn(turn)
            if not earlier:
                del self._requests[turn.digest]

    def _forget_answer(self, session: TurnSession, answer: bytes) -> None:
        del session.answers[answer]
        if self._by_answer.get(answer) == session.id:
            del self._by_answer[answer]


def _answer_message(turn: SessionTurn) -> MessageDigest:
    """Returns the answer of a turn, as the message that a client would send back."""
    answer = turn.read_answer()
    return MessageDigest(
        answer.digest or turn.id.encode(), answer=True, characters=answer.characters, calls=answer.calls
    )


def chain_digests(turn: SessionTurn) -> list[bytes]:
    """Returns the digest of every prefix of a turn's messages."""
    last = _keyed(turn.scope, b"")
    found: list[bytes] = []
    for message in turn.messages:
        last = blake2b(last + message.digest, digest_size=_SIZE).digest()
        found.append(last)
    return found


def _keyed(scope: SessionScope, digest: bytes) -> bytes:
    hashed = blake2b(digest, digest_size=_SIZE)
    for word in scope:
        hashed.update(b"\0" + word.encode("utf-8", "surrogatepass"))
    return hashed.digest()


def _remove_id(rows: dict[bytes, dict[str, None]], key: bytes, id: str) -> None:
    ids = rows.get(key, {})
    ids.pop(id, None)
    if not ids:
        rows.pop(key, None)
