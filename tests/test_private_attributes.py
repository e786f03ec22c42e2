"""No code in src/ reads a private attribute of another library.

An attribute counts as ours if some class or module in src/ defines its name. That is a heuristic: a foreign attribute
with a name of ours is not found.
"""

from __future__ import annotations

import ast
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

SOURCE = Path(__file__).parents[1] / "src" / "penstock"
# Names that begin with an underscore and are documented.
PUBLIC = {
    "sys._current_frames": "documented by Python: the stack of each thread",
    "_replace": "documented by Python: a method of named tuples",
}
# Private attributes that are used, with the reason.
EXCEPTIONS = {
    "_api_client": "google-genai has no public way to send a request to a path that it does not know (sdk_vendors.py)",
    "_exit": "of os, documented: a forked worker ends without unwinding its parent's stack (workers.py)",
    "_http_options": "google-genai sets a made-up key as a header; the signed one must replace it (sdk_vendors.py)",
}


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def defined_names(tree: ast.AST) -> Iterator[str]:
    """Names of functions and classes, of attributes of self, and of assigned variables and fields."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and _owner(node) in {"self", "cls"}:
            yield node.attr
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id


def _owner(node: ast.Attribute) -> str:
    return ast.unparse(node.value)


def read_private(tree: ast.AST) -> Iterator[tuple[str, str, int]]:
    """Expression, attribute name and line of each private attribute of an object other than self, cls and super()."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and is_private(node.attr):
            if _owner(node) not in {"self", "cls", "super()"}:
                yield ast.unparse(node), node.attr, node.lineno
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in {"getattr", "setattr", "hasattr", "delattr"}:
            name = node.args[1] if len(node.args) > 1 else None
            if isinstance(name, ast.Constant) and isinstance(name.value, str) and is_private(name.value):
                yield ast.unparse(node), name.value, node.lineno


def foreign_reads(trees: dict[str, ast.AST]) -> dict[str, str]:
    """Attribute names that nothing in the trees defines, with the place of one use."""
    ours = {name for tree in trees.values() for name in defined_names(tree)}
    return {
        name: f"{path}:{line}: {expression}"
        for path, tree in trees.items()
        for expression, name, line in read_private(tree)
        if name not in ours and expression not in PUBLIC and name not in PUBLIC
    }


@pytest.mark.slow
def test_no_private_attribute_of_another_library_is_read() -> None:
    trees: dict[str, ast.AST] = {
        str(path.relative_to(SOURCE)): ast.parse(path.read_text(encoding="utf-8")) for path in SOURCE.rglob("*.py")
    }
    found = foreign_reads(trees)
    assert [place for name, place in found.items() if name not in EXCEPTIONS] == []
    assert sorted(set(EXCEPTIONS) - set(found)) == [], "an exception that is not needed any more"


def test_what_is_found() -> None:
    source = """
class A:
    def __init__(self):
        self._own = 1
    def f(self, other, response):
        return other._own, self._buffer, super()._x, response._buffer, getattr(response, "_eof"), response.__class__
"""
    assert sorted(foreign_reads({"a.py": ast.parse(source)})) == ["_buffer", "_eof"]
