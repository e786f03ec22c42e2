"""The files of a data folder: created once, for their owner, and never opened beside SQLite."""

from __future__ import annotations

import os
import sqlite3
import stat
import sys
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING

import pytest

from tests.support.openresponses import named
from tests.support.stores import Place, turn, until
from tests.wire.store.processes import READER, deleted_files, holds_lock, integrity, needs_proc, run_python

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

posix = pytest.mark.skipif(sys.platform == "win32", reason="rights and links are another matter there")
PARTS = ("journal", "state")


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def open_umask() -> Iterator[None]:
    """Files are for everybody, unless somebody says otherwise."""
    before = os.umask(0o000)
    yield
    os.umask(before)


@needs_proc
def test_a_gateway_keeps_its_locks_however_often_others_connect(tmp_path: Path) -> None:
    """The reproduction: a second start, other gateways of this process, readers of another one, and rows after them."""
    place = Place("file", tmp_path)
    with place.open(named) as running:
        turn(running)
    with place.open(named) as running, ExitStack() as stack:
        for number in range(3):
            place.wait_for(turn(running))
            if number:
                stack.enter_context(place.open(named))
            else:
                assert run_python(READER, str(tmp_path)).returncode == 0
            place.usage()
            assert deleted_files(os.getpid()) == []
            assert [holds_lock(os.getpid(), place.path(part)) for part in PARTS] == [True, True]
        stack.close()
        place.wait_for(turn(running))
        assert [holds_lock(os.getpid(), place.path(part)) for part in PARTS] == [True, True]
    assert len(place.ids()) == 5
    assert [integrity(place.path(part)) for part in PARTS] == ["ok", "ok"]
    assert not [*tmp_path.glob("*-wal")], "the last to leave has emptied it"


@needs_proc
def test_other_names_of_a_file_do_not_cost_its_lock(tmp_path: Path) -> None:
    place = Place("file", tmp_path)
    (tmp_path / "folder").mkdir()
    link, detour = tmp_path / "link.sqlite", tmp_path / "folder" / ".." / "journal.sqlite"
    with place.open() as running, ExitStack() as stack:
        place.wait_for(turn(running))
        link.symlink_to(place.path("journal"))
        for other in (link, detour):
            also = stack.enter_context(place.open(journal={"path": str(other)}))
            place.wait_for(turn(also))
            assert holds_lock(os.getpid(), place.path("journal"))
        stack.close()
        assert holds_lock(os.getpid(), place.path("journal"))
    assert len(place.ids()) == 3


class Watcher:
    """Python reports every `open` to an audit hook, which stays for good; SQLite's own do not pass through Python."""

    def __init__(self) -> None:
        self.watching, self.found = True, list[str]()

    def __call__(self, event: str, values: tuple[object, ...]) -> None:
        if self.watching and event == "open" and isinstance(values[0], str) and isinstance(values[2], int):
            is_database = ".sqlite" in values[0] and not values[0].endswith(".lock")
            self.found += [values[0]] if is_database and not values[2] & os.O_EXCL else []


@posix
def test_nothing_opens_a_database_file_that_exists_except_sqlite(tmp_path: Path) -> None:
    watcher, place = Watcher(), Place("file", tmp_path)
    sys.addaudithook(watcher)
    try:
        for _ in range(2):
            with place.open(named, inspector={"keep": True}, stores={"limits": "sqlite"}) as running:
                place.wait_for(turn(running))
                place.usage()
    finally:
        watcher.watching = False
    assert watcher.found == []


@posix
@pytest.mark.usefixtures("open_umask")
def test_files_are_for_their_owner_whatever_the_umask(tmp_path: Path) -> None:
    place = Place("file", tmp_path / "deep" / "data")
    with place.open(named, inspector={"keep": True}, stores={"limits": "sqlite"}, limits={"requests": 50}) as running:
        turn(running)
        until((place.folder / "turns.sqlite").exists)
        modes = {path.name: mode(path) for path in place.folder.iterdir() if ".sqlite" in path.name}
    assert {"journal.sqlite", "journal.sqlite-wal", "state.sqlite", "turns.sqlite"} <= modes.keys()
    assert set(modes.values()) == {0o600}, modes
    assert mode(place.folder) == 0o700


@posix
@pytest.mark.usefixtures("open_umask")
def test_a_dangling_link_an_odd_name_and_rights_that_somebody_gave(tmp_path: Path) -> None:
    place, odd = Place("file", tmp_path), tmp_path / "what?mode=ro#100%25 ü.sqlite"
    link, real = tmp_path / "link.sqlite", tmp_path / "real.sqlite"
    link.symlink_to(real)
    for path in (link, odd):
        with place.open(journal={"path": str(path)}) as running:
            turn(running)
        with closing(sqlite3.connect(real if path == link else odd)) as opened:
            assert opened.execute("SELECT count(*) FROM turns").fetchone() == (1,)
    assert mode(real) == mode(odd) == 0o600
    odd.chmod(0o640)
    with place.open(journal={"path": str(odd)}) as running:
        turn(running)
    assert mode(odd) == 0o640, "rights of a file that exists are left alone"


def damage_all(path: Path) -> None:
    path.write_bytes(b"not a database at all " * 1000)


def damage_schema(path: Path) -> None:
    with closing(sqlite3.connect(path)) as opened:
        opened.execute("CREATE TABLE turns (x)")
    data = bytearray(path.read_bytes())
    data[100:1000] = b"\xff" * 900
    path.write_bytes(data)


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("damage", [damage_all, damage_schema])
def test_a_damaged_file_is_named_with_the_fix(tmp_path: Path, part: str, damage: object) -> None:
    place = Place("file", tmp_path)
    assert callable(damage)
    damage(place.path(part))
    before = place.path(part).read_bytes()
    with pytest.raises(OSError, match=rf"{part}\.sqlite") as caught, place.open(named):
        pass
    assert ".recover" in str(caught.value)
    assert f"{part}.sqlite-wal" in str(caught.value)
    assert place.path(part).read_bytes() == before


def test_a_lock_that_is_held_too_long_is_said_to_be_one(tmp_path: Path) -> None:
    place = Place("file", tmp_path)
    with closing(sqlite3.connect(place.path("journal"), isolation_level=None)) as other:  # not WAL: it keeps all out
        other.execute("CREATE TABLE t (x)")
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(OSError, match=r"another process has held its lock for \d"), place.open():
            pass
