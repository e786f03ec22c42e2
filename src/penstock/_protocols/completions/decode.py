"""Legacy text completions → events. Each choice is one text part. A body has the same shape as a chunk."""

from __future__ import annotations

from itertools import zip_longest
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec
from msgspec import Struct

from penstock import _lenient_fields as lenient
from penstock import events as ev
from penstock._codec import Decoder
from penstock._openai_chunk_encoding import KEEP_ALIVE_TYPES
from penstock._vendor_errors import classify_fault

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from penstock.events import Extra, Reason

NAME = "completions"


class TokenLogprobs(Struct, gc=False):
    """Parallel lists with one item per token."""

    tokens: list[str] | None = None
    token_logprobs: list[float | None] | None = None
    top_logprobs: list[dict[str, float] | None] | None = None


class TextChoice(Struct, gc=False):
    index: int | None = None
    text: str | None = None
    logprobs: dict[str, Any] | None = None
    finish_reason: str | None = None
    stop_reason: Any = None  # vLLM: the string or token id that stopped the text


class TextChunk(Struct, gc=False):
    """A chunk, a complete completion, or an error object."""

    id: str | None = None
    model: str | None = None
    created: float | None = None
    choices: list[TextChoice] | None = None
    usage: dict[str, Any] | None = None
    system_fingerprint: str | None = None
    error: dict[str, Any] | str | None = None
    object: str | None = None  # vLLM: `error` if the fields below describe one
    type: str | None = None  # of an error, or of some gateways' keep-alives
    message: Any = None
    code: Any = None


class TokenDetails(Struct, gc=False):
    cached_tokens: int | None = None
    reasoning_tokens: int | None = None


class CompletionUsage(Struct, gc=False):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: TokenDetails | None = None
    completion_tokens_details: TokenDetails | None = None


def read_logprobs(raw: dict[str, Any]) -> dict[str, Any] | None:
    """Converts parallel lists to a list of objects, which some servers already send. None if it is neither."""
    if "content" in raw:
        return raw
    try:
        lists = msgspec.convert(raw, TokenLogprobs, strict=False)
    except msgspec.ValidationError:
        return None
    rows = zip_longest(lists.tokens or (), lists.token_logprobs or (), lists.top_logprobs or ())
    return {"content": [_build_token(token or "", logprob, top) for token, logprob, top in rows]}


def _build_token(token: str, logprob: float | None, top: Mapping[str, float] | None) -> dict[str, Any]:
    others = [{"token": other, "logprob": value, "bytes": None} for other, value in (top or {}).items()]
    return {"token": token, "logprob": logprob, "bytes": None, "top_logprobs": others}


def write_logprobs(logprobs: Any, offset: int) -> tuple[dict[str, Any], int]:
    """Converts a list of objects to parallel lists. Returns them and the text offset of the next token."""
    lists: dict[str, list[Any]] = {"tokens": [], "token_logprobs": [], "top_logprobs": [], "text_offset": []}
    for row in lenient.get_objects(lenient.as_object(logprobs), "content"):
        token, top = lenient.get_text(row, "token"), lenient.get_objects(row, "top_logprobs")
        lists["tokens"].append(token)
        lists["token_logprobs"].append(row.get("logprob"))
        lists["top_logprobs"].append({lenient.get_text(row, "token"): row.get("logprob") for row in top})
        lists["text_offset"].append(offset)
        offset += len(token)
    return dict(lists), offset


_REASONS: dict[str, Reason] = {
    **dict.fromkeys(("stop", "eos", "eos_token", "stop_sequence"), "stop"),
    **dict.fromkeys(("length", "max_tokens", "model_length"), "length"),
    "content_filter": "filter",
}


