"""Locations of keys in a TOML file, for error messages with file, line, key and fix.

The standard library's parser keeps no line numbers; this module finds them in the text.
"""

from __future__ import annotations

import difflib
import re
import tomllib
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin

import msgspec

from penstock.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

ANY = "[...]"
# An unclosed quote matches to its end: backtracking from each quote would be quadratic.
_KEY = r"""(?:[A-Za-z0-9_-]++|"(?:[^"\\\n]|\\.)*+"?|'[^'\n]*+'?)"""
_DOTTED = rf"{_KEY}(?:[ \t]*+\.[ \t]*+{_KEY})*+"
_TOKEN = re.compile(
    rf"""(?xs)
    (?P<skip>[ \t\r]+ | \#[^\n]* | \"\"\".*?(?<!\\)\"\"\"+ | '''.*?'''+ | ,)
    | (?P<line>\n) | (?P<open>[\[{{]) | (?P<close>[\]}}])
    | (?P<key>{_DOTTED})(?P<is>[ \t]*=)?
    | (?P<other>.)
    """
)
_HEADER = re.compile(rf"[ \t]*\[\[?[ \t]*({_DOTTED})[ \t]*\]\]?")
_PARTS = re.compile(_KEY)
_AT = re.compile(r"^(?P<what>.*?)(?: - at `(?P<path>\$[^`]*+)`)?$", re.DOTALL)
_STEPS = re.compile(r"\.([^.\[\]]+)|\[(\d+|\.\.\.)\]")
_UNKNOWN = re.compile(r"Object contains unknown field `(.*)`")
_NO_WORD = "Invalid enum value"
_LINE = re.compile(r" ?\(at (?:line (\d{1,9}), column (\d{1,9})|end of document)\)")


class TomlLocations:
    """The lines of a file's keys, indexed at first use."""

    def __init__(self, text: str, path: Path) -> None:
        self._text, self._path = text, path
        self._lines: dict[tuple[str, ...], int] | None = None

    @contextmanager
    def locate_errors(self, *keys: str) -> Generator[None]:
        """Add the location of a key to errors that are raised inside."""
        try:
            yield
        except InputError as error:
            raise InputError(self.format_message(keys, str(error))) from None

    def format_message(self, keys: tuple[str, ...], message: str) -> str:
        line = self.line_number(keys)
        return f"{self._path}{f':{line}' if line else ''}: {'.'.join(keys) or 'the file'}: {message}"

    def line_number(self, keys: tuple[str, ...]) -> int:
        """Return the line of a key, or of its closest parent; 0 if there is none."""
        if self._lines is None:
            self._lines = index_lines(self._text)
        while keys:
            if keys in self._lines:
                return self._lines[keys]
            keys = keys[:-1]
        return 0


def index_lines(text: str) -> dict[tuple[str, ...], int]:
    """Return the line of each key of a TOML text, also in inline tables. Arrays of tables share a name."""
    line_numbers: dict[tuple[str, ...], int] = {}
    table: tuple[str, ...] = ()
    around: list[tuple[str, ...]] = []  # the keys whose brackets are open
    last: tuple[str, ...] = ()
    position, line, fresh = 0, 1, True
    while position < len(text):
        header = _HEADER.match(text, position) if fresh and not around else None
        token = header or _TOKEN.match(text, position)
        assert token is not None  # noqa: S101 — the last alternative takes any letter
        if header is not None:
            table = last = _split_key(header[1])
            _record_line(line_numbers, table, line)
        elif token["open"]:
            around.append(last)
        elif token["close"] and around:
            last = around.pop()
        elif token["is"]:
            last = (*(around[-1] if around else table), *_split_key(token["key"]))
            _record_line(line_numbers, last, line)
        fresh = token.lastgroup == "line" or (fresh and token.lastgroup == "skip")
        line += token[0].count("\n")
        position = token.end()
    return line_numbers


