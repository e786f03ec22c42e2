"""The one policy for the depth and size of input. Every reader of untrusted data takes its limits from here.

`docs/limits.md` lists each limit, what happens beyond it, and the setting that changes it.
"""

from __future__ import annotations

import gc
import re
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

MAX_JSON_DEPTH = 256
"""Levels of nesting in JSON. A deeper body of a client is refused; a deeper payload of a provider is a fault."""

MAX_PATH = 2048
"""Bytes in the path of a request to the gateway, as sent. A longer one is refused with 414 before routing."""

MAX_QUERY = 8192
"""Bytes in the query string of a request to the gateway. A longer one is refused with 414 before routing."""

MAX_HEADER_NAME = 256
"""Bytes in the name of a header, sent or received."""

MAX_HEADER_VALUE = 16 * 1024
"""Bytes in the value of a header that is sent upstream, and in a key that a client sends."""

MAX_HEADERS = 128
"""Header lines in one request, sent or received."""

MAX_PIPELINED = 32
"""Requests that wait on one connection for the answer to an earlier one. With more the connection is closed."""

MAX_REQUEST_HEAD = 64 * 1024
"""Bytes in the request line and headers of a request that is sent upstream."""

MAX_MODEL_NAME = 1024
"""Characters in the name of a model."""

MAX_BODY_TOTAL_BYTES = 256 * 2**20
"""Bytes of all requests over HTTP that are not answered yet (`serve.body_total`). Beyond it, the largest that is still
arriving is refused with 503."""

MAX_WEBSOCKET_BYTES = 32 * 2**20
"""Bytes of requests that one WebSocket may have in flight (`serve.websocket_bytes`). Beyond it, reading pauses."""

MAX_WEBSOCKET_TOTAL_BYTES = 256 * 2**20
"""Bytes of requests that all WebSockets hold (`serve.websocket_total`). Beyond it, the largest is closed."""

MAX_DEEP_TEXT = 1024 * 1024
"""Bytes of JSON that may be searched bracket by bracket because it is deeper than MAX_JSON_DEPTH."""

MAX_TOML_BYTES = 2**20
"""Bytes of a configuration file."""

MAX_TOML_KEY_PARTS = 32
"""Parts of one dotted key in a configuration file."""

MAX_PARTS = 100_000
"""Parts (texts, calls, sources, files …) of one turn. More is a fault."""

MAX_CHOICES = 256
"""Choices of one turn whose finish reasons are kept apart. Further choices have none, with a diagnostic."""

MAX_COUNT = 2**53 - 1
"""The largest count of tokens, and the latest time, that is believed: what every JSON reader holds exactly."""


SHALLOW = 2 * MAX_JSON_DEPTH
"""A text of at most this many bytes cannot exceed the limit: each level takes an opening and a closing bracket."""

_KEPT_LEVELS = 64  # of a deep value: what is further inside stays text
_PATH_SEARCH = 256 * 1024  # bytes searched for the place that is named in an error
_PATH_STEPS = 6
_OPENING, _CLOSING, _QUOTE, _COMMA, _COLON, _BACKSLASH = b"[{", b"]}", *b'",:\\'
# Skips what is between brackets, with strings that have no escapes. Only single characters are repeated possessively:
# Python before 3.11.5 has faults in possessive groups.
_Skip: TypeAlias = "Callable[[bytes, int], re.Match[bytes]]"  # they always match, perhaps the empty string
_to_bracket = cast("_Skip", re.compile(rb'[^"\[\]{}]*+(?:"[^"\\]*+"[^"\[\]{}]*+){0,99}').match)
_to_token = cast("_Skip", re.compile(rb'[^"\[\]{},:]*+').match)
_STEPS = {**dict.fromkeys(_OPENING, 1), **dict.fromkeys(_CLOSING, -1)}
_decode = msgspec.json.Decoder().decode
_validate = msgspec.json.Decoder(msgspec.Raw).decode
_CONTAINERS = frozenset({dict, list, tuple})


class NestingError(ValueError):
    """JSON is deeper than the limit. `path` is where, if it was searched."""

    def __init__(self, path: str = "") -> None:
        self.path = path
        at = f" at {path}" if path else ""
        super().__init__(f"JSON nests deeper than {MAX_JSON_DEPTH} levels{at}")


def exceeds_depth(value: Any) -> bool:
    """True if a decoded JSON value is deeper than the limit.

    `gc` lists the children of a whole level in one call, several times as fast as a loop over them. It does not track
    flat dictionaries, so that the innermost level may be missed; near the limit the exact loop decides.
    """
    if type(value) not in _CONTAINERS:
        return False
    level = [value]
    for _ in range(MAX_JSON_DEPTH - 2):
        level = list(filter(gc.is_tracked, gc.get_referents(*level)))
        if not level:
            return False
    return nests_deeper(value)


