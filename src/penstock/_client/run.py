"""`Run`: the tool loop of `client.run`. Its events, over all steps, are one turn.

A step is one call of the model and the tools that it asks for. The loop ends when the model answers without calls, when
a call is left to the caller or waits for approval, by `stop_when`, after `max_steps`, and by an abort or an error.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Self, TypeAlias, TypeVar, cast

import msgspec
from msgspec.structs import replace

from penstock import request as rq
from penstock._bridge import encoding
from penstock._client import run_messages
from penstock._client.costs import Cost, sum_costs
from penstock._client.displayed import Displayed, load_display
from penstock._client.hooks import copy_data
from penstock._client.results import BUSY, Answer, Stream
from penstock._client.run_events import EventMerger, fault_of_error
from penstock._client.run_tools import Approve, PendingToolCall, ToolRunner, ToolSet, end_of_pending, open_tools
from penstock._client.spans import ToolSpanFactory, tool_span
from penstock.errors import InputError, InvalidOutput, PenstockError, StreamFault
from penstock.events import AnyEvent, Fault, Finish, Start, TextDelta, Usage

if TYPE_CHECKING:
    from penstock._client.structured_output import OutputPlan
    from penstock._client.timeline import Timeline

T_co = TypeVar("T_co", covariant=True)
log = logging.getLogger("penstock.run")


class RunStep(msgspec.Struct):
    """One step: the model's answer, its calls, and the results of those that the run answered."""

    number: int
    answer: Answer
    calls: list[rq.Call] = []
    results: list[rq.Result] = []
    seconds: float | None = None
    call_seconds: dict[str, float] = {}  # how long tools ran, by the ids of the calls

    @property
    def usage(self) -> Usage | None:
        return self.answer.usage

    @property
    def cost(self) -> Cost | None:
        """US dollars; None if no price is known."""
        return self.answer.cost


StopWhen: TypeAlias = str | Sequence[str] | Callable[[list[RunStep]], bool | Awaitable[bool]]


@dataclass(kw_only=True, slots=True)
class RunPlan:
    """What a run does. `output` is made at its start, because it depends on the model and on the tools."""

    request: rq.Request
    send: Callable[[rq.Request], Stream]
    tools: Sequence[Any] = ()
    output: Callable[[ToolSet], OutputPlan | None] = lambda _: None
    max_steps: int = 10
    stop_when: StopWhen = ()
    approve: Approve | None = None
    parallel: int = 8
    tool_timeout: float | None = None
    retries: int = 2
    tool_span: ToolSpanFactory = tool_span


