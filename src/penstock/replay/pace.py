"""How fast a packaged stream is played: as a model would speak, or as fast as it can be read."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from penstock import events as ev

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from penstock.events import AnyEvent

_DELTAS = (ev.TextDelta, ev.ReasoningDelta, ev.RefusalDelta, ev.CallDelta)


class Pace(msgspec.Struct, frozen=True):
    """Seconds: before the first word, and between two of what is said. A thought is quicker than a word."""

    first: float = 0.0
    word: float = 0.0
    thought: float = 0.0

    def before(self, event: AnyEvent, *, begun: bool) -> float:
        """How long to wait before an event is sent."""
        if not isinstance(event, _DELTAS):
            return 0.0
        between = self.thought if isinstance(event, ev.ReasoningDelta) else self.word
        return between if begun else self.first


NATURAL = Pace(first=0.25, word=0.02, thought=0.01)
FULL = Pace()


def paced(events: Iterable[AnyEvent], pace: Pace = NATURAL) -> Iterator[tuple[float, AnyEvent]]:
    """Each event, and the seconds to wait before it."""
    begun = False
    for event in events:
        yield pace.before(event, begun=begun), event
        begun = begun or isinstance(event, _DELTAS)
