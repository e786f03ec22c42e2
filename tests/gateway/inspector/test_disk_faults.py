"""A full disk and a read-only folder: streams go on, the page and the log say once what is wrong, and it recovers."""

from __future__ import annotations

import os
import resource
import secrets
import sqlite3
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from penstock._inspector import disk_ring, turn_keeper
from penstock._inspector.session_token import open_session_token
from penstock._inspector.turn_keeper import TurnKeeper
from penstock._store import settled_clock
from penstock._store.kept_turns import FILE, KeptTurnStore
from penstock.testing import RecordingHeader, write_recording
from tests.support.client_requests import ask, get, post
from tests.support.event_feed import ended
from tests.support.inspector import Inspected, inspected

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator
    from pathlib import Path

    from penstock._inspector.turn_keeper import KeepableTurn

NOBODY = 65_534
SMALL_FILE = 2**20  # bytes


def options(folder: Path, journal: Path) -> dict[str, Any]:
    table = {"path": str(journal / "journal.sqlite")}
    return {"inspector": {"keep": True}, "data": folder, "journal": table}


@contextmanager
def read_only(folder: Path) -> Generator[None]:
    """Nothing can be created in the folder. Root may write everywhere, so this process is another user meanwhile."""
    folder.chmod(0o500)
    is_root = os.geteuid() == 0
    if is_root:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        if is_root:
            os.seteuid(0)
        folder.chmod(0o700)


