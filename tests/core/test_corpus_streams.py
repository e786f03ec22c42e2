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


@cache
def data(name: str) -> dict[str, Any]:
    return tomllib.loads((TESTS / "data" / f"{name}.toml").read_text())


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_streams(protocol: str, record_property: Callable[[str, object], None]) -> None:
    corpus.corpus_or_skip()
    count, unknown, faults = Counter[str](), Counter[str](), dict[str, str]()
    for entry in corpus.streams(protocol):
        frames = [frame for batch in running.batches([entry.body]) for frame in batch]
        run = running.run(recorded.SOURCES[protocol], [frames])
        count += Counter(streams=1, bytes=len(entry.body), frames=len(frames), events=len(run.events))
        count["turns"] += sum(type(event) is ev.Start for event in run.events)
        unknown.update(event.name or event.data[:60] for event in run.events if isinstance(event, ev.Unknown))
        faults.update((entry.name, event.kind) for event in run.events if isinstance(event, ev.Fault))
    record_property("table", _row(protocol, count, unknown.total(), len(faults)))
    assert unknown.total() <= MOST_UNKNOWN * count["frames"]
    assert set(unknown) == set(data("unknown").get(protocol, {}))
    assert faults == {
        row["file"]: row["kind"] for row in data("faults").get("fault", ()) if row["file"].startswith(f"{protocol}/")
    }


def _row(protocol: str, count: Counter[str], unknown: int, faults: int) -> str:
    numbers = "  ".join(f"{count[key]:9,} {key}" for key in ("streams", "turns", "frames", "events"))
    return f"{protocol:20}{numbers}  {unknown:5} unknown  {faults:4} faults"


def _places(entry: Entry, size: int) -> list[int]:
    """Everywhere in a short stream; in a long one here and there, the same places every time."""
    if size <= SHORT:
        return list(range(1, size))
    return sorted(random.Random(entry.name).sample(range(1, size), CUTS))


@pytest.mark.parametrize("entries", recorded.all_shards(800_000, one_of=3))
def test_any_cutting_gives_the_same_events(entries: list[Entry]) -> None:
    corpus.corpus_or_skip()
    for entry in entries:
        source, body = recorded.SOURCES[entry.protocol], entry.body
        running.steady(source, body, places=_places(entry, len(body)))


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_whole_responses(protocol: str, record_property: Callable[[str, object], None]) -> None:
    """They are one turn that ends by itself."""
    corpus.corpus_or_skip()
    entries, faults = corpus.responses(protocol), dict[str, str]()
    for entry in entries:
        events = running.decode_body(recorded.source(entry), entry.body)
        assert sum(type(event) is ev.Start for event in events) == 1, entry.name
        assert not any(isinstance(event, ev.Unknown) for event in events), entry.name
        faults.update((entry.name, event.kind) for event in events if isinstance(event, ev.Fault))
    record_property("table", f"{protocol:20}{len(entries):9,} whole responses")
    assert faults == {
        row["file"]: row["kind"] for row in data("faults").get("response", ()) if row["file"].startswith(f"{protocol}/")
    }


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_error_bodies(protocol: str, record_property: Callable[[str, object], None]) -> None:
    """They are one fault, in the provider's own words."""
    corpus.corpus_or_skip()
    entries = corpus.errors(protocol)
    for entry in entries:
        said = recorded.error_of(entry)
        start, fault = running.decode_body(recorded.SOURCES[protocol], recorded.packed(said))
        assert isinstance(start, ev.Start)
        assert isinstance(fault, ev.Fault), entry.name
        assert fault.message == _message(said), entry.name
    record_property("table", f"{protocol:20}{len(entries):9,} error bodies")


def _message(said: dict[str, Any]) -> str:
    inner = said.get("error")
    if isinstance(inner, dict):
        return str(inner["message"])
    return str(inner or said.get("message") or said["detail"])
