"""Gemini: generateContent in both framings, and the Interactions API (read only)."""

from typing import Any

from penstock.codec import Protocol
from penstock.protocols.gemini.body import ERRORS, error_body, fold_body
from penstock.protocols.gemini.decode import GeminiDecoder
from penstock.protocols.gemini.encode import GeminiEncoder

KEYS = frozenset({"candidates", "usageMetadata", "promptFeedback", "modelVersion", "usage_metadata", "prompt_feedback"})


def looks(_name: str, payload: dict[str, Any]) -> bool:
    """Either API's keys, Code Assist's wrapper, or an error as Google writes it."""
    if KEYS & payload.keys() or payload.get("object") == "interaction":
        return True
    if str(payload.get("event_type", "")).startswith(("interaction.", "step.")):
        return True
    inner = payload.get("response")
    if isinstance(inner, dict) and "candidates" in inner:
        return True
    error = payload.get("error")
    return isinstance(error, dict) and isinstance(error.get("code"), int) and isinstance(error.get("status"), str)  # pyright: ignore[reportUnknownMemberType]


PROTOCOL = Protocol(
    "gemini",
    looks,
    GeminiDecoder,
    GeminiEncoder,
    writes="sse+json",
    body=fold_body,
    errors=ERRORS,
    error_body=error_body,
)
