"""The replay provider: packaged streams, so that every client can be tried with no key and no network.

`answer` returns the provider's answer to a request, `play` one script by name, `wire` its bytes in any protocol.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from penstock import events as ev
from penstock._replay import agent, vectors
from penstock._replay.scripts import describe_scripts, play, play_parts, scripts
from penstock._replay.wire_encoding import encode_events
from penstock.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from penstock.events import AnyEvent
    from penstock.request import Request

__all__ = [
    "AGENT",
    "FULL",
    "NATURAL",
    "Pace",
    "answer",
    "check_model",
    "describe_scripts",
    "find_script",
    "iterate_wire_cases",
    "paced",
    "play",
    "scripts",
    "wire",
]
PREFIX = "replay/"
AGENT = "agent"
_DEFAULT = "text"
_DELTAS = (ev.TextDelta, ev.ReasoningDelta, ev.RefusalDelta, ev.CallDelta)


def find_script(model: str) -> str:
    """Returns the script of a model's name, with or without `replay/`; without a name, the script `text`."""
    name = model.removeprefix(PREFIX)
    if name in describe_scripts():
        return name
    if not model:
        return _DEFAULT
    raise InputError(f"no packaged model {model!r}; there are: {', '.join(PREFIX + one for one in describe_scripts())}")


def check_model(model: str) -> None:
    """Raises if there is no packaged model of this name."""
    if model.removeprefix(PREFIX) not in (vectors.EMBED, vectors.RANK):
        find_script(model)


def answer(request: Request, *, id: str = "replay", created: int = 0, prompt_tokens: int = 0) -> list[AnyEvent]:
    """Returns the events of the answer, within the settings of the request. `prompt_tokens`: if they are known."""
    name = find_script(request.model)
    model = request.model or PREFIX + name
    results = agent.latest_results(request)
    settings = request.settings
    if name == AGENT:
        parts = agent.reply_parts(request, results, id)
        return play_parts(parts, id=id, model=model, created=created, prompt_tokens=prompt_tokens, settings=settings)
    if results:
        name = "after-tool"
    return play(name, id=id, model=model, created=created, prompt_tokens=prompt_tokens, settings=settings)


def wire(name: str, protocol: str, *, stream: bool = True) -> bytes:
    """Returns a script's bytes as a provider of that protocol sends them.

    Examples:
        >>> wire("text", "anthropic").splitlines()[0]
        b'event: message_start'
    """
    return b"".join(encode_events(protocol, play(find_script(name)), stream=stream))


def iterate_wire_cases(protocol: str) -> Iterator[tuple[str, bytes, list[AnyEvent]]]:
    """Yields every script in a protocol: its name, its bytes and its events."""
    for name in describe_scripts():
        yield name, wire(name, protocol), play(name)


class Pace(msgspec.Struct, frozen=True):
    """Seconds before the first delta, between two deltas, and between two deltas of reasoning."""

    first: float = 0.0
    delta: float = 0.0
    reasoning: float = 0.0

    def wait_before(self, event: AnyEvent, *, begun: bool) -> float:
        """Returns how long to wait before an event is sent."""
        if not isinstance(event, _DELTAS):
            return 0.0
        pause = self.reasoning if isinstance(event, ev.ReasoningDelta) else self.delta
        return pause if begun else self.first


NATURAL = Pace(first=0.25, delta=0.02, reasoning=0.01)
FULL = Pace()


def paced(events: Iterable[AnyEvent], pace: Pace = NATURAL) -> Iterator[tuple[float, AnyEvent]]:
    """Yields each event with the seconds to wait before it."""
    begun = False
    for event in events:
        yield pace.wait_before(event, begun=begun), event
        begun = begun or isinstance(event, _DELTAS)
