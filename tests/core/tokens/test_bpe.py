"""The extra: cutting long texts, loading on first use, and one clear word where it is not installed."""

from __future__ import annotations

import sys

import pytest

from penstock._tokens.bpe import SEARCH_RANGE, split_text
from penstock._tokens.families import load_tables
from penstock.errors import MissingExtra
from penstock.tokens import HybridTokenEstimator, counters
from tests.core.tokens.samples import CODE, EMOJI, JSON
from tests.support.each_case import each


@each("text", ["", "x", "word " * 3000, "x" * 9000, "東京" * 4000, " " * 7000])
def test_pieces_are_the_text_and_none_is_too_long(text: str) -> None:
    found = list(split_text(text, 2 * SEARCH_RANGE))
    assert "".join(found) == text
    assert all(len(piece) <= 2 * SEARCH_RANGE for piece in found)
    assert len(found) <= len(text) // SEARCH_RANGE + 1


def test_a_cut_is_before_a_space() -> None:
    first, *more = split_text("word " * 3000, 2 * SEARCH_RANGE)
    assert first.endswith("word")
    assert all(piece.startswith(" word") for piece in more)


def test_the_vocabularies_are_those_of_the_tables() -> None:
    assert set(counters()) <= {family.vocabulary for family in load_tables().families.values()}


def test_without_the_extra_only_its_use_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "bpe_openai", None)  # an import of it fails, as if it were not there
    estimator = HybridTokenEstimator(counters=counters())
    assert estimator.estimate_text(CODE, "gemini-2.5-flash").tokens > 0
    with pytest.raises(MissingExtra, match=r"penstock\[bpe\]"):
        estimator.estimate_text(CODE, "gpt-4o")


def test_with_the_extra_text_is_exact_at_any_length() -> None:
    estimator = HybridTokenEstimator(counters=counters())
    assert [estimator.estimate_text(text, "gpt-4o").tokens for text in (CODE, JSON, EMOJI)] == [56, 84, 53]
    assert estimator.estimate_text(JSON * 6000, "gpt-4o").tokens == pytest.approx(84 * 6000, rel=0.02)
