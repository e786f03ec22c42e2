"""Turns are grouped into sessions by the messages that they share."""

from __future__ import annotations

import json
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock._inspector import session_compaction
from penstock._inspector import turn_sessions as ts
from penstock._inspector.session_digests import AnswerDigest, MessageDigest
from penstock._inspector.session_messages import (
    MessageDigester,
    digest_edge_lines,
    read_answer,
    read_request,
    session_title,
)
from penstock._inspector.session_turns import SessionScope, SessionTurn
from penstock._inspector.stream_traces import TraceSource
from penstock.testing import Reply
from tests.support.paused_upstream import TEXT

if TYPE_CHECKING:
    from penstock.request import Message

SCOPE = SessionScope("local", "", "claude-code")


def digest(text: str) -> bytes:
    return blake2b(text.encode(), digest_size=16).digest()


def message(text: str) -> MessageDigest:
    """`A…` is an answer of the model, everything else is the client's."""
    return MessageDigest(digest(text), text.startswith("A"), 100)


class Talk:
    """Adds turns to an index: each begins a second after the last ended, and takes a second."""

    def __init__(self) -> None:
        self.index, self.now = ts.SessionIndex(), 1_000.0

    def turn(self, *texts: str, scope: SessionScope = SCOPE, seconds: float | None = 1.0, at: float | None = None,
             failed: bool = False, answer: str = "", opening: str = "") -> SessionTurn:  # fmt: skip
        began = self.now if at is None else at
        ended = None if seconds is None else began + seconds
        made = SessionTurn(
            f"t{len(self.index.turns)}", scope, began, ended, failed, tuple(map(message, texts)),
            read_answer=lambda: AnswerDigest(digest(answer), frozenset(map(digest, answer.splitlines()))),
            read_lines=lambda: frozenset(map(digest, opening.splitlines())),
        )  # fmt: skip
        self.index.add_turn(made)
        self.now = max(self.now, (ended or began) + 1.0)
        return made


@pytest.fixture
def talk() -> Talk:
    return Talk()


def links(*turns: SessionTurn) -> list[tuple[str, str, int]]:
    return [(turn.session, turn.link, turn.shared) for turn in turns]


def test_a_conversation_that_grows_is_one_session(talk: Talk) -> None:
    one, two, three = talk.turn("U1"), talk.turn("U1", "A1", "R1"), talk.turn("U1", "A1", "R1", "A2", "U2")
    assert links(one, two, three) == [("t0", "start", 0), ("t0", "continue", 1), ("t0", "continue", 3)]
    assert (two.previous, three.previous) == ("t0", "t1")
    assert [part.digest for part in three.new_messages] == [digest("A2"), digest("U2")]
    assert [turn.id for turn in talk.index.sessions["t0"].turns] == ["t0", "t1", "t2"]
    assert talk.index.find_session("t2") is talk.index.sessions["t0"]


def test_other_keys_clients_and_tenants_are_other_sessions(talk: Talk) -> None:
    first = talk.turn("U1")
    for scope in (SCOPE._replace(tenant="b"), SCOPE._replace(key="b"), SCOPE._replace(client="codex")):
        assert talk.turn("U1", "A1", "U2", scope=scope).session != first.session
    assert talk.turn("U1", "A1", "U2").session == first.session


def test_the_longest_prefix_wins(talk: Talk) -> None:
    talk.turn("U1")
    talk.turn("U2")
    second = talk.turn("U1", "A1", "U3")
    other = talk.turn("U1", "A9", "U4", at=second.time)  # at the same time: a session of its own
    assert other.link == "fork"
    assert talk.turn("U1", "A9", "U4", "A5", "U5").session == other.session
    assert talk.turn("U1", "A1", "U3", "A4", "U6").session == second.session


def test_a_retry_stays_in_the_session(talk: Talk) -> None:
    one = talk.turn("U1", failed=True)
    again = talk.turn("U1")
    assert links(one, again) == [("t0", "start", 0), ("t0", "retry", 1)]
    three = talk.turn("U1", "A1", "U2", failed=True)
    assert links(three, talk.turn("U1", "A1", "U2")) == [("t0", "continue", 1), ("t0", "retry", 3)]


def test_the_same_first_words_later_are_another_session(talk: Talk) -> None:
    one, two = talk.turn("hello"), talk.turn("hello")
    assert one.session != two.session
    assert talk.turn("hello", "A2", "U2").session == two.session  # the latest that has not gone on
    assert talk.turn("hello", "A1", "U2").session == one.session
    failed = talk.turn("other", failed=True)
    assert talk.turn("other", at=failed.time + ts.RETRY_SECONDS + 2).session != failed.session


