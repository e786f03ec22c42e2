"""The marks, and which of them a protocol needs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast

import msgspec

from penstock import request as rq
from penstock.input_limits import holds_raw, replace_raw
from penstock.jsontext import as_json, decode_or_keep_raw, is_object
from penstock.lenient_fields import as_object, get_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.events import Extra
    from penstock.lenient_fields import Object

CARRIERS: Final = {
    "failed": "that a tool failed is said in its text",
    "result-file": "a file in a tool result is moved into a user message behind it",
    "assistant-file": "a file that the model made is moved into a user message behind it",
    "refusal": "that a text is a refusal is said in the text",
    "provider-call": "a tool that another provider ran is told as a call with its result, less what is encrypted",
    "free-text": "a tool of free text is offered as a function of one string",
    "empty": "a user who says nothing says that in a mark",
    "mid-system": "a system message inside the conversation is said by the user, between two sealed marks",
    "odd-input": "an input that is no JSON object is sent as a string inside of one",
}
OPEN: Final = "<ps:"  # how every mark in a text begins
FAILED: Final = "<ps:tool-failed/>"
REFUSED: Final = "<ps:refused/>"
SILENT: Final = "<ps:no-result/>"
EMPTY: Final = "<ps:empty/>"
FILE: Final = '<ps:tool-file n="{}"/>'
MADE: Final = '<ps:made-file at="{}"/>'
ALONE: Final = '<ps:made-turn n="{}"/>'  # the same, where the model said nothing that lasts (0), or nothing else (1)
SYSTEM: Final = ("<ps:system>", "</ps:system>")  # parts of their own, before and behind those of the message
RAN: Final = "ran_"  # begins the id of a call that a provider ran
ENDS: Final = "ran-"  # the same, where the turn ends with its result: what the model says next is another turn
RUN: Final = (RAN, ENDS)


def lasting(part: rq.AnyPart) -> bool:
    """Whether a part of a turn is of a kind that every protocol carries, and can be counted by."""
    return isinstance(part, rq.Call | rq.Result) or (type(part) is rq.Text and bool(part.text))


class Holds(msgspec.Struct, frozen=True):
    """What a protocol has a place for itself. What its own extra data describes, it can always say."""

    protocol: str
    failed: bool = True
    json: bool = True  # a result may be a JSON value
    refusals: bool = True
    result_files: bool = True
    assistant_files: bool = True
    file_urls: bool = True  # files other than images may be sent by their address


INPUT = "input"  # the one string that a free-text tool is given
RAW = "ps:json"  # the text of an input that is not an object
_FREE = "The whole input, as free text."
_GRAMMAR = "The whole input, as free text that follows this {} grammar:\n{}"
_HEAD, _MIDDLE = _GRAMMAR.split("{}")[:2]


def schema_of(tool: rq.Tool) -> Object:
    """The schema of a function that takes what a free-text tool takes."""
    grammar = tool.schema or {}
    syntax, definition = get_text(grammar, "syntax"), get_text(grammar, "definition")
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
    said = get_text(as_object(cast("Object", properties)[INPUT]), "description")
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
        given: Any = decode_or_keep_raw(call.json or "{}")
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
        given: Any = decode_or_keep_raw(json)
    except (msgspec.DecodeError, UnicodeEncodeError):
        return json
    return json_of(given) if isinstance(given, dict) and given.keys() == {RAW} else json


def said_by_user(parts: Sequence[rq.AnyPart], seal: Extra | None = None) -> list[rq.AnyPart]:
    """The parts of a system message, between its marks."""
    return [rq.Text(SYSTEM[0], extra=seal), *parts, rq.Text(SYSTEM[1], extra=seal)]


def told_apart(parts: list[rq.AnyPart], seal: Extra) -> list[tuple[rq.Role, list[rq.AnyPart]]]:
    """What the user says, and what the system said between sealed marks; all of it the user's where there are none."""
    rows: list[tuple[rq.Role, list[rq.AnyPart]]] = []
    start = 0
    opened: int | None = None
    for place, part in enumerate(parts):
        mark = part.text if type(part) is rq.Text and part.extra == seal else ""
        if mark == SYSTEM[0] and opened is None:
            opened = place
        elif mark == SYSTEM[1] and opened is not None:
            if start < opened:
                rows.append(("user", parts[start:opened]))
            rows.append(("system", parts[opened + 1 : place]))
            start, opened = place + 1, None
    return [*rows, ("user", parts[start:])] if start < len(parts) or not rows else rows
