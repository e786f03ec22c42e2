"""Gateway keys on disk: the key file, its marker, what a running gateway makes of a change, and what it refuses."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Any, TypeAlias

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import InputError
from tests.cli.command_runner import environment, inside
from tests.support.asgi_gateway import AsgiGateway
from tests.support.gateway import hash_key
from tests.support.key_file import PREFIX, KeyFile, check_keys_at_once, held_lock, key_file
from tests.support.paths import PROJECT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

ONE, TWO = f"{PREFIX}one-11111111", f"{PREFIX}two-22222222"
POSIX = pytest.mark.skipif(sys.platform == "win32", reason="there are no such modes there")
STARTER = "PENSTOCK_GATEWAY_KEY"
Open: TypeAlias = "Callable[..., AsgiGateway]"


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    check_keys_at_once(monkeypatch)


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Open]:
    """Starts gateways on the test's folder."""
    made: list[AsgiGateway] = []

    def start(**more: Any) -> AsgiGateway:
        made.append(AsgiGateway(**{"data": tmp_path, **more}))
        return made[-1]

    yield start
    for one in made:
        one.__exit__()


@pytest.fixture
def file(tmp_path: Path) -> KeyFile:
    """The key file of the folder, with a key `only`."""
    made = key_file(tmp_path)
    made.add("only", {"hash": hash_key(ONE)})
    return made


def message(running: AsgiGateway, **sent: str) -> str:
    """Why a request is refused for its key."""
    assert running.refusal(**sent) == (401, "invalid_api_key")
    return str(running.ask(**sent).json()["error"]["message"])


# ── the file ──────────────────────────────────────────────────────────────────────────────────────


def test_keys_of_the_file_open_and_close_a_running_gateway(tmp_path: Path, start: Open) -> None:
    running, file = start(), key_file(tmp_path)
    assert running.status() == 200
    file.add("laptop", {"hash": hash_key(ONE)})
    assert ONE not in file.path.read_text()
    assert (running.status(x_api_key=ONE), running.status()) == (200, 401)
    made = [file.rotate("laptop") for _ in range(20)]
    assert len(set(made)) == 20
    assert all(secret.startswith(PREFIX) for secret in made)
    assert (running.status(x_api_key=made[-1]), running.status(x_api_key=ONE)) == (200, 401)


@POSIX
def test_only_the_owner_can_read_the_files(tmp_path: Path) -> None:
    file = key_file(tmp_path / "new")
    before = os.umask(0)
    try:
        file.add("laptop", {"hash": hash_key(ONE)})
        file.revoke("laptop")
    finally:
        os.umask(before)
    made = sorted(path.name for path in file.path.parent.iterdir())
    assert made == ["keys.json", "keys.json.audit", "keys.json.lock", "keys.json.required"], "and no half-written one"
    assert all(path.stat().st_mode & 0o077 == 0 for path in file.path.parent.iterdir())


def test_the_file_refuses_what_makes_no_sense(file: KeyFile) -> None:
    with pytest.raises(InputError, match="there is a key 'only' already"):
        file.add("only", {"hash": hash_key("y")})
    with pytest.raises(InputError, match="there is no key 'b'"):
        file.revoke("b")
    for broken in (b"{", b"\xff\xfe", b"[]", b'{"a": {"hash": 1}}'):
        file.path.write_bytes(broken)
        with pytest.raises(InputError, match=r"keys\.json"):
            file.hashes()


@POSIX
def test_a_link_to_the_file_stays_a_link(tmp_path: Path) -> None:
    real = tmp_path / "elsewhere" / "real.json"
    real.parent.mkdir()
    (tmp_path / "keys.json").symlink_to(real)
    key_file(tmp_path).add("laptop", {"hash": hash_key(ONE)})
    assert (tmp_path / "keys.json").is_symlink()
    assert "laptop" in json.loads(real.read_bytes())["keys"]


# ── the lock ──────────────────────────────────────────────────────────────────────────────────────


