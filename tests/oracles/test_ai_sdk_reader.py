"""Every recorded stream and whole answer as `ai@7` reads it, against our fold: a second reader beside the vendors' SDKs.

Where the two disagree, `tests/data/ai_sdk_differences.toml` says who is right and why; a row that no longer holds fails.
"""

from __future__ import annotations

import random
import tomllib
from functools import cache
from typing import TYPE_CHECKING

import pytest

from penstock import fold_all
from tests.oracles.ai_sdk import PROVIDERS, AiSdk
from tests.support import corpus, outcomes
from tests.support import recorded_streams as recorded
from tests.support import run_streams as running
from tests.support.paths import TESTS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from tests.oracles.outcome import Outcome
    from tests.support.corpus import Entry

pytestmark = pytest.mark.usefixtures("strict")
SAMPLE = 160
"""How many recordings `make test` reads; `make nightly` reads all of them."""
Differences = dict[str, frozenset[str]]


@pytest.fixture(scope="module")
def reader() -> Iterator[AiSdk]:
    with AiSdk() as sdk:
        yield sdk


@cache
def written() -> Differences:
    """File to the fields in which it is known to differ."""
    listed = tomllib.loads((TESTS / "data" / "ai_sdk_differences.toml").read_text())["difference"]
    assert all(row["why"] and row["right"] in {"penstock", "both"} for row in listed)
    assert len({file for row in listed for file in row["files"]}) == sum(len(row["files"]) for row in listed)
    return {file: frozenset(row["fields"]) for row in listed for file in row["files"]}


def entries(kind: str, protocol: str) -> list[Entry]:
    found = corpus.entries(kind, protocol)
    return [entry for entry in found if recorded.source(entry) == recorded.SOURCES[protocol]]


def ours(entry: Entry) -> Outcome:
    """Our reading as the AI SDK would show it: one answer, and a refusal among the text."""
    whole = entry.kind == "response"
    events = running.decode_body(recorded.source(entry), entry.body) if whole else recorded.read(entry).events
    outcome = outcomes.joined(fold_all(events))
    outcome.text, outcome.refusal = outcome.text + outcome.refusal, ""
    return outcome


def theirs(entry: Entry, reader: AiSdk) -> Outcome:
    stream = entry.kind == "stream"
    outcome = reader.read(entry.protocol, entry.events() if stream else entry.body, stream=stream)
    # It makes up ids where the provider gave none.
    outcome.calls = [(call[0] if str(call[0]).encode() in entry.body else None, *call[1:]) for call in outcome.calls]
    return outcome


def compare(chosen: Iterable[Entry], reader: AiSdk) -> Differences:
    pairs = ((entry.name, outcomes.differences(ours(entry), theirs(entry, reader))) for entry in chosen)
    return {name: frozenset(fields) for name, fields in pairs if fields}


def listed(chosen: Iterable[Entry]) -> Differences:
    return {entry.name: written()[entry.name] for entry in chosen if entry.name in written()}


def test_a_sample_is_read_alike(reader: AiSdk) -> None:
    corpus.corpus_or_skip()
    every = [entry for protocol in PROVIDERS for kind in ("stream", "response") for entry in entries(kind, protocol)]
    chosen = random.Random("ai@7").sample(every, min(SAMPLE, len(every)))
    assert compare(chosen, reader) == listed(chosen)


@pytest.mark.nightly
@pytest.mark.parametrize("kind", ["stream", "response"])
@pytest.mark.parametrize("protocol", PROVIDERS)
def test_every_recording_is_read_alike(
    protocol: str, kind: str, reader: AiSdk, record_property: Callable[[str, object], None]
) -> None:
    corpus.corpus_or_skip()
    chosen = entries(kind, protocol)
    found = compare(chosen, reader)
    what = "streams" if kind == "stream" else "bodies"
    record_property("table", f"ai@7 {protocol:21}{len(chosen) - len(found):9,} of {len(chosen):,} {what} read alike")
    assert found == listed(chosen)


def test_every_row_names_a_recording() -> None:
    corpus.corpus_or_skip()
    known = {
        entry.name for protocol in PROVIDERS for kind in ("stream", "response") for entry in entries(kind, protocol)
    }
    assert written().keys() <= known
