"""Reads JSON as providers really send it: first strictly, then leniently.

The strict reader (msgspec) refuses lone surrogates, raw control characters and NaN; models and providers write all
three. What only the lenient reader accepts is rewritten as strict JSON for consumers.
"""

from __future__ import annotations

import json
from typing import Any

import msgspec

from penstock import _input_limits as limits
from penstock._lazy_patterns import lazy_pattern

_PATH = lazy_pattern(r" - at `\$([^`]*+)`$")
_STEP = lazy_pattern(r"\.([^.\[]+)|\[(\d+|\.\.\.)\]")
_TRIES = 12
_DIGITS = 308  # a float holds no more
_decode = msgspec.json.Decoder().decode


def is_json(text: str) -> bool:
    """True if the text is one complete, strictly valid JSON value of any depth."""
    try:
        return limits.is_valid(text.encode())
    except UnicodeEncodeError:
        return False


def complete_json(text: str) -> str | None:
    """Returns the text as strict JSON, rewritten if only the lenient reader accepts it; None if it is not JSON."""
    if is_json(text):
        return text
    value = parse_lenient(text.encode("utf-8", "surrogatepass"))
    return None if value is None else as_json(replace_surrogates(value))


def as_json(value: Any) -> str:
    """Returns the value as JSON text. Lone surrogates in its strings are replaced."""
    try:
        return msgspec.json.encode(value).decode()
    except UnicodeEncodeError:
        return as_json(replace_surrogates(value))


def decode_unless_too_deep(json: str) -> Any:
    """Returns the value of a JSON text; the text as `msgspec.Raw` if it is deeper than the limit for decoded values.

    An encoder writes a `Raw` unchanged, so depth does not matter if the value is only passed on. Raises what msgspec
    raises for text that is not JSON.
    """
    try:
        value = _decode(json)
        if len(json) <= limits.SHALLOW or not limits.exceeds_depth(value):
            return value
    except RecursionError:
        pass
    if not is_json(json):
        raise msgspec.DecodeError("JSON is malformed, or too deep and too large to be checked")
    return msgspec.Raw(json.encode())


def try_decode(json: str) -> Any:
    """Does the same, but returns None for text that is not JSON."""
    try:
        return decode_unless_too_deep(json)
    except (msgspec.DecodeError, UnicodeEncodeError):
        return None


def is_object(value: Any) -> bool:
    """True if a value of `decode_unless_too_deep` is a JSON object."""
    return isinstance(value, dict) or (type(value) is msgspec.Raw and bytes(value).lstrip().startswith(b"{"))


def parse_lenient(data: bytes) -> Any:
    """Reads JSON leniently: invalid UTF-8, control characters, lone surrogates, NaN, numbers of any size.

    None if it is not JSON at all, or deeper than the limit.
    """
    try:
        return parse_lenient_bounded(data)
    except limits.NestingError:
        return None


def parse_lenient_bounded(data: bytes) -> Any:
    """The same, but beyond the depth limit it raises `NestingError`."""
    try:
        value = json.loads(data.decode("utf-8", "replace"), strict=False, parse_int=_integer)
    except ValueError:
        return None
    except RecursionError:
        raise limits.nesting_error(data) from None
    if len(data) > limits.SHALLOW and limits.exceeds_depth(value):
        raise limits.nesting_error(data)
    return value


def has_damaged_name(value: Any) -> bool:
    """True if a field name or a `type`, at any depth, has the character U+FFFD, which replaces a bad byte."""
    waiting: list[Any] = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict):
            fields: dict[str, Any] = one  # pyright: ignore[reportUnknownVariableType]
            if any("\ufffd" in key for key in fields) or "\ufffd" in str(fields.get("type", "")):
                return True
            waiting += fields.values()
        elif isinstance(one, list):
            waiting += one
    return False


