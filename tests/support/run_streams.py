"""How the tests run a stream: bytes to lawful events in any cutting, events to frames and bytes, whatever the protocol.

Leans on the public stages alone. The guard is strict here: an unlawful event is an exception, never a fault.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from penstock import _protocols as protocols
from penstock import events as ev
from penstock._grammar import Guard
from penstock._pipeline import Pipe
from penstock._transforms.serialize import SerializeParts as Sequential
from penstock.framing import PARSERS, WRITERS, BedrockChunks

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from penstock._codec import Decoder, Encoder, Protocol
    from penstock._pipeline import Stage
    from penstock.events import AnyEvent
    from penstock.framing import Frame

LONG = 20_000
NAMES = tuple(protocols.MODULES)
"""Every protocol there is."""


def row(name: str) -> Protocol:
    return protocols.protocol(name)


def sources() -> list[str]:
    return [name for name in NAMES if row(name).decoder]


def targets() -> list[str]:
    return [name for name in NAMES if row(name).encoder]


def versions(target: str) -> list[str]:
    """The target's name, and that with each of its versions."""
    return [target, *(f"{target}@{version}" for version in row(target).versions)]


# ── bytes → events ────────────────────────────────────────────────────────────────────────────────


def batches(chunks: Iterable[bytes], framing: str = "auto") -> list[list[Frame]]:
    """The frames that each chunk completes, and last those that the end does."""
    parser, inner = PARSERS[framing](), BedrockChunks()
    found = [parser.feed([chunk]) for chunk in chunks]
    return [inner.feed(frames) for frames in [*found, parser.finish()]]


def frames_of(body: bytes, framing: str = "auto") -> list[Frame]:
    return _joined(batches([body], framing))


class Run:
    """One decoder's reading of a stream: its events and what it noted."""

    def __init__(self, decoder: Decoder, *, strict: bool = True) -> None:
        self.decoder = decoder
        self.events: list[AnyEvent] = []
        self._guard = Guard(strict=strict)

    def feed(self, frames: Sequence[Frame]) -> None:
        self.events += self._guard.feed(self.decoder.feed(frames))

    def finish(self) -> Run:
        self.events += self._guard.feed(self.decoder.finish())
        self.events += self._guard.finish()
        return self

    @property
    def codes(self) -> set[str]:
        return {finding.code for finding in self.decoder.diagnostics}


def run(
    source: str, batches: Iterable[Sequence[Frame]], options: Mapping[str, Any] | None = None, *, strict: bool = True
) -> Run:
    """Read batches of frames to the end."""
    book = Run(protocols.decoder(source, **(options or {})), strict=strict)
    for frames in batches:
        book.feed(frames)
    return book.finish()


def decode(
    source: str, body: bytes, framing: str = "auto", options: Mapping[str, Any] | None = None, *, strict: bool = True
) -> list[AnyEvent]:
    """The events of a whole stream, fed in one piece."""
    return run(source, batches([body], framing), options, strict=strict).events


def decode_body(source: str, body: bytes, options: Mapping[str, Any] | None = None) -> list[AnyEvent]:
    """The events of an answer that was not streamed."""
    decoder, guard = protocols.decoder(source, **(options or {})), Guard(strict=True)
    return [*guard.feed(decoder.body(body)), *guard.finish()]


def is_lawful(events: Sequence[AnyEvent]) -> bool:
    """Whether a strict guard lets all of them through as they are."""
    return Guard(strict=True).feed(list(events)) == list(events)


def body_of(protocol: str, data: bytes) -> bytes:
    """The message that a client of a protocol builds from a stream."""
    body = protocols.protocol(protocol).body
    assert body is not None
    return body(frames_of(data, "sse"))


def turns(events: Iterable[AnyEvent]) -> list[list[AnyEvent]]:
    """The events of each turn."""
    found: list[list[AnyEvent]] = []
    for event in events:
        if isinstance(event, ev.Start):
            found.append([])
        found[-1].append(event)
    return found


