"""Decodes Bedrock Converse. The ledger keeps the event grammar.

On the wire, the frame's name is the event's name and the body is bare. Nova behind `InvokeModel`, and Amazon's SDKs,
put the body under the event's name. Bare bodies are wrapped the same way, so that one struct reads both. There is no
end mark: a message has ended once its stop and its metadata have arrived, in either order, or when the stream ends.

A text block has no start, and some models stop and restart a block with every delta. So a stopped block rests: its part
stays open in the ledger until the next block shows whether it continues. Text continues it; a block with only citations
cites it. Text with citations is never continued. A call that stopped without input rests, too: if the answer turns out
to be cut off, so is the call.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import msgspec

from penstock import _lenient_fields as lenient
from penstock import events as ev
from penstock._codec import Decoder
from penstock._delta_templates import string_remover
from penstock._ledger import CUT_OFF
from penstock._lenient_json import as_json, convert_pruned
from penstock._protocols.bedrock import wire
from penstock._protocols.bedrock.wire import FINISH_REASONS, NAME
from penstock._vendor_errors import classify_fault

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from penstock._framing.base import Frame

_EVENT_NAMES = "contentBlockDelta contentBlockStart contentBlockStop messageStart messageStop metadata"
# Event name → template that puts a bare body under that name.
FRAME_TEMPLATES = {name: b'{"%b":%%b}' % name for name in _EVENT_NAMES.encode().split()}
_EXCEPTIONS = tuple(name for name in wire.ConversePayload.__struct_fields__ if name.endswith("Exception"))
_METADATA_FIELDS = wire.MetadataEvent.__struct_fields__[1:]  # all but the usage


class BedrockDecoder(Decoder):
    """State: the names of calls, the stop event, metadata for the finish event, and the blocks of the message."""

    protocol = NAME
    ignored = (string_remover(b"p"),)  # padding that hides the size of the text
    shape = wire.ConversePayload
    read = staticmethod(msgspec.json.Decoder(wire.ConversePayload).decode)

    def __init__(self) -> None:
        super().__init__()
        self._names: dict[str, str] = {}  # of calls, by id
        self._reset_blocks()
        self._stop: wire.MessageStopEvent | None = None
        self._has_metadata = False
        self._metadata: dict[str, Any] = {}

    def _reset_blocks(self) -> None:
        self._parts: dict[int, int] = {}  # block index → key of its part
        self._resting: int | None = None  # key of the resting part
        self._last_text: int | None = None  # event index of the last text part
        self._is_cited = False  # the last text part has citations
        self._citations: dict[int, list[dict[str, Any]]] = {}
        self._results: dict[int, wire.ToolResultBlock] = {}
        self._formats: dict[int, str] = {}

    def feed(self, frames: Sequence[Frame], /) -> list[ev.AnyEvent]:
        templates = FRAME_TEMPLATES
        return super().feed([(name, templates[name] % data if name in templates else data) for name, data in frames])

    def read_payload(self, payload: Any) -> list[ev.AnyEvent]:
        """Reads an event of Amazon's SDKs. They decode base64, so it is encoded again."""
        return super().read_payload(msgspec.to_builtins(payload))

    @property
    def pending(self) -> str:
        return "finish" if self._stop is not None else ""

    def finish(self) -> list[ev.AnyEvent]:
        self._finish_message()
        self.ledger.breaking = self.ledger.is_open
        self._close_blocks(partial=True)
        return super().finish()

    # ── the message ───────────────────────────────────────────────────────────────────────────────

    def _on_payload(self, payload: wire.ConversePayload) -> None:
        if payload.contentBlockDelta is not None:
            self._on_block_delta(payload.contentBlockDelta)
            return
        if payload.output is not None:
            self._read_answer(payload, payload.output)
            return
        rows = ((read, getattr(payload, name)) for name, read in self.event_readers.items())
        events = [(read, event) for read, event in rows if event is not None]
        for read, event in events:
            read(self, event)
        if not events:
            self._read_error(payload)

    def _on_message_start(self, _: dict[str, Any]) -> None:
        self._finish_message()
        self._close_blocks(partial=True)
        self.ledger.close_all()
        self._reset_blocks()
        if self.ledger.start():
            self._has_metadata, self._metadata = False, {}

    def _on_message_stop(self, stop: wire.MessageStopEvent) -> None:
        """Closes the parts. The finish event waits for the metadata, whose trace belongs to it."""
        self._close_blocks()
        self.ledger.close_all(whole=FINISH_REASONS.get(stop.stopReason or "") not in CUT_OFF)
        self._stop = self._stop or stop
        if self._has_metadata:
            self._finish_message()

    def _on_metadata(self, event: wire.MetadataEvent) -> None:
        self._update_usage(event.usage)
        self._metadata |= {key: value for key in _METADATA_FIELDS if (value := getattr(event, key))}
        self._has_metadata = True
        if self._stop is not None:
            self._finish_message()

    def _finish_message(self) -> None:
        """Writes the finish event if the message has stopped."""
        stop, self._stop = self._stop, None
        if stop is None:
            return
        raw = stop.stopReason or ""
        if raw and raw not in FINISH_REASONS:
            self.diagnostics.add("unknown-reason", f"stop reason {raw!r} is read as a normal stop")
        if stop.additionalModelResponseFields:
            self._metadata["additionalModelResponseFields"] = stop.additionalModelResponseFields
        extra, self._metadata = {NAME: self._metadata} if self._metadata else None, {}
        self.ledger.finish(FINISH_REASONS.get(raw, "stop"), raw, extra=extra)
        self.ledger.end()

    def _read_answer(self, answer: wire.ConversePayload, output: wire.ConverseOutput) -> None:
        """Reads a non-stream answer as the events of a stream."""
        self._on_message_start({})
        for index, block in enumerate((output.message and output.message.content) or ()):
            self._read_block(index, block)
        if answer.stopReason:
            self._on_message_stop(wire.MessageStopEvent(answer.stopReason, answer.additionalModelResponseFields))
        self._on_metadata(answer)
        self.ledger.end()

    # ── usage and errors ──────────────────────────────────────────────────────────────────────────

    def _update_usage(self, raw: dict[str, Any] | None) -> None:
        if not raw:
            return
        try:
            self.ledger.usage(wire.read_usage(raw))
        except msgspec.ValidationError:
            self.diagnostics.add("wrong-shape", "usage has an unexpected shape and is left out")

    def _on_invocation_metrics(self, metrics: wire.ConverseUsage) -> None:
        """Reads the counts of `InvokeModel`, for models that send no usage themselves."""
        if self.ledger.is_open and self.ledger.known_usage() is None:
            self.ledger.usage(wire.read_metrics(metrics))

    def _read_error(self, payload: wire.ConversePayload) -> None:
        """Reads an exception: named by its frame, under its own name, or as the body of a failed request."""
        code = self.frame[0].decode("utf-8", "replace") or (payload.kind or "").rpartition("#")[2]
        failed = code.endswith("Exception")
        message = payload.message or payload.capital
        error = wire.ExceptionBody(message, payload.originalStatusCode, payload.originalMessage)
        for name in _EXCEPTIONS:
            if (body := getattr(payload, name)) is not None:
                code, error, failed = name, body, True
        is_empty = error == wire.ExceptionBody()
        if failed or (not is_empty and (not code or code[0].isupper())):  # event names start in lower case
            self._report_fault(code, error)
        else:
            self.report_unknown()

    def _report_fault(self, code: str, error: wire.ExceptionBody) -> None:
        message = error.message or error.originalMessage or "Bedrock reported an error"
        status = error.originalStatusCode
        kind = classify_fault((code,) if status is None else (), message, status)
        self.ledger.breaking = self.ledger.is_open
        self._close_blocks(partial=True)
        self._stop = None
        fields = {"message": error.message, "originalMessage": error.originalMessage}
        body = {key: value for key, value in fields.items() if value is not None} or {"message": message}
        self.ledger.fault(kind, message, status=status, code=code, extra={NAME: {"error": body}})

    def read_special_frame(self, name: str, data: bytes) -> bool:
        """Reads an exception whose data is not JSON."""
        if name.endswith("Exception") and not data.lstrip().startswith(b"{"):
            self._report_fault(name, wire.ExceptionBody(data.decode("utf-8", "replace") or None))
            return True
        return False

    # ── start, delta, stop ────────────────────────────────────────────────────────────────────────

    def _on_block_start(self, event: wire.BlockEvent) -> None:
        """Starts a block. Text has no start."""
        index, start = event.contentBlockIndex, event.start or {}
        if index in self._parts or index in self._results:
            self._stop_block(index)
        if "toolUse" in start:
            self._open_call(index, convert_pruned(start["toolUse"], wire.ToolUseBlock)[0])
        elif "toolResult" in start:
            self._close_resting_part()
            self._results[index] = convert_pruned(start["toolResult"], wire.ToolResultBlock)[0]
        elif "image" in start:
            self._formats[index] = lenient.get_text(lenient.get_object(start, "image"), "format")
        elif start and "text" not in start:
            self.report_unknown()

    def _on_block_delta(self, event: wire.BlockEvent) -> None:
        index, delta = event.contentBlockIndex, event.delta
        if self._resting is not None and index in self._parts:
            self._close_resting_part()
        if delta.text is not None:
            self._append_text(index, delta.text)
        elif delta.toolUse is not None:
            self._append_input(index, delta.toolUse.input or "")
        elif delta.reasoningContent is not None:
            self._append_reasoning(index, delta.reasoningContent)
        elif delta.citation is not None:
            if index in self._parts:
                self._add_source(delta.citation)
            else:  # before the text of its block (Claude), or in a block after it (Nova)
                self._citations.setdefault(index, []).append(delta.citation)
        elif delta.toolResult is not None:
            result = self._results.setdefault(index, wire.ToolResultBlock())
            result.content = [*(result.content or ()), *delta.toolResult]
        elif delta.image is not None:
            self._append_file(index, f"image/{self._formats.get(index) or '*'}", delta.image)
        else:
            self.report_unknown()

    def _on_block_stop(self, event: wire.BlockEvent) -> None:
        self._stop_block(event.contentBlockIndex)

    def _stop_block(self, index: int, *, partial: bool = False) -> None:
        """Ends a block, or lets it rest."""
        result = self._results.pop(index, None)
        if result is not None:
            self._add_result(result, partial=partial)
        for citation in self._citations.pop(index, ()):
            self._add_source(citation)
        key = self._parts.pop(index, None)
        part = None if key is None else self.ledger.find(key)
        if key is None or part is None or self._resting == key:
            return
        self._close_resting_part()
        if part.is_call:
            may_continue = not part.pieces and not part.given and not part.muted
        else:
            may_continue = part.delta is not ev.FileDelta and part.extra is None
        if may_continue:
            self._resting = key
        else:
            self.ledger.close(key)

    def _close_blocks(self, *, partial: bool = False) -> None:
        """Delivers what waits when the message ends. The ledger closes the parts."""
        for index in [*self._results, *self._citations]:
            self._stop_block(index, partial=partial)
        self._resting = None

    def _close_resting_part(self) -> None:
        """Closes the resting part, because something else begins."""
        if self._resting is not None:
            self.ledger.close(self._resting)
            self._resting = None

    def _resume_part(self, index: int, delta: type[ev.Event]) -> bool:
        """Continues the resting part in this block if it is of the same kind."""
        key = self._resting
        part = None if key is None else self.ledger.find(key)
        if key is None or part is None or part.delta is not delta:
            return False
        self._parts[index], self._resting = key, None
        return True

    # ── text, reasoning, citations ────────────────────────────────────────────────────────────────

    def _append_text(self, index: int, text: str) -> None:
        if index not in self._parts:
            if not text and index not in self._citations:
                return
            self._open_text(index)
        self.ledger.append_text(self._parts[index], text)

    def _open_text(self, index: int) -> None:
        waiting = self._citations.pop(index, ())
        if waiting or self._is_cited or not self._resume_part(index, ev.TextDelta):
            self._close_resting_part()
            self._parts[index], self._is_cited = index, bool(waiting)
            part = self.ledger.open_text(index)
            self._last_text = part.index if part else None
        for citation in waiting:
            self._add_source(citation)

    def _append_reasoning(self, index: int, content: wire.ReasoningContent) -> None:
        """Appends text, or state that the next request must echo: a signature, or redacted reasoning."""
        redacted = content.redactedContent
        if index not in self._parts and (redacted or not self._resume_part(index, ev.ReasoningDelta)):
            self._close_resting_part()
            self._parts[index] = index
            self.ledger.open_reasoning(index, form="redacted" if redacted else "full")
        key = self._parts[index]
        self.ledger.append_text(key, content.text or "")
        part = self.ledger.find(key)
        if part is not None and content.signature:
            part.extra = wire.append_state(part.extra, "signature", content.signature)
        if part is not None and redacted:
            part.extra = wire.append_state(part.extra, "redactedContent", redacted)

    def _add_source(self, citation: dict[str, Any]) -> None:
        self._is_cited = True
        web = lenient.get_object(lenient.get_object(citation, "location"), "web")
        source = lenient.get_text(citation, "source")
        url = lenient.get_text(web, "url") or (source if "://" in source else "")
        quote = "".join(lenient.get_text(row, "text") for row in lenient.get_objects(citation, "sourceContent"))
        title = lenient.get_text(citation, "title") or lenient.get_text(web, "domain")
        of = self._last_text
        self.ledger.cite((of, citation), url, title, of, None, quote, "", "", "", {NAME: citation})

    # ── calls and results ─────────────────────────────────────────────────────────────────────────

    def _open_call(self, index: int, call: wire.ToolUseBlock) -> None:
        self._close_resting_part()
        call_id, name = call.toolUseId or f"call_{self.ledger.id_prefix}_{index}", call.name or ""
        by: ev.By = "client" if call.type in wire.CLIENT_TYPES else "provider"
        given = "" if call.input is None else as_json(call.input)
        extra: ev.Extra | None = {NAME: {"type": call.type}} if by == "provider" else None
        self._names[call_id] = name
        self._parts[index] = index
        self.ledger.open_call(index, call_id, name, by=by, given=given, extra=extra)

    def _append_input(self, index: int, json: str) -> None:
        if index in self._parts:
            self.ledger.append_call_input(self._parts[index], json)
        else:
            self.diagnostics.add("no-block", "input of a call that never began is ignored")

    def _add_result(self, result: wire.ToolResultBlock, *, partial: bool = False) -> None:
        self._close_resting_part()
        call, kind, status = result.toolUseId or "", result.type or "", result.status or ""
        name = self._names.get(call) or kind.removesuffix("_result")
        json, extra = as_json(result.content or []), {NAME: {"type": kind, "status": status}}
        self.ledger.add_whole_part(ev.Result, call, name, json, status == "error", partial, extra)

    # ── files and complete blocks ─────────────────────────────────────────────────────────────────

    def _append_file(self, index: int, media: str, content: wire.MediaContent) -> None:
        if index not in self._parts:
            self._close_resting_part()
            self._parts[index] = index
            url = lenient.get_text((content.source and content.source.s3Location) or {}, "uri")
            extra: ev.Extra | None = {NAME: {"error": content.error}} if content.error else None
            self.ledger.open_file(index, media, url, extra=extra)
        self.ledger.append_text(self._parts[index], (content.source and content.source.data) or "")

    def _read_block(self, index: int, raw: dict[str, Any]) -> None:
        """Reads a block of a non-stream answer."""
        block: wire.ConverseBlock = convert_pruned(raw, wire.ConverseBlock)[0]
        if block.text is not None:
            self._append_text(index, block.text)
        elif block.toolUse is not None:
            self._open_call(index, block.toolUse)
        elif (reasoning := block.reasoningContent) is not None:
            text = reasoning.reasoningText or wire.ReasoningText()
            content = wire.ReasoningContent(text.text, text.signature, reasoning.redactedContent)
            self._append_reasoning(index, content)
        elif (cited := block.citationsContent) is not None:
            self._citations[index] = list(cited.citations or ())
            self._append_text(index, "".join(lenient.get_text(row, "text") for row in cited.content or ()))
        elif block.toolResult is not None:
            self._add_result(block.toolResult)
        else:
            self._read_file_block(index, block, raw)
        self._stop_block(index)

    def _read_file_block(self, index: int, block: wire.ConverseBlock, raw: dict[str, Any]) -> None:
        """Reads an image, audio or video. A block of an unknown kind becomes opaque."""
        for kind in ("image", "audio", "video"):
            content: wire.MediaContent | None = getattr(block, kind)
            if content is not None:
                self._append_file(index, f"{kind}/{content.format or '*'}", content)
                return
        self._close_resting_part()
        self.ledger.add_whole_part(ev.Opaque, NAME, next(iter(raw), ""), raw)

    event_readers: ClassVar[Mapping[str, Callable[[Any, Any], None]]] = {
        "messageStart": _on_message_start,
        "contentBlockStart": _on_block_start,
        "contentBlockStop": _on_block_stop,
        "messageStop": _on_message_stop,
        "metadata": _on_metadata,
        "invocation": _on_invocation_metrics,
    }
    table: ClassVar[Mapping[type, Callable[[Any, Any], None]]] = {wire.ConversePayload: _on_payload}
