"""What a text is made of: counts of words, digits, marks, gaps and scripts, from which tokens are estimated.

Every code point has a class, found by the first byte of its UTF-8 form; the counts are those of short patterns in the
string of classes. `bytes.translate` and `bytes.count` do all the work, so a megabyte takes tens of milliseconds.
docs/tokens.md describes the same counts for other languages; leans on nothing.
"""

from __future__ import annotations

from operator import mul
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

PLAIN = (
    "words", "humps", "fives", "nines", "digits", "numbers", "marks", "clusters", "gaps", "tabs", "lines", "breaks",
    "capitals",
)  # fmt: skip
"""The counts of any text, in this order."""
SCRIPTS = (
    "latin", "greek", "cyrillic", "semitic", "indic", "symbols", "kana", "han", "hangul", "wide", "astral",
)  # fmt: skip
"""One more count each for what is not ASCII, in this order."""
COUNTS = (*PLAIN, *SCRIPTS)

_CODES = b"lgyhiskCHfe"  # the classes of SCRIPTS
_CONTINUATION = bytes(range(0x80, 0xC0))


def _ranges(*rows: tuple[int, int, bytes]) -> bytes:
    """A table for `translate`: first byte, last byte, what they become; everything else is a mark."""
    table = bytearray(b".") * 256
    for first, last, code in rows:
        for byte in range(first, last + 1):
            table[byte] = code[0]
    return bytes(table)


_CLASS = _ranges(
    (0x61, 0x7A, b"a"), (0x41, 0x5A, b"A"), (0x30, 0x39, b"0"), (0x20, 0x20, b" "), (0x09, 0x09, b"\t"),
    (0x0A, 0x0A, b"\n"), (0x0D, 0x0D, b"\n"), (0xC2, 0xCD, b"l"), (0xCE, 0xCF, b"g"), (0xD0, 0xD5, b"y"),
    (0xD6, 0xDF, b"h"), (0xE0, 0xE1, b"i"), (0xE2, 0xE2, b"s"), (0xE3, 0xE3, b"k"), (0xE4, 0xE9, b"C"),
    (0xEA, 0xED, b"H"), (0xEE, 0xEF, b"f"), (0xF0, 0xFF, b"e"),
)  # fmt: skip


def _only(codes: Iterable[int], as_one: bytes, rest: bytes) -> bytes:
    """A table that sees one class, or several as one, and nothing else."""
    table = bytearray(rest) * 256
    for code in codes:
        table[code] = as_one[0]
    return bytes(table)


_LETTERS = _only(b"aAlgyh", b"a", b" ")
_DIGITS = _only(b"0", b"0", b" ")
_MARKS = _only(b".", b".", b" ")
_SPACES = _only(b" ", b" ", b".")
_BREAKS = _only(b"\n", b"\n", b" ")


def counts(text: str) -> list[int]:
    """The counts in the order of COUNTS; of plain ASCII only those of PLAIN."""
    plain = text.isascii()
    data = text.encode("utf-8", "surrogatepass")
    # What begins the text begins a run, as after a space.
    seen = (b" " + data).translate(_CLASS) if plain else (b" " + data).translate(_CLASS, _CONTINUATION)
    count, letters = seen.count, seen.translate(_LETTERS)
    found = [
        letters.count(b" a"), count(b"aA"), letters.count(b"aaaaa"), letters.count(b"aaaaaaaaa"),
        count(b"0"), seen.translate(_DIGITS).count(b" 0"), count(b"."), seen.translate(_MARKS).count(b" ."),
        seen.translate(_SPACES).count(b".  "), count(b"\t"), count(b"\n"), seen.translate(_BREAKS).count(b" \n"),
        count(b"AA"),
    ]  # fmt: skip
    if not plain:
        found += [seen.count(code) for code in _CODES]
    return found


def weigh(text: str, weights: Sequence[float]) -> float:
    """The counts of a text times the weights of a vocabulary: about how many tokens it is."""
    return sum(map(mul, weights, counts(text))) if text else 0.0
