"""Which calls leave, once each, and with what input. Knows nothing of whose call it is: the events say that."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.protocols.vscode.parts import encoded

if TYPE_CHECKING:
    from penstock import events as ev
    from penstock.diagnostics import Diagnostics


class Calls:
    """The calls of a stream that were delivered."""

    def __init__(self, diagnostics: Diagnostics) -> None:
        self._diagnostics = diagnostics
        self._seen: set[str] = set()
        self._newest = -1  # the highest part number of a call that became whole

    def begin(self) -> None:
        """Another turn: its parts are numbered anew."""
        self._newest = -1

    def first(self, event: ev.CallEnd) -> bool:
        """Whether the call was not delivered before."""
        if event.id in self._seen:
            self._diagnostics.add("call-twice", f"call {event.id!r} was delivered before and is left out")
            return False
        self._seen.add(event.id)
        return True

    def late(self, event: ev.CallEnd) -> bool:
        """Whether a call that opened after this one became whole before it."""
        self._newest = max(self._newest, event.index)
        return event.index < self._newest


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
