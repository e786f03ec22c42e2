"""The packaged models for embeddings and ranking, by the library and through the gateway's routes."""

from __future__ import annotations

import math

import pytest

from penstock import SyncClient
from penstock.errors import PenstockError
from tests.support.each_case import each


def test_texts_that_share_words_are_near_each_other() -> None:
    with SyncClient() as client:
        found = client.embed("replay/embed", ["the gauge reads 3.2", "The gauge reads 4.1", "no word in common", ""])
        again = client.embed("replay/embed", ["the gauge reads 3.2"])
    first, second, other, empty = found.vectors
    assert again.vectors == [first]
    assert [len(vector) for vector in found.vectors] == [64] * 4
    assert all(math.isclose(math.hypot(*vector), 1, abs_tol=1e-4) for vector in (first, second, other, empty))
    assert _product(first, second) > 0.5 > _product(first, other)
    assert found.usage is not None
    assert found.usage.input == 12


def test_the_number_of_dimensions_is_settable() -> None:
    with SyncClient() as client:
        found = client.embed("replay/embed", ["a gauge"], dimensions=8)
    assert len(found.vectors[0]) == 8


def test_documents_are_ranked_by_shared_words() -> None:
    documents = ["a dam in the north", "where is the water level", "level"]
    with SyncClient() as client:
        ranking = client.rerank("replay/rank", "the water level", documents, top=2)
    assert [row.index for row in ranking.results] == [1, 2]
    assert ranking.results[0].score > ranking.results[1].score


@each("model", ["replay/text", "replay/rank"])
def test_another_packaged_model_says_which_one_embeds(model: str) -> None:
    with SyncClient() as client, pytest.raises(PenstockError, match="replay/embed"):
        client.embed(model, ["a"])


def test_the_embedding_model_does_not_chat() -> None:
    with SyncClient() as client, pytest.raises(PenstockError, match="no packaged model"):
        client.chat("replay/embed", "hello")


def _product(left: list[float], right: list[float]) -> float:
    return sum(one * other for one, other in zip(left, right, strict=True))
