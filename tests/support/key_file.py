"""The gateway keys in a data folder, changed as `penstock keys` changes them."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from penstock._gateway import keys
from penstock._gateway.key_editor import KeyEditor
from penstock._store import provider_keys
from penstock._store.key_records import Key
from penstock._store.key_store import FileKeyStore

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PREFIX = "pk-penstock-"


class KeyFile:
    """The keys in a folder, and their file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._editor = KeyEditor(FileKeyStore(path), "test")

    def add(self, name: str, fields: dict[str, Any]) -> None:
        """Add a key. `fields`: as in a table `keys` of the configuration."""
        self._editor.add(name, msgspec.convert(fields, Key))

    def edit(self, name: str, fields: dict[str, Any]) -> None:
        self._editor.edit(name, fields)

    def revoke(self, name: str) -> None:
        self._editor.revoke(name)

    def rotate(self, name: str) -> str:
        """Give a key a new secret, which is returned."""
        return self._editor.rotate(name)[0]

    def hashes(self) -> dict[str, str]:
        """The hashes of secrets, by name of key. Raises if the file cannot be read."""
        return {name: key.hash for name, key in self._editor.read().keys.items()}


def key_file(folder: Path) -> KeyFile:
    return KeyFile(folder / "keys.json")


def check_keys_at_once(patch: pytest.MonkeyPatch) -> None:
    """Have gateways look for changes of their keys with every request."""
    patch.setattr(keys, "REFRESH_INTERVAL", 0.0)


@contextmanager
def held_lock(path: Path) -> Iterator[None]:
    """Hold the lock of a file, as another process does. Whoever waits for it gives up at once."""
    with pytest.MonkeyPatch.context() as patch, provider_keys.lock_file(path):
        patch.setattr(provider_keys, "LOCK_TIMEOUT", 0.05)
        yield
