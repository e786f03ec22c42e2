"""Schemas of all databases as numbered migrations, for SQLite and PostgreSQL.

A table `schema_version` has the version of each part (journal, state …). To change a schema, append a `Migration`; do
not change one that was released. Any number of processes may start at once: one migrates, in one transaction and under
a lock, the others wait. An interrupted migration leaves the old schema. Before a SQLite file with data is changed, a
copy is made beside it. A database of a newer version is refused.

Alembic would need SQLAlchemy; what is needed here is a list and a lock.
"""

from __future__ import annotations

import logging
import os
import sqlite3
from contextlib import closing, suppress
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

from penstock._store.sqlite import IN_MEMORY, LOCK_TIMEOUT, connect, connect_read_only, open_error
from penstock._store.turn_states import NAMES_SQL
from penstock.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

SchemaPart: TypeAlias = Literal["journal", "state", "tokens", "keys"]
MIGRATION_TIMEOUT = 60.0  # seconds to wait for another process that migrates the same database
ADVISORY_LOCK = 0x70656E73746F636B  # "penstock", for PostgreSQL
POSTGRES_SCHEMA = "penstock"
log = logging.getLogger("penstock.store")


class AddColumns(NamedTuple):
    """Adds the columns that a table of SQLite lacks: name → type."""

    table: str
    columns: Mapping[str, str]


class Migration(NamedTuple):
    """The statements that lead from the version before to this one."""

    version: int
    sqlite: Sequence[str | AddColumns] = ()
    postgres: Sequence[str] = ()


class NewerSchemaError(InputError):
    """The database was written by a newer version of penstock."""


# ── the journal ───────────────────────────────────────────────────────────────────────────────────

_TEXTS = """key client route protocol upstream operation asked provider model engine finish fault method tenant
    decisions status fault_message uncertain request_id upstream_id user""".split()
_NUMBERS = (
    """http input output cached reasoning estimate low high times malformed tries written bytes_in bytes_out""".split()
)
_FLOATS = "ttft cost duration factor".split()
_FLAGS = "stream tee exact".split()
_TURN_COLUMNS = {
    **dict.fromkeys(_TEXTS, "TEXT"),
    **dict.fromkeys((*_NUMBERS, *_FLAGS), "INTEGER"),
    **dict.fromkeys(_FLOATS, "REAL"),
}
_POSTGRES_TYPES = {"TEXT": "TEXT", "INTEGER": "BIGINT", "REAL": "DOUBLE PRECISION"}
_POSTGRES_COLUMNS = {name: _POSTGRES_TYPES[kind] for name, kind in _TURN_COLUMNS.items()} | dict.fromkeys(
    _FLAGS, "BOOLEAN"
)


def _list_columns(columns: Mapping[str, str]) -> str:
    return ", ".join(f'"{name}" {kind}' for name, kind in columns.items())


_SQLITE_TURNS = _list_columns(_TURN_COLUMNS)
_POSTGRES_TURNS = f"time DOUBLE PRECISION NOT NULL, {_list_columns(_POSTGRES_COLUMNS)}"
_SET_NAMES = f"UPDATE turns SET names = {NAMES_SQL}"  # noqa: S608 — our own names
_JOURNAL = (
    Migration(
        1,
        (
            f"CREATE TABLE IF NOT EXISTS turns (id INTEGER PRIMARY KEY, time REAL NOT NULL, {_SQLITE_TURNS})",
            AddColumns("turns", _TURN_COLUMNS),
            "CREATE INDEX IF NOT EXISTS turns_time ON turns (time)",
            "CREATE INDEX IF NOT EXISTS turns_key ON turns (key, time)",
        ),
        (
            f"CREATE TABLE turns (id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, {_POSTGRES_TURNS})",
            "CREATE INDEX turns_time ON turns (time)",
            "CREATE INDEX turns_key ON turns (key, time)",
            "CREATE INDEX turns_tenant ON turns (tenant, id)",
            "CREATE INDEX turns_request ON turns (request_id)",
        ),
    ),
    Migration(2, (AddColumns("turns", {"team": "TEXT"}),), ("ALTER TABLE turns ADD COLUMN team TEXT",)),
    Migration(
        3,
        (
            AddColumns("turns", {**dict.fromkeys(("agent", "tools", "names"), "TEXT"), "notes": "INTEGER"}),
            _SET_NAMES,
            "CREATE INDEX IF NOT EXISTS turns_tenant ON turns (tenant, time)",
            "CREATE INDEX IF NOT EXISTS turns_request ON turns (request_id)",
        ),
        (
            "ALTER TABLE turns ADD COLUMN agent TEXT, ADD COLUMN tools TEXT, ADD COLUMN names TEXT",
            "ALTER TABLE turns ADD COLUMN notes BIGINT",
            _SET_NAMES,
            "CREATE INDEX turns_tenant_time ON turns (tenant, time)",
        ),
    ),
)

