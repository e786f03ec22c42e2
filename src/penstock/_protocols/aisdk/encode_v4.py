"""Events → `fullStream` parts of version 4: text has no ids, no start and end, and no metadata.

A text goes on until another kind of part comes. Only Claude's reasoning state has parts of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock import events as ev
from penstock._aisdk import INCOMPLETE_CALL, citation_fields, encode_json, raw_json, sdk_extra, write_usage
from penstock._protocols.aisdk.encode import FullStreamEncoder

if TYPE_CHECKING:
    from penstock.events import Extra

_TEXT_HEAD = b'{"type":"text-delta","textDelta":'
_REASONING_HEAD = b'{"type":"reasoning","textDelta":'


class Aisdk4Encoder(FullStreamEncoder):
    """Version 4."""

    version = 4

    # ── the turn ──────────────────────────────────────────────────────────────────────────────────

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

    def _write_refusal_end(self, event: ev.RefusalEnd) -> None:
        self._write_text_end(event)

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
            return
        if self._delta_heads.pop(event.index, None) is None:
            return
        if event.by == "provider":
            self.report_loss("provider-call")
            return
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
            names = {"toolName": event.name, "toolArgs": event.json, "toolCallId": event.id}
            self._send("error", error={"name": "AI_InvalidToolArgumentsError", "message": INCOMPLETE_CALL, **names})

    def _write_result(self, event: ev.Result) -> None:
        if event.call not in self._calls or event.partial:
            self.report_loss("provider-call")
            return
        self.report_loss("answered")
        fields = {"toolCallId": event.call, "toolName": event.name, "args": self._calls[event.call]}
        self._send("tool-result", **fields, result=raw_json(event.json))

    def _write_ask(self, _: ev.Ask) -> None:
        self.report_loss("approval")

    # ── sources, files, opaque state ──────────────────────────────────────────────────────────────

    def _write_source(self, event: ev.Source) -> None:
        if not event.url:
            self.report_loss("source")
            return
        if citation_fields(event):
            self.report_loss("span")
        title = {"title": event.title} if event.title else {}
        self._send_source("url", id=event.id or f"source-{event.index}", url=event.url, **title)

    def _send_source(self, kind: str, **fields: Any) -> None:
        self._send("source", source={"sourceType": kind, **fields})

    def _write_file(self, start: ev.FileStart, data: str, extra: Extra | None) -> None:
        if extra:
            self.report_loss("file-state")
        if start.url and not data:
            self.report_loss("file")
            self._write_source(ev.Source(start.index, start.url))
        else:
            self._send("file", mimeType=start.media, base64=data)

    def _write_opaque(self, _: ev.Opaque) -> None:
        self.report_loss("opaque")
