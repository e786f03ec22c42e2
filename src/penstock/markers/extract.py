"""The way back: what a mark speaks of into its own place. Only what readers have just made is changed in place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from penstock import request as rq
from penstock.jsontext import decode_or_keep_raw, is_json
from penstock.markers.marks import (
    ALONE,
    EMPTY,
    ENDS,
    FAILED,
    FILE,
    INPUT,
    MADE,
    OPEN,
    RAN,
    REFUSED,
    RUN,
    SILENT,
    lasting,
)

if TYPE_CHECKING:
    from collections.abc import Iterable


def restored(messages: list[rq.Message]) -> list[rq.Message]:
    """The messages with everything that a mark speaks of in its own place; the same list where there is no mark."""
    text, result, size = rq.Text, rq.Result, len(OPEN)  # every request passes here, part by part
    for message in messages:
        for part in message.parts:
            if type(part) is text:
                if part.text[:size] == OPEN:
                    return _Restoring().run(messages)
            elif type(part) is result:
                first = part.content[0] if part.content else None
                if part.call.startswith(RUN) or (type(first) is text and first.text[:size] == OPEN):
                    return _Restoring().run(messages)
    return messages


class _Restoring:
    """One conversation being put right.

    State: whether the last message went into the turn before it; the last turn that has its files.
    """

    def __init__(self) -> None:
        self._made: list[rq.Message] = []
        self._inside = False
        self._drawn: rq.Message | None = None

    def run(self, messages: Iterable[rq.Message]) -> list[rq.Message]:
        for message in messages:
            if message.role == "tool":
                self._results(message)
            elif message.role == "assistant":
                self._turn(message)
            elif message.role != "user" or not self._files(message):
                self._made.append(_emptied(message) if message.role == "user" else message)
                self._inside = False
        return self._made

    def _turn(self, message: rq.Message) -> None:
        mark = f"{REFUSED}\n"
        parts: list[rq.AnyPart] = [
            replace(part, text=part.text.removeprefix(mark), refusal=True)
            if type(part) is rq.Text and part.text.startswith(mark)
            else part
            for part in message.parts
        ]
        if self._inside:
            self._made[-1].parts += parts
        else:
            self._made.append(replace(message, parts=parts))
        self._inside = False

    def _results(self, message: rq.Message) -> None:
        """A provider's results go into the turn that holds their calls, all others stay."""
        results = [_unfailed(part) if type(part) is rq.Result else part for part in message.parts]
        ran = [part for part in results if type(part) is rq.Result and part.call.startswith(RUN)]
        turn = self._last_turn()
        if turn is None or not ran:
            self._made.append(replace(message, parts=results))
            self._inside = False
            return
        _take(turn, ran)
        left = [part for part in results if type(part) is not rq.Result or not part.call.startswith(RUN)]
        if left:
            self._made.append(replace(message, parts=left))
        self._inside = not left and self._made[-1] is turn and not any(part.call.startswith(ENDS) for part in ran)

    def _last_turn(self) -> rq.Message | None:
        last = next((message for message in reversed(self._made) if message.role != "tool"), None)
        return last if last is not None and last.role == "assistant" else None

    def _files(self, message: rq.Message) -> bool:
        """Put files back to where they came from. False if the message is anything but marks with their files."""
        results = _numbered(message, FILE)
        if results:
            return self._lay_results(results)
        alone = _numbered(message, ALONE)
        if alone:
            self._alone([file for _, file in alone], own=alone[0][0] == 1)
            return True
        made, turn = _numbered(message, MADE), self._last_turn()
        if not made or turn is None:
            return False
        for count, file in reversed(made):
            turn.parts.insert(_behind(turn.parts, count), file)
        return True

    def _alone(self, files: list[rq.File], *, own: bool) -> None:
        """Files that were a turn of their own, or all of it that lasts."""
        last = self._made[-1] if self._made else None
        if own or last is None or last is self._drawn or last.role != "assistant" or any(map(lasting, last.parts)):
            self._made.append(rq.Message("assistant", [*files]))
        else:
            last.parts += files
        self._drawn = self._made[-1]

    def _lay_results(self, numbered: list[tuple[int, rq.File]]) -> bool:
        files = dict(numbered)
        marks = {FILE.format(number): number for number in files}
        spots: dict[int, tuple[rq.Result, int]] = {}
        for message in reversed(self._made):
            if message.role != "tool":
                break
            for result in message.parts:
                for place, part in enumerate(result.content if type(result) is rq.Result else ()):
                    if type(part) is rq.Text and part.text in marks and type(result) is rq.Result:
                        spots[marks[part.text]] = result, place
        if spots.keys() != files.keys():
            return False
        for number, (result, place) in spots.items():
            result.content[place] = files[number]
        return True


def _emptied(message: rq.Message) -> rq.Message:
    only = message.parts[0] if len(message.parts) == 1 else None
    return replace(message, parts=[]) if type(only) is rq.Text and only.text == EMPTY else message


def _behind(parts: list[rq.AnyPart], count: int) -> int:
    """The place behind so many parts that last."""
    for place, part in enumerate(parts):
        if not count:
            return place
        count -= lasting(part)
    return len(parts)


def _numbered(message: rq.Message, form: str) -> list[tuple[int, rq.File]]:
    """The files of a message with the numbers in their marks; none if it holds anything else."""
    head, _, tail = form.partition("{}")
    marks, files = message.parts[::2], message.parts[1::2]
    found: list[tuple[int, rq.File]] = []
    for mark, file in zip(marks, [*files, None], strict=False):
        if type(file) is not rq.File or type(mark) is not rq.Text or not mark.text.startswith(head):
            return []
        number = mark.text[len(head) :].removesuffix(tail)
        if not (number.isascii() and number.isdigit() and len(number) < len(head)):
            return []
        found.append((int(number), file))
    return found


def _unfailed(result: rq.Result) -> rq.Result:
    first = result.content[0] if result.content else None
    if type(first) is not rq.Text or not first.text.startswith(FAILED):
        return result
    left = first.text[len(FAILED) :].removeprefix("\n")
    content = [replace(first, text=left), *result.content[1:]] if left else result.content[1:]
    return replace(result, content=content, failed=True)


def _take(turn: rq.Message, ran: list[rq.Result]) -> None:
    calls = {result.call for result in ran}
    for place, part in enumerate(turn.parts):
        if type(part) is rq.Call and part.id in calls:
            turn.parts[place] = replace(part, id=part.id[len(RAN) :], by="provider", extra=None)
    for result in ran:
        only = result.content[0] if len(result.content) == 1 else None
        words = only.text if type(only) is rq.Text else ""
        if words != SILENT:
            # what a provider's tool gave is a JSON value, whichever way it went
            content: list[rq.ResultPart] = [rq.Json(words)] if is_json(words) else result.content
            turn.parts.append(replace(result, call=result.call[len(RAN) :], by="provider", content=content, extra=None))


def free_calls(messages: Iterable[rq.Message], tools: Iterable[rq.Tool]) -> None:
    """Give such calls their text again, in messages that the reader has just made."""
    names = {tool.name for tool in tools if tool.kind == "custom"}
    if not names:
        return
    for message in messages:
        if message.role == "assistant":
            for part in message.parts:
                if type(part) is rq.Call and part.name in names and part.by == "client":
                    _free(part)


def _free(call: rq.Call) -> None:
    try:
        given: Any = decode_or_keep_raw(call.json)
    except (msgspec.DecodeError, UnicodeEncodeError):
        return
    if isinstance(given, dict) and given.keys() == {INPUT} and isinstance(given[INPUT], str):
        call.json, call.form = given[INPUT], "text"
