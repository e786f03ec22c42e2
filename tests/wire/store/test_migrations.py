"""Migrations: from the first schema, interrupted, by several processes at once, from the future; with a copy before."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from penstock._gateway.journal import Journal
from penstock._gateway.telemetry import StateStore
from penstock._store.journal import FIELDS, JournalEntry, JournalStore
from penstock._store.migrations import (
    MIGRATIONS,
    Migration,
    NewerSchemaError,
    SchemaPart,
    backup_path,
    column_names,
    migrate_postgres,
    migrate_sqlite,
    read_postgres_versions,
    read_sqlite_version,
)
from penstock._store.postgres import PostgresDatabase
from penstock._store.postgres_stores import PostgresJournal
from penstock._store.sqlite import connect
from penstock._store.tokens import TokenStore
from penstock.gateway import GatewayConfig, StateTable

if TYPE_CHECKING:
    from pathlib import Path

# The files as the version without migrations wrote them. Do not change: this is what people have.
OLD_JOURNAL = """
CREATE TABLE turns (id INTEGER PRIMARY KEY, time REAL NOT NULL, key TEXT, client TEXT, route TEXT, protocol TEXT,
  upstream TEXT, operation TEXT, stream INTEGER, tee INTEGER, asked TEXT, provider TEXT, model TEXT, engine TEXT,
  http INTEGER, finish TEXT, fault TEXT, ttft REAL, input INTEGER, output INTEGER, cached INTEGER, reasoning INTEGER,
  cost REAL, estimate INTEGER, low INTEGER, high INTEGER, method TEXT, times INTEGER, malformed INTEGER, tenant TEXT,
  tries INTEGER, decisions TEXT, status TEXT, fault_message TEXT, duration REAL, written INTEGER, exact INTEGER,
  factor REAL, uncertain TEXT, request_id TEXT, upstream_id TEXT, user TEXT, bytes_in INTEGER, bytes_out INTEGER);
CREATE INDEX turns_time ON turns (time);
CREATE INDEX turns_key ON turns (key, time);
INSERT INTO turns (time, key, status, user, times) VALUES (1e9, 'old', 'finish', 'somebody', 1);
"""
_OLD_PAIRS = """(tenant TEXT NOT NULL, key TEXT NOT NULL, value BLOB NOT NULL,
  used REAL NOT NULL, size INTEGER NOT NULL, PRIMARY KEY (tenant, key));"""
OLD_STATE = f"""
CREATE TABLE reasoning {_OLD_PAIRS} CREATE TABLE responses {_OLD_PAIRS}
CREATE INDEX reasoning_used ON reasoning (tenant, used, size); CREATE INDEX reasoning_age ON reasoning (used);
CREATE INDEX responses_used ON responses (tenant, used, size); CREATE INDEX responses_age ON responses (used);
INSERT INTO responses VALUES ('t', 'k', x'3132', 4e9, 3);
"""  # noqa: S608 — our own text
OLD_TOKENS = """
CREATE TABLE counts (tenant TEXT NOT NULL, key TEXT NOT NULL, value BLOB NOT NULL, used REAL NOT NULL,
  PRIMARY KEY (tenant, key));
CREATE INDEX counts_used ON counts (used);
CREATE TABLE factors (tenant TEXT NOT NULL, key TEXT NOT NULL, value BLOB NOT NULL, used REAL NOT NULL,
  PRIMARY KEY (tenant, key));
