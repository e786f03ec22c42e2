"""Counts the lines of Python files that say something: `python -m tools.code_lines FILE…`.

Blank lines, comments and docstrings are left out. Format the files first: `ruff format --line-length 120`.
docs/comparison.md uses it for both sides.
"""

from __future__ import annotations

import ast
import io
import sys
import tokenize
from pathlib import Path

_SILENT = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)


def count_code_lines(source: str) -> int:
    """Returns the number of lines that hold a token other than a comment, without docstrings."""
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in _SILENT:
            lines.update(range(token.start[0], token.end[0] + 1))
    return len(lines - _docstring_lines(ast.parse(source)))


def _docstring_lines(tree: ast.Module) -> set[int]:
    found: set[int] = set()
    for node in ast.walk(tree):
        if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        first = node.body[0] if node.body else None
        if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str):
            found.update(range(first.lineno, (first.end_lineno or first.lineno) + 1))
    return found


def main() -> None:
    """Prints a line for each file, and the sum."""
    counts = {path: count_code_lines(Path(path).read_text(encoding="utf-8")) for path in sys.argv[1:]}
    for path, count in counts.items():
        print(f"{count:5} {path}")
    print(f"{sum(counts.values()):5} in all")


if __name__ == "__main__":
    main()
