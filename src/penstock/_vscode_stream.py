"""`VSCodeStream`: one stream as a state machine without IO: items in, parts out. `penstock.vscode` reads the items.

item → frames → events → (files fetched by the caller) → parts. Every step is logged at level trace, where the caller's
logger wants that. Leans on the decoders, the guard, and the encoder of VS Code's parts.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypedDict, Unpack

import msgspec

from penstock import _protocols as protocols
from penstock import events as ev
from penstock import request as rq
from penstock._diagnostics import Diagnostic
from penstock._fold import Fold, StreamUsage, sum_usage
from penstock._framing.auto import AutoParser
from penstock._grammar import Guard
from penstock._option_checks import (
    FUNCTION_OR_NONE,
    LOGGER,
    MAPPING_OR_NONE,
    TEXT,
    Option,
    check_options,
    one_of,
    options_of,
)
from penstock._protocols.vscode.encode import EMPTY
from penstock._protocols.vscode.encode_parts import HOST, Citations, Reasoning
from penstock._protocols.vscode.encode_parts import OPTIONS as ENCODER_OPTIONS
from penstock._protocols.vscode.objects import PartMaker, as_json, fault_of, from_json
from penstock._protocols.vscode.wire import HostPart, TextPart, spent
from penstock._redaction import redact_cut
from penstock._transforms.tool_names import PREFIX
from penstock.errors import PenstockError, StreamFault
from penstock.events import Usage

if TYPE_CHECKING:
    from penstock._framing.frame import Frame
    from penstock._transforms.remote_files import Fetch

Errors: TypeAlias = Literal["text", "raise"]
Batch: TypeAlias = tuple[str, list[Any]]  # what caused the events, for the log, and the events
ERROR = "**Error:** "
END = "end of input"
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
    fetch: bool | Fetch | None


def _may_fetch(value: Any) -> bool:
    return value is None or isinstance(value, bool) or callable(value)


OPTIONS: dict[str, Option] = options_of(
    AdapterOptions,
    {
        **ENCODER_OPTIONS,
        "source": TEXT,
        "errors": one_of(("text", "raise")),
        "on_unknown": FUNCTION_OR_NONE,
        "logger": LOGGER,
        "fetch": Option("True, False or a function of an address, such as penstock.fetch.Fetcher()", _may_fetch),
    },
)


def checked_options(given: Any, more: Mapping[str, Any]) -> AdapterOptions:
    """The options of an adapter as one mapping. Unknown or wrong ones are an `InputError`."""
    check_options("VSCodeStreamAdapter", {"options": given}, {"options": MAPPING_OR_NONE})
    options: Any = dict(given or {}, **more)
    check_options("VSCodeStreamAdapter", options, OPTIONS)
    return options  # type: ignore[no-any-return]


class Outcome(msgspec.Struct):
    """How a stream ended. `why` says it in words if there is nothing to show, or a fault; else it is empty.

    `steps` is the usage of each step of a turn that has several. `calls` are those that the client must run, with the
    provider's ids; `cut` those that never became whole. `turn` is the whole answer, for `calibrate` and for a history;
    None if the stream held none, or several.
    """

    usage: Usage
    finish: ev.Finish | None = None
    fault: ev.Fault | None = None
    why: str = ""
    cut: list[ev.CallCut] = []
    diagnostics: list[Diagnostic] = []
    steps: list[Usage] = []
    calls: list[rq.Call] = []
    turn: rq.Turn | None = None

    @property
    def stream_usage(self) -> StreamUsage:
        """The usage, with the turn that it belongs to."""
        used = self.usage
        return StreamUsage(
            used.input,
            used.output,
            used.cached,
            used.written,
            used.reasoning,
            used.exact,
            used.step,
            used.extra,
            self.turn,
        )


class VSCodeStream:
    """One stream: `feed` it items, then `finish` it once; each gives parts. Nothing raises but what callbacks raise.

    Whoever fetches files calls `decode`, `decode_end` or `decode_failure`, changes the events, and then `encode`.
    """

    def __init__(self, **options: Unpack[AdapterOptions]) -> None:
        check_options("VSCodeStream", options, OPTIONS)
        self._source = options.get("source", "aisdk")
        self._errors = options.get("errors", "text")
        self._on_unknown = options.get("on_unknown")
        self.log: AdapterLog = AdapterLog(options.get("logger"))
        self._watch = self._on_unknown is not None or bool(self.log)
        self._decoder = protocols.decoder(self._source)
        self._parser = AutoParser()
        self._guard = Guard()
        self._maker = PartMaker(
            host=options.get("host", HOST),
            reasoning=options.get("reasoning"),
            citations=options.get("citations", "both"),
            call_id_prefix=options.get("call_id_prefix", PREFIX),
        )
        self._fold = Fold()
        self._unfolded: list[Any] = []  # events that are folded when somebody asks for the turn
        self._frames_read = 0
        self._shown = False
        self._reported = False  # the fault
        self._closing = False
        self.found: list[Diagnostic] = []  # diagnostics of the code that fetches files
        self.error: Exception | None = None  # what broke the source, if it was an exception

    def feed(self, item: Any) -> list[HostPart]:
        """An item of the stream: a chunk of bytes, whole lines of text, an event, or anything else as an object."""
        return self.encode(self.decode(item))

    def finish(self) -> list[HostPart]:
        """The input has ended."""
        return self.encode(self.decode_end())

    def fail(self, error: Exception) -> list[HostPart]:
        """The input broke off with an exception: a fault of the stream, unless it had come to its end already."""
        return self.encode(self.decode_failure(error))

    # ── items → events ────────────────────────────────────────────────────────────────────────────

    def decode(self, item: Any) -> list[Batch]:
        """The events of an item."""
        try:
            if isinstance(item, ev.Event):
                return [self._event(item)]
            if isinstance(item, str):
                item = item.encode("utf-8", "surrogatepass") + b"\n" * (not item.endswith("\n"))
            if isinstance(item, bytes | bytearray | memoryview):
                return self._frames(self._parser.feed([bytes(item)]))  # pyright: ignore[reportUnknownArgumentType]
        except PenstockError as error:
            return self.decode_failure(error)
        return [self._read([(b"", as_json(item))], item)]

    def decode_end(self) -> list[Batch]:
        """The last events, at the end of the input."""
        try:
            batches = self._frames(self._parser.finish())
        except PenstockError as error:
            return self.decode_failure(error)
        self._closing = True
        return [*batches, (END, self._decoder.finish())]

    def decode_failure(self, error: Exception) -> list[Batch]:
        """The last events, where the input broke off with an exception."""
        self.error = error
        self._closing = True
        events = self._decoder.finish()
        if events and isinstance(events[-1], ev.Fault):
            events[-1] = fault_of(error)
        return [(END, events)]

    def _event(self, event: Any) -> Batch:
        decoder = self._decoder
        if type(event) not in decoder.table:  # only the decoder of canonical events knows them as payloads
            return self._read([(b"", as_json(event))], event)
        decoder.table[type(event)](decoder, event)
        return self._cause((b"", b"")), decoder.ledger.drain()

    def _frames(self, frames: list[Frame]) -> list[Batch]:
        if not self._watch:
            return [("", self._decoder.feed(frames))]
        return [self._read([frame], None) for frame in frames]

    def _read(self, frames: list[Frame], item: Any) -> Batch:
        """Decodes one frame; calls `on_unknown` and logs if it was not understood."""
        if not self._watch:
            return "", self._decoder.feed(frames)
        before, cause = self._unread(), self._cause(frames[0])
        events = self._decoder.feed(frames)
        # By the findings, not by the events: what is unknown before the turn begins comes out with its beginning.
        if self._unread() > before:
            self._unknown(from_json(frames[0][1]) if item is None else item)
        return cause, events

    def _cause(self, frame: Frame) -> str:
        """The name of a frame in the log."""
        self._frames_read += 1
        cause = f"frame {self._frames_read}"
        if self.log.traces and frame[1]:
            name = f"{frame[0].decode('utf-8', 'replace')} " if frame[0] else ""
            self.log.write("trace", f"penstock: {cause}: {name}{frame[1].decode('utf-8', 'replace')}")
        return cause

    def _unread(self) -> int:
        return sum(found.count for found in self._decoder.diagnostics if found.code in _UNREAD)

    def _unknown(self, chunk: Any) -> None:
        kind = chunk.get("type") if isinstance(chunk, Mapping) else getattr(chunk, "type", type(chunk).__name__)  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        self.log.write("debug", f"penstock: {self._source}: a chunk of type {kind!r} is not understood and left out")
        if self._on_unknown is not None:
            self._on_unknown(chunk)

    # ── events → parts ────────────────────────────────────────────────────────────────────────────

    def encode(self, batches: list[Batch]) -> list[HostPart]:
        """The parts of events; after the last ones also what is left at the end."""
        parts = [part for cause, events in batches for part in self._encoded(cause, events)]
        if self._closing:
            parts += [*self._encoded(END, self._guard.finish()), *self._maker.last_parts()]
        return parts

    def _encoded(self, cause: str, events: list[Any]) -> list[HostPart]:
        if not self.log.traces:
            return self._parts(events)
        made: list[HostPart] = []
        for event in events:
            name = f"{cause} → {describe(event)}"
            self.log.write("trace", f"penstock: {name}")
            parts = self._parts([event])
            for part in parts:
                self.log.write("trace", f"penstock: {cause} → {type(event).__name__} → {describe(part)}")
            made += parts
        return made

    def _parts(self, events: list[Any]) -> list[HostPart]:
        if not events:
            return []
        lawful = self._guard.feed(events)
        self._unfolded += lawful
        parts = self._maker.parts(lawful)
        self._shown = self._shown or self._maker.shown
        fault = self._maker.fault
        if fault is not None and not self._reported:
            self._reported = True
            self._log_fault(fault)
            # a cancelled answer is not shown as an error
            if self._errors == "text" and fault.kind != "cancelled":
                parts += [TextPart("\n\n")] if self._shown else []
                parts.append(TextPart(ERROR + fault.message))
        return parts

    def _log_fault(self, fault: ev.Fault) -> None:
        known = {
            "status": fault.status,
            "code": fault.code,
            "request id": fault.request_id,
            "retry after": fault.retry_after,
        }
        details = "".join(f", {name} {value}" for name, value in known.items() if value not in {None, ""})
        level: Level = "warning" if fault.kind == "cancelled" else "error"
        self.log.write(level, f"penstock: {self._source}: {fault.kind}: {fault.message}{details}")

    # ── the end ───────────────────────────────────────────────────────────────────────────────────

    @property
    def raised(self) -> StreamFault | None:
        """The fault as an exception, if that is what was asked for."""
        fault = self._maker.fault
        return StreamFault(fault) if fault is not None and self._errors == "raise" else None

    def outcome(self) -> Outcome:
        """Returns how the stream ended, or its state so far."""
        events, self._unfolded = self._unfolded, []
        self._fold.feed(events)
        maker, turns = self._maker, self._fold.turns
        fault, ending = maker.fault, maker.ending
        why = fault.message if fault else "" if self._shown or not ending else EMPTY[ending.reason]
        used = maker.spendings or [used for used in (spent(maker.usages),) if used is not None]
        usage = used[0] if len(used) == 1 else sum_usage(used)
        found = [*self._decoder.diagnostics, *self.found, *maker.diagnostics]
        return Outcome(
            usage,
            ending,
            fault,
            why,
            maker.cuts,
            found,
            [step for turn in turns for step in turn.steps],
            [part for turn in turns for part in turn.parts if isinstance(part, rq.Call) and _is_for_client(part)],
            turns[0] if len(turns) == 1 else None,
        )

    def restore(self, call_id: str) -> str:
        """The provider's own id of a call, from the one the host gives back with a tool's result."""
        return self._maker.names.restore(call_id)

    def log_end(self) -> None:
        """Logs each diagnostic."""
        if self.log:
            for found in self.outcome().diagnostics:
                level: Level = "warning" if found.code == "call-cut" else "debug"
                self.log.write(level, f"penstock: {found.where}: {found.message} ({found.code}, {found.count} times)")


def _is_for_client(call: rq.Call) -> bool:
    return call.by == "client" and not call.cut and not call.choice and bool(call.json)


Level: TypeAlias = Literal["trace", "debug", "warning", "error"]
TRACE = 5  # below DEBUG (10) of the standard library
METHODS: dict[Level, tuple[str, ...]] = {
    "trace": ("trace",),
    "debug": ("debug",),
    "warning": ("warning", "warn", "error"),
    "error": ("error", "warning", "warn"),
}
WRITES_CONTENT = "penstock: trace is on: the log holds the content of streams; secrets of known forms are removed"
LINE = 2_000  # characters of a line


class AdapterLog:
    """Writes lines to a caller's logger, secrets removed. `traces`: whether it wants lines of level trace."""

    def __init__(self, logger: Any) -> None:
        self._logger = logger
        self.traces: bool = callable(getattr(logger, "trace", None)) or self._standard_trace()

    def __bool__(self) -> bool:
        return self._logger is not None

    def write(self, level: Level, message: str) -> None:
        """One line."""
        text = redact_cut(message, LINE)
        method = next((found for name in METHODS[level] if callable(found := getattr(self._logger, name, None))), None)
        if method is not None:
            method(text)
        elif level == "trace" and self.traces:
            self._logger.log(TRACE, text)

    def announce_content(self) -> None:
        """Say that content is written, where it is."""
        if self.traces:
            self.write("warning", WRITES_CONTENT)

    def _standard_trace(self) -> bool:
        enabled = getattr(self._logger, "isEnabledFor", None)
        return callable(enabled) and callable(getattr(self._logger, "log", None)) and bool(enabled(TRACE))


def describe(item: Any) -> str:
    """A frame, event or part as one line of JSON."""
    try:
        return msgspec.json.encode(item, enc_hook=repr).decode()
    except (UnicodeEncodeError, TypeError, ValueError, RecursionError):
        return ascii(item)
