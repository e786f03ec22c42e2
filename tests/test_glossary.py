"""The glossary's terms exist in the code, and names in the code follow the rules of `docs/glossary.md`."""

from __future__ import annotations

import ast
import re
from collections import Counter
from functools import cache
from importlib import import_module
from pathlib import Path

HERE = Path(__file__).parents[1]
SOURCE = HERE / "src" / "penstock"
GLOSSARY = (HERE / "docs" / "glossary.md").read_text(encoding="utf-8")
FORBIDDEN = frozenset(
    "told said made kept put way place own errands sparing surroundings voice outlet line tell say settle".split()
)
# Classes whose name is not unique yet: rename them, and take them off this list. Canonical events and parts of requests
# share the nouns of the vocabulary (`events.Result`, `request.Result`); each protocol has its `Quirks`.
SHARED_CLASSES = frozenset(
    """
    Answer Ask Connection Counter Endpoint Factors Features File Held Keeping Kept Limits Line Noting
    Opaque Part Quirks Recorder Reply Result Source Spent Step Told Turn TurnRequest Upstream
    _Book _Run _Table
    """.split()
)
# Module names that stand in several folders: the same files in every protocol folder, and one subject at several levels
# (`_gateway/config.py` and `_engines/config.py`), or a public module and the internal one of its subject.
SHARED_MODULES = frozenset(
    """
    api app body chat config convert decode decode_calls embeddings encode journal keys messages models options providers
    recordings replay request_parts request_read request_read_parts request_settings request_tools request_write
    request_write_parts tokens tools turns upstream vscode wire
    """.split()
)
# Names that are a bare everyday word: rename them, and take them off this list.
EVERYDAY_NAMES = frozenset(
    """
    Kept Line Outlet Place Said Say Sparing Surroundings Told Voice _Kept _kept _line _made _own _place _put _said
    _say _settle _tell _told kept line made own place put said say settle sparing told way
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


def test_class_names_are_unique() -> None:
    """Wire modules may repeat a name: their classes are named as the vendor names its objects."""
    names = [node.name for path, node in _definitions() if isinstance(node, ast.ClassDef) and path.name != "wire.py"]
    assert {name for name, count in Counter(names).items() if count > 1} <= SHARED_CLASSES


def test_module_names_are_unique_or_listed() -> None:
    stems = Counter(path.stem for path in SOURCE.rglob("*.py") if path.stem != "__init__")
    assert {stem for stem, count in stems.items() if count > 1} <= SHARED_MODULES


def test_no_name_is_a_bare_everyday_word() -> None:
    names = {node.name for _, node in _definitions()} | {path.stem for path in SOURCE.rglob("*.py")}
    assert {name for name in names if name.strip("_").lower() in FORBIDDEN} <= EVERYDAY_NAMES
