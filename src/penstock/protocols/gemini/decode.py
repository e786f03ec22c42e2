"""Gemini generateContent → events; payloads of the Interactions API go to `interactions`.

There are no block marks: a part ends when another kind begins. There is no end mark either, and a finish reason may
come on every chunk or be followed by more, so the last one counts and waits for the end of the stream.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import msgspec

from penstock.codec import Decoder
from penstock.parts import Ledger
from penstock.protocols.gemini import wire
from penstock.protocols.gemini.calls import Calls
from penstock.protocols.gemini.grounding import Grounding
from penstock.protocols.gemini.interactions import Interactions
from penstock.protocols.gemini.own import NAME, own
from penstock.protocols.gemini.spelling import camel_chunk, camel_part, created
from penstock.protocols.gemini.turn import BLOCKED, Faults, Tokens, reason_of, word_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from penstock.events import AnyEvent, Reason
    from penstock.parts import Part

_PLAIN = wire.Candidate()  # what is left of a candidate that only had content


class Voice:
    """What one candidate is saying: the kind of its open part, its calls and sources, why it ended."""

    __slots__ = ("calls", "grounding", "index", "key", "kind", "notes", "reason", "texts", "word")

    def __init__(self, index: int, ledger: Ledger, mint: Callable[[str, int], str]) -> None:
        self.index = index
        self.kind = ""
        self.key = (index, "")
        self.texts: list[Part] = []
        self.calls = Calls(ledger, index, mint)
        self.grounding = Grounding(ledger)
        self.notes: dict[str, Any] = {}
        self.reason: Reason | None = None
        self.word = ""


class GeminiDecoder(Decoder):
    """State: a voice per candidate, the usage, what was said of the prompt, and the other API's reader."""

    protocol = NAME
    shape = wire.Chunk
    read = staticmethod(msgspec.json.Decoder(wire.Chunk).decode)

    def __init__(self) -> None:
        super().__init__()
        self._voices: dict[int, Voice] = {}
        self._tokens = Tokens(self.ledger)
        self._faults = Faults(self.ledger)
        self._interactions = Interactions(self.ledger, self.keep)
        self._feedback: dict[str, Any] = {}
        self._id = ""
        self._done = False
        self._snake = False

    # ── the chunk ─────────────────────────────────────────────────────────────────────────────────

    def _chunk(self, chunk: wire.Chunk) -> None:
        if self._snake or chunk.snake_usage or chunk.snake_model or chunk.snake_id:
            self._snake = True
            chunk = camel_chunk(self.frame[1])
        candidates = chunk.candidates
        if not candidates and not self._bare(chunk):
            return
        if chunk.response_id != self._id and chunk.response_id and candidates:
            self._another(chunk.response_id)
        if not self.ledger.inside and not self._begin(chunk):
            return
        for place, candidate in enumerate(candidates or ()):
            self._candidate(place, candidate)
        self._tokens.count(chunk.usage_metadata)
        if chunk.prompt_feedback:
            self._feedback = chunk.prompt_feedback
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

    def _another(self, id: str) -> None:
        """A new id after a finish is another answer behind the first; before it, an id that came late."""
        voice = self._voices.get(0)
        if self.ledger.inside and self._id and voice is not None and voice.reason is not None:
            self._settle()
            self.ledger.end()
            self._done = True
        if not self.ledger.inside:
            self._id = id

    def _begin(self, chunk: wire.Chunk) -> bool:
        """Open a turn. After its end only an answer behind an end mark opens another."""
        if self.ledger.turns:
            if not self._done or not chunk.candidates:
                self.diagnostics.add("after-end", "a chunk after the end of the turn is ignored")
                return False
            self._done = False
            self._voices.clear()
            self._feedback = {}
            self._tokens = Tokens(self.ledger)
        self._id = chunk.response_id or ""
        extra = own(createTime=chunk.create_time)
        return self.ledger.start(self._id, chunk.model_version or "", created(chunk.create_time), extra)

    def _error(self, error: wire.Error | str) -> None:
        for voice in self._voices.values():
            self._close(voice)
        self._faults.tell(error)

    def named(self, name: str, data: bytes) -> bool:
        word = data.strip()
        if word.upper() == b"[DONE]":
            self._settle()
            self.ledger.end()
            self._done = True
        elif word[:1] == b"[":
            return self._array(word)
        elif name == "error":
            self._error(word.decode("utf-8", "replace"))
        else:
            return False
        return True

    def _array(self, data: bytes) -> bool:
        """A whole body in array framing, or an error body, which comes as an array too."""
        try:
            elements = msgspec.json.decode(data, type=list[msgspec.Raw])
        except (msgspec.DecodeError, RecursionError):
            return False
        for element in elements:
            frame = (b"", bytes(element))
            try:
                payload = type(self).read(frame[1])
            except (msgspec.DecodeError, RecursionError):
                self._odd(*frame)
            else:
                self.frame = frame
                self._chunk(payload)
        return True

    def finish(self) -> list[AnyEvent]:
        self._settle()
        return super().finish()

    # ── the end ───────────────────────────────────────────────────────────────────────────────────

    def _settle(self) -> None:
        """The stream ended: tell what was held, and why each candidate stopped."""
        if not self.ledger.inside:
            return
        for voice in self._voices.values():
            self._close(voice)
        for voice in self._voices.values():
            if voice.reason is not None:
                extra = self._extra(voice)
                self.ledger.finish(voice.reason, voice.word, choice=voice.index, extra=extra)
        blocked = word_of(self._feedback.get("blockReason"), BLOCKED)
        if not self.ledger.finishing and blocked:
            self.ledger.finish("filter", blocked, extra=own(promptFeedback=self._feedback))
        elif not self.ledger.finishing and self._only_thought():
            self.diagnostics.add("no-reason", "a turn of thoughts alone ended without a reason, its tokens all counted")
            self.ledger.finish("stop")

    def _close(self, voice: Voice) -> None:
        self._silence(voice)
        voice.calls.finish(normally=voice.reason == "stop")
        voice.grounding.cite(voice.texts)
        voice.grounding.tools(voice.calls)

    def _extra(self, voice: Voice) -> dict[str, dict[str, Any]] | None:
        """What the finish keeps; the first candidate's speaks for the others, too."""
        if voice.index:
            return None
        others = [
            {**other.notes, **other.grounding.notes, "finishReason": other.word, "index": other.index}
            for other in self._voices.values() if other.index and other.word
        ]  # fmt: skip
        return own(
            **voice.notes, **voice.grounding.notes, promptFeedback=self._feedback or None, others=others or None
        )  # fmt: skip

    def _only_thought(self) -> bool:
        """Gemini leaves the reason out where it only thought. What else tells it from a broken stream: every token of
        the total is accounted for, and none of them is an answer's.
        """
        voice = self._voices.get(0)
        quiet = voice is not None and not voice.texts and not voice.calls.count and voice.notes.get("thought")
        return bool(quiet) and len(self._voices) == 1 and self._tokens.all_thought

    # ── one candidate ─────────────────────────────────────────────────────────────────────────────

    def _voice(self, index: int) -> Voice:
        turn = self._id or self._faults.print(self.frame[1])
        voice = Voice(index, self.ledger, lambda kind, number: f"{kind}_{turn}_{index}_{number}")
        self._voices[index] = voice
        return voice

    def _candidate(self, place: int, candidate: wire.Candidate) -> None:
        index = place if candidate.index is None else candidate.index
        voice = self._voices.get(index) or self._voice(index)
        content = candidate.content
        if content is not None and content.parts:
            say = self.ledger.say
            for number, part in enumerate(content.parts):
                text = part.text
                kind = "reasoning" if part.thought else "text"
                if text is None or part.thought_signature or part.function_call is not None:
                    self._part(voice, kind, part, (place, number))
                elif kind == voice.kind:
                    say(voice.key, text)
                elif text:
                    self._say(voice, kind, text)
        candidate.content = candidate.index = None
        if candidate != _PLAIN:
            self._notes(voice, candidate)

    def _part(self, voice: Voice, kind: str, part: wire.Part, place: tuple[int, int]) -> None:
        """Anything but unsigned text."""
        signature = part.thought_signature
        read = next((name for name in self.parts if getattr(part, name) is not None), None)
        if part.text is not None:
            self._signed(voice, kind, part.text, None if read else signature)
        if read is not None:
            self._silence(voice)
            self.parts[read](self, voice, getattr(part, read), part)
        elif part.text is None:
            self._odd_part(voice, kind, part, place)

    def _odd_part(self, voice: Voice, kind: str, part: wire.Part, place: tuple[int, int]) -> None:
        """A part of no known kind: spelled differently, a signature by itself, or kept as it is."""
        raw, again = camel_part(self.frame[1], *place)
        if again is not None:
            self._part(voice, kind, again, place)
        elif raw:
            self._silence(voice)
            self._faults.keep_part(raw)
        elif part.thought_signature:
            self._signed(voice, kind, "", part.thought_signature)

    def _notes(self, voice: Voice, said: wire.Candidate) -> None:
        for key, value in (
            ("safetyRatings", said.safety_ratings), ("finishMessage", said.finish_message),
            ("avgLogprobs", said.avg_logprobs), ("tokenCount", said.token_count),
        ):  # fmt: skip
            if value is not None:
                voice.notes[key] = value
        voice.grounding.note(said)
        if said.logprobs_result:
            voice.notes["logprobsResult"] = _joined(voice.notes.get("logprobsResult") or {}, said.logprobs_result)
        word = word_of(said.finish_reason)
        if word:
            voice.word, voice.reason = word, reason_of(word, self.diagnostics)

    # ── parts ─────────────────────────────────────────────────────────────────────────────────────

    def _say(self, voice: Voice, kind: str, text: str) -> None:
        """End the part of another kind and begin one of this."""
        self._silence(voice)
        voice.kind, voice.key = kind, (voice.index, kind)
        if kind == "text":
            part = self.ledger.open_text(voice.key, choice=voice.index, keep=True)
            if part is not None:
                voice.texts.append(part)
        else:
            self.ledger.open_reasoning(voice.key, choice=voice.index)
            voice.notes["thought"] = True
        self.ledger.say(voice.key, text)

    def _signed(self, voice: Voice, kind: str, text: str, signature: str | None) -> None:
        """Text with a signature. A second one needs a part of its own; one without words belongs to the open part,
        else it is a thought that cannot be shown.
        """
        part = self.ledger.find(voice.key) if voice.kind else None
        if signature and part is not None and part.extra is not None and part.extra != own(thoughtSignature=signature):
            self._silence(voice)
        if text and kind == voice.kind:
            self.ledger.say(voice.key, text)
        elif text:
            self._say(voice, kind, text)
        if not signature:
            return
        part = self.ledger.find(voice.key) if voice.kind else None
        if part is not None:
            part.extra = own(thoughtSignature=signature)
        else:
            key = (voice.index, "signature")
            self.ledger.open_reasoning(key, choice=voice.index, form="redacted")
            self.ledger.close(key, own(thoughtSignature=signature, thought=kind == "reasoning"))

    def _silence(self, voice: Voice) -> None:
        """End the open part; the sources of a text are told while it is open."""
        if voice.kind:
            if voice.kind == "text":
                voice.grounding.cite(voice.texts)
            self.ledger.close(voice.key)
            voice.kind = ""

    def _call(self, voice: Voice, said: wire.FunctionCall, part: wire.Part) -> None:
        voice.calls.add(said, part.thought_signature)

    def _code(self, voice: Voice, said: wire.ExecutableCode, part: wire.Part) -> None:
        voice.calls.ran_code(said, part.thought_signature)

    def _code_result(self, voice: Voice, said: wire.CodeExecutionResult, part: wire.Part) -> None:
        voice.calls.code_result(said, part.thought_signature)

    def _tool(self, voice: Voice, said: wire.ToolCall, part: wire.Part) -> None:
        voice.calls.ran_tool(said, part.thought_signature)

    def _tool_result(self, voice: Voice, said: wire.ToolResponse, part: wire.Part) -> None:
        voice.calls.tool_result(said, part.thought_signature)

    def _inline(self, voice: Voice, said: wire.Blob, part: wire.Part) -> None:
        self._file(voice, said.mime_type, "", said.data or "", part)

    def _linked(self, voice: Voice, said: wire.FileData, part: wire.Part) -> None:
        self._file(voice, said.mime_type, said.file_uri or "", "", part)

    def _file(self, voice: Voice, media: str | None, url: str, data: str, part: wire.Part) -> None:
        key = (voice.index, "file")
        self.ledger.open_file(key, media or "application/octet-stream", url, choice=voice.index)
        self.ledger.say(key, data)
        self.ledger.close(key, own(thoughtSignature=part.thought_signature, thought=part.thought))

    parts: ClassVar[Mapping[str, Callable[[Any, Voice, Any, wire.Part], None]]] = {
        "function_call": _call,
        "inline_data": _inline,
        "file_data": _linked,
        "executable_code": _code,
        "code_execution_result": _code_result,
        "tool_call": _tool,
        "tool_response": _tool_result,
    }
    table: ClassVar[Mapping[type, Callable[[Any, Any], None]]] = {wire.Chunk: _chunk}


def _joined(before: dict[str, Any], more: dict[str, Any]) -> dict[str, Any]:
    """Log probabilities come chunk by chunk: lists grow, sums are replaced."""
    grown = {
        key: [*before[key], *value]
        for key, value in more.items() if isinstance(value, list) and isinstance(before.get(key), list)
    }  # fmt: skip
    return {**before, **more, **grown}
