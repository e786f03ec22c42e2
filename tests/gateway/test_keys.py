"""Gateway keys on disk: the key file, its marker, what a running gateway makes of a change, and what it refuses."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock._gateway import keys as keys_module
from penstock._gateway.access import Access
from penstock._gateway.callers import Refusal
from penstock._gateway.key_editor import KeyEditor
from penstock._gateway.keys import PREFIX, VARIABLE, KeyRing, create_key
from penstock._store import provider_keys
from penstock._store.key_store import FileKeyStore
from penstock.errors import InputError
from penstock.gateway import GatewayConfig
from tests.cli.command_runner import PROJECT, environment, inside
from tests.gateway.test_access import refusal, scope
from tests.support import process
from tests.support.gateway import hash_key
from tests.support.openresponses import until

if TYPE_CHECKING:
    from pathlib import Path


ONE, TWO = f"{PREFIX}one-11111111", f"{PREFIX}two-22222222"
POSIX = pytest.mark.skipif(sys.platform == "win32", reason="there are no such modes there")


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Changes of the file are looked for with every request."""
    monkeypatch.setattr(keys_module, "REFRESH_INTERVAL", 0.0)


class KeyFile(KeyEditor):
    """The keys in a folder, and their file."""

    def __init__(self, path: Path) -> None:
        super().__init__(FileKeyStore(path), "test")
        self.path = path


def key_file(folder: Path) -> KeyFile:
    return KeyFile(folder / "keys.json")


def access(folder: Path, env: dict[str, str] | None = None, **more: Any) -> Access:
    return Access(GatewayConfig(data=folder, **more), env or {})


def message(door: Access, **sent: str) -> str:
    with pytest.raises(Refusal) as raised:
        door.admit(scope(**sent))
    assert (raised.value.status, raised.value.fault.code) == (401, "invalid_api_key")
    return raised.value.fault.message


# ── the file ──────────────────────────────────────────────────────────────────────────────────────


def test_keys_of_the_file_open_and_close_a_running_gateway(tmp_path: Path) -> None:
    door, file, secret = access(tmp_path), key_file(tmp_path), create_key()
    assert door.admit(scope()).key == "anonymous"
    file.add("laptop", {"hash": hash_key(secret)})
    assert secret not in file.path.read_text()
    assert door.admit(scope(x_api_key=secret)).key == "laptop"
    assert refusal(door, scope())[0] == 401


@POSIX
def test_only_the_owner_can_read_the_files(tmp_path: Path) -> None:
    file = key_file(tmp_path / "new")
    before = os.umask(0)
    try:
        file.add("laptop", {"hash": hash_key(ONE)})
        file.revoke("laptop")
    finally:
        os.umask(before)
    made_files = sorted(path.name for path in file.path.parent.iterdir())
    assert made_files == [
        "keys.json",
        "keys.json.audit",
        "keys.json.lock",
        "keys.json.required",
    ]  # and no half-written one
    assert all(path.stat().st_mode & 0o077 == 0 for path in file.path.parent.iterdir())


def test_the_file_refuses_what_makes_no_sense(tmp_path: Path) -> None:
    file = KeyFile(tmp_path / "keys.json")
    file.add("a", {"hash": hash_key("x")})
    with pytest.raises(InputError, match="there is a key 'a' already"):
        file.add("a", {"hash": hash_key("y")})
    with pytest.raises(InputError, match="there is no key 'b'"):
        file.revoke("b")
    for broken in (b"{", b"\xff\xfe", b"[]", b'{"a": {"hash": 1}}'):
        file.path.write_bytes(broken)
        with pytest.raises(InputError, match=r"keys\.json"):
            file.read()


def test_made_keys_are_all_different() -> None:
    assert len({create_key() for _ in range(100)}) == 100
    assert create_key().startswith(PREFIX)


@POSIX
def test_a_link_to_the_file_stays_a_link(tmp_path: Path) -> None:
    real = tmp_path / "elsewhere" / "real.json"
    real.parent.mkdir()
    (tmp_path / "keys.json").symlink_to(real)
    key_file(tmp_path).add("laptop", {"hash": hash_key(ONE)})
    assert (tmp_path / "keys.json").is_symlink()
    assert "laptop" in json.loads(real.read_bytes())["keys"]


