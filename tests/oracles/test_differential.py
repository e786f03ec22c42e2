"""Our fold of every recorded stream and whole answer against readers that share no code with us: vendors' SDKs, final
snapshots, plain JSON, asserted runs.

Where the two disagree, `tests/data/differences.toml` says who is right and why; a row that no longer holds fails.
"""

from __future__ import annotations

import tomllib
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

import pytest

from penstock import fold_all
from tests.oracles import anthropic_sdk, expected, google_sdk, openai_chat_sdk, openai_responses, plain_json
from tests.support import corpus, outcomes
from tests.support import recorded_streams as recorded
from tests.support import run_streams as running
from tests.support.paths import TESTS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from penstock.request import Turn
    from tests.oracles.outcome import Outcome
    from tests.support.corpus import Entry

pytestmark = pytest.mark.usefixtures("strict")
MOST = 0.03


class Reader(NamedTuple):
    """Someone else's reading of recordings, and how to read his numbers."""

    name: str
    protocols: tuple[str, ...]
    outcomes: Callable[[Entry], list[Outcome]]
    counts: outcomes.Counts
    kind: str = "stream"


def _played(read: Callable[[bytes], list[Outcome]]) -> Callable[[Entry], list[Outcome]]:
    """A reader that is given a stream as server-sent events."""
    return lambda entry: read(entry.events())


def _whole(read: Callable[[bytes], Outcome]) -> Callable[[Entry], list[Outcome]]:
    """A reader of answers that were not streamed."""
    return lambda entry: [read(entry.body)]


def _parsed(entry: Entry) -> list[Outcome]:
    return plain_json.outcomes(entry.protocol, entry.payloads())


PLAIN = {
    "bedrock-converse": outcomes.converse_counts,
    "cohere": outcomes.cohere_counts,
    "ollama": outcomes.ollama_counts,
    "gemini-interactions": outcomes.interaction_counts,
    "openai-completions": outcomes.chat_counts,
}
NEVER_WHOLE = "openai-completions"  # of these the corpus has streams alone
CHAT = ("openai-chat", "mistral")
READERS = [
    Reader("openai-sdk", CHAT, _played(openai_chat_sdk.outcomes), outcomes.chat_counts),
    Reader("anthropic-sdk", ("anthropic-messages",), _played(anthropic_sdk.outcomes), outcomes.message_counts),
    Reader("final-snapshot", ("openai-responses",), _played(openai_responses.outcomes), outcomes.response_counts),
    Reader("responses-sdk", ("openai-responses",), _played(openai_responses.sdk_outcomes), outcomes.response_counts),
    Reader("google-sdk", ("gemini",), _played(google_sdk.outcomes), outcomes.gemini_counts),
    Reader("openai-sdk-body", CHAT, _whole(openai_chat_sdk.body_outcome), outcomes.chat_counts, "response"),
    Reader(
        "anthropic-sdk-body",
        ("anthropic-messages",),
        _whole(anthropic_sdk.body_outcome),
        outcomes.message_counts,
        "response",
    ),
    Reader(
        "responses-sdk-body",
        ("openai-responses",),
        _whole(openai_responses.body_outcome),
        outcomes.response_counts,
        "response",
    ),
    Reader("google-sdk-body", ("gemini",), _whole(google_sdk.body_outcome), outcomes.gemini_counts, "response"),
    *(Reader(f"{name}-json", (name,), _parsed, counts) for name, counts in PLAIN.items()),
    *(
        Reader(f"{name}-json-body", (name,), _parsed, counts, "response")
        for name, counts in PLAIN.items()
        if name != NEVER_WHOLE
    ),
]


@cache
def written(reader: str) -> dict[str, frozenset[str]]:
    """File to the fields in which it is known to differ."""
    rows = tomllib.loads((TESTS / "data" / "differences.toml").read_text()).get(reader, [])
    assert all(row["why"] and row["right"] in {"penstock", "both"} for row in rows)
    return {file: frozenset(row["fields"]) for row in rows for file in row["files"]}


def turns(entry: Entry) -> list[Turn]:
    if entry.kind == "response":
        return fold_all(running.decode_body(recorded.source(entry), entry.body))
    return fold_all(recorded.read(entry).events)


def _here(reader: Reader) -> list[Entry]:
    """What the reader is asked about; a body that lies under another protocol's name is left out."""
    return [
        entry
        for protocol in reader.protocols
        if protocol in recorded.SOURCES
        for entry in corpus.entries(reader.kind, protocol)
        if recorded.source(entry) == recorded.SOURCES[protocol]
    ]