def test_equal_first_words_are_told_apart_by_the_answer(talk: Talk) -> None:
    one, two = talk.turn("hello", answer="A1"), talk.turn("hello", answer="A2")
    assert talk.turn("hello", "A1", "U2").session == one.session
    assert talk.turn("hello", "A2", "U2").session == two.session


def test_an_edited_message_stays_in_the_session(talk: Talk) -> None:
    talk.turn("U1")
    talk.turn("U1", "A1", "U2")
    talk.turn("U1", "A1", "U2", "A2", "U3")
    edited = talk.turn("U1", "A1", "U2b")
    assert links(edited) == [("t0", "edit", 2)]
    assert edited.previous == "t2"  # the last turn that has the messages which they share
    assert links(talk.turn("U1", "A1", "U2b", "A2b", "U3b")) == [("t0", "continue", 3)]


def test_a_session_is_recognised_from_its_middle(talk: Talk) -> None:
    """The gateway has not seen the first turns, and the client removes an old result."""
    first = talk.turn("U1", "A1", "R1", "A2", "R2")
    assert links(talk.turn("U1", "A1", "removed", "A2", "R2", "A3", "R3")) == [(first.session, "edit", 2)]


def test_a_shared_beginning_without_an_answer_says_nothing(talk: Talk) -> None:
    one = talk.turn("environment", "U1")
    assert talk.turn("environment", "U2").session != one.session


def test_parallel_subagents_are_sessions_of_their_own(talk: Talk) -> None:
    parent = talk.turn("U1")
    now = talk.now
    one, two = talk.turn("task", "T1", seconds=5, at=now), talk.turn("task", "T2", seconds=9, at=now + 0.1)
    talk.now = now + 6
    more = talk.turn("task", "T1", "A1", "R1")
    talk.now = now + 10
    others = talk.turn("task", "T2", "A2", "R2")
    assert len({parent.session, one.session, two.session}) == 3
    assert (more.session, others.session) == (one.session, two.session)
    assert links(talk.turn("U1", "A1", "R1")) == [(parent.session, "continue", 1)]


def test_subagents_that_share_the_context_are_forks(talk: Talk) -> None:
    parent = talk.turn("U1", "A1", "U2")
    now = talk.now
    one = talk.turn("U1", "A1", "U2", "A2", "T1", seconds=5, at=now)
    two = talk.turn("U1", "A1", "U2", "A2", "T2", seconds=5, at=now + 0.5)
    assert links(one, two) == [(parent.session, "continue", 3), (two.id, "fork", 4)]
    assert talk.index.sessions[two.session].forked_from == parent.session
    same = talk.turn("U1", "A1", "U2", "A2", "T2", seconds=5, at=now + 1)
    assert (same.link, same.session) == ("fork", same.id)


def test_a_turn_that_comes_before_the_end_was_written_is_no_fork(talk: Talk) -> None:
    running = talk.turn("U1", seconds=None)
    assert links(talk.turn("U1", "A1", "R1")) == [(running.session, "continue", 1)]


def test_compaction_that_keeps_answers(talk: Talk) -> None:
    first = talk.turn("U1", "A1", "R1", "A2", "R2")
    assert links(talk.turn("summary", "A2", "R2", "A3", "R3")) == [(first.session, "compact", 0)]
    assert talk.turn("summary", "A7", "R7").session != first.session


def test_compaction_by_a_summary(talk: Talk) -> None:
    summary = "The user wants a parser.\nThe tests are in tests/parser."
    talk.turn("U1")
    talk.turn("U1", "A1", "R1", "A2", "Summarise", answer=summary)
    new = talk.turn("continued", opening=f"This is continued.\n{summary}")
    assert links(new) == [("t0", "compact", 0)]
    assert links(talk.turn("continued", "A1", "R1")) == [("t0", "continue", 1)]
    assert talk.turn("another", opening="This is continued.").link == "start"
    late = talk.turn("late", opening=summary, at=talk.now + session_compaction.COMPACTION_SECONDS)
    assert late.link == "start"


def test_compaction_that_keeps_only_the_newest_answer(talk: Talk) -> None:
    """No request has had this answer: it is that of the session's last turn."""
    other = talk.turn("V1", "A8", "V2", "A9", "V3", answer="A10")
    texts = ["U1"]
    for number in range(1, 5):
        talk.turn(*texts, answer=f"A{number}")
        texts += [f"A{number}", f"U{number + 1}"]
    last = talk.turn(*texts, answer="A5")
    kept = talk.turn("summary", "A5", "U6")
    assert links(kept) == [(last.session, "compact", 0)]
    assert other.session != last.session
    assert talk.turn("summary", "A6", "U7").link == "start"  # nobody has given this answer


