"""Every recorded stream, whole response and error body: read without an exception, lawful, the same in any cutting.

What is left unknown, and which streams end in a fault, is written down in `tests/data/` with the reason.
"""

from __future__ import annotations

import random
import tomllib
from collections import Counter
from functools import cache
from typing import TYPE_CHECKING, Any

import pytest

from penstock import events as ev
from tests.support import corpus
from tests.support import recorded_streams as recorded
from tests.support import run_streams as running
from tests.support import stream_laws as laws
from tests.support.each_case import each
from tests.support.paths import TESTS

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.corpus import Entry

pytestmark = pytest.mark.usefixtures("strict")
PROTOCOLS = list(recorded.SOURCES)
MOST_UNKNOWN = 0.02
SHORT = 1200
"""Up to so many bytes a stream is cut everywhere."""
CUTS = 24
"""How often a longer one is."""
EVERY, FEW = 8, 30
"""One of so many streams, or as many as this of a protocol, are written for every target; the others for their own."""
TORN = "should-add-tool-call-and-result-error-parts-to-a8d358dc.61.ndjson"
"""A recording whose serialiser tore a refused call apart: it is read as cut, and answered by an error that says so again."""


@cache
def data(name: str) -> dict[str, Any]:
    return tomllib.loads((TESTS / "data" / f"{name}.toml").read_text())


def known_faults(kind: str, folder: str) -> dict[str, str]:
    return {row["file"]: row["kind"] for row in data("faults").get(kind, ()) if row["file"].startswith(folder)}


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_streams(protocol: str, record_property: Callable[[str, object], None]) -> None:
    """Lawful, known, and written without a silent loss: for their own protocol, some for all, as a stream and a body."""
    corpus.corpus_or_skip()
    count, unknown, faults, broken = Counter[str](), Counter[str](), dict[str, str](), list[str]()
    own, entries = recorded.SOURCES[protocol], corpus.streams(protocol)
    step = max(1, min(EVERY, len(entries) // FEW))
    for place, entry in enumerate(entries):
        frames = running.frames_of(entry.body)
        events = running.run(own, [frames]).events
        count += Counter(streams=1, frames=len(frames), events=len(events))
        count["turns"] += sum(type(event) is ev.Start for event in events)
        unknown.update(event.name or event.data[:60] for event in events if isinstance(event, ev.Unknown))
        faults.update((entry.name, event.kind) for event in events if isinstance(event, ev.Fault))
        if place % step == 0:
            targets = running.targets()
        else:
            targets = laws.READABLE if running.has_provider_run(events) else [own] if own in laws.READABLE else []
        for name in targets:
            found = set(laws.problems(name, events, body=place % step == 0))
            if entry.name.endswith(TORN):
                found -= {"lost in silence: ['results']"}
            broken += [f"{entry.name} to {name}: {problem}" for problem in found]
    numbers = "  ".join(f"{count[key]:9,} {key}" for key in ("streams", "turns", "frames", "events"))
    record_property("table", f"{protocol:20}{numbers}  {unknown.total():5} unknown  {len(faults):4} faults")
    assert broken == []
    assert unknown.total() <= MOST_UNKNOWN * count["frames"]
    assert set(unknown) == set(data("unknown").get(protocol, {}))
    assert faults == known_faults("fault", f"{protocol}/")


def cutting_places(entry: Entry, size: int) -> list[int]:
    """Everywhere in a short stream; in a long one here and there, the same places every time."""
    if size <= SHORT:
        return list(range(1, size))
    return sorted(random.Random(entry.name).sample(range(1, size), CUTS))


@pytest.mark.parametrize("share", [8, pytest.param(1, id="all", marks=pytest.mark.nightly)])
def test_any_cutting_gives_the_same_events(share: int) -> None:
    corpus.corpus_or_skip()

    @each("entry", corpus.take_share(corpus.streams(), share), lambda entry: str(entry.name))
    def check(entry: Entry) -> None:
        source, body = recorded.SOURCES[entry.protocol], entry.body
        running.steady(source, body, places=cutting_places(entry, len(body)))

    check()


def test_whole_responses() -> None:
    """They are one turn that ends by itself."""
    corpus.corpus_or_skip()
    faults, odd = dict[str, str](), list[str]()
    for entry in corpus.responses():
        events = running.decode_body(recorded.source(entry), entry.body)
        starts = sum(type(event) is ev.Start for event in events)
        if starts != 1 or any(isinstance(event, ev.Unknown) for event in events):
            odd.append(entry.name)
        faults.update((entry.name, event.kind) for event in events if isinstance(event, ev.Fault))
    assert odd == []
    assert faults == known_faults("response", "")


def test_error_bodies() -> None:
    """They are one fault, in the provider's own words."""
    corpus.corpus_or_skip()
    odd: list[str] = []
    for entry in corpus.errors():
        said = recorded.error_of(entry)
        start, fault = running.decode_body(recorded.SOURCES[entry.protocol], recorded.packed(said))
        told = fault.message if isinstance(start, ev.Start) and isinstance(fault, ev.Fault) else None
        if told != _message(said):
            odd.append(f"{entry.name}: {fault}")
    assert odd == []


def _message(said: dict[str, Any]) -> str:
    inner = said.get("error")
    if isinstance(inner, dict):
        return str(inner["message"])
    return str(inner or said.get("message") or said["detail"])
