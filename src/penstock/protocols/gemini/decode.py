"""Gemini generateContent → events; payloads of the Interactions API go to `interactions`.

There is no end mark, and a finish reason may come on every chunk or be followed by more parts, so the last one counts
and waits for the end of the stream.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar
from zlib import crc32

import msgspec

from penstock import events as ev
from penstock.codec import Decoder, weakly
from penstock.delta_templates import number_remover
from penstock.protocols.gemini import wire
from penstock.protocols.gemini.decode_calls import Calls
from penstock.protocols.gemini.decode_interactions import Interactions
from penstock.protocols.gemini.decode_metadata import (
    BLOCKS,
    REASONS,
    Grounding,
    Tokens,
    fault,
    named_feedback,
    named_ratings,
    reason_of,
    word_of,
)
from penstock.protocols.gemini.wire import NAME, camel_chunk, camel_part, created, own

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from penstock.events import AnyEvent, Extra, Reason
    from penstock.ledger import Ledger, Part

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
        if not self.ledger.is_open and not self._begin(chunk):
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
        if self.ledger.is_open and self._named and voice is not None and voice.reason is not None:
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
        self.ledger.breaking = self.ledger.is_open
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
        if not self.ledger.is_open or any(one.resumed or one.reason is None for one in self._voices.values()):
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
        if not self.ledger.is_open:
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


_PLAIN = wire.Candidate()  # what is left of a candidate that only had content
_SEALED = ", signed"  # marks the kind of a part that is open, though more words begin another
TEXT = ("text", "text" + _SEALED)
_BYTES = "application/octet-stream"


class Voice:
    """State: the kind of the open part, the text so far, the calls, the sources, and the last word on the end."""

    def __init__(
        self,
        index: int,
        ledger: Ledger,
        turn: str,
        again: Callable[[int, int], tuple[dict[str, Any], wire.Part | None]],
    ) -> None:
        self.index = index
        self._ledger = ledger
        self._again = again  # reads a part once more, by the candidate's place and its own
        self._kind = ""
        self._key = (index, "")
        self.texts: list[Part] = []
        self.calls = Calls(ledger, index, lambda kind, number: f"{kind}_{turn}_{index}_{number}")
        self.grounding = Grounding(ledger, index)
        self.notes: dict[str, Any] = {}  # what is kept for the finish
        self.reason: Reason | None = None
        self.word = ""
        self.resumed = False  # more parts came after a finish reason

    def take(self, place: int, candidate: wire.Candidate) -> None:
        """The parts, between what is said of them and what is said at the end."""
        content = candidate.content
        candidate.content = candidate.index = None
        rest = candidate != _PLAIN
        if rest:
            self.grounding.note(candidate)
        if content is not None and content.parts:
            if self.reason is not None:
                self.resumed = True
            say = self._ledger.append_text
            for number, part in enumerate(content.parts):
                text = part.text
                kind = "reasoning" if part.thought else "text"
                if text is None or part.thought_signature or part.function_call is not None:
                    self._part(kind, part, (place, number))
                elif kind == self._kind:
                    say(self._key, text)
                elif text:
                    self._begin(kind, text)
        if rest:
            self._note(candidate)

    def _note(self, said: wire.Candidate) -> None:
        for key, value in (
            ("safetyRatings", named_ratings(said.safety_ratings) if said.safety_ratings else said.safety_ratings),
            ("finishMessage", said.finish_message),
            ("avgLogprobs", said.avg_logprobs), ("tokenCount", said.token_count),
        ):  # fmt: skip
            if value is not None:
                self.notes[key] = value
        if said.logprobs_result:
            self.notes["logprobsResult"] = _joined(self.notes.get("logprobsResult") or {}, said.logprobs_result)
        word = word_of(said.finish_reason)
        if word:
            self.word, self.reason = word, reason_of(word)

    def close(self) -> None:
        """The stream ended: end what is open, and tell what was held back."""
        if self._kind in TEXT:
            self.grounding.cite(self.texts, last=True)
        self._silence()
        self.calls.finish(normally=self.reason == "stop")
        self.grounding.cite(self.texts, last=True)
        self.grounding.tools(self.calls)

    # ── text and thoughts ─────────────────────────────────────────────────────────────────────────

    def _begin(self, kind: str, text: str) -> None:
        """End the part of another kind and begin one of this."""
        self._silence()
        self._kind, self._key = kind, (self.index, kind)
        if kind == "text":
            part = self._ledger.open_text(self._key, choice=self.index, keep=True)
            if part is not None:
                self.texts.append(part)
        else:
            self._ledger.open_reasoning(self._key, choice=self.index)
        self._ledger.append_text(self._key, text)

    def _silence(self) -> None:
        """End the open part; the sources of a text are told while it is open."""
        if self._kind:
            if self._kind in TEXT:
                self.grounding.cite(self.texts)
            self._ledger.close(self._key)
            self._kind = ""

    def _signed(self, kind: str, text: str, signature: str | None) -> None:
        """Text that may have a signature. A second one needs a part of its own; one without words ends its part."""
        extra = own(thoughtSignature=signature or None)
        part = self._open
        if extra and part is not None and part.extra not in (None, extra):
            self._silence()
        if text and kind == self._kind:
            self._ledger.append_text(self._key, text)
        elif text:
            self._begin(kind, text)
        part = self._open
        if extra and part is not None:
            part.extra = extra
            self._kind = self._kind if text else self._kind.removesuffix(_SEALED) + _SEALED
        elif extra:
            key = (self.index, "signature")
            self._ledger.open_reasoning(key, choice=self.index, form="redacted")
            self._ledger.close(key, own(thoughtSignature=signature, thought=kind == "reasoning"))

    @property
    def _open(self) -> Part | None:
        return self._ledger.find(self._key) if self._kind else None

    # ── other parts ───────────────────────────────────────────────────────────────────────────────

    def _part(self, kind: str, part: wire.Part, place: tuple[int, int]) -> None:
        """Anything but unsigned text."""
        read = next((name for name in self.parts if getattr(part, name) is not None), None)
        if part.text is not None:
            self._signed(kind, part.text, None if read else part.thought_signature)
        if read is not None:
            self._silence()
            self.parts[read](self, getattr(part, read), part)
        elif part.text is None:
            self._odd(kind, part, place)

    def _odd(self, kind: str, part: wire.Part, place: tuple[int, int]) -> None:
        """No known kind: spelled in another way, a signature by itself, or something to keep as it is."""
        raw, again = self._again(*place)
        if again is not None:
            self._part("reasoning" if again.thought else "text", again, place)
        elif raw:
            self._silence()
            self._ledger.diagnostics.add("unknown-part", f"no canonical word for a part with {', '.join(raw)}")
            self._ledger.add_whole_part(ev.Opaque, NAME, "part", raw)
        elif part.thought_signature:
            self._signed(kind, "", part.thought_signature)

    def _call(self, said: wire.FunctionCall, part: wire.Part) -> None:
        self.calls.add(said, part.thought_signature)

    def _code(self, said: wire.ExecutableCode, part: wire.Part) -> None:
        self.calls.ran_code(said, part.thought_signature)

    def _code_result(self, said: wire.CodeExecutionResult, part: wire.Part) -> None:
        self.calls.code_result(said, part.thought_signature)

    def _tool(self, said: wire.ToolCall, part: wire.Part) -> None:
        self.calls.ran_tool(said, part.thought_signature)

    def _tool_result(self, said: wire.ToolResponse, part: wire.Part) -> None:
        self.calls.tool_result(said, part.thought_signature)

    def _inline(self, said: wire.Blob, part: wire.Part) -> None:
        self._file(said.mime_type, "", said.data or "", part)

    def _linked(self, said: wire.FileData, part: wire.Part) -> None:
        self._file(said.mime_type, said.file_uri or "", "", part)

    def _file(self, media: str | None, url: str, data: str, part: wire.Part) -> None:
        key = (self.index, "file")
        self._ledger.open_file(key, media or _BYTES, url, choice=self.index)
        self._ledger.append_text(key, data)
        self._ledger.close(key, own(thoughtSignature=part.thought_signature, thought=part.thought))

    parts: ClassVar[Mapping[str, Callable[[Any, Any, wire.Part], None]]] = {
        "function_call": _call,
        "inline_data": _inline,
        "file_data": _linked,
        "executable_code": _code,
        "code_execution_result": _code_result,
        "tool_call": _tool,
        "tool_response": _tool_result,
    }


def _joined(before: dict[str, Any], more: dict[str, Any]) -> dict[str, Any]:
    """Log probabilities come chunk by chunk: lists grow, sums are replaced."""
    grown: dict[str, list[Any]] = {
        key: [*before[key], *value]
        for key, value in more.items() if isinstance(value, list) and isinstance(before.get(key), list)
    }  # fmt: skip
    return {**before, **more, **grown}
