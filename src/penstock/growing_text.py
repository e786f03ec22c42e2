"""A text that grows piece by piece inside a JSON value. It is put together once, when the value is written."""

from __future__ import annotations

from typing import Any

import msgspec


class GrowingText:
    """Pieces of a text. Adding to a string instead would copy all of it each time."""

    __slots__ = ("_pieces",)

    def __init__(self, text: str = "") -> None:
        self._pieces = [text]

    def add(self, text: str) -> None:
        self._pieces.append(text)

    def __bool__(self) -> bool:
        return any(self._pieces)

    def __str__(self) -> str:
        if len(self._pieces) > 1:
            self._pieces = ["".join(self._pieces)]
        return self._pieces[0]


def grow(table: dict[str, Any], key: str, more: str) -> None:
    """Add to the text that a table has under a key; nothing is an empty text."""
    text = table.get(key)
    if not isinstance(text, GrowingText):
        text = table[key] = GrowingText(text or "")
    text.add(more)


def _written(value: Any) -> str:
    if isinstance(value, GrowingText):
        return str(value)
    raise NotImplementedError(f"{type(value)} is not JSON")


encode = msgspec.json.Encoder(enc_hook=_written).encode
