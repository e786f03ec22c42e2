"""Near the limit: what goes first, what never goes, and that pairs stay pairs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock import request as rq
from penstock.diagnostics import Diagnostics
from penstock.messages.context import CLEARED, manage_context, rough
from penstock.messages.pairing import pair
from tests.messages.making import REQUESTS, ask, assistant, call, codes, plain, result, shape, tool, user


def rounds(count: int, size: int = 400, thought: int = 400) -> rq.Request:
    talk = [user("begin")]
    for number in range(count):
        talk += [assistant(rq.Reasoning("t" * thought), call(f"c{number}")), tool(result(f"c{number}", "r" * size))]
    return ask(*talk)


def cleared(request: rq.Request) -> list[int]:
    return [
        place for place, one in enumerate(request.messages) for part in one.parts
        if isinstance(part, rq.Result) and part.content == [rq.Text(CLEARED)]
    ]  # fmt: skip


@pytest.mark.row("M6")
def test_far_from_the_limit_nothing_happens() -> None:
    request = rounds(10)
    notes = Diagnostics()
    assert manage_context(request, notes, limit=100_000) is request
    assert codes(notes) == []


@pytest.mark.row("M6")
def test_old_results_go_and_the_last_rounds_stay() -> None:
    request = rounds(10)
    notes = Diagnostics()
    made = manage_context(request, notes, limit=2000)
    assert cleared(made) == [2, 4, 6, 8, 10, 12, 14]
    assert shape(made) == shape(request)
    assert codes(notes) == ["context-cleared"]


@pytest.mark.row("M6")
def test_no_more_goes_than_must() -> None:
    made = manage_context(rounds(10, size=4000, thought=40), Diagnostics(), limit=11_000)
    assert cleared(made) == [2, 4, 6, 8, 10]


@pytest.mark.row("M6")
def test_thinking_of_turns_that_are_over_goes_before_results() -> None:
    first = rounds(4, thought=2000)
    request = ask(
        *first.messages,
        assistant("done"),
        user("and now?"),
        assistant(rq.Reasoning("t" * 400), call("z")),
        tool(result("z")),
    )
    made = manage_context(request, Diagnostics(), limit=2900)
    assert shape(made)[1:6:2] == [f"assistant call:c{n}" for n in range(3)]
    assert shape(made)[-2] == "assistant reasoning call:z"
    assert cleared(made) == []


def test_it_says_when_there_is_nothing_to_clear() -> None:
    notes = Diagnostics()
    request = ask(user("x" * 4000))
    assert manage_context(request, notes, limit=100) is request
    assert codes(notes) == ["context-full"]


def test_each_message_is_counted_once_and_once_more_if_it_changed() -> None:
    asked: list[str] = []

    def count(message: rq.Message) -> int:
        asked.append(message.role)
        return rough(message)

    request = rounds(200)
    made = manage_context(request, Diagnostics(), limit=30_000, count=count)
    changed = sum(new is not old for new, old in zip(made.messages, request.messages, strict=True))
    assert len(asked) == len(request.messages) + changed


@given(REQUESTS, st.integers(1, 400), st.integers(0, 3))
def test_pairs_stay_pairs(request_: rq.Request, limit: int, keep: int) -> None:
    request = pair(request_, Diagnostics())
    before = plain(request)
    made = manage_context(request, Diagnostics(), limit=limit, keep=keep)
    assert plain(request) == before
    assert pair(made, Diagnostics()) is made
    again = manage_context(made, Diagnostics(), limit=limit, keep=keep)
    assert sum(map(rough, again.messages)) <= sum(map(rough, made.messages)) <= sum(map(rough, request.messages)) + 60


def test_a_picture_counts_as_one_however_large() -> None:
    small, large = (rough(user(rq.File("image/png", data="A" * size))) for size in (10, 10_000_000))
    assert small == large
