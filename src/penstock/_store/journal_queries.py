"""Queries of the inspector about the journal: pages of turns, one turn, usage over time, estimates and actual counts.

`tenant`: whose turns; None means all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

import msgspec

from penstock._store.journal import COLUMNS, JournalEntry, JournalRows, read_entry

if TYPE_CHECKING:
    from collections.abc import Sequence


UsageGroup: TypeAlias = Literal["model", "client", "key", "provider"]
MAX_ROWS = 200_000  # rows that sums are computed from
_SEARCH_COLUMNS = """client asked model provider engine route protocol upstream key status finish fault fault_message
    request_id operation""".split()
_MATCHES = " OR ".join(f"{name} LIKE ? ESCAPE '\\'" for name in _SEARCH_COLUMNS)


class UsagePoint(msgspec.Struct, gc=False):
    """The numbers of a turn."""

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
    """The estimated and the actual token count of a turn."""

    time: float
    model: str
    estimate: int
    actual: int
    low: int
    high: int
    factor: float | None
    method: str
    uncertain: str
    id: str


class JournalHistory:
    """Queries about finished turns. Some take a second: not for the event loop."""

    def __init__(self, rows: JournalRows) -> None:
        self._rows = rows

    def page(
        self, *, before: int | None = None, search: str = "", limit: int = 200, tenant: str | None = None
    ) -> list[tuple[int, JournalEntry]]:
        """Returns the latest turns with their ids, newest first. Each holds every word of `search`."""
        where, patterns = "id < ?", list[str]()
        for word in search.split():
            where += f" AND ({_MATCHES})"
            patterns += [f"%{_escape_like(word)}%"] * len(_SEARCH_COLUMNS)
        where, values = _with_tenant(where, tenant)
        query = f"SELECT id, {COLUMNS} FROM turns WHERE {where} ORDER BY id DESC LIMIT ?"  # noqa: S608 — our own names
        rows = self._rows.read(query, (before or 2**62, *patterns, *values, limit))
        return [(int(row[0]), read_entry(row[1:])) for row in rows]

    def find(self, id: str, tenant: str | None = None) -> JournalEntry | None:
        """Returns the turn with this request id."""
        where, values = _with_tenant("request_id = ?", tenant)
        query = f"SELECT {COLUMNS} FROM turns WHERE {where} ORDER BY id DESC LIMIT 1"  # noqa: S608 — as above
        rows = self._rows.read(query, (id, *values))
        return read_entry(rows[0]) if rows else None

    def usage(self, by: UsageGroup, since: float, until: float, tenant: str | None = None) -> list[UsagePoint]:
        """Returns all turns of a period, the oldest first; if there are too many, the latest of them."""
        where, values = _with_tenant("time >= ? AND time < ?", tenant)
        name = "provider || '/' || model" if by == "model" else by
        query = (
            f"SELECT time, coalesce({name}, ''), coalesce(times, 1), status = 'fault', coalesce(input, 0), "  # noqa: S608 — as above
            f"coalesce(output, 0), coalesce(cost, 0.0), ttft, duration FROM turns WHERE {where} "
            f"ORDER BY time DESC LIMIT {MAX_ROWS}"
        )
        rows = self._rows.read(query, (since, until, *values))
        return [UsagePoint(time, name, turns, bool(fault), *rest) for time, name, turns, fault, *rest in reversed(rows)]

    def estimates(self, since: float, tenant: str | None = None, limit: int = 5_000) -> list[JournalEstimate]:
        """Returns the latest turns that have an estimate, the oldest first."""
        where, values = _with_tenant("time >= ? AND estimate IS NOT NULL AND low IS NOT NULL AND input > 0", tenant)
        query = (
            "SELECT time, provider || '/' || model, estimate, input, low, high, factor, coalesce(method, ''), "  # noqa: S608
            f"coalesce(uncertain, ''), request_id FROM turns WHERE {where} ORDER BY time DESC LIMIT ?"
        )
        return [JournalEstimate(*row) for row in reversed(self._rows.read(query, (since, *values, limit)))]

    def add_estimate(self, turn: JournalEntry) -> None:
        """Adds the estimate to the row of a turn."""
        self._rows.add_estimate(turn)


def _with_tenant(where: str, tenant: str | None) -> tuple[str, Sequence[str]]:
    return (where, ()) if tenant is None else (f"{where} AND tenant = ?", (tenant,))


def _escape_like(word: str) -> str:
    """Returns a pattern for LIKE that matches only the word itself."""
    return word.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
