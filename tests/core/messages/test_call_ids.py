"""Call ids are mapped one to one, always in the same way, and back again."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from penstock import request as rq
from penstock.messages import NINE
from tests.support.each_case import each
from tests.support.request_passes import (
    PLAIN,
    CallIdPrefix,
    Diagnostics,
    IdentifierRule,
    fit_ids,
    map_ids,
    pair,
    restore_prefix,
)
from tests.support.talks import REQUESTS, ask, assistant, call, codes, plain, result, steady, tool, user

RULES = [NINE, PLAIN, IdentifierRule(limit=40), IdentifierRule(limit=64), IdentifierRule("A-Za-z0-9", limit=12)]
SOME = st.lists(
    st.one_of(st.text(max_size=90), st.sampled_from(["Ab3dE6gH9", "call_1", "x" * 41, "x" * 65])), max_size=20
)


def call_ids_of(request: rq.Request) -> list[str]:
    return [
        part.id if isinstance(part, rq.Call) else part.call
        for m in request.messages
        for part in m.parts
        if isinstance(part, rq.Call | rq.Result)
    ]


@each("rule", RULES)
@given(SOME)
def test_a_map_is_one_to_one_and_everything_fits(rule: IdentifierRule, ids: list[str]) -> None:
    table = fit_ids(ids, rule)
    made = [table.get(word, word) for word in dict.fromkeys(ids)]
    assert len(set(made)) == len(made)
    assert all(rule.fits(word) for word in made)
    assert not any(rule.fits(old) and old not in made and new == old for old, new in table.items())


@each("rule", RULES)
@given(SOME, SOME)
def test_what_comes_later_changes_nothing_before_it(rule: IdentifierRule, first: list[str], more: list[str]) -> None:
    one, two = fit_ids(first, rule), fit_ids([*first, *more], rule)
    assert {word: two.get(word, word) for word in first} == {word: one.get(word, word) for word in first}


@given(REQUESTS)
def test_pairs_stay_pairs_and_can_be_undone(request_: rq.Request) -> None:
    request = pair(request_, Diagnostics())
    made = steady(request, lambda given, notes: map_ids(given, NINE, notes)[0])
    pair_again = pair(made, Diagnostics())
    assert pair_again is made
    _, back = map_ids(request, NINE, Diagnostics())
    assert [back.get(word, word) for word in call_ids_of(made)] == call_ids_of(request)


def test_nine_letters_for_mistral() -> None:
    notes = Diagnostics()
    request = ask(
        user("hi"), assistant(call("toolu_01ABC"), call("Ab3dE6gH9")), tool(result("toolu_01ABC"), result("Ab3dE6gH9"))
    )
    made, back = map_ids(request, NINE, notes)
    first, second, *answers = call_ids_of(made)
    assert re.fullmatch("[A-Za-z0-9]{9}", first)
    assert second == "Ab3dE6gH9"
    assert answers == [first, second]
    assert back == {first: "toolu_01ABC"}
    assert codes(notes) == ["ids"]


def test_the_same_id_is_always_mapped_to_the_same() -> None:
    """Written down: a conversation may be half over when penstock is updated."""
    assert fit_ids(["toolu_01ABC"], NINE) == {"toolu_01ABC": "1TU7Gnycz"}
    assert fit_ids(["functions.ls:0"], PLAIN) == {"functions.ls:0": "call_49pTElUl5UPmV2WVJhQTmTJb"}


def test_long_ids_that_only_differ_at_their_end_stay_apart() -> None:
    long = ["x" * 80 + "1", "x" * 80 + "2"]
    table = fit_ids(long, IdentifierRule(limit=64))
    assert len(set(table.values())) == 2
    assert all(len(word) <= 64 for word in table.values())


def test_an_id_that_looks_like_a_mapped_one_is_not_taken_for_it() -> None:
    mapped = fit_ids(["x" * 80], IdentifierRule(limit=64))["x" * 80]
    table = fit_ids(["x" * 80, mapped], IdentifierRule(limit=64))
    assert table["x" * 80] == mapped
    assert table[mapped] not in {mapped, "x" * 80}


def test_state_in_an_id_goes_no_further_and_state_beside_it_stays_there() -> None:
    long = "call_1__sig__" + "Q" * 936
    extra = {"gemini": {"thoughtSignature": "S" * 900}}
    made, _ = map_ids(
        ask(assistant(call(long, extra=extra)), tool(result(long))), IdentifierRule(limit=64), Diagnostics()
    )
    only = made.messages[0].parts[0]
    assert isinstance(only, rq.Call)
    assert len(only.id) <= 64
    assert "QQQ" not in only.id
    assert only.extra == extra
    assert call_ids_of(made) == [only.id, only.id]


def test_what_a_provider_ran_keeps_its_id() -> None:
    request = ask(assistant(call("srvtoolu:1", by="provider"), rq.Result("srvtoolu:1", by="provider")))
    assert map_ids(request, NINE, Diagnostics()) == (request, {})


def test_no_rule_no_work() -> None:
    request = ask(assistant(call("any thing at all")))
    assert map_ids(request, IdentifierRule(), Diagnostics())[0] is request


def test_the_prefix_comes_off_calls_results_and_approvals() -> None:
    request = ask(
        assistant(call("gw-toolu_1"), rq.Ask("gw-toolu_1", "q")),
        tool(result("gw-toolu_1")),
        assistant(call("theirs")),
        tool(result("theirs")),
    )
    made = restore_prefix(request, CallIdPrefix())
    assert call_ids_of(made) == ["toolu_1", "toolu_1", "theirs", "theirs"]
    ask_ = made.messages[0].parts[1]
    assert isinstance(ask_, rq.Ask)
    assert ask_.call == "toolu_1"
    assert plain(request) != plain(made)


@given(st.lists(st.text(), min_size=1, unique=True))
def test_out_and_in_again(ids: list[str]) -> None:
    names = CallIdPrefix()
    sent = ask(assistant(*(call(names.name(word)) for word in ids)), tool(*(result(names.name(word)) for word in ids)))
    assert call_ids_of(restore_prefix(sent, names)) == ids * 2
