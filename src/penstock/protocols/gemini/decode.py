"""Gemini generateContent → events; payloads of the Interactions API go to `interactions`.

There is no end mark, and a finish reason may come on every chunk or be followed by more parts, so the last one counts
and waits for the end of the stream.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar
from zlib import crc32

import msgspec

from penstock.codec import Decoder, weakly
from penstock.delta_templates import number_remover
from penstock.protocols.gemini import wire
from penstock.protocols.gemini.interactions import Interactions
from penstock.protocols.gemini.own import NAME, own
from penstock.protocols.gemini.reasons import BLOCKS, REASONS, Tokens, fault, named_feedback, word_of
from penstock.protocols.gemini.spelling import camel_chunk, camel_part, created
from penstock.protocols.gemini.voice import Voice

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from penstock.events import AnyEvent, Extra


MOST = 256  # candidates; an index beyond is garbage, and a place would be made for everyone before it
# Every chunk counts all tokens so far: the last counts stand.
_COUNTED = (number_remover(b"okenCount"),)


class GeminiDecoder(Decoder):
    """State: a voice per candidate, the usage, what was said of the prompt, and the other API's reader."""

    protocol = NAME
    counted = _COUNTED
    shape = wire.Chunk
    read = staticmethod(msgspec.json.Decoder(wire.Chunk).decode)

    def __init__(self) -> None:
        super().__init__()
        self._interactions = Interactions(self.ledger, weakly(self._keep_other))
        self._snake = False
        self._named = ""  # the id that the last chunk had
        self._fresh("")

    def _fresh(self, id: str) -> None:
        self._id = id
        self._voices: dict[int, Voice] = {}
        self._tokens = Tokens(self.ledger)
        self._feedback: dict[str, Any] = {}
        self._done = False

    # ── the chunk ─────────────────────────────────────────────────────────────────────────────────

    def _chunk(self, chunk: wire.Chunk) -> None:
        if self._snake or chunk.snake_usage or chunk.snake_model or chunk.snake_id:
            self._snake = True
            chunk = camel_chunk(self.frame[1])
        candidates = chunk.candidates
        if not candidates and not self._bare(chunk):
            return
        if chunk.response_id != self._named and chunk.response_id and candidates:
            self._other_id(chunk.response_id)
        if not self.ledger.inside and not self._begin(chunk):
            return
        for place, candidate in enumerate(candidates or ()):
            index = place if candidate.index is None else candidate.index
            voice = self._voices.get(index) or self._voice(index if 0 <= index < MOST else place)
            voice.take(place, candidate)
        self._tokens.count(chunk.usage_metadata)
        if chunk.prompt_feedback:
            self._feedback = named_feedback(chunk.prompt_feedback)
        if chunk.error is not None:
            self._error(chunk.error)

    def _bare(self, chunk: wire.Chunk) -> bool:
        """A chunk without candidates: usage, a blocked prompt, an error, another API, or something unknown."""
        if chunk.response is not None:
            self._chunk(chunk.response)
        elif chunk.event_type is not None or chunk.object == "interaction":
            self._interactions.take(chunk)
        elif chunk.usage_metadata or chunk.prompt_feedback or chunk.error is not None:
            return True
        elif chunk.candidates is None and not (chunk.model_version or chunk.response_id):
            self.keep()
        return False

    def _keep_other(self) -> None:
        """What only the other API would understand must not be replayed in this one."""
        name, data = self.frame
        self.ledger.unknown(f"{NAME}-interactions", data.decode("utf-8", "replace"), name.decode("utf-8", "replace"))

    def _other_id(self, id: str) -> None:
        """Another id after a finish is another answer, behind the first; before it, it means nothing."""
        voice = self._voices.get(0)
        if self.ledger.inside and self._named and voice is not None and voice.reason is not None:
            self._end()
        self._named = id

    def _begin(self, chunk: wire.Chunk) -> bool:
        """Open a turn. After one only an answer behind its end opens another."""
        if self.ledger.turns and not (self._done and chunk.candidates):
            self.diagnostics.add("after-end", "a chunk after the end of the turn is ignored")
            return False
        self._fresh(chunk.response_id or "")
        extra = own(createTime=chunk.create_time)
        return self.ledger.start(self._id, chunk.model_version or "", created(chunk.create_time), extra)

    def _voice(self, index: int) -> Voice:
        if index in self._voices:
            return self._voices[index]
        turn = self._id or self.ledger.seed or f"{crc32(self.frame[1]):08x}"
        voice = self._voices[index] = Voice(index, self.ledger, turn, weakly(self._again))
        return voice

    def _again(self, candidate: int, part: int) -> tuple[dict[str, Any], wire.Part | None]:
        return camel_part(self.frame[1], candidate, part)

    def _error(self, error: wire.Error | str) -> None:
        self.ledger.breaking = self.ledger.inside
        for voice in self._voices.values():
            voice.close()
        self._tokens.tell()
        fault(self.ledger, error)

    # ── frames that are no payload ────────────────────────────────────────────────────────────────

    def named(self, name: str, data: bytes) -> bool:
        word = data.strip()
        if word.upper() == b"[DONE]":
            self._end()
        elif word[:1] == b"[":
            return self._array(word)
        elif name == "error":
            self._error(word.decode("utf-8", "replace"))
        else:
            return False
        return True

    def _array(self, data: bytes) -> bool:
        """A whole body in array framing; the bodies of failed requests are arrays, too."""
        try:
            elements = msgspec.json.decode(data, type=list[msgspec.Raw])
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return False
        self.ledger.out = self.feed([(b"", bytes(element)) for element in elements])
        return True

    # ── the end ───────────────────────────────────────────────────────────────────────────────────

    def settle(self) -> None:
        if self._voices:
            self._end()

    @property
    def pending(self) -> str:
        """All candidates have a finish reason. A stream that went on after one sends reasons that do not end it."""
        if not self.ledger.inside or any(one.resumed or one.reason is None for one in self._voices.values()):
            return super().pending
        return "finish" if self._voices or word_of(self._feedback.get("blockReason"), BLOCKS) else ""

    def recount(self, payload: wire.Chunk) -> None:
        for candidate in payload.candidates or ():
            candidate.content = None
        self._chunk(payload)

    def finish(self) -> list[AnyEvent]:
        self._catch_up()
        self.ledger.breaking = not self._has_ended()
        self._settle()
        return super().finish()

    def _has_ended(self) -> bool:
        """The first candidate has a finish reason, or the prompt was blocked. Otherwise the stream was cut."""
        first = self._voices.get(0)
        reason = first is not None and first.reason is not None
        return reason or self.ledger.finishing or bool(word_of(self._feedback.get("blockReason"), BLOCKS))

    def _end(self) -> None:
        self._settle()
        self.ledger.end()
        self._done = True

    def _settle(self) -> None:
        """The answer ended: tell what was held back, and why each candidate stopped."""
        if not self.ledger.inside:
            return
        for voice in self._voices.values():
            voice.close()
        self._tokens.tell()
        for voice in self._voices.values():
            if voice.reason is not None:
                self._finish(voice)
        blocked = word_of(self._feedback.get("blockReason"), BLOCKS)
        if not self.ledger.finishing and blocked:
            self.ledger.finish("filter", blocked, extra=own(promptFeedback=self._feedback))

    def _finish(self, voice: Voice) -> None:
        if voice.word not in REASONS:
            self.diagnostics.add("unknown-reason", f"finish reason {voice.word!r} is read as a normal stop")
        reason = "calls" if voice.reason == "stop" and voice.calls.delivered else voice.reason or "stop"
        extra = None if voice.index else self._kept(voice)
        self.ledger.finish(reason, voice.word, choice=voice.index, extra=extra)

    def _kept(self, voice: Voice) -> Extra | None:
        """What the finish keeps of the first candidate, and of the others, which have no finish of their own."""
        others = [
            {"index": other.index, "finishReason": other.word, **other.notes, **other.grounding.notes}
            for other in self._voices.values() if other.index
        ]  # fmt: skip
        notes = {**voice.notes, **voice.grounding.notes}
        if voice.word not in REASONS:
            notes["finishReason"] = voice.word
        return own(**notes, promptFeedback=self._feedback or None, others=others or None)

    table: ClassVar[Mapping[type, Callable[[Any, Any], None]]] = {wire.Chunk: _chunk}
