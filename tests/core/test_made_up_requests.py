"""Made-up requests: what one protocol can say of a conversation, all others carry, and none gets what it refuses.

Parallel calls, images in results, system messages inside, empty contents, orphan results: all that there is. And what
stands beside what is where carriers meet, so pairs of turns with all gaps between them are tried one by one.
"""

from __future__ import annotations

import json
from itertools import permutations, product
from typing import TYPE_CHECKING, Any

import hypothesis
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock import request as rq
from penstock.messages import convert, profile_of
from tests.support import request_contents, request_facets, request_laws, request_schemas
from tests.support import request_protocols as requesting
from tests.support.conversations import PIXEL, requests
from tests.support.request_facets import VITAL, there_and_back, what_is_lost
from tests.support.request_protocols import MAIN, WRITERS
from tests.support.talks import REQUESTS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

TARGETS = [name for name in WRITERS if name != "vscode"]
PAIRS = list(permutations(MAIN, 2))


def examples(count: int) -> Callable[[Any], Any]:
    return hypothesis.settings(max_examples=count, suppress_health_check=[hypothesis.HealthCheck.too_slow])


# ── there and back ────────────────────────────────────────────────────────────────────────────────


def survives(request: rq.Request) -> None:
    lost = {target: found for target in WRITERS if (found := what_is_lost(target, request, vital=target in MAIN))}
    assert lost == {}


@examples(40)
@given(requests())
def test_made_up_conversations_survive(request: rq.Request) -> None:
    survives(request)


@pytest.mark.nightly
@examples(150)
@given(requests())
def test_many_made_up_conversations_survive(request: rq.Request) -> None:
    survives(request)


@examples(12)
@given(requests(), st.lists(st.sampled_from(list(permutations(WRITERS, 2))), min_size=6, max_size=6, unique=True))
def test_made_up_conversations_survive_from_each_to_each(request: rq.Request, pairs: list[tuple[str, str]]) -> None:
    """What one protocol could say of a conversation is what another must carry."""
    for source, target in pairs:
        before = there_and_back(source, request)[1]
        assert not what_is_lost(target, before, vital=source in MAIN and target in MAIN), (source, target)


@examples(15)
@given(requests(plain=True))
def test_conversations_survive_two_protocols_and_the_way_back(request: rq.Request) -> None:
    for source, target in PAIRS:
        first, there = there_and_back(source, request)
        second, further = there_and_back(target, there)
        third, back = there_and_back(source, further)
        silent = request_facets.silent_losses(source, request, back, first, second, third).keys()
        assert silent - request_facets.excused(target, second.diagnostics) == set(), (source, target)
        assert request_facets.changed(request, back) & VITAL == set(), (source, target)


# ── to every provider ─────────────────────────────────────────────────────────────────────────────


def check_lawful(request: rq.Request) -> None:
    body = requesting.write("openai-chat", request).body
    for target in request_contents.READ:
        made = convert(body, "openai-chat", target, profile=profile_of(target))
        assert request_contents.broken(target, made.body) == [], target


@examples(40)
@given(requests())
def test_made_up_conversations_are_lawful_everywhere(request: rq.Request) -> None:
    check_lawful(request)


@pytest.mark.nightly
@examples(150)
@given(requests())
def test_many_made_up_conversations_are_lawful_everywhere(request: rq.Request) -> None:
    check_lawful(request)


@examples(40)
@given(st.one_of(REQUESTS, requests()), st.sampled_from(MAIN))
def test_whatever_is_said_can_be_said_there(request: rq.Request, source: str) -> None:
    body = json.loads(json.dumps(requesting.write(source, request).body))
    for target in TARGETS:
        request_laws.fits(convert(body, source, target, profile=profile_of(target)), target)


@examples(12)
@given(requests())
def test_bodies_of_made_up_conversations_fit_the_published_schemas(request: rq.Request) -> None:
    for target in request_schemas.DESCRIBED:
        assert request_schemas.complaints(request, "events", target) == []


def check_nothing_is_mended(request: rq.Request) -> None:
    for name in TARGETS:
        body = json.loads(json.dumps(requesting.write(name, request).body))
        plain = requesting.write(name, requesting.read(name, body)).body
        assert json.dumps(convert(body, name, name).body) == json.dumps(plain), name


