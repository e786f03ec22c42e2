"""Queries of the inspector about the journal: searches, one turn, values of columns, usage over time, estimates.

`tenant`: whose turns; None means all.
"""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

import msgspec

from penstock._store.journal import COLUMNS, JournalEntry, JournalRows, TurnStatus, read_entry
from penstock._store.turn_states import TURN_STATES, turn_state

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence


UsageGroup: TypeAlias = Literal["model", "client", "key", "provider"]
MAX_ROWS = 200_000  # rows that sums are computed from
MAX_VALUE_ROWS = 20_000  # of the newest rows: where values of a column are looked for
MANY_IDS = 5_000  # in a condition: from so many on, the rows are marked
SortColumn: TypeAlias = Literal[
    "time", "duration", "ttft", "input", "output", "cost", "http", "notes", "model", "provider", "client", "bytes_out"
]
# The state `finish` is the most common, and takes longest to tell: it is what is left of the status.
_COUNTED = {state: where for state, where in TURN_STATES.items() if state != "finish"}
_STATE_COUNTS = ", ".join(f"count(*) FILTER (WHERE {where})" for where in [*_COUNTED.values(), "status = 'finish'"])
_PAGE = f"SELECT {COLUMNS} FROM turns WHERE {{where}} ORDER BY {{order}}, id DESC LIMIT ? OFFSET ?"  # noqa: S608 — our own names
_IS_NEW = "time >= coalesce((SELECT time FROM turns ORDER BY time DESC LIMIT 1 OFFSET ?), 0)"
_BY_TIME = "ORDER BY +time DESC, id DESC"  # `+`: SQLite sorts what it finds; it does not read the rows in this order
_SPARSE_PAGE = f"""
SELECT {COLUMNS} FROM turns WHERE id IN (SELECT id FROM turns WHERE {{where}} {_BY_TIME} LIMIT ?) {_BY_TIME}
"""  # noqa: S608 — as above
# A model's full name. A turn without an answer has the name that was asked for.
MODEL_NAME = (
    "CASE WHEN coalesce(model, '') = '' THEN coalesce(asked, '') ELSE coalesce(provider, '') || '/' || model END"
)


_USAGE_NAMES: dict[UsageGroup, str] = {
    "model": MODEL_NAME,
    "client": "CASE WHEN coalesce(client, '') = '' THEN coalesce(agent, '') ELSE client END",
    "key": "coalesce(key, '')",
    "provider": "coalesce(provider, '')",
}


class SqlCondition(NamedTuple):
    """A condition of a query, with the values for its marks (`?`). An empty one is always true."""

    where: str = ""
    values: tuple[object, ...] = ()

    def also(self, other: SqlCondition) -> SqlCondition:
        """Returns the condition that both are true."""
        return SqlCondition(" AND ".join(filter(None, (self.where, other.where))), self.values + other.values)


class TurnCounts(msgspec.Struct, frozen=True):
    """How many turns a search finds: rows, the requests that they stand for, and rows by state."""

    total: int = 0
    requests: int = 0
    states: dict[str, int] = {}


