"""How answers, runs and streams look: one line as `repr`, HTML in notebooks, text with `rich`, and live views.

`displayed.Displayed` loads this module when something is shown for the first time.
"""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from msgspec.structs import replace

from penstock import request as rq
from penstock._client.display_html import render_html
from penstock._client.display_terminal import TerminalView, render_rich
from penstock._client.displayed import Displayed
from penstock._client.timeline import (
    APPROVAL,
    NAME_CHARACTERS,
    Timeline,
    count_of,
    describe_state,
    format_cost,
    format_usage,
    shorten,
)
from penstock._fold import unfold
from penstock.errors import StreamFault
from penstock.events import Fault, Finish

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterable

    from penstock._engines.reply import ModelReply

__all__ = [
    "build_answer_timeline",
    "build_run_timeline",
    "build_stream_timeline",
    "render_html",
    "render_line",
    "render_rich",
    "show_events",
]
T = TypeVar("T")

_QUOTED = 60  # characters of the text in a repr
_REFRESH = 0.1  # seconds between two updates of a live view in a notebook


def render_line(timeline: Timeline) -> str:
    """Returns a timeline on one line: `<Answer openai/gpt-5: 'A penstock is …', stop, 12 in, 43 out, $0.0004>`."""
    name = "/".join(filter(None, (timeline.provider, timeline.model)))
    text = shorten(timeline.last_text, _QUOTED)
    steps, calls = len(timeline.steps) + timeline.omitted_steps, timeline.call_count
    facts = [
        f"'{text}'" if text else "",
        count_of(steps, "step") if steps > 1 else "",
        count_of(calls, "call") if calls else "",
        timeline.finish or describe_state(timeline),
        format_usage(timeline.usage).replace(" · ", ", "),
        format_cost(timeline.cost),
    ]
    head = " ".join(filter(None, (timeline.kind, shorten(name, NAME_CHARACTERS))))
    return f"<{head}: {', '.join(filter(None, facts))}>" if any(facts) else f"<{head}>"


# ── what is shown of each class ───────────────────────────────────────────────────────────────────


def build_answer_timeline(answer: rq.Turn) -> Timeline:
    """Returns the timeline of a complete turn."""
    timeline = Timeline("Answer")
    feed_turn(timeline, answer)
    timeline.provider, timeline.cost = getattr(answer, "provider", ""), getattr(answer, "cost", None)
    return timeline


def feed_turn(timeline: Timeline, turn: rq.Turn) -> None:
    """Adds the parts and the end of a turn. Results go to their calls, wherever they stand."""
    results = [part for part in turn.parts if isinstance(part, rq.Result)]
    others = [(index, part) for index, part in enumerate(turn.parts) if not isinstance(part, rq.Result)]
    broken = [place for place, (index, _) in enumerate(others) if index in turn.broken]
    timeline.feed(unfold(replace(turn, parts=[part for _, part in others], broken=broken)))
    timeline.fault = turn.fault
    for result in results:
        timeline.add_result(result.call, describe_result(result), failed=result.failed)


def describe_result(result: rq.Result) -> str:
    """Returns the content of a result as text: files by their media type."""
    return "\n".join(_describe_content(part) for part in result.content)


def _describe_content(part: rq.ResultPart) -> str:
    if isinstance(part, rq.Text):
        return part.text
    if isinstance(part, rq.Json):
        return part.json
    return f"[{part.media}]" if isinstance(part, rq.File) else f"[{type(part).__name__.lower()}]"


def build_stream_timeline(reply: ModelReply | None, turn: rq.Turn | None, fault: Fault | None = None) -> Timeline:
    """Returns what is known of a stream: its reply, and the turn as far as it came."""
    timeline = Timeline("Stream")
    if reply is None:
        timeline.fault = fault
        timeline.state = "" if fault else "not sent yet"
        return timeline
    if turn is not None:
        feed_turn(timeline, turn)
        timeline.finish = turn.finish.reason if turn.finish is not None else ""
    timeline.provider, timeline.model, timeline.usage = reply.provider, timeline.model or reply.model, reply.usage
    if reply.end is None:
        timeline.state = "open"
    return timeline


