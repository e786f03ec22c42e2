"""Our fold of every recorded stream against readers that owe us nothing: vendors' SDKs, final snapshots, asserted runs.

Where the two disagree, `tests/data/differences.toml` says who is wrong and why; a row that no longer holds fails.
"""

from __future__ import annotations

import tomllib
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

from penstock.fold import fold
from tests import corpus, outcomes, recorded
from tests.oracles import anthropic_sdk, openai_chat_sdk, openai_responses

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.request import Turn
    from tests.corpus import Entry
    from tests.oracles.outcome import Outcome

pytestmark = [pytest.mark.corpus, pytest.mark.usefixtures("strict")]
MOST = 0.03


class Reader(NamedTuple):
    """Someone else's reading of streams, and how to read his numbers."""

    name: str
    protocols: tuple[str, ...]
    outcomes: Callable[[bytes], list[Outcome]]
    counts: outcomes.Counts


READERS = [
    Reader("openai-sdk", ("openai-chat", "mistral"), openai_chat_sdk.outcomes, outcomes.chat_counts),
    Reader("anthropic-sdk", ("anthropic-messages",), anthropic_sdk.outcomes, outcomes.message_counts),
    Reader("final-snapshot", ("openai-responses",), openai_responses.outcomes, outcomes.response_counts),
]


@cache
def written(reader: str) -> dict[str, frozenset[str]]:
    """File to the fields in which it is known to differ."""
    rows = tomllib.loads((Path(__file__).with_name("data") / "differences.toml").read_text())[reader]
    assert all(row["why"] for row in rows)
    return {file: frozenset(row["fields"]) for row in rows for file in row["files"]}


def turns(entry: Entry) -> list[Turn]:
    return fold(recorded.read(entry).events)


def _here(reader: Reader) -> list[Entry]:
    return [entry for protocol in reader.protocols if protocol in recorded.HERE for entry in corpus.streams(protocol)]


@pytest.mark.parametrize("reader", READERS, ids=[reader.name for reader in READERS])
def test_decoders_agree_with(reader: Reader, record_property: Callable[[str, object], None]) -> None:
    corpus.corpus_or_skip()
    entries, found = _here(reader), dict[str, frozenset[str]]()
    for entry in entries:
        mine, theirs = [outcomes.ours(turn) for turn in turns(entry)], reader.outcomes(entry.events())
        if len(mine) != len(theirs):
            found[entry.name] = frozenset({"turns"})
            continue
        fields = [outcomes.differences(a, b, reader.counts) for a, b in zip(mine, theirs, strict=True)]
        if any(fields):
            found[entry.name] = frozenset().union(*fields)
    record_property("table", f"{reader.name:20}{len(entries) - len(found):9,} of {len(entries):,} streams read alike")
    assert found == written(reader.name)
    assert len(found) <= MOST * len(entries)
