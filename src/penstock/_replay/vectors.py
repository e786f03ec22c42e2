"""The packaged models for embeddings and ranking: `replay/embed` and `replay/rank`.

A vector counts the words of a text, each at a place that its hash gives, and has length 1. So the same text always has
the same vector, and texts that share words are near each other. It knows no meaning.
"""

from __future__ import annotations

import math
import zlib

import msgspec

from penstock._lenient_fields import Object, get_list, get_text
from penstock.errors import InputError

PREFIX = "replay/"
EMBED, RANK = "embed", "rank"
DIMENSIONS = 64
MAX_DIMENSIONS = 4096


def check_model(model: str, expected: str) -> None:
    """Raises if a request does not name the packaged model that answers it."""
    if model.removeprefix(PREFIX) != expected:
        raise InputError(f"the packaged model for this is {PREFIX}{expected}, found {model!r}")


def answer_embeddings(body: Object) -> bytes:
    """Returns the answer to an embeddings request, as OpenAI writes it."""
    texts = [str(text) for text in get_list(body, "input")] or [get_text(body, "input")]
    size = body.get("dimensions")
    dimensions = min(max(size, 1), MAX_DIMENSIONS) if isinstance(size, int) else DIMENSIONS
    tokens = sum(len(text.split()) for text in texts)
    rows = [{"object": "embedding", "index": at, "embedding": embed(text, dimensions)} for at, text in enumerate(texts)]
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    return msgspec.json.encode({"object": "list", "data": rows, "model": body.get("model", ""), "usage": usage})


def answer_ranking(body: Object) -> bytes:
    """Returns the answer to a rerank request, as Cohere writes it. The score is the likeness of the vectors."""
    query = embed(get_text(body, "query"), DIMENSIONS)
    documents = [str(document) for document in get_list(body, "documents")]
    scores = [sum(map(math.prod, zip(query, embed(text, DIMENSIONS), strict=True))) for text in documents]
    best = sorted(range(len(scores)), key=lambda at: (-scores[at], at))
    count = body.get("top_n")
    kept = best[:count] if isinstance(count, int) else best
    rows = [{"index": at, "relevance_score": round(scores[at], 6)} for at in kept]
    return msgspec.json.encode({"id": "replay", "results": rows, "meta": {"billed_units": {"search_units": 1}}})


def embed(text: str, dimensions: int) -> list[float]:
    """Returns the vector of a text. A text without words has the first axis."""
    counts = [0] * dimensions
    for word in text.lower().split():
        counts[zlib.crc32(word.encode("utf-8", "surrogatepass")) % dimensions] += 1
    length = math.sqrt(sum(count * count for count in counts))
    if not length:
        return [1.0, *[0.0] * (dimensions - 1)]
    return [round(count / length, 6) for count in counts]
