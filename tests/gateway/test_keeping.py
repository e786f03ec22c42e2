"""What is kept of a turn says what the turn said, in fewer events."""

from __future__ import annotations

import hypothesis
from hypothesis import strategies as st

from penstock import events as ev
from penstock.fold import fold
from penstock.gateway import keeping
from tests.cases import Case, cases
from tests.looping import over

STREAMED = [case for case in cases() if case.streamed and isinstance(case.expected()[-1], ev.Finish)]


@over(STREAMED)
def test_it_folds_to_the_same_turn(case: Case) -> None:
    kept = keeping.Keeping()
    for event in case.expected():
        kept.add([event])
    assert [_plain(turn) for turn in fold(kept.events())] == [_plain(turn) for turn in fold(case.expected())]


def _plain(turn: object) -> str:
    """A turn but for its logprobs, which no provider wants back."""
    for part in getattr(turn, "parts", ()):
        if hasattr(part, "logprobs"):
            part.logprobs = []
    return repr(turn)


@hypothesis.given(st.lists(st.tuples(st.integers(0, 2), st.text(max_size=3)), max_size=2000))
def test_texts_are_whole_and_in_order(said: list[tuple[int, str]]) -> None:
    kept = keeping.Keeping()
    for index, text in said:
        kept.add([ev.TextDelta(index, text)])
    found = kept.events()
    assert [(e.index, c) for e in found if isinstance(e, ev.TextDelta) for c in e.text] == [
        (i, c) for i, t in said for c in t
    ]
    assert len(found) <= len(said)


def test_a_long_answer_is_few_events() -> None:
    kept = keeping.Keeping()
    for _ in range(100_000):
        kept.add([ev.TextDelta(0, "word ")])
    assert len(kept.events()) <= 100_000 // keeping.FRESH + 1


def test_too_long_an_answer_is_forgotten() -> None:
    kept = keeping.Keeping()
    for _ in range(9):
        kept.add([ev.TextDelta(0, "x" * 2**20)])
    assert kept.events() == []
    assert kept.full
