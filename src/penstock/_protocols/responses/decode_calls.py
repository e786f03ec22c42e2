"""Decodes calls: functions, custom tools (free text), MCP tools, and built-in tools.

A call is delivered as soon as its complete input is usable: at `arguments.done`, at the end of the item, or in the
final snapshot. Truncated free text looks complete, so a custom call waits for the end of its item and its status.

The kind of a built-in tool, or its item (a container, `execution`), decides who runs it. A call that the client runs is
delivered when its item is done, with the item in `extra`. A call that the provider runs is opened when it is announced,
and gets its result when it is done.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock import _lenient_fields as lenient
from penstock import events as ev
from penstock._lenient_json import as_json, complete_json
from penstock._protocols.responses import wire
from penstock._protocols.responses.decode_items import ItemReader, ItemSlot
from penstock._protocols.responses.wire import NAME, wrap_extra

if TYPE_CHECKING:
    from penstock._ledger import Ledger, LedgerPart
    from penstock.events import By, CallForm, Extra

CALL_KINDS = ("function_call", "custom_tool_call", "mcp_call")
_KNOWN_FIELDS = frozenset({"type", "call_id", "name", "arguments", "input", "status"})
_NULL = "null"
_XAI_SEARCH = "x_search"  # xAI sends the steps of this tool as custom calls, but runs them itself
_CODE_START = '{"code":"'  # start of a code interpreter's input, so that its code can be streamed


def read_arguments(value: Any) -> str:
    """Returns a function's arguments as text. A tool without parameters may be called with `null`."""
    return "" if value == _NULL else wire.to_text(value)


def _read_input(slot: ItemSlot) -> str:
    if slot.kind != "custom_tool_call":
        return read_arguments(slot.item.get("arguments"))
    return wire.to_text(slot.item.get("input"))


def _append_missing_input(ledger: Ledger, slot: ItemSlot, text: str) -> None:
    """Appends the rest of an input whose start was streamed."""
    part = ledger.find(slot.number)
    if part is not None and part.streamed_text and text.startswith(part.streamed_text):
        ledger.append_call_input(slot.number, text[len(part.streamed_text) :])


def _make_call_id(ledger: Ledger, slot: ItemSlot) -> str:
    return f"call_{ledger.id_prefix}_{slot.number}"


