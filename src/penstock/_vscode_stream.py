"""`VSCodeStream`: converts the items of one stream into VS Code parts, without IO. `penstock.vscode` reads the items.

item → frames → events → (the caller may fetch files) → parts. With a logger of level trace, every step is logged.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypedDict, Unpack

import msgspec

from penstock import _option_checks as checks
from penstock import _protocols as protocols
from penstock import events as ev
from penstock import request as rq
from penstock._diagnostics import Diagnostic
from penstock._fold import Fold, StreamUsage, sum_usage
from penstock._framing import AutoParser
from penstock._grammar import Guard
from penstock._option_checks import Option, check_options
from penstock._printable_text import printable
from penstock._protocols.vscode import encode_parts
from penstock._protocols.vscode.encode import PartObjectEncoder, explain_empty_answer
from penstock._protocols.vscode.wire import HostPart, TextPart, total_usage
from penstock._redaction import redact_cut
from penstock.errors import PenstockError, StreamFault
from penstock.events import Usage

if TYPE_CHECKING:
    from penstock._framing.base import Frame
    from penstock._media import Fetch

Errors: TypeAlias = Literal["text", "raise"]
Batch: TypeAlias = tuple[str, list[Any]]  # the cause of events, for the log, and the events
ERROR = "**Error:** "
END = "end of input"
_UNREAD_CODES = ("unknown", "wrong-shape", "malformed")  # diagnostics: a chunk, or part of it, could not be read


class AdapterOptions(TypedDict, total=False):
    """The options of an adapter, all optional. docs/adapter.md describes them."""

    source: str
    host: Collection[str]
    reasoning: encode_parts.Reasoning | None
    citations: encode_parts.Citations
    errors: Errors
    call_id_prefix: str | None
    on_unknown: Callable[[Any], object] | None
    logger: Any
    fetch: bool | Fetch | None


def _is_fetch_option(value: Any) -> bool:
    return value is None or isinstance(value, bool) or callable(value)


OPTIONS: dict[str, Option] = checks.options_of(
    AdapterOptions,
    {
        **encode_parts.OPTIONS,
        "source": checks.TEXT,
        "errors": checks.one_of(("text", "raise")),
        "on_unknown": checks.FUNCTION_OR_NONE,
        "logger": checks.LOGGER,
        "fetch": Option(
            "True, False or a function of an address, such as penstock.file_fetch.Fetcher()", _is_fetch_option
        ),
    },
)


def merge_options(options_mapping: Any, more: Mapping[str, Any]) -> AdapterOptions:
    """Returns the options of an adapter as one mapping. Raises `InputError` for unknown or wrong ones."""
    check_options("VSCodeStreamAdapter", {"options": options_mapping}, {"options": checks.MAPPING_OR_NONE})
    options: Any = dict(options_mapping or {}, **more)
    check_options("VSCodeStreamAdapter", options, OPTIONS)
    return options  # type: ignore[no-any-return]


class Outcome(msgspec.Struct):
    """How a stream ended. `why` is the reason if there is nothing to show, or a fault; else it is empty.

    `steps` is the usage of each step of a turn with several steps. `calls` are those that the client must run, with the
    provider's ids; `cut` those that were cut short. `turn` is the whole answer, for `calibrate` and for a history;
    None if the stream had none, or several.
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
        return StreamUsage(**msgspec.structs.asdict(self.usage), turn=self.turn)


