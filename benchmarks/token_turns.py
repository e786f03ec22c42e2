"""Second turns: pairs of recorded requests of which one begins with all that the other asked, and its recorded answer.

The first request's usage is what a gateway has learned when the second one comes. Leans on penstock's decoders.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from benchmarks.token_corpus import READERS
from penstock import _protocols as protocols
from penstock._bridge import parser
from penstock._fold import fold_all
from penstock._grammar import Guard
from penstock._tokens import count_cache
from penstock._tokens.estimate import HybridTokenEstimator
from penstock.errors import PenstockError
from penstock.framing import BedrockChunks

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.token_corpus import Sample
    from benchmarks.token_score import Fitted
    from penstock._tokens.families import Tables
    from penstock.events import AnyEvent
    from penstock.request import Turn
    from penstock.tokens import Estimate


class Second(NamedTuple):
    """A second turn and what was estimated for it once the first was known."""

    sample: Sample
    estimate: Estimate

    @property
    def error(self) -> float:
        return abs(self.estimate.tokens - self.sample.actual) / self.sample.actual


def turn_of(sample: Sample) -> Turn | None:
    """The recorded answer, whole; None if it cannot be read."""
    decode, guard = protocols.decoder(READERS[sample.protocol]), Guard()
    try:
        data = sample.answer.read_bytes()
        if sample.wire is None:
            return _first(guard.feed(decode.body(data)))
        frames, inner = parser("auto"), BedrockChunks()
        batch = [*inner.feed(frames.feed([data])), *inner.feed(frames.finish())]
        return _first(guard.feed([*decode.feed(batch), *decode.finish()]))
    except (PenstockError, OSError):
        return None


def _first(events: Sequence[AnyEvent]) -> Turn | None:
    turns = fold_all(events)
    return turns[0] if turns else None


def pairs(samples: Sequence[Sample]) -> list[tuple[Sample, Sample]]:
    """Each request with the longest one of the same conversation and model that it goes on from."""
    groups: dict[tuple[str, str, str], list[Sample]] = defaultdict(list)
    for sample in samples:
        groups[sample.group, sample.model, sample.provider].append(sample)
    found: list[tuple[Sample, Sample]] = []
    for group in groups.values():
        names = {sample.name: _chain(sample) for sample in group}
        for later in group:
            before = [one for one in group if _begins(names[one.name], names[later.name])]
            if before:
                found.append((max(before, key=lambda one: len(one.request.messages)), later))
    return found


def _chain(sample: Sample) -> list[bytes]:
    digests = [count_cache.digest_message(one) for one in sample.request.messages]
    return count_cache.digest_prefixes(count_cache.digest_frame(sample.request, ""), digests)


def _begins(first: list[bytes], second: list[bytes]) -> bool:
    return len(first) < len(second) and first[-1] == second[len(first) - 1]


def second_turns(fitted: Sequence[Fitted], facts: Tables) -> list[Second]:
    """The second turns of the first deal, each half with the constants of the other."""
    return [
        row
        for one in fitted[:2]
        for row in seconds([guess.sample for guess in one.guesses], facts.with_constants(one.constants))
    ]


def seconds(samples: Sequence[Sample], facts: Tables) -> list[Second]:
    """Every second turn, each with an estimator that has seen the first alone."""
    rows: list[Second] = []
    for first, later in pairs(samples):
        estimator = HybridTokenEstimator(facts=facts)
        turn = turn_of(first)
        known = turn is not None and turn.usage is not None and turn.usage.input == first.actual
        seen = turn if known and turn is not None else first.actual
        estimator.calibrate(first.request, seen, first.model, first.provider)
        rows.append(Second(later, estimator.estimate_conversation(later.request, later.model, later.provider)))
    return rows
