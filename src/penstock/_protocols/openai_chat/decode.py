"""OpenAI Chat Completions and its dialects → events.

A `Choice` reads the deltas of each choice. Calls stay open until the choice ends, because fragments of parallel calls
may interleave. Text may begin with `<think>` tags, which become reasoning.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import msgspec

from penstock import _lenient_fields as lenient
from penstock import events as ev
from penstock._codec import Decoder
from penstock._delta_templates import number_remover, string_remover
from penstock._lenient_json import as_json, convert_pruned, parse_lenient
from penstock._openai_chunk_encoding import KEEP_ALIVE_TYPES
from penstock._protocols.openai_chat import wire
from penstock._protocols.openai_chat.decode_choice import Choice
from penstock._protocols.openai_chat.wire import NAME, drop_content_signature
from penstock._vendor_errors import classify_fault

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from penstock._ledger import Ledger, LedgerPart
    from penstock.events import AnyEvent

# OpenAI's and Mistral's padding, and the time that some servers write into every chunk: the first one counts.
_IGNORED = (string_remover(b"obfuscation"), string_remover(b"p"), number_remover(b'"created'))

_decode_chunk = msgspec.json.Decoder(wire.ChatChunk).decode
_decode_later_chunk = msgspec.json.Decoder(wire.LaterChunk).decode


class ChatDecoder(Decoder):
    """Decodes chunks and whole completions. `_finish_fields` go into the extra data of the finish."""

    protocol = NAME
    shape = wire.ChatChunk
    mark = b"[DONE]"
    ignored = _IGNORED
    read = staticmethod(_decode_chunk)

    def __init__(self, *, think: bool = True) -> None:
        super().__init__()
        self._think_tags = think
        self._done = False
        self._finish_fields: dict[str, Any] = {}
        self._choices: dict[int, Choice] = {}
        self._first_choice = self._get_choice(0)

    # ── the chunk ─────────────────────────────────────────────────────────────────────────────────

    def _read_any_chunk(self, chunk: wire.ChatChunk) -> None:
        """Reads a payload outside a turn, which may begin one, or a payload without choices."""
        if (chunk.choices or self._has_turn_data(chunk)) and (self.ledger.is_open or self._start_turn(chunk)):
            if chunk.prompt_filter_results is not None:
                self._finish_fields["prompt_filter_results"] = chunk.prompt_filter_results
            self.read = _decode_later_chunk
            self._read_choices(chunk)

    def _read_later_chunk(self, chunk: wire.LaterChunk) -> None:
        """Reads a payload inside a turn."""
        if self.ledger.is_open and chunk.choices:
            self._read_choices(chunk)
        else:
            self._read_any_chunk(_decode_chunk(self.frame[1]))

    def delivers_text_unchanged(self, part: LedgerPart) -> bool:
        return part.choice in self._choices and self._choices[part.choice].delivers_text_unchanged(part)

    def keep_texts(self, part: LedgerPart, texts: list[str]) -> None:
        super().keep_texts(part, texts)
        if part.is_call and part.choice in self._choices:
            self._choices[part.choice].calls.keep_texts(part, texts)

    def _read_choices(self, chunk: wire.LaterChunk) -> None:
        for choice in chunk.choices or ():
            self._read_choice(choice)
        usage = chunk.x_groq.get("usage") if chunk.usage is None and chunk.x_groq is not None else chunk.usage
        if usage is not None:
            self._report_usage(usage)
        if chunk.error is not None:
            report_error(self.ledger, chunk.error)
        if chunk.citations is not None or chunk.search_results is not None:
            self._first_choice.extras.add_search_results(chunk.search_results or (), chunk.citations or ())

    def _has_turn_data(self, chunk: wire.ChatChunk) -> bool:
        """True if a chunk without choices has data of a turn; else it is a keep-alive, an error or unknown."""
        self.without_choices += 1
        if chunk.prompt_filter_results is not None:
            self._finish_fields["prompt_filter_results"] = chunk.prompt_filter_results  # before the turn begins
        if chunk.type in KEEP_ALIVE_TYPES:
            return False
        if chunk.error is None and self._report_bare_error(chunk):
            return False
        if chunk.usage is None and chunk.error is None and chunk.citations is None:
            if chunk.choices is None:
                self.report_unknown()
            return False
        return True

    def _report_bare_error(self, chunk: wire.ChatChunk) -> bool:
        """Reports an error without an `error` field: by its type, or a message instead of an answer."""
        message = chunk.message or chunk.detail
        named = chunk.type == "error" or self.frame[0] == b"error"
        if not named and (self.ledger.turns or not isinstance(message, str)):
            return False
        fields = lenient.as_object(parse_lenient(self.frame[1]))
        report_error(self.ledger, {**fields, "message": message or self.frame[1].decode("utf-8", "replace")})
        return True

    def _start_turn(self, chunk: wire.ChatChunk) -> bool:
        """Opens a turn. After the end, only a new answer after `[DONE]` opens another."""
        if self.ledger.turns:
            if not self._done or not chunk.choices:
                self.diagnostics.add("after-end", "a chunk after the end of the turn is ignored")
                return False
            self._choices.clear()
            self._finish_fields.clear()
            self._first_choice, self._done = self._get_choice(0), False
        created = lenient.to_integer(chunk.created)
        extras = {key: value for key in ("service_tier", "system_fingerprint") if (value := getattr(chunk, key))}
        return self.ledger.start(chunk.id or "", chunk.model or "", created, {NAME: extras} if extras else None)

    def _report_usage(self, raw: Any) -> None:
        usage = read_usage(raw) if isinstance(raw, dict) else None  # pyright: ignore[reportUnknownArgumentType]
        if usage is not None:
            self.ledger.usage(usage)

    def read_special_frame(self, name: str, data: bytes) -> bool:
        payload = data.strip()
        if payload.upper() == b"[DONE]":
            self._flush_choices()
            self.ledger.end()
            self._done = True
        elif name == "error":
            report_error(self.ledger, payload.decode("utf-8", "replace"))
        else:
            return False
        return True

    def finish(self) -> list[AnyEvent]:
        self.ledger.breaking = self.ledger.is_open and not self.ledger.finishing
        self._flush_choices()
        return super().finish()

    def mark_complete(self) -> None:
        self._flush_choices()
        self.ledger.end()

    # ── one choice ────────────────────────────────────────────────────────────────────────────────

    def _get_choice(self, index: int) -> Choice:
        if index not in self._choices:
            self._choices[index] = Choice(self.ledger, index, think=self._think_tags)
        return self._choices[index]

    def _read_choice(self, choice: wire.ChatChoice) -> None:
        index = choice.index or 0
        choice_state = self._choices.get(index) or self._get_choice(index)
        delta = choice.message if choice.delta is None else choice.delta
        if delta is not None:
            if choice.message is not None and delta is choice.delta and not choice_state.has_content:
                delta = _join_message(delta, choice.message)
            choice_state.read_delta(delta, choice.logprobs)
            if delta.extra_content:  # the open text takes the signature; the rest goes into the finish
                rest = (
                    drop_content_signature(delta.extra_content) if choice_state.took_signature else delta.extra_content
                )
                self._finish_fields.update({"extra_content": rest} if rest else {})
        if choice.finish_reason or choice.content_filter_results or choice.error:
            self._finish_choice(choice_state, choice)

    def _finish_choice(self, choice_state: Choice, choice: wire.ChatChoice) -> None:
        if choice.content_filter_results:
            self._finish_fields["content_filter_results"] = choice.content_filter_results
        if choice.finish_reason:
            choice_state.finish(choice.finish_reason, {NAME: self._finish_fields} if self._finish_fields else None)
        if choice.error is not None:
            report_error(self.ledger, choice.error)

    def _flush_choices(self) -> None:
        for choice_state in self._choices.values():
            choice_state.flush()

    table: ClassVar[Mapping[type, Callable[[Any, Any], None]]] = {
        wire.ChatChunk: _read_any_chunk,
        wire.LaterChunk: _read_later_chunk,
    }


def _join_message(delta: wire.ChatDelta, message: wire.ChatDelta) -> wire.ChatDelta:
    """Joins the delta of a choice's first payload with what only its message has.

    Perplexity sends both, in streams and in whole bodies. In a stream the message repeats all of the answer so far, so
    only the first one counts; in a whole body the delta is empty.
    """
    fields = {name: getattr(delta, name) or getattr(message, name) for name in wire.ChatDelta.__struct_fields__}
    return wire.ChatDelta(**fields)


def report_error(ledger: Ledger, error: dict[str, Any] | str) -> None:
    """Ends the turn with a fault made of the provider's error object."""
    fields: dict[str, Any] = {"message": error} if isinstance(error, str) else error
    code, kind = fields.get("code"), fields.get("type")
    statuses = (fields.get("status_code"), fields.get("raw_status_code"), code, fields.get("status"))
    status = next((value for value in statuses if isinstance(value, int)), None)
    message = str(fields.get("message") or "the provider reported an error")
    codes = [str(value) for value in (code, kind) if value]
    fault, extra = classify_fault(codes, message, status), {NAME: {"error": fields}}
    ledger.fault(fault, message, status=status, code=str(code or kind or ""), extra=extra)


