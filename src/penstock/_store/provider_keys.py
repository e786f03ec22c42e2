"""The providers' keys that `penstock setup` stores: in the system's keyring, else in a file that only its owner reads.

The index, `provider-keys.json` in the data folder, says where the key of each provider is. It holds the key itself only
if there is no keyring. Every change replaces the file, so a running process notices it by the file's times.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import msgspec
from msgspec.structs import replace

from penstock._store.data_folder import data_folder
from penstock.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping

INDEX_FILE = "provider-keys.json"
KEYRING_SERVICE = "penstock"  # the name of the entries in the keyring
CHECK_INTERVAL = 0.25  # seconds between two checks of the index
KEYRING_RETRY = 30.0  # seconds until the next attempt after the keyring failed: it may have been locked
KEYRING_TIMEOUT = 20.0  # seconds for the keyring to answer: it may ask the user to unlock it
_USABLE = 1  # the priority of a real backend; lower ones fail or do not store
log = logging.getLogger("penstock.keys")
Rows = TypeVar("Rows")


class KeyringError(Exception):
    """The keyring cannot be used. The message says why."""


class StoredKey(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A row of the index. `key` is set only if `place` is `file`. `id` changes with every change of the key.

    `origin`: scheme and host of the URL that the key was stored for; empty if unknown.
    """

    place: Literal["keyring", "file"]
    id: str
    added: str = ""
    key: str = ""
    origin: str = ""

    def __repr__(self) -> str:
        return f"StoredKey(place={self.place!r}, added={self.added!r})"

    def __rich_repr__(self) -> Any:
        yield "place", self.place


class ProviderKeys:
    """The stored keys of one data folder."""

    def __init__(self, data: Path, *, service: str = KEYRING_SERVICE) -> None:
        self.path: Path = data / INDEX_FILE
        self._service = service

    @classmethod
    def of(cls, env: Mapping[str, str]) -> ProviderKeys:
        """Returns the keys of the data folder that the environment names. Another folder has other entries."""
        data = data_folder(env)
        return cls(data, service=f"{KEYRING_SERVICE} {data}" if env.get("PENSTOCK_DATA") else KEYRING_SERVICE)

    def read(self) -> dict[str, StoredKey]:
        """Returns the index by provider."""
        return read_json_file(self.path, dict[str, StoredKey], "delete it, and run `penstock setup` again")

    def key(self, provider: str, row: StoredKey) -> str:
        """Returns the key; empty if the keyring does not have it. Raises `KeyringError`."""
        if row.place == "file":
            return row.key
        return _call_keyring(lambda ring: ring.get_password(self._service, provider)) or ""

    def add(self, provider: str, key: str, *, origin: str, keyring: bool = True) -> tuple[StoredKey, str]:
        """Stores a key. Returns its row, and why it is not in the keyring, if it is not."""
        replaced = self._read_keyring(provider) if keyring else ""
        why = self._add_to_keyring(provider, key) if keyring else "a file was asked for"
        today = time.strftime("%Y-%m-%d", time.gmtime())
        row = StoredKey(place="keyring", id=os.urandom(8).hex(), added=today, origin=origin)
        if why:
            row = replace(row, place="file", key=key)
        try:
            with lock_file(self.path):
                before = self.read()
                write_json_file(self.path, {**before, provider: row})
        except BaseException:
            if not why:
                self._restore_keyring(provider, replaced)
            raise
        if why and provider in before and before[provider].place == "keyring":
            self._delete_from_keyring(provider)
        return row, why

    def remove(self, provider: str) -> bool:
        """Deletes a key. False if there is none."""
        with lock_file(self.path):
            rows = self.read()
            row = rows.pop(provider, None)
            if row is None:
                return False
            write_json_file(self.path, rows)
            if row.place == "keyring":
                self._delete_from_keyring(provider)
        return True

    def _add_to_keyring(self, provider: str, key: str) -> str:
        """Returns why the key is not in the keyring; empty if it is."""
        try:
            _call_keyring(lambda ring: ring.set_password(self._service, provider, key))
            if _call_keyring(lambda ring: ring.get_password(self._service, provider)) == key:
                return ""
        except KeyringError as error:
            return str(error)
        return "the keyring did not give the key back"

    def _read_keyring(self, provider: str) -> str:
        """Returns the key that the keyring has, which may be for another address; empty if there is none."""
        try:
            return _call_keyring(lambda ring: ring.get_password(self._service, provider)) or ""
        except KeyringError:
            return ""

    def _restore_keyring(self, provider: str, key: str) -> None:
        """Gives the keyring the key that it had: the index says which address that one is for."""
        if not key or self._add_to_keyring(provider, key):
            self._delete_from_keyring(provider)

    def _delete_from_keyring(self, provider: str) -> None:
        try:
            _call_keyring(lambda ring: ring.delete_password(self._service, provider))
        except KeyringError as error:
            log.warning("the key of %s was not deleted from the keyring: %s", provider, error)


