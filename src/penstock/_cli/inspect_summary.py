"""The summary of a stream that `penstock inspect` prints: first an object (`--json` prints it), then labelled lines.

The events are summed up as they come, and what is kept is bounded: the beginning of long texts, the first turns.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec
from msgspec.structs import replace

from penstock import events as ev
from penstock._cli.one_line_summary import quote_text
from penstock._cli.terminal import StyledLine, truncate
from penstock._fold import sum_usage
from penstock._printable_text import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from penstock._diagnostics import Diagnostic

Object = dict[str, Any]
MAX_TEXT = 1 << 20  # characters of a turn's text, reasoning, refusal, and of the input of one call
MAX_ITEMS = 1_000  # calls, and sources, of one turn
MAX_TURNS = 200
_TEXTS: tuple[str, ...] = ("text", "reasoning", "refusal")


class PartText:
    """The text of one part, up to a limit. `kind`: text, reasoning or refusal; empty if it is not counted."""

    __slots__ = ("kind", "pieces")

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.pieces: list[str] = []


class TurnSummary:
    """Sums up the events of one turn."""

    def __init__(self, event: ev.Start) -> None:
        self._id, self._model = event.id, event.model
        self._kinds: Counter[str] = Counter()
        self._texts: dict[int, PartText] = {}
        self._lengths = dict.fromkeys(_TEXTS, 0)
        self._calls: dict[int, Object] = {}
        self._sources: list[str] = []
        self._usage: ev.Usage | None = None
        self._steps: dict[int, ev.Usage] = {}
        self._ends: dict[str, Any] = {}
        self.unknown = 0

    def feed(self, event: Any) -> None:
        handle = self._table.get(event.__class__)
        if handle is not None:
            handle(self, event)

    def result(self) -> Object:
        """Returns what is known; empty values are left out. `lengths`: of texts that were cut."""
        texts = {kind: self._join(kind) for kind in _TEXTS}
        known: Object = {
            "id": self._id,
            "model": self._model,
            "parts": dict(self._kinds),
            **texts,
            "calls": list(self._calls.values()),
            "sources": self._sources,
            "lengths": {kind: size for kind, size in self._lengths.items() if size > len(texts[kind])},
        }
        ends = {"usage": self._usage, "finish": None, "fault": None, **self._ends}
        for name, value in ends.items():
            fields: Object = msgspec.to_builtins(value) if value is not None else {}
            known[name] = {key: item for key, item in fields.items() if key not in {"type", "extra"}}
        return {key: value for key, value in known.items() if value}

    def _join(self, kind: str) -> str:
        return "".join(piece for part in self._texts.values() if part.kind == kind for piece in part.pieces)

    def _open_text(self, event: Any, kind: str) -> None:
        self._kinds[kind] += 1
        if len(self._texts) < MAX_ITEMS:
            self._texts[event.index] = PartText("" if event.choice else kind)

    def _text_start(self, event: ev.TextStart) -> None:
        self._open_text(event, "text")

    def _refusal_start(self, event: ev.RefusalStart) -> None:
        self._open_text(event, "refusal")

    def _reasoning_start(self, event: ev.ReasoningStart) -> None:
        self._open_text(event, "reasoning")

    def _add_text(self, event: ev.TextDelta | ev.RefusalDelta | ev.ReasoningDelta) -> None:
        part = self._texts.get(event.index)
        if part is None or not part.kind:
            return
        room = MAX_TEXT - self._lengths[part.kind]
        if room > 0:
            part.pieces.append(event.text[:room])
        self._lengths[part.kind] += len(event.text)

    def _call_start(self, event: ev.CallStart) -> None:
        self._kinds["call"] += 1
        if len(self._calls) < MAX_ITEMS:
            self._calls[event.index] = {"id": event.id, "name": event.name, "json": "", "by": event.by, "cut": False}

    def _call_end(self, event: ev.CallEnd | ev.CallCut) -> None:
        if call := self._calls.get(event.index):
            call["json"], call["cut"] = event.json[:MAX_TEXT], type(event) is ev.CallCut

    def _source(self, event: ev.Source) -> None:
        self._kinds["source"] += 1
        shown = event.url or event.title or event.filename or event.quote
        if shown and len(self._sources) < MAX_ITEMS:
            self._sources.append(shown)

    def _count_part(self, event: Any) -> None:
        self._kinds[str(event.__struct_config__.tag).partition("-")[0]] += 1

    def _add_usage(self, event: ev.Usage) -> None:
        if not event.step:
            self._usage = event
        elif event.step in self._steps or len(self._steps) < MAX_ITEMS:
            self._steps.pop(event.step, None)
            self._steps[event.step] = event

    def _finish(self, event: ev.Finish) -> None:
        self._ends["finish"] = event
        if self._usage is None and self._steps:
            self._usage = sum_usage(self._steps.values())
        elif self._usage is not None and any(step > 1 for step in self._steps):
            self._usage = replace(self._usage, summed=True)

    def _fault(self, event: ev.Fault) -> None:
        self._ends["fault"] = event

    def _count_unknown(self, _: ev.Unknown) -> None:
        self.unknown += 1

    _table: ClassVar[Mapping[type, Callable[[Any, Any], None]]] = {
        ev.TextStart: _text_start,
        ev.RefusalStart: _refusal_start,
        ev.ReasoningStart: _reasoning_start,
        **dict.fromkeys((ev.TextDelta, ev.RefusalDelta, ev.ReasoningDelta), _add_text),
        ev.CallStart: _call_start,
        **dict.fromkeys((ev.CallEnd, ev.CallCut), _call_end),
        ev.Source: _source,
        **dict.fromkeys((ev.FileStart, ev.Result, ev.Ask, ev.Opaque), _count_part),
        ev.Usage: _add_usage,
        ev.Finish: _finish,
        ev.Fault: _fault,
        ev.Unknown: _count_unknown,
    }


class StreamSummary:
    """Sums up the events of a stream. The first turns are summed up one by one, the rest is counted."""

    def __init__(self) -> None:
        self._turns: list[Object] = []
        self._turn: TurnSummary | None = None
        self._unknown = 0
        self._more_turns = 0

    def feed(self, event: Any) -> None:
        if type(event) is ev.Start:
            self._close_turn()
            if len(self._turns) < MAX_TURNS:
                self._turn = TurnSummary(event)
            else:
                self._more_turns += 1
        elif self._turn is not None:
            self._turn.feed(event)
        elif self._more_turns and type(event) is ev.Unknown:
            self._unknown += 1

    def result(self, diagnostics: Iterable[Diagnostic]) -> Object:
        """Returns the summary as one object. `more_turns` is there only if turns were left out."""
        self._close_turn()
        found: Object = {
            "turns": self._turns,
            "unknown": self._unknown,
            "diagnostics": [msgspec.to_builtins(row) for row in diagnostics],
        }
        return {**found, "more_turns": self._more_turns} if self._more_turns else found

    def _close_turn(self) -> None:
        if self._turn is None:
            return
        self._unknown += self._turn.unknown
        self._turns.append(self._turn.result())
        self._turn = None


# ── lines ─────────────────────────────────────────────────────────────────────────────────────────

FEW, LONG = 6, 300  # sources listed, columns for one text


def summary_lines(found: Object) -> Iterator[tuple[str, StyledLine]]:
    """Yields the summary as labelled lines."""
    turns: list[Object] = found["turns"]
    for number, turn in enumerate(turns, 1):
        label = f"turn {number}" if len(turns) > 1 else "turn"
        yield label, [(printable(" · ".join(filter(None, (turn.get("id"), turn.get("model"))))) or "(no id)", "bold")]
        yield from _turn_lines(turn)
    if found.get("more_turns"):
        yield "turns", [(f"{found['more_turns']:,} more are not shown", "dim")]
    yield "unknown", [(str(found["unknown"]) if found["unknown"] else "none", "red" if found["unknown"] else "dim")]
    for position, row in enumerate(found["diagnostics"]):
        times = f" ({row['count']} times)" if row["count"] > 1 else ""
        yield (
            "findings" if not position else "",
            [(row["code"], "yellow"), (f" {printable(row['message'])}{times}", "")],
        )
    if not found["diagnostics"]:
        yield "findings", [("none", "dim")]


def _turn_lines(turn: Object) -> Iterator[tuple[str, StyledLine]]:
    if turn.get("parts"):
        yield "parts", [(", ".join(f"{count} {kind}" for kind, count in turn["parts"].items()), "")]
    for name, style in (("reasoning", "magenta"), ("text", "green"), ("refusal", "red")):
        if turn.get(name):
            length = turn.get("lengths", {}).get(name, len(turn[name]))
            yield name, [(quote_text(turn[name], LONG), style), (f" {length:,} characters", "dim")]
    for position, call in enumerate(turn.get("calls", ())):
        yield "calls" if not position else "", _call_line(call)
    if turn.get("sources"):
        shown = turn["sources"][:FEW]
        count = len(turn["sources"])
        count = count if count < MAX_ITEMS else turn["parts"]["source"]
        more = f" and {count - FEW} more" if count > FEW else ""
        yield "sources", [(printable(", ".join(shown)), "blue"), (more, "dim")]
    if turn.get("usage"):
        yield "usage", _usage_line(turn["usage"])
    yield _end_line(turn)


def _call_line(call: Object) -> StyledLine:
    shown = truncate(printable(call["json"][: 4 * LONG]), LONG)
    line: StyledLine = [(printable(call["name"]), "yellow"), (f" {shown}  ", ""), (printable(call["id"]), "dim")]
    if call["cut"]:
        line.append((" cut off, not callable", "red"))
    if call["by"] == "provider":
        line.append((" run by the provider", "dim"))
    return line


def _usage_line(usage: Object) -> StyledLine:
    line: StyledLine = []
    labels = {"input": "in", "cached": "cached", "written": "written", "output": "out", "reasoning": "reasoning"}
    for name, shown in labels.items():
        if usage.get(name) or (usage.get(name) == 0 and name in {"input", "output"}):
            line += [(f"{usage[name]:,} ", ""), (f"{shown}  ", "dim")]
    return line


def _end_line(turn: Object) -> tuple[str, StyledLine]:
    if turn.get("fault"):
        fault = turn["fault"]
        return "fault", [(fault["kind"], "bold red"), (f" {printable(fault['message'])}", "")]
    finish = turn.get("finish", {"reason": "none"})
    raw = finish.get("raw", "")
    return "finish", [
        (finish["reason"], "bold"),
        (f" ({printable(raw)})" if raw not in {"", finish["reason"]} else "", "dim"),
    ]
