"""Splits the texts of an `embed` call into requests that the provider takes, sends them, and joins the results."""

from __future__ import annotations

import asyncio
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from penstock._client.costs import sum_costs
from penstock._client.embedding_formats import Embeddings
from penstock._engines.engine_interface import DecisionLog
from penstock._engines.model_resolution import resolve_targets
from penstock.errors import InputError, ProviderError
from penstock.events import Usage

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence

    from penstock._engines.model_resolution import Target
    from penstock._engines.router import Router

MAX_PARALLEL_BATCHES = 4
_COUNTED_IN_THREAD = 1_000_000  # bytes of texts whose tokens are not counted on the event loop
T = TypeVar("T")


class BatchLimit(NamedTuple):
    """What a request may hold: the most texts, and the most tokens of all of them; 0 if no limit is known."""

    texts: int
    tokens: int = 0


# By provider or wire format, and a pattern of the model's name. The first row that matches is used.
_LIMITS: tuple[tuple[str, str, BatchLimit], ...] = (
    # "Too many tokens in batch. Max is 16384": https://github.com/aurelio-labs/semantic-router/issues/297
    # 512 texts: https://github.com/raphaelmansuy/edgequake-llm/pull/74
    ("mistral", "*", BatchLimit(512, 16_384)),
    ("upstage", "*", BatchLimit(100, 204_800)),  # https://console.upstage.ai/api/embeddings
    # https://platform.openai.com/docs/api-reference/embeddings/create
    ("openai-embeddings", "*", BatchLimit(2048, 300_000)),
    # https://docs.voyageai.com/reference/embeddings-api
    ("voyage-embeddings", "voyage-4-lite", BatchLimit(1000, 1_000_000)),
    ("voyage-embeddings", "voyage-3.5-lite", BatchLimit(1000, 1_000_000)),
    ("voyage-embeddings", "voyage-[24]", BatchLimit(1000, 320_000)),
    ("voyage-embeddings", "voyage-3.5", BatchLimit(1000, 320_000)),
    ("voyage-embeddings", "*", BatchLimit(1000, 120_000)),
    ("cohere-embeddings", "*", BatchLimit(96)),  # https://docs.cohere.com/reference/embed
    # "at most 100 requests can be in one batch": https://github.com/geldata/gel/issues/9032
    ("gemini-embeddings", "*", BatchLimit(100)),
    # https://cloud.google.com/vertex-ai/generative-ai/docs/embeddings/get-text-embeddings
    ("vertex-embeddings", "*gemini-embedding*", BatchLimit(1)),
    ("vertex-embeddings", "*", BatchLimit(250, 20_000)),
    # https://docs.aws.amazon.com/bedrock/latest/userguide/model-parameters-titan-embed-text.html
    ("bedrock-embeddings", "*amazon.*", BatchLimit(1)),
    # https://docs.aws.amazon.com/bedrock/latest/userguide/model-parameters-embed.html
    ("bedrock-embeddings", "*", BatchLimit(96)),
    ("watsonx-embeddings", "*", BatchLimit(1000)),  # https://cloud.ibm.com/apidocs/watsonx-ai#text-embeddings
)
_DEFAULT_LIMIT = BatchLimit(2048, 300_000)


def find_batch_limit(model: str, router: Router, asked: int | None) -> BatchLimit:
    """Returns what a request may hold: what all targets of the model take, and at most `asked` texts."""
    if asked is not None and asked < 1:
        raise InputError(f"batch_size: expected at least 1, found {asked}")
    limits = [_target_limit(target) for target in resolve_targets(model, router.config, router.env)]
    texts = min(one.texts for one in limits)
    tokens = min((one.tokens for one in limits if one.tokens), default=0)
    return BatchLimit(texts if asked is None else min(texts, asked), tokens)


def _target_limit(target: Target) -> BatchLimit:
    provider = target.provider
    endpoint = provider.endpoint("embeddings", target.model)
    names = {provider.name, provider.similar_to, endpoint.protocol if endpoint is not None else ""}
    rows = (limit for name, models, limit in _LIMITS if name in names and fnmatchcase(target.model, models))
    return next(rows, _DEFAULT_LIMIT)


def split_texts(texts: Sequence[Any], limit: BatchLimit, model: str = "") -> list[Sequence[Any]]:
    """Splits texts into batches within a limit. A text that is too long for any request is a batch of its own.

    Tokens are estimated; the upper bound of the estimate counts.
    """
    if not limit.tokens or _count_bytes(texts) <= limit.tokens:  # a token has at least one byte
        return [texts[start : start + limit.texts] for start in range(0, len(texts), limit.texts)]
    from penstock._tokens.estimate import HybridTokenEstimator  # noqa: PLC0415 — reads tables that most clients do not need

    estimator = HybridTokenEstimator()
    name = model.rpartition("/")[2]
    batches: list[list[Any]] = [[]]
    filled = 0
    for text in texts:
        tokens = estimator.estimate_text(text, name).high if isinstance(text, str) else _count_bytes([text])
        if batches[-1] and (len(batches[-1]) >= limit.texts or filled + tokens > limit.tokens):
            batches.append([])
            filled = 0
        batches[-1].append(text)
        filled += tokens
    return [*batches]


def _count_bytes(texts: Sequence[Any]) -> int:
    """Returns the bytes of texts, and the tokens of inputs that are lists of tokens."""
    sizes = (len(one.encode("utf-8", "replace")) if isinstance(one, str) else len(one) for one in texts)
    return sum(sizes)


async def embed_batches(
    texts: Sequence[Any],
    limit: BatchLimit,
    embed: Callable[[Sequence[Any]], Coroutine[Any, Any, Embeddings]],
    model: str = "",
) -> Embeddings:
    """Embeds the texts in batches, a few at a time. The first error cancels the others."""
    if limit.tokens and _count_bytes(texts) > _COUNTED_IN_THREAD:
        batches = await asyncio.to_thread(split_texts, texts, limit, model)
    else:
        batches = split_texts(texts, limit, model)
    if len(batches) == 1:
        return await embed(texts)
    parallel = asyncio.Semaphore(MAX_PARALLEL_BATCHES)

    async def send(batch: Sequence[Any]) -> Embeddings:
        async with parallel:
            return await embed(batch)

    return _join(await _gather(send(batch) for batch in batches))


async def _gather(work: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    tasks = [asyncio.create_task(one) for one in work]
    try:
        waiting: Awaitable[list[T]] = asyncio.gather(*tasks)
        return await waiting
    except BaseException as error:
        for task in tasks:
            task.cancel()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        if isinstance(error, ProviderError):
            error.partial = not all(isinstance(result, ProviderError) for result in results)
        raise


def _join(results: list[Embeddings]) -> Embeddings:
    first = results[0]
    records = [one.record for one in results if one.record is not None]
    record = DecisionLog(
        records[0].asked if records else "",
        [decision for one in records for decision in one.decisions],
        sum(one.tries for one in records),
        attempts=[attempt for one in records for attempt in one.attempts],
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
