"""Tool calls of one choice, put together from fragments that may lack index, id or name.

A fragment belongs to the call at its index, else to the call of its id, else to the last one; a new id, or a name after
complete input, begins another call even where the index says otherwise.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.jsontext import as_json
from penstock.protocols.openai_chat.call_input import CallInput
from penstock.protocols.openai_chat.google_state import read_extra

if TYPE_CHECKING:
    from penstock.events import CallForm, Extra
    from penstock.parts import Ledger, Part
    from penstock.protocols.openai_chat import wire

EMPTY, NULL = "{}", "null"


class Slot:
    """One call. It is opened in the ledger once its name is known; until then its input waits."""

    __slots__ = ("extra", "form", "id", "input", "key", "name", "opened", "twin")

    def __init__(self, key: tuple[int, int], id: str, form: CallForm, extra: Extra | None) -> None:
        self.key = key
        self.id = id
        self.name = ""
        self.form: CallForm = form
        self.extra = extra
        self.opened = False
        self.input = CallInput()
        self.twin: Slot | None = None  # an earlier call of the same id, at another index


class Calls:
    """The calls of one choice."""

    def __init__(self, ledger: Ledger, choice: int) -> None:
        self._ledger = ledger
        self._choice = choice
        self._slots: list[Slot] = []
        self._at: dict[int, Slot] = {}  # by index
        self._first: dict[str, Slot] = {}  # by id: the first that had it

    def __len__(self) -> int:
        return len(self._slots)

    def add(self, call: wire.ToolCall) -> None:
        """Take one fragment."""
        _drop_empty(call)
        said: Any = call.function or call.custom
        name: str = (said and said.name) or ""
        given: Any = None if said is None else call.custom.input if call.custom else said.arguments
        text: str = given if isinstance(given, str) else "" if given is None else as_json(given)
        slot = self._find(call, name)
        if slot is None:
            slot = self._new(call)
        elif call.extra_content:
            self._sign(slot, call.extra_content)
        if name and not slot.name:
            slot.name = name
        if text == NULL and slot.form == "json" and not slot.input.pieces:
            text = ""  # a tool without parameters is called with nothing, or with `null` (Groq)
        self._grow(slot, text)

    def keep_texts(self, part: Part, texts: list[str]) -> None:
        """More input of an open call, read by a template."""
        for slot in self._slots:
            if slot.opened and self._ledger.find(slot.key) is part:
                slot.input.pieces += texts

    def close(self) -> None:
        """The choice ended: open what never could be, so that it is reported; the ledger closes the rest."""
        for slot in self._slots:
            if not slot.opened:
                self._open_late(slot)

    def _find(self, call: wire.ToolCall, name: str) -> Slot | None:
        slot = None
        if call.index is not None:
            slot = self._at.get(call.index)
        elif call.id:
            slot = self._first.get(call.id)
        elif self._slots and not name:
            slot = self._slots[-1]
        if slot is None or (call.id and slot.id != call.id):
            return self._first.get(call.id) if call.id and call.index is None else None
        if name and not call.id and slot.name and slot.input.is_whole():
            return None
        return slot

    def _new(self, call: wire.ToolCall) -> Slot:
        number = len(self._slots)
        if self._slots:
            self._close_whole(self._slots[-1])
        extra = read_extra(call.extra_content) if call.extra_content else None
        form: CallForm = "text" if call.custom else "json"
        slot = Slot((self._choice, number), call.id or f"call_{self._ledger.stem}_{self._choice}_{number}", form, extra)
        slot.twin = self._first.get(call.id) if call.id else None
        self._first.setdefault(slot.id, slot)
        self._slots.append(slot)
        self._at[number if call.index is None else call.index] = slot
        return slot

    def _sign(self, slot: Slot, content: dict[str, Any]) -> None:
        """State that comes behind the first piece of a call. The end of the call has it, so it may come too late."""
        slot.extra = {**(slot.extra or {}), **(read_extra(content) or {})}
        part = self._ledger.find(slot.key) if slot.opened else None
        if part is not None:
            part.extra = slot.extra
        elif slot.opened:
            self._ledger.diagnostics.add("after-close", f"state of call {slot.id!r} came after its end and is left out")

    def _close_whole(self, slot: Slot) -> None:
        """A call whose input is complete ends as soon as another begins, so that it can be delivered."""
        if slot.opened and slot.form == "json" and slot.input.is_whole():
            self._ledger.close(slot.key)

    def _grow(self, slot: Slot, text: str) -> None:
        if text and not self._repeats(slot, text):
            slot.input.pieces.append(text)
            if slot.opened:
                self._say(slot, text)
        if slot.name and not slot.opened and slot.twin is None:
            self._open(slot)

    def _repeats(self, slot: Slot, text: str) -> bool:
        """Some send the whole input again at the end: after complete input nothing more can belong to it."""
        if slot.form == "text" or not slot.input.pieces or not text.lstrip().startswith("{"):
            return False
        if not slot.input.pieces[-1].rstrip().endswith("}"):
            return False  # a cheap look first: what is complete ends so
        if slot.input.pieces == [EMPTY]:
            slot.input.clear()  # it was a placeholder: the real input follows
            return False
        if not slot.input.is_whole():
            return False
        self._ledger.diagnostics.add("input-twice", f"call {slot.id!r}: more input after it was complete is ignored")
        return True

    def _open(self, slot: Slot) -> None:
        slot.opened = True
        given = EMPTY if slot.input.pieces == [EMPTY] else ""
        self._ledger.open_call(
            slot.key, slot.id, slot.name, form=slot.form, choice=self._choice, given=given, extra=slot.extra
        )
        for text in slot.input.pieces:
            self._say(slot, text)

    def _say(self, slot: Slot, text: str) -> None:
        """An empty object first may be a placeholder: it is held back, and stands if nothing follows."""
        part = self._ledger.find(slot.key)
        if part is not None and text == EMPTY and not part.pieces:
            part.given = EMPTY
        else:
            self._ledger.add(slot.key, text)

    def _open_late(self, slot: Slot) -> None:
        twin = slot.twin
        if twin is not None and twin.name == slot.name and twin.input.pieces == slot.input.pieces:
            self._ledger.diagnostics.add("call-twice", f"call {slot.id!r} came again and is ignored")
            return
        if twin is not None:
            slot.id = f"{slot.id}-{slot.key[1]}"
        self._open(slot)


def _drop_empty(call: wire.ToolCall) -> None:
    """Some send both kinds of call, one of them with nothing in it."""
    if call.function is not None and call.custom is not None:
        if call.function.name or call.function.arguments:
            call.custom = None
        else:
            call.function = None
