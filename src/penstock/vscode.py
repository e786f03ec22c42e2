"""`VSCodeStreamAdapter`: any model's stream → the parts of a VS Code reply, with msgspec as the only dependency.

The adapter reads sync and async iterables; each stream has a `VSCodeStream`. docs/adapter.md shows how to use it.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from importlib import import_module
from inspect import isawaitable
from typing import Any, Unpack

from penstock._fold import StreamUsage
from penstock._protocols.vscode.encode_parts import HOST
from penstock._protocols.vscode.wire import DataPart, HostPart, TextPart, ThinkingPart, ToolCallPart, usage_part
from penstock._transforms.remote_files import Fetch, RemoteFiles
from penstock._vscode_stream import AdapterOptions, Batch, Outcome, VSCodeStream, checked_options
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
    """Options as one mapping, as keywords, or both. One adapter may serve many streams at once."""

    def __init__(self, options: AdapterOptions | None = None, /, **more: Unpack[AdapterOptions]) -> None:
        self._options = checked_options(options, more)
        self._fetch = _fetch_function(self._options.get("fetch"))
        self.last: Outcome | None = None
        first = self.stream()  # also rejects an unknown source
        self.restore: Callable[[str], str] = first.restore
        first.log.announce_content()

    def stream(self) -> VSCodeStream:
        """The state of one stream, for callers who do their own IO. It fetches nothing."""
        return VSCodeStream(**self._options)

    @property
    def usage(self) -> StreamUsage:
        """The usage of the stream that ended last."""
        return StreamUsage() if self.last is None else self.last.stream_usage

    async def process_stream(self, stream: Any, report: Any) -> StreamUsage:
        """Report every part (to a callable, or to its `report`), and give the usage of this stream.

        The usage knows the whole turn: its steps, calls and cuts. `HybridTokenEstimator.calibrate` takes it as it is.
        """
        run = self.stream()
        say = getattr(report, "report", report)
        parts = self._drive(stream, run)
        try:
            async for part in parts:
                answer = say(part)
                if isawaitable(answer):
                    await answer
        finally:
            await parts.aclose()
        return run.outcome().stream_usage

    def adapt_stream(self, stream: Any) -> AsyncIterator[HostPart]:
        """The parts of a stream, one by one."""
        return self._drive(stream, self.stream())

    async def _drive(self, stream: Any, run: VSCodeStream) -> AsyncGenerator[HostPart, None]:
        source = _Source(stream)
        files = RemoteFiles(self._fetch) if self._fetch is not None else None
        try:
            while not source.over and run.raised is None:
                batches = await source.read(run)
                if files is not None:
                    batches = [(cause, await files.fill(events)) for cause, events in batches]
                    run.file_diagnostics = list(files.diagnostics)
                for part in run.encode(batches):
                    yield part
            if run.raised is not None:
                raise run.raised from run.error
        finally:
            self.last = run.outcome()
            run.log_end()
            await source.close()


def _fetch_function(option: Any) -> Fetch | None:
    """The function that fetches files, if any does. The guarded one is found by name: this module does no IO."""
    if option is True:
        option = import_module("penstock.fetch").Fetcher()
    found: Fetch | None = option or None
    return found


class _Source:
    """The items of an iterable, sync or async. A single body, or a single object of an SDK, is its only item."""

    def __init__(self, stream: Any) -> None:
        if _is_single(stream):
            stream = [stream]
        self._later = hasattr(stream, "__aiter__")
        self._items: Any = aiter(stream) if self._later else iter(stream)
        self.over = False

    async def read(self, run: VSCodeStream) -> list[Batch]:
        """The events of one item; exceptions of the source and its end have events too."""
        try:
            item = await anext(self._items) if self._later else next(self._items)
        except (StopIteration, StopAsyncIteration):
            self.over = True
            return run.decode_end()
        except Exception as error:  # noqa: BLE001  # whatever a transport raises is a fault of the stream
            self.over = True
            return run.decode_failure(error)
        return run.decode(item)

    async def close(self) -> None:
        """Closes a stream that was not read to its end."""
        close = getattr(self._items, "aclose" if self._later else "close", None)
        if callable(close):
            closed = close()
            if isawaitable(closed):
                await closed


def _is_single(stream: Any) -> bool:
    """Whether this is one item. A model of an SDK can be iterated, but gives its fields then."""
    if isinstance(stream, str | bytes | bytearray | memoryview | Mapping) or callable(
        getattr(stream, "model_dump", None)
    ):
        return True
    return not hasattr(stream, "__aiter__") and not hasattr(stream, "__iter__") and not hasattr(stream, "__next__")
