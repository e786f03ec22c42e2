"""Serializes interleaved parts: one part is open at a time, for consumers that cannot show parallel parts.

The part that opened first streams on; what belongs to others waits and follows in order of opening when it closes.
A citation of the open part passes at once. Numbers are left as they are.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from typing import TYPE_CHECKING, Any

from penstock import events as ev
from penstock._grammar import ATOMS, PARTS, TERMINALS
from penstock._text_runs import TextRun, are_deltas_of

if TYPE_CHECKING:
    from collections.abc import Sequence

_ENDS = frozenset(end for _, ends in PARTS.values() for end in ends)


class SerializeParts:
    """Holds back the events of every part but the current one."""

    def __init__(self) -> None:
        self._current: int | None = None
        self._delta: type | None = None
        self._held: OrderedDict[int, list[Any]] = OrderedDict()
        self._releasing = False

    def feed(self, events: Sequence[Any], /) -> list[Any]:
        if not self._held and are_deltas_of(events, self._delta, self._current):
            return events  # type: ignore[return-value]  # pyright: ignore[reportReturnType] — a list: stages give lists
        out: list[Any] = []
        for event in events:
            kind: type[ev.Event] = event.kind if type(event) is TextRun else type(event)  # pyright: ignore[reportUnknownVariableType]
            if kind is self._delta and event.index == self._current:
                out.append(event)
            else:
                self._route_event(kind, event, out)
        return out

    def finish(self) -> list[Any]:
        return []

    def _route_event(self, kind: type[ev.Event], event: Any, out: list[Any]) -> None:
        if kind in PARTS and self._current is None:
            self._current, self._delta = event.index, PARTS[kind][0]
            out.append(event)
        elif kind in TERMINALS or self._current is None:
            out.append(event)
        elif kind in PARTS or kind in ATOMS:
            self._wait(kind, event, out)
        elif getattr(event, "index", self._current) == self._current:
            out.append(event)
            if kind in _ENDS:
                self._release(out)
        else:
            self._held[event.index].append(event)

    def _wait(self, kind: type[ev.Event], event: Any, out: list[Any]) -> None:
        if kind is ev.Source and event.of in (None, self._current):
            out.append(event)
        elif kind is ev.Source and event.of in self._held:
            self._held[event.of].append(event)
        else:
            self._held[event.index] = [event]

    def _release(self, out: list[Any]) -> None:
        """Let the waiting parts follow: whole ones at once, the first unfinished one becomes current."""
        self._current = self._delta = None
        if self._releasing:
            return
        self._releasing = True
        while self._held and self._current is None:
            for event in self._held.popitem(last=False)[1]:
                kind: Any = event.kind if type(event) is TextRun else type(event)  # pyright: ignore[reportUnknownVariableType]
                self._route_event(kind, event, out)
        self._releasing = False


TEXT, THOUGHT = "text", "thought"
_STARTS: dict[type[ev.Event], str] = {ev.TextStart: TEXT, ev.RefusalStart: TEXT, ev.ReasoningStart: THOUGHT}
_TEXT_ENDS: dict[type[ev.Event], str] = {ev.TextEnd: TEXT, ev.RefusalEnd: TEXT, ev.ReasoningEnd: THOUGHT}
_FRAME = frozenset({*_STARTS, *_TEXT_ENDS})


class SerializeTexts:
    """Holds back the events of parts whose voice is taken."""

    def __init__(self) -> None:
        self._speaking: dict[str, int] = {}  # voice → the part that has it
        self._held: dict[int, list[Any]] = {}  # the events of parts that wait
        self._next_up: dict[str, deque[int]] = {TEXT: deque(), THOUGHT: deque()}  # those parts, as they opened

    @property
    def idle(self) -> bool:
        """Nobody waits: more of what is being said passes untouched."""
        return not self._held

    def feed(self, events: Sequence[Any], /) -> list[Any]:
        if not self._held and _FRAME.isdisjoint(map(type, events)):
            return events if type(events) is list else list(events)  # pyright: ignore[reportUnknownVariableType]
        out: list[Any] = []
        for event in events:
            self._route_event(event, out)
        return out

    def finish(self) -> list[Any]:
        return []

    def _route_event(self, event: Any, out: list[Any]) -> None:
        kind: type[ev.Event] = type(event)  # pyright: ignore[reportUnknownVariableType]
        index = getattr(event, "index", -1)
        if kind in _STARTS and self._speaking.setdefault(_STARTS[kind], index) != index:
            self._held[index] = [event]
            self._next_up[_STARTS[kind]].append(index)
        elif index in self._held and kind is not ev.Source:
            self._held[index].append(event)
        else:
            out.append(event)
            if kind in _TEXT_ENDS:
                self._next(_TEXT_ENDS[kind], out)
            elif kind is ev.Start:
                self._speaking.clear()

    def _next(self, voice: str, out: list[Any]) -> None:
        """Give the voice to whoever waits for it longest; one that has ended meanwhile is said at once."""
        del self._speaking[voice]
        while self._next_up[voice]:
            index = self._next_up[voice].popleft()
            held = self._held.pop(index, None)
            if held is None:  # opened twice
                continue
            out += held
            if type(held[-1]) not in _TEXT_ENDS:
                self._speaking[voice] = index
                return
