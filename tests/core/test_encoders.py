"""What we write, read by the vendors' own SDKs: they rebuild the turn we meant, but for the losses we reported.

And the bodies of answers that are not streamed: made from the same frames, they mean the same turn.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

import pytest

from penstock import _protocols as protocols
from penstock import events as ev
from penstock._fold import fold_all
from penstock.framing import WRITERS
from tests.oracles import anthropic_sdk, google_sdk, openai_chat_sdk, openai_responses
from tests.support import corpus, outcomes
from tests.support import recorded_streams as recorded
from tests.support import run_streams as running
from tests.support import small_streams as small
from tests.support import turn_facets as facets
from tests.support.case_loop import over
from tests.support.stream_cases import Case, cases

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from penstock.events import AnyEvent
    from penstock.framing import Frame
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
BODIES = [name for name in running.targets() if running.row(name).body]
BASE64 = re.compile(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2,3}=*)?")
SAMPLE, LONGEST = 30, 15_000


def turns(events: Iterable[AnyEvent]) -> list[list[AnyEvent]]:
    """The events of each turn: an SDK reads one answer at a time."""
    found: list[list[AnyEvent]] = []
    for event in events:
        if isinstance(event, ev.Start):
            found.append([])
        found[-1].append(event)
    return found


def encode(target: str, events: list[AnyEvent]) -> tuple[list[Frame], set[str]]:
    """The frames, and the facets whose change the encoder has reported."""
    encoder = protocols.encoder(target)
    frames = running.encoded(encoder, events, sequential=running.row(target).sequential)
    return frames, facets.excused(target, encoder.diagnostics)


def misread(client: Client, events: list[AnyEvent]) -> set[str]:
    """The fields that the client sees otherwise, without a report."""
    frames, lost = encode(client.target, events)
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
@pytest.mark.parametrize("source", running.sources())
def test_cases_are_read_as_they_were_meant(source: str, client: Client) -> None:
    """Those of other protocols: its own are replayed with all that is odd about them."""
    found = {
        f"{case.id} turn {number}": fields
        for case in cases(source)
        if source != client.target
        for number, events in enumerate(turns(case.expected()))
        if not beyond(client, events) and (fields := misread(client, events))
    }
    assert found == {}


@pytest.mark.parametrize("client", CLIENTS, ids=[client.name for client in CLIENTS])
@pytest.mark.parametrize("protocol", recorded.SOURCES)
def test_recorded_streams_are_read_as_they_were_meant(protocol: str, client: Client) -> None:
    corpus.corpus_or_skip()
    found = {
        f"{entry.name} turn {number}": fields
        for entry in _sample(corpus.streams(protocol))
        if recorded.SOURCES[protocol] != client.target
        for number, events in enumerate(turns(recorded.read(entry).events))
        if not beyond(client, events) and (fields := misread(client, events))
    }
    assert found == {}


def _sample(entries: list[Entry]) -> list[Entry]:
    """Evenly chosen among those that are not long: an SDK takes a millisecond for a frame."""
    short = [entry for entry in entries if entry.path.stat().st_size <= LONGEST]
    return short[:: max(1, len(short) // SAMPLE)]


def body_differs(target: str, events: list[AnyEvent]) -> set[str]:
    """The facets in which a whole body means something else than the stream that it is made from."""
    make = running.row(target).body
    assert make is not None
    frames, _ = encode(target, events)
    streamed = running.run(target, [frames], READ.get(target)).events
    whole = running.decode_body(target, make(frames), READ.get(target))
    different = facets.changed(streamed, whole, settled=True) - UNWHOLE
    if target == "uistream":
        different -= {"opaque"}  # the answer to a request for approval, which there is a field of the tool's part
    return different & {"fault"} if isinstance(events[-1], ev.Fault) else different


READ = {"openai-chat": {"think": False}}
UNWHOLE = {"cuts", "unknown", "spans", "steps"}
"""Half a call, an unknown payload and the steps on the way have no place in a body; a failed one is just an error."""


@pytest.mark.parametrize("target", list(BODIES))
@over(cases())
def test_bodies_agree_with_streams(case: Case, target: str) -> None:
    for events in turns(case.expected()):
        assert body_differs(target, events) == set()


@pytest.mark.parametrize("target", BODIES)
@pytest.mark.parametrize("protocol", recorded.SOURCES)
def test_bodies_agree_with_recorded_streams(protocol: str, target: str) -> None:
    corpus.corpus_or_skip()
    for entry in _sample(corpus.streams(protocol)):
        for events in turns(recorded.read(entry).events):
            assert body_differs(target, events) == set(), entry.name


ANNOTATION = {
    "type": "url_citation",
    "url_citation": {"url": "http://a", "title": "A", "start_index": 0, "end_index": 2},
}


@pytest.mark.parametrize("before", [{}, {"reasoning_content": "Hm."}])
def test_a_citation_that_comes_before_the_text_waits_for_it(before: dict[str, str]) -> None:
    """OpenRouter sends annotations before the first words."""
    first = small.delta({"role": "assistant", "content": "", "annotations": [ANNOTATION], **before})
    body = small.chat(first, small.delta({"content": "Tides."}), small.delta({}, "stop"))
    payloads = small.translated("openai-chat", "anthropic", body)
    [cited] = [one for one in payloads if one.get("delta", {}).get("type") == "citations_delta"]
    [text] = [one for one in payloads if one.get("content_block", {}).get("type") == "text"]
    assert cited["index"] == text["index"]
    assert cited["delta"]["citation"]["url"] == "http://a"


def test_a_citation_that_finds_no_text_is_a_loss() -> None:
    encoder = protocols.encoder("anthropic")
    running.encoded(encoder, [ev.Start(), ev.Source(0, "http://a"), ev.Finish("stop")], sequential=True)
    assert [row.code for row in encoder.diagnostics] == ["loss-source-outside-text"]
