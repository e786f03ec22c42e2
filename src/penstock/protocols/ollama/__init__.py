"""Ollama's own chat and generate. Read only: clients of other protocols are many, and Ollama speaks theirs too."""

from typing import Any

from penstock.codec import Protocol
from penstock.protocols.ollama.decode import OllamaDecoder


def looks(_: str, payload: dict[str, Any]) -> bool:
    """A line has a model, says whether it is the last, and holds a message or a response."""
    return "model" in payload and isinstance(payload.get("done"), bool) and bool({"message", "response"} & set(payload))


PROTOCOL = Protocol("ollama", looks, OllamaDecoder, reads="ndjson")