class CompletionsDecoder(Decoder):
    """State: whether `[DONE]` came, after which another turn may follow."""

    protocol = NAME
    shape = TextChunk
    read = staticmethod(msgspec.json.Decoder(TextChunk).decode)

    def __init__(self) -> None:
        super().__init__()
        self._done = False

    def _read_chunk(self, chunk: TextChunk) -> None:
        if not chunk.choices and not self._has_metadata(chunk):
            return
        if not self.ledger.is_open and not self._start_turn(chunk):
            return
        for choice in chunk.choices or ():
            self._read_choice(choice)
        if chunk.usage is not None:
            self._report_usage(chunk.usage)
        if chunk.error is not None:
            self._report_error(chunk.error)

    def _has_metadata(self, chunk: TextChunk) -> bool:
        """Returns True for a chunk without choices that has usage or an error; keeps an unknown one."""
        self.without_choices += 1
        if chunk.error is None and (chunk.object == "error" or self.frame[0] == b"error"):
            chunk.error = {"message": chunk.message, "type": chunk.type, "code": chunk.code}
        if chunk.usage is not None or chunk.error is not None:
            return True
        if chunk.choices is None and chunk.type not in KEEP_ALIVE_TYPES:
            self.report_unknown()
        return False

    def _start_turn(self, chunk: TextChunk) -> bool:
        """Opens a turn. After a turn ended, only a chunk with choices after `[DONE]` opens the next one."""
        if self.ledger.turns and not (self._done and chunk.choices):
            self.diagnostics.add("after-end", "a chunk after the end of the turn is ignored")
            return False
        self._done = False
        fingerprint = chunk.system_fingerprint
        extra: Extra | None = {NAME: {"system_fingerprint": fingerprint}} if fingerprint else None
        return self.ledger.start(chunk.id or "", chunk.model or "", lenient.to_integer(chunk.created), extra)

    def _read_choice(self, choice: TextChoice) -> None:
        index = choice.index or 0
        if choice.text:
            if self.ledger.find(index) is None:
                self.ledger.open_text(index, choice=index)
            logprobs = None if choice.logprobs is None else read_logprobs(choice.logprobs)
            self.ledger.append_text(index, choice.text, logprobs)
        if choice.finish_reason:
            self._finish_choice(index, choice.finish_reason, choice.stop_reason)

    def _finish_choice(self, index: int, name: str, stop_reason: Any) -> None:
        if name not in _REASONS:
            self.diagnostics.add("unknown-reason", f"finish reason {name!r} is read as a normal stop")
        extra: Extra | None = None if stop_reason is None else {NAME: {"stop_reason": stop_reason}}
        self.ledger.finish(_REASONS.get(name, "stop"), name, choice=index, extra=extra)

    def _report_usage(self, raw: dict[str, Any]) -> None:
        try:
            usage = msgspec.convert(raw, CompletionUsage, strict=False)
        except msgspec.ValidationError:
            self.diagnostics.add("wrong-shape", "usage is not of the shape it should have and is left out")
            return
        cached = (usage.prompt_tokens_details or TokenDetails()).cached_tokens
        reasoning = (usage.completion_tokens_details or TokenDetails()).reasoning_tokens
        extra = {NAME: raw}
        self.ledger.usage(ev.Usage(usage.prompt_tokens, usage.completion_tokens, cached, None, reasoning, extra=extra))

    def _report_error(self, error: dict[str, Any] | str) -> None:
        error = {"message": error} if isinstance(error, str) else error
        status = lenient.get_integer(error, "code")
        code, kind = lenient.get_text(error, "code"), lenient.get_text(error, "type")
        message = lenient.get_text(error, "message") or "the provider reported an error"
        fault, code = classify_fault((code, kind), message, status), code or kind or str(status or "")
        self.ledger.fault(fault, message, status=status, code=code, extra={NAME: {"error": error}})

    def read_special_frame(self, name: str, data: bytes) -> bool:
        """Handles `[DONE]` and error events that are not JSON."""
        if data.strip().upper() == b"[DONE]":
            self.ledger.end()
            self._done = True
        elif name == "error" and not data.lstrip().startswith(b"{"):
            self._report_error(data.decode("utf-8", "replace"))
        else:
            return False
        return True

    table: ClassVar[Mapping[type, Callable[[Any, Any], None]]] = {TextChunk: _read_chunk}
