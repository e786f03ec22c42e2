"""A clock by which old data may be deleted: one that jumps ahead is used after it has been stable for ten minutes.

The machine's clock may be wrong for minutes, for example until it is set over the network after a start. What is
deleted by a wrong clock is gone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable

SETTLE = 600.0  # seconds until a new time counts
_READ = "SELECT name, value FROM marks WHERE name IN ('clock_seen', 'clock_settled')"


class SettledClock:
    """Reads the clock, and remembers in the table `marks` what it has shown, also for later processes.

    `clock_seen` is a time that it has shown. Once it shows a time that is `SETTLE` later, the seen time is settled, and
    the new one is seen. A jump ahead settles the time before the jump. If the clock goes back, nothing that it has
    shown after that time counts.
    """

    def __init__(self, connection: sqlite3.Connection, clock: Callable[[], float]) -> None:
        self._connection, self._clock = connection, clock

    def read(self) -> float:
        """Returns the latest settled time; 0 if there is none yet. It is up to twice `SETTLE` behind the clock."""
        now = self._clock()
        before: dict[str, float] = dict(self._connection.execute(_READ).fetchall())
        seen, settled = before.get("clock_seen", now), before.get("clock_settled", 0.0)
        if now < seen:
            seen = now
        elif before and now - seen >= SETTLE:
            seen, settled = now, seen
        after = {"clock_seen": seen, "clock_settled": min(settled, now)}
        if after != before:
            self._connection.executemany("INSERT OR REPLACE INTO marks VALUES (?, ?)", after.items())
        return after["clock_settled"]