def _record_line(made: dict[tuple[str, ...], int], keys: tuple[str, ...], line: int) -> None:
    for depth in range(1, len(keys) + 1):
        made.setdefault(keys[:depth], line)


def _split_key(dotted: str) -> tuple[str, ...]:
    return tuple(name.strip("\"'") for name in _PARTS.findall(dotted))


def locate_error(
    text: str, path: Path, error: tomllib.TOMLDecodeError | msgspec.ValidationError, type: Any = None
) -> str:
    """Format an error of a file in one line."""
    if not isinstance(error, msgspec.ValidationError):
        reason = str(error)
        at = _LINE.search(reason)
        where = f"{path}:{at[1] or text.count(chr(10)) + 1}" if at else str(path)
        return f"{where}: not TOML: {_LINE.sub('', reason)}" + (f" (column {at[2]})" if at and at[2] else "")
    match = _AT.match(str(error))
    assert match is not None  # noqa: S101 — it matches any text
    keys = tuple(name or f"[{number}]" for name, number in _STEPS.findall(match["path"] or ""))
    keys, what = _explain_error(_find_failing_key(keys, tomllib.loads(text), type), match["what"], type)
    return TomlLocations(text, path).format_message(keys, what)


def _find_failing_key(keys: tuple[str, ...], raw: dict[str, Any], type: Any) -> tuple[str, ...]:
    """Replace `...` in a path by the key whose value fails to validate."""
    if ANY not in keys:
        return keys
    depth = keys.index(ANY)
    tables: Any = raw
    for key in keys[:depth]:
        tables = tables[key]
    for name, value in tables.items():
        alone: Any = {name: value}
        for key in reversed(keys[:depth]):
            alone = {key: alone}
        try:
            msgspec.convert(alone, type)
        except msgspec.ValidationError:
            return _find_failing_key((*keys[:depth], name, *keys[depth + 1 :]), alone, type)
    return keys


def _explain_error(keys: tuple[str, ...], what: str, type: Any) -> tuple[tuple[str, ...], str]:
    unknown = _UNKNOWN.fullmatch(what)
    field, colon, reason = what.partition(": ")
    if colon and field in _field_names(type, keys):  # a record that checks its own values names the field
        return (*keys, field), reason
    if unknown is None:
        words = _known_words(type, keys) if what.startswith(_NO_WORD) else ""
        return keys, what[:1].lower() + what[1:].replace(", got ", ", found ").replace("`", "") + words
    known = _field_names(type, keys)
    near = difflib.get_close_matches(unknown[1], known, 1)
    hint = f"; did you mean {near[0]}?" if near else f"; there are: {', '.join(known)}" if known else ""
    return (*keys, unknown[1]), f"no such key{hint}"


def _field_names(type: Any, keys: tuple[str, ...]) -> list[str]:
    """Return the keys that a table may have."""
    now = _find_type(type, keys)
    return list((_struct_type([now, *get_args(now)]) or EmptyTable).__struct_encode_fields__)


def _known_words(type: Any, keys: tuple[str, ...]) -> str:
    """Return the words that a value may be, and whether it may be a number, as the end of a message."""
    now = _find_type(type, keys)
    options = [now, *get_args(now)]
    words = [str(word) for one in options if get_origin(one) is Literal for word in get_args(one)]
    words += ["or a number"] if float in options else []
    return f"; known are: {', '.join(words)}" if words else ""


def _find_type(type: Any, keys: tuple[str, ...]) -> Any:
    """Return the type of the value at a path."""
    now = type
    for key in keys:
        options = [now, *get_args(now)]
        table = next((one for one in options if get_origin(one) is dict), None)
        if table is not None:
            now = get_args(table)[1]
        else:
            fields = msgspec.structs.fields(_struct_type(options) or EmptyTable)
            now = next((one.type for one in fields if one.encode_name == key), None)
    return now


def _struct_type(options: list[Any]) -> Any:
    return next((one for one in options if hasattr(one, "__struct_fields__")), None)


class EmptyTable(msgspec.Struct):
    """A table without known keys."""
