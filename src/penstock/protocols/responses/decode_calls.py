"""Calls whose input is streamed: functions, custom tools (free text), MCP tools that the provider runs.

A call is delivered at the first word on all of its input that is usable: `arguments.done`, the item's end, or the final
snapshot. Free text cannot be told from half of it, so a custom call waits for the end of its item, whose status says.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock import events as ev
from penstock import lenient_fields as lenient
from penstock.jsontext import as_json, usable
from penstock.protocols.responses.wire import (
    ANSWERS,
    EARLY,
    FAILED,
    LATE,
    NAME,
    Item,
    Tool,
    answered,
    as_text,
    given,
    own,
    runner,
)

if TYPE_CHECKING:
    from penstock.events import By, CallForm, Extra
    from penstock.ledger import Ledger, Part
    from penstock.protocols.responses.decode_items import Slot

KINDS = ("function_call", "custom_tool_call", "mcp_call")
_PLAIN = frozenset({"type", "call_id", "name", "arguments", "input", "status"})
NULL = "null"
_UPSTREAM = "x_search"  # a tool whose steps are told as custom calls, though the provider takes them (xAI)


def read_arguments(value: Any) -> str:
    """The arguments of a function as text. A tool without parameters is called with nothing, or with `null`."""
    return "" if value == NULL else as_text(value)


def catch_up(ledger: Ledger, key: int, word: str) -> None:
    """Say the rest of an input whose beginning was streamed."""
    part = ledger.find(key)
    if part is not None and part.streamed_text and word.startswith(part.streamed_text):
        ledger.append_call_input(key, word[len(part.streamed_text) :])


def _input(slot: Slot) -> str:
    """All of the input, as the item has it."""
    if slot.kind != "custom_tool_call":
        return read_arguments(slot.item.get("arguments"))
    return as_text(slot.item.get("input"))


def minted(ledger: Ledger, slot: Slot) -> str:
    """An id for a call that has none."""
    return f"call_{ledger.id_prefix}_{slot.number}"


class Calls:
    """State: which custom tools the request had, as far as the response repeats them."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._searches = False
        self._customs: set[str] = set()

    def tools(self, tools: list[Item]) -> None:
        """The request's tools, as the response echoes them."""
        self._searches = any(lenient.get_text(tool, "type") == _UPSTREAM for tool in tools)
        self._customs = {lenient.get_text(tool, "name") for tool in tools if lenient.get_text(tool, "type") == "custom"}

    # ── pieces ────────────────────────────────────────────────────────────────────────────────────

    def piece(self, slot: Slot, text: str) -> Part | None:
        """A fragment of input. What comes before the call itself waits for it."""
        part = self._ledger.find(slot.number)
        if text == NULL and slot.kind != "custom_tool_call" and not (slot.held or (part and part.pieces)):
            return part
        if part is not None:
            self._ledger.append_call_input(slot.number, text)
        elif not slot.call:
            slot.held.append(text)
        return part

    def name(self, slot: Slot, name: str, call_id: str) -> None:
        """An event names the tool and the call of an item that was never announced: it stands for the item."""
        if name and not slot.told and not slot.call:
            known = {"type": slot.kind, "id": slot.id, "call_id": call_id, "name": name}
            slot.item = {key: value for key, value in known.items() if value}
            if call_id:
                self._open(slot)

    def whole(self, slot: Slot, text: str) -> None:
        """All of the input, told before the item is done."""
        slot.word = text
        self._deliver(slot)

    # ── items ─────────────────────────────────────────────────────────────────────────────────────

    def added(self, slot: Slot) -> None:
        if lenient.get_text(slot.item, "name"):
            self._open(slot)
            self._deliver(slot)

    def done(self, slot: Slot) -> None:
        self._last_word(slot)
        self._open(slot)
        part = self._ledger.find(slot.number)
        if part is not None:
            part.void = part.void or slot.item.get("status") == "incomplete"
            if part.by == "provider" or part.form == "text" or part.void:
                self._end(slot, part)
            else:
                self._deliver(slot)
        else:
            self._compare(slot)
        if slot.kind == "mcp_call":
            self._result(slot)

    def last(self, slot: Slot) -> None:
        """The final snapshot of an item that was done: it may have the input that nobody told before."""
        self._last_word(slot)
        self._deliver(slot)

    def close(self, slot: Slot, *, whole: bool) -> None:
        """The response is over: judge what there is of a call that never got its end."""
        if not slot.told and not lenient.get_text(slot.item, "name"):
            if slot.held or slot.word is not None:
                self._ledger.diagnostics.add("call-unknown", f"input for item {slot.id!r}, which was never announced")
            return
        self._open(slot)
        part = self._ledger.find(slot.number)
        if part is not None:
            self._end(slot, part, whole=whole and (part.form == "json" or slot.word is not None))

    # ── the ledger ────────────────────────────────────────────────────────────────────────────────

    def _open(self, slot: Slot) -> None:
        if slot.call:
            return
        item, custom = slot.item, slot.kind == "custom_tool_call"
        slot.call = lenient.get_text(item, "call_id") or slot.id or minted(self._ledger, slot)
        by = self._by(slot)
        form: CallForm = "text" if custom and by == "client" else "json"
        given = "" if slot.held or slot.word else _input(slot)
        self._ledger.open_call(
            slot.number, slot.call, lenient.get_text(item, "name"), by=by, form=form, item=slot.id, given=given,
            extra=own(item=item) if by == "provider" else self._extra(slot),
        )  # fmt: skip
        for text in slot.held:
            self._ledger.append_call_input(slot.number, text)

    def _by(self, slot: Slot) -> By:
        if slot.kind == "mcp_call":
            return "provider"
        name = lenient.get_text(slot.item, "name")
        undeclared = self._searches and name not in self._customs
        upstream = slot.kind == "custom_tool_call" and (slot.call.startswith("xs_") or undeclared)
        return "provider" if upstream else "client"

    def _extra(self, slot: Slot) -> Extra | None:
        return own(**{key: value for key, value in slot.item.items() if key not in _PLAIN})

    def _last_word(self, slot: Slot) -> None:
        word = _input(slot)
        if word.strip() or slot.word is None:
            slot.word = word

    def _deliver(self, slot: Slot) -> None:
        """End a call whose input is known to be usable; anything less waits for a later word."""
        part = self._ledger.find(slot.number)
        if part is None:
            self._compare(slot)
        if part is None or slot.word is None or slot.kind == "custom_tool_call":
            return
        word = slot.word if slot.word.strip() else part.streamed_text
        if word.strip() and usable(word) is not None:
            self._end(slot, part)

    def _compare(self, slot: Slot) -> None:
        """A later word on the input of a call that was delivered."""
        if slot.call and slot.word is not None:
            self._ledger.note_later_input(slot.call, slot.word)

    def _end(self, slot: Slot, part: Part, *, whole: bool = True) -> None:
        if part.by == "client":
            extra = self._extra(slot)
        else:
            extra = own(item=slot.item) if slot.kind != "mcp_call" else own(id=slot.id, type=slot.kind)
        catch_up(self._ledger, slot.number, slot.word or "")
        self._ledger.end_call(slot.number, slot.word, whole=whole, extra=extra)

    def _result(self, slot: Slot) -> None:
        """An MCP tool's answer is in the item of its call."""
        item = slot.item
        failed = bool(item.get("error")) or item.get("status") in ("failed", "incomplete")
        answer = item.get("error") or item.get("output")
        name, extra = lenient.get_text(item, "name"), {NAME: {"item": item}}
        self._ledger.add_whole_part(ev.Result, slot.call, name, as_json(answer), failed, False, extra)  # noqa: FBT003