INSERT INTO factors VALUES ('t', 'k', x'3132', 1e9);
"""


def create(path: Path, script: str) -> None:
    with closing(connect(path)) as connection:
        connection.executescript(script)


def version_of(path: Path, part: str) -> int:
    with closing(sqlite3.connect(path)) as connection:
        return read_sqlite_version(connection, part)


def test_an_old_data_folder_is_upgraded_in_place_with_a_copy(tmp_path: Path) -> None:
    create(tmp_path / "journal.sqlite", OLD_JOURNAL)
    create(tmp_path / "state.sqlite", OLD_STATE)
    create(tmp_path / "tokens.sqlite", OLD_TOKENS)
    config = GatewayConfig(data=tmp_path)
    journal = Journal.open(config)
    assert journal.rows is not None
    journal.write_row(JournalEntry(time=time.time(), key="new"))
    journal.flush()
    assert {turn.key for _, turn in journal.rows.turns()} == {"new"} or len(journal.rows.turns()) == 2
    journal.close()
    state = StateStore.open(config)
    assert state.responses.get("t", ["k"]) == {"k": b"12"}
    state.close()
    tokens = TokenStore(tmp_path / "tokens.sqlite")
    assert tokens.factors.get("t", ["k"]) == {"k": b"12"}
    tokens.close()
    latest = {part: steps[-1].version for part, steps in MIGRATIONS.items()}
    for part in ("journal", "state", "tokens"):
        assert version_of(tmp_path / f"{part}.sqlite", part) == latest[part]
    copy = backup_path(tmp_path / "journal.sqlite", 0)
    with closing(sqlite3.connect(copy)) as kept:
        assert kept.execute("SELECT key, user FROM turns").fetchall() == [("old", "somebody")]
        assert "team" not in column_names(kept, "turns")
        assert kept.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    assert copy.stat().st_mode & 0o077 == 0
    # Files whose tables did not change have no copy, and a second start makes none.
    Journal.open(config).close()
    assert [path.name for path in tmp_path.iterdir() if ".bak" in path.name] == [copy.name]


def test_a_new_database_is_equal_to_an_upgraded_one(tmp_path: Path) -> None:
    create(tmp_path / "old.sqlite", OLD_JOURNAL)
    columns: list[set[str]] = []
    for name in ("old", "new"):
        with closing(connect(tmp_path / f"{name}.sqlite")) as connection:
            assert migrate_sqlite(connection, tmp_path / f"{name}.sqlite", "journal")
            columns.append(column_names(connection, "turns"))
    assert columns[0] == columns[1]
    assert set(FIELDS) <= columns[0]  # a new field of `JournalEntry` needs a migration


def test_a_file_without_a_journal_is_not_given_one_to_read(tmp_path: Path) -> None:
    path = tmp_path / "x.sqlite"
    create(path, "CREATE TABLE other (a)")
    with closing(connect(path)) as connection:
        assert not migrate_sqlite(connection, path, "journal", create=False)
        assert column_names(connection, "turns") == set()


SPLIT = (
    *MIGRATIONS["journal"],
    Migration(4, ("CREATE TABLE third (a)", "UPDATE turns SET key = key || '!'")),
    Migration(4, ("CREATE TABLE fourth (a)", "INSERT INTO missing VALUES (1)")),
)


def test_an_interrupted_migration_leaves_the_old_schema(tmp_path: Path) -> None:
    path = tmp_path / "journal.sqlite"
    create(path, OLD_JOURNAL)
    with closing(connect(path)) as connection:
        with pytest.raises(OSError, match="missing"):
            migrate_sqlite(connection, path, "journal", migrations=SPLIT)
        assert read_sqlite_version(connection, "journal") == 0
        assert column_names(connection, "third") == set()
        assert connection.execute("SELECT key FROM turns").fetchall() == [("old",)]
        assert migrate_sqlite(connection, path, "journal", migrations=SPLIT[:-1])
        assert connection.execute("SELECT key FROM turns").fetchall() == [("old!",)]


KILLED = """
import os, sys
from pathlib import Path
from penstock._store.migrations import MIGRATIONS, Migration, migrate_sqlite
from penstock._store.sqlite import connect
path = Path(sys.argv[1])
connection = connect(path)
connection.create_function("die", 0, lambda: os._exit(9))
steps = (*MIGRATIONS["journal"], Migration(4, ("UPDATE turns SET key = 'half'", "SELECT die()")))
migrate_sqlite(connection, path, "journal", migrations=steps)
"""


def test_a_process_that_is_killed_in_a_migration_leaves_the_old_schema(tmp_path: Path) -> None:
    path = tmp_path / "journal.sqlite"
    create(path, OLD_JOURNAL)
    assert subprocess.run([sys.executable, "-c", KILLED, str(path)], check=False).returncode == 9
    assert version_of(path, "journal") == 0
    rows = JournalStore(path, time.time, read_only=True)
    assert [turn.key for _, turn in rows.turns()] == ["old"]
    rows.close()


STARTED = """
import sys
from pathlib import Path
from penstock._store.migrations import MIGRATIONS, Migration, migrate_postgres, migrate_sqlite
where = sys.argv[1]
steps = (*MIGRATIONS["journal"], Migration(4, *[("UPDATE turns SET key = key || '!'",)] * 2))
sys.stdin.readline()
if where.startswith("postgresql"):
    import psycopg
    with psycopg.connect(where, autocommit=True) as connection:
        migrate_postgres(connection, where, {**MIGRATIONS, "journal": steps})
