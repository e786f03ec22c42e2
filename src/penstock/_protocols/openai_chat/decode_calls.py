"""Tool calls of one choice, put together from fragments that may lack index, id or name.

A fragment belongs to the call at its index, else to the call of its id, else to the last one. A new id, or a name after
complete input, begins another call even if the index says otherwise.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from penstock._lenient_json import as_json, is_json
from penstock._protocols.openai_chat.wire import read_extra_content
from penstock.events import CallForm, Extra

if TYPE_CHECKING:
    from penstock._ledger import Ledger, LedgerPart
    from penstock._protocols.openai_chat import wire

MAX_SCALAR = 64  # longest scalar input (number, true, null) that is parsed at once
_WHITESPACE = " \t\r\n"  # of JSON
_DEPTH_STEPS = {"{": 1, "[": 1, "}": -1, "]": -1}
_OUTSIDE_STRING = re.compile(r'[^"\[\]{}]*+')  # outside strings, up to a quote or bracket
_INSIDE_STRING = re.compile(r'[^"\\]*+(?:\\.[^"\\]*+)*', re.DOTALL)  # inside a string, up to its end


class CallInput:
    """The input of a call, in fragments of JSON text. Callers append to `fragments`."""

    __slots__ = ("_complete", "_depth", "_escape", "_quoted", "_scanned", "fragments")

    def __init__(self) -> None:
        self.fragments: list[str] = []
        self.clear()

    def clear(self) -> None:
        self.fragments.clear()
        self._scanned = 0  # how many fragments were scanned
        self._depth = 0
        self._quoted = False  # inside a string
        self._escape = ""  # a backslash at the end of the last fragment, inside a string
        self._complete: bool | None = None  # set when the outermost value ends: whether the input is valid JSON

    @property
    def text(self) -> str:
        return "".join(self.fragments)

    def is_complete(self) -> bool:
        """True if the input so far is a complete JSON value. Every fragment is scanned once."""
        if not self._scanned and not self._starts_container():
            is_short = sum(map(len, self.fragments[:MAX_SCALAR])) <= MAX_SCALAR >= len(self.fragments)
            return is_short and is_json(self.text)
        unread = self._escape + "".join(self.fragments[self._scanned :])
        self._scanned, self._escape = len(self.fragments), ""
        at = 0
        while at < len(unread) and self._complete is not False:
            at = self._scan_string(unread, at) if self._quoted else self._scan_outside(unread, at)
        return bool(self._complete)

    def _starts_container(self) -> bool:
        """True if the input begins as an object, an array or a string."""
        start = next((text for text in self.fragments[:MAX_SCALAR] if text.strip(_WHITESPACE)), "")
        first = start.lstrip(_WHITESPACE)[:1]
        return first == '"' or first in _DEPTH_STEPS

    def _scan_string(self, text: str, at: int) -> int:
        match = _INSIDE_STRING.match(text, at)
        at = match.end() if match is not None else at
        if text[at : at + 1] == '"':
            self._quoted = False
            if not self._depth:
                return self._end_value(text, at + 1)
        else:
            self._escape = text[at:]  # empty, or a backslash that escapes the first character of the next fragment
        return at + 1

    def _scan_outside(self, text: str, at: int) -> int:
        match = _OUTSIDE_STRING.match(text, at)
        stop = match.end() if match is not None else at
        mark = text[stop : stop + 1]
        if self._complete is not None:  # complete already: only white space may follow
            self._complete = self._complete and not mark and not text[at:stop].strip(_WHITESPACE)
        elif mark == '"':
            self._quoted = True
        elif mark:
            self._depth += _DEPTH_STEPS[mark]
            if self._depth <= 0:
                return self._end_value(text, stop + 1)
        return stop + 1

    def _end_value(self, text: str, at: int) -> int:
        """Ends the outermost value at `at`. Only white space may follow it."""
        self._complete = not text[at:].strip(_WHITESPACE) and is_json(self.text)
        return len(text)


EMPTY_OBJECT, NULL = "{}", "null"


class PendingCall(Struct, eq=False):
    """A call. The ledger opens it once its name is known; until then its input waits here."""

    key: tuple[int, int]
    id: str
    form: CallForm
    extra: Extra | None
    name: str = ""
    opened: bool = False
    input: CallInput = field(default_factory=CallInput)
    earlier: PendingCall | None = None  # an earlier call with the same id, at another index


class CallAssembler:
    """Puts the tool calls of one choice together."""

    def __init__(self, ledger: Ledger, choice: int) -> None:
        self._ledger = ledger
        self._choice = choice
        self._calls: list[PendingCall] = []
        self._by_index: dict[int, PendingCall] = {}
        self._by_id: dict[str, PendingCall] = {}  # the first call with that id

    def add_fragment(self, call: wire.ToolCall) -> None:
        """Adds a fragment to its call, or starts another call."""
        _drop_empty_kind(call)
        definition: Any = call.function or call.custom
        name: str = (definition and definition.name) or ""
        arguments: Any = None if definition is None else call.custom.input if call.custom else definition.arguments
        text: str = arguments if isinstance(arguments, str) else "" if arguments is None else as_json(arguments)
        pending = self._find_call(call, name)
        if pending is None:
            pending = self._start_call(call)
        elif call.extra_content:
            self._add_state(pending, call.extra_content)
        if name and not pending.name:
            pending.name = name
        if text == NULL and pending.form == "json" and not pending.input.fragments:
            text = ""  # a tool without parameters is called with nothing, or with `null` (Groq)
        self._append_input(pending, text)

    def keep_texts(self, part: LedgerPart, texts: list[str]) -> None:
        """Adds input that the template reader has read for an open call."""
        for pending in self._calls:
            if pending.opened and self._ledger.find(pending.key) is part:
                pending.input.fragments += texts

    def close(self) -> None:
        """Opens calls that never got a name, so that the end of the choice reports them. The ledger closes the rest."""
        for pending in self._calls:
            if not pending.opened:
                self._open_unnamed_call(pending)

    def _find_call(self, call: wire.ToolCall, name: str) -> PendingCall | None:
        pending = None
        if call.index is not None:
            pending = self._by_index.get(call.index)
        elif call.id:
            pending = self._by_id.get(call.id)
        elif self._calls and not name:
            pending = self._calls[-1]
        if pending is None or (call.id and pending.id != call.id):
            return self._by_id.get(call.id) if call.id and call.index is None else None
        if name and not call.id and pending.name and pending.input.is_complete():
            return None
        return pending

    def _start_call(self, call: wire.ToolCall) -> PendingCall:
        number = len(self._calls)
        if self._calls:
            self._close_complete(self._calls[-1])
        extra = read_extra_content(call.extra_content) if call.extra_content else None
        form: CallForm = "text" if call.custom else "json"
        pending = PendingCall(
            (self._choice, number), call.id or f"call_{self._ledger.id_prefix}_{self._choice}_{number}", form, extra
        )
        pending.earlier = self._by_id.get(call.id) if call.id else None
        self._by_id.setdefault(pending.id, pending)
        self._calls.append(pending)
        self._by_index[number if call.index is None else call.index] = pending
        return pending

    def _add_state(self, pending: PendingCall, content: dict[str, Any]) -> None:
        """Adds state that comes after the first fragment. The event that ends the call carries it."""
        pending.extra = {**(pending.extra or {}), **(read_extra_content(content) or {})}
        part = self._ledger.find(pending.key) if pending.opened else None
        if part is not None:
            part.extra = pending.extra
        elif pending.opened:
            message = f"state of call {pending.id!r} came after its end and is left out"
            self._ledger.diagnostics.add("after-close", message)

    def _close_complete(self, pending: PendingCall) -> None:
        """Closes a call whose input is complete when the next one begins, so that it is delivered early."""
        if pending.opened and pending.form == "json" and pending.input.is_complete():
            self._ledger.close(pending.key)

    def _append_input(self, pending: PendingCall, text: str) -> None:
        if text and not self._is_repeated(pending, text):
            pending.input.fragments.append(text)
            if pending.opened:
                self._write_input(pending, text)
        if pending.name and not pending.opened and pending.earlier is None:
            self._open_call(pending)

    def _is_repeated(self, pending: PendingCall, text: str) -> bool:
        """True if input is complete already. Some servers send all of the input again at the end."""
        if pending.form == "text" or not pending.input.fragments or not text.lstrip().startswith("{"):
            return False
        if not pending.input.fragments[-1].rstrip().endswith("}"):
            return False  # a cheap check first: complete input ends with a brace
        if pending.input.fragments == [EMPTY_OBJECT]:
            pending.input.clear()  # a placeholder: the real input follows
            return False
        if not pending.input.is_complete():
            return False
        self._ledger.diagnostics.add("input-twice", f"call {pending.id!r}: more input after it was complete is ignored")
        return True

    def _open_call(self, pending: PendingCall) -> None:
        pending.opened = True
        arguments = EMPTY_OBJECT if pending.input.fragments == [EMPTY_OBJECT] else ""
        self._ledger.open_call(
            pending.key,
            pending.id,
            pending.name,
            form=pending.form,
            choice=self._choice,
            given=arguments,
            extra=pending.extra,
        )
        for text in pending.input.fragments:
            self._write_input(pending, text)

    def _write_input(self, pending: PendingCall, text: str) -> None:
        """Writes input to the ledger. A first empty object is held back: it may be a placeholder for what follows."""
        part = self._ledger.find(pending.key)
        if part is not None and text == EMPTY_OBJECT and not part.pieces:
            part.given = EMPTY_OBJECT
        else:
            self._ledger.append_call_input(pending.key, text)

    def _open_unnamed_call(self, pending: PendingCall) -> None:
        earlier = pending.earlier
        if earlier is not None and earlier.name == pending.name and earlier.input.fragments == pending.input.fragments:
            self._ledger.diagnostics.add("call-twice", f"call {pending.id!r} came again and is ignored")
            return
        if earlier is not None:
            pending.id = f"{pending.id}-{pending.key[1]}"
        self._open_call(pending)


def _drop_empty_kind(call: wire.ToolCall) -> None:
    """Removes the empty one where a server sends `function` and `custom` together."""
    if call.function is not None and call.custom is not None:
        if call.function.name or call.function.arguments:
            call.custom = None
        else:
            call.function = None