class StreamedCallReader(ItemReader):
    """Reads calls whose input is streamed. State: the request's tools, as far as the response echoes them."""

    def __init__(self, ledger: Ledger) -> None:
        super().__init__(ledger)
        self._has_xai_search = False
        self._custom_tools: set[str] = set()

    def set_request_tools(self, tools: list[wire.Item]) -> None:
        self._has_xai_search = any(lenient.get_text(tool, "type") == _XAI_SEARCH for tool in tools)
        self._custom_tools = {
            lenient.get_text(tool, "name") for tool in tools if lenient.get_text(tool, "type") == "custom"
        }

    # ── deltas ────────────────────────────────────────────────────────────────────────────────────

    def append_input(self, slot: ItemSlot, text: str) -> None:
        """Appends a fragment of input. Fragments that arrive before their call wait for it."""
        part = self._ledger.find(slot.number)
        if text == _NULL and slot.kind != "custom_tool_call" and not (slot.held_input or (part and part.pieces)):
            return
        if part is not None:
            self._ledger.append_call_input(slot.number, text)
        elif not slot.call:
            slot.held_input.append(text)

    def set_name(self, slot: ItemSlot, name: str, call_id: str) -> None:
        """Names the tool and the call of an item that was never announced."""
        if name and not slot.announced and not slot.call:
            known = {"type": slot.kind, "id": slot.id, "call_id": call_id, "name": name}
            slot.item = {key: value for key, value in known.items() if value}
            if call_id:
                self._open_call(slot)

    def set_input(self, slot: ItemSlot, text: str) -> None:
        """Sets the complete input before the item is done."""
        slot.final_input = text
        self._end_if_usable(slot)

    # ── items ─────────────────────────────────────────────────────────────────────────────────────

    def on_added(self, slot: ItemSlot) -> None:
        if lenient.get_text(slot.item, "name"):
            self._open_call(slot)
            self._end_if_usable(slot)

    def on_done(self, slot: ItemSlot) -> None:
        self._update_final_input(slot)
        self._open_call(slot)
        part = self._ledger.find(slot.number)
        if part is not None:
            part.void = part.void or slot.item.get("status") == "incomplete"
            if part.by == "provider" or part.form == "text" or part.void:
                self._end_call(slot, part)
            else:
                self._end_if_usable(slot)
        else:
            self._report_later_input(slot)
        if slot.kind == "mcp_call":
            self._add_mcp_result(slot)

    def on_snapshot(self, slot: ItemSlot) -> None:
        """Reads the final version of a finished item. It may have input that no event had before."""
        self._update_final_input(slot)
        self._end_if_usable(slot)

    def on_response_end(self, slot: ItemSlot, *, complete: bool) -> None:
        """Ends a call whose end never arrived."""
        if not slot.announced and not lenient.get_text(slot.item, "name"):
            if slot.held_input or slot.final_input is not None:
                self._ledger.diagnostics.add("call-unknown", f"input for item {slot.id!r}, which was never announced")
            return
        self._open_call(slot)
        part = self._ledger.find(slot.number)
        if part is not None:
            self._end_call(slot, part, whole=complete and (part.form == "json" or slot.final_input is not None))

    # ── the ledger ────────────────────────────────────────────────────────────────────────────────

    def _open_call(self, slot: ItemSlot) -> None:
        if slot.call:
            return
        item = slot.item
        slot.call = lenient.get_text(item, "call_id") or slot.id or _make_call_id(self._ledger, slot)
        by = self._get_runner(slot)
        form: CallForm = "text" if slot.kind == "custom_tool_call" and by == "client" else "json"
        given = "" if slot.held_input or slot.final_input else _read_input(slot)
        extra = wrap_extra(item=item) if by == "provider" else self._build_extra(slot)
        name = lenient.get_text(item, "name")
        self._ledger.open_call(slot.number, slot.call, name, by=by, form=form, item=slot.id, given=given, extra=extra)
        for text in slot.held_input:
            self._ledger.append_call_input(slot.number, text)

    def _get_runner(self, slot: ItemSlot) -> By:
        if slot.kind == "mcp_call":
            return "provider"
        undeclared = self._has_xai_search and lenient.get_text(slot.item, "name") not in self._custom_tools
        is_search = slot.kind == "custom_tool_call" and (slot.call.startswith("xs_") or undeclared)
        return "provider" if is_search else "client"

    def _build_extra(self, slot: ItemSlot) -> Extra | None:
        return wrap_extra(**{key: value for key, value in slot.item.items() if key not in _KNOWN_FIELDS})

    def _update_final_input(self, slot: ItemSlot) -> None:
        text = _read_input(slot)
        if text.strip() or slot.final_input is None:
            slot.final_input = text

    def _end_if_usable(self, slot: ItemSlot) -> None:
        """Ends a call whose complete input is usable. Otherwise the call waits for later input."""
        part = self._ledger.find(slot.number)
        if part is None:
            self._report_later_input(slot)
        if part is None or slot.final_input is None or slot.kind == "custom_tool_call":
            return
        text = slot.final_input if slot.final_input.strip() else part.streamed_text
        if text.strip() and complete_json(text) is not None:
            self._end_call(slot, part)

    def _report_later_input(self, slot: ItemSlot) -> None:
        """Reports input that differs from the input of the delivered call."""
        if slot.call and slot.final_input is not None:
            self._ledger.note_later_input(slot.call, slot.final_input)

    def _end_call(self, slot: ItemSlot, part: LedgerPart, *, whole: bool = True) -> None:
        if part.by == "client":
            extra = self._build_extra(slot)
        elif slot.kind == "mcp_call":
            extra = wrap_extra(id=slot.id, type=slot.kind)
        else:
            extra = wrap_extra(item=slot.item)
        _append_missing_input(self._ledger, slot, slot.final_input or "")
        self._ledger.end_call(slot.number, slot.final_input, whole=whole, extra=extra)

    def _add_mcp_result(self, slot: ItemSlot) -> None:
        """Adds the result of an MCP call, which is in the item of the call."""
        item = slot.item
        json, name = as_json(item.get("error") or item.get("output")), lenient.get_text(item, "name")
        extra = {NAME: {"item": item}}
        self._ledger.add_whole_part(ev.Result, slot.call, name, json, wire.has_failed(item), False, extra)  # noqa: FBT003


class UntypedItemReader(ItemReader):
    """Reads items without a type. They become unknown payloads: none of them may become a call."""

    def on_done(self, slot: ItemSlot) -> None:
        self._ledger.diagnostics.add("item-untyped", f"output item {slot.id!r} has no type and is left out")
        self._ledger.unusable += 1
        self._ledger.unknown(NAME, as_json(slot.item))

    def on_response_end(self, slot: ItemSlot, *, complete: bool) -> None:
        """Reports an item that never got its end as unknown, if the response is complete."""
        if not slot.done and complete:
            self.on_done(slot)


