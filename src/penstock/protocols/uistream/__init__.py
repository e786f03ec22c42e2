"""The AI SDK's UI message stream (v1): what `useChat` reads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from penstock import lenient_fields as lenient
from penstock.aisdk import OURS
from penstock.aisdk.decode import ChunkDecoder
from penstock.codec import Protocol
from penstock.jsontext import decode_trusted
from penstock.protocols.uistream.encode import UiEncoder

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.framing import Frame

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


class UiDecoder(ChunkDecoder):
    """Ends with `finish`; a stream that has none ends with `[DONE]`."""

    protocol = "uistream"


_PLAIN = ("file", "source-url", "source-document", "custom")
_STATES = {
    "tool-input-available": "input-available", "tool-input-error": "output-error",
    "tool-approval-request": "approval-requested", "tool-output-available": "output-available",
    "tool-output-error": "output-error",
}  # fmt: skip


def body(frames: Sequence[Frame]) -> bytes:
    """Fold the encoder's own frames, so that stream and body cannot disagree."""
    message: dict[str, Any] = {"id": "", "role": "assistant", "metadata": {}}
    book = _Book()
    for _, data in frames:
        if data == b"[DONE]":
            continue
        chunk = lenient.as_object(decode_trusted(data))  # a chunk that nobody knew is let through as it came
        kind = lenient.get_text(chunk, "type")
        if kind in ("error", "abort"):
            return msgspec.json.encode({"error": chunk.get("errorText", chunk.get("reason", "aborted"))})
        message["id"] = chunk.get("messageId", message["id"])
        message["metadata"].update(lenient.get_object(chunk, "messageMetadata"))
        if kind == "finish":
            message["metadata"]["finishReason"] = chunk["finishReason"]
        book.add(kind, chunk)
    return msgspec.json.encode({**message, "parts": book.finish()})


class _Book:
    """The parts so far."""

    def __init__(self) -> None:
        self._parts: list[dict[str, Any]] = []
        self._known: dict[str, dict[str, Any]] = {}
        self._places: dict[str, int] = {}  # of the known ones
        self._texts: dict[str, list[str]] = {}  # what those that speak have said
        self._approvals: dict[str, list[dict[str, Any]]] = {}  # calls by the id of the request for their approval

    def add(self, kind: str, chunk: dict[str, Any]) -> None:
        if kind.startswith(("text-", "reasoning-")):
            self._speak(kind, chunk)
        elif kind.startswith("tool-") and "toolCallId" in chunk:
            self._tool(kind, chunk)
        elif kind == "tool-approval-response":
            self._approve(chunk)
        elif kind == "start-step":
            self._parts.append({"type": "step-start"})
        elif (kind.startswith("data-") and not chunk.get("transient")) or kind in _PLAIN:
            self._parts.append(self._placed(chunk))

    def finish(self) -> list[dict[str, Any]]:
        """All parts, with their texts."""
        for key, pieces in self._texts.items():
            self._known[key]["text"] = "".join(pieces)
        return self._parts

    def _begin(self, key: str, part: dict[str, Any]) -> None:
        self._known[key], self._places[key] = part, len(self._parts)
        self._parts.append(part)

    def _approve(self, chunk: dict[str, Any]) -> None:
        """The answer to a request for approval stands with the request."""
        for part in self._approvals.get(chunk.get("approvalId", ""), ()):
            part["approval"].update({word: chunk[word] for word in ("approved", "reason") if word in chunk})
            part["state"] = "approval-responded" if part["state"] == "approval-requested" else part["state"]

    def _placed(self, chunk: dict[str, Any]) -> dict[str, Any]:
        """A source names the text it is for; here that is its place."""
        cite = lenient.get_object(lenient.get_object(lenient.get_object(chunk, "providerMetadata"), OURS), "cite")
        place = self._places.get(f"text {cite.get('of')}")
        if place is not None:
            cite["of"] = str(place)
        return chunk

    def _speak(self, kind: str, chunk: dict[str, Any]) -> None:
        noun, _, stage = kind.partition("-")
        key = f"{noun} {chunk.get('id')}"
        if stage == "start" or key not in self._known:
            if key in self._texts:  # another part of the same id
                self._known[key]["text"] = "".join(self._texts[key])
            self._begin(key, {"type": noun, "text": "", "state": "streaming"})
            self._texts[key] = []
        part = self._known[key]
        self._texts[key].append(lenient.get_text(chunk, "delta"))
        for provider, fields in chunk.get("providerMetadata", {}).items():
            part.setdefault("providerMetadata", {}).setdefault(provider, {}).update(fields)
        if stage == "end":
            part["state"] = "done"

    def _tool(self, kind: str, chunk: dict[str, Any]) -> None:
        key = f"tool {chunk['toolCallId']}"
        if kind == "tool-input-start":
            name = chunk["toolName"]
            named = {"type": "dynamic-tool", "toolName": name} if chunk.get("dynamic") else {"type": f"tool-{name}"}
            self._begin(key, {**named, "toolCallId": chunk["toolCallId"], "state": "input-streaming"})
        part = self._known.get(key, {})
        part["state"] = _STATES.get(kind, part.get("state"))
        if kind == "tool-approval-request":
            part["approval"] = {"id": chunk["approvalId"]}
            self._approvals.setdefault(chunk["approvalId"], []).append(part)
        if "output" in kind:
            part.pop("preliminary", None)  # what this output says of itself counts
        if kind == "tool-input-error":
            part["rawInput"] = chunk["input"]
        else:
            part.update({word: chunk[word] for word in ("input", "output") if word in chunk})
        part.update(
            {word: chunk[word] for word in ("providerExecuted", "title", "errorText", "preliminary") if word in chunk}
        )
        if "providerMetadata" in chunk:
            part["resultProviderMetadata" if "output" in kind else "callProviderMetadata"] = chunk["providerMetadata"]


PROTOCOL = Protocol("uistream", looks, UiDecoder, UiEncoder, body=body, carries_options=True)
