"""Inputs that are hard for a regular expression, derived from the expression itself.

Each part of it is repeated behind what leads to it, then something follows that does not match. So are its beginnings
behind a word boundary, two parts one after the other, and characters that the expression tells apart.
"""

from __future__ import annotations

import importlib
from itertools import chain, islice, product
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
_SHARE = 60  # inputs of each kind for one expression
_BOUNDARIES = "- ."  # characters that end a word
_LETTERS = 8  # characters that pairs are made of


class Input:
    """`head`, then `pump` again and again, then `second` as often, then `tail`."""

    def __init__(self, head: str, pump: str, tail: str, second: str = "") -> None:
        self.head, self.pump, self.tail, self.second = head, pump, tail, second

    def text(self, size: int) -> str:
        times = max(1, size // len(self.pump + self.second))
        return f"{self.head}{self.pump * times}{self.second * times}{self.tail}"

    def __repr__(self) -> str:
        return f"{self.head!r} + {self.pump!r} * n + {self.second!r} * n + {self.tail!r}"


def inputs(pattern: re.Pattern[Any]) -> list[Input]:
    """The inputs for an expression."""
    tree = parser.parse(pattern.pattern, pattern.flags & ~op.SRE_FLAG_DEBUG)
    parts = list(_parts(tree, ""))
    kinds = (_repeated(parts, _sample(tree)), _beginnings(parts), _two_parts(parts), _characters(tree, pattern, parts))
    made = chain.from_iterable(islice((one for one in kind if one.pump), _SHARE) for kind in kinds)
    return list({repr(one): one for one in made}.values())


def _repeated(parts: list[tuple[str, str]], whole: str) -> Iterator[Input]:
    """Every part behind what leads to it, and alone."""
    yield Input("", whole, WRONG)
    yield Input("", whole, "")
    for before, part in parts:
        yield Input(before, part, WRONG)
        yield Input("", before + part, WRONG)
        yield Input("", part, WRONG)
        yield Input(before, part, "")


def _beginnings(parts: list[tuple[str, str]]) -> Iterator[Input]:
    """What the expression begins with, again and again, each behind a word boundary."""
    for (before, part), boundary in product(parts, _BOUNDARIES):
        yield Input("", boundary + before + part, WRONG)


def _two_parts(parts: list[tuple[str, str]]) -> Iterator[Input]:
    """Two parts, each repeated: for expressions that try every split between them."""
    first = min((before for before, _ in parts if before), key=len, default="")
    long = dict.fromkeys(part for _, part in parts if len(part) > 1)
    for one, other in product(long, repeat=2):
        if one != other:
            yield Input("", one, WRONG, other)
            yield Input(first, one, WRONG, other)


def _characters(tree: Any, pattern: re.Pattern[Any], parts: list[tuple[str, str]]) -> Iterator[Input]:
    """Single characters and pairs of them."""
    letters = _letters(tree, pattern)
    whole = _sample(tree)
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
