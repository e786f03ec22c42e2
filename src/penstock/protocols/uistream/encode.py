"""Events → UI message chunks (v1), as the readers of AI SDK 5, 6 and 7 take them: only types that all three know.

Parts have ids, so they may interleave; but a reader looks for a tool's part in the current step only, and version 5
forgets open text at the end of a step, so a step waits until nothing is open. Usage goes into the message's metadata.
A fault is an `error` (or `abort`) and the last chunk: parts that it broke off, the step and the message stay open.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from penstock import events as ev
from penstock import lenient_fields as lenient
from penstock.aisdk import OPAQUE, WRITES, PartEncoder, cite, encode_json, metadata, own, value, write_usage
from penstock.jsontext import decode_or_keep_raw, is_json

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from penstock.codec import Losses
    from penstock.events import Extra

NAME = "uistream"
LOSSES: Losses = {
    "choice": "only the first of several choices is written",
    "refusal": "a refusal is written as text; only its metadata tells",
    "reason": "a pause and other reasons are written as stopped, a refusal as filtered; only the metadata tells",
    "steps": "only the whole turn's usage is written",
    "fault": "of a fault only the message is written",
    "answered": "a call that is answered in the same message is taken for one that the server ran",
    "approval": "version 5 has no request for approval; only another UI stream's is passed on",
    "orphan-result": "a result needs its call in the same message",
    "cut-call": "a call that a fault broke off is left as it is: its input never becomes available",
    "cut-file": "a file that a fault broke off is not written",
    "failure": "what a failed tool gave back is written as text",
    "file-state": "a file of the reasoning is a file like others before version 7",
    "source": "a source without an address or a title is given a title",
    "logprobs": "log probabilities have no field",
    "unknown": "another protocol's unknown payload is not written",
}
_DONE = (b"", b"[DONE]")


class UiEncoder(PartEncoder):
    """State: the calls there are, whether a step waits, usage."""

    protocol = NAME
    losses = LOSSES

    def __init__(self, *, id: str = "", model: str = "", metadata: bool = True) -> None:
        """Make one; without `metadata` neither model nor usage is told."""
        super().__init__()
        self._id, self._model, self._tell = id, model, metadata
        self._reset()

    def _reset(self) -> None:
        self._clear()
        self._calls: dict[str, dict[str, Any]] = {}  # id → how it was announced: a reader finds its part by that
        self._clients: set[str] = set()
        self._stepping = False
        self._usage: ev.Usage | None = None

    # ── the message ───────────────────────────────────────────────────────────────────────────────

    def _start(self, event: ev.Start) -> None:
        self._reset()
        named, model = event.id or self._id, event.model or self._model
        told: dict[str, Any] = {"model": model} if model and self._tell else {}
        if event.created is not None and self._tell:
            told["createdAt"] = event.created * 1000
        told.update(lenient.get_object(own(event.extra), "messageMetadata"))
        # without an id the page makes its own
        self._send("start", **({"messageId": named} if named else {}), **({"messageMetadata": told} if told else {}))
        self._send("start-step")

    def _step(self, event: ev.Step) -> None:
        if event.number == 1:
            return  # begun with the message
        self._settle()
        self._stepping = True
        self._go_on()

    def _go_on(self) -> None:
        if self._stepping and not self._open and not self._files:
            self._stepping = False
            self._send("finish-step")
            self._send("start-step")

    def _usage_event(self, event: ev.Usage) -> None:
        if event.step:
            self.report_loss("steps")
        else:
            self._usage = event

    def _finish(self, event: ev.Finish) -> None:
        if event.reason in ("pause", "other", "refusal"):
            self.report_loss("reason")
        if event.others:
            self.report_loss("choice")
        self._end(WRITES[event.reason], event.raw, event.extra)

    def _end(self, reason: str, raw: str, extra: Extra | None) -> None:
        told = self._usage_metadata()
        if self._tell and raw and raw != reason:
            told["rawFinishReason"] = raw
        told.update(lenient.get_object(own(extra), "messageMetadata"))
        self._settle()
        self._send("finish-step")
        self._send("finish", finishReason=reason, **({"messageMetadata": told} if told else {}))
        self.out.append(_DONE)

    def _usage_metadata(self) -> dict[str, Any]:
        return {"usage": write_usage(self._usage)} if self._tell and self._usage is not None else {}

    def _fault(self, event: ev.Fault) -> None:
        """Usage comes first: `useChat` throws at an error and reads nothing behind it."""
        self._settle()
        told = self._usage_metadata()
        if told:
            self._send("message-metadata", messageMetadata=told)
        if event.kind == "cancelled":
            self._send("abort", reason=event.message)
        else:
            self.report_loss("fault")
            self._send("error", errorText=event.message)

    # ── text and reasoning ────────────────────────────────────────────────────────────────────────

    def _speak(self, event: ev.TextStart | ev.RefusalStart | ev.ReasoningStart, kind: str, **ours: Any) -> None:
        if not self._first(event):
            return
        said = metadata(event.extra, reasoning=kind == "reasoning", **ours)
        self._send(f"{kind}-start", id=str(event.index), **said)
        self._open[event.index] = b'{"type":"%b-delta","id":"%d","delta":' % (kind.encode(), event.index)

    def _text_start(self, event: ev.TextStart) -> None:
        self._speak(event, "text")

    def _refusal_start(self, event: ev.RefusalStart) -> None:
        self.report_loss("refusal")
        self._speak(event, "text", refusal=True)

    def _reasoning_start(self, event: ev.ReasoningStart) -> None:
        self._speak(event, "reasoning", form="" if event.form == "full" else event.form)

    def _text_end(self, event: ev.TextEnd | ev.RefusalEnd) -> None:
        self._close(event, "text-end", id=str(event.index), **metadata(event.extra))

    def _reasoning_end(self, event: ev.ReasoningEnd) -> None:
        self._close(event, "reasoning-end", id=str(event.index), **metadata(event.extra, reasoning=True))

    def _close(self, event: Any, type: str, **fields: Any) -> None:
        if self._open.pop(event.index, None) is not None and not event.broken:
            self._send(type, **fields)
            self._go_on()

    # ── calls ─────────────────────────────────────────────────────────────────────────────────────

    def _call_start(self, event: ev.CallStart) -> None:
        if not self._first(event):
            return
        marks = own(event.extra)
        fields: dict[str, Any] = {"providerExecuted": True} if event.by == "provider" and not marks.get("sdk") else {}
        fields.update({key: marks[key] for key in ("dynamic", "title", "toolMetadata") if marks.get(key)})
        self._calls[event.id] = fields
        if event.by == "client":
            self._clients.add(event.id)
        encoding = {"inputEncoding": "text"} if event.form == "text" else {}
        self._send("tool-input-start", **self._head(event), **encoding)
        self._open[event.index] = b'{"type":"tool-input-delta","toolCallId":%b,"inputTextDelta":' % encode_json(
            event.id
        )

    def _head(self, event: ev.CallStart | ev.CallEnd | ev.CallCut, **ours: Any) -> dict[str, Any]:
        named = {"toolCallId": event.id, "toolName": event.name}
        return {**named, **self._calls.get(event.id, {}), **metadata(event.extra, **ours)}

    def _call_end(self, event: ev.CallEnd) -> None:
        if event.broken:
            self._call_cut(event)
            return
        free = event.form == "text"
        whole = event.json if free else value(event.json)
        head = self._head(event, form="text" if free else "")  # kept by the page, and sent back with its messages
        if own(event.extra).get("sdk") and event.index in self._open:
            del self._open[event.index]
            self._waiting[event.id] = ("tool-input-available", {**head, "input": whole})
        else:
            self._close(event, "tool-input-available", **head, input=whole)

    def _call_cut(self, event: ev.CallCut | ev.CallEnd) -> None:
        """A part left streaming would never end; one with an error is shown as such and never run.

        Not so where a fault follows: a page would count the call as answered, and send it to the model.
        """
        if event.broken:
            self.report_loss("cut-call")
        head = self._head(event, cut=event.by)
        self._close(event, "tool-input-error", **head, input=event.json, errorText="the call never became whole")

    def _result(self, event: ev.Result) -> None:
        call = self._calls.get(event.call)
        if call is None:
            self.report_loss("orphan-result")
            return
        if event.call in self._clients:
            self.report_loss("answered")
        self._settle(event.call, ran=True)
        head: dict[str, Any] = {
            "toolCallId": event.call,
            **{key: call[key] for key in ("providerExecuted", "dynamic") if key in call},
        }
        if event.failed:
            if not event.json.startswith('"'):
                self.report_loss("failure")
            self._send("tool-output-error", **head, errorText=_shown(event.json), **metadata(event.extra))
            return
        partial = {"preliminary": True} if event.partial else {}
        self._send("tool-output-available", **head, output=value(event.json), **partial, **metadata(event.extra))

    def _ask(self, event: ev.Ask) -> None:
        """Only readers since 6 know this chunk: it is written if it came from a stream that knew it too."""
        marks = own(event.extra)
        if event.call not in self._calls or marks.get("via") != NAME:
            self.report_loss("approval")
            return
        self._settle(event.call, ran=True)
        words = (("reason", "reason"), ("automatic", "isAutomatic"), ("signature", "signature"))
        more = {word: marks[key] for key, word in words if marks.get(key)}
        self._send("tool-approval-request", approvalId=event.id, toolCallId=event.call, **more)

    # ── sources, files, the rest ──────────────────────────────────────────────────────────────────

    def _source(self, event: ev.Source) -> None:
        place = metadata(event.extra, cite=cite(event))
        named = {"sourceId": event.id or f"source-{event.index}", **({"title": event.title} if event.title else {})}
        if event.url:
            self._send("source-url", **named, url=event.url, **place)
            return
        if not event.title:
            self.report_loss("source")
            named["title"] = event.filename or "document"
        file = {"filename": event.filename} if event.filename else {}
        self._send("source-document", **named, mediaType=event.media or "text/plain", **file, **place)

    def _file(self, start: ev.FileStart, data: str, extra: Extra | None) -> None:
        if own(extra).get("reasoning"):
            self.report_loss("file-state")
        url = f"data:{start.media};base64,{data}" if data or not start.url else start.url
        self._send("file", url=url, mediaType=start.media, **metadata(extra))
        self._go_on()

    def _opaque(self, event: ev.Opaque) -> None:
        """State that must come back goes where every reader keeps it: into a data part."""
        if event.protocol == NAME and isinstance(event.data, dict):
            self.out.append((b"", encode_json(event.data)))  # pyright: ignore[reportUnknownMemberType]
        else:
            self._send(OPAQUE, data={"protocol": event.protocol, "kind": event.kind, "data": event.data})

    def _data(self, event: ev.Data) -> None:
        named = {"id": event.id} if event.id else {}
        fading = {"transient": True} if event.transient else {}
        self._send(f"data-{event.name}", **named, data=value(event.json), **fading)

    table: ClassVar[Mapping[type, Callable[[Any, Any], None]]] = {
        **PartEncoder.table,
        ev.Start: _start, ev.Step: _step, ev.TextStart: _text_start, ev.TextEnd: _text_end,
        ev.RefusalStart: _refusal_start, ev.RefusalEnd: _text_end,
        ev.ReasoningStart: _reasoning_start, ev.ReasoningEnd: _reasoning_end,
        ev.CallStart: _call_start, ev.CallEnd: _call_end, ev.CallCut: _call_cut, ev.Result: _result, ev.Ask: _ask,
        ev.Source: _source, ev.Opaque: _opaque, ev.Data: _data, ev.Usage: _usage_event, ev.Finish: _finish,
        ev.Fault: _fault,
    }  # fmt: skip


def _shown(json: str) -> str:
    """A failure as text."""
    said = decode_or_keep_raw(json) if is_json(json) else json
    return said if isinstance(said, str) else json
