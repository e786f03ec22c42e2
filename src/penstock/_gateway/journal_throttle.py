"""Limits journal rows of requests that may come by the thousand: refusals and token counts.

Writes the first rows of a kind in each minute, counts the rest, and writes the count as one row (`times`). So a flood
costs the journal a few rows a minute, and no request goes uncounted.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from msgspec.structs import replace

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock._store.journal import JournalEntry

MAX_ANONYMOUS_ROWS = 3  # of a kind in a minute, from callers without a key
MAX_CALLER_ROWS = 30  # of a kind in a minute, from callers with a key
MAX_KINDS = 64  # that are told apart; the others share one count
MINUTE = 60.0
_OTHER_KINDS = ("", 0, "", "", "")


class _RowKind:
    """Rows of one kind in the current minute. `last` is the last row that was counted instead of written."""

    __slots__ = ("count", "last", "since", "skipped")

    def __init__(self, now: float) -> None:
        self.since = now
        self.count = self.skipped = 0
        self.last: JournalEntry | None = None


class JournalThrottle:
    """Writes the first rows of a kind per minute with `write`; counts the rest."""

    def __init__(self, write: Callable[[JournalEntry], None], clock: Callable[[], float] = time.monotonic) -> None:
        self._write, self._clock = write, clock
        self._kinds: dict[tuple[object, ...], _RowKind] = {}
        self._timer: asyncio.TimerHandle | None = None

    def note(self, row: JournalEntry) -> None:
        """Write a row, or count it."""
        kind = self._find_kind((row.key, row.http, row.fault, row.operation, row.model), self._clock())
        kind.count += 1
        limit = MAX_CALLER_ROWS if row.key else MAX_ANONYMOUS_ROWS
        if kind.count <= limit and kind is not self._kinds.get(_OTHER_KINDS):
            self._write(row)
            return
        kind.skipped += 1
        kind.last = row
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(MINUTE, self.flush)

    def _find_kind(self, key: tuple[object, ...], now: float) -> _RowKind:
        found = self._kinds.get(key)
        if found is None:
            if len(self._kinds) >= MAX_KINDS:
                self._drop_expired(now)
            key = key if len(self._kinds) < MAX_KINDS else _OTHER_KINDS
            found = self._kinds.get(key)
        if found is None or now - found.since >= MINUTE:
            if found is not None:
                self._write_count(found)
            found = self._kinds[key] = _RowKind(now)
        return found

    def _drop_expired(self, now: float) -> None:
        for key, kind in list(self._kinds.items()):
            if now - kind.since >= MINUTE:
                self._write_count(kind)
                del self._kinds[key]

    def _write_count(self, kind: _RowKind) -> None:
        if kind.last is not None:
            self._write(replace(kind.last, times=kind.skipped))
            kind.last, kind.skipped = None, 0

    def flush(self) -> None:
        """Write the counts of rows that were not written. The minute of each kind continues."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for kind in self._kinds.values():
            self._write_count(kind)