# ── state, tokens, keys ───────────────────────────────────────────────────────────────────────────


def key_value_statements(table: str) -> tuple[str, ...]:
    """Return the statements that create a key-value table of SQLite."""
    columns = "tenant TEXT NOT NULL, key TEXT NOT NULL, value BLOB NOT NULL, used REAL NOT NULL, size INTEGER NOT NULL"
    return (
        f"CREATE TABLE IF NOT EXISTS {table} ({columns}, PRIMARY KEY (tenant, key))",
        f"CREATE INDEX IF NOT EXISTS {table}_used ON {table} (tenant, used, size)",
        f"CREATE INDEX IF NOT EXISTS {table}_age ON {table} (used)",
    )


# Tenants and keys are bytes: TEXT of PostgreSQL cannot hold NUL.
_BYTES = "tenant BYTEA NOT NULL, key BYTEA NOT NULL, value BYTEA NOT NULL, used DOUBLE PRECISION NOT NULL"


def _postgres_key_value(table: str) -> tuple[str, ...]:
    return (
        f"CREATE TABLE {table} ({_BYTES}, size BIGINT NOT NULL, PRIMARY KEY (tenant, key))",
        f"CREATE INDEX ON {table} (tenant, used)",
        f"CREATE INDEX ON {table} (used)",
    )


_STATE_TABLES = "reasoning responses".split()
_STATE = (
    Migration(
        1,
        tuple(one for table in _STATE_TABLES for one in key_value_statements(table)),
        tuple(one for table in _STATE_TABLES for one in _postgres_key_value(table)),
    ),
)
_PAIRS = "(tenant TEXT NOT NULL, key TEXT NOT NULL, value BLOB NOT NULL, used REAL NOT NULL, PRIMARY KEY (tenant, key))"
_TOKENS = (
    Migration(
        1,
        (
            f"CREATE TABLE IF NOT EXISTS counts {_PAIRS}",
            "DROP INDEX IF EXISTS counts_used",
            "CREATE INDEX IF NOT EXISTS counts_order ON counts ((key >= 'p'), used)",
            "CREATE INDEX IF NOT EXISTS counts_tenant_order ON counts (tenant, (key >= 'p'), used)",
            f"CREATE TABLE IF NOT EXISTS factors {_PAIRS}",
        ),
        (f"CREATE TABLE factors ({_BYTES}, PRIMARY KEY (tenant, key))",),  # counts are a cache of each machine
    ),
)
_AUDIT = "time DOUBLE PRECISION NOT NULL, actor TEXT NOT NULL, action TEXT NOT NULL, changes JSONB NOT NULL"
_KEYS = (
    Migration(
        1,
        postgres=(
            "CREATE TABLE key_records (kind TEXT, name TEXT, record JSONB NOT NULL, PRIMARY KEY (kind, name))",
            "CREATE TABLE key_store (id INTEGER PRIMARY KEY, version BIGINT NOT NULL, required BOOLEAN NOT NULL)",
            "INSERT INTO key_store VALUES (1, 0, FALSE)",
            f"CREATE TABLE key_audit (id BIGINT PRIMARY KEY, {_AUDIT})",
        ),
    ),
)
MIGRATIONS: dict[SchemaPart, Sequence[Migration]] = {
    "journal": _JOURNAL,
    "state": _STATE,
    "tokens": _TOKENS,
    "keys": _KEYS,
}
_FIRST_TABLES: dict[SchemaPart, str] = {"journal": "turns", "state": "reasoning", "tokens": "factors"}
_CREATE_VERSIONS = "CREATE TABLE IF NOT EXISTS schema_version (part TEXT PRIMARY KEY, version INTEGER NOT NULL)"