def nests_deeper(value: Any, limit: int = MAX_JSON_DEPTH) -> bool:
    """True if a value of plain Python objects is deeper than `limit`. It may hold objects that are not JSON."""
    level = [value] if type(value) in _CONTAINERS else []
    for _ in range(limit):
        if not level:
            return False
        level = [child for parent in level for child in _children(parent) if type(child) in _CONTAINERS]
    return bool(level)


def _children(parent: Any) -> Any:
    return parent.values() if type(parent) is dict else parent  # pyright: ignore[reportUnknownVariableType]


def entries(parent: Any) -> list[tuple[Any, Any]]:
    """Returns the values in an object or list with their keys or positions."""
    return list(parent.items() if type(parent) is dict else enumerate(parent))  # pyright: ignore[reportUnknownArgumentType]


def too_deep(data: bytes) -> bool:
    """True if JSON text is deeper than the limit. False for text that is not JSON: its reader reports that."""
    if len(data) <= SHALLOW or not _has_brackets(data):
        return False
    try:
        return exceeds_depth(_decode(data))
    except RecursionError:
        return is_closed(data)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return False


def _has_brackets(data: bytes) -> bool:
    """True if there are enough opening brackets for a depth beyond the limit, inside strings or not."""
    return data.count(b"{") + data.count(b"[") > MAX_JSON_DEPTH


def decode_bounded(data: bytes | bytearray | str) -> Any:
    """Decodes strict JSON. Raises `NestingError` beyond the limit, and what msgspec raises."""
    try:
        value = _decode(data)
    except RecursionError:
        raise nesting_error(data) from None
    if len(data) > SHALLOW and exceeds_depth(value):
        raise nesting_error(data)
    return value


def nesting_error(data: bytes | bytearray | str) -> NestingError:
    """Returns the error for a text that is too deep, with its path."""
    head = data[:_PATH_SEARCH]
    return NestingError(_path(head.encode("utf-8", "replace") if isinstance(head, str) else bytes(head)))


# ── text deeper than the recursion limit ──────────────────────────────────────────────────────────


def _brackets(data: bytes) -> Iterator[tuple[int, int]]:
    """Each bracket outside strings: its position, and 1 if it opens or -1 if it closes."""
    at, end = 0, len(data)
    while at < end:
        step = _STEPS.get(data[at])
        if step is not None:
            yield at, step
            at += 1
            continue
        skipped = _to_bracket(data, at).end()
        at = skipped if skipped > at else _string_end(data, at)  # a string with escapes is not skipped


def is_closed(data: bytes) -> bool:
    """True if every bracket of a deep text is closed. Otherwise it is not JSON, only a part of it or noise.

    Text beyond MAX_DEEP_TEXT is not searched and counts as closed.
    """
    return len(data) > MAX_DEEP_TEXT or sum(step for _, step in _brackets(data)) == 0


def _string_end(data: bytes, at: int) -> int:
    """The position after the string that begins at a quote; the end of the text if it is not closed."""
    quote = data.find(b'"', at + 1)
    while quote >= 0:
        first = quote
        while data[first - 1] == _BACKSLASH:
            first -= 1
        if (quote - first) % 2 == 0:
            return quote + 1
        quote = data.find(b'"', quote + 1)
    return len(data)


def is_valid(data: bytes) -> bool:
    """True if the text is one strictly valid JSON value, of any depth up to MAX_DEEP_TEXT bytes."""
    try:
        _validate(data)
    except msgspec.DecodeError:
        return False
    except RecursionError:
        return len(data) <= MAX_DEEP_TEXT and is_valid_in_pieces(data)
    return True


def is_valid_in_pieces(data: bytes) -> bool:
    """Does the same without recursion, several times slower."""
    return all(map(_is_valid_piece, _pieces(data)))


def _is_valid_piece(piece: bytes) -> bool:
    try:
        _validate(piece)
    except (msgspec.DecodeError, RecursionError):
        return False
    return True


def _pieces(data: bytes) -> Iterator[bytes]:
    """Yields pieces of few levels, each with a 0 in place of inner pieces. The text is valid if all pieces are."""
    level, start = 0, 0
    chunks: list[bytes] = []
    outer: list[list[bytes]] = []
    for at, step in _brackets(data):
        if step > 0:
            if level and level % _KEPT_LEVELS == 0:
                outer.append([*chunks, data[start:at], b"0"])
                chunks, start = [], at
            level += 1
            continue
        level -= 1
        if level > 0 and level % _KEPT_LEVELS == 0:
            yield b"".join([*chunks, data[start : at + 1]])
            chunks, start = outer.pop(), at + 1
        elif level < 0:
            break
    yield b"".join([*chunks, data[start:]]) if level == 0 else b""


