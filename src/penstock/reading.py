"""Reading requests out of parsed JSON: a wrong type is an error that names its place, not a guess.

The counterpart of `pick`, which is for what comes back from providers. Paths are built only when something is wrong.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, cast

from penstock.errors import BadRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from collections.abc import Set as AbstractSet

    from penstock.pick import Object

T = TypeVar("T")


def text(source: Object, key: str) -> str:
    """The string under a key; absent and null are empty."""
    value = source.get(key)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise BadRequest("a string", value, key)
    return value


def needed(source: Object, key: str) -> str:
    """The string that must stand under a key."""
    value = source.get(key)
    if not isinstance(value, str):
        raise BadRequest("a string", value, key)
    return value


def whole(source: Object, key: str) -> int | None:
    """The integer under a key, also when written as 1.0."""
    value = source.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or value != int(value):
        raise BadRequest("a whole number", value, key)
    return int(value)


def number(source: Object, key: str) -> float | None:
    """The number under a key."""
    value = source.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise BadRequest("a number", value, key)
    return value


def flag(source: Object, key: str) -> bool | None:
    """The boolean under a key."""
    value = source.get(key)
    if value is not None and not isinstance(value, bool):
        raise BadRequest("true or false", value, key)
    return value


def table(source: Object, key: str) -> Object:
    """The object under a key; absent and null are empty."""
    value = source.get(key)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise BadRequest("an object", value, key)
    return cast("Object", value)


def rows(source: Object, key: str, read: Callable[[Object], T]) -> list[T]:
    """What `read` makes of each object in the list under a key."""
    value = source.get(key)
    if value is None:
        return []
    if not isinstance(value, list):
        raise BadRequest("a list", value, key)
    return each(value, read, key)  # pyright: ignore[reportUnknownArgumentType]


def each(items: Iterable[Any], read: Callable[[Object], T], key: str) -> list[T]:
    """What `read` makes of each object; its errors get the key and the place in front."""
    made: list[T] = []
    try:
        for item in items:
            if not isinstance(item, dict):
                raise BadRequest("an object", item)  # noqa: TRY301 — it gets its path below, like any other
            made.append(read(cast("Object", item)))
    except BadRequest as error:
        raise error.at(len(made)).at(key) from None
    return made


def rest(source: Object, known: AbstractSet[str]) -> Object:
    """What a reader has no word for."""
    return {key: value for key, value in source.items() if key not in known}
