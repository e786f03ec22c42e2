"""Calls are paired with results: names across messages, misplaced results, calls without a result."""

from __future__ import annotations

from typing import Any

from hypothesis import given

from penstock import request as rq
from tests.support.each_case import each
from tests.support.request_laws import lawful
from tests.support.request_passes import UNANSWERED, Diagnostics, Orphans, pair
from tests.support.talks import REQUESTS, ask, assistant, call, codes, plain, result, shape, steady, talk, tool, user


def told(request: rq.Request) -> list[str]:
    """Every text that tools gave, wherever it stands."""
    return [
        part.text
        for message in request.messages
        for outer in message.parts
        for part in (outer.content if isinstance(outer, rq.Result) else [outer])
        if isinstance(part, rq.Text)
    ]


def mend(request: rq.Request, orphans: Orphans = "text") -> tuple[rq.Request, list[str]]:
    notes = Diagnostics()
    return pair(request, notes, orphans=orphans), codes(notes)


# ── the rule, for anything ────────────────────────────────────────────────────────────────────────


@given(REQUESTS)
def test_whatever_comes_in_pairs_come_out(request_: rq.Request) -> None:
    lawful(steady(request_, pair))


@given(REQUESTS)
def test_no_text_is_lost_but_that_of_repeated_results(request_: rq.Request) -> None:
    made, found = mend(request_)
    lost = set(told(request_)) - set(told(made))
    assert not lost
    if "duplicate-result" not in found:
        before = sorted(told(request_))
        after = sorted(told(made))
        assert [text for text in before if before.count(text) > after.count(text)] == []


@given(REQUESTS)
def test_calls_stay_in_their_order(request_: rq.Request) -> None:
    def calls(of: rq.Request) -> list[tuple[str, str]]:
        return [
            (p.name, p.json)
            for m in of.messages
            if m.role == "assistant"
            for p in m.parts
            if isinstance(p, rq.Call) and not p.cut
        ]

    assert calls(pair(request_, Diagnostics())) == calls(request_)


def test_a_request_in_order_is_the_same_object() -> None:
    request = ask(user("hi"), assistant(call("a")), tool(result("a", name="read")), user("and?"))
    made, found = mend(request)
    assert made is request
    assert found == []


# ── names ─────────────────────────────────────────────────────────────────────────────────────────


def test_results_get_the_names_of_their_tools() -> None:
    made, found = mend(
        ask(user("hi"), assistant(call("a", "read"), call("b", "write")), tool(result("b")), tool(result("a")))
    )
    names = [part.name for message in made.messages for part in message.parts if isinstance(part, rq.Result)]
    assert names == ["write", "read"]
    assert found == []


def test_a_result_takes_the_form_of_its_call() -> None:
    made, _ = mend(ask(assistant(call("a", "patch", "*** Begin", form="text")), tool(result("a"))))
    assert made.messages[1].parts[0].form == "text"  # type: ignore[union-attr]


# ── results that stand elsewhere ──────────────────────────────────────────────────────────────────

U, A = "user text", "assistant call:a"
CASES: dict[str, tuple[list[str | rq.Message], list[str], str]] = {
    "behind what the user said": ([A, U, "tool result:a"], [A, "tool result:a", U], "result-moved"),
    "behind a reminder of the system's": ([A, "system text", "tool result:a"], [A, "tool result:a", "system text"], "result-moved"),
    "before its call": (["tool result:a", U, A], [U, A, "tool result:a"], "result-moved"),
    "two calls in two messages, then both results":
        ([A, "assistant call:b", "tool result:a", "tool result:b"], [A, "tool result:a", "assistant call:b", "tool result:b"], ""),
    "the second of two, much later":
        (["assistant call:a call:b", "tool result:a", U, "assistant text", "tool result:b"],
         ["assistant call:a call:b", "tool result:a", "tool result:b", U, "assistant text"], "result-moved"),
    "no result at all": ([U, A, U], [U, A, "tool result:a", U], "no-result"),
    "no result at the very end": ([U, "assistant text call:a"], [U, "assistant text call:a", "tool result:a"], "no-result"),
    "one of two is missing": (["assistant call:a call:b", "tool result:b", U], ["assistant call:a call:b", "tool result:b", "tool result:a", U], "no-result"),
    "a result that answers nothing": ([U, "tool result:zzz", U], [U, "user text text", U], "orphan-result"),
    "one that answers nothing among those that do":
        ([A, "tool result:a result:zzz", U], [A, "tool result:a", "user text text", U], "orphan-result"),
    "the same result twice": ([A, "tool result:a", "tool result:a"], [A, "tool result:a"], "duplicate-result"),
    "two results that differ": ([A, "tool result:a", tool(result("a", "two"))], [A, "tool result:a", "user text text"], "duplicate-result"),
    "a call that was cut short": ([U, assistant("I will", call("a", json='{"pa', cut=True)), U], [U, "assistant text", U], "call-cut"),
}  # fmt: skip