def alike(reader: Reader, entry: Entry) -> frozenset[str]:
    """The fields in which the two readings of an answer differ."""
    mine, theirs = [outcomes.ours(turn) for turn in turns(entry)], reader.outcomes(entry)
    if len(mine) != len(theirs):
        return frozenset({"turns"})
    fields = [outcomes.differences(a, b, reader.counts) for a, b in zip(mine, theirs, strict=True)]
    return frozenset().union(*fields)


@pytest.mark.parametrize("reader", READERS, ids=[reader.name for reader in READERS])
def test_decoders_agree_with(reader: Reader, record_property: Callable[[str, object], None]) -> None:
    corpus.corpus_or_skip()
    entries = _here(reader)
    found = {entry.name: fields for entry in entries if (fields := alike(reader, entry))}
    what = "bodies" if reader.kind == "response" else "streams"
    record_property("table", f"{reader.name:26}{len(entries) - len(found):9,} of {len(entries):,} {what} read alike")
    assert found == written(reader.name)


def test_the_list_of_differences_is_short() -> None:
    corpus.corpus_or_skip()
    listed = sum(len(written(name)) for name in [*(reader.name for reader in READERS), ASSERTED])
    total = sum(len(_here(reader)) for reader in READERS) + sum(1 for _ in _asserted())
    assert listed <= MOST * total


def test_every_list_of_differences_has_its_reader() -> None:
    listed = tomllib.loads((TESTS / "data" / "differences.toml").read_text())
    assert listed.keys() <= {*(reader.name for reader in READERS), ASSERTED}


# ── what the AI SDK's own tests assert ────────────────────────────────────────────────────────────

ASSERTED = "asserted-runs"
UNIFIED = {"tool-calls": "tool_calls", "content-filter": "content_filter", "error": None}


def _asserted() -> Iterator[tuple[Entry, expected.Case]]:
    """The asserted runs that belong to their stream."""
    for entry in corpus.streams():
        for case in expected.cases(entry.expected) if entry.expected and entry.protocol in recorded.SOURCES else ():
            if case.belongs(entry.payloads()):
                yield entry, case


def _against(entry: Entry, case: expected.Case) -> set[str]:
    """The fields in which a run differs from our fold. One run may be asserted of several answers in a body."""
    read = turns(entry)
    mine = [outcomes.joined(read)] if len(case.outcomes) == 1 else [outcomes.ours(turn) for turn in read]
    if len(mine) != len(case.outcomes):
        return {"turns"}
    if not case.whole:
        (said,), (whole,) = case.outcomes, mine
        return {name for name in ("text", "reasoning") if not getattr(whole, name).startswith(getattr(said, name))}
    found: set[str] = set()
    for own, said, word in zip(mine, case.outcomes, case.unified, strict=True):
        said.finish = said.finish or UNIFIED.get(word, word)
        # What the AI SDK makes up itself: ids where the provider gave none, a link as its own title.
        said.calls = [(call[0] if str(call[0]).encode() in entry.body else None, *call[1:]) for call in said.calls]
        said.sources = [(url, None if title == url else title) for url, title in said.sources]
        found |= outcomes.differences(own, said)
    return found - RESHAPED if case.reshaped else found


RESHAPED = {"text", "calls", "finish"}
"""A run that asks for JSON turns the call that brings it into text."""


def test_decoders_agree_with_asserted_runs(record_property: Callable[[str, object], None]) -> None:
    corpus.corpus_or_skip()
    runs, found = list(_asserted()), dict[str, frozenset[str]]()
    for entry, case in runs:
        fields = _against(entry, case)
        if fields:
            found[entry.name] = found.get(entry.name, frozenset()) | fields
    record_property("table", f"{ASSERTED:20}{len(runs) - len(found):9,} of {len(runs):,} runs read alike")
    assert found == written(ASSERTED)


def test_nearly_every_asserted_run_is_tied_to_its_stream() -> None:
    corpus.corpus_or_skip()
    asserted = {entry.name: (entry, expected.cases(entry.expected)) for entry in corpus.streams() if entry.expected}
    adrift = [
        name for name, (entry, cases) in asserted.items() if not any(one.belongs(entry.payloads()) for one in cases)
    ]
    assert len(adrift) <= 0.05 * len(asserted), adrift
