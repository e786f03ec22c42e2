"""Events → typed parts, for a caller in the same process: the encoder without its last step.

The encoder makes every decision. Starts, usage and ends are not parts; they are attributes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec

from penstock import events as ev
from penstock._codec import ILL_SHAPED
from penstock._jsontext import decode_or_keep_raw
from penstock._lenient_fields import as_object
from penstock._markers import RAW_INPUT_KEY
from penstock._protocols.vscode import wire
from penstock._protocols.vscode.encode import VSCodeEncoder
from penstock._protocols.vscode.wire import DataPart, HostPart, Part, TextPart, ThinkingPart, ToolCallPart
from penstock.errors import PenstockError, StreamFault

if TYPE_CHECKING:
    from penstock.events import AnyEvent


class PartMaker(VSCodeEncoder):
    """Creates part objects from events."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.made: list[HostPart] = []
        self.ending: ev.Finish | None = None
        self.fault: ev.Fault | None = None
        self.spendings: list[ev.Usage] = []  # of each turn that ended
        self.cuts: list[ev.CallCut] = []

    def parts(self, events: Sequence[AnyEvent]) -> list[HostPart]:
        """The parts of these events."""
        self.made = []
        for event in self.shaped(events):
            try:
                self.table[type(event)](self, event)
            except ILL_SHAPED as error:
                self._ill(event, error)
        return self.made

    def last_parts(self) -> list[HostPart]:
        """Returns the last parts, after the last event."""
        self.made = []
        self.finish()
        return self.made

    def put(self, part: Part) -> None:
        if type(part) is TextPart:
            self.made.append(part if part.value.isascii() else TextPart(_carried(part.value), part.refusal))
        elif isinstance(part, ThinkingPart | ToolCallPart | DataPart):
            self.made.append(part)

    def _think(self, event: ev.ReasoningDelta) -> None:
        self.made.append(ThinkingPart(_carried(event.text), self._round.thoughts[event.index].id))

    def _deliver(self, id: str, name: str, given: str, extra: Any) -> None:
        value: Any = decode_or_keep_raw(given)
        if not isinstance(value, dict):
            self.diagnostics.add("too-deep", f"the input of {name!r} nests too deeply for an object; it is one string")
            value = {RAW_INPUT_KEY: given}
        self.made.append(ToolCallPart(id, name, as_object(value), extra))

    def _note_finish(self, event: ev.Finish) -> None:
        self.ending = event
        self._finish(event)

    def _note_fault(self, event: ev.Fault) -> None:
        self.fault = event
        self._fault(event)

    def _note_cut(self, event: ev.CallCut) -> None:
        self.cuts.append(event)
        self._call_cut(event)

    def _settle(self) -> None:
        super()._settle()
        spent = wire.spent(self.usages)
        if spent is not None:
            self.spendings.append(spent)

    def _no_line(self, event: ev.Unknown) -> None:
        """Reports an unknown payload as lost; it is never output."""
        self.report_loss("unknown")

    table: ClassVar[Mapping[type, Callable[[Any, Any], None]]] = {
        **VSCodeEncoder.table,
        ev.Finish: _note_finish,
        ev.Fault: _note_fault,
        ev.CallCut: _note_cut,
        ev.Unknown: _no_line,
    }


def _carried(text: str) -> str:
    """Returns the text without lone surrogates, which UTF-8 cannot encode."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def as_json(item: Any) -> bytes:
    """Any object as JSON: plain data, Structs and dataclasses, models with `model_dump`, objects with attributes."""
    try:
        return msgspec.json.encode(item, enc_hook=_plain)
    except (TypeError, ValueError, OverflowError, RecursionError):  # half an emoji, keys of odd types
        try:
            return json.dumps(item, default=_plain, skipkeys=True).encode()
        except (TypeError, ValueError, RecursionError):
            return msgspec.json.encode(ascii(item))


def _plain(item: Any) -> Any:
    if isinstance(item, BaseException):
        return {"name": type(item).__name__, "message": str(item)}
    dump = getattr(item, "model_dump", None)
    if callable(dump):
        return dump(mode="json", by_alias=True, exclude_none=True)
    if isinstance(item, Mapping):
        return dict(item)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
    fields: Any = getattr(item, "__dict__", None)
    return repr(item) if fields is None else fields


def from_json(data: bytes) -> Any:
    """The value, or the text as it is."""
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, ValueError, RecursionError):  # bytes that are no UTF-8 are a ValueError
        return data.decode("utf-8", "replace")


def fault_of(error: Exception) -> ev.Fault:
    """An exception of the transport, or of reading its bytes."""
    if isinstance(error, StreamFault):
        return error.fault
    kind: ev.FaultKind = "timeout" if isinstance(error, TimeoutError) else "network"
    if isinstance(error, PenstockError):
        kind = "malformed"
    return ev.Fault(kind, str(error) or type(error).__name__, code=type(error).__name__)
