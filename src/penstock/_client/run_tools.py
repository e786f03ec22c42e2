"""Answers the tool calls of a run: in parallel, with limits of time, after approval; every failure is a result.

A model sees the message of an error, never a traceback.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import re
import time
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from traceback import format_exception_only
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, cast

import msgspec

from penstock import request as rq
from penstock._client.function_tools import FunctionTool, read_json_object, write_result
from penstock._client.spans import ToolSpanFactory, tool_span
from penstock._client.value_types import InvalidValue, ValueType, is_data_class
from penstock._lenient_json import replace_surrogates
from penstock._printable_text import printable
from penstock._redaction import redact
from penstock.errors import InputError, McpServerError, ToolError
from penstock.events import Finish

if TYPE_CHECKING:
    from penstock._client.function_tools import NeedsApproval

log = logging.getLogger("penstock.run")
_SHOWN_CHARACTERS = 2000  # characters of an error that a model is shown
_CANCEL_GRACE = 5.0  # seconds that cancelled tools may take to clean up
DENIED = "The user denied this call."
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_-]")  # characters that the names of tools cannot have


class PendingToolCall(msgspec.Struct, frozen=True):
    """A call that the run did not answer: it waits for approval (`approval` is the request's id), or is the caller's.

    `approve`, `deny` and `answer` return the message that answers it, for the messages of the next run.
    """

    id: str
    name: str
    arguments: Any
    approval: str = ""

    def approve(self) -> rq.Message:
        """Returns the message that lets the next run make the call."""
        return rq.Message("user", [rq.Ask(self.id, self.approval, approved=True)])

    def deny(self, reason: str = "") -> rq.Message:
        """Returns the message that refuses the call. The model sees the reason."""
        return rq.Message("tool", [rq.Result(self.id, self.name, [rq.Text(reason or DENIED)], failed=True)])

    def answer(self, value: Any, *, failed: bool = False) -> rq.Message:
        """Returns the message with the call's result: text, a JSON value, a model, or parts."""
        try:
            content = write_result(value)
        except ToolError as error:
            raise InputError(f"answer: {error}") from None
        return rq.Message("tool", [rq.Result(self.id, self.name, content, failed=failed)])


def end_of_pending(pending: Sequence[PendingToolCall], finish: Finish) -> Finish:
    """Returns how a run ends with these calls; with none, it has its output."""
    if any(not call.approval for call in pending):
        return Finish("calls", finish.raw)
    return Finish("other", "approval") if pending else Finish("stop")


Decision: TypeAlias = bool | str  # a text is the reason of a refusal
Approve: TypeAlias = Callable[[PendingToolCall], Decision | Awaitable[Decision]]


class RunnableTool(Protocol):
    """A tool that a run calls itself."""

    @property
    def name(self) -> str: ...
    @property
    def definition(self) -> rq.Tool: ...
    @property
    def timeout(self) -> float | None: ...
    @property
    def needs_approval(self) -> NeedsApproval: ...
    def read_arguments(self, json: str) -> dict[str, Any]: ...
    async def run(self, arguments: Mapping[str, Any]) -> list[rq.ResultPart]: ...


class ToolServer(Protocol):
    """A source of tools that must be connected first, such as an MCP server."""

    @property
    def name(self) -> str: ...
    def connect(self) -> Any: ...


class ToolSet:
    """The tools of a run by name: those that it calls, and those whose calls are the caller's."""

    def __init__(self) -> None:
        self.runnable: dict[str, RunnableTool] = {}
        self.definitions: list[rq.Tool] = []
        self._argument_types: dict[str, ValueType] = {}

    def add(self, tool: Any) -> None:
        """Adds a function, a `FunctionTool`, a class of data, or a `Tool` of the canonical request."""
        if isinstance(tool, rq.Tool):
            self._define(tool)
        elif is_data_class(tool):
            self._add_class(tool)
        elif isinstance(tool, FunctionTool) or callable(tool):
            self.add_runnable(cast("RunnableTool", tool) if isinstance(tool, FunctionTool) else FunctionTool(tool))
        else:
            kinds = "a function, FunctionTool, McpServer, class of data, or a tool as JSON"
            raise InputError(f"tools: expected {kinds}, found {type(tool).__name__}")

    def add_runnable(self, tool: RunnableTool) -> None:
        self._define(tool.definition)
        self.runnable[tool.name] = tool

    def _add_class(self, kind: Any) -> None:
        found = ValueType(kind, f"tool {kind.__name__!r}")
        schema = {key: value for key, value in found.schema.items() if key not in ("title", "description")}
        text = inspect.cleandoc(kind.__doc__) if kind.__dict__.get("__doc__") else ""
        self._define(rq.Tool(kind.__name__, text, schema))
        self._argument_types[kind.__name__] = found

    def _define(self, tool: rq.Tool) -> None:
        if self.has(tool.name):
            raise InputError(f"tools: two have the name {tool.name!r}")
        self.definitions.append(tool)

    def has(self, name: str) -> bool:
        return any(tool.name == name for tool in self.definitions)

    def is_run(self, name: str) -> bool:
        """True if the run answers calls of this name: its own tools, and names that no tool has."""
        return name in self.runnable or not self.has(name)

    def read_arguments(self, call: rq.Call) -> Any:
        """Returns the arguments of a caller's call: as the class that the tool is, if it is one."""
        if call.form == "text":
            return call.json
        arguments = read_json_object(call.json)
        kind = self._argument_types.get(call.name)
        return arguments if kind is None else kind.convert(arguments)


@asynccontextmanager
async def open_tools(tools: Sequence[Any], definitions: Sequence[rq.Tool]) -> AsyncGenerator[ToolSet]:
    """Connects the servers among the tools, lists their tools, and disconnects them at the end."""
    found = ToolSet()
    servers = [tool for tool in tools if hasattr(tool, "connect") and hasattr(tool, "name")]
    for tool in (*definitions, *(tool for tool in tools if tool not in servers)):
        found.add(tool)
    async with AsyncExitStack() as stack:
        listed: list[tuple[str, Any]] = []
        for server in cast("list[ToolServer]", servers):
            listed += [(server.name, tool) for tool in await stack.enter_async_context(server.connect())]
        _add_server_tools(found, listed)
        yield found


def _add_server_tools(found: ToolSet, listed: Sequence[tuple[str, Any]]) -> None:
    """Adds tools with the names of their servers. A name that is not unique gets its server's name in front.

    All tools of that name get it, so that a name does not depend on the order of the servers.
    """
    counts = Counter(tool.name for _, tool in listed)
    for server, tool in listed:
        name = tool.name
        if found.has(name) or counts[name] > 1:
            name = f"{_NOT_IN_NAMES.sub('_', server)}_{name}"
        if found.has(name):
            raise InputError(f"tools: two have the name {name!r}, one of the server {server!r}; McpServer(name=…)")
        found.add_runnable(tool if name == tool.name else tool.renamed(name))


class ToolRunner:
    """Answers calls. `parallel`: how many at once; `timeout`: seconds of a call whose tool sets none."""

    def __init__(
        self,
        tools: ToolSet,
        parallel: int,
        timeout: float | None,
        approve: Approve | None,
        span: ToolSpanFactory = tool_span,
    ) -> None:
        self._tools, self._timeout, self._approve, self._span = tools, timeout, approve, span
        self._limit = asyncio.Semaphore(max(parallel, 1))
        self.durations: dict[str, float] = {}  # seconds by the ids of calls

    async def answer_all(
        self, calls: Sequence[rq.Call], *, approved: bool = False
    ) -> AsyncGenerator[tuple[rq.Call, rq.Result | PendingToolCall]]:
        """Yields each call with its result, or what it waits for, as they come. `approved`: nobody is asked."""
        tasks = {asyncio.create_task(self._answer(call, approved=approved)): call for call in calls}
        waiting = set(tasks)
        try:
            while waiting:
                done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
                for task in sorted(done, key=list(tasks).index):
                    yield tasks[task], task.result()
        finally:
            await _cancel_all(waiting)

    async def _answer(self, call: rq.Call, *, approved: bool) -> rq.Result | PendingToolCall:
        if call.cut:
            return _failure(call, f"Invalid arguments for {call.name}: they are not valid JSON.")
        try:
            if not self._tools.is_run(call.name):
                return PendingToolCall(call.id, call.name, self._tools.read_arguments(call))
            tool = self._tools.runnable.get(call.name)
            if tool is None:
                known = ", ".join(self._tools.runnable) or "none"
                return _failure(call, f"There is no tool {call.name!r}. Tools that can be called: {known}.")
            arguments = tool.read_arguments(call.json)
        except InvalidValue as error:
            return _failure(call, f"Invalid arguments for {call.name}: {error}")
        if not approved:
            pending = await self._ask(tool, call)
            if pending is not None:
                return pending
        async with self._limit:
            started = time.monotonic()
            try:
                return await self._trace(tool, call, arguments)
            finally:
                self.durations[call.id] = time.monotonic() - started

    async def _ask(self, tool: RunnableTool, call: rq.Call) -> rq.Result | PendingToolCall | None:
        """Returns None if the call may be made; else the refusal, or what it waits for."""
        needed: Any = tool.needs_approval
        if callable(needed):
            needed = needed(tool.read_arguments(call.json))  # their own: what they change is not what the tool gets
        if not (await needed if inspect.isawaitable(needed) else needed):
            return None
        pending = PendingToolCall(call.id, call.name, tool.read_arguments(call.json), f"approval-{call.id}")
        if self._approve is None:
            return pending
        decision = self._approve(pending)
        if inspect.isawaitable(decision):
            decision = await decision
        if decision is True:
            return None
        return _failure(call, decision if isinstance(decision, str) and decision else DENIED)

    async def _trace(self, tool: RunnableTool, call: rq.Call, arguments: dict[str, Any]) -> rq.Result:
        """Runs a tool inside its span."""
        about = tool.definition.description
        with self._span(call.name, call.id, description=about, arguments=call.json) as span:
            result = await self._run(tool, call, arguments)
            span.set_result(result.json, failed=result.failed)
            return result

    async def _run(self, tool: RunnableTool, call: rq.Call, arguments: dict[str, Any]) -> rq.Result:
        seconds = self._timeout if tool.timeout is None else tool.timeout
        task = asyncio.ensure_future(_call_tool(tool, arguments))
        try:
            await asyncio.wait({task}, timeout=seconds)
        except asyncio.CancelledError:
            await _cancel_all({task})
            raise
        if not task.done():  # a tool that ignores its cancellation is left behind
            task.cancel()
            task.add_done_callback(_take_outcome)
            return _failure(call, f"{call.name} did not finish within {seconds:g} seconds.")
        error = _take_outcome(task)
        if error is None:
            return rq.Result(call.id, call.name, task.result())
        if isinstance(error, ToolError):
            return _failure(call, str(error))
        if isinstance(error, McpServerError):
            log.warning("tool %s failed: %s", printable(call.name), printable(error.message))
            return _failure(call, error.message)
        log.warning("tool %s failed", printable(call.name), exc_info=error)
        return _failure(call, redact("".join(format_exception_only(error)).strip()))


async def _call_tool(tool: RunnableTool, arguments: dict[str, Any]) -> list[rq.ResultPart]:
    try:
        return await tool.run(arguments)
    except SystemExit as error:  # it would end the program
        raise RuntimeError(f"SystemExit: {error}") from error


def _take_outcome(task: asyncio.Future[Any]) -> BaseException | None:
    """Returns the error of a task that is done; None if it has a result."""
    return asyncio.CancelledError("the tool cancelled itself") if task.cancelled() else task.exception()


async def _cancel_all(tasks: set[asyncio.Task[Any]]) -> None:
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks, timeout=_CANCEL_GRACE)


def _failure(call: rq.Call, text: str) -> rq.Result:
    shown: str = replace_surrogates(text[:_SHOWN_CHARACTERS])
    return rq.Result(call.id, call.name, [rq.Text(shown)], failed=True)
