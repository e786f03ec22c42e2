"""Embeddings in batches and in the words of each wire format; rankings that are billed by other units than tokens."""

from __future__ import annotations

import struct
from base64 import b64encode
from typing import TYPE_CHECKING, Any

import pytest

from penstock import providers
from penstock.client import SyncClient
from penstock.errors import InputError, InvalidRequest
from penstock.testing import Reply, scripted
from tests.support.client_parts import (
    EMBEDDINGS,
    RANKINGS,
    BatchLimit,
    find_batch_limit,
    read_usage,
    read_vectors,
    split_texts,
)
from tests.support.each_case import each

if TYPE_CHECKING:
    from penstock.testing import ReceivedRequest


def embed_by_length(seen: ReceivedRequest) -> Reply:
    """Each text's vector is its length, so that the order of the answers shows."""
    rows = [{"index": at, "embedding": [float(len(text))]} for at, text in enumerate(seen.json["input"])]
    return Reply.body({"data": rows, "usage": {"prompt_tokens": len(rows)}})


def config(url: str, **more: Any) -> dict[str, Any]:
    return {"providers": {"openai": {"base_url": f"{url}/v1", "key": "k"}}, "retries": 0, **more}


@each("count, size, sent", [(5, 2, [2, 2, 1]), (4, 4, [4]), (1, None, [1]), (2050, None, [2048, 2])])
def test_texts_are_sent_in_batches_and_joined_in_order(count: int, size: int | None, sent: list[int]) -> None:
    texts = ["x" * (number % 7 + 1) for number in range(count)]
    with scripted(embed_by_length) as up, SyncClient(config(up.url), env={}) as client:
        found = client.embed("openai/e", texts, batch_size=size)
        assert sorted((len(seen.json["input"]) for seen in up.requests), reverse=True) == sent
        assert client.spending.total.calls == len(sent)
    assert [vector[0] for vector in found.vectors] == [len(text) for text in texts]
    assert found.usage is not None
    assert found.usage.input == count
    assert found.record is not None
    assert found.record.tries == len(sent)
    assert len([one for one in found.record.decisions if one.what == "open"]) == len(sent)


MAX_PARALLEL_BATCHES = 4
WORDS = (
    "the height of the water in the harbour " * 100
)  # 801 tokens: each word is one in cl100k_base, and the last space
# a list of texts or of lists of tokens → how many of them are in each request
LONG: dict[str, tuple[list[Any], list[int]]] = {
    "texts": ([WORDS] * 700, []),
    "lists of tokens": ([[1] * 8000] * 80, [37, 37, 6]),
    "one too long": (["a", WORDS * 400, "b"], [1, 1, 1]),
}


@each("case", LONG)
def test_a_request_holds_at_most_so_many_tokens(case: str) -> None:
    texts, sizes = LONG[case]
    with scripted(embed_by_length) as up, SyncClient(config(up.url), env={}) as client:
        found = client.embed("openai/text-embedding-3-small", texts)
        sent = [seen.json["input"] for seen in up.requests]
    assert [vector[0] for vector in found.vectors] == [len(text) for text in texts]
    assert len(sent) > 1
    if sizes:
        assert sorted(map(len, sent), reverse=True) == sizes
    else:
        assert all(len(batch) * 801 <= 300_000 for batch in sent)
        assert len(sent) <= 4


LIMITS: dict[str, tuple[str, str, BatchLimit]] = {
    "openai": ("openai", "text-embedding-3-large", BatchLimit(2048, 300_000)),
    "mistral": ("mistral", "mistral-embed", BatchLimit(512, 16_384)),
    "voyage": ("voyage", "voyage-4", BatchLimit(1000, 320_000)),
    "voyage lite": ("voyage", "voyage-3.5-lite", BatchLimit(1000, 1_000_000)),
    "voyage large": ("voyage", "voyage-4-large", BatchLimit(1000, 120_000)),
    "cohere": ("cohere", "embed-v4.0", BatchLimit(96)),
    "gemini": ("gemini", "gemini-embedding-001", BatchLimit(100)),
}


@each("case", LIMITS)
def test_the_limits_of_vendors(case: str) -> None:
    name, model, limit = LIMITS[case]
    with SyncClient({"providers": {name: {"key": "k"}}}, env={}) as client:
        assert find_batch_limit(f"{name}/{model}", client.router, None) == limit
        assert find_batch_limit(f"{name}/{model}", client.router, 7) == BatchLimit(7, limit.tokens)


def test_fallbacks_share_the_lowest_limits() -> None:
    given = {
        "providers": {"openai": {"key": "k"}, "cohere": {"key": "k"}},
        "aliases": {"both": ["openai/text-embedding-3-small", "cohere/embed-v4.0"]},
    }
    with SyncClient(given, env={}) as client:
        assert find_batch_limit("both", client.router, None) == BatchLimit(96, 300_000)


def test_short_texts_are_not_counted() -> None:
    assert split_texts(["a"] * 5, BatchLimit(2, 300_000)) == [["a", "a"], ["a", "a"], ["a"]]
    assert split_texts(["\ud800"], BatchLimit(2, 300_000)) == [["\ud800"]]


def test_only_a_few_batches_are_sent_at_once() -> None:
    with scripted(Reply.body({}).stall()) as up, SyncClient(config(up.url), env={}) as client:
        with pytest.raises(Exception, match="timeout"):
            client.embed("openai/e", ["x"] * 20, batch_size=1, timeout=0.5)
        assert len(up.requests) == MAX_PARALLEL_BATCHES


