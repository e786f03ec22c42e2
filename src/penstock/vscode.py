"""`VSCodeStreamAdapter`: any model's stream → the parts of a VS Code reply, with msgspec as the only dependency.

The adapter reads sync and async iterables; each stream has a `VSCodeStream`. docs/adapter.md shows how to use it.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from importlib import import_module
from inspect import isawaitable
from typing import Any, Unpack

from penstock._fold import StreamUsage
from penstock._media import Fetch, RemoteFiles
from penstock._protocols.vscode.encode_parts import HOST
from penstock._protocols.vscode.wire import DataPart, HostPart, TextPart, ThinkingPart, ToolCallPart, usage_part
from penstock._vscode_stream import AdapterOptions, Batch, Outcome, VSCodeStream, merge_options
from penstock.events import Usage

__all__ = [
    "HOST",
    "AdapterOptions",
    "DataPart",
    "HostPart",
    "Outcome",
    "StreamUsage",
    "TextPart",
    "ThinkingPart",
    "ToolCallPart",
    "Usage",
    "VSCodeStream",
    "VSCodeStreamAdapter",
    "usage_part",
]


class VSCodeStreamAdapter:
    """Converts streams into VS Code parts, many at once. Takes options as a mapping, as keywords, or both.

    Examples:
        >>> import asyncio
        >>> from penstock.testing import wire
        >>> adapter = VSCodeStreamAdapter(source="anthropic")
        >>> parts: list[HostPart] = []
        >>> usage = asyncio.run(adapter.process_stream([wire("text", "anthropic")], parts.append))
        >>> "".join(part.value for part in parts if isinstance(part, TextPart))[:52]
        'A penstock is the pipe that feeds water to a turbine'
    """

    def __init__(self, options: AdapterOptions | None = None, /, **more: Unpack[AdapterOptions]) -> None:
        self._options = merge_options(options, more)
        self._fetch = _fetch_function(self._options.get("fetch"))
        self.last: Outcome = Outcome(Usage())  # how the stream ended that ended last
        first = self.stream()  # also rejects an unknown source
        self.restore: Callable[[str], str] = first.restore
        first.log.announce_content()

    def stream(self) -> VSCodeStream:
        """Returns the state of one stream, for callers that do the IO. It fetches nothing."""
        return VSCodeStream(**self._options)

    @property
    def usage(self) -> StreamUsage:
        """The usage of the stream that ended last."""
        return self.last.stream_usage

    async def process_stream(self, stream: Any, report: Any) -> StreamUsage:
        """Reports every part (to a callable, or to its `report`), and returns the usage of this stream.

        The usage has the whole turn: steps, calls and cut calls. `HybridTokenEstimator.calibrate` takes it.
        """
        state = self.stream()
        report_part = getattr(report, "report", report)
        parts = self._drive(stream, state)
        try:
            async for part in parts:
                awaitable = report_part(part)
                if isawaitable(awaitable):
                    await awaitable
        finally:
            await parts.aclose()
        return state.outcome().stream_usage

    def adapt_stream(self, stream: Any) -> AsyncIterator[HostPart]:
        """Yields the parts of a stream."""
        return self._drive(stream, self.stream())

    async def _drive(self, stream: Any, state: VSCodeStream) -> AsyncGenerator[HostPart, None]:
        source = _Source(stream)
        files = RemoteFiles(self._fetch) if self._fetch is not None else None
        try:
            while not source.is_ended and state.raised is None:
                batches = await source.read(state)
                if files is not None:
                    batches = [(cause, await files.fill(events)) for cause, events in batches]
                    state.file_diagnostics = list(files.diagnostics)
                for part in state.encode(batches):
                    yield part
            if state.raised is not None:
                raise state.raised from state.error
        finally:
            self.last = state.outcome()
            state.log_end()
            await source.close()


def _fetch_function(option: Any) -> Fetch | None:
    """Returns the function that fetches files, if any. Imports `penstock.file_fetch` late: this module does no IO."""
    if option is True:
        option = import_module("penstock.file_fetch").Fetcher()
    function: Fetch | None = option or None
    return function


class _Source:
    """Reads the items of an iterable, sync or async. A single body, or a single object of an SDK, is one item."""

    def __init__(self, stream: Any) -> None:
        if _is_single(stream):
            stream = [stream]
        self._is_async = hasattr(stream, "__aiter__")
        self._items: Any = aiter(stream) if self._is_async else iter(stream)
        self.is_ended = False

    async def read(self, state: VSCodeStream) -> list[Batch]:
        """Returns the events of one item, of an exception of the source, or of its end."""
        try:
            item = await anext(self._items) if self._is_async else next(self._items)
        except (StopIteration, StopAsyncIteration):
            self.is_ended = True
            return state.decode_end()
        except Exception as error:  # noqa: BLE001  # any exception of a transport is a fault of the stream
            self.is_ended = True
            return state.decode_failure(error)
        return state.decode(item)

    async def close(self) -> None:
        """Closes a stream that was not read to its end."""
        close = getattr(self._items, "aclose" if self._is_async else "close", None)
        if callable(close):
            closed = close()
            if isawaitable(closed):
                await closed


def _is_single(stream: Any) -> bool:
    """True if this is one item. A model of an SDK is iterable, but yields its fields."""
    if isinstance(stream, str | bytes | bytearray | memoryview | Mapping) or callable(
        getattr(stream, "model_dump", None)
    ):
        return True
    return not hasattr(stream, "__aiter__") and not hasattr(stream, "__iter__") and not hasattr(stream, "__next__")
