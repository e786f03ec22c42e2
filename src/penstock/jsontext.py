"""JSON as it really arrives: checked strictly first, then read the way a forgiving parser would.

The strict reader (msgspec) refuses lone surrogates, raw control characters and NaN; models and providers write all
three. What the forgiving reader accepts is rewritten, so that no consumer meets it again.
"""

from __future__ import annotations

import json
import re
from typing import Any

import msgspec

_PATH = re.compile(r" - at `\$(.*)`$")
_STEP = re.compile(r"\.([^.\[]+)|\[(\d+|\.\.\.)\]")
_TRIES = 12


def is_json(text: str) -> bool:
    """Whether the text is one complete, strictly valid JSON value."""
    try:
        msgspec.json.decode(text, type=msgspec.Raw)
    except (msgspec.DecodeError, UnicodeEncodeError):
        return False
    return True


def usable(text: str) -> str | None:
    """The text as strict JSON: itself, or rewritten if only a forgiving reader takes it; None if nobody does."""
    if is_json(text):
        return text
    value = loose(text.encode("utf-8", "surrogatepass"))
    return None if value is None else msgspec.json.encode(clean(value)).decode()


def as_json(value: Any) -> str:
    """The value as JSON text, whatever its strings hold."""
    try:
        return msgspec.json.encode(value).decode()
    except UnicodeEncodeError:
        return msgspec.json.encode(clean(value)).decode()


def loose(data: bytes) -> Any:
    """Read JSON forgivingly: invalid UTF-8, control characters, lone surrogates. None if it is not JSON at all."""
    try:
        return json.loads(data.decode("utf-8", "replace"), strict=False)
    except (ValueError, RecursionError):
        return None


def fit(value: Any, shape: Any) -> tuple[Any, list[str]]:
    """Convert a loose value to a shape, leaving out the fields that do not fit; gives their paths too.

    Raises `msgspec.ValidationError` when the value itself is of another shape.
    """
    dropped: list[str] = []
    while True:
        try:
            return msgspec.convert(value, shape, strict=False), dropped
        except msgspec.ValidationError as error:
            path = _PATH.search(str(error))
            if path is None or len(dropped) >= _TRIES or not _drop(value, path[1]):
                raise
            dropped.append(path[1].lstrip("."))


def _drop(value: Any, path: str) -> bool:
    """Remove what a validation path such as `.choices[0].delta` points at."""
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


def clean(value: Any) -> Any:
    """The value without what strict JSON cannot hold: lone halves of surrogate pairs."""
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, list):
        return [clean(item) for item in value]  # pyright: ignore[reportUnknownVariableType]
    if isinstance(value, dict):
        return {clean(key): clean(item) for key, item in value.items()}  # pyright: ignore[reportUnknownVariableType]
    return value
