"""Why a turn has no content is still known after a restart: from the file of kept turns, without content."""

from __future__ import annotations

import sqlite3
import time
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from penstock._inspector.keeping_policy import REASONS
from penstock._store import settled_clock
from penstock._store.kept_turns import FILE, KeptTurnStore
from penstock._store.kept_turns_missing import MAX_MISSING_TURNS, MissingTurn
from tests.support.client_requests import ask, get, post
from tests.support.event_feed import Reader, bearer, ended, watching
from tests.support.inspector import inspected
from tests.support.paused_upstream import going, waiting

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from penstock._inspector.keeping_policy import Forgotten
    from tests.support.inspector import Inspected


def options(folder: Path, *, keep: bool = True, days: float = 7.0, **more: Any) -> dict[str, Any]:
    journal = {"path": str(folder / "journal.sqlite")}
    return {"inspector": {"keep": keep, "days": days}, "data": folder, "journal": journal, **more}


def send(gateway: Inspected, key: str = "") -> str:
    headers = bearer(key) if key else {}
    name: str = ask(gateway.url, "openai-chat", "openai-chat/text", headers=headers).headers["x-request-id"]
    return name


def lost(gateway: Inspected, name: str, key: str = "") -> str:
    response = get(f"{gateway.url}/inspector/turns/{name}", headers=bearer(key) if key else {})
    assert response.status_code == 200, response.text
    text: str = response.json()["lost"]
    return text


def delete(gateway: Inspected, name: str) -> None:
    place = f"{gateway.url}/inspector/turns/{name}"
    assert httpx.delete(place, timeout=20, trust_env=False).status_code == 200


def switch(gateway: Inspected, **fields: bool) -> None:
    assert post(f"{gateway.url}/inspector/keeping", json=fields).status_code == 200


# ── each reason ───────────────────────────────────────────────────────────────────────────────────


def _delete(gateway: Inspected) -> str:
    name = send(gateway)
    ended(gateway, name)
    gateway.inspector.watch.disk.flush()
    delete(gateway, name)
    return name


def _pause(gateway: Inspected) -> str:
    switch(gateway, paused=True)
    name = send(gateway)
    switch(gateway, paused=False)
    return name