class Run(Displayed, Generic[T_co]):
    """A tool loop. Await it for the finished run, or iterate over its events; nothing is sent before.

    An error before the first content is raised. A later one is the last event, a `Fault`, and is raised by `await`.
    """

    def __init__(self, plan: RunPlan) -> None:
        self._plan = plan
        self.steps: list[RunStep] = []
        self.pending: list[PendingToolCall] = []
        self.end: Finish | Fault | None = None
        self._messages, self._approved, self._denied = run_messages.split_approvals(plan.request.messages)
        self._merger = EventMerger(lambda _: True)
        self._output_plan: OutputPlan | None = None
        self._value: Any = None
        self._has_value = False
        self._invalid = 0  # how often the output was invalid
        self._error: Exception | None = None
        self._driver = self._drive()
        self._reader: object = None  # who reads the events; one at a time
        self._aborted = False
        self._task: asyncio.Task[Any] | None = None  # that waits for the next events

    # ── reading ───────────────────────────────────────────────────────────────────────────────────

    def __await__(self) -> Generator[Any, None, Self]:
        return self._complete().__await__()

    async def _complete(self) -> Self:
        if self._task is not None:
            raise InputError(BUSY)
        reader = self._reader = object()
        try:
            while await self._next(reader) is not None:
                pass
        finally:
            self._reader = None
        if self._error is not None:
            raise self._error
        return self

    async def batches(self) -> AsyncGenerator[list[AnyEvent], None]:
        """Yields a list of events for each read: cheaper than one by one. Leaving the loop early closes the run."""
        if self._reader is not None:
            raise InputError(BUSY)
        reader = self._reader = object()
        try:
            while (batch := await self._next(reader)) is not None:
                yield batch
        finally:
            if self._reader is reader:
                self._reader = None
                await self.aclose()

    async def __aiter__(self) -> AsyncGenerator[AnyEvent, None]:
        async with aclosing(self.batches()) as batches:
            async for batch in batches:
                for event in batch:
                    yield event

    async def text(self) -> AsyncGenerator[str, None]:
        """Yields only the text, of all steps."""
        async with aclosing(self.batches()) as batches:
            async for batch in batches:
                for event in batch:
                    if isinstance(event, TextDelta):
                        yield event.text

    async def to(self, protocol: str, **options: Any) -> AsyncGenerator[bytes, None]:
        """Yields one stream of this protocol over all steps. `uistream` is what `useChat` reads."""
        pipe = encoding(protocol, options)
        async with aclosing(self.batches()) as batches:
            async for batch in batches:
                if chunk := b"".join(pipe.feed(batch)):
                    yield chunk
        if chunk := b"".join(pipe.finish()):
            yield chunk

    async def show(self) -> Self:
        """Finishes the run, and shows it while it goes on: in a notebook's cell, or on standard output."""
        await load_display().show_events(self, "Run", self._complete)
        return self

    def _timeline(self) -> Timeline:
        timeline: Timeline = load_display().build_run_timeline(self)
        return timeline

    # ── results ───────────────────────────────────────────────────────────────────────────────────

    @property
    def output(self) -> T_co:
        """The validated output; without `output=`, the text of the last answer. The run must be finished."""
        if self._error is not None:
            raise self._error
        if self.end is None:
            raise InputError("the run is not finished: await it, or read its events to their end")
        if self._has_value:
            return cast("T_co", self._value)
        if isinstance(self.end, Fault):
            raise StreamFault(self.end)
        if self._output_plan is not None:
            raise InvalidOutput("the run ended before the model gave its output", "")
        return cast("T_co", self.steps[-1].answer.text if self.steps else "")

    @property
    def messages(self) -> list[rq.Message]:
        """The conversation with all that the run added, for the next call."""
        tool = self._output_plan.tool_name if self._output_plan is not None else ""
        return run_messages.without_output_calls(self._messages, tool)

    @property
    def usage(self) -> Usage | None:
        """The tokens of all steps together."""
        return self._merger.usage

    @property
    def cost(self) -> Cost | None:
        """The cost of all steps together in US dollars; None if no price is known."""
        return sum_costs(step.cost for step in self.steps)

    # ── the end ───────────────────────────────────────────────────────────────────────────────────

    def abort(self) -> None:
        """Ends the run now: closes the connection, cancels tools. The last event is a `Fault` (`cancelled`)."""
        self._aborted = True
        if self._task is not None:
            self._task.cancel()

    async def aclose(self) -> None:
        """Closes the connection to the provider and cancels tools, unless the run is finished."""
        if self._task is not None:
            self.abort()
        else:
            await self._driver.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def _next(self, reader: object) -> list[AnyEvent] | None:
        """Returns the next events; None at the end. An abort cancels this wait as `asyncio.timeout` does."""
        if self._aborted:
            await self._driver.aclose()
            return self._end_by_abort()
        if self._task is not None or self._reader is not reader:
            raise InputError(BUSY)
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 — a coroutine runs in a task
        self._task, cancels = task, task.cancelling()
        try:
            batch = await anext(self._driver, None)
        except asyncio.CancelledError:
            if not self._aborted or task.uncancel() > cancels:
                raise
            return self._end_by_abort()
        finally:
            self._task = None
        return self._end_by_abort() if batch is None and self._error is None else batch

    def _end_by_abort(self) -> list[AnyEvent] | None:
        if self._merger.ended:
            return None
        self.end = Fault("cancelled", "the run was aborted")
        return self._merger.end(self.end)

    # ── the loop ──────────────────────────────────────────────────────────────────────────────────

    async def _drive(self) -> AsyncGenerator[list[AnyEvent]]:
        plan = self._plan
        try:
            async with open_tools(plan.tools, plan.request.tools) as tools, aclosing(self._loop(tools)) as batches:
                async for batch in batches:
                    yield batch
        except Exception as error:
            self._error = error
            if not isinstance(error, PenstockError):
                log.warning("a run failed", exc_info=error)
            if not self._merger.started:
                self.end = fault_of_error(error)
                raise
            if not self._merger.ended:
                yield self._end_with(fault_of_error(error))

    async def _loop(self, tools: ToolSet) -> AsyncGenerator[list[AnyEvent]]:
        plan = self._plan
        self._output_plan = plan.output(tools)
        self._merger = EventMerger(tools.is_run, self._output_plan.tool_name if self._output_plan else "")
        runner = ToolRunner(tools, plan.parallel, plan.tool_timeout, plan.approve, plan.tool_span)
        if self._approved or self._denied:
            async with aclosing(self._continue_calls(runner)) as batches:
                async for batch in batches:
                    yield batch
        request = replace(plan.request, tools=tools.definitions)
        last: Finish | Fault | None = None
        while last is None:
            started = time.monotonic()
            async with aclosing(self._ask_model(request)) as batches:
                async for batch in batches:
                    yield batch
            async with aclosing(self._answer_calls(runner)) as batches:
                async for batch in batches:
                    yield batch
            self.steps[-1].seconds = time.monotonic() - started
            last = await self._next_end()
            yield self._merger.next_step() if last is None else self._end_with(last)

    def _end_with(self, last: Finish | Fault) -> list[AnyEvent]:
        self.end = last
        return self._merger.end(last)

    async def _continue_calls(self, runner: ToolRunner) -> AsyncGenerator[list[AnyEvent]]:
        """Answers the calls of an earlier run that were approved or denied since."""
        head = run_messages.last_message_id(self._messages)
        yield self._merger.begin(Start(head, self._plan.request.model))
        results: dict[str, rq.Result] = {}
        for denial in self._denied:
            results[denial.call] = denial
            yield self._merger.result(denial, earlier=True)
        async with aclosing(runner.answer_all(self._approved, approved=True)) as answers:
            async for call, result in answers:
                if isinstance(result, rq.Result):
                    results[call.id] = result
                    yield self._merger.result(result, earlier=True)
        ordered: list[rq.AnyPart] = list(results.values())
        self._messages = run_messages.insert_results(self._messages, ordered)
        yield self._merger.first_step()

    async def _ask_model(self, request: rq.Request) -> AsyncGenerator[list[AnyEvent]]:
        """Sends the conversation and yields the answer's events. Adds a step."""
        merger = self._merger
        request = replace(request, messages=list(self._messages))
        stream = self._plan.send(self._output_plan.prepare(request) if self._output_plan else request)
        async with aclosing(stream.batches()) as batches:
            async for batch in batches:
                if events := merger.feed(batch):
                    yield events
        answer = await stream.turn()
        self._messages.append(run_messages.assistant_message(answer, merger))
        calls = run_messages.client_calls(answer, merger)
        is_cut = any(call.cut for call in calls) and run_messages.reached_limit(answer)
        self.steps.append(RunStep(len(self.steps) + 1, answer, [] if is_cut else calls))

    async def _answer_calls(self, runner: ToolRunner) -> AsyncGenerator[list[AnyEvent]]:
        """Runs the calls of the last step and yields their results as they come."""
        step, merger = self.steps[-1], self._merger
        output = self._output_plan
        calls = [call for call in step.calls if output is None or call.name != output.tool_name]
        results: dict[str, rq.Result] = {}
        async with aclosing(runner.answer_all(calls)) as answers:
            async for call, result in answers:
                if isinstance(result, PendingToolCall):
                    self.pending.append(result)
                    if result.approval:
                        yield merger.ask(call.id, result.approval)
                    continue
                results[call.id] = result
                yield merger.result(result)
        if output is not None:
            for call in step.calls:
                if call.name == output.tool_name:
                    results[call.id] = self._take_output_call(call, output)
        step.call_seconds = {call.id: runner.durations[call.id] for call in calls if call.id in runner.durations}
        step.results = [results[call.id] for call in step.calls if call.id in results]
        if step.results:
            self._messages.append(rq.Message("tool", list(step.results)))

    def _take_output_call(self, call: rq.Call, output: OutputPlan) -> rq.Result:
        text = self._take_output(output, call.json)
        return rq.Result(call.id, call.name, [rq.Text(text or "accepted")], failed=bool(text))

    def _take_output(self, output: OutputPlan, json: str) -> str:
        """Validates the output. Returns what is wrong with it, as the model is told."""
        try:
            self._value = output.read(json)
        except InvalidOutput as error:
            self._invalid += 1
            if self._invalid > self._plan.retries:
                raise
            return output.explain(error)
        self._has_value = True
        return ""

    async def _next_end(self) -> Finish | Fault | None:
        """Returns how the run ends after this step; None if it goes on."""
        step, finish = self.steps[-1], self._merger.finish or Finish("stop")
        if self.pending or self._has_value:
            return end_of_pending(self.pending, finish)
        is_over = not step.results and finish.reason != "pause"
        if is_over and self._output_plan is not None:
            text = self._take_output_text(self._output_plan, step.answer)
            if not text:
                return finish
            self._messages.append(rq.Message("user", [rq.Text(text)]))
        elif is_over:
            return finish
        elif await self._is_stopped():
            return Finish("stop", "stop_when")
        if step.number < self._plan.max_steps:
            return None
        if self._output_plan is not None:
            raise InvalidOutput(f"the run ended after {step.number} steps without an output", step.answer.text)
        return Finish("other", "max_steps")

    def _take_output_text(self, output: OutputPlan, answer: Answer) -> str:
        if answer.finish is not None and answer.finish.reason == "length":
            raise InvalidOutput("the output is incomplete: the answer reached the output limit", answer.text)
        if answer.refused:
            raise InvalidOutput(f"the model declined: {answer.refusal or answer.text}", answer.text)
        return self._take_output(output, answer.text)

    async def _is_stopped(self) -> bool:
        condition, step = self._plan.stop_when, self.steps[-1]
        if not callable(condition):
            names = [condition] if isinstance(condition, str) else condition
            return any(call.name in names for call in step.calls)
        found = condition(copy_data(self.steps))
        return bool(await found if inspect.isawaitable(found) else found)
