"""The lines of an encoded stream as one object: what a client gets that did not ask for a stream."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from penstock.jsontext import decode_own
from penstock.protocols.vscode.wire import VERSION

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.framing import Frame


def body(frames: Sequence[Frame]) -> bytes:
    """Fold the encoder's own lines, so that stream and body cannot disagree. A fault is its error line alone."""
    lines: list[dict[str, Any]] = []
    for _, data in frames:
        line = decode_own(data)
        if line.get("kind") == "error":
            return data
        if lines and _continues(lines[-1], line):
            lines[-1]["value"] += line["value"]
        else:
            lines.append(line)
    return msgspec.json.encode({"kind": "whole", "version": VERSION, "lines": lines})


def _continues(before: dict[str, Any], line: dict[str, Any]) -> bool:
    """More of the same text or thinking, which nothing but its value sets apart. Metadata ends a thinking part."""
    if line.get("kind") not in ("text", "thinking") or before.get("metadata") or line.get("metadata"):
        return False
    return {**before, "value": ""} == {**line, "value": ""}
