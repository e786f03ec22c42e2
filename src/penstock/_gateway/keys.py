"""Gateway keys: creates, hashes, finds and stores them in a file that only its owner can read.

A key is long and random, so SHA-256 is as safe as a slow hash. Keys of `penstock.toml` and of the key file count alike;
a change of the file is seen within a second.

Once a key has existed, one is required: an empty, missing or damaged key file refuses everybody. A marker file beside
the key file keeps that across restarts; `penstock keys reset` removes it.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import os
import secrets
import time
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from msgspec.structs import replace

from penstock._gateway.config import GatewayConfig, Key, data_path
from penstock._store import provider_keys
from penstock._store.sqlite import IN_MEMORY
from penstock.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

PREFIX = "pk-penstock-"
FILE = "keys.json"
VARIABLE = "PENSTOCK_GATEWAY_KEY"  # a key of the program that starts the server, such as an editor
REFRESH_INTERVAL = 0.25  # seconds between two checks of the file
STARTER_KEY_NAME = "started-with"  # the name of the key in VARIABLE
MARKER = ".required"  # appended to the name of the key file
_MARKER_CONTENT = (
    b"Gateway keys have been in use here, so one is required. `penstock keys reset` deletes all keys and this file.\n"
)
Stamp: TypeAlias = tuple[int, ...]
log = logging.getLogger("penstock.keys")


def create_key() -> str:
    """Create a key."""
    return PREFIX + secrets.token_urlsafe(32)


def hash_key(key: str) -> str:
    """Return the hash of a key, which is what is stored."""
    return f"sha256:{hashlib.sha256(key.encode('utf-8', 'surrogateescape')).hexdigest()}"


def open_key_file(config: GatewayConfig) -> KeyFile | None:
    """Return the file of `penstock keys`; None if keys are kept in memory."""
    path = data_path(config.access.keys_file, config.data, FILE)
    return None if path == IN_MEMORY else KeyFile(path)


class KeyFile:
    """The key file. Changes are made under a lock and replace the whole file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.marker = path.with_name(path.name + MARKER)

    def read(self) -> dict[str, Key]:
        return provider_keys.read_json_file(self.path, dict[str, Key], "`penstock keys` writes this file")

    def add(self, name: str, key: Key) -> None:
        with provider_keys.lock_file(self.path):
            rows = self.read()
            if name in rows:
                raise InputError(f"there is a key {name!r} already; revoke it first, or choose another name")
            self.mark()  # first: after a crash in between, keys must still be required
            provider_keys.write_json_file(self.path, {**rows, name: key})

    def revoke(self, name: str) -> None:
        with provider_keys.lock_file(self.path):
            rows = self.read()
            if name not in rows:
                known = ", ".join(sorted(rows)) or "none"
                raise InputError(f"there is no key {name!r} in {self.path}; there is: {known}")
            self.mark()
            provider_keys.write_json_file(self.path, {other: key for other, key in rows.items() if other != name})

    def rotate(self, name: str, hashed: str, created: str) -> None:
        """Give a key another hash. Its models and limits stay."""
        with provider_keys.lock_file(self.path):
            rows = self.read()
            if name not in rows:
                raise InputError(f"there is no key {name!r} in {self.path}")
            provider_keys.write_json_file(self.path, {**rows, name: replace(rows[name], hash=hashed, created=created)})

    def reset(self) -> None:
        """Delete all keys and the marker. Without keys the gateway serves local programs."""
        with provider_keys.lock_file(self.path):
            provider_keys.remove_file(self.path)
            provider_keys.remove_file(self.marker)

    def mark(self) -> None:
        """Write the marker: keys have existed."""
        if not self.marker.exists():
            provider_keys.replace_file(self.marker, _MARKER_CONTENT)

    @property
    def required(self) -> bool:
        """Whether keys have existed. An empty key file counts too: older versions wrote no marker."""
        return os.path.lexists(self.marker) or os.path.lexists(self.path)


class KeyMatch(NamedTuple):
    """A key that matches. `hash` distinguishes it from another key of the same name."""

    name: str
    key: Key
    hash: str


