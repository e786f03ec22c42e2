"""Amazon Bedrock's Converse, whatever the model behind it. Read only: no client speaks it."""

from typing import Any

from penstock.codec import Protocol
from penstock.protocols.bedrock.decode import KINDS, BedrockDecoder

BARE = frozenset(kind.decode() for kind in KINDS if kind != b"metadata")


def looks(name: str, payload: dict[str, Any]) -> bool:
    """A frame named after a kind of event, an event under its kind, or a whole answer."""
    if name in BARE or (name.endswith("Exception") and "message" in payload):
        return True
    if "stopReason" in payload and "output" in payload:
        return True
    return any(isinstance(payload.get(kind), dict) for kind in BARE) or (
        name == "metadata" and bool({"usage", "metrics"} & set(payload))
    )


PROTOCOL = Protocol("bedrock", looks, BedrockDecoder, reads="eventstream")