# ── the lock ──────────────────────────────────────────────────────────────────────────────────────


def _commands(folder: Path, *words: list[str]) -> list[str]:
    """Run `penstock keys` for each, all at once; gives what they printed."""
    env = environment(PENSTOCK_DATA=str(folder))
    started = [
        subprocess.Popen([sys.executable, "-m", "penstock", "keys", *one], env=env, cwd=PROJECT,
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for one in words
    ]  # fmt: skip
    done = [process.communicate(timeout=120) for process in started]
    assert [process.returncode for process in started] == [0] * len(started), done
    return [out.decode().strip() for out, _ in done]


@pytest.mark.parametrize("count", [8, 40])
def test_parallel_adds_all_survive(tmp_path: Path, count: int) -> None:
    printed = _commands(tmp_path, *(["add", f"k{number}"] for number in range(count)))
    kept = key_file(tmp_path).read().keys
    assert sorted(kept) == sorted(f"k{number}" for number in range(count))
    assert {key.hash for key in kept.values()} == {hash_key(secret) for secret in printed}


def test_a_revoke_beside_adds_is_not_lost(tmp_path: Path) -> None:
    for number in range(6):
        key_file(tmp_path).add(f"old{number}", {"hash": hash_key(f"old{number}")})
    words = [["revoke", f"old{number}"] for number in range(6)] + [["add", f"new{number}"] for number in range(6)]
    _commands(tmp_path, *words)
    assert sorted(key_file(tmp_path).read().keys) == sorted(f"new{number}" for number in range(6))


def test_threads_that_add_and_revoke_lose_nothing(tmp_path: Path) -> None:
    """The same lock holds within a process: each opens the lock file for itself."""

    def work(name: str) -> None:
        file = key_file(tmp_path)
        for number in range(5):
            file.add(f"{name}{number}", {"hash": hash_key(f"{name}{number}")})
        file.revoke(f"{name}0")

    threads = [threading.Thread(target=work, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(key_file(tmp_path).read().keys) == [f"{name}{number}" for name in "abcd" for number in range(1, 5)]


def test_a_lock_that_is_held_is_one_clear_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(provider_keys, "LOCK_TIMEOUT", 0.05)
    with provider_keys.lock_file(tmp_path / "keys.json"):
        done = inside("keys", "add", "a", PENSTOCK_DATA=str(tmp_path))
    assert done.returncode == 2
    assert done.stderr.count(b"\n") == 1
    assert b"keys.json.lock: another process has held this lock" in done.stderr
    assert inside("keys", "add", "a", PENSTOCK_DATA=str(tmp_path)).returncode == 0


def test_a_write_that_fails_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = key_file(tmp_path)
    file.add("a", {"hash": hash_key(ONE)})

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        file.add("b", {"hash": hash_key(TWO)})
    assert list(file.read().keys) == ["a"]
    assert not list(tmp_path.glob(".keys.json.*"))


# ── fail closed ───────────────────────────────────────────────────────────────────────────────────


def test_the_last_key_that_is_revoked_leaves_the_gateway_closed(tmp_path: Path) -> None:
    door, file = access(tmp_path), key_file(tmp_path)
    file.add("only", {"hash": hash_key(ONE)})
    assert door.admit(scope(x_api_key=ONE)).key == "only"
    file.revoke("only")
    for now in (door, access(tmp_path)):  # running, and after a restart
        for sent in ({}, {"x_api_key": ONE}):
            said = message(now, **sent)
            assert "penstock keys add NAME" in said
            assert "penstock keys reset" in said
        assert now.keyed


def _delete(path: Path) -> None:
    path.unlink()


def _empty(path: Path) -> None:
    path.write_bytes(b"{}")


def _break(path: Path) -> None:
    path.write_bytes(b"{")


def _make_a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize(
    ("harm", "starts"), [(_delete, True), (_empty, True), (_break, False), (_make_a_folder, False)]
)
def test_a_key_file_that_is_lost_or_damaged_refuses_everybody(tmp_path: Path, harm: Any, *, starts: bool) -> None:
    file = key_file(tmp_path)
    file.add("only", {"hash": hash_key(ONE)})
    door = access(tmp_path)
    harm(file.path)
    assert "penstock keys reset" in message(door)
    assert "penstock keys reset" in message(door, x_api_key=ONE)
    if starts:
        assert "penstock keys reset" in message(access(tmp_path))
    else:
        with pytest.raises((InputError, OSError), match=r"keys\.json"):
            access(tmp_path)


def test_a_damaged_file_that_is_repaired_opens_to_its_keys_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = key_file(tmp_path)
    file.add("only", {"hash": hash_key(ONE)})
    whole, door = file.path.read_bytes(), access(tmp_path)
    file.path.write_bytes(b"{")
    assert "the key store cannot be read (its content is not valid)" in message(door, x_api_key=ONE)
    assert "its keys are refused" in caplog.text
    file.path.write_bytes(whole)
    assert door.admit(scope(x_api_key=ONE)).key == "only"


def test_keys_written_by_an_older_version_leave_the_marker_when_they_are_seen(tmp_path: Path) -> None:
    file = key_file(tmp_path)
    file.path.write_text(f'{{"a": {{"hash": "{hash_key(ONE)}"}}}}')
    access(tmp_path)
    file.path.unlink()
    assert "stays closed" in message(access(tmp_path))


def test_keys_of_the_configuration_leave_the_marker_too(tmp_path: Path) -> None:
    access(tmp_path, keys={"a": {"hash": hash_key(ONE)}})
    assert "stays closed" in message(access(tmp_path))


def test_a_key_that_came_with_the_process_goes_with_it(tmp_path: Path) -> None:
    """An editor's own gateway must not lock its user out of another one on the same data folder."""
    door = access(tmp_path, {VARIABLE: ONE})
    assert door.admit(scope(x_api_key=ONE)).key == "started-with"
    assert message(door)
    assert access(tmp_path).admit(scope()).key == "anonymous"


def test_a_process_that_had_a_key_never_opens_while_it_runs(tmp_path: Path) -> None:
    door = access(tmp_path, keys={"a": {"hash": hash_key(ONE)}}, access={"keys_file": "memory"})
    door.reload(GatewayConfig(access={"keys_file": "memory", "anonymous": True, "keys": "forward"}))
    assert "stays closed" in message(door)
    assert "stays closed" in message(door, x_api_key="sk-of-a-provider")


def test_a_reload_with_keys_that_cannot_be_read_changes_nothing(tmp_path: Path) -> None:
    door = access(tmp_path, keys={"a": {"hash": hash_key(ONE)}})
    with pytest.raises(InputError, match="variable MISSING is not set"):
        door.reload(GatewayConfig(data=tmp_path, keys={"b": {"env": "MISSING"}}, access={"anonymous": True}))
    assert door.admit(scope(x_api_key=ONE)).key == "a"
    assert message(door)


STEPS = st.lists(
    st.sampled_from(["add a", "add b", "revoke a", "revoke b", "delete", "break", "empty", "restart"]), max_size=12
)


@settings(max_examples=60, deadline=None)
@given(STEPS)
def test_once_there_was_a_key_nobody_comes_in_without_one(
    tmp_path_factory: pytest.TempPathFactory, steps: list[str]
) -> None:
    folder = tmp_path_factory.mktemp("keys")
    file, door, had = key_file(folder), access(folder), False
    for step in steps:
        what, _, name = step.partition(" ")
        try:
            if what == "add":
                file.add(name, {"hash": hash_key(name)})
                had = True
            elif what == "revoke":
                file.revoke(name)
            elif what == "restart":
                door = access(folder)
            elif file.path.exists():
                {"delete": _delete, "break": _break, "empty": _empty}[what](file.path)
        except InputError:  # there is such a key already, or none, or the file is damaged
            continue
        if had:
            assert message(door)
            assert message(door, x_api_key="nobody")
        else:
            assert door.admit(scope()).key == "anonymous"


# ── reset ─────────────────────────────────────────────────────────────────────────────────────────


def keys(folder: Path, *words: str, said: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return inside("keys", *words, given=said, PENSTOCK_DATA=str(folder))


def test_only_reset_brings_local_mode_back(tmp_path: Path) -> None:
    file = key_file(tmp_path)
    file.add("only", {"hash": hash_key(ONE)})
    running = access(tmp_path)
    refused = keys(tmp_path, "reset", said=b"no\n")
    assert refused.returncode == 2
    assert b"say --yes" in refused.stderr
    assert list(file.read().keys) == ["only"]
    assert keys(tmp_path, "reset", "--yes").returncode == 0
    assert not file.path.exists()
    assert access(tmp_path).admit(scope()).key == "anonymous"
    assert "stays closed" in message(running)  # it had a key


def test_reset_works_with_a_damaged_file_and_refuses_what_makes_no_sense(tmp_path: Path) -> None:
    key_file(tmp_path).path.write_bytes(b"{")
    assert b"all keys" in keys(tmp_path, "reset", "only").stderr
    assert keys(tmp_path, "reset", "--yes").returncode == 0
    config = tmp_path / "penstock.toml"
    config.write_text(f"[keys.a]\nhash = '{hash_key(ONE)}'\n")
    done = keys(tmp_path, "reset", "--yes", "--config", str(config))
    assert done.returncode == 2
    assert b"take [keys.a] out of it first" in done.stderr


@POSIX
@pytest.mark.parametrize(("typed", "code"), [("yes", 0), ("y", 1), ("", 1)])
def test_reset_asks_at_a_terminal(tmp_path: Path, typed: str, code: int) -> None:
    key_file(tmp_path).add("only", {"hash": hash_key(ONE)})
    parent, child = os.openpty()
    try:
        os.write(parent, f"{typed}\n".encode())
        done = subprocess.run(
            [sys.executable, "-m", "penstock", "keys", "reset"], stdin=child, capture_output=True, check=False,
            env=environment(PENSTOCK_DATA=str(tmp_path)), timeout=60,
        )  # fmt: skip
    finally:
        os.close(parent)
        os.close(child)
    assert done.returncode == code, done.stderr
    assert ("only" in key_file(tmp_path).read().keys) is (code == 1)


def test_an_empty_list_says_that_the_gateway_stays_closed(tmp_path: Path) -> None:
    assert b"stays closed" not in keys(tmp_path, "list").stdout
    keys(tmp_path, "add", "a")
    keys(tmp_path, "revoke", "a")
    assert b"stays closed" in keys(tmp_path, "list").stdout


# ── a real gateway ────────────────────────────────────────────────────────────────────────────────


def test_a_running_gateway_stays_closed_also_after_a_restart(tmp_path: Path) -> None:
    data = tmp_path / "data"
    secret = keys(data, "add", "only").stdout.decode().strip()

    def status(base: str, key: str = "") -> int:
        return httpx.get(f"{base}/v1/models", headers={"x-api-key": key} if key else {}).status_code

    with process.gateway(tmp_path, "", "--full-speed") as server:
        assert (status(server.base), status(server.base, secret)) == (401, 200)
        keys(data, "revoke", "only")
        until(lambda: status(server.base, secret) == 401)
        assert status(server.base) == 401
        assert httpx.get(f"{server.base}/inspector/turns").status_code == 401
    (data / "keys.json").unlink()
    with process.gateway(tmp_path, "", "--full-speed") as server:
        assert (status(server.base), status(server.base, secret)) == (401, 401)
    keys(data, "reset", "--yes")
    with process.gateway(tmp_path, "", "--full-speed") as server:
        assert status(server.base) == 200


def test_a_ring_tells_two_keys_of_one_name_apart(tmp_path: Path) -> None:
    file = key_file(tmp_path)
    file.add("a", {"hash": hash_key(ONE)})
    ring = KeyRing(GatewayConfig(data=tmp_path), {})
    held = ring.find(ONE)
    assert held is not None
    assert ring.holds(held.name, held.hash)
    file.revoke("a")
    file.add("a", {"hash": hash_key(TWO)})
    assert not ring.holds(held.name, held.hash)
