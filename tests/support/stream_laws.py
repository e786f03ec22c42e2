"""What must hold of events on their way to a target, whatever they are.

What a target is sent is read again: nothing may be lost in silence (`tests/data/excuses.toml` says which facets of a turn
a reported loss excuses), nothing becomes callable that was not, and a whole body says what the stream says.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import penstock
from penstock import events as ev
from tests.support import run_streams as running
from tests.support import turn_facets as facets

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from penstock.events import AnyEvent

READABLE = [name for name in running.targets() if running.row(name).decoder]
BODIES = [name for name in running.targets() if running.row(name).body]
UNWHOLE = {"cuts", "unknown", "spans", "steps"}
"""Half a call, an unknown payload and the steps on the way have no place in a body; a failed one is just an error."""


def problems(target: str, events: Sequence[AnyEvent], *, body: bool = True) -> Iterator[str]:
    """Every law that the target's frames break, in words."""
    encoder = penstock.encoder(target)
    frames = running.encoded(encoder, events, sequential=running.row(target).sequential)
    if target in READABLE:
        again = running.read_back(target, frames)
        if not isinstance(again[-1], type(events[-1])):
            yield f"it ends in {again[-1]}"
        if lost := facets.changed(events, again) - facets.excused(target, encoder.diagnostics):
            yield f"lost in silence: {sorted(lost)}"
        if running.has_provider_run(events) and (found := running.leaked(target, events)):
            yield f"the client could run what the provider runs: {found}"
    if body and target in BODIES:
        for turn in running.turns(events):
            if different := _unlike_body(target, turn):
                yield f"the body differs: {sorted(different)}"


def _unlike_body(target: str, turn: Sequence[AnyEvent]) -> set[str]:
    """The facets in which a whole body means something else than the stream that it is made from."""
    make = running.row(target).body
    assert make is not None
    frames = running.encode(target, turn)
    streamed = running.read_back(target, frames)
    whole = running.decode_body(target, make(frames), running.READ_BACK.get(target))
    different = facets.changed(streamed, whole, settled=True) - UNWHOLE
    if target == "uistream":
        different -= {"opaque"}  # the answer to a request for approval, which there is a field of the tool's part
    return different & {"fault"} if isinstance(turn[-1], ev.Fault) else different
