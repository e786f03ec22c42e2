"""VS Code parts in their NDJSON wire form → events.

Lines have no part numbers: consecutive text or thinking lines are one part, which ends where another kind starts.
Metadata ends a thinking part and restores its state. The start line names the prefix that is removed from call ids.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, get_args

import msgspec

from penstock import events as ev
from penstock._codec import Decoder
from penstock._ledger import TRUNCATED
from penstock._protocols.vscode import thinking, wire
from penstock._protocols.vscode.encode import NAME
from penstock._protocols.vscode.encode_parts import CITATION, RESERVED
from penstock._protocols.vscode.wire import DataPart, ErrorPart, TextPart, ThinkingPart, ToolCallPart, encoded
from penstock._transforms.tool_names import PREFIX, Namespace

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from penstock.events import FaultKind, Reason

REASONS: frozenset[Reason] = frozenset(get_args(ev.Reason))
FAULTS: frozenset[FaultKind] = frozenset(get_args(ev.FaultKind))
_VERCEL, _JSON = "application/vnd.vercel.", "+json"


class VSCodeDecoder(Decoder):
    """State: the kind of the open part, the id of the last thinking part, the number of files."""

    protocol = NAME
    shape = wire.Line
    read = staticmethod(msgspec.json.Decoder(wire.Line).decode)

    def __init__(self, *, call_id_prefix: str | None = PREFIX) -> None:
        super().__init__()
        self._names = Namespace(call_id_prefix or "", reserved=RESERVED)
        self._run = ""
        self._thought = ""
        self._files = 0

    def _begin(self, run: str) -> None:
        if self._run and self._run != run:
            self.ledger.close(self._run)
        self._run = run

    # ── the turn ──────────────────────────────────────────────────────────────────────────────────

    def _start(self, line: wire.Start) -> None:
        if line.version > wire.VERSION:
            self.diagnostics.add("version", f"version {line.version} of the wire form is newer than this reader")
        self._names = Namespace(line.prefix, reserved=RESERVED)
        if self.ledger.start(line.id, line.model, line.created):
            self._run = ""

    def _usage(self, line: wire.Usage) -> None:
        if line.step:
            self.ledger.usage(wire.usage_of(line.value, step=line.step, estimated=line.estimated))
        self.ledger.usage(wire.usage_of(line.total or line.value, estimated=line.estimated))

    def _end(self, line: wire.End) -> None:
        reason: Any = line.reason
        raw = line.raw
        if reason not in REASONS:
            self.diagnostics.add("unknown-reason", f"{line.reason!r} is read as a stop")
            reason, raw = "stop", raw or line.reason
        self.ledger.finish(reason, raw)
        self.ledger.end()

    def _error(self, line: ErrorPart) -> None:
        kind: Any = line.fault if line.fault in FAULTS else "other"
        self.ledger.fault(
            kind,
            line.message or TRUNCATED,
            status=line.status,
            code=line.code,
            request_id=line.request_id,
            retry_after=line.retry_after,
        )

    def _whole(self, whole: wire.Whole) -> None:
        for line in whole.lines:
            self._fit("", line, partial(encoded, line))

    def _notice(self, _: wire.Wait | wire.Compacted) -> None:
        """Keeps a notice. It is not part of the answer, and the start may still follow."""
        self.keep()

    # ── parts ─────────────────────────────────────────────────────────────────────────────────────

    def _text(self, line: TextPart) -> None:
        run = "refusal" if line.refusal else "text"
        if self._run != run or self.ledger.find(run) is None:
            self._begin(run)
            (self.ledger.open_refusal if line.refusal else self.ledger.open_text)(run)
        self.ledger.append_text(run, line.value)

    def _thinking(self, line: ThinkingPart) -> None:
        if self._thought != line.id:
            self._begin("")
        self._thought = line.id
        found = thinking.unpack(line.metadata)
        if self.ledger.find("thinking") is None:
            self._begin("thinking")
            form = found[-1].form if found else "full"
            self.ledger.open_reasoning("thinking", item=line.id, form=form)
        self._begin("thinking")
        self.ledger.append_text("thinking", line.value)
        if line.metadata is not None:
            extra = found[-1].extra if found else {NAME: line.metadata}
            self.ledger.close("thinking", extra)
            self._run = ""

    def _call(self, line: ToolCallPart) -> None:
        self._begin("")
        given = encoded(line.input).decode()
        call = self._names.restore(line.call_id)
        self.ledger.open_call(("call", call), call, line.name, extra=line.extra)
        self.ledger.end_call(("call", call), given)

    def _cut(self, line: wire.Cut) -> None:
        self._begin("")
        call = self._names.restore(line.call_id)
        part = self.ledger.open_call(("call", call), call, line.name)
        if part is not None:
            part.void = True  # even if it is complete: it was refused before
        self.ledger.end_call(("call", call), line.input, whole=False)

    def _data(self, line: DataPart) -> None:
        mime = line.mime_type
        if mime == CITATION:
            self._source(line)
        elif mime.startswith(_VERCEL) and mime.endswith(_JSON):
            self.ledger.data(mime[len(_VERCEL) : -len(_JSON)], line.data.decode("utf-8", "replace"))
        else:
            self._files += 1
            key = ("file", self._files)
            self.ledger.open_file(key, mime)
            self.ledger.append_text(key, encoded(line.data).decode().strip('"'))
            self.ledger.close(key)

    def _source(self, line: DataPart) -> None:
        try:
            said = msgspec.json.decode(line.data, type=_Citation)
        except (msgspec.DecodeError, ValueError, RecursionError):
            self.keep()
            return
        part = self.ledger.find("text")
        of = part.index if part else None
        self.ledger.cite(
            (of, said),
            said.url,
            said.title,
            of if said.span else None,
            said.span,
            said.quote,
            said.source_id,
            said.media_type,
            said.filename,
        )

    table: ClassVar[Mapping[type, Callable[[Any, Any], None]]] = {
        wire.Start: _start,
        TextPart: _text,
        ThinkingPart: _thinking,
        ToolCallPart: _call,
        wire.Cut: _cut,
        DataPart: _data,
        wire.Usage: _usage,
        wire.Wait: _notice,
        wire.Compacted: _notice,
        ErrorPart: _error,
        wire.End: _end,
        wire.Whole: _whole,
    }


class _Citation(msgspec.Struct, rename="camel"):
    url: str = ""
    title: str = ""
    source_id: str = ""
    quote: str = ""
    span: tuple[int, int] | None = None
    media_type: str = ""
    filename: str = ""
