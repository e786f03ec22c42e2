"""Cohere Chat, both versions. Read only, because no client uses it."""

from typing import Any

from penstock._codec import Protocol
from penstock._protocols.cohere.decode import CohereDecoder
from penstock._request_profile import USER_FILES, IdentifierRule, Profile

_V2_EVENTS = {"message-start", "content-start", "content-delta", "tool-plan-delta", "tool-call-start", "message-end"}
_V1_EVENTS = {"stream-start", "text-generation", "tool-calls-chunk", "tool-calls-generation", "stream-end"}


def matches_payload(_: str, payload: dict[str, Any]) -> bool:
    """True for an event of either version, or a non-stream answer."""
    if payload.get("event_type") in _V1_EVENTS and "is_finished" in payload:
        return True
    if payload.get("type") in _V2_EVENTS:
        return "delta" in payload
    if "finish_reason" not in payload or "choices" in payload:
        return False
    return isinstance(payload.get("message"), dict) or bool({"generation_id", "chat_history"} & set(payload))


PROTOCOL = Protocol(
    "cohere",
    matches_payload,
    CohereDecoder,
    snake_case=True,
    disables_thinking=True,
    profile=Profile(
        protocol="cohere",
        provider="cohere",
        names=IdentifierRule("A-Za-z0-9_", limit=64, first="A-Za-z_"),
        empty="drop",
        thinking=("budget", "none"),
        holding=USER_FILES,
    ),
)
