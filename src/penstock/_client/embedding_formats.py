"""Embeddings and rankings in the wire formats of all providers: writes request bodies, reads responses.

`EMBEDDINGS` and `RANKINGS` map a wire format to the function that writes its body. One reader reads all formats.
"""

from __future__ import annotations

import struct
from base64 import b64decode
from collections.abc import Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import msgspec

from penstock._client.costs import Cost, CostParts
from penstock._client.parameter_values import check_value
from penstock._engines.engine_interface import DecisionLog
from penstock._input_limits import NestingError, decode_bounded
from penstock._lenient_fields import Object, as_object, as_objects, get_integer, get_list, get_object
from penstock._option_checks import Option
from penstock.errors import InputError, provider_error
from penstock.events import Extra, Fault, Usage

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Body: TypeAlias = dict[str, Any]


class Embeddings(msgspec.Struct, omit_defaults=True):
    """A vector for each text, in the order of the texts; `raw` is the provider's response."""

    vectors: list[list[float]]
    model: str = ""
    usage: Usage | None = None
    raw: Any = None
    provider: str = ""
    record: DecisionLog | None = None  # the router's decisions
    cost_parts: CostParts | None = None

    @property
    def cost(self) -> Cost | None:
        """The cost in US dollars; None if the usage or the price is unknown."""
        return None if self.cost_parts is None else Cost(*self.cost_parts)


class Ranked(msgspec.Struct):
    """The index of a document in the request, and its score."""

    index: int
    score: float
    document: str = ""


class Ranking(msgspec.Struct, omit_defaults=True):
    """Documents with their scores, the best first."""

    results: list[Ranked]
    model: str = ""
    usage: Usage | None = None
    raw: Any = None
    provider: str = ""
    record: DecisionLog | None = None
    cost_parts: CostParts | None = None

    @property
    def cost(self) -> Cost | None:
        """The cost in US dollars; None if the usage or the price is unknown."""
        return None if self.cost_parts is None else Cost(*self.cost_parts)


def decode_answer(data: bytes) -> Any:
    """Returns the JSON of a response. Raises a `ProviderError` if it is not JSON."""
    try:
        return decode_bounded(data)
    except NestingError as error:
        raise provider_error(Fault("malformed", f"the answer cannot be read: {error}")) from None
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise provider_error(Fault("malformed", "the answer is no JSON")) from None


def _is_sequence(value: Any) -> bool:
    return isinstance(value, Iterable) and not isinstance(value, bytes | Mapping)


def read_inputs(texts: Any) -> list[Any]:
    """Returns the texts to embed, or lists of tokens. A single one may come without a list."""
    if isinstance(texts, str):
        return [texts]
    if texts is not None and not isinstance(texts, list | tuple):
        check_value("texts", texts, Option("a text, a list of texts, or tokens", _is_sequence))
    inputs: list[Any] = list(cast("Iterable[Any]", texts or ()))
    for number, one in enumerate(inputs):
        if not isinstance(one, str | int | list | tuple) or isinstance(one, bool):
            raise InputError(f"texts[{number}]: expected a text or tokens, found {type(one).__name__}")
    if not inputs:
        raise InputError("texts: expected at least one text, found none")
    return [inputs] if isinstance(inputs[0], int) else inputs


# ── embeddings ────────────────────────────────────────────────────────────────────────────────────


# `input_type` of a call → the word of a format. Other words are sent as they are.
_INPUT_TYPES = {
    "cohere": {"query": "search_query", "document": "search_document"},
    "gemini": {"query": "RETRIEVAL_QUERY", "document": "RETRIEVAL_DOCUMENT"},
}


def _take_input_type(more: dict[str, Any], words: str) -> str:
    asked: str = more.pop("input_type", "")
    return _INPUT_TYPES[words].get(asked, asked)


def _write_openai(model: str, texts: Sequence[str], **more: Any) -> Body:
    return {"model": model, "input": list(texts), **more}


def _write_cohere(model: str, texts: Sequence[str], **more: Any) -> Body:
    kind, form = _take_input_type(more, "cohere") or "search_document", more.pop("encoding_format", "float")
    size = {"output_dimension": more.pop("dimensions")} if "dimensions" in more else {}
    more.pop("user", None)
    return {"model": model, "texts": list(texts), "input_type": kind, "embedding_types": [form], **size, **more}


def _write_voyage(model: str, texts: Sequence[str], **more: Any) -> Body:
    """Without `encoding_format`, numbers are returned. https://docs.voyageai.com/reference/embeddings-api"""
    size = {"output_dimension": more.pop("dimensions")} if "dimensions" in more else {}
    more.pop("user", None)
    if more.get("encoding_format") == "float":
        del more["encoding_format"]
    return {"model": model, "input": list(texts), **size, **more}


def _drop_unknown(more: dict[str, Any]) -> dict[str, Any]:
    """Returns the fields without those that say only how numbers are written, and for whom."""
    return {name: value for name, value in more.items() if name not in {"encoding_format", "user"}}