def test_the_first_error_ends_all_batches() -> None:
    def refuse(seen: ReceivedRequest) -> Reply:
        is_bad = "bad" in seen.json["input"]
        return Reply.error("openai-chat", 400, "no") if is_bad else embed_by_length(seen).stall()

    with scripted(refuse) as up, SyncClient(config(up.url), env={}) as client, pytest.raises(InvalidRequest):
        client.embed("openai/e", ["good", "bad", "good", "good", "good", "good"], batch_size=1)
    assert len(up.requests) <= MAX_PARALLEL_BATCHES + 1


@each("wrong", [0, -3])
def test_a_batch_has_at_least_one_text(wrong: int) -> None:
    with (
        SyncClient({"providers": {"openai": {"key": "k"}}}, env={}) as client,
        pytest.raises(InputError, match="batch_size"),
    ):
        client.embed("openai/e", "a", batch_size=wrong)


SINGLE = {"amazon.titan-embed-text-v2:0": [1, 1, 1], "cohere.embed-english-v3": [3]}


@each("model", SINGLE)
def test_models_that_take_one_text_get_one(model: str) -> None:
    def embed(seen: ReceivedRequest) -> Reply:
        many = len(seen.json.get("texts", "1"))
        return Reply.body({"embeddings": [[1.0]] * many} if "texts" in seen.json else {"embedding": [1.0]})

    account = {"base_url": "", "key": "k", "like": "bedrock"}
    with scripted(embed) as up, SyncClient({"providers": {"up": {**account, "base_url": up.url}}}, env={}) as client:
        assert client.embed(f"up/{model}", ["a", "b", "c"]).vectors == [[1.0]] * 3
    assert [len(seen.json.get("texts", "1")) for seen in up.requests] == SINGLE[model]


# format → the body of a query with all parameters
WRITTEN: dict[str, dict[str, Any]] = {
    "openai-embeddings": {"model": "m", "input": ["a"], "dimensions": 8, "encoding_format": "base64", "input_type": "query", "user": "u"},
    "voyage-embeddings": {"model": "m", "input": ["a"], "output_dimension": 8, "encoding_format": "base64", "input_type": "query"},
    "cohere-embeddings": {"model": "m", "texts": ["a"], "output_dimension": 8, "embedding_types": ["base64"], "input_type": "search_query"},
    "gemini-embeddings": {"requests": [{"model": "models/m", "content": {"parts": [{"text": "a"}]}, "taskType": "RETRIEVAL_QUERY", "outputDimensionality": 8}]},
    "vertex-embeddings": {"instances": [{"content": "a", "task_type": "RETRIEVAL_QUERY"}], "parameters": {"outputDimensionality": 8}},
    "bedrock-embeddings": {"inputText": "a", "dimensions": 8},
    "watsonx-embeddings": {"inputs": ["a"], "dimensions": 8},
}  # fmt: skip


def test_every_format_is_tried() -> None:
    assert set(WRITTEN) == set(EMBEDDINGS)


@each("name", WRITTEN)
def test_parameters_in_the_words_of_each_format(name: str) -> None:
    body = EMBEDDINGS[name]("m", ["a"], dimensions=8, encoding_format="base64", input_type="query", user="u")
    assert body == WRITTEN[name]


PACKED = b64encode(struct.pack("<2f", 1.0, 2.0)).decode()


@each(
    "answer", [{"data": [{"index": 0, "embedding": PACKED}]}, {"embeddings": {"base64": [PACKED]}}]
)  # fmt: skip
def test_base64_gives_the_same_vectors(answer: Any) -> None:
    assert read_vectors(answer) == [[1.0, 2.0]]


USAGES: dict[str, tuple[dict[str, Any], int | None, dict[str, Any]]] = {
    "search units": ({"meta": {"billed_units": {"search_units": 2}}}, None, {"search_units": 2}),
    "tokens": ({"meta": {"billed_units": {"input_tokens": 7}}}, 7, {"input_tokens": 7}),
    "usage": ({"usage": {"total_tokens": 9}}, 9, {}),
}


@each("case", USAGES)
def test_billed_units_are_usage(case: str) -> None:
    answer, tokens, billed = USAGES[case]
    usage = read_usage(answer)
    assert usage is not None
    assert usage.input == tokens
    assert ((usage.extra or {}).get("cohere", {}).get("billed_units") or {}) == billed
    assert read_usage({"results": []}) is None


def test_a_ranking_billed_by_searches_has_usage() -> None:
    answer = {"results": [{"index": 0, "relevance_score": 0.9}], "meta": {"billed_units": {"search_units": 1}}}
    with scripted(Reply.body(answer)) as up:
        account = {"base_url": f"{up.url}/v2", "key": "k"}
        with SyncClient({"providers": {"cohere": account}}, env={}) as client:
            found = client.rerank("cohere/rerank-v3.5", "q", ["d"])
            assert client.spending.total.unknown == 0
    assert found.usage is not None
    assert found.usage.extra == {"cohere": {"billed_units": {"search_units": 1}}}
    assert set(RANKINGS) == {"cohere-rerank", "voyage-rerank", "watsonx-rerank"}


def test_facts_of_a_model_at_a_provider_of_ones_own() -> None:
    own, made = providers.model("own-provider", "gpt-4o"), providers.model("openai", "gpt-4o")
    assert (own.provider, own.context, own.capabilities) == ("own-provider", made.context, made.capabilities)
    assert own.prices is None
    assert providers.model("own-provider", "never-heard-of").id == "never-heard-of"
