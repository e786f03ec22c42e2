"""Bedrock Converse → events. Leans on the ledger for the grammar; the blocks of a message have a file of their own.

On the wire an event's kind is the name of its frame and its body is bare; Nova behind `InvokeModel`, and Amazon's SDKs,
put the body under its kind. Bare bodies are put so too, and one shape reads both. There is no end mark: a message has
ended once both its stop and its metadata are there, in either order, or the stream is over.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import msgspec

from penstock import events as ev
from penstock.codec import Decoder
from penstock.delta_templates import string_remover
from penstock.faults import classify
from penstock.ledger import CUT_OFF
from penstock.protocols.bedrock import wire
from penstock.protocols.bedrock.decode_blocks import NAME, Blocks

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from penstock.events import Reason
    from penstock.framing import Frame

REASONS: dict[str, Reason] = {
    "end_turn": "stop", "stop_sequence": "stop", "tool_use": "calls", "max_tokens": "length",
    "model_context_window_exceeded": "length", "guardrail_intervened": "filter", "content_filtered": "filter",
    "malformed_model_output": "other", "malformed_tool_use": "other", "refusal": "refusal", "pause_turn": "pause",
}  # fmt: skip
KINDS: dict[bytes, bytes] = {
    kind: b'{"%b":%%b}' % kind
    for kind in (
        b"contentBlockDelta", b"contentBlockStart", b"contentBlockStop", b"messageStart", b"messageStop", b"metadata",
    )
}  # fmt: skip
"""A kind of event → the template that puts a bare body under it."""

_FAULTS = tuple(name for name in wire.Payload.__struct_fields__ if name.endswith("Exception"))
_NOTES = ("metrics", "trace", "performanceConfig", "serviceTier")
# Padding, so that the size of a frame does not tell that of its text.
_IGNORED = (string_remover(b"p"),)


class BedrockDecoder(Decoder):
    """State: the blocks of the message, the names of calls, its stop, what is to be said with the finish."""

    protocol = NAME
    ignored = _IGNORED
    shape = wire.Payload
    read = staticmethod(msgspec.json.Decoder(wire.Payload).decode)

    def __init__(self) -> None:
        super().__init__()
        self._names: dict[str, str] = {}
        self._blocks = Blocks(self.ledger, self._names)
        self._stop: wire.MessageStop | None = None
        self._metered = False
        self._notes: dict[str, Any] = {}

    def feed(self, frames: Sequence[Frame], /) -> list[ev.AnyEvent]:
        return super().feed([(name, KINDS[name] % data) if name in KINDS else (name, data) for name, data in frames])

    def take(self, payload: Any) -> list[ev.AnyEvent]:
        """An event as Amazon's SDKs give it: they have base64 decoded, and it is encoded again."""
        return super().take(msgspec.to_builtins(payload))

    @property
    def pending(self) -> str:
        return "finish" if self._stop is not None else ""

    def finish(self) -> list[ev.AnyEvent]:
        self._end()
        self.ledger.breaking = self.ledger.is_open
        self._blocks.close(partial=True)
        return super().finish()

    # ── the message ───────────────────────────────────────────────────────────────────────────────

    def _payload(self, payload: wire.Payload) -> None:
        if payload.contentBlockDelta is not None:
            self._delta(payload.contentBlockDelta)
            return
        if payload.output is not None:
            self._answer(payload, payload.output)
            return
        known = False
        for kind, read in self.kinds.items():
            said = getattr(payload, kind)
            if said is not None:
                read(self, said)
                known = True
        if not known:
            self._error(payload)

    def _message_start(self, _: wire.MessageStart) -> None:
        self._end()
        self._blocks.close(partial=True)
        self.ledger.close_all()
        self._blocks = Blocks(self.ledger, self._names)
        if self.ledger.start():
            self._metered, self._notes = False, {}

    def _message_stop(self, said: wire.MessageStop) -> None:
        """Parts end now; the finish waits for the metadata, whose trace belongs to it."""
        self._blocks.close()
        self.ledger.close_all(whole=REASONS.get(said.stopReason or "") not in CUT_OFF)
        self._stop = self._stop or said
        if self._metered:
            self._end()

    def _metadata(self, said: wire.Metadata) -> None:
        self._count(said.usage)
        self._notes |= {key: value for key in _NOTES if (value := getattr(said, key))}
        self._metered = True
        if self._stop is not None:
            self._end()

    def _end(self) -> None:
        """Write the finish, if the message has stopped."""
        stop, self._stop = self._stop, None
        if stop is None:
            return
        raw = stop.stopReason or ""
        if raw and raw not in REASONS:
            self.diagnostics.add("unknown-reason", f"stop reason {raw!r} is read as a normal stop")
        if stop.additionalModelResponseFields:
            self._notes["additionalModelResponseFields"] = stop.additionalModelResponseFields
        extra, self._notes = {NAME: self._notes} if self._notes else None, {}
        self.ledger.finish(REASONS.get(raw, "stop"), raw, extra=extra)
        self.ledger.end()

    def _answer(self, answer: wire.Payload, output: wire.Output) -> None:
        """An answer that was not streamed, by way of the same events."""
        self._message_start(wire.MessageStart())
        for index, block in enumerate((output.message or wire.Message()).content or ()):
            self._blocks.whole(index, block)
        if answer.stopReason:
            self._message_stop(wire.MessageStop(answer.stopReason, answer.additionalModelResponseFields))
        self._metadata(wire.Metadata(answer.usage, *(getattr(answer, key) for key in _NOTES)))
        self.ledger.end()

    # ── blocks ────────────────────────────────────────────────────────────────────────────────────

    def _start(self, said: wire.BlockStart) -> None:
        if not self._blocks.start(said.contentBlockIndex, said.start or {}):
            self.keep()

    def _delta(self, said: wire.BlockDelta) -> None:
        if not self._blocks.delta(said.contentBlockIndex, said.delta):
            self.keep()

    def _block_stop(self, said: wire.BlockStop) -> None:
        self._blocks.stop(said.contentBlockIndex)

    # ── usage and faults ──────────────────────────────────────────────────────────────────────────

    def _count(self, raw: dict[str, Any] | None) -> None:
        if not raw:
            return
        try:
            said = msgspec.convert(raw, wire.Usage, strict=False)
        except msgspec.ValidationError:
            self.diagnostics.add("wrong-shape", "usage is not of the shape it should have and is left out")
            return
        read = _first(said.cacheReadInputTokens, said.cacheReadInputTokenCount)
        written = _first(said.cacheWriteInputTokens, said.cacheWriteInputTokenCount)
        whole = said.inputTokens
        if whole is not None and said.totalTokens != whole + (said.outputTokens or 0):
            whole += (read or 0) + (written or 0)
        self.ledger.usage(ev.Usage(whole, said.outputTokens, read, written, extra={NAME: raw}))

    def _metrics(self, said: wire.InvocationMetrics) -> None:
        """Counts of any model behind `InvokeModel`: for those that give none themselves."""
        if self.ledger.is_open and self.ledger.known_usage() is None:
            cached = (said.cacheReadInputTokenCount or 0) + (said.cacheWriteInputTokenCount or 0)
            whole = None if said.inputTokenCount is None else said.inputTokenCount + cached
            read, written = said.cacheReadInputTokenCount, said.cacheWriteInputTokenCount
            self.ledger.usage(ev.Usage(whole, said.outputTokenCount, read, written))

    def _error(self, payload: wire.Payload) -> None:
        """An exception by its frame's name, under its own, or by the body of a failed request; else it is unknown."""
        code = self.frame[0].decode("utf-8", "replace") or (payload.kind or "").rpartition("#")[2]
        failed = code.endswith("Exception")
        error = wire.Error(payload.message or payload.capital, payload.originalStatusCode, payload.originalMessage)
        for name in _FAULTS:
            if (said := getattr(payload, name)) is not None:
                code, error, failed = name, said, True
        if failed or (error != wire.Error() and (not code or code[0].isupper())):  # events begin in lower case
            self._fault(code, error)
        else:
            self.keep()

    def _fault(self, code: str, error: wire.Error) -> None:
        message = error.message or error.originalMessage or "Bedrock reported an error"
        status = error.originalStatusCode
        kind = classify((code,) if status is None else (), message, status)
        self.ledger.breaking = self.ledger.is_open
        self._blocks.close(partial=True)
        self._stop = None
        said = {"message": error.message, "originalMessage": error.originalMessage}
        told = {key: value for key, value in said.items() if value is not None} or {"message": message}
        self.ledger.fault(kind, message, status=status, code=code, extra={NAME: {"error": told}})

    def named(self, name: str, data: bytes) -> bool:
        """An exception whose data is not JSON is one all the same."""
        if name.endswith("Exception") and not data.lstrip().startswith(b"{"):
            self._fault(name, wire.Error(data.decode("utf-8", "replace") or None))
            return True
        return False

    kinds: ClassVar[Mapping[str, Callable[[Any, Any], None]]] = {
        "messageStart": _message_start,
        "contentBlockStart": _start,
        "contentBlockStop": _block_stop,
        "messageStop": _message_stop,
        "metadata": _metadata,
        "invocation": _metrics,
    }
    table: ClassVar[Mapping[type, Callable[[Any, Any], None]]] = {wire.Payload: _payload}


def _first(*counts: int | None) -> int | None:
    return next((count for count in counts if count is not None), None)
