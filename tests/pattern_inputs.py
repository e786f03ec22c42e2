"""Inputs that are hard for a regular expression, derived from the expression itself.

Each part of it is repeated behind what leads to it, then something follows that does not match. So are single characters
and pairs of characters that the expression tells apart.
"""

from __future__ import annotations

import importlib
from itertools import islice, product
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import re
    from collections.abc import Iterator

# Not documented, but there is no other parser of Python's expressions; types do not know them.
op: Any = importlib.import_module("re._constants")
parser: Any = importlib.import_module("re._parser")
WRONG = "\x01"
_USUAL = 'a1 -_./:@"\\n\nA{}[]<>`=,~é'
_CATEGORIES = {
    op.CATEGORY_DIGIT: "1", op.CATEGORY_SPACE: " ", op.CATEGORY_WORD: "a", op.CATEGORY_NOT_DIGIT: "a",
    op.CATEGORY_NOT_SPACE: "a", op.CATEGORY_NOT_WORD: ".",
}  # fmt: skip
_REPEATS = {op.MAX_REPEAT, op.MIN_REPEAT, op.POSSESSIVE_REPEAT}
_MOST = 160  # inputs for one expression
_LETTERS = 8  # characters that pairs are made of


class Input:
    """`head`, then `pump` again and again, then `tail`."""

    def __init__(self, head: str, pump: str, tail: str) -> None:
        self.head, self.pump, self.tail = head, pump, tail

    def text(self, size: int) -> str:
        return f"{self.head}{self.pump * max(1, size // len(self.pump))}{self.tail}"

    def __repr__(self) -> str:
        return f"{self.head!r} + {self.pump!r} * n + {self.tail!r}"


def inputs(pattern: re.Pattern[Any]) -> list[Input]:
    """The inputs for an expression."""
    tree = parser.parse(pattern.pattern, pattern.flags & ~op.SRE_FLAG_DEBUG)
    found = {(one.head, one.pump, one.tail): one for one in islice(_all(tree, pattern), 4 * _MOST) if one.pump}
    return list(found.values())[:_MOST]


def _all(tree: Any, pattern: re.Pattern[Any]) -> Iterator[Input]:
    whole = _sample(tree)
    parts = list(_parts(tree, ""))
    for before, part in parts:
        for tail in (WRONG, ""):
            yield Input(before, part, tail)
        yield Input("", before + part, WRONG)
        yield Input("", part, WRONG)
    yield Input("", whole, WRONG)
    yield Input("", whole, "")
    letters = _letters(tree, pattern)
    for letter in letters:
        yield Input("", letter, WRONG)
    for first, second in product(letters[:_LETTERS], repeat=2):
        if first != second:
            yield Input("", first + second, WRONG)
            yield Input(whole, first + second, WRONG)
    for (before, part), letter in product(parts, letters[:4]):
        yield Input(before, part + letter, WRONG)


def _letters(tree: Any, pattern: re.Pattern[Any]) -> list[str]:
    """Characters that the expression tells apart, and a few that it does not."""
    found = dict.fromkeys(one for _, part in _parts(tree, "") for one in part)
    usual = _USUAL if isinstance(pattern.pattern, str) else _USUAL[:-1]
    return list(dict.fromkeys([*found, *usual]))


def _parts(tree: Any, before: str) -> Iterator[tuple[str, str]]:
    """Every part of a sequence, with what leads to it; the parts of parts too."""
    lead = before
    for kind, value in tree:
        for inner in _inside(kind, value):
            yield lead, _sample(inner)
            yield from _parts(inner, lead)
        made = _sample([(kind, value)])
        if made:
            yield lead, made
        lead += made


def _inside(kind: Any, value: Any) -> list[Any]:
    if kind in _REPEATS:
        return [value[2]]
    if kind is op.SUBPATTERN:
        return [value[3]]
    if kind is op.BRANCH:
        return list(value[1])
    if kind is op.ATOMIC_GROUP:
        return [value]
    return [value[1]] if kind in {op.ASSERT, op.ASSERT_NOT} else []


def _sample(tree: Any) -> str:
    """A short text that a sequence matches, or nearly."""
    return "".join(_one(kind, value) for kind, value in tree)


def _one(kind: Any, value: Any) -> str:
    if kind is op.LITERAL:
        return chr(value)
    if kind in {op.NOT_LITERAL, op.ANY, op.IN}:
        return _member(kind, value)
    if kind in _REPEATS:
        return _sample(value[2]) * int(min(max(value[0], 1), 40))
    if kind is op.SUBPATTERN:
        return _sample(value[3])
    if kind is op.BRANCH:
        return _sample(value[1][0])
    return _sample(value) if kind is op.ATOMIC_GROUP else ""


def _member(kind: Any, value: Any) -> str:
    """A character of a class."""
    if kind is op.ANY:
        return "a"
    if kind is op.NOT_LITERAL:
        return next(one for one in _USUAL if ord(one) != value)
    if value[0][0] is op.NEGATE:
        return str(next((one for one in _USUAL if not _holds(value[1:], one)), "\x02"))
    for inner, what in value:
        if inner is op.LITERAL:
            return chr(what)
        return chr(what[0]) if inner is op.RANGE else str(_CATEGORIES.get(what, "a"))
    return ""


def _holds(members: Any, one: str) -> bool:
    for kind, what in members:
        if kind is op.LITERAL and ord(one) == what:
            return True
        if kind is op.RANGE and what[0] <= ord(one) <= what[1]:
            return True
        if kind is op.CATEGORY and _category(what, one):
            return True
    return False


def _category(what: Any, one: str) -> bool:
    tests = {
        op.CATEGORY_DIGIT: one.isdigit(), op.CATEGORY_SPACE: one.isspace(), op.CATEGORY_WORD: one.isalnum() or one == "_",
    }  # fmt: skip
    opposite = {
        op.CATEGORY_NOT_DIGIT: op.CATEGORY_DIGIT, op.CATEGORY_NOT_SPACE: op.CATEGORY_SPACE,
        op.CATEGORY_NOT_WORD: op.CATEGORY_WORD,
    }  # fmt: skip
    return tests[what] if what in tests else not tests[opposite[what]]
