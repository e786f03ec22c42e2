"""Cache points: placed where they help, never more than are allowed."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock import request as rq
from tests.support.each_case import each
from tests.support.request_passes import Diagnostics, limit_points, place_points
from tests.support.talks import REQUESTS, ask, assistant, call, codes, result, steady, system, tool, user


def hints(request: rq.Request) -> list[str]:
    """Where the points are: t0 the first tool, 2.1 the second part of the third message, 2.1.0 inside a result."""
    found = [f"t{place}" for place, one in enumerate(request.tools) if one.cache]
    for place, message in enumerate(request.messages):
        for at, part in enumerate(message.parts):
            inner = part.content if isinstance(part, rq.Result) else []
            found += [f"{place}.{at}.{deep}" for deep, one in enumerate(inner) if one.cache]
            found += [f"{place}.{at}"] if part.cache else []
    return found


TALK = ask(
    system("a"), system("b"), user("c"), assistant("d", call("x"), call("y")), tool(result("x")), tool(result("y")), user("e"),
    assistant("f"), user("g", "h"),
    tools=[rq.Tool("one"), rq.Tool("two")],
)  # fmt: skip


def test_the_ends_of_tools_prompt_and_the_last_two_turns() -> None:
    assert hints(place_points(TALK)) == ["t1", "1.0", "6.0", "8.1"]


@each(
    "limit, points",
    [(0, []), (1, ["8.1"]), (2, ["1.0", "8.1"]), (3, ["t1", "1.0", "8.1"]), (9, ["t1", "1.0", "6.0", "8.1"])],
)
def test_the_most_useful_first(limit: int, points: list[str]) -> None:
    assert hints(place_points(TALK, limit)) == points


def test_the_next_turn_finds_the_point_of_this_one() -> None:
    longer = ask(*TALK.messages, assistant("i", call("z")), tool(result("z")), tools=TALK.tools)
    assert hints(place_points(longer)) == ["t1", "1.0", "8.1", "10.0"]


def test_the_clients_own_hints_win() -> None:
    own = ask(user(rq.Text("a", cache="1h")), user("b"), tools=[rq.Tool("t")])
    assert place_points(own) is own


def test_thinking_and_blank_text_hold_no_hint() -> None:
    made = place_points(ask(user("a", " "), assistant(rq.Reasoning("hm"))))
    assert hints(made) == ["0.0"]


def test_a_tool_that_is_loaded_later_holds_none() -> None:
    later = rq.Tool("two", extra={"anthropic": {"defer_loading": True}})
    assert hints(place_points(ask(user("a"), tools=[rq.Tool("one"), later]))) == ["t0", "0.0"]


@given(REQUESTS, st.integers(0, 5))
def test_never_more_than_the_target_allows(request_: rq.Request, limit: int) -> None:
    made = steady(request_, lambda one, _: place_points(one, limit))
    assert len(hints(made)) <= limit


# ── too many ──────────────────────────────────────────────────────────────────────────────────────


def many() -> rq.Request:
    def said(text: str) -> rq.Text:
        return rq.Text(text, cache="5m")

    answer = rq.Result("x", content=[said("in"), rq.Text("plain")], cache="5m")
    return ask(
        system(said("a")), user(said("b"), said("c")), assistant(call("x")), tool(answer), user(said("d")),
        tools=[rq.Tool("one", cache="5m"), rq.Tool("two", cache="5m")],
    )  # fmt: skip


@each(
    "limit, kept",
    [
        (8, ["t0", "t1", "0.0", "1.0", "1.1", "3.0.0", "3.0", "4.0"]),
        (6, ["t0", "t1", "0.0", "3.0.0", "3.0", "4.0"]),
        (4, ["t0", "t1", "0.0", "4.0"]),
        (3, ["t0", "t1", "0.0"]),
        (1, ["t1"]),
    ],
)
def test_the_least_useful_are_left_out(limit: int, kept: list[str]) -> None:
    notes = Diagnostics()
    assert hints(limit_points(many(), limit, notes)) == kept
    assert codes(notes) == ([] if limit == 8 else ["cache-points"])


@given(st.integers(0, 9))
def test_limiting_is_steady(limit: int) -> None:
    made = steady(many(), lambda one, notes: limit_points(one, limit, notes))
    assert len(hints(made)) == min(limit, 8)
