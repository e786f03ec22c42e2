"""Stop sequences for a provider that has no word for them: the answer is cut where one begins, and the turn ends there.

Sequences may come in pieces: just as much text is held back as could still become one. Leans on the grammar for what
must be closed. Whoever reads the answer looks at `over` and lets the provider go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock import events as ev
from penstock._grammar import Grammar
from penstock._transforms.think_tags import overlap

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from penstock.events import Extra

STOP_SEQUENCE = "stop_sequence"
_CHARACTERS = 4  # that make a token, roughly


class StopAtSequences:
    """A stage. `over` once a sequence was met. `asked` gives the tokens of the prompt, where nobody will tell them.

    `fields`: by protocol, the field of an answer that names the stop sequence.
    """

    def __init__(
        self, sequences: Iterable[str], asked: Callable[[], int] | None = None, fields: Mapping[str, str] | None = None
    ) -> None:
        self.over = False
        self.sequences: tuple[str, ...] = tuple(dict.fromkeys(one for one in sequences if one))
        self.asked: Callable[[], int] | None = asked
        self.fields: Mapping[str, str] = fields or {}
        self._grammar = Grammar()
        self._held: dict[int, list[ev.TextDelta]] = {}  # texts of the first choice that are open
        self._usage = ev.Usage()
        self._characters = 0
        self._called = False

    def feed(self, events: Sequence[Any], /) -> list[Any]:
        out: list[Any] = []
        for place, event in enumerate(events):
            if self.over:
                break
            kind = type(event)  # pyright: ignore[reportUnknownVariableType]
            if kind is ev.TextDelta and event.index in self._held:
                met = self._text(event, out)
                if met:
                    self._end(met, events[place + 1 :], out)
            else:
                self._other(kind, event, out)
        return out

    def finish(self) -> list[Any]:
        return []

    def _append_event(self, event: Any, out: list[Any]) -> None:
        self._grammar.judge(event)
        out.append(event)

    def _other(self, kind: Any, event: Any, out: list[Any]) -> None:
        if kind is ev.TextStart and not event.choice:
            self._held[event.index] = []
        elif kind is ev.TextEnd:
            for held in self._held.pop(event.index, ()):
                self._emit_text(held, out)
        elif kind is ev.Usage and not event.step:
            self._usage = event
        elif kind is ev.CallEnd:
            self._called = self._called or event.by == "client"
        self._append_event(event, out)

    def _emit_text(self, delta: ev.TextDelta, out: list[Any]) -> None:
        self._characters += len(delta.text)
        self._append_event(delta, out)

    def _text(self, delta: ev.TextDelta, out: list[Any]) -> str:
        """Let out what is certain; gives the sequence that was met."""
        held = self._held[delta.index]
        held.append(delta)
        text = "".join([one.text for one in held]) if len(held) > 1 else delta.text
        # The one that is whole first, as if letters came one by one; of two that end together, the longer.
        ends = [(text.find(one) + len(one), text.find(one), one) for one in self.sequences if one in text]
        _, sure, met = min(ends) if ends else (0, len(text) - overlap(text, *self.sequences), "")
        while held and len(held[0].text) <= sure:
            sure -= len(held[0].text)
            self._emit_text(held.pop(0), out)
        if held and sure:
            first = held[0]
            self._emit_text(ev.TextDelta(first.index, first.text[:sure]), out)
            held[0] = ev.TextDelta(first.index, first.text[sure:], first.logprobs)
        return met

    def _end(self, met: str, rest: Sequence[Any], out: list[Any]) -> None:
        """The turn is over: what is open is closed, tokens are told as far as they are known."""
        self.over = True
        out += self._grammar.close()
        told = [event for event in rest if type(event) is ev.Usage and not event.step]
        out.append(told[-1] if told else self._estimate())
        extra: Extra = {protocol: {field: met} for protocol, field in self.fields.items()}
        out.append(ev.Finish("calls" if self._called else "stop", STOP_SEQUENCE, (), extra or None))

    def _estimate(self) -> ev.Usage:
        known = self._usage
        asked = known.input if known.input is not None or self.asked is None else self.asked()
        said = max(known.output or 0, -(-self._characters // _CHARACTERS))
        return ev.Usage(asked, said, known.cached, known.written, exact=False)
