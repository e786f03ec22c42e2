"""Key stores, in a file and in PostgreSQL: records, versions, atomic changes, the audit log, reset."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import psycopg
import pytest
from msgspec.structs import replace

from penstock._store.key_records import Key, KeyRecords, Limit, Organisation, PreviousSecret, RecordChange, Team
from penstock._store.key_store import FileKeyStore, KeyStore
from penstock._store.postgres_keys import PostgresKeyStore
from penstock.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    OpenStore = Callable[[], KeyStore]

SOON = datetime(2030, 1, 31, tzinfo=UTC)
FULL = Key(
    hash=f"sha256:{'0' * 64}", models=("gpt-*",), tenant="t", team="research", role="admin", limits=Limit(day_cost=1.5),
    max_output=9, expires=SOON, note="é", previous=(PreviousSecret(hash=f"sha256:{'1' * 64}", expires=SOON),),
)  # fmt: skip


@pytest.fixture(params=["file", "postgres"])
def open_store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[OpenStore]:
    opened: list[KeyStore] = []
    url = request.getfixturevalue("postgres_url") if request.param == "postgres" else ""

    def open_() -> KeyStore:
        if url:
            opened.append(PostgresKeyStore(url))
        else:
            opened.append(FileKeyStore(tmp_path / "keys.json"))
        return opened[-1]

    yield open_
    for one in opened:
        one.close()


def add(name: str, key: Key) -> Callable[[KeyRecords], KeyRecords]:
    return lambda records: replace(records, keys={**records.keys, name: key})


def test_records_come_back_as_they_were(open_store: OpenStore) -> None:
    store, other = open_store(), open_store()
    assert store.read() == KeyRecords()
    before = other.version()
    team, all_ = Team(limits=Limit(requests=3), note="n"), Organisation(limits=Limit(total_tokens=9))
    made = store.change(
        lambda records: replace(records, keys={"a": FULL}, teams={"research": team}, organisation=all_),
        actor="me",
        action="add",
    )
    assert made == other.read() == KeyRecords(
        keys={"a": FULL}, teams={"research": team}, organisation=all_, version=1, required=True
    )  # fmt: skip
    assert other.version() != before


def test_a_change_that_fails_changes_nothing(open_store: OpenStore) -> None:
    store = open_store()
    store.change(add("a", FULL), actor="me", action="add")
    version = store.version()

    def fail(_: KeyRecords) -> KeyRecords:
        raise InputError("no")

    with pytest.raises(InputError, match="no"):
        store.change(fail, actor="me", action="fail")
    with pytest.raises(InputError, match="models"):
        store.change(add("b", Key(models=())), actor="me", action="fail")
    assert (store.version(), [*store.read().keys], len(store.audit())) == (version, ["a"], 1)


def test_changes_of_several_at_once_are_all_there(open_store: OpenStore) -> None:
    def change(number: int) -> None:
        store = open_store()
        for again in range(5):
            store.change(add(f"k{number}-{again}", Key(note=str(number))), actor=f"a{number}", action="add")

    threads = [threading.Thread(target=change, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    store = open_store()
    assert (len(store.read().keys), store.read().version) == (20, 20)
    rows = store.audit(limit=50)
    assert [one.id for one in rows] == [*range(20, 0, -1)]
    assert [one.id for one in store.audit(limit=2, before=5)] == [4, 3]
    assert {one.actor for one in rows} == {"a0", "a1", "a2", "a3"}
    assert "0000000000" not in str(rows)


def test_a_row_of_the_audit_log_is_removed_again(open_store: OpenStore) -> None:
    """Of a change that failed, also if others have written rows since."""
    store = open_store()
    change = RecordChange("provider", "mine", None, {"origin": "https://up.example"})
    remove = store.add_audit(actor="me", action="provider.add-key", changes=(change,))
    assert [(one.id, one.changes) for one in store.audit()] == [(1, (change,))]
    remove()
    assert store.audit() == []
    remove_first = store.add_audit(actor="me", action="first", changes=(change,))
    open_store().add_audit(actor="you", action="second", changes=(change,))
    remove_first()
    assert [one.action for one in store.audit()] == ["second"]
    store.change(add("a", FULL), actor="me", action="add")
    assert [one.action for one in store.audit()] == ["add", "second"]
    remove_first()
    assert len(store.audit()) == 2


def test_once_required_it_stays_so_until_a_reset(open_store: OpenStore) -> None:
    store = open_store()
    assert not store.read().required
    store.mark_required()
    assert open_store().read().required
    store.change(add("a", FULL), actor="me", action="add")
    store.change(lambda records: replace(records, keys={}), actor="me", action="remove")
    assert store.read().required
    store.reset(actor="me")
    assert store.read() == KeyRecords(version=store.read().version)
    assert [one.action for one in store.audit()] == ["reset", "remove", "add"]


def test_a_connection_that_was_ended_is_replaced_and_messages_have_no_password(postgres_url: str) -> None:
    url = postgres_url.replace("penstock@", "penstock:hunter2-planted@")
    store = PostgresKeyStore(url, hold=7.0)
    store.change(add("a", Key(expires=datetime.now(UTC) + timedelta(days=1))), actor="me", action="add")
    for work in (store.read, store.version, store.mark_required):
        with psycopg.connect(postgres_url, autocommit=True) as other:
            other.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid != pg_backend_pid() AND datname = current_database()"
            )
        work()
    assert (store.remote, store.hold) == (True, 7.0)
    assert "hunter2" not in store.location
    store.close()
    away = PostgresKeyStore(url.replace(url.rpartition("@")[2], "127.0.0.1:1/none"))
    with pytest.raises(OSError, match=r"PostgreSQL at 127\.0\.0\.1:1/none") as caught:
        away.read()
    assert "hunter2" not in str(caught.value)
