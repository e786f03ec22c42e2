"""The words of texts that are indexed: all strings of JSON, without data such as the base64 of an image."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import msgspec

from penstock._input_limits import NestingError, decode_bounded

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

DATA_LENGTH = 4096  # characters of base64 in a row: so many are data, not words
_WINDOW = DATA_LENGTH // 2  # each run of `DATA_LENGTH` has one of the windows in it
_SLICE = 2**16  # characters that are matched at once: other threads run in between
_RUN = re.compile(r"[A-Za-z0-9+/=_-]+")
_ESCAPES = re.compile(r"(?:\\u[0-9a-fA-F]{4})+|\\.")
_JSON_BEGINS = frozenset('{["')
_SKIPPED_NAMES = frozenset({"role", "type"})  # in every message: they would be found everywhere
# Members with the arguments or the result of a call. Names and numbers in them are searched, too; elsewhere they belong
# to the protocol.
_CALL_NAMES = frozenset({"input", "args", "arguments", "functionResponse", "function_response", "json"})
_BREAK = " \ue000 "  # a token between two strings: no phrase goes across it


def join_words(strings: Sequence[str]) -> str:
    """Returns strings as one text, in which no phrase goes from one to the next. Data is left out."""
    return remove_data(_BREAK.join(strings)).encode("utf-8", "replace").decode()


def read_json_words(data: bytes) -> str:
    """Returns the words of the strings of a JSON text; all words of one that is broken (such as one that was cut)."""
    try:
        return join_words(list_strings(decode_bounded(data)))
    except (msgspec.DecodeError, UnicodeDecodeError, NestingError):
        text = data.decode("utf-8", "replace")
        return join_words([_ESCAPES.sub(_read_escapes, text) if text.lstrip()[:1] in _JSON_BEGINS else text])


def _read_escapes(found: re.Match[str]) -> str:
    try:
        return msgspec.json.decode(f'"{found[0]}"', type=str)
    except (msgspec.DecodeError, UnicodeEncodeError):
        return found[0]


def list_strings(value: Any, *, is_call: bool = False) -> list[str]:
    """Returns the strings of a JSON value in their order. Not recursive.

    `is_call`: it is the arguments or the result of a call. Then names and numbers are listed, too.
    """
    strings: list[str] = []
    waiting = [(value, is_call)]
    while waiting:
        inner, is_call = waiting.pop()
        if isinstance(inner, str):
            strings.append(inner)
        elif isinstance(inner, dict):
            named: dict[str, Any] = inner  # pyright: ignore[reportUnknownVariableType]
            waiting += reversed(list(_list_members(named, is_call=is_call)))
        elif isinstance(inner, list):
            waiting += [(one, is_call) for one in reversed(inner)]  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
        elif is_call and isinstance(inner, int | float) and not isinstance(inner, bool):
            strings.append(str(inner))
    return strings


def _list_members(named: dict[str, Any], *, is_call: bool) -> Iterator[tuple[Any, bool]]:
    for name, one in named.items():
        if is_call:
            yield name, True
        elif name in _SKIPPED_NAMES:
            continue
        yield one, is_call or (name in _CALL_NAMES and isinstance(one, dict))


def remove_data(text: str) -> str:
    """Returns a text with a break in place of each run of base64 that is longer than any word."""
    pieces: list[str] = []
    kept, at = 0, 0
    while at + _WINDOW <= len(text):
        if _RUN.fullmatch(text, at, at + _WINDOW) is None:  # most windows end at their first space
            at += _WINDOW
            continue
        before = _RUN.match(text[max(at - _WINDOW, kept) : at][::-1])
        start = at - before.end() if before is not None else at
        while (found := _RUN.match(text, at, at + _SLICE)) is not None:
            at = found.end()
        if at - start >= DATA_LENGTH:
            pieces.append(text[kept:start])
            kept = at
    return _BREAK.join([*pieces, text[kept:]]) if pieces else text