def test_a_short_answer_does_not_identify_a_session(talk: Talk) -> None:
    talk.turn("U1", "A1", "U2", "A2", "U3", answer="A3")
    short = message("A3")._replace(characters=2)
    made = SessionTurn("x", SCOPE, talk.now, messages=(message("summary"), short, message("U4")))
    talk.index.add_turn(made)
    assert made.link == "start"


@pytest.mark.parametrize("tail", [("A3", "U4", "A4", "U5"), ("A4", "U5"), ("A5", "U6")])
def test_the_first_message_and_the_last_ones_may_stay(talk: Talk, tail: tuple[str, ...]) -> None:
    """The client has written the summary between them itself."""
    texts = ["U1"]
    for number in range(1, 6):
        talk.turn(*texts, answer=f"A{number}")
        texts += [f"A{number}", f"U{number + 1}"]
    assert links(talk.turn("U1", "summary", *tail)) == [("t0", "compact", 1)]
    assert talk.turn("U1", "A1", "U2b").link == "edit"  # the user goes back


def test_turns_without_messages_are_alone(talk: Talk) -> None:
    assert links(talk.turn(), talk.turn()) == [("t0", "start", 0), ("t1", "start", 0)]


def test_turns_that_are_gone_leave_their_session(talk: Talk) -> None:
    talk.turn("U1")
    talk.turn("U1", "A1", "U2")
    talk.index.remove_turn("t0")
    assert [turn.id for turn in talk.index.sessions["t0"].turns] == ["t1"]
    talk.index.remove_turn("t0")
    talk.index.remove_turn("t1")
    assert talk.index.sessions == {}
    assert talk.index.entry_count == 0


def test_memory_is_bounded(talk: Talk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ts, "MAX_SESSIONS", 10)
    monkeypatch.setattr(ts, "MAX_GROUPED_TURNS", 30)
    monkeypatch.setattr(ts, "MAX_CHAINED_MESSAGES", 8)
    texts = ["U0"]
    for number in range(200):
        talk.index.add_turn(SessionTurn(f"s{number}", SCOPE, number, number, messages=(message(f"U{number}x"),)))
        talk.index.add_turn(SessionTurn(f"l{number}", SCOPE, number, number, messages=tuple(map(message, texts))))
        texts += [f"A{number}", f"U{number}"]
    index = talk.index
    assert (len(index.sessions), len(index.turns)) == (10, 30)
    assert sum(len(session.turns) for session in index.sessions.values()) == 30
    assert index.entry_count <= 30 + 8 + 9 + 4  # requests, prefixes of the long session and the others, its answers
    for turn in list(index.turns):
        index.remove_turn(turn)
    assert (len(index.sessions), index.entry_count) == (0, 0)


# ── properties ────────────────────────────────────────────────────────────────────────────────────


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(1, 3)), min_size=1, max_size=25))
def test_interleaved_conversations_are_kept_apart(steps: list[tuple[int, int]]) -> None:
    """Each conversation has its first words, and grows by some messages a turn, in any order."""
    talk = Talk()
    texts: dict[int, list[str]] = {}
    session: dict[int, str] = {}
    for who, more in steps:
        mine = texts.setdefault(who, [f"U{who}"])
        if who in session:
            mine += [f"{kind}{who}.{len(mine)}" for _ in range(more) for kind in "AU"]
        turn = talk.turn(*mine)
        assert turn.session == session.setdefault(who, turn.session)
        assert turn.link == ("start" if len(mine) == 1 else "continue")
    assert len(set(session.values())) == len(session) == len(talk.index.sessions)


@given(st.lists(st.lists(st.sampled_from(["U1", "U2", "A1", "A2"]), max_size=5), max_size=20), st.booleans())
def test_every_turn_is_in_one_session_and_shares_what_it_says(all_texts: list[list[str]], parallel: bool) -> None:
    talk = Talk()
    for at, texts in enumerate(all_texts):
        turn = talk.turn(*texts, at=float(at) if parallel else None, seconds=3.0 if parallel else 1.0)
        previous = talk.index.turns.get(turn.previous)
        if previous is not None:
            assert turn.messages[: turn.shared] == previous.messages[: turn.shared]
            assert turn.link == "fork" or previous.session == turn.session
    counted = [turn.id for session in talk.index.sessions.values() for turn in session.turns]
    assert sorted(counted) == sorted(talk.index.turns)
    assert len(counted) == len(all_texts)


# ── messages ──────────────────────────────────────────────────────────────────────────────────────


def read_messages(body: bytes, protocol: str, *, cut: bool = False) -> list[Message]:
    return read_request(body, protocol, cut=cut).messages