@examples(15)
@given(requests())
def test_from_a_protocol_to_itself_nothing_is_mended(request: rq.Request) -> None:
    check_nothing_is_mended(request)


@pytest.mark.nightly
@examples(150)
@given(requests())
def test_from_a_protocol_to_itself_nothing_of_many_requests_is_mended(request: rq.Request) -> None:
    check_nothing_is_mended(request)


# ── neighbours ────────────────────────────────────────────────────────────────────────────────────

TURNS = (
    "", "t", "f", "h", "i", "c", "k", "r", "R", "ti", "it", "ii", "hi", "ih", "ic", "tc", "cc", "ir", "ri", "iR", "Ri",
    "tr", "rt", "tR", "Rt", "rr", "RR", "rR", "Rr", "hR", "Rc", "rc", "Rk", "Rtc", "Rit", "kR", "cr", "cRt", "tt",
)  # fmt: skip
"""The parts of turns: a text, a refusal, a thought, an image, a call with its result, one (k) that has none yet, a call
that a provider ran, without its result and (R) with it."""
GAPS = ("", "e", "ee", "u", "p", "s", "es", "se", "ue", "eu")
"""Who speaks between two: a user who says nothing, or words, or shows a picture; the system."""
TALKS = list(product(TURNS, GAPS, TURNS))
FEW, SOME, PAIRED = 101, 11, 1201
"""One of so many talks is tried: always, at night, between two protocols; others for each."""


def turn(kinds: str, number: int) -> Iterator[rq.Message]:
    parts: list[rq.AnyPart] = []
    given: list[rq.AnyPart] = []
    for place, kind in enumerate(kinds):
        id = f"{number}{place}"  # noqa: A001 — as everybody calls it
        parts += _parts(kind, id)
        if kind == "c":
            given.append(rq.Result(f"call_{id}", "find", [rq.Text(f"found {id}")]))
    yield rq.Message("assistant", parts)
    if given:
        yield rq.Message("tool", given)


def _parts(kind: str, id: str) -> list[rq.AnyPart]:
    ran = rq.Call(f"srv_{id}", "search", '{"a":1}', "provider")
    made: dict[str, list[rq.AnyPart]] = {
        "t": [rq.Text(f"said {id}")], "f": [rq.Text(f"no {id}", refusal=True)], "h": [rq.Reasoning(f"hm {id}")],
        "i": [rq.File("image/png", data=PIXEL)], "c": [rq.Call(f"call_{id}", "find", "{}")],
        "k": [rq.Call(f"call_{id}", "find", "{}")], "r": [ran],
        "R": [ran, rq.Result(ran.id, "search", [rq.Json('{"b":2}')], by="provider")],
    }  # fmt: skip
    return made[kind]


def gap(kinds: str) -> Iterator[rq.Message]:
    for kind in kinds:
        parts: list[rq.AnyPart] = [] if kind == "e" else [rq.Text("listen")]
        if kind == "p":
            parts = [rq.File("image/png", data=PIXEL)]
        yield rq.Message("system" if kind == "s" else "user", parts)


def talk(first: str, between: str, second: str) -> rq.Request:
    hello, bye = rq.Message("user", [rq.Text("hello")]), rq.Message("user", [rq.Text("bye")])
    return rq.Request("m", [hello, *turn(first, 1), *gap(between), *turn(second, 2), bye])


def check_neighbours(one_of: int) -> None:
    lost = {
        (target, one): found
        for number, target in enumerate(WRITERS)
        for one in TALKS[number::one_of]
        if (found := what_is_lost(target, talk(*one), vital=target in MAIN))
    }
    assert lost == {}


def test_neighbours_stay_apart_and_in_order() -> None:
    check_neighbours(FEW)


@pytest.mark.nightly
def test_many_neighbours_stay_apart_and_in_order() -> None:
    check_neighbours(SOME)


def test_neighbours_stay_apart_from_each_to_each() -> None:
    """What one protocol could say of them is what another must carry."""
    lost: dict[Any, Any] = {}
    for number, (source, target) in enumerate(permutations(WRITERS, 2)):
        for one in TALKS[number::PAIRED]:
            before = there_and_back(source, talk(*one))[1]
            if found := what_is_lost(target, before, vital=source in MAIN and target in MAIN):
                lost[source, target, one] = found
    assert lost == {}
