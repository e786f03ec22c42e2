"""Requests there and back: nothing that a conversation needs gets lost, and what does is reported.

A → canonical → A gives the recorded body back, value for value. A → canonical → B → canonical asks for the same as the
first, but for the losses that B reports (`tests/data/request_excuses.toml`). Any protocol with a `request.py` and a
`write.py` takes part.
"""

from __future__ import annotations

import base64
import json
import random
import re
from collections import Counter
from functools import cache
from itertools import permutations
from typing import TYPE_CHECKING, Any

import hypothesis
import msgspec
import pytest

from penstock.errors import BadRequest
from tests.support import conversations, request_facets
from tests.support import request_protocols as requesting
from tests.support.pair_sample import sample_pairs
from tests.support.request_protocols import MAIN, READERS, RECORDED, WRITERS

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock._request_writer import RequestDraft
    from penstock.request import Request

SOURCES = [name for name in WRITERS if name in RECORDED]
INVALID = {
    "openai-chat": {
        "malformed_request_field": "the temperature is a word",
        "portkey.test_prompt_template": "it fills a stored prompt in and has no messages",
    },
    "anthropic": {"anthropic_completion_error": "a message is a string"},
}
"""Recorded requests that no provider took either: part of the name, and why."""


def camel(value: Any) -> Any:
    """Gemini takes names in both spellings, and is sent the documented one; null is absent."""
    if isinstance(value, list):
        return [camel(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        re.sub("_([a-z])", lambda found: found[1].upper(), key): camel(item)
        for key, item in value.items()
        if item is not None
    }


def unbuffered(value: Any) -> Any:
    """Bytes as a recorder wrote them out, where the wire has base64."""
    if isinstance(value, list):
        return [unbuffered(item) for item in value]
    if not isinstance(value, dict):
        return value
    if value.get("type") == "Buffer" and value.keys() == {"type", "data"}:
        return base64.b64encode(bytes(value["data"])).decode()
    return {key: unbuffered(item) for key, item in value.items()}


NORMAL: dict[str, Callable[[Any], Any]] = {"gemini": camel, "bedrock": unbuffered}
"""What may differ between a body and the one that is sent for it: all there is."""


def there_and_back(target: str, request: Request) -> tuple[RequestDraft, Request]:
    draft = requesting.write(target, request)
    return draft, requesting.read(target, msgspec.json.decode(draft.encode()))


def silent_losses(target: str, before: Request, after: Request, *drafts: RequestDraft) -> dict[str, Any]:
    """What differs without a word, with both versions of it."""
    excused = request_facets.excused(target, [row for draft in drafts for row in draft.diagnostics])
    lost = request_facets.changed(before, after) - excused
    left, right = request_facets.facets(before), request_facets.facets(after)
    return {name: (left[name.rstrip("+")], right[name.rstrip("+")]) for name in lost}


@cache
def sound(protocol: str) -> list[tuple[str, Any, Request]]:
    """The recorded requests that can be read."""
    excuses = INVALID.get(protocol, {})
    return [
        (one.name, one.body, requesting.read(protocol, one.body))
        for one in requesting.recorded_or_skip(protocol)
        if not any(part in one.name for part in excuses)
    ]


# ── recorded requests ─────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("protocol", SOURCES)
def test_the_same_protocol_gets_back_what_was_sent(protocol: str) -> None:
    normal = NORMAL.get(protocol, lambda body: body)
    different = [
        name
        for name, body, request in sound(protocol)
        if normal(json.loads(requesting.write(protocol, request).encode())) != normal(body)
    ]
    assert different == []


@pytest.mark.parametrize("protocol", SOURCES)
def test_the_same_protocol_loses_nothing(protocol: str) -> None:
    found = Counter(
        row.code for _, _, request in sound(protocol) for row in requesting.write(protocol, request).diagnostics
    )
    assert found == {}


@pytest.mark.parametrize("protocol", sorted(INVALID))
def test_requests_that_nobody_takes_are_refused(protocol: str) -> None:
    for part in INVALID[protocol]:
        bodies = [one.body for one in requesting.recorded_or_skip(protocol) if part in one.name]
        assert bodies
        for body in bodies:
            with pytest.raises(BadRequest):
                requesting.read(protocol, body)


@pytest.mark.parametrize(("source", "target"), [(a, b) for a in SOURCES for b in WRITERS if a != b])
def test_another_protocol_is_asked_the_same(source: str, target: str) -> None:
    lost = {
        name: silent
        for name, _, request in sound(source)
        for draft, after in [there_and_back(target, request)]
        if (silent := silent_losses(target, request, after, draft))
    }
    assert lost == {}


@pytest.mark.parametrize(("source", "target"), list(permutations([name for name in MAIN if name in WRITERS], 2)))
def test_nothing_vital_is_lost_between_the_main_protocols(source: str, target: str) -> None:
    """Not even with a word: text, calls, results, system messages, tools and images all arrive."""
    lost: dict[str, set[str]] = {}
    for name, _, request in sound(source):
        draft, after = there_and_back(target, request)
        vital = request_facets.changed(request, after) & request_facets.VITAL
        if vital:
            lost[name] = vital
        assert requesting.lacks(target).keys().isdisjoint(row.code.removeprefix("loss-") for row in draft.diagnostics)
    assert lost == {}


# ── made-up conversations ─────────────────────────────────────────────────────────────────────────


def survives(target: str, request: Request) -> None:
    draft, after = there_and_back(target, request)
    assert silent_losses(target, request, after, draft) == {}
    if target in MAIN:
        assert request_facets.changed(request, after) & request_facets.VITAL == set()


@pytest.mark.parametrize("target", WRITERS)
@hypothesis.settings(max_examples=12, suppress_health_check=[hypothesis.HealthCheck.too_slow])
@hypothesis.given(request=conversations.requests())
def test_made_up_conversations_survive(target: str, request: Request) -> None:
    survives(target, request)


@pytest.mark.nightly
@pytest.mark.parametrize("target", WRITERS)
@hypothesis.settings(max_examples=50, suppress_health_check=[hypothesis.HealthCheck.too_slow])
@hypothesis.given(request=conversations.requests())
def test_many_made_up_conversations_survive(target: str, request: Request) -> None:
    survives(target, request)


@pytest.mark.parametrize(("source", "target"), sample_pairs(permutations(WRITERS, 2), 4))
@hypothesis.settings(max_examples=3, suppress_health_check=[hypothesis.HealthCheck.too_slow])
@hypothesis.given(request=conversations.requests())
def test_made_up_conversations_survive_from_each_to_each(source: str, target: str, request: Request) -> None:
    """What one protocol could say of a conversation is what another must carry."""
    before = there_and_back(source, request)[1]
    draft, after = there_and_back(target, before)
    assert silent_losses(target, before, after, draft) == {}
    if source in MAIN and target in MAIN:
        assert request_facets.changed(before, after) & request_facets.VITAL == set()


@pytest.mark.parametrize(("source", "target"), list(permutations([name for name in MAIN if name in WRITERS], 2)))
@hypothesis.settings(max_examples=10, suppress_health_check=[hypothesis.HealthCheck.too_slow])
@hypothesis.given(request=conversations.requests(plain=True))
def test_conversations_survive_two_protocols_and_the_way_back(source: str, target: str, request: Request) -> None:
    first, there = there_and_back(source, request)
    second, further = there_and_back(target, there)
    third, back = there_and_back(source, further)
    silent = silent_losses(source, request, back, first, second, third)
    silent = {
        name: both for name, both in silent.items() if name not in request_facets.excused(target, second.diagnostics)
    }
    assert silent == {}
    assert request_facets.changed(request, back) & request_facets.VITAL == set()


# ── the tables ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("target", WRITERS)
def test_every_loss_says_what_it_costs(target: str) -> None:
    known = request_facets.excuses()
    unknown = {*requesting.losses(target), *requesting.lacks(target)} - set(known["any"]) - set(known.get(target, {}))
    assert unknown == set(), "tests/data/request_excuses.toml does not know them"


@pytest.mark.parametrize("target", [name for name in MAIN if name in WRITERS])
def test_no_loss_of_a_main_protocol_costs_anything_vital(target: str) -> None:
    """Only what single providers lack may, and that is a table of its own."""
    rows = set(requesting.losses(target))
    assert {key for key in rows if request_facets.excuse(target, key) & request_facets.VITAL} == set()


# ── hostile input ─────────────────────────────────────────────────────────────────────────────────

ODD: list[Any] = [None, True, 0, -1.5, "", "word", [], ["word"], [[]], {}, {"type": []}, {"type": "text"}, [None], [{}]]


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place in a JSON value."""
    if isinstance(value, dict):
        return [path, *(place for key, item in value.items() for place in places(item, (*path, key)))]
    if isinstance(value, list):
        return [path, *(place for key, item in enumerate(value) for place in places(item, (*path, key)))]
    return [path]


def changed(body: Any, path: tuple[Any, ...], odd: Any) -> Any:
    """A copy with something else in one place."""
    made = json.loads(json.dumps(body))
    if not path:
        return odd
    inner = made
    for step in path[:-1]:
        inner = inner[step]
    inner[path[-1]] = odd
    return made


@pytest.mark.parametrize("protocol", READERS)
def test_wrong_types_anywhere_are_refused_by_name_or_passed_on(protocol: str) -> None:
    from tests.support.request_cases import cases

    luck = random.Random(protocol)
    for case in cases():
        if protocol not in case.targets:
            continue
        body = case.body(protocol)
        for path in luck.sample(spots := places(body), min(len(spots), 120)):
            bad = changed(body, path, luck.choice(ODD))
            try:
                request = requesting.read(protocol, bad)
            except BadRequest as refusal:
                words = str(refusal)
                assert len(words) < 300
                continue
            for target in WRITERS:
                requesting.write(target, request).encode()
