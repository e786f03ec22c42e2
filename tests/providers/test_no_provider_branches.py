"""No code asks who it is talking to: what a provider or a client needs is a field of its row, never a branch on its name.

Every comparison, `match`, look-up and prefix test in src/ is read. Some providers share their name with the protocol
they speak; those may be compared where it is the protocol that is asked for.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import penstock
from penstock._protocols import MODULES
from penstock.providers import clients, providers

if TYPE_CHECKING:
    from collections.abc import Iterator

SOURCE = Path(penstock.__file__).parent
# The packaged streams are no one else's: their name is ours.
OTHERS = [row for row in providers().values() if row.engine == "native"]
NAMES = {name for row in OTHERS for name in (row.name, *row.names)} | set(clients())
SHARED = NAMES & {*MODULES, *MODULES.values()}
_WHO = re.compile(r"provider|client|vendor|agent|\bwho\b|\brow\.name|host", re.IGNORECASE)
_ANY = "|".join(map(re.escape, sorted(NAMES)))
_QUOTED = re.compile(rf"""["'](?:{_ANY})[/:_-]*["']""", re.IGNORECASE)
_TESTS = {"startswith", "endswith", "removeprefix", "removesuffix"}


def branches(code: str) -> list[tuple[int, str]]:
    """The places where a name decides: their lines and the expressions."""
    tree = ast.parse(code)
    known = {
        target.id: node.value.value
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    return [(line, text) for line, text, words in _decisions(tree, known) if any(_names(word, text) for word in words)]


def _names(word: str, text: str) -> bool:
    bare = word.lower().strip("/:-_")
    return bare in NAMES and (bare not in SHARED or _WHO.search(text) is not None)


def _decisions(tree: ast.AST, known: dict[str, str]) -> Iterator[tuple[int, str, list[str]]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare):
            yield node.lineno, ast.unparse(node), _words([node.left, *node.comparators], known)
        elif isinstance(node, ast.MatchValue | ast.MatchMapping):
            yield node.lineno, ast.unparse(node), _words([*ast.iter_child_nodes(node)], known)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _TESTS:
            yield node.lineno, ast.unparse(node), _words(node.args, known)


def _words(operands: list[ast.AST] | list[ast.expr], known: dict[str, str]) -> list[str]:
    """The strings that are compared: literals, those of a collection, and constants of the module."""
    words: list[str] = []
    for operand in operands:
        if isinstance(operand, ast.Tuple | ast.List | ast.Set):
            words += _words(operand.elts, known)
        elif isinstance(operand, ast.Call) and isinstance(operand.func, ast.Name):  # frozenset({…})
            words += _words(operand.args, known)
        elif isinstance(operand, ast.Constant) and isinstance(operand.value, str):
            words.append(operand.value)
        elif isinstance(operand, ast.Name) and operand.id in known:
            words.append(known[operand.id])
    return words


@pytest.mark.slow
@pytest.mark.row("P2")
def test_no_code_branches_on_a_name() -> None:
    found = [
        f"{path.relative_to(SOURCE)}:{line}: {text}"
        for path in sorted(SOURCE.rglob("*.py"))
        if _QUOTED.search(code := path.read_text(encoding="utf-8"))  # most files name nobody, and are not parsed
        for line, text in branches(code)
    ]
    assert found == []


@pytest.mark.parametrize(
    "code",
    [
        "if name == 'groq': pass",
        "x = provider != 'anthropic'",
        "if client in ('codex', 'goose'): pass",
        "if client in frozenset({'claude-code'}): pass",
        "match provider:\n    case 'openai': pass",
        "if host.startswith('openai/'): pass",
        "OPEN = 'openrouter'\nif name == OPEN: pass",
        "y = [row for row in rows if row.name != 'azure']",
    ],
)
def test_the_check_finds_them(code: str) -> None:
    assert len(branches(code)) == 1


@pytest.mark.parametrize("code", ["if protocol == 'anthropic': pass", "if kind == 'text': pass", "x = a == b"])
def test_the_check_lets_the_rest_be(code: str) -> None:
    assert branches(code) == []
