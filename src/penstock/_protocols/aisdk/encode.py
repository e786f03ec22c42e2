"""Events → `fullStream` parts, one JSON line each. Since version 5 parts have ids, so they may interleave.

A call's input streams and then comes complete, parsed. A cut call gets a `tool-error` and never a `tool-call`. A fault
is an `error` (or `abort`) and the last part: the parts that it broke off stay open, and there is no finish. The end of
a step has its usage and finish reason, so both are kept until then.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, ClassVar

from penstock import _aisdk as sdk
from penstock import _lenient_fields as lenient
from penstock import events as ev
from penstock._aisdk import SDK, ChunkEncoder, encode_json, metadata_field, raw_json, sdk_extra, write_usage
from penstock._diagnostics import read_losses

if TYPE_CHECKING:
    from penstock._lenient_fields import Object
    from penstock.events import Extra

LOSSES = read_losses(__name__, "answers")
# the first version that has each feature
_CACHED, _RAW_REASON, _ENCODING, _APPROVAL, _DETAILS, _TITLE, _FILE_STATE = 5, 6, 6, 6, 6, 6, 6
_ABORT, _PERFORMANCE, _CUSTOM, _REASONING_FILE = 5, 7, 7, 7
# an encoder measures nothing, but readers of version 7 expect the object
_TIMES = "stepTimeMs responseTimeMs effectiveOutputTokensPerSecond effectiveTotalTokensPerSecond"
_NO_PERFORMANCE: Object = {**dict.fromkeys(_TIMES.split(), 0), "toolExecutionMs": {}}
_TEXT_HEAD = b'{"type":"text-delta","textDelta":'
_REASONING_HEAD = b'{"type":"reasoning","textDelta":'


class AisdkEncoder(ChunkEncoder):
    """Version 7. State: the calls, usage by step, the response's id and model."""

    protocol = SDK
    losses = LOSSES
    version: ClassVar[int] = 7
    delta_field = b"text"
    source_id_field = "id"

    def __init__(self, *, id: str = "response", model: str = "unknown", created: int = 0) -> None:
        super().__init__()
        self._defaults = (id, model, created)
        self._reset_turn(ev.Start())

    def _reset_turn(self, event: ev.Start) -> None:
        self._reset_parts()
        self._usage: dict[int, ev.Usage] = {}
        self._step, self._has_calls = 1, False
        id, model, created = self._defaults  # noqa: A001
        timestamp = _format_timestamp(event.created or created)
        self._response: Object = {"id": event.id or id, "timestamp": timestamp, "modelId": event.model or model}

    # ── the turn ──────────────────────────────────────────────────────────────────────────────────

    def _write_start(self, event: ev.Start) -> None:
        self._send("start")
        self._reset_turn(event)
        self._start_step()

    def _start_step(self) -> None:
        self._send("start-step", request={}, warnings=[])

    def _write_step(self, event: ev.Step) -> None:
        if event.number <= self._step:
            return  # it started with the turn
        self._finish_step("tool-calls" if self._has_calls else "stop")
        self._step, self._has_calls = event.number, False
        self._start_step()

    def _finish_step(self, reason: str, raw: str = "", extra: Extra | None = None) -> None:
        self._flush_calls()
        response = {**self._response, **sdk_extra(extra).get("response", {})}
        fields: Object = {"response": response, "usage": self._step_usage()}
        if self.version >= _PERFORMANCE:
            fields["performance"] = _NO_PERFORMANCE
        self._send("finish-step", **fields, **self._reason_fields(reason, raw), **metadata_field(extra))

    def _step_usage(self) -> Object:
        usage = self._usage.get(self._step) or (self._usage.get(0) if len(self._usage) == 1 else None)
        return write_usage(usage, self.version)

    def _reason_fields(self, reason: str, raw: str) -> Object:
        raw_field = {"rawFinishReason": raw} if raw and self.version >= _RAW_REASON else {}
        return {"finishReason": reason, **raw_field}

    def _write_usage(self, event: ev.Usage) -> None:
        if event.step > self._step:
            self._write_step(ev.Step(event.step))  # a step without a Step event
        self._usage[event.step] = event
        if event.written is not None and _CACHED <= self.version < _DETAILS:
            self.report_loss("written")

    def _write_finish(self, event: ev.Finish) -> None:
        reason = self._report_finish(event)
        self._finish_step(reason, event.raw, event.extra)
        self._finish_turn(reason, event.raw)

    def _finish_turn(self, reason: str, raw: str) -> None:
        usage = write_usage(self._usage.get(0), self.version)
        self._send("finish", **self._reason_fields(reason, raw), totalUsage=usage)

    def _write_fault(self, event: ev.Fault) -> None:
        self._flush_calls()
        if event.kind == "cancelled" and self.version >= _ABORT:
            self._send("abort", **({"reason": event.message} if self.version >= _RAW_REASON else {}))
        else:
            self._send("error", error=_error_object(event))
        if self._usage:
            self.report_loss("fault-usage")

    # ── calls ─────────────────────────────────────────────────────────────────────────────────────

    def _write_call_start(self, event: ev.CallStart) -> None:
        if not self._is_first_choice(event):
            return
        fields, form = self._call_fields(event), ""
        if event.form == "text" and self.version >= _ENCODING:
            fields["inputEncoding"] = "text"
        elif event.form == "text":
            form = "text"
            self.report_loss("free-text")
        metadata = metadata_field(event.extra, form=form)
        self._send("tool-input-start", id=event.id, toolName=event.name, **fields, **metadata)
        self._delta_heads[event.index] = b'{"type":"tool-input-delta","id":%b,"delta":' % encode_json(event.id)

    def _call_fields(self, event: ev.CallStart | ev.CallEnd | ev.CallCut) -> Object:
        names = ("dynamic", "title", "toolMetadata") if self.version >= _TITLE else ("dynamic",)
        return sdk.call_fields(event, *names)

    def _write_call_end(self, event: ev.CallEnd) -> None:
        if event.broken:
            self._write_call_cut(event)
            return
        if self._delta_heads.pop(event.index, None) is None:
            return
        ran_by_sdk = bool(sdk_extra(event.extra).get("sdk"))
        self._has_calls = self._has_calls or ran_by_sdk or event.by == "client"
        if event.by == "client":
            self._client_calls.add(event.id)
        self._send("tool-input-end", id=event.id)
        value = event.json if event.form == "text" else raw_json(event.json)
        call = {"toolCallId": event.id, "toolName": event.name, "input": value, **self._call_fields(event)}
        self._calls[event.id] = call
        self._pending_calls[event.id] = ("tool-call", {**call, **metadata_field(event.extra)})
        if not ran_by_sdk:
            self._flush_call(event.id)

    def _write_call_cut(self, event: ev.CallCut | ev.CallEnd) -> None:
        if self._delta_heads.pop(event.index, None) is None:
            return
        if event.broken:
            self.report_loss("cut-call")
            return
        self._send("tool-input-end", id=event.id)
        call = {"toolCallId": event.id, "toolName": event.name, "input": event.json, **self._call_fields(event)}
        call.update(dynamic=True, invalid=True, error=sdk.INCOMPLETE_CALL)
        self._send("tool-error", **call, **metadata_field(event.extra, cut=event.by))

    def _write_result(self, event: ev.Result) -> None:
        self._answer_call(event.call)
        call = self._calls.get(event.call, {"providerExecuted": True})
        fields = {**call, "toolCallId": event.call, "toolName": event.name or call.get("toolName", "")}
        if sdk_extra(event.extra).get("denied") and self.version >= _APPROVAL:
            self._send("tool-output-denied", toolCallId=event.call, toolName=fields["toolName"])
            return
        fields["error" if event.failed else "output"] = raw_json(event.json)
        if event.partial and not event.failed:
            fields["preliminary"] = True
        self._send("tool-error" if event.failed else "tool-result", **fields, **metadata_field(event.extra))

    def _write_ask(self, event: ev.Ask) -> None:
        call = self._calls.get(event.call)
        if call is None or self.version < _APPROVAL:
            self.report_loss("approval")
            return
        self._answer_call(event.call)
        fields = {"approvalId": event.id, "toolCall": {"type": "tool-call", **call}}
        self._send("tool-approval-request", **fields, **sdk.approval_fields(event))

    # ── sources, files, opaque state ──────────────────────────────────────────────────────────────

    def _send_source(self, kind: str, **fields: Any) -> None:
        self._send("source", sourceType=kind, **fields)

    def _write_file(self, start: ev.FileStart, data: str, extra: Extra | None) -> None:
        if start.url and not data:
            self.report_loss("file")
            self._write_source(ev.Source(start.index, start.url, media=start.media, extra=extra))
            return
        is_reasoning = sdk_extra(extra).get("reasoning")
        metadata = metadata_field(extra) if self.version >= _FILE_STATE else {}
        if self.version < _REASONING_FILE and (is_reasoning or (extra and not metadata)):
            self.report_loss("file-state")
        kind = "reasoning-file" if is_reasoning and self.version >= _REASONING_FILE else "file"
        self._send(kind, file={"base64": data, "mediaType": start.media}, **metadata)

    def _write_opaque(self, event: ev.Opaque) -> None:
        if self.version < _CUSTOM:
            self.report_loss("opaque")
        elif event.protocol == SDK and isinstance(event.data, dict):
            self.out.append((b"", encode_json(event.data)))  # pyright: ignore[reportUnknownMemberType]
        else:
            self._send("custom", kind=f"{event.protocol}.{event.kind}", **metadata_field(None, opaque=event.data))

    def _write_data(self, _: ev.Data) -> None:
        self.report_loss("data")


