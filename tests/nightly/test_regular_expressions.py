"""No regular expression of the package takes more than linear time, whatever is searched with it.

Each is tried with inputs made of itself: what its repeated parts match, over and over, and then something that it does not
match. Linear time is a property of how patterns are written (possessive, anchored, atomic); this looks for mistakes.
"""

from __future__ import annotations

import importlib
import pkgutil
import re
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from re import _parser  # type: ignore[attr-defined]
from typing import TYPE_CHECKING, Any

import penstock
from penstock._lazy_patterns import LazyPattern

if TYPE_CHECKING:
    from collections.abc import Iterator

LONGEST = 60_000  # characters
PATIENCE = 0.5  # seconds of processor time for so many; a quadratic search needs more than ten
REPEATS = {"MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"}
ENDS = ("", "\0", "\n", "!")


Search = Callable[[Any], object]


def searches() -> dict[tuple[Any, bool], Search]:
    """The compiled patterns that modules and classes of the package hold, as they are used: `search` or `match`."""
    source = "".join(path.read_text(encoding="utf-8") for path in Path(penstock.__path__[0]).rglob("*.py"))
    anywhere = set(re.findall(r"(\w+)\.(?:search|sub|subn|finditer|findall|split)\(", source))
    anywhere |= set(re.findall(r"(\w+)\.(?:search|sub|subn|finditer|findall|split)\b(?!\()", source))
    found: dict[tuple[Any, bool], Search] = {}
    for info in pkgutil.walk_packages(penstock.__path__, "penstock."):
        if not info.name.endswith("__main__"):
            module = importlib.import_module(info.name)
            for holder in (vars(module), *(vars(value) for value in vars(module).values() if isinstance(value, type))):
                for name, value in holder.items():
                    for one in _patterns_in(value):
                        found.setdefault((one.pattern, name in anywhere), one.search if name in anywhere else one.match)
    return found


def _patterns_in(value: Any) -> Iterator[re.Pattern[Any]]:
    if isinstance(value, LazyPattern):
        value = re.compile(value.pattern, value.flags & ~re.UNICODE)
    if isinstance(value, re.Pattern):
        yield value
    elif isinstance(value, dict):
        yield from _patterns_in(list(value.values()))
    elif isinstance(value, list | tuple | set | frozenset):
        for inner in value:
            yield from _patterns_in(inner)


def example(tree: Any, *, repeats: list[str]) -> str:
    """A text that the parsed pattern matches, more or less; what its repeated parts match goes into `repeats`."""
    text = ""
    for op, value in tree:
        name = str(op)
        if name == "LITERAL":
            text += chr(value)
        elif name == "IN":
            text += _member(value)
        elif name in {"ANY", "NOT_LITERAL", "CATEGORY"}:
            text += "a"
        elif name in REPEATS:
            least, _most, inner = value
            part = example(inner, repeats=repeats) or "a"
            repeats.append(part)
            text += part * max(1, min(least, 40))
        elif name == "SUBPATTERN":
            text += example(value[-1], repeats=repeats)
        elif name == "ATOMIC_GROUP":
            text += example(value, repeats=repeats)
        elif name == "BRANCH":
            made = [example(branch, repeats=repeats) for branch in value[1]]
            repeats.extend(made)
            text += made[0]
        elif name in {"ASSERT", "ASSERT_NOT"}:
            example(value[1], repeats=repeats)
    return text


def _member(items: list[Any]) -> str:
    kinds = {"CATEGORY_DIGIT": "1", "CATEGORY_SPACE": " ", "CATEGORY_WORD": "a"}
    for op, value in items:
        if str(op) == "LITERAL":
            return chr(value)
        if str(op) == "RANGE":
            return chr(value[0])
        if str(op) == "CATEGORY":
            return kinds.get(str(value), "a")
    return "a"


def attacks(pattern: re.Pattern[Any]) -> Iterator[tuple[str, str, str]]:
    """What stands before, what is repeated, what stands behind."""
    repeats: list[str] = []
    whole = example(_parser.parse(pattern.pattern, pattern.flags), repeats=repeats)
    pumps = dict.fromkeys(part for part in (*repeats, whole, whole[:1], *map("".join, pairwise(repeats))) if part)
    for pump in pumps:
        before = whole.partition(pump)[0]
        for start in dict.fromkeys(("", before, whole)):
            for end in ENDS:
                yield start, pump, end


def slow_input(pattern: re.Pattern[Any], search: Search) -> str:
    """The input that took too long, described; nothing where none did."""
    binary = isinstance(pattern.pattern, bytes)
    for start, pump, end in attacks(pattern):
        size = 8.0
        while size <= LONGEST:
            text: Any = start + pump * (int(size) // len(pump) + 1) + end
            text = text.encode("latin-1", "replace") if binary else text
            since = time.process_time()
            search(text)
            if time.process_time() - since > PATIENCE:
                return f"{pattern.pattern!r}: {start!r} + {pump!r} * {int(size) // len(pump) + 1} + {end!r}"
            size *= 1.1 if size < 60 else 4
    return ""


def test_every_pattern_of_the_package_takes_linear_time() -> None:
    found = searches()
    assert len(found) > 100
    assert [said for search in found.values() if (said := slow_input(search.__self__, search))] == []  # type: ignore[attr-defined]


def test_slow_patterns_are_found() -> None:
    slow = [re.compile(one) for one in (r"(a+)+$", r"\s*\s*x", r"(?:a|a)*b", r"\w+@")]
    assert all(slow_input(pattern, pattern.search) for pattern in slow)
