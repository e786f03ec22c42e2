"""The parts of the AI SDK's `fullStream`, versions 4 to 7, and of a provider's `doStream`."""

from typing import Any

from penstock.codec import Encoder, Protocol
from penstock.protocols.aisdk.decode import AisdkDecoder
from penstock.protocols.aisdk.encode import Aisdk5Encoder, Aisdk6Encoder, AisdkEncoder
from penstock.protocols.aisdk.encode4 import Aisdk4Encoder
from penstock.protocols.aisdk.whole import body

ENCODERS: dict[str, type[AisdkEncoder | Aisdk4Encoder]] = {
    "4": Aisdk4Encoder, "5": Aisdk5Encoder, "6": Aisdk6Encoder, "7": AisdkEncoder
}  # fmt: skip
KINDS = frozenset({
    "stream-start", "response-metadata", "step-start", "step-finish", "tool-call", "tool-call-delta", "tool-result",
    "tool-call-streaming-start", "tool-error", "reasoning", "reasoning-signature", "redacted-reasoning", "source",
    "raw",
})  # fmt: skip


def encoder(*, version: str = "7", id: str = "response", model: str = "unknown", created: int = 0) -> Encoder:
    """The encoder of a version."""
    return ENCODERS[version](id=id, model=model, created=created)


def looks(_: str, payload: dict[str, Any]) -> bool:
    """What only a full stream says, or only in its own spelling."""
    kind = payload.get("type")
    if kind in KINDS:
        return "index" not in payload  # a canonical event is numbered
    spelled = {"text-delta": "textDelta", "reasoning-delta": "text", "start-step": "request", "finish": "totalUsage",
               "finish-step": "usage", "tool-input-end": "id"}  # fmt: skip
    return spelled.get(str(kind)) in payload or (kind == "text-delta" and {"id", "text"} <= set(payload))


PROTOCOL = Protocol(
    "aisdk", looks, AisdkDecoder, encoder, reads="ndjson", writes="ndjson", versions=tuple(ENCODERS), body=body
)
