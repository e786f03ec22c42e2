"""Ollama chat and generate → events.

A line has the new text, thinking and complete calls. Parts have no marks; one ends when another kind begins. `done`
ends the answer. `<think>` tags in the text become reasoning.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec

from penstock import _lenient_fields as lenient
from penstock import events as ev
from penstock._codec import Decoder
from penstock._delta_templates import string_remover
from penstock._lenient_json import as_json
from penstock._protocols.ollama import wire
from penstock._transforms.think_tags import ThinkTags
from penstock._vendor_errors import classify_fault

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from penstock._ledger import LedgerPart
    from penstock.events import Extra, Reason

NAME = "ollama"
# `load` and `unload` answer a request without a prompt, which only loads or unloads the model.
_REASONS: dict[str, Reason] = {
    "length": "length",
    "tool_calls": "calls",
    **dict.fromkeys(("stop", "load", "unload"), "stop"),
}
_COUNTS = "prompt_eval_count eval_count total_duration load_duration prompt_eval_duration eval_duration"
_NO_MESSAGE = wire.Message()


class OllamaDecoder(Decoder):
    """State: the kind of the open part, the parser of `<think>` tags, and the number and id prefix of calls."""

    protocol = NAME
    ignored = (string_remover(b"created_at"),)  # every line has a time; the first one counts
    shape = wire.ResponseLine
    read = staticmethod(msgspec.json.Decoder(wire.ResponseLine).decode)

    def __init__(self, *, think: bool = True) -> None:
        super().__init__()
        self._parse_tags = think
        self._complete = True  # the last turn ended normally, so another may begin
        self._reset("")

    def _reset(self, created: str) -> None:
        self._kind = ""
        self._think: ThinkTags | None = ThinkTags() if self._parse_tags else None
        self._calls = 0
        self._id_prefix = "".join(char for char in created if char.isdigit()) or self.ledger.id_prefix

    def _read_line(self, line: wire.ResponseLine) -> None:
        message = line.message or _NO_MESSAGE
        if line.error is not None:
            self._error(line.error, line.StatusCode)
            return
        if line.message is None and line.response is None and line.done is None:
            self.report_unknown()
            return
        if not self.ledger.is_open and not self._begin(line):
            return
        thinking, text = message.thinking or line.thinking, message.content or line.response
        if thinking:
            self._append_text("reasoning", thinking)
        if text:
            self._text(text, None if line.logprobs is None else {"content": line.logprobs})
        if message.tool_calls or line.tool_calls or message.images:
            self._calls_and_images(message.tool_calls or line.tool_calls or (), message.images or ())
        if line.done:
            self._done(line)

    def _begin(self, line: wire.ResponseLine) -> bool:
        """Opens a turn. After the end, another `done` is ignored; after a fault, every line."""
        if self.ledger.turns and (line.done or not self._complete):
            self.diagnostics.add("after-end", "a line after the end of the turn is ignored")
            return False
        self._complete = False
        self._reset(line.created_at or "")
        return self.ledger.start("", line.model or "", _parse_time(line.created_at or ""))

    def _error(self, error: str | dict[str, Any], status: int | None) -> None:
        error = {"message": error} if isinstance(error, str) else error
        message = lenient.get_text(error, "message") or "Ollama reported an error"
        kind = classify_fault((lenient.get_text(error, "code", "type") or message,), message, status)
        self.ledger.fault(kind, message, status=status, extra={NAME: {"error": error}})

    def _done(self, line: wire.ResponseLine) -> None:
        self._flush_tags()
        counts = {key: value for key in _COUNTS.split() if (value := getattr(line, key)) is not None}
        if counts:
            self.ledger.usage(ev.Usage(line.prompt_eval_count, line.eval_count, extra={NAME: counts}))
        reason = line.done_reason or ""
        if reason and reason not in _REASONS:
            self.diagnostics.add("unknown-reason", f"finish reason {reason!r} is read as a normal stop")
        extra: Extra | None = {NAME: {"context": line.context}} if line.context else None
        self.ledger.finish(_REASONS.get(reason, "stop"), reason, extra=extra)
        self.ledger.end()
        self._complete = True

    def finish(self) -> list[ev.AnyEvent]:
        self._flush_tags()
        return super().finish()

    def delivers_text_unchanged(self, part: LedgerPart) -> bool:
        return self._think is None or (self._kind == "reasoning" and self._think.fresh)

    # ── parts ─────────────────────────────────────────────────────────────────────────────────────

    def _text(self, text: str, logprobs: Any) -> None:
        if self._think is None:
            self._append_text("text", text, logprobs)
            return
        for kind, fragment in self._think.feed(text):
            self._append_text(kind, fragment, logprobs)
        if self._think.done:
            self._think = None

    def _flush_tags(self) -> None:
        """Appends the text that the tag parser held back."""
        if self._think is not None and self.ledger.is_open:
            for kind, fragment in self._think.finish():
                self._append_text(kind, fragment)
            self._think = None

    def _append_text(self, kind: str, text: str, logprobs: Any = None) -> None:
        if kind != self._kind:
            self.ledger.close(self._kind)
            self._kind = kind
            if kind == "text":
                self.ledger.open_text(kind)
            else:
                self.ledger.open_reasoning(kind)
        self.ledger.append_text(kind, text, logprobs if kind == "text" else None)

    def _calls_and_images(self, calls: Sequence[wire.ToolCall], images: Sequence[str]) -> None:
        self._flush_tags()
        self.ledger.close(self._kind)
        self._kind = ""
        for call in calls:
            self._call(call)
        for image in images:
            self.ledger.open_file("image", "image/*")
            self.ledger.append_text("image", image)
            self.ledger.close("image")

    def _call(self, call: wire.ToolCall) -> None:
        """Adds a complete call. A missing id is built from the time and a counter."""
        key, function = ("call", self._calls), call.function or wire.Function()
        self._calls += 1
        args = function.arguments
        self.ledger.open_call(key, call.id or f"call_{self._id_prefix}_{key[1]}", function.name or "")
        self.ledger.end_call(key, args if isinstance(args, str) else as_json(args or {}))

    table: ClassVar[Mapping[type, Callable[[Any, Any], None]]] = {wire.ResponseLine: _read_line}


def _parse_time(time: str) -> int | None:
    """Converts a timestamp with up to nine fractional digits to seconds."""
    try:
        parsed = datetime.fromisoformat(time)
    except ValueError:
        return None
    seconds = int((parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)).timestamp())
    return seconds if seconds > 0 else None
