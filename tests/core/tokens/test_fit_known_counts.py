"""`fit` uses what the provider counted: the messages of a known prompt are as long as the provider says."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.request import Request
from penstock.tokens import HybridTokenEstimator
from tests.core.tokens.samples import PROSE
from tests.core.tokens.test_fit import MODEL, answer, round_of, user
from tests.support.each_case import each

LONG = [user("What is a tide?")] + [
    one for number in range(10) for one in (answer(f"{number} {PROSE}"), user(f"{number}?"))
]


@each("ratio", [0.4, 1.0, 3.7])
@each("known", [len(LONG), len(LONG) - 2])
@each("share", [0.3, 0.6, 0.9])
@each("by", ["tokens", "high"])
def test_messages_are_as_long_as_the_provider_counted(ratio: float, known: int, share: float, by: Any) -> None:
    """What stays is within the limit by the counts of the provider, which counts every message alike."""
    estimator, plain = HybridTokenEstimator(), HybridTokenEstimator()
    actual = round(plain.estimate_conversation(LONG[:known], MODEL).tokens * ratio)
    estimator.calibrate(LONG[:known], actual, MODEL, learn=False)
    limit = round(actual * share)
    found = estimator.fit(LONG, limit, model=MODEL, by=by)
    assert found.fits
    assert found.removed
    left = plain.estimate_conversation(found.request, MODEL).tokens * ratio
    assert left <= limit + (2 if known == len(LONG) else 40 * ratio), "the end of the conversation is not scaled"
    if known == len(LONG):
        assert left >= limit - actual / 4, "nothing more than needed goes"
    assert sum(row.tokens for row in found.removed) == pytest.approx(actual - left, abs=80 * max(1, ratio))


def test_results_are_shortened_by_the_counts_of_the_provider() -> None:
    request = Request(messages=[user("Look."), *round_of(1, PROSE * 8), *round_of(2, PROSE * 8), user("And now?")])
    estimator = HybridTokenEstimator()
    estimated = estimator.estimate_conversation(request, MODEL).tokens
    estimator.calibrate(request, estimated * 3, MODEL, learn=False)
    found = estimator.fit(request, estimated * 2, model=MODEL, shorten_results=True)
    assert found.fits
    assert {row.shortened for row in found.removed} == {True}
    left = HybridTokenEstimator().estimate_conversation(found.request, MODEL).tokens
    assert found.estimate.tokens == pytest.approx(3 * left, rel=0.01)
