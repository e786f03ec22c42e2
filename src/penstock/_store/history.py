"""What the inspector asks of the journal: pages of turns, one turn, figures over time, estimates and what they were of.

Leans on the table of `journal`. `tenant`: whose turns; None is everybody's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import msgspec

from penstock._store.journal import JournalEntry, JournalStore, read_entry

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence


UsageGroup: TypeAlias = Literal["model", "client", "key", "provider"]
MAX_ROWS = 200_000  # rows that figures are made of
_FIELDS = JournalEntry.__struct_fields__
_NAMES = ", ".join(_FIELDS)
_SEARCHED = (
    "client",
    "asked",
    "model",
    "provider",
    "engine",
    "route",
    "protocol",
    "upstream",
    "key",
    "status",
    "finish",
    "fault",
    "fault_message",
    "request_id",
    "operation",
)


class UsagePoint(msgspec.Struct, gc=False):
    """A turn in a few numbers."""

    time: float
    name: str
    turns: int
    fault: bool
    input: int
    output: int
    cost: float
    ttft: float | None
    duration: float | None


class JournalEstimate(msgspec.Struct, gc=False):
    """What was estimated for a turn, and what it was."""

    time: float
    model: str
    estimate: int
    actual: int
    low: int
    high: int
    factor: float | None


class JournalHistory:
    """Questions about turns that are over. Slow ones may take a second: not for the event loop."""

    def __init__(self, rows: JournalStore) -> None:
        self._rows = rows

    def page(
        self, *, before: int | None = None, search: str = "", limit: int = 200, tenant: str | None = None
    ) -> list[tuple[int, JournalEntry]]:
        """The latest turns, newest first, with their numbers; every word of `search` is found in each."""
        where, values = "id < ?", [before or 2**62]
        words: list[Any] = []
        for word in search.split():
            like = " OR ".join(f"{name} LIKE ? ESCAPE '\\'" for name in _SEARCHED)
            where += f" AND ({like})"
            words += [f"%{_plain(word)}%"] * len(_SEARCHED)
        where, whose = _of(where, tenant)
        query = f"SELECT id, {_NAMES} FROM turns WHERE {where} ORDER BY id DESC LIMIT ?"  # noqa: S608 — names are ours
        found = self._rows.read(query, (*values, *words, *whose, limit))
        return [(int(row[0]), read_entry(row[1:])) for row in found]

    def find(self, id: str, tenant: str | None = None) -> JournalEntry | None:
        """The turn of that name."""
        where, whose = _of("request_id = ?", tenant)
        query = f"SELECT {_NAMES} FROM turns WHERE {where} ORDER BY id DESC LIMIT 1"  # noqa: S608 — as above
        found = self._rows.read(query, (id, *whose))
        return read_entry(found[0]) if found else None

    def spent(self, by: UsageGroup, since: float, until: float, tenant: str | None = None) -> list[UsagePoint]:
        """All turns of a time, the oldest first; if there are too many, the latest of them."""
        where, whose = _of("time >= ? AND time < ?", tenant)
        name = "provider || '/' || model" if by == "model" else by
        query = (
            f"SELECT time, {name}, coalesce(times, 1), status = 'fault', coalesce(input, 0), "  # noqa: S608 — as above
            f"coalesce(output, 0), coalesce(cost, 0.0), ttft, duration FROM turns WHERE {where} "
            f"ORDER BY time DESC LIMIT {MAX_ROWS}"
        )
        found = self._rows.read(query, (since, until, *whose))
        return [UsagePoint(time, said or "", turns, bool(fault), *rest) for time, said, turns, fault, *rest in found][
            ::-1
        ]

    def points(self, since: float, tenant: str | None = None, limit: int = 5_000) -> list[JournalEstimate]:
        """The latest turns that were estimated, the oldest first."""
        where, whose = _of("time >= ? AND estimate IS NOT NULL AND low IS NOT NULL AND input > 0", tenant)
        query = (
            f"SELECT time, provider || '/' || model, estimate, input, low, high, factor FROM turns "  # noqa: S608
            f"WHERE {where} ORDER BY time DESC LIMIT ?"
        )
        return [JournalEstimate(*row) for row in self._rows.read(query, (since, *whose, limit))][::-1]

    def estimated(self, turn: JournalEntry) -> None:
        """Put what a turn was estimated at beside what it was."""

        def job(database: sqlite3.Connection) -> None:
            query = "UPDATE turns SET estimate = ?, low = ?, high = ?, factor = ? WHERE time = ? AND request_id = ?"
            database.execute(query, (turn.estimate, turn.low, turn.high, turn.factor, turn.time, turn.request_id))

        self._rows.submit(job)


def _of(where: str, tenant: str | None) -> tuple[str, Sequence[str]]:
    return (where, ()) if tenant is None else (f"{where} AND tenant = ?", (tenant,))


def _plain(word: str) -> str:
    """A word in which nothing stands for anything else."""
    return word.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