class BuiltinToolReader(ItemReader):
    """Reads items of built-in tools. Items of unknown kinds become opaque parts.

    State: the names of calls, and the last call of each tool, for outputs that name no call.
    """

    def __init__(self, ledger: Ledger) -> None:
        super().__init__(ledger)
        self._names: dict[str, str] = {}
        self._last_calls: dict[str, str] = {}

    # ── items ─────────────────────────────────────────────────────────────────────────────────────

    def on_added(self, slot: ItemSlot) -> None:
        if slot.kind in wire.CALLS_WITH_OUTPUT:
            self._open_call(slot, wire.CALLS_WITH_OUTPUT[slot.kind])

    def on_done(self, slot: ItemSlot) -> None:
        kind = slot.kind
        if kind in wire.CALLS_WITH_OUTPUT:
            tool = wire.CALLS_WITH_OUTPUT[kind]
            self._open_call(slot, tool)
            self._end_call(slot, tool)
            if kind == "image_generation_call":
                self._add_image(slot)
            self._add_result(slot, tool, slot.call)
        elif kind in wire.CALLS:
            self._add_call(slot, wire.CALLS[kind])
        elif kind in wire.OUTPUTS:
            tool = wire.OUTPUTS[kind]
            self._add_result(slot, tool, lenient.get_text(slot.item, "call_id") or self._last_calls.get(tool.name, ""))
        elif kind == "mcp_approval_request":
            self._add_approval_request(slot)
        else:
            self._ledger.add_whole_part(ev.Opaque, NAME, kind, slot.item)

    def on_response_end(self, slot: ItemSlot, *, complete: bool) -> None:
        """Ends an item that was announced but never done. Its call must not be run."""
        if slot.done or not slot.announced:
            return
        if slot.kind in wire.CALLS:
            self._add_call(slot, wire.CALLS[slot.kind], void=True)
        elif slot.kind not in wire.CALLS_WITH_OUTPUT and complete:
            self.on_done(slot)

    def _add_call(self, slot: ItemSlot, tool: wire.BuiltinTool, *, void: bool = False) -> None:
        self._open_call(slot, tool, wire.get_runner(slot.item, tool))
        part = self._ledger.find(slot.number)
        if part is not None:
            part.void = void or slot.item.get("status") in wire.FAILED_STATUSES
            # Half of the input would be valid JSON, so a call that must not be run gets no input.
            json = None if part.void else wire.read_tool_input(slot.item, tool)
            self._ledger.end_call(slot.number, json, whole=not part.void, extra=wrap_extra(item=slot.item))

    def _add_approval_request(self, slot: ItemSlot) -> None:
        """Adds the call that needs approval as a call of the provider, and the question."""
        slot.call = slot.id or _make_call_id(self._ledger, slot)
        extra, name = wrap_extra(id=slot.id, type=slot.kind), lenient.get_text(slot.item, "name")
        self._ledger.open_call(slot.number, slot.call, name, by="provider", item=slot.id, extra=extra)
        self._ledger.end_call(slot.number, wire.to_text(slot.item.get("arguments")))
        self._ledger.add_whole_part(ev.Ask, slot.call, slot.call, wrap_extra(item=slot.item))

    # ── events between an item's start and its end ────────────────────────────────────────────────

    def append_code(self, slot: ItemSlot, text: str) -> None:
        """Appends code to the JSON input of a code interpreter."""
        part = self._ledger.find(slot.number)
        if part is not None and text:
            self._ledger.append_call_input(slot.number, ("" if part.pieces else _CODE_START) + as_json(text)[1:-1])

    def end_code(self, slot: ItemSlot, code: str) -> None:
        """Ends the call of a code interpreter. Its output follows later."""
        slot.item = {**slot.item, "code": code}
        self._end_call(slot, wire.CALLS_WITH_OUTPUT["code_interpreter_call"])

    def add_partial_image(self, slot: ItemSlot, number: int, image: str) -> None:
        """Adds an unfinished image as a partial result, which a later result replaces."""
        tool = wire.CALLS_WITH_OUTPUT["image_generation_call"]
        self._open_call(slot, tool)
        self._end_call(slot, tool)
        json = as_json({"result": image, "partial_image_index": number})
        self._ledger.add_whole_part(ev.Result, slot.call, tool.name, json, False, True, wrap_extra(id=slot.id))  # noqa: FBT003

    # ── the ledger ────────────────────────────────────────────────────────────────────────────────

    def _open_call(self, slot: ItemSlot, tool: wire.BuiltinTool, by: By = "provider") -> None:
        if slot.call:
            return
        slot.call = lenient.get_text(slot.item, "call_id") or slot.id or _make_call_id(self._ledger, slot)
        name = lenient.get_text(slot.item, "name") or tool.name
        self._names[slot.call], self._last_calls[tool.name] = name, slot.call
        extra = wrap_extra(item=slot.item)
        self._ledger.open_call(slot.number, slot.call, name, by=by, item=slot.id, extra=extra)

    def _end_call(self, slot: ItemSlot, tool: wire.BuiltinTool) -> None:
        json = wire.read_tool_input(slot.item, tool)
        _append_missing_input(self._ledger, slot, json)
        self._ledger.end_call(slot.number, json, extra=wrap_extra(id=slot.id, type=slot.kind))

    def _add_image(self, slot: ItemSlot) -> None:
        data, key = lenient.get_text(slot.item, "result"), (slot.number, "image")
        if data:
            media = f"image/{lenient.get_text(slot.item, 'output_format') or 'png'}"
            self._ledger.open_file(key, media, item=slot.id, extra=wrap_extra(id=slot.id, type=slot.kind))
            self._ledger.append_text(key, data)
            self._ledger.close(key)

    def _add_result(self, slot: ItemSlot, tool: wire.BuiltinTool, call: str) -> None:
        item, name = slot.item, self._names.get(call) or tool.name
        json, extra = as_json(item.get("error") or wire.read_tool_output(item, tool)), wrap_extra(item=item)
        self._ledger.add_whole_part(ev.Result, call, name, json, wire.has_failed(item), False, extra)  # noqa: FBT003
