"""Every regular expression of the code base, with the methods that it is used by. A new one is found by itself.

Expressions in the code are found by reading it (`re.compile` and the like with a constant), those of modules and classes
by looking at them, whether they are compiled yet or not, those that are made of data by the factories below; one without
a factory is an error. Those of the TypeScript sources are found by their literals, and read by Python, whose syntax is near enough.
"""

from __future__ import annotations

import ast
import importlib
import pkgutil
import re
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import penstock
from penstock._lazy_patterns import LazyPattern

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "penstock"
METHODS = ("search", "match", "fullmatch", "finditer", "findall", "sub", "subn", "split")
_ALIKE = {"findall": "finditer", "subn": "sub"}
_CALLS = frozenset({*METHODS, "compile"})
_ANY = {"search", "fullmatch", "finditer"}  # where the use of an expression is not seen


class Found(NamedTuple):
    """An expression, where it stands, and the methods it is used by."""

    place: str
    pattern: re.Pattern[Any]
    methods: tuple[str, ...]


def collect() -> list[Found]:
    """All of them, each once."""
    used = _usage()
    made: dict[tuple[Any, int], dict[str, Any]] = {}
    for place, name, pattern, method in (*_in_modules(), *_in_calls(), *_made_of_data()):
        row = made.setdefault((pattern.pattern, pattern.flags), {"place": place, "pattern": pattern, "methods": set()})
        module = place.rpartition(".")[0]
        row["methods"] |= {method} if method else used.get((module, name)) or used.get(("", name)) or _ANY
    rows = [Found(row["place"], row["pattern"], tuple(sorted(row["methods"]))) for row in made.values()]
    return [*rows, *_in_typescript()]


# ── as objects ────────────────────────────────────────────────────────────────────────────────────


def _in_modules() -> Iterator[tuple[str, str, re.Pattern[Any], str]]:
    for info in pkgutil.walk_packages(penstock.__path__, "penstock."):
        if info.name.endswith("__main__"):
            continue
        module = importlib.import_module(info.name)
        for name, value in vars(module).items():
            owners = [(name, value)]
            if isinstance(value, type) and value.__module__ == info.name:
                owners = list(vars(value).items())
            for own, one in owners:
                for pattern, method in _patterns(one):
                    yield f"{info.name}.{own}", own, pattern, method


def _patterns(value: Any, depth: int = 3) -> Iterator[tuple[re.Pattern[Any], str]]:
    """The expressions in a value, and the method where it is bound to one."""
    if isinstance(value, re.Pattern):
        yield value, ""
    elif isinstance(value, LazyPattern):
        yield compiled(value), ""
    elif isinstance(getattr(value, "__self__", None), re.Pattern):
        name = str(value.__name__)
        yield value.__self__, _ALIKE.get(name, name)
    elif depth and isinstance(value, tuple | list | set | frozenset | dict):
        inside: list[Any] = [*value, *(value.values() if isinstance(value, dict) else ())]
        for one in inside:
            yield from _patterns(one, depth - 1)


def compiled(pattern: Any) -> re.Pattern[Any]:
    """The expression itself of one that is compiled when it is first used."""
    return re.compile(pattern.pattern, pattern.flags)


# ── as text ───────────────────────────────────────────────────────────────────────────────────────


_NAMED_USE = re.compile(rf"\.(?:{'|'.join(METHODS)})\b")
_NAMED_CALL = re.compile(rf"\b(?:re\.(?:{'|'.join(sorted(_CALLS))})|lazy_pattern)\b")


def _sources(about: re.Pattern[str]) -> Iterator[tuple[Path, ast.Module]]:
    """The files whose text matches. To parse and walk the others takes seconds and finds nothing."""
    for path in sorted(SOURCE.rglob("*.py")):
        if about.search(text := path.read_text(encoding="utf-8")):
            yield path, ast.parse(text)


def _usage() -> dict[tuple[str, str], set[str]]:
    """The methods that are called on a name in a module, and, under no module, in any."""
    used: dict[tuple[str, str], set[str]] = defaultdict(set)
    for path, tree in _sources(_NAMED_USE):
        module = ".".join(path.relative_to(ROOT / "src").with_suffix("").parts).removesuffix(".__init__")
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and node.attr in METHODS:
                name = node.value.attr if isinstance(node.value, ast.Attribute) else getattr(node.value, "id", "")
                for key in ((module, name), ("", name)):
                    used[key].add(_ALIKE.get(node.attr, node.attr))
    return used


