"""Reads fields of JSON objects without a fixed shape: a value of the wrong type counts as absent.

For what codecs keep as plain objects because it is echoed as it was; payloads of a known shape are Structs.
"""

from __future__ import annotations

from math import isfinite
from typing import Any, TypeAlias, cast

Object: TypeAlias = dict[str, Any]


def get_text(source: Object, *keys: str) -> str:
    """The first of these keys that holds a non-empty string."""
    for key in keys:
        value = source.get(key)
        if isinstance(value, str) and value:
            return value
    return ""


def get_integer(source: Object, key: str) -> int | None:
    """The integer under a key; true and false do not count."""
    value = source.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def to_integer(value: float | None) -> int | None:
    """A number as an integer; None for NaN and infinity, which lenient readers accept."""
    return int(value) if value is not None and isfinite(value) else None


def get_object(source: Object, key: str) -> Object:
    """The object under a key, or an empty one."""
    return as_object(source.get(key))


def get_objects(source: Object, key: str) -> list[Object]:
    """The objects in the list under a key; what is not an object is left out."""
    return as_objects(source.get(key))


def get_list(source: Object, key: str) -> list[Any]:
    """The list under a key, or an empty one."""
    value: Any = source.get(key)
    return value if isinstance(value, list) else []  # pyright: ignore[reportUnknownVariableType]


def as_object(value: Any) -> Object:
    """The value if it is an object, else an empty one."""
    return cast("Object", value) if isinstance(value, dict) else {}


def as_objects(value: Any) -> list[Object]:
    """The objects in a list; an empty list if the value is not a list."""
    return [as_object(item) for item in get_list({"": value}, "") if isinstance(item, dict)]
