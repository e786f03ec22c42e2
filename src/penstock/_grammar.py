"""The grammar of events as tables, and the Guard stage that holds a stream to it.

Decoders keep the grammar by construction, because they write through `penstock._ledger`; the Guard checks it at run
time. A violation is a bug in penstock: the consumer sees a `Fault`, or an exception with `strict=True`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock import events as ev
from penstock._text_runs import TextRun, are_deltas_of
from penstock.errors import GrammarError

if TYPE_CHECKING:
    from collections.abc import Sequence

# start → (delta, the events that close it)
PARTS: dict[type[ev.Event], tuple[type[ev.Event], tuple[type[ev.Event], ...]]] = {
    ev.TextStart: (ev.TextDelta, (ev.TextEnd,)),
    ev.RefusalStart: (ev.RefusalDelta, (ev.RefusalEnd,)),
    ev.ReasoningStart: (ev.ReasoningDelta, (ev.ReasoningEnd,)),
    ev.CallStart: (ev.CallDelta, (ev.CallEnd, ev.CallCut)),
    ev.FileStart: (ev.FileDelta, (ev.FileEnd,)),
}
ATOMS = frozenset({ev.Result, ev.Ask, ev.Source, ev.Opaque})  # parts of a single event
FREE = frozenset({ev.Step, ev.Usage, ev.Data, ev.Unknown})  # allowed anywhere inside a turn
TERMINALS = frozenset({ev.Finish, ev.Fault})

_START_OF_DELTA = {delta: start for start, (delta, _) in PARTS.items()}
_START_OF_END = {end: start for start, (_, ends) in PARTS.items() for end in ends}


class Grammar:
    """The state of a stream by the grammar. `judge` accepts an event, or returns what is wrong with it."""

    def __init__(self) -> None:
        self.inside = False
        self.failed = False  # the last turn that ended was broken off by a fault
        self.turns = 0  # that have ended
        self.open: dict[int, type[ev.Event]] = {}
        self._next = 0
        self._broken = False  # a part was broken off: only a fault may end the turn

    def judge(self, event: Any) -> str:
        """Returns an empty string if the grammar allows the event here; otherwise the reason, and nothing changes."""
        kind: type[ev.Event] = event.kind if type(event) is TextRun else type(event)  # pyright: ignore[reportUnknownVariableType]
        if kind is ev.Start:
            return self._start()
        if not self.inside:
            return "an event outside a turn"
        if kind in _START_OF_DELTA:
            return "" if self.open.get(event.index) is _START_OF_DELTA[kind] else "a delta of a part that is not open"
        if kind in _START_OF_END:
            return self._end(event, _START_OF_END[kind])
        if kind in TERMINALS:
            return self._terminal(kind)
        return "" if kind in FREE else self._check_part_start(kind, event)

    def close(self, *, broken: bool = False) -> list[Any]:
        """Returns the events that close every open part. `broken`: a fault follows."""
        ends = [_closing(index, start, broken=broken) for index, start in self.open.items()]
        self.open.clear()
        return ends

    def _terminal(self, kind: type[ev.Event]) -> str:
        if self.open:
            return "an open part"
        if self._broken and kind is not ev.Fault:
            return "a broken part without a fault"
        self.inside, self.failed = False, kind is ev.Fault
        self.turns += 1
        return ""

    def _start(self) -> str:
        if self.inside:
            return "a turn inside a turn"
        self.inside, self.failed, self._next, self._broken = True, False, 0, False
        return ""

    def _end(self, event: Any, wanted: type[ev.Event]) -> str:
        if self.open.get(event.index) is not wanted:
            return "the end of a part that is not open"
        del self.open[event.index]
        self._broken = self._broken or event.broken
        return ""

    def _check_part_start(self, kind: type[ev.Event], event: Any) -> str:
        if kind not in PARTS and kind not in ATOMS:
            return "no event"
        if event.index != self._next:
            return f"part {event.index} where {self._next} is next"
        self._next += 1
        if kind in PARTS:
            self.open[event.index] = kind
        return ""


class Guard:
    """Passes a valid stream through unchanged (the same lists) and ends an invalid one."""

    def __init__(self, *, strict: bool = False) -> None:
        self._strict = strict
        self._grammar = Grammar()
        self._dead = False
        # the part and delta type that were judged last: further deltas of it need no check
        self._delta: type[ev.Event] | None = None
        self._index = -1

    def feed(self, events: Sequence[Any], /) -> list[Any]:
        if self._dead:
            return []
        if not are_deltas_of(events, self._delta, self._index):
            return self._examine(events)
        return events if type(events) is list else list(events)  # pyright: ignore[reportUnknownVariableType]

    @property
    def failed(self) -> bool:
        """True if the stream ended in a fault and no other turn has begun since."""
        return self._dead or self._grammar.failed

    @property
    def turns(self) -> int:
        """How many turns have ended."""
        return self._grammar.turns + self._dead

    def _examine(self, events: Sequence[Any]) -> list[Any]:
        """Judges a batch that is not only deltas of the current part."""
        delta, index = self._delta, self._index
        for place, event in enumerate(events):
            kind: type[ev.Event] = event.kind if type(event) is TextRun else type(event)  # pyright: ignore[reportUnknownVariableType]
            if kind is delta and event.index == index:
                continue
            wrong = self._grammar.judge(event)
            if wrong:
                return self._break(list(events[:place]), f"{wrong} at {kind.__name__}")
            delta, index = (kind, event.index) if kind in _START_OF_DELTA else (None, -1)
        self._delta, self._index = delta, index
        return events if type(events) is list else list(events)  # pyright: ignore[reportUnknownVariableType]

    def finish(self) -> list[Any]:
        if self._grammar.inside and not self._dead:
            return self._break([], "the stream ended inside a turn")
        return []

    def _break(self, kept: list[Any], why: str) -> list[Any]:
        if self._strict:
            raise GrammarError(why)
        self._dead = True
        fault = ev.Fault("grammar", f"internal error, please report it: {why}")
        return [*kept, *([] if self._grammar.inside else [ev.Start()]), *self._grammar.close(broken=True), fault]


def _closing(index: int, start: type[ev.Event], *, broken: bool) -> Any:
    if start is ev.CallStart:
        return ev.CallCut(index, "", "", "", broken=broken)
    end: Any = PARTS[start][1][0]
    return end(index, broken=broken)