class Aisdk6Encoder(AisdkEncoder):
    """Without custom parts and files of the reasoning."""

    version = 6


class Aisdk5Encoder(AisdkEncoder):
    """Also without raw reasons, usage details, approvals and titles."""

    version = 5


class Aisdk4Encoder(AisdkEncoder):
    """Version 4: text has no ids, no start and end, and no metadata.

    A text continues until another kind of part comes. Only Claude's reasoning state has parts.
    """

    version = 4

    # ── the turn ──────────────────────────────────────────────────────────────────────────────────

    def _write_start(self, event: ev.Start) -> None:
        self._reset_turn(event)
        self._start_step()

    def _start_step(self) -> None:
        self._send("step-start", messageId=self._response["id"], request={}, warnings=[])

    def _finish_step(self, reason: str, raw: str = "", extra: Extra | None = None) -> None:
        self._response.update(sdk_extra(extra).get("response", {}))
        fields = {"messageId": self._response["id"], "finishReason": reason, "usage": self._step_usage()}
        self._send("step-finish", **fields, request={}, response=self._response, warnings=[], isContinued=False)

    def _write_usage(self, event: ev.Usage) -> None:
        super()._write_usage(event)
        if (event.cached, event.written, event.reasoning) != (None, None, None):
            self.report_loss("usage")

    def _finish_turn(self, reason: str, raw: str) -> None:
        usage = write_usage(self._usage.get(0), self.version)
        self._send("finish", finishReason=reason, usage=usage, response=self._response)

    # ── text and reasoning ────────────────────────────────────────────────────────────────────────

    def _write_text_start(self, event: ev.TextStart | ev.RefusalStart) -> None:
        if self._is_first_choice(event):
            self._delta_heads[event.index] = _TEXT_HEAD
        if event.extra:
            self.report_loss("text-state")

    def _write_refusal_start(self, event: ev.RefusalStart) -> None:
        self._write_text_start(event)
        self.report_loss("refusal")

    def _write_reasoning_start(self, event: ev.ReasoningStart) -> None:
        if self._is_first_choice(event):
            self._delta_heads[event.index] = _REASONING_HEAD

    def _write_text_end(self, event: ev.TextEnd | ev.RefusalEnd) -> None:
        self._delta_heads.pop(event.index, None)
        if event.extra:
            self.report_loss("text-state")

    def _write_reasoning_end(self, event: ev.ReasoningEnd) -> None:
        if self._delta_heads.pop(event.index, None) is None or event.broken:
            return
        state = (event.extra or {}).get("anthropic", {})
        if state.get("redacted"):
            self._send("redacted-reasoning", data=state["redacted"])
        elif state.get("signature"):
            self._send("reasoning-signature", signature=state["signature"])
        elif event.extra:
            self.report_loss("reasoning-state")

    # ── calls ─────────────────────────────────────────────────────────────────────────────────────

    def _write_call_start(self, event: ev.CallStart) -> None:
        if event.by == "provider":
            self.report_loss("provider-call")
        elif self._is_first_choice(event):
            names = b'"toolCallId":%b,"toolName":%b' % (encode_json(event.id), encode_json(event.name))
            self.out.append((b"", b'{"type":"tool-call-streaming-start",%b}' % names))
            self._delta_heads[event.index] = b'{"type":"tool-call-delta",%b,"argsTextDelta":' % names
            if event.form == "text":
                self.report_loss("free-text")

    def _write_call_end(self, event: ev.CallEnd) -> None:
        if event.broken:
            self._write_call_cut(event)
        elif self._delta_heads.pop(event.index, None) is None:
            return
        elif event.by == "provider":
            self.report_loss("provider-call")
        else:
            self._has_calls = True
            args = event.json if event.form == "text" else raw_json(event.json)
            self._calls[event.id] = args
            self._send("tool-call", toolCallId=event.id, toolName=event.name, args=args)

    def _write_call_cut(self, event: ev.CallCut | ev.CallEnd) -> None:
        """Writes an error that names the tool, as version 4 does. If a fault follows, it is enough."""
        if self._delta_heads.pop(event.index, None) is not None:
            self.report_loss("cut-call")
            if event.broken:
                return
            call = {"toolName": event.name, "toolArgs": event.json, "toolCallId": event.id}
            error = {"name": "AI_InvalidToolArgumentsError", "message": sdk.INCOMPLETE_CALL, **call}
            self._send("error", error=error)

    def _write_result(self, event: ev.Result) -> None:
        if event.call not in self._calls or event.partial:
            self.report_loss("provider-call")
            return
        self.report_loss("answered")
        fields = {"toolCallId": event.call, "toolName": event.name, "args": self._calls[event.call]}
        self._send("tool-result", **fields, result=raw_json(event.json))

    # ── sources, files ────────────────────────────────────────────────────────────────────────────

    def _write_source(self, event: ev.Source) -> None:
        if not event.url:
            self.report_loss("source")
            return
        if sdk.citation_fields(event):
            self.report_loss("span")
        title = {"title": event.title} if event.title else {}
        source = {"sourceType": "url", "id": event.id or f"source-{event.index}", "url": event.url, **title}
        self._send("source", source=source)

    def _write_file(self, start: ev.FileStart, data: str, extra: Extra | None) -> None:
        if extra:
            self.report_loss("file-state")
        if start.url and not data:
            self.report_loss("file")
            self._write_source(ev.Source(start.index, start.url))
        else:
            self._send("file", mimeType=start.media, base64=data)


def _format_timestamp(seconds: int) -> str:
    """Returns a JavaScript date in JSON; the epoch if the calendar has no such date."""
    try:
        date = datetime.fromtimestamp(seconds, UTC)
    except (ValueError, OverflowError, OSError):
        date = datetime.fromtimestamp(0, UTC)
    return date.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _error_object(event: ev.Fault) -> Object:
    """Returns a fault as an Error looks in JSON."""
    fields = {
        "name": "AI_APICallError" if event.status else "Error",
        "message": event.message,
        "type": event.kind,
        "code": event.code,
        "statusCode": event.status,
        "requestId": event.request_id,
        "retryAfter": event.retry_after,
    }
    known = {key: value for key, value in fields.items() if value}
    return {**lenient.get_object(sdk_extra(event.extra), "error"), **known}
