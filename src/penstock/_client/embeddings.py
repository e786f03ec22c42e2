"""Embeddings and rankings: what is asked and what comes back, in each shape that providers have for them.

A shape is a row of two functions: the body that is sent, and how its answer is read. No provider is named here.
"""

from __future__ import annotations

import struct
from base64 import b64decode
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import msgspec

from penstock._input_limits import NestingError, decode_bounded
from penstock._lenient_fields import Object, as_object, as_objects, get_integer, get_list, get_object
from penstock.errors import provider_error
from penstock.events import Fault, Usage

Body: TypeAlias = dict[str, Any]


class Embeddings(msgspec.Struct, omit_defaults=True):
    """A vector for each text, in the order they were given; `raw` is the provider's whole answer."""

    vectors: list[list[float]]
    model: str = ""
    usage: Usage | None = None
    raw: Any = None
    provider: str = ""
    record: Any = None  # how the answer came to be: `penstock._engines.interface.DecisionLog`


class Ranked(msgspec.Struct):
    """The place of a document in what was given, and how well it fits."""

    index: int
    score: float
    document: str = ""


class Ranking(msgspec.Struct, omit_defaults=True):
    """Documents, the best first."""

    results: list[Ranked]
    model: str = ""
    usage: Usage | None = None
    raw: Any = None
    provider: str = ""
    record: Any = None


class WireFormat(msgspec.Struct, frozen=True):
    """A way to ask, and a way to read."""

    write: Callable[..., Body]
    read: Callable[[Any], tuple[list[Any], Usage | None]]


def decode_answer(data: bytes) -> Any:
    """An answer's JSON; one that is none is an error like any other."""
    try:
        return decode_bounded(data)
    except NestingError as error:
        raise provider_error(Fault("malformed", f"the answer cannot be read: {error}")) from None
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise provider_error(Fault("malformed", "the answer is no JSON")) from None


# ── embeddings ────────────────────────────────────────────────────────────────────────────────────


def _openai(model: str, texts: Sequence[str], **more: Any) -> Body:
    return {"model": model, "input": list(texts), **more}


def _cohere(model: str, texts: Sequence[str], **more: Any) -> Body:
    return {"model": model, "texts": list(texts), "input_type": "search_document", "embedding_types": ["float"], **more}


def _gemini(model: str, texts: Sequence[str], **more: Any) -> Body:
    size = {"outputDimensionality": more.pop("dimensions")} if "dimensions" in more else {}
    rows = [{"model": f"models/{model}", "content": {"parts": [{"text": text}]}, **size, **more} for text in texts]
    return {"requests": rows}


def _vertex(_model: str, texts: Sequence[str], **more: Any) -> Body:
    size = {"outputDimensionality": more.pop("dimensions")} if "dimensions" in more else {}
    return {"instances": [{"content": text} for text in texts], **({"parameters": size} if size else {}), **more}


def _bedrock(_model: str, texts: Sequence[str], **more: Any) -> Body:
    """Amazon's own models take one text, the others a list."""
    return (
        {"inputText": texts[0], **more}
        if len(texts) == 1
        else {"texts": list(texts), "input_type": "search_document", **more}
    )


def _watsonx(_model: str, texts: Sequence[str], **more: Any) -> Body:
    return {"inputs": list(texts), **more}


def _vector(value: Any) -> list[float]:
    if isinstance(value, str):  # base64 of little-endian floats
        data = b64decode(value)
        return list(struct.unpack(f"<{len(data) // 4}f", data))
    return [float(one) for one in value]


def _vectors(answer: Object) -> tuple[list[Any], Usage | None]:
    """Wherever the vectors stand: places, not senders."""
    rows = as_objects(answer.get("data"))
    if rows:
        rows.sort(key=lambda row: row.get("index") or 0)
        return [_vector(row["embedding"]) for row in rows], read_usage(answer)
    kinds = get_object(answer, "embeddings")  # one list for each type of number that was asked for
    many = next((get_list(kinds, name) for name in kinds if kinds[name]), None) or get_list(answer, "embeddings")
    if "embedding" in answer:
        many = [answer["embedding"]]
    many = many or [row.get("embedding") for row in as_objects(answer.get("results"))]
    many = many or [get_object(row, "embeddings") for row in as_objects(answer.get("predictions"))]
    return [_vector(as_object(one).get("values", one)) for one in many], read_usage(answer)


EMBEDDINGS: dict[str, WireFormat] = {
    "openai-embeddings": WireFormat(_openai, _vectors),
    "voyage-embeddings": WireFormat(_openai, _vectors),
    "cohere-embeddings": WireFormat(_cohere, _vectors),
    "gemini-embeddings": WireFormat(_gemini, _vectors),
    "vertex-embeddings": WireFormat(_vertex, _vectors),
    "bedrock-embeddings": WireFormat(_bedrock, _vectors),
    "watsonx-embeddings": WireFormat(_watsonx, _vectors),
}

# ── rankings ──────────────────────────────────────────────────────────────────────────────────────


def _rank(limit: str) -> Callable[..., Body]:
    def write(model: str, query: str, documents: Sequence[str], top: int | None, **more: Any) -> Body:
        return {"model": model, "query": query, "documents": list(documents), **({limit: top} if top else {}), **more}

    return write


def _rank_watsonx(_model: str, query: str, documents: Sequence[str], top: int | None, **more: Any) -> Body:
    given = {"return_options": {"top_n": top}} if top else {}
    return {
        "query": query,
        "inputs": [{"text": text} for text in documents],
        **({"parameters": given} if given else {}),
        **more,
    }


def _score(row: Object) -> float:
    return float(next((row[name] for name in ("relevance_score", "score", "logit") if name in row), 0.0))


def _ranks(answer: Object) -> tuple[list[Any], Usage | None]:
    rows = as_objects(answer.get("results")) or as_objects(answer.get("data")) or as_objects(answer.get("rankings"))
    made = [Ranked(get_integer(row, "index") or 0, _score(row)) for row in rows]
    return sorted(made, key=lambda one: -one.score), read_usage(answer)


RANKINGS: dict[str, WireFormat] = {
    "cohere-rerank": WireFormat(_rank("top_n"), _ranks),
    "voyage-rerank": WireFormat(_rank("top_k"), _ranks),
    "watsonx-rerank": WireFormat(_rank_watsonx, _ranks),
}


def read_usage(answer: Object) -> Usage | None:
    """What it cost, by whichever name."""
    said = get_object(answer, "usage") or get_object(get_object(answer, "meta"), "billed_units") or answer
    for name in ("prompt_tokens", "input_tokens", "total_tokens", "inputTextTokenCount", "input_token_count"):
        found = get_integer(said, name)
        if found is not None:
            return Usage(found)
    return None
