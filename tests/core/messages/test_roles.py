"""Who may speak when."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

from hypothesis import given
from hypothesis import strategies as st

from penstock import request as rq
from tests.support.each_case import each
from tests.support.request_passes import (
    EMPTY,
    OPENING,
    SYSTEM_MARKS,
    Diagnostics,
    alternate,
    fill_empty,
    open_with_user,
    place_system,
    promote_system_prompt,
)
from tests.support.talks import REQUESTS, ask, assistant, call, codes, result, shape, steady, system, tool, user

if TYPE_CHECKING:
    from tests.support.request_passes import Empty, System


def noted(change: Any, request: rq.Request, *more: Any) -> tuple[list[str], list[str]]:
    notes = Diagnostics()
    return shape(change(request, *more, notes)), codes(notes)


# ── a host without a system role ──────────────────────────────────────────────────────────────────


def test_what_the_assistant_says_first_is_the_system_prompt() -> None:
    made = promote_system_prompt(
        ask(assistant("You are terse."), assistant("Obey."), user("hi"), assistant("yo"), user("more"))
    )
    assert shape(made) == ["system text", "system text", "user text", "assistant text", "user text"]


def test_a_host_with_a_system_role_is_believed() -> None:
    request = ask(system("You are terse."), assistant("Hello, how can I help?"), user("hi"))
    assert promote_system_prompt(request) is request


@each(
    "messages",
    [
        [user("hi"), assistant("later ones stay")],
        [assistant("nobody ever asks")],
        [assistant(call("a")), tool(result("a")), user("hi")],
        [],
    ],
)
def test_all_others_stay(messages: list[rq.Message]) -> None:
    request = ask(*messages)
    assert promote_system_prompt(request) is request


@given(REQUESTS)
def test_leading_is_steady(request_: rq.Request) -> None:
    steady(request_, lambda one, _: promote_system_prompt(one))


# ── system messages inside the conversation ───────────────────────────────────────────────────────

TALK = ask(system("a"), user("b"), assistant("c"), system("d"), user("e"))


def test_a_system_message_stays_where_it_may() -> None:
    assert place_system(TALK, "keep", Diagnostics()) is TALK


def test_it_is_hoisted_where_it_must_be() -> None:
    assert noted(lambda one, notes: place_system(one, "hoist", notes), TALK) == (
        ["system text", "system text", "user text", "assistant text", "user text"],
        ["system-hoisted"],
    )


def test_or_said_by_the_user_in_its_place() -> None:
    notes = Diagnostics()
    made = place_system(TALK, "user", notes)
    assert shape(made)[3] == "user text text text"
    assert made.messages[3].parts == [rq.Text(SYSTEM_MARKS[0]), rq.Text("d"), rq.Text(SYSTEM_MARKS[1])]
    assert codes(notes) == ["system-said"]


@given(REQUESTS, st.sampled_from(["keep", "hoist", "user"]))
def test_no_word_of_it_is_lost(request_: rq.Request, how: System) -> None:
    made = steady(request_, lambda one, notes: place_system(one, how, notes))

    def words(of: rq.Request) -> list[str]:
        return sorted(
            part.text
            for one in of.messages
            for part in one.parts
            if isinstance(part, rq.Text) and part.text not in SYSTEM_MARKS
        )

    assert words(made) == words(request_)
    front = next((place for place, one in enumerate(made.messages) if one.role != "system"), len(made.messages))
    assert how == "keep" or all(one.role != "system" for one in made.messages[front:])


# ── nothing in it ─────────────────────────────────────────────────────────────────────────────────


def test_empty_messages_and_texts_are_left_out() -> None:
    request = ask(
        user("hi"),
        assistant(""),
        assistant(" ", "x"),
        assistant(),
        user("\n"),
        assistant("", call("a")),
        tool(rq.Result("a")),
        user("ok"),
    )
    assert noted(fill_empty, request, "drop") == (
        ["user text", "assistant text", "assistant call:a", "tool result:a", "user text"],
        ["empty"],
    )


def test_or_given_a_placeholder() -> None:
    made = fill_empty(ask(user(""), assistant("")), "placeholder", Diagnostics())
    assert [one.parts for one in made.messages] == [[rq.Text(EMPTY)]] * 2


def test_somebody_must_be_answered() -> None:
    made = fill_empty(ask(system(""), user("")), "drop", Diagnostics())
    assert shape(made) == ["user text"]


@given(REQUESTS, st.sampled_from(["drop", "placeholder"]))
def test_nothing_empty_is_left(request_: rq.Request, how: Empty) -> None:
    made = steady(request_, lambda one, notes: fill_empty(one, how, notes))
    for message in made.messages:
        assert message.parts
        assert message.role == "tool" or all(part.text.strip() for part in message.parts if isinstance(part, rq.Text))


# ── turns ─────────────────────────────────────────────────────────────────────────────────────────


def test_neighbours_are_merged() -> None:
    request = ask(
        system("a"),
        system("b"),
        user("c"),
        user("d"),
        assistant("e"),
        assistant("f", call("x")),
        tool(result("x")),
        user("g"),
    )
    notes = Diagnostics()
    made = alternate(request, notes, "anthropic")
    assert shape(made) == [
        "system text",
        "system text",
        "user text text",
        "assistant text text call:x",
        "tool result:x",
        "user text",
    ]
    assert made.messages[-1].extra == {"anthropic": {"_": {"joined": True}}}
    assert codes(notes) == ["merged"]


def test_merging_keeps_what_protocols_added() -> None:
    one = rq.Message("user", [rq.Text("a")], extra={"anthropic": {"x": 1}})
    two = rq.Message("user", [rq.Text("b")], extra={"anthropic": {"y": 2}, "gemini": {"z": 3}})
    made = alternate(ask(one, two), Diagnostics())
    assert made.messages[0].extra == {"anthropic": {"x": 1, "y": 2}, "gemini": {"z": 3}}


@given(REQUESTS)
def test_turns_alternate(request_: rq.Request) -> None:
    made = steady(request_, lambda one, notes: alternate(one, notes, "anthropic"))
    spoken = [one.role for one in made.messages]
    assert not any(a == b and a in ("user", "assistant") for a, b in pairwise(spoken))
    assert sum(len(one.parts) for one in made.messages) == sum(len(one.parts) for one in request_.messages)


def test_the_user_speaks_first() -> None:
    made = open_with_user(ask(system("a"), assistant("b"), user("c")), Diagnostics())
    assert shape(made) == ["system text", "user text", "assistant text", "user text"]
    assert made.messages[1].parts == [rq.Text(OPENING)]
    assert open_with_user(made, Diagnostics()) is made


@given(REQUESTS)
def test_opening_is_steady(request_: rq.Request) -> None:
    steady(request_, open_with_user)
