"""Logging to standard error, as text or JSON, with secrets redacted; and the trace log of turns.

Only loggers under `penstock` are configured, so that an application that mounts the gateway keeps its own set-up.
At level trace the log shows which frame of a provider caused which events, and which frames the client got. The bytes
of a turn are traced again as they come, as `penstock inspect` does (`_stream_trace`). The trace contains content: with
gateway keys it needs `log.content`.
"""

from __future__ import annotations

import logging
import sys
import time
from copy import deepcopy
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TextIO

import msgspec

from penstock import _protocols as protocols
from penstock import events as ev
from penstock._bridge import parser
from penstock._gateway import client_stream
from penstock._grammar import Guard
from penstock._pipeline import Pipe
from penstock._printable_text import printable
from penstock._redaction import redact_cut
from penstock._stream_trace import BodyParser, Tracer, TraceStep
from penstock._vscode_stream import LINE_CHARACTERS, TRACE, describe
from penstock.errors import PenstockError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from penstock._engines.reply import ModelReply
    from penstock._gateway.config import Log
    from penstock._gateway.endpoints import IncomingRequest, TurnRequest

ROOT = "penstock"
logging.addLevelName(TRACE, "TRACE")
_STANDARD_FIELDS = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
_MAX_LINE = 2_000  # characters of a line that are shown; it is cut before it is redacted
_MAX_STACK_LINES = 40  # lines of a stack that are shown at its beginning, and at its end


class _TextFormatter(logging.Formatter):
    """One line for each record, its stack below it."""

    def __init__(self, secrets: Callable[[], Iterable[str]]) -> None:
        super().__init__()
        self._secrets = secrets

    def format(self, record: logging.LogRecord) -> str:
        head = f"{_format_time(record.created)} {record.levelname.lower():<7} {record.name}: {record.getMessage()}"
        more = " ".join(f"{name}={value}" for name, value in _extra_fields(record).items())
        lines = [f"{head} {more}".rstrip(), *self._stack(record)]
        return "\n".join(self.redact_line(line) for line in lines)

    def _stack(self, record: logging.LogRecord) -> list[str]:
        lines = self.formatException(record.exc_info).splitlines() if record.exc_info else []
        more = len(lines) - 2 * _MAX_STACK_LINES
        return [*lines[:_MAX_STACK_LINES], f"… [{more} more lines]", *lines[-_MAX_STACK_LINES:]] if more > 0 else lines

    def redact_line(self, text: str) -> str:
        return printable(redact_cut(text, _MAX_LINE, self._secrets()))


class _JsonFormatter(_TextFormatter):
    """One JSON object for each record."""

    def format(self, record: logging.LogRecord) -> str:
        fields: dict[str, Any] = {
            "time": _format_time(record.created),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": self.redact_line(record.getMessage()),
        }
        fields |= {name: self.redact_line(str(value)) for name, value in _extra_fields(record).items()}
        stack = self._stack(record)
        if stack:
            fields["stack"] = [self.redact_line(line) for line in stack]
        return msgspec.json.encode(fields).decode()


def setup_logging(log: Log, secrets: Callable[[], Iterable[str]] = tuple, file: TextIO | None = None) -> None:
    """Send the logs of penstock to standard error; a second call replaces the first."""
    root = logging.getLogger(ROOT)
    for old in list(root.handlers):
        if isinstance(old.formatter, _TextFormatter):
            root.removeHandler(old)
    handler = logging.StreamHandler(file or sys.stderr)
    handler.setFormatter(_JsonFormatter(secrets) if log.form == "json" else _TextFormatter(secrets))
    root.addHandler(handler)
    root.setLevel(log.level.upper())
    root.propagate = False
    if log.level == "trace":
        logging.getLogger(f"{ROOT}.trace").warning(TRACE_WRITES_CONTENT)


def _extra_fields(record: logging.LogRecord) -> dict[str, Any]:
    """What was said in `extra`."""
    return {name: value for name, value in vars(record).items() if name not in _STANDARD_FIELDS}


def _format_time(at: float) -> str:
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(at))}.{int(at % 1 * 1000):03}Z"


__all__ = ["TRACE", "TRACE_NEEDS_CONTENT", "TRACE_WRITES_CONTENT", "TraceLog", "log_trace"]

TRACE_WRITES_CONTENT = "log level trace: the content of requests and answers is written to this log, secrets removed"
TRACE_NEEDS_CONTENT = (
    "log level trace writes what callers and models say. With gateway keys it needs log.content = true in penstock.toml"
)
log_trace = logging.getLogger("penstock.trace")
_encode = msgspec.json.Encoder().encode_lines


