"""Keys of providers that `penstock setup` stores: in the system's keyring, else in a file that only its owner can read.

The index, `provider-keys.json` in the data folder, names the providers and says where each key is. It holds the key
itself only if there is no keyring. Every change replaces it, so a running process sees a new key by the file's stamp.
"""

from __future__ import annotations

import logging
import os
import sys
import tempfile
import threading
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import msgspec

from penstock._store.sqlite import data_folder
from penstock.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping

INDEX_FILE = "provider-keys.json"
KEYRING_SERVICE = "penstock"  # what the entries are called in the keyring
CHECK_INTERVAL = 0.25  # seconds between two looks at the index
KEYRING_RETRY = 30.0  # seconds until a keyring that failed is asked again: it may have been locked
KEYRING_TIMEOUT = 20.0  # seconds for the keyring to answer: it may ask the user to unlock it
_USABLE = 1  # the priority of a real backend; those that fail or forget have less
log = logging.getLogger("penstock.keys")
Rows = TypeVar("Rows")


class KeyringError(Exception):
    """The keyring cannot be used. The message says why."""


class StoredKey(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A line of the index. `key` is there only if `place` is the file. `id` changes with every change of the key.

    `origin`: scheme and host of the address that the key was stored for; empty where that was not known.
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
        self.path = data / INDEX_FILE
        self._service = service

    @classmethod
    def of(cls, env: Mapping[str, str]) -> ProviderKeys:
        """The keys of the data folder that the environment names. A folder of one's own has entries of its own."""
        data = data_folder(env)
        return cls(data, service=f"{KEYRING_SERVICE} {data}" if env.get("PENSTOCK_DATA") else KEYRING_SERVICE)

    def read(self) -> dict[str, StoredKey]:
        """The index."""
        return read_json_file(self.path, dict[str, StoredKey], "delete it, and run `penstock setup` again")

    def key(self, provider: str, row: StoredKey) -> str:
        """The key itself; empty if the keyring has it no more. Raises `KeyringError`."""
        return row.key if row.place == "file" else _call(lambda ring: ring.get_password(self._service, provider)) or ""

    def add(self, provider: str, key: str, *, origin: str, keyring: bool = True) -> tuple[StoredKey, str]:
        """Store a key in place of the one before. Gives its line, and why it is not in the keyring, if it is not."""
        why = self._into_keyring(provider, key) if keyring else "a file was asked for"
        place: Literal["keyring", "file"] = "file" if why else "keyring"
        row = StoredKey(
            place=place,
            id=os.urandom(8).hex(),
            added=time.strftime("%Y-%m-%d", time.gmtime()),
            origin=origin,
            key=key if why else "",
        )
        with lock_file(self.path):
            before = self.read()
            write_json_file(self.path, {**before, provider: row})
        if why and provider in before and before[provider].place == "keyring":
            self._out_of_keyring(provider)
        return row, why

    def remove(self, provider: str) -> bool:
        """Delete a key; False if there was none."""
        with lock_file(self.path):
            rows = self.read()
            row = rows.pop(provider, None)
            if row is None:
                return False
            if row.place == "keyring":
                self._out_of_keyring(provider)
            write_json_file(self.path, rows)
        return True

    def _into_keyring(self, provider: str, key: str) -> str:
        """Why the key is not in the keyring; empty if it is."""
        try:
            _call(lambda ring: ring.set_password(self._service, provider, key))
            if _call(lambda ring: ring.get_password(self._service, provider)) == key:
                return ""
        except KeyringError as error:
            return str(error)
        return "the keyring did not give the key back"

    def _out_of_keyring(self, provider: str) -> None:
        try:
            _call(lambda ring: ring.delete_password(self._service, provider))
        except KeyringError as error:
            log.warning("the key of %s was not deleted from the keyring: %s", provider, error)


def _call(work: Callable[[Any], Any]) -> Any:
    """What the keyring answers. In a thread with a limit: a keyring that waits for a password must not hang us."""
    result: list[Any] = []
    problem: list[str] = []

    def run() -> None:
        try:
            result.append(work(_backend()))
        except KeyringError as error:
            problem.append(str(error))
        except Exception as error:  # noqa: BLE001 — backends raise whatever their system does
            problem.append(" ".join(str(error).split()) or "the keyring reports an error without words")

    thread = threading.Thread(target=run, name="penstock-keyring", daemon=True)
    thread.start()
    thread.join(KEYRING_TIMEOUT)
    if problem or not result:
        raise KeyringError(problem[0] if problem else f"the keyring did not answer within {KEYRING_TIMEOUT:g} s")
    return result[0]


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
    """The stored keys of this process's data folder, by provider, as they are now.

    The first look is made at once. Later changes of the index are read at once if all keys stand in the file, and
    in a thread if the keyring must be asked: the event loop does not wait for it. A keyring that fails is asked again.
    """

    def __init__(self) -> None:
        self.keys: dict[str, str] = {}  # one object for good: others compare it with what it was
        self.origins: dict[str, str] = {}  # of the addresses that the keys are for
        self._place: tuple[str | None, ...] = ()
        self._stamp: tuple[int, ...] | None = None
        self._look = 0.0
        self._known: dict[str, tuple[str, str]] = {}  # provider → id of the line, key
        self._lock = threading.Lock()

    def look(self, env: Mapping[str, str]) -> None:
        """As `refresh`, but for the data folder's name, which is not read: for callers that know it is the same."""
        if time.monotonic() >= self._look:
            self.refresh(env)

    def refresh(self, env: Mapping[str, str]) -> None:
        """Look at the index: at most every `LOOK` seconds, and at once if it is another file than before."""
        place = (env.get("PENSTOCK_DATA"), env.get("XDG_DATA_HOME"), env.get("HOME"), env.get("LOCALAPPDATA"))
        now = time.monotonic()
        moved = place != self._place
        if not moved and now < self._look:
            return
        self._look = now + CHECK_INTERVAL
        store = ProviderKeys.of(env)
        stamp = _stamp(store.path)
        if not moved and stamp == self._stamp:
            return
        first = moved
        self._place, self._stamp = place, stamp
        if moved:
            self._known = {}
            self.keys.clear()
        if not stamp:
            self.keys.clear()
            return
        try:
            rows = store.read()
        except (InputError, OSError) as error:
            log.warning("stored provider keys are not used: %s", error)
            self.keys.clear()
            return
        asks = any(row.place == "keyring" and self._known.get(name, ("",))[0] != row.id for name, row in rows.items())
        if first or not asks:
            self._read(store, rows)
        else:
            threading.Thread(target=self._read, args=(store, rows), name="penstock-keys", daemon=True).start()

    def _read(self, store: ProviderKeys, rows: Mapping[str, StoredKey]) -> None:
        with self._lock:
            found: dict[str, tuple[str, str]] = {}
            for name, row in rows.items():
                known = self._known.get(name)
                if known is not None and known[0] == row.id:
                    found[name] = known
                    continue
                try:
                    found[name] = (row.id, store.key(name, row))
                except KeyringError as error:
                    log.warning("the stored key of %s is not used: %s", name, error)
                    self._stamp, self._look = None, time.monotonic() + KEYRING_RETRY
            self._known = found
            self.origins = {name: row.origin for name, row in rows.items()}
            fresh = {name: key for name, (_, key) in found.items() if key}
            for name in [*self.keys]:
                if name not in fresh:
                    del self.keys[name]
            self.keys.update(fresh)


def _stamp(path: Path) -> tuple[int, ...]:
    try:
        found = path.stat()
    except OSError:
        return ()
    return (found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino)


LOCK_TIMEOUT = 20.0  # seconds to wait for another process
_PAUSE = 0.02
_REPLACE_TRIES = 50  # Windows refuses to replace a file while somebody reads it

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
    """Hold the lock of a file. Raises `InputError` if another process keeps it for longer than `TIMEOUT` seconds."""
    path = _real(path)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    lock = path.with_name(f"{path.name}.lock")
    descriptor = os.open(lock, os.O_CREAT | os.O_RDWR, 0o600)
    try:
        _wait_for(descriptor, lock, LOCK_TIMEOUT)
        yield
    finally:
        os.close(descriptor)  # closing the file releases the lock


def _wait_for(descriptor: int, lock: Path, timeout: float) -> None:
    deadline = time.monotonic() + timeout
    while True:
        try:
            _try_lock(descriptor)
        except OSError:
            if time.monotonic() >= deadline:
                said = f"{lock}: another process has held this lock for {timeout:g} s; end it, or try again later"
                raise InputError(said) from None
            time.sleep(_PAUSE)
        else:
            return


def replace_file(path: Path, data: bytes) -> None:
    """Write a file so that a reader, or a crash, finds the old content or the new one. Only its owner can read it."""
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
    """Read a file of rows: a JSON list or object. Empty if there is no file; a damaged one raises with the advice."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=type)
    except FileNotFoundError:
        return type()
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: {error}; {advice}") from None


def write_json_file(path: Path, rows: object) -> None:
    """Replace a file by rows as indented JSON."""
    replace_file(path, msgspec.json.format(msgspec.json.encode(rows)) + b"\n")


def remove_file(path: Path) -> bool:
    """Delete a file; False if there was none."""
    path = _real(path)
    try:
        path.unlink()
    except FileNotFoundError:
        return False
    _sync_folder(path.parent)
    return True


def _real(path: Path) -> Path:
    """The file behind a symbolic link: it is the one to lock and to replace."""
    return Path(os.path.realpath(path))


def _move(fresh: Path, path: Path) -> None:
    for _ in range(_REPLACE_TRIES if sys.platform == "win32" else 0):
        with suppress(PermissionError):
            fresh.replace(path)
            return
        time.sleep(_PAUSE)
    fresh.replace(path)


def _sync_folder(folder: Path) -> None:
    """Without this a crash of the machine may bring the old directory entry back."""
    if sys.platform == "win32":
        return  # a folder cannot be opened there
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
