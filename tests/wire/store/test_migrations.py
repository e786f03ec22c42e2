"""Data folders of older versions: upgraded at the start, with a copy; by several at once; and those of newer versions."""

from __future__ import annotations

import signal
import sqlite3
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING

import psycopg
import pytest

from penstock.errors import PenstockError
from tests.cli.command_runner import inside
from tests.support import process
from tests.support.openresponses import named
from tests.support.stores import Place, found, turn
from tests.wire.store.processes import integrity, start_python

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


PARTS = {"journal": OLD_JOURNAL, "state": OLD_STATE, "tokens": OLD_TOKENS}


def old_folder(folder: Path, rows: int = 1) -> Place:
    """A data folder of the version without migrations."""
    folder.mkdir(exist_ok=True)
    for part, script in PARTS.items():
        with closing(sqlite3.connect(folder / f"{part}.sqlite")) as opened, opened:
            opened.execute("PRAGMA journal_mode=WAL")
            opened.executescript(script)
            if part == "journal":
                opened.executemany(
                    "INSERT INTO turns (time, key) VALUES (?, 'old')", [(2e9 + n,) for n in range(rows - 1)]
                )
    return Place("file", folder)


def columns(path: Path, table: str = "turns") -> set[str]:
    with closing(sqlite3.connect(path)) as opened:
        return {row[1] for row in opened.execute(f"PRAGMA table_info({table})")}


def schema(path: Path) -> list[tuple[str, ...]]:
    with closing(sqlite3.connect(path)) as opened:
        return sorted(opened.execute("SELECT type, name, tbl_name FROM sqlite_master"))


def copies(folder: Path) -> list[Path]:
    return [path for path in folder.iterdir() if ".bak" in path.name]


def test_an_old_data_folder_is_upgraded_in_place_with_a_copy(tmp_path: Path) -> None:
    place = old_folder(tmp_path)
    place.run("UPDATE turns SET time = ?", [time.time()])
    with place.open(named) as running:
        name = turn(running)
        place.wait_for(name)
        assert found(running)[0] == name
        assert len(found(running)) == 2
    assert place.run("SELECT key, user FROM turns ORDER BY id")[0] == ("old", "somebody")
    assert place.run("SELECT value FROM responses WHERE key = 'k'", (), "state") == [(b"12",)]
    assert place.run("SELECT value FROM factors", (), "tokens") == [(b"12",)]
    (copy,) = copies(tmp_path)  # files whose tables did not change have none
    assert copy.name.startswith("journal.sqlite")
    with closing(sqlite3.connect(copy)) as kept:
        assert kept.execute("SELECT key, user FROM turns").fetchall() == [("old", "somebody")]
        assert kept.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    assert "team" not in columns(copy)
    assert copy.stat().st_mode & 0o077 == 0
    with place.open():
        pass
    assert copies(tmp_path) == [copy], "a second start makes none"
    new = Place("file", tmp_path / "new")
    new.folder.mkdir()
    with new.open(named) as running:
        turn(running)
    for part in ("journal", "state"):
        assert schema(new.path(part)) == schema(place.path(part))
        for table in ("turns", "responses"):
            assert columns(new.path(part), table) == columns(place.path(part), table)


def test_usage_of_an_old_folder_upgrades_nothing_else(tmp_path: Path) -> None:
    place = old_folder(tmp_path)
    assert place.usage("--since", "2000-01-01")["total"]["turns"] == 1
    assert integrity(place.path("journal")) == "ok"


CONFIG = "[serve]\npace = 0\n"


def test_processes_that_start_at_once_or_are_killed_upgrade_once(tmp_path: Path) -> None:
    """Two are killed while they start, then three start together: each row is there once, and there is one copy."""
    place = old_folder(tmp_path / "data", rows=20_000)
    environment = {"PENSTOCK_DATA": str(place.folder)}
    program = "import sys; from penstock.gateway import App, load_config; load_config(sys.argv[1]); App(load_config(sys.argv[1]))"
    config = tmp_path / "penstock.toml"
    paths = "".join(f'[{part}]\npath = "{place.path(part)}"\n' for part in ("journal", "state"))
    config.write_text(paths)
    for pause in (0.35, 0.5):
        killed = start_python(program, str(config))
        time.sleep(pause)  # somewhere in its start: no event tells where
        killed.kill()
        killed.communicate()
    with ExitStack() as stack, ThreadPoolExecutor() as pool:
        folders = [tmp_path / f"gateway-{number}" for number in range(3)]
        for folder in folders:
            folder.mkdir()
        running = [
            *pool.map(lambda folder: stack.enter_context(process.gateway(folder, CONFIG, **environment)), folders)
        ]
        running[0].stop(signal.SIGKILL)
    assert place.run("SELECT count(*) FROM turns WHERE key = 'old'") == [(19_999,)], "one is older than rows are kept"
    assert len([path for path in copies(place.folder) if path.name.startswith("journal")]) == 1
    assert "team" in columns(place.path("journal"))
    assert integrity(place.path("journal")) == "ok"


def test_a_migration_that_fails_leaves_the_old_schema(tmp_path: Path) -> None:
    """A view with the name of what it would make is in its way. Without it the next start does all of it."""
    place = old_folder(tmp_path)
    before = columns(place.path("journal"))
    with closing(sqlite3.connect(place.path("journal"))) as opened, opened:
        opened.execute("CREATE TRIGGER stop BEFORE UPDATE ON turns BEGIN SELECT RAISE(ABORT, 'not now'); END")
        opened.execute("CREATE VIEW schema_version AS SELECT 1 AS part")
    with pytest.raises(OSError, match=r"journal\.sqlite"), place.open():
        pass
    assert columns(place.path("journal")) == before
    assert place.run("SELECT key FROM turns") == [("old",)]
    with closing(sqlite3.connect(place.path("journal"))) as opened, opened:
        opened.execute("DROP VIEW schema_version")
        opened.execute("DROP TRIGGER stop")
    with place.open() as running:
        place.wait_for(turn(running))
    assert "team" in columns(place.path("journal"))


def test_a_file_without_a_journal_is_not_given_one_to_read(tmp_path: Path) -> None:
    path = tmp_path / "journal.sqlite"
    with closing(sqlite3.connect(path)) as opened:
        opened.execute("CREATE TABLE other (a)")
    assert inside("usage", "--journal", str(path), PENSTOCK_DATA=str(tmp_path)).returncode != 0
    assert columns(path) == set()


def test_a_database_of_a_newer_version_is_refused(tmp_path: Path, postgres_url: str) -> None:
    place = Place("file", tmp_path)
    with place.open(named) as running:
        turn(running)
    for part in ("state", "journal"):
        place.run("UPDATE schema_version SET version = 99", (), part)
        with (
            pytest.raises((OSError, PenstockError), match=rf"{part}\.sqlite: .* version 99.*update penstock"),
            place.open(),
        ):
            pass
    shared = Place("postgres", tmp_path, postgres_url)
    with shared.open() as running:
        turn(running)
    with psycopg.connect(postgres_url) as connection:
        connection.execute("UPDATE penstock.schema_version SET version = 99 WHERE part = 'keys'")
    with pytest.raises((OSError, PenstockError), match="keys has version 99"), shared.open():
        pass
