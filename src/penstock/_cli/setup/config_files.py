"""Edits configuration files of other programs: merges values into JSON, TOML, YAML or .env text, diffs, undoes.

Comments and order stay: tomlkit and ruamel.yaml keep them. A file that cannot be edited without loss (JSON with
comments, or a missing library) is refused, and its settings are printed instead.
"""

from __future__ import annotations

import difflib
import json
import re
import tomllib
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias, TypeGuard

import msgspec

from penstock._printable_text import printable
from penstock._redaction import redact
from penstock._store import provider_keys
from penstock.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from penstock._cli.terminal import StyledLine

Form: TypeAlias = Literal["json", "toml", "yaml", "env"]
Step: TypeAlias = "str | tuple[str, str]"  # a key of a table, or (key, value) that identify a table in a list
IDENTITIES = ("id", "model_id", "name")  # what tells the tables of a list apart, the first that is there
_ENV_LINE = re.compile(r"\s*(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)\s*=(.*)")
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_MISSING = object()


def is_table(value: Any) -> TypeGuard[dict[str, Any]]:
    """True for a table of a configuration file."""
    return isinstance(value, dict)


def is_list(value: Any) -> TypeGuard[list[Any]]:
    """True for a list of a configuration file."""
    return isinstance(value, list)


class UneditableError(InputError):
    """A file that cannot be edited without losing something. The message is the reason."""


class FileEdit(msgspec.Struct, frozen=True):
    """Values for one file. `defaults` are set only where the file has nothing."""

    path: Path
    form: Form
    values: Any
    defaults: dict[str, Any] = {}

    @property
    def all_values(self) -> Any:
        """The content of a new file."""
        return {**self.defaults, **self.values} if is_table(self.values) else self.values


class ValueChange(msgspec.Struct, frozen=True):
    """One value that was set: where, what was there before, and what is there now. `had` is false for a new one."""

    path: tuple[Any, ...]
    old: Any
    new: Any
    had: bool


class FileResult(NamedTuple):
    """A file's text before and after an edit, and the values that were set. `before` is None if there was no file."""

    before: str | None
    after: str
    changes: list[ValueChange]


# ── edits ─────────────────────────────────────────────────────────────────────────────────────────


def plan_edit(edit: FileEdit) -> FileResult:
    """Returns the text of a file with the edit, and the changes. Writes nothing.

    Raises `UneditableError` if the edit would lose something.
    """
    before = edit.path.read_text(encoding="utf-8") if edit.path.is_file() else None
    if before is None or not before.strip():
        values = edit.all_values
        after = write_text(edit.form, values)
        return FileResult(before, after, [ValueChange(path, None, value, had=False) for path, value in _leaves(values)])
    document, dump = _open_document(edit, before)
    changes: list[ValueChange] = []
    for path, value in _leaves(edit.values):
        old = _get(document, path)
        if _to_plain_value(old) != value:
            had = old is not _MISSING
            changes.append(ValueChange(path, _to_plain_value(old) if had else None, value, had=had))
            _set(document, path, value)
    for path, value in _leaves(edit.defaults):
        if _get(document, path) is _MISSING:
            changes.append(ValueChange(path, None, value, had=False))
            _set(document, path, value)
    after = dump() if changes else before
    _check_editable(edit, after)
    return FileResult(before, after, changes)


def undo_changes(edit: FileEdit, text: str, changes: list[ValueChange]) -> str:
    """Returns the text with the earlier values, where the values that were set are unchanged."""
    document, dump = _open_document(edit, text)
    for change in reversed(changes):
        path: tuple[Step, ...] = tuple((step[0], step[1]) if is_list(step) else step for step in change.path)
        if _to_plain_value(_get(document, path)) != change.new:
            continue  # it was changed since
        if change.had:
            _set(document, path, change.old)
        else:
            _delete(document, path)
    return dump()


def _check_editable(edit: FileEdit, text: str) -> None:
    """Reads the edited text again, and raises an error if a value is not as intended."""
    document, _ = _open_document(edit, text)
    for path, value in _leaves(edit.values):
        if _to_plain_value(_get(document, path)) != value:
            raise UneditableError(f"{edit.path}: {_format_path(path)} could not be set without changing something else")


def _format_path(path: tuple[Step, ...]) -> str:
    return ".".join(step if isinstance(step, str) else step[1] for step in path)