def decode_deep(data: bytes, *, trusted: bool = False) -> Any:
    """Decode strict JSON of any depth: what is nested further than a parser should go is kept as `msgspec.Raw`.

    Encoding the value again gives the whole text back. Raises `NestingError` where a text beyond the limit is also too
    large to be searched for brackets (`trusted`: it is our own, and never is), and what msgspec raises.
    """
    try:
        value = _decode(data)
        if len(data) <= SHALLOW or not exceeds_depth(value):
            return value
    except RecursionError:
        pass
    if len(data) > MAX_DEEP_TEXT and not trusted:
        raise nesting_error(data)
    mark = _unused_mark(data)
    chunks: list[bytes] = []
    held: list[msgspec.Raw] = []
    at = 0
    for start, end in _deep_spans(data):
        if not is_valid(data[start:end]):
            raise msgspec.DecodeError(f"JSON is malformed inside the value at byte {start}")
        chunks += data[at:start], b'"%b%d"' % (mark, len(held))
        held.append(msgspec.Raw(data[start:end]))
        at = end
    value = _decode(b"".join([*chunks, data[at:]]))
    return _restore_raw(value, {f"{mark.decode()}{number}": raw for number, raw in enumerate(held)})


def _unused_mark(data: bytes) -> bytes:
    mark = b"deep-"
    while mark in data:
        mark += b"x"
    return mark


def _deep_spans(data: bytes) -> Iterator[tuple[int, int]]:
    level, start = 0, 0
    for at, step in _brackets(data):
        if step > 0:
            if level == _KEPT_LEVELS:
                start = at
            level += 1
        else:
            level -= 1
            if level == _KEPT_LEVELS:
                yield start, at + 1


def _restore_raw(value: Any, held: dict[str, msgspec.Raw]) -> Any:
    """Returns the value with each mark replaced by the text that it stands for."""
    return replace_values(value, lambda child: held.get(child, child) if type(child) is str else child)


def replace_values(value: Any, change: Callable[[Any], Any]) -> Any:
    """Returns the value with `change(child)` in place of each value in it, from the outside in. Not recursive.

    Works in place: a `change` that must leave the value as it is returns copies of lists and objects.
    """
    level: list[Any] = [[value]]
    holder = level[0]
    while level:
        inner: list[Any] = []
        for parent in level:
            for key, child in entries(parent):
                changed = parent[key] = change(child)
                if type(changed) is dict or type(changed) is list:
                    inner.append(changed)
        level = inner
    return holder[0]


def holds_raw(value: Any) -> bool:
    """True if a value of plain objects and Structs holds text that `decode_deep` kept."""
    level = [value]
    while level:
        inner: list[Any] = []
        for one in level:
            if type(one) is msgspec.Raw:
                return True
            if type(one) in _CONTAINERS:
                inner += _children(one)
            elif isinstance(one, msgspec.Struct):
                inner += [getattr(one, name) for name in one.__struct_fields__]
        level = inner
    return False


def replace_raw(value: Any, make: Callable[[str], Any]) -> Any:
    """Returns a copy of a value of plain objects, with `make(text)` in place of each text that is kept raw."""

    def change(child: Any) -> Any:
        if type(child) is msgspec.Raw:
            return make(bytes(child).decode())
        return child.copy() if type(child) is dict or type(child) is list else child  # pyright: ignore[reportUnknownVariableType]

    return replace_values(value, change)


# ── error paths ───────────────────────────────────────────────────────────────────────────────────


def _path(data: bytes) -> str:
    """The path of the first value that is too deep, its first steps; empty if it is not found in this text."""
    steps: list[Any] = []
    key, at, end = b"", 0, len(data)
    while (at := _to_token(data, at).end()) < end:
        char = data[at]
        if char == _QUOTE:
            stop = _string_end(data, at)
            key, at = data[at + 1 : stop - 1], stop
            continue
        at += 1
        if char in _OPENING:
            steps.append(0 if char == _OPENING[0] else "")
            if len(steps) > MAX_JSON_DEPTH:
                return _format_path(steps)
        elif char in _CLOSING:
            del steps[-1:]
        elif steps and char == _COMMA and type(steps[-1]) is int:
            steps[-1] += 1
        elif steps and char == _COLON and type(steps[-1]) is str:
            steps[-1] = key.decode("utf-8", "replace")[:40]
    return ""


def _format_path(steps: list[Any]) -> str:
    made = "".join(f"[{step}]" if type(step) is int else f".{step}" for step in steps[:_PATH_STEPS])
    return made.removeprefix(".") + "…"
