"""The canonical events themselves as NDJSON, in and out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import msgspec
from msgspec.structs import replace

from penstock import events as ev
from penstock.codec import Decoder, Encoder, Losses, Protocol
from penstock.grammar import Grammar
from penstock.input_limits import MAX_COUNT
from penstock.jsontext import as_json, complete_json, is_json
from penstock.ledger import TRUNCATED
from penstock.ledger_parts import drop_implausible_counts

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from penstock.events import Extra

NAME = "events"
TAGS = frozenset(str(event.__struct_config__.tag) for event in ev.EVENTS)
_encode = msgspec.json.Encoder().encode


class EventsDecoder(Decoder):
    """Reads events as they are, but for those the grammar forbids; a stream that broke off ends in a fault.

    A call is held to what its start said, and is let out whole once per id, with an input that is JSON, or not at all.
    """

    protocol = NAME
    shape = ev.AnyEvent
    read = staticmethod(msgspec.json.Decoder(ev.AnyEvent).decode)
    prune = False

    def __init__(self) -> None:
        super().__init__()
        self._grammar = Grammar()
        self._calls: dict[int, tuple[ev.CallStart, list[str]]] = {}
        self._given: set[tuple[int, str]] = set()
        self.ledger.ended = True  # it opens no turn by itself: only a `Start` does here

    def _any(self, event: ev.AnyEvent) -> bool:
        wrong = self._grammar.judge(event)
        if wrong:
            self.diagnostics.add("unlawful", f"an event is left out: {wrong} at {type(event).__name__}")
        else:
            self.ledger.turns, self.ledger.is_open = 1, self._grammar.inside
            self.ledger.out.append(event)
        return not wrong

    def _usage(self, event: ev.Usage) -> None:
        self._any(drop_implausible_counts(event, self.diagnostics))

    def _start(self, event: ev.Start) -> None:
        if event.created is not None and not 0 <= event.created <= MAX_COUNT:
            event = replace(event, created=None)
        if self._any(event):
            self._calls.clear()
            self._given.clear()

    def _call_start(self, event: ev.CallStart) -> None:
        if self._any(event):
            self._calls[event.index] = event, []

    def _call_delta(self, event: ev.CallDelta) -> None:
        if self._any(event):
            self._calls[event.index][1].append(event.json)

    def _call_end(self, event: ev.CallEnd | ev.CallCut) -> None:
        known = self._calls.get(event.index)
        if known is None:
            self._any(event)
            return
        start, pieces = known
        streamed = "".join(pieces)
        if start.by == "client" and start.form == "json" and streamed and complete_json(streamed) is not None:
            # Whatever its end says: targets that stream the input have shown all of it by now.
            self._close_call(self._judged(start, streamed, event.extra, whole=True), broken=event.broken)
            return
        same = (event.id, event.name, event.by, event.form) == (start.id, start.name, start.by, start.form)
        end = self._judged(start, event.json, event.extra, whole=same and type(event) is ev.CallEnd)
        if isinstance(end, ev.CallCut) and pieces:
            end = replace(end, json=streamed)  # what was streamed is what there is of it
        self._close_call(end, broken=event.broken)

    def _close_call(self, end: ev.CallEnd | ev.CallCut, *, broken: bool) -> None:
        del self._calls[end.index]
        self._any(replace(end, broken=True) if broken else end)

    def _judged(self, start: ev.CallStart, json: str, extra: Extra | None, *, whole: bool) -> ev.CallEnd | ev.CallCut:
        call = start.choice, start.id
        good = complete_json(json) if start.form == "json" else json
        if whole and start.name and good is not None and call not in self._given:
            self._given.add(call)
            return ev.CallEnd(start.index, start.id, start.name, good, start.by, start.form, extra)
        return ev.CallCut(start.index, start.id, start.name, json, start.by, start.form, extra)

    def _result(self, event: ev.Result) -> None:
        """Encoders write the JSON of a result as it is, so it must be JSON; other text becomes a JSON string."""
        if not is_json(event.json):
            event = replace(event, json=complete_json(event.json) or as_json(event.json))
        self._any(event)

    def _break_off(self, message: str) -> None:
        if not self._grammar.inside:
            self._any(ev.Start())
        self.ledger.out += map(self._closed, self._grammar.close(broken=True))
        self._any(ev.Fault("malformed", message))

    def finish(self) -> list[ev.AnyEvent]:
        if self._grammar.inside:
            ends = map(self._closed, self._grammar.close(broken=True))
            self.ledger.out += [*ends, ev.Fault("truncated", TRUNCATED)]
            return self.ledger.drain()  # which mends half characters
        self.ledger.ended = False
        return super().finish()

    def _closed(self, end: Any) -> Any:
        """An open part's end. A call whose input is whole only lacks the word for it."""
        if not isinstance(end, ev.CallCut):
            return end
        known = self._calls.pop(end.index, None)
        if known is None:
            return end
        start, pieces = known
        judged = self._judged(start, "".join(pieces), start.extra, whole=start.form == "json")
        return replace(judged, broken=end.broken)

    table: ClassVar[Mapping[type, Callable[[Any, Any], Any]]] = {
        **dict.fromkeys(ev.EVENTS, _any),
        ev.Start: _start,
        ev.Usage: _usage,
        ev.CallStart: _call_start,
        ev.CallDelta: _call_delta,
        ev.CallEnd: _call_end,
        ev.CallCut: _call_end,
        ev.Result: _result,
    }


class EventsEncoder(Encoder):
    """Writes every event as one line."""

    protocol = NAME
    losses: ClassVar[Losses] = {}

    def _any(self, event: ev.Event) -> None:
        self.out.append((b"", _encode(event)))

    table: ClassVar[Mapping[type, Callable[[Any, Any], None]]] = dict.fromkeys(ev.EVENTS, _any)


def looks(_: str, payload: dict[str, Any]) -> bool:
    """Whether a payload is of this protocol: the AI SDK's have some of the same types, but none of these fields."""
    wanted = {"id", "model", "created"} if payload.get("type") == "start" else {"index", "reason", "kind"}
    return payload.get("type") in TAGS and not wanted.isdisjoint(payload)


PROTOCOL = Protocol(NAME, looks, EventsDecoder, EventsEncoder, reads="ndjson", writes="ndjson")
