"""Events ↔ complete turns. `unfold` is the inverse of `fold`, but writes each part with one delta.

The events must follow the grammar.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from msgspec.structs import replace

from penstock import events as ev
from penstock import request as rq
from penstock.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping


class StreamUsage(ev.Usage, frozen=True):
    """The usage of a whole stream, and the turn that it belongs to; None if the stream held none, or several.

    The usage of a turn with several steps is a sum, not the size of one prompt; the turn has the usage of each step.
    """

    turn: rq.Turn | None = None


class Fold:
    """Collects the events of a stream into turns."""

    def __init__(self) -> None:
        self.turns: list[rq.Turn] = []
        self._pieces: dict[int, list[str]] = {}
        self._unended: set[int] = set()  # parts of the last turn that the provider has not ended

    def feed(self, events: Iterable[Any]) -> None:
        for event in events:
            self.table[type(event)](self, event)

    def whole_turn(self) -> rq.Turn:
        """Returns the last turn without incomplete parts, wherever it was cut off. An incomplete text stays."""
        parts = [
            part
            for index, part in enumerate(self._current_turn.parts)
            if type(part) is rq.Text or index not in self._unended
        ]
        return replace(self._current_turn, parts=parts)

    def turn_so_far(self) -> rq.Turn:
        """Returns the last turn with the texts that still grow. A growing call has no input yet."""
        parts = list(self._current_turn.parts)
        for index, pieces in self._pieces.items():
            part = parts[index]
            if pieces and isinstance(part, rq.Text | rq.Reasoning):
                parts[index] = replace(part, text="".join(pieces))
        return replace(self._current_turn, parts=parts)

    @property
    def _current_turn(self) -> rq.Turn:
        return self.turns[-1]

    def _start(self, event: ev.Start) -> None:
        self.turns.append(rq.Turn(event.id, event.model, event.created, [], extra=event.extra))
        self._pieces = {}
        self._unended = set()

    def _open_part(self, event: Any) -> None:
        self._pieces[event.index] = []
        self._unended.add(event.index)
        others = {"refusal": True} if type(event) is ev.RefusalStart else {}
        self._current_turn.parts.append(_copy_fields(_PART_OF_EVENT[type(event)], event, **others))

    def _append_text(self, event: ev.TextDelta | ev.RefusalDelta | ev.ReasoningDelta) -> None:
        self._pieces[event.index].append(event.text)
        if type(event) is ev.TextDelta and event.logprobs is not None:
            part: Any = self._current_turn.parts[event.index]
            part.logprobs.append(event.logprobs)

    def _append_data(self, event: ev.FileDelta) -> None:
        self._pieces[event.index].append(event.data)

    def _end_part(self, event: Any) -> None:
        index: int = event.index
        part: Any = self._current_turn.parts[index]
        if type(part) is rq.Call:
            part.json, part.cut = event.json, type(event) is ev.CallCut
        else:
            setattr(part, "data" if type(event) is ev.FileEnd else "text", "".join(self._pieces.pop(index)))
        part.extra = event.extra or part.extra
        if event.broken:
            self._current_turn.broken.append(index)
        else:
            self._unended.discard(index)

    def _add_part(self, event: Any) -> None:
        self._current_turn.parts.append(_copy_fields(_PART_OF_EVENT[type(event)], event))

    def _add_result(self, event: ev.Result) -> None:
        self._current_turn.parts.append(_copy_fields(rq.Result, event, content=[rq.Json(event.json)], by="provider"))

    def _usage(self, event: ev.Usage) -> None:
        if event.step:
            self._current_turn.steps = [*(u for u in self._current_turn.steps if u.step != event.step), event]
        else:
            self._current_turn.usage = event

    def _finish(self, event: ev.Finish) -> None:
        turn = self._current_turn
        turn.finish = event
        if turn.usage is None and turn.steps:
            turn.usage = sum_usage(turn.steps)
        elif turn.usage is not None and any(step.step > 1 for step in turn.steps):
            turn.usage = replace(turn.usage, summed=True)

    def _fault(self, event: ev.Fault) -> None:
        self._current_turn.fault = event

    def _data(self, event: ev.Data) -> None:
        self._current_turn.data.append(event)

    def _unknown(self, event: ev.Unknown) -> None:
        self._current_turn.unknown.append(event)

    def _ignore(self, _: Any) -> None:
        """Ignores steps, and fragments of a call's input: the end of the call has all of it."""

    table: ClassVar[Mapping[type, Callable[[Any, Any], None]]] = {
        ev.Start: _start, ev.Data: _data, ev.Usage: _usage, ev.Finish: _finish, ev.Fault: _fault, ev.Unknown: _unknown,
        **dict.fromkeys((ev.Step, ev.CallDelta), _ignore),
        **dict.fromkeys((ev.TextStart, ev.RefusalStart, ev.ReasoningStart, ev.CallStart, ev.FileStart), _open_part),
        **dict.fromkeys((ev.TextDelta, ev.RefusalDelta, ev.ReasoningDelta), _append_text),
        **dict.fromkeys((ev.TextEnd, ev.RefusalEnd, ev.ReasoningEnd, ev.CallEnd, ev.CallCut, ev.FileEnd), _end_part),
        **dict.fromkeys((ev.Ask, ev.Source, ev.Opaque), _add_part),
        ev.FileDelta: _append_data, ev.Result: _add_result,
    }  # fmt: skip


