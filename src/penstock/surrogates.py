"""Lone surrogates: some providers cut an emoji between two JSON strings, which no UTF-8 can carry.

A high half at the end of a delta waits for the next one; a half that never meets its other is U+FFFD.
"""

from __future__ import annotations

import re

_LONE = re.compile("[\ud800-\udfff]")
_HIGH = "\ud800", "\udbff"


def mend(text: str) -> tuple[str, str]:
    """Join surrogate pairs, replace lone halves, and hold back a high half at the very end."""
    held = ""
    if text and _HIGH[0] <= text[-1] <= _HIGH[1]:
        text, held = text[:-1], text[-1]
    if _LONE.search(text):
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text, held
