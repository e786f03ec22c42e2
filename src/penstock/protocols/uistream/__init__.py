"""The AI SDK's UI message stream (v1): what `useChat` reads."""

from typing import Any

from penstock.codec import Protocol
from penstock.protocols.uistream.decode import UiDecoder
from penstock.protocols.uistream.encode import UiEncoder
from penstock.protocols.uistream.whole import body

KINDS = frozenset({
    "tool-input-available", "tool-input-error", "tool-output-available", "tool-output-error", "source-url",
    "source-document", "message-metadata", "reset-step",
})  # fmt: skip
SPELLED = {"text-delta": "delta", "reasoning-delta": "delta", "error": "errorText", "start": "messageId",
           "tool-input-start": "toolCallId", "tool-input-delta": "inputTextDelta"}  # fmt: skip
FULL = frozenset({"request", "warnings", "usage", "totalUsage", "response", "messageId", "rawFinishReason"})


def looks(_: str, payload: dict[str, Any]) -> bool:
    """What only a UI stream says, or only in its own spelling; the frame around it tells by what it lacks."""
    kind = str(payload.get("type"))
    if kind in KINDS or kind.startswith("data-"):
        return True
    if kind in ("start-step", "finish-step", "finish"):
        return not (FULL | {"reason"}) & set(payload)  # a canonical finish has a reason
    return SPELLED.get(kind) in payload and "index" not in payload


PROTOCOL = Protocol("uistream", looks, UiDecoder, UiEncoder, body=body)