def _leaves(values: Any, path: tuple[Step, ...] = ()) -> Iterator[tuple[tuple[Step, ...], Any]]:
    """Yields each value with its path. Tables in lists are single values, found by their identity."""
    if is_table(values) and (values or not path):
        for key, value in values.items():
            yield from _leaves(value, (*path, key))
    elif is_list(values) and values and all(is_table(item) for item in values):
        for item in values:
            key = next((name for name in IDENTITIES if name in item), "")
            yield (*path, (key, item[key])), item
    else:
        yield path, values


def _get(document: Any, path: tuple[Step, ...]) -> Any:
    for step in path:
        if isinstance(step, str):
            key: Any = step if is_table(document) and step in document else None
        else:
            key = _index(document, step)
        if key is None:
            return _MISSING
        document = document[key]
    return document


def _index(document: Any, step: tuple[str, str]) -> int | None:
    """Returns the position of the table that a step identifies in a list."""
    rows = enumerate(document if is_list(document) else ())
    return next((position for position, row in rows if is_table(row) and row.get(step[0]) == step[1]), None)


def _set(document: Any, path: tuple[Step, ...], value: Any) -> None:
    """Sets a value; tables and lists on its path are created."""
    for position, step in enumerate(path):
        rest = path[position + 1 :]
        if isinstance(step, str):
            if not rest or not isinstance(document.get(step), dict | list):
                document[step] = _nest_value(rest, value)
                return
            document = document[step]
        else:
            found = _index(document, step)
            if found is None:
                document.append(_nest_value(rest, value))
            else:
                document[found] = value
            return


def _nest_value(path: tuple[Step, ...], value: Any) -> Any:
    for step in reversed(path):
        value = {step: value} if isinstance(step, str) else [value]
    return value


def _delete(document: Any, path: tuple[Step, ...]) -> None:
    """Deletes a value, and the tables that are empty without it."""
    chain = [document]
    for step in path[:-1]:
        chain.append(_get(chain[-1], (step,)))
    for parent, step in zip(reversed(chain), reversed(path), strict=True):
        if isinstance(step, str):
            del parent[step]
        else:
            del parent[_index(parent, step) or 0]
        if parent:
            return


def _to_plain_value(value: Any) -> Any:
    """Returns a value without the wrappers of its library."""
    if is_table(value):
        return {str(key): _to_plain_value(inner) for key, inner in value.items()}
    if is_list(value):
        return [_to_plain_value(inner) for inner in value]
    unwrap = getattr(value, "unwrap", None)
    return unwrap() if unwrap is not None else value


# ── forms ─────────────────────────────────────────────────────────────────────────────────────────


def _open_document(edit: FileEdit, text: str) -> tuple[Any, Callable[[], str]]:
    """Returns a document that can be changed, and a function that returns its text."""
    try:
        return _OPENERS[edit.form](text)
    except ImportError as error:
        raise UneditableError(
            f"{edit.path}: `{error.name}` is needed to edit it (pip install 'penstock[setup]')"
        ) from None
    except Exception as error:  # each library has other errors
        if isinstance(error, InputError):
            raise
        why = " ".join(str(error).split())
        raise UneditableError(f"{edit.path}: not plain {edit.form.upper()} ({why})") from None


def _open_json(text: str) -> tuple[Any, Callable[[], str]]:
    document = json.loads(text)
    if not is_table(document):
        raise TypeError("expected an object")
    found = re.search(r"\n([ \t]+)\"", text)
    indent = found.group(1) if found else 2
    return document, lambda: json.dumps(document, indent=indent, ensure_ascii=False) + "\n"


def _open_toml(text: str) -> tuple[Any, Callable[[], str]]:
    import tomlkit

    tomllib.loads(text)
    document = tomlkit.parse(text)
    return document, lambda: tomlkit.dumps(document)


def _open_yaml(text: str) -> tuple[Any, Callable[[], str]]:
    from ruamel.yaml import YAML

    yaml: Any = YAML()
    yaml.preserve_quotes = True
    yaml.width = 4096
    offset = _dash_offset(text)
    yaml.indent(mapping=2, sequence=offset + 2, offset=offset)
    document = yaml.load(text)

    def dump() -> str:
        out = StringIO()
        yaml.dump(document, out)
        return out.getvalue()

    return document, dump


