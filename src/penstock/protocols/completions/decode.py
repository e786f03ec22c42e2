"""Legacy text completions → events: each choice is one part of text. Leans on the ledger for the grammar."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import msgspec

from penstock import events as ev
from penstock import lenient_fields as lenient
from penstock.codec import Decoder
from penstock.faults import classify
from penstock.protocols.completions import wire

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from penstock.events import Extra, Reason

NAME = "completions"
REASONS: dict[str, Reason] = {
    "stop": "stop", "eos": "stop", "eos_token": "stop", "stop_sequence": "stop",
    "length": "length", "max_tokens": "length", "model_length": "length", "content_filter": "filter",
}  # fmt: skip
_ALIVE = frozenset({"ping", "keepalive"})


class CompletionsDecoder(Decoder):
    """State: whether `[DONE]` came, behind which another answer may follow."""

    protocol = NAME
    shape = wire.Chunk
    read = staticmethod(msgspec.json.Decoder(wire.Chunk).decode)

    def __init__(self) -> None:
        super().__init__()
        self._done = False

    def _chunk(self, chunk: wire.Chunk) -> None:
        if not chunk.choices and not self._bare(chunk):
            return
        if not self.ledger.is_open and not self._begin(chunk):
            return
        for choice in chunk.choices or ():
            self._choice(choice)
        if chunk.usage is not None:
            self._count(chunk.usage)
        if chunk.error is not None:
            self._error(chunk.error)

    def _bare(self, chunk: wire.Chunk) -> bool:
        """Whether a chunk without choices says anything: usage or an error; other things are unknown."""
        if chunk.error is None and (chunk.object == "error" or self.frame[0] == b"error"):
            chunk.error = {"message": chunk.message, "type": chunk.type, "code": chunk.code}
        if chunk.usage is not None or chunk.error is not None:
            return True
        if chunk.choices is None and chunk.type not in _ALIVE:
            self.keep()
        return False

    def _begin(self, chunk: wire.Chunk) -> bool:
        """Open a turn. After the end only a new answer behind a `[DONE]` opens another."""
        if self.ledger.turns and not (self._done and chunk.choices):
            self.diagnostics.add("after-end", "a chunk after the end of the turn is ignored")
            return False
        self._done = False
        created = lenient.to_integer(chunk.created)
        mark = chunk.system_fingerprint
        extra: Extra | None = {NAME: {"system_fingerprint": mark}} if mark else None
        return self.ledger.start(chunk.id or "", chunk.model or "", created, extra)

    def _choice(self, choice: wire.Choice) -> None:
        index = choice.index or 0
        if choice.text:
            if self.ledger.find(index) is None:
                self.ledger.open_text(index, choice=index)
            said = None if choice.logprobs is None else wire.read(choice.logprobs)
            self.ledger.append_text(index, choice.text, said)
        if choice.finish_reason:
            self._finish(index, choice.finish_reason, choice.stop_reason)

    def _finish(self, index: int, word: str, by: Any) -> None:
        reason = REASONS.get(word)
        if reason is None:
            self.diagnostics.add("unknown-reason", f"finish reason {word!r} is read as a normal stop")
        extra: Extra | None = None if by is None else {NAME: {"stop_reason": by}}
        self.ledger.finish(reason or "stop", word, choice=index, extra=extra)

    def _count(self, raw: dict[str, Any]) -> None:
        try:
            said = msgspec.convert(raw, wire.Usage, strict=False)
        except msgspec.ValidationError:
            self.diagnostics.add("wrong-shape", "usage is not of the shape it should have and is left out")
            return
        cached = (said.prompt_tokens_details or wire.PromptDetails()).cached_tokens
        reasoning = (said.completion_tokens_details or wire.CompletionDetails()).reasoning_tokens
        usage = ev.Usage(said.prompt_tokens, said.completion_tokens, cached, None, reasoning, extra={NAME: raw})
        self.ledger.usage(usage)

    def _error(self, error: dict[str, Any] | str) -> None:
        said = {"message": error} if isinstance(error, str) else error
        number = lenient.get_integer(said, "code")
        code, kind = lenient.get_text(said, "code"), lenient.get_text(said, "type")
        message = lenient.get_text(said, "message") or "the provider reported an error"
        fault = classify((code, kind), message, number)
        word = code or kind or str(number or "")
        self.ledger.fault(fault, message, status=number, code=word, extra={NAME: {"error": said}})

    def named(self, name: str, data: bytes) -> bool:
        if data.strip().upper() == b"[DONE]":
            self.ledger.end()
            self._done = True
        elif name == "error" and not data.lstrip().startswith(b"{"):
            self._error(data.decode("utf-8", "replace"))
        else:
            return False
        return True

    table: ClassVar[Mapping[type, Callable[[Any, Any], None]]] = {wire.Chunk: _chunk}