class KeyRing:
    """All valid keys. `required` stays true once a key has existed, as long as the process runs."""

    def __init__(self, config: GatewayConfig, env: Mapping[str, str] | None = None) -> None:
        self._env: Mapping[str, str] = os.environ if env is None else env
        self._required = False
        self.version: int = 0  # increases with every change
        self.problem: str = ""  # why the key file cannot be read
        self._rows: list[tuple[bytes, str, Key]] = []
        self._file: KeyFile | None = None
        self._stamp: Stamp = ()
        self._next_check = 0.0
        self.reload(config)

    def reload(self, config: GatewayConfig) -> None:
        """Use another configuration. Raises and changes nothing if its keys cannot be read."""
        file = open_key_file(config)
        stamp = _file_stamp(file)
        stored = file.read() if file else {}
        rows = self._hash_rows(stored, config)
        self._config, self._file = config, file
        self._set_rows(rows, stamp)
        self._mark(stored)

    @property
    def required(self) -> bool:
        """Whether callers need a key."""
        self.refresh()
        return self._required

    def __bool__(self) -> bool:
        self.refresh()
        return bool(self._rows)

    @property
    def secrets(self) -> tuple[str, ...]:
        """The keys that are known by value, from environment variables."""
        found = (self._env.get(key.env, "") for key in self._configured_keys(self._config).values() if key.env)
        return tuple(filter(None, found))

    def find(self, secret: str) -> KeyMatch | None:
        """Find a key in constant time."""
        self.refresh()
        hashed = hash_key(secret)
        wanted = hashed.encode()
        found: KeyMatch | None = None
        for known, name, key in self._rows:
            if hmac.compare_digest(known, wanted):
                found = KeyMatch(name, key, hashed)
        return found

    def holds(self, name: str, hashed: str) -> bool:
        """Return whether a key that was found earlier is still valid."""
        self.refresh()
        wanted = hashed.encode()
        return any(name == other and hmac.compare_digest(known, wanted) for known, other, _ in self._rows)

    def refresh(self) -> None:
        """Read the file again if it has changed. Checks at most every `REFRESH_INTERVAL` seconds."""
        now = time.monotonic()
        if now < self._next_check:
            return
        self._next_check = now + REFRESH_INTERVAL
        stamp = _file_stamp(self._file)
        if stamp == self._stamp:
            return
        try:
            self.reload(self._config)
        except (InputError, OSError) as error:
            # Revoked keys are unknown, so no key of the file is accepted until it can be read again.
            log.error("the key file cannot be read, its keys are refused: %s", error)  # noqa: TRY400
            self._set_rows(
                self._hash_rows({}, self._config), stamp, f"the key file cannot be read ({_error_reason(error)})"
            )

    def _set_rows(self, rows: list[tuple[bytes, str, Key]], stamp: Stamp, problem: str = "") -> None:
        self._rows, self._stamp, self._next_check = rows, stamp, time.monotonic() + REFRESH_INTERVAL
        self.problem = problem
        self.version += 1
        self._required = self._required or bool(rows) or (self._file is not None and self._file.required)

    def _mark(self, kept: Mapping[str, Key]) -> None:
        """Write the marker if there are keys. The key from VARIABLE leaves no marker: it ends with the process."""
        if self._file is None or not (kept or self._config.keys):
            return
        try:
            self._file.mark()
        except OSError as error:
            log.warning(
                "%s cannot be written (%s): after a restart without keys this gateway would open to this machine",
                self._file.marker,
                error,
            )

    def _configured_keys(self, config: GatewayConfig) -> Mapping[str, Key]:
        """Return the keys of the configuration, and the one from VARIABLE."""
        starter = {STARTER_KEY_NAME: Key(env=VARIABLE, inspect="all")} if self._env.get(VARIABLE) else {}
        return {**starter, **config.keys}

    def _hash_rows(self, kept: Mapping[str, Key], config: GatewayConfig) -> list[tuple[bytes, str, Key]]:
        rows = {**kept, **self._configured_keys(config)}
        return [(self._hash(name, key).encode(), name, key) for name, key in rows.items()]

    def _hash(self, name: str, key: Key) -> str:
        if not key.env:
            return key.hash
        if not self._env.get(key.env):
            raise InputError(f"keys.{name}.env: the variable {key.env} is not set")
        return hash_key(self._env[key.env])


def _file_stamp(file: KeyFile | None) -> Stamp:
    """Return values that change with the file. The inode: a replaced file may have the size and time of the old one."""
    if file is None:
        return ()
    try:
        found = file.path.stat()
    except OSError:
        return ()
    return (found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino)


def _error_reason(error: Exception) -> str:
    """Return why a key file cannot be read, for clients: without paths and library messages."""
    if isinstance(error, PermissionError):
        return "access to it is denied"
    if isinstance(error, FileNotFoundError):
        return "it is missing"
    return "the disk reports an error" if isinstance(error, OSError) else "its content is not valid"
