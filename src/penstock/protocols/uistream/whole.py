"""The chunks of an encoded stream as one UI message: what a page would have built from them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from penstock import pick
from penstock.aisdk.words import OURS
from penstock.jsontext import decode_own

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.framing import Frame

_PLAIN = ("file", "source-url", "source-document", "custom")
_STATES = {
    "tool-input-available": "input-available", "tool-input-error": "output-error",
    "tool-approval-request": "approval-requested", "tool-output-available": "output-available",
    "tool-output-error": "output-error",
}  # fmt: skip


def body(frames: Sequence[Frame]) -> bytes:
    """Fold the encoder's own frames, so that stream and body cannot disagree."""
    message: dict[str, Any] = {"id": "", "role": "assistant", "metadata": {}, "parts": []}
    known: dict[str, dict[str, Any]] = {}
    for _, data in frames:
        if data == b"[DONE]":
            continue
        chunk = pick.as_object(decode_own(data))  # a chunk that nobody knew is let through as it came
        kind = pick.text(chunk, "type")
        if kind in ("error", "abort"):
            return msgspec.json.encode({"error": chunk.get("errorText", chunk.get("reason", "aborted"))})
        message["id"] = chunk.get("messageId", message["id"])
        message["metadata"].update(pick.table(chunk, "messageMetadata"))
        if kind == "finish":
            message["metadata"]["finishReason"] = chunk["finishReason"]
        _grow(message["parts"], known, kind, chunk)
    return msgspec.json.encode(message)


def _grow(parts: list[dict[str, Any]], known: dict[str, dict[str, Any]], kind: str, chunk: dict[str, Any]) -> None:
    if kind.startswith(("text-", "reasoning-")):
        _speak(parts, known, kind, chunk)
    elif kind.startswith("tool-") and "toolCallId" in chunk:
        _tool(parts, known, kind, chunk)
    elif kind == "tool-approval-response":
        _approve(known, chunk)
    elif kind == "start-step":
        parts.append({"type": "step-start"})
    elif (kind.startswith("data-") and not chunk.get("transient")) or kind in _PLAIN:
        parts.append(_placed(parts, known, chunk))


def _approve(known: dict[str, dict[str, Any]], chunk: dict[str, Any]) -> None:
    """The answer to a request for approval stands with the request."""
    for part in known.values():
        if pick.text(pick.table(part, "approval"), "id") == chunk.get("approvalId", ""):
            part["approval"].update({word: chunk[word] for word in ("approved", "reason") if word in chunk})
            part["state"] = "approval-responded" if part["state"] == "approval-requested" else part["state"]


def _placed(parts: list[dict[str, Any]], known: dict[str, dict[str, Any]], chunk: dict[str, Any]) -> dict[str, Any]:
    """A source names the text it is for; here that is its place."""
    cite = pick.table(pick.table(pick.table(chunk, "providerMetadata"), OURS), "cite")
    text = known.get(f"text {cite.get('of')}")
    if text is not None:
        cite["of"] = str(next(place for place, part in enumerate(parts) if part is text))
    return chunk


def _speak(parts: list[dict[str, Any]], known: dict[str, dict[str, Any]], kind: str, chunk: dict[str, Any]) -> None:
    noun, _, stage = kind.partition("-")
    key = f"{noun} {chunk.get('id')}"
    if stage == "start" or key not in known:
        known[key] = {"type": noun, "text": "", "state": "streaming"}
        parts.append(known[key])
    part = known[key]
    part["text"] += pick.text(chunk, "delta")
    for provider, fields in chunk.get("providerMetadata", {}).items():
        part.setdefault("providerMetadata", {}).setdefault(provider, {}).update(fields)
    if stage == "end":
        part["state"] = "done"


def _tool(parts: list[dict[str, Any]], known: dict[str, dict[str, Any]], kind: str, chunk: dict[str, Any]) -> None:
    key = f"tool {chunk['toolCallId']}"
    if kind == "tool-input-start":
        name = chunk["toolName"]
        named = {"type": "dynamic-tool", "toolName": name} if chunk.get("dynamic") else {"type": f"tool-{name}"}
        known[key] = {**named, "toolCallId": chunk["toolCallId"], "state": "input-streaming"}
        parts.append(known[key])
    part = known.get(key, {})
    part["state"] = _STATES.get(kind, part.get("state"))
    if kind == "tool-approval-request":
        part["approval"] = {"id": chunk["approvalId"]}
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
