"""Which test modules a `-m` expression leaves out as a whole, told from their text.

pytest imports every module first and deselects its tests after. `make fast` needs no module that is all `slow`.
"""

from __future__ import annotations

import re

_MODULE_MARKS = re.compile(r"^pytestmark = (?:\[[^\]]*\]|.*)", re.MULTILINE)
_MARK = re.compile(r"pytest\.mark\.(\w+)")


def excluded_marks(expression: str) -> set[str]:
    """The marks that `-m` leaves out. Only `not a and not b` is understood; any other expression leaves out none."""
    terms = [term.split() for term in expression.split(" and ")]
    plain = all(len(words) == 2 and words[0] == "not" and words[1].isidentifier() for words in terms)
    return {name for _, name in terms} if plain else set()


def is_left_out(source: str, expression: str) -> bool:
    """Whether the module has a mark in `pytestmark` that the expression excludes."""
    marks = _MODULE_MARKS.search(source)
    return marks is not None and not excluded_marks(expression).isdisjoint(_MARK.findall(marks[0]))
