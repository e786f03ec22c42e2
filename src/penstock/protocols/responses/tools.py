"""Built-in tools: items that are a call, an answer, or both at once; and items nobody here has a word for.

Who runs a built-in is a fact of its kind, or said by the item (a container of the provider, `execution`). What the
client must run is delivered when its item is done, with the item as it was in `extra`; what the provider runs is opened
when it is announced and has its answer when it is done.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from penstock import events as ev
from penstock import pick
from penstock.jsontext import as_json
from penstock.protocols.responses.calls import as_text, catch_up, minted
from penstock.protocols.responses.speech import NAME, own

if TYPE_CHECKING:
    from penstock.events import By, Extra
    from penstock.parts import Ledger
    from penstock.protocols.responses.items import Item, Slot


class Tool(NamedTuple):
    """A built-in: its name, who runs it, and which fields of its item are input and answer (one: its bare value)."""

    name: str
    by: By = "provider"
    input: tuple[str, ...] = ()
    answer: tuple[str, ...] = ()


EARLY: dict[str, Tool] = {  # run by the provider: a call and its answer in one item
    "web_search_call": Tool("web_search", input=("action",), answer=("status", "sources")),
    "file_search_call": Tool("file_search", input=("queries",), answer=("results",)),
    "code_interpreter_call": Tool("code_interpreter", input=("code", "container_id"), answer=("outputs",)),
    "image_generation_call": Tool(
        "image_generation", input=("prompt",),
        answer=("status", "revised_prompt", "size", "quality", "background", "output_format", "error"),
    ),
    "mcp_list_tools": Tool("mcp_list_tools", input=("server_label",), answer=("tools",)),
}  # fmt: skip
LATE: dict[str, Tool] = {  # a call alone, known when it is done
    "local_shell_call": Tool("local_shell", "client", ("action",)),
    "shell_call": Tool("shell", "client", ("action",)),
    "apply_patch_call": Tool("apply_patch", "client", ("operation",)),
    "computer_call": Tool("computer", "client", ("action", "actions", "pending_safety_checks")),
    "tool_search_call": Tool("tool_search", "client", ("arguments",)),
    "x_search_call": Tool("x_search", "provider", ("arguments",)),
    "program": Tool("program", "provider", ("code",)),
}
ANSWERS: dict[str, Tool] = {  # an answer alone
    "shell_call_output": Tool("shell", answer=("output",)),
    "local_shell_call_output": Tool("local_shell", answer=("output",)),
    "apply_patch_call_output": Tool("apply_patch", answer=("output",)),
    "computer_call_output": Tool("computer", answer=("output",)),
    "function_call_output": Tool("", answer=("output",)),
    "custom_tool_call_output": Tool("", answer=("output",)),
    "tool_search_output": Tool("tool_search", answer=("tools",)),
    "program_output": Tool("program", answer=("result",)),
}
FAILED = ("failed", "incomplete")
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
            self._ledger.atom(ev.Opaque, NAME, kind, slot.item)

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
        call = pick.text(slot.item, "call_id") or self._latest.get(tool.name, "")
        self._result(slot, tool, call)

    def _ask(self, slot: Slot) -> None:
        """The call that needs approval, told as the provider's, and the question."""
        slot.call = slot.id or minted(self._ledger, slot)
        extra = own(id=slot.id, type=slot.kind)
        name = pick.text(slot.item, "name")
        self._ledger.open_call(slot.number, slot.call, name, by="provider", item=slot.id, extra=extra)
        self._ledger.end_call(slot.number, as_text(slot.item.get("arguments")))
        self._ledger.atom(ev.Ask, slot.call, slot.call, own(item=slot.item))

    # ── what is told between an item's beginning and its end ──────────────────────────────────────

    def code(self, slot: Slot, text: str) -> None:
        """A piece of a program, as a piece of the JSON that will hold it."""
        part = self._ledger.find(slot.number)
        if part is not None and text:
            self._ledger.add(slot.number, ("" if part.pieces else _CODE) + as_json(text)[1:-1])

    def program(self, slot: Slot, code: str) -> None:
        """All of the program: the call is whole, its answer comes later."""
        slot.item = {**slot.item, "code": code}
        self._end(slot, EARLY["code_interpreter_call"])

    def preview(self, slot: Slot, number: int, picture: str) -> None:
        """A picture before it is finished: an answer that a later one replaces."""
        self._open(slot, tool := EARLY["image_generation_call"], "provider", own(item=slot.item))
        self._end(slot, tool)
        json = as_json({"result": picture, "partial_image_index": number})
        self._ledger.atom(ev.Result, slot.call, tool.name, json, False, True, own(id=slot.id))  # noqa: FBT003

    # ── the ledger ────────────────────────────────────────────────────────────────────────────────

    def _open(self, slot: Slot, tool: Tool, by: By, extra: Extra | None) -> None:
        if slot.call:
            return
        slot.call = pick.text(slot.item, "call_id") or slot.id or minted(self._ledger, slot)
        name = pick.text(slot.item, "name") or tool.name
        self._names[slot.call], self._latest[tool.name] = name, slot.call
        self._ledger.open_call(slot.number, slot.call, name, by=by, item=slot.id, extra=extra)

    def _end(self, slot: Slot, tool: Tool) -> None:
        json = given(slot.item, tool)
        catch_up(self._ledger, slot.number, json)
        self._ledger.end_call(slot.number, json, extra=own(id=slot.id, type=slot.kind))

    def _picture(self, slot: Slot) -> None:
        data = pick.text(slot.item, "result")
        if data:
            media = f"image/{pick.text(slot.item, 'output_format') or 'png'}"
            key = (slot.number, "picture")
            self._ledger.open_file(key, media, item=slot.id, extra=own(id=slot.id, type=slot.kind))
            self._ledger.say(key, data)
            self._ledger.close(key)

    def _result(self, slot: Slot, tool: Tool, call: str) -> None:
        item = slot.item
        failed = bool(item.get("error")) or item.get("status") in FAILED
        name = self._names.get(call) or tool.name
        answer = item.get("error") or answered(item, tool)
        self._ledger.atom(ev.Result, call, name, as_json(answer), failed, False, own(item=item))  # noqa: FBT003


def runner(item: Item, tool: Tool) -> By:
    """Who runs a call that either side might: a container or `execution: server` is the provider's."""
    if pick.text(item, "execution") == "server" or pick.text(pick.table(item, "environment"), "type").startswith(
        "container"
    ):
        return "provider"
    return tool.by


def given(item: Item, tool: Tool) -> str:
    """A built-in's input, as JSON."""
    if tool.input == ("arguments",):
        return as_text(item.get("arguments") or {})
    said = {**item, "action": {key: value for key, value in pick.table(item, "action").items() if key != "sources"}}
    return as_json({key: said[key] for key in tool.input if item.get(key) not in (None, [])})


def answered(item: Item, tool: Tool) -> Any:
    """What a built-in gave."""
    if len(tool.answer) == 1:
        return item.get(tool.answer[0])
    found = {**item, "sources": pick.table(item, "action").get("sources")}
    return {key: found[key] for key in tool.answer if found.get(key) is not None}