def check_version(location: str, part: str, found: int, latest: int) -> None:
    """Raise if a database is newer than this program."""
    if found > latest:
        raise NewerSchemaError(
            f"{location}: the schema of its {part} has version {found}, and this penstock knows {latest} at most: "
            "update penstock, or use another database or data folder"
        )


# ── SQLite ────────────────────────────────────────────────────────────────────────────────────────


def migrate_sqlite(
    connection: sqlite3.Connection,
    path: Path,
    part: SchemaPart,
    *,
    create: bool = True,
    timeout: float = MIGRATION_TIMEOUT,
    migrations: Sequence[Migration] | None = None,
) -> bool:
    """Bring a part of a SQLite database to the latest version. False: it has no such part, and `create` is false.

    Raises an `OSError` that names the file, or `NewerSchemaError`. Writes only if needed.
    """
    steps = MIGRATIONS[part] if migrations is None else migrations
    try:
        version = read_sqlite_version(connection, part)
        check_version(str(path), part, version, steps[-1].version)
        if version == steps[-1].version:
            return True
        if not create and not _table_exists(connection, _FIRST_TABLES[part]):
            return False
        connection.execute(f"PRAGMA busy_timeout={round(timeout * 1000)}")
        try:
            _migrate_locked(connection, path, part, steps)
        finally:
            connection.execute(f"PRAGMA busy_timeout={round(LOCK_TIMEOUT * 1000)}")
    except sqlite3.Error as error:
        raise open_error(path, error, timeout) from None
    return True


def _migrate_locked(connection: sqlite3.Connection, path: Path, part: SchemaPart, steps: Sequence[Migration]) -> None:
    with connection:  # commits, or rolls back after an error
        connection.execute("BEGIN EXCLUSIVE" if path == IN_MEMORY else "BEGIN IMMEDIATE")
        version = read_sqlite_version(connection, part)  # another process may have been faster
        check_version(str(path), part, version, steps[-1].version)
        due = [step for step in steps if step.version > version]
        if due and path != IN_MEMORY and _needs_backup(connection, part, version, due):
            _back_up(path, version)
        for step in due:
            for statement in step.sqlite:
                _apply(connection, statement)
        connection.execute(_CREATE_VERSIONS)
        connection.execute("INSERT OR REPLACE INTO schema_version VALUES (?, ?)", (part, steps[-1].version))


def read_sqlite_version(connection: sqlite3.Connection, part: str) -> int:
    """Return the version of a part; 0 if the database has none, or is from before versions."""
    if not _table_exists(connection, "schema_version"):
        return 0
    row = connection.execute("SELECT version FROM schema_version WHERE part = ?", (part,)).fetchone()
    return int(row[0]) if row is not None else 0


def column_names(connection: sqlite3.Connection, table: str) -> set[str]:
    """Return the columns of a table; empty if there is no such table."""
    return {str(row[1]) for row in connection.execute(f"PRAGMA table_info({table})")}


def _table_exists(connection: sqlite3.Connection, table: str) -> bool:
    query = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?"
    return connection.execute(query, (table,)).fetchone() is not None


def _apply(connection: sqlite3.Connection, statement: str | AddColumns) -> None:
    if isinstance(statement, str):
        connection.execute(statement)
        return
    known = column_names(connection, statement.table)
    for name, kind in statement.columns.items():
        if name not in known:
            connection.execute(f'ALTER TABLE {statement.table} ADD COLUMN "{name}" {kind}')


