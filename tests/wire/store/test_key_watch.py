"""Stored keys as a running process sees them."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import keyring
import pytest
from keyring.backend import KeyringBackend
from keyring.backends import fail

from tests.support.stored_keys import SERVICE, ProviderKeys, StoredKeyWatcher, check_at_once, fail_to_write

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class LockableKeyring(KeyringBackend):
    """A keyring in memory that can be locked."""

    priority = 1  # pyright: ignore[reportAssignmentType]

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.locked = False
        self._kept: dict[tuple[str, str], str] = {}

    def get_password(self, service: str, username: str) -> str | None:
        if self.locked:
            raise RuntimeError("locked")
        return self._kept.get((service, username))

    def set_password(self, service: str, username: str, password: str) -> None:
        self._kept[service, username] = password

    def delete_password(self, service: str, username: str) -> None:
        del self._kept[service, username]


@pytest.fixture
def ring() -> Iterator[LockableKeyring]:
    """The keyring of this process. Afterwards it has none: `get_keyring` would choose any class that a test defines."""
    made = LockableKeyring()
    keyring.set_keyring(made)
    yield made
    keyring.set_keyring(fail.Keyring())  # type: ignore[no-untyped-call]


@pytest.mark.parametrize("known", [True, False])
def test_a_change_of_the_index_that_fails_leaves_the_keyring_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ring: LockableKeyring, known: bool
) -> None:
    """The index says which address a key is for, so the keyring must not have a key for another one."""
    store = ProviderKeys(tmp_path)
    if known:
        assert store.add("lab", "sk-for-a", origin="https://a.test")[1] == ""
    before = store.read()
    fail_to_write(monkeypatch)
    with pytest.raises(OSError, match="No space"):
        store.add("lab", "sk-for-b", origin="https://b.test")
    if known:
        with pytest.raises(OSError, match="No space"):
            store.remove("lab")
    assert store.read() == before
    assert ring.get_password(SERVICE, "lab") == ("sk-for-a" if known else None)


def test_a_keyring_that_was_locked_is_asked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ring: LockableKeyring
) -> None:
    check_at_once(monkeypatch)
    env = {"PENSTOCK_DATA": str(tmp_path)}
    assert ProviderKeys.of(env).add("openai", "sk-stored-in-the-ring", origin="https://a.test")[1] == ""
    ring.locked, watch = True, StoredKeyWatcher()
    watch.refresh(env)
    assert watch.keys == {}
    ring.locked = False
    watch.refresh(env)
    for thread in [one for one in threading.enumerate() if one.name == "penstock-keys"]:
        thread.join()
    assert watch.keys == {"openai": "sk-stored-in-the-ring"}
    assert watch.origins == {"openai": "https://a.test"}
