"""Events → `fullStream` parts of versions 5, 6 and 7, one JSON line each. Parts have ids, so they may interleave.

A call's input streams and then comes whole, parsed. A call that was cut gets a `tool-error` and never a `tool-call`.
A fault is an `error` (or `abort`) and the last part: what it broke off stays open, and there is no finish.
Steps need their usage and reason at their end, which is why both are kept until then.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, ClassVar

from penstock import events as ev
from penstock import lenient_fields as lenient
from penstock.aisdk import WRITES, PartEncoder, cite, encode_json, metadata, own, value, write_usage

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from penstock.codec import Encoder, Losses
    from penstock.events import Extra

LOSSES: Losses = {
    "answered": "a call that is answered, or asked about, in the same turn is taken for one that was run upstream",
    "approval": "there is no request for approval before version 6, nor of a call that is not in the turn",
    "choice": "only the first of several choices is written",
    "cut-call": "version 4 says only by an error that a call never became whole; one that a fault broke off stays open",
    "cut-file": "a file that a fault broke off is not written",
    "data": "an application's own data has no part in a full stream",
    "file": "a file given by its address is written as a source",
    "file-state": "before version 6 files have no metadata, and only 7 tells those of the reasoning apart",
    "free-text": "before version 6 nothing but metadata says that a call's input is free text, and in 4 nothing",
    "logprobs": "log probabilities have no field",
    "opaque": "there is no part for opaque state before version 7",
    "provider-call": "version 4 cannot say that the provider runs a tool itself",
    "reason": "a pause and other reasons are written as stopped, a refusal as filtered; only the raw word tells",
    "reasoning-state": "version 4 knows the state of Claude's reasoning only",
    "refusal": "a refusal is written as text; only its metadata tells, and in version 4 nothing",
    "source": "a source without an address is left out of version 4; without a title it is given one",
    "span": "version 4 does not say which text a source is for",
    "text-state": "version 4 has no metadata on text",
    "unknown": "another protocol's unknown payload is not written",
    "usage": "version 4 counts no cached and no reasoning tokens",
    "fault-usage": "the usage of a turn that a fault broke off is not written: only ends have a field for it",
    "written": "before version 6 tokens written to a cache are not counted",
}
NAME = "aisdk"
RAW_REASON, ENCODING, APPROVAL, DETAILS, TITLE, FILE_STATE = 6, 6, 6, 6, 6, 6  # since which version there is
PERFORMANCE, CUSTOM, REASONING_FILE = 7, 7, 7
# a stream that is written measures nothing, but readers of 7 expect the object
UNMEASURED: dict[str, Any] = {
    "stepTimeMs": 0, "responseTimeMs": 0, "effectiveOutputTokensPerSecond": 0, "effectiveTotalTokensPerSecond": 0,
    "toolExecutionMs": {},
}  # fmt: skip


class AisdkEncoder(PartEncoder):
    """State: the calls, usage by step, who answered."""

    protocol = NAME
    version: ClassVar[int] = 7
    losses = LOSSES

    def __init__(self, *, id: str = "response", model: str = "unknown", created: int = 0) -> None:
        super().__init__()
        self._named = (id, model, created)
        self._start(ev.Start(), silent=True)

    # ── the turn ──────────────────────────────────────────────────────────────────────────────────

    def _start(self, event: ev.Start, *, silent: bool = False) -> None:
        self._clear()
        self._calls: dict[str, dict[str, Any]] = {}
        self._usage: dict[int, ev.Usage] = {}
        self._step, self._called = 1, False
        self._clients: set[str] = set()
        self._response = response_fields(event, *self._named)
        if not silent:
            self._send("start")
            self._send("start-step", request={}, warnings=[])

    def _next_step(self, event: ev.Step) -> None:
        if event.number <= self._step:
            return  # begun with the turn
        self._finish_step("tool-calls" if self._called else "stop", "", None)
        self._step, self._called = event.number, False
        self._send("start-step", request={}, warnings=[])

    def _finish_step(self, reason: str, raw: str, extra: Extra | None) -> None:
        self._settle()
        usage = self._usage.get(self._step) or (self._usage.get(0) if len(self._usage) == 1 else None)
        response = {**self._response, **own(extra).get("response", {})}
        fields: dict[str, Any] = {"response": response, "usage": write_usage(usage, self.version)}
        if self.version >= PERFORMANCE:
            fields["performance"] = UNMEASURED
        self._send("finish-step", **fields, **self._reason(reason, raw), **metadata(extra))

    def _reason(self, reason: str, raw: str) -> dict[str, Any]:
        named = {"rawFinishReason": raw} if raw and self.version >= RAW_REASON else {}
        return {"finishReason": reason, **named}

    def _usage_event(self, event: ev.Usage) -> None:
        if event.step > self._step:
            self._next_step(ev.Step(event.step))  # a step that nobody announced
        self._usage[event.step] = event
        if event.written is not None and self.version < DETAILS:
            self.report_loss("written")

    def _finish(self, event: ev.Finish) -> None:
        self._end(finish_word(self, event), event.raw, event.extra)

    def _end(self, reason: str, raw: str, extra: Extra | None) -> None:
        self._finish_step(reason, raw, extra)
        self._send("finish", **self._reason(reason, raw), totalUsage=write_usage(self._usage.get(0), self.version))

    def _fault(self, event: ev.Fault) -> None:
        self._settle()
        if event.kind == "cancelled":
            self._send("abort", **({"reason": event.message} if self.version >= RAW_REASON else {}))
        else:
            self._send("error", error=error_object(event))
        if self._usage:
            self.report_loss("fault-usage")

    # ── text and reasoning ────────────────────────────────────────────────────────────────────────

    def _speak(self, event: ev.TextStart | ev.RefusalStart | ev.ReasoningStart, kind: str, **ours: Any) -> None:
        if not self._first(event):
            return
        told = metadata(event.extra, reasoning=kind == "reasoning", **ours)
        self._send(f"{kind}-start", id=str(event.index), **told)
        self._open[event.index] = b'{"type":"%b-delta","id":"%d","text":' % (kind.encode(), event.index)

    def _text_start(self, event: ev.TextStart) -> None:
        self._speak(event, "text")

    def _refusal_start(self, event: ev.RefusalStart) -> None:
        self.report_loss("refusal")
        self._speak(event, "text", refusal=True)

    def _reasoning_start(self, event: ev.ReasoningStart) -> None:
        self._speak(event, "reasoning", form="" if event.form == "full" else event.form)

    def _text_end(self, event: ev.TextEnd | ev.RefusalEnd) -> None:
        if self._open.pop(event.index, None) is not None and not event.broken:
            self._send("text-end", id=str(event.index), **metadata(event.extra))

    def _reasoning_end(self, event: ev.ReasoningEnd) -> None:
        if self._open.pop(event.index, None) is not None and not event.broken:
            self._send("reasoning-end", id=str(event.index), **metadata(event.extra, reasoning=True))

    # ── calls ─────────────────────────────────────────────────────────────────────────────────────

    def _call_start(self, event: ev.CallStart) -> None:
        if not self._first(event):
            return
        fields, form = self._marks(event), ""
        if event.form == "text" and self.version >= ENCODING:
            fields["inputEncoding"] = "text"
        elif event.form == "text":
            form = "text"
            self.report_loss("free-text")
        self._send("tool-input-start", id=event.id, toolName=event.name, **fields, **metadata(event.extra, form=form))
        self._open[event.index] = b'{"type":"tool-input-delta","id":%b,"delta":' % encode_json(event.id)

    def _marks(self, event: ev.CallStart | ev.CallEnd | ev.CallCut) -> dict[str, Any]:
        marks = own(event.extra)
        fields: dict[str, Any] = {"providerExecuted": True} if event.by == "provider" and not marks.get("sdk") else {}
        known = ("dynamic", "title", "toolMetadata") if self.version >= TITLE else ("dynamic",)
        fields.update({key: marks[key] for key in known if marks.get(key)})
        return fields

    def _call_end(self, event: ev.CallEnd) -> None:
        if event.broken:
            self._call_cut(event)
            return
        if self._open.pop(event.index, None) is None:
            return
        sdk = bool(own(event.extra).get("sdk"))
        self._called = self._called or sdk or event.by == "client"
        if event.by == "client":
            self._clients.add(event.id)
        self._send("tool-input-end", id=event.id)
        whole = event.json if event.form == "text" else value(event.json)
        call = {"toolCallId": event.id, "toolName": event.name, "input": whole, **self._marks(event)}
        self._calls[event.id] = call
        if sdk:
            self._waiting[event.id] = ("tool-call", {**call, **metadata(event.extra)})
        else:
            self._send("tool-call", **call, **metadata(event.extra))

    def _call_cut(self, event: ev.CallCut | ev.CallEnd) -> None:
        if self._open.pop(event.index, None) is None:
            return
        if event.broken:
            self.report_loss("cut-call")
            return
        self._send("tool-input-end", id=event.id)
        call = {"toolCallId": event.id, "toolName": event.name, "input": event.json, **self._marks(event)}
        call.update(dynamic=True, invalid=True, error="the call never became whole")
        self._send("tool-error", **call, **metadata(event.extra, cut=event.by))

    def _result(self, event: ev.Result) -> None:
        self._settle(event.call, ran=True)
        marks = own(event.extra)
        known = self._calls.get(event.call, {"providerExecuted": True})
        self._answered(event.call)
        answer = {**known, "toolCallId": event.call, "toolName": event.name or known.get("toolName", "")}
        if marks.get("denied") and self.version >= APPROVAL:
            self._send("tool-output-denied", toolCallId=event.call, toolName=answer["toolName"])
            return
        answer["error" if event.failed else "output"] = value(event.json)
        if event.partial and not event.failed:
            answer["preliminary"] = True
        self._send("tool-error" if event.failed else "tool-result", **answer, **metadata(event.extra))

    def _answered(self, call: str) -> None:
        if call in self._clients:
            self.report_loss("answered")

    def _ask(self, event: ev.Ask) -> None:
        call = self._calls.get(event.call)
        if call is None or self.version < APPROVAL:
            self.report_loss("approval")
            return
        self._settle(event.call, ran=True)
        self._answered(event.call)
        marks = own(event.extra)
        words = (("reason", "reason"), ("automatic", "isAutomatic"), ("signature", "signature"))
        more = {word: marks[key] for key, word in words if marks.get(key)}
        self._send("tool-approval-request", approvalId=event.id, toolCall={"type": "tool-call", **call}, **more)

    # ── sources, files, the rest ──────────────────────────────────────────────────────────────────

    def _source(self, event: ev.Source) -> None:
        place = metadata(event.extra, cite=cite(event))
        named = {"id": event.id or f"source-{event.index}", **({"title": event.title} if event.title else {})}
        if event.url:
            self._send("source", sourceType="url", **named, url=event.url, **place)
            return
        if not event.title:
            self.report_loss("source")
            named["title"] = event.filename or "document"
        file = {"filename": event.filename} if event.filename else {}
        self._send("source", sourceType="document", **named, mediaType=event.media or "text/plain", **file, **place)

    def _file(self, start: ev.FileStart, data: str, extra: Extra | None) -> None:
        if start.url and not data:
            self.report_loss("file")
            self._source(ev.Source(start.index, start.url, media=start.media, extra=extra))
            return
        reasoned = own(extra).get("reasoning") and self.version >= REASONING_FILE
        file = {"base64": data, "mediaType": start.media}
        state = metadata(extra) if self.version >= FILE_STATE else {}
        if self.version < REASONING_FILE and (own(extra).get("reasoning") or (extra and not state)):
            self.report_loss("file-state")
        self._send("reasoning-file" if reasoned else "file", file=file, **state)

    def _opaque(self, event: ev.Opaque) -> None:
        if self.version < CUSTOM:
            self.report_loss("opaque")
        elif event.protocol == NAME and isinstance(event.data, dict):
            self.out.append((b"", encode_json(event.data)))  # pyright: ignore[reportUnknownMemberType]
        else:
            self._send("custom", kind=f"{event.protocol}.{event.kind}", **metadata(None, opaque=event.data))

    def _data(self, _: ev.Data) -> None:
        self.report_loss("data")

    table: ClassVar[Mapping[type, Callable[[Any, Any], None]]] = {
        **PartEncoder.table,
        ev.Start: _start, ev.Step: _next_step, ev.TextStart: _text_start, ev.TextEnd: _text_end,
        ev.RefusalStart: _refusal_start, ev.RefusalEnd: _text_end,
        ev.ReasoningStart: _reasoning_start, ev.ReasoningEnd: _reasoning_end,
        ev.CallStart: _call_start, ev.CallEnd: _call_end, ev.CallCut: _call_cut, ev.Result: _result, ev.Ask: _ask,
        ev.Source: _source, ev.Opaque: _opaque, ev.Data: _data, ev.Usage: _usage_event, ev.Finish: _finish,
        ev.Fault: _fault,
    }  # fmt: skip


class Aisdk6Encoder(AisdkEncoder):
    """Without custom parts and files of the reasoning."""

    version = 6


class Aisdk5Encoder(AisdkEncoder):
    """Also without raw reasons, details of usage, approvals and titles."""

    version = 5


def response_fields(event: ev.Start, id: str, model: str, created: int) -> dict[str, Any]:
    """The response that a step's end names."""
    return {"id": event.id or id, "timestamp": timestamp(event.created or created), "modelId": event.model or model}


def timestamp(seconds: int) -> str:
    """A JavaScript date in JSON; one that no calendar has is the first."""
    try:
        when = datetime.fromtimestamp(seconds, UTC)
    except (ValueError, OverflowError, OSError):
        when = datetime.fromtimestamp(0, UTC)
    return when.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def finish_word(encoder: Encoder, event: ev.Finish) -> str:
    """The word for a finish; what it cannot say is reported."""
    if event.reason in ("pause", "other", "refusal"):
        encoder.report_loss("reason")
    if event.others:
        encoder.report_loss("choice")
    return WRITES[event.reason]


def error_object(event: ev.Fault) -> dict[str, Any]:
    """A fault as an Error would look in JSON."""
    said = {
        "name": "AI_APICallError" if event.status else "Error", "message": event.message, "type": event.kind,
        "code": event.code, "statusCode": event.status, "requestId": event.request_id, "retryAfter": event.retry_after,
    }  # fmt: skip
    known = {key: value for key, value in said.items() if value}
    return {**lenient.get_object(own(event.extra), "error"), **known}
