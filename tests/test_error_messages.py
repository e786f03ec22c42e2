"""Error messages do not contain names of Python classes."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "penstock"
CLASS_NAME = ("type(error).__name__", "error.__class__.__name__")
# `explain` is a report for developers; an internal error is to be reported, with its class.
ALLOWED = {"errors.py", "translation.py"}


@pytest.mark.slow
def test_no_message_quotes_the_class_of_an_error() -> None:
    found = [
        f"{path.relative_to(SOURCE)}:{node.lineno}"
        for path in SOURCE.rglob("*.py") if path.name not in ALLOWED
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FormattedValue) and ast.unparse(node.value) in CLASS_NAME
    ]  # fmt: skip
    assert found == []
