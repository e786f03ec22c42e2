"""Legacy text completions → events. Each choice is one text part."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import msgspec

from penstock import _lenient_fields as lenient
from penstock import events as ev
from penstock._codec import Decoder
from penstock._openai_chunks import KEEP_ALIVE_TYPES
from penstock._protocols.completions import wire
from penstock._protocols.completions.wire import NAME
from penstock._vendor_errors import classify_fault

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from penstock.events import Extra, Reason

_REASONS: dict[str, Reason] = {
    **dict.fromkeys(("stop", "eos", "eos_token", "stop_sequence"), "stop"),
    **dict.fromkeys(("length", "max_tokens", "model_length"), "length"),
    "content_filter": "filter",
}


class CompletionsDecoder(Decoder):
    """State: whether `[DONE]` came, after which another turn may follow."""

    protocol = NAME
    shape = wire.Chunk
    read = staticmethod(msgspec.json.Decoder(wire.Chunk).decode)

    def __init__(self) -> None:
        super().__init__()
        self._done = False

    def _chunk(self, chunk: wire.Chunk) -> None:
        if not chunk.choices and not self._has_metadata(chunk):
            return
        if not self.ledger.is_open and not self._begin(chunk):
            return
        for choice in chunk.choices or ():
            self._choice(choice)
        if chunk.usage is not None:
            self._report_usage(chunk.usage)
        if chunk.error is not None:
            self._error(chunk.error)

    def _has_metadata(self, chunk: wire.Chunk) -> bool:
        """Returns True for a chunk without choices that has usage or an error; keeps an unknown one."""
        if chunk.error is None and (chunk.object == "error" or self.frame[0] == b"error"):
            chunk.error = {"message": chunk.message, "type": chunk.type, "code": chunk.code}
        if chunk.usage is not None or chunk.error is not None:
            return True
        if chunk.choices is None and chunk.type not in KEEP_ALIVE_TYPES:
            self.keep()
        return False

    def _begin(self, chunk: wire.Chunk) -> bool:
        """Opens a turn. After a turn ended, only a chunk with choices after `[DONE]` opens the next one."""
        if self.ledger.turns and not (self._done and chunk.choices):
            self.diagnostics.add("after-end", "a chunk after the end of the turn is ignored")
            return False
        self._done = False
        fingerprint = chunk.system_fingerprint
        extra: Extra | None = {NAME: {"system_fingerprint": fingerprint}} if fingerprint else None
        return self.ledger.start(chunk.id or "", chunk.model or "", lenient.to_integer(chunk.created), extra)

    def _choice(self, choice: wire.Choice) -> None:
        index = choice.index or 0
        if choice.text:
            if self.ledger.find(index) is None:
                self.ledger.open_text(index, choice=index)
            logprobs = None if choice.logprobs is None else wire.read_logprobs(choice.logprobs)
            self.ledger.append_text(index, choice.text, logprobs)
        if choice.finish_reason:
            self._finish(index, choice.finish_reason, choice.stop_reason)

    def _finish(self, index: int, name: str, stop_reason: Any) -> None:
        if name not in _REASONS:
            self.diagnostics.add("unknown-reason", f"finish reason {name!r} is read as a normal stop")
        extra: Extra | None = None if stop_reason is None else {NAME: {"stop_reason": stop_reason}}
        self.ledger.finish(_REASONS.get(name, "stop"), name, choice=index, extra=extra)

    def _report_usage(self, raw: dict[str, Any]) -> None:
        try:
            usage = msgspec.convert(raw, wire.Usage, strict=False)
        except msgspec.ValidationError:
            self.diagnostics.add("wrong-shape", "usage is not of the shape it should have and is left out")
            return
        cached = (usage.prompt_tokens_details or wire.PromptDetails()).cached_tokens
        reasoning = (usage.completion_tokens_details or wire.CompletionDetails()).reasoning_tokens
        extra = {NAME: raw}
        self.ledger.usage(ev.Usage(usage.prompt_tokens, usage.completion_tokens, cached, None, reasoning, extra=extra))

    def _error(self, error: dict[str, Any] | str) -> None:
        error = {"message": error} if isinstance(error, str) else error
        status = lenient.get_integer(error, "code")
        code, kind = lenient.get_text(error, "code"), lenient.get_text(error, "type")
        message = lenient.get_text(error, "message") or "the provider reported an error"
        fault, code = classify_fault((code, kind), message, status), code or kind or str(status or "")
        self.ledger.fault(fault, message, status=status, code=code, extra={NAME: {"error": error}})

    def named(self, name: str, data: bytes) -> bool:
        """Handles `[DONE]` and error events that are not JSON."""
        if data.strip().upper() == b"[DONE]":
            self.ledger.end()
            self._done = True
        elif name == "error" and not data.lstrip().startswith(b"{"):
            self._error(data.decode("utf-8", "replace"))
        else:
            return False
        return True

    table: ClassVar[Mapping[type, Callable[[Any, Any], None]]] = {wire.Chunk: _chunk}
