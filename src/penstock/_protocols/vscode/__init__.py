"""The parts of a VS Code language-model reply: typed objects, and an NDJSON form of them for a thin client."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from penstock._codec import Protocol
from penstock._lenient_fields import as_object
from penstock._lenient_json import decode_trusted
from penstock._protocols.vscode.decode import VSCodeDecoder
from penstock._protocols.vscode.encode import VSCodeEncoder
from penstock._protocols.vscode.wire import KINDS, NAME, VERSION
from penstock._request_profile import Profile
from penstock._transforms.tool_names import PREFIX

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock._framing.base import Frame


def is_vscode_line(_: str, payload: dict[str, Any]) -> bool:
    """True for a payload with a `kind` of this protocol."""
    return payload.get("kind") in KINDS and "type" not in payload


def build_body(frames: Sequence[Frame]) -> bytes:
    """Builds the body from the encoder's frames, so that stream and body cannot disagree. A fault is its error line."""
    lines: list[dict[str, Any]] = []
    texts: list[list[Any]] = []  # the values of each line, which are joined at the end
    for _, data in frames:
        line = as_object(decode_trusted(data))
        if not line:
            continue  # an unknown payload that is not an object
        if line.get("kind") == "error":
            return data
        if lines and _is_continuation(lines[-1], line):
            texts[-1].append(line["value"])
        else:
            lines.append(line)
            texts.append([line.get("value")])
    for line, values in zip(lines, texts, strict=True):
        if len(values) > 1:
            line["value"] = "".join(values)
    return msgspec.json.encode({"kind": "whole", "version": VERSION, "lines": lines})


def _is_continuation(before: dict[str, Any], line: dict[str, Any]) -> bool:
    """True if a line continues the text or thinking before: only its value differs. Metadata ends a thinking part."""
    if line.get("kind") not in ("text", "thinking") or before.get("metadata") or line.get("metadata"):
        return False
    both = isinstance(before.get("value"), str) and isinstance(line.get("value"), str)
    return both and {**before, "value": ""} == {**line, "value": ""}


PROTOCOL = Protocol(
    NAME,
    is_vscode_line,
    VSCodeDecoder,
    VSCodeEncoder,
    reads="ndjson",
    writes="ndjson",
    body=build_body,
    carries_options=True,
    inline_files=True,
    profile=Profile(protocol=NAME, leads=True, prefix=PREFIX, reserved="__vscode"),
)
