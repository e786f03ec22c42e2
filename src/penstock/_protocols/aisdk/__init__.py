"""The parts of the AI SDK's `fullStream`, versions 4 to 7, and of a provider's `doStream`.

The decoder reads all versions. It also reads UI message chunks, because real programs mix the spellings.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from penstock import _lenient_fields as lenient
from penstock._aisdk import PENSTOCK
from penstock._aisdk.decode import ChunkDecoder
from penstock._codec import Encoder, Protocol
from penstock._lenient_json import decode_trusted
from penstock._protocols.aisdk.encode import Aisdk4Encoder, Aisdk5Encoder, Aisdk6Encoder, AisdkEncoder
from penstock._request_profile import USER_FILES, Profile

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock._framing.base import Frame
    from penstock._lenient_fields import Object

ENCODERS = {str(encoder.version): encoder for encoder in (Aisdk4Encoder, Aisdk5Encoder, Aisdk6Encoder, AisdkEncoder)}
_V4_TYPES = "step-start step-finish tool-call-delta tool-call-streaming-start reasoning-signature redacted-reasoning"
_TYPES = frozenset(
    f"{_V4_TYPES} stream-start response-metadata tool-call tool-result tool-error reasoning source raw".split()
)
# chunk type → a field that only full streams have
_FIELDS = {
    "text-delta": "textDelta",
    "reasoning-delta": "text",
    "start-step": "request",
    "finish": "totalUsage",
    "finish-step": "usage",
    "tool-input-end": "id",
}


class AisdkDecoder(ChunkDecoder):
    """Reads the parts of all versions."""

    protocol = "aisdk"


def create_encoder(*, version: str = "7", id: str = "response", model: str = "unknown", created: int = 0) -> Encoder:
    """Creates the encoder of a version."""
    return ENCODERS[version](id=id, model=model, created=created)


def is_full_stream_part(_: str, payload: Object) -> bool:
    """True for a chunk type, or the spelling of one, that only full streams have."""
    kind = payload.get("type")
    if kind in _TYPES:
        return "index" not in payload  # canonical events have an index
    return _FIELDS.get(str(kind)) in payload or (kind == "text-delta" and {"id", "text"} <= set(payload))


# ── the non-stream body: a result of `generateText` ───────────────────────────────────────────────

_TOOL_TYPES = "tool-result tool-approval-request tool-approval-response tool-output-denied"
_CONTENT_TYPES = frozenset(f"{_TOOL_TYPES} source file reasoning-file custom steering-message".split())


def build_body(frames: Sequence[Frame]) -> bytes:
    """Builds the body from the encoder's frames, so that stream and body cannot disagree."""
    builder = _ResultBuilder()
    for _, data in frames:
        part = lenient.as_object(decode_trusted(data))  # unknown parts were passed through as they came
        if not builder.add(lenient.get_text(part, "type"), part):
            return msgspec.json.encode({"error": part.get("error", part.get("reason", "aborted"))})
    return msgspec.json.encode({**builder.result, "content": builder.finish()})


class _ResultBuilder:
    """Collects the content: text and reasoning by id, calls in the order in which they started."""

    def __init__(self) -> None:
        self.result: Object = {"warnings": []}
        self._content: list[Object] = []
        self._blocks: dict[str, Object] = {}  # text and reasoning
        self._positions: dict[int, int] = {}  # of the blocks, by identity
        self._texts: dict[int, list[str]] = {}  # of the blocks, by identity
        self._calls: dict[str, Object] = {}

    def add(self, kind: str, part: Object) -> bool:
        """Adds a part; False if it ends the turn with an error."""
        error = lenient.get_object(part, "error")
        if kind == "error" and "toolName" in error:
            self._add_call(_refused_call(error))
        elif kind in ("error", "abort"):
            return False
        elif kind.startswith(("text-", "reasoning", "redacted-")) and kind != "reasoning-file":
            self._add_text("text" if kind.startswith("text") else "reasoning", part)
        elif kind in ("tool-input-start", "tool-call-streaming-start"):
            self._add_call({"type": "tool-call"}, lenient.get_text(part, "id", "toolCallId"))
        elif kind in ("tool-call", "tool-error"):
            self._add_call(part)
        elif kind in _CONTENT_TYPES:
            self._content.append(self._resolve_citation(part))
        elif kind in ("finish-step", "step-finish", "finish"):
            self.result.update({key: value for key, value in part.items() if key not in ("type", "performance")})
        return True

    def finish(self) -> list[Object]:
        """Returns the content without empty parts."""
        for part in self._content:
            if id(part) in self._texts:
                part["text"] = "".join(self._texts[id(part)])
        return [part for part in self._content if len(part) > 1]

    def _add_call(self, part: Object, call: str = "") -> None:
        call = call or lenient.get_text(part, "toolCallId")
        known = self._calls.get(call)
        if known is None or len(known) > 1:
            self._content.append(part)
            self._calls.setdefault(call, part)
        else:
            known.update(part)

    def _add_text(self, kind: str, part: Object) -> None:
        """Adds to the block of an id. Version 4 has no ids: it continues the last block of the same kind."""
        block = self._blocks.get(f"{kind} {part.get('id')}")
        last = self._content[-1] if self._content else {}
        if block is None and "id" not in part and last.get("type") == kind and "providerMetadata" not in last:
            block = last
        if block is None:
            fresh: Object = {"type": kind, "text": ""}
            block = fresh
            self._blocks[f"{kind} {part['id']}" if "id" in part else f"{kind} at {len(self._content)}"] = block
            self._positions[id(block)], self._texts[id(block)] = len(self._content), []
            self._content.append(block)
        self._texts[id(block)].append(lenient.get_text(part, "text", "textDelta"))
        for key, value in _block_metadata(part).items():
            block.setdefault("providerMetadata", {}).setdefault(key, {}).update(value)

    def _resolve_citation(self, part: Object) -> Object:
        """Replaces the id of the text that a source cites by its position in the content."""
        cite = lenient.get_object(lenient.get_object(lenient.get_object(part, "providerMetadata"), PENSTOCK), "cite")
        block = self._blocks.get(f"text {cite.get('of')}")
        if block is not None:
            cite["of"] = str(self._positions[id(block)])
        return part


def _refused_call(error: Object) -> Object:
    return {
        "type": "tool-error",
        "toolCallId": error.get("toolCallId"),
        "toolName": error["toolName"],
        "input": error.get("toolArgs"),
        "invalid": True,
        "error": error.get("message"),
        "providerMetadata": {PENSTOCK: {"cut": "client"}},
    }


def _block_metadata(part: Object) -> Object:
    if "signature" in part:
        return {"anthropic": {"signature": part["signature"]}}
    if part["type"] == "redacted-reasoning":
        return {"anthropic": {"redactedData": part["data"]}}
    return lenient.get_object(part, "providerMetadata")


PROTOCOL = Protocol(
    "aisdk",
    is_full_stream_part,
    AisdkDecoder,
    create_encoder,
    reads="ndjson",
    writes="ndjson",
    versions=tuple(ENCODERS),
    body=build_body,
    carries_options=True,
    profile=Profile(protocol="aisdk", holding=USER_FILES),
)
