"""Checks a JSON value against a JSON Schema, with the keywords that describe structured output.

Python types are checked by msgspec or pydantic. This is for schemas that are given as JSON.
"""

from __future__ import annotations

import json
import operator
import re
from typing import TYPE_CHECKING, Any, cast

from penstock._client.strict_schemas import resolve_reference
from penstock._client.value_types import as_list
from penstock.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from penstock._client.value_types import Schema

_TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "number": (int, float),
    "integer": (int,),
    "boolean": (bool,),
    "null": (type(None),),
}
_DATA_KEYWORDS = frozenset({"const", "default", "enum", "examples"})  # their values are no schemas
_DEPTH = 64
_SEARCHED_CHARACTERS = 10_000  # characters of a text that a pattern is searched in


def find_violations(value: Any, schema: Schema) -> list[str]:
    """Returns what is wrong with a value, with the place of each; empty if it fits."""
    return list(_Checker(schema).check(value, schema, "", _DEPTH))


def check_schema(schema: Schema) -> None:
    """Raises `InputError` for types that do not exist and references that lead nowhere: nothing would be checked."""
    waiting: list[Any] = [schema]
    while waiting:
        value = waiting.pop()
        if isinstance(value, list):
            waiting += as_list(value)
        if not isinstance(value, dict):
            continue
        fields = cast("Schema", value)
        kinds = fields.get("type")
        for name in [kinds] if isinstance(kinds, str) else as_list(kinds):
            if isinstance(name, str) and name not in _TYPES:
                raise InputError(f"output: the schema has the unknown type {name!r}; there are: {', '.join(_TYPES)}")
        reference = fields.get("$ref")
        if isinstance(reference, str) and reference != "#" and not resolve_reference({"$ref": reference}, schema):
            raise InputError(f"output: the schema's reference {reference!r} leads nowhere in it")
        waiting += [one for name, one in fields.items() if name not in _DATA_KEYWORDS]


class _Checker:
    def __init__(self, root: Schema) -> None:
        self._root = root

    def check(self, value: Any, schema: Any, path: str, depth: int) -> Iterator[str]:
        if schema is False:
            yield f"{path or 'the value'}: nothing is allowed here"
        if not isinstance(schema, dict) or depth == 0:
            return
        found = resolve_reference(cast("Schema", schema), self._root)
        yield from self._check_conditions(value, found, path, depth)
        yield from self._check_choices(value, found, path, depth)
        yield from _check_type(value, found, path)
        if isinstance(value, dict):
            yield from self._check_object(cast("dict[str, Any]", value), found, path, depth)
        elif isinstance(value, list):
            rows = as_list(value)
            yield from _check_bounds(len(rows), found, path, "minItems", "maxItems", "items")
            if found.get("uniqueItems") is True and len({_canonical(one) for one in rows}) < len(rows):
                yield f"{path or 'the value'}: its items must differ from each other"
            first = as_list(found.get("prefixItems"))
            for number, one in enumerate(rows):
                kind = first[number] if number < len(first) else found.get("items")
                yield from self.check(one, kind, f"{path}[{number}]", depth - 1)
        elif isinstance(value, str):
            yield from _check_bounds(len(value), found, path, "minLength", "maxLength", "characters")
            pattern = found.get("pattern")
            if isinstance(pattern, str) and not _matches_pattern(pattern, value):
                yield f"{path or 'the value'}: does not match the pattern {pattern!r}"
        elif isinstance(value, int | float) and not isinstance(value, bool):
            yield from _check_range(value, found, path)

    def _check_conditions(self, value: Any, schema: Schema, path: str, depth: int) -> Iterator[str]:
        """Checks `not`, and `if` with `then` and `else`."""
        if "not" in schema and self._fits(value, schema["not"], depth):
            yield f"{path or 'the value'}: it must not be {schema['not']!r}"
        if "if" in schema:
            branch = "then" if self._fits(value, schema["if"], depth) else "else"
            yield from self.check(value, schema.get(branch), path, depth - 1)

    def _fits(self, value: Any, schema: Any, depth: int) -> bool:
        return next(self.check(value, schema, "", depth - 1), None) is None

    def _check_choices(self, value: Any, schema: Schema, path: str, depth: int) -> Iterator[str]:
        for one in schema.get("allOf", ()):
            yield from self.check(value, one, path, depth - 1)
        for key in ("anyOf", "oneOf"):
            if key in schema:
                errors = [list(self.check(value, one, path, depth - 1)) for one in schema[key]]
                if all(errors):
                    yield from min(errors, key=len)

    def _check_object(self, value: dict[str, Any], schema: Schema, path: str, depth: int) -> Iterator[str]:
        properties: Schema = schema.get("properties", {})
        for name in schema.get("required", ()):
            if name not in value:
                yield f"{_step(path, name)}: it is required, and missing"
        for name, one in value.items():
            other = schema.get("additionalProperties")
            patterns = [kind for pattern, kind in _patterns(schema) if _matches_pattern(pattern, name)]
            kinds = [*([properties[name]] if name in properties else []), *patterns]
            if kinds:
                for kind in kinds:
                    yield from self.check(one, kind, _step(path, name), depth - 1)
            elif other is False:
                yield f"{_step(path, name)}: there is no such property"
            else:
                yield from self.check(one, other, _step(path, name), depth - 1)


