"""Quotes text for a POSIX shell, so that it can be pasted into a terminal.

A terminal obeys control characters before the shell sees the quotes: ESC `[201~` ends a bracketed paste, CR runs the
line, and a tab completes a word. So no control character but the line break stands in what is copied. A terminal
also drops the rest of a line that is too long, with its closing quote; long lines are therefore broken.
"""

from __future__ import annotations

import re

from penstock._printable_text import escape_unprintable

# A tty drops what a line has beyond 1024 bytes (macOS, MAX_CANON) or 4095 (Linux, termios(3)). One character takes up
# to four bytes, also a quote, as `'\''`.
_LINE = 240
_PIECE = re.compile(rf"(?:[^\n]{{0,{_LINE}}}+\n)*+[^\n]{{0,{_LINE}}}+")
_BREAK = "'\\\n'"  # a backslash before the line break continues the word
_PLAIN = re.compile(rf"[A-Za-z0-9@%+=:,./_-]{{1,{_LINE}}}")


def can_stand_in_quotes(text: str) -> bool:
    """True if the text has no character that a terminal would obey, except line breaks."""
    return escape_unprintable(text.replace("\n", ""), lambda _: "") == text.replace("\n", "")


def quote_word(text: str) -> str:
    """Returns one word of a shell. The text must be one that can stand in quotes."""
    if _PLAIN.fullmatch(text):
        return text
    pieces = [piece.replace("'", "'\\''") for piece in _PIECE.findall(text) if piece]
    return f"'{_BREAK.join(pieces)}'"


def print_command(text: str) -> str:
    """Returns a command that prints exactly this text, as UTF-8."""
    if can_stand_in_quotes(text):
        return f"printf %s {quote_word(text)}"
    escaped = escape_unprintable(text.replace("\\", "\\\\"), _octal)
    return f"printf '%b' {quote_word(escaped)}"


def _octal(char: str) -> str:
    """Returns the escapes of `printf '%b'`: a backslash, 0 and three digits for each byte."""
    return "\\n" if char == "\n" else "".join(f"\\0{byte:03o}" for byte in char.encode("utf-8", "replace"))
