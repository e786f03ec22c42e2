"""Decodes OpenAI Responses and Open Responses: the response's lifecycle, and the handler of every event type.

The final snapshot is reconciled with the streamed items. An `error` event is merged with the `response.failed` that
usually follows it. Because `response.failed` is optional, `pending` tells the connection's reader to wait only briefly.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import msgspec

from penstock import _lenient_fields as lenient
from penstock._codec import Decoder
from penstock._delta_templates import number_remover, string_remover
from penstock._lenient_json import complete_json, parse_lenient_bounded
from penstock._protocols.responses import decode_calls, wire
from penstock._protocols.responses.decode_items import ItemReader, ItemSlot, ItemSlots
from penstock._protocols.responses.decode_text import MessageReader, ReasoningReader
from penstock._protocols.responses.wire import NAME, wrap_extra

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from penstock._ledger import LedgerPart
    from penstock.events import AnyEvent

_END_STATUSES = frozenset({"completed", "incomplete", "failed", "cancelled", "canceled"})
_SUMMARY_EVENTS = frozenset(wire.STRUCTS[f"response.reasoning_summary_part.{end}"] for end in ("added", "done"))


class ResponsesDecoder(Decoder):
    """State: the response's id, its items and their readers, an error that waits, and the echoed request fields."""

    protocol = NAME
    ignored = (number_remover(b'"sequence_number'), string_remover(b"obfuscation"))  # frame numbers, OpenAI's padding
    shape = wire.Payload
    read = staticmethod(msgspec.json.Decoder(wire.Payload).decode)

    def __init__(self) -> None:
        super().__init__()
        self._id = ""
        self._items = ItemSlots()
        self._messages, self._reasoning = MessageReader(self.ledger), ReasoningReader(self.ledger)
        self._calls = decode_calls.StreamedCallReader(self.ledger)
        self._tools = decode_calls.BuiltinToolReader(self.ledger)
        self._untyped = decode_calls.UntypedItemReader(self.ledger)
        self._waiting_error: wire.ErrorEvent | None = None
        self._echoed = wire.EchoedFields()

    @property
    def pending(self) -> str:
        return "error" if self._waiting_error is not None else super().pending

    def delivers_text_unchanged(self, part: LedgerPart) -> bool:
        """Returns False for a provider's program: its code is escaped into JSON and differs from the frame's text."""
        return not part.is_call or part.by == "client"

    # ── the response ──────────────────────────────────────────────────────────────────────────────

    def _on_created(self, payload: wire.LifecycleEvent) -> None:
        """Starts a response. Inside an unfinished response only the items start again; a duplicate is ignored."""
        response = payload.response
        if self._waiting_error is not None:
            self._fail_response()
        if not self.ledger.is_open:
            self._start_response(response)
        elif (response.id or "") != self._id:
            self._close_items(complete=True)
            self.ledger.close_all()
            self._items.clear()
        self._update_usage(response.usage)

    def _start_response(self, response: wire.ResponseObject) -> None:
        self._items.clear()
        self._id = response.id or ""
        self._calls.set_request_tools(response.tools or [])
        created = lenient.to_integer(response.created_at)
        self.ledger.start(self._id, response.model or "", created, self._echoed.read_all(self.frame[1]))

    def _on_running(self, payload: wire.LifecycleEvent) -> None:
        """Queued or in progress: starts the response if `response.created` is missing."""
        if not self.ledger.is_open and (not self.ledger.turns or (payload.response.id or "") != self._id):
            self._start_response(payload.response)

    def _on_ended(self, payload: wire.LifecycleEvent) -> None:
        """Reads the final snapshot. Some providers send `response.completed` with another status inside."""
        response, status = payload.response, str(payload.__struct_config__.tag).removeprefix("response.")
        if status in _END_STATUSES and (status != "completed" or response.status not in ("incomplete", "failed")):
            response.status = status
        if not self.ledger.is_open:
            if self.ledger.turns and (response.id or "") == self._id:
                self.diagnostics.add("after-end", "a duplicate end of the response is ignored")
                return
            self._start_response(response)
        self._update_usage(response.usage)
        reason, raw = wire.read_finish_reason(response, self.diagnostics)
        failed = self.ledger.breaking = reason is None or self._waiting_error is not None
        self._reconcile(response.output or [])
        if failed or reason is None:
            self._fail_response(response)
            return
        self._close_items(complete=reason == "stop")
        fields = {"incomplete_details": response.incomplete_details, "completed_at": response.completed_at}
        echoed = {"copilot_usage": payload.copilot_usage, **self._echoed.read_changed(self.frame[1])}
        extra = wrap_extra(**{**echoed, **fields})
        self.ledger.finish(reason, raw, extra=extra)
        self.ledger.end()

    def _reconcile(self, output: list[dict[str, Any]]) -> None:
        """Delivers what the final snapshot has and the stream did not send."""
        for slot in self._items.match_snapshot(output):
            reader = self._get_reader(slot)
            if slot.done:
                reader.on_snapshot(slot)
            else:
                reader.on_done(slot)
                slot.done = True

    def _update_usage(self, raw: dict[str, Any] | None) -> None:
        usage = wire.read_usage(raw) if raw else None
        if usage is not None:
            self.ledger.usage(usage)

    # ── errors and the end of the input ───────────────────────────────────────────────────────────

    def _on_error(self, payload: wire.ErrorEvent) -> None:
        """Keeps the error until `response.failed`, which may add details, or until the input ends."""
        if self.ledger.ended:
            self.diagnostics.add("after-end", "an error after the end of the response is ignored")
        elif self._waiting_error is None:
            self._waiting_error = payload

    def _fail_response(self, response: wire.ResponseObject | None = None) -> None:
        error, self._waiting_error = self._waiting_error, None
        self.ledger.breaking = self.ledger.is_open
        self._close_items(complete=False)
        self.ledger.fault(**wire.read_fault(error, response))

    def read_special_frame(self, name: str, data: bytes) -> bool:
        if data.strip().upper() != b"[DONE]":
            return False
        if self._waiting_error is not None:
            self._fail_response()
        elif self.ledger.is_open:
            self._close_items(complete=True)
            self.ledger.end()
        return True

    def finish(self) -> list[AnyEvent]:
        if self._waiting_error is not None:
            self._fail_response()
        elif self.ledger.is_open:
            self.ledger.breaking = not self.ledger.finishing
            self._close_items(complete=False)
        return super().finish()

    def _convert_payload(self, name: str, value: Any, raw: Callable[[], bytes]) -> None:
        """Adds the type to payloads without one: frames typed by their event name, non-stream bodies, error bodies."""
        payload = lenient.as_object(value)
        if self.ledger.fix_surrogates and "delta" not in payload:
            # Lone surrogates are repaired only in deltas.
            text = complete_json(raw().decode("utf-8", "replace")) or "null"
            value, raw = parse_lenient_bounded(text.encode()), text.encode
            payload = lenient.as_object(value)
        typed = lenient.get_text(payload, "type") in wire.STRUCTS or not payload
        super()._convert_payload(name, value if typed else wire.add_type(name, payload), raw)

    # ── items ─────────────────────────────────────────────────────────────────────────────────────

    def _get_reader(self, slot: ItemSlot) -> ItemReader:
        if slot.announced and not slot.kind:
            return self._untyped
        if slot.kind == "message":
            return self._messages
        if slot.kind == "reasoning":
            return self._reasoning
        return self._calls if slot.kind in decode_calls.CALL_KINDS or not slot.kind else self._tools

    def _close_items(self, *, complete: bool) -> None:
        """Ends the items that are still open when the response ends."""
        for slot in self._items.slots:
            self._get_reader(slot).on_response_end(slot, complete=complete)

    def _on_item_added(self, payload: wire.ItemEvent) -> None:
        slot = self._items.match_added(payload.item or {}, payload.output_index)
        if slot is not None:
            self._get_reader(slot).on_added(slot)

    def _on_item_done(self, payload: wire.ItemEvent) -> None:
        slot = self._items.match_done(payload.item or {}, payload.output_index)
        if not slot.done:
            self._get_reader(slot).on_done(slot)
            slot.done = True

    # ── text and reasoning ────────────────────────────────────────────────────────────────────────

    def _find_item(self, location: wire.ItemLocation, kind: str) -> ItemSlot:
        """Returns the item that an event names, or a new one of this type. Any kind of call fits a call."""
        kinds = decode_calls.CALL_KINDS if kind in decode_calls.CALL_KINDS else (kind,)
        return self._items.find_or_create(location.item_id or "", location.output_index, kinds, kind)

    def _find_reasoning_part(self, payload: wire.ContentPartEvent) -> tuple[ItemSlot, str, int] | None:
        """Returns the item, kind and index of a reasoning part; None for other parts."""
        if type(payload) in _SUMMARY_EVENTS:
            return self._find_item(payload, "reasoning"), "summary", payload.summary_index or 0
        if lenient.get_text(payload.part or {}, "type") == "reasoning_text":
            return self._find_item(payload, "reasoning"), "full", payload.content_index or 0
        return None

    def _on_part_added(self, payload: wire.ContentPartEvent) -> None:
        """Only a reasoning part matters here: it ends the part before. Other parts open with their first text."""
        if reasoning_part := self._find_reasoning_part(payload):
            self._reasoning.close_complete_parts(*reasoning_part)

    def _on_part_done(self, payload: wire.ContentPartEvent) -> None:
        part = payload.part or {}
        if reasoning_part := self._find_reasoning_part(payload):
            slot, kind, index = reasoning_part
            self._reasoning.reconcile_part(slot, "part", kind, index, lenient.get_text(part, "text"))
        else:
            slot = self._find_item(payload, "message")
            self._messages.read_content_part(slot, "part", payload.content_index or 0, part)

    def _on_text_delta(self, payload: wire.TextDeltaEvent) -> None:
        logprobs = {"content": payload.logprobs} if payload.logprobs else None
        slot = self._find_item(payload, "message")
        self._messages.append_delta(slot, "text", payload.content_index or 0, payload.delta, logprobs)

    def _on_delta(self, payload: wire.DeltaEvent) -> None:
        """Reads a delta of a transcript, a refusal, reasoning, or the input of a call."""
        item_type, kind = wire.STREAMED[type(payload)]
        slot = self._find_item(payload, item_type)
        if kind == "input":
            self._calls.append_input(slot, payload.get_text())
            return
        index = payload.summary_index if kind == "summary" else payload.content_index
        self._reasoning.append_delta(slot, kind, index or 0, payload.get_text())

    def _on_done(self, payload: wire.DoneEvent) -> None:
        """Reads the complete value of what `_on_delta` reads."""
        item_type, kind = wire.STREAMED[type(payload)]
        slot = self._find_item(payload, item_type)
        if kind == "input":
            self._set_input(slot, payload, item_type)
            return
        index = payload.summary_index if kind == "summary" else payload.content_index
        text = payload.refusal if kind == "refusal" else payload.text
        self._reasoning.reconcile_part(slot, "text", kind, index or 0, text or "")

    def _set_input(self, slot: ItemSlot, payload: wire.DoneEvent, kind: str) -> None:
        if kind != "mcp_call":
            self._calls.set_name(slot, payload.name or "", payload.call_id or "")
        is_text = kind == "custom_tool_call"
        text = payload.input or "" if is_text else decode_calls.read_arguments(payload.arguments)
        self._calls.set_input(slot, text)

    def _on_annotation(self, payload: wire.AnnotationEvent) -> None:
        if payload.annotation:
            slot = self._find_item(payload, "message")
            self._messages.add_streamed_annotation(slot, payload.content_index or 0, payload.annotation)

    def _on_audio_delta(self, payload: wire.DeltaEvent) -> None:
        if self.ledger.find("audio") is None:
            self.ledger.open_file("audio", "audio", extra=wrap_extra(id=self._id))
        self.ledger.append_text("audio", payload.get_text())

    def _on_audio_done(self, _: wire.DoneEvent) -> None:
        self.ledger.close("audio")

    # ── built-in tools ────────────────────────────────────────────────────────────────────────────

    def _find_tool(self, location: wire.ItemLocation, kind: str) -> ItemSlot | None:
        """Returns the item of a built-in tool if it was announced. The finished item repeats earlier events."""
        return self._items.find(location.item_id or "", location.output_index, (kind,))

    def _on_code_delta(self, payload: wire.DeltaEvent) -> None:
        if slot := self._find_tool(payload, "code_interpreter_call"):
            self._tools.append_code(slot, payload.get_text())

    def _on_code_done(self, payload: wire.DoneEvent) -> None:
        slot = self._find_tool(payload, "code_interpreter_call")
        if slot is not None and payload.code:
            self._tools.end_code(slot, payload.code)

    def _on_partial_image(self, payload: wire.PartialImageEvent) -> None:
        slot = self._find_tool(payload, "image_generation_call")
        if slot is not None and not slot.done and payload.partial_image_b64:
            self._tools.add_partial_image(slot, payload.partial_image_index or 0, payload.partial_image_b64)

    def _on_diff_done(self, payload: wire.DoneEvent) -> None:
        if slot := self._find_tool(payload, "apply_patch_call"):
            slot.item = {**slot.item, "operation": {**lenient.get_object(slot.item, "operation"), "diff": payload.diff}}

    def _on_command_done(self, payload: wire.DoneEvent) -> None:
        if slot := self._find_tool(payload, "shell_call"):
            action = lenient.get_object(slot.item, "action")
            commands = [*lenient.get_list(action, "commands"), payload.command]
            slot.item = {**slot.item, "action": {**action, "commands": commands}}

    def _on_shell_output_done(self, payload: wire.DoneEvent) -> None:
        if slot := self._find_tool(payload, "shell_call_output"):
            slot.item = {**slot.item, "output": [*lenient.get_list(slot.item, "output"), *(payload.output or ())]}

    def _ignore(self, _: Any) -> None:
        """Ignores keep-alives and progress events."""

    table: ClassVar[Mapping[type, Callable[[Any, Any], None]]] = wire.index_by_struct(
        {
            _on_ended: "LifecycleEvent",
            _on_created: "response.created",
            _on_running: "response.queued response.in_progress",
            _on_error: "ErrorEvent",
            _on_item_added: "response.output_item.added",
            _on_item_done: "response.output_item.done",
            _on_part_added: "response.content_part.added response.reasoning_summary_part.added",
            _on_part_done: "response.content_part.done response.reasoning_summary_part.done",
            _on_text_delta: "TextDeltaEvent",
            _on_delta: "DeltaEvent",
            _on_done: "DoneEvent",
            _on_annotation: "AnnotationEvent",
            _on_partial_image: "PartialImageEvent",
            _on_code_delta: "response.code_interpreter_call_code.delta response.code_interpreter_call.code.delta",
            _on_code_done: "response.code_interpreter_call_code.done response.code_interpreter_call.code.done",
            _on_diff_done: "response.apply_patch_call_operation_diff.done",
            _on_command_done: "response.shell_call_command.done",
            _on_shell_output_done: "response.shell_call_output_content.done",
            _on_audio_delta: "response.audio.delta",
            _on_audio_done: "response.audio.done",
            _ignore: "IgnoredEvent response.audio.transcript.done",
        }
    )
