"""OpenAI Responses and Open Responses → events: the life of a response, and the table of all event types.

What happens inside an item is read in `pieces`; here the final snapshot is reconciled with what was streamed. An
`error` is merged with the `response.failed` that usually follows. That one is optional: `pending` tells the reader of
the connection to wait for it only a moment.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import msgspec

from penstock import lenient_fields as lenient
from penstock.codec import Decoder
from penstock.delta_templates import number_remover, string_remover
from penstock.jsontext import loose_bounded, usable
from penstock.protocols.responses import wire
from penstock.protocols.responses.body import Echo, fault_of, finish_of, read_usage
from penstock.protocols.responses.decode_calls import KINDS, Calls, Tools, Untyped, read_arguments
from penstock.protocols.responses.decode_items import Items
from penstock.protocols.responses.decode_text import Messages, Speech, Thoughts
from penstock.protocols.responses.wire import NAME, own

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from penstock.events import AnyEvent
    from penstock.ledger import Part
    from penstock.protocols.responses.decode_items import Slot

# Numbers of frames, which nobody reads here, and padding of OpenAI's.
_IGNORED = (number_remover(b'"sequence_number'), string_remover(b"obfuscation"))


class Pieces(Decoder):
    """State: the response's id, its items and their readers, and the part that the last text belonged to."""

    def __init__(self) -> None:
        super().__init__()
        self._id = ""
        self._items = Items()
        self._speech = Speech(self.ledger)
        self._messages = Messages(self.ledger, self._speech)
        self._thoughts = Thoughts(self.ledger, self._speech)
        self._calls = Calls(self.ledger)
        self._tools = Tools(self.ledger)
        self._untyped = Untyped(self.ledger)

    def is_steady(self, part: Part) -> bool:
        """A program that the provider runs is written into JSON piece by piece: its text is not the frame's."""
        return not part.is_call or part.by == "client"

    def _reader(self, slot: Slot) -> Any:
        if slot.told and not slot.kind:
            return self._untyped
        if slot.kind == "message":
            return self._messages
        if slot.kind == "reasoning":
            return self._thoughts
        return self._calls if slot.kind in KINDS or not slot.kind else self._tools

    def _close_items(self, *, whole: bool) -> None:
        """The response is over: judge what was left open."""
        for slot in self._items.slots:
            self._reader(slot).close(slot, whole=whole)

    # ── items ─────────────────────────────────────────────────────────────────────────────────────

    def _item_added(self, payload: wire.ItemEvent) -> None:
        slot = self._items.announced(payload.item or {}, payload.output_index)
        if slot is not None:
            self._reader(slot).added(slot)

    def _item_done(self, payload: wire.ItemEvent) -> None:
        slot = self._items.finished(payload.item or {}, payload.output_index)
        if not slot.done:
            self._reader(slot).done(slot)
            slot.done = True

    def _part_added(self, payload: wire.PartEvent) -> None:
        """A part is opened by its first word; of reasoning, it ends the part before."""
        if lenient.get_text(payload.part or {}, "type") == "reasoning_text":
            self._thoughts.begin(self._thought(payload), "full", payload.content_index or 0)

    def _part_done(self, payload: wire.PartEvent) -> None:
        part, place = payload.part or {}, payload.content_index or 0
        if lenient.get_text(part, "type") == "reasoning_text":
            self._thoughts.settle(self._thought(payload), "part", "full", place, lenient.get_text(part, "text"))
        else:
            self._messages.content(self._message(payload), "part", place, part)

    # ── text ──────────────────────────────────────────────────────────────────────────────────────

    def _message(self, place: wire.Place) -> Slot:
        return self._items.place(place.item_id or "", place.output_index, ("message",), "message")

    def _text_delta(self, payload: wire.TextPiece) -> None:
        logprobs = {"content": payload.logprobs} if payload.logprobs else None
        self._speech.say(self._message(payload), "text", payload.content_index or 0, payload.delta, logprobs)

    def _transcript_delta(self, payload: wire.Piece) -> None:
        self._speech.say(self._message(payload), "text", payload.content_index or 0, _words(payload))

    def _text_done(self, payload: wire.Whole) -> None:
        self._messages.settle(self._message(payload), "text", payload.content_index or 0, payload.text or "")

    def _refusal_delta(self, payload: wire.Piece) -> None:
        self._speech.say(self._message(payload), "refusal", payload.content_index or 0, _words(payload))

    def _refusal_done(self, payload: wire.Whole) -> None:
        self._messages.settle(self._message(payload), "refusal", payload.content_index or 0, payload.refusal or "")

    def _note(self, payload: wire.Note) -> None:
        if payload.annotation:
            self._messages.note(self._message(payload), payload.content_index or 0, payload.annotation)

    def _audio_delta(self, payload: wire.Piece) -> None:
        key = "audio"
        if self.ledger.find(key) is None:
            self.ledger.open_file(key, "audio", extra=own(id=self._id))
        self.ledger.append_text(key, _words(payload))

    def _audio_done(self, _: wire.Whole) -> None:
        self.ledger.close("audio")

    # ── reasoning ─────────────────────────────────────────────────────────────────────────────────

    def _thought(self, place: wire.Place) -> Slot:
        return self._items.place(place.item_id or "", place.output_index, ("reasoning",), "reasoning")

    def _summary_delta(self, payload: wire.Piece) -> None:
        self._thoughts.delta(self._thought(payload), "summary", payload.summary_index or 0, _words(payload))

    def _summary_done(self, payload: wire.Whole) -> None:
        self._thoughts.settle(self._thought(payload), "text", "summary", payload.summary_index or 0, payload.text or "")

    def _summary_part_added(self, payload: wire.PartEvent) -> None:
        self._thoughts.begin(self._thought(payload), "summary", payload.summary_index or 0)

    def _summary_part_done(self, payload: wire.PartEvent) -> None:
        text = lenient.get_text(payload.part or {}, "text")
        self._thoughts.settle(self._thought(payload), "part", "summary", payload.summary_index or 0, text)

    def _reasoning_delta(self, payload: wire.Piece) -> None:
        self._thoughts.delta(self._thought(payload), "full", payload.content_index or 0, _words(payload))

    def _reasoning_done(self, payload: wire.Whole) -> None:
        self._thoughts.settle(self._thought(payload), "text", "full", payload.content_index or 0, payload.text or "")

    # ── calls and tools ───────────────────────────────────────────────────────────────────────────

    def _call(self, place: wire.Place, kind: str) -> Slot:
        return self._items.place(place.item_id or "", place.output_index, KINDS, kind)

    def _arguments_delta(self, payload: wire.Piece) -> None:
        self._calls.piece(self._call(payload, "function_call"), _words(payload))

    def _arguments_done(self, payload: wire.Whole) -> None:
        self._whole_input(payload, "function_call", read_arguments(payload.arguments))

    def _input_delta(self, payload: wire.Piece) -> None:
        self._calls.piece(self._call(payload, "custom_tool_call"), _words(payload))

    def _input_done(self, payload: wire.Whole) -> None:
        self._whole_input(payload, "custom_tool_call", payload.input or "")

    def _mcp_delta(self, payload: wire.Piece) -> None:
        self._calls.piece(self._call(payload, "mcp_call"), _words(payload))

    def _mcp_done(self, payload: wire.Whole) -> None:
        self._calls.whole(self._call(payload, "mcp_call"), read_arguments(payload.arguments))

    def _whole_input(self, payload: wire.Whole, kind: str, text: str) -> None:
        slot = self._call(payload, kind)
        self._calls.name(slot, payload.name or "", payload.call_id or "")
        self._calls.whole(slot, text)

    def _tool(self, place: wire.Place, kind: str) -> Slot | None:
        """A built-in's item, if it was announced: what is told before that is told again when it is done."""
        return self._items.find(place.item_id or "", place.output_index, (kind,))

    def _code_delta(self, payload: wire.Piece) -> None:
        if slot := self._tool(payload, "code_interpreter_call"):
            self._tools.code(slot, _words(payload))

    def _code_done(self, payload: wire.Whole) -> None:
        slot = self._tool(payload, "code_interpreter_call")
        if slot is not None and payload.code:
            self._tools.program(slot, payload.code)

    def _picture(self, payload: wire.Image) -> None:
        slot = self._tool(payload, "image_generation_call")
        if slot is not None and not slot.done and payload.partial_image_b64:
            self._tools.preview(slot, payload.partial_image_index or 0, payload.partial_image_b64)

    def _diff_done(self, payload: wire.Whole) -> None:
        if slot := self._tool(payload, "apply_patch_call"):
            slot.item = {
                **slot.item,
                "operation": {**lenient.get_object(slot.item, "operation"), "diff": payload.diff},
            }

    def _command_done(self, payload: wire.Command) -> None:
        if slot := self._tool(payload, "shell_call"):
            action = lenient.get_object(slot.item, "action")
            commands = [*lenient.get_list(action, "commands"), payload.command]
            slot.item = {**slot.item, "action": {**action, "commands": commands}}

    def _output_done(self, payload: wire.CommandOutput) -> None:
        if slot := self._tool(payload, "shell_call_output"):
            slot.item = {
                **slot.item,
                "output": [*lenient.get_list(slot.item, "output"), *(payload.output or ())],
            }

    def _nothing(self, _: Any) -> None:
        """Signs of life and of progress."""

    pieces: ClassVar[Mapping[str, Callable[[Any, Any], None]]] = {
        "response.output_item.added": _item_added,
        "response.output_item.done": _item_done,
        "response.content_part.added": _part_added,
        "response.content_part.done": _part_done,
        "response.output_text.delta": _text_delta,
        "response.output_text.done": _text_done,
        "response.output_text.annotation.added": _note,
        "response.output_text_annotation.added": _note,
        "response.refusal.delta": _refusal_delta,
        "response.refusal.done": _refusal_done,
        "response.reasoning.delta": _reasoning_delta,
        "response.reasoning.done": _reasoning_done,
        "response.reasoning_text.delta": _reasoning_delta,
        "response.reasoning_text.done": _reasoning_done,
        "response.reasoning_summary.delta": _summary_delta,
        "response.reasoning_summary.done": _summary_done,
        "response.reasoning_summary_text.delta": _summary_delta,
        "response.reasoning_summary_text.done": _summary_done,
        "response.reasoning_summary_part.added": _summary_part_added,
        "response.reasoning_summary_part.done": _summary_part_done,
        "response.function_call_arguments.delta": _arguments_delta,
        "response.function_call_arguments.done": _arguments_done,
        "response.custom_tool_call_input.delta": _input_delta,
        "response.custom_tool_call_input.done": _input_done,
        "response.mcp_call_arguments.delta": _mcp_delta,
        "response.mcp_call_arguments.done": _mcp_done,
        "response.mcp_call.arguments.delta": _mcp_delta,
        "response.mcp_call.arguments.done": _mcp_done,
        "response.code_interpreter_call_code.delta": _code_delta,
        "response.code_interpreter_call_code.done": _code_done,
        "response.code_interpreter_call.code.delta": _code_delta,
        "response.code_interpreter_call.code.done": _code_done,
        "response.image_generation_call.partial_image": _picture,
        "response.apply_patch_call_operation_diff.done": _diff_done,
        "response.shell_call_command.done": _command_done,
        "response.shell_call_output_content.done": _output_done,
        "response.audio.delta": _audio_delta,
        "response.audio.done": _audio_done,
        "response.audio.transcript.delta": _transcript_delta,
        "response.audio.transcript.done": _nothing,
        **dict.fromkeys(wire.SPELLINGS[wire.Nothing], _nothing),
    }


