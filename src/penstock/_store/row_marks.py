"""Marks the rows of the journal that belong to some turns: one byte for each row.

A condition with 100,000 ids would be sorted again by each query of a search. Marks are a value that needs no sorting.
They are kept for the next search of the same words, and only what has changed since is looked at again: the rows that
were written, and the ids that came or went.
"""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import msgspec

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

CACHED_MARKS = 4  # of the last searches
MAX_MARKS = 2**24  # bytes
CHANGES = 1_000  # ids or rows; if more have changed, all rows are read again


class MarkQueries(NamedTuple):
    """Queries of a database. `all_ids`: ids and row numbers as JSON arrays, the earliest time.

    `in_list`: after a column, whether it is in a JSON array of texts. `marked`: whether a row is marked; its values are
    the first row's number, the marks, and the number before the first.
    """

    all_ids: str
    in_list: str
    marked: str


# Three queries, none of which needs to read the table in SQLite.
_STATE = """
SELECT (SELECT count(*) FROM turns), (SELECT coalesce(min(id), 1) FROM turns),
    (SELECT coalesce(min(time), 0.0) FROM turns)
"""
SQLITE_MARKS = MarkQueries(
    "SELECT json_group_array(request_id), json_group_array(id), min(time) FROM turns",
    "IN (SELECT value FROM json_each(?))",
    "(+id >= ? AND substr(?, id - ?, 1) = x'01')",
)
POSTGRES_MARKS = MarkQueries(
    "SELECT CAST(json_agg(request_id) AS TEXT), CAST(json_agg(id) AS TEXT), min(time) FROM turns",
    "IN (SELECT jsonb_array_elements_text(CAST(? AS jsonb)))",
    "(id >= ? AND substr(?, CAST(least(id - ?, 2147483647) AS INTEGER), 1) = '\\x01'::bytea)",
)


class JournalReader(Protocol):
    """Runs queries of the journal."""

    def read(self, query: str, values: tuple[object, ...] = ()) -> list[tuple[Any, ...]]:
        """Returns the rows of a query."""
        ...


class TableState(NamedTuple):
    """The number of rows, the lowest row number, and the earliest time: they tell whether rows are the same.

    Whenever rows are deleted, those with the lowest numbers or all of the earliest times are among them. The highest
    row number would not tell: in PostgreSQL a row can appear after one with a higher number, and SQLite gives the same
    numbers again if the table was emptied.
    """

    rows: int
    first: int
    earliest: float


class RowMarks(NamedTuple):
    """The marks of rows from `state.first` to `last`. `ids`: the turns whose rows are marked."""

    ids: frozenset[str]
    state: TableState
    last: int
    marks: bytes


class RowMarkCache:
    """Marks rows, and keeps the marks of the last searches. For several threads."""

    def __init__(self, queries: MarkQueries) -> None:
        self.queries = queries
        self._cached: OrderedDict[str, RowMarks] = OrderedDict()
        self._lock = threading.Lock()

    def mark_rows(self, rows: JournalReader, ids: Collection[str], name: str) -> RowMarks | None:
        """Returns the marks of the rows of some turns; None if they are too large. Not for the event loop.

        `name`: that of the search. It only tells which earlier marks are likely to be almost the same.
        """
        with self._lock:
            cached = self._cached.pop(name, None)
        wanted = ids if isinstance(ids, frozenset) else frozenset(ids)
        found = _update_marks(rows, self.queries, wanted, cached) if cached is not None else None
        found = found or _mark_all_rows(rows, self.queries, wanted)
        if found is not None:
            with self._lock:
                self._cached[name] = found
                if len(self._cached) > CACHED_MARKS:
                    self._cached.popitem(last=False)
        return found


def _mark_all_rows(rows: JournalReader, queries: MarkQueries, ids: frozenset[str]) -> RowMarks | None:
    names_text, numbers_text, earliest = rows.read(queries.all_ids)[0]
    names = msgspec.json.decode(names_text or "[]", type=list[str | None])
    numbers = msgspec.json.decode(numbers_text or "[]", type=list[int])
    first, last = min(numbers, default=1), max(numbers, default=0)
    if last - first >= MAX_MARKS:
        return None
    marks = bytearray(last - first + 1)
    for name, number in zip(names, numbers, strict=True):
        if name in ids:
            marks[number - first] = 1
    return RowMarks(ids, TableState(len(numbers), first, earliest or 0.0), last, bytes(marks))


def _update_marks(rows: JournalReader, queries: MarkQueries, ids: frozenset[str], cached: RowMarks) -> RowMarks | None:
    """Returns the marks as they are now; None if too much has changed, or the table does not tell what."""
    changed = _find_changed(ids, cached.ids)
    state = TableState(*rows.read(_STATE)[0])
    if len(changed) > CHANGES or not 0 <= state.rows - cached.state.rows <= CHANGES:
        return None
    new: list[tuple[int, str]] = []
    if state != cached.state:
        new = rows.read("SELECT id, request_id FROM turns WHERE id > ?", (cached.last,))
        if state != cached.state._replace(rows=cached.state.rows + len(new)):  # rows were deleted, or came late
            return None
    last = max((row[0] for row in new), default=cached.last)
    if last - cached.state.first >= MAX_MARKS:
        return None
    touched = _read_rows(rows, queries, changed) if changed else []
    marks = _set_marks(cached, last, [*new, *touched], ids) if new or touched else cached.marks
    return RowMarks(ids, state, last, marks)


def _find_changed(ids: frozenset[str], before: frozenset[str]) -> frozenset[str]:
    """Returns the ids that are in one of two sets. The common cases are quick: the same set, and one that has grown."""
    if ids is before:
        return frozenset()
    added = ids - before
    has_grown = len(ids) - len(added) == len(before)
    return added if has_grown else added | (before - ids)


def _read_rows(rows: JournalReader, queries: MarkQueries, ids: Collection[str]) -> list[tuple[int, str]]:
    query = f"SELECT id, request_id FROM turns WHERE request_id {queries.in_list}"  # noqa: S608 — our own names
    return rows.read(query, (json.dumps([*ids]),))


def _set_marks(cached: RowMarks, last: int, rows: Iterable[tuple[int, str]], ids: frozenset[str]) -> bytes:
    """Returns the marks with those of some rows set anew. Rows that came after `last` are of the next search."""
    marks = bytearray(cached.marks).ljust(last - cached.state.first + 1, b"\0")
    for number, name in rows:
        if number <= last:
            marks[number - cached.state.first] = name in ids
    return bytes(marks)
