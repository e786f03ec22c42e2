"""Beginnings of texts, for lists. Secrets are removed before a text is cut: half of one would not be recognised."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock._redaction import redact_range

if TYPE_CHECKING:
    from collections.abc import Iterable


def shorten_text(text: str, limit: int, secrets: Iterable[str] = ()) -> str:
    """Returns the beginning of a text as one line, without secrets. `limit`: its characters at most."""
    words = " ".join(redact_range(text, 0, 4 * limit, secrets).split())
    return words if len(words) <= limit else f"{words[: limit - 1]}…"
