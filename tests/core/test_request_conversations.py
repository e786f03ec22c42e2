"""Conversations with tools, from every client that was recorded to every provider: pairing, order, roles and names.

Bodies are looked at as a provider would (`tests.support.request_contents`), not through our own readers.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import hypothesis
import pytest

from penstock import request as rq
from penstock._messages.convert import Converted, convert
from penstock._messages.request_codecs import profile_of, reader
from penstock.errors import BadRequest
from tests.support import conversations
from tests.support import request_contents as wiring
from tests.support import request_protocols as requesting
from tests.support.request_cases import cases

TARGETS = sorted(wiring.READ)
SOURCES = [name for name in requesting.RECORDED if name in requesting.WRITERS and name != "completions"]
PAIRS = [(source, target) for source in SOURCES for target in TARGETS if source != target]
"""From a protocol to itself is `test_request_roundtrip`'s: whoever speaks it may say it in its other forms."""
CLIENTS = 45
"""Clients of whom conversations with tools were recorded, at the least."""


def converted(body: Any, source: str, target: str) -> Converted:
    return convert(body, source, target, profile=profile_of(target))


def called(made: Converted, target: str) -> list[tuple[str, Any]]:
    """The calls of a body in order, under the names that the client knows."""
    known = made.restore.names
    rows: list[tuple[str, Any]] = []
    for turn in wiring.turns(target, made.body):
        for id, name, given in turn.calls:  # noqa: A001 — as everybody calls it
            if not id.startswith(("ran_", "ran-")):
                rows.append((known[name].name if name in known else name, _plain(given)))
    return rows


def _plain(given: Any) -> Any:
    """An input, whichever way it went: free text and broken JSON are the one string of an object."""
    if isinstance(given, dict) and given.keys() in ({"input"}, {"ps:json"}):
        given = next(iter(given.values()))
    return wiring.value(given)


def asked(request: rq.Request) -> list[tuple[str, Any]]:
    """The calls that a client told of, in order, but for those that nobody made whole."""
    return [
        (part.name, _plain(wiring.value(part.json or "{}")))
        for message in request.messages
        for part in message.parts
        if isinstance(part, rq.Call) and part.by == "client" and not part.cut
    ]


@cache
def talks(source: str) -> list[tuple[str, Any, rq.Request]]:
    """Recorded requests with calls in them."""
    found: list[tuple[str, Any, rq.Request]] = []
    for one in requesting.recorded(source):
        try:
            request = reader(source)(one.body)
        except BadRequest:
            continue  # what nobody takes: test_request_roundtrip names them
        if asked(request):
            found.append((one.name, one.body, request))
    return found


@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_conversations_with_tools_are_lawful_everywhere(source: str, target: str) -> None:
    requesting.recorded_or_skip(source)
    bad: dict[str, Any] = {}
    for name, body, _ in talks(source):
        made = converted(body, source, target)
        if found := wiring.broken(target, made.body):
            bad[name] = found
    assert bad == {}


@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_all_calls_arrive_in_order_and_by_name(source: str, target: str) -> None:
    requesting.recorded_or_skip(source)
    bad: dict[str, Any] = {}
    for name, body, request in talks(source):
        made = converted(body, source, target)
        if called(made, target) != asked(request):
            bad[name] = called(made, target), asked(request)
    assert bad == {}


def test_every_client_is_among_them() -> None:
    for source in SOURCES:
        requesting.recorded_or_skip(source)
    clients = {name.partition("/")[0] for source in SOURCES for name, _, _ in talks(source) if name.count("/") == 2}
    assert len(clients) >= CLIENTS, sorted(clients)


@pytest.mark.parametrize("target", TARGETS)
def test_golden_conversations_are_lawful_everywhere(target: str) -> None:
    bad: dict[str, Any] = {}
    for case in cases():
        if case.source == target:
            continue
        made = converted(case.body(case.source), case.source, target)
        if found := wiring.broken(target, made.body):
            bad[case.id] = found
    assert bad == {}


@pytest.mark.parametrize("target", TARGETS)
@hypothesis.settings(max_examples=15, suppress_health_check=[hypothesis.HealthCheck.too_slow])
@hypothesis.given(request=conversations.requests())
def test_made_up_conversations_are_lawful_everywhere(target: str, request: rq.Request) -> None:
    """Parallel calls, images in results, system messages inside, empty contents, orphan results: all that there is."""
    check_lawful(target, request)


@pytest.mark.nightly
@pytest.mark.parametrize("target", TARGETS)
@hypothesis.settings(max_examples=40, suppress_health_check=[hypothesis.HealthCheck.too_slow])
@hypothesis.given(request=conversations.requests())
def test_many_made_up_conversations_are_lawful_everywhere(target: str, request: rq.Request) -> None:
    check_lawful(target, request)


def check_lawful(target: str, request: rq.Request) -> None:
    made = converted(requesting.write("openai-chat", request).body, "openai-chat", target)
    assert wiring.broken(target, made.body) == []
