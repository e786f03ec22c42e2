"""The strict upstream shares no code with penstock."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

import pytest

from tests.support.paths import PROJECT

if TYPE_CHECKING:
    from pathlib import Path

FOLDER = PROJECT / "tools" / "strict_upstream"


@pytest.mark.parametrize("place", sorted(FOLDER.glob("*.py")), ids=lambda place: place.name)
def test_a_module_imports_nothing_of_penstock(place: Path) -> None:
    names: list[str] = []
    for node in ast.walk(ast.parse(place.read_text())):
        if isinstance(node, ast.Import):
            names += [one.name for one in node.names]
        elif isinstance(node, ast.ImportFrom):
            names.append(node.module or "")
    assert [name for name in names if name.split(".")[0] == "penstock"] == []