def _is_call(node: ast.Call) -> bool:
    """Whether it is `re.compile(…)` or the like, or `lazy_pattern(…)`."""
    func = node.func
    if isinstance(func, ast.Name):
        return func.id == "lazy_pattern"
    return isinstance(func, ast.Attribute) and func.attr in _CALLS and getattr(func.value, "id", "") == "re"


def _in_calls() -> Iterator[tuple[str, str, re.Pattern[Any], str]]:
    """Those with a constant. One that a function compiles, and may keep, is not seen as an object."""
    for path, tree in _sources(_NAMED_CALL):
        inner = _inside_functions(tree)
        for node in ast.walk(tree):
            if not isinstance(node, ast.Call) or not _is_call(node) or not isinstance(node.args[0], ast.Constant):
                continue
            text: Any = node.args[0].value
            attr = node.func.attr if isinstance(node.func, ast.Attribute) else "compile"
            place = f"{path.relative_to(ROOT)}:{node.lineno}"
            if attr != "compile":
                yield place, "", re.compile(text), _ALIKE.get(attr, attr)
            elif id(node) in inner:
                for method in sorted(_ANY):
                    yield place, "", re.compile(text, _flags(node)), method


def _flags(node: ast.Call) -> int:
    """The flags of a call of `re.compile` or `lazy_pattern`."""
    given = [*node.args[1:], *(one.value for one in node.keywords)]
    return int(eval(ast.unparse(given[0]), {"re": re})) if given else 0  # noqa: S307 — it is our own source


def _inside_functions(tree: ast.Module) -> set[int]:
    """The ids of the nodes inside functions."""
    return {id(node) for one in ast.walk(tree) if isinstance(one, _FUNCTIONS) for node in ast.walk(one)}


def unnamed() -> set[str]:
    """Files with a call whose expression is made of data, so that reading the call does not tell it.

    Those at the top of a module or in a class are found as objects.
    """
    found: set[str] = set()
    for path, tree in _sources(_NAMED_CALL):
        inner = _inside_functions(tree)
        for node in ast.walk(tree):
            plain = not isinstance(node, ast.Call) or not _is_call(node) or isinstance(node.args[0], ast.Constant)
            if id(node) in inner and not plain:
                found.add(path.relative_to(SOURCE).as_posix())
    return found


_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


# ── of data ───────────────────────────────────────────────────────────────────────────────────────


def _clients() -> Iterable[re.Pattern[Any]]:
    from penstock._providers.registry import clients

    rows = clients().values()
    return [re.compile(text) for row in rows for text in (*row.headers.values(), *filter(None, [row.agents]))]


def _tokens() -> Iterable[re.Pattern[Any]]:
    from penstock._tokens.families import load_tables

    return [pattern for pattern, _ in load_tables()._patterns]  # pyright: ignore[reportPrivateUsage]


def _identifier_rules() -> list[Any]:
    from penstock import _request_profile as request_profile
    from penstock._messages.request_codecs import PROFILES

    found = {rule for row in PROFILES.values() for rule in (row.names, row.ids)}
    # The same order in every worker: pytest numbers them.
    return sorted(found | {request_profile.PLAIN, request_profile.NINE}, key=repr)


def _identifiers() -> Iterable[re.Pattern[Any]]:
    from penstock import _request_profile as request_profile

    rules = _identifier_rules()
    return [
        *map(request_profile.identifier_pattern, rules),
        *(request_profile.forbidden_character(rule) for rule in rules if rule.chars),
    ]


def _first_characters() -> Iterable[re.Pattern[Any]]:
    return [re.compile(f"[{first}]") for first in sorted({rule.first for rule in _identifier_rules() if rule.first})]


def _namespace() -> Iterable[re.Pattern[Any]]:
    from penstock._messages.request_codecs import PROFILES
    from penstock._transforms.tool_names import CallIdPrefix

    made = [CallIdPrefix(reserved=word) for word in sorted({"", *(row.reserved for row in PROFILES.values())})]
    return [pattern for one in made for pattern in (one._plain, one._dashed)]  # pyright: ignore[reportPrivateUsage]


