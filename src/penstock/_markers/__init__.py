"""Markers: what a protocol has no field for travels in a field it has, with a mark that our own readers recognise.

Writers call `embed_markers` before they write; readers call `extract_markers` after they have read. Both take and
return canonical messages. Security: users, tools and models write text, so a mark in a text may only say what a part is
or where it belongs. It never creates a part, an address or a system message; those need a seal, a field beside the
text (see `wrap_system_parts`).
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, Final, cast

import msgspec
from msgspec.structs import replace

from penstock import request as rq
from penstock._diagnostics import read_tables
from penstock._input_limits import holds_raw, replace_raw
from penstock._lenient_fields import Object, as_object, get_text
from penstock._lenient_json import as_json, is_json, is_object, try_decode

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from penstock.events import Extra

MARK_START: Final = "<ps:"  # the start of every mark in a text
FAILED_MARK: Final = "<ps:tool-failed/>"
REFUSAL_MARK: Final = "<ps:refused/>"
PLAIN_MARK: Final = "<ps:text/>"  # before a text that itself begins with a mark: it is text and nothing else
NO_RESULT_MARK: Final = "<ps:no-result/>"
PROTECTED_MARKS: Final = (FAILED_MARK, REFUSAL_MARK, PLAIN_MARK)
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


@cache
def carried_features() -> Mapping[str, str]:
    """Returns features that a request carries in another field, and how."""
    return read_tables(__name__, "carried.toml")


def protect_text(text: str) -> str:
    """Returns the text so that no reader takes its first words for a mark. `extract_markers` restores it."""
    return PLAIN_MARK + text if text.startswith(PROTECTED_MARKS) else text


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
    value = try_decode(call.json or "{}")
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
    value = try_decode(json)
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


# ── restoring what marks stand for, after a request was read ──────────────────────────────


def extract_markers(messages: list[rq.Message], *, failed: bool = True, refusals: bool = True) -> list[rq.Message]:
    """Returns the messages with everything that a mark stands for restored; the same list if there is no mark.

    `failed`, `refusals`: whether these marks count. They do not where the protocol has a field, because there its
    writer never writes them, so they can only be the words of a tool or of a model.
    """
    extractor = _Extractor(failed=failed, refusals=refusals)
    text, result, size = rq.Text, rq.Result, len(MARK_START)  # local names: every part of every request passes here
    for message in messages:
        for part in message.parts:
            if type(part) is text:
                if part.text[:size] == MARK_START:
                    return extractor.extract(messages)
            elif type(part) is result:
                first = part.content[0] if part.content else None
                has_mark = type(first) is text and first.text[:size] == MARK_START
                if has_mark or part.call.startswith(PROVIDER_CALL_PREFIXES):
                    return extractor.extract(messages)
    return messages


class _Extractor:
    """Restores one conversation.

    State: whether the next assistant message continues the last turn; the last turn that got its files back.
    """

    def __init__(self, *, failed: bool, refusals: bool) -> None:
        self._failed, self._refusals = failed, refusals
        self._messages: list[rq.Message] = []
        self._continues = False
        self._turn_with_files: rq.Message | None = None

    def extract(self, messages: Iterable[rq.Message]) -> list[rq.Message]:
        for message in messages:
            if message.role == "tool":
                self._add_results(message)
            elif message.role == "assistant":
                self._add_turn(message)
            elif message.role != "user" or not self._restore_files(message):
                self._messages.append(_restore_empty(message) if message.role == "user" else message)
                self._continues = False
        return self._messages

    def _add_turn(self, message: rq.Message) -> None:
        parts = [_restore_refusal(part, refusals=self._refusals) for part in message.parts]
        if self._continues:
            self._messages[-1].parts += parts
        else:
            self._messages.append(replace(message, parts=parts))
        self._continues = False

    def _add_results(self, message: rq.Message) -> None:
        """Moves a provider's results into the turn that holds their calls; all others stay."""
        results = [
            _restore_failed(part, failed=self._failed) if type(part) is rq.Result else part for part in message.parts
        ]
        moved = [part for part in results if _is_provider_result(part) and type(part) is rq.Result]
        turn = self._last_turn()
        if turn is None or not moved:
            self._messages.append(replace(message, parts=results))
            self._continues = False
            return
        _move_results(turn, moved)
        remaining = [part for part in results if not _is_provider_result(part)]
        if remaining:
            self._messages.append(replace(message, parts=remaining))
        ends_turn = any(part.call.startswith(LAST_PROVIDER_CALL_PREFIX) for part in moved)
        self._continues = not remaining and self._messages[-1] is turn and not ends_turn

    def _last_turn(self) -> rq.Message | None:
        last = next((message for message in reversed(self._messages) if message.role != "tool"), None)
        return last if last is not None and last.role == "assistant" else None

    def _restore_files(self, message: rq.Message) -> bool:
        """Moves files back to where they came from. False if the message holds anything but marks and their files."""
        result_files = _numbered_files(message, RESULT_FILE_MARK)
        if result_files:
            return self._restore_result_files(dict(result_files))
        turn_files = _numbered_files(message, ASSISTANT_TURN_MARK)
        if turn_files:
            self._restore_turn_files([file for _, file in turn_files], own_turn=turn_files[0][0] == 1)
            return True
        files, turn = _numbered_files(message, ASSISTANT_FILE_MARK), self._last_turn()
        if not files or turn is None:
            return False
        for count, file in reversed(files):
            turn.parts.insert(_position_after(turn.parts, count), file)
        return True

    def _restore_turn_files(self, files: list[rq.File], *, own_turn: bool) -> None:
        """Restores files that were a whole turn (`own_turn`), or its only countable parts."""
        last = self._messages[-1] if self._messages else None
        is_new = own_turn or last is None or last is self._turn_with_files or last.role != "assistant"
        if is_new or last is None or any(map(is_countable, last.parts)):
            self._messages.append(rq.Message("assistant", [*files]))
        else:
            last.parts += files
        self._turn_with_files = self._messages[-1]

    def _restore_result_files(self, files: dict[int, rq.File]) -> bool:
        numbers = {RESULT_FILE_MARK.format(number): number for number in files}
        positions: dict[int, tuple[rq.Result, int]] = {}
        for message in reversed(self._messages):
            if message.role != "tool":
                break
            for result in message.parts:
                for position, part in enumerate(result.content if type(result) is rq.Result else ()):
                    if type(part) is rq.Text and part.text in numbers and type(result) is rq.Result:
                        positions[numbers[part.text]] = result, position
        if positions.keys() != files.keys():
            return False
        for number, (result, position) in positions.items():
            result.content[position] = files[number]
        return True


