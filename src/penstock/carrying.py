"""Carriers: what a protocol has no field for travels in one it has, marked so that our own readers put it back.

Canonical messages in, canonical messages out: writers call `stowed` before they write, readers call `restored` after
they have read. Text never becomes structure: a mark in a text says what a part is or where it belongs, but no part, no
address and no role ever comes out of a text, because texts are written by users, tools and models.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgspec
from msgspec.structs import replace

from penstock import request as rq
from penstock.jsontext import is_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

Report: TypeAlias = Callable[[str], None]

CARRIERS: Final = {
    "failed": "that a tool failed is said in its text",
    "result-file": "a file in a tool result is moved into a user message behind it",
    "assistant-file": "a file that the model made is moved into a user message behind it",
    "refusal": "that a text is a refusal is said in the text",
    "provider-call": "a tool that another provider ran is told as a call with its result, which nobody runs again",
    "free-text": "a tool of free text is offered as a function of one string",
    "odd-input": "an input that is no JSON object is sent as a string inside of one",
}
OPEN = "<ps:"  # how every mark in a text begins
FAILED = "<ps:tool-failed/>"
REFUSED = "<ps:refused/>"
SILENT = "<ps:no-result/>"
FILE = '<ps:tool-file n="{}"/>'
MADE = '<ps:made-file at="{}"/>'
RAN = "ran_"  # begins the id of a call that a provider ran


class Holds(msgspec.Struct, frozen=True):
    """What a protocol has a place for itself. What its own extra data describes, it can always say."""

    protocol: str
    failed: bool = True
    refusals: bool = True
    result_files: bool = True
    assistant_files: bool = True


def stowed(messages: list[rq.Message], holds: Holds, carry: Report) -> list[rq.Message]:
    """The messages with everything in a place that the protocol has; the same list where that is so already."""
    roles = {"assistant": _fits_assistant, "tool": _fits_tool}
    if all(roles[message.role](message, holds) for message in messages if message.role in roles):
        return messages
    return _Stowing(holds, carry).run(messages)


def _fits_assistant(message: rq.Message, holds: Holds) -> bool:
    for part in message.parts:
        kind = type(part)
        if kind is rq.Text:
            if part.refusal and not holds.refusals:  # type: ignore[union-attr]  # pyright: ignore
                return False
        elif kind is rq.Call or kind is rq.Result:
            if _ran(part, holds.protocol):
                return False
        elif kind is rq.File and not holds.assistant_files:
            return False
    return True


def _ran(part: Any, protocol: str) -> bool:
    """Whether a provider ran it, and not one of this protocol; a client's result has no place in a turn either."""
    return (part.by == "provider" or type(part) is rq.Result) and protocol not in (part.extra or ())


def _fits_tool(message: rq.Message, holds: Holds) -> bool:
    return not any(type(part) is rq.Result and (_lifts(part, holds) or _fails(part, holds)) for part in message.parts)


def _fails(result: rq.Result, holds: Holds) -> bool:
    return result.failed and not holds.failed


def _lifts(result: rq.Result, holds: Holds) -> bool:
    own = (result.extra or {}).get(holds.protocol)
    if holds.result_files or (own and own.get("_", {}).get("files")):
        return False
    return any(type(part) is rq.File for part in result.content)


