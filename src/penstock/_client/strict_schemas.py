"""JSON Schemas in the form that vendors take for structured output, and the way back.

A strict schema closes every object. Most vendors want all of its properties to be required; one that was optional may
be null instead. What a vendor does not support is removed and said in the description. The answer is checked against
the type afterwards. Sources are in the table `_DIALECTS`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, cast

from penstock._client.value_types import as_list
from penstock._lenient_fields import as_object

if TYPE_CHECKING:
    from penstock._client.value_types import Schema
    from penstock._providers.output_formats import Dialect

_LENGTHS = ("minLength", "maxLength")
_COUNTS = ("minItems", "maxItems")
_OBJECT_SIZES = ("minProperties", "maxProperties", "uniqueItems")
_NUMBERS = tuple("minimum maximum exclusiveMinimum exclusiveMaximum multipleOf".split())
_SIZES = (*_LENGTHS, *_OBJECT_SIZES)
_RANGES = (*_NUMBERS, *_COUNTS, "pattern")
_STRUCTURE = "type description enum const anyOf items properties required additionalProperties $ref $defs format"
_KEPT = frozenset((*_STRUCTURE.split(), *_RANGES))
_FORMATS = frozenset("date-time time date duration email hostname ipv4 ipv6 uuid".split())
_DEFS = "#/$defs/"
_DEPTH = 64
_NULL: dict[str, Any] = {"type": "null"}


class DialectRules(NamedTuple):
    """What an API takes as a schema. `described`: keywords that are moved into the description."""

    described: tuple[str, ...] = _SIZES
    formats: frozenset[str] = _FORMATS
    all_required: bool = True  # an optional property is required, and may be null
    closed: bool = True  # every object says that it has no other properties
    unions: bool = True  # anyOf
    type_lists: bool = True  # `type` may be a list; if not, it is written as anyOf
    recursive: bool = True
    nonempty: bool = False  # minItems of 0 and 1 stay, whatever `described` says
    needs_required: bool = False  # every object has a required property
    max_optional: int = 0  # properties that are not required, in the whole schema; 0 is no limit
    max_unions: int = 0


_DIALECTS: dict[str, DialectRules] = {
    # https://platform.openai.com/docs/guides/structured-outputs#supported-schemas, as quoted in
    # https://github.com/pydantic/pydantic-ai/pull/2420
    "openai": DialectRules(),
    # "Unsupported type-specific keywords": https://learn.microsoft.com/azure/ai-foundry/openai/how-to/structured-outputs
    "azure": DialectRules((*_SIZES, *_RANGES), frozenset()),
    # https://docs.x.ai/developers/model-capabilities/text/structured-outputs, as quoted in
    # https://github.com/openclaw/openclaw/pull/32080
    "xai": DialectRules((*_SIZES, *_COUNTS)),
    # https://inference-docs.cerebras.ai/capabilities/structured-outputs#schema-limitations
    "cerebras": DialectRules(type_lists=False),
    # https://platform.claude.com/docs/en/build-with-claude/structured-outputs#json-schema-limitations
    # Keywords: https://github.com/anthropics/anthropic-sdk-python/blob/main/src/anthropic/lib/_parse/_transform.py
    # Numbers, as the API's error has them: https://github.com/vercel/ai/pull/17268
    "anthropic": DialectRules(
        (*_SIZES, *_RANGES),
        _FORMATS | {"uri"},
        all_required=False,
        recursive=False,
        nonempty=True,
        max_optional=24,
        max_unions=16,
    ),
    # https://docs.cohere.com/docs/structured-outputs#unsupported-schema-features
    "cohere": DialectRules(
        (*_SIZES, *_RANGES),
        frozenset({"date-time", "uuid", "date", "time"}),
        all_required=False,
        closed=False,
        unions=False,
        type_lists=False,
        needs_required=True,
    ),
}


class NotStrict(Exception):  # noqa: N818 — caught inside the package
    """The schema has no strict form: it holds an open object, a value of any type, or what the API does not take."""


def tighten_schema(schema: Schema, dialect: Dialect) -> Schema:
    """Returns the strict form of a schema. Raises `NotStrict`."""
    rules = _DIALECTS.get(dialect, DialectRules(()))
    if not rules.recursive and _is_recursive(schema):
        raise NotStrict("a schema that refers to itself")
    tightener = _Tightener(rules)
    tightened = tightener.tighten(schema)
    defs = {name: tightener.tighten(row) for name, row in schema.get("$defs", {}).items()}
    tightener.check_numbers()
    return {**tightened, "$defs": defs} if defs else tightened


class _Tightener:
    def __init__(self, rules: DialectRules) -> None:
        self._rules = rules
        self._optional = self._unions = 0

    def tighten(self, schema: Any) -> Schema:
        if not isinstance(schema, dict) or not schema:
            raise NotStrict("a value of any type")
        found = _flatten(cast("Schema", schema))
        if "$ref" in found:
            return {"$ref": found["$ref"]}  # vendors refuse anything beside a reference
        if not self._rules.type_lists and isinstance(found.get("type"), list):
            return self.tighten(_split_types(found))
        kept = self._keep_supported(found)
        if "anyOf" in kept:
            kept["anyOf"] = [self.tighten(one) for one in kept["anyOf"]]
        elif not {"type", "enum", "const"} & set(kept):
            raise NotStrict("a value of any type")
        if "anyOf" in kept or isinstance(kept.get("type"), list):
            self._unions += 1
        if "array" in _types(kept):
            kept["items"] = self.tighten(found.get("items"))
        if "object" in _types(kept):
            self._close_object(kept, found)
        return kept

    def _keep_supported(self, found: Schema) -> Schema:
        """Returns the keywords that the API takes. The others are said in the description."""
        described = [key for key in self._rules.described if key in found]
        if self._rules.nonempty and found.get("minItems") in (0, 1):
            described.remove("minItems")
        kept = {key: value for key, value in found.items() if key in _KEPT and key not in described}
        notes = [f"{key}: {found[key]}" for key in described]
        if "format" in found and found["format"] not in self._rules.formats:
            notes.append(f"format: {kept.pop('format')}")
        if notes:
            kept["description"] = f"{found.get('description', '')} ({', '.join(notes)})".strip()
        kept.pop("$defs", None)
        return kept

    def _close_object(self, kept: Schema, found: Schema) -> None:
        if "properties" not in found and found.get("additionalProperties") is not False:
            raise NotStrict("an object of any keys")
        if found.get("additionalProperties") not in (None, False):
            raise NotStrict("an object of any keys")
        required = set(found.get("required", ()))
        properties = {name: self.tighten(row) for name, row in found.get("properties", {}).items()}
        if self._rules.all_required:
            properties = {name: row if name in required else _nullable(row) for name, row in properties.items()}
            required = set(properties)
        kept["properties"] = properties
        kept["required"] = [name for name in properties if name in required]
        self._optional += len(properties) - len(kept["required"])
        if self._rules.needs_required and not kept["required"]:
            raise NotStrict("an object without a required property")
        kept.pop("additionalProperties", None)
        if self._rules.closed:
            kept["additionalProperties"] = False

    def check_numbers(self) -> None:
        """Raises `NotStrict` if the schema has more unions or optional properties than the API takes."""
        rules = self._rules
        if self._unions and not rules.unions:
            raise NotStrict("a value of several types")
        if (rules.max_unions and self._unions > rules.max_unions) or (
            rules.max_optional and self._optional > rules.max_optional
        ):
            raise NotStrict("too many optional properties, or values of several types")


def _split_types(schema: Schema) -> Schema:
    """Returns a schema with a list of types as one with `anyOf`."""
    rest = {key: value for key, value in schema.items() if key not in ("type", "description", "$defs")}
    rows = [_NULL if kind == "null" else {**rest, "type": kind} for kind in _types(schema)]
    text = {"description": schema["description"]} if "description" in schema else {}
    return {"anyOf": rows, **text}


def _flatten(schema: Schema) -> Schema:
    """Merges a single `allOf`, and writes `oneOf` as `anyOf`."""
    found = dict(schema)
    parts = found.pop("allOf", None)
    if isinstance(parts, list):
        rows = as_list(parts)
        if len(rows) != 1 or not isinstance(rows[0], dict):
            raise NotStrict("allOf")
        found = {**cast("Schema", rows[0]), **found}
    if "oneOf" in found:
        found["anyOf"] = found.pop("oneOf")
    return found


def _types(schema: Schema) -> list[str]:
    kind = schema.get("type", ())
    return [kind] if isinstance(kind, str) else list(kind)


def _nullable(schema: Schema) -> Schema:
    if allows_null(schema):
        return schema
    if "anyOf" in schema:
        return {**schema, "anyOf": [*schema["anyOf"], _NULL]}
    return {"anyOf": [schema, _NULL]}


def allows_null(schema: Schema) -> bool:
    """True if null is a value of the schema, as far as it says so itself."""
    if "null" in _types(schema) or None in schema.get("enum", ()) or ("const" in schema and schema["const"] is None):
        return True
    rows = [*schema.get("anyOf", ()), *schema.get("oneOf", ())]
    return not schema or any(allows_null(row) for row in rows)


def _is_recursive(schema: Schema) -> bool:
    defs: dict[str, Any] = schema.get("$defs", {})
    references = {name: _references(row) for name, row in defs.items()}
    for name, first in references.items():
        seen: set[str] = set()
        waiting = set(first)
        while waiting:
            one = waiting.pop()
            if one == name:
                return True
            if one not in seen:
                seen.add(one)
                waiting |= references.get(one, set())
    return False


def _references(value: Any) -> set[str]:
    if isinstance(value, list):
        return {name for one in as_list(value) for name in _references(one)}
    if not isinstance(value, dict):
        return set()
    fields = cast("dict[str, Any]", value)
    own = {str(fields["$ref"]).removeprefix(_DEFS)} if "$ref" in fields else set[str]()
    return own | {name for one in fields.values() for name in _references(one)}


def resolve_reference(schema: Schema, root: Schema) -> Schema:
    """Returns what a schema refers to; itself if it is not a reference."""
    for _ in range(_DEPTH):
        reference = schema.get("$ref")
        if not isinstance(reference, str):
            break
        schema = root
        for step in reference.removeprefix("#/").split("/") if reference != "#" else ():
            schema = as_object(schema.get(step.replace("~1", "/").replace("~0", "~")))
    return schema


def drop_added_nulls(value: Any, schema: Schema, root: Schema, depth: int = _DEPTH) -> Any:
    """Returns the value without nulls of optional properties that the schema itself does not allow to be null."""
    schema = resolve_reference(schema, root)
    if depth == 0:
        return value
    if isinstance(value, list):
        items = as_object(schema.get("items"))
        return [drop_added_nulls(one, items, root, depth - 1) for one in as_list(value)]
    if not isinstance(value, dict):
        return value
    fields = cast("dict[str, Any]", value)
    objects = [row for row in (schema, *_branches(schema, root)) if "properties" in row]
    if len(objects) != 1:
        return fields
    properties, required = objects[0]["properties"], objects[0].get("required", ())
    kept = {
        name: one
        for name, one in fields.items()
        if one is not None
        or name in required
        or name not in properties
        or allows_null(resolve_reference(properties[name], root))
    }
    return {name: drop_added_nulls(one, properties.get(name, {}), root, depth - 1) for name, one in kept.items()}


def _branches(schema: Schema, root: Schema) -> list[Schema]:
    rows = [*schema.get("anyOf", ()), *schema.get("oneOf", ()), *schema.get("allOf", ())]
    return [resolve_reference(row, root) for row in rows]
