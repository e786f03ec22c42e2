"""Inputs of tools that are not a JSON object, for protocols that know nothing else: free text, and broken JSON.

A tool of free text is offered as a function of one string; its schema shows a reader what it was.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import msgspec

from penstock.json_depth import holds_raw, replace_raw
from penstock.jsontext import as_json, is_object, plain_or_raw
from penstock.pick import as_object, text

if TYPE_CHECKING:
    from penstock import request as rq
    from penstock.pick import Object

INPUT = "input"  # the one string that a free-text tool is given
RAW = "ps:json"  # the text of an input that is not an object
_FREE = "The whole input, as free text."
_GRAMMAR = "The whole input, as free text that follows this {} grammar:\n{}"
_HEAD, _MIDDLE = _GRAMMAR.split("{}")[:2]


def schema_of(tool: rq.Tool) -> Object:
    """The schema of a function that takes what a free-text tool takes."""
    grammar = tool.schema or {}
    syntax, definition = text(grammar, "syntax"), text(grammar, "definition")
    said = _GRAMMAR.format(syntax, definition) if definition else _FREE
    return {
        "type": "object", "properties": {INPUT: {"type": "string", "description": said}}, "required": [INPUT],
        "additionalProperties": False,
    }  # fmt: skip


def grammar_of(schema: Object) -> Object | None:
    """What the free-text tool takes that became this schema: its grammar, or nothing; None for all other schemas."""
    properties = schema.get("properties")
    if not isinstance(properties, dict) or len(cast("Object", properties)) != 1 or INPUT not in properties:
        return None
    said = text(as_object(cast("Object", properties)[INPUT]), "description")
    if said == _FREE:
        return {}
    syntax, middle, definition = said.removeprefix(_HEAD).partition(_MIDDLE)
    if not said.startswith(_HEAD) or not middle:
        return None
    return {"type": "grammar", "syntax": syntax, "definition": definition}


def input_of(call: rq.Call) -> tuple[Any, str]:
    """A call's input as an object, and the name of the carrier that this took, if any.

    An object deeper than decoded values may be is a `msgspec.Raw`: the provider gets the text as the model wrote it.
    """
    if call.form == "text":
        return {INPUT: call.json}, "free-text"
    try:
        given: Any = plain_or_raw(call.json or "{}")
    except (msgspec.DecodeError, UnicodeEncodeError):
        return {RAW: call.json}, "odd-input"
    return (given, "") if is_object(given) else ({RAW: call.json}, "odd-input")


def without_raw(body: Object) -> Object:
    """The body for programs that take plain objects only: inputs that are too deep for these are carried as text."""
    return replace_raw(body, lambda json: {RAW: json}) if holds_raw(body) else body


def json_of(given: Any) -> str:
    """An input's JSON text, as it was before `input_of`."""
    if RAW in given and len(given) == 1 and isinstance(given[RAW], str):
        return cast("str", given[RAW])
    return as_json(given)


def text_of(json: str) -> str:
    """The same, of an input whose object is JSON text itself."""
    if RAW not in json:
        return json
    try:
        given: Any = plain_or_raw(json)
    except (msgspec.DecodeError, UnicodeEncodeError):
        return json
    return json_of(given) if isinstance(given, dict) and given.keys() == {RAW} else json
