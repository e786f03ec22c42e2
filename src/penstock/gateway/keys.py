"""Gateway keys: made, hashed, looked up, and kept in a file of their own that only its owner can read.

A key is long and random, so one SHA-256 of it is as good as any slow hash. Those of `penstock.toml` and those of the
file count alike; a change of the file is seen within a second.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import os
import secrets
import time
from typing import TYPE_CHECKING

import msgspec

from penstock.errors import InputError
from penstock.gateway.config import GatewayConfig, Key, place_of
from penstock.store.sqlite import ABSENT

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

PREFIX = "pk-penstock-"
FILE = "keys.json"
VARIABLE = "PENSTOCK_GATEWAY_KEY"  # a key of the one who starts the server, such as an editor's for its own windows
LOOK = 1.0  # seconds between two looks at the file
log = logging.getLogger("penstock.keys")


def made() -> str:
    """A new key."""
    return PREFIX + secrets.token_urlsafe(32)


def digest(key: str) -> str:
    """What is kept of a key."""
    return f"sha256:{hashlib.sha256(key.encode('utf-8', 'surrogateescape')).hexdigest()}"


def file_of(config: GatewayConfig) -> KeyFile | None:
    """The file in which `penstock keys` keeps them, where there is one."""
    path = place_of(config.access.keys_file, config.data, FILE)
    return None if path == ABSENT else KeyFile(path)


class KeyFile:
    """The file. Every change replaces it whole, so that no reader sees half of one."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self) -> dict[str, Key]:
        try:
            data = self.path.read_bytes()
        except FileNotFoundError:
            return {}
        try:
            return msgspec.json.decode(data, type=dict[str, Key])
        except msgspec.MsgspecError as error:
            raise InputError(f"{self.path}: {error}; `penstock keys` writes this file") from None

    def add(self, name: str, key: Key) -> None:
        rows = self.read()
        if name in rows:
            raise InputError(f"there is a key {name!r} already; revoke it first, or choose another name")
        self._write({**rows, name: key})

    def revoke(self, name: str) -> None:
        rows = self.read()
        if name not in rows:
            known = ", ".join(sorted(rows)) or "none"
            raise InputError(f"there is no key {name!r} in {self.path}; there is: {known}")
        self._write({other: key for other, key in rows.items() if other != name})

    def _write(self, rows: Mapping[str, Key]) -> None:
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        fresh = self.path.with_suffix(f".{os.getpid()}")
        fresh.unlink(missing_ok=True)
        fresh.touch(0o600)
        fresh.write_bytes(msgspec.json.format(msgspec.json.encode(rows)) + b"\n")
        fresh.replace(self.path)


class KeyRing:
    """The keys that open this gateway. Empty: there are none."""

    def __init__(self, config: GatewayConfig, env: Mapping[str, str] | None = None) -> None:
        self._env: Mapping[str, str] = os.environ if env is None else env
        self.reload(config)

    def reload(self, config: GatewayConfig) -> None:
        self._config = config
        self._file = file_of(config)
        self._look, self._stamp = 0.0, (-1, -1)
        self._rows: list[tuple[bytes, str, Key]] = []
        self._read()

    def __bool__(self) -> bool:
        self._refresh()
        return bool(self._rows)

    @property
    def secrets(self) -> tuple[str, ...]:
        """Those that are known by value: they stand in variables."""
        found = (self._env.get(key.env, "") for key in self._told().values() if key.env)
        return tuple(filter(None, found))

    def find(self, given: str) -> tuple[str, Key] | None:
        """The key that was given; the time it takes says nothing about which, or how near."""
        self._refresh()
        hashed = digest(given).encode()
        found: tuple[str, Key] | None = None
        for known, name, key in self._rows:
            if hmac.compare_digest(known, hashed):
                found = (name, key)
        return found

    def _refresh(self) -> None:
        """Look whether the file has changed, now and then."""
        now = time.monotonic()
        if now < self._look:
            return
        self._look = now + LOOK
        if self._stamped() != self._stamp:
            try:
                self._read()
            except (InputError, OSError) as error:  # whoever could come in still can, and nobody else
                self._stamp = self._stamped()
                log.error("the keys were not read again, those known stay: %s", error)  # noqa: TRY400

    def _told(self) -> Mapping[str, Key]:
        """The keys of the configuration, and the one that came with the process."""
        own = {"started-with": Key(env=VARIABLE, inspect="all")} if self._env.get(VARIABLE) else {}
        return {**own, **self._config.keys}

    def _read(self) -> None:
        stamp = self._stamped()
        rows = {**(self._file.read() if self._file else {}), **self._told()}
        self._rows = [(self._hashed(name, key).encode(), name, key) for name, key in rows.items()]
        self._stamp = stamp

    def _stamped(self) -> tuple[int, int]:
        if self._file is None:
            return (0, 0)
        try:
            found = self._file.path.stat()
        except OSError:
            return (0, 0)
        return (found.st_mtime_ns, found.st_size)

    def _hashed(self, name: str, key: Key) -> str:
        if not key.env:
            return key.hash
        if not self._env.get(key.env):
            raise InputError(f"keys.{name}.env: the variable {key.env} is not set")
        return digest(self._env[key.env])
