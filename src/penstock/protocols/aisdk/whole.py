"""The parts of an encoded stream as one result: what `generateText` would have given."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import msgspec

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.framing import Frame

_KEPT = ("tool-call", "tool-result", "tool-error", "tool-approval-request", "tool-output-denied", "source", "file",
         "reasoning-file", "custom")  # fmt: skip
_ENDS = ("finish-step", "step-finish", "finish")


def body(frames: Sequence[Frame]) -> bytes:
    """Fold the encoder's own frames, so that stream and body cannot disagree."""
    content: list[dict[str, Any]] = []
    said: dict[str, dict[str, Any]] = {}
    whole: dict[str, Any] = {"content": content, "warnings": []}
    for _, data in frames:
        part = msgspec.json.decode(data)
        kind = part["type"]
        if kind in ("error", "abort"):
            return msgspec.json.encode({"error": part.get("error", part.get("reason", "aborted"))})
        if kind.startswith(("text-", "reasoning")) and kind != "reasoning-file":
            _speak(content, said, kind, part)
        elif kind in _KEPT:
            content.append(part)
        elif kind in _ENDS:
            whole.update({key: value for key, value in part.items() if key not in ("type", "performance")})
    return msgspec.json.encode(whole)


def _speak(content: list[dict[str, Any]], said: dict[str, dict[str, Any]], kind: str, part: dict[str, Any]) -> None:
    """Text and reasoning by their ids; version 4 has none and goes on with the last of its kind."""
    noun = kind.partition("-")[0]
    block = said.get(f"{noun} {part.get('id')}")
    last = content[-1] if content else {}
    if block is None and "id" not in part and last.get("type") == noun and "providerMetadata" not in last:
        block = last
    if block is None:
        block = cast("dict[str, Any]", {"type": noun, "text": ""})
        content.append(block)
        if "id" in part:
            said[f"{noun} {part['id']}"] = block
    block["text"] += part.get("text", part.get("textDelta", ""))
    for key, value in _metadata(part).items():
        block.setdefault("providerMetadata", {}).setdefault(key, {}).update(value)


def _metadata(part: dict[str, Any]) -> dict[str, dict[str, Any]]:
    if "signature" in part:
        return {"anthropic": {"signature": part["signature"]}}
    if part["type"] == "redacted-reasoning":
        return {"anthropic": {"redactedData": part["data"]}}
    metadata: dict[str, dict[str, Any]] = part.get("providerMetadata", {})
    return metadata
