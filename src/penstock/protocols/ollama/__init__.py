"""Ollama's own chat and generate. Read only: clients of other protocols are many, and Ollama speaks theirs too."""

from typing import Any

from penstock.codec import Protocol
from penstock.protocols.ollama.decode import OllamaDecoder
from penstock.request_profile import USER_FILES, Profile


def looks(_: str, payload: dict[str, Any]) -> bool:
    """A line has a model, says whether it is the last, and holds a message or a response."""
    return "model" in payload and isinstance(payload.get("done"), bool) and bool({"message", "response"} & set(payload))


PROTOCOL = Protocol(
    "ollama",
    looks,
    OllamaDecoder,
    reads="ndjson",
    snake_case=True,
    disables_thinking=True,
    profile=Profile(
        protocol="ollama",
        provider="ollama",
        thinking=("effort",),
        holding=USER_FILES,
        addresses=False,
        prefills=True,
    ),
)
