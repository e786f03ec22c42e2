"""Events → `fullStream` parts of version 4: no ids on text, no borders, no metadata on parts.

What is said runs on until something else is said. Only Claude's signatures have parts of their own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from penstock import events as ev
from penstock.aisdk import PartEncoder, cite, encode_json, own, value, write_usage
from penstock.protocols.aisdk import encode

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from penstock.events import Extra

NAME = "aisdk"
VERSION = 4
_SAYS = b'{"type":"text-delta","textDelta":'
_THINKS = b'{"type":"reasoning","textDelta":'


class Aisdk4Encoder(PartEncoder):
    """State: the calls, usage by step, who answered."""

    protocol = NAME
    losses = encode.LOSSES

    def __init__(self, *, id: str = "response", model: str = "unknown", created: int = 0) -> None:
        super().__init__()
        self._named = (id, model, created)
        self._start(ev.Start(), silent=True)

    # ── the turn ──────────────────────────────────────────────────────────────────────────────────

    def _start(self, event: ev.Start, *, silent: bool = False) -> None:
        self._clear()
        self._calls: dict[str, Any] = {}
        self._usage: dict[int, ev.Usage] = {}
        self._step, self._called = 1, False
        self._response = encode.response_fields(event, *self._named)
        if not silent:
            self._step_start()

    def _step_start(self) -> None:
        self._send("step-start", messageId=self._response["id"], request={}, warnings=[])

    def _next_step(self, event: ev.Step) -> None:
        if event.number <= self._step:
            return  # begun with the turn
        self._step_finish("tool-calls" if self._called else "stop")
        self._step, self._called = event.number, False
        self._step_start()

    def _step_finish(self, reason: str) -> None:
        usage = self._usage.get(self._step) or (self._usage.get(0) if len(self._usage) == 1 else None)
        self._send(
            "step-finish", messageId=self._response["id"], finishReason=reason, usage=write_usage(usage, VERSION),
            request={}, response=self._response, warnings=[], isContinued=False,
        )  # fmt: skip

    def _usage_event(self, event: ev.Usage) -> None:
        if event.step > self._step:
            self._next_step(ev.Step(event.step))  # a step that nobody announced
        self._usage[event.step] = event
        if (event.cached, event.written, event.reasoning) != (None, None, None):
            self.report_loss("usage")

    def _finish(self, event: ev.Finish) -> None:
        self._response.update(own(event.extra).get("response", {}))
        self._end(encode.finish_word(self, event))

    def _end(self, reason: str) -> None:
        self._step_finish(reason)
        usage = write_usage(self._usage.get(0), VERSION)
        self._send("finish", finishReason=reason, usage=usage, response=self._response)

    def _fault(self, event: ev.Fault) -> None:
        self._send("error", error=encode.error_object(event))
        if self._usage:
            self.report_loss("fault-usage")

    # ── text and reasoning ────────────────────────────────────────────────────────────────────────

    def _text_start(self, event: ev.TextStart | ev.RefusalStart) -> None:
        if self._first(event):
            self._open[event.index] = _SAYS
        if event.extra:
            self.report_loss("text-state")
        if type(event) is ev.RefusalStart:
            self.report_loss("refusal")

    def _reasoning_start(self, event: ev.ReasoningStart) -> None:
        if self._first(event):
            self._open[event.index] = _THINKS

    def _text_end(self, event: ev.TextEnd | ev.RefusalEnd) -> None:
        self._open.pop(event.index, None)
        if event.extra:
            self.report_loss("text-state")

    def _reasoning_end(self, event: ev.ReasoningEnd) -> None:
        if self._open.pop(event.index, None) is None or event.broken:
            return
        state = (event.extra or {}).get("anthropic", {})
        if state.get("redacted"):
            self._send("redacted-reasoning", data=state["redacted"])
        elif state.get("signature"):
            self._send("reasoning-signature", signature=state["signature"])
        elif event.extra:
            self.report_loss("reasoning-state")

    # ── calls ─────────────────────────────────────────────────────────────────────────────────────

    def _call_start(self, event: ev.CallStart) -> None:
        if event.by == "provider":
            self.report_loss("provider-call")
        elif self._first(event):
            names = b'"toolCallId":%b,"toolName":%b' % (encode_json(event.id), encode_json(event.name))
            self.out.append((b"", b'{"type":"tool-call-streaming-start",%b}' % names))
            self._open[event.index] = b'{"type":"tool-call-delta",%b,"argsTextDelta":' % names
            if event.form == "text":
                self.report_loss("free-text")

    def _call_end(self, event: ev.CallEnd) -> None:
        if event.broken:
            self._call_cut(event)
            return
        if self._open.pop(event.index, None) is None:
            return
        if event.by == "provider":
            self.report_loss("provider-call")
            return
        self._called = True
        args = event.json if event.form == "text" else value(event.json)
        self._calls[event.id] = args
        self._send("tool-call", toolCallId=event.id, toolName=event.name, args=args)

    def _call_cut(self, event: ev.CallCut | ev.CallEnd) -> None:
        """As version 4 does it: an error names the tool, and there is no tool-call. A fault says enough by itself."""
        if self._open.pop(event.index, None) is not None:
            self.report_loss("cut-call")
            if event.broken:
                return
            names = {"toolName": event.name, "toolArgs": event.json, "toolCallId": event.id}
            message = "the call never became whole"
            self._send("error", error={"name": "AI_InvalidToolArgumentsError", "message": message, **names})

    def _result(self, event: ev.Result) -> None:
        if event.call not in self._calls or event.partial:
            self.report_loss("provider-call")
            return
        self.report_loss("answered")
        args = self._calls[event.call]
        self._send("tool-result", toolCallId=event.call, toolName=event.name, args=args, result=value(event.json))

    # ── sources, files, the rest ──────────────────────────────────────────────────────────────────

    def _source(self, event: ev.Source) -> None:
        if not event.url:
            self.report_loss("source")
            return
        if cite(event):
            self.report_loss("span")
        source = {"sourceType": "url", "id": event.id or f"source-{event.index}", "url": event.url}
        self._send("source", source={**source, **({"title": event.title} if event.title else {})})

    def _file(self, start: ev.FileStart, data: str, extra: Extra | None) -> None:
        if extra:
            self.report_loss("file-state")
        if start.url and not data:
            self.report_loss("file")
            self._source(ev.Source(start.index, start.url))
        else:
            self._send("file", mimeType=start.media, base64=data)

    def _opaque(self, _: ev.Opaque) -> None:
        self.report_loss("opaque")

    def _ask(self, _: ev.Ask) -> None:
        self.report_loss("approval")

    def _data(self, _: ev.Data) -> None:
        self.report_loss("data")

    table: ClassVar[Mapping[type, Callable[[Any, Any], None]]] = {
        **PartEncoder.table,
        ev.Start: _start, ev.Step: _next_step, ev.TextStart: _text_start, ev.TextEnd: _text_end,
        ev.RefusalStart: _text_start, ev.RefusalEnd: _text_end,
        ev.ReasoningStart: _reasoning_start, ev.ReasoningEnd: _reasoning_end,
        ev.CallStart: _call_start, ev.CallEnd: _call_end, ev.CallCut: _call_cut, ev.Result: _result, ev.Ask: _ask,
        ev.Source: _source, ev.Opaque: _opaque, ev.Data: _data, ev.Usage: _usage_event, ev.Finish: _finish,
        ev.Fault: _fault,
    }  # fmt: skip