def _check_type(value: Any, schema: Schema, path: str) -> Iterator[str]:
    kinds = schema.get("type")
    names: list[str] = [kinds] if isinstance(kinds, str) else list(kinds or ())
    if names and not any(_is_type(value, name) for name in names):
        yield f"{path or 'the value'}: expected {' or '.join(names)}, found {type(value).__name__}"
    if "enum" in schema and _canonical(value) not in map(_canonical, as_list(schema["enum"])):
        yield f"{path or 'the value'}: expected one of {schema['enum']!r}"
    if "const" in schema and _canonical(value) != _canonical(schema["const"]):
        yield f"{path or 'the value'}: expected {schema['const']!r}"


def _canonical(value: Any) -> str:
    """Returns equal texts for values that are equal in JSON: 1 and 1.0 are, 1 and true are not."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return json.dumps(value, sort_keys=True)


def _patterns(schema: Schema) -> list[tuple[str, Any]]:
    found = schema.get("patternProperties")
    return list(cast("Schema", found).items()) if isinstance(found, dict) else []


def _is_type(value: Any, name: str) -> bool:
    if isinstance(value, bool):
        return name == "boolean"
    is_whole = name == "integer" and isinstance(value, float) and value.is_integer()
    return is_whole or isinstance(value, _TYPES.get(name, (object,)))


def _check_bounds(size: int, schema: Schema, path: str, least: str, most: str, what: str) -> Iterator[str]:
    if least in schema and size < schema[least]:
        yield f"{path or 'the value'}: has {size} {what}, at least {schema[least]} are required"
    if most in schema and size > schema[most]:
        yield f"{path or 'the value'}: has {size} {what}, at most {schema[most]} are allowed"


def _check_range(value: float, schema: Schema, path: str) -> Iterator[str]:
    for name, fits in _RANGES.items():
        limit = schema.get(name)
        if isinstance(limit, int | float) and not isinstance(limit, bool) and not fits(value, limit):
            yield f"{path or 'the value'}: {value} breaks {name} {limit}"


def _is_multiple(value: float, step: float) -> bool:
    return not value % step


_RANGES: dict[str, Callable[[float, float], bool]] = {
    "minimum": operator.ge,
    "maximum": operator.le,
    "exclusiveMinimum": operator.gt,
    "exclusiveMaximum": operator.lt,
    "multipleOf": _is_multiple,
}


def _matches_pattern(pattern: str, text: str) -> bool:
    """True if the pattern is found. One that Python cannot read is not checked."""
    try:
        return re.search(pattern, text[:_SEARCHED_CHARACTERS]) is not None
    except re.error:
        return True


def _step(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