def _call_keyring(work: Callable[[Any], Any]) -> Any:
    """Returns the keyring's answer. Runs in a thread with a timeout: the keyring may wait for a password."""
    future: Future[Any] = Future()

    def run() -> None:
        try:
            future.set_result(work(_backend()))
        except Exception as error:  # noqa: BLE001 — backends raise whatever their system does
            future.set_exception(error)

    threading.Thread(target=run, name="penstock-keyring", daemon=True).start()
    try:
        return future.result(KEYRING_TIMEOUT)
    except TimeoutError:
        raise KeyringError(f"the keyring did not answer within {KEYRING_TIMEOUT:g} s") from None
    except Exception as error:  # noqa: BLE001 — as above
        raise KeyringError(" ".join(str(error).split()) or "the keyring reports an error without words") from None


def _backend() -> Any:
    try:
        import keyring  # noqa: PLC0415 — an extra, and slow to import
    except ImportError:
        raise KeyringError("the `keyring` package is not installed (pip install 'penstock[setup]')") from None
    ring = keyring.get_keyring()
    if getattr(ring, "priority", 0) < _USABLE:
        raise KeyringError("this machine has no keyring")
    return ring


class StoredKeyWatcher:
    """The current stored keys of this process's data folder, by provider.

    The first read is done at once. Later changes are read at once if the index holds all keys, and in a thread if the
    keyring is needed: the event loop must not wait for it. After an error the keyring is asked again.
    """

    def __init__(self) -> None:
        self.keys: dict[str, str] = {}  # always the same object: others compare it with its earlier content
        self.origins: dict[str, str] = {}  # of the URLs that the keys are for
        self._folder_variables: tuple[str | None, ...] = ()
        self._stamp: tuple[int, ...] | None = None
        self._next_check = 0.0
        self._known: dict[str, tuple[str, str]] = {}  # provider → id of the row, key
        self._lock = threading.Lock()

    def look(self, env: Mapping[str, str]) -> None:
        """As `refresh`, for callers who know that the data folder is the same: its name is not read."""
        if time.monotonic() >= self._next_check:
            self.refresh(env)

    def refresh(self, env: Mapping[str, str]) -> None:
        """Checks the index: at most every `CHECK_INTERVAL` seconds, and at once if the data folder has changed."""
        variables = (env.get("PENSTOCK_DATA"), env.get("XDG_DATA_HOME"), env.get("HOME"), env.get("LOCALAPPDATA"))
        now, moved = time.monotonic(), variables != self._folder_variables
        if not moved and now < self._next_check:
            return
        self._next_check = now + CHECK_INTERVAL
        store = ProviderKeys.of(env)
        stamp = file_stamp(store.path)
        if not moved and stamp == self._stamp:
            return
        self._folder_variables, self._stamp = variables, stamp
        if moved:
            self._known = {}
            self.keys.clear()
        try:
            rows = store.read()
        except (InputError, OSError) as error:
            log.warning("stored provider keys are not used: %s", error)
            rows = {}
        needs_keyring = any(row.place == "keyring" and self._known_key(name, row) is None for name, row in rows.items())
        if moved or not needs_keyring:
            self._read(store, rows)
        else:
            threading.Thread(target=self._read, args=(store, rows), name="penstock-keys", daemon=True).start()

    def _known_key(self, name: str, row: StoredKey) -> tuple[str, str] | None:
        known = self._known.get(name)
        return known if known is not None and known[0] == row.id else None

    def _read(self, store: ProviderKeys, rows: Mapping[str, StoredKey]) -> None:
        with self._lock:
            found: dict[str, tuple[str, str]] = {}
            for name, row in rows.items():
                try:
                    found[name] = self._known_key(name, row) or (row.id, store.key(name, row))
                except KeyringError as error:
                    log.warning("the stored key of %s is not used: %s", name, error)
                    self._stamp, self._next_check = None, time.monotonic() + KEYRING_RETRY
            self._known = found
            self.origins = {name: row.origin for name, row in rows.items()}
            fresh = {name: key for name, (_, key) in found.items() if key}
            for name in self.keys.keys() - fresh.keys():
                del self.keys[name]
            self.keys.update(fresh)


