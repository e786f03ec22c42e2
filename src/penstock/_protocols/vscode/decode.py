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
from penstock._protocols.vscode import encode_parts, wire
from penstock._protocols.vscode.encode_parts import DATA_PREFIX, DATA_SUFFIX, RESERVED
from penstock._protocols.vscode.wire import NAME, DataPart, ErrorPart, TextPart, ThinkingPart, ToolCallPart, encode_json
from penstock._transforms.tool_names import PREFIX, CallIdPrefix

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from penstock.events import FaultKind, Reason

REASONS: frozenset[Reason] = frozenset(get_args(ev.Reason))
FAULTS: frozenset[FaultKind] = frozenset(get_args(ev.FaultKind))


class VSCodeDecoder(Decoder):
    """State: the kind of the open part, the id of the last thinking part, the number of files."""

    protocol = NAME
    shape = wire.AnyLine
    read = staticmethod(msgspec.json.Decoder(wire.AnyLine).decode)

    def __init__(self, *, call_id_prefix: str | None = PREFIX) -> None:
        super().__init__()
        self._names = CallIdPrefix(call_id_prefix or "", reserved=RESERVED)
        self._open_kind = ""
        self._thinking_id = ""
        self._files = 0

    def _begin_part(self, kind: str) -> None:
        """Closes the open part, unless it is of this kind."""
        if self._open_kind and self._open_kind != kind:
            self.ledger.close(self._open_kind)
        self._open_kind = kind

    # ── the turn ──────────────────────────────────────────────────────────────────────────────────

    def _read_start(self, line: wire.Start) -> None:
        if line.version > wire.VERSION:
            self.diagnostics.add("version", f"version {line.version} of the wire form is newer than this reader")
        self._names = CallIdPrefix(line.prefix, reserved=RESERVED)
        if self.ledger.start(line.id, line.model, line.created):
            self._open_kind = ""

    def _read_usage(self, line: wire.Usage) -> None:
        if line.step:
            self.ledger.usage(wire.read_tokens(line.value, step=line.step, estimated=line.estimated))
        self.ledger.usage(wire.read_tokens(line.total or line.value, estimated=line.estimated))

    def _read_end(self, line: wire.End) -> None:
        reason: Any = line.reason
        raw = line.raw
        if reason not in REASONS:
            self.diagnostics.add("unknown-reason", f"{line.reason!r} is read as a stop")
            reason, raw = "stop", raw or line.reason
        self.ledger.finish(reason, raw)
        self.ledger.end()

    def _read_error(self, line: ErrorPart) -> None:
        kind: Any = line.fault if line.fault in FAULTS else "other"
        fields = {key: getattr(line, key) for key in ("status", "code", "request_id", "retry_after")}
        self.ledger.fault(kind, line.message or TRUNCATED, **fields)

    def _read_whole(self, body: wire.Whole) -> None:
        for line in body.lines:
            self._convert_payload("", line, partial(encode_json, line))

    def _read_notice(self, _: wire.Wait | wire.Compacted) -> None:
        """Keeps a notice. It is not part of the answer, and the start may still follow."""
        self.report_unknown()

    # ── parts ─────────────────────────────────────────────────────────────────────────────────────

    def _read_text(self, line: TextPart) -> None:
        kind = "refusal" if line.refusal else "text"
        if self._open_kind != kind or self.ledger.find(kind) is None:
            self._begin_part(kind)
            (self.ledger.open_refusal if line.refusal else self.ledger.open_text)(kind)
        self.ledger.append_text(kind, line.value)

    def _read_thinking(self, line: ThinkingPart) -> None:
        if self._thinking_id != line.id:
            self._begin_part("")
        self._thinking_id = line.id
        states = encode_parts.unpack_reasoning(line.metadata)
        if self.ledger.find("thinking") is None:
            self._begin_part("thinking")
            form = states[-1].form if states else "full"
            self.ledger.open_reasoning("thinking", item=line.id, form=form)
        self._begin_part("thinking")
        self.ledger.append_text("thinking", line.value)
        if line.metadata is not None:
            extra = states[-1].extra if states else {NAME: line.metadata}
            self.ledger.close("thinking", extra)
            self._open_kind = ""

    def _read_call(self, line: ToolCallPart) -> None:
        self._begin_part("")
        call = self._names.restore(line.call_id)
        self.ledger.open_call(("call", call), call, line.name, extra=line.extra)
        self.ledger.end_call(("call", call), encode_json(line.input).decode())

    def _read_cut(self, line: wire.Cut) -> None:
        self._begin_part("")
        call = self._names.restore(line.call_id)
        part = self.ledger.open_call(("call", call), call, line.name)
        if part is not None:
            part.void = True  # even if its input is complete, it must not run
        self.ledger.end_call(("call", call), line.input, whole=False)

    def _read_data(self, line: DataPart) -> None:
        mime = line.mime_type
        if mime == encode_parts.CITATION:
            self._read_citation(line)
        elif mime.startswith(DATA_PREFIX) and mime.endswith(DATA_SUFFIX):
            self.ledger.data(mime[len(DATA_PREFIX) : -len(DATA_SUFFIX)], line.data.decode("utf-8", "replace"))
        else:
            self._files += 1
            key = ("file", self._files)
            self.ledger.open_file(key, mime)
            self.ledger.append_text(key, encode_json(line.data).decode().strip('"'))
            self.ledger.close(key)

    def _read_citation(self, line: DataPart) -> None:
        try:
            cite = msgspec.json.decode(line.data, type=_Citation)
        except (msgspec.DecodeError, ValueError, RecursionError):
            self.report_unknown()
            return
        part = self.ledger.find("text")
        of = part.index if part else None
        origin = (cite.quote, cite.source_id, cite.media_type, cite.filename)
        self.ledger.cite((of, cite), cite.url, cite.title, of if cite.span else None, cite.span, *origin)

    table: ClassVar[Mapping[type, Callable[[Any, Any], None]]] = {
        wire.Start: _read_start,
        TextPart: _read_text,
        ThinkingPart: _read_thinking,
        ToolCallPart: _read_call,
        wire.Cut: _read_cut,
        DataPart: _read_data,
        wire.Usage: _read_usage,
        wire.Wait: _read_notice,
        wire.Compacted: _read_notice,
        ErrorPart: _read_error,
        wire.End: _read_end,
        wire.Whole: _read_whole,
    }


class _Citation(msgspec.Struct, rename="camel"):
    url: str = ""
    title: str = ""
    source_id: str = ""
    quote: str = ""
    span: tuple[int, int] | None = None
    media_type: str = ""
    filename: str = ""
