"""The process's environment, as it is at each request, and the keys that `penstock setup` stored.

Stored keys have names that no variable has (`stored_name`). Any other mapping can take the environment's place.
"""

from __future__ import annotations

import logging
import os
import stat
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from penstock._http.header_fields import check_key
from penstock._providers.registry import STORED
from penstock._store.provider_keys import CHECK_INTERVAL, StoredKeyWatcher, file_stamp
from penstock.errors import InputError

MAX_KEY_FILE_BYTES = 64 * 1024
log = logging.getLogger("penstock.keys")


class ProcessEnvironment(Mapping[str, str]):
    """A view of `os.environ` as it is now, and of the stored keys of providers.

    `unchanging`: no code of this process changes the variables, so that they need not be compared at each use.
    """

    unchanging: bool = False

    def __init__(self) -> None:
        self._watch = StoredKeyWatcher()

    @property
    def stored(self) -> Mapping[str, str]:
        """Stored keys by provider. Always the same object."""
        if self.unchanging:
            self._watch.look(self)
        else:
            self._watch.refresh(self)
        return self._watch.keys

    def origin(self, provider: str) -> str:
        """Returns the origin that a stored key is for; empty if it is unknown."""
        self._watch.refresh(self)
        return self._watch.origins.get(provider, "")

    def refresh_stored_keys(self) -> None:
        """Reads the stored keys again if their file has changed. It is checked at most once an interval."""
        self._watch.look(self)

    def __getitem__(self, name: str) -> str:
        return self.stored[name.removeprefix(STORED)] if name.startswith(STORED) else os.environ[name]

    def __iter__(self) -> Iterator[str]:
        return iter(os.environ)

    def __len__(self) -> int:
        return len(os.environ)

    def get(self, key: str, /, default: Any = None) -> Any:  # Mapping's overloads are too many to repeat
        if key.startswith(STORED):
            return self.stored.get(key.removeprefix(STORED), default)
        return os.environ.get(key, default)


LIVE = ProcessEnvironment()


class KeyFileCache:
    """The keys in the files that `key_file` names. A file that changes is read again.

    An empty file keeps the last key: some programs truncate a file before they write it. A missing one has no key.
    """

    def __init__(self) -> None:
        self.version: int = 0  # increases with every change
        self._keys: dict[str, tuple[tuple[int, ...], str]] = {}  # path → times of the file, key
        self._next_check = 0.0

    def read(self, path: str) -> str:
        """Returns the key in a file; empty if it cannot be read, which is logged."""
        self.refresh()
        if path not in self._keys:
            self._load(path)
        return self._keys[path][1]

    def refresh(self) -> None:
        """Looks for changes, at most every `CHECK_INTERVAL` seconds."""
        if not self._keys or time.monotonic() < self._next_check:
            return
        self._next_check = time.monotonic() + CHECK_INTERVAL
        for path, (stamp, _) in list(self._keys.items()):
            if file_stamp(Path(path).expanduser()) != stamp:
                self._load(path)

    def _load(self, path: str) -> None:
        file, before = Path(path).expanduser(), self._keys.get(path, ((), ""))[1]
        stamp, key = file_stamp(file), ""
        try:
            key = _read_key(file) or before
        except (OSError, InputError) as error:
            log.warning("the key file %s is not used: %s", file, getattr(error, "strerror", None) or error)
        else:
            warn_if_readable(file)
        self._keys[path] = (stamp, key)
        self.version += key != before


def _read_key(file: Path) -> str:
    with file.open("rb") as opened:
        data = opened.read(MAX_KEY_FILE_BYTES + 1)
    if len(data) > MAX_KEY_FILE_BYTES:
        raise InputError(f"it has more than {MAX_KEY_FILE_BYTES} bytes, and a key has fewer")
    try:
        key = data.decode("utf-8-sig").strip()
    except UnicodeDecodeError:
        raise InputError("expected a key as text") from None
    check_key(key, "the content")
    return key


def warn_if_readable(file: Path) -> None:
    """Logs a warning if other users of this machine can read a file with a key."""
    mode = stat.S_IMODE(file.stat().st_mode) if sys.platform != "win32" else 0
    if mode & 0o077:
        log.warning("others on this machine can read the key file %s (mode %03o): chmod 600 prevents it", file, mode)


KEY_FILES = KeyFileCache()


class EnvironmentChanges:
    """Detects changes of an environment. The process's own always counts, because it names the proxies."""

    def __init__(self, env: Mapping[str, str]) -> None:
        self._given: Mapping[str, str] = {} if env is LIVE else env
        self._stored = LIVE.stored
        # As bytes where possible, which saves decoding them.
        self._process: Any = os.environb if os.supports_bytes_environ else os.environ
        self._names: list[Any] = []
        self._values: list[Any] = []
        self._seen: tuple[Any, ...] = ()

    def any(self) -> bool:
        """Returns True if something changed since the last call."""
        LIVE.refresh_stored_keys()
        KEY_FILES.refresh()
        if self._same_variables() and self._seen == (self._given, self._stored, KEY_FILES.version):
            return False
        _ = LIVE.stored  # reads the keys again if the data folder is another one
        variables = dict(self._process)
        self._names, self._values = list(variables), list(variables.values())
        self._seen = (dict(self._given), dict(self._stored), KEY_FILES.version)
        return True

    def _same_variables(self) -> bool:
        """Returns True if there are as many variables as before, and all of them are there with their values."""
        if LIVE.unchanging and self._names:
            return True
        if len(self._process) != len(self._names):
            return False
        try:
            process = self._process
            return [process[name] for name in self._names] == self._values
        except KeyError:
            return False


def live(env: Mapping[str, str] | None) -> Mapping[str, str]:
    """Returns the mapping to read: `LIVE` if none is given or it is `os.environ`."""
    return LIVE if env is None or env is os.environ else env


def stored_keys(env: Mapping[str, str]) -> Mapping[str, str]:
    """Returns the stored keys by provider. Only the process's environment has them."""
    return env.stored if isinstance(env, ProcessEnvironment) else {}


def stored_origin(env: Mapping[str, str], provider: str) -> str:
    """Returns the origin that a provider's stored key is for; empty if it is unknown."""
    return env.origin(provider) if isinstance(env, ProcessEnvironment) else ""