def _fail(gateway: Inspected) -> str:
    """The file cannot be written, and newer turns take its place in memory."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(KeptTurnStore, "write_turns", _refuse)
        name = send(gateway)
        ended(gateway, name)
        gateway.inspector.watch.disk.flush()
    gateway.call(_forget(gateway, name, "memory"))
    return name


def _refuse(*_: object) -> Any:
    raise sqlite3.OperationalError("disk I/O error")


def _wait_too_long(gateway: Inspected) -> str:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("penstock._inspector.turn_keeper.MAX_WAITING", 0)
        name = send(gateway)
        ended(gateway, name)
    gateway.call(_forget(gateway, name, "memory"))
    return name


def _too_large(gateway: Inspected) -> str:
    return _go(gateway, "too-large")


def _unwatched(gateway: Inspected) -> str:
    return _go(gateway, "unwatched")


def _go(gateway: Inspected, reason: Forgotten) -> str:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("penstock._inspector.turn_keeper.MAX_WAITING", 0)  # it does not reach the disk
        name = send(gateway)
        ended(gateway, name)
    gateway.call(_forget(gateway, name, reason))
    return name


async def _forget(gateway: Inspected, name: str, reason: Forgotten) -> None:
    watch = gateway.inspector.watch
    watch.forget_capture(watch.captures[name], reason)


def _fill(gateway: Inspected) -> str:
    return _trim(gateway, size=0)


def _age(gateway: Inspected) -> str:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(settled_clock, "SETTLE", 0.0)
        return _trim(gateway, age=-60.0)


def _trim(gateway: Inspected, *, size: int | None = None, age: float | None = None) -> str:
    name = send(gateway)
    ended(gateway, name)
    watch: Any = gateway.inspector.watch
    watch.disk.flush()
    store = watch.disk._keeper.find_store()
    store._limit = store._limit if size is None else size
    store.age = store.age if age is None else age
    store.trim()
    gateway.call(_forget(gateway, name, "memory"))
    return name


@pytest.mark.parametrize(
    ("lose", "reason"),
    [
        (_delete, "deleted"), (_pause, "paused"), (_fail, "disk-error"), (_wait_too_long, "disk-busy"),
        (_too_large, "too-large"), (_unwatched, "unwatched"), (_fill, "disk-full"), (_age, "disk-age"),
    ],
    ids=lambda one: one if isinstance(one, str) else "",
)  # fmt: skip
def test_a_reason_is_known_after_a_restart(tmp_path: Path, lose: Callable[[Inspected], str], reason: Forgotten) -> None:
    expected = REASONS[reason].format(memory=32, minutes="5", disk=256, days=7.0)
    with inspected(**options(tmp_path)) as gateway:
        name = lose(gateway)
        gateway.inspector.watch.close_files()
    with inspected(**options(tmp_path)) as again:
        assert name not in again.inspector.watch.policy.forgotten
        assert lost(again, name) == f"{expected}: there is only its row in the journal"
        (row,) = [one for one in get(f"{again.url}/inspector/turns").json()["rows"] if one["id"] == name]
        assert row["held"] is False


def test_a_turn_of_a_key_that_did_not_opt_in_says_so_after_a_restart(tmp_path: Path) -> None:
    """It was in memory, because somebody watched."""
    first = "pk-penstock-first"
    keyed = options(tmp_path, keys={"first": {"env": "FIRST"}}, env={"FIRST": first})
    with inspected(**keyed) as gateway:
        with watching(gateway.url, bearer(first)):
            name = send(gateway, first)
            ended(gateway, name)
        gateway.call(_clear_unwatched(gateway))
        gateway.inspector.watch.close_files()
    with inspected(**keyed) as again:
        assert "nobody has watched for 5 minutes" in lost(again, name, first)


async def _clear_unwatched(gateway: Inspected) -> None:
    gateway.inspector.watch.clear_unwatched()


# ── what is certain without a reason ──────────────────────────────────────────────────────────────


def test_in_memory_only_a_restart_is_the_one_reason(tmp_path: Path) -> None:
    """Whatever else happened to it: after a restart nothing would be there. Nothing is stored for this."""
    with inspected(**options(tmp_path, keep=False)) as gateway:
        names = [send(gateway) for _ in range(2)]
        for name in names:
            ended(gateway, name)
        delete(gateway, names[0])
    assert not (tmp_path / FILE).exists()
    with inspected(**options(tmp_path, keep=False)) as again:
        for name in names:
            assert lost(again, name) == (
                "the gateway was restarted since, and turns were kept in memory only: there is only its row in the journal"
            )


def test_a_turn_that_was_never_on_disk_says_so_after_a_restart(tmp_path: Path) -> None:
    with inspected(**options(tmp_path)) as gateway:
        ended(gateway, send(gateway))
        switch(gateway, disk=False)
        name = send(gateway)
        ended(gateway, name)
    with inspected(**options(tmp_path)) as again:
        assert lost(again, name) == (
            "the gateway was restarted since, and it was not written to disk: there is only its row in the journal"
        )


def test_a_turn_from_before_the_file_names_all_causes(tmp_path: Path) -> None:
    with inspected(**options(tmp_path, keep=False)) as gateway:
        name = send(gateway)
        ended(gateway, name)
    with inspected(**options(tmp_path)) as again:
        ended(again, send(again))
        again.inspector.watch.disk.flush()
        assert "it was in memory only, or it was deleted, or newer turns took its place on disk" in lost(again, name)


def test_a_turn_that_is_too_old_to_be_known_says_so_after_a_restart(tmp_path: Path) -> None:
    """The file has forgotten why; it is told from its time."""
    with inspected(**options(tmp_path)) as gateway:
        name = send(gateway)
        ended(gateway, name)
        gateway.inspector.watch.close_files()
    connection = sqlite3.connect(tmp_path / FILE)
    connection.execute("DELETE FROM turns")
    connection.commit()
    connection.close()
    with inspected(**options(tmp_path, days=1e-9)) as again:
        assert "older turns are deleted" in lost(again, name)


# ── bounds ────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("size", "most"), [(2**28, MAX_MISSING_TURNS), (2**22, 2_048)])
def test_reasons_are_bounded(tmp_path: Path, size: int, most: int) -> None:
    """The oldest go. From then on nothing is claimed of turns as old as they are."""
    now = [1_000.0]
    store = KeptTurnStore(tmp_path / FILE, size=size, age=3600.0, clock=lambda: now[0])
    assert store.find_missing("unknown") == ("", 1_000.0)
    store.write_missing([MissingTurn("first", "paused")])
    for step in range(3):
        now[0] += 1
        store.write_missing([MissingTurn(f"{step}-{number}", "paused") for number in range(most // 2)])
    assert store.find_missing("first") == ("", 1_001.0)
    assert store.find_missing("0-5") == ("", 1_001.0)
    assert store.find_missing("1-0") == ("paused", 1_001.0)
    assert store.find_missing(f"2-{most // 2 - 1}") == ("paused", 1_001.0)
    assert store.file_bytes < size // 8
    store.close()


def test_many_turns_that_are_not_kept_are_remembered_within_the_bound(tmp_path: Path) -> None:
    with inspected(**options(tmp_path)) as gateway:
        policy = gateway.inspector.watch.policy
        for number in range(50_000):
            policy.forget(str(number), "paused")
        assert len(policy.forgotten) == len(policy.unwritten) == 20_000


def test_a_deletion_stays_the_reason(tmp_path: Path) -> None:
    store = KeptTurnStore(tmp_path / FILE, size=2**26, age=3600.0)
    for reason in ("disk-error", "deleted", "memory"):
        store.write_missing([MissingTurn("one", reason)])
    assert store.find_missing("one").reason == "deleted"
    store.close()


def test_reasons_are_written_though_no_turn_comes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock._inspector.turn_keeper.TRIM_INTERVAL", 0.05)
    with inspected(**options(tmp_path)) as gateway:
        ended(gateway, send(gateway))
        name = _pause(gateway)
        disk, until = gateway.inspector.watch.disk, time.monotonic() + 10
        while not (found := disk.find_missing(name)) or not found.reason:
            assert time.monotonic() < until
        assert found.reason == "paused"


def test_reasons_that_cannot_be_written_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with inspected(**options(tmp_path)) as gateway:
        with monkeypatch.context() as patch:
            patch.setattr(KeptTurnStore, "write_missing", _refuse)
            name = _pause(gateway)
            ended(gateway, send(gateway))
            gateway.inspector.watch.disk.flush()
            assert MissingTurn(name, "paused") in gateway.inspector.watch.policy.unwritten
        ended(gateway, send(gateway))
        gateway.inspector.watch.disk.flush()
        found = gateway.inspector.watch.disk.find_missing(name)
        assert found is not None
        assert found.reason == "paused"


def test_a_turn_that_was_dropped_while_it_runs_says_so() -> None:
    """It has no row in the journal yet."""
    with waiting() as (gateway, gate), watching(gateway.url) as reader, going(gateway, gate, reader) as row:
        gateway.call(_drop(gateway, row["id"]))
        place = f"{gateway.url}/inspector/turns/{row['id']}"
        said = "it still runs; it was dropped because too much went on at once for the memory of the inspector"
        trace = get(place).json()
        assert (trace["lost"], trace["request_lost"], trace["row"]["state"]) == (said, said, "streaming")
        assert trace["marks"] == []
        request = get(f"{place}/request").json()
        assert (request["kept"], request["canonical_error"]) == (False, said)
        for part in ("export", "breakdown", "headers"):
            assert get(f"{place}/{part}").status_code != 404, part
        with Reader(f"{place}/follow") as follower:
            follower.until(lambda: follower.events)
            gate.open.set()
            follower.until(lambda: follower.over)
        assert follower.events


async def _drop(gateway: Inspected, name: str) -> None:
    """As when it grows, and nothing else can give way."""
    watch = gateway.inspector.watch
    watch.size -= watch.captures[name].drop()
