"""The AI SDK's UI message stream (v1): what `useChat` reads."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from penstock import _lenient_fields as lenient
from penstock._aisdk import PENSTOCK
from penstock._aisdk.decode import ChunkDecoder
from penstock._codec import Protocol
from penstock._lenient_json import decode_trusted
from penstock._protocols.uistream.encode import UiEncoder

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock._framing.base import Frame
    from penstock._lenient_fields import Object

_TOOL_TYPES = "tool-input-available tool-input-error tool-output-available tool-output-error"
_TYPES = frozenset(f"{_TOOL_TYPES} source-url source-document message-metadata reset-step".split())
# chunk type → a field that only UI streams have
_FIELDS = {
    "text-delta": "delta",
    "reasoning-delta": "delta",
    "error": "errorText",
    "start": "messageId",
    "tool-input-start": "toolCallId",
    "tool-input-delta": "inputTextDelta",
}
# fields of the same chunk types that only full streams and canonical events have
_FOREIGN_FIELDS = {"request", "warnings", "usage", "totalUsage", "response", "messageId", "rawFinishReason", "reason"}


class UiDecoder(ChunkDecoder):
    """Reads UI message chunks. A stream ends with `finish`; one without it ends with `[DONE]`."""

    protocol = "uistream"


def is_ui_chunk(_: str, payload: Object) -> bool:
    """True for a chunk type, or the spelling of one, that only UI streams have."""
    kind = str(payload.get("type"))
    if kind in _TYPES or kind.startswith("data-"):
        return True
    if kind in ("start-step", "finish-step", "finish"):
        return not _FOREIGN_FIELDS & set(payload)
    return _FIELDS.get(kind) in payload and "index" not in payload


# ── the non-stream body: the UI message that a page builds from the chunks ────────────────────────────

_PART_TYPES = ("file", "source-url", "source-document", "custom")
_STATES = {
    "tool-input-available": "input-available",
    "tool-input-error": "output-error",
    "tool-approval-request": "approval-requested",
    "tool-output-available": "output-available",
    "tool-output-error": "output-error",
}
_TOOL_FIELDS = ("providerExecuted", "title", "errorText", "preliminary")


def build_body(frames: Sequence[Frame]) -> bytes:
    """Builds the body from the encoder's frames, so that stream and body cannot disagree."""
    message: Object = {"id": "", "role": "assistant", "metadata": {}}
    builder = _MessageBuilder()
    for _, data in frames:
        if data == b"[DONE]":
            continue
        chunk = lenient.as_object(decode_trusted(data))  # unknown chunks were passed through as they came
        kind = lenient.get_text(chunk, "type")
        if kind in ("error", "abort"):
            return msgspec.json.encode({"error": chunk.get("errorText", chunk.get("reason", "aborted"))})
        message["id"] = chunk.get("messageId", message["id"])
        message["metadata"].update(lenient.get_object(chunk, "messageMetadata"))
        if kind == "finish":
            message["metadata"]["finishReason"] = chunk["finishReason"]
        builder.add(kind, chunk)
    return msgspec.json.encode({**message, "parts": builder.finish()})


class _MessageBuilder:
    """Collects the parts of a message."""

    def __init__(self) -> None:
        self._parts: list[Object] = []
        self._parts_by_key: dict[str, Object] = {}
        self._positions: dict[str, int] = {}
        self._texts: dict[str, list[str]] = {}
        self._approvals: dict[str, list[Object]] = {}  # calls by the id of the request for their approval

    def add(self, kind: str, chunk: Object) -> None:
        if kind.startswith(("text-", "reasoning-")):
            self._add_text(kind, chunk)
        elif kind.startswith("tool-") and "toolCallId" in chunk:
            self._add_tool(kind, chunk)
        elif kind == "tool-approval-response":
            self._answer_approval(chunk)
        elif kind == "start-step":
            self._parts.append({"type": "step-start"})
        elif (kind.startswith("data-") and not chunk.get("transient")) or kind in _PART_TYPES:
            self._parts.append(self._resolve_citation(chunk))

    def finish(self) -> list[Object]:
        """Returns all parts with their texts."""
        for key, pieces in self._texts.items():
            self._parts_by_key[key]["text"] = "".join(pieces)
        return self._parts

    def _begin_part(self, key: str, part: Object) -> None:
        self._parts_by_key[key], self._positions[key] = part, len(self._parts)
        self._parts.append(part)

    def _answer_approval(self, chunk: Object) -> None:
        for part in self._approvals.get(chunk.get("approvalId", ""), ()):
            part["approval"].update({key: chunk[key] for key in ("approved", "reason") if key in chunk})
            part["state"] = "approval-responded" if part["state"] == "approval-requested" else part["state"]

    def _resolve_citation(self, chunk: Object) -> Object:
        """Replaces the id of the text that a source cites by its position in the message."""
        cite = lenient.get_object(lenient.get_object(lenient.get_object(chunk, "providerMetadata"), PENSTOCK), "cite")
        position = self._positions.get(f"text {cite.get('of')}")
        if position is not None:
            cite["of"] = str(position)
        return chunk

    def _add_text(self, kind: str, chunk: Object) -> None:
        noun, _, stage = kind.partition("-")
        key = f"{noun} {chunk.get('id')}"
        if stage == "start" or key not in self._parts_by_key:
            if key in self._texts:  # another part with the same id
                self._parts_by_key[key]["text"] = "".join(self._texts[key])
            self._begin_part(key, {"type": noun, "text": "", "state": "streaming"})
            self._texts[key] = []
        part = self._parts_by_key[key]
        self._texts[key].append(lenient.get_text(chunk, "delta"))
        for provider, fields in chunk.get("providerMetadata", {}).items():
            part.setdefault("providerMetadata", {}).setdefault(provider, {}).update(fields)
        if stage == "end":
            part["state"] = "done"

    def _add_tool(self, kind: str, chunk: Object) -> None:
        key = f"tool {chunk['toolCallId']}"
        if kind == "tool-input-start":
            name = chunk["toolName"]
            head = {"type": "dynamic-tool", "toolName": name} if chunk.get("dynamic") else {"type": f"tool-{name}"}
            self._begin_part(key, {**head, "toolCallId": chunk["toolCallId"], "state": "input-streaming"})
        part = self._parts_by_key.get(key, {})
        part["state"] = _STATES.get(kind, part.get("state"))
        if kind == "tool-approval-request":
            part["approval"] = {"id": chunk["approvalId"]}
            self._approvals.setdefault(chunk["approvalId"], []).append(part)
        is_output = "output" in kind
        if is_output:
            part.pop("preliminary", None)  # this output replaces a preliminary one
        if kind == "tool-input-error":
            part["rawInput"] = chunk["input"]
        else:
            part.update({name: chunk[name] for name in ("input", "output") if name in chunk})
        part.update({name: chunk[name] for name in _TOOL_FIELDS if name in chunk})
        if "providerMetadata" in chunk:
            part["resultProviderMetadata" if is_output else "callProviderMetadata"] = chunk["providerMetadata"]


PROTOCOL = Protocol("uistream", is_ui_chunk, UiDecoder, UiEncoder, body=build_body, carries_options=True)