class VSCodeStream:
    """Converts one stream: `feed` takes items, `finish` or `fail` ends it; all return parts. Only callbacks raise.

    A caller that fetches files calls `decode`, `decode_end` or `decode_failure`, changes the events, and then `encode`.
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
        self._encoder = PartObjectEncoder(
            **{key: value for key, value in options.items() if key in encode_parts.OPTIONS}
        )
        self._fold = Fold()
        self._unfolded: list[Any] = []  # events that `outcome` folds
        self._frame_count = 0
        self._has_output = False
        self._is_fault_reported = False
        self._is_ended = False
        self.file_diagnostics: list[Diagnostic] = []  # of the code that fetches files
        self.error: Exception | None = None  # the exception of the source

    def feed(self, item: Any) -> list[HostPart]:
        """Reads an item: a chunk of bytes, lines of text, an event, or any other object."""
        return self.encode(self.decode(item))

    def finish(self) -> list[HostPart]:
        """Ends the stream at the end of the input."""
        return self.encode(self.decode_end())

    def fail(self, error: Exception) -> list[HostPart]:
        """Ends the stream with an exception of the input: a fault, unless the turn had ended before."""
        return self.encode(self.decode_failure(error))

    # ── items → events ────────────────────────────────────────────────────────────────────────────

    def decode(self, item: Any) -> list[Batch]:
        """Returns the events of an item."""
        try:
            if isinstance(item, ev.Event):
                return [self._decode_event(item)]
            if isinstance(item, str):
                item = item.encode("utf-8", "surrogatepass") + b"\n" * (not item.endswith("\n"))
            if isinstance(item, bytes | bytearray | memoryview):
                return self._decode_frames(self._parser.feed([bytes(item)]))  # pyright: ignore[reportUnknownArgumentType]
        except PenstockError as error:
            return self.decode_failure(error)
        return [self._decode_frame([(b"", _to_json(item))], item)]

    def decode_end(self) -> list[Batch]:
        """Returns the last events, at the end of the input."""
        try:
            batches = self._decode_frames(self._parser.finish())
        except PenstockError as error:
            return self.decode_failure(error)
        self._is_ended = True
        return [*batches, (END, self._decoder.finish())]

    def decode_failure(self, error: Exception) -> list[Batch]:
        """Returns the last events, after an exception of the input."""
        self.error = error
        self._is_ended = True
        events = self._decoder.finish()
        if events and isinstance(events[-1], ev.Fault):
            events[-1] = _fault_from(error)
        return [(END, events)]

    def _decode_event(self, event: Any) -> Batch:
        decoder = self._decoder
        if type(event) not in decoder.table:  # only the decoder of canonical events knows them as payloads
            return self._decode_frame([(b"", _to_json(event))], event)
        decoder.table[type(event)](decoder, event)
        return self._log_frame((b"", b"")), decoder.ledger.drain()

    def _decode_frames(self, frames: list[Frame]) -> list[Batch]:
        if not self._watch:
            return [("", self._decoder.feed(frames))]
        return [self._decode_frame([frame], None) for frame in frames]

    def _decode_frame(self, frames: list[Frame], item: Any) -> Batch:
        """Decodes one frame; calls `on_unknown` and logs if it was not understood."""
        if not self._watch:
            return "", self._decoder.feed(frames)
        before, cause = self._count_unread(), self._log_frame(frames[0])
        events = self._decoder.feed(frames)
        # Compares diagnostics, not events: an unknown chunk before the turn comes out with the start of the turn.
        if self._count_unread() > before:
            self._report_unknown(_from_json(frames[0][1]) if item is None else item)
        return cause, events

    def _log_frame(self, frame: Frame) -> str:
        """Logs a frame, and returns its name in the log."""
        self._frame_count += 1
        cause = f"frame {self._frame_count}"
        if self.log.traces and frame[1]:
            name = f"{frame[0].decode('utf-8', 'replace')} " if frame[0] else ""
            self.log.write("trace", f"penstock: {cause}: {name}{frame[1].decode('utf-8', 'replace')}")
        return cause

    def _count_unread(self) -> int:
        return sum(found.count for found in self._decoder.diagnostics if found.code in _UNREAD_CODES)

    def _report_unknown(self, chunk: Any) -> None:
        kind = chunk.get("type") if isinstance(chunk, Mapping) else getattr(chunk, "type", type(chunk).__name__)  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        self.log.write("debug", f"penstock: {self._source}: a chunk of type {kind!r} is not understood and left out")
        if self._on_unknown is not None:
            self._on_unknown(chunk)

    # ── events → parts ────────────────────────────────────────────────────────────────────────────

    def encode(self, batches: list[Batch]) -> list[HostPart]:
        """Returns the parts of events. At the end also the parts that were held back."""
        parts = [part for cause, events in batches for part in self._encode_batch(cause, events)]
        if self._is_ended:
            parts += [*self._encode_batch(END, self._guard.finish()), *self._encoder.finish_parts()]
        return parts

    def _encode_batch(self, cause: str, events: list[Any]) -> list[HostPart]:
        if not self.log.traces:
            return self._encode_events(events)
        parts: list[HostPart] = []
        for event in events:
            self.log.write("trace", f"penstock: {cause} → {describe(event)}")
            for part in self._encode_events([event]):
                self.log.write("trace", f"penstock: {cause} → {type(event).__name__} → {describe(part)}")
                parts.append(part)
        return parts

    def _encode_events(self, events: list[Any]) -> list[HostPart]:
        if not events:
            return []
        checked = self._guard.feed(events)
        self._unfolded += checked
        parts = self._encoder.encode_parts(checked)
        self._has_output = self._has_output or self._encoder.has_output
        fault = self._encoder.last_fault
        if fault is not None and not self._is_fault_reported:
            self._is_fault_reported = True
            self._log_fault(fault)
            # a cancelled answer is not shown as an error
            if self._errors == "text" and fault.kind != "cancelled":
                parts += [TextPart("\n\n")] if self._has_output else []
                parts.append(TextPart(ERROR + fault.message))
        return parts

    def _log_fault(self, fault: ev.Fault) -> None:
        names = ("status", "code", "request_id", "retry_after")
        fields = {name.replace("_", " "): getattr(fault, name) for name in names}
        details = "".join(f", {name} {value}" for name, value in fields.items() if value not in {None, ""})
        level: Level = "warning" if fault.kind == "cancelled" else "error"
        self.log.write(level, f"penstock: {self._source}: {fault.kind}: {fault.message}{details}")

    # ── the end ───────────────────────────────────────────────────────────────────────────────────

    @property
    def raised(self) -> StreamFault | None:
        """The fault as an exception, if the option `errors` is `raise`."""
        fault = self._encoder.last_fault
        return StreamFault(fault) if fault is not None and self._errors == "raise" else None

    def outcome(self) -> Outcome:
        """Returns how the stream ended, or its state so far."""
        events, self._unfolded = self._unfolded, []
        self._fold.feed(events)
        encoder, turns = self._encoder, self._fold.turns
        fault, finish = encoder.last_fault, encoder.last_finish
        why = fault.message if fault else ""
        if finish and not fault and not self._has_output:
            why = explain_empty_answer(finish, has_cut_call=bool(encoder.cut_calls))
        usages = encoder.turn_usages or [usage for usage in (total_usage(encoder.usages),) if usage is not None]
        usage = usages[0] if len(usages) == 1 else sum_usage(usages)
        if any(turn.usage is not None and turn.usage.summed for turn in turns):
            usage = msgspec.structs.replace(usage, summed=True)
        return Outcome(
            usage,
            finish,
            fault,
            why,
            encoder.cut_calls,
            [*self._decoder.diagnostics, *self.file_diagnostics, *encoder.diagnostics],
            [step for turn in turns for step in turn.steps],
            [part for turn in turns for part in turn.parts if isinstance(part, rq.Call) and _is_for_client(part)],
            turns[0] if len(turns) == 1 else None,
        )

    def restore(self, call_id: str) -> str:
        """Returns the provider's id of a call, from the id that the host sends with a tool's result."""
        return self._encoder.names.restore(call_id)

    def log_end(self) -> None:
        """Logs each diagnostic."""
        if self.log:
            for row in self.outcome().diagnostics:
                level: Level = "warning" if row.code == "call-cut" else "debug"
                self.log.write(level, f"penstock: {row.where}: {row.message} ({row.code}, {row.count} times)")


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
LINE_CHARACTERS = 2_000  # a longer line of the log is cut


class AdapterLog:
    """Writes lines to a caller's logger, without secrets. `traces`: the logger takes lines of level trace."""

    def __init__(self, logger: Any) -> None:
        self._logger = logger
        self.traces: bool = callable(getattr(logger, "trace", None)) or self._standard_trace()

    def __bool__(self) -> bool:
        return self._logger is not None

    def write(self, level: Level, message: str) -> None:
        """Writes one line."""
        text = printable(redact_cut(message, LINE_CHARACTERS))
        method = next((found for name in METHODS[level] if callable(found := getattr(self._logger, name, None))), None)
        if method is not None:
            method(text)
        elif level == "trace" and self.traces:
            self._logger.log(TRACE, text)

    def announce_content(self) -> None:
        """Warns that the log holds content, if it does."""
        if self.traces:
            self.write("warning", WRITES_CONTENT)

    def _standard_trace(self) -> bool:
        enabled = getattr(self._logger, "isEnabledFor", None)
        return callable(enabled) and callable(getattr(self._logger, "log", None)) and bool(enabled(TRACE))


