"""Trust in a `penstock.toml` that was found in the current folder: which settings apply, and which need trust.

A cloned repository may contain such a file. Settings that decide where keys and texts go, who may connect or where data
is written are refused until the user runs `penstock trust` for this content. Every setting that is not listed in
`tables.toml` (`harmless`) needs trust, so new settings are refused by default.
"""

from __future__ import annotations

import hashlib
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from penstock._gateway import read_tables
from penstock._gateway.toml_locations import TomlLocations
from penstock._store import provider_keys
from penstock.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

STORE = "trusted.json"
MAX_SHOWN = 8  # settings in a message
ANY = "*"  # any name: an alias, a model, a provider
HARMLESS: frozenset[tuple[str, ...]] = frozenset(
    (*filter(None, table.split(".")), *name.split("."))
    for table, names in read_tables()["harmless"].items()
    for name in names
)


def sensitive_settings(raw: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """Return the settings of a parsed file that need trust, in their order."""
    return [path for path in _settings(raw) if not is_harmless(path)]


def is_harmless(path: tuple[str, ...]) -> bool:
    """Return whether a setting needs no trust."""
    alike = (zip(path, known, strict=True) for known in HARMLESS if len(known) == len(path))
    return any(all(pattern in {name, ANY} for name, pattern in pairs) for pairs in alike)


def _settings(raw: Mapping[str, Any], before: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for name, value in raw.items():
        path = (*before, name)
        if isinstance(value, dict) and value:
            yield from _settings(value, path)  # pyright: ignore[reportUnknownArgumentType]
        elif not isinstance(value, dict):
            yield path


def check_trust(raw: Mapping[str, Any], data: bytes, path: Path, store: TrustStore) -> None:
    """Raise if a found file needs trust and has none. `raw` was parsed from `data`."""
    found = sensitive_settings(raw)
    if not found or store.trusts(path, data):
        return
    locations = TomlLocations(data.decode("utf-8"), path)
    named = [f"line {locations.line_number(keys)}: {'.'.join(keys)}" for keys in found[:MAX_SHOWN]]
    more = f", and {len(found) - MAX_SHOWN} more" if len(found) > MAX_SHOWN else ""
    raise InputError(
        f"{path} in this folder is not trusted, and has settings that decide where keys, texts or data go, or who may "
        f"connect ({'; '.join(named)}{more}). Read it; then `penstock trust` trusts it as it is now, and "
        f"`--config {path}` uses it once"
    )


class Trusted(msgspec.Struct, frozen=True, omit_defaults=True):
    """A trusted content of a file."""

    path: str
    sha256: str
    time: str = ""


class TrustStore:
    """The contents that the user trusts, in a private file that is changed under a lock.

    A file is identified by path and content: a changed file or a copy elsewhere is not trusted.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / STORE

    def read(self) -> list[Trusted]:
        return provider_keys.read_json_file(self.path, list[Trusted], "delete it, and trust your files again")

    def trusts(self, path: Path, data: bytes) -> bool:
        """Return whether this content of this file is trusted."""
        location, hashed = locate_settings(path), content_hash(data)
        return any(one.path == location and one.sha256 == hashed for one in self.read())

    def add(self, path: Path, data: bytes) -> None:
        """Trust a content."""
        fresh = Trusted(locate_settings(path), content_hash(data), time.strftime("%Y-%m-%d", time.gmtime()))
        with provider_keys.lock_file(self.path):
            remaining = [one for one in self.read() if (one.path, one.sha256) != (fresh.path, fresh.sha256)]
            provider_keys.write_json_file(self.path, [*remaining, fresh])

    def remove(self, path: Path) -> int:
        """Remove all trusted contents of a file. Returns their number."""
        location = locate_settings(path)
        with provider_keys.lock_file(self.path):
            rows = self.read()
            remaining = [one for one in rows if one.path != location]
            provider_keys.write_json_file(self.path, remaining)
        return len(rows) - len(remaining)


def content_hash(data: bytes) -> str:
    """Return the hash of a content."""
    return hashlib.sha256(data).hexdigest()


def locate_settings(path: Path) -> str:
    """Return the path of a file with its folder resolved. A link to a trusted file is another file."""
    return str(Path(os.path.realpath(path.parent)) / path.name)
