"""What the replay provider says to a request: the script its model's name means, or what an agent would do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.errors import InputError
from penstock.replay import agent
from penstock.replay.playing import offered, play, told
from penstock.testing.speaking import speak

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.events import AnyEvent
    from penstock.request import Request

PREFIX = "replay/"
AGENT = "agent"
_DEFAULT = "text"


def named(model: str) -> str:
    """The script that a model's name means, with or without `replay/`; the plain text for no name."""
    name = model.removeprefix(PREFIX)
    if name in offered():
        return name
    if not model:
        return _DEFAULT
    raise InputError(f"no packaged model {model!r}; there are: {', '.join(PREFIX + one for one in offered())}")


def answer(request: Request, *, id: str = "replay", created: int = 0, asked: int = 0) -> list[AnyEvent]:
    """The events of the answer, in the form that was asked for. `asked`: the size of the prompt, if it is known."""
    name = named(request.model)
    model = request.model or PREFIX + name
    results = agent.results(request)
    settings = request.settings
    if name == AGENT:
        parts = agent.reply(request, results, id)
        return told(parts, id=id, model=model, created=created, asked=asked, settings=settings)
    if results:
        name = "after-tool"
    return play(name, id=id, model=model, created=created, asked=asked, settings=settings)


def wire(name: str, protocol: str, *, stream: bool = True) -> bytes:
    """A script's bytes, as a provider of that protocol would send them."""
    return b"".join(speak(protocol, play(named(name)), stream=stream))


def cases(protocol: str) -> Iterator[tuple[str, bytes, list[AnyEvent]]]:
    """Every script in a protocol: its name, its bytes, and the events they were made of."""
    for name in offered():
        yield name, wire(name, protocol), play(name)
