"""Cohere Chat, both versions. Read only: no client speaks it."""

from typing import Any

from penstock.codec import Protocol
from penstock.protocols.cohere.decode import CohereDecoder
from penstock.request_profile import USER_FILES, IdentifierRule, Profile

V2 = frozenset({"message-start", "content-start", "content-delta", "tool-plan-delta", "tool-call-start", "message-end"})
V1 = frozenset({"stream-start", "text-generation", "tool-calls-chunk", "tool-calls-generation", "stream-end"})


def looks(_: str, payload: dict[str, Any]) -> bool:
    """An event of either version, or a whole answer."""
    if payload.get("event_type") in V1 and "is_finished" in payload:
        return True
    if payload.get("type") in V2:
        return "delta" in payload
    return "finish_reason" in payload and "choices" not in payload and (
        isinstance(payload.get("message"), dict) or bool({"generation_id", "chat_history"} & set(payload))
    )  # fmt: skip


PROTOCOL = Protocol(
    "cohere",
    looks,
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