def _is_provider_result(part: rq.AnyPart) -> bool:
    return type(part) is rq.Result and part.call.startswith(PROVIDER_CALL_PREFIXES)


def _restore_empty(message: rq.Message) -> rq.Message:
    only = message.parts[0] if len(message.parts) == 1 else None
    return replace(message, parts=[]) if type(only) is rq.Text and only.text == EMPTY_MARK else message


def _position_after(parts: list[rq.AnyPart], count: int) -> int:
    """Returns the position after so many countable parts."""
    for position, part in enumerate(parts):
        if not count:
            return position
        count -= is_countable(part)
    return len(parts)


def _numbered_files(message: rq.Message, mark_format: str) -> list[tuple[int, rq.File]]:
    """Returns the files of a message with the numbers in their marks; nothing if it holds anything else."""
    head, _, tail = mark_format.partition("{}")
    texts, files = message.parts[::2], message.parts[1::2]
    found: list[tuple[int, rq.File]] = []
    for mark, file in zip(texts, [*files, None], strict=False):
        if type(file) is not rq.File or type(mark) is not rq.Text or not mark.text.startswith(head):
            return []
        number = mark.text[len(head) :].removesuffix(tail)
        if not (number.isascii() and number.isdigit() and len(number) < len(head)):
            return []
        found.append((int(number), file))
    return found


def _restore_refusal(part: rq.AnyPart, *, refusals: bool) -> rq.AnyPart:
    mark = f"{REFUSAL_MARK}\n"
    if not refusals or type(part) is not rq.Text or not part.text.startswith(MARK_START):
        return part
    if part.text.startswith(PLAIN_MARK):
        return replace(part, text=part.text[len(PLAIN_MARK) :])
    return replace(part, text=part.text[len(mark) :], refusal=True) if part.text.startswith(mark) else part


def _restore_failed(result: rq.Result, *, failed: bool) -> rq.Result:
    first = result.content[0] if result.content else None
    if not failed or type(first) is not rq.Text or not first.text.startswith((FAILED_MARK, PLAIN_MARK)):
        return result
    if first.text.startswith(PLAIN_MARK):
        return replace(result, content=[replace(first, text=first.text[len(PLAIN_MARK) :]), *result.content[1:]])
    text = first.text[len(FAILED_MARK) :].removeprefix("\n")
    content = [replace(first, text=text), *result.content[1:]] if text else result.content[1:]
    return replace(result, content=content, failed=True)


def _move_results(turn: rq.Message, results: list[rq.Result]) -> None:
    """Makes calls and results the provider's again, inside the turn."""
    calls, size = {result.call for result in results}, len(PROVIDER_CALL_PREFIX)
    for position, part in enumerate(turn.parts):
        if type(part) is rq.Call and part.id in calls:
            turn.parts[position] = replace(part, id=part.id[size:], by="provider", extra=None)
    for result in results:
        only = result.content[0] if len(result.content) == 1 else None
        text = only.text if type(only) is rq.Text else ""
        if text != NO_RESULT_MARK:
            # the result of a provider's tool is a JSON value, even if it was sent as text
            content: list[rq.ResultPart] = [rq.Json(text)] if is_json(text) else result.content
            turn.parts.append(replace(result, call=result.call[size:], by="provider", content=content, extra=None))


def restore_free_text_calls(messages: Iterable[rq.Message], tools: Iterable[rq.Tool]) -> None:
    """Gives calls of free-text tools their text back, in place. On the wire it is an object with one string."""
    names = {tool.name for tool in tools if tool.kind == "custom"}
    if not names:
        return
    for message in messages:
        if message.role == "assistant":
            for part in message.parts:
                if type(part) is rq.Call and part.name in names and part.by == "client":
                    _restore_free_text(part)


def _restore_free_text(call: rq.Call) -> None:
    value = try_decode(call.json)
    if isinstance(value, dict) and value.keys() == {FREE_TEXT_KEY} and isinstance(value[FREE_TEXT_KEY], str):
        call.json, call.form = value[FREE_TEXT_KEY], "text"
