"""Where in a TOML file a key stands, and what is wrong with it in one line: file, line, key, fix.

The standard library's reader keeps no line numbers; this one finds them, and leaves all meaning to it.
"""

from __future__ import annotations

import difflib
import re
import tomllib
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, get_args, get_origin

import msgspec

from penstock.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

ANY = "[...]"
# A quote that is not closed is taken as far as it goes: tried again from each further quote, it would take for ever.
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
_LINE = re.compile(r" ?\(at (?:line (\d{1,9}), column (\d{1,9})|end of document)\)")


class Place:
    """The places of a file's keys, found when first asked for."""

    def __init__(self, text: str, path: Path) -> None:
        self._text, self._path = text, path
        self._lines: dict[tuple[str, ...], int] | None = None

    @contextmanager
    def at(self, *keys: str) -> Generator[None]:
        """What is wrong in here is wrong with that key."""
        try:
            yield
        except InputError as error:
            raise InputError(self.say(keys, str(error))) from None

    def say(self, keys: tuple[str, ...], message: str) -> str:
        line = self.line(keys)
        return f"{self._path}{f':{line}' if line else ''}: {'.'.join(keys) or 'the file'}: {message}"

    def line(self, keys: tuple[str, ...]) -> int:
        """The line of a key, or of the nearest one around it; 0 where there is none."""
        if self._lines is None:
            self._lines = lines(self._text)
        while keys:
            if keys in self._lines:
                return self._lines[keys]
            keys = keys[:-1]
        return 0


def lines(text: str) -> dict[tuple[str, ...], int]:
    """Each key of a TOML text → its line. Keys in inline tables too; those of arrays of tables share a name."""
    made: dict[tuple[str, ...], int] = {}
    table: tuple[str, ...] = ()
    around: list[tuple[str, ...]] = []  # the keys whose brackets are open
    last: tuple[str, ...] = ()
    place, line, fresh = 0, 1, True
    while place < len(text):
        header = _HEADER.match(text, place) if fresh and not around else None
        token = header or _TOKEN.match(text, place)
        assert token is not None  # noqa: S101 — the last alternative takes any letter
        if header is not None:
            table = last = _names(header[1])
            _note(made, table, line)
        elif token["open"]:
            around.append(last)
        elif token["close"] and around:
            last = around.pop()
        elif token["is"]:
            last = (*(around[-1] if around else table), *_names(token["key"]))
            _note(made, last, line)
        fresh = token.lastgroup == "line" or (fresh and token.lastgroup == "skip")
        line += token[0].count("\n")
        place = token.end()
    return made


def _note(made: dict[tuple[str, ...], int], keys: tuple[str, ...], line: int) -> None:
    for depth in range(1, len(keys) + 1):
        made.setdefault(keys[:depth], line)


def _names(dotted: str) -> tuple[str, ...]:
    return tuple(name.strip("\"'") for name in _PARTS.findall(dotted))


def found(text: str, path: Path, error: tomllib.TOMLDecodeError | msgspec.ValidationError, type: Any = None) -> str:
    """What is wrong with a file, in one line."""
    if not isinstance(error, msgspec.ValidationError):
        said = str(error)
        at = _LINE.search(said)
        where = f"{path}:{at[1] or text.count(chr(10)) + 1}" if at else str(path)
        return f"{where}: not TOML: {_LINE.sub('', said)}" + (f" (column {at[2]})" if at and at[2] else "")
    match = _AT.match(str(error))
    assert match is not None  # noqa: S101 — it matches any text
    keys = tuple(name or f"[{number}]" for name, number in _STEPS.findall(match["path"] or ""))
    keys, what = _meant(_named(keys, tomllib.loads(text), type), match["what"], type)
    return Place(text, path).say(keys, what)


def _named(keys: tuple[str, ...], raw: dict[str, Any], type: Any) -> tuple[str, ...]:
    """The path with a name for the dots that stand for any key of a table: the first whose table fails by itself."""
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
            return _named((*keys[:depth], name, *keys[depth + 1 :]), alone, type)
    return keys


def _meant(keys: tuple[str, ...], what: str, type: Any) -> tuple[tuple[str, ...], str]:
    unknown = _UNKNOWN.fullmatch(what)
    if unknown is None:
        return keys, what[:1].lower() + what[1:].replace(", got ", ", found ").replace("`", "")
    known = _fields(type, keys)
    near = difflib.get_close_matches(unknown[1], known, 1)
    hint = f"; did you mean {near[0]}?" if near else f"; there are: {', '.join(known)}" if known else ""
    return (*keys, unknown[1]), f"no such key{hint}"


def _fields(type: Any, keys: tuple[str, ...]) -> list[str]:
    """The keys that a table may have."""
    now = type
    for key in keys:
        options = [now, *get_args(now)]
        table = next((one for one in options if get_origin(one) is dict), None)
        if table is not None:
            now = get_args(table)[1]
        else:
            fields = msgspec.structs.fields(_struct(options) or Empty)
            now = next((one.type for one in fields if one.encode_name == key), None)
    return list((_struct([now, *get_args(now)]) or Empty).__struct_encode_fields__)


def _struct(options: list[Any]) -> Any:
    return next((one for one in options if hasattr(one, "__struct_fields__")), None)


class Empty(msgspec.Struct):
    """Where nothing is known of a table."""
