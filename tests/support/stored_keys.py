"""Keys of providers that are stored on this machine, and how a running process sees them: what no face shows directly."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock._store import provider_keys
from penstock._store.provider_keys import ProviderKeys, StoredKeyWatcher

if TYPE_CHECKING:
    import pytest

__all__ = ["SERVICE", "ProviderKeys", "StoredKeyWatcher", "check_at_once", "fail_to_write"]
SERVICE = provider_keys.KEYRING_SERVICE


def check_at_once(patch: pytest.MonkeyPatch) -> None:
    """The files and the keyring are looked at with every request."""
    patch.setattr(provider_keys, "KEYRING_RETRY", 0.0)
    patch.setattr(provider_keys, "CHECK_INTERVAL", 0.0)


def fail_to_write(patch: pytest.MonkeyPatch) -> None:
    """No file can be written: the disk is full."""

    def fail(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    patch.setattr(provider_keys, "write_json_file", fail)