@each("name", CASES)
def test_results_that_stand_elsewhere(name: str) -> None:
    lines, shapes, found = CASES[name]
    made, codes_ = mend(talk(*lines))
    assert shape(made) == shapes
    assert codes_ == ([found] if found else [])
    lawful(made)


def test_a_call_without_a_result_gets_a_failed_one() -> None:
    made, _ = mend(ask(assistant(call("a", "read")), user("go on")))
    only: Any = made.messages[1].parts[0]
    assert (only.call, only.name, only.failed) == ("a", "read", True)
    assert only.content == [rq.Text(UNANSWERED)]


def test_a_result_without_a_call_is_told_with_all_it_holds() -> None:
    lost = rq.Result("zzz", "look", [rq.Text("a cat"), rq.Json('{"n":1}'), rq.File("image/png", data="AAAA")])
    made, _ = mend(ask(user("hi"), tool(lost)))
    first, *others = made.messages[1].parts
    assert isinstance(first, rq.Text)
    assert "look" in first.text
    assert others == [rq.Text("a cat"), rq.Text('{"n":1}'), rq.File("image/png", data="AAAA")]


def test_orphans_can_be_left_out_or_kept() -> None:
    request = ask(user("hi"), tool(result("zzz")))
    assert shape(mend(request, "drop")[0]) == ["user text"]
    assert shape(mend(request, "keep")[0]) == ["user text", "tool result:zzz"]
    assert mend(request, "keep")[1] == mend(request, "drop")[1] == ["orphan-result"]


def test_a_whole_result_replaces_a_partial_one() -> None:
    made, _ = mend(ask(assistant(call("a")), tool(result("a", "half", partial=True)), tool(result("a", "all"))))
    assert shape(made) == ["assistant call:a", "tool result:a"]
    assert told(made) == ["all"]


def test_what_a_provider_ran_is_left_alone() -> None:
    ran: list[Any] = [call("s", "search", by="provider"), rq.Result("s", content=[rq.Json("[]")], by="provider")]
    request = ask(user("hi"), assistant(*ran, "found nothing"), user("thanks"))
    assert mend(request)[0] is request


def test_messages_keep_what_their_protocol_added() -> None:
    extra: Any = {"openai-chat": {"odd": 1}}
    made, _ = mend(ask(assistant(call("a")), user("x"), rq.Message("tool", [result("a")], extra=extra)))
    assert made.messages[1].extra == extra


# ── ids ───────────────────────────────────────────────────────────────────────────────────────────


def test_results_without_an_id_find_their_calls_by_name_and_in_order() -> None:
    calls = [call("", "read", '{"n":1}'), call("", "look", "{}"), call("", "read", '{"n":2}')]
    results = [rq.Result("", name, [rq.Text(text)]) for name, text in [("read", "1"), ("read", "2"), ("look", "3")]]
    made, found = mend(ask(assistant(*calls), tool(*results)))
    lawful(made)
    inputs = {part.id: part.json for part in made.messages[0].parts if isinstance(part, rq.Call)}
    answers = {
        inputs[part.call]: part.content
        for message in made.messages[1:]
        for part in message.parts
        if isinstance(part, rq.Result)
    }
    assert answers == {'{"n":1}': [rq.Text("1")], '{"n":2}': [rq.Text("2")], "{}": [rq.Text("3")]}
    assert found == ["call-id"]


def test_a_result_without_id_or_name_goes_to_the_call_that_waits_longest() -> None:
    made, _ = mend(ask(assistant(call("a", "read"), call("b", "look")), tool(rq.Result("")), tool(rq.Result(""))))
    assert shape(made) == ["assistant call:a call:b", "tool result:a", "tool result:b"]


def test_ids_that_are_names_are_told_apart_by_their_rounds() -> None:
    rounds = [
        assistant(call("read", json='{"n":1}')),
        tool(result("read", "1")),
        assistant(call("read", json='{"n":2}')),
        tool(result("read", "2")),
    ]
    made, _ = mend(ask(user("hi"), *rounds))
    lawful(made)
    assert shape(made)[1:3] == ["assistant call:read", "tool result:read"]
    assert told(made) == ["hi", "1", "2"]


def test_a_call_that_was_given_up_does_not_take_the_result_of_the_next() -> None:
    made, _ = mend(
        ask(assistant(call("read")), user("stop, again"), assistant(call("read")), tool(result("read", "yes")))
    )
    lawful(made)
    assert told(made) == [UNANSWERED, "stop, again", "yes"]


def test_ids_are_given_the_same_way_each_time() -> None:
    request = ask(assistant(call("", "a"), call("", "b")), tool(rq.Result("", "b"), rq.Result("", "a")))
    assert plain(mend(request)[0]) == plain(mend(request)[0])
