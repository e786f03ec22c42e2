"""`VSCodeStreamAdapter`: any model's stream → the parts of a VS Code reply, with msgspec as the only dependency.

`VSCodeStream` is one stream, without IO: items in, parts out. The adapter reads iterables, sync or async, into as many
of them as are under way. docs/adapter.md shows how to use it.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Mapping
from inspect import isawaitable
from typing import Any, Literal, TypeAlias, TypedDict, Unpack

import msgspec

from penstock import events as ev
from penstock import protocols
from penstock.diagnostics import Diagnostic
from penstock.errors import PenstockError, StreamFault
from penstock.events import Usage
from penstock.fold import total
from penstock.framing import AutoParser, Frame
from penstock.grammar import Guard
from penstock.protocols.vscode.items import as_json, fault_of, from_json
from penstock.protocols.vscode.losses import EMPTY
from penstock.protocols.vscode.objects import PartMaker
from penstock.protocols.vscode.options import HOST, Citations, Reasoning, check
from penstock.protocols.vscode.parts import DataPart, HostPart, TextPart, ThinkingPart, ToolCallPart
from penstock.protocols.vscode.tokens import spent, usage_part
from penstock.shaping.namespace import PREFIX

__all__ = [
    "HOST", "AdapterOptions", "DataPart", "HostPart", "Outcome", "TextPart", "ThinkingPart", "ToolCallPart", "Usage",
    "VSCodeStream", "VSCodeStreamAdapter", "usage_part",
]  # fmt: skip

Errors: TypeAlias = Literal["text", "raise"]
ERROR = "**Error:** "
_UNREAD = ("unknown", "wrong-shape", "malformed")  # findings: a chunk, or part of it, could not be read


class AdapterOptions(TypedDict, total=False):
    """Everything may be left out. See docs/adapter.md for what each means."""

    source: str
    host: Collection[str]
    reasoning: Reasoning | None
    citations: Citations
    errors: Errors
    call_id_prefix: str | None
    on_unknown: Callable[[Any], object] | None
    logger: Any


class Outcome(msgspec.Struct):
    """How a stream ended. `why` says it in words if there is nothing to show, or a fault; else it is empty."""

    usage: Usage
    finish: ev.Finish | None = None
    fault: ev.Fault | None = None
    why: str = ""
    cut: list[ev.CallCut] = []
    diagnostics: list[Diagnostic] = []


class VSCodeStream:
    """One stream: `feed` it items, then `finish` it once; each gives parts. Nothing raises but what callbacks raise."""

    def __init__(self, **options: Unpack[AdapterOptions]) -> None:
        self._source = options.get("source", "aisdk")
        self._errors = options.get("errors", "text")
        check("errors", self._errors, ("text", "raise"))
        self._on_unknown = options.get("on_unknown")
        self._logger = options.get("logger")
        self._watch = self._on_unknown is not None or self._logger is not None
        self._decoder = protocols.decoder(self._source)
        self._parser = AutoParser()
        self._guard = Guard()
        self._maker = PartMaker(
            host=options.get("host", HOST), reasoning=options.get("reasoning"),
            citations=options.get("citations", "both"), call_id_prefix=options.get("call_id_prefix", PREFIX),
        )  # fmt: skip
        self._shown = False
        self._told = False
        self.error: Exception | None = None  # what broke the source, if it was an exception

    def feed(self, item: Any) -> list[HostPart]:
        """An item of the stream: a chunk of bytes, whole lines of text, an event, or anything else as an object."""
        try:
            if isinstance(item, ev.Event):
                return self._parts(self._event(item))
            if isinstance(item, str):
                item = item.encode("utf-8", "surrogatepass") + b"\n" * (not item.endswith("\n"))
            if isinstance(item, bytes | bytearray):
                return self._frames(self._parser.feed([bytes(item)]))
        except PenstockError as error:
            return self.fail(error)
        return self._parts(self._read([(b"", as_json(item))], item))

    def finish(self) -> list[HostPart]:
        """The input has ended."""
        try:
            parts = self._frames(self._parser.finish())
        except PenstockError as error:
            return self.fail(error)
        return parts + self._parts(self._decoder.finish()) + self._close()

    def fail(self, error: Exception) -> list[HostPart]:
        """The input broke off with an exception: a fault of the stream, unless it had come to its end already."""
        self.error = error
        events = self._decoder.finish()
        if events and isinstance(events[-1], ev.Fault):
            events[-1] = fault_of(error)
        return self._parts(events) + self._close()

    def _close(self) -> list[HostPart]:
        return self._parts(self._guard.finish()) + self._maker.last_parts()

    # ── reading ───────────────────────────────────────────────────────────────────────────────────

    def _event(self, event: Any) -> list[Any]:
        decoder = self._decoder
        if type(event) not in decoder.table:  # only the decoder of canonical events knows them as payloads
            return self._read([(b"", as_json(event))], event)
        decoder.table[type(event)](decoder, event)
        return decoder.ledger.drain()

    def _frames(self, frames: list[Frame]) -> list[HostPart]:
        if not self._watch:
            return self._parts(self._decoder.feed(frames))
        return [part for frame in frames for part in self._parts(self._read([frame], None))]

    def _read(self, frames: list[Frame], item: Any) -> list[Any]:
        """Decode one frame, and tell whoever wants to know if it was not understood."""
        if not self._watch:
            return self._decoder.feed(frames)
        before = self._unread()
        events = self._decoder.feed(frames)
        # By the findings, not by the events: what is unknown before the turn begins comes out with its beginning.
        if self._unread() > before:
            self._unknown(from_json(frames[0][1]) if item is None else item)
        return events

    def _unread(self) -> int:
        return sum(found.count for found in self._decoder.diagnostics if found.code in _UNREAD)

    def _unknown(self, chunk: Any) -> None:
        kind = chunk.get("type") if isinstance(chunk, Mapping) else getattr(chunk, "type", type(chunk).__name__)  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        self._log("debug", f"penstock: {self._source}: a chunk of type {kind!r} is not understood and left out")
        if self._on_unknown is not None:
            self._on_unknown(chunk)

    def _log(self, level: str, message: str) -> None:
        write = getattr(self._logger, level, None)
        if callable(write):
            write(message)

    # ── what comes out ────────────────────────────────────────────────────────────────────────────

    def _parts(self, events: list[Any]) -> list[HostPart]:
        parts = self._maker.parts(self._guard.feed(events)) if events else []
        self._shown = self._shown or self._maker.shown
        fault = self._maker.fault
        if fault is not None and not self._told:
            self._told = True
            # an answer that somebody stopped is no error to show
            if self._errors == "text" and fault.kind != "cancelled":
                parts += [TextPart("\n\n")] if self._shown else []
                parts.append(TextPart(ERROR + fault.message))
        return parts

    @property
    def raised(self) -> StreamFault | None:
        """The fault as an exception, if that is what was asked for."""
        fault = self._maker.fault
        return StreamFault(fault) if fault is not None and self._errors == "raise" else None

    def outcome(self) -> Outcome:
        """How it ended, or stands so far."""
        maker = self._maker
        fault, ending = maker.fault, maker.ending
        why = fault.message if fault else "" if self._shown or not ending else EMPTY[ending.reason]
        used = maker.spendings or [used for used in (spent(maker.usages),) if used is not None]
        usage = used[0] if len(used) == 1 else total(used)
        found = [*self._decoder.diagnostics, *maker.diagnostics]
        return Outcome(usage, ending, fault, why, maker.cuts, found)

    def restore(self, call_id: str) -> str:
        """The provider's own id of a call, from the one the host gives back with a tool's result."""
        return self._maker.names.restore(call_id)

    def log_end(self) -> None:
        """Leave a line in the log for each finding."""
        if self._logger is not None:
            for found in self.outcome().diagnostics:
                level = "warning" if found.code == "call-cut" else "debug"
                self._log(level, f"penstock: {found.where}: {found.message} ({found.code}, {found.count} times)")


class VSCodeStreamAdapter:
    """Options as one mapping, as keywords, or both. One adapter may serve many streams at once."""

    def __init__(self, options: AdapterOptions | None = None, /, **more: Unpack[AdapterOptions]) -> None:
        self._options: AdapterOptions = {**(options or {}), **more}
        self.last: Outcome | None = None
        self.restore = self.stream().restore  # also refuses wrong options here and now

    def stream(self) -> VSCodeStream:
        """The state of one stream, for callers who do their own IO."""
        return VSCodeStream(**self._options)

    @property
    def usage(self) -> Usage:
        """What the stream that ended last has used."""
        return Usage() if self.last is None else self.last.usage

    async def process_stream(self, stream: Any, report: Any) -> Usage:
        """Report every part (to a callable, or to its `report`), and give the usage of this stream."""
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
        return run.outcome().usage

    def adapt_stream(self, stream: Any) -> AsyncIterator[HostPart]:
        """The parts of a stream, one by one."""
        return self._drive(stream, self.stream())

    async def _drive(self, stream: Any, run: VSCodeStream) -> AsyncGenerator[HostPart, None]:
        source = _Source(stream)
        try:
            while not source.over and run.raised is None:
                for part in await source.into(run):
                    yield part
            if run.raised is not None:
                raise run.raised from run.error
        finally:
            self.last = run.outcome()
            run.log_end()
            await source.close()


class _Source:
    """The items of an iterable, whichever colour it has."""

    def __init__(self, stream: Any) -> None:
        if isinstance(stream, str | bytes | bytearray | Mapping):
            stream = [stream]
        self._later = hasattr(stream, "__aiter__")
        self._items: Any = aiter(stream) if self._later else iter(stream)
        self.over = False

    async def into(self, run: VSCodeStream) -> list[HostPart]:
        """Read one item into a stream; its exceptions and its end go there too."""
        try:
            item = await anext(self._items) if self._later else next(self._items)
        except (StopIteration, StopAsyncIteration):
            self.over = True
            return run.finish()
        except Exception as error:  # noqa: BLE001  # whatever a transport raises is a fault of the stream
            self.over = True
            return run.fail(error)
        return run.feed(item)

    async def close(self) -> None:
        """Let go of a stream that was not read to its end."""
        close = getattr(self._items, "aclose" if self._later else "close", None)
        if callable(close):
            closed = close()
            if isawaitable(closed):
                await closed
