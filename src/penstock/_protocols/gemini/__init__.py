"""Gemini: generateContent in both framings, and the Interactions API (read only)."""

from typing import Any

from penstock._codec import Protocol
from penstock._lenient_fields import get_integer, get_objects
from penstock._protocols.gemini.decode import GeminiDecoder
from penstock._protocols.gemini.encode import GeminiEncoder
from penstock._protocols.gemini.encode_objects import ERRORS, build_body, build_error_body
from penstock._request_profile import FileSupport, IdentifierRule, Profile

_CHUNK_KEYS = {"candidates", "usageMetadata", "promptFeedback", "modelVersion", "usage_metadata", "prompt_feedback"}


def matches_payload(_name: str, payload: dict[str, Any]) -> bool:
    """True for the keys of either API, Code Assist's wrapper, or an error in Google's format."""
    if _CHUNK_KEYS & payload.keys() or payload.get("object") == "interaction":
        return True
    if str(payload.get("event_type", "")).startswith(("interaction.", "step.")):
        return True
    inner = payload.get("response")
    if isinstance(inner, dict) and "candidates" in inner:
        return True
    error = payload.get("error")
    return isinstance(error, dict) and isinstance(error.get("code"), int) and isinstance(error.get("status"), str)  # pyright: ignore[reportUnknownMemberType]


# For calls that no Gemini model made. Google's two APIs document two values; this one works at both:
# https://ai.google.dev/gemini-api/docs/thought-signatures#faqs
# https://docs.cloud.google.com/vertex-ai/generative-ai/docs/thought-signatures
UNKNOWN_SIGNATURE = "skip_thought_signature_validator"


def read_priced_tokens(usage: dict[str, Any]) -> dict[str, int]:
    """Returns the tokens of audio, which have prices of their own."""
    # https://ai.google.dev/api/generate-content#ModalityTokenCount
    fields = {"audio_input": "promptTokensDetails", "audio_output": "candidatesTokensDetails"}
    return {name: _count_audio(get_objects(usage, field)) for name, field in fields.items()}


def _count_audio(rows: list[dict[str, Any]]) -> int:
    return sum(get_integer(row, "tokenCount") or 0 for row in rows if row.get("modality") == "AUDIO")


PROTOCOL = Protocol(
    "gemini",
    matches_payload,
    GeminiDecoder,
    GeminiEncoder,
    writes="sse+json",
    body=build_body,
    errors=ERRORS,
    error_body=build_error_body,
    priced_tokens=read_priced_tokens,
    messages_field="contents",
    profile=Profile(
        protocol="gemini",
        provider="google",
        options=("gemini",),
        opens=True,
        empty="drop",
        names=IdentifierRule("A-Za-z0-9_.:-", limit=64, first="A-Za-z_"),
        thinking=("level", "budget", "none"),
        holding=FileSupport(frozenset({"user", "tool", "assistant"})),
        prefills=True,
        signature=UNKNOWN_SIGNATURE,
    ),
)
