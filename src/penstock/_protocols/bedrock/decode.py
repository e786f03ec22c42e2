"""Decodes Bedrock Converse. The ledger keeps the event grammar; `decode_blocks.py` decodes content blocks.

On the wire, the frame's name is the event's name and the body is bare. Nova behind `InvokeModel`, and Amazon's SDKs,
put the body under the event's name. Bare bodies are wrapped the same way, so that one struct reads both. There is no
end mark: a message has ended once its stop and its metadata have arrived, in either order, or when the stream ends.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import msgspec

from penstock import events as ev
from penstock._codec import Decoder
from penstock._delta_templates import string_remover
from penstock._ledger import CUT_OFF
from penstock._protocols.bedrock import wire
from penstock._protocols.bedrock.decode_blocks import BlockReader
from penstock._protocols.bedrock.wire import NAME
from penstock._vendor_errors import classify_fault

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from penstock._framing.frame import Frame
    from penstock.events import Reason

FINISH_REASONS: dict[str, Reason] = {
    **dict.fromkeys(("end_turn", "stop_sequence"), "stop"),
    "tool_use": "calls",
    **dict.fromkeys(("max_tokens", "model_context_window_exceeded"), "length"),
    **dict.fromkeys(("guardrail_intervened", "content_filtered"), "filter"),
    **dict.fromkeys(("malformed_model_output", "malformed_tool_use"), "other"),
    "refusal": "refusal",
    "pause_turn": "pause",
}
_EVENT_NAMES = "contentBlockDelta contentBlockStart contentBlockStop messageStart messageStop metadata"
# Event name → template that puts a bare body under that name.
FRAME_TEMPLATES = {name: b'{"%b":%%b}' % name for name in _EVENT_NAMES.encode().split()}
_EXCEPTIONS = tuple(name for name in wire.ConversePayload.__struct_fields__ if name.endswith("Exception"))
_METADATA_FIELDS = ("metrics", "trace", "performanceConfig", "serviceTier")


class BedrockDecoder(Decoder):
    """State: the blocks of the message, the names of calls, the stop event, and metadata for the finish event."""

    protocol = NAME
    ignored = (string_remover(b"p"),)  # padding that hides the size of the text
    shape = wire.ConversePayload
    read = staticmethod(msgspec.json.Decoder(wire.ConversePayload).decode)

    def __init__(self) -> None:
        super().__init__()
        self._names: dict[str, str] = {}
        self._blocks = BlockReader(self.ledger, self._names)
        self._stop: wire.MessageStopEvent | None = None
        self._has_metadata = False
        self._metadata: dict[str, Any] = {}

    def feed(self, frames: Sequence[Frame], /) -> list[ev.AnyEvent]:
        templates = FRAME_TEMPLATES
        return super().feed([(name, templates[name] % data if name in templates else data) for name, data in frames])

    def take(self, payload: Any) -> list[ev.AnyEvent]:
        """Reads an event of Amazon's SDKs. They decode base64, so it is encoded again."""
        return super().take(msgspec.to_builtins(payload))

    @property
    def pending(self) -> str:
        return "finish" if self._stop is not None else ""

    def finish(self) -> list[ev.AnyEvent]:
        self._finish_message()
        self.ledger.breaking = self.ledger.is_open
        self._blocks.close_all(partial=True)
        return super().finish()

    # ── the message ───────────────────────────────────────────────────────────────────────────────

    def _on_payload(self, payload: wire.ConversePayload) -> None:
        if payload.contentBlockDelta is not None:
            self._on_block_delta(payload.contentBlockDelta)
            return
        if payload.output is not None:
            self._read_answer(payload, payload.output)
            return
        known = False
        for name, read in self.event_readers.items():
            event = getattr(payload, name)
            if event is not None:
                read(self, event)
                known = True
        if not known:
            self._read_error(payload)

    def _on_message_start(self, _: wire.MessageStartEvent) -> None:
        self._finish_message()
        self._blocks.close_all(partial=True)
        self.ledger.close_all()
        self._blocks = BlockReader(self.ledger, self._names)
        if self.ledger.start():
            self._has_metadata, self._metadata = False, {}

    def _on_message_stop(self, stop: wire.MessageStopEvent) -> None:
        """Closes the parts. The finish event waits for the metadata, whose trace belongs to it."""
        self._blocks.close_all()
        self.ledger.close_all(whole=FINISH_REASONS.get(stop.stopReason or "") not in CUT_OFF)
        self._stop = self._stop or stop
        if self._has_metadata:
            self._finish_message()

    def _on_metadata(self, event: wire.MetadataEvent | wire.ConversePayload) -> None:
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
        self._on_message_start(wire.MessageStartEvent())
        for index, block in enumerate((output.message and output.message.content) or ()):
            self._blocks.read_block(index, block)
        if answer.stopReason:
            self._on_message_stop(wire.MessageStopEvent(answer.stopReason, answer.additionalModelResponseFields))
        self._on_metadata(answer)
        self.ledger.end()

    # ── blocks ────────────────────────────────────────────────────────────────────────────────────

    def _on_block_start(self, event: wire.BlockStartEvent) -> None:
        if not self._blocks.start_block(event.contentBlockIndex, event.start or {}):
            self.keep()

    def _on_block_delta(self, event: wire.BlockDeltaEvent) -> None:
        if not self._blocks.append_delta(event.contentBlockIndex, event.delta):
            self.keep()

    def _on_block_stop(self, event: wire.BlockStopEvent) -> None:
        self._blocks.stop_block(event.contentBlockIndex)

    # ── usage and errors ──────────────────────────────────────────────────────────────────────────

    def _update_usage(self, raw: dict[str, Any] | None) -> None:
        if not raw:
            return
        try:
            usage = msgspec.convert(raw, wire.ConverseUsage, strict=False)
        except msgspec.ValidationError:
            self.diagnostics.add("wrong-shape", "usage has an unexpected shape and is left out")
            return
        read = _get_first(usage.cacheReadInputTokens, usage.cacheReadInputTokenCount)
        written = _get_first(usage.cacheWriteInputTokens, usage.cacheWriteInputTokenCount)
        prompt = usage.inputTokens
        if prompt is not None and usage.totalTokens != prompt + (usage.outputTokens or 0):
            prompt += (read or 0) + (written or 0)
        self.ledger.usage(ev.Usage(prompt, usage.outputTokens, read, written, extra={NAME: raw}))

    def _on_invocation_metrics(self, metrics: wire.InvocationMetrics) -> None:
        """Reads the counts of `InvokeModel`, for models that send no usage themselves."""
        if self.ledger.is_open and self.ledger.known_usage() is None:
            read, written = metrics.cacheReadInputTokenCount, metrics.cacheWriteInputTokenCount
            given = metrics.inputTokenCount
            prompt = None if given is None else given + (read or 0) + (written or 0)
            self.ledger.usage(ev.Usage(prompt, metrics.outputTokenCount, read, written))

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
            self._fault(code, error)
        else:
            self.keep()

    def _fault(self, code: str, error: wire.ExceptionBody) -> None:
        message = error.message or error.originalMessage or "Bedrock reported an error"
        status = error.originalStatusCode
        kind = classify_fault((code,) if status is None else (), message, status)
        self.ledger.breaking = self.ledger.is_open
        self._blocks.close_all(partial=True)
        self._stop = None
        fields = {"message": error.message, "originalMessage": error.originalMessage}
        body = {key: value for key, value in fields.items() if value is not None} or {"message": message}
        self.ledger.fault(kind, message, status=status, code=code, extra={NAME: {"error": body}})

    def named(self, name: str, data: bytes) -> bool:
        """Reads an exception whose data is not JSON."""
        if name.endswith("Exception") and not data.lstrip().startswith(b"{"):
            self._fault(name, wire.ExceptionBody(data.decode("utf-8", "replace") or None))
            return True
        return False

    event_readers: ClassVar[Mapping[str, Callable[[Any, Any], None]]] = {
        "messageStart": _on_message_start,
        "contentBlockStart": _on_block_start,
        "contentBlockStop": _on_block_stop,
        "messageStop": _on_message_stop,
        "metadata": _on_metadata,
        "invocation": _on_invocation_metrics,
    }
    table: ClassVar[Mapping[type, Callable[[Any, Any], None]]] = {wire.ConversePayload: _on_payload}


def _get_first(*counts: int | None) -> int | None:
    return next((count for count in counts if count is not None), None)
