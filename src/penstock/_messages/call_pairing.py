"""Pairs calls with results: every call gets one result, right after it, with its id and its tool's name.

Requests in order pass in one loop. Others are repaired, each time with a diagnostic: results at other positions are
moved, calls without a result get a failed one, results without a call become text.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import msgspec
from msgspec.structs import replace

from penstock import request as rq
from penstock._messages.traversal import change_list, change_parts, with_messages

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock._diagnostics import Diagnostics

Orphans: TypeAlias = Literal["text", "drop", "keep"]
UNANSWERED = "no result was recorded"
_CALLS, _RESULTS = frozenset({rq.Call}), frozenset({rq.Result})
ORPHAN = "[A result of the tool {}, whose call is not part of this conversation]"


def pair(request: rq.Request, notes: Diagnostics, *, orphans: Orphans = "text", named: bool = True) -> rq.Request:
    """Pairs calls with results. `orphans`: what happens to a result without a call.

    Not `named`: results do not get the names of their tools, for targets that do not write them.
    """
    messages = _fill_in_names(request.messages, named=named)
    if messages is None:
        messages = _PairRepair(request.messages, notes, orphans).repair()
    return with_messages(request, messages)


def _fill_in_names(messages: list[rq.Message], *, named: bool) -> list[rq.Message] | None:
    """Returns the messages with the names of results filled in; None if they need another repair."""
    seen: set[str] = set()
    waiting: dict[str, rq.Call] = {}
    names_differ = False  # some result is not yet as its call is
    for message in messages:
        if message.role == "tool":
            for part in message.parts:
                call = waiting.pop(part.call, None) if type(part) is rq.Result else None
                if call is None or type(part) is not rq.Result:
                    return None
                names_differ = names_differ or part.form != call.form or (named and part.name != call.name)
        elif waiting or (message.role == "assistant" and not _collect_calls(message.parts, seen, waiting)):
            return None
    if waiting:
        return None
    return _copy_call_names(messages) if names_differ else messages


def _collect_calls(parts: list[rq.AnyPart], seen: set[str], waiting: dict[str, rq.Call]) -> bool:
    """Collects the calls of a message. Returns False if one cannot stay as it is."""
    for part in parts:
        if type(part) is rq.Call and part.by == "client":
            if part.cut or not part.id or part.id in seen:
                return False
            seen.add(part.id)
            waiting[part.id] = part
    return True


def _copy_call_names(messages: list[rq.Message]) -> list[rq.Message]:
    """Returns the messages with the names of tools copied from calls to results."""
    calls = {part.id: part for message in messages for part in message.parts if type(part) is rq.Call}

    def with_call_name(result: rq.Result) -> rq.Result:
        call = calls.get(result.call)
        if result.by == "provider" or call is None or (result.name, result.form) == (call.name, call.form):
            return result
        return replace(result, name=call.name, form=call.form)

    return change_parts(messages, _RESULTS, with_call_name)


class _CallSlot(msgspec.Struct, gc=False):
    """A call, and its result once it is found."""

    call: rq.Call
    message: int
    id: str
    result: rq.Result | None = None
    origin: int = -1  # the message of the result
    rank: int = 0  # its position among all results


class _StrayResult(msgspec.Struct):
    """A result that is not matched with a call yet."""

    result: rq.Result
    message: int
    rank: int


class _PairRepair:
    """Repairs one conversation in linear time: every call and every result is looked at a fixed number of times."""

    def __init__(self, messages: list[rq.Message], notes: Diagnostics, orphans: Orphans) -> None:
        self._messages = messages
        self._notes = notes
        self._orphans = orphans
        self._slots: dict[int, list[_CallSlot]] = {}  # by message
        self._by_id: dict[str, deque[_CallSlot]] = {}  # the ids as they were given
        self._by_name: dict[str, deque[_CallSlot]] = {}
        self._open_calls: deque[_CallSlot] = deque()
        self._answered: dict[str, _CallSlot] = {}  # the answered call of an id
        self._orphans_by_message: dict[int, list[rq.Result]] = {}  # results without a call, by message
        self._numbers: dict[str, int] = {}  # the last number that was appended to an id

    def repair(self) -> list[rq.Message]:
        self._index_calls()
        for stray in self._match_rounds():
            self._match_stray(stray)
        return list(self._write_messages())

    # ── calls ─────────────────────────────────────────────────────────────────────────────────────

    def _index_calls(self) -> None:
        all_ids = {part.id for message in self._messages for part in message.parts if type(part) is rq.Call}
        used: set[str] = set()
        for position, message in enumerate(self._messages):
            if message.role != "assistant":
                continue
            for part in message.parts:
                if type(part) is rq.Call and part.by == "client" and not part.cut:
                    slot = _CallSlot(part, position, self._unique_id(part.id, all_ids, used))
                    self._slots.setdefault(position, []).append(slot)
                    self._by_id.setdefault(part.id, deque()).append(slot)
                    self._by_name.setdefault(part.name, deque()).append(slot)
                    self._open_calls.append(slot)

    def _unique_id(self, id: str, all_ids: set[str], used: set[str]) -> str:
        """Returns an id that no other call has: the given one, with a number if needed."""
        unique, number = id, max(len(used), self._numbers.get(id, 0))
        while not unique or unique in used or (unique != id and unique in all_ids):
            number += 1
            unique = f"{id or 'call'}_{number}"
        if unique != id:
            self._numbers[id] = number
            self._notes.add("call-id", "a call without an id of its own was given one")
        used.add(unique)
        return unique

    # ── results ───────────────────────────────────────────────────────────────────────────────────

    def _match_rounds(self) -> list[_StrayResult]:
        """Gives each call the result of its round. Returns the other results."""
        left: list[_StrayResult] = []
        near: list[_CallSlot] = []
        waiting = _Round(near)
        before, rank = "", 0
        for position, message in enumerate(self._messages):
            if message.role == "assistant":
                near = near if before == "assistant" else []
                near += self._slots.get(position, ())
            elif message.role == "tool":
                waiting = waiting if before == "tool" else _Round(near)
                for result in filter(_is_client_result, message.parts):
                    rank += 1
                    stray = _StrayResult(result, position, rank)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
                    if not self._attach_result(waiting.find_call(stray.result), stray):
                        left.append(stray)
            else:
                near = []
            before = message.role
        return left

    def _attach_result(self, slot: _CallSlot | None, stray: _StrayResult) -> bool:
        if slot is None:
            return False
        slot.result, slot.origin, slot.rank = stray.result, stray.message, stray.rank
        self._answered[slot.call.id] = slot
        return True

    def _match_stray(self, stray: _StrayResult) -> None:
        """Gives a stray result to the oldest call that waits for it; else it is a duplicate or an orphan."""
        result = stray.result
        if result.call:
            rows = self._by_id.get(result.call)
        else:
            rows = self._by_name.get(result.name) if result.name else self._open_calls
        if self._attach_result(_oldest_open(rows), stray):
            self._notes.add("result-moved", "a tool's result stood apart from its call and was moved behind it")
        elif result.call in self._answered:
            self._keep_one_result(self._answered[result.call], stray)
        else:
            self._handle_orphan(stray)

    def _keep_one_result(self, slot: _CallSlot, stray: _StrayResult) -> None:
        first, again = slot.result, stray.result
        if first is not None and first.partial and not again.partial:
            slot.result = again
        elif first is not None and (first.content, first.failed) != (again.content, again.failed):
            self._orphans_by_message.setdefault(stray.message, []).append(
                replace(again, name=again.name or slot.call.name)
            )
        self._notes.add("duplicate-result", "a call was answered more than once; it keeps one result")

    def _handle_orphan(self, stray: _StrayResult) -> None:
        done = {"text": "it is told as text", "drop": "it is left out", "keep": "it is kept"}[self._orphans]
        self._notes.add("orphan-result", f"a tool's result answers no call in the conversation; {done}")
        if self._orphans != "drop":
            self._orphans_by_message.setdefault(stray.message, []).append(stray.result)

    # ── writing messages ──────────────────────────────────────────────────────────────────────────

    def _write_messages(self) -> Iterator[rq.Message]:
        for position, message in enumerate(self._messages):
            if message.role == "assistant":
                yield from self._write_assistant(position, message)
            elif message.role == "tool":
                yield from self._write_leftovers(position, message)
            else:
                yield message

    def _write_assistant(self, position: int, message: rq.Message) -> Iterator[rq.Message]:
        """Yields an assistant message, and the results of its calls right after it."""
        slots = self._slots.get(position, [])
        calls = iter(slots)

        def renamed(call: rq.Call) -> rq.Call | None:
            if call.by == "provider":
                return call
            if call.cut:
                self._notes.add("call-cut", f"a call of {call.name!r} that was cut short is left out")
                return None
            id = next(calls).id  # noqa: A001 — the name of the field
            return call if id == call.id else replace(call, id=id)

        parts = change_list(message.parts, _CALLS, renamed)
        if parts or not message.parts:
            yield message if parts is message.parts else replace(message, parts=parts)
        yield from self._write_results(slots)

    def _write_results(self, slots: list[_CallSlot]) -> Iterator[rq.Message]:
        """Yields results in their order, those of one message together; then results for calls without one."""
        origin, parts = -1, list[rq.AnyPart]()
        for slot in sorted(slots, key=lambda slot: (slot.result is None, slot.rank)):
            result = slot.result or self._missing_result(slot)
            if parts and slot.origin != origin:
                yield self._tool_message(origin, parts)
                parts = []
            origin = slot.origin
            parts.append(replace(result, call=slot.id, name=slot.call.name, form=slot.call.form))
        if parts:
            yield self._tool_message(origin, parts)

    def _tool_message(self, origin: int, parts: list[rq.AnyPart]) -> rq.Message:
        return rq.Message("tool", parts) if origin < 0 else replace(self._messages[origin], parts=parts)

    def _missing_result(self, slot: _CallSlot) -> rq.Result:
        self._notes.add("no-result", f"a call of {slot.call.name!r} has no result; a failed one stands in for it")
        return rq.Result(slot.id, slot.call.name, [rq.Text(UNANSWERED)], failed=True)

    def _write_leftovers(self, position: int, message: rq.Message) -> Iterator[rq.Message]:
        """Yields what is left of a tool message: results without a call, and other parts."""
        orphans = self._orphans_by_message.get(position, [])
        if orphans and self._orphans == "keep":
            yield replace(message, parts=orphans)
            orphans = []
        others: list[Any] = [part for part in message.parts if not _is_client_result(part)]
        parts = [*(part for result in orphans for part in orphan_as_text(result)), *others]
        if parts:
            yield rq.Message("user", parts)


class _Round:
    """The calls of one round that wait for results."""

    def __init__(self, slots: list[_CallSlot]) -> None:
        self._any = deque(slots)
        self._ids: dict[str, deque[_CallSlot]] = {}
        self._names: dict[str, deque[_CallSlot]] = {}
        for slot in slots:
            self._ids.setdefault(slot.call.id, deque()).append(slot)
            self._names.setdefault(slot.call.name, deque()).append(slot)

    def find_call(self, result: rq.Result) -> _CallSlot | None:
        if result.call:
            return _oldest_open(self._ids.get(result.call))
        return _oldest_open(self._names.get(result.name) if result.name else self._any)


def _oldest_open(rows: deque[_CallSlot] | None) -> _CallSlot | None:
    while rows and rows[0].result is not None:
        rows.popleft()
    return rows[0] if rows else None


def _is_client_result(part: Any) -> bool:
    return type(part) is rq.Result and part.by == "client"


def orphan_as_text(result: rq.Result) -> list[rq.AnyPart]:
    """Returns a result without a call as parts of a user message: an explanation, then its content."""
    parts: list[Any] = [rq.Text(ORPHAN.format(result.name or result.call or "unknown"))]
    return parts + [rq.Text(part.json, cache=part.cache) if type(part) is rq.Json else part for part in result.content]
