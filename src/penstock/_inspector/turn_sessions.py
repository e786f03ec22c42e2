"""Groups turns into sessions: the turns of one conversation of one client with one key.

Clients send the whole conversation with every turn, so a turn belongs to the session whose messages are the longest
prefix of its own. Only digests of messages are compared. System messages are left out: clients put the date and other
things that change into them.

Five things make it harder:

- A retry sends the same messages again. It stays in the session.
- An edited message, or one that the client takes away, leaves a shorter common prefix. It counts if an answer of the
  model is in it: two sessions may begin with the same words, but get different answers.
- A client that compacts the conversation begins again with a summary. It is recognised by answers that it keeps, or by
  lines of the summary, which is the answer of an earlier turn.
- Subagents run at the same time and may share the beginning of a conversation. A turn never joins a session that is
  busy with another turn: it begins its own session, with a reference to the other.
- Equal first messages ("hello") at different times are different sessions, unless the earlier turn failed.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from hashlib import blake2b
from typing import Literal, NamedTuple, TypeAlias

import msgspec

MAX_SESSIONS = 1_000  # the ones that were extended least recently are forgotten first
MAX_GROUPED_TURNS = 5_000  # of all sessions
MAX_CHAINED_MESSAGES = 5_000  # of one turn; further ones are ignored
MAX_COMPARED_SESSIONS = 20  # whose answers are searched for the summary that a turn begins with
RETRY_SECONDS = 600.0  # after a failed first turn: later, equal words are a new session
COMPACTION_SECONDS = 3_600.0  # after a session's last turn: later, a summary is not looked for
OVERLAP_SECONDS = 0.25  # a client may send its next turn before the gateway has written the end of the last
MIN_DISTINCT_CHARACTERS = 40  # of an answer that identifies a session by itself
_SIZE = 16  # bytes of a digest

TurnLink: TypeAlias = Literal["start", "continue", "retry", "edit", "compact", "fork"]
"""How a turn belongs to its session: it begins it, goes on, sends the same again, changes earlier messages, replaces
them by a summary; or it begins a session that shares messages with one that was busy."""


class SessionScope(NamedTuple):
    """Whose turns may be in one session."""

    tenant: str
    key: str
    client: str


class CallDigest(NamedTuple):
    """A tool call: its id, the tool, the digest of name and arguments, and how the arguments begin."""

    id: str
    name: str
    digest: bytes
    preview: str


class ResultDigest(NamedTuple):
    """The result of a call."""

    call: str
    digest: bytes
    failed: bool


class MessageDigest(NamedTuple):
    """What is remembered of a message. `answer`: the model wrote it. `characters`: of its text and calls."""

    digest: bytes
    answer: bool = False
    characters: int = 0
    calls: tuple[CallDigest, ...] = ()
    results: tuple[ResultDigest, ...] = ()


class AnswerDigest(NamedTuple):
    """The digest of a turn's answer, as that of the message that the next turn sends back; and those of its lines."""

    digest: bytes = b""
    lines: frozenset[bytes] = frozenset()
    calls: tuple[CallDigest, ...] = ()


def _no_answer() -> AnswerDigest:
    return AnswerDigest()


