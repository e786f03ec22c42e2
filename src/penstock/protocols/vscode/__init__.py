"""The parts of a VS Code language-model reply: typed objects, and an NDJSON form of them for a thin client."""

from typing import Any

from penstock.codec import Protocol
from penstock.protocols.vscode.decode import VSCodeDecoder
from penstock.protocols.vscode.encode import NAME, VSCodeEncoder
from penstock.protocols.vscode.whole import body
from penstock.protocols.vscode.wire import KINDS


def looks(_: str, payload: dict[str, Any]) -> bool:
    """Whether a payload is of this protocol."""
    return payload.get("kind") in KINDS and "type" not in payload


PROTOCOL = Protocol(NAME, looks, VSCodeDecoder, VSCodeEncoder, reads="ndjson", writes="ndjson", body=body)
