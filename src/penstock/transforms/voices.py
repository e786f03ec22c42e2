"""One text at a time, and one line of thought: for a reader that joins all text, two at once would be garbled.

A text part (or refusal, or reasoning part) that opens while another of its voice is being said waits and follows it.
Everything else passes at once: text does not wait for calls, nor for thought. Numbers are left as they are.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

from penstock import events as ev

if TYPE_CHECKING:
    from collections.abc import Sequence

TEXT, THOUGHT = "text", "thought"
_STARTS: dict[type[ev.Event], str] = {ev.TextStart: TEXT, ev.RefusalStart: TEXT, ev.ReasoningStart: THOUGHT}
_ENDS: dict[type[ev.Event], str] = {ev.TextEnd: TEXT, ev.RefusalEnd: TEXT, ev.ReasoningEnd: THOUGHT}
_FRAME = frozenset({*_STARTS, *_ENDS})


class Voices:
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
            self._place(event, out)
        return out

    def finish(self) -> list[Any]:
        return []

    def _place(self, event: Any, out: list[Any]) -> None:
        kind: type[ev.Event] = type(event)  # pyright: ignore[reportUnknownVariableType]
        index = getattr(event, "index", -1)
        if kind in _STARTS and self._speaking.setdefault(_STARTS[kind], index) != index:
            self._held[index] = [event]
            self._next_up[_STARTS[kind]].append(index)
        elif index in self._held and kind is not ev.Source:
            self._held[index].append(event)
        else:
            out.append(event)
            if kind in _ENDS:
                self._next(_ENDS[kind], out)
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
            if type(held[-1]) not in _ENDS:
                self._speaking[voice] = index
                return
