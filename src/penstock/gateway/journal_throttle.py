"""Rows that may come by the thousand (refusals at the door, counts): few of a sort are written, the rest are numbers.

The first ones of a sort in a minute have a row each; how many more there were is one row (`times`). So a flood costs
the journal a handful of rows a minute, and hides nothing. Leans on a clock and a loop; knows no table.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from msgspec.structs import replace

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.store.journal import Turn

EACH = 3  # of a sort in a minute, with rows of their own; that is for strangers,
KNOWN = 30  # and this for whoever was let in
SORTS = 64  # at once; what is of no known sort is written together
MINUTE = 60.0
_REST = ("", 0, "", "", "")


class _Sort:
    __slots__ = ("count", "held", "last", "since")

    def __init__(self, now: float) -> None:
        self.since = now
        self.count = self.held = 0
        self.last: Turn | None = None


class Sparing:
    """Hands rows on to `write`, as few as tell the story."""

    def __init__(self, write: Callable[[Turn], None], clock: Callable[[], float] = time.monotonic) -> None:
        self._write, self._clock = write, clock
        self._sorts: dict[tuple[object, ...], _Sort] = {}
        self._timer: asyncio.TimerHandle | None = None

    def note(self, row: Turn) -> None:
        """Write a row, or count it."""
        now = self._clock()
        sort = self._of((row.key, row.http, row.fault, row.operation, row.model), now)
        sort.count += 1
        if sort.count <= (KNOWN if row.key else EACH) and sort is not self._sorts.get(_REST):
            self._write(row)
            return
        sort.held += 1
        sort.last = row
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(MINUTE, self._ring)

    def _of(self, key: tuple[object, ...], now: float) -> _Sort:
        found = self._sorts.get(key)
        if found is None:
            if len(self._sorts) >= SORTS:
                self._forget(now)
            key = key if len(self._sorts) < SORTS else _REST
            found = self._sorts.get(key)
        if found is None or now - found.since >= MINUTE:
            if found is not None:
                self._told(found)
            found = self._sorts[key] = _Sort(now)
        return found

    def _forget(self, now: float) -> None:
        for key, sort in list(self._sorts.items()):
            if now - sort.since >= MINUTE:
                self._told(sort)
                del self._sorts[key]

    def _told(self, sort: _Sort) -> None:
        """Write how many more there were."""
        if sort.last is not None:
            self._write(replace(sort.last, times=sort.held))
            sort.last, sort.held = None, 0

    def _ring(self) -> None:
        self._timer = None
        self.flush()

    def flush(self) -> None:
        """Write what was only counted so far; the minute of a sort goes on."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for sort in self._sorts.values():
            self._told(sort)