@contextmanager
def full_disk() -> Generator[None]:
    """No file can grow beyond `SMALL_FILE`: the system refuses the write, as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (SMALL_FILE, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def send(gateway: Inspected, text: str = "hello") -> str:
    """Sends a request, and expects the whole stream."""
    body = {"model": "openai-chat/text", "stream": True, "messages": [{"role": "user", "content": text}]}
    reply = post(f"{gateway.url}/v1/chat/completions", json=body)
    assert reply.status_code == 200
    assert reply.text.rstrip().endswith("data: [DONE]")
    name: str = reply.headers["x-request-id"]
    ended(gateway, name)
    gateway.inspector.watch.disk.flush()
    return name


def problem_of(gateway: Inspected) -> str:
    disk = get(f"{gateway.url}/inspector/keeping").json()["disk"]
    return str(disk.get("problem", ""))


def errors(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [row.getMessage() for row in caplog.records if row.name == "penstock.inspector" and row.levelname == "ERROR"]


def test_a_read_only_folder(tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turn_keeper, "OPEN_INTERVAL", 0.0)
    folder, other = tmp_path / "data", tmp_path / "other"
    folder.mkdir()
    other.mkdir()
    with inspected(**options(other, other)) as gateway:  # modules that are imported late cannot be read then
        _look(gateway, send(gateway))
    with inspected(**options(folder, tmp_path)) as gateway:
        with read_only(folder):
            names = [send(gateway) for _ in range(3)]
            assert "turns cannot be kept on disk" in problem_of(gateway)
            assert len(errors(caplog)) == 1
            assert get(f"{gateway.url}/inspector/turns/{names[0]}").json()["frames"], "it is in memory"
            assert {row["id"] for row in get(f"{gateway.url}/inspector/turns?q=hello").json()["rows"]} == {*names}
            assert get(f"{gateway.url}/inspector/sessions").json()["unread"] == 0
        kept = send(gateway)
        assert problem_of(gateway) == ""
        assert gateway.inspector.watch.disk.holds(kept)
        assert not gateway.inspector.watch.disk.holds(names[0])


def _look(gateway: Inspected, name: str) -> None:
    for place in (f"turns/{name}", "turns?q=hello", "sessions", "keeping"):
        assert get(f"{gateway.url}/inspector/{place}").status_code == 200


def test_a_full_disk(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with inspected(**options(tmp_path, tmp_path)) as gateway:
        first = send(gateway)
        with full_disk():
            large = [send(gateway, secrets.token_hex(3 * 2**19)) for _ in range(2)]  # cannot be compressed enough
            assert "the file cannot be written" in problem_of(gateway)
            assert len(errors(caplog)) == 1
            for name in large:
                assert not gateway.inspector.watch.disk.holds(name)
                assert get(f"{gateway.url}/inspector/turns/{name}").json()["frames"], "it is in memory"
            assert gateway.inspector.watch.disk.holds(first)
        last = send(gateway)
        assert problem_of(gateway) == ""
        assert gateway.inspector.watch.disk.holds(last)


def test_a_turn_that_could_not_be_written_says_so_when_it_leaves_memory(tmp_path: Path) -> None:
    with inspected(**options(tmp_path, tmp_path)) as gateway:
        with full_disk():
            name = send(gateway, secrets.token_hex(3 * 2**19))
        gateway.call(_forget(gateway, name))
        assert "it could not be written to disk" in get(f"{gateway.url}/inspector/turns/{name}").json()["lost"]


async def _forget(gateway: Inspected, name: str) -> None:
    watch = gateway.inspector.watch
    watch.forget_capture(watch.captures[name], "memory")


# ── the keeper ────────────────────────────────────────────────────────────────────────────────────


class Keeping:
    """A keeper of captured turns, and what it tells."""

    def __init__(self, gateway: Inspected, path: Path, secrets_of: Any = tuple) -> None:
        self._gateway = gateway
        self.forgotten: list[tuple[str, str]] = []
        self.keeper = TurnKeeper(path, size=2**26, days=1.0, secrets=secrets_of, on_forget=self._on_forget)

    def _on_forget(self, id: str, _: str, reason: str) -> None:
        self.forgotten.append((id, reason))

    def add(self) -> KeepableTurn:
        name = ask(self._gateway.url, "openai-chat", "openai-chat/text").headers["x-request-id"]
        ended(self._gateway, name)
        turn = self._gateway.inspector.watch.captures[name]
        assert self.keeper.add(turn)
        assert self.keeper.flush()
        return turn

    @property
    def store(self) -> KeptTurnStore:
        found = self.keeper.find_store()
        assert found is not None
        return found


@pytest.fixture(scope="module")
def gateway() -> Iterator[Inspected]:
    with inspected() as running:
        yield running


def test_an_unexpected_error_does_not_end_the_thread(gateway: Inspected, tmp_path: Path) -> None:
    defects = [RuntimeError("a defect")]

    def known() -> tuple[str, ...]:
        if defects:
            raise defects.pop()
        return ()

    keeping = Keeping(gateway, tmp_path / FILE, known)
    lost = keeping.add()
    assert keeping.forgotten == [(lost.id, "disk-error")]
    assert "the log says why" in keeping.keeper.problem
    kept = keeping.add()
    assert (kept.on_disk, keeping.keeper.problem) == (True, "")
    keeping.keeper.close()


def test_old_turns_go_also_while_none_can_be_written(
    gateway: Inspected, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> Any:
        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr(settled_clock, "SETTLE", 0.0)
    keeping = Keeping(gateway, tmp_path / FILE)
    old = keeping.add()
    monkeypatch.setattr("penstock._store.kept_turns_index.TextIndex.add_turn", fail)
    keeping.store.age = -1.0
    new = keeping.add()
    assert sorted(keeping.forgotten) == sorted([(old.id, "disk-age"), (new.id, "disk-error")])
    assert keeping.store.count() == 0
    keeping.keeper.close()


def test_written_turns_are_not_lost_if_old_ones_cannot_be_deleted(
    gateway: Inspected, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> Any:
        raise sqlite3.OperationalError("disk I/O error")

    keeping = Keeping(gateway, tmp_path / FILE)
    first = keeping.add()
    monkeypatch.setattr(KeptTurnStore, "_remove", fail)
    turn = keeping.add()
    assert (first.on_disk, turn.on_disk, keeping.forgotten) == (True, True, [])
    assert keeping.keeper.problem == "old turns cannot be deleted: disk I/O error"
    assert keeping.store.holds(turn.id)
    keeping.keeper.close()


def test_one_keeper_however_many_ask_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[TurnKeeper] = []
    barrier = threading.Barrier(8)

    class Slow(TurnKeeper):
        def __init__(self, *args: Any, **more: Any) -> None:
            made.append(self)
            super().__init__(*args, **more)

    monkeypatch.setattr(disk_ring, "TurnKeeper", Slow)
    with inspected(**options(tmp_path, tmp_path)) as gateway:
        disk = gateway.inspector.watch.disk
        (tmp_path / FILE).touch(mode=0o600)

        def look() -> None:
            barrier.wait()
            disk.describe(None)

        threads = [threading.Thread(target=look) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(made) == 1


# ── other files ───────────────────────────────────────────────────────────────────────────────────


def test_a_full_disk_leaves_no_part_of_a_recording(tmp_path: Path) -> None:
    with full_disk(), pytest.raises(OSError, match="too large"):
        write_recording(tmp_path / "one.tape", RecordingHeader(), [(0.0, secrets.token_bytes(2 * SMALL_FILE))])
    assert list(tmp_path.iterdir()) == []


def test_a_token_that_cannot_be_written_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> Any:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("penstock._inspector.session_token._publish_token", fail)
    open_session_token.cache_clear()
    assert len(open_session_token(tmp_path)) >= 32
    open_session_token.cache_clear()
    assert list(tmp_path.iterdir()) == []


def test_a_turn_that_is_deleted_while_it_is_written_does_not_stay(
    gateway: Inspected, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A deletion does not wait for a slow batch without end."""
    monkeypatch.setattr(turn_keeper, "CLOSE_TIMEOUT", 0.01)
    begun, gate, encode = threading.Event(), threading.Event(), turn_keeper.encode_turn

    def encode_slowly(*given: Any) -> Any:
        begun.set()
        assert gate.wait(20)
        return encode(*given)

    keeping = Keeping(gateway, tmp_path / FILE)
    first = keeping.add()
    monkeypatch.setattr(turn_keeper, "encode_turn", encode_slowly)
    name = ask(gateway.url, "openai-chat", "openai-chat/text").headers["x-request-id"]
    ended(gateway, name)
    assert keeping.keeper.add(gateway.inspector.watch.captures[name])
    assert begun.wait(20)
    assert keeping.keeper.delete_turns({name}, None) == {}
    gate.set()
    assert keeping.keeper.flush()
    assert (keeping.store.holds(name), keeping.store.holds(first.id)) == (False, True)
    keeping.keeper.close()
