"""Embeddings and rankings, in the shapes of those who ask for them."""

from __future__ import annotations

import struct
import time
from base64 import b64encode
from typing import TYPE_CHECKING, Any

import msgspec

from penstock import lenient_fields as lenient
from penstock import strict_fields as strict
from penstock.errors import BadRequest

if TYPE_CHECKING:
    from penstock.client.embeddings import Embeddings
    from penstock.gateway.aux_requests import Errand
    from penstock.gateway.endpoints import Visit
    from penstock.gateway.services import Services
    from penstock.lenient_fields import Object

_SAID = frozenset({"model", "input", "encoding_format"})
_RANKED = frozenset({"model", "query", "documents", "top_n", "top_k", "return_documents", "max_tokens_per_doc"})


async def embeddings(services: Services, visit: Visit) -> bytes:
    """`/v1/embeddings`, as numbers or as base64 of little-endian floats."""
    body = await visit.offload(visit.body)
    model = visit.params.get("model") or strict.require_text(body, "model")
    more = {key: value for key, value in body.items() if key not in _SAID and value is not None}
    found = await _embed(services, visit, model, _inputs(body.get("input")), more)
    packed = body.get("encoding_format") == "base64"
    rows = [
        {"object": "embedding", "index": place, "embedding": _packed(vector) if packed else vector}
        for place, vector in enumerate(found.vectors)
    ]
    count = (found.usage.input if found.usage else None) or 0
    usage = {"prompt_tokens": count, "total_tokens": count}
    return msgspec.json.encode(
        {"id": f"embd-{visit.id}", "object": "list", "data": rows, "model": model, "usage": usage}
    )


async def gemini_one(services: Services, visit: Visit) -> bytes:
    """`…:embedContent`."""
    body = await visit.offload(visit.body)
    found = await _embed(services, visit, visit.params["model"], [_content(body)], _sized(body))
    return msgspec.json.encode({"embedding": {"values": found.vectors[0]}})


async def gemini_many(services: Services, visit: Visit) -> bytes:
    """`…:batchEmbedContents`."""
    rows = lenient.get_objects(await visit.offload(visit.body), "requests")
    if not rows:
        raise BadRequest("a list of requests", None, "requests")
    found = await _embed(services, visit, visit.params["model"], [_content(row) for row in rows], _sized(rows[0]))
    return msgspec.json.encode({"embeddings": [{"values": vector} for vector in found.vectors]})


async def ollama(services: Services, visit: Visit) -> bytes:
    """`/api/embed`."""
    body = await visit.offload(visit.body)
    model = strict.require_text(body, "model")
    size = lenient.get_integer(body, "dimensions")
    found = await _embed(services, visit, model, _inputs(body.get("input")), {"dimensions": size} if size else {})
    spent = round((time.monotonic() - visit.started) * 1e9)
    count = (found.usage.input if found.usage else None) or 0
    return msgspec.json.encode({
        "model": model, "embeddings": found.vectors, "total_duration": spent, "load_duration": 0,
        "prompt_eval_count": count,
    })  # fmt: skip


async def ollama_one(services: Services, visit: Visit) -> bytes:
    """`/api/embeddings`, the older one: a single text."""
    body = await visit.offload(visit.body)
    model = strict.require_text(body, "model")
    found = await _embed(services, visit, model, [strict.require_text(body, "prompt")], {})
    return msgspec.json.encode({"embedding": found.vectors[0]})


async def rerank(services: Services, visit: Visit) -> bytes:
    """`/v1/rerank`. Cohere and Jina call the list `results`, Voyage calls it `data`: clients read either."""
    body = await visit.offload(visit.body)
    model = strict.require_text(body, "model")
    documents = [_document(row, place) for place, row in enumerate(lenient.get_list(body, "documents"))]
    if not documents:
        raise BadRequest("a list of documents", body.get("documents"), "documents")
    top = lenient.get_integer(body, "top_n") or lenient.get_integer(body, "top_k")
    more = {key: value for key, value in body.items() if key not in _RANKED and value is not None}
    errand, query = _entered(services, visit, model), strict.require_text(body, "query")
    found = await services.client.rerank(model, query, documents, top, options=services.options(visit), **more)
    errand.met(found.provider, found.model, found.usage, found.record)
    rows: list[Object] = [{"index": one.index, "relevance_score": one.score} for one in found.results[:top]]
    if body.get("return_documents"):
        for row in rows:
            row["document"] = {"text": documents[row["index"]]}
    made: Object = {"id": f"rerank-{visit.id}", "object": "list", "model": model, "results": rows, "data": rows}
    if found.usage is not None:
        made["usage"] = {"total_tokens": found.usage.input or 0}
    return msgspec.json.encode(made)


async def _embed(services: Services, visit: Visit, model: str, texts: list[Any], more: Object) -> Embeddings:
    errand = _entered(services, visit, model)
    found = await services.client.embed(model, texts, options=services.options(visit), **more)
    errand.met(found.provider, found.model, found.usage, found.record)
    return found


def _entered(services: Services, visit: Visit, model: str) -> Errand:
    """The errand, with its place among the limits; whoever made it leaves that again."""
    errand: Errand = visit.errand
    errand.asked = model
    errand.ticket = services.enter(visit, model)
    return errand


def _inputs(given: Any) -> list[Any]:
    """Texts, or lists of tokens; one of either may come without a list around it."""
    if isinstance(given, str) and given:
        return [given]
    rows: list[Any] = given if isinstance(given, list) else []  # pyright: ignore[reportUnknownVariableType]
    if not rows:
        raise BadRequest("a text or a list of them", None if given == [] else given, "input")  # pyright: ignore[reportUnknownArgumentType]
    return [rows] if isinstance(rows[0], int) else rows


def _document(row: Any, place: int) -> str:
    text: Any = row if isinstance(row, str) else lenient.as_object(row).get("text")
    if not isinstance(text, str):
        raise BadRequest("a text", row).at(place).at("documents")
    return text


def _content(body: Object) -> str:
    parts = lenient.get_objects(lenient.get_object(body, "content"), "parts")
    return "\n".join(lenient.get_text(part, "text") for part in parts)


def _sized(body: Object) -> Object:
    size = lenient.get_integer(body, "outputDimensionality") or lenient.get_integer(body, "output_dimensionality")
    return {"dimensions": size} if size else {}


def _packed(vector: list[float]) -> str:
    return b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()
