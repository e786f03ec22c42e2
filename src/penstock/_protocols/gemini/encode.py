"""Events → generateContent chunks, as the official SDKs read them. The array framing is done by the writer.

Text is written as it comes, a call when it is complete, and a signature after its part on an empty one, as Gemini does.
The last chunk has the finish reason, usage and grounding. A fault ends the stream with an error object.
"""

from __future__ import annotations

from collections import OrderedDict
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec

from penstock import _provider_tools as provider_tools
from penstock import events as ev
from penstock._codec import Encoder, lost, nothing, verbatim
from penstock._diagnostics import read_losses
from penstock._fold import sum_usage
from penstock._framing.sse import ERROR
from penstock._lenient_fields import as_object
from penstock._protocols.gemini import body
from penstock._protocols.gemini.decode_metadata import FINISH_REASONS
from penstock._protocols.gemini.wire import NAME, drop_none, gemini_fields
from penstock._text_runs import NO_TEMPLATE, FrameTemplate

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from penstock.events import Extra

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
        self._parts: dict[int, body.OpenPart] = {}
        self._candidates: dict[int, body.CandidateState] = {}
        self._choice_of: dict[int, int] = {}  # part → choice
        # Open texts and thoughts by choice. Only the first is written at once, because nothing marks a new part.
        self._open_parts: dict[int, list[body.OpenPart]] = {}
        # An OrderedDict, because a dict finds its first row slowly after many deletions.
        self._open_calls: OrderedDict[int, bytes] = OrderedDict()
        self._usage: dict[str, Any] | None = None
        self._steps: dict[int, ev.Usage] = {}
        self._is_empty = True
        self._called = False
        self._foreign_runs: dict[str, str] = {}  # other providers' runs that are written: call → kind

    def _send(self, choice: int, part: bytes) -> None:
        self._is_empty = False
        frame = b'{"candidates":[{"content":{"parts":[%b],"role":"model"},"index":%d}]%b' % (part, choice, self._tail)
        self.out.append((b"", frame))

    # ── the turn ──────────────────────────────────────────────────────────────────────────────────

    def _start(self, event: ev.Start) -> None:
        self._reset()
        self.template = NO_TEMPLATE
        self._turns += 1
        suffix = f"-{self._turns}" if self._turns > 1 else ""  # clients recognise another turn by its id
        names = {"modelVersion": event.model or self._model, "responseId": event.id or self._id + suffix}
        head = {**drop_none(createTime=body.format_time(event.created)), **gemini_fields(event.extra), **names}
        self._tail = b"," + _encode(head)[1:]

    def _usage_event(self, event: ev.Usage) -> None:
        if event.step:
            self.report_loss("steps")
            self._steps[event.step] = event
            return
        if event.written is not None:
            self.report_loss("written")
        self._usage = body.usage_metadata(event)

    def _total_usage(self) -> dict[str, Any] | None:
        if self._usage is None and self._steps:
            return body.usage_metadata(sum_usage(self._steps.values()))
        return self._usage

    def _finish(self, event: ev.Finish) -> None:
        if event.reason == "pause" and event.raw not in FINISH_REASONS:
            self.report_loss("pause")
        if event.reason == "refusal":
            self.report_loss("refusal")
        if event.reason == "stop" and self._called:
            self.report_loss("reason")
        own = gemini_fields(event.extra)
        payload: dict[str, Any] = {}
        blocked = "blockReason" in own.get("promptFeedback", {}) and self._is_empty
        if "groundingMetadata" not in own and any(one.has_moved_sources for one in self._candidates.values()):
            self.report_loss("span")
        if not blocked:
            payload["candidates"] = body.finish_candidates(event, self._candidates)
        if "promptFeedback" in own:
            payload["promptFeedback"] = own["promptFeedback"]
        payload |= drop_none(usageMetadata=self._total_usage())
        self.out.append((b"", _encode(payload)[:-1] + self._tail))

    def _fault(self, event: ev.Fault) -> None:
        """Writes grounding and usage first, because clients stop reading at the error."""
        if any(self._open_calls.values()):
            self.report_loss("cut-call")
        payload = body.payload_before_error(self._candidates, self._total_usage())
        if payload:
            self.out.append((b"", _encode(payload)[:-1] + self._tail))
        elif self._is_empty:
            self.report_loss("nameless")
        self.out.append((ERROR, _encode(body.error_body(event))))

    # ── text and thoughts ─────────────────────────────────────────────────────────────────────────

    def _open(self, event: ev.TextStart | ev.RefusalStart | ev.ReasoningStart) -> body.OpenPart:
        candidate = self._candidates.setdefault(event.choice, body.CandidateState())
        part = self._parts[event.index] = body.OpenPart(event.choice, candidate)
        self._choice_of[event.index] = event.choice
        open_parts = self._open_parts.setdefault(event.choice, [])
        part.waiting = [] if open_parts else None
        open_parts.append(part)
        return part

    def _write_part(self, part: body.OpenPart, data: bytes) -> None:
        if part.waiting is None:
            self._send(part.choice, data)
        else:
            part.waiting.append(data)

    def _close(self, part: body.OpenPart) -> None:
        """Ends a part and writes the parts that waited for it."""
        part.done = True
        open_parts = self._open_parts[part.choice]
        while open_parts and open_parts[0].done:
            del open_parts[0]
            if open_parts:
                waiting, open_parts[0].waiting = open_parts[0].waiting or (), None
                for data in waiting:
                    self._send(part.choice, data)

    def _text_start(self, event: ev.TextStart | ev.RefusalStart) -> None:
        self._open(event).candidate.text_parts.add(event.index)
        self._report_foreign(event.extra, "text-state")

    def _refusal_start(self, event: ev.RefusalStart) -> None:
        self.report_loss("refusal")
        self._text_start(event)
        self._parts[event.index].candidate.refused = True

    def _report_foreign(self, extra: Extra | None, loss: str) -> None:
        if extra and not gemini_fields(extra):
            self.report_loss(loss)

    def _text(self, event: ev.TextDelta) -> None:
        if event.logprobs is not None:
            self.report_loss("logprobs")
        self._text_delta(event)

    def _text_delta(self, event: ev.TextDelta | ev.RefusalDelta) -> None:
        part = self._parts[event.index]
        part.candidate.add_text(event.index, event.text)
        self._write_part(part, b'{"text":%b}' % _encode(event.text))
        self._set_template(event, b'{"text":%b}', partial(part.candidate.add_text, event.index))

    def _reasoning(self, event: ev.ReasoningDelta) -> None:
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

    def _text_end(self, event: ev.TextEnd | ev.RefusalEnd) -> None:
        self._report_foreign(event.extra, "text-state")
        self._write_signature(event, thought=None)

    def _reasoning_end(self, event: ev.ReasoningEnd) -> None:
        self._report_foreign(event.extra, "opaque")
        redacted = self._parts[event.index].media == "redacted"
        self._write_signature(event, thought=gemini_fields(event.extra).get("thought") if redacted else True)

    def _write_signature(self, event: Any, *, thought: bool | None) -> None:
        part = self._parts.pop(event.index)
        signature = gemini_fields(event.extra).get("thoughtSignature")
        if signature and not event.broken:
            self._write_part(part, _encode(drop_none(text="", thought=thought, thoughtSignature=signature)))
        self._close(part)

    def _reasoning_start(self, event: ev.ReasoningStart) -> None:
        self._open(event).media = event.form
        self._report_foreign(event.extra, "opaque")

    # ── calls ─────────────────────────────────────────────────────────────────────────────────────

    def _call_start(self, event: ev.CallStart) -> None:
        self._choice_of[event.index] = event.choice
        if event.by == "client":
            self._open_calls[event.index] = b""

    def _call_end(self, event: ev.CallEnd) -> None:
        """Writes a call as one part. A broken call is not written, because a part means that the call is complete."""
        if event.broken:
            self._call_cut(event)
            return
        if event.by == "provider":
            self._provider_call(event)
            return
        if event.form == "text" or not event.json.lstrip().startswith("{"):
            self.report_loss("text-call")
        self._open_calls[event.index] = _encode(body.function_call_part(event))
        self._write_ended_calls()

    def _write_ended_calls(self) -> None:
        """Writes calls in the order they began, because results without an id answer calls in order."""
        while self._open_calls:
            index, part = next(iter(self._open_calls.items()))
            if not part:
                break
            self._send(self._choice_of[index], part)
            self._called = self._called or not self._choice_of[index]
            self._open_calls.popitem(last=False)

    def _provider_call(self, event: ev.CallEnd) -> None:
        choice, kind = self._choice_of[event.index], provider_tools.KINDS.get(event.name)
        part = body.provider_run_part(event.id, event.json, gemini_fields(event.extra), "args")
        if part is None and kind in ("search", "program"):
            self.report_loss("provider-run")
            self._foreign_runs[event.id] = kind
            if kind == "search":
                candidate = self._candidates.setdefault(choice, body.CandidateState())
                candidate.queries += provider_tools.search_queries(event.json)
            part = body.program_part(event) if kind == "program" else {}
        self._write_provider_part(choice, part)

    def _result(self, event: ev.Result) -> None:
        own, kind = gemini_fields(event.extra), self._foreign_runs.get(event.call)
        part = body.provider_run_part(event.call, event.json, own, "response")
        if part is None and kind is not None:
            part = body.program_output_part(event) if kind == "program" else {}
        self._write_provider_part(own.get("choice", 0), part)

    def _write_provider_part(self, choice: int, part: dict[str, Any] | None) -> None:
        if part is None:
            self.report_loss("provider-call")
        elif part:
            self._send(choice, _encode(part))

    def _call_cut(self, event: ev.CallCut | ev.CallEnd) -> None:
        self.report_loss("cut-call" if event.by == "client" else "provider-call")
        self._open_calls.pop(event.index, None)
        if not event.broken:
            self._write_ended_calls()

    # ── files, sources, opaque parts ──────────────────────────────────────────────────────────────

    def _file_start(self, event: ev.FileStart) -> None:
        self._parts[event.index] = body.OpenPart(event.choice, body.CandidateState(), event.media, event.url)

    def _file_delta(self, event: ev.FileDelta) -> None:
        self._parts[event.index].data.append(event.data)

    def _file_end(self, event: ev.FileEnd) -> None:
        part, own = self._parts.pop(event.index), gemini_fields(event.extra)
        if event.broken:
            self.report_loss("cut-file")
            return
        file: dict[str, Any] = {"inlineData": {"mimeType": part.media, "data": "".join(part.data)}}
        if part.url:
            file = {"fileData": {"mimeType": part.media, "fileUri": part.url}}
        signature = own.get("thoughtSignature")
        self._send(part.choice, _encode(drop_none(**file, thought=own.get("thought"), thoughtSignature=signature)))

    def _source(self, event: ev.Source) -> None:
        choice = self._choice_of.get(event.of, 0) if event.of is not None else 0
        self._candidates.setdefault(choice, body.CandidateState()).sources.append(event)

    def _opaque(self, event: ev.Opaque) -> None:
        part = as_object(event.data) if event.protocol == NAME else {}
        if part:
            self._send(0, _encode(part))
        else:
            self.report_loss("opaque")

    table: ClassVar[Mapping[type, Callable[[Any, Any], None]]] = {
        ev.Start: _start, ev.Step: nothing,
        ev.TextStart: _text_start, ev.TextDelta: _text, ev.TextEnd: _text_end,
        ev.RefusalStart: _refusal_start, ev.RefusalDelta: _text_delta, ev.RefusalEnd: _text_end,
        ev.ReasoningStart: _reasoning_start, ev.ReasoningDelta: _reasoning, ev.ReasoningEnd: _reasoning_end,
        ev.CallStart: _call_start, ev.CallDelta: nothing, ev.CallEnd: _call_end, ev.CallCut: _call_cut,
        ev.FileStart: _file_start, ev.FileDelta: _file_delta, ev.FileEnd: _file_end,
        ev.Result: _result, ev.Ask: lost("approval"), ev.Source: _source, ev.Opaque: _opaque,
        ev.Data: lost("data"), ev.Usage: _usage_event, ev.Finish: _finish, ev.Fault: _fault, ev.Unknown: verbatim,
    }  # fmt: skip