def fold(events: Iterable[Any]) -> rq.Turn:
    """Returns the turn of a stream.

    Raises an `InputError` if there are no events, or if the stream has several choices: `fold_all` returns them all.

    Examples:
        >>> from penstock import events as ev
        >>> turn = fold(
        ...     [ev.Start("id", "m"), ev.TextStart(0), ev.TextDelta(0, "3.2 m"), ev.TextEnd(0), ev.Finish("stop")]
        ... )
        >>> turn.text, turn.finish.reason
        ('3.2 m', 'stop')
    """
    turns = fold_all(events)
    if len(turns) != 1:
        found = f"{len(turns)} choices: fold_all returns a list of them" if turns else "no events"
        raise InputError(f"expected the events of one turn, found {found}")
    return turns[0]


def fold_all(events: Iterable[Any]) -> list[rq.Turn]:
    """Returns all turns of a stream: one for each choice."""
    folded = Fold()
    folded.feed(events)
    return folded.turns


def sum_usage(steps: Iterable[ev.Usage]) -> ev.Usage:
    """Returns the usage of a turn: the sum over its steps."""

    def add(name: str) -> int | None:
        known = [value for step in steps if (value := getattr(step, name)) is not None]
        return sum(known) if known else None

    steps = list(steps)
    counts = (add("input"), add("output"), add("cached"), add("written"), add("reasoning"))
    return ev.Usage(*counts, summed=len(steps) > 1)


def unfold(turn: rq.Turn) -> Iterator[ev.AnyEvent]:
    """Returns the events of a complete turn, each part with one delta.

    Examples:
        >>> from penstock.events import Finish
        >>> from penstock.request import Text, Turn
        >>> turn = Turn(parts=[Text(text="Hi")], finish=Finish("stop"))
        >>> [type(event).__name__ for event in unfold(turn)]
        ['Start', 'TextStart', 'TextDelta', 'TextEnd', 'Finish']
    """
    yield ev.Start(turn.id, turn.model, turn.created, turn.extra)
    broken = set(turn.broken)
    for index, part in enumerate(turn.parts):
        *before, last = _unfold_part(index, part)
        yield from before
        yield replace(last, broken=True) if index in broken else last
    yield from turn.data
    yield from turn.unknown
    yield from turn.steps
    if turn.usage is not None:
        yield turn.usage
    yield turn.fault or turn.finish or ev.Fault("truncated", "the turn has no end")


def _unfold_part(index: int, part: Any) -> list[Any]:
    if type(part) in _EVENT_OF_PART:
        return [_copy_fields(_EVENT_OF_PART[type(part)], part, index=index)]
    start, delta, end, field = _EVENTS_OF_PART[type(part)]
    if field == "text" and getattr(part, "refusal", False):
        start, delta, end = ev.RefusalStart, ev.RefusalDelta, ev.RefusalEnd
    content = getattr(part, field)
    first = _copy_fields(start, part, index=index)
    if type(part) is not rq.Call:
        first = replace(first, extra=None)  # the end has it
    elif part.cut:
        end = ev.CallCut
    return [first, *([delta(index, content)] if content else ()), _copy_fields(end, part, index=index)]


def _copy_fields(kind: Any, source: Any, **others: Any) -> Any:
    """Returns a new `kind` with the fields that the source has, too."""
    return kind(**{name: getattr(source, name) for name in kind.__struct_fields__ if hasattr(source, name)}, **others)


_EVENTS_OF_PART: dict[type, tuple[Any, ...]] = {
    rq.Text: (ev.TextStart, ev.TextDelta, ev.TextEnd, "text"),
    rq.Reasoning: (ev.ReasoningStart, ev.ReasoningDelta, ev.ReasoningEnd, "text"),
    rq.Call: (ev.CallStart, ev.CallDelta, ev.CallEnd, "json"),
    rq.File: (ev.FileStart, ev.FileDelta, ev.FileEnd, "data"),
}
_EVENT_OF_PART: dict[type, Any] = {rq.Result: ev.Result, rq.Ask: ev.Ask, rq.Source: ev.Source, rq.Opaque: ev.Opaque}
_PART_OF_EVENT: dict[type, type] = {
    ev.RefusalStart: rq.Text,
    **{events[0]: part for part, events in _EVENTS_OF_PART.items()},
    **{event: part for part, event in _EVENT_OF_PART.items()},
}
