"""The canonical events as NDJSON, read and written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import msgspec
from msgspec.structs import replace

from penstock import events as ev
from penstock._codec import Decoder, Encoder, Protocol
from penstock._grammar import Grammar
from penstock._input_limits import MAX_COUNT
from penstock._ledger import TRUNCATED
from penstock._ledger_base import drop_implausible_counts
from penstock._lenient_json import as_json, complete_json, is_json

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from penstock._diagnostics import Losses
    from penstock.events import Extra

NAME = "events"
_TAGS = frozenset(str(event.__struct_config__.tag) for event in ev.EVENTS)
_encode = msgspec.json.Encoder().encode


class EventsDecoder(Decoder):
    """Passes events on and drops those that the grammar forbids. A truncated stream ends with a fault.

    The end of a call must match its start. A call is delivered once per id, and only if its input is JSON.
    """

    protocol = NAME
    shape = ev.AnyEvent
    read = staticmethod(msgspec.json.Decoder(ev.AnyEvent).decode)
    prune = False

    def __init__(self) -> None:
        super().__init__()
        self._grammar = Grammar()
        self._calls: dict[int, tuple[ev.CallStart, list[str]]] = {}
        self._delivered: set[tuple[int, str]] = set()
        self.ledger.ended = True  # only a `Start` event opens a turn

    def _emit(self, event: ev.AnyEvent) -> bool:
        violation = self._grammar.judge(event)
        if violation:
            self.diagnostics.add("unlawful", f"an event is left out: {violation} at {type(event).__name__}")
        else:
            self.ledger.turns, self.ledger.is_open = 1, self._grammar.inside
            self.ledger.out.append(event)
        return not violation

    def _usage(self, event: ev.Usage) -> None:
        self._emit(drop_implausible_counts(event, self.diagnostics))

    def _start(self, event: ev.Start) -> None:
        if event.created is not None and not 0 <= event.created <= MAX_COUNT:
            event = replace(event, created=None)
        if self._emit(event):
            self._calls.clear()
            self._delivered.clear()

    def _call_start(self, event: ev.CallStart) -> None:
        if self._emit(event):
            self._calls[event.index] = event, []

    def _call_delta(self, event: ev.CallDelta) -> None:
        if self._emit(event):
            self._calls[event.index][1].append(event.json)

    def _call_end(self, event: ev.CallEnd | ev.CallCut) -> None:
        known = self._calls.get(event.index)
        if known is None:
            self._emit(event)
            return
        start, pieces = known
        streamed = "".join(pieces)
        if start.by == "client" and start.form == "json" and streamed and complete_json(streamed) is not None:
            # The end event does not matter: encoders that stream the input have already written all of it.
            self._close_call(self._build_call_end(start, streamed, event.extra, whole=True), broken=event.broken)
            return
        same = (event.id, event.name, event.by, event.form) == (start.id, start.name, start.by, start.form)
        end = self._build_call_end(start, event.json, event.extra, whole=same and type(event) is ev.CallEnd)
        if isinstance(end, ev.CallCut) and pieces:
            end = replace(end, json=streamed)  # the streamed input is the only one
        self._close_call(end, broken=event.broken)

    def _close_call(self, end: ev.CallEnd | ev.CallCut, *, broken: bool) -> None:
        del self._calls[end.index]
        self._emit(replace(end, broken=True) if broken else end)

    def _build_call_end(
        self, start: ev.CallStart, json: str, extra: Extra | None, *, whole: bool
    ) -> ev.CallEnd | ev.CallCut:
        call = start.choice, start.id
        input_json = complete_json(json) if start.form == "json" else json
        if whole and start.name and input_json is not None and call not in self._delivered:
            self._delivered.add(call)
            return ev.CallEnd(start.index, start.id, start.name, input_json, start.by, start.form, extra)
        return ev.CallCut(start.index, start.id, start.name, json, start.by, start.form, extra)

    def _result(self, event: ev.Result) -> None:
        """Converts a result that is not JSON to a JSON string, because encoders write it unchanged."""
        if not is_json(event.json):
            event = replace(event, json=complete_json(event.json) or as_json(event.json))
        self._emit(event)

    def _break_off(self, message: str) -> None:
        if not self._grammar.inside:
            self._emit(ev.Start())
        self.ledger.out += map(self._complete_end, self._grammar.close(broken=True))
        self._emit(ev.Fault("malformed", message))

    def finish(self) -> list[ev.AnyEvent]:
        if self._grammar.inside:
            ends = map(self._complete_end, self._grammar.close(broken=True))
            self.ledger.out += [*ends, ev.Fault("truncated", TRUNCATED)]
            return self.ledger.drain()  # repairs split surrogate pairs
        self.ledger.ended = False
        return super().finish()

    def _complete_end(self, end: Any) -> Any:
        """Returns the end of an open part. A call with complete input ends normally, even without its end event."""
        if not isinstance(end, ev.CallCut):
            return end
        known = self._calls.pop(end.index, None)
        if known is None:
            return end
        start, pieces = known
        completed = self._build_call_end(start, "".join(pieces), start.extra, whole=start.form == "json")
        return replace(completed, broken=end.broken)

    table: ClassVar[Mapping[type, Callable[[Any, Any], Any]]] = {
        **dict.fromkeys(ev.EVENTS, _emit),
        ev.Start: _start,
        ev.Usage: _usage,
        ev.CallStart: _call_start,
        ev.CallDelta: _call_delta,
        ev.CallEnd: _call_end,
        ev.CallCut: _call_end,
        ev.Result: _result,
    }


class EventsEncoder(Encoder):
    """Writes each event as one line."""

    protocol = NAME
    losses: ClassVar[Losses] = {}

    def _emit(self, event: ev.Event) -> None:
        self.out.append((b"", _encode(event)))

    table: ClassVar[Mapping[type, Callable[[Any, Any], None]]] = dict.fromkeys(ev.EVENTS, _emit)


def matches_payload(_: str, payload: dict[str, Any]) -> bool:
    """True for canonical events. The AI SDK has some of the same types, but none of these fields."""
    fields = {"id", "model", "created"} if payload.get("type") == "start" else {"index", "reason", "kind"}
    return payload.get("type") in _TAGS and not fields.isdisjoint(payload)


PROTOCOL = Protocol(NAME, matches_payload, EventsDecoder, EventsEncoder, reads="ndjson", writes="ndjson")
