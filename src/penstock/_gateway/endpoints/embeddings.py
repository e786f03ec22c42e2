"""Embeddings and rerank, in the forms of OpenAI, Gemini, Ollama and Cohere clients."""

from __future__ import annotations

import struct
import time
from base64 import b64encode
from typing import TYPE_CHECKING, Any

import msgspec

from penstock import _lenient_fields as lenient
from penstock import _strict_fields as strict
from penstock._gateway.usage_bounds import TextInput
from penstock.errors import BadRequest

if TYPE_CHECKING:
    from penstock._client.embedding_formats import Embeddings
    from penstock._gateway.endpoints import IncomingRequest
    from penstock._gateway.journal import AuxRequest
    from penstock._gateway.services import Services
    from penstock._lenient_fields import Object

_EMBEDDING_FIELDS = frozenset({"model", "input", "encoding_format"})
_GEMINI_DIMENSIONS = ("outputDimensionality", "output_dimensionality")
_RERANK_FIELDS = frozenset({"model", "query", "documents", "top_n", "top_k", "return_documents", "max_tokens_per_doc"})


async def embed_openai(services: Services, incoming: IncomingRequest) -> bytes:
    """`/v1/embeddings`, as numbers or as base64 of little-endian floats."""
    body = await incoming.offload(incoming.json_body)
    model = incoming.params.get("model") or strict.require_text(body, "model")
    more = {key: value for key, value in body.items() if key not in _EMBEDDING_FIELDS and value is not None}
    found = await _embed_texts(services, incoming, model, _read_inputs(body.get("input")), more)
    packed = body.get("encoding_format") == "base64"
    rows = [
        {"object": "embedding", "index": position, "embedding": _encode_base64(vector) if packed else vector}
        for position, vector in enumerate(found.vectors)
    ]
    usage = dict.fromkeys(("prompt_tokens", "total_tokens"), _input_tokens(found))
    answer = {"id": f"embd-{incoming.id}", "object": "list", "data": rows, "model": model, "usage": usage}
    return msgspec.json.encode(answer)


async def embed_gemini(services: Services, incoming: IncomingRequest) -> bytes:
    """`…:embedContent` and `…:batchEmbedContents`."""
    body, model = await incoming.offload(incoming.json_body), incoming.params["model"]
    batch = incoming.params["method"] == "batchEmbedContents"
    rows = lenient.get_objects(body, "requests") if batch else [body]
    if not rows:
        raise BadRequest("a list of requests", None, "requests")
    texts, more = [_read_content(row) for row in rows], _read_dimensions(rows[0], *_GEMINI_DIMENSIONS)
    found = await _embed_texts(services, incoming, model, texts, more)
    vectors = [{"values": vector} for vector in found.vectors]
    return msgspec.json.encode({"embeddings": vectors} if batch else {"embedding": vectors[0]})


async def embed_ollama(services: Services, incoming: IncomingRequest) -> bytes:
    """`/api/embed`."""
    body = await incoming.offload(incoming.json_body)
    model = strict.require_text(body, "model")
    more = _read_dimensions(body, "dimensions")
    found = await _embed_texts(services, incoming, model, _read_inputs(body.get("input")), more)
    spent = round((time.monotonic() - incoming.started) * 1e9)
    counts = {"total_duration": spent, "load_duration": 0, "prompt_eval_count": _input_tokens(found)}
    return msgspec.json.encode({"model": model, "embeddings": found.vectors, **counts})


async def embed_ollama_legacy(services: Services, incoming: IncomingRequest) -> bytes:
    """`/api/embeddings`, the older form: a single text."""
    body = await incoming.offload(incoming.json_body)
    model = strict.require_text(body, "model")
    found = await _embed_texts(services, incoming, model, [strict.require_text(body, "prompt")], {})
    return msgspec.json.encode({"embedding": found.vectors[0]})


async def rerank_documents(services: Services, incoming: IncomingRequest) -> bytes:
    """`/v1/rerank`. Cohere and Jina call the list `results`, Voyage calls it `data`: clients read either."""
    body = await incoming.offload(incoming.json_body)
    model = strict.require_text(body, "model")
    documents = [_read_document(row, position) for position, row in enumerate(lenient.get_list(body, "documents"))]
    if not documents:
        raise BadRequest("a list of documents", body.get("documents"), "documents")
    top = lenient.get_integer(body, "top_n") or lenient.get_integer(body, "top_k")
    more = {key: value for key, value in body.items() if key not in _RERANK_FIELDS and value is not None}
    query = strict.require_text(body, "query")
    aux_request = await _take_slot(services, incoming, model, TextInput(documents, query, more))
    found = await services.upstream.client.rerank(
        model, query, documents, top, options=services.upstream.options(incoming), extra_body=more
    )
    aux_request.set_answer(found.provider, found.model, found.usage, found.record)
    rows: list[Object] = [{"index": one.index, "relevance_score": one.score} for one in found.results[:top]]
    if body.get("return_documents"):
        for row in rows:
            row["document"] = {"text": documents[row["index"]]}
    fields: Object = {"id": f"rerank-{incoming.id}", "object": "list", "model": model, "results": rows, "data": rows}
    if found.usage is not None:
        fields["usage"] = {"total_tokens": found.usage.input or 0}
    return msgspec.json.encode(fields)


async def _embed_texts(
    services: Services, incoming: IncomingRequest, model: str, texts: list[Any], more: Object
) -> Embeddings:
    aux_request = await _take_slot(services, incoming, model, TextInput(texts, others=more))
    options = services.upstream.options(incoming)
    found = await services.upstream.client.embed(model, texts, options=options, extra_body=more)
    aux_request.set_answer(found.provider, found.model, found.usage, found.record)
    return found


async def _take_slot(services: Services, incoming: IncomingRequest, model: str, input: TextInput) -> AuxRequest:
    """Take a slot, and reserve for the input if the caller is limited. The application frees it."""
    aux_request: AuxRequest = incoming.aux_request
    aux_request.requested_model = model
    aux_request.slot = await services.reserve_texts(incoming, model, input)
    aux_request.headers = aux_request.slot.headers
    return aux_request


def _read_inputs(given: Any) -> list[Any]:
    """Return the inputs: texts, or lists of tokens. A single input may come without a list."""
    if isinstance(given, str) and given:
        return [given]
    rows: list[Any] = given if isinstance(given, list) else []  # pyright: ignore[reportUnknownVariableType]
    if not rows:
        raise BadRequest("a text or a list of them", None if given == [] else given, "input")  # pyright: ignore[reportUnknownArgumentType]
    return [rows] if isinstance(rows[0], int) else rows


def _read_document(row: Any, place: int) -> str:
    text: Any = row if isinstance(row, str) else lenient.as_object(row).get("text")
    if not isinstance(text, str):
        raise BadRequest("a text", row).at(place).at("documents")
    return text


def _read_content(body: Object) -> str:
    parts = lenient.get_objects(lenient.get_object(body, "content"), "parts")
    return "\n".join(lenient.get_text(part, "text") for part in parts)


def _read_dimensions(body: Object, *names: str) -> Object:
    size = next(filter(None, (lenient.get_integer(body, name) for name in names)), None)
    return {"dimensions": size} if size else {}


def _input_tokens(found: Embeddings) -> int:
    return (found.usage.input if found.usage else None) or 0


def _encode_base64(vector: list[float]) -> str:
    return b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()
