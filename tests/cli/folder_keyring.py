"""A keyring that keeps passwords in a folder: a backend for the `keyring` package, chosen by PYTHON_KEYRING_BACKEND."""

from __future__ import annotations

import os
from pathlib import Path

from keyring.backend import KeyringBackend
from keyring.errors import PasswordDeleteError


class FolderKeyring(KeyringBackend):
    """One file for each entry, in the folder of FOLDER_KEYRING."""

    priority = 5

    def _file(self, service: str, username: str) -> Path:
        return Path(os.environ["FOLDER_KEYRING"]) / f"{service}|{username}".replace("/", "_")

    def get_password(self, service: str, username: str) -> str | None:
        file = self._file(service, username)
        return file.read_text() if file.is_file() else None

    def set_password(self, service: str, username: str, password: str) -> None:
        self._file(service, username).write_text(password)

    def delete_password(self, service: str, username: str) -> None:
        file = self._file(service, username)
        if not file.is_file():
            raise PasswordDeleteError("there is no such entry")
        file.unlink()
