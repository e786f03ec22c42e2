"""Restores what marks stand for, after a request was read. Changes in place only what readers have just created."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from penstock import request as rq
from penstock._jsontext import decode_or_keep_raw, is_json
from penstock._markers import marks
from penstock._markers.marks import (
    FREE_TEXT_KEY,
    MARK_START,
    PROVIDER_CALL_PREFIX,
    PROVIDER_CALL_PREFIXES,
    is_countable,
)

if TYPE_CHECKING:
    from collections.abc import Iterable


def extract_markers(messages: list[rq.Message]) -> list[rq.Message]:
    """Returns the messages with everything that a mark stands for restored; the same list if there is no mark."""
    text, result, size = rq.Text, rq.Result, len(MARK_START)  # local names: every part of every request passes here
    for message in messages:
        for part in message.parts:
            if type(part) is text:
                if part.text[:size] == MARK_START:
                    return _Extractor().extract(messages)
            elif type(part) is result:
                first = part.content[0] if part.content else None
                has_mark = type(first) is text and first.text[:size] == MARK_START
                if has_mark or part.call.startswith(PROVIDER_CALL_PREFIXES):
                    return _Extractor().extract(messages)
    return messages


class _Extractor:
    """Restores one conversation.

    State: whether the next assistant message continues the last turn; the last turn that got its files back.
    """

    def __init__(self) -> None:
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
        mark = f"{marks.REFUSAL_MARK}\n"
        parts: list[rq.AnyPart] = [
            replace(part, text=part.text.removeprefix(mark), refusal=True)
            if type(part) is rq.Text and part.text.startswith(mark)
            else part
            for part in message.parts
        ]
        if self._continues:
            self._messages[-1].parts += parts
        else:
            self._messages.append(replace(message, parts=parts))
        self._continues = False

    def _add_results(self, message: rq.Message) -> None:
        """Moves a provider's results into the turn that holds their calls; all others stay."""
        results = [_restore_failed(part) if type(part) is rq.Result else part for part in message.parts]
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
        ends_turn = any(part.call.startswith(marks.LAST_PROVIDER_CALL_PREFIX) for part in moved)
        self._continues = not remaining and self._messages[-1] is turn and not ends_turn

    def _last_turn(self) -> rq.Message | None:
        last = next((message for message in reversed(self._messages) if message.role != "tool"), None)
        return last if last is not None and last.role == "assistant" else None

    def _restore_files(self, message: rq.Message) -> bool:
        """Moves files back to where they came from. False if the message holds anything but marks and their files."""
        result_files = _numbered_files(message, marks.RESULT_FILE_MARK)
        if result_files:
            return self._restore_result_files(dict(result_files))
        turn_files = _numbered_files(message, marks.ASSISTANT_TURN_MARK)
        if turn_files:
            self._restore_turn_files([file for _, file in turn_files], own_turn=turn_files[0][0] == 1)
            return True
        files, turn = _numbered_files(message, marks.ASSISTANT_FILE_MARK), self._last_turn()
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
        numbers = {marks.RESULT_FILE_MARK.format(number): number for number in files}
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
    return replace(message, parts=[]) if type(only) is rq.Text and only.text == marks.EMPTY_MARK else message


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


def _restore_failed(result: rq.Result) -> rq.Result:
    first = result.content[0] if result.content else None
    if type(first) is not rq.Text or not first.text.startswith(marks.FAILED_MARK):
        return result
    text = first.text[len(marks.FAILED_MARK) :].removeprefix("\n")
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
        if text != marks.NO_RESULT_MARK:
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
    try:
        value: Any = decode_or_keep_raw(call.json)
    except (msgspec.DecodeError, UnicodeEncodeError):
        return
    if isinstance(value, dict) and value.keys() == {FREE_TEXT_KEY} and isinstance(value[FREE_TEXT_KEY], str):
        call.json, call.form = value[FREE_TEXT_KEY], "text"
