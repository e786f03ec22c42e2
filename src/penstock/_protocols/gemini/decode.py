"""Gemini generateContent → events. Payloads of the Interactions API go to `decode_interactions`.

The stream has no end mark. A finish reason may come on every chunk, and more parts may follow it, so the last finish
reason counts and is reported when the stream ends.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar
from zlib import crc32

import msgspec

from penstock import events as ev
from penstock._codec import Decoder, weak_method
from penstock._delta_templates import number_remover
from penstock._protocols.gemini import decode_metadata, wire
from penstock._protocols.gemini.decode_calls import CallDecoder
from penstock._protocols.gemini.decode_interactions import InteractionDecoder
from penstock._protocols.gemini.wire import NAME, build_gemini_extra, drop_none

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from penstock._ledger import Ledger, LedgerPart

_MAX_CANDIDATES = 256  # a higher index is garbage; events need a place for every lower index
_EMPTY_CANDIDATE = wire.Candidate()  # equals a candidate that only had content
_METADATA_FIELDS = ("finish_message", "avg_logprobs", "token_count")
_SIGNED = ", signed"  # suffix of the open part's kind after its signature: more text starts a new part
_CALL_PARTS: Mapping[str, Callable[[CallDecoder, Any, str | None], None]] = {
    "function_call": CallDecoder.add_call,
    "executable_code": CallDecoder.add_code,
    "code_execution_result": CallDecoder.add_code_result,
    "tool_call": CallDecoder.add_tool_call,
    "tool_response": CallDecoder.add_tool_result,
}
_PART_FIELDS = ("function_call", "inline_data", "file_data", *list(_CALL_PARTS)[1:])


class GeminiDecoder(Decoder):
    """State: a decoder per candidate, the usage, the prompt feedback, and the decoder of the Interactions API."""

    protocol = NAME
    counted = (number_remover(b"okenCount"),)  # every chunk has the counts so far; the last ones are reported
    shape = wire.Chunk
    read = staticmethod(msgspec.json.Decoder(wire.Chunk).decode)

    def __init__(self) -> None:
        super().__init__()
        self._interactions = InteractionDecoder(self.ledger, weak_method(self._keep_interaction_frame))
        self._snake_case = False
        self._last_id = ""  # the response id of the last chunk
        self._reset("")

    def _reset(self, id: str) -> None:
        self._id = id
        self._candidates: dict[int, CandidateDecoder] = {}
        self._usage = decode_metadata.UsageCounter(self.ledger)
        self._feedback: dict[str, Any] = {}
        self._done = False

    def _on_chunk(self, chunk: wire.Chunk) -> None:
        if self._snake_case or chunk.snake_usage or chunk.snake_model or chunk.snake_id:
            self._snake_case = True
            chunk = wire.reread_chunk(self.frame[1])
        candidates = chunk.candidates
        if not candidates and not self._has_metadata(chunk):
            return
        if chunk.response_id != self._last_id and chunk.response_id and candidates:
            self._update_response_id(chunk.response_id)
        if not self.ledger.is_open and not self._start_turn(chunk):
            return
        for position, candidate in enumerate(candidates or ()):
            index = position if candidate.index is None else candidate.index
            decoder = self._candidates.get(index) or self._add_decoder(index, position)
            decoder.decode(position, candidate)
        self._usage.update_counts(chunk.usage_metadata)
        if chunk.prompt_feedback:
            self._feedback = decode_metadata.name_feedback(chunk.prompt_feedback)
        if chunk.error is not None:
            self._report_error(chunk.error)

    def _has_metadata(self, chunk: wire.Chunk) -> bool:
        """Returns True for a chunk without candidates that has usage, feedback or an error; handles all others."""
        if chunk.response is not None:
            self._on_chunk(chunk.response)
        elif chunk.event_type is not None or chunk.object == "interaction":
            self._interactions.decode(chunk)
        elif chunk.usage_metadata or chunk.prompt_feedback or chunk.error is not None:
            return True
        elif chunk.candidates is None and not (chunk.model_version or chunk.response_id):
            self.report_unknown()
        return False

    def _keep_interaction_frame(self) -> None:
        """Keeps an unknown payload under another protocol name, because generateContent must not replay it."""
        name, data = self.frame
        self.ledger.unknown(f"{NAME}-interactions", data.decode("utf-8", "replace"), name.decode("utf-8", "replace"))

    def _update_response_id(self, id: str) -> None:
        """A new response id after a finish reason starts another turn; before one it is ignored."""
        first = self._candidates.get(0)
        if self.ledger.is_open and self._last_id and first is not None and first.reason is not None:
            self._end_turn()
        self._last_id = id

    def _start_turn(self, chunk: wire.Chunk) -> bool:
        """Opens a turn. After a turn ended, only a chunk with candidates opens the next one."""
        if self.ledger.turns and not (self._done and chunk.candidates):
            self.diagnostics.add("after-end", "a chunk after the end of the turn is ignored")
            return False
        self._reset(chunk.response_id or "")
        extra = build_gemini_extra(createTime=chunk.create_time)
        return self.ledger.start(self._id, chunk.model_version or "", wire.parse_time(chunk.create_time), extra)

    def _add_decoder(self, index: int, position: int) -> CandidateDecoder:
        index = index if 0 <= index < _MAX_CANDIDATES else position
        if index in self._candidates:
            return self._candidates[index]
        turn = self._id or self.ledger.seed or f"{crc32(self.frame[1]):08x}"
        decoder = self._candidates[index] = CandidateDecoder(index, self.ledger, turn, weak_method(self._reread_part))
        return decoder

    def _reread_part(self, candidate: int, part: int) -> tuple[dict[str, Any], wire.Part | None]:
        return wire.reread_part(self.frame[1], candidate, part)

    def _report_error(self, error: wire.Error | str) -> None:
        self.ledger.breaking = self.ledger.is_open
        self._close_candidates()
        decode_metadata.report_fault(self.ledger, error)

    def read_special_frame(self, name: str, data: bytes) -> bool:
        """Handles `[DONE]`, a complete array body, and error events that are not JSON."""
        text = data.strip()
        if text.upper() == b"[DONE]":
            self._end_turn()
        elif text[:1] == b"[":
            return self._decode_array(text)
        elif name == "error":
            self._report_error(text.decode("utf-8", "replace"))
        else:
            return False
        return True

    def _decode_array(self, data: bytes) -> bool:
        """Decodes a body in array framing. Bodies of failed requests are arrays, too."""
        try:
            elements = msgspec.json.decode(data, type=list[msgspec.Raw])
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return False
        self.ledger.out = self.feed([(b"", bytes(element)) for element in elements])
        return True

    # ── the end ───────────────────────────────────────────────────────────────────────────────────

    def mark_complete(self) -> None:
        if self._candidates:
            self._end_turn()

    @property
    def pending(self) -> str:
        """`finish` if all candidates have a finish reason. After a resumed stream, a reason does not end it."""
        if not self.ledger.is_open or any(one.resumed or one.reason is None for one in self._candidates.values()):
            return super().pending
        return "finish" if self._candidates or self._block_reason else ""

    def recount(self, payload: wire.Chunk) -> None:
        for candidate in payload.candidates or ():
            candidate.content = None
        self._on_chunk(payload)

    def finish(self) -> list[ev.AnyEvent]:
        self._catch_up()
        first = self._candidates.get(0)
        has_ended = first is not None and first.reason is not None
        self.ledger.breaking = not (has_ended or self.ledger.finishing or bool(self._block_reason))
        self._report_finish()
        return super().finish()

    @property
    def _block_reason(self) -> str:
        return decode_metadata.get_enum_name(self._feedback.get("blockReason"), "block_reason")

    def _end_turn(self) -> None:
        self._report_finish()
        self.ledger.end()
        self._done = True

    def _close_candidates(self) -> None:
        for candidate in self._candidates.values():
            candidate.close()
        self._usage.report_usage()

    def _report_finish(self) -> None:
        """Closes all parts and reports the usage and why each candidate stopped."""
        if not self.ledger.is_open:
            return
        self._close_candidates()
        for candidate in self._candidates.values():
            if candidate.reason is not None:
                self._finish_candidate(candidate)
        blocked = self._block_reason
        if not self.ledger.finishing and blocked:
            self.ledger.finish("filter", blocked, extra=build_gemini_extra(promptFeedback=self._feedback))

    def _finish_candidate(self, candidate: CandidateDecoder) -> None:
        name = candidate.reason_name
        if name not in decode_metadata.FINISH_REASONS:
            self.diagnostics.add("unknown-reason", f"finish reason {name!r} is read as a normal stop")
        called = candidate.reason == "stop" and candidate.calls.delivered
        reason = "calls" if called else candidate.reason or "stop"
        extra = None if candidate.index else self._build_finish_extra(candidate)
        self.ledger.finish(reason, name, choice=candidate.index, extra=extra)

    def _build_finish_extra(self, first: CandidateDecoder) -> ev.Extra | None:
        """Collects the metadata of all candidates, because only the first one has a finish event."""
        others = [
            {"index": other.index, "finishReason": other.reason_name, **other.metadata, **other.grounding.metadata}
            for other in self._candidates.values()
            if other.index
        ]
        metadata = {**first.metadata, **first.grounding.metadata}
        if first.reason_name not in decode_metadata.FINISH_REASONS:
            metadata["finishReason"] = first.reason_name
        return build_gemini_extra(**metadata, promptFeedback=self._feedback or None, others=others or None)

    table: ClassVar[Mapping[type, Callable[[Any, Any], None]]] = {wire.Chunk: _on_chunk}


class CandidateDecoder:
    """Decodes one candidate: its parts in order, its calls and sources, and its last finish reason.

    Parts have no marks; one ends when another kind begins. A thought signature belongs to its part, or without text to
    the open part. If no part is open, it becomes a redacted reasoning part.
    """

    def __init__(self, index: int, ledger: Ledger, turn: str, reread: Callable[[int, int], Any]) -> None:
        self.index = index
        self._ledger = ledger
        self._reread = reread  # parses a part again, by the positions of candidate and part
        self._kind = ""
        self._key = (index, "")
        self._texts: list[LedgerPart] = []
        self.calls = CallDecoder(ledger, index, lambda kind, number: f"{kind}_{turn}_{index}_{number}")
        self.grounding = decode_metadata.GroundingDecoder(ledger, index)
        self.metadata: dict[str, Any] = {}  # for the finish event
        self.reason: ev.Reason | None = None
        self.reason_name = ""
        self.resumed = False  # more parts came after a finish reason

    def decode(self, position: int, candidate: wire.Candidate) -> None:
        content = candidate.content
        candidate.content = candidate.index = None
        has_metadata = candidate != _EMPTY_CANDIDATE
        if has_metadata:
            self.grounding.collect_metadata(candidate)
        if content is not None and content.parts:
            if self.reason is not None:
                self.resumed = True
            append_text = self._ledger.append_text
            for number, part in enumerate(content.parts):
                text = part.text
                kind = "reasoning" if part.thought else "text"
                if text is None or part.thought_signature or part.function_call is not None:
                    self._add_part(kind, part, (position, number))
                elif kind == self._kind:
                    append_text(self._key, text)
                elif text:
                    self._open_text(kind, text)
        if has_metadata:
            self._collect_metadata(candidate)

    def _collect_metadata(self, candidate: wire.Candidate) -> None:
        ratings, logprobs = candidate.safety_ratings, candidate.logprobs_result
        fields = {wire.to_camel_case(name): getattr(candidate, name) for name in _METADATA_FIELDS}
        self.metadata |= drop_none(safetyRatings=ratings and decode_metadata.name_ratings(ratings), **fields)
        if logprobs:
            self.metadata["logprobsResult"] = _merge_logprobs(self.metadata.get("logprobsResult") or {}, logprobs)
        name = decode_metadata.get_enum_name(candidate.finish_reason, "finish_reason")
        if name:
            self.reason_name, self.reason = name, decode_metadata.FINISH_REASONS.get(name, "stop")

    def close(self) -> None:
        """Ends the open part and reports calls and sources that were held back."""
        if self._kind.startswith("text"):
            self.grounding.report_sources(self._texts, last=True)
        self._close_part()
        self.calls.finish_calls(stopped=self.reason == "stop")
        self.grounding.report_sources(self._texts, last=True)
        self.grounding.report_tool_runs(self.calls)

    # ── parts ─────────────────────────────────────────────────────────────────────────────────────

    def _open_text(self, kind: str, text: str) -> None:
        self._close_part()
        self._kind, self._key = kind, (self.index, kind)
        if kind == "text":
            part = self._ledger.open_text(self._key, choice=self.index, keep=True)
            if part is not None:
                self._texts.append(part)
        else:
            self._ledger.open_reasoning(self._key, choice=self.index)
        self._ledger.append_text(self._key, text)

    def _close_part(self) -> None:
        """Ends the open part. The sources of a text are reported while it is open."""
        if self._kind:
            if self._kind.startswith("text"):
                self.grounding.report_sources(self._texts)
            self._ledger.close(self._key)
            self._kind = ""

    @property
    def _current_part(self) -> LedgerPart | None:
        return self._ledger.find(self._key) if self._kind else None

    def _add_signed_text(self, kind: str, text: str, signature: str | None) -> None:
        """Adds text with an optional signature. A second signature starts a part; one without text ends its part."""
        extra = build_gemini_extra(thoughtSignature=signature or None)
        part = self._current_part
        if extra and part is not None and part.extra not in (None, extra):
            self._close_part()
        if text and kind == self._kind:
            self._ledger.append_text(self._key, text)
        elif text:
            self._open_text(kind, text)
        part = self._current_part
        if extra and part is not None:
            part.extra = extra
            self._kind = self._kind if text else self._kind.removesuffix(_SIGNED) + _SIGNED
        elif extra:
            key = (self.index, "signature")
            self._ledger.open_reasoning(key, choice=self.index, form="redacted")
            self._ledger.close(key, build_gemini_extra(thoughtSignature=signature, thought=kind == "reasoning"))

    def _add_part(self, kind: str, part: wire.Part, position: tuple[int, int]) -> None:
        """Adds any part except unsigned text."""
        field = next((name for name in _PART_FIELDS if getattr(part, name) is not None), None)
        if part.text is not None:
            self._add_signed_text(kind, part.text, None if field else part.thought_signature)
        if field is not None:
            self._close_part()
            if field in _CALL_PARTS:
                _CALL_PARTS[field](self.calls, getattr(part, field), part.thought_signature)
            else:
                self._add_file(getattr(part, field), part)
        elif part.text is None:
            self._add_unknown_part(kind, part, position)

    def _add_unknown_part(self, kind: str, part: wire.Part, position: tuple[int, int]) -> None:
        """Adds a snake-case part, a signature without text, or an opaque part."""
        raw, reread = self._reread(*position)
        if reread is not None:
            self._add_part("reasoning" if reread.thought else "text", reread, position)
        elif raw:
            self._close_part()
            self._ledger.diagnostics.add(
                "unknown-part", f"a part with unknown fields is kept unchanged: {', '.join(raw)}"
            )
            self._ledger.add_whole_part(ev.Opaque, NAME, "part", raw)
        elif part.thought_signature:
            self._add_signed_text(kind, "", part.thought_signature)

    def _add_file(self, file: wire.FileData, part: wire.Part) -> None:
        key, media = (self.index, "file"), file.mime_type or "application/octet-stream"
        self._ledger.open_file(key, media, file.file_uri or "", choice=self.index)
        self._ledger.append_text(key, file.data or "")
        self._ledger.close(key, build_gemini_extra(thoughtSignature=part.thought_signature, thought=part.thought))


def _merge_logprobs(before: dict[str, Any], more: dict[str, Any]) -> dict[str, Any]:
    """Appends lists, which come chunk by chunk; other values are replaced."""
    lists: dict[str, list[Any]] = {
        key: [*before[key], *value]
        for key, value in more.items()
        if isinstance(value, list) and isinstance(before.get(key), list)
    }
    return {**before, **more, **lists}