def _aliases() -> Iterable[re.Pattern[Any]]:
    from penstock._engines.model_resolution import _compile_pattern  # pyright: ignore[reportPrivateUsage]

    return [_compile_pattern(text) for text in ("claude-*", "*", "*-latest", "a*b*c*d", "*/gpt-*-mini")]


def _thinking() -> Iterable[re.Pattern[Any]]:
    from penstock._providers.thinking import _families  # pyright: ignore[reportPrivateUsage]

    return [getattr(fits, "__self__") for rows in _families().values() for fits, _, _ in rows]  # noqa: B009


def _vendor_errors() -> Iterable[re.Pattern[Any]]:
    from penstock._vendor_errors import error_rules

    rules = error_rules()
    return map(compiled, (*rules.messages.values(), rules.quota, *rules.token_counts))


FACTORIES: dict[str, Callable[[], Iterable[re.Pattern[Any]]]] = {
    "_providers/registry.py": _clients,
    "_tokens/families.py": _tokens,
    "_messages/identifiers.py": _first_characters,
    "_request_profile.py": _identifiers,
    "_transforms/tool_names.py": _namespace,
    "_engines/model_resolution.py": _aliases,
    "_providers/thinking.py": _thinking,
    "_vendor_errors.py": _vendor_errors,
    "_lazy_patterns.py": list,  # where lazy ones are compiled: they are found where they are defined
    "_client/schema_check.py": list,  # patterns of a program's own JSON Schema; they see 10,000 characters at most
}


_DATA_METHODS = {
    "_request_profile.py": ("fullmatch", "sub", "search"),
    "_messages/identifiers.py": ("match",),
    "_transforms/tool_names.py": ("sub",),
    "_engines/model_resolution.py": ("fullmatch",),
    "_providers/thinking.py": ("match",),
}


def _made_of_data() -> Iterator[tuple[str, str, re.Pattern[Any], str]]:
    for place, factory in FACTORIES.items():
        for pattern in factory():
            for method in _DATA_METHODS.get(place, ("search",)):
                yield place, "", pattern, method


# ── of TypeScript ─────────────────────────────────────────────────────────────────────────────────

_LITERAL = re.compile(
    r"(?:(?<=[(,=:\[!&|?{};])|(?<=return)|(?<==>))\s*/((?:[^/\\\n\[*]|\\.|\[(?:[^\]\\\n]|\\.)*\])(?:[^/\\\n\[]|\\.|"
    r"\[(?:[^\]\\\n]|\\.)*\])*)/([dgimsuvy]*)(?=[\s.,;:)\]}?&|])"
)
_PROPERTY = re.compile(r"\\p\{(\w+)\}")
_CLASSES = {"L": "A-Za-zé", "N": "0-9"}  # a few characters of a class of Unicode do for all


def _in_typescript() -> Iterator[Found]:
    seen: set[str] = set()
    for folder in ("vscode/src", "web/src"):
        for path in sorted((ROOT / folder).rglob("*.ts*")):
            text = path.read_text(encoding="utf-8")
            for match in _LITERAL.finditer(text):
                source, flags = match.groups()
                if source in seen:
                    continue
                seen.add(source)
                line = text.count("\n", 0, match.start()) + 1
                methods = ("match",) if "y" in flags else ("search", "sub") if "g" in flags else ("search",)
                yield Found(f"{path.relative_to(ROOT)}:{line}", _translated(source, flags), methods)


def _translated(source: str, flags: str) -> re.Pattern[str]:
    """A JavaScript expression as one of Python."""
    source = _PROPERTY.sub(lambda match: _CLASSES.get(match[1], "\u200b-\u200f"), source)
    source = re.sub(r"\\u\{([0-9a-fA-F]+)\}", lambda match: f"\\U{match[1]:>08}", source)
    source = source.replace("(?<", "(?P<").replace("(?P<=", "(?<=").replace("(?P<!", "(?<!").replace("[^]", r"[\s\S]")
    chosen = [
        re.IGNORECASE if "i" in flags else 0,
        re.MULTILINE if "m" in flags else 0,
        re.DOTALL if "s" in flags else 0,
    ]
    return re.compile(source, sum(chosen))