def build_run_timeline(run: Any) -> Timeline:
    """Returns the timeline of a `Run`: its finished steps, with the results of their tools."""
    timeline = Timeline("Run")
    for step in run.steps:
        shown = timeline.begin_step(step.number)
        feed_turn(timeline, step.answer)
        timeline.provider = step.answer.provider
        shown.usage, shown.cost, shown.seconds = step.usage, step.cost, step.seconds
        # A call whose id an earlier step had has another id in the run.
        asked = [part.id for part in step.answer.parts if isinstance(part, rq.Call) and part.by == "client"]
        ids: dict[str, str] = dict(zip((call.id for call in step.calls), asked, strict=False))
        for result in step.results:
            call: str = result.call
            seconds = step.call_seconds.get(call)
            timeline.add_result(ids.get(call, call), describe_result(result), failed=result.failed, seconds=seconds)
        for pending in run.pending if step is run.steps[-1] else ():
            waiting: str = pending.id
            timeline.add_note(ids.get(waiting, waiting), APPROVAL if pending.approval else "left to the caller")
        timeline.seconds = (timeline.seconds or 0.0) + (step.seconds or 0.0)
    timeline.usage, timeline.cost = run.usage, run.cost
    timeline.finish = run.end.reason if isinstance(run.end, Finish) else ""
    timeline.fault = run.end if isinstance(run.end, Fault) else None
    if run.end is None:
        timeline.state = "running" if run.steps else "not started"
    return timeline


# ── live views ────────────────────────────────────────────────────────────────────────────────────


class LiveView(Protocol):
    """Shows a timeline while it grows."""

    def update(self, events: Iterable[Any]) -> None: ...
    def close(self) -> None: ...


class NotebookView:
    """An output of a notebook's cell that is replaced while the timeline grows."""

    def __init__(self, timeline: Timeline, display: Callable[..., Any], clock: Callable[[], float]) -> None:
        self._output = TimelineOutput(timeline)
        self._clock, self._updated = clock, clock()
        self._handle = display(self._output, display_id=True)

    def update(self, events: Iterable[Any]) -> None:
        if self._clock() - self._updated >= _REFRESH:
            self._updated = self._clock()
            self._handle.update(self._output)

    def close(self) -> None:
        self._handle.update(self._output)


class TimelineOutput(Displayed):
    """A timeline as an object that notebooks can display."""

    __slots__ = ("_shown",)

    def __init__(self, timeline: Timeline) -> None:
        self._shown = timeline

    def _timeline(self) -> Timeline:
        return self._shown


def open_view(timeline: Timeline) -> LiveView:
    """Returns a view in the notebook, if this program runs in one, else on standard output."""
    ipython: Any = sys.modules.get("IPython")
    if ipython is not None and getattr(ipython.get_ipython(), "kernel", None) is not None:
        return NotebookView(timeline, ipython.display.display, time.monotonic)
    return TerminalView(timeline)


class EventSource(Protocol):
    """A `Stream` or a `Run`."""

    def batches(self) -> AsyncIterator[list[Any]]: ...


async def show_events(source: EventSource, kind: str, finish: Callable[[], Awaitable[T]]) -> T:
    """Reads the events of a source and shows them. Returns what `finish` does, at the end."""
    timeline = Timeline(kind, time.monotonic)
    timeline.state = "streaming"
    view = open_view(timeline)
    try:
        async for batch in source.batches():
            timeline.feed(batch)
            view.update(batch)
        result = await finish()
        answers: list[Any] = [result, *(getattr(step, "answer", None) for step in getattr(result, "steps", ()))]
        timeline.provider = next((one.provider for one in answers if hasattr(one, "provider")), "")
        timeline.cost = getattr(result, "cost", None)
    except StreamFault as error:
        timeline.fault = error.fault
        raise
    finally:
        timeline.state = "stopped"
        view.close()
    return result
