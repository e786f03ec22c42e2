"""Detects the protocol of a stream: the first protocol whose `looks` accepts one of the first frames.

`guess` reads bytes that are there already. `DetectingDecoder` is the stage for live streams: it holds frames until the
protocol is known, then decodes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock import _protocols as protocols
from penstock._codec import ILL_SHAPED, Decoder
from penstock._framing import PARSERS
from penstock._framing.base import LIMIT, Frame
from penstock._lenient_json import parse_lenient
from penstock.errors import UnknownProtocol, Unrecognised

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from penstock._diagnostics import Diagnostic
    from penstock.events import AnyEvent

FRAMES = 64
"""The number of frames after which detection fails."""

_READ = 64 * 1024  # bytes that are parsed at a time: the first batch is nearly always enough


def guess(prefix: bytes, framing: str = "auto", limit: int = LIMIT) -> str:
    r"""Returns the protocol of a stream that begins with these bytes. Raises an `InputError` with the known names.

    Examples:
        >>> guess(b'event: message_start\ndata: {"type":"message_start","message":{"id":"m"}}\n\n')
        'anthropic'
    """
    if framing not in PARSERS:
        raise UnknownProtocol(framing, PARSERS, "framing")
    seen = 0
    for batch in _batches(prefix, framing, limit):
        if name := guess_protocol(batch):
            return name
        seen += len(batch)
        if seen >= FRAMES:
            break
    raise Unrecognised(seen, protocols.MODULES)


def guess_protocol(frames: Iterable[Frame]) -> str | None:
    """Returns the protocol of a stream that begins with these frames, if it can be recognised."""
    for label, data in frames:
        payload = parse_lenient(data)
        if not isinstance(payload, dict):
            continue
        for name in protocols.MODULES:
            if _looks(name, label.decode("utf-8", "replace"), payload):  # pyright: ignore[reportUnknownArgumentType]
                return name
    return None


def _batches(data: bytes, framing: str, limit: int) -> Iterator[list[Frame]]:
    parser = PARSERS[framing](limit=limit)
    for start in range(0, len(data), _READ):
        yield parser.feed([data[start : start + _READ]])
    yield parser.finish()


def _looks(name: str, label: str, payload: dict[str, Any]) -> bool:
    """True if a protocol accepts the payload. An error in its check means that it is another's."""
    try:
        return protocols.protocol(name).looks(label, payload)
    except ILL_SHAPED:
        return False


class DetectingDecoder:
    """Frames to events of a protocol that is detected. `protocol` is its name, once known."""

    def __init__(self, options: Mapping[str, Any] | None = None) -> None:
        self.protocol: str | None = None
        self._options = dict(options or {})
        self._decoder: Decoder | None = None
        self._held: list[Frame] = []

    def feed(self, frames: Sequence[Frame], /) -> list[AnyEvent]:
        if self._decoder is not None:
            return self._decoder.feed(frames)
        self._held += frames
        self.protocol = guess_protocol(frames)
        if self.protocol is not None:
            self._decoder = protocols.decoder(self.protocol, **self._options)
            held, self._held = self._held, []
            return self._decoder.feed(held)
        if len(self._held) >= FRAMES:
            raise Unrecognised(len(self._held), protocols.MODULES)
        return []

    def finish(self) -> list[AnyEvent]:
        if self._decoder is None:
            raise Unrecognised(len(self._held), protocols.MODULES)
        return self._decoder.finish()

    @property
    def pending(self) -> str:
        """The same as `Decoder.pending`."""
        return self._decoder.pending if self._decoder is not None else ""

    @property
    def diagnostics(self) -> list[Diagnostic]:
        return list(self._decoder.diagnostics) if self._decoder is not None else []