class TracedTurn(Protocol):
    """The part of a `Turn` that observers use."""

    incoming: IncomingRequest
    turn_request: TurnRequest | None
    reply: ModelReply | None
    fault: ev.Fault | None


class TraceLog:
    """Logs the trace of one turn. `observer` is another observer that gets the same calls."""

    def __init__(self, turn: TracedTurn, observer: Any, secrets: Iterable[str]) -> None:
        self._turn, self._observer = turn, observer
        self._id = turn.incoming.id
        caller = turn.incoming.caller
        self._secrets = (*secrets, *((caller.secret,) if caller.secret else ()))
        self._raw = True
        self._tracer: Tracer | None = None
        self._logged_steps = 0  # steps that are logged
        self._names: dict[int, str] = {}  # of steps
        self._frames = 0
        self._write(f"request: {turn.incoming.raw.decode('utf-8', 'replace')}")

    def on_reply(self, reply: ModelReply) -> None:
        """The answer has begun."""
        turn_request = self._turn.turn_request
        if self._observer is not None:
            self._observer.on_reply(reply)
        if turn_request is None:
            return
        self._raw = reply.raw
        protocol, framing = (reply.protocol, reply.framing) if reply.raw else ("events", "ndjson")
        parse: Any = BodyParser() if framing == BodyParser.framing else parser(framing)
        shaping = deepcopy(reply.transforms) if reply.raw else ()
        front = Pipe(parse, protocols.decoder(protocol), Guard(), *shaping)
        passthrough = client_stream.can_pass_through(turn_request, reply)
        stages = client_stream.replay_stages(turn_request, passthrough=passthrough, cleared=reply.cleared)
        self._tracer = Tracer(front, *stages)

    def on_attempt(self, upstream: Any, record: Any) -> None:
        """A request for a provider is built."""
        if self._observer is not None:
            self._observer.on_attempt(upstream, record)

    def on_notice(self, payload: bytes) -> None:
        """A notice was sent before the answer."""
        if self._observer is not None:
            self._observer.on_notice(payload)
        self._write(f"notice → output {payload.decode('utf-8', 'replace')}")

    def on_read(self, chunk: bytes, events: list[ev.AnyEvent]) -> None:
        """The provider has sent a chunk."""
        if self._observer is not None:
            self._observer.on_read(chunk, events)
        data = chunk if self._raw else _encode(events)
        if self._tracer is not None and data:
            self._trace(partial(self._tracer.feed, data), self._tracer)

    def on_end(self, turn: TracedTurn, row: Any) -> None:
        """The turn has ended."""
        if self._observer is not None:
            self._observer.on_end(turn, row)
        if turn.reply is None and turn.fault is not None:
            self._write(f"no answer → {describe(turn.fault)}")
        if self._tracer is not None:
            end = turn.fault or (turn.reply.end if turn.reply is not None else None)
            fault = end if isinstance(end, ev.Fault) else None
            self._trace(partial(self._tracer.finish, fault, broken=fault is not None), self._tracer)

    # ── lines ─────────────────────────────────────────────────────────────────────────────────────

    def _trace(self, work: Callable[[], object], tracer: Tracer) -> None:
        try:
            work()
        except PenstockError as error:
            self._write(f"the trace ends here: {error}")
            self._tracer = None
            return
        for number, step in enumerate(tracer.steps[self._logged_steps :], self._logged_steps):
            self._write(self._format_step(number, step))
        self._logged_steps = len(tracer.steps)

    def _format_step(self, number: int, step: TraceStep) -> str:
        """Format a step with its cause: `frame 3 → TextDelta 5 → output …`."""
        cause = self._names.get(step.cause, "") if step.cause is not None else "end of input"
        if step.kind == "frame":
            self._frames += 1
            self._names[number] = f"frame {self._frames}"
            return f"{self._names[number]}: {_format_frame(step.item)}"
        if step.kind == "event":
            self._names[number] = f"{cause} → {type(step.item).__name__} {number}"
            return f"{self._names[number]}: {describe(step.item)}"
        return f"{cause} → output: {_format_frame(step.item)}"

    def _write(self, line: str) -> None:
        log_trace.log(TRACE, "%s: %s", self._id, redact_cut(line, LINE_CHARACTERS, self._secrets))


def _format_frame(frame: tuple[bytes, bytes]) -> str:
    name, data = (part.decode("utf-8", "replace") for part in frame)
    return f"{name} {data}" if name else data