class UsagePoint(msgspec.Struct, gc=False):
    """The numbers of a row. What is None is unknown. `turns`: how many requests it stands for."""

    time: float
    name: str
    turns: int
    status: TurnStatus
    input: int | None
    output: int | None
    cost: float | None
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
        self, *, before: int | None = None, limit: int = 200, tenant: str | None = None
    ) -> list[tuple[int, JournalEntry]]:
        """Returns the turns that were written last, with their ids, the last one first."""
        where, values = _with_tenant("id < ?", tenant)
        query = f"SELECT id, {COLUMNS} FROM turns WHERE {where} ORDER BY id DESC LIMIT ?"  # noqa: S608 — our own names
        rows = self._rows.read(query, (before or 2**62, *values, limit))
        return [(int(row[0]), read_entry(row[1:])) for row in rows]

    # ── searches ──────────────────────────────────────────────────────────────────────────────────

    def last_id(self, tenant: str | None = None) -> int:
        """Returns the id of the row that was written last: a bound for searches whose pages must fit together.

        That of a tenant does not change when others make turns.
        """
        where, values = ("", ()) if tenant is None else (" WHERE tenant = ?", (tenant,))
        return int(self._rows.read(f"SELECT coalesce(max(id), 0) FROM turns{where}", values)[0][0])  # noqa: S608 — our own names

    def among(self, ids: Collection[str], name: str = "") -> SqlCondition:
        """Returns the condition that a turn, of those that are written, has one of these request ids.

        `name`: what the ids were found by. If there are many, the next search of that name takes less time.
        """
        cache = self._rows.row_marks
        found = cache.mark_rows(self._rows, ids, name) if len(ids) >= MANY_IDS else None
        if found is not None:
            first = found.state.first
            return SqlCondition(cache.queries.marked, (first, found.marks, first - 1))
        return SqlCondition(f"request_id {cache.queries.in_list}", (json.dumps([*ids]),))

    def search(
        self,
        condition: SqlCondition,
        *,
        tenant: str | None,
        upto: int,
        after: int = 0,
        sort: SortColumn = "time",
        ascending: bool = False,
        offset: int = 0,
        limit: int = 200,
        most: int = 0,
    ) -> list[JournalEntry]:
        """Returns a page of the turns with ids above `after` up to `upto` that meet a condition.

        Newest first, or by another column; unknown values are last. `most`: that many may be returned, instead of
        `limit`, if this takes no more time.
        """
        where, values = _bounded(condition, tenant, after, upto)
        if sort == "time" and not ascending and not offset and condition.where:
            rows = self._read_newest(where, values, limit, most)
        else:
            direction = "ASC" if ascending else "DESC"
            order = f"time {direction}" if sort == "time" else f"({sort} IS NULL), {sort} {direction}, time DESC"
            rows = self._rows.read(_PAGE.format(where=where, order=order), (*values, limit, offset))
        return [read_entry(row) for row in rows]

    def _read_newest(self, where: str, values: tuple[object, ...], limit: int, most: int) -> list[tuple[Any, ...]]:
        """Returns a page of the newest rows that meet a condition.

        A condition that few rows meet needs all rows: they are read in the order in which they were written, because
        by their times it takes twice as long. One that many rows meet needs only the newest, so these come first.
        """
        newest = _PAGE.format(where=f"{_IS_NEW} AND {where}", order="time DESC")
        rows = self._rows.read(newest, (self._rows.newest_rows, *values, limit, 0))
        if len(rows) == limit:
            return rows
        return self._rows.read(_SPARSE_PAGE.format(where=where), (*values, max(limit, most)))

    def count(self, condition: SqlCondition, *, tenant: str | None, upto: int) -> TurnCounts:
        """Returns how many turns meet a condition."""
        where, values = _bounded(condition, tenant, 0, upto)
        requests = "CAST(coalesce(sum(coalesce(times, 1)), 0) AS BIGINT)"
        query = f"SELECT count(*), {requests}, {_STATE_COUNTS} FROM turns WHERE {where}"  # noqa: S608 — our own names
        total, requests, *counts, ended = self._rows.read(query, values)[0]
        states: dict[str, int] = dict(zip(_COUNTED, counts, strict=True))
        states["finish"] = ended - states["warning"]
        return TurnCounts(total, requests, {name: states[name] for name in TURN_STATES})

    def values_of(self, columns: Sequence[str], tenant: str | None) -> Counter[str]:
        """Returns the values of some columns in the newest rows, and how often they are there. A line is a value."""
        where, values = _with_tenant("1 = 1", tenant)
        names = ", ".join(columns)
        newest = f"SELECT {names} FROM turns WHERE {where} ORDER BY time DESC LIMIT {MAX_VALUE_ROWS}"  # noqa: S608
        query = f"SELECT {names}, count(*) FROM ({newest}) AS newest GROUP BY {names}"  # noqa: S608 — our own names
        found: Counter[str] = Counter()
        for *texts, count in self._rows.read(query, tuple(values)):
            for value in {part for text in texts for part in str(text or "").split("\n") if part}:
                found[value] += count
        return found

    def find(self, id: str, tenant: str | None = None) -> JournalEntry | None:
        """Returns the turn with this request id."""
        where, values = _with_tenant("request_id = ?", tenant)
        query = f"SELECT {COLUMNS} FROM turns WHERE {where} ORDER BY id DESC LIMIT 1"  # noqa: S608 — as above
        rows = self._rows.read(query, (id, *values))
        return read_entry(rows[0]) if rows else None

    def usage(self, by: UsageGroup, since: float, until: float, tenant: str | None = None) -> list[UsagePoint]:
        """Returns all turns of a period, the oldest first; if there are too many, the latest of them."""
        where, values = _with_tenant("time >= ? AND time < ?", tenant)
        query = (
            f"SELECT time, {_USAGE_NAMES[by]}, coalesce(times, 1), coalesce(status, 'finish'), input, output, cost, "  # noqa: S608 — as above
            f"ttft, duration FROM turns WHERE {where} ORDER BY time DESC LIMIT {MAX_ROWS}"
        )
        return [UsagePoint(*row) for row in reversed(self._rows.read(query, (since, until, *values)))]

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


def _bounded(condition: SqlCondition, tenant: str | None, after: int, upto: int) -> tuple[str, tuple[object, ...]]:
    # `+id`: SQLite must not read the rows in the order of their ids and then sort them by time.
    where, values = _with_tenant("+id <= ?" if not after else "id > ? AND id <= ?", tenant)
    if condition.where:
        where = f"{where} AND {condition.where}"
    return where, (*((after,) if after else ()), upto, *values, *condition.values)


def count_rows(rows: Sequence[JournalEntry]) -> TurnCounts:
    """Returns the counts of rows that are all there are."""
    states = Counter(map(turn_state, rows))
    return TurnCounts(len(rows), sum(row.times for row in rows), {name: states[name] for name in TURN_STATES})


def escape_like(word: str) -> str:
    """Returns a pattern for LIKE that matches only the word itself."""
    return word.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