def _first_count(*values: int | None) -> int | None:
    for value in values:  # a generator would cost more than the rest of this function
        if value is not None:
            return value
    return None


def _is_reasoning_separate(prompt: int | None, completion: int, reasoning: int, total: int | None) -> bool:
    """True if completion_tokens does not include reasoning. The total decides; else the larger count does."""
    included = (prompt or 0) + completion
    return reasoning > completion if total not in (included, included + reasoning) else total != included


def read_usage(raw: dict[str, Any]) -> ev.Usage | None:
    """Returns the canonical usage; None if the object holds no counts or has another shape."""
    try:
        counts = msgspec.convert(raw, wire.ChatUsage, strict=False)
    except msgspec.ValidationError:
        try:
            # A copy without the fields that do not fit.
            counts, _ = convert_pruned(parse_lenient(as_json(raw).encode()), wire.ChatUsage)
        except msgspec.ValidationError:
            return None
    prompt, completion = counts.prompt_tokens, counts.completion_tokens
    if prompt is None and completion is None:
        return None
    of_prompt = counts.prompt_tokens_details or wire.TokenDetails()
    of_completion = counts.completion_tokens_details or wire.TokenDetails()
    reasoning = _first_count(of_completion.reasoning_tokens, counts.reasoning_tokens)
    cached = _first_count(
        of_prompt.cached_tokens, counts.cached_tokens, counts.prompt_cache_hit_tokens, counts.cache_read_input_tokens
    )
    written = _first_count(of_prompt.cache_write_tokens, counts.cache_creation_input_tokens)
    if completion is not None and _is_reasoning_separate(prompt, completion, reasoning or 0, counts.total_tokens):
        completion += reasoning or 0
    return ev.Usage(prompt, completion, cached, written, reasoning, extra={"openai-chat": raw})
