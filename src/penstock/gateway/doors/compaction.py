"""Compacted conversations as items: a summary in a form that only this gateway reads, and the way back to words.

The form is not secret: whoever holds it said all that it stands for. Other makers' compactions are left as they are.
"""

from __future__ import annotations

import zlib
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import TYPE_CHECKING, Any

from penstock import pick

if TYPE_CHECKING:
    from penstock.pick import Object

MARK = "penstock1."
LONGEST = 2**20  # bytes of a summary
BEFORE = "What was said before this point was cut short. A summary of it:\n\n"


def sealed(summary: str) -> str:
    """A summary as an item carries it."""
    return MARK + urlsafe_b64encode(zlib.compress(summary.encode("utf-8", "replace")[:LONGEST])).decode()


def unsealed(content: str) -> str | None:
    """The summary; None where it is none of ours, or damaged."""
    if not content.startswith(MARK):
        return None
    try:
        packed = urlsafe_b64decode(content.removeprefix(MARK))
        return zlib.decompressobj().decompress(packed, LONGEST).decode("utf-8", "replace")
    except (ValueError, zlib.error):
        return None


def opened(items: list[Any]) -> list[Any]:
    """The items with our compactions as messages that any model can read; the same list where there are none."""
    made = [_opened(item) for item in items]
    return items if all(new is old for new, old in zip(made, items, strict=True)) else made


def _opened(item: Any) -> Any:
    row: Object = pick.as_object(item)
    if row.get("type") != "compaction":
        return item
    summary = unsealed(pick.text(row, "encrypted_content"))
    if summary is None:
        return item
    return {"type": "message", "role": "user", "content": [{"type": "input_text", "text": BEFORE + summary}]}