def _write_gemini(model: str, texts: Sequence[str], **more: Any) -> Body:
    more = _drop_unknown(more)
    kind = _take_input_type(more, "gemini")
    size = {"outputDimensionality": more.pop("dimensions")} if "dimensions" in more else {}
    fields = {**({"taskType": kind} if kind else {}), **size, **more}
    return {
        "requests": [{"model": f"models/{model}", "content": {"parts": [{"text": text}]}, **fields} for text in texts]
    }


def _write_vertex(_model: str, texts: Sequence[str], **more: Any) -> Body:
    more = _drop_unknown(more)
    kind = _take_input_type(more, "gemini")
    task = {"task_type": kind} if kind else {}
    size = {"parameters": {"outputDimensionality": more.pop("dimensions")}} if "dimensions" in more else {}
    return {"instances": [{"content": text, **task} for text in texts], **size, **more}


def _write_bedrock(model: str, texts: Sequence[str], **more: Any) -> Body:
    """Amazon's models take one text, the others a list."""
    more = _drop_unknown(more)
    kind = _take_input_type(more, "cohere")
    if "amazon." in model or (len(texts) == 1 and "cohere." not in model):
        return {"inputText": texts[0], **more}
    return {"texts": list(texts), "input_type": kind or "search_document", **more}


def _write_watsonx(_model: str, texts: Sequence[str], **more: Any) -> Body:
    more = _drop_unknown(more)
    more.pop("input_type", None)
    return {"inputs": list(texts), **more}


def _read_vector(value: Any) -> list[float]:
    if isinstance(value, str):  # base64 of little-endian floats
        data = b64decode(value)
        return list(struct.unpack(f"<{len(data) // 4}f", data))
    return [float(one) for one in value]


def read_vectors(answer: Object) -> list[list[float]]:
    """Returns the vectors of a response, wherever it has them."""
    rows = as_objects(answer.get("data"))
    if rows:
        rows.sort(key=lambda row: row.get("index") or 0)
        return [_read_vector(row["embedding"]) for row in rows]
    kinds = get_object(answer, "embeddings")  # one list for each requested type of number
    many = next((get_list(kinds, name) for name in kinds if kinds[name]), None) or get_list(answer, "embeddings")
    if "embedding" in answer:
        many = [answer["embedding"]]
    many = many or [row.get("embedding") for row in as_objects(answer.get("results"))]
    many = many or [get_object(row, "embeddings") for row in as_objects(answer.get("predictions"))]
    return [_read_vector(as_object(one).get("values", one)) for one in many]


EMBEDDINGS: dict[str, Callable[..., Body]] = {
    "openai-embeddings": _write_openai,
    "voyage-embeddings": _write_voyage,
    "cohere-embeddings": _write_cohere,
    "gemini-embeddings": _write_gemini,
    "vertex-embeddings": _write_vertex,
    "bedrock-embeddings": _write_bedrock,
    "watsonx-embeddings": _write_watsonx,
}

# ── rankings ──────────────────────────────────────────────────────────────────────────────────────


def _write_rerank(limit: str, model: str, query: str, documents: Sequence[str], top: int | None, **more: Any) -> Body:
    return {"model": model, "query": query, "documents": list(documents), **({limit: top} if top else {}), **more}


def _rerank_watsonx(_model: str, query: str, documents: Sequence[str], top: int | None, **more: Any) -> Body:
    limit = {"parameters": {"return_options": {"top_n": top}}} if top else {}
    return {"query": query, "inputs": [{"text": text} for text in documents], **limit, **more}


def _read_score(row: Object) -> float:
    return float(next((row[name] for name in ("relevance_score", "score", "logit") if name in row), 0.0))


def read_ranking(answer: Object) -> list[Ranked]:
    """Returns the documents of a response, the best first."""
    rows = as_objects(answer.get("results")) or as_objects(answer.get("data")) or as_objects(answer.get("rankings"))
    results = [Ranked(get_integer(row, "index") or 0, _read_score(row)) for row in rows]
    return sorted(results, key=lambda one: -one.score)


RANKINGS: dict[str, Callable[..., Body]] = {
    "cohere-rerank": partial(_write_rerank, "top_n"),
    "voyage-rerank": partial(_write_rerank, "top_k"),
    "watsonx-rerank": _rerank_watsonx,
}
_COUNTS = ("prompt_tokens", "input_tokens", "total_tokens", "inputTextTokenCount", "input_token_count")


def read_usage(answer: Object) -> Usage | None:
    """Returns the tokens that a response counts, under any of the providers' names, and units that are billed."""
    billed = get_object(get_object(answer, "meta"), "billed_units")
    usage = get_object(answer, "usage") or billed or answer
    counts = (get_integer(usage, name) for name in _COUNTS)
    count = next((count for count in counts if count is not None), None)
    extra: Extra | None = {"cohere": {"billed_units": billed}} if billed else None
    return None if count is None and extra is None else Usage(count, extra=extra)
