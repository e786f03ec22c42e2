"""Events ↔ whole turns. `fold` and `unfold` are each other's inverse but for where deltas were cut.

Leans on the grammar: it may assume lawful events.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from msgspec.structs import replace

from penstock import events as ev
from penstock import request as rq

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping


class StreamUsage(ev.Usage, frozen=True):
    """The usage of a whole stream, and the turn that it belongs to; None if the stream held none, or several.

    The usage of a turn with several steps is a sum, which says nothing about the size of one prompt. The turn knows.
    """

    turn: rq.Turn | None = None


class Fold:
    """Collects the events of a stream into turns."""

    def __init__(self) -> None:
        self.turns: list[rq.Turn] = []
        self._pieces: dict[int, list[str]] = {}
        self._unended: set[int] = set()  # parts of the last turn that have no end of their own, or none yet

    def feed(self, events: Iterable[Any]) -> None:
        for event in events:
            self.table[type(event)](self, event)

    def whole_turn(self) -> rq.Turn:
        """The last turn without the parts that did not become whole, wherever it broke off. Half a text stays."""
        parts = [
            part for index, part in enumerate(self._turn.parts) if type(part) is rq.Text or index not in self._unended
        ]
        return replace(self._turn, parts=parts)

    @property
    def _turn(self) -> rq.Turn:
        return self.turns[-1]

    def _start(self, event: ev.Start) -> None:
        self.turns.append(rq.Turn(event.id, event.model, event.created, [], extra=event.extra))
        self._pieces = {}
        self._unended = set()

    def _open(self, index: int, part: rq.AnyPart) -> None:
        self._pieces[index] = []
        self._unended.add(index)
        self._turn.parts.append(part)

    def _text(self, event: ev.TextStart) -> None:
        self._open(event.index, rq.Text(choice=event.choice, item=event.item, extra=event.extra))

    def _refusal(self, event: ev.RefusalStart) -> None:
        self._open(event.index, rq.Text(refusal=True, choice=event.choice, item=event.item, extra=event.extra))

    def _reasoning(self, event: ev.ReasoningStart) -> None:
        self._open(event.index, rq.Reasoning("", event.form, event.choice, event.item, event.extra))

    def _call(self, event: ev.CallStart) -> None:
        call = rq.Call(event.id, event.name, "", event.by, event.form, False, event.choice, event.item, event.extra)  # noqa: FBT003
        self._open(event.index, call)

    def _file(self, event: ev.FileStart) -> None:
        self._open(event.index, rq.File(event.media, event.url, "", event.choice, event.item, extra=event.extra))

    def _append_text(self, event: ev.TextDelta | ev.RefusalDelta | ev.ReasoningDelta) -> None:
        self._pieces[event.index].append(event.text)
        if type(event) is ev.TextDelta and event.logprobs is not None:
            part: Any = self._turn.parts[event.index]
            part.logprobs.append(event.logprobs)

    def _data_delta(self, event: ev.FileDelta) -> None:
        self._pieces[event.index].append(event.data)

    def _end(self, event: Any) -> None:
        index: int = event.index
        part: Any = self._turn.parts[index]
        setattr(part, "data" if type(event) is ev.FileEnd else "text", "".join(self._pieces.pop(index)))
        part.extra = event.extra or part.extra
        self._note_broken(event)

    def _note_broken(self, event: Any) -> None:
        if event.broken:
            self._turn.broken.append(event.index)
        else:
            self._unended.discard(event.index)

    def _call_end(self, event: ev.CallEnd | ev.CallCut) -> None:
        part: Any = self._turn.parts[event.index]
        part.json, part.cut, part.extra = event.json, type(event) is ev.CallCut, event.extra or part.extra
        self._note_broken(event)

    def _result(self, event: ev.Result) -> None:
        content: list[rq.ResultPart] = [rq.Json(event.json)]
        self._turn.parts.append(
            rq.Result(event.call, event.name, content, event.failed, event.partial, "provider", extra=event.extra)
        )

    def _ask(self, event: ev.Ask) -> None:
        self._turn.parts.append(rq.Ask(event.call, event.id, extra=event.extra))

    def _source(self, event: ev.Source) -> None:
        self._turn.parts.append(
            rq.Source(
                event.url,
                event.title,
                event.of,
                event.span,
                event.quote,
                event.id,
                event.media,
                event.filename,
                event.extra,
            )
        )

    def _opaque(self, event: ev.Opaque) -> None:
        self._turn.parts.append(rq.Opaque(event.protocol, event.kind, event.data))

    def _usage(self, event: ev.Usage) -> None:
        if event.step:
            self._turn.steps = [*(u for u in self._turn.steps if u.step != event.step), event]
        else:
            self._turn.usage = event

    def _finish(self, event: ev.Finish) -> None:
        self._turn.finish = event
        if self._turn.usage is None and self._turn.steps:
            self._turn.usage = sum_usage(self._turn.steps)

    def _fault(self, event: ev.Fault) -> None:
        self._turn.fault = event

    def _data(self, event: ev.Data) -> None:
        self._turn.data.append(event)

    def _unknown(self, event: ev.Unknown) -> None:
        self._turn.unknown.append(event)

    def _nothing(self, _: Any) -> None:
        """Fragments of a call, whose end repeats them; framing."""

    table: ClassVar[Mapping[type, Callable[[Any, Any], None]]] = {
        ev.Start: _start, ev.Step: _nothing,
        ev.TextStart: _text, ev.TextDelta: _append_text, ev.TextEnd: _end,
        ev.RefusalStart: _refusal, ev.RefusalDelta: _append_text, ev.RefusalEnd: _end,
        ev.ReasoningStart: _reasoning, ev.ReasoningDelta: _append_text, ev.ReasoningEnd: _end,
        ev.CallStart: _call, ev.CallDelta: _nothing, ev.CallEnd: _call_end, ev.CallCut: _call_end,
        ev.FileStart: _file, ev.FileDelta: _data_delta, ev.FileEnd: _end,
        ev.Result: _result, ev.Ask: _ask, ev.Source: _source, ev.Opaque: _opaque,
        ev.Data: _data, ev.Usage: _usage, ev.Finish: _finish, ev.Fault: _fault, ev.Unknown: _unknown,
    }  # fmt: skip


def fold(events: Iterable[Any]) -> list[rq.Turn]:
    """All turns of a stream; there is normally one."""
    book = Fold()
    book.feed(events)
    return book.turns


def sum_usage(steps: Iterable[ev.Usage]) -> ev.Usage:
    """The usage of a whole turn from that of its steps."""

    def add(name: str) -> int | None:
        known = [value for step in steps if (value := getattr(step, name)) is not None]
        return sum(known) if known else None

    steps = list(steps)
    return ev.Usage(add("input"), add("output"), add("cached"), add("written"), add("reasoning"))


def unfold(turn: rq.Turn) -> Iterator[ev.AnyEvent]:
    """The events of a whole turn, each part in one delta."""
    yield ev.Start(turn.id, turn.model, turn.created, turn.extra)
    broken = set(turn.broken)
    for index, part in enumerate(turn.parts):
        *before, last = _WAYS[type(part)](index, part)
        yield from before
        yield replace(last, broken=True) if index in broken else last
    yield from turn.data
    yield from turn.unknown
    yield from turn.steps
    if turn.usage is not None:
        yield turn.usage
    yield turn.fault or turn.finish or ev.Fault("truncated", "the turn has no end")


def _text(index: int, part: rq.Text) -> Iterator[ev.AnyEvent]:
    if part.refusal:
        yield ev.RefusalStart(index, part.item, part.choice)
        if part.text:
            yield ev.RefusalDelta(index, part.text)
        yield ev.RefusalEnd(index, part.extra)
        return
    yield ev.TextStart(index, part.item, part.choice)
    if part.text:
        yield ev.TextDelta(index, part.text)
    yield ev.TextEnd(index, part.extra)


def _reasoning(index: int, part: rq.Reasoning) -> Iterator[ev.AnyEvent]:
    yield ev.ReasoningStart(index, part.item, part.choice, part.form)
    if part.text:
        yield ev.ReasoningDelta(index, part.text)
    yield ev.ReasoningEnd(index, part.extra)


def _call(index: int, part: rq.Call) -> Iterator[ev.AnyEvent]:
    yield ev.CallStart(index, part.id, part.name, part.by, part.form, part.item, part.choice, part.extra)
    if part.json:
        yield ev.CallDelta(index, part.json)
    end = ev.CallCut if part.cut else ev.CallEnd
    yield end(index, part.id, part.name, part.json, part.by, part.form, part.extra)


def _file(index: int, part: rq.File) -> Iterator[ev.AnyEvent]:
    yield ev.FileStart(index, part.media, part.url, part.item, part.choice)
    if part.data:
        yield ev.FileDelta(index, part.data)
    yield ev.FileEnd(index, part.extra)


def _result(index: int, part: rq.Result) -> Iterator[ev.AnyEvent]:
    yield ev.Result(index, part.call, part.name, part.json, part.failed, part.partial, part.extra)


def _ask(index: int, part: rq.Ask) -> Iterator[ev.AnyEvent]:
    yield ev.Ask(index, part.call, part.id, part.extra)


def _source(index: int, part: rq.Source) -> Iterator[ev.AnyEvent]:
    yield ev.Source(
        index, part.url, part.title, part.of, part.span, part.quote, part.id, part.media, part.filename, part.extra
    )


def _opaque(index: int, part: rq.Opaque) -> Iterator[ev.AnyEvent]:
    yield ev.Opaque(index, part.protocol, part.kind, part.data)


_WAYS: dict[type, Callable[[int, Any], Iterator[ev.AnyEvent]]] = {
    rq.Text: _text, rq.Reasoning: _reasoning, rq.Call: _call, rq.File: _file,
    rq.Result: _result, rq.Ask: _ask, rq.Source: _source, rq.Opaque: _opaque,
}  # fmt: skip