class _Stowing:
    """One conversation being put into places. State: the files that wait for the end of a round of results."""

    def __init__(self, holds: Holds, carry: Report) -> None:
        self._holds = holds
        self._carry = carry
        self._made: list[rq.Message] = []
        self._files: list[rq.AnyPart] = []
        self._pictures: list[rq.AnyPart] = []
        self._number = 0

    def run(self, messages: Iterable[rq.Message]) -> list[rq.Message]:
        for message in messages:
            if message.role == "tool":
                self._made.append(replace(message, parts=[self._answer(part) for part in message.parts]))
                continue
            self._flush()
            rows = self._turn(message) if message.role == "assistant" else [message]
            self._made += rows
        self._flush()
        return self._made

    def _flush(self) -> None:
        for waiting in (self._files, self._pictures):
            if waiting:
                self._made.append(rq.Message("user", list(waiting)))
                waiting.clear()

    def _answer(self, part: rq.AnyPart) -> rq.AnyPart:
        if type(part) is not rq.Result:
            return part
        content = part.content
        if _lifts(part, self._holds):
            self._carry("result-file")
            content = [self._lifted(one) if type(one) is rq.File else one for one in content]
        if _fails(part, self._holds):
            self._carry("failed")
            content, part = _marked(content, FAILED), replace(part, failed=False)
        return part if content is part.content else replace(part, content=content)

    def _lifted(self, file: rq.File) -> rq.Text:
        self._number += 1
        mark = FILE.format(self._number)
        self._files += rq.Text(text=mark), file
        return rq.Text(text=mark)

    def _turn(self, message: rq.Message) -> list[rq.Message]:
        parts: list[rq.AnyPart] = []
        for place, part in enumerate(message.parts):
            if type(part) is rq.File and not self._holds.assistant_files:
                self._carry("assistant-file")
                self._pictures += rq.Text(text=MADE.format(place)), part
            elif type(part) is rq.Text and part.refusal and not self._holds.refusals:
                self._carry("refusal")
                parts.append(replace(part, text=f"{REFUSED}\n{part.text}", refusal=False))
            else:
                parts.append(part)
        message = replace(message, parts=parts)
        if any(isinstance(part, rq.Call | rq.Result) and _ran(part, self._holds.protocol) for part in parts):
            self._carry("provider-call")
            return _spread(message, self._holds.protocol)
        return [message]


def _marked(content: Sequence[rq.ResultPart], mark: str) -> list[rq.ResultPart]:
    first = content[0] if content else None
    if type(first) is rq.Text:
        return [replace(first, text=f"{mark}\n{first.text}"), *content[1:]]
    return [rq.Text(text=mark), *content]


def _spread(message: rq.Message, protocol: str) -> list[rq.Message]:
    """Calls that were answered inside a turn, as calls with results behind them; the client's own calls come last."""
    answered = {part.call for part in message.parts if type(part) is rq.Result}
    rows: list[rq.Message] = []
    parts: list[rq.AnyPart] = []
    waiting: list[rq.AnyPart] = []
    silent: list[rq.AnyPart] = []
    for part in message.parts:
        if type(part) is rq.Result and _ran(part, protocol):
            if parts:
                rows.append(rq.Message("assistant", parts))
                parts = []
            rows.append(rq.Message("tool", [replace(part, call=RAN + part.call, by="client"), *silent]))
            silent = []
        elif type(part) is rq.Call and _ran(part, protocol):
            parts.append(replace(part, id=RAN + part.id, by="client"))
            if part.id not in answered:
                silent.append(rq.Result(call=RAN + part.id, name=part.name, content=[rq.Text(text=SILENT)]))
        else:
            (waiting if type(part) is rq.Call else parts).append(part)
    parts += waiting
    if parts:
        rows.append(rq.Message("assistant", parts))
    if silent:
        rows.append(rq.Message("tool", silent))
    rows[0] = replace(rows[0], name=message.name, extra=message.extra)
    return rows


# ── the way back ──────────────────────────────────────────────────────────────────────────────────


def restored(messages: list[rq.Message]) -> list[rq.Message]:
    """The messages with everything that a mark speaks of in its own place; the same list where there is no mark."""
    for message in messages:
        for part in message.parts:
            kind = type(part)
            if kind is rq.Text:
                if part.text.startswith(OPEN):  # type: ignore[union-attr]  # pyright: ignore
                    return _restored(messages)
            elif kind is rq.Result and _speaks(part):  # type: ignore[arg-type]  # pyright: ignore
                return _restored(messages)
    return messages


def _speaks(result: rq.Result) -> bool:
    if result.call.startswith(RAN):
        return True
    first = result.content[0] if result.content else None
    return type(first) is rq.Text and first.text.startswith(OPEN)


def _restored(messages: Iterable[rq.Message]) -> list[rq.Message]:
    made: list[rq.Message] = []
    inside = False  # the last message was a provider's result, and is now part of the turn before it
    for message in messages:
        role, before = message.role, made[-1] if made else None
        if role == "tool":
            message, ran = _answers(message)  # noqa: PLW2901 — the same message, put right
            inside = bool(ran) and _take(made, ran)
            if message.parts or not inside:
                made.append(message)
                inside = False
        elif role == "assistant" and inside and before is not None:
            before.parts = [*before.parts, *_unmarked(message).parts]
            inside = False
        elif role == "user" and (_lay(made, message, FILE) or _lay(made, message, MADE)):
            continue
        else:
            made.append(_unmarked(message) if role == "assistant" else message)
            inside = False
    return made