class SessionTurn(msgspec.Struct, eq=False):
    """A turn as the grouping sees it. `ended` is None while it runs. `add_turn` sets the fields below the functions.

    `read_answer` and `read_lines` are only called where messages do not suffice: the answer must be decoded for it.
    `read_lines` returns the digests of the lines of the turn's first messages.
    """

    id: str
    scope: SessionScope
    time: float
    ended: float | None = None
    failed: bool = False
    messages: tuple[MessageDigest, ...] = ()
    read_answer: Callable[[], AnswerDigest] = _no_answer
    read_lines: Callable[[], frozenset[bytes]] = frozenset
    session: str = ""
    previous: str = ""  # the turn that it goes on from
    link: TurnLink = "start"
    shared: int = 0  # messages that it shares with the previous turn
    digest: bytes = b""  # of all its messages

    def is_running_at(self, time: float) -> bool:
        """True if the turn began before that time, and ended after it."""
        return self.time <= time and (self.ended is None or self.ended > time + OVERLAP_SECONDS)

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

    @property
    def last(self) -> SessionTurn:
        return self.turns[-1]

    def is_busy_at(self, time: float, *, except_for: str = "") -> bool:
        """True if one of its turns runs at that time."""
        return any(turn.is_running_at(time) for turn in self.turns if turn.id != except_for)


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
        self._by_prefix: dict[bytes, list[str]] = {}  # → sessions that have it
        self._requests: dict[bytes, list[str]] = {}  # → turns whose messages are exactly this prefix
        self._by_answer: dict[bytes, str] = {}  # → the last session that has this answer

    @property
    def entry_count(self) -> int:
        """How many digests are remembered."""
        return len(self._by_prefix) + len(self._requests) + len(self._by_answer)

    def add_turn(self, turn: SessionTurn) -> TurnSession:
        """Adds a turn to its session, or begins a session."""
        turn.messages = turn.messages[:MAX_CHAINED_MESSAGES]
        prefixes = chain_digests(turn)
        turn.digest = prefixes[-1] if prefixes else b""
        match = self._match_prefix(turn, prefixes) or self._match_answers(turn) or self._match_summary(turn)
        if match is None or match.link == "fork":
            session = TurnSession(turn.id, turn.scope, forked_from=match.session.id if match is not None else "")
            self.sessions[turn.id] = session
        else:
            session = match.session
        if match is not None:
            turn.previous, turn.shared, turn.link = match.previous.id, match.shared, match.link
        turn.session = session.id
        session.turns.append(turn)
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

    def _match_prefix(self, turn: SessionTurn, prefixes: list[bytes]) -> _Match | None:
        """Returns the session that shares the longest prefix."""
        first_answer = next((at for at, message in enumerate(turn.messages) if message.answer), len(turn.messages))
        for shared in range(len(prefixes), 0, -1):
            prefix, has_answer = prefixes[shared - 1], shared > first_answer
            earlier = [self.turns[one] for one in self._requests.get(prefix, ())]
            if shared == len(prefixes):
                match = self._match_same_request(turn, earlier, has_answer=has_answer)
            elif earlier:
                match = self._match_request(turn, earlier, shared)
            else:
                match = None
            if match is None and has_answer and prefix in self._by_prefix:
                match = self._match_edited(turn, prefix, shared)
            if match is not None:
                return match
        return None

    def _match_same_request(self, turn: SessionTurn, earlier: list[SessionTurn], *, has_answer: bool) -> _Match | None:
        """The same messages were sent before: a retry, if the client could know the end of the earlier turn."""
        for one in reversed(earlier):
            session = self.sessions[one.session]
            if session.is_busy_at(turn.time):
                if has_answer:
                    return _Match(session, one, len(turn.messages), "fork")
                continue
            recent = turn.time - (one.ended or one.time) <= RETRY_SECONDS
            if has_answer or (one.failed and recent and session.last is one):
                return _Match(session, one, len(turn.messages), "retry")
        return None

    def _match_request(self, turn: SessionTurn, earlier: list[SessionTurn], shared: int) -> _Match:
        """The turn goes on from the request of an earlier one: from the one whose answer it has, else the latest."""
        following = turn.messages[shared]

        def rank(one: SessionTurn) -> tuple[bool, bool, bool, float]:
            session = self.sessions[one.session]
            busy = session.is_busy_at(turn.time, except_for=one.id if following.answer else "")
            answered = len(earlier) > 1 and following.answer and one.read_answer().digest == following.digest
            return (not busy, answered, session.last is one, one.time)

        best = max(earlier, key=rank)
        session = self.sessions[best.session]
        if not rank(best)[0]:
            return _Match(session, best, shared, "fork")
        return _Match(session, best, shared, "continue" if session.last is best else "edit")

    def _match_edited(self, turn: SessionTurn, prefix: bytes, shared: int) -> _Match:
        """Some messages are as before, an answer among them; then the conversation differs."""
        found = [self.sessions[one] for one in reversed(self._by_prefix[prefix])]
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
        """The turn begins with lines of an earlier answer: a summary that the client asked for."""
        if not turn.messages or turn.messages[0].answer:
            return None
        recent = (
            session
            for session in reversed(self.sessions.values())
            if session.scope == turn.scope
            and turn.time - session.last.time <= COMPACTION_SECONDS
            and len(session.last.messages) > len(turn.messages)
            and not session.is_busy_at(turn.time)
        )
        lines: frozenset[bytes] | None = None
        for session, _ in zip(recent, range(MAX_COMPARED_SESSIONS), strict=False):
            lines = turn.read_lines() if lines is None else lines
            if not lines:
                return None
            if not lines.isdisjoint(session.last.read_answer().lines):
                return _Match(session, session.last, 0, "compact")
        return None

    # ── index and bounds ──────────────────────────────────────────────────────────────────────────

    def _index_turn(self, session: TurnSession, turn: SessionTurn, prefixes: list[bytes]) -> None:
        for prefix in prefixes:
            if prefix not in session.prefixes:
                self._by_prefix.setdefault(prefix, []).append(session.id)
            session.prefixes[prefix] = turn.id
        if prefixes:
            self._requests.setdefault(turn.digest, []).append(turn.id)
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
        _remove_id(self._requests, turn.digest, id)
        session = self.sessions[turn.session]
        session.turns.remove(turn)
        for prefix in chain_digests(turn):
            if session.prefixes.get(prefix) == id:
                del session.prefixes[prefix]
                _remove_id(self._by_prefix, prefix, session.id)
        for answer in [answer for answer, last in session.answers.items() if last == id]:
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
            _remove_id(self._requests, turn.digest, turn.id)
        for prefix in session.prefixes:
            _remove_id(self._by_prefix, prefix, session.id)
        for answer in list(session.answers):
            self._forget_answer(session, answer)

    def _forget_answer(self, session: TurnSession, answer: bytes) -> None:
        del session.answers[answer]
        if self._by_answer.get(answer) == session.id:
            del self._by_answer[answer]


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


def _remove_id(rows: dict[bytes, list[str]], key: bytes, id: str) -> None:
    ids = rows.get(key, [])
    if id in ids:
        ids.remove(id)
    if not ids:
        rows.pop(key, None)