def decode_trusted(data: bytes) -> Any:
    """Decodes a frame of one of our encoders, of any depth. Data that is not strict JSON is read leniently."""
    try:
        return limits.decode_deep(data, trusted=True)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return parse_lenient(data)


def _integer(digits: str) -> int | float:
    """Returns an integer, or the nearest float if it has too many digits: Python refuses thousands of them."""
    return int(digits) if len(digits) <= _DIGITS else float(digits)


def convert_pruned(value: Any, shape: Any) -> tuple[Any, list[str]]:
    """Convert a loose value to a shape, leaving out the fields that do not fit; gives their paths too.

    Where half a character cannot be converted, all of them are replaced. Raises `msgspec.ValidationError` when the
    value itself is of another shape.
    """
    dropped: list[str] = []
    is_clean = False
    while True:
        try:
            return msgspec.convert(value, shape, strict=False), dropped
        except UnicodeEncodeError:
            if is_clean:
                raise
            value, is_clean = replace_surrogates(value), True
        except msgspec.ValidationError as error:
            path = _PATH.search(str(error))
            if path is None or len(dropped) >= _TRIES or not _drop(value, path[1]):
                raise
            dropped.append(path[1].lstrip("."))


def _drop(value: Any, path: str) -> bool:
    """Removes the value at a validation path such as `.choices[0].delta`."""
    steps = [name or place for name, place in _STEP.findall(path)]
    if "..." in steps:
        steps = steps[: steps.index("...")]
    if not steps:
        return False
    try:
        for step in steps[:-1]:
            value = value[_at(value, step)]
        del value[_at(value, steps[-1])]
    except (KeyError, IndexError, TypeError, ValueError):
        return False
    return True


def _at(value: Any, step: str) -> Any:
    return int(step) if isinstance(value, list) else step


def replace_surrogates(value: Any) -> Any:
    """Returns a copy of the value without lone surrogates, which strict JSON cannot hold. Not recursive."""
    return limits.replace_values(value, _replace_in_one)


def _replace_in_one(value: Any) -> Any:
    """Returns a string without lone surrogates, a copy of a list or object, and any other value unchanged."""
    if isinstance(value, str):
        return _replace_lone(value)
    if isinstance(value, list):
        return list(value)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    if isinstance(value, dict):
        return {_replace_lone(key) if isinstance(key, str) else key: item for key, item in value.items()}  # pyright: ignore[reportUnknownVariableType]
    return value


def _replace_lone(text: str) -> str:
    return text if text.isascii() else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


_LONE = lazy_pattern("[\ud800-\udfff]")
_HIGH = "\ud800", "\udbff"


def join_surrogates(text: str) -> tuple[str, str]:
    """Joins surrogate pairs and replaces lone halves. Returns the text, and a high half at its end separately."""
    held = ""
    if text and _HIGH[0] <= text[-1] <= _HIGH[1]:
        text, held = text[:-1], text[-1]
    return (_replace_lone(text) if _LONE.search(text) else text), held


class GrowingText:
    """A text that grows. Appending to a list avoids the copy that appending to a string would make."""

    __slots__ = ("_pieces",)

    def __init__(self, text: str = "") -> None:
        self._pieces = [text]

    def add(self, text: str) -> None:
        self._pieces.append(text)

    def __bool__(self) -> bool:
        return any(self._pieces)

    def __str__(self) -> str:
        if len(self._pieces) > 1:
            self._pieces = ["".join(self._pieces)]
        return self._pieces[0]


def grow_text(table: dict[str, Any], key: str, more: str) -> None:
    """Adds to the text under a key of a table. Without the key the text is empty."""
    if not isinstance(table.get(key), GrowingText):
        table[key] = GrowingText(table.get(key) or "")
    table[key].add(more)


def _encode_growing(value: Any) -> str:
    if isinstance(value, GrowingText):
        return str(value)
    raise NotImplementedError(f"{type(value)} is not JSON")


encode = msgspec.json.Encoder(enc_hook=_encode_growing).encode
