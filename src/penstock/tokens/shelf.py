"""Counts by content: the most recent in memory, all of them in a store if there is one.

A count is two numbers, tokens and how far they may be off, before any correction is applied. Leans on a `CountStore`.
"""

from __future__ import annotations

import struct
from collections import OrderedDict
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from penstock.stores import CountStore

Count: TypeAlias = tuple[float, float]
ROWS = 50_000
_PAIR = struct.Struct("<dd")


class Shelf:
    """The least recently used are forgotten first."""

    def __init__(self, store: CountStore | None = None, tenant: str = "", rows: int = ROWS) -> None:
        self._rows: OrderedDict[bytes, Count] = OrderedDict()
        self._store = store
        self._tenant = tenant
        self._most = rows
        self.counted = 0  # how often something had to be counted

    def __len__(self) -> int:
        return len(self._rows)

    def all(self, keys: Sequence[bytes], count: Callable[[int], Count]) -> list[Count]:
        """The counts under these keys; `count` is asked, by place, for those that nobody knows."""
        rows = self._rows
        try:
            found = [rows[key] for key in keys]
        except KeyError:
            found = self._filled(keys, count)
        for key in keys:
            if key in rows:
                rows.move_to_end(key)
        return found

    def get(self, keys: Sequence[bytes]) -> dict[bytes, Count]:
        """What is known under these keys, without counting."""
        found = {key: self._rows[key] for key in keys if key in self._rows}
        missing = [key for key in keys if key not in found]
        if missing and self._store is not None:
            found |= self._stored(missing)
        return found

    def put(self, rows: Mapping[bytes, Count]) -> None:
        self._rows.update(rows)
        for key in rows:
            self._rows.move_to_end(key)
        self._trim()
        if self._store is not None:
            self._store.put(self._tenant, {key.hex(): _PAIR.pack(*count) for key, count in rows.items()})

    def clear(self) -> None:
        """Forget what is in memory; the store keeps its own."""
        self._rows.clear()

    def _filled(self, keys: Sequence[bytes], count: Callable[[int], Count]) -> list[Count]:
        known = self.get(keys)
        fresh: dict[bytes, Count] = {}
        for place, key in enumerate(keys):
            if key not in known:
                known[key] = fresh[key] = count(place)
                self.counted += 1
        self._rows.update(known)
        if fresh:
            self.put(fresh)
        return [known[key] for key in keys]

    def _stored(self, keys: Sequence[bytes]) -> dict[bytes, Count]:
        if self._store is None:
            return {}
        rows = self._store.get(self._tenant, [key.hex() for key in keys])
        return {bytes.fromhex(key): _PAIR.unpack(row) for key, row in rows.items() if len(row) == _PAIR.size}

    def _trim(self) -> None:
        while len(self._rows) > self._most:
            self._rows.popitem(last=False)
