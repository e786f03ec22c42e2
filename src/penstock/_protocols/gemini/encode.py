"""Events → generateContent chunks, as the official SDKs read them. The array framing is done by the writer.

Text is written as it comes, a call when it is complete, and a signature after its part on an empty one, as Gemini does.
The last chunk has the finish reason, usage and grounding. A fault ends the stream with an error object.
"""

from __future__ import annotations

from collections import OrderedDict
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec

from penstock import _provider_tool_fields as provider_tools
from penstock import events as ev
from penstock._codec import Encoder, lost, nothing, verbatim
from penstock._diagnostics import read_losses
from penstock._fold import sum_usage
from penstock._framing.sse import ERROR
from penstock._lenient_fields import as_object
from penstock._protocols.gemini import encode_objects
from penstock._protocols.gemini.decode_metadata import FINISH_REASONS
from penstock._protocols.gemini.wire import NAME, drop_none, get_gemini_fields
from penstock._text_runs import NO_TEMPLATE, FrameTemplate

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


LOSSES = read_losses(__name__, "answers")
_encode = msgspec.json.Encoder().encode


class GeminiEncoder(Encoder):
    """State: the tail of every chunk, the open parts, text and sources per candidate, the usage so far."""

    protocol = NAME
    losses = LOSSES

    def __init__(self, *, id: str = "response", model: str = "unknown") -> None:
        super().__init__()
        self._id, self._model = id, model
        self._turns = 0
        self._tail = b"}"
        self._reset()

    def _reset(self) -> None:
        self._parts: dict[int, encode_objects.UnfinishedPart] = {}
        self._candidates: dict[int, encode_objects.CandidateState] = {}
        self._choice_of: dict[int, int] = {}  # part → choice
        # Open texts and thoughts by choice. Only the first is written at once, because nothing marks a new part.
        self._open_parts: dict[int, list[encode_objects.UnfinishedPart]] = {}
        # An OrderedDict, because a dict finds its first row slowly after many deletions.
        self._open_calls: OrderedDict[int, bytes] = OrderedDict()
        self._usage: dict[str, Any] | None = None
        self._steps: dict[int, ev.Usage] = {}
        self._is_empty = True
        self._called = False
        self._foreign_runs: dict[str, str] = {}  # other providers' runs that are written: call → kind

    def _send_part(self, choice: int, part: bytes) -> None:
        self._is_empty = False
        frame = b'{"candidates":[{"content":{"parts":[%b],"role":"model"},"index":%d}]%b' % (part, choice, self._tail)
        self.out.append((b"", frame))

    # ── the turn ──────────────────────────────────────────────────────────────────────────────────

    def _start_turn(self, event: ev.Start) -> None:
        self._reset()
        self.template = NO_TEMPLATE
        self._turns += 1
        suffix = f"-{self._turns}" if self._turns > 1 else ""  # clients recognise another turn by its id
        names = {"modelVersion": event.model or self._model, "responseId": event.id or self._id + suffix}
        head = {
            **drop_none(createTime=encode_objects.format_time(event.created)),
            **get_gemini_fields(event.extra),
            **names,
        }
        self._tail = b"," + _encode(head)[1:]

    def _update_usage(self, event: ev.Usage) -> None:
        if event.step:
            self.report_loss("steps")
            self._steps[event.step] = event
            return
        if event.written is not None:
            self.report_loss("written")
        self._usage = encode_objects.build_usage_metadata(event)

    def _get_usage(self) -> dict[str, Any] | None:
        if self._usage is None and self._steps:
            return encode_objects.build_usage_metadata(sum_usage(self._steps.values()))
        return self._usage

    def _finish_turn(self, event: ev.Finish) -> None:
        if event.reason == "pause" and event.raw not in FINISH_REASONS:
            self.report_loss("pause")
        if event.reason == "refusal":
            self.report_loss("refusal")
        if event.reason == "stop" and self._called:
            self.report_loss("reason")
        native = get_gemini_fields(event.extra)
        payload: dict[str, Any] = {}
        blocked = "blockReason" in native.get("promptFeedback", {}) and self._is_empty
        if "groundingMetadata" not in native and any(one.has_moved_sources for one in self._candidates.values()):
            self.report_loss("span")
        if not blocked:
            payload["candidates"] = encode_objects.build_finished_candidates(event, self._candidates)
        if "promptFeedback" in native:
            payload["promptFeedback"] = native["promptFeedback"]
        payload |= drop_none(usageMetadata=self._get_usage())
        self.out.append((b"", _encode(payload)[:-1] + self._tail))

    def _write_fault(self, event: ev.Fault) -> None:
        """Writes grounding and usage first, because clients stop reading at the error."""
        if any(self._open_calls.values()):
            self.report_loss("cut-call")
        payload = encode_objects.build_payload_before_error(self._candidates, self._get_usage())
        if payload:
            self.out.append((b"", _encode(payload)[:-1] + self._tail))
        elif self._is_empty:
            self.report_loss("nameless")
        self.out.append((ERROR, _encode(encode_objects.build_error_body(event))))

    # ── text and thoughts ─────────────────────────────────────────────────────────────────────────

    def _open_part(self, event: ev.TextStart | ev.RefusalStart | ev.ReasoningStart) -> encode_objects.UnfinishedPart:
        candidate = self._candidates.setdefault(event.choice, encode_objects.CandidateState())
        part = self._parts[event.index] = encode_objects.UnfinishedPart(event.choice, candidate)
        self._choice_of[event.index] = event.choice
        open_parts = self._open_parts.setdefault(event.choice, [])
        part.waiting = [] if open_parts else None
        open_parts.append(part)
        return part

    def _write_part(self, part: encode_objects.UnfinishedPart, data: bytes) -> None:
        if part.waiting is None:
            self._send_part(part.choice, data)
        else:
            part.waiting.append(data)

    def _close_part(self, part: encode_objects.UnfinishedPart) -> None:
        """Ends a part and writes the parts that waited for it."""
        part.done = True
        open_parts = self._open_parts[part.choice]
        while open_parts and open_parts[0].done:
            del open_parts[0]
            if open_parts:
                waiting, open_parts[0].waiting = open_parts[0].waiting or (), None
                for data in waiting:
                    self._send_part(part.choice, data)

    def _start_text(self, event: ev.TextStart | ev.RefusalStart) -> None:
        self._open_part(event).candidate.text_parts.add(event.index)
        self._report_foreign(event.extra, "text-state")

    def _start_refusal(self, event: ev.RefusalStart) -> None:
        self.report_loss("refusal")
        self._start_text(event)
        self._parts[event.index].candidate.refused = True

    def _report_foreign(self, extra: ev.Extra | None, loss: str) -> None:
        if extra and not get_gemini_fields(extra):
            self.report_loss(loss)

    def _append_text(self, event: ev.TextDelta) -> None:
        if event.logprobs is not None:
            self.report_loss("logprobs")
        self._append_text_delta(event)

    def _append_text_delta(self, event: ev.TextDelta | ev.RefusalDelta) -> None:
        part = self._parts[event.index]
        part.candidate.add_text(event.index, event.text)
        self._write_part(part, b'{"text":%b}' % _encode(event.text))
        self._set_template(event, b'{"text":%b}', partial(part.candidate.add_text, event.index))

    def _append_reasoning(self, event: ev.ReasoningDelta) -> None:
        self._write_part(self._parts[event.index], b'{"text":%b,"thought":true}' % _encode(event.text))
        self._set_template(event, b'{"text":%b,"thought":true}')

    def _set_template(self, event: Any, format: bytes, keep: Callable[[str], None] | None = None) -> None:
        """Sets the template for the next deltas of the part, unless it waits for another part."""
        part = self._parts[event.index]
        if part.waiting is None:
            before, after = format.split(b"%b")
            head = b'{"candidates":[{"content":{"parts":[%b' % before
            tail = b'%b],"role":"model"},"index":%d}]%b' % (after, part.choice, self._tail)
            self.template = FrameTemplate(type(event), event.index, b"", head, tail, keep)

    def _end_text(self, event: ev.TextEnd | ev.RefusalEnd) -> None:
        self._report_foreign(event.extra, "text-state")
        self._write_signature(event, thought=None)

    def _end_reasoning(self, event: ev.ReasoningEnd) -> None:
        self._report_foreign(event.extra, "opaque")
        redacted = self._parts[event.index].media == "redacted"
        self._write_signature(event, thought=get_gemini_fields(event.extra).get("thought") if redacted else True)

    def _write_signature(self, event: Any, *, thought: bool | None) -> None:
        part = self._parts.pop(event.index)
        signature = get_gemini_fields(event.extra).get("thoughtSignature")
        if signature and not event.broken:
            self._write_part(part, _encode(drop_none(text="", thought=thought, thoughtSignature=signature)))
        self._close_part(part)

    def _start_reasoning(self, event: ev.ReasoningStart) -> None:
        self._open_part(event).media = event.form
        self._report_foreign(event.extra, "opaque")

    # ── calls ─────────────────────────────────────────────────────────────────────────────────────

    def _start_call(self, event: ev.CallStart) -> None:
        self._choice_of[event.index] = event.choice
        if event.by == "client":
            self._open_calls[event.index] = b""

    def _end_call(self, event: ev.CallEnd) -> None:
        """Writes a call as one part. A broken call is not written, because a part means that the call is complete."""
        if event.broken:
            self._cut_call(event)
            return
        if event.by == "provider":
            self._write_provider_call(event)
            return
        if event.form == "text" or not event.json.lstrip().startswith("{"):
            self.report_loss("text-call")
        self._open_calls[event.index] = _encode(encode_objects.build_call_part(event))
        self._write_ended_calls()

    def _write_ended_calls(self) -> None:
        """Writes calls in the order they began, because results without an id answer calls in order."""
        while self._open_calls:
            index, part = next(iter(self._open_calls.items()))
            if not part:
                break
            self._send_part(self._choice_of[index], part)
            self._called = self._called or not self._choice_of[index]
            self._open_calls.popitem(last=False)

    def _write_provider_call(self, event: ev.CallEnd) -> None:
        choice, kind = self._choice_of[event.index], provider_tools.KINDS.get(event.name)
        part = encode_objects.build_provider_part(event.id, event.json, get_gemini_fields(event.extra), "args")
        if part is None and kind in ("search", "program"):
            self.report_loss("provider-run")
            self._foreign_runs[event.id] = kind
            if kind == "search":
                candidate = self._candidates.setdefault(choice, encode_objects.CandidateState())
                candidate.queries += provider_tools.search_queries(event.json)
            part = encode_objects.build_program_part(event) if kind == "program" else {}
        self._write_provider_part(choice, part)

    def _write_result(self, event: ev.Result) -> None:
        native, kind = get_gemini_fields(event.extra), self._foreign_runs.get(event.call)
        part = encode_objects.build_provider_part(event.call, event.json, native, "response")
        if part is None and kind is not None:
            part = encode_objects.build_program_output_part(event) if kind == "program" else {}
        self._write_provider_part(native.get("choice", 0), part)

    def _write_provider_part(self, choice: int, part: dict[str, Any] | None) -> None:
        if part is None:
            self.report_loss("provider-call")
        elif part:
            self._send_part(choice, _encode(part))

    def _cut_call(self, event: ev.CallCut | ev.CallEnd) -> None:
        self.report_loss("cut-call" if event.by == "client" else "provider-call")
        self._open_calls.pop(event.index, None)
        if not event.broken:
            self._write_ended_calls()

    # ── files, sources, opaque parts ──────────────────────────────────────────────────────────────

    def _start_file(self, event: ev.FileStart) -> None:
        self._parts[event.index] = encode_objects.UnfinishedPart(
            event.choice, encode_objects.CandidateState(), event.media, event.url
        )

    def _append_file_data(self, event: ev.FileDelta) -> None:
        self._parts[event.index].data.append(event.data)

    def _end_file(self, event: ev.FileEnd) -> None:
        part, native = self._parts.pop(event.index), get_gemini_fields(event.extra)
        if event.broken:
            self.report_loss("cut-file")
            return
        file: dict[str, Any] = {"inlineData": {"mimeType": part.media, "data": "".join(part.data)}}
        if part.url:
            file = {"fileData": {"mimeType": part.media, "fileUri": part.url}}
        written = drop_none(**file, thought=native.get("thought"), thoughtSignature=native.get("thoughtSignature"))
        self._send_part(part.choice, _encode(written))

    def _add_source(self, event: ev.Source) -> None:
        choice = self._choice_of.get(event.of, 0) if event.of is not None else 0
        self._candidates.setdefault(choice, encode_objects.CandidateState()).sources.append(event)

    def _write_opaque(self, event: ev.Opaque) -> None:
        part = as_object(event.data) if event.protocol == NAME else {}
        if part:
            self._send_part(0, _encode(part))
        else:
            self.report_loss("opaque")

    table: ClassVar[Mapping[type, Callable[[Any, Any], None]]] = {
        ev.Start: _start_turn, ev.Step: nothing,
        ev.TextStart: _start_text, ev.TextDelta: _append_text, ev.TextEnd: _end_text,
        ev.RefusalStart: _start_refusal, ev.RefusalDelta: _append_text_delta, ev.RefusalEnd: _end_text,
        ev.ReasoningStart: _start_reasoning, ev.ReasoningDelta: _append_reasoning, ev.ReasoningEnd: _end_reasoning,
        ev.CallStart: _start_call, ev.CallDelta: nothing, ev.CallEnd: _end_call, ev.CallCut: _cut_call,
        ev.FileStart: _start_file, ev.FileDelta: _append_file_data, ev.FileEnd: _end_file,
        ev.Result: _write_result, ev.Ask: lost("approval"), ev.Source: _add_source, ev.Opaque: _write_opaque,
        ev.Data: lost("data"), ev.Usage: _update_usage, ev.Finish: _finish_turn, ev.Fault: _write_fault,
        ev.Unknown: verbatim,
    }  # fmt: skip