def _needs_backup(connection: sqlite3.Connection, part: SchemaPart, version: int, due: Sequence[Migration]) -> bool:
    """Return whether tables with data are about to change. A file of today's schema only gets its version."""
    if not _table_exists(connection, _FIRST_TABLES[part]):
        return False
    added = [one for step in due for one in step.sqlite if isinstance(one, AddColumns)]
    if any(set(one.columns) - column_names(connection, one.table) for one in added):
        return True
    return any(
        step.version > max(version, 1) and not isinstance(one, AddColumns) for step in due for one in step.sqlite
    )


def backup_path(path: Path, version: int) -> Path:
    """Return where the copy of a file is that was made before its migration from a version."""
    return path.with_name(f"{path.name}.v{version}.bak")


def _back_up(path: Path, version: int) -> None:
    """Copy a database by SQLite's backup API. The caller holds its write lock; what is committed is copied."""
    target = backup_path(path, version)
    partial = target.with_name(f"{target.name}.partial")
    for suffix in ("", "-wal", "-shm", "-journal"):  # left by a process that was killed
        with suppress(FileNotFoundError):
            partial.with_name(partial.name + suffix).unlink()
    with closing(connect_read_only(path)) as source, closing(connect(partial)) as copy:
        source.backup(copy)
        copy.execute("PRAGMA journal_mode=DELETE")  # one file, without a WAL beside it
    os.replace(partial, target)  # noqa: PTH105 — atomic
    log.warning("%s is upgraded; a copy of what it was is %s", path, target.name)


# ── PostgreSQL ────────────────────────────────────────────────────────────────────────────────────


def migrate_postgres(
    connection: Any, location: str, migrations: Mapping[SchemaPart, Sequence[Migration]] | None = None
) -> None:
    """Bring all parts of a PostgreSQL database to their latest versions. `connection`: of psycopg, with autocommit."""
    parts = MIGRATIONS if migrations is None else migrations
    if _postgres_due(connection, location, parts):
        with connection.transaction():
            connection.execute("SET LOCAL statement_timeout = 0")
            connection.execute("SET LOCAL lock_timeout = 0")
            connection.execute("SELECT pg_advisory_xact_lock(%s)", (ADVISORY_LOCK,))
            _migrate_postgres_locked(connection, location, parts)


def _migrate_postgres_locked(connection: Any, location: str, parts: Mapping[SchemaPart, Sequence[Migration]]) -> None:
    found = connection.execute("SELECT to_regnamespace(%s)", (POSTGRES_SCHEMA,)).fetchone()
    if found[0] is None:
        connection.execute(f"CREATE SCHEMA {POSTGRES_SCHEMA}")
    connection.execute(f"SET LOCAL search_path TO {POSTGRES_SCHEMA}")
    connection.execute(_CREATE_VERSIONS)
    query = "INSERT INTO schema_version VALUES (%s, %s) ON CONFLICT (part) DO UPDATE SET version = excluded.version"
    for part, steps in _postgres_due(connection, location, parts).items():
        for step in steps:
            for statement in step.postgres:
                connection.execute(statement)
        connection.execute(query, (part, steps[-1].version))


def read_postgres_versions(connection: Any) -> dict[str, int]:
    """Return the versions of all parts."""
    table = f"{POSTGRES_SCHEMA}.schema_version"
    if connection.execute("SELECT to_regclass(%s)", (table,)).fetchone()[0] is None:
        return {}
    return dict(connection.execute(f"SELECT part, version FROM {table}").fetchall())  # noqa: S608 — our own name


def _postgres_due(
    connection: Any, location: str, parts: Mapping[SchemaPart, Sequence[Migration]]
) -> dict[SchemaPart, list[Migration]]:
    versions = read_postgres_versions(connection)
    due: dict[SchemaPart, list[Migration]] = {}
    for part, steps in parts.items():
        version = versions.get(part, 0)
        check_version(location, part, version, steps[-1].version)
        if missing := [step for step in steps if step.version > version]:
            due[part] = missing
    return due
