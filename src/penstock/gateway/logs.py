"""Logs on standard error: lines to read, or JSON objects to collect. Secrets never get past here.

Only the loggers under `penstock` are touched, so that an application that mounts the gateway keeps its own set-up.
"""

from __future__ import annotations

import logging
import sys
import time
from copy import deepcopy
from typing import TYPE_CHECKING, Any, TextIO

import msgspec

from penstock import events as ev
from penstock import protocols
from penstock.bridge import parser
from penstock.errors import PenstockError
from penstock.gateway import client_stream
from penstock.grammar import Guard
from penstock.pipeline import Pipe
from penstock.redaction import redact_cut
from penstock.tracing import Tracer, Whole
from penstock.vscode_stream import LINE, TRACE, describe

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from penstock.engines.interface import Pair
    from penstock.engines.reply import Reply
    from penstock.gateway.config import Log
    from penstock.gateway.turn import Turn
    from penstock.tracing import Step

ROOT = "penstock"
logging.addLevelName(TRACE, "TRACE")
_PLAIN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
_LONG = 2_000  # characters of a line that are shown; it is cut before it is redacted
_STACK = 40  # lines of a stack that are shown at its beginning, and at its end


class _Lines(logging.Formatter):
    """One line for each record, its stack below it."""

    def __init__(self, secrets: Callable[[], Iterable[str]]) -> None:
        super().__init__()
        self._secrets = secrets

    def format(self, record: logging.LogRecord) -> str:
        said = f"{_stamp(record.created)} {record.levelname.lower():<7} {record.name}: {record.getMessage()}"
        more = " ".join(f"{name}={value}" for name, value in _extra(record).items())
        lines = [f"{said} {more}".rstrip(), *self._stack(record)]
        return "\n".join(self.shown(line) for line in lines)

    def _stack(self, record: logging.LogRecord) -> list[str]:
        lines = self.formatException(record.exc_info).splitlines() if record.exc_info else []
        if len(lines) <= 2 * _STACK:
            return lines
        return [*lines[:_STACK], f"… [{len(lines) - 2 * _STACK} more lines]", *lines[-_STACK:]]

    def shown(self, text: str) -> str:
        return redact_cut(text, _LONG, self._secrets()).replace("\r", "␍").replace("\n", "⏎")


class _Objects(_Lines):
    """One JSON object for each record."""

    def format(self, record: logging.LogRecord) -> str:
        said: dict[str, Any] = {
            "time": _stamp(record.created),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": self.shown(record.getMessage()),
        }
        said |= {name: self.shown(str(value)) for name, value in _extra(record).items()}
        stack = self._stack(record)
        if stack:
            said["stack"] = [self.shown(line) for line in stack]
        return msgspec.json.encode(said).decode()


def setup(log: Log, secrets: Callable[[], Iterable[str]] = tuple, file: TextIO | None = None) -> None:
    """Send the logs of penstock to standard error; a second call replaces the first."""
    root = logging.getLogger(ROOT)
    for old in list(root.handlers):
        if isinstance(old.formatter, _Lines):
            root.removeHandler(old)
    made = logging.StreamHandler(file or sys.stderr)
    made.setFormatter(_Objects(secrets) if log.form == "json" else _Lines(secrets))
    root.addHandler(made)
    root.setLevel(log.level.upper())
    root.propagate = False
    if log.level == "trace":
        logging.getLogger(f"{ROOT}.trace").warning(TRACE_WRITES_CONTENT)


def _extra(record: logging.LogRecord) -> dict[str, Any]:
    """What was said in `extra`."""
    return {name: value for name, value in vars(record).items() if name not in _PLAIN}


def _stamp(at: float) -> str:
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(at))}.{int(at % 1 * 1000):03}Z"


__all__ = ["TRACE", "TRACE_NEEDS_CONTENT", "TRACE_WRITES_CONTENT", "TraceLog", "log_trace"]

TRACE_WRITES_CONTENT = "log level trace: the content of requests and answers is written to this log, secrets removed"
TRACE_NEEDS_CONTENT = (
    "log level trace writes what callers and models say. With gateway keys it needs log.content = true in penstock.toml"
)
log_trace = logging.getLogger("penstock.trace")
_encode = msgspec.json.Encoder().encode_lines


