"""Custom providers, which admins add through the admin API, in `custom-providers.json` in the data folder.

Only its owner can read it. It has addresses and names, and no keys: those are stored as keys of all providers are.
Every change replaces the file, so other processes notice it by the file's times.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from penstock._store.provider_keys import file_stamp, lock_file, replace_file
from penstock.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path

CUSTOM_PROVIDERS_FILE = "custom-providers.json"
FILE_FORMAT = 1
MAX_CUSTOM_PROVIDERS = 100
MAX_MODELS = 500  # of one provider
MAX_TITLE = 100  # characters
MAX_URL = 2_000  # characters
MAX_FILE_BYTES = 2**20
_ADVICE = "repair it, or delete it and add the providers again"


class CustomProvider(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A custom provider. `like`: the provider that it behaves like. `models`: in place of the list that it gives."""

    base_url: str
    like: str
    title: str = ""
    models: tuple[str, ...] = ()
    added: str = ""


class _FileContent(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    format: int = FILE_FORMAT
    providers: dict[str, CustomProvider] = {}


class _FileFormat(msgspec.Struct, frozen=True):
    format: int


Rows: TypeAlias = Mapping[str, CustomProvider]


class CustomProvidersFile:
    """The custom providers of one data folder, by name."""

    def __init__(self, data: Path) -> None:
        self.path: Path = data / CUSTOM_PROVIDERS_FILE

    def stamp(self) -> tuple[int, ...]:
        """Returns values that change with the file; empty if there is none."""
        return file_stamp(self.path)

    def read(self) -> dict[str, CustomProvider]:
        """Returns the custom providers. Raises `InputError` if the file is damaged, too large or of a newer version."""
        try:
            with self.path.open("rb") as file:
                data = file.read(MAX_FILE_BYTES + 1)
        except FileNotFoundError:
            return {}
        if len(data) > MAX_FILE_BYTES:
            raise InputError(f"{self.path}: it has more than {MAX_FILE_BYTES} bytes; {_ADVICE}")
        try:
            found = msgspec.json.decode(data, type=_FileFormat).format
            if found != FILE_FORMAT:
                raise InputError(f"{self.path}: format {found} was written by a newer version of penstock")
            rows = msgspec.json.decode(data, type=_FileContent).providers
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise InputError(f"{self.path}: {error}; {_ADVICE}") from None
        if len(rows) > MAX_CUSTOM_PROVIDERS:
            raise InputError(f"{self.path}: it has more than {MAX_CUSTOM_PROVIDERS} custom providers; {_ADVICE}")
        return rows

    def change(self, edit: Callable[[Rows], Rows]) -> dict[str, CustomProvider]:
        """Replaces the rows by `edit(rows)` under a lock. Returns those before. What `edit` raises is raised."""
        with lock_file(self.path):
            before = self.read()
            after = edit(before)
            if len(after) > MAX_CUSTOM_PROVIDERS:
                raise InputError(f"at most {MAX_CUSTOM_PROVIDERS} custom providers are kept: remove one first")
            data = msgspec.json.format(msgspec.json.encode(_FileContent(providers=dict(after)))) + b"\n"
            if len(data) > MAX_FILE_BYTES:
                raise InputError(f"{self.path} would have more than {MAX_FILE_BYTES} bytes: name fewer models")
            replace_file(self.path, data)
        return before
