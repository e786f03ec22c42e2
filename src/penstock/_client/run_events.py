"""Joins the events of several model calls into one turn: parts, usage and steps are numbered over all of them.

A call that the run answers is marked as run upstream, so that no client runs it again. Its `extra` says that it was run
like the AI SDK's own tools, so that `useChat` sends it back as a client's call. The call that carries structured output
is written as text.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, ClassVar

from msgspec.structs import replace

from penstock import events as ev
from penstock import request as rq
from penstock._aisdk import SDK, UI_STREAM
from penstock._fold import sum_usage
from penstock._grammar import Grammar
from penstock.errors import InvalidOutput, PenstockError, StreamFault

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from penstock.events import AnyEvent, Extra

_CONTINUES: Extra = {SDK: {"continues": True}}
_DELTAS = frozenset({ev.TextDelta, ev.ReasoningDelta, ev.RefusalDelta, ev.CallDelta, ev.FileDelta})


def is_denied(result: rq.Result) -> bool:
    """True if the user denied the call."""
    return bool((result.extra or {}).get(SDK, {}).get("denied"))


class EventMerger:
    """Rewrites the events of one call after the other. `is_run`: whether the run answers calls of a tool."""

    def __init__(self, is_run: Callable[[str], bool], output_tool: str = "") -> None:
        self._is_run, self._output_tool = is_run, output_tool
        self._grammar = Grammar()
        self._first_index = 0  # of the current step
        self._next_index = 0
        self._ids: set[str] = set()
        self._renamed: dict[str, str] = {}  # of the current step
        self._as_text: set[int] = set()  # parts of the current step that are written as text
        self._usages: dict[int, ev.Usage] = {}
        self.started = False
        self.step = 1
        self.finish: ev.Finish | None = None  # of the current step
        self.ended = False

    def feed(self, batch: list[AnyEvent]) -> list[AnyEvent]:
        """Returns the events of the run for a batch of a step."""
        if not self._first_index and not self._as_text and _DELTAS.issuperset(map(type, batch)):
            return batch
        out: list[AnyEvent] = []
        for event in batch:
            self._table[type(event)](self, event, out)
        return self._record(out)

    def next_step(self) -> list[AnyEvent]:
        """Begins the next step."""
        self.step += 1
        self._first_index = self._next_index
        self._renamed, self._as_text, self.finish = {}, set(), None
        return [ev.Step(self.step)]

    def begin(self, start: ev.Start) -> list[AnyEvent]:
        """Begins a turn that continues the message before: results of earlier calls come before its first step."""
        self.started = True
        return self._record([replace(_with_date(start), extra={**(start.extra or {}), **_CONTINUES})])

    def first_step(self) -> list[AnyEvent]:
        """Begins the first step of a turn that continues a message."""
        self._first_index = self._next_index
        return [ev.Step(1)]

    def result(self, result: rq.Result, *, earlier: bool = False) -> list[AnyEvent]:
        """Returns the event of a tool's result. `earlier`: its call belongs to the message before."""
        marks: dict[str, Any] = {"continues": True, "denied": is_denied(result)} if earlier else {}
        json = result.json
        if not result.failed and any(isinstance(part, rq.File) for part in result.content):
            json, marks["content"] = _write_content(result), True
        extra: Extra | None = {SDK: marks} if marks else None
        return self._record([ev.Result(self._take_index(), result.call, result.name, json, result.failed, extra=extra)])

    def ask(self, call: str, approval: str) -> list[AnyEvent]:
        """Returns the event of a request for approval."""
        extra: Extra = {SDK: {"via": UI_STREAM}}
        return self._record([ev.Ask(self._take_index(), call, approval, extra)])

    def end(self, last: ev.Finish | ev.Fault) -> list[AnyEvent]:
        """Ends the turn. After a fault the parts that are open are closed as broken."""
        if self.ended:
            return []
        self.ended = True
        start: list[AnyEvent] = [] if self.started else [ev.Start()]
        broken = self._grammar.close(broken=True) if isinstance(last, ev.Fault) else []
        return [*start, *broken, last]

    def renamed(self, call: str) -> str:
        """Returns the id of a call in this turn. An id that an earlier step had is replaced."""
        return self._renamed.get(call, call)

    @property
    def usage(self) -> ev.Usage | None:
        """The sum over all steps."""
        if not self._usages:
            return None
        return sum_usage(self._usages.values())

    def step_usage(self, step: int) -> ev.Usage | None:
        return self._usages.get(step)

    # ── events ────────────────────────────────────────────────────────────────────────────────────

    def _record(self, events: list[AnyEvent]) -> list[AnyEvent]:
        for event in events:
            if type(event) not in _DELTAS:
                self._grammar.judge(event)
        return events

    def _take_index(self) -> int:
        self._next_index += 1
        return self._next_index - 1

    def _shift(self, index: int) -> int:
        shifted = self._first_index + index
        self._next_index = max(self._next_index, shifted + 1)
        return shifted

    def _start(self, event: ev.Start, out: list[AnyEvent]) -> None:
        if not self.started:
            self.started = True
            out.append(_with_date(event))

    def _part(self, event: Any, out: list[AnyEvent]) -> None:
        out.append(replace(event, index=self._shift(event.index)))

    def _source(self, event: ev.Source, out: list[AnyEvent]) -> None:
        of = None if event.of is None else self._first_index + event.of
        out.append(replace(event, index=self._shift(event.index), of=of))

    def _delta(self, event: Any, out: list[AnyEvent]) -> None:
        if type(event) is ev.CallDelta and event.index in self._as_text:
            out.append(ev.TextDelta(self._first_index + event.index, event.json))
        else:
            out.append(replace(event, index=self._first_index + event.index))

    def _call_start(self, event: ev.CallStart, out: list[AnyEvent]) -> None:
        index = self._shift(event.index)
        if event.by == "client" and self._output_tool and event.name == self._output_tool:
            self._as_text.add(event.index)
            out.append(ev.TextStart(index, choice=event.choice))
            return
        if event.id in self._ids:
            self._renamed[event.id] = f"{event.id}-{self.step}"
        self._ids.add(event.id)
        out.append(replace(event, index=index, id=self.renamed(event.id), **self._run_fields(event)))

    def _call_end(self, event: ev.CallEnd | ev.CallCut, out: list[AnyEvent]) -> None:
        index = self._first_index + event.index
        if event.index in self._as_text:
            out.append(ev.TextEnd(index, broken=event.broken))
        else:
            out.append(replace(event, index=index, id=self.renamed(event.id), **self._run_fields(event)))

    def _run_fields(self, event: ev.CallStart | ev.CallEnd | ev.CallCut) -> dict[str, Any]:
        """Returns the fields that mark a call which the run answers."""
        if event.by == "provider" or not self._is_run(event.name):
            return {}
        extra = event.extra or {}
        return {"by": "provider", "extra": {**extra, SDK: {**extra.get(SDK, {}), "sdk": True, "running": True}}}

    def _result(self, event: ev.Result | ev.Ask, out: list[AnyEvent]) -> None:
        out.append(replace(event, index=self._shift(event.index), call=self.renamed(event.call)))

    def _usage(self, event: ev.Usage, out: list[AnyEvent]) -> None:
        if event.step:
            return  # a step inside the provider's answer
        self._usages[self.step] = replace(event, step=self.step)
        total = event if len(self._usages) == 1 else sum_usage(self._usages.values())
        out += [self._usages[self.step], replace(total, exact=all(one.exact for one in self._usages.values()))]

    def _finish(self, event: ev.Finish, out: list[AnyEvent]) -> None:
        self.finish = event

    def _fault(self, event: ev.Fault, out: list[AnyEvent]) -> None:
        self.ended = True
        out.append(event)

    def _pass(self, event: AnyEvent, out: list[AnyEvent]) -> None:
        out.append(event)

    def _omit(self, event: ev.Step, out: list[AnyEvent]) -> None:
        """Leaves out a step inside the provider's answer."""

    _table: ClassVar[Mapping[type, Callable[[Any, Any, list[Any]], None]]] = {
        **dict.fromkeys(_DELTAS, _delta),
        **dict.fromkeys((ev.TextStart, ev.RefusalStart, ev.ReasoningStart, ev.FileStart, ev.Opaque), _part),
        **dict.fromkeys((ev.TextEnd, ev.RefusalEnd, ev.ReasoningEnd, ev.FileEnd), _part),
        **dict.fromkeys((ev.CallEnd, ev.CallCut), _call_end),
        **dict.fromkeys((ev.Result, ev.Ask), _result),
        **dict.fromkeys((ev.Data, ev.Unknown), _pass),
        ev.Start: _start,
        ev.Step: _omit,
        ev.CallStart: _call_start,
        ev.Source: _source,
        ev.Usage: _usage,
        ev.Finish: _finish,
        ev.Fault: _fault,
    }


def _write_content(result: rq.Result) -> str:
    from penstock._protocols.uistream.request_write import write_content_output  # noqa: PLC0415 — few results need it

    return write_content_output(result)


def _with_date(start: ev.Start) -> ev.Start:
    """Returns the start with a date: some protocols require one."""
    return replace(start, created=int(time.time())) if start.created is None else start


def fault_of_error(error: Exception) -> ev.Fault:
    """Returns the fault that ends the events of a run after an error. Foreign messages are not shown."""
    if isinstance(error, StreamFault):
        return error.fault
    if isinstance(error, PenstockError):
        return ev.Fault("malformed" if isinstance(error, InvalidOutput) else "other", str(error))
    return ev.Fault("other", "the run failed; awaiting it raises the error")
