"""Pages for users show public names only: their Python imports names that exist, and files they name exist."""

from __future__ import annotations

import ast
import re
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tools.code_blocks import read_blocks

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[1]
PAGES = [
    ROOT / "README.md",
    *(page for folder in (".", "protocols", "tutorials") for page in sorted((ROOT / "docs" / folder).glob("*.md"))),
]
FOR_CONTRIBUTORS = {"add-a-protocol.md", "glossary.md", "stability.md", "testing.md"}  # they explain the code itself
BLOCKS = [
    pytest.param(block.text, id=block.place)
    for page in PAGES
    if page.name not in FOR_CONTRIBUTORS
    for block in read_blocks(page)
    if block.language == "python"
]


def used_names(code: str) -> Iterator[tuple[str, str]]:
    """Each name of the package that the code imports or reads, with its module; the name is empty for `import module`."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from ((node.module or "", alias.name) for alias in node.names)
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "penstock":
            yield "penstock", node.attr


def problem(module: str, name: str) -> str:
    """What is wrong with a name in an example, if anything is."""
    if module.partition(".")[0] != "penstock":
        return ""
    if any(part.startswith("_") for part in f"{module}.{name}".split(".")[1:] if part != "__version__"):
        return f"{module} {name}: internal"
    try:
        found = import_module(module)
    except ImportError:
        return f"{module}: no such module"
    if not name or name in getattr(found, "__all__", ()):
        return ""
    exists = hasattr(found, name) and not hasattr(found, "__all__")
    return "" if exists else f"{module} {name}: no public name"


@pytest.mark.parametrize("code", BLOCKS)
def test_python_in_the_docs_uses_public_names(code: str) -> None:
    assert [found for module, name in used_names(code) if (found := problem(module, name))] == []


def test_there_is_python_in_the_docs() -> None:
    assert len(BLOCKS) > 20


@pytest.mark.parametrize(
    "page", [page for page in PAGES if page.name not in FOR_CONTRIBUTORS], ids=lambda page: str(page.relative_to(ROOT))
)
def test_pages_for_users_name_no_internal_module(page: Path) -> None:
    assert re.findall(r"\bpenstock\._\w[\w.]*", page.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_files_that_a_page_names_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    files = re.findall(r"`((?:benchmarks|examples|fuzz|tests|tools)/[\w/.-]+\.\w+)`", text)
    files += [f"{name.replace('.', '/')}.py" for name in re.findall(r"python -m (tests\.[\w.]*\w)", text)]
    packages = {f"{path.parent.relative_to(ROOT)}.py" for path in ROOT.glob("tests/*/__main__.py")}
    assert [name for name in files if not (ROOT / name).exists() and name not in packages] == []


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("from penstock import translate, errors", []),
        ("import penstock\npenstock.guess", []),
        ("from penstock._bridge import bridge", ["penstock._bridge bridge: internal"]),
        ("import penstock._gateway", ["penstock._gateway : internal"]),
        ("from penstock.framing import _fast", ["penstock.framing _fast: internal"]),
        ("from penstock.framing import gone", ["penstock.framing gone: no public name"]),
        ("from penstock.events import gone", ["penstock.events gone: no public name"]),
        ("from penstock.gone import name", ["penstock.gone: no such module"]),
        ("import penstock\npenstock.gone()", ["penstock gone: no public name"]),
    ],
)
def test_the_check_finds_problems(code: str, found: list[str]) -> None:
    assert [text for module, name in used_names(code) if (text := problem(module, name))] == found
