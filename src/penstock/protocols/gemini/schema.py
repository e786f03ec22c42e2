"""Schemas: Gemini's own subset of OpenAPI ↔ JSON Schema. `parametersJsonSchema` and its like need none of this.

`to_json` loses nothing but the wish for an order, which it fulfils. `to_subset` is for APIs that know only the subset:
what that has no word for is left out, and reported.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from penstock.pick import as_object, listed, table, text
from penstock.protocols.gemini.spelling import keys

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.pick import Object

Report: TypeAlias = "Callable[[], None]"
_COUNTS = ("minItems", "maxItems", "minLength", "maxLength", "minProperties", "maxProperties")
_NAMED = ("properties", "$defs", "definitions")  # keywords that hold schemas by name
_LISTED = ("anyOf", "oneOf", "allOf", "prefixItems")
_SINGLE = ("items", "additionalProperties")
_DEEPEST = 64
_LARGEST = 5000  # schemas in one, once references are put in

# ── Gemini's → JSON Schema ────────────────────────────────────────────────────────────────────────


def to_json(schema: Object, depth: int = 0) -> Object:
    """A schema as JSON Schema; itself if it is that already."""
    if depth > _DEEPEST:
        return schema
    made = _renamed(keys(schema))
    for key in (*_NAMED, *_LISTED, *_SINGLE):
        if key in made:
            below = _below(key, made[key], depth + 1)
            if below is not made[key]:
                made = {**made, key: below}
    return _typed(_ordered(made))


def _renamed(schema: Object) -> Object:
    if "ref" in schema or "defs" in schema:
        return {{"ref": "$ref", "defs": "$defs"}.get(key, key): value for key, value in schema.items()}
    return schema


def _below(key: str, value: Any, depth: int) -> Any:
    if key in _LISTED:
        made: Any = [
            to_json(as_object(one), depth) if isinstance(one, dict) else one for one in listed({"": value}, "")
        ]
        return made if made != value else value
    if not isinstance(value, dict):
        return value
    if key in _SINGLE:
        return to_json(value, depth)  # pyright: ignore[reportUnknownArgumentType]
    made = {name: to_json(one, depth) if isinstance(one, dict) else one for name, one in value.items()}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    return made if made != value else value  # pyright: ignore[reportUnknownVariableType]


def _ordered(schema: Object) -> Object:
    """Properties in the order that was wished for."""
    if "propertyOrdering" not in schema:
        return schema
    properties, order = table(schema, "properties"), listed(schema, "propertyOrdering")
    first = {name: properties[name] for name in order if isinstance(name, str) and name in properties}
    made = {key: value for key, value in schema.items() if key != "propertyOrdering"}
    return {**made, "properties": {**first, **properties}} if first else made


def _typed(schema: Object) -> Object:
    """Types in small letters, null among them; counts as numbers."""
    change: Object = {}
    kind: Any = schema.get("type")
    if isinstance(kind, str) and kind != kind.lower():
        change["type"] = kind = kind.lower()
    for key in _COUNTS:
        if isinstance(schema.get(key), str) and schema[key].isdecimal():
            change[key] = int(schema[key])
    if not change and not isinstance(schema.get("nullable"), bool) and kind != "type_unspecified":
        return schema
    made = {key: value for key, value in {**schema, **change}.items() if key != "nullable"}
    if kind == "type_unspecified":
        del made["type"]
    return _nullable(made) if schema.get("nullable") else made


def _nullable(schema: Object) -> Object:
    if isinstance(schema.get("type"), str):
        more = {"enum": [*schema["enum"], None]} if isinstance(schema.get("enum"), list) else {}
        return {**schema, "type": [schema["type"], "null"], **more}
    return {**schema, "anyOf": [*listed(schema, "anyOf"), {"type": "null"}]} if "anyOf" in schema else schema


# ── JSON Schema → the subset ──────────────────────────────────────────────────────────────────────

_KEPT = frozenset({
    "type", "format", "title", "description", "nullable", "enum", "items", "minItems", "maxItems", "properties",
    "required", "minProperties", "maxProperties", "minLength", "maxLength", "pattern", "example", "anyOf", "default",
    "propertyOrdering", "minimum", "maximum",
})  # fmt: skip
_SILENT = frozenset({"$schema", "$id", "$comment", "$defs", "definitions"})  # nothing is lost with these
_FORMATS = frozenset({"float", "double", "int32", "int64", "enum", "date-time"})


def to_subset(schema: Object, report: Report) -> Object:
    """A JSON Schema in the words of the subset; `report` is called for whatever had none."""
    defs = {f"#/{key}/{name}": one for key in ("$defs", "definitions") for name, one in table(schema, key).items()}
    return _Subset(defs, report).of(schema, ())


class _Subset:
    """One schema being rewritten. State: how many schemas it may still hold."""

    def __init__(self, defs: Object, report: Report) -> None:
        self._defs = defs
        self._report = report
        self._left = _LARGEST

    def of(self, schema: Any, path: tuple[str, ...]) -> Object:
        """`path` names the references and keywords that led here."""
        self._left -= 1
        if self._left < 0 or len(path) > _DEEPEST:
            self._report()
            return {"type": "object"}
        made = self._plain(as_object(schema), path)
        if made.keys() - _KEPT - _SILENT:
            self._report()
        kept = {key: value for key, value in made.items() if key in _KEPT}
        refs = (*path, text(as_object(schema), "$ref"))
        for key in ("items", "properties", "anyOf"):
            if key in kept:
                kept[key] = self._inner(key, kept[key], refs)
        return kept

    def _inner(self, key: str, value: Any, path: tuple[str, ...]) -> Any:
        if key == "properties":
            return {name: self.of(one, path) for name, one in as_object(value).items()}
        return self.of(value, path) if key == "items" else [self.of(one, path) for one in listed({"": value}, "")]

    def _plain(self, schema: Object, path: tuple[str, ...]) -> Object:
        """References put in, alternatives and constants as the subset says them."""
        if "$ref" in schema:
            ref = text(schema, "$ref")
            if ref in path or ref not in self._defs:
                self._report()
                return {"type": "object"}
            more = {key: value for key, value in schema.items() if key != "$ref"}
            return self._plain({**as_object(self._defs[ref]), **more}, (*path, ref))
        made = dict(schema)
        for one in listed({"": made.pop("allOf", None)}, ""):
            made = {**self._plain(as_object(one), path), **made}
        if "oneOf" in made:
            made["anyOf"] = [*listed(made, "anyOf"), *listed({"": made.pop("oneOf")}, "")]
        if "const" in made:
            made["enum"] = [made.pop("const")]
        self._words(made)
        return self._kinds(made)

    def _words(self, made: Object) -> None:
        """Only strings can be enumerated, and few formats are known."""
        words = made.get("enum")
        if isinstance(words, list) and not all(isinstance(word, str) for word in words):  # pyright: ignore[reportUnknownVariableType]
            self._report()
            del made["enum"]
        if "format" in made and made["format"] not in _FORMATS:
            self._report()
            del made["format"]

    def _kinds(self, made: Object) -> Object:
        """A list of types is one that may be null, or a choice."""
        kinds = made.get("type")
        if not isinstance(kinds, list):
            return made
        real = [kind for kind in kinds if kind != "null"]  # pyright: ignore[reportUnknownVariableType]
        if len(real) < len(kinds):  # pyright: ignore[reportUnknownArgumentType]
            made["nullable"] = True
        if len(real) == 1:  # pyright: ignore[reportUnknownArgumentType]
            made["type"] = real[0]
        else:
            del made["type"]
            made["anyOf"] = [*listed(made, "anyOf"), *({"type": kind} for kind in real)]  # pyright: ignore[reportUnknownVariableType]
        return made