_CODE = '{"code":"'  # how the input of a code interpreter begins, so that its code can be streamed


class Untyped:
    """Reads items that do not say their type. They are kept as unknown payloads: none of them may become a call."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def added(self, slot: Slot) -> None:
        """Wait for the end of the item, which may say its type."""

    def done(self, slot: Slot) -> None:
        self._ledger.diagnostics.add("item-untyped", f"output item {slot.id!r} has no type and is left out")
        self._ledger.unusable += 1
        self._ledger.unknown(NAME, as_json(slot.item))

    def last(self, slot: Slot) -> None:
        """The final snapshot repeats what the item said when it was done."""

    def close(self, slot: Slot, *, whole: bool) -> None:
        """Report an item that was announced and never done."""
        if not slot.done and whole:
            self.done(slot)


class Tools:
    """State: the names of calls, and the last call of each tool, for answers that name none."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._names: dict[str, str] = {}
        self._latest: dict[str, str] = {}

    # ── items ─────────────────────────────────────────────────────────────────────────────────────

    def added(self, slot: Slot) -> None:
        tool = EARLY.get(slot.kind)
        if tool is not None:
            self._open(slot, tool, "provider", own(item=slot.item))

    def done(self, slot: Slot) -> None:
        kind = slot.kind
        if kind in EARLY:
            self._both(slot, EARLY[kind])
        elif kind in LATE:
            self._call(slot, LATE[kind])
        elif kind in ANSWERS:
            self._answer(slot, ANSWERS[kind])
        elif kind == "mcp_approval_request":
            self._ask(slot)
        else:
            self._ledger.add_whole_part(ev.Opaque, NAME, kind, slot.item)

    def last(self, slot: Slot) -> None:
        """The snapshot repeats what the item said when it was done."""

    def close(self, slot: Slot, *, whole: bool) -> None:
        """The response is over, and the item was announced but never done: no call of it may be run."""
        if slot.done or not slot.told:
            return
        if slot.kind in LATE:
            self._call(slot, LATE[slot.kind], void=True)
        elif slot.kind not in EARLY and whole:
            self.done(slot)

    def _both(self, slot: Slot, tool: Tool) -> None:
        self._open(slot, tool, "provider", own(item=slot.item))
        self._end(slot, tool)
        if slot.kind == "image_generation_call":
            self._picture(slot)
        self._result(slot, tool, slot.call)

    def _call(self, slot: Slot, tool: Tool, *, void: bool = False) -> None:
        by, extra = runner(slot.item, tool), own(item=slot.item)
        self._open(slot, tool, by, extra)
        part = self._ledger.find(slot.number)
        if part is not None:
            part.void = void or slot.item.get("status") in FAILED
            # the half of it would be valid JSON: of a call that must not be run nothing is said
            json = None if part.void else given(slot.item, tool)
            self._ledger.end_call(slot.number, json, whole=not part.void, extra=extra)

    def _answer(self, slot: Slot, tool: Tool) -> None:
        call = lenient.get_text(slot.item, "call_id") or self._latest.get(tool.name, "")
        self._result(slot, tool, call)

    def _ask(self, slot: Slot) -> None:
        """The call that needs approval, told as the provider's, and the question."""
        slot.call = slot.id or minted(self._ledger, slot)
        extra = own(id=slot.id, type=slot.kind)
        name = lenient.get_text(slot.item, "name")
        self._ledger.open_call(slot.number, slot.call, name, by="provider", item=slot.id, extra=extra)
        self._ledger.end_call(slot.number, as_text(slot.item.get("arguments")))
        self._ledger.add_whole_part(ev.Ask, slot.call, slot.call, own(item=slot.item))

    # ── what is told between an item's beginning and its end ──────────────────────────────────────

    def code(self, slot: Slot, text: str) -> None:
        """A piece of a program, as a piece of the JSON that will hold it."""
        part = self._ledger.find(slot.number)
        if part is not None and text:
            self._ledger.append_call_input(slot.number, ("" if part.pieces else _CODE) + as_json(text)[1:-1])

    def program(self, slot: Slot, code: str) -> None:
        """All of the program: the call is whole, its answer comes later."""
        slot.item = {**slot.item, "code": code}
        self._end(slot, EARLY["code_interpreter_call"])

    def preview(self, slot: Slot, number: int, picture: str) -> None:
        """A picture before it is finished: an answer that a later one replaces."""
        self._open(slot, tool := EARLY["image_generation_call"], "provider", own(item=slot.item))
        self._end(slot, tool)
        json = as_json({"result": picture, "partial_image_index": number})
        self._ledger.add_whole_part(ev.Result, slot.call, tool.name, json, False, True, own(id=slot.id))  # noqa: FBT003

    # ── the ledger ────────────────────────────────────────────────────────────────────────────────

    def _open(self, slot: Slot, tool: Tool, by: By, extra: Extra | None) -> None:
        if slot.call:
            return
        slot.call = lenient.get_text(slot.item, "call_id") or slot.id or minted(self._ledger, slot)
        name = lenient.get_text(slot.item, "name") or tool.name
        self._names[slot.call], self._latest[tool.name] = name, slot.call
        self._ledger.open_call(slot.number, slot.call, name, by=by, item=slot.id, extra=extra)

    def _end(self, slot: Slot, tool: Tool) -> None:
        json = given(slot.item, tool)
        catch_up(self._ledger, slot.number, json)
        self._ledger.end_call(slot.number, json, extra=own(id=slot.id, type=slot.kind))

    def _picture(self, slot: Slot) -> None:
        data = lenient.get_text(slot.item, "result")
        if data:
            media = f"image/{lenient.get_text(slot.item, 'output_format') or 'png'}"
            key = (slot.number, "picture")
            self._ledger.open_file(key, media, item=slot.id, extra=own(id=slot.id, type=slot.kind))
            self._ledger.append_text(key, data)
            self._ledger.close(key)

    def _result(self, slot: Slot, tool: Tool, call: str) -> None:
        item = slot.item
        failed = bool(item.get("error")) or item.get("status") in FAILED
        name = self._names.get(call) or tool.name
        answer = item.get("error") or answered(item, tool)
        self._ledger.add_whole_part(ev.Result, call, name, as_json(answer), failed, False, own(item=item))  # noqa: FBT003