def describe(item: Any) -> str:
    """Returns a frame, event or part as one line of JSON."""
    try:
        return msgspec.json.encode(item, enc_hook=repr).decode()
    except (UnicodeEncodeError, TypeError, ValueError, RecursionError):
        return ascii(item)


def _to_json(item: Any) -> bytes:
    """Returns any object as JSON: data, Structs, dataclasses, models with `model_dump`, objects with attributes."""
    try:
        return msgspec.json.encode(item, enc_hook=_object_fields)
    except (TypeError, ValueError, OverflowError, RecursionError):  # lone surrogates, keys that are not strings
        try:
            return json.dumps(item, default=_object_fields, skipkeys=True).encode()
        except (TypeError, ValueError, RecursionError):
            return msgspec.json.encode(ascii(item))


def _object_fields(item: Any) -> Any:
    if isinstance(item, BaseException):
        return {"name": type(item).__name__, "message": str(item)}
    dump = getattr(item, "model_dump", None)
    if callable(dump):
        return dump(mode="json", by_alias=True, exclude_none=True)
    if isinstance(item, Mapping):
        return dict(item)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
    fields: Any = getattr(item, "__dict__", None)
    return repr(item) if fields is None else fields


def _from_json(data: bytes) -> Any:
    """Returns the value of JSON; the text if it is not JSON."""
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, ValueError, RecursionError):  # bytes that are not UTF-8 are a ValueError
        return data.decode("utf-8", "replace")


def _fault_from(error: Exception) -> ev.Fault:
    """Returns an exception of the transport, or of the parser, as a fault."""
    if isinstance(error, StreamFault):
        return error.fault
    network: ev.FaultKind = "timeout" if isinstance(error, TimeoutError) else "network"
    kind: ev.FaultKind = "malformed" if isinstance(error, PenstockError) else network
    return ev.Fault(kind, str(error) or type(error).__name__, code=type(error).__name__)
