"""What is answered in one piece and is no turn: lists of models, counts of tokens, embeddings, rankings."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec

from penstock.gateway.doors import compact, counting, embedding, listing, ollama_models, spent, stored
from penstock.gateway.errands import COUNT
from penstock.http.response_writer import Flow


class Answer(msgspec.Struct, frozen=True):
    """How an answer is made, and the protocol in which it is refused. `params` are what the address says by itself.

    `operation`: what the journal calls it, where it has a row.
    """

    protocol: str
    make: Callable[[Any, Any], Awaitable[bytes | Flow]]
    params: dict[str, str] = {}
    operation: str = ""


ANSWERS: Mapping[tuple[str, str], Answer] = {
    ("GET", "/v1/models"): Answer("openai-chat", listing.listed),
    ("GET", "/v1beta/models"): Answer("gemini", listing.listed, {"shape": "gemini"}),
    ("GET", "/api/tags"): Answer("ollama", listing.listed, {"shape": "ollama"}),
    ("GET", "/vscode/models"): Answer("vscode", listing.editors),
    ("POST", "/vscode/count"): Answer("vscode", counting.editor, operation=COUNT),
    ("GET", "/vscode/usage"): Answer("vscode", spent.today),
    ("POST", "/v1/messages/count_tokens"): Answer("anthropic", counting.messages, operation=COUNT),
    ("POST", "/v1/responses/compact"): Answer("responses", compact.compact),
    ("POST", "/v1/responses/input_tokens"): Answer("responses", compact.input_tokens, operation=COUNT),
    ("POST", "/v1/embeddings"): Answer("openai-chat", embedding.embeddings, operation="embeddings"),
    ("POST", "/v1/rerank"): Answer("openai-chat", embedding.rerank, operation="rerank"),
    ("POST", "/v2/rerank"): Answer("openai-chat", embedding.rerank, operation="rerank"),
    ("POST", "/api/embed"): Answer("ollama", embedding.ollama, operation="embeddings"),
    ("POST", "/api/embeddings"): Answer("ollama", embedding.ollama_one, operation="embeddings"),
    ("POST", "/api/show"): Answer("ollama", ollama_models.shown),
    ("GET", "/api/ps"): Answer("ollama", ollama_models.running),
    ("GET", "/api/version"): Answer("ollama", ollama_models.version),
    **{
        (method, f"/api/{word}"): Answer("ollama", ollama_models.unserved)
        for method, word in (
            ("POST", "pull"),
            ("POST", "push"),
            ("POST", "create"),
            ("POST", "copy"),
            ("DELETE", "delete"),
        )
    },
}
# Gemini's, by the method at the end of the address.
METHODS: Mapping[tuple[str, str], Answer] = {
    ("POST", "countTokens"): Answer("gemini", counting.gemini, operation=COUNT),
    ("POST", "embedContent"): Answer("gemini", embedding.gemini_one, operation="embeddings"),
    ("POST", "batchEmbedContents"): Answer("gemini", embedding.gemini_many, operation="embeddings"),
}
# One model, whose name may have slashes: what stands before it.
_SHOWN = {
    "/v1/models/": Answer("openai-chat", listing.shown),
    "/v1beta/models/": Answer("gemini", listing.shown, {"shape": "gemini"}),
}


def one_model(method: str, path: str) -> tuple[Answer | None, dict[str, str]]:
    """The answer that shows a single model, and its name."""
    if path.startswith(stored.PREFIX):
        return _one_response(method, path)
    for prefix, answer in _SHOWN.items():
        if method == "GET" and path.startswith(prefix):
            return answer, {"model": path.removeprefix(prefix)}
    return None, {}


def _one_response(method: str, path: str) -> tuple[Answer | None, dict[str, str]]:
    id, _, what = path.removeprefix(stored.PREFIX).partition("/")  # noqa: A001 — as the protocol calls it
    make = stored.ROUTES.get((method, what))
    return (Answer("responses", make), {"response": id}) if make is not None and id else (None, {})