def _unmarked(message: rq.Message) -> rq.Message:
    """A copy with its refusals marked as such, whose parts may be added to."""
    mark = f"{REFUSED}\n"
    parts: list[rq.AnyPart] = [
        replace(part, text=part.text.removeprefix(mark), refusal=True)
        if type(part) is rq.Text and part.text.startswith(mark)
        else part
        for part in message.parts
    ]
    return replace(message, parts=parts)


def _answers(message: rq.Message) -> tuple[rq.Message, list[rq.Result]]:
    """A message's results without those that a provider gave, and these."""
    ours: list[rq.AnyPart] = []
    ran: list[rq.Result] = []
    for part in message.parts:
        if type(part) is rq.Result:
            part = _unfailed(part)  # noqa: PLW2901 — the same part, put right
            if part.call.startswith(RAN):
                ran.append(replace(part, call=part.call[len(RAN) :], by="provider", content=_as_json(part.content)))
                continue
        ours.append(part)
    return replace(message, parts=ours), ran


def _unfailed(result: rq.Result) -> rq.Result:
    first = result.content[0] if result.content else None
    if type(first) is not rq.Text or not first.text.startswith(FAILED):
        return result
    left = first.text[len(FAILED) :].removeprefix("\n")
    content = [replace(first, text=left), *result.content[1:]] if left else result.content[1:]
    return replace(result, content=content, failed=True)


def _as_json(content: list[rq.ResultPart]) -> list[rq.ResultPart]:
    """What a provider's tool gave is a JSON value, whichever way it went."""
    only = content[0] if len(content) == 1 else None
    return [rq.Json(json=only.text)] if type(only) is rq.Text and is_json(only.text) else content


def _take(made: list[rq.Message], ran: list[rq.Result]) -> bool:
    """Put provider's results into the turn that holds their calls. False if there is none."""
    turn = next((message for message in reversed(made) if message.role != "tool"), None)
    if turn is None or turn.role != "assistant":
        return False
    calls = {RAN + result.call: result for result in ran}
    for place, part in enumerate(turn.parts):
        if type(part) is rq.Call and part.id in calls:
            turn.parts[place] = replace(part, id=part.id[len(RAN) :], by="provider")
    turn.parts += [result for result in ran if not _is_silent(result)]
    return True


def _is_silent(result: rq.Result) -> bool:
    only = result.content[0] if len(result.content) == 1 else None
    return type(only) is rq.Text and only.text == SILENT


def _lay(made: list[rq.Message], message: rq.Message, form: str) -> bool:
    """Put files back to where they came from. False if the message is anything but marks with their files."""
    marks, files = message.parts[::2], message.parts[1::2]
    head, _, tail = form.partition("{}")
    places: list[int] = []
    for mark, file in zip(marks, [*files, None], strict=False):
        if type(file) is not rq.File or type(mark) is not rq.Text or not mark.text.startswith(head):
            return False
        number = mark.text[len(head) : -len(tail)]
        if not number.isdecimal() or not mark.text.endswith(tail):
            return False
        places.append(int(number))
    if not places or len(marks) != len(files):
        return False
    lay = _lay_results if form == FILE else _lay_turn
    return lay(made, dict(zip(places, files, strict=True)))  # type: ignore[arg-type]  # pyright: ignore


def _lay_results(made: list[rq.Message], files: dict[int, rq.File]) -> bool:
    spots: dict[int, tuple[rq.Result, int]] = {}
    for message in reversed(made):
        if message.role != "tool":
            break
        for part in message.parts:
            if type(part) is rq.Result:
                spots |= {number: (part, place) for place, number in _spots(part, files)}
    if spots.keys() != files.keys():
        return False
    for number, (result, place) in spots.items():
        result.content[place] = files[number]
    return True


def _spots(result: rq.Result, numbers: Iterable[int]) -> list[tuple[int, int]]:
    marks = {FILE.format(number): number for number in numbers}
    return [
        (place, marks[part.text])
        for place, part in enumerate(result.content)
        if type(part) is rq.Text and part.text in marks
    ]


def _lay_turn(made: list[rq.Message], files: dict[int, rq.File]) -> bool:
    turn = next((message for message in reversed(made) if message.role != "tool"), None)
    if turn is None or turn.role != "assistant":
        return False
    for place, file in sorted(files.items()):
        turn.parts.insert(place, file)
    return True
