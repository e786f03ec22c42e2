"""The chunks of an encoded stream as one response: what a client gets that did not ask for a stream."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.growing_text import GrowingText, encode, grow
from penstock.jsontext import decode_own
from penstock.pick import as_object

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.framing import Frame


def body(frames: Sequence[Frame]) -> bytes:
    """Fold the encoder's own frames, so that stream and body cannot disagree."""
    whole: dict[str, Any] = {}
    candidates: dict[int, dict[str, Any]] = {}
    for _, data in frames:
        chunk = as_object(decode_own(data))
        if "error" in chunk:
            return data
        for candidate in chunk.pop("candidates", ()):
            _grow(candidates, candidate)
        whole.update(chunk)
    if candidates:
        whole = {"candidates": [candidates[index] for index in sorted(candidates)], **whole}
    return encode(whole)


def _grow(candidates: dict[int, dict[str, Any]], more: dict[str, Any]) -> None:
    parts = more.pop("content", {}).get("parts", ())
    candidate = candidates.setdefault(more["index"], {"content": {"parts": [], "role": "model"}})
    candidate.update(more)
    for part in parts:
        _add(candidate["content"]["parts"], part)


def _add(parts: list[dict[str, Any]], part: dict[str, Any]) -> None:
    """Text goes on in the part before it until that is signed; an empty one only signs."""
    last = parts[-1] if parts else {}
    both = isinstance(part.get("text"), str) and isinstance(last.get("text"), str | GrowingText)
    goes_on = both and part.get("thought") == last.get("thought")
    if goes_on and "thoughtSignature" not in last:
        grow(last, "text", part["text"])
        last.update({key: value for key, value in part.items() if key != "text"})
    elif part != {"text": ""}:
        parts.append(part)