def file_stamp(path: Path) -> tuple[int, ...]:
    """Returns values that change with a file; empty if there is none."""
    try:
        found = path.stat()
    except OSError:
        return ()
    return (found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino)


LOCK_TIMEOUT = 20.0  # seconds to wait for another process
_PAUSE = 0.02
_REPLACE_TRIES = 50  # Windows does not replace a file that is open

if sys.platform == "win32":
    import msvcrt

    def _try_lock(descriptor: int) -> None:
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
else:
    import fcntl

    def _try_lock(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


@contextmanager
def lock_file(path: Path) -> Generator[None]:
    """Holds the lock of a file. Raises `InputError` if another process holds it for `LOCK_TIMEOUT` seconds."""
    path = _real(path)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    lock = path.with_name(f"{path.name}.lock")
    descriptor = os.open(lock, os.O_CREAT | os.O_RDWR, 0o600)
    try:
        _acquire(descriptor, lock, LOCK_TIMEOUT)
        yield
    finally:
        os.close(descriptor)  # closing the file releases the lock


def _acquire(descriptor: int, lock: Path, timeout: float) -> None:
    deadline = time.monotonic() + timeout
    while True:
        try:
            return _try_lock(descriptor)
        except OSError:
            if time.monotonic() >= deadline:
                hint = "end it, or try again later"
                raise InputError(f"{lock}: another process has held this lock for {timeout:g} s; {hint}") from None
            time.sleep(_PAUSE)


def replace_file(path: Path, data: bytes) -> None:
    """Replaces a file at once: a reader, or a crash, finds the old or the new content. Only its owner can read it."""
    import tempfile  # noqa: PLC0415 — it loads compressors, and most processes write no key

    path = _real(path)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)  # mkstemp creates with mode 0600
    fresh = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        _move(fresh, path)
    except BaseException:
        fresh.unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)


def read_json_file(path: Path, type: type[Rows], advice: str) -> Rows:
    """Reads a file of rows: a JSON list or object. Empty if there is no file; a damaged one raises with the advice."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=type)
    except FileNotFoundError:
        return type()
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: {error}; {advice}") from None


def write_json_file(path: Path, rows: object) -> None:
    """Replaces a file by rows as indented JSON."""
    replace_file(path, msgspec.json.format(msgspec.json.encode(rows)) + b"\n")


def remove_file(path: Path) -> bool:
    """Deletes a file. False if there is none."""
    path = _real(path)
    try:
        path.unlink()
    except FileNotFoundError:
        return False
    _sync_folder(path.parent)
    return True


def _real(path: Path) -> Path:
    """Returns the file behind a symbolic link: that one is locked and replaced."""
    return Path(os.path.realpath(path))


def _move(fresh: Path, path: Path) -> None:
    for _ in range(_REPLACE_TRIES if sys.platform == "win32" else 0):
        with suppress(PermissionError):
            fresh.replace(path)
            return
        time.sleep(_PAUSE)
    fresh.replace(path)


def _sync_folder(folder: Path) -> None:
    """Writes the folder to the disk: without this a crash of the machine may restore the old directory entry."""
    if sys.platform == "win32":
        return  # a folder cannot be opened there
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
