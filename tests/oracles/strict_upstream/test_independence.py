"""The strict upstream shares no code with penstock."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from tests.support.each_case import each
from tests.support.paths import PROJECT

if TYPE_CHECKING:
    from pathlib import Path

FOLDER = PROJECT / "tools" / "strict_upstream"


@each("place", sorted(FOLDER.glob("*.py")))
def test_a_module_imports_nothing_of_penstock(place: Path) -> None:
    names: list[str] = []
    for node in ast.walk(ast.parse(place.read_text())):
        if isinstance(node, ast.Import):
            names += [one.name for one in node.names]
        elif isinstance(node, ast.ImportFrom):
            names.append(node.module or "")
    assert [name for name in names if name.split(".")[0] == "penstock"] == []