def _words(payload: wire.Piece) -> str:
    """The text of a delta; some drafts wrapped it."""
    delta = payload.delta
    return delta if isinstance(delta, str) else lenient.get_text(delta or {}, "text", "delta")


class ResponsesDecoder(Pieces):
    """State beside that of the pieces: an error that waits, and what the response said beside its output."""

    protocol = NAME
    ignored = _IGNORED
    shape = wire.Payload
    read = staticmethod(msgspec.json.Decoder(wire.Payload).decode)

    def __init__(self) -> None:
        super().__init__()
        self._alarm: wire.Error | None = None
        self._echo = Echo()

    @property
    def pending(self) -> str:
        return "error" if self._alarm is not None else super().pending

    # ── the response ──────────────────────────────────────────────────────────────────────────────

    def _created(self, payload: wire.Lifecycle) -> None:
        """A response begins. Inside an unfinished one only its items begin anew; sent twice, it is one."""
        response = payload.response
        if self._alarm is not None:
            self._fail()
        if not self.ledger.is_open:
            self._start(response)
        elif (response.id or "") != self._id:
            self._close_items(whole=True)
            self.ledger.close_all()
            self._items.clear()
        self._count(response.usage)

    def _start(self, response: wire.Response) -> None:
        self._items.clear()
        self._id = response.id or ""
        self._calls.tools(response.tools or [])
        created = lenient.to_integer(response.created_at)
        self.ledger.start(self._id, response.model or "", created, self._echo.first(self.frame[1]))

    def _running(self, payload: wire.Lifecycle) -> None:
        """Queued or in progress: the beginning, where that is missing."""
        if not self.ledger.is_open and (not self.ledger.turns or (payload.response.id or "") != self._id):
            self._start(payload.response)

    def _completed(self, payload: wire.Lifecycle) -> None:
        """Some say `completed` and mean the status inside."""
        if payload.response.status not in ("incomplete", "failed"):
            payload.response.status = "completed"
        self._ended(payload)

    def _incomplete(self, payload: wire.Lifecycle) -> None:
        payload.response.status = "incomplete"
        self._ended(payload)

    def _failed(self, payload: wire.Lifecycle) -> None:
        payload.response.status = "failed"
        self._ended(payload)

    def _cancelled(self, payload: wire.Lifecycle) -> None:
        payload.response.status = "cancelled"
        self._ended(payload)

    def _ended(self, payload: wire.Lifecycle) -> None:
        response = payload.response
        if not self.ledger.is_open:
            if self.ledger.turns and (response.id or "") == self._id:
                self.diagnostics.add("after-end", "the end of a response sent twice is one end")
                return
            self._start(response)
        self._count(response.usage)
        reason, raw = finish_of(response, self.diagnostics)
        failed = self.ledger.breaking = reason is None or self._alarm is not None
        self._reconcile(response.output or [])
        if failed or reason is None:
            self._fail(response)
            return
        self._close_items(whole=reason == "stop")
        said = {
            "incomplete_details": response.incomplete_details, "completed_at": response.completed_at,
            "copilot_usage": payload.copilot_usage,
        }  # fmt: skip
        known = {key: value for key, value in said.items() if value is not None}
        extra = own(**{**self._echo.more(self.frame[1]), **known})
        self.ledger.finish(reason, raw, extra=extra)
        self.ledger.end()

    def _reconcile(self, output: list[dict[str, Any]]) -> None:
        """What the snapshot has and the stream had not is delivered now."""
        for slot in self._items.matched(output):
            reader = self._reader(slot)
            if slot.done:
                reader.last(slot)
            else:
                reader.done(slot)
                slot.done = True

    def _count(self, usage: dict[str, Any] | None) -> None:
        counted = read_usage(usage) if usage else None
        if counted is not None:
            self.ledger.usage(counted)

    # ── faults and ends ───────────────────────────────────────────────────────────────────────────

    def _error(self, payload: wire.Error) -> None:
        """Kept until `response.failed` follows, which may say more, or until the input ends."""
        if self.ledger.ended:
            self.diagnostics.add("after-end", "an error after the end of the response is ignored")
        elif self._alarm is None:
            self._alarm = payload

    def _fail(self, response: wire.Response | None = None) -> None:
        alarm, self._alarm = self._alarm, None
        self.ledger.breaking = self.ledger.is_open
        self._close_items(whole=False)
        self.ledger.fault(**fault_of(alarm, response))

    def named(self, name: str, data: bytes) -> bool:
        if data.strip().upper() != b"[DONE]":
            return False
        if self._alarm is not None:
            self._fail()
        elif self.ledger.is_open:
            self._close_items(whole=True)
            self.ledger.end()
        return True

    def finish(self) -> list[AnyEvent]:
        if self._alarm is not None:
            self._fail()
        elif self.ledger.is_open:
            self.ledger.breaking = not self.ledger.finishing
            self._close_items(whole=False)
        return super().finish()

    def _fit(self, name: str, value: Any, raw: Callable[[], bytes]) -> None:
        """Frames that leave their type to the event's name, whole bodies and error bodies have no type of ours."""
        payload = lenient.as_object(value)
        if self.ledger.fix_surrogates and "delta" not in payload:
            text = usable(raw().decode("utf-8", "replace")) or "null"  # lone surrogates are mended in deltas alone
            value, raw = loose_bounded(text.encode()), text.encode
            payload = lenient.as_object(value)
        typed = lenient.get_text(payload, "type") in wire.SHAPES or not payload
        super()._fit(name, value if typed else _typed(name, payload), raw)

    table: ClassVar[Mapping[type, Callable[[Any, Any], None]]] = wire.dispatch({
        "response": _ended,
        "response.created": _created,
        "response.queued": _running,
        "response.in_progress": _running,
        "response.completed": _completed,
        "response.incomplete": _incomplete,
        "response.failed": _failed,
        "response.cancelled": _cancelled,
        "response.canceled": _cancelled,
        "error": _error,
        **Pieces.pieces,
    })  # fmt: skip


def _typed(name: str, payload: dict[str, Any]) -> dict[str, Any]:
    """The payload with the type it should have had."""
    if name in wire.SHAPES:
        return {**payload, "type": name}
    if payload.get("object") == "response":
        return {"type": "response", "response": payload}
    if payload.get("error") and "choices" not in payload:
        return {**payload, "type": "error"}
    if name == "error" or ("detail" in payload and "type" not in payload):
        return {"type": "error", "message": lenient.get_text(payload, "message", "detail")}
    return payload
