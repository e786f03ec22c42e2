"""OpenAI Chat Completions and its dialects → events: a fixed sequence of small readers per choice.

There are no block marks, so a part ends when another kind begins; calls stay open until the choice ends, because
fragments of parallel calls may interleave. Text may open with `<think>` tags, which become reasoning.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import msgspec

from penstock import pick
from penstock.codec import Decoder
from penstock.jsontext import loose
from penstock.parts import Ledger
from penstock.protocols.openai_chat import wire
from penstock.protocols.openai_chat.calls import Calls
from penstock.protocols.openai_chat.errors import report
from penstock.protocols.openai_chat.extras import Extras
from penstock.protocols.openai_chat.reasons import FAILED, REASONS
from penstock.protocols.openai_chat.usage import read_usage
from penstock.shaping.think import ThinkTags

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from penstock.events import AnyEvent, Extra
    from penstock.parts import Part

NAME = "openai-chat"
_ALIVE = frozenset({"ping", "keepalive"})
_MORE_TEXT = wire.More([wire.Choice(0, wire.Delta())])  # what is left of nine chunks in ten once their text is taken

_read_chunk = msgspec.json.Decoder(wire.Chunk).decode
_read_more = msgspec.json.Decoder(wire.More).decode


class Voice:
    """What one choice is saying: the kind of its open part, its calls, its `<think>` reader."""

    __slots__ = ("calls", "extras", "index", "kind", "part", "think")

    def __init__(self, index: int, calls: Calls, extras: Extras, *, think: bool) -> None:
        self.index = index
        self.kind = ""
        self.part: Part | None = None
        self.think: ThinkTags | None = ThinkTags() if think else None
        self.calls = calls
        self.extras = extras


class ChatDecoder(Decoder):
    """State: a voice per choice, what is to be said with the finish, and whether `[DONE]` came."""

    protocol = NAME
    shape = wire.Chunk
    read = staticmethod(_read_chunk)

    def __init__(self, *, think: bool = True) -> None:
        super().__init__()
        self._think = think
        self._done = False
        self._id = ""
        self._voices: dict[int, Voice] = {}
        self._notes: dict[str, Any] = {}
        self._speaking: Part | None = None  # where more plain text of the first choice goes, while it is open

    # ── the chunk ─────────────────────────────────────────────────────────────────────────────────

    def _chunk(self, chunk: wire.Chunk) -> None:
        """Any payload outside a turn, which may begin one, and any without choices."""
        if (chunk.choices or self._bare(chunk)) and (self.ledger.inside or self._begin(chunk)):
            if chunk.prompt_filter_results is not None:
                self._notes["prompt_filter_results"] = chunk.prompt_filter_results
            self.read = _read_more
            self._spread(chunk)

    def _more(self, chunk: wire.More) -> None:
        part, choices = self._speaking, chunk.choices
        if choices and part is not None and part.open:
            delta = choices[0].delta
            if delta is not None and type(delta.content) is str and delta.content:
                text, delta.content = delta.content, None
                if chunk == _MORE_TEXT:
                    self.ledger.tell(part, text)
                    return
                delta.content = text
        if choices and self.ledger.inside:
            self._spread(chunk)
        else:
            self._chunk(_read_chunk(self.frame[1]))

    def _spread(self, chunk: wire.More) -> None:
        for choice in chunk.choices or ():
            self._choice(choice)
        if chunk.usage is not None or chunk.x_groq is not None or chunk.error is not None:
            self._rest(chunk)
        if chunk.citations is not None or chunk.search_results is not None:
            self._voice(0).extras.found(chunk.search_results or (), chunk.citations or ())

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
        said = pick.as_object(loose(self.frame[1]))
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
            self._done = False
        self._id = chunk.id or ""
        created = None if chunk.created is None else int(chunk.created)
        said = {key: value for key in ("service_tier", "system_fingerprint") if (value := getattr(chunk, key))}
        return self.ledger.start(self._id, chunk.model or "", created, {NAME: said} if said else None)

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
        self._flush_all()
        return super().finish()

    def body(self, data: bytes) -> list[AnyEvent]:
        """A whole answer is complete, even where it gives no finish reason."""
        events = self.feed([(b"", data)])
        self._flush_all()
        self.ledger.end()
        return [*events, *self.finish()]

    # ── one choice ────────────────────────────────────────────────────────────────────────────────

    def _voice(self, index: int) -> Voice:
        voice = self._voices.get(index)
        if voice is None:
            calls = Calls(self.ledger, index, lambda number: f"call_{self._id or 'turn'}_{index}_{number}")
            voice = self._voices[index] = Voice(index, calls, Extras(self.ledger, index), think=self._think)
        return voice

    def _choice(self, choice: wire.Choice) -> None:
        index = choice.index or 0
        voice = self._voices.get(index) or self._voice(index)
        delta = choice.delta or choice.message
        if delta is not None:
            self._delta(voice, delta, choice.logprobs)
        if choice.finish_reason or choice.content_filter_results or choice.error:
            self._close(voice, choice)

    def _close(self, voice: Voice, choice: wire.Choice) -> None:
        if choice.content_filter_results:
            self._notes["content_filter_results"] = choice.content_filter_results
        if choice.finish_reason:
            self._finish(voice, choice.finish_reason)
        if choice.error is not None:
            report(self.ledger, choice.error)

    def _delta(self, voice: Voice, delta: wire.Delta, logprobs: Any) -> None:
        if delta.reasoning_content or delta.reasoning or delta.reasoning_details:
            self._reason(voice, delta)
        content = delta.content
        if content:
            if isinstance(content, list):
                self._items(voice, content)
            else:
                said = content if isinstance(content, str) else msgspec.json.encode(content).decode()
                self._text(voice, said, logprobs)
        if delta.tool_calls:
            self._silence(voice)
            for call in delta.tool_calls:
                voice.calls.add(call)
        if delta.refusal:
            self._say(voice, "refusal", delta.refusal)
        self._rare(voice, delta)

    def _rare(self, voice: Voice, delta: wire.Delta) -> None:
        if delta.function_call is not None and (delta.function_call.name or delta.function_call.arguments):
            self._silence(voice)
            voice.calls.add(wire.ToolCall(index=0, function=delta.function_call))
        if delta.annotations:
            voice.extras.annotate(delta.annotations)
        if delta.audio is not None and (delta.audio.id or delta.audio.data or delta.audio.transcript):
            if delta.audio.transcript:
                self._say(voice, "text", delta.audio.transcript)
            voice.extras.hear(delta.audio)
        if delta.extra_content:
            self._notes["extra_content"] = delta.extra_content
        if delta.images:
            voice.extras.show(delta.images)
        if delta.executed_tools:
            self._silence(voice)
            voice.extras.ran(delta.executed_tools)

    def _text(self, voice: Voice, text: str, logprobs: Any) -> None:
        if voice.think is None:
            self._say(voice, "text", text, logprobs)
            return
        for kind, piece in voice.think.feed(text):
            self._say(voice, kind, piece, logprobs)
        if voice.think.done:
            voice.think = None

    def _items(self, voice: Voice, content: list[dict[str, Any]]) -> None:
        """Content as a list (Mistral): text, thinking, references."""
        for item in content:
            kind = item.get("type")
            if kind == "thinking":
                for inner in item.get("thinking") or ():
                    self._say(voice, "reasoning", str(inner.get("text") or ""))
            elif "text" in item:
                self._say(voice, "text", str(item.get("text") or ""))
            elif kind == "reference":
                voice.extras.refer(item)
            else:
                self.diagnostics.add("unknown-content", f"content of type {kind!r} is left out")

    def _reason(self, voice: Voice, delta: wire.Delta) -> None:
        details = delta.reasoning_details or ()
        plain = delta.reasoning_content or delta.reasoning
        text = plain or voice.extras.told(details)
        if text:
            self._say(voice, "reasoning", text, extra=voice.extras.head(details) if details else None)
        elif details and voice.kind != "reasoning":
            self._silence(voice)
            voice.kind = "reasoning"
            voice.part = self.ledger.open_reasoning((voice.index, "reasoning"), choice=voice.index, form="redacted")
        if plain:
            voice.extras.plain = True
        part = voice.part
        if details and part is not None:
            part.extra = voice.extras.remember(details)

    def _say(self, voice: Voice, kind: str, text: str, logprobs: Any = None, *, extra: Extra | None = None) -> None:
        """Speak on, or end the part of another kind and begin one of this."""
        if not text:
            return
        if voice.kind != kind:
            self._silence(voice)
            voice.kind = kind
            voice.part = self.openings[kind](self.ledger, (voice.index, kind), choice=voice.index, extra=extra)
            if kind == "text" and voice.part is not None:
                voice.extras.texts.append(voice.part.index)
        if kind == "text" and voice.index == 0 and voice.think is None:
            self._speaking = voice.part
        if voice.part is not None:
            self.ledger.tell(voice.part, text, logprobs if kind == "text" else None)

    def _silence(self, voice: Voice) -> None:
        if voice.part is not None:
            self.ledger.close((voice.index, voice.kind))
            voice.kind, voice.part = "", None
            voice.extras.forget()

    def _finish(self, voice: Voice, word: str) -> None:
        self._flush(voice)
        lower = word.lower()
        if lower in FAILED:
            self.ledger.fault("server", f"the provider ended the answer with {word!r}", code=word)
            return
        reason = REASONS.get(lower)
        if reason is None:
            self.diagnostics.add("unknown-reason", f"finish reason {word!r} is read as a normal stop")
        extra = {NAME: self._notes} if self._notes else None
        self.ledger.finish(reason or "stop", word, choice=voice.index, extra=extra)
        voice.kind, voice.part = "", None

    def _flush(self, voice: Voice) -> None:
        """Say what the tag reader held back, and open calls that waited for a name."""
        if voice.think is not None and not self.ledger.ended:
            for kind, piece in voice.think.finish():
                self._say(voice, kind, piece)
            voice.think = None
        if not self.ledger.ended:
            voice.calls.close()

    def _flush_all(self) -> None:
        for voice in self._voices.values():
            self._flush(voice)

    openings: ClassVar[Mapping[str, Callable[..., Any]]] = {
        "text": Ledger.open_text,
        "reasoning": Ledger.open_reasoning,
        "refusal": Ledger.open_refusal,
    }
    table: ClassVar[Mapping[type, Callable[[Any, Any], None]]] = {wire.Chunk: _chunk, wire.More: _more}
