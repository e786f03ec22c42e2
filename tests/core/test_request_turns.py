"""Pairs of turns with all gaps between them, there and back: no border and no order gets lost without a word.

What stands beside what is where carriers meet, so here they are tried one by one, not by chance; the facets are
those of `test_request_roundtrip`.
"""

from __future__ import annotations

from itertools import permutations, product
from typing import TYPE_CHECKING, Any

import pytest

from penstock import request as rq
from tests.core.test_request_roundtrip import silent_losses, there_and_back
from tests.support import request_facets
from tests.support.conversations import PIXEL
from tests.support.request_protocols import MAIN, WRITERS

if TYPE_CHECKING:
    from collections.abc import Iterator

TURNS = (
    "", "t", "f", "h", "i", "c", "k", "r", "R", "ti", "it", "ii", "hi", "ih", "ic", "tc", "cc", "ir", "ri", "iR", "Ri",
    "tr", "rt", "tR", "Rt", "rr", "RR", "rR", "Rr", "hR", "Rc", "rc", "Rk", "Rtc", "Rit", "kR", "cr", "cRt", "tt",
)  # fmt: skip
"""The parts of turns: a text, a refusal, a thought, an image, a call with its result, one (k) that has none yet, a call
that a provider ran, without its result and (R) with it."""
GAPS = ("", "e", "ee", "u", "p", "s", "es", "se", "ue", "eu")
"""Who speaks between two: a user who says nothing, or words, or shows a picture; the system."""
TALKS = list(product(TURNS, GAPS, TURNS))
FEW, SOME, PAIRED = 53, 11, 601
"""One of so many talks is tried: always, in slow runs, between two protocols; others for each."""


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


def changes(target: str, before: rq.Request, *, vital: bool) -> Any:
    """What got lost without a word; of what is vital, also with one."""
    draft, after = there_and_back(target, before)
    lost = silent_losses(target, before, after, draft)
    return lost or (vital and request_facets.changed(before, after) & request_facets.VITAL)


@pytest.mark.parametrize("target", WRITERS)
def test_neighbours_stay_apart_and_in_order(target: str) -> None:
    some = TALKS[WRITERS.index(target) :: FEW]
    lost = {one: found for one in some if (found := changes(target, talk(*one), vital=target in MAIN))}
    assert lost == {}


@pytest.mark.nightly
@pytest.mark.parametrize("target", WRITERS)
def test_many_neighbours_stay_apart_and_in_order(target: str) -> None:
    many = TALKS[WRITERS.index(target) :: SOME]
    lost = {one: found for one in many if (found := changes(target, talk(*one), vital=target in MAIN))}
    assert lost == {}


def test_neighbours_stay_apart_from_each_to_each() -> None:
    """What one protocol could say of them is what another must carry."""
    lost: dict[Any, Any] = {}
    for number, (source, target) in enumerate(permutations(WRITERS, 2)):
        for one in TALKS[number::PAIRED]:
            before = there_and_back(source, talk(*one))[1]
            if found := changes(target, before, vital=source in MAIN and target in MAIN):
                lost[source, target, one] = found
    assert lost == {}
