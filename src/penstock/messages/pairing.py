"""Calls and their results: every call answered once, right behind it, under its id and its tool's name.

Requests that are so already pass in one loop. What is not is mended, each time with a diagnostic: results that stand
elsewhere are moved, calls without one get a failed one, results without a call are told as text.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import msgspec
from msgspec.structs import replace

from penstock import request as rq
from penstock.messages.traversal import change_list, change_parts, with_messages

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.diagnostics import Diagnostics

Orphans: TypeAlias = Literal["text", "drop", "keep"]
UNANSWERED = "no result was recorded"
_CALLS, _RESULTS = frozenset({rq.Call}), frozenset({rq.Result})
ORPHAN = "[A result of the tool {}, whose call is not part of this conversation]"


def pair(request: rq.Request, notes: Diagnostics, *, orphans: Orphans = "text", named: bool = True) -> rq.Request:
    """The request with calls and results in pairs. `orphans`: what becomes of a result without a call.

    Not `named`: results that are in order are not given the names of their tools, for targets that do not say them.
    """
    messages = _straight(request.messages, named=named)
    if messages is None:
        messages = _Mending(request.messages, notes, orphans).mended()
    return with_messages(request, messages)


def _straight(messages: list[rq.Message], *, named: bool) -> list[rq.Message] | None:
    """The messages with the names of results filled in; None if anything else must be done."""
    seen: set[str] = set()
    waiting: dict[str, rq.Call] = {}
    unlike = False  # some result is not yet as its call is
    for message in messages:
        if message.role == "tool":
            for part in message.parts:
                call = waiting.pop(part.call, None) if type(part) is rq.Result else None
                if call is None or type(part) is not rq.Result:
                    return None
                unlike = unlike or part.form != call.form or (named and part.name != call.name)
        elif waiting or (message.role == "assistant" and not _called(message.parts, seen, waiting)):
            return None
    if waiting:
        return None
    return _likened(messages) if unlike else messages


def _called(parts: list[rq.AnyPart], seen: set[str], waiting: dict[str, rq.Call]) -> bool:
    """Note the calls of a message. False if one cannot stay as it is."""
    for part in parts:
        if type(part) is rq.Call and part.by == "client":
            if part.cut or not part.id or part.id in seen:
                return False
            seen.add(part.id)
            waiting[part.id] = part
    return True


def _likened(messages: list[rq.Message]) -> list[rq.Message]:
    """The messages with results that say the names of their tools, where all else is in order."""
    calls = {part.id: part for message in messages for part in message.parts if type(part) is rq.Call}

    def likened(result: rq.Result) -> rq.Result:
        call = calls.get(result.call)
        if result.by == "provider" or call is None or (result.name, result.form) == (call.name, call.form):
            return result
        return replace(result, name=call.name, form=call.form)

    return change_parts(messages, _RESULTS, likened)


class _Slot(msgspec.Struct, gc=False):
    """A call that waits for its result."""

    call: rq.Call
    message: int
    id: str
    result: rq.Result | None = None
    origin: int = -1  # the message that the result stood in
    rank: int = 0  # which of all results it was


class _Loose(msgspec.Struct):
    """A result on its way to its call."""

    result: rq.Result
    message: int
    rank: int


class _Mending:
    """One conversation being put in order. Linear: every call and every result is looked at a fixed number of times."""

    def __init__(self, messages: list[rq.Message], notes: Diagnostics, orphans: Orphans) -> None:
        self._messages = messages
        self._notes = notes
        self._orphans = orphans
        self._slots: dict[int, list[_Slot]] = {}  # by message
        self._by_id: dict[str, deque[_Slot]] = {}  # the ids as they were given
        self._by_name: dict[str, deque[_Slot]] = {}
        self._all: deque[_Slot] = deque()
        self._last: dict[str, _Slot] = {}  # the answered call of an id
        self._told: dict[int, list[rq.Result]] = {}  # results without a call, by message
        self._numbers: dict[str, int] = {}  # the last number that was appended to an id

    def mended(self) -> list[rq.Message]:
        self._index()
        for loose in self._apart():
            self._settle(loose)
        return list(self._written())

    # ── calls ─────────────────────────────────────────────────────────────────────────────────────

    def _index(self) -> None:
        given = {part.id for message in self._messages for part in message.parts if type(part) is rq.Call}
        used: set[str] = set()
        for place, message in enumerate(self._messages):
            if message.role != "assistant":
                continue
            for part in message.parts:
                if type(part) is rq.Call and part.by == "client" and not part.cut:
                    slot = _Slot(part, place, self._unique(part.id, given, used))
                    self._slots.setdefault(place, []).append(slot)
                    self._by_id.setdefault(part.id, deque()).append(slot)
                    self._by_name.setdefault(part.name, deque()).append(slot)
                    self._all.append(slot)

    def _unique(self, id: str, given: set[str], used: set[str]) -> str:
        """An id that no other call has, made of the one it has and its place."""
        made, number = id, max(len(used), self._numbers.get(id, 0))
        while not made or made in used or (made != id and made in given):
            number += 1
            made = f"{id or 'call'}_{number}"
        if made != id:
            self._numbers[id] = number
            self._notes.add("call-id", "a call without an id of its own was given one")
        used.add(made)
        return made

    # ── results ───────────────────────────────────────────────────────────────────────────────────

    def _apart(self) -> list[_Loose]:
        """Give each call the result that stands in its own round; whatever is left comes out."""
        left: list[_Loose] = []
        near: list[_Slot] = []
        waiting = _Round(near)
        before, rank = "", 0
        for place, message in enumerate(self._messages):
            if message.role == "assistant":
                near = near if before == "assistant" else []
                near += self._slots.get(place, ())
            elif message.role == "tool":
                waiting = waiting if before == "tool" else _Round(near)
                for result in filter(_is_answer, message.parts):
                    rank += 1
                    loose = _Loose(result, place, rank)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
                    if not self._answer(waiting.take(loose.result), loose):
                        left.append(loose)
            else:
                near = []
            before = message.role
        return left

    def _answer(self, slot: _Slot | None, loose: _Loose) -> bool:
        if slot is None:
            return False
        slot.result, slot.origin, slot.rank = loose.result, loose.message, loose.rank
        self._last[slot.call.id] = slot
        return True

    def _settle(self, loose: _Loose) -> None:
        """A result from elsewhere: the oldest call that waits for it, else it repeats one or has none."""
        result = loose.result
        if result.call:
            rows = self._by_id.get(result.call)
        else:
            rows = self._by_name.get(result.name) if result.name else self._all
        if self._answer(_oldest(rows), loose):
            self._notes.add("result-moved", "a tool's result stood apart from its call and was moved behind it")
        elif result.call in self._last:
            self._repeated(self._last[result.call], loose)
        else:
            self._orphan(loose)

    def _repeated(self, slot: _Slot, loose: _Loose) -> None:
        first, again = slot.result, loose.result
        if first is not None and first.partial and not again.partial:
            slot.result = again
        elif first is not None and (first.content, first.failed) != (again.content, again.failed):
            self._told.setdefault(loose.message, []).append(replace(again, name=again.name or slot.call.name))
        self._notes.add("duplicate-result", "a call was answered more than once; it keeps one result")

    def _orphan(self, loose: _Loose) -> None:
        done = {"text": "it is told as text", "drop": "it is left out", "keep": "it is kept"}[self._orphans]
        self._notes.add("orphan-result", f"a tool's result answers no call in the conversation; {done}")
        if self._orphans != "drop":
            self._told.setdefault(loose.message, []).append(loose.result)

    # ── the messages again ────────────────────────────────────────────────────────────────────────

    def _written(self) -> Iterator[rq.Message]:
        for place, message in enumerate(self._messages):
            if message.role == "assistant":
                yield from self._spoken(place, message)
            elif message.role == "tool":
                yield from self._left(place, message)
            else:
                yield message

    def _spoken(self, place: int, message: rq.Message) -> Iterator[rq.Message]:
        """An assistant's message, and the results of its calls right behind it."""
        slots = self._slots.get(place, [])
        calls = iter(slots)

        def renamed(call: rq.Call) -> rq.Call | None:
            if call.by == "provider":
                return call
            if call.cut:
                self._notes.add("call-cut", f"a call of {call.name!r} that was cut short is left out")
                return None
            id = next(calls).id  # noqa: A001 — as the call calls it
            return call if id == call.id else replace(call, id=id)

        parts = change_list(message.parts, _CALLS, renamed)
        if parts or not message.parts:
            yield message if parts is message.parts else replace(message, parts=parts)
        yield from self._answers(slots)

    def _answers(self, slots: list[_Slot]) -> Iterator[rq.Message]:
        """Results in the order they came, those of one message together; then those that never came."""
        origin, parts = -1, list[rq.AnyPart]()
        for slot in sorted(slots, key=lambda slot: (slot.result is None, slot.rank)):
            result = slot.result or self._missing(slot)
            if parts and slot.origin != origin:
                yield self._tool(origin, parts)
                parts = []
            origin = slot.origin
            parts.append(replace(result, call=slot.id, name=slot.call.name, form=slot.call.form))
        if parts:
            yield self._tool(origin, parts)

    def _tool(self, origin: int, parts: list[rq.AnyPart]) -> rq.Message:
        return rq.Message("tool", parts) if origin < 0 else replace(self._messages[origin], parts=parts)

    def _missing(self, slot: _Slot) -> rq.Result:
        self._notes.add("no-result", f"a call of {slot.call.name!r} has no result; a failed one stands in for it")
        return rq.Result(slot.id, slot.call.name, [rq.Text(UNANSWERED)], failed=True)

    def _left(self, place: int, message: rq.Message) -> Iterator[rq.Message]:
        """What stays where a tool's message was: results without a call, and whatever else stood there."""
        told = self._told.get(place, [])
        if told and self._orphans == "keep":
            yield replace(message, parts=told)
            told = []
        others: list[Any] = [part for part in message.parts if not _is_answer(part)]
        parts = [*(part for result in told for part in as_text(result)), *others]
        if parts:
            yield rq.Message("user", parts)


class _Round:
    """The calls of one round that wait for results."""

    def __init__(self, slots: list[_Slot]) -> None:
        self._any = deque(slots)
        self._ids: dict[str, deque[_Slot]] = {}
        self._names: dict[str, deque[_Slot]] = {}
        for slot in slots:
            self._ids.setdefault(slot.call.id, deque()).append(slot)
            self._names.setdefault(slot.call.name, deque()).append(slot)

    def take(self, result: rq.Result) -> _Slot | None:
        if result.call:
            return _oldest(self._ids.get(result.call))
        return _oldest(self._names.get(result.name) if result.name else self._any)


def _oldest(rows: deque[_Slot] | None) -> _Slot | None:
    while rows and rows[0].result is not None:
        rows.popleft()
    return rows[0] if rows else None


def _is_answer(part: Any) -> bool:
    return type(part) is rq.Result and part.by == "client"


def as_text(result: rq.Result) -> list[rq.AnyPart]:
    """A result that cannot be one, as what a user could say: a line that explains it, then its content."""
    parts: list[Any] = [rq.Text(ORPHAN.format(result.name or result.call or "unknown"))]
    return parts + [rq.Text(part.json, cache=part.cache) if type(part) is rq.Json else part for part in result.content]
