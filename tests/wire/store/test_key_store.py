"""Stores of gateway keys: changes are atomic and audited, an old key file is taken over, and the log stays bounded."""

from __future__ import annotations

import json
import sys
import threading
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

from penstock._store import key_store, provider_keys
from penstock._store.key_records import Key, KeyRecords, Limit, Organisation, Team
from penstock._store.key_store import FileKeyStore
from penstock.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path

    from penstock._store.key_store import RecordEdit

HASH = "sha256:" + "0" * 64


def add(name: str, **fields: Any) -> RecordEdit:
    return lambda records: replace(records, keys={**records.keys, name: Key(hash=HASH, **fields)})


@pytest.fixture
def store(tmp_path: Path) -> FileKeyStore:
    return FileKeyStore(tmp_path / "keys.json")


def test_a_change_is_read_back_and_audited(store: FileKeyStore) -> None:
    assert store.read() == KeyRecords()
    before = store.version()
    team, organisation = Team(limits=Limit(day_cost=2.5)), Organisation(models=("gpt-*",))
    after = store.change(
        lambda old: replace(old, teams={"lab": team}, organisation=organisation), actor="cli:me", action="team.add"
    )
    assert (after.version, after.teams, after.required) == (1, {"lab": team}, False)
    assert store.read() == after or store.read() == replace(after, required=True)  # a key file counts as keys
    assert store.version() != before
    (row,) = store.audit()
    assert (row.id, row.actor, row.action) == (1, "cli:me", "team.add")
    team_change, organisation_change = row.changes
    assert (team_change.kind, team_change.name, team_change.before) == ("team", "lab", None)
    assert organisation_change.after == {"models": ["gpt-*"]}


def test_an_edit_that_raises_changes_nothing(store: FileKeyStore) -> None:
    store.change(add("a"), actor="me", action="add")
    kept = store.path.read_bytes()

    def fail(_: KeyRecords) -> KeyRecords:
        raise InputError("no")

    wrong: list[RecordEdit] = [fail, add("b", models=()), add("b", note="x" * 2000)]
    for edit in wrong:
        with pytest.raises(InputError):
            store.change(edit, actor="me", action="add")
    assert store.path.read_bytes() == kept
    assert len(store.audit()) == 1


def test_a_write_that_fails_leaves_no_audit_row(store: FileKeyStore, monkeypatch: pytest.MonkeyPatch) -> None:
    store.change(add("a"), actor="me", action="add")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(provider_keys, "write_json_file", full)
        with pytest.raises(OSError, match="No space left"):
            store.change(add("b"), actor="me", action="add")
    assert list(store.read().keys) == ["a"]
    assert [row.id for row in store.audit()] == [1]
    store.change(add("b"), actor="me", action="add")
    assert [row.id for row in store.audit()] == [2, 1]


def test_an_old_key_file_is_read_and_taken_over_with_a_backup(store: FileKeyStore, tmp_path: Path) -> None:
    old = {"laptop": {"hash": HASH, "limits": {"day_cost": 5.0}}, "format": {"hash": HASH}, "keys": {"hash": HASH}}
    store.path.write_text(json.dumps(old))
    records = store.read()
    assert sorted(records.keys) == ["format", "keys", "laptop"]
    assert records.required
    assert not (tmp_path / "keys.json.v1.bak").exists()  # to read changes nothing
    store.change(add("new"), actor="me", action="add")
    assert sorted(store.read().keys) == ["format", "keys", "laptop", "new"]
    assert json.loads((tmp_path / "keys.json.v1.bak").read_bytes()) == old
    assert json.loads(store.path.read_bytes())["format"] == 2
    store.change(add("newer"), actor="me", action="add")
    assert json.loads((tmp_path / "keys.json.v1.bak").read_bytes()) == old
    if sys.platform != "win32":
        assert {path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {0o600}


@pytest.mark.parametrize(
    "broken",
    [
        b"",
        b"{",
        b"[]",
        b"\xff",
        b'{"format": 2, "keys": {"a": {"role": "god"}}}',
        b'{"format": 3}',
        b'{"format": 2, "x": 1}',
    ],
)
def test_a_damaged_file_is_refused_and_never_replaced(store: FileKeyStore, broken: bytes) -> None:
    store.path.write_bytes(broken)
    with pytest.raises(InputError, match=r"keys\.json"):
        store.read()
    with pytest.raises(InputError, match=r"keys\.json"):
        store.change(add("a"), actor="me", action="add")
    assert store.path.read_bytes() == broken
    store.reset(actor="me")
    assert store.read() == KeyRecords()


def test_reset_is_audited_and_the_log_stays(store: FileKeyStore) -> None:
    store.change(add("a"), actor="me", action="add")
    store.reset(actor="cli:me")
    assert not store.read().required
    reset, _ = store.audit()
    assert (reset.action, reset.changes[0].name, reset.changes[0].after) == ("reset", "a", None)


def test_the_log_is_bounded(store: FileKeyStore, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(key_store, "MAX_AUDIT_BYTES", 2_000)
    for number in range(60):
        store.change(add(f"k{number % 3}", note=f"{number}" * 20), actor="me", action="add")
    sizes = [path.stat().st_size for path in tmp_path.glob("keys.json.audit*")]
    assert len(sizes) == 2
    assert max(sizes) <= 2_000
    ids = [row.id for row in store.audit(limit=100)]
    assert ids == list(range(60, 60 - len(ids), -1))  # the newest, none left out
    assert [row.id for row in store.audit(limit=2, before=58)] == [57, 56]


def test_half_a_row_of_a_crash_is_skipped(store: FileKeyStore, tmp_path: Path) -> None:
    store.change(add("a"), actor="me", action="add")
    with (tmp_path / "keys.json.audit").open("ab") as file:
        file.write(b'{"id":2,"ti')
    store.change(add("b"), actor="me", action="add")
    assert [row.id for row in store.audit()] == [2, 1]


def test_parallel_changes_all_survive_and_are_all_audited(store: FileKeyStore) -> None:
    def work(name: str) -> None:
        mine = FileKeyStore(store.path)
        for number in range(5):
            mine.change(add(f"{name}{number}"), actor=name, action="add")

    threads = [threading.Thread(target=work, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(store.read().keys) == 20
    assert store.read().version == 20
    assert [row.id for row in store.audit()] == list(range(20, 0, -1))


def test_amounts_are_checked_wherever_a_limit_is_made() -> None:
    for name in Limit.__struct_fields__:
        for wrong in (-1, float("nan"), float("inf"), 10.0**18):
            fields: dict[str, Any] = {name: wrong}
            with pytest.raises(ValueError, match=f"{name}: expected a number"):
                Limit(**fields)
