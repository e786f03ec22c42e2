"""Ollama chat and generate → events. Leans on the ledger for the grammar and on `<think>` tags' own reader.

A line says what is new of text, thinking and calls; calls come whole. There are no marks between parts, so one ends
when another kind begins. `done` is the end of the answer.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec

from penstock import events as ev
from penstock import lenient_fields as lenient
from penstock.codec import Decoder
from penstock.delta_templates import string_remover
from penstock.faults import classify
from penstock.jsontext import as_json
from penstock.protocols.ollama import wire
from penstock.transforms.think import ThinkTags

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from penstock.events import Extra, Reason
    from penstock.ledger import Part

NAME = "ollama"
REASONS: dict[str, Reason] = {
    "stop": "stop",
    "length": "length",
    "tool_calls": "calls",
    "load": "stop",
    "unload": "stop",
}
"""`load` and `unload` answer a request without a prompt, which only moves the model."""

_COUNTS = (
    "prompt_eval_count",
    "eval_count",
    "total_duration",
    "load_duration",
    "prompt_eval_duration",
    "eval_duration",
)
_NO_MESSAGE = wire.Message()
# A time in every line; the first one counts.
_IGNORED = (string_remover(b"created_at"),)


class OllamaDecoder(Decoder):
    """State: the kind of the open part, the reader of tags, the number of calls, what they are named after."""

    protocol = NAME
    ignored = _IGNORED
    shape = wire.Line
    read = staticmethod(msgspec.json.Decoder(wire.Line).decode)

    def __init__(self, *, think: bool = True) -> None:
        super().__init__()
        self._tags = think
        self._whole = True  # whether the last turn came to its end, so that another may begin
        self._reset("")

    def _reset(self, created: str) -> None:
        self._kind = ""
        self._think: ThinkTags | None = ThinkTags() if self._tags else None
        self._calls = 0
        self._mint = "".join(char for char in created if char.isdigit()) or self.ledger.id_prefix

    # ── the line ──────────────────────────────────────────────────────────────────────────────────

    def _line(self, line: wire.Line) -> None:
        message = line.message or _NO_MESSAGE
        if line.error is not None:
            self._error(line.error, line.StatusCode)
            return
        if line.message is None and line.response is None and line.done is None:
            self.keep()
            return
        if not self.ledger.is_open and not self._begin(line):
            return
        thinking, text = message.thinking or line.thinking, message.content or line.response
        if thinking:
            self._say("reasoning", thinking)
        if text:
            self._text(text, None if line.logprobs is None else {"content": line.logprobs})
        if message.tool_calls or line.tool_calls or message.images:
            self._rare(message.tool_calls or line.tool_calls or (), message.images or ())
        if line.done:
            self._done(line)

    def _begin(self, line: wire.Line) -> bool:
        """Open a turn. After the end, a line that only says so again is ignored; after a fault, every line."""
        if self.ledger.turns and (line.done or not self._whole):
            self.diagnostics.add("after-end", "a line after the end of the turn is ignored")
            return False
        self._whole = False
        self._reset(line.created_at or "")
        return self.ledger.start("", line.model or "", _seconds(line.created_at or ""))

    def _error(self, error: str | dict[str, Any], status: int | None) -> None:
        said = {"message": error} if isinstance(error, str) else error
        message = lenient.get_text(said, "message") or "Ollama reported an error"
        words = (lenient.get_text(said, "code", "type") or message,)
        self.ledger.fault(classify(words, message, status), message, status=status, extra={NAME: {"error": said}})

    def _done(self, line: wire.Line) -> None:
        self._flush()
        raw = {key: value for key in _COUNTS if (value := getattr(line, key)) is not None}
        if raw:
            self.ledger.usage(ev.Usage(line.prompt_eval_count, line.eval_count, extra={NAME: raw}))
        word = line.done_reason or ""
        if word and word not in REASONS:
            self.diagnostics.add("unknown-reason", f"finish reason {word!r} is read as a normal stop")
        extra: Extra | None = {NAME: {"context": line.context}} if line.context else None
        self.ledger.finish(REASONS.get(word, "stop"), word, extra=extra)
        self.ledger.end()
        self._whole = True

    def finish(self) -> list[ev.AnyEvent]:
        self._flush()
        return super().finish()

    def is_steady(self, part: Part) -> bool:
        return self._think is None or (self._kind == "reasoning" and self._think.fresh)

    # ── parts ─────────────────────────────────────────────────────────────────────────────────────

    def _text(self, text: str, logprobs: Any) -> None:
        if self._think is None:
            self._say("text", text, logprobs)
            return
        for kind, piece in self._think.feed(text):
            self._say(kind, piece, logprobs)
        if self._think.done:
            self._think = None

    def _flush(self) -> None:
        """Say what the reader of tags held back."""
        if self._think is not None and self.ledger.is_open:
            for kind, piece in self._think.finish():
                self._say(kind, piece)
            self._think = None

    def _say(self, kind: str, text: str, logprobs: Any = None) -> None:
        if kind != self._kind:
            self.ledger.close(self._kind)
            self._kind = kind
            if kind == "text":
                self.ledger.open_text(kind)
            else:
                self.ledger.open_reasoning(kind)
        self.ledger.append_text(kind, text, logprobs if kind == "text" else None)

    def _rare(self, calls: Sequence[wire.ToolCall], images: Sequence[str]) -> None:
        self._flush()
        self.ledger.close(self._kind)
        self._kind = ""
        for call in calls:
            self._call(call)
        for image in images:
            self.ledger.open_file("image", "image/*")
            self.ledger.append_text("image", image)
            self.ledger.close("image")

    def _call(self, call: wire.ToolCall) -> None:
        """A call is whole when it comes. Where the server gives no id, one is made of time and number."""
        key, said = ("call", self._calls), call.function or wire.Function()
        self._calls += 1
        given = said.arguments
        json = given if isinstance(given, str) else as_json(given or {})
        self.ledger.open_call(key, call.id or f"call_{self._mint}_{key[1]}", said.name or "")
        self.ledger.end_call(key, json)

    table: ClassVar[Mapping[type, Callable[[Any, Any], None]]] = {wire.Line: _line}


def _seconds(moment: str) -> int | None:
    """A timestamp in seconds; Ollama's has nine digits behind the point, or fewer."""
    try:
        when = datetime.fromisoformat(moment)
    except ValueError:
        return None
    seconds = int((when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp())
    return seconds if seconds > 0 else None
