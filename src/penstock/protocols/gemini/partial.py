"""Arguments that arrive value by value, each under a JSON path, put together to one object.

Gemini streams a call's arguments so when asked to: `$.steps[1].text` and a string, perhaps only a piece of it. The
pieces are collected, not handed on one by one: a path may lead back into what looked closed.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from penstock.jsontext import as_json

if TYPE_CHECKING:
    from penstock.protocols.gemini import wire

_STEP = re.compile(r"""\.?([^.\[\]]+)|\[(\d{1,9})\]|\['([^']*)'\]|\["([^"]*)"\]""")
_DEEPEST = 64
_GAP = 64  # how far past its end a list may be written: what lies between would be invented


class Arguments:
    """The object so far. `broken` says that a value could not be placed: such a call must not be run."""

    def __init__(self, given: Any = None) -> None:
        self.root: dict[str, Any] = dict(given) if isinstance(given, dict) else {}  # pyright: ignore[reportUnknownArgumentType]
        self.broken = False
        self.unfinished = ""  # the path of a string whose next piece is to come

    def put(self, arg: wire.PartialArg) -> bool:
        """Place a value, or the next piece of one. False if there is no such place."""
        self.unfinished = (arg.json_path or "") if arg.will_continue else ""
        steps = _steps(arg.json_path or "")
        placed = bool(steps) and self._place(steps, arg)
        self.broken = self.broken or not placed
        return placed

    @property
    def whole(self) -> bool:
        """Nothing is known to be missing; only an end mark, or a normal finish, makes it certain."""
        return not self.broken and not self.unfinished

    def text(self) -> str:
        return as_json(self.root)

    def so_far(self) -> str:
        """The text of a call that was cut: without its last bracket, so that no reader takes it for whole."""
        return self.text()[:-1] if self.root else ""

    def _place(self, steps: list[str | int], arg: wire.PartialArg) -> bool:
        node: Any = self.root
        for step, following in pairwise(steps):
            node = _enter(node, step, [] if isinstance(following, int) else {})
            if node is None:
                return False
        before = _get(node, steps[-1])
        if arg.string_value is not None and isinstance(before, str):
            return _set(node, steps[-1], before + arg.string_value)
        return _set(node, steps[-1], _value(arg))


def _steps(path: str) -> list[str | int]:
    """`$.a[0]['b.c']` → `["a", 0, "b.c"]`; nothing at all for what is no path of an object."""
    steps: list[str | int] = []
    at = 1
    while path[:1] == "$" and at < len(path):
        match = _STEP.match(path, at)
        if match is None or len(steps) >= _DEEPEST:
            return []
        name, number, quoted, double = match.groups()
        steps.append(int(number) if number else name or quoted or double or "")
        at = match.end()
    return steps if steps and isinstance(steps[0], str) else []


def _value(arg: wire.PartialArg) -> Any:
    said = (arg.string_value, arg.number_value, arg.bool_value)
    return next((value for value in said if value is not None), None)


def _get(node: Any, step: str | int) -> Any:
    if isinstance(step, int):
        return node[step] if isinstance(node, list) and step < len(node) else None  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    return node.get(step) if isinstance(node, dict) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]


def _set(node: Any, step: str | int, value: Any) -> bool:
    if isinstance(step, str) and isinstance(node, dict):
        node[step] = value
        return True
    if isinstance(step, str) or not isinstance(node, list) or step > len(node) + _GAP:  # pyright: ignore[reportUnknownArgumentType]
        return False
    node.extend([None] * (step + 1 - len(node)))  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]
    node[step] = value
    return True


def _enter(node: Any, step: str | int, empty: Any) -> Any:
    """The container below a node, made if there is none yet; None where something else is in its place."""
    inner = _get(node, step)
    if inner is None:
        return empty if _set(node, step, empty) else None
    return inner if isinstance(inner, type(empty)) else None
