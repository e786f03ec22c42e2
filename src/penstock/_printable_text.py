"""Makes text from outside safe for terminals and log lines: no control characters, escape sequences or bidi controls.

Every writer of such lines uses `printable`. Imports nothing, so that the command line can use it before all else.
"""

from __future__ import annotations

_SHOWN = {"\n": "⏎", "\t": "⇥", "\r": "␍"}
_JOINERS = "\u200c\u200d"  # emoji and many scripts need them; no terminal obeys them
_LINES = frozenset("\n\t" + _JOINERS)


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


def _show(char: str) -> str:
    return _SHOWN.get(char, "\N{REPLACEMENT CHARACTER}")
