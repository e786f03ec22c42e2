"""What the replay provider says to a request: the script its model's name means, or what an agent would do."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from penstock import events as ev
from penstock._replay import agent
from penstock._replay.scripts import describe_scripts, play, play_parts
from penstock._testing.wire_encoding import encode_events
from penstock.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from penstock.events import AnyEvent
    from penstock.request import Request

PREFIX = "replay/"
AGENT = "agent"
_DEFAULT = "text"


def find_script(model: str) -> str:
    """The script that a model's name means, with or without `replay/`; the plain text for no name."""
    name = model.removeprefix(PREFIX)
    if name in describe_scripts():
        return name
    if not model:
        return _DEFAULT
    raise InputError(f"no packaged model {model!r}; there are: {', '.join(PREFIX + one for one in describe_scripts())}")


def answer(request: Request, *, id: str = "replay", created: int = 0, asked: int = 0) -> list[AnyEvent]:
    """The events of the answer, in the form that was asked for. `asked`: the size of the prompt, if it is known."""
    name = find_script(request.model)
    model = request.model or PREFIX + name
    results = agent.results(request)
    settings = request.settings
    if name == AGENT:
        parts = agent.reply(request, results, id)
        return play_parts(parts, id=id, model=model, created=created, asked=asked, settings=settings)
    if results:
        name = "after-tool"
    return play(name, id=id, model=model, created=created, asked=asked, settings=settings)


def wire(name: str, protocol: str, *, stream: bool = True) -> bytes:
    """A script's bytes, as a provider of that protocol would send them."""
    return b"".join(encode_events(protocol, play(find_script(name)), stream=stream))


def iterate_wire_cases(protocol: str) -> Iterator[tuple[str, bytes, list[AnyEvent]]]:
    """Every script in a protocol: its name, its bytes, and the events they were made of."""
    for name in describe_scripts():
        yield name, wire(name, protocol), play(name)


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
