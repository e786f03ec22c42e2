"""There and back: what a turn says survives encoding and decoding, but for the losses that the encoder reports.

Every source is sent to every target; `tests/data/excuses.toml` says which facets of a turn a reported loss excuses.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from penstock import _protocols as protocols
from tests.support import corpus
from tests.support import recorded_streams as recorded
from tests.support import run_streams as running
from tests.support import turn_facets as facets
from tests.support.case_loop import over
from tests.support.stream_cases import Case, cases

if TYPE_CHECKING:
    from penstock.events import AnyEvent

pytestmark = pytest.mark.usefixtures("strict")
READ = {"openai-chat": {"think": False}}
"""How our own output is read back: an encoder never writes reasoning between tags, so tags there are text."""
TARGETS = [name for name in running.targets() if running.row(name).decoder]
CASES = cases()
EVERY = 8
TORN = "should-add-tool-call-and-result-error-parts-to-a8d358dc.61.ndjson"
"""A recording whose serialiser tore a refused call apart: it is read as cut, and answered by an error that says so again."""


def silent_losses(target: str, events: list[AnyEvent]) -> set[str]:
    """The facets that got lost or changed on the way there and back, without a word."""
    encoder = protocols.encoder(target)
    frames = running.encoded(encoder, events, sequential=running.row(target).sequential)
    back = running.run(target, [frames], READ.get(target)).events
    return facets.changed(events, back) - facets.excused(target, encoder.diagnostics)


@pytest.mark.parametrize("target", TARGETS)
@over(CASES)
def test_nothing_is_lost_in_silence(case: Case, target: str) -> None:
    assert silent_losses(target, case.expected()) == set()


@pytest.mark.parametrize("protocol", recorded.SOURCES)
def test_nothing_of_recorded_streams_is_lost_in_silence(protocol: str) -> None:
    """Each back to its own protocol; some of them to all the others as well."""
    corpus.corpus_or_skip()
    for place, entry in enumerate(corpus.streams(protocol)):
        said, own = recorded.read(entry).events, recorded.SOURCES[protocol]
        targets = TARGETS if place % EVERY == 0 else [own] if own in TARGETS else []
        found = {target: fields for target in targets if (fields := silent_losses(target, said))}
        assert found == ({"aisdk": {"results"}} if entry.name.endswith(TORN) else {}), entry.name
