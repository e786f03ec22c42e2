"""Makes text from outside safe for terminals and log lines: no control characters, escape sequences or bidi controls.

Every writer of such lines uses `printable`. `reveal_controls` shows which characters a text has. Imports only `re`, so
that the command line can use it before all else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock._lazy_patterns import lazy_pattern

if TYPE_CHECKING:
    import re
    from collections.abc import Callable

_SHOWN = {"\n": "⏎", "\t": "⇥", "\r": "␍"}
_JOINERS = "\u200c\u200d"  # emoji and many scripts need them; no terminal obeys them
_LINES = frozenset("\n\t" + _JOINERS)
# Control characters, marks that change the direction of text, invisible characters and lone surrogates; no joiners.
_HIDDEN = lazy_pattern(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\ud800-\udfff\U000e0000-\U000e007f]"
)


def printable(text: str) -> str:
    """Returns the text on one line, without characters that a terminal would obey."""
    if text.isprintable():
        return text
    return "".join([char if char.isprintable() or char in _JOINERS else _show(char) for char in text])


def printable_lines(text: str) -> str:
    """Returns the text without characters that a terminal would obey, except line breaks and tabs."""
    if text.isprintable():
        return text
    text = text.replace("\r\n", "\n")
    return "".join([char if char.isprintable() or char in _LINES else _show(char) for char in text])


def escape_unprintable(text: str, escape: Callable[[str], str]) -> str:
    """Returns the text with `escape(char)` for each character that is invisible or that a terminal would obey."""
    if text.isprintable():
        return text
    return "".join([char if char.isprintable() or char in _JOINERS else escape(char) for char in text])


def _show(char: str) -> str:
    return _SHOWN.get(char, "\N{REPLACEMENT CHARACTER}")


def reveal_controls(text: str) -> str:
    """Returns the text with hidden and control characters shown by their numbers. Line breaks and tabs stay."""
    return text if text.isprintable() else _HIDDEN.sub(_show_number, text.replace("\r\n", "\n"))


def _show_number(found: re.Match[str]) -> str:
    code = ord(found[0])
    # A lone surrogate cannot be encoded, so that a notebook could not even send it.
    return "\N{REPLACEMENT CHARACTER}" if 0xD800 <= code <= 0xDFFF else f"⟨U+{code:04X}⟩"  # noqa: PLR2004