class TraceLog:
    """The trace of one turn. `tap` is somebody else who watches, and is told all that this one is told."""

    def __init__(self, turn: Turn, tap: Any, secrets: Iterable[str]) -> None:
        self._turn, self._tap = turn, tap
        self._id = turn.visit.id
        caller = turn.visit.caller
        self._secrets = (*secrets, *((caller.secret,) if caller.secret else ()))
        self._raw = True
        self._tracer: Tracer | None = None
        self._shown = 0  # steps that are written
        self._names: dict[int, str] = {}  # of steps
        self._frames = 0
        self._write(f"request: {turn.visit.raw.decode('utf-8', 'replace')}")

    def on_reply(self, reply: Reply) -> None:
        """An answer has begun."""
        asked = self._turn.asked
        if self._tap is not None:
            self._tap.on_reply(reply)
        if asked is None:
            return
        self._raw = reply.raw
        protocol, framing = (reply.protocol, reply.framing) if reply.raw else ("events", "ndjson")
        parse: Any = Whole() if framing == Whole.framing else parser(framing)
        shaping = deepcopy(reply.shaping) if reply.raw else ()
        front = Pipe(parse, protocols.decoder(protocol), Guard(), *shaping)
        teed = reply.protocol == asked.protocol and asked.tee and reply.verbatim
        self._tracer = Tracer(front, *client_stream.way(asked, teed=teed, cleared=reply.cleared))

    def on_notice(self, said: bytes) -> None:
        """The client was told something before its answer."""
        if self._tap is not None:
            self._tap.on_notice(said)
        self._write(f"notice → output {said.decode('utf-8', 'replace')}")

    def on_read(self, pair: Pair) -> None:
        """What one read gave."""
        if self._tap is not None:
            self._tap.on_read(pair)
        data = pair[0] if self._raw else _encode(pair[1])
        if self._tracer is not None and data:
            try:
                self._tracer.feed(data)
            except PenstockError as error:
                self._write(f"the trace ends here: {error}")
                self._tracer = None
            else:
                self._write_steps(self._tracer)

    def on_end(self, turn: Turn, row: Any) -> None:
        """The turn is over."""
        if self._tap is not None:
            self._tap.on_end(turn, row)
        if turn.reply is None and turn.fault is not None:
            self._write(f"no answer → {describe(turn.fault)}")
        if self._tracer is not None:
            end = turn.fault or (turn.reply.end if turn.reply is not None else None)
            fault = end if isinstance(end, ev.Fault) else None
            try:
                self._tracer.finish(fault, broken=fault is not None)
            except PenstockError as error:
                self._write(f"the trace ends here: {error}")
            else:
                self._write_steps(self._tracer)

    # ── lines ─────────────────────────────────────────────────────────────────────────────────────

    def _write_steps(self, tracer: Tracer) -> None:
        for number, step in enumerate(tracer.steps[self._shown :], self._shown):
            self._write(self._format_step(number, step))
        self._shown = len(tracer.steps)

    def _format_step(self, number: int, step: Step) -> str:
        """A step, and what caused it: `frame 3 → TextDelta 5 → output …`."""
        cause = self._names.get(step.cause, "") if step.cause is not None else "end of input"
        if step.kind == "frame":
            self._frames += 1
            self._names[number] = f"frame {self._frames}"
            return f"{self._names[number]}: {_frame(step.item)}"
        if step.kind == "event":
            self._names[number] = f"{cause} → {type(step.item).__name__} {number}"
            return f"{self._names[number]}: {describe(step.item)}"
        return f"{cause} → output: {_frame(step.item)}"

    def _write(self, line: str) -> None:
        log_trace.log(TRACE, "%s: %s", self._id, redact_cut(line, LINE, self._secrets))


def _frame(frame: tuple[bytes, bytes]) -> str:
    name, data = (part.decode("utf-8", "replace") for part in frame)
    return f"{name} {data}" if name else data
