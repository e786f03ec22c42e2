"""`key_file` of a provider: its content is the key, a change counts from the next request on, and no log has it."""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING

import pytest

from penstock.client import SyncClient
from penstock.errors import AuthError, InputError
from penstock.gateway import Account, Config
from penstock.testing import Reply, scripted
from tests.support.routed_client import check_files_at_once

if TYPE_CHECKING:
    from pathlib import Path

    from penstock.testing import ReceivedRequest

POSIX = pytest.mark.skipif(sys.platform == "win32", reason="there are no such modes there")


def hello(_: ReceivedRequest) -> Reply:
    message = {"role": "assistant", "content": "Hello."}
    return Reply.body({"id": "1", "model": "m", "choices": [{"index": 0, "finish_reason": "stop", "message": message}]})


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Changes of the file are looked for with every request."""
    check_files_at_once(monkeypatch)


def test_the_key_is_sent_and_a_changed_file_is_read_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "key"
    path.write_text("sk-first-00000000\n")
    path.chmod(0o600)
    with scripted(hello) as up:
        config = Config(providers={"lab": Account(base_url=up.url, key_file=str(path))}, retries=0)
        with SyncClient(config, env={}) as client:

            def sent() -> str:
                client.chat("lab/m", "Hi.")
                return up.requests[-1].headers["authorization"]

            assert sent() == "Bearer sk-first-00000000"
            fresh = tmp_path / "fresh"
            fresh.write_text("sk-second-11111111")
            fresh.chmod(0o600)
            fresh.replace(path)
            assert sent() == "Bearer sk-second-11111111"
            path.write_text("")  # a program that writes it again truncates it first
            assert sent() == "Bearer sk-second-11111111"
            path.write_text("sk-third-22222222")
            assert sent() == "Bearer sk-third-22222222"
            asked = len(up.requests)
            path.unlink()
            with pytest.raises(AuthError, match=r"key, which providers\.lab\.key_file names, has none"):
                sent()
            assert len(up.requests) == asked
    assert "sk-" not in caplog.text
    assert "is not used" in caplog.text


def ask_with(path: Path) -> str:
    """The key that is sent; raises if there is none."""
    with scripted(hello) as up:
        config = {"providers": {"lab": {"base_url": up.url, "key_file": str(path)}}, "retries": 0}
        with SyncClient(config, env={}) as client:
            client.chat("lab/m", "Hi.")
        return up.requests[-1].headers["authorization"]


@POSIX
def test_a_file_that_others_can_read_is_warned_of(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    for mode, warned in ((0o644, True), (0o600, False), (0o400, False), (0o640, True)):
        path = tmp_path / f"{mode:o}"
        path.write_text("sk-first-00000000")
        path.chmod(mode)
        caplog.clear()
        with caplog.at_level(logging.WARNING):
            assert ask_with(path) == "Bearer sk-first-00000000"
        assert (f"(mode {mode:03o}): chmod 600" in caplog.text) is warned


def test_content_that_is_no_key_is_not_used(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    for number, content in enumerate([b"\xff\xfe\x00", b"two\nlines", b"x" * 70_000]):
        path = tmp_path / f"{number}"
        path.write_bytes(content)
        caplog.clear()
        with pytest.raises(AuthError, match="has none"):
            ask_with(path)
        assert "is not used" in caplog.text


def test_the_path_is_absolute() -> None:
    with pytest.raises(InputError, match=r"providers\.openai: key_file: expected an absolute path"):
        Config.read({"providers": {"openai": {"key_file": "secrets/key"}}})


def test_keys_of_several_files_are_used_in_turn(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in ("one", "two", "three")]
    for path in paths[:2]:
        path.write_text(f"sk-{path.name}-00000000\n")
        path.chmod(0o600)
    with scripted(hello) as up:
        account = Account(base_url=up.url, key_file=tuple(map(str, paths)))
        with SyncClient(Config(providers={"lab": account}, retries=0), env={}) as client:

            def sent(times: int) -> list[str]:
                for _ in range(times):
                    client.chat("lab/m", "Hi.")
                return [seen.headers["authorization"].split("-")[1] for seen in up.requests[-times:]]

            assert sent(4) == ["one", "two", "one", "two"]
            paths[2].write_text("sk-three-00000000")
            paths[2].chmod(0o600)
            assert sorted(sent(3)) == ["one", "three", "two"]


def test_files_without_a_key_are_named(tmp_path: Path) -> None:
    paths = [str(tmp_path / name) for name in ("one", "two")]
    with (
        SyncClient({"providers": {"lab": {"base_url": "http://127.0.0.1:9", "key_file": paths}}}, env={}) as client,
        pytest.raises(AuthError, match=r"one or .*two, which providers\.lab\.key_file names, has none"),
    ):
        client.chat("lab/m", "Hi.")
    with pytest.raises(InputError, match=r"providers\.openai: key_file\[1\]: expected an absolute path, found 'two'"):
        Config.read({"providers": {"openai": {"key_file": [paths[0], "two"]}}})
