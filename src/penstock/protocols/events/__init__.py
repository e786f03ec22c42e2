"""The canonical events themselves as NDJSON, in and out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import msgspec

from penstock import events as ev
from penstock.codec import Decoder, Encoder, Losses, Protocol
from penstock.grammar import Grammar
from penstock.parts import TRUNCATED

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

NAME = "events"
TAGS = frozenset(str(event.__struct_config__.tag) for event in ev.EVENTS)
_encode = msgspec.json.Encoder().encode


class EventsDecoder(Decoder):
    """Reads events as they are, but for those the grammar forbids; a stream that broke off ends in a fault."""

    protocol = NAME
    shape = ev.AnyEvent
    read = staticmethod(msgspec.json.Decoder(ev.AnyEvent).decode)
    prune = False

    def __init__(self) -> None:
        super().__init__()
        self._grammar = Grammar()
        self.ledger.ended = True  # it opens no turn by itself: only a `Start` does here

    def _any(self, event: ev.AnyEvent) -> None:
        wrong = self._grammar.judge(event)
        if wrong:
            self.diagnostics.add("unlawful", f"an event is left out: {wrong} at {type(event).__name__}")
        else:
            self.ledger.turns, self.ledger.inside = 1, self._grammar.inside
            self.ledger.out.append(event)

    def finish(self) -> list[ev.AnyEvent]:
        if self._grammar.inside:
            return [*self._grammar.close(), ev.Fault("truncated", TRUNCATED)]
        self.ledger.ended = False
        return super().finish()

    table: ClassVar[Mapping[type, Callable[[Any, Any], None]]] = dict.fromkeys(ev.EVENTS, _any)


class EventsEncoder(Encoder):
    """Writes every event as one line."""

    protocol = NAME
    losses: ClassVar[Losses] = {}

    def _any(self, event: ev.Event) -> None:
        self.out.append((b"", _encode(event)))

    table: ClassVar[Mapping[type, Callable[[Any, Any], None]]] = dict.fromkeys(ev.EVENTS, _any)


def looks(_: str, payload: dict[str, Any]) -> bool:
    """Whether a payload is of this protocol."""
    return payload.get("type") == "start" and bool({"model", "created"} & set(payload))


PROTOCOL = Protocol(NAME, looks, EventsDecoder, EventsEncoder, reads="ndjson", writes="ndjson")
