"""The marks, which of them a protocol needs, tool inputs that are not JSON objects, and system messages of users."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast

import msgspec

from penstock import request as rq
from penstock._input_limits import holds_raw, replace_raw
from penstock._jsontext import as_json, decode_or_keep_raw, is_object
from penstock._lenient_fields import Object, as_object, get_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.events import Extra

CARRIED_FEATURES: Final = {
    "failed": "a mark in the result's text says that the tool failed",
    "result-file": "a file in a tool result is moved into a user message after it",
    "assistant-file": "a file that the model made is moved into a user message after it",
    "refusal": "a mark in the text says that it is a refusal",
    "provider-call": "a tool run of another provider is written as a call and its result, without encrypted fields",
    "free-text": "a free-text tool is offered as a function with one string parameter",
    "empty": "a mark stands for an empty user message",
    "mid-system": "a system message inside the conversation is written as a user message between two sealed marks",
    "odd-input": "an input that is not a JSON object is sent as a string inside an object",
}
MARK_START: Final = "<ps:"  # the start of every mark in a text
FAILED_MARK: Final = "<ps:tool-failed/>"
REFUSAL_MARK: Final = "<ps:refused/>"
NO_RESULT_MARK: Final = "<ps:no-result/>"
EMPTY_MARK: Final = "<ps:empty/>"
RESULT_FILE_MARK: Final = '<ps:tool-file n="{}"/>'
ASSISTANT_FILE_MARK: Final = '<ps:made-file at="{}"/>'
# the same, for a turn with no other countable part (0) or with nothing but files (1)
ASSISTANT_TURN_MARK: Final = '<ps:made-turn n="{}"/>'
SYSTEM_MARKS: Final = ("<ps:system>", "</ps:system>")  # separate parts before and after those of the message
PROVIDER_CALL_PREFIX: Final = "ran_"  # starts the id of a call that a provider ran
LAST_PROVIDER_CALL_PREFIX: Final = "ran-"  # the same, if the call's result ends the turn
PROVIDER_CALL_PREFIXES: Final = (PROVIDER_CALL_PREFIX, LAST_PROVIDER_CALL_PREFIX)
FREE_TEXT_KEY = "input"  # the one parameter of the function that replaces a free-text tool
RAW_INPUT_KEY = "ps:json"  # the text of an input that is not an object
_FREE = "The whole input, as free text."
_GRAMMAR = "The whole input, as free text that follows this {} grammar:\n{}"
_HEAD, _MIDDLE = _GRAMMAR.split("{}")[:2]


def is_countable(part: rq.AnyPart) -> bool:
    """True if every protocol carries this kind of part, so that positions can be counted by it."""
    return isinstance(part, rq.Call | rq.Result) or (type(part) is rq.Text and bool(part.text))


class NativeSupport(msgspec.Struct, frozen=True):
    """What a protocol can express without markers. It can always express what its own extra data describes."""

    protocol: str
    failed: bool = True
    json: bool = True  # a result may be a JSON value
    refusals: bool = True
    result_files: bool = True
    assistant_files: bool = True
    file_urls: bool = True  # files other than images may be sent by their address


def free_text_schema(tool: rq.Tool) -> Object:
    """Returns the schema of the function that replaces a free-text tool. Its description holds the tool's grammar."""
    grammar = tool.schema or {}
    syntax, definition = get_text(grammar, "syntax"), get_text(grammar, "definition")
    description = _GRAMMAR.format(syntax, definition) if definition else _FREE
    properties = {FREE_TEXT_KEY: {"type": "string", "description": description}}
    return {"type": "object", "properties": properties, "required": [FREE_TEXT_KEY], "additionalProperties": False}


def parse_free_text_schema(schema: Object) -> Object | None:
    """Returns the grammar of the free-text tool behind a schema, {} if it has none; None for all other schemas."""
    properties = schema.get("properties")
    if not isinstance(properties, dict) or len(cast("Object", properties)) != 1 or FREE_TEXT_KEY not in properties:
        return None
    description = get_text(as_object(cast("Object", properties)[FREE_TEXT_KEY]), "description")
    if description == _FREE:
        return {}
    syntax, middle, definition = description.removeprefix(_HEAD).partition(_MIDDLE)
    if not description.startswith(_HEAD) or not middle:
        return None
    return {"type": "grammar", "syntax": syntax, "definition": definition}


def input_as_object(call: rq.Call) -> tuple[Any, str]:
    """Returns a call's input as an object, and the carried feature that this needed, if any.

    An object that is too deep to decode is a `msgspec.Raw`: the provider gets the text as the model wrote it.
    """
    if call.form == "text":
        return {FREE_TEXT_KEY: call.json}, "free-text"
    try:
        value: Any = decode_or_keep_raw(call.json or "{}")
    except (msgspec.DecodeError, UnicodeEncodeError):
        return {RAW_INPUT_KEY: call.json}, "odd-input"
    return (value, "") if is_object(value) else ({RAW_INPUT_KEY: call.json}, "odd-input")


def replace_deep_inputs(body: Object) -> Object:
    """Returns the body for SDKs that take plain objects only: inputs that are too deep become text."""
    return replace_raw(body, lambda json: {RAW_INPUT_KEY: json}) if holds_raw(body) else body


def input_json(value: Any) -> str:
    """Returns the JSON text of an input: the inverse of `input_as_object`."""
    if RAW_INPUT_KEY in value and len(value) == 1 and isinstance(value[RAW_INPUT_KEY], str):
        return cast("str", value[RAW_INPUT_KEY])
    return as_json(value)


def restore_input_text(json: str) -> str:
    """Does the same for an input that is JSON text."""
    if RAW_INPUT_KEY not in json:
        return json
    try:
        value: Any = decode_or_keep_raw(json)
    except (msgspec.DecodeError, UnicodeEncodeError):
        return json
    return input_json(value) if isinstance(value, dict) and value.keys() == {RAW_INPUT_KEY} else json


def wrap_system_parts(parts: Sequence[rq.AnyPart], seal: Extra | None = None) -> list[rq.AnyPart]:
    """Returns the parts of a system message between its marks, for protocols where only user and model may speak.

    The marks are for the model to see. They give no authority: anybody who can write text can write marks. `seal` is
    extra data of the marks, if the protocol has such a field. Only sealed marks are read as a system message again;
    a client that can set the field could have set the system prompt too.
    """
    return [rq.Text(SYSTEM_MARKS[0], extra=seal), *parts, rq.Text(SYSTEM_MARKS[1], extra=seal)]


def split_system_parts(parts: list[rq.AnyPart], seal: Extra) -> list[tuple[rq.Role, list[rq.AnyPart]]]:
    """Splits the parts of a user message into what the user said and the system messages between sealed marks."""
    rows: list[tuple[rq.Role, list[rq.AnyPart]]] = []
    start = 0
    opened: int | None = None
    for position, part in enumerate(parts):
        mark = part.text if type(part) is rq.Text and part.extra == seal else ""
        if mark == SYSTEM_MARKS[0] and opened is None:
            opened = position
        elif mark == SYSTEM_MARKS[1] and opened is not None:
            if start < opened:
                rows.append(("user", parts[start:opened]))
            rows.append(("system", parts[opened + 1 : position]))
            start, opened = position + 1, None
    return [*rows, ("user", parts[start:])] if start < len(parts) or not rows else rows
