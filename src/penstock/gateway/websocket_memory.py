"""What a WebSocket remembers: its last responses, with all that was said before. Bounded in number and in bytes."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from penstock.gateway.byte_budget import ConnectionBytes
    from penstock.store.key_value import Past

RESPONSES = 16


class _Segment(NamedTuple):
    """The bytes of one turn. Compared by identity: turns of one conversation share those before them."""

    size: int
    name: object


class _Kept(NamedTuple):
    past: Past
    segments: tuple[_Segment, ...]


class ResponseMemory:
    """The last responses of a connection. What is forgotten is not found; a client then sends all of it again."""

    def __init__(self, account: ConnectionBytes) -> None:
        self._account = account
        self._kept: OrderedDict[str, _Kept] = OrderedDict()

    def find(self, id: str) -> Past | None:
        found = self._kept.get(id)
        return found.past if found is not None else None

    def keep(self, id: str, past: Past, size: int, previous: str = "") -> None:
        """Remember a response. `size`: the bytes that this turn added to those of `previous`."""
        before = self._kept.get(previous)
        self._kept[id] = _Kept(past, (*(before.segments if before else ()), _Segment(size, object())))
        self._kept.move_to_end(id)
        while self._kept and (len(self._kept) > RESPONSES or self._size() > self._account.limit):
            self._kept.popitem(last=False)
        self._account.remember(self._size())

    def drop(self, id: str) -> None:
        if self._kept.pop(id, None) is not None:
            self._account.remember(self._size())

    def clear(self) -> None:
        self._kept.clear()
        self._account.remember(0)

    def _size(self) -> int:
        return sum(segment.size for segment in {one for kept in self._kept.values() for one in kept.segments})
