"""Splits the texts of an `embed` call into requests that the provider takes, sends them, and joins the results."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, TypeVar

from penstock._client.costs import sum_costs
from penstock._client.embedding_formats import Embeddings
from penstock._engines.engine_interface import DecisionLog
from penstock._engines.model_resolution import resolve_targets
from penstock.errors import InputError
from penstock.events import Usage

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence

    from penstock._engines.model_resolution import Target
    from penstock._engines.router import Router

MAX_PARALLEL_BATCHES = 4
_ONE = 1
# The most texts in a request, by the wire format of the endpoint.
_MAX_TEXTS = {
    "openai-embeddings": 2048,  # https://platform.openai.com/docs/api-reference/embeddings/create
    "voyage-embeddings": 1000,  # https://docs.voyageai.com/reference/embeddings-api
    "cohere-embeddings": 96,  # https://docs.cohere.com/reference/embed
    "gemini-embeddings": 100,  # https://ai.google.dev/api/embeddings
    "vertex-embeddings": 250,  # https://cloud.google.com/vertex-ai/generative-ai/docs/embeddings/get-text-embeddings
    "bedrock-embeddings": 96,  # https://docs.aws.amazon.com/bedrock/latest/userguide/model-parameters-embed.html
    "watsonx-embeddings": 1000,  # https://cloud.ibm.com/apidocs/watsonx-ai#text-embeddings
}
# Models that take one text: https://cloud.google.com/vertex-ai/generative-ai/docs/embeddings/get-text-embeddings and
# https://docs.aws.amazon.com/bedrock/latest/userguide/model-parameters-titan-embed-text.html
_SINGLE = {"vertex-embeddings": "gemini-embedding", "bedrock-embeddings": "amazon."}
T = TypeVar("T")


def find_batch_size(model: str, router: Router, asked: int | None) -> int:
    """Returns how many texts go into a request: as many as all targets of the model take, and at most `asked`."""
    if asked is not None and asked < 1:
        raise InputError(f"batch_size: expected at least 1, found {asked}")
    limits = [_max_texts(target) for target in resolve_targets(model, router.config, router.env)]
    return min([*limits, *([] if asked is None else [asked])])


def _max_texts(target: Target) -> int:
    endpoint = target.provider.endpoint("embeddings", target.model)
    wire_format = endpoint.protocol if endpoint is not None else ""
    single = _SINGLE.get(wire_format)
    return _ONE if single and single in target.model else _MAX_TEXTS.get(wire_format, 2048)


async def embed_batches(
    texts: Sequence[Any], size: int, embed: Callable[[Sequence[Any]], Coroutine[Any, Any, Embeddings]]
) -> Embeddings:
    """Embeds the texts in batches, a few at a time. The first error cancels the others."""
    batches = [texts[start : start + size] for start in range(0, len(texts), size)]
    if len(batches) == 1:
        return await embed(texts)
    limit = asyncio.Semaphore(MAX_PARALLEL_BATCHES)

    async def send(batch: Sequence[Any]) -> Embeddings:
        async with limit:
            return await embed(batch)

    return _join(await _gather(send(batch) for batch in batches))


async def _gather(work: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    tasks = [asyncio.create_task(one) for one in work]
    try:
        waiting: Awaitable[list[T]] = asyncio.gather(*tasks)
        return await waiting
    except BaseException:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        raise


def _join(results: list[Embeddings]) -> Embeddings:
    first = results[0]
    records = [one.record for one in results if one.record is not None]
    record = DecisionLog(
        records[0].asked if records else "",
        [decision for one in records for decision in one.decisions],
        sum(one.tries for one in records),
    )
    counts = [one.usage.input for one in results if one.usage is not None and one.usage.input is not None]
    cost = sum_costs(one.cost for one in results)
    return Embeddings(
        [vector for one in results for vector in one.vectors],
        first.model,
        Usage(sum(counts)) if counts else None,
        [one.raw for one in results],
        first.provider,
        record,
        None if cost is None else cost.parts,
    )
