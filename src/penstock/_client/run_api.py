"""`client.run` for `Client` and `SyncClient`, and `SyncRun`, a run without `await`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, Protocol, Self, TypeAlias, TypeVar, Unpack, overload

from msgspec.structs import replace

from penstock._client import parameters as params
from penstock._client.displayed import Displayed
from penstock._client.turn_calls import TurnCall, read_turn_call
from penstock._engines.model_resolution import resolve_targets
from penstock.events import AnyEvent, TextDelta

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Coroutine, Generator, Iterator, Mapping, Sequence

    from penstock._client.call_observer import ClientOperations
    from penstock._client.costs import Cost
    from penstock._client.function_tools import FunctionTool
    from penstock._client.mcp_servers import McpServer
    from penstock._client.results import Stream
    from penstock._client.run import Run, RunStep, StopWhen
    from penstock._client.run_tools import Approve, PendingToolCall
    from penstock._client.timeline import Timeline
    from penstock._client.value_types import OutputOf
    from penstock._engines.router import Router
    from penstock._http.request_options import RequestOptions
    from penstock.events import Fault, Finish, Usage
    from penstock.request import Message, Tool

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
AnyRunTool: TypeAlias = "Callable[..., Any] | FunctionTool[..., Any] | McpServer | Tool | Mapping[str, Any]"
DEFAULT_STEPS = 10
PARALLEL = 8
RETRIES = 2


class AsyncRunner(Protocol):
    """Runs coroutines in the event loop of another thread."""

    closed: bool

    def run(self, work: Coroutine[Any, Any, T]) -> T: ...
    def iterate(self, source: AsyncGenerator[T, None]) -> Generator[T, None, None]: ...


class RunParameters(params.ChatSettings, params.TurnParameters, total=False):
    """The keyword parameters of `run`: its own, and those of `chat`.

    `tools`: functions, `FunctionTool`s, `McpServer`s, classes of data, or tools as JSON. `max_steps`: how often the
    model is called. `stop_when`: a tool's name, several, or a function of the steps. `approve` is asked for the calls
    of tools that need approval. `parallel`: how many tools run at once. `tool_timeout`: seconds of a tool that sets
    none. `retries`: how often an invalid output is sent back.
    """

    tools: Sequence[AnyRunTool] | None
    max_steps: int | None
    stop_when: StopWhen | None
    approve: Approve | None
    parallel: int | None
    tool_timeout: float | None
    retries: int | None


class RunMethods:
    """The method `run` of `Client`."""

    router: Router
    _options: RequestOptions
    _operations: ClientOperations

    def _stream(self, call: TurnCall) -> Stream:
        raise NotImplementedError

    @overload
    def run(
        self,
        model: params.ChatInput = "",
        messages: params.Messages | None = None,
        *,
        output: None = None,
        **parameters: Unpack[RunParameters],
    ) -> Run[str]: ...
    @overload
    def run(
        self,
        model: params.ChatInput = "",
        messages: params.Messages | None = None,
        *,
        output: type[OutputOf[T]],
        **parameters: Unpack[RunParameters],
    ) -> Run[T]: ...
    @overload
    def run(
        self,
        model: params.ChatInput = "",
        messages: params.Messages | None = None,
        *,
        output: type[T],
        **parameters: Unpack[RunParameters],
    ) -> Run[T]: ...
    @overload
    def run(
        self,
        model: params.ChatInput = "",
        messages: params.Messages | None = None,
        *,
        output: Any,
        **parameters: Unpack[RunParameters],
    ) -> Run[Any]: ...

    def run(
        self,
        model: params.ChatInput = "",
        messages: params.Messages | None = None,
        *,
        output: Any = None,
        **parameters: Unpack[RunParameters],
    ) -> Run[Any]:
        """Calls the model and the tools that it asks for, until it answers. `output` is the type of the answer.

        Await the run for its result, or iterate over its events.
        """
        from penstock._client.run_setup import convert_ui_messages, create_run, split_tools  # noqa: PLC0415 — slow

        params.check_parameters("run", parameters, RunParameters, ("model", "messages", "output"))
        given: dict[str, Any] = {name: value for name, value in parameters.items() if value is not None}
        described, tools = split_tools(given.pop("tools", ()))
        own = {name: given.pop(name) for name in _DEFAULTS if name in given}
        if described:
            given["tools"] = described
        call = read_turn_call("run", "chat", model, convert_ui_messages(messages), given, self._options)
        router = self.router
        return create_run(
            replace(call.request, stream=True),
            lambda request: self._stream(call._replace(request=request)),
            lambda name: resolve_targets(name, router.config, router.env),
            output,
            tools=tools,
            tool_span=self._operations.tool_span,
            **{**_DEFAULTS, **own},
        )


_DEFAULTS: dict[str, Any] = {
    "max_steps": DEFAULT_STEPS,
    "stop_when": (),
    "approve": None,
    "parallel": PARALLEL,
    "tool_timeout": None,
    "retries": RETRIES,
}


class SyncRunMethods:
    """The method `run` of `SyncClient`."""

    def _runner(self) -> tuple[RunMethods, AsyncRunner]:
        """Returns the asynchronous client, and what runs its coroutines."""
        raise NotImplementedError

    @overload
    def run(
        self,
        model: params.ChatInput = "",
        messages: params.Messages | None = None,
        *,
        output: None = None,
        **parameters: Unpack[RunParameters],
    ) -> SyncRun[str]: ...
    @overload
    def run(
        self,
        model: params.ChatInput = "",
        messages: params.Messages | None = None,
        *,
        output: type[OutputOf[T]],
        **parameters: Unpack[RunParameters],
    ) -> SyncRun[T]: ...
    @overload
    def run(
        self,
        model: params.ChatInput = "",
        messages: params.Messages | None = None,
        *,
        output: type[T],
        **parameters: Unpack[RunParameters],
    ) -> SyncRun[T]: ...
    @overload
    def run(
        self,
        model: params.ChatInput = "",
        messages: params.Messages | None = None,
        *,
        output: Any,
        **parameters: Unpack[RunParameters],
    ) -> SyncRun[Any]: ...

    def run(
        self,
        model: params.ChatInput = "",
        messages: params.Messages | None = None,
        *,
        output: Any = None,
        **parameters: Unpack[RunParameters],
    ) -> SyncRun[Any]:
        """Calls the model and the tools that it asks for, until it answers. `output` is the type of the answer."""
        client, thread = self._runner()
        return SyncRun(client.run(model, messages, output=output, **parameters), thread)


class SyncRun(Displayed, Generic[T_co]):
    """A `Run` without `await`. Its properties finish the run first."""

    def __init__(self, run: Run[T_co], thread: AsyncRunner) -> None:
        self.async_run: Run[T_co] = run
        self._thread = thread

    def wait(self) -> Self:
        """Finishes the run. Raises its error, if any."""
        self._thread.run(_finish(self.async_run))
        return self

    def show(self) -> Self:
        """Finishes the run, and shows it while it goes on."""
        _ = self._thread.run(self.async_run.show())
        return self

    def _timeline(self) -> Timeline:
        return self.async_run._timeline()  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]

    def batches(self) -> Iterator[list[AnyEvent]]:
        """Yields a list of events for each read: cheaper than one by one."""
        return self._thread.iterate(self.async_run.batches())

    def __iter__(self) -> Iterator[AnyEvent]:
        for batch in self.batches():
            yield from batch

    def text(self) -> Iterator[str]:
        """Yields only the text, of all steps."""
        return (event.text for event in self if isinstance(event, TextDelta))

    def to(self, protocol: str, **options: Any) -> Iterator[bytes]:
        """Yields one stream of this protocol over all steps."""
        return self._thread.iterate(self.async_run.to(protocol, **options))

    @property
    def output(self) -> T_co:
        """The validated output; without `output=`, the text of the last answer."""
        return self.wait().async_run.output

    @property
    def steps(self) -> list[RunStep]:
        return self.wait().async_run.steps

    @property
    def pending(self) -> list[PendingToolCall]:
        """The calls that wait for approval, or are the caller's."""
        return self.wait().async_run.pending

    @property
    def messages(self) -> list[Message]:
        """The conversation with all that the run added, for the next call."""
        return self.wait().async_run.messages

    @property
    def usage(self) -> Usage | None:
        """The tokens of all steps together."""
        return self.wait().async_run.usage

    @property
    def cost(self) -> Cost | None:
        """The cost of all steps together in US dollars; None if no price is known."""
        return self.wait().async_run.cost

    @property
    def end(self) -> Finish | Fault | None:
        return self.async_run.end

    def abort(self) -> None:
        """Ends the run now. May be called from another thread."""
        self._thread.run(_abort(self.async_run))

    def close(self) -> None:
        """Closes the connection to the provider and cancels tools, unless the run is finished."""
        if not self._thread.closed:
            self._thread.run(self.async_run.aclose())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


async def _finish(run: Run[Any]) -> None:
    _ = await run


async def _abort(run: Run[Any]) -> None:
    run.abort()
