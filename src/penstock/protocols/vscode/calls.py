"""Which calls leave, once each, and with what input. Knows nothing of how they are written.

With `hold` a call waits for the end of its step: where tools may be run upstream in the same stream (AI SDK tools with
an `execute`), a result shows that the host has nothing left to run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.protocols.vscode.parts import encoded

if TYPE_CHECKING:
    from penstock import events as ev
    from penstock.diagnostics import Diagnostics


class Calls:
    """The calls of a stream."""

    def __init__(self, diagnostics: Diagnostics, *, hold: bool = False) -> None:
        self._diagnostics = diagnostics
        self._hold = hold
        self._held: dict[str, ev.CallEnd] = {}
        self._seen: set[str] = set()
        self.newest = -1  # the highest part number of a call that became whole

    def take(self, event: ev.CallEnd) -> list[ev.CallEnd]:
        """The calls that may leave now that this one is whole."""
        if event.id in self._seen:
            self._diagnostics.add("call-twice", f"call {event.id!r} was delivered before and is left out")
            return []
        self._seen.add(event.id)
        self.newest = max(self.newest, event.index)
        if not self._hold:
            return [event]
        self._held[event.id] = event
        return []

    def answered(self, event: ev.Result) -> bool:
        """Note a result. True if it means that a call of the client's was run already."""
        if event.partial or event.call not in self._held:
            return False
        name = self._held.pop(event.call).name
        self._diagnostics.add("already-run", f"call {event.call!r} of {name!r} was run upstream and is left out")
        return True

    def begin(self) -> None:
        """Another turn: its parts are numbered anew."""
        self.newest = -1

    def release(self) -> list[ev.CallEnd]:
        """The calls that waited, now that no result can follow."""
        held, self._held = self._held, {}
        return list(held.values())


def as_object(event: ev.CallEnd) -> tuple[str, str]:
    """The input as the JSON object that the host insists on, anything else wrapped in one; and what that loses."""
    if event.form == "text":
        return f'{{"input":{encoded(event.json).decode()}}}', "free-text"
    text = event.json.strip()
    if text.startswith("{"):
        return text, ""
    return "{}" if text == "null" else f'{{"input":{text}}}', "no-object"


def call_line(id: str, name: str, given: str, extra: Any) -> bytes:
    """A call as its line, with the input letter by letter as the model wrote it."""
    tail = b',"extra":%b}' % encoded(extra) if extra else b"}"
    return b'{"kind":"call","callId":%b,"name":%b,"input":%b%b' % (encoded(id), encoded(name), given.encode(), tail)
