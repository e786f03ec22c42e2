"""What we write, read by the vendors' own SDKs: they rebuild the turn we meant, but for the losses we reported."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

import pytest

import penstock
from penstock import events as ev
from penstock import fold_all
from penstock.framing import WRITERS
from tests.oracles import anthropic_sdk, google_sdk, openai_chat_sdk, openai_responses
from tests.support import corpus, outcomes
from tests.support import recorded_streams as recorded
from tests.support import run_streams as running
from tests.support import turn_facets as facets
from tests.support.stream_cases import cases

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.events import AnyEvent
    from tests.oracles.outcome import Outcome
    from tests.support.corpus import Entry

pytestmark = pytest.mark.usefixtures("strict")


class Client(NamedTuple):
    """Somebody who reads a protocol that we write."""

    name: str
    target: str
    read: Callable[[bytes], list[Outcome]]
    counts: outcomes.Counts


CLIENTS = [
    Client("openai-chat-sdk", "openai-chat", openai_chat_sdk.outcomes, outcomes.chat_counts),
    Client("anthropic-sdk", "anthropic", anthropic_sdk.outcomes, outcomes.message_counts),
    Client("openai-responses-sdk", "responses", openai_responses.sdk_outcomes, outcomes.response_counts),
    Client("final-snapshot", "responses", openai_responses.outcomes, outcomes.response_counts),
    Client("google-sdk", "gemini", google_sdk.outcomes, outcomes.gemini_counts),
]
FIELDS = {"fault": "error", "cached": "usage", "written": "usage", "reasoned": "usage"}
"""A facet's name to that of the field of an outcome, where they differ."""
BASE64 = re.compile(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2,3}=*)?")
SAMPLE, LONGEST = 12, 15_000


def misread(client: Client, events: list[AnyEvent]) -> set[str]:
    """The fields that the client sees otherwise, without a report."""
    encoder = penstock.encoder(client.target)
    frames = running.encoded(encoder, events, sequential=running.row(client.target).sequential)
    lost = facets.excused(client.target, encoder.diagnostics)
    (turn,) = fold_all(events)
    (theirs,) = client.read(b"".join(WRITERS[running.row(client.target).writes]().feed(frames)))
    cut = {event.id for event in events if isinstance(event, ev.CallCut)}
    if cut and theirs.failed:
        return set()  # of an input that was spoilt on its way to us
    theirs.calls = [call for call in theirs.calls if call[0] not in cut]  # an SDK cannot say that a call was cut short
    different = outcomes.differences(outcomes.ours(turn), theirs, client.counts)
    if turn.fault is not None and turn.fault.message.rstrip(".") in (theirs.error or ""):
        different -= {"error"}  # the client's vendor says more: see test_vendor_errors
    if theirs.error is not None:
        different &= {"error"}  # an SDK that raises shows nothing of what came before
    return different - {FIELDS.get(facet, facet) for facet in lost}


def beyond(client: Client, events: list[AnyEvent]) -> bool:
    """What SDKs die of: calls of free text, unknown payloads replayed as they came, files that are no base64."""
    return any(
        (isinstance(event, ev.CallStart) and event.form == "text")
        or (isinstance(event, ev.Unknown) and event.protocol == client.target)
        or (isinstance(event, ev.FileDelta) and not BASE64.fullmatch(event.data))
        for event in events
    )


@pytest.mark.parametrize("client", CLIENTS, ids=[client.name for client in CLIENTS])
def test_cases_are_read_as_they_were_meant(client: Client) -> None:
    """Those of other protocols: its own are replayed with all that is odd about them."""
    said = {case.id: case.expected() for case in cases() if case.protocol != client.target}
    assert misreadings(client, said) == {}


@pytest.mark.parametrize("client", CLIENTS, ids=[client.name for client in CLIENTS])
def test_recorded_streams_are_read_as_they_were_meant(client: Client) -> None:
    corpus.corpus_or_skip()
    sample = [entry for name in recorded.SOURCES for entry in _sample(corpus.streams(name))]
    others = [entry for entry in sample if recorded.SOURCES[entry.protocol] != client.target]
    assert misreadings(client, {entry.name: recorded.read(entry).events for entry in others}) == {}


def misreadings(client: Client, said: dict[str, list[AnyEvent]]) -> dict[str, set[str]]:
    """The fields that the client sees otherwise, of each turn of each stream."""
    return {
        f"{name} turn {number}": fields
        for name, events in said.items()
        for number, turn in enumerate(running.turns(events))
        if not beyond(client, turn) and (fields := misread(client, turn))
    }


def _sample(entries: list[Entry]) -> list[Entry]:
    """Evenly chosen among those that are not long: an SDK takes a millisecond for a frame."""
    short = [entry for entry in entries if entry.path.stat().st_size <= LONGEST]
    return short[:: max(1, len(short) // SAMPLE)]
