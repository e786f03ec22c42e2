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
from penstock._jsontext import complete_json, parse_lenient_bounded
from penstock._protocols.responses import decode_calls, wire
from penstock._protocols.responses.body import EchoedFields, read_fault, read_finish_reason, read_usage
from penstock._protocols.responses.decode_items import ItemSlot, ItemSlots
from penstock._protocols.responses.decode_text import MessageReader, ReasoningReader, TextParts
from penstock._protocols.responses.wire import NAME, wrap_extra

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from penstock._ledger import Part
    from penstock.events import AnyEvent

_END_STATUS = {
    f"response.{status}": status for status in ("completed", "incomplete", "failed", "cancelled", "canceled")
}


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
        self._texts = TextParts(self.ledger)
        self._messages = MessageReader(self.ledger, self._texts)
        self._reasoning = ReasoningReader(self.ledger, self._texts)
        self._calls = decode_calls.CallReader(self.ledger)
        self._tools = decode_calls.BuiltinToolReader(self.ledger)
        self._untyped = decode_calls.UntypedItemReader(self.ledger)
        self._waiting_error: wire.ErrorEvent | None = None
        self._echoed = EchoedFields()

    @property
    def pending(self) -> str:
        return "error" if self._waiting_error is not None else super().pending

    def is_steady(self, part: Part) -> bool:
        """Returns False for a provider's program: its code is escaped into JSON and differs from the frame's text."""
        return not part.is_call or part.by == "client"

    # ── the response ──────────────────────────────────────────────────────────────────────────────

    def _on_created(self, payload: wire.LifecycleEvent) -> None:
        """Starts a response. Inside an unfinished response only the items start again; a duplicate is ignored."""
        response = payload.response
        if self._waiting_error is not None:
            self._fail()
        if not self.ledger.is_open:
            self._start(response)
        elif (response.id or "") != self._id:
            self._close_items(complete=True)
            self.ledger.close_all()
            self._items.clear()
        self._update_usage(response.usage)

    def _start(self, response: wire.ResponseObject) -> None:
        self._items.clear()
        self._id = response.id or ""
        self._calls.set_request_tools(response.tools or [])
        created = lenient.to_integer(response.created_at)
        self.ledger.start(self._id, response.model or "", created, self._echoed.read_all(self.frame[1]))

    def _on_running(self, payload: wire.LifecycleEvent) -> None:
        """Queued or in progress: starts the response if `response.created` is missing."""
        if not self.ledger.is_open and (not self.ledger.turns or (payload.response.id or "") != self._id):
            self._start(payload.response)

    def _on_ended(self, payload: wire.LifecycleEvent) -> None:
        """Reads the final snapshot. Some providers send `response.completed` with another status inside."""
        response, status = payload.response, _END_STATUS.get(str(payload.__struct_config__.tag))
        if status and (status != "completed" or response.status not in ("incomplete", "failed")):
            response.status = status
        if not self.ledger.is_open:
            if self.ledger.turns and (response.id or "") == self._id:
                self.diagnostics.add("after-end", "a duplicate end of the response is ignored")
                return
            self._start(response)
        self._update_usage(response.usage)
        reason, raw = read_finish_reason(response, self.diagnostics)
        failed = self.ledger.breaking = reason is None or self._waiting_error is not None
        self._reconcile(response.output or [])
        if failed or reason is None:
            self._fail(response)
            return
        self._close_items(complete=reason == "stop")
        fields = {
            "incomplete_details": response.incomplete_details,
            "completed_at": response.completed_at,
            "copilot_usage": payload.copilot_usage,
        }
        known = {key: value for key, value in fields.items() if value is not None}
        extra = wrap_extra(**{**self._echoed.read_changed(self.frame[1]), **known})
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
        usage = read_usage(raw) if raw else None
        if usage is not None:
            self.ledger.usage(usage)

    # ── errors and the end of the input ───────────────────────────────────────────────────────────

    def _on_error(self, payload: wire.ErrorEvent) -> None:
        """Keeps the error until `response.failed`, which may add details, or until the input ends."""
        if self.ledger.ended:
            self.diagnostics.add("after-end", "an error after the end of the response is ignored")
        elif self._waiting_error is None:
            self._waiting_error = payload

    def _fail(self, response: wire.ResponseObject | None = None) -> None:
        error, self._waiting_error = self._waiting_error, None
        self.ledger.breaking = self.ledger.is_open
        self._close_items(complete=False)
        self.ledger.fault(**read_fault(error, response))

    def named(self, name: str, data: bytes) -> bool:
        if data.strip().upper() != b"[DONE]":
            return False
        if self._waiting_error is not None:
            self._fail()
        elif self.ledger.is_open:
            self._close_items(complete=True)
            self.ledger.end()
        return True

    def finish(self) -> list[AnyEvent]:
        if self._waiting_error is not None:
            self._fail()
        elif self.ledger.is_open:
            self.ledger.breaking = not self.ledger.finishing
            self._close_items(complete=False)
        return super().finish()

    def _fit(self, name: str, value: Any, raw: Callable[[], bytes]) -> None:
        """Adds the type to payloads without one: frames typed by their event name, non-stream bodies, error bodies."""
        payload = lenient.as_object(value)
        if self.ledger.fix_surrogates and "delta" not in payload:
            text = (
                complete_json(raw().decode("utf-8", "replace")) or "null"
            )  # lone surrogates are mended only in deltas
            value, raw = parse_lenient_bounded(text.encode()), text.encode
            payload = lenient.as_object(value)
        typed = lenient.get_text(payload, "type") in wire.STRUCTS or not payload
        super()._fit(name, value if typed else wire.add_type(name, payload), raw)

    # ── items ─────────────────────────────────────────────────────────────────────────────────────

    def _get_reader(self, slot: ItemSlot) -> Any:
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

    def _on_part_added(self, payload: wire.ContentPartEvent) -> None:
        """Only a reasoning part matters here: it ends the part before. Other parts open with their first text."""
        if lenient.get_text(payload.part or {}, "type") == "reasoning_text":
            self._reasoning.begin_part(self._reasoning_slot(payload), "full", payload.content_index or 0)

    def _on_part_done(self, payload: wire.ContentPartEvent) -> None:
        part, index = payload.part or {}, payload.content_index or 0
        if lenient.get_text(part, "type") == "reasoning_text":
            text = lenient.get_text(part, "text")
            self._reasoning.reconcile_part(self._reasoning_slot(payload), "part", "full", index, text)
        else:
            self._messages.read_content_part(self._message_slot(payload), "part", index, part)

    # ── text ──────────────────────────────────────────────────────────────────────────────────────

    def _message_slot(self, location: wire.ItemLocation) -> ItemSlot:
        return self._items.find_or_create(location.item_id or "", location.output_index, ("message",), "message")

    def _on_text_delta(self, payload: wire.TextDeltaEvent) -> None:
        logprobs = {"content": payload.logprobs} if payload.logprobs else None
        slot = self._message_slot(payload)
        self._texts.append_delta(slot, "text", payload.content_index or 0, payload.delta, logprobs)

    def _on_transcript_delta(self, payload: wire.DeltaEvent) -> None:
        slot = self._message_slot(payload)
        self._texts.append_delta(slot, "text", payload.content_index or 0, payload.get_text())

    def _on_text_done(self, payload: wire.DoneEvent) -> None:
        slot = self._message_slot(payload)
        self._messages.reconcile_text(slot, "text", payload.content_index or 0, payload.text or "")

    def _on_refusal_delta(self, payload: wire.DeltaEvent) -> None:
        slot = self._message_slot(payload)
        self._texts.append_delta(slot, "refusal", payload.content_index or 0, payload.get_text())

    def _on_refusal_done(self, payload: wire.DoneEvent) -> None:
        slot = self._message_slot(payload)
        self._messages.reconcile_text(slot, "refusal", payload.content_index or 0, payload.refusal or "")

    def _on_annotation(self, payload: wire.AnnotationEvent) -> None:
        if payload.annotation:
            slot = self._message_slot(payload)
            self._messages.add_streamed_annotation(slot, payload.content_index or 0, payload.annotation)

    def _on_audio_delta(self, payload: wire.DeltaEvent) -> None:
        if self.ledger.find("audio") is None:
            self.ledger.open_file("audio", "audio", extra=wrap_extra(id=self._id))
        self.ledger.append_text("audio", payload.get_text())

    def _on_audio_done(self, _: wire.DoneEvent) -> None:
        self.ledger.close("audio")

    # ── reasoning ─────────────────────────────────────────────────────────────────────────────────

    def _reasoning_slot(self, location: wire.ItemLocation) -> ItemSlot:
        return self._items.find_or_create(location.item_id or "", location.output_index, ("reasoning",), "reasoning")

    def _on_summary_delta(self, payload: wire.DeltaEvent) -> None:
        slot = self._reasoning_slot(payload)
        self._reasoning.append_delta(slot, "summary", payload.summary_index or 0, payload.get_text())

    def _on_summary_done(self, payload: wire.DoneEvent) -> None:
        slot, index = self._reasoning_slot(payload), payload.summary_index or 0
        self._reasoning.reconcile_part(slot, "text", "summary", index, payload.text or "")

    def _on_summary_part_added(self, payload: wire.ContentPartEvent) -> None:
        self._reasoning.begin_part(self._reasoning_slot(payload), "summary", payload.summary_index or 0)

    def _on_summary_part_done(self, payload: wire.ContentPartEvent) -> None:
        slot, index = self._reasoning_slot(payload), payload.summary_index or 0
        self._reasoning.reconcile_part(slot, "part", "summary", index, lenient.get_text(payload.part or {}, "text"))

    def _on_reasoning_delta(self, payload: wire.DeltaEvent) -> None:
        slot = self._reasoning_slot(payload)
        self._reasoning.append_delta(slot, "full", payload.content_index or 0, payload.get_text())

    def _on_reasoning_done(self, payload: wire.DoneEvent) -> None:
        slot, index = self._reasoning_slot(payload), payload.content_index or 0
        self._reasoning.reconcile_part(slot, "text", "full", index, payload.text or "")

    # ── calls and built-in tools ──────────────────────────────────────────────────────────────────

    def _call_slot(self, location: wire.ItemLocation, kind: str) -> ItemSlot:
        return self._items.find_or_create(location.item_id or "", location.output_index, decode_calls.CALL_KINDS, kind)

    def _on_arguments_delta(self, payload: wire.DeltaEvent) -> None:
        self._calls.append_input(self._call_slot(payload, "function_call"), payload.get_text())

    def _on_arguments_done(self, payload: wire.DoneEvent) -> None:
        self._set_input(payload, "function_call", decode_calls.read_arguments(payload.arguments))

    def _on_input_delta(self, payload: wire.DeltaEvent) -> None:
        self._calls.append_input(self._call_slot(payload, "custom_tool_call"), payload.get_text())

    def _on_input_done(self, payload: wire.DoneEvent) -> None:
        self._set_input(payload, "custom_tool_call", payload.input or "")

    def _on_mcp_delta(self, payload: wire.DeltaEvent) -> None:
        self._calls.append_input(self._call_slot(payload, "mcp_call"), payload.get_text())

    def _on_mcp_done(self, payload: wire.DoneEvent) -> None:
        self._calls.set_input(self._call_slot(payload, "mcp_call"), decode_calls.read_arguments(payload.arguments))

    def _set_input(self, payload: wire.DoneEvent, kind: str, text: str) -> None:
        slot = self._call_slot(payload, kind)
        self._calls.set_name(slot, payload.name or "", payload.call_id or "")
        self._calls.set_input(slot, text)

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

    def _on_command_done(self, payload: wire.ShellCommandEvent) -> None:
        if slot := self._find_tool(payload, "shell_call"):
            action = lenient.get_object(slot.item, "action")
            commands = [*lenient.get_list(action, "commands"), payload.command]
            slot.item = {**slot.item, "action": {**action, "commands": commands}}

    def _on_shell_output_done(self, payload: wire.ShellOutputEvent) -> None:
        if slot := self._find_tool(payload, "shell_call_output"):
            slot.item = {**slot.item, "output": [*lenient.get_list(slot.item, "output"), *(payload.output or ())]}

    def _ignore(self, _: Any) -> None:
        """Ignores keep-alives and progress events."""

    table: ClassVar[Mapping[type, Callable[[Any, Any], None]]] = wire.index_by_struct(
        {
            "response": _on_ended,
            "response.created": _on_created,
            "response.queued": _on_running,
            "response.in_progress": _on_running,
            **dict.fromkeys(_END_STATUS, _on_ended),
            "error": _on_error,
            "response.output_item.added": _on_item_added,
            "response.output_item.done": _on_item_done,
            "response.content_part.added": _on_part_added,
            "response.content_part.done": _on_part_done,
            "response.output_text.delta": _on_text_delta,
            "response.output_text.done": _on_text_done,
            **dict.fromkeys(
                ("response.output_text.annotation.added", "response.output_text_annotation.added"), _on_annotation
            ),
            "response.refusal.delta": _on_refusal_delta,
            "response.refusal.done": _on_refusal_done,
            **dict.fromkeys(("response.reasoning.delta", "response.reasoning_text.delta"), _on_reasoning_delta),
            **dict.fromkeys(("response.reasoning.done", "response.reasoning_text.done"), _on_reasoning_done),
            **dict.fromkeys(
                ("response.reasoning_summary.delta", "response.reasoning_summary_text.delta"), _on_summary_delta
            ),
            **dict.fromkeys(
                ("response.reasoning_summary.done", "response.reasoning_summary_text.done"), _on_summary_done
            ),
            "response.reasoning_summary_part.added": _on_summary_part_added,
            "response.reasoning_summary_part.done": _on_summary_part_done,
            "response.function_call_arguments.delta": _on_arguments_delta,
            "response.function_call_arguments.done": _on_arguments_done,
            "response.custom_tool_call_input.delta": _on_input_delta,
            "response.custom_tool_call_input.done": _on_input_done,
            **dict.fromkeys(("response.mcp_call_arguments.delta", "response.mcp_call.arguments.delta"), _on_mcp_delta),
            **dict.fromkeys(("response.mcp_call_arguments.done", "response.mcp_call.arguments.done"), _on_mcp_done),
            "response.code_interpreter_call_code.delta": _on_code_delta,
            "response.code_interpreter_call_code.done": _on_code_done,
            "response.code_interpreter_call.code.delta": _on_code_delta,
            "response.code_interpreter_call.code.done": _on_code_done,
            "response.image_generation_call.partial_image": _on_partial_image,
            "response.apply_patch_call_operation_diff.done": _on_diff_done,
            "response.shell_call_command.done": _on_command_done,
            "response.shell_call_output_content.done": _on_shell_output_done,
            "response.audio.delta": _on_audio_delta,
            "response.audio.done": _on_audio_done,
            "response.audio.transcript.delta": _on_transcript_delta,
            "response.audio.transcript.done": _ignore,
            **dict.fromkeys(wire.EVENT_TYPES[wire.IgnoredEvent], _ignore),
        }
    )
