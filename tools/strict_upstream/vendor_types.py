"""Checks a JSON value against a `TypedDict` of a vendor's Python SDK: unknown fields, missing fields, wrong types.

The SDKs are generated from the vendors' own API descriptions, so their types are the documentation of each field.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Annotated, Any, Literal, NotRequired, Required, Union, get_args, get_origin

from typing_extensions import NoExtraItems, get_type_hints, is_typeddict

Path = tuple[str | int, ...]
Kind = Literal["unknown", "missing", "type", "value"]
_LISTS = (list, Iterable, typing.Sequence, typing.Iterable)
_PLAIN: dict[Any, tuple[str, tuple[type, ...]]] = {
    str: ("string", (str,)),
    int: ("integer", (int,)),
    float: ("number", (int, float)),
    bool: ("boolean", (bool,)),
}


@dataclass(frozen=True)
class Violation:
    """The first thing that is wrong. `expected` names types or values."""

    kind: Kind
    path: Path
    expected: str = ""


@dataclass(frozen=True)
class Known:
    """Where the API takes more than the types say. Name of a type → fields; `*` stands for any field."""

    extra: Mapping[str, frozenset[str]] = field(default_factory=dict[str, frozenset[str]])
    optional: Mapping[str, frozenset[str]] = field(default_factory=dict[str, frozenset[str]])
    nulls: bool = False  # null stands for a field that is not there

    def required(self, kind: Any) -> frozenset[str]:
        """The fields that the API requires."""
        return required_fields(kind) - self.optional.get(kind.__name__, frozenset())


@cache
def fields_of(kind: Any) -> dict[str, Any]:
    """The fields of a `TypedDict` and their types."""
    return dict(get_type_hints(kind, include_extras=True))


@cache
def required_fields(kind: Any) -> frozenset[str]:
    """The fields that must be there. `__required_keys__` alone does not see marks in annotations that are strings."""
    marks = {name: get_origin(hint) for name, hint in fields_of(kind).items()}
    marked = {name for name, mark in marks.items() if mark is Required}
    return frozenset({*kind.__required_keys__, *marked} - {name for name, mark in marks.items() if mark is NotRequired})


def find_violation(value: Any, kind: Any, path: Path = (), known: Known | None = None) -> Violation | None:
    """The first violation, or None. `known` says where the API takes more than the SDK's types."""
    kind = _strip(kind)
    if kind in (Any, object):
        return None
    if kind is None or kind is type(None):
        return None if value is None else Violation("type", path, "null")
    if is_typeddict(kind):
        return _check_object(value, kind, path, known or Known())
    return _check_generic(value, kind, path, known or Known())


def _check_generic(value: Any, kind: Any, path: Path, known: Known) -> Violation | None:
    origin = get_origin(kind)
    if origin in (Union, types.UnionType):
        return _check_union(value, get_args(kind), path, known)
    if origin is Literal:
        return None if value in get_args(kind) else Violation("value", path, _names(get_args(kind)))
    if origin in (dict, Mapping) or kind is dict:
        return None if isinstance(value, dict) else Violation("type", path, "object")
    if origin in _LISTS or kind in _LISTS:
        return _check_list(value, kind, path, known)
    return _check_plain(value, kind, path)


def _strip(kind: Any) -> Any:
    while get_origin(kind) in (Required, NotRequired, Annotated):
        kind = get_args(kind)[0]
    return kind


def _names(values: tuple[Any, ...]) -> str:
    return ", ".join(f"'{value}'" for value in values)


def _check_plain(value: Any, kind: Any, path: Path) -> Violation | None:
    name, accepted = _PLAIN.get(kind, ("", ()))
    if not name:
        return None  # a type that has no JSON form, such as a file handle: nothing to check
    if isinstance(value, bool) and kind is not bool:
        return Violation("type", path, name)
    return None if isinstance(value, accepted) else Violation("type", path, name)


def _check_list(value: Any, kind: Any, path: Path, known: Known) -> Violation | None:
    if not isinstance(value, list):
        return Violation("type", path, "array")
    inner = get_args(kind)[0] if get_args(kind) else Any
    found = (find_violation(one, inner, (*path, at), known) for at, one in enumerate(value))
    return next((one for one in found if one), None)


def _check_object(value: Any, kind: Any, path: Path, known: Known) -> Violation | None:
    if not isinstance(value, dict):
        return Violation("type", path, "object")
    fields, more = fields_of(kind), known.extra.get(kind.__name__, frozenset())
    for name, one in value.items():
        if one is None and known.nulls and name not in required_fields(kind) and name in fields:
            continue
        if name in fields:
            found = find_violation(one, fields[name], (*path, name), known)
            if found:
                return found
        elif not {name, "*"} & more and getattr(kind, "__extra_items__", None) in (None, NoExtraItems):
            return Violation("unknown", (*path, name))
    missing = sorted(name for name in known.required(kind) if name not in value)
    return Violation("missing", (*path, missing[0])) if missing else None


def _check_union(value: Any, kinds: tuple[Any, ...], path: Path, known: Known) -> Violation | None:
    kinds = _flatten(kinds)
    if isinstance(value, dict):
        objects = [kind for kind in kinds if is_typeddict(kind)]
        kinds = tuple(kind for kind in objects if _may_be(value, kind, known)) or kinds
        if objects and not any(is_typeddict(kind) and _may_be(value, kind, known) for kind in kinds):
            return _no_member(value, objects, path)
    found = [find_violation(value, kind, path, known) for kind in kinds]
    if None in found:
        return None
    # The deepest one is about the member that the client meant.
    return max((one for one in found if one), key=lambda one: (len(one.path), one.kind != "type"))


def _flatten(kinds: Iterable[Any]) -> tuple[Any, ...]:
    flat: list[Any] = []
    for one in map(_strip, kinds):
        flat += _flatten(get_args(one)) if get_origin(one) in (Union, types.UnionType) else [one]
    return tuple(flat)


def _may_be(value: dict[str, Any], kind: Any, known: Known) -> bool:
    """Whether the fields that tell the members of a union apart fit."""
    fields = fields_of(kind)
    for name in ("type", "role"):
        words = _strip(fields.get(name, Any))
        if name not in value:
            if name in known.required(kind):
                return False
        elif (get_origin(words) is Literal and value[name] not in get_args(words)) or name not in fields:
            return False
    return True


def _no_member(value: dict[str, Any], kinds: list[Any], path: Path) -> Violation:
    for name in ("type", "role"):
        words: set[str] = set()
        for kind in kinds:
            hint = _strip(fields_of(kind).get(name, Any))
            words |= set(get_args(hint)) if get_origin(hint) is Literal else set()
        if words and name not in value and name == "type":
            continue
        if words and value.get(name) not in words:
            return Violation("value", (*path, name), _names(tuple(sorted(words))))
    return Violation("missing", (*path, "type"))
