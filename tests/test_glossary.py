"""The glossary's terms exist in the code, and names in the code follow the rules of `docs/glossary.md`."""

from __future__ import annotations

import ast
import re
from collections import Counter
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest

HERE = Path(__file__).parents[1]
SOURCE = HERE / "src" / "penstock"
GLOSSARY = (HERE / "docs" / "glossary.md").read_text(encoding="utf-8")
FORBIDDEN = frozenset(
    "told said made kept way place own errands sparing surroundings voice outlet line tell say settle odd ill".split()
)
# The nouns of the vocabulary are classes of events and of parts of requests (`events.Result`, `request.Result`); each
# protocol's writer has its `Quirks`.
SHARED_CLASSES = frozenset("Ask Opaque Quirks Result Source".split())
# Module names that stand in several folders: the same files in every protocol folder, and one subject at several levels
# (`_gateway/config.py` and `_engines/config.py`), or a public module and the internal one of its subject.
SHARED_MODULES = frozenset(
    """
    app config decode decode_calls encode journal models recordings request_parts request_read
    request_read_parts request_settings request_write request_write_parts tokens upstream vscode wire
    """.split()
)


@cache
def _definitions() -> list[tuple[Path, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef]]:
    """Every class and function of the package, nested ones included, with its file."""
    kinds = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    files = [path for path in SOURCE.rglob("*.py") if "static" not in path.parts]
    trees = [(path, ast.parse(path.read_text(encoding="utf-8"))) for path in files]
    return [(path, node) for path, tree in trees for node in ast.walk(tree) if isinstance(node, kinds)]


def test_terms_of_the_glossary_exist() -> None:
    terms = re.findall(r"`(penstock(?:\.\w+)+)`", GLOSSARY)
    assert len(terms) > 15
    for term in terms:
        home, _, name = term.rpartition(".")
        try:
            import_module(term)
        except ModuleNotFoundError:
            assert hasattr(import_module(home), name), term


@pytest.mark.slow
def test_class_names_are_unique() -> None:
    """Wire modules may repeat a name: their classes are named as the vendor names its objects."""
    names = [node.name for path, node in _definitions() if isinstance(node, ast.ClassDef) and path.name != "wire.py"]
    assert {name for name, count in Counter(names).items() if count > 1} == SHARED_CLASSES


def test_module_names_are_unique_or_listed() -> None:
    stems = Counter(path.stem for path in SOURCE.rglob("*.py") if path.stem != "__init__")
    assert {stem for stem, count in stems.items() if count > 1} == SHARED_MODULES


@pytest.mark.slow
def test_no_name_is_a_bare_everyday_word() -> None:
    names = {node.name for _, node in _definitions()} | {path.stem for path in SOURCE.rglob("*.py")}
    assert not {name for name in names if name.strip("_").lower() in FORBIDDEN}
