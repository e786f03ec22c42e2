"""The file of servers that an admin added: whole changes, only for its owner, bounded, and never read in half."""

from __future__ import annotations

import json
import stat
import sys
import threading
from typing import TYPE_CHECKING

import pytest

from penstock._store import custom_providers
from penstock._store.custom_providers import (
    MAX_CUSTOM_PROVIDERS,
    MAX_FILE_BYTES,
    CustomProvider,
    CustomProvidersFile,
)
from penstock.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path

LAB = CustomProvider(base_url="http://127.0.0.1:8000/v1", like="vllm", title="The Lab", models=("tide-1",))


def test_what_is_written_is_read_and_only_its_owner_can(tmp_path: Path) -> None:
    file = CustomProvidersFile(tmp_path / "data")
    assert (file.read(), file.stamp()) == ({}, ())
    assert file.change(lambda rows: {**rows, "lab": LAB}) == {}
    before = file.stamp()
    assert CustomProvidersFile(tmp_path / "data").read() == {"lab": LAB}
    assert file.change(lambda _: {}) == {"lab": LAB}
    assert file.stamp() != before
    if sys.platform != "win32":
        assert stat.S_IMODE(file.path.stat().st_mode) == 0o600
    assert json.loads(file.path.read_text()) == {"format": 1, "providers": {}}


def test_changes_of_several_threads_are_all_kept(tmp_path: Path) -> None:
    def add(number: int) -> None:
        CustomProvidersFile(tmp_path).change(lambda rows: {**rows, f"lab-{number}": LAB})

    threads = [threading.Thread(target=add, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(CustomProvidersFile(tmp_path).read()) == 16
    assert sorted(one.name for one in tmp_path.iterdir()) == ["custom-providers.json", "custom-providers.json.lock"]


def test_an_edit_that_fails_changes_nothing(tmp_path: Path) -> None:
    file = CustomProvidersFile(tmp_path)
    file.change(lambda _: {"lab": LAB})
    before = file.path.read_bytes()

    def fail(_: object) -> dict[str, CustomProvider]:
        raise InputError("no")

    with pytest.raises(InputError, match="no"):
        file.change(fail)
    assert file.path.read_bytes() == before


def test_a_write_that_fails_leaves_the_file_and_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = CustomProvidersFile(tmp_path)
    file.change(lambda _: {"lab": LAB})

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space left"):
        file.change(lambda _: {})
    assert file.read() == {"lab": LAB}
    assert sorted(one.name for one in tmp_path.iterdir()) == ["custom-providers.json", "custom-providers.json.lock"]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "truncated"), (b"{", "truncated"), (b"[]", "Expected `object`"), (b"\xff\xfe", "malformed"),
        (b'{"format": 2, "providers": {}, "more": 1}', "format 2 was written by a newer version"),
        (b'{"format": 1, "providers": {"lab": {"base_url": "http://x"}}}', "missing required field `like`"),
        (b'{"format": 1, "providers": {"lab": {"base_url": 7, "like": "vllm"}}}', "Expected `str`"),
        (b'{"format": 1, "providers": {"lab": {"base_url": "http://x", "like": "vllm", "key": "k"}}}', "`key`"),
        (b" " * (MAX_FILE_BYTES + 1), f"more than {MAX_FILE_BYTES} bytes"),
    ],
)  # fmt: skip
def test_a_damaged_file_is_named_and_not_written_over(tmp_path: Path, content: bytes, reason: str) -> None:
    file = CustomProvidersFile(tmp_path)
    file.path.write_bytes(content)
    for use in (file.read, lambda: file.change(lambda rows: {**rows, "lab": LAB})):
        with pytest.raises(InputError) as raised:
            use()
        assert str(raised.value).startswith(f"{file.path}: ")
        assert reason in str(raised.value)
    assert file.path.read_bytes() == content


def test_bounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = CustomProvidersFile(tmp_path)
    file.change(lambda _: {f"lab-{number}": LAB for number in range(MAX_CUSTOM_PROVIDERS)})
    with pytest.raises(InputError, match=f"at most {MAX_CUSTOM_PROVIDERS} custom providers"):
        file.change(lambda rows: {**rows, "one-more": LAB})
    assert len(file.read()) == MAX_CUSTOM_PROVIDERS
    monkeypatch.setattr(custom_providers, "MAX_CUSTOM_PROVIDERS", 3)
    with pytest.raises(InputError, match="more than 3 custom providers"):
        file.read()
    monkeypatch.setattr(custom_providers, "MAX_FILE_BYTES", 200)
    file.path.unlink()
    with pytest.raises(InputError, match="would have more than 200 bytes"):
        file.change(lambda _: {"lab": CustomProvider(base_url="http://x", like="vllm", models=("m" * 200,))})
    assert file.read() == {}