def callable_calls(events: Iterable[AnyEvent]) -> Counter[str]:
    """The names of the calls that the client must run."""
    return Counter(event.name for event in events if isinstance(event, ev.CallEnd) and event.by == "client")


def has_provider_run(events: Iterable[AnyEvent]) -> bool:
    return any(isinstance(event, ev.CallStart) and event.by == "provider" for event in events)


# ── cutting ───────────────────────────────────────────────────────────────────────────────────────


def halves(body: bytes, places: Iterable[int] | None = None) -> Iterator[list[bytes]]:
    """The body cut in two, at every place or at those."""
    return ([body[:at], body[at:]] for at in places or range(1, len(body)))


def singles(body: bytes) -> list[bytes]:
    return crumbs(body, 1)


def crumbs(body: bytes, size: int) -> list[bytes]:
    return [body[at : at + size] for at in range(0, len(body), size)]


def steady(
    source: str, body: bytes, framing: str = "auto", options: Mapping[str, Any] | None = None,
    places: Iterable[int] | None = None,
) -> list[AnyEvent]:  # fmt: skip
    """The events of a stream, having made sure that they are the same cut in two anywhere, and in crumbs.

    Crumbs are single bytes, of a long stream a few. What a decoder does depends on its batches alone, so equal batches
    need no second run.
    """
    frames, events, known = _joined(batches([body], framing)), decode(source, body, framing, options), set[Any]()
    for chunks in [*halves(body, places), crumbs(body, 1 if len(body) <= LONG else 7)]:
        found = batches(chunks, framing)
        assert _joined(found) == frames
        shape = tuple(map(len, found))
        if shape not in known:
            known.add(shape)
            assert run(source, found, options).events == events
    return events


def _joined(batches: Iterable[Sequence[Frame]]) -> list[Frame]:
    return [frame for batch in batches for frame in batch]


# ── events → bytes ────────────────────────────────────────────────────────────────────────────────


def encode(target: str, events: Sequence[AnyEvent], options: Mapping[str, Any] | None = None) -> list[Frame]:
    """The frames that a target is sent, all events given at once."""
    return encoded(protocols.encoder(target, **(options or {})), events, sequential=row(target).sequential)


def encoded(encoder: Encoder, events: Sequence[AnyEvent], *, sequential: bool) -> list[Frame]:
    order = Sequential()
    ready = [*order.feed(events), *order.finish()] if sequential else events
    return [*encoder.feed(ready), *encoder.finish()]


def pipe_to(target: str, options: Mapping[str, Any] | None = None) -> Pipe[AnyEvent, Frame]:
    """Events to the frames of a target, for who feeds them bit by bit."""
    order: list[Stage[Any, Any]] = [Sequential()] if row(target).sequential else []
    return Pipe(*order, protocols.encoder(target, **(options or {})))


def write(target: str, events: Sequence[AnyEvent], options: Mapping[str, Any] | None = None) -> bytes:
    """The bytes that a target is sent."""
    writer = WRITERS[row(target).writes]()
    return b"".join([*writer.feed(encode(target, events, options)), *writer.finish()])


READ_BACK = {"openai-chat": {"think": False}}
"""How our own output is read back: an encoder never writes reasoning between tags, so tags there are text."""


def read_back(target: str, frames: Sequence[Frame]) -> list[AnyEvent]:
    return run(target.partition("@")[0], [frames], READ_BACK.get(target)).events


def leaked(target: str, events: Sequence[AnyEvent]) -> dict[str, Counter[str]]:
    """What the readers of a target, in each of its versions, would run though nobody asked them to."""
    found = {name: callable_calls(run(target, [encode(name, events)]).events) for name in versions(target)}
    return {name: more for name, calls in found.items() if (more := calls - callable_calls(events))}


def write_slowly(target: str, events: Sequence[AnyEvent], options: Mapping[str, Any] | None = None) -> bytes:
    """The same, one event at a time."""
    pipe = Pipe(*pipe_to(target, options).stages, WRITERS[row(target).writes]())
    return b"".join([*(chunk for event in events for chunk in pipe.feed([event])), *pipe.finish()])
