"""`speak("anthropic", events)`: the bytes a provider of that protocol would send, as a stream or as one body.

Leans on the encoders, and on `voices` for protocols that have none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock import _protocols as protocols
from penstock import events as ev
from penstock._bridge import encoding, write_body
from penstock._framing import WRITERS
from penstock._pipeline import Pipe
from penstock._testing.provider_encoders import PROVIDER_ENCODERS
from penstock._transforms.serialize import SerializeParts as InOrder

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

TYPES = {
    "sse": "text/event-stream",
    "ndjson": "application/x-ndjson",
    "eventstream": "application/vnd.amazon.eventstream",
    "jsonarray": "application/json",
    "eventstream+sse": "application/vnd.amazon.eventstream",
    "sse+json": "text/event-stream",
}
JSON = "application/json"


def speak(
    protocol: str,
    events: Sequence[ev.AnyEvent],
    *,
    stream: bool = True,
    framing: str = "",
    options: Mapping[str, Any] | None = None,
) -> list[bytes]:
    """A chunk for each event that says something; one chunk for a body. `framing`: another than the protocol's own."""
    if not stream:
        return [_whole(protocol, events, options)]
    pipe = _pipe(protocol, options, framing)
    out = [b"".join(pipe.feed([event])) for event in events]
    return [chunk for chunk in (*out, b"".join(pipe.finish())) if chunk]


def media(protocol: str, *, stream: bool = True, framing: str = "") -> str:
    """The content type of the same."""
    return TYPES[framing or _framing(protocol)] if stream else JSON


def error_body(protocol: str, fault: ev.Fault) -> bytes:
    """What stands in place of an answer that is refused."""
    return _whole(protocol, [ev.Start(), fault], None)


def _framing(protocol: str) -> str:
    voice = PROVIDER_ENCODERS.get(protocol)
    return voice.framing if voice else protocols.protocol(protocol).writes


def _pipe(protocol: str, options: Mapping[str, Any] | None, framing: str) -> Pipe:
    voice = PROVIDER_ENCODERS.get(protocol)
    write = WRITERS[framing or _framing(protocol)]()
    if voice is not None:
        return Pipe(InOrder(), voice(), write)
    return Pipe(*encoding(protocol, options, frames=True).stages, write)


def _whole(protocol: str, events: Sequence[ev.AnyEvent], options: Mapping[str, Any] | None) -> bytes:
    voice = PROVIDER_ENCODERS.get(protocol)
    if voice is not None:
        return voice.whole(events)
    body = protocols.protocol(protocol).body
    pipe = encoding(protocol, options, frames=body is not None)
    out: list[Any] = [*pipe.feed(events), *pipe.finish()]
    return write_body(body, out) if body is not None else b"".join(out)
