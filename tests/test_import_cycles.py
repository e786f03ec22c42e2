"""No module of the package imports itself through others. Imports for type checkers and inside functions count too.

A cycle works only as long as nobody changes the order of imports, and no part of it can be understood or moved alone.
"""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

SOURCE = Path(__file__).resolve().parents[1] / "src"
# Imports inside functions that may close a cycle: (importing module, imported module) → the reason.
EXCEPTIONS: dict[tuple[str, str], str] = {}


def module_files(source: Path) -> dict[str, Path]:
    """Every module's dotted name and its file."""
    names = {path: path.relative_to(source).with_suffix("").parts for path in source.rglob("*.py")}
    return {".".join(parts[:-1] if parts[-1] == "__init__" else parts): path for path, parts in names.items()}


def imported_modules(name: str, file: Path, modules: Mapping[str, Path]) -> Iterator[str]:
    """The modules that a file imports, wherever in the file. `from package import module` counts as that module."""
    package = name if file.name == "__init__.py" else name.rpartition(".")[0]
    for node in ast.walk(ast.parse(file.read_bytes())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package.split(".")[: package.count(".") + 2 - node.level] if node.level else []
            parent = ".".join([*base, node.module] if node.module else base)
            for alias in node.names:
                yield f"{parent}.{alias.name}" if f"{parent}.{alias.name}" in modules else parent


@cache
def import_graph(source: Path) -> dict[str, set[str]]:
    modules = module_files(source)
    return {
        name: {target for target in imported_modules(name, file, modules) if target in modules and target != name}
        for name, file in modules.items()
    }


class CycleFinder:
    """Tarjan's algorithm: groups of modules in which each imports each other, directly or through others."""

    def __init__(self, graph: Mapping[str, Iterable[str]]) -> None:
        self.graph = graph
        self.cycles: list[list[str]] = []
        self._order: dict[str, int] = {}
        self._lowest: dict[str, int] = {}
        self._stack: list[str] = []
        for name in graph:
            if name not in self._order:
                self._visit_module(name)

    def _visit_module(self, name: str) -> None:
        self._order[name] = self._lowest[name] = len(self._order)
        self._stack.append(name)
        for target in self.graph.get(name, ()):
            if target not in self._order:
                self._visit_module(target)
                self._lowest[name] = min(self._lowest[name], self._lowest[target])
            elif target in self._stack:
                self._lowest[name] = min(self._lowest[name], self._order[target])
        if self._lowest[name] == self._order[name]:
            start = self._stack.index(name)
            group, self._stack[start:] = self._stack[start:], []
            if len(group) > 1:
                self.cycles.append(sorted(group))


@pytest.mark.slow
def test_no_module_is_in_an_import_cycle() -> None:
    graph = import_graph(SOURCE)
    for importing, imported in EXCEPTIONS:
        graph[importing].remove(imported)  # a KeyError: the exception is no longer needed
    cycles = CycleFinder(graph).cycles
    assert not cycles, "import cycles:\n" + "\n".join(", ".join(cycle) for cycle in cycles)


@pytest.mark.slow
def test_no_package_is_in_an_import_cycle() -> None:
    """Packages and modules directly under `penstock`, each with all that is inside it."""
    graph: dict[str, set[str]] = {}
    for name, targets in import_graph(SOURCE).items():
        outer = ".".join(name.split(".")[:2])
        graph.setdefault(outer, set()).update(".".join(target.split(".")[:2]) for target in targets)
    cycles = CycleFinder(graph).cycles
    assert not cycles, "import cycles:\n" + "\n".join(", ".join(cycle) for cycle in cycles)


@pytest.mark.parametrize(
    "statement",
    [
        "import package.a",
        "from package import a",
        "from package.a import name",
        "from . import a",
        "from .a import name",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from package import a",
        "def run() -> None:\n    from package import a",
    ],
)
def test_a_cycle_is_found(statement: str, tmp_path: Path) -> None:
    package = tmp_path / "package"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "a.py").write_text("from package import b\n")
    (package / "b.py").write_text("import package.c\n")
    (package / "c.py").write_text(f"{statement}\n")
    (package / "d.py").write_text("import os\nimport package.a\n")
    assert CycleFinder(import_graph(tmp_path)).cycles == [["package.a", "package.b", "package.c"]]


def test_a_graph_without_cycles_passes() -> None:
    assert not CycleFinder({"a": ["b", "c"], "b": ["c"], "c": [], "d": ["a"]}).cycles
