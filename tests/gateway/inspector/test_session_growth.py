"""Grouping turns into sessions takes time in proportion to the turns, whatever they say."""

from __future__ import annotations

from hashlib import blake2b
from math import isqrt
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.growth import assert_linear

from penstock._inspector.equal_requests import MAX_COMPARED_TURNS
from penstock._inspector.session_digests import AnswerDigest, MessageDigest
from penstock._inspector.session_turns import SessionScope, SessionTurn
from penstock._inspector.turn_sessions import SessionIndex

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

SCOPE = SessionScope("local", "", "claude-code")
FIRST, LARGEST = 4_096, 16_384  # turns: more than are kept


def _message(text: str) -> MessageDigest:
    return MessageDigest(blake2b(text.encode(), digest_size=16).digest(), text.startswith("A"), 100)


def _group(turns: Iterable[tuple[str, ...]], *, seconds: float | None = 0.1, answer: str = "", **more: Any) -> None:
    """Adds turns that begin one after another, and removes them. `more`: fields of the turns."""
    index, given = SessionIndex(), AnswerDigest(_message(answer).digest)
    for number, texts in enumerate(turns):
        ended = None if seconds is None else number + seconds
        messages = tuple(map(_message, texts))
        turn = SessionTurn(f"t{number}", SCOPE, number, ended, messages=messages, read_answer=lambda: given, **more)
        index.add_turn(turn)
    for name in list(index.turns):
        index.remove_turn(name)


def _repeated_then_continued(count: int) -> list[tuple[str, ...]]:
    same = ("U1", "A1", "U2")
    turns: list[tuple[str, ...]] = [same] * (count // 2)
    return turns + [(*same, f"U{number}x") for number in range(count // 2)]


def _one_conversation(count: int) -> list[tuple[str, ...]]:
    """A conversation that is sent with each turn, of `count` messages in all turns together."""
    texts = [f"{'AU'[number % 2]}{number}" for number in range(1, 2 * isqrt(count))]
    return [("U0", *texts[: 2 * turn]) for turn in range(isqrt(count))]


SHAPES: dict[str, Callable[[int], list[tuple[str, ...]]]] = {
    "repeated, then continued": _repeated_then_continued,
    "the same words": lambda count: [("U1",)] * count,
    "the same words, then continued": lambda count: [("U1",)] * (count // 2) + [("U1", "A1", "U2")] * (count // 2),
    "the same conversation": lambda count: [("U1", "A1", "U2")] * count,
    "different words": lambda count: [(f"U{number}",) for number in range(count)],
    "different ends": lambda count: [("U1", "A1", f"U{number}x") for number in range(count)],
    "one conversation": lambda count: _one_conversation(16 * count),
    "many conversations": lambda count: [
        (f"U{number}", *(f"{'AU'[step % 2]}{number}.{step}" for step in range(2 * turn)))
        for number in range(count // 4)
        for turn in range(4)
    ],
}


@pytest.mark.parametrize("seconds", [0.1, None], ids=["ended", "running"])
@pytest.mark.parametrize("shape", SHAPES)
def test_grouping_is_linear(shape: str, seconds: float | None) -> None:
    def make(count: int) -> Callable[[], None]:
        turns = SHAPES[shape](count)
        return lambda: _group(turns, seconds=seconds, answer="A1")

    assert_linear(make, shape, FIRST, LARGEST)


def test_failed_turns_are_grouped_in_linear_time() -> None:
    assert_linear(lambda count: lambda: _group([("U1",)] * count, failed=True), "failed", FIRST, LARGEST)


def test_many_runs_with_equal_beginnings_are_told_apart_by_their_answers() -> None:
    """Also more of them than a turn is compared with."""
    index, count = SessionIndex(), 3 * MAX_COMPARED_TURNS
    for number in range(count):
        answer = AnswerDigest(_message(f"A{number}").digest)
        turn = SessionTurn(f"t{number}", SCOPE, number, number + 0.1, messages=(_message("U"),))
        turn.read_answer = lambda answer=answer: answer  # type: ignore[misc]
        index.add_turn(turn)
    for number in range(count):
        messages = (_message("U"), _message(f"A{number}"), _message("next"))
        began = float(count + number)
        turn = SessionTurn(f"n{number}", SCOPE, began, began + 0.1, messages=messages)
        assert (index.add_turn(turn).id, turn.previous, turn.link) == (f"t{number}", f"t{number}", "continue")
