"""Strict schemas: what each vendor takes, and what is said in the description instead."""

from __future__ import annotations

from typing import Any, get_args

import jsonschema
import msgspec
import pytest

from tests.client.test_structured_output import CITY_SCHEMA, GOOD, City, CityDict, CityModel, CityStruct
from tests.support.client_parts import Dialect, NotStrict, OutputFormat, OutputPlan, OutputType, tighten_schema
from tests.support.each_case import each

DIALECTS: tuple[Dialect, ...] = tuple(name for name in get_args(Dialect) if name != "any")
ALL_REQUIRED = ("openai", "azure", "xai", "cerebras")


@each("dialect", DIALECTS)
@each("kind", [City, CityModel, CityStruct, CityDict, CITY_SCHEMA], name=str)
def test_strict_schemas_close_every_object(kind: Any, dialect: Dialect) -> None:
    original = OutputType(kind).schema
    if dialect == "cohere" and kind is City:  # `mayor` is a text or null
        with pytest.raises(NotStrict):
            tighten_schema(original, dialect)
        return
    strict = tighten_schema(original, dialect)
    jsonschema.Draft202012Validator.check_schema(strict)
    jsonschema.validate(msgspec.json.decode(GOOD), {**strict, "required": ["name", "people"]})
    objects = [strict, *(one for one in strict.get("$defs", {}).values() if one.get("type") == "object")]
    for one in objects:
        assert one.get("additionalProperties", "none") == ("none" if dialect == "cohere" else False)
        assert dialect not in ALL_REQUIRED or one["required"] == list(one["properties"])
    assert dialect in ALL_REQUIRED or strict["required"] == list(original["required"])
    assert "default" not in str(strict)
    assert "minLength" not in [key for one in strict["properties"].values() for key in one]


TEXT: dict[str, Any] = {"type": "string"}
NULL: dict[str, Any] = {"type": "null"}
LIST: dict[str, Any] = {"type": "array", "items": TEXT}
PAIR, FILLED = {**LIST, "minItems": 2}, {**LIST, "minItems": 1}
INTEGER = {"type": "integer", "minimum": 1}
TYPES: dict[str, Any] = {"type": ["string", "null"], "description": "d"}
# a property; the vendors that take it as it is; what all others get, None if it has no strict form there
SUPPORTED: dict[str, tuple[dict[str, Any], str, dict[str, Any] | None]] = {
    "a number": (INTEGER, "openai xai cerebras", {"type": "integer", "description": "(minimum: 1)"}),
    "a list": (PAIR, "openai cerebras", {**LIST, "description": "(minItems: 2)"}),
    "a list that is not empty": (FILLED, "openai cerebras anthropic", {**LIST, "description": "(minItems: 1)"}),
    "an address": ({**TEXT, "format": "uri"}, "anthropic", {**TEXT, "description": "(format: uri)"}),
    "an email": (
        {**TEXT, "format": "email"},
        "openai xai cerebras anthropic",
        {**TEXT, "description": "(format: email)"},
    ),
    "a date": (
        {**TEXT, "format": "date"},
        "openai xai cerebras anthropic cohere",
        {**TEXT, "description": "(format: date)"},
    ),
    "a list of types": (TYPES, "openai azure xai anthropic", None),
}


@each("dialect", DIALECTS)
@each("case", SUPPORTED)
def test_what_a_vendor_does_not_support_is_described(case: str, dialect: Dialect) -> None:
    given, taken_by, described = SUPPORTED[case]
    schema = {"type": "object", "properties": {"a": given}, "required": ["a"]}
    if described is None and dialect == "cohere":
        with pytest.raises(NotStrict, match="several types"):
            tighten_schema(schema, dialect)
        return
    wanted = given if dialect in taken_by.split() else described or {"anyOf": [TEXT, NULL], "description": "d"}
    assert tighten_schema(schema, dialect)["properties"]["a"] == wanted


def test_schemas_that_are_too_large_for_a_vendor_become_tools() -> None:
    def plan(count: int, row: dict[str, Any]) -> OutputPlan:
        schema = {"type": "object", "properties": {f"p{number}": row for number in range(count)}}
        form = OutputFormat(way="schema", dialect="anthropic", strict_only=True)
        return OutputPlan(OutputType(schema), form, "claude", tools={})

    either = {"anyOf": [{"type": "string"}, {"type": "integer"}]}
    assert [plan(24, TEXT).way, plan(25, TEXT).way] == ["schema", "tool"]
    assert [plan(16, either).way, plan(17, either).way] == ["schema", "tool"]


def test_cohere_needs_a_required_property() -> None:
    with pytest.raises(NotStrict, match="required"):
        tighten_schema({"type": "object", "properties": {"a": TEXT}}, "cohere")
