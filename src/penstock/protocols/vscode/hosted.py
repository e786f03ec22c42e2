"""Data parts that VS Code and its extensions keep for themselves: recognised, and never sent on as content.

Their media types have no slash. A cache hint belongs to the part before it; a marker of state is kept where it can be
found (the mark `marker` of its message); everything else stands aside with its place. An application's own data is not
for the model either.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock import reading
from penstock.protocols.vscode.contents import CACHE, ours, read_bytes, text_in

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock import request as rq
    from penstock.pick import Object

MARKER = "stateful_marker"
HINTS = {"ephemeral": "5m", "1h": "1h"}  # the host knows the first; the other is for what we write ourselves


def take(part: Object, place: int, units: Sequence[Sequence[rq.Part]], host: list[list[Any]]) -> bool:
    """Whether a data part is the host's; if so, it is dealt with."""
    mime = reading.needed(part, "mimeType")
    if "/" in mime and not ours(mime):
        return False
    word = text_in(read_bytes(part)[0]) if mime == CACHE else None
    if word in HINTS and units and not units[-1][-1].cache and _plain(part):
        units[-1][-1].cache = HINTS[word]
    else:
        host.append([place, part])
    return True


def _plain(part: Object) -> bool:
    return part.keys() <= {"kind", "mimeType", "data"} and isinstance(part["data"], str)


def marker(host: Sequence[list[Any]]) -> str:
    """The last marker of state among a message's host parts: a model's id, a backslash, and what was stored."""
    found = [part for _, part in host if part.get("mimeType") == MARKER]
    return text_in(read_bytes(found[-1])[0]) or "" if found else ""
