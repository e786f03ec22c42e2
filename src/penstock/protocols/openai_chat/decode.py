"""OpenAI Chat Completions and its dialects → events: a fixed sequence of small readers per choice.

What a choice says is for its `Voice` to tell apart; calls stay open until the choice ends, because
fragments of parallel calls may interleave. Text may open with `<think>` tags, which become reasoning.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import msgspec

from penstock import events as ev
from penstock import lenient_fields as lenient
from penstock.codec import Decoder
from penstock.delta_templates import number_remover, string_remover
from penstock.faults import classify
from penstock.jsontext import as_json, fit, loose
from penstock.protocols.openai_chat import wire
from penstock.protocols.openai_chat.decode_calls import Calls
from penstock.protocols.openai_chat.decode_choice import Voice
from penstock.protocols.openai_chat.wire import NAME, rest_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from penstock.events import AnyEvent
    from penstock.ledger import Ledger, Part

_ALIVE = frozenset({"ping", "keepalive"})
# Padding of OpenAI's and Mistral's, and a time that some servers write anew in every chunk; the first one counts.
_IGNORED = (string_remover(b"obfuscation"), string_remover(b"p"), number_remover(b'"created'))

_read_chunk = msgspec.json.Decoder(wire.Chunk).decode
_read_more = msgspec.json.Decoder(wire.More).decode


class ChatDecoder(Decoder):
    """State: a voice per choice, what is to be said with the finish, and whether `[DONE]` came."""

    protocol = NAME
    shape = wire.Chunk
    mark = b"[DONE]"
    ignored = _IGNORED
    read = staticmethod(_read_chunk)

    def __init__(self, *, think: bool = True) -> None:
        super().__init__()
        self._think = think
        self._done = False
        self._notes: dict[str, Any] = {}
        self._voices: dict[int, Voice] = {}
        self._first = self._voice(0)

    # ── the chunk ─────────────────────────────────────────────────────────────────────────────────

    def _chunk(self, chunk: wire.Chunk) -> None:
        """Any payload outside a turn, which may begin one, and any without choices."""
        if (chunk.choices or self._bare(chunk)) and (self.ledger.is_open or self._begin(chunk)):
            if chunk.prompt_filter_results is not None:
                self._notes["prompt_filter_results"] = chunk.prompt_filter_results
            self.read = _read_more
            self._spread(chunk)

    def _more(self, chunk: wire.More) -> None:
        """A payload inside a turn."""
        if self.ledger.is_open and chunk.choices:
            self._spread(chunk)
        else:
            self._chunk(_read_chunk(self.frame[1]))

    def is_steady(self, part: Part) -> bool:
        voice = self._voices.get(part.choice)
        return voice is not None and voice.is_steady(part)

    def keep_texts(self, part: Part, texts: list[str]) -> None:
        super().keep_texts(part, texts)
        voice = self._voices.get(part.choice)
        if voice is not None and part.is_call:
            voice.calls.keep_texts(part, texts)

    def _spread(self, chunk: wire.More) -> None:
        for choice in chunk.choices or ():
            self._choice(choice)
        if chunk.usage is not None or chunk.x_groq is not None or chunk.error is not None:
            self._rest(chunk)
        if chunk.citations is not None or chunk.search_results is not None:
            self._first.extras.found(chunk.search_results or (), chunk.citations or ())

    def _rest(self, chunk: wire.More) -> None:
        """What stands beside the choices."""
        if chunk.usage is not None:
            self._count(chunk.usage)
        elif chunk.x_groq is not None:
            self._count(chunk.x_groq.get("usage"))
        if chunk.error is not None:
            report(self.ledger, chunk.error)

    def _bare(self, chunk: wire.Chunk) -> bool:
        """A chunk without choices: usage, a sign of life, an error in other words, or something unknown."""
        if chunk.prompt_filter_results is not None:
            self._notes["prompt_filter_results"] = chunk.prompt_filter_results  # before there is a turn
        if chunk.type in _ALIVE:
            return False
        if chunk.error is None and self._complains(chunk):
            return False
        if chunk.usage is None and chunk.error is None and chunk.citations is None:
            if chunk.choices is None:
                self.keep()
            return False
        return True

    def _complains(self, chunk: wire.Chunk) -> bool:
        """An error without an `error`: named so, or a message where the answer should have begun."""
        words = chunk.message or chunk.detail
        named = chunk.type == "error" or self.frame[0] == b"error"
        if not named and (self.ledger.turns or not isinstance(words, str)):
            return False
        said = lenient.as_object(loose(self.frame[1]))
        report(self.ledger, {**said, "message": words or self.frame[1].decode("utf-8", "replace")})
        return True

    def _begin(self, chunk: wire.Chunk) -> bool:
        """Open a turn. After the end only a new answer behind a `[DONE]` opens another."""
        if self.ledger.turns:
            if not self._done or not chunk.choices:
                self.diagnostics.add("after-end", "a chunk after the end of the turn is ignored")
                return False
            self._voices.clear()
            self._notes.clear()
            self._first, self._done = self._voice(0), False
        created = lenient.to_integer(chunk.created)
        said = {key: value for key in ("service_tier", "system_fingerprint") if (value := getattr(chunk, key))}
        return self.ledger.start(chunk.id or "", chunk.model or "", created, {NAME: said} if said else None)

    def _count(self, raw: Any) -> None:
        usage = read_usage(raw) if isinstance(raw, dict) else None  # pyright: ignore[reportUnknownArgumentType]
        if usage is not None:
            self.ledger.usage(usage)

    def named(self, name: str, data: bytes) -> bool:
        word = data.strip()
        if word.upper() == b"[DONE]":
            self._flush_all()
            self.ledger.end()
            self._done = True
        elif name == "error":
            report(self.ledger, word.decode("utf-8", "replace"))
        else:
            return False
        return True

    def finish(self) -> list[AnyEvent]:
        self.ledger.breaking = self.ledger.is_open and not self.ledger.finishing
        self._flush_all()
        return super().finish()

    def settle(self) -> None:
        self._flush_all()
        self.ledger.end()

    # ── one choice ────────────────────────────────────────────────────────────────────────────────

    def _voice(self, index: int) -> Voice:
        voice = self._voices.get(index)
        if voice is None:
            voice = self._voices[index] = Voice(self.ledger, index, Calls(self.ledger, index), think=self._think)
        return voice

    def _choice(self, choice: wire.Choice) -> None:
        index = choice.index or 0
        voice = self._voices.get(index) or self._voice(index)
        delta = choice.message if choice.delta is None else choice.delta
        if delta is not None:
            if choice.message is not None and delta is choice.delta and not voice.heard:
                delta = _join(delta, choice.message)
            voice.hear(delta, choice.logprobs)
            if delta.extra_content:
                self._sign(voice, delta.extra_content)
        if choice.finish_reason or choice.content_filter_results or choice.error:
            self._close(voice, choice)

    def _sign(self, voice: Voice, content: dict[str, Any]) -> None:
        """State of the text that is open; of the whole answer where none is."""
        rest = rest_of(content) if voice.signed else content
        if rest:
            self._notes["extra_content"] = rest

    def _close(self, voice: Voice, choice: wire.Choice) -> None:
        if choice.content_filter_results:
            self._notes["content_filter_results"] = choice.content_filter_results
        if choice.finish_reason:
            voice.finish(choice.finish_reason, {NAME: self._notes} if self._notes else None)
        if choice.error is not None:
            report(self.ledger, choice.error)

    def _flush_all(self) -> None:
        for voice in self._voices.values():
            voice.flush()

    table: ClassVar[Mapping[type, Callable[[Any, Any], None]]] = {wire.Chunk: _chunk, wire.More: _more}


def _join(delta: wire.Delta, message: wire.Delta) -> wire.Delta:
    """The first payload of a choice that has both: the delta, and what only the message says.

    Perplexity sends both, in streams and in whole bodies. In a stream the message repeats all of the answer so far, so
    that only the first one may count; in a whole body the delta is empty.
    """
    fields = {name: getattr(delta, name) or getattr(message, name) for name in wire.Delta.__struct_fields__}
    return wire.Delta(**fields)


def report(ledger: Ledger, error: dict[str, Any] | str) -> None:
    """Break the turn off with what the provider said."""
    said: dict[str, Any] = {"message": error} if isinstance(error, str) else error
    code, kind = said.get("code"), said.get("type")
    places = (said.get("status_code"), said.get("raw_status_code"), code, said.get("status"))
    status = next((value for value in places if isinstance(value, int)), None)
    message = str(said.get("message") or "the provider reported an error")
    words = [str(one) for one in (code, kind) if one]
    ledger.fault(
        classify(words, message, status), message, status=status, code=str(code or kind or ""),
        extra={NAME: {"error": said}},
    )  # fmt: skip


def _first(*values: int | None) -> int | None:
    for value in values:  # a generator would cost more than all the rest
        if value is not None:
            return value
    return None


def _apart(prompt: int | None, completion: int, reasoning: int, total: int | None) -> bool:
    """Whether a dialect leaves reasoning out of the completion. A total that fits decides; else there is more of it."""
    included = (prompt or 0) + completion
    return reasoning > completion if total not in (included, included + reasoning) else total != included


def read_usage(raw: dict[str, Any]) -> ev.Usage | None:
    """None when the object holds no counts at all, or is of another shape."""
    try:
        said = msgspec.convert(raw, wire.Usage, strict=False)
    except msgspec.ValidationError:
        try:
            said, _ = fit(loose(as_json(raw).encode()), wire.Usage)  # a copy: fields that do not fit are taken out
        except msgspec.ValidationError:
            return None
    prompt, completion = said.prompt_tokens, said.completion_tokens
    if prompt is None and completion is None:
        return None
    of_prompt = said.prompt_tokens_details or wire.PromptDetails()
    of_completion = said.completion_tokens_details or wire.CompletionDetails()
    reasoning = _first(of_completion.reasoning_tokens, said.reasoning_tokens)
    cached = _first(
        of_prompt.cached_tokens, said.cached_tokens, said.prompt_cache_hit_tokens, said.cache_read_input_tokens
    )
    written = _first(of_prompt.cache_write_tokens, said.cache_creation_input_tokens)
    if reasoning and completion is not None and _apart(prompt, completion, reasoning, said.total_tokens):
        completion += reasoning
    return ev.Usage(prompt, completion, cached, written, reasoning, extra={"openai-chat": raw})
