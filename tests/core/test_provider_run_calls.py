"""A call that the provider runs itself never leaves as one that the client could run: for every target and version."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from penstock import _protocols as protocols
from penstock import events as ev
from tests.support import corpus
from tests.support import recorded_streams as recorded
from tests.support import run_streams as running
from tests.support.case_loop import over
from tests.support.stream_cases import Case, cases

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from penstock.events import AnyEvent

pytestmark = pytest.mark.usefixtures("strict")
TARGETS = [
    name
    for target in running.targets()
    if running.row(target).decoder
    for name in (target, *(f"{target}@{version}" for version in running.row(target).versions))
]


def provided(events: Iterable[AnyEvent]) -> bool:
    return any(isinstance(event, ev.CallStart) and event.by == "provider" for event in events)


def callable_calls(events: Iterable[AnyEvent]) -> Counter[str]:
    ends = [event for event in events if isinstance(event, ev.CallEnd) and event.by == "client"]
    return Counter(event.name for event in ends)


def leak(target: str, events: Sequence[AnyEvent]) -> Counter[str]:
    """What the target's reader would run, and nobody asked it to."""
    again = running.run(target.partition("@")[0], [running.encode(target, events)]).events
    return callable_calls(again) - callable_calls(events)


@pytest.mark.parametrize("target", TARGETS)
@over([case for case in cases() if provided(case.expected())])
def test_in_the_cases(case: Case, target: str) -> None:
    assert leak(target, case.expected()) == Counter()


@pytest.mark.parametrize("protocol", recorded.SOURCES)
def test_in_recorded_streams(protocol: str) -> None:
    corpus.corpus_or_skip()
    for entry in corpus.streams(protocol):
        events = recorded.read(entry).events
        for target in TARGETS if provided(events) else ():
            assert leak(target, events) == Counter(), (entry.name, target)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("owner", [*protocols.MODULES, ""])
def test_whatever_comes_with_it(owner: str, target: str) -> None:
    """State that claims to be the target's own, and to be an ordinary call, changes nothing."""
    for kind in ("tool_use", "function_call", "functionCall", "server_tool_use", ""):
        assert leak(target, _claiming(owner, kind)) == Counter(), kind


def _claiming(owner: str, kind: str) -> list[AnyEvent]:
    extra = {owner: {"type": kind, "item": {"type": kind, "name": "search", "call_id": "c"}}} if owner else None
    given = json.dumps({"query": "tides"})
    return [
        ev.Start("t", "m"),
        ev.CallStart(0, "c", "search", "provider", extra=extra),
        ev.CallDelta(0, given),
        ev.CallEnd(0, "c", "search", given, "provider", extra=extra),
        ev.Result(1, "c", "search", '"found"', extra=extra),
        ev.Finish("stop", "stop"),
    ]
