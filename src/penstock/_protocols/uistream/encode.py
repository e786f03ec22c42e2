"""Events → UI message chunks (v1). Writes only chunk types that the readers of AI SDK 5, 6 and 7 all know.

Parts have ids, so they may interleave. But a reader looks for a tool's part in the current step only, and version 5
forgets open text at the end of a step; so a step waits until no part is open. Usage is in the message's metadata. A
fault is an `error` (or `abort`) and the last chunk: the parts that it broke off, the step and the message stay open.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock import _aisdk as sdk
from penstock import _lenient_fields as lenient
from penstock import events as ev
from penstock._aisdk import ChunkEncoder, encode_json, metadata_field, raw_json, sdk_extra
from penstock._diagnostics import read_losses
from penstock._lenient_json import decode_unless_too_deep, is_json

if TYPE_CHECKING:
    from penstock._lenient_fields import Object
    from penstock.events import Extra

NAME = "uistream"
LOSSES = read_losses(__name__, "answers")
_DONE = (b"", b"[DONE]")


class UiEncoder(ChunkEncoder):
    """State: the calls, whether a step waits, usage."""

    protocol = NAME
    losses = LOSSES
    delta_field = b"delta"
    source_id_field = "sourceId"

    def __init__(self, *, id: str = "", model: str = "", metadata: bool = True, message_id: str | None = None) -> None:
        """`metadata=False` leaves out model and usage. `message_id` replaces the turn's own id; empty: no id."""
        super().__init__()
        self._id, self._model, self._with_metadata = id, model, metadata
        self._message_id = message_id
        self._reset_turn()

    def _reset_turn(self) -> None:
        self._reset_parts()
        self._step_waits = False
        self._continues = False  # the message before goes on
        self._usage: ev.Usage | None = None

    # ── the message ───────────────────────────────────────────────────────────────────────────────

    def _write_start(self, event: ev.Start) -> None:
        self._reset_turn()
        id = event.id or self._id if self._message_id is None else self._message_id  # noqa: A001
        model = event.model or self._model
        metadata: Object = {"model": model} if model and self._with_metadata else {}
        if event.created is not None and self._with_metadata:
            metadata["createdAt"] = event.created * 1000
        metadata.update(lenient.get_object(sdk_extra(event.extra), "messageMetadata"))
        # without an id the page creates one
        self._send("start", **({"messageId": id} if id else {}), **({"messageMetadata": metadata} if metadata else {}))
        # Results for the calls of a message that goes on come before its next step.
        self._continues = bool(sdk_extra(event.extra).get("continues"))
        if not self._continues:
            self._send("start-step")

    def _write_step(self, event: ev.Step) -> None:
        if event.number == 1:
            if self._continues:
                self._send("start-step")
            return  # else it started with the message
        self._flush_calls()
        self._step_waits = True
        self._start_waiting_step()

    def _start_waiting_step(self) -> None:
        if self._step_waits and not self._delta_heads and not self._files:
            self._step_waits = False
            self._send("finish-step")
            self._send("start-step")

    def _write_usage(self, event: ev.Usage) -> None:
        if event.step:
            self.report_loss("steps")
        else:
            self._usage = event

    def _write_finish(self, event: ev.Finish) -> None:
        reason, metadata = self._report_finish(event), self._usage_metadata()
        if self._with_metadata and event.raw and event.raw != reason:
            metadata["rawFinishReason"] = event.raw
        metadata.update(lenient.get_object(sdk_extra(event.extra), "messageMetadata"))
        self._flush_calls()
        self._send("finish-step")
        self._send("finish", finishReason=reason, **({"messageMetadata": metadata} if metadata else {}))
        self.out.append(_DONE)

    def _usage_metadata(self) -> Object:
        return {"usage": sdk.write_usage(self._usage)} if self._with_metadata and self._usage is not None else {}

    def _write_fault(self, event: ev.Fault) -> None:
        """Writes usage first: `useChat` throws at an error and reads nothing after it."""
        self._flush_calls()
        metadata = self._usage_metadata()
        if metadata:
            self._send("message-metadata", messageMetadata=metadata)
        if event.kind == "cancelled":
            self._send("abort", reason=event.message)
        else:
            self.report_loss("fault")
            self._send("error", errorText=event.message)

    def _close_part(self, event: Any, type: str, **fields: Any) -> bool:
        closed = super()._close_part(event, type, **fields)
        if closed:
            self._start_waiting_step()
        return closed

    # ── calls ─────────────────────────────────────────────────────────────────────────────────────

    def _write_call_start(self, event: ev.CallStart) -> None:
        if not self._is_first_choice(event):
            return
        self._calls[event.id] = sdk.call_fields(event, "dynamic", "title", "toolMetadata")
        if event.by == "client":
            self._client_calls.add(event.id)
        encoding = {"inputEncoding": "text"} if event.form == "text" else {}
        self._send("tool-input-start", **self._head_fields(event), **encoding)
        head = b'{"type":"tool-input-delta","toolCallId":%b,"inputTextDelta":'
        self._delta_heads[event.index] = head % encode_json(event.id)

    def _head_fields(self, event: ev.CallStart | ev.CallEnd | ev.CallCut, **ours: Any) -> Object:
        fields = {"toolCallId": event.id, "toolName": event.name}
        return {**fields, **self._calls.get(event.id, {}), **metadata_field(event.extra, **ours)}

    def _write_call_end(self, event: ev.CallEnd) -> None:
        if event.broken:
            self._write_call_cut(event)
            return
        is_text = event.form == "text"
        value = event.json if is_text else raw_json(event.json)
        # the page keeps the metadata and sends it back with its messages
        fields = {**self._head_fields(event, form="text" if is_text else ""), "input": value}
        fields_of_sdk = sdk_extra(event.extra)
        if fields_of_sdk.get("sdk") and not fields_of_sdk.get("running") and event.index in self._delta_heads:
            del self._delta_heads[event.index]
            self._pending_calls[event.id] = ("tool-input-available", fields)
        else:
            self._close_part(event, "tool-input-available", **fields)

    def _write_call_cut(self, event: ev.CallCut | ev.CallEnd) -> None:
        """Ends the part with an error, so that a page shows it as such and never runs it.

        If a fault broke the call off, the part stays open: a page would count a failed call as answered and send it to
        the model.
        """
        if event.broken:
            self.report_loss("cut-call")
        fields = {**self._head_fields(event, cut=event.by), "input": event.json, "errorText": sdk.INCOMPLETE_CALL}
        self._close_part(event, "tool-input-error", **fields)

    def _write_result(self, event: ev.Result) -> None:
        call: Object | None = self._calls.get(event.call)
        if call is None and sdk_extra(event.extra).get("continues"):
            call = {}
        if call is None:
            self.report_loss("orphan-result")
            return
        if {"continues", "denied"} <= {name for name, value in sdk_extra(event.extra).items() if value}:
            # The page asked for approval, so its version is 6 or later.
            self._send("tool-output-denied", toolCallId=event.call)
            return
        self._answer_call(event.call)
        fields: dict[str, Any] = {"toolCallId": event.call}
        fields |= {key: call[key] for key in ("providerExecuted", "dynamic") if key in call}
        metadata = metadata_field(event.extra, content=sdk_extra(event.extra).get("content"))
        if event.failed:
            if not event.json.startswith('"'):
                self.report_loss("failure")
            self._send("tool-output-error", **fields, errorText=_error_text(event.json), **metadata)
            return
        partial = {"preliminary": True} if event.partial else {}
        self._send("tool-output-available", **fields, output=raw_json(event.json), **partial, **metadata)

    def _write_ask(self, event: ev.Ask) -> None:
        """Writes only a request of another UI stream: readers before version 6 do not know this chunk."""
        if event.call not in self._calls or sdk_extra(event.extra).get("via") != NAME:
            self.report_loss("approval")
            return
        self._flush_call(event.call)
        self._send("tool-approval-request", approvalId=event.id, toolCallId=event.call, **sdk.approval_fields(event))

    # ── sources, files, state ─────────────────────────────────────────────────────────────────────

    def _send_source(self, kind: str, **fields: Any) -> None:
        self._send(f"source-{kind}", **fields)

    def _write_file(self, start: ev.FileStart, data: str, extra: Extra | None) -> None:
        if sdk_extra(extra).get("reasoning"):
            self.report_loss("file-state")
        url = f"data:{start.media};base64,{data}" if data or not start.url else start.url
        self._send("file", url=url, mediaType=start.media, **metadata_field(extra))
        self._start_waiting_step()

    def _write_opaque(self, event: ev.Opaque) -> None:
        """Writes state as a data part: every reader keeps it and sends it back."""
        if event.protocol == NAME and isinstance(event.data, dict):
            self.out.append((b"", encode_json(event.data)))  # pyright: ignore[reportUnknownMemberType]
        else:
            self._send(sdk.OPAQUE_TYPE, data={"protocol": event.protocol, "kind": event.kind, "data": event.data})

    def _write_data(self, event: ev.Data) -> None:
        id = {"id": event.id} if event.id else {}  # noqa: A001
        transient = {"transient": True} if event.transient else {}
        self._send(f"data-{event.name}", **id, data=raw_json(event.json), **transient)


def _error_text(json: str) -> str:
    value = decode_unless_too_deep(json) if is_json(json) else json
    return value if isinstance(value, str) else json
