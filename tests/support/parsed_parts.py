"""Parts of a stream that are parsed already, as a program has them that uses the AI SDK."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from penstock import _protocols as protocols
from penstock._grammar import Guard
from tests.support import run_streams as running

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock import events as ev


def read_parts(source: str, parts: Iterable[dict[str, Any]]) -> list[ev.AnyEvent]:
    """The events of parts, which must be lawful, and the same as those of the parts as lines."""
    decoder, guard, parts = protocols.decoder(source), Guard(strict=True), list(parts)
    events: list[ev.AnyEvent] = []
    for part in parts:
        events += guard.feed(decoder.read_payload(part))
    events += [*guard.feed(decoder.finish()), *guard.finish()]
    assert running.decode(source, b"".join(json.dumps(part).encode() + b"\n" for part in parts), "ndjson") == events
    return events