else:
    from penstock._store.sqlite import connect
    migrate_sqlite(connect(Path(where)), Path(where), "journal", migrations=steps)
"""


def start_at_once(where: str) -> None:
    """Migrates in four processes at the same time."""
    processes = [subprocess.Popen([sys.executable, "-c", STARTED, where], stdin=subprocess.PIPE) for _ in range(4)]
    for process in processes:
        assert process.stdin is not None
        process.stdin.write(b"\n")
        process.stdin.flush()
    for process in processes:
        process.communicate(timeout=120)
        assert process.returncode == 0


def test_processes_that_start_at_once_migrate_once(tmp_path: Path) -> None:
    path = tmp_path / "journal.sqlite"
    create(path, OLD_JOURNAL)
    start_at_once(str(path))
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT key FROM turns").fetchall() == [("old!",)]
    assert version_of(path, "journal") == 4
    assert [one.name for one in tmp_path.iterdir() if ".bak" in one.name] == ["journal.sqlite.v0.bak"]


def test_processes_that_start_at_once_migrate_postgres_once(postgres_url: str) -> None:
    database = PostgresDatabase(postgres_url)
    rows = PostgresJournal(database, time.time, age=1e12, size=10**9)
    rows.add(JournalEntry(time=1.0, key="old"))
    database.close()
    start_at_once(postgres_url)
    with psycopg.connect(postgres_url) as connection:
        assert connection.execute("SELECT key FROM penstock.turns").fetchall() == [("old!",)]
        assert read_postgres_versions(connection)["journal"] == 4


def test_the_first_start_of_several_processes_creates_the_tables_of_postgres(postgres_url: str) -> None:
    start_at_once(postgres_url)
    with psycopg.connect(postgres_url) as connection:
        expected = {part: steps[-1].version for part, steps in MIGRATIONS.items()} | {"journal": 4}
        assert read_postgres_versions(connection) == expected


def test_the_tables_of_postgres_have_every_column(postgres_url: str) -> None:
    PostgresDatabase(postgres_url).close()
    with psycopg.connect(postgres_url) as connection:
        query = "SELECT column_name FROM information_schema.columns WHERE table_schema = 'penstock' AND table_name = 'turns'"
        assert set(FIELDS) <= {name for (name,) in connection.execute(query)}


def test_an_interrupted_migration_of_postgres_leaves_the_old_schema(postgres_url: str) -> None:
    PostgresDatabase(postgres_url).close()
    bad: dict[SchemaPart, Any] = {
        **MIGRATIONS,
        "journal": (*MIGRATIONS["journal"], Migration(4, postgres=("CREATE TABLE third (a int)", "SELECT 1/0"))),
    }
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        with pytest.raises(psycopg.errors.DivisionByZero):
            migrate_postgres(connection, "here", bad)
        assert read_postgres_versions(connection)["journal"] == MIGRATIONS["journal"][-1].version
        assert connection.execute("SELECT to_regclass('penstock.third')").fetchone() == (None,)
    PostgresDatabase(postgres_url).close()


def test_a_database_of_a_newer_version_is_refused(tmp_path: Path, postgres_url: str) -> None:
    config = GatewayConfig(data=tmp_path, state=StateTable(path=str(tmp_path / "state.sqlite")))
    Journal.open(config).close()
    StateStore.open(config).close()
    for name in ("journal", "state"):
        with closing(connect(tmp_path / f"{name}.sqlite")) as connection:
            connection.execute("UPDATE schema_version SET version = 99")
    with pytest.raises(NewerSchemaError, match=r"journal\.sqlite: .* version 99, .* update penstock"):
        Journal.open(config)
    with pytest.raises(NewerSchemaError, match=r"state\.sqlite: .* version 99"):
        StateStore.open(config)
    PostgresDatabase(postgres_url).close()
    with psycopg.connect(postgres_url) as connection:
        connection.execute("UPDATE penstock.schema_version SET version = 99 WHERE part = 'keys'")
    with pytest.raises(NewerSchemaError, match="keys has version 99"):
        PostgresDatabase(postgres_url)
