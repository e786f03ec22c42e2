"""The input of a call as it comes in pieces, and whether it is whole. Each piece is read once. Pure; no IO."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from penstock.jsontext import as_json, is_json
from penstock.protocols.openai_chat.wire import read_extra

if TYPE_CHECKING:
    from penstock.events import CallForm, Extra
    from penstock.ledger import Ledger, Part
    from penstock.protocols.openai_chat import wire

SHORT = 64  # characters of an input that is a number or a word, and is read as a whole
_SPACE = " \t\r\n"  # of JSON
_STEPS = {"{": 1, "[": 1, "}": -1, "]": -1}
_PLAIN = re.compile(r'[^"\[\]{}]*+')  # outside of strings, up to a mark
_QUOTED = re.compile(r'[^"\\]*+(?:\\.[^"\\]*+)*', re.DOTALL)  # inside of a string, up to its end


class CallInput:
    """Pieces of JSON. `pieces` may be appended to from outside."""

    __slots__ = ("_depth", "_escape", "_quoted", "_read", "_whole", "pieces")

    def __init__(self) -> None:
        self.pieces: list[str] = []
        self.clear()

    def clear(self) -> None:
        self.pieces.clear()
        self._read = 0  # pieces that were read
        self._depth = 0
        self._quoted = False  # inside of a string,
        self._escape = ""  # behind a backslash of it
        self._whole: bool | None = None  # once the outermost bracket is closed: whether all of it is JSON

    @property
    def text(self) -> str:
        return "".join(self.pieces)

    def is_whole(self) -> bool:
        """Whether what has come is JSON."""
        if not self._read and not self._begins_marked():
            return sum(map(len, self.pieces[:SHORT])) <= SHORT >= len(self.pieces) and is_json(self.text)
        unread = self._escape + "".join(self.pieces[self._read :])
        self._read, self._escape = len(self.pieces), ""
        at = 0
        while at < len(unread) and self._whole is not False:
            at = self._in_string(unread, at) if self._quoted else self._outside(unread, at)
        return bool(self._whole)

    def _begins_marked(self) -> bool:
        """Whether it begins as an object, a list or a string does."""
        first = next((piece for piece in self.pieces[:SHORT] if piece.strip(_SPACE)), "").lstrip(_SPACE)[:1]
        return first == '"' or first in _STEPS

    def _in_string(self, text: str, at: int) -> int:
        found = _QUOTED.match(text, at)
        at = found.end() if found is not None else at
        if text[at : at + 1] == '"':
            self._quoted = False
            if not self._depth:
                return self._end(text, at + 1)
        else:
            self._escape = text[at:]  # nothing, or a backslash that the next piece goes on from
        return at + 1

    def _outside(self, text: str, at: int) -> int:
        found = _PLAIN.match(text, at)
        stop = found.end() if found is not None else at
        mark = text[stop : stop + 1]
        if self._whole is not None:  # it was whole: no more than space may follow
            self._whole = self._whole and not mark and not text[at:stop].strip(_SPACE)
        elif mark == '"':
            self._quoted = True
        elif mark:
            self._depth += _STEPS[mark]
            if self._depth <= 0:
                return self._end(text, stop + 1)
        return stop + 1

    def _end(self, text: str, at: int) -> int:
        """The outermost value ends there: nothing but space may follow it."""
        self._whole = not text[at:].strip(_SPACE) and is_json(self.text)
        return len(text)


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
        slot = Slot(
            (self._choice, number), call.id or f"call_{self._ledger.id_prefix}_{self._choice}_{number}", form, extra
        )
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
            self._ledger.append_call_input(slot.key, text)

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
