"""Deleted text leaves the WAL also if another connection was reading: at the next attempt, or at the next opening."""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

import pytest

from penstock._store import sqlite as store_sqlite
from penstock._store.kept_turns import FILE, KeptTurnRow, KeptTurnStore
from penstock._store.kept_turns_index import WORDS, TextPiece

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator
    from pathlib import Path

WORD = b"walnut7391"
SIZE = 2**22


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_sqlite, "LOCK_TIMEOUT", 0.01)


def opened(folder: Path) -> KeptTurnStore:
    return KeptTurnStore(folder / FILE, size=SIZE, age=1000.0)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[KeptTurnStore]:
    made = opened(tmp_path)
    made.write_turns([KeptTurnRow(name, "", time.time(), b"", [[TextPiece(WORD, WORDS)]]) for name in ("a", "b")])
    with closing(made):
        yield made


@contextmanager
def reading(folder: Path) -> Generator[sqlite3.Connection, None, None]:
    """Another program, with a read transaction."""
    with closing(sqlite3.connect(folder / FILE, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM turns").fetchone()
        yield reader


def holds_word(folder: Path) -> bool:
    return any(WORD in path.read_bytes() for path in folder.glob(f"{FILE}*"))


def test_without_readers_nothing_remains(store: KeptTurnStore, tmp_path: Path) -> None:
    assert holds_word(tmp_path)
    assert set(store.delete_turns()) == {"a", "b"}
    assert not store.may_hold_deleted
    assert not holds_word(tmp_path)


@pytest.mark.parametrize("again", [KeptTurnStore.trim, KeptTurnStore.delete_turns])
def test_a_reader_delays_it(store: KeptTurnStore, tmp_path: Path, again: Callable[[KeptTurnStore], object]) -> None:
    with reading(tmp_path) as reader:
        assert set(store.delete_turns()) == {"a", "b"}
        assert store.may_hold_deleted
        assert holds_word(tmp_path)
        again(store)
        assert store.may_hold_deleted
        reader.execute("COMMIT")
        again(store)
        assert not store.may_hold_deleted
        assert not holds_word(tmp_path)


def test_an_attempt_keeps_the_time_to_wait_for_locks(store: KeptTurnStore, tmp_path: Path) -> None:
    before = store._writer.execute("PRAGMA busy_timeout").fetchone()  # pyright: ignore[reportPrivateUsage]
    with reading(tmp_path):
        store.delete_turns()
        store.trim()
    assert store._writer.execute("PRAGMA busy_timeout").fetchone() == before  # pyright: ignore[reportPrivateUsage]


def test_after_a_restart_it_is_tried_again(store: KeptTurnStore, tmp_path: Path) -> None:
    with reading(tmp_path) as reader:
        store.delete_turns()
        store.close()
        with closing(opened(tmp_path)) as second:
            assert second.may_hold_deleted
            second.trim()
            assert second.may_hold_deleted
            reader.execute("COMMIT")
            second.trim()
            assert not second.may_hold_deleted
            assert not holds_word(tmp_path)


def test_a_damaged_file_that_is_emptied_says_so_too(store: KeptTurnStore, tmp_path: Path) -> None:
    with reading(tmp_path) as reader:
        store._empty([])  # pyright: ignore[reportPrivateUsage]
        assert store.may_hold_deleted
        reader.execute("COMMIT")
        store.trim()
        assert not store.may_hold_deleted
        assert not holds_word(tmp_path)


def test_a_wal_over_its_bound_is_tried_again(store: KeptTurnStore, tmp_path: Path) -> None:
    store.size = 1  # the file is over its bound
    with reading(tmp_path) as reader:
        store._limit_wal()  # pyright: ignore[reportPrivateUsage]
        assert store.may_hold_deleted
        reader.execute("COMMIT")
        store.trim()
        assert not store.may_hold_deleted


def test_a_new_file_has_nothing_to_erase(tmp_path: Path) -> None:
    with closing(opened(tmp_path)) as made:
        assert not made.may_hold_deleted
