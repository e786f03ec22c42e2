"""Tables that are created once and widened by later versions, by any number of processes at the same time."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Mapping

    from penstock.store.writer import Writer


def ensure_table(writer: Writer, table: str, statements: str, columns: Mapping[str, str], *, create: bool) -> bool:
    """Create a table and add the columns it lacks (name → type). Writes only where it must; true if the table exists.

    Where `create` is false a missing table is not created. Errors are an `OSError` that names the file.
    """
    known = writer.change(lambda database: column_names(database, table))
    if not known and create:
        writer.create(statements)
        known = writer.change(lambda database: column_names(database, table))
    if known and not columns.keys() <= known:
        writer.change(lambda database: _add_columns(database, table, columns))
    return bool(known)


def column_names(database: sqlite3.Connection, table: str) -> set[str]:
    """The columns of a table; empty if there is no such table."""
    return {str(row[1]) for row in database.execute(f"PRAGMA table_info({table})")}


def _add_columns(database: sqlite3.Connection, table: str, columns: Mapping[str, str]) -> None:
    """The missing columns are looked for under the write lock: another process may have added them by now."""
    database.execute("BEGIN IMMEDIATE")
    try:
        known = column_names(database, table)
        for name, kind in columns.items():
            if name not in known:
                database.execute(f"ALTER TABLE {table} ADD COLUMN {name} {kind}")
    except BaseException:
        database.execute("ROLLBACK")
        raise
    database.execute("COMMIT")
