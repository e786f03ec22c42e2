"""The log at level trace: which frame of a provider caused which events, and which frames the client got for them.

The bytes of a turn are traced once more as they come (`penstock.tracing`), so that the log shows what `penstock
inspect` shows. It writes content: with gateway keys it needs `log.content`. Secrets are removed.
"""

from __future__ import annotations

import logging
from copy import deepcopy
from typing import TYPE_CHECKING, Any

import msgspec

from penstock import events as ev
from penstock import protocols
from penstock.bridge import parser
from penstock.errors import PenstockError
from penstock.gateway import replayed_output
from penstock.grammar import Guard
from penstock.secrecy import redact_cut
from penstock.stage import Pipe
from penstock.tracing import Tracer, Whole
from penstock.vscode_stream import LINE, TRACE, describe

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock.engines.interface import Pair
    from penstock.engines.reply import Reply
    from penstock.gateway.turn import Turn
    from penstock.tracing import Step

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

    def opened(self, reply: Reply) -> None:
        """An answer has begun."""
        asked = self._turn.asked
        if self._tap is not None:
            self._tap.opened(reply)
        if asked is None:
            return
        self._raw = reply.raw
        protocol, framing = (reply.protocol, reply.framing) if reply.raw else ("events", "ndjson")
        parse: Any = Whole() if framing == Whole.framing else parser(framing)
        shaping = deepcopy(reply.shaping) if reply.raw else ()
        front = Pipe(parse, protocols.decoder(protocol), Guard(), *shaping)
        teed = reply.protocol == asked.protocol and asked.tee and reply.verbatim
        self._tracer = Tracer(front, *replayed_output.way(asked, teed=teed, cleared=reply.cleared))

    def told(self, said: bytes) -> None:
        """The client was told something before its answer."""
        if self._tap is not None:
            self._tap.told(said)
        self._write(f"notice → output {said.decode('utf-8', 'replace')}")

    def read(self, pair: Pair) -> None:
        """What one read gave."""
        if self._tap is not None:
            self._tap.read(pair)
        data = pair[0] if self._raw else _encode(pair[1])
        if self._tracer is not None and data:
            try:
                self._tracer.feed(data)
            except PenstockError as error:
                self._write(f"the trace ends here: {error}")
                self._tracer = None
            else:
                self._write_steps(self._tracer)

    def ended(self, turn: Turn, row: Any) -> None:
        """The turn is over."""
        if self._tap is not None:
            self._tap.ended(turn, row)
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
