"""`generationConfig` ↔ canonical settings, and Gemini schemas ↔ JSON Schema.

Gemini has two schema dialects: JSON Schema, and a subset of OpenAPI with uppercase types, `nullable` and
`propertyOrdering`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from penstock import _request_writer as request_writer
from penstock import _strict_fields as strict
from penstock import request as rq
from penstock._lenient_fields import Object, as_object, get_list, get_object, get_text
from penstock._protocols.gemini.wire import to_camel_keys
from penstock._strict_fields import empty_fields, unknown_fields

if TYPE_CHECKING:
    from collections.abc import Callable

LEVELS = frozenset({"minimal", "low", "medium", "high"})
_NEAREST_LEVELS = {"xhigh": "high", "max": "high"}
_UNSUPPORTED = ("parallel_calls", "verbosity", "tier", "user", "metadata", "cache_key", "store")
_FORMAT_FIELDS = frozenset({"responseMimeType", "responseSchema", "responseJsonSchema"})
# Key of `generationConfig`, and name of the setting.
_SETTING_NAMES = """maxOutputTokens:max_output temperature:temperature topP:top_p topK:top_k stopSequences:stop
    seed:seed frequencyPenalty:frequency_penalty presencePenalty:presence_penalty candidateCount:choices
    responseLogprobs:logprobs logprobs:top_logprobs"""
_SETTINGS = {key: name for key, _, name in (pair.partition(":") for pair in _SETTING_NAMES.split())}
_CONFIG = _FORMAT_FIELDS | _SETTINGS.keys() | {"thinkingConfig"}


# ── reading ───────────────────────────────────────────────────────────────────────────────────────


def read_settings(config: Object) -> tuple[rq.Settings, Object, Object]:
    """Returns the settings, the fields without a canonical setting, and marks of how some were spelled."""
    config = to_camel_keys(config)
    read_config = strict.read_optional(config, "thinkingConfig", _read_thinking)
    thinking, budget, level, thoughts = read_config or ({}, None, "", None)
    format_, marks = _read_format(config)
    effort = level.lower() if level.lower() in LEVELS else ""
    budget = budget if budget is not None and budget >= 0 else None  # -1 lets the model decide
    read = {"includeThoughts": True, "thinkingBudget": budget is not None, "thinkingLevel": bool(effort)}
    other_thinking = unknown_fields(thinking, {key for key, known in read.items() if known})
    keeps_format = format_ is None and any(config.get(key) for key in _FORMAT_FIELDS)
    others = unknown_fields(config, _CONFIG - _FORMAT_FIELDS if keeps_format else _CONFIG)
    if other_thinking:
        others["thinkingConfig"] = other_thinking
    marks |= {"level": level if effort and level != effort.upper() else "", "config": empty_fields(config, _CONFIG)}
    fields = strict.read_settings(config, _SETTINGS)
    return rq.Settings(**fields, format=format_, effort=effort, budget=budget, thoughts=thoughts), others, marks


def _read_thinking(config: Object) -> tuple[Object, int | None, str, bool | None]:
    config = to_camel_keys(config)
    budget, level = strict.get_integer(config, "thinkingBudget"), strict.get_text(config, "thinkingLevel")
    return config, budget, level, strict.get_flag(config, "includeThoughts")


def _read_format(config: Object) -> tuple[rq.Format | None, Object]:
    """Returns the format and marks of how its schema was spelled; None for formats without a canonical one."""
    mime = strict.get_text(config, "responseMimeType")
    is_subset = config.get("responseJsonSchema") is None
    key = "responseSchema" if is_subset else "responseJsonSchema"
    if mime == "text/plain" and config.get(key) is None:
        return rq.Format(), {}
    if mime not in ("", "application/json") or (not mime and config.get(key) is None):
        return None, {}
    if config.get(key) is None:
        return rq.Format("json"), {}
    original = strict.get_object(config, key)
    schema = to_json_schema(original) if is_subset else original
    marks: Object = {"schema": (True if schema is original else original) if is_subset else None, "untyped": not mime}
    return rq.Format("schema", schema=schema), marks


# ── writing ───────────────────────────────────────────────────────────────────────────────────────


def write_settings(
    settings: rq.Settings, native: Object, marks: Object, draft: request_writer.RequestDraft, *, subset: bool
) -> Object:
    """Writes the settings and reports those that Gemini does not have. `subset`: JSON Schema is not understood."""
    draft.report_settings(settings, _UNSUPPORTED)
    config = request_writer.write_settings(settings, _SETTINGS)
    other_thinking = native.get("generationConfig", {}).get("thinkingConfig", {})
    config |= request_writer.drop_empty(thinkingConfig=other_thinking | _write_thinking(settings, marks, draft))
    if settings.format is not None:
        config.update(_write_format(settings.format, marks, draft, subset=subset))
    request_writer.add_missing(config, marks.get("config"))
    return config


def _write_thinking(settings: rq.Settings, marks: Object, draft: request_writer.RequestDraft) -> Object:
    config: Object = {} if settings.thoughts is None else {"includeThoughts": settings.thoughts}
    level = _NEAREST_LEVELS.get(settings.effort, settings.effort)
    if level in LEVELS:
        spelled = marks.get("level", "")
        config["thinkingLevel"] = spelled if spelled.lower() == level else level.upper()
        if level != settings.effort:
            draft.report_loss("effort")
        if settings.budget is not None:
            draft.report_loss("budget")
    elif settings.budget is not None or settings.effort:
        if settings.effort:
            draft.report_loss("effort")
        config["thinkingBudget"] = (
            request_writer.budget_for_effort(settings.effort) if settings.budget is None else settings.budget
        )
    return config


def _write_format(format_: rq.Format, marks: Object, draft: request_writer.RequestDraft, *, subset: bool) -> Object:
    if format_.kind == "text":
        return {"responseMimeType": "text/plain"}
    if format_.name or format_.description or format_.strict is not None:
        draft.report_loss("format")
    config: Object = {} if marks.get("untyped") else {"responseMimeType": "application/json"}
    if format_.schema is not None:
        keys = ("responseSchema", "responseJsonSchema")
        config.update(write_schema(format_.schema, marks.get("schema"), keys, draft, subset=subset))
    return config


def write_schema(
    schema: Object, original: Any, keys: tuple[str, str], draft: request_writer.RequestDraft, *, subset: bool
) -> Object:
    """Writes a schema under the first key in the subset dialect, under the second as JSON Schema.

    `original` is the subset schema that was read; True if it equals the JSON Schema.
    """
    if original is True:
        return {keys[0]: schema}
    if original and to_json_schema(original) == schema:
        return {keys[0]: original}
    if keys[0] == "parameters" and schema.keys().isdisjoint(("type", "$ref", "anyOf")):
        schema = {"type": "object", **schema}
    if subset:
        return {keys[0]: to_subset(schema, lambda: draft.report_loss("schema"))}
    return {keys[1]: schema}


# ── subset → JSON Schema ──────────────────────────────────────────────────────────────────────────

_Report: TypeAlias = "Callable[[], None]"
_COUNT_KEYWORDS = ("minItems", "maxItems", "minLength", "maxLength", "minProperties", "maxProperties")
_NAMED = ("properties", "$defs", "definitions")  # keywords that hold schemas by name
_LISTED = ("anyOf", "oneOf", "allOf", "prefixItems")
_SINGLE = ("items", "additionalProperties")
_MAX_DEPTH = 64
_MAX_SCHEMAS = 5000  # subschemas in one schema after references are resolved


def to_json_schema(schema: Object, depth: int = 0) -> Object:
    """Converts a schema to JSON Schema; returns the same object if nothing changes."""
    if depth > _MAX_DEPTH:
        return schema
    converted = to_camel_keys(schema)
    if "ref" in converted or "defs" in converted:
        names = {"ref": "$ref", "defs": "$defs"}
        converted = {names.get(key, key): value for key, value in converted.items()}
    for key in (*_NAMED, *_LISTED, *_SINGLE):
        if key in converted:
            inner = _convert_inner(key, converted[key], depth + 1)
            if inner is not converted[key]:
                converted = {**converted, key: inner}
    return _convert_types(_order_properties(converted))


def _convert_inner(key: str, value: Any, depth: int) -> Any:
    if key in _LISTED:
        rows = get_list({"": value}, "")
        converted: Any = [to_json_schema(as_object(one), depth) if isinstance(one, dict) else one for one in rows]
        return converted if converted != value else value
    if not isinstance(value, dict):
        return value
    if key in _SINGLE:
        return to_json_schema(value, depth)  # pyright: ignore[reportUnknownArgumentType]
    converted = {name: to_json_schema(one, depth) if isinstance(one, dict) else one for name, one in value.items()}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    return converted if converted != value else value  # pyright: ignore[reportUnknownVariableType]


def _order_properties(schema: Object) -> Object:
    if "propertyOrdering" not in schema:
        return schema
    properties, order = get_object(schema, "properties"), get_list(schema, "propertyOrdering")
    first = {name: properties[name] for name in order if isinstance(name, str) and name in properties}
    ordered = {key: value for key, value in schema.items() if key != "propertyOrdering"}
    return {**ordered, "properties": {**first, **properties}} if first else ordered


def _convert_types(schema: Object) -> Object:
    """Writes types in lower case, `nullable` as a type, and counts as numbers."""
    changes: Object = {}
    kind: Any = schema.get("type")
    if isinstance(kind, str) and kind != kind.lower():
        changes["type"] = kind = kind.lower()
    for key in _COUNT_KEYWORDS:
        if isinstance(schema.get(key), str) and schema[key].isdecimal():
            changes[key] = int(schema[key])
    if not changes and not isinstance(schema.get("nullable"), bool) and kind != "type_unspecified":
        return schema
    converted = {key: value for key, value in {**schema, **changes}.items() if key != "nullable"}
    if kind == "type_unspecified":
        del converted["type"]
    return _allow_null(converted) if schema.get("nullable") else converted


def _allow_null(schema: Object) -> Object:
    if isinstance(schema.get("type"), str):
        enum = {"enum": [*schema["enum"], None]} if isinstance(schema.get("enum"), list) else {}
        return {**schema, "type": [schema["type"], "null"], **enum}
    return {**schema, "anyOf": [*get_list(schema, "anyOf"), {"type": "null"}]} if "anyOf" in schema else schema


# ── JSON Schema → subset ──────────────────────────────────────────────────────────────────────────

_SUBSET_WORDS = """type format title description nullable enum items minItems maxItems properties required minProperties
    maxProperties minLength maxLength pattern example anyOf default propertyOrdering minimum maximum"""
_SUBSET_KEYWORDS = frozenset(_SUBSET_WORDS.split())
_DROPPED_KEYWORDS = frozenset({"$schema", "$id", "$comment", "$defs", "definitions"})  # without a reported loss
_FORMATS = frozenset({"float", "double", "int32", "int64", "enum", "date-time"})


def to_subset(schema: Object, report: _Report) -> Object:
    """Converts a JSON Schema to the subset. Calls `report` for everything that the subset does not have."""
    defs = {f"#/{key}/{name}": one for key in ("$defs", "definitions") for name, one in get_object(schema, key).items()}
    return _SubsetConverter(defs, report).convert_schema(schema, ())


class _SubsetConverter:
    """State: how many subschemas may still be written."""

    def __init__(self, defs: Object, report: _Report) -> None:
        self._defs = defs
        self._report = report
        self._remaining = _MAX_SCHEMAS

    def convert_schema(self, schema: Any, path: tuple[str, ...]) -> Object:
        """`path` has the references that led to this schema."""
        self._remaining -= 1
        if self._remaining < 0 or len(path) > _MAX_DEPTH:
            self._report()
            return {"type": "object"}
        resolved = self._resolve_schema(as_object(schema), path)
        if resolved.keys() - _SUBSET_KEYWORDS - _DROPPED_KEYWORDS:
            self._report()
        converted = {key: value for key, value in resolved.items() if key in _SUBSET_KEYWORDS}
        path = (*path, get_text(as_object(schema), "$ref"))
        if "items" in converted:
            converted["items"] = self.convert_schema(converted["items"], path)
        if "properties" in converted:
            rows = as_object(converted["properties"]).items()
            converted["properties"] = {name: self.convert_schema(one, path) for name, one in rows}
        if "anyOf" in converted:
            converted["anyOf"] = [self.convert_schema(one, path) for one in get_list(converted, "anyOf")]
        return converted

    def _resolve_schema(self, schema: Object, path: tuple[str, ...]) -> Object:
        """Replaces references, `allOf`, `oneOf` and `const` by what the subset has."""
        if "$ref" in schema:
            ref = get_text(schema, "$ref")
            if ref in path or ref not in self._defs:
                self._report()
                return {"type": "object"}
            others = {key: value for key, value in schema.items() if key != "$ref"}
            return self._resolve_schema({**as_object(self._defs[ref]), **others}, (*path, ref))
        resolved = dict(schema)
        for one in get_list({"": resolved.pop("allOf", None)}, ""):
            resolved = {**self._resolve_schema(as_object(one), path), **resolved}
        if "oneOf" in resolved:
            resolved["anyOf"] = [*get_list(resolved, "anyOf"), *get_list({"": resolved.pop("oneOf")}, "")]
        if "const" in resolved:
            resolved["enum"] = [resolved.pop("const")]
        self._drop_unsupported(resolved)
        return self._convert_type_list(resolved)

    def _drop_unsupported(self, schema: Object) -> None:
        """Drops enums that are not strings, and unknown formats."""
        enum = schema.get("enum")
        if isinstance(enum, list) and not all(isinstance(value, str) for value in enum):  # pyright: ignore[reportUnknownVariableType]
            self._report()
            del schema["enum"]
        if "format" in schema and schema["format"] not in _FORMATS:
            self._report()
            del schema["format"]

    def _convert_type_list(self, schema: Object) -> Object:
        """Writes a list of types as `nullable`, or as alternatives."""
        types = schema.get("type")
        if not isinstance(types, list):
            return schema
        others = [kind for kind in types if kind != "null"]  # pyright: ignore[reportUnknownVariableType]
        if len(others) < len(types):  # pyright: ignore[reportUnknownArgumentType]
            schema["nullable"] = True
        if len(others) == 1:  # pyright: ignore[reportUnknownArgumentType]
            schema["type"] = others[0]
        else:
            del schema["type"]
            schema["anyOf"] = [*get_list(schema, "anyOf"), *({"type": kind} for kind in others)]  # pyright: ignore[reportUnknownVariableType]
        return schema