def _dash_offset(text: str) -> int:
    """Returns how far the first list of a YAML file is indented below its key."""
    above = 0
    for line in text.splitlines():
        bare = line.lstrip(" ")
        if bare.startswith("- "):
            return max(len(line) - len(bare) - above, 0)
        if bare and not bare.startswith("#"):
            above = len(line) - len(bare)
    return 2


def _open_env(text: str) -> tuple[Any, Callable[[], str]]:
    lines = text.splitlines()
    found = {match.group(1): match.group(2).strip().strip("\"'") for match in map(_ENV_LINE.match, lines) if match}
    document = dict(found)

    def dump() -> str:
        left = dict(document)
        out: list[str] = []
        for line in lines:
            match = _ENV_LINE.match(line)
            if match is None:
                out.append(line)
            elif match.group(1) in left:
                name = match.group(1)
                value = left.pop(name)
                out.append(line if found[name] == value else f"{name}={value}")
        return "\n".join([*out, *(f"{name}={value}" for name, value in left.items())]) + "\n"

    return document, dump


_OPENERS: dict[str, Callable[[str], tuple[Any, Callable[[], str]]]] = {
    "json": _open_json,
    "toml": _open_toml,
    "yaml": _open_yaml,
    "env": _open_env,
}


def write_text(form: Form, values: Any) -> str:
    """Writes a new file. Needs no library."""
    if form == "json":
        return json.dumps(values, indent=2, ensure_ascii=False) + "\n"
    if form == "env":
        return "".join(f"{name}={value}\n" for name, value in values.items())
    lines = _toml_lines(values) if form == "toml" else _yaml_lines(values)
    return "\n".join(lines) + "\n"


def _toml_lines(values: dict[str, Any], path: tuple[str, ...] = ()) -> Iterator[str]:
    for key, value in values.items():
        if not is_table(value):
            yield f"{_toml_key(key)} = {json.dumps(value, ensure_ascii=False)}"
    for key, value in values.items():
        if is_table(value):
            inner = (*path, key)
            if not all(is_table(one) for one in value.values()):
                yield ""
                yield f"[{'.'.join(map(_toml_key, inner))}]"
            yield from _toml_lines(value, inner)


def _toml_key(key: str) -> str:
    return key if _BARE_KEY.fullmatch(key) else json.dumps(key, ensure_ascii=False)


def _yaml_lines(values: Any, indent: str = "") -> Iterator[str]:
    if is_list(values):
        for item in values:
            first, *rest = list(_yaml_lines(item)) if is_table(item) else [json.dumps(item)]
            yield f"{indent}- {first}"
            yield from (f"{indent}  {line}" for line in rest)
        return
    for key, value in values.items():
        if is_table(value) or (is_list(value) and any(is_table(item) for item in value)):
            yield f"{indent}{key}:"
            yield from _yaml_lines(value, indent + "  ")
        else:
            yield f"{indent}{key}: {_yaml_scalar(value)}"


def _yaml_scalar(value: Any) -> str:
    """Formats a scalar, or a list of them. JSON is YAML; simple words need no quotes."""
    plain = isinstance(value, str) and re.fullmatch(r"[A-Za-z][A-Za-z0-9_./-]*", value)
    if plain and value.lower() not in {"true", "false", "yes", "no", "on", "off", "null", "y", "n"}:
        return str(value)
    return json.dumps(value, ensure_ascii=False)


# ── diffs and files ───────────────────────────────────────────────────────────────────────────────


def diff_lines(path: Path, result: FileResult) -> Iterator[StyledLine]:
    """Yields a coloured unified diff without secrets."""
    styles = {"+": "green", "-": "red", "@": "cyan"}
    old = (result.before or "").splitlines()
    name = str(path)
    for line in difflib.unified_diff(
        old, result.after.splitlines(), name if result.before is not None else "/dev/null", name, lineterm=""
    ):
        yield [(printable(redact(line)), "bold" if line.startswith(("+++", "---")) else styles.get(line[:1], "dim"))]


def write_file(path: Path, text: str) -> None:
    """Replaces a file atomically. A new file is private, because it may hold a key; an old one keeps its mode."""
    mode = path.stat().st_mode & 0o777 if path.is_file() else None
    provider_keys.replace_file(path, text.encode("utf-8"))
    if mode is not None:
        path.chmod(mode)
