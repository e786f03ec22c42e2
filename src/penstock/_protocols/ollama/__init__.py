"""Ollama's own chat and generate APIs. Read only, because Ollama also serves protocols that clients already use."""

from typing import Any

from penstock._codec import Protocol
from penstock._protocols.ollama.decode import OllamaDecoder
from penstock._request_profile import USER_FILES, Profile


def matches_payload(_: str, payload: dict[str, Any]) -> bool:
    """True for a line with a model, `done`, and a message or a response."""
    return "model" in payload and isinstance(payload.get("done"), bool) and bool({"message", "response"} & set(payload))


PROTOCOL = Protocol(
    "ollama",
    matches_payload,
    OllamaDecoder,
    reads="ndjson",
    snake_case=True,
    disables_thinking=True,
    profile=Profile(
        protocol="ollama", provider="ollama", thinking=("effort",), holding=USER_FILES, addresses=False, prefills=True
    ),
)
