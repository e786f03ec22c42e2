"""Captures what the next request may need of a turn: a key of its text, and its reasoning in fewer events."""

from __future__ import annotations

from typing import Any

import hypothesis
from hypothesis import strategies as st

from penstock import events as ev
from penstock import request as rq
from penstock._fold import fold_all
from penstock._gateway import relay
from penstock._messages.carried_state import state_rows, text_key
from tests.support.case_loop import over
from tests.support.stream_cases import Case, cases

STREAMED = [case for case in cases() if case.streamed and isinstance(case.expected()[-1], ev.Finish)]


@over(STREAMED)
def test_it_folds_to_the_same_turn_but_for_its_words(case: Case) -> None:
    kept, events = relay.ReasoningCapture(), _one_turn(case)
    for event in events:
        kept.add([event])
    found = fold_all(kept.events())
    if kept.full:
        assert _mixed(events)
        return
    wanted = fold_all(events)
    assert kept.text_key.key == text_key([part for part in wanted[0].parts if not getattr(part, "choice", 0)])
    assert state_rows(found[0].parts, "mark", kept.text_key) == state_rows(wanted[0].parts, "mark")
    assert [_plain(turn) for turn in found] == [_plain(turn) for turn in wanted]


def _one_turn(case: Case) -> list[Any]:
    """A reply is one turn: what follows its end is never seen."""
    events = case.expected()
    return events[: next(place for place, event in enumerate(events) if isinstance(event, ev.Finish)) + 1]


def _mixed(events: list[Any]) -> bool:
    """Whether a text goes on after another has begun."""
    places = [event.index for event in events if isinstance(event, ev.TextDelta | ev.RefusalDelta)]
    return places != sorted(places)


def _plain(turn: Any) -> str:
    """A turn but for its words, and its logprobs, which no provider wants back; of the first choice."""
    parts = [part for part in turn.parts if not getattr(part, "choice", 0)]
    for part in parts:
        if isinstance(part, rq.Text):
            part.text, part.logprobs = part.text[:1], []
    return repr(parts) + repr(turn.finish)


PIECES = st.lists(
    st.one_of(st.text(max_size=3), st.sampled_from([" ", "\n", "\u2003", "word", " word "])), max_size=200
)


@hypothesis.given(PIECES)
def test_a_text_has_the_same_key_however_it_came(pieces: list[str]) -> None:
    kept = relay.ReasoningCapture()
    for piece in pieces:
        kept.add([ev.TextDelta(0, piece)])
    kept.events()
    whole = "".join(pieces)
    assert kept.text_key.key == text_key([rq.Text(text=whole)]) == text_key([rq.Text(text=f" {whole}\n")])
    assert kept.text_key.key == text_key([rq.Text(text=whole[:2]), rq.Text(text=whole[2:])])


@hypothesis.given(st.text(max_size=20), st.text(max_size=20))
def test_texts_that_say_something_else_have_other_keys(one: str, other: str) -> None:
    assert (text_key([rq.Text(text=one)]) == text_key([rq.Text(text=other)])) == (one.strip() == other.strip())


@hypothesis.given(st.lists(st.tuples(st.integers(0, 2), st.text(max_size=3)), max_size=2000))
def test_thoughts_are_whole_and_in_order(said: list[tuple[int, str]]) -> None:
    kept = relay.ReasoningCapture()
    for index, text in said:
        kept.add([ev.ReasoningDelta(index, text)])
    found = kept.events()
    assert [(e.index, c) for e in found if isinstance(e, ev.ReasoningDelta) for c in e.text] == [
        (i, c) for i, t in said for c in t
    ]
    assert len(found) <= len(said)


def test_a_long_answer_takes_no_room() -> None:
    kept = relay.ReasoningCapture()
    for _ in range(100_000):
        kept.add([ev.TextDelta(0, "word ")])
    assert kept.events() == [ev.TextDelta(0, "w")]
    assert kept.text_key.key == text_key([rq.Text(text="word " * 100_000)])


def test_texts_of_other_choices_are_not_kept() -> None:
    kept = relay.ReasoningCapture()
    kept.add([ev.TextStart(0), ev.TextStart(1, choice=1)])
    for word in ["one", "two", "three"]:
        kept.add([ev.TextDelta(0, word), ev.TextDelta(1, "no")])
    assert [event for event in kept.events() if isinstance(event, ev.TextDelta)] == [ev.TextDelta(0, "o")]
    assert kept.text_key.key == text_key([rq.Text(text="onetwothree")])


def test_too_long_or_too_mixed_an_answer_is_forgotten() -> None:
    long, mixed = relay.ReasoningCapture(), relay.ReasoningCapture()
    for _ in range(9):
        long.add([ev.ReasoningDelta(0, "x" * 2**20)])
    for index in (0, 1, 0):
        mixed.add([ev.TextDelta(index, "x")])
    for kept in (long, mixed):
        assert kept.events() == []
        assert kept.full