CALL = {"type": "tool_use", "id": "c1", "name": "bash", "input": {"command": "ls -l"}}


def anthropic(*messages: Any, system: str = "You help.") -> bytes:
    return json.dumps({"model": "m", "max_tokens": 9, "system": system, "messages": messages}).encode()


def test_digests_are_the_same_in_every_turn() -> None:
    """A later turn moves the cache mark, drops the reasoning, changes the system prompt and spells texts as lists."""
    user = {"role": "user", "content": "List the files."}
    marked = [{"type": "text", "text": "List the files.", "cache_control": {"type": "ephemeral"}}]
    thinking = {"type": "thinking", "thinking": "Hm.", "signature": "s"}
    result = {"type": "tool_result", "tool_use_id": "c1", "content": "a.txt"}
    first = anthropic({"role": "user", "content": marked}, {"role": "assistant", "content": [thinking, CALL]},
                      {"role": "user", "content": [result]}, system="Monday")  # fmt: skip
    second = anthropic(user, {"role": "assistant", "content": [CALL]}, {"role": "user", "content": [result]})
    digester = MessageDigester()
    one, two = (digester.digest_messages(read_messages(body, "anthropic")) for body in (first, second))
    assert one == two
    assert [part.answer for part in one] == [False, True, False]
    assert [(call.id, call.name, call.preview) for call in one[1].calls] == [("c1", "bash", '{"command":"ls -l"}')]
    assert [(found.call, found.failed) for found in one[2].results] == [("c1", False)]
    assert one[1] is two[1]


def test_a_cut_request_has_its_first_messages() -> None:
    body = anthropic(*({"role": "user" if n % 2 == 0 else "assistant", "content": f"text {n}"} for n in range(50)))
    whole = read_messages(body, "anthropic")
    part = read_messages(body[: len(body) * 2 // 3], "anthropic", cut=True)
    assert 25 < len(part) < len(whole)
    assert part == whole[: len(part)]
    assert read_request(body[:20], "anthropic", cut=True).messages == []
    assert read_messages(b"[1]", "anthropic") == read_messages(b"", "anthropic") == []


def test_the_title_is_what_the_user_wrote() -> None:
    reminder = {"type": "text", "text": "<system-reminder>Be short.</system-reminder>"}
    body = anthropic({"role": "user", "content": [reminder, {"type": "text", "text": "Mend  the\nparser. " * 20}]})
    title = session_title(read_messages(body, "anthropic"))
    assert title.startswith("Mend the parser. Mend")
    assert len(title) == 160
    assert session_title([]) == ""
    assert (
        session_title(read_messages(anthropic({"role": "user", "content": [reminder]}), "anthropic"))
        == reminder["text"]
    )


def test_the_answer_is_recognised_in_the_next_request() -> None:
    source = TraceSource("openai-chat", [(0.0, chunk) for chunk in Reply.of("openai-chat", TEXT).chunks])
    text = "".join(f"word{n} " for n in range(40))
    body = anthropic({"role": "user", "content": "Go"}, {"role": "assistant", "content": text},
                     {"role": "user", "content": f"Continued.\n{text}"})  # fmt: skip
    messages = read_messages(body, "anthropic")
    answer = read_answer(source)
    assert answer.digest == MessageDigester().digest_messages(messages)[1].digest
    assert digest_edge_lines(messages) & answer.lines
    assert read_answer(TraceSource("openai-chat", [])) == AnswerDigest(
        read_answer(TraceSource("openai-chat", [])).digest
    )


SUMMARY = "The user wants a parser: its tests are in tests/parser, and two of them fail."


@pytest.mark.parametrize(
    "opening",
    [
        SUMMARY, f"Summary: {SUMMARY}", f"Continued. Summary of what was said: {SUMMARY}", f"<summary>{SUMMARY}</summary>",
        f"Here it is:\n<summary>  {SUMMARY} </summary>", f'Summary: "{SUMMARY}"',
    ],
)  # fmt: skip
@pytest.mark.parametrize("answer", [SUMMARY, f"<summary>{SUMMARY}</summary>", f"Of course.\n{SUMMARY}\nIs it right?"])
def test_a_summary_is_found_in_what_the_client_puts_around_it(answer: str, opening: str) -> None:
    def lines(text: str) -> frozenset[bytes]:
        return digest_edge_lines(read_messages(anthropic({"role": "user", "content": text}), "anthropic"))

    assert lines(opening) & lines(answer)
    assert not lines(opening.replace("parser", "lexer")) & lines(answer)
    assert len(lines(("a: <b>" * 30_000) + SUMMARY)) <= 5  # of one line