def test_commands_that_run_at_once_lose_nothing(tmp_path: Path) -> None:
    for number in range(4):
        key_file(tmp_path).add(f"old{number}", {"hash": hash_key(f"old{number}")})
    env = environment(PENSTOCK_DATA=str(tmp_path))
    started = [
        subprocess.Popen([sys.executable, "-m", "penstock", "keys", *words], env=env, cwd=PROJECT,
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for number in range(4) for words in (["revoke", f"old{number}"], ["add", f"new{number}"])
    ]  # fmt: skip
    done = [one.communicate(timeout=120) for one in started]
    assert [one.returncode for one in started] == [0] * len(started), done
    secrets = [out.decode().strip() for out, _ in done[1::2]]
    assert key_file(tmp_path).hashes() == {f"new{number}": hash_key(secret) for number, secret in enumerate(secrets)}


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
    assert sorted(key_file(tmp_path).hashes()) == [f"{name}{number}" for name in "abcd" for number in range(1, 5)]


def test_a_lock_that_is_held_is_one_clear_error(tmp_path: Path) -> None:
    with held_lock(tmp_path / "keys.json"):
        done = keys(tmp_path, "add", "a")
    assert (done.returncode, done.stderr.count(b"\n")) == (2, 1)
    assert b"keys.json.lock: another process has held this lock" in done.stderr
    assert keys(tmp_path, "add", "a").returncode == 0


def test_a_write_that_fails_leaves_the_old_file(tmp_path: Path, file: KeyFile, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        file.add("b", {"hash": hash_key(TWO)})
    assert list(file.hashes()) == ["only"]
    assert not list(tmp_path.glob(".keys.json.*"))


# ── fail closed ───────────────────────────────────────────────────────────────────────────────────


def test_the_last_key_that_is_revoked_leaves_the_gateway_closed(file: KeyFile, start: Open) -> None:
    running = start()
    assert running.status(x_api_key=ONE) == 200
    file.revoke("only")
    for now in (running, start()):  # running, and after a restart
        for sent in ({}, {"x_api_key": ONE}):
            said = message(now, **sent)
            assert "penstock keys add NAME" in said
            assert "penstock keys reset" in said


def _make_a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


HARMS: dict[str, Callable[[Path], object]] = {
    "delete": lambda path: path.unlink(), "empty": lambda path: path.write_bytes(b"{}"),
    "break": lambda path: path.write_bytes(b"{"), "make a folder": _make_a_folder,
}  # fmt: skip


@pytest.mark.parametrize("harm", HARMS)
def test_a_key_file_that_is_lost_or_damaged_refuses_everybody(file: KeyFile, harm: str, start: Open) -> None:
    running = start()
    HARMS[harm](file.path)
    assert "penstock keys reset" in message(running)
    assert "penstock keys reset" in message(running, x_api_key=ONE)
    if harm in {"delete", "empty"}:
        assert "penstock keys reset" in message(start())
    else:
        with pytest.raises((InputError, OSError), match=r"keys\.json"):
            start()


def test_a_damaged_file_that_is_repaired_opens_to_its_keys_again(
    file: KeyFile, start: Open, caplog: pytest.LogCaptureFixture
) -> None:
    whole, running = file.path.read_bytes(), start()
    file.path.write_bytes(b"{")
    assert "the key store cannot be read (its content is not valid)" in message(running, x_api_key=ONE)
    assert "its keys are refused" in caplog.text
    file.path.write_bytes(whole)
    assert running.status(x_api_key=ONE) == 200


def test_whatever_key_there_was_leaves_the_marker(tmp_path: Path, start: Open) -> None:
    """Those that an older version has written, when they are seen; those of the configuration."""
    old = tmp_path / "old"
    old.mkdir()
    (old / "keys.json").write_text(f'{{"a": {{"hash": "{hash_key(ONE)}"}}}}')
    start(data=old)
    (old / "keys.json").unlink()
    assert "stays closed" in message(start(data=old))
    start(keys={"a": {"hash": hash_key(ONE)}})
    assert "stays closed" in message(start())


def test_a_key_that_came_with_the_process_goes_with_it(start: Open) -> None:
    """An editor's own gateway must not lock its user out of another one on the same data folder."""
    running = start(env={STARTER: ONE})
    assert running.status(x_api_key=ONE) == 200
    assert message(running)
    assert start().status() == 200


def test_a_process_that_had_a_key_never_opens_while_it_runs(start: Open) -> None:
    running = start(keys={"a": {"hash": hash_key(ONE)}}, access={"keys_file": "memory"})
    running.reload(access={"keys_file": "memory", "anonymous": True, "keys": "forward"})
    assert "stays closed" in message(running)
    assert "stays closed" in message(running, x_api_key="sk-of-a-provider")


def test_a_reload_with_keys_that_cannot_be_read_changes_nothing(tmp_path: Path, start: Open) -> None:
    running = start(keys={"a": {"hash": hash_key(ONE)}})
    with pytest.raises(InputError, match="variable MISSING is not set"):
        running.reload(data=tmp_path, keys={"b": {"env": "MISSING"}}, access={"anonymous": True})
    assert running.status(x_api_key=ONE) == 200
    assert message(running)


STEPS = st.lists(
    st.sampled_from(["add a", "add b", "revoke a", "revoke b", "delete", "break", "empty", "restart"]), max_size=12
)


@settings(max_examples=60, deadline=None)
@given(STEPS)
def test_once_there_was_a_key_nobody_comes_in_without_one(
    tmp_path_factory: pytest.TempPathFactory, steps: list[str]
) -> None:
    folder = tmp_path_factory.mktemp("keys")
    file, running, had = key_file(folder), AsgiGateway(data=folder), False
    for step in steps:
        what, _, name = step.partition(" ")
        try:
            if what == "add":
                file.add(name, {"hash": hash_key(name)})
                had = True
            elif what == "revoke":
                file.revoke(name)
            elif what == "restart":
                again = AsgiGateway(data=folder)
                running.__exit__()
                running = again
            elif file.path.exists():
                HARMS[what](file.path)
        except InputError:  # there is such a key already, or none, or the file is damaged
            continue
        if had:
            assert message(running)
            assert message(running, x_api_key="nobody")
        else:
            assert running.status() == 200
    running.__exit__()


# ── reset ─────────────────────────────────────────────────────────────────────────────────────────


def keys(folder: Path, *words: str, said: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return inside("keys", *words, given=said, PENSTOCK_DATA=str(folder))


def test_only_reset_brings_local_mode_back(tmp_path: Path, file: KeyFile, start: Open) -> None:
    running = start()
    refused = keys(tmp_path, "reset", said=b"no\n")
    assert refused.returncode == 2
    assert b"say --yes" in refused.stderr
    assert list(file.hashes()) == ["only"]
    assert keys(tmp_path, "reset", "--yes").returncode == 0
    assert not file.path.exists()
    assert start().status() == 200
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
@pytest.mark.parametrize(("typed", "code"), [("yes", 0), ("y", 1)])
def test_reset_asks_at_a_terminal(tmp_path: Path, file: KeyFile, typed: str, code: int) -> None:
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
    assert ("only" in file.hashes()) is (code == 1)


def test_an_empty_list_says_that_the_gateway_stays_closed(tmp_path: Path) -> None:
    assert b"stays closed" not in keys(tmp_path, "list").stdout
    keys(tmp_path, "add", "a")
    keys(tmp_path, "revoke", "a")
    assert b"stays closed" in keys(tmp_path, "list").stdout
