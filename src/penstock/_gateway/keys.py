"""Gateway keys in memory: creates, hashes and finds them. A `KeyStore` keeps them; `KeyEditor` changes them.

A key is long and random, so SHA-256 is as safe as a slow hash. Keys of `penstock.toml` and of the key store count
alike; a change of the store is seen within a second.

Once a key has existed, one is required: an empty, missing or damaged key store refuses everybody. The store keeps that
across restarts; `penstock keys reset` ends it.
"""

from __future__ import annotations

import hashlib
import logging
import os
import secrets
import threading
import time
from typing import TYPE_CHECKING, NamedTuple

from penstock._gateway.config import GatewayConfig, data_path
from penstock._store.key_records import Key, KeyRecords, Organisation, Team
from penstock._store.key_store import FileKeyStore, KeyStore
from penstock._store.sqlite import IN_MEMORY
from penstock.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping

PREFIX = "pk-penstock-"
FILE = "keys.json"
VARIABLE = "PENSTOCK_GATEWAY_KEY"  # a key of the program that starts the server, such as an editor
REFRESH_INTERVAL = 0.25  # seconds between two checks of a key file
POLL_INTERVAL = 0.4  # seconds between two checks of a remote store
STARTER_KEY_NAME = "started-with"  # the name of the key in VARIABLE
log = logging.getLogger("penstock.keys")


def create_key() -> str:
    """Create a key."""
    return PREFIX + secrets.token_urlsafe(32)


def hash_key(key: str) -> str:
    """Return the hash of a key, which is what is stored."""
    return f"sha256:{hashlib.sha256(key.encode('utf-8', 'surrogateescape')).hexdigest()}"


def open_key_store(config: GatewayConfig, env: Mapping[str, str]) -> KeyStore | None:  # noqa: ARG001 — for URLs
    """Return the store of `penstock keys`: PostgreSQL, else a file. None if keys are kept in memory."""
    if config.stores.postgres and not config.access.keys_file:
        from penstock._store.postgres_keys import PostgresKeyStore  # noqa: PLC0415 — an extra

        return PostgresKeyStore(config.stores.postgres, hold=config.stores.keys_hold)
    path = data_path(config.access.keys_file, config.data, FILE)
    return None if path == IN_MEMORY else FileKeyStore(path)


class KeyMatch(NamedTuple):
    """A key that matches. `hash` distinguishes it from another key of the same name. `expires`: of this secret."""

    name: str
    key: Key
    hash: str
    expires: float | None = None


class KeyRing:
    """All valid keys. `required` stays true once a key has existed, as long as the process runs.

    A local store is checked where a key is looked up. A remote one is polled by a thread, and its keys hold for
    `KeyStore.hold` seconds while it cannot be read.
    """

    def __init__(
        self, config: GatewayConfig, env: Mapping[str, str] | None = None, store: KeyStore | None = None
    ) -> None:
        self._env: Mapping[str, str] = os.environ if env is None else env
        self._required = False
        self.version: int = 0  # increases with every change
        self.problem: str = ""  # why the key store cannot be read
        self.records: KeyRecords = KeyRecords()  # of the store
        self._matches: dict[str, KeyMatch] = {}  # by the hash of the secret
        self._expired: dict[str, KeyMatch] = {}
        self._next_expiry = float("inf")
        self._given_store = store
        self.store: KeyStore | None = None
        self._store_version: Hashable = ()
        self._next_check = 0.0
        self._failed_at: float | None = None
        self._lock = threading.RLock()
        self._poller: threading.Thread | None = None
        self._closed = threading.Event()
        self.reload(config)

    def reload(self, config: GatewayConfig) -> None:
        """Use another configuration. Raises and changes nothing if its keys cannot be read."""
        store = self._given_store or open_key_store(config, self._env)
        if store is not None and self.store is not None and store.location == self.store.location:
            store = self.store  # keeps its connections
        self._read(config, store)
        if store is not None and store.remote and self._poller is None:
            self._poller = threading.Thread(target=self._poll, name="penstock-keys", daemon=True)
            self._poller.start()

    def close(self) -> None:
        """Stop polling, and close the store."""
        self._closed.set()
        if self._poller is not None:
            self._poller.join()
        if self.store is not None:
            self.store.close()

    @property
    def required(self) -> bool:
        """Whether callers need a key."""
        self.refresh()
        return self._required

    def __bool__(self) -> bool:
        self.refresh()
        return bool(self._matches)

    @property
    def secrets(self) -> tuple[str, ...]:
        """The keys that are known by value, from environment variables."""
        found = (self._env.get(key.env, "") for key in self._configured_keys(self._config).values() if key.env)
        return tuple(filter(None, found))

    def find(self, secret: str) -> KeyMatch | None:
        """Find a key by the hash of its secret. Nobody can choose that hash, so the time says nothing about keys."""
        self.refresh()
        return self._matches.get(hash_key(secret))

    def find_expired(self, secret: str) -> KeyMatch | None:
        """Find a key that has expired, to explain the refusal."""
        return self._expired.get(hash_key(secret))

    def holds(self, name: str, hashed: str) -> bool:
        """Return whether a key that was found earlier is still valid."""
        self.refresh()
        found = self._matches.get(hashed)
        return found is not None and found.name == name

    def has_expired(self, name: str, hashed: str) -> bool:
        """Return whether a key that was found earlier has expired."""
        found = self._expired.get(hashed)
        return found is not None and found.name == name

    @property
    def has_team_keys(self) -> bool:
        """Whether there are keys beside the one that the process was started with."""
        return bool(self.records.keys or self._config.keys)

    def find_name(self, name: str) -> KeyMatch | None:
        """Find a valid key by its name."""
        return next((match for match in list(self._matches.values()) if match.name == name), None)

    def find_team(self, name: str) -> Team | None:
        """Return a team of the configuration or of the store."""
        return self._config.teams.get(name) or self.records.teams.get(name)

    def team_keys(self, team: str) -> list[str]:
        """Return the names of the keys of a team."""
        return sorted({match.name for match in list(self._matches.values()) if match.key.team == team})

    @property
    def organisation(self) -> Organisation:
        """The organisation of the configuration, else of the store."""
        configured = self._config.organisation
        return configured if configured != Organisation() else self.records.organisation

    def refresh(self) -> None:
        """Look for changes: at most every `REFRESH_INTERVAL` seconds. Drops keys that have expired."""
        if time.time() >= self._next_expiry:
            with self._lock:
                self._drop_expired()
        now = time.monotonic()
        if now < self._next_check:
            return
        self._next_check = now + REFRESH_INTERVAL
        if self.store is None or self.store.remote:
            return
        version = self.store.version()
        if version != self._store_version:
            self._read_again(version)

    def sync(self) -> None:
        """Read the store again if it has changed. May wait for a network: not for the event loop."""
        if self.store is not None:
            version = self.store.version()
            if version != self._store_version:
                self._read_again(version)

    def _poll(self) -> None:
        """Look for changes of a remote store until the ring is closed. Runs in a thread."""
        while not self._closed.wait(POLL_INTERVAL):
            store = self.store
            if store is None or not store.remote:
                continue
            try:
                version = store.version()
            except (InputError, OSError) as error:
                self._hold_or_refuse(error, self._store_version)
                continue
            if version != self._store_version or self._failed_at is not None:
                self._read_again(version)

    def _read_again(self, version: Hashable) -> None:
        try:
            self._read(self._config, self.store)
        except (InputError, OSError) as error:
            self._hold_or_refuse(error, version)

    def _hold_or_refuse(self, error: Exception, version: Hashable) -> None:
        """Keep the known keys for as long as the store allows. Then refuse them: revoked keys are unknown."""
        hold = self.store.hold if self.store is not None else 0.0
        now = time.monotonic()
        if self._failed_at is None:
            self._failed_at = now
            if hold:
                log.warning("the key store cannot be read; known keys hold for %g s: %s", hold, error)
        if now - self._failed_at < hold or self.problem:
            return
        log.error("the key store cannot be read, its keys are refused: %s", error)
        with self._lock:
            self._store_version = version
            self._set_records(KeyRecords(required=True), self._config, f"{_error_reason(error)}")

    def _read(self, config: GatewayConfig, store: KeyStore | None) -> None:
        version = store.version() if store is not None else ()
        records = store.read() if store is not None else KeyRecords()
        matches = self._hash_keys(records, config)
        with self._lock:
            self._config, self.store, self._store_version, self._failed_at = config, store, version, None
            self._set_matches(records, matches)
        self._mark(records)

    def _set_records(self, records: KeyRecords, config: GatewayConfig, problem: str) -> None:
        self._set_matches(records, self._hash_keys(records, config), problem)

    def _set_matches(self, records: KeyRecords, matches: dict[str, KeyMatch], problem: str = "") -> None:
        self.records, self._matches, self._expired = records, matches, {}
        self._next_check = time.monotonic() + REFRESH_INTERVAL
        self.problem = problem
        self._required = self._required or bool(matches) or records.required
        self._drop_expired()
        self.version += 1

    def _drop_expired(self) -> None:
        """Move keys whose time is over. Their open connections end, because the version changes."""
        now, valid, later = time.time(), dict[str, KeyMatch](), float("inf")
        for hashed, match in self._matches.items():
            if match.expires is not None and match.expires <= now:
                self._expired[hashed] = match
                continue
            valid[hashed] = match
            later = min(later, match.expires if match.expires is not None else later)
        self._matches, self._next_expiry = valid, later
        self.version += 1

    def _mark(self, records: KeyRecords) -> None:
        """Have the store remember that keys exist. The key from VARIABLE does not count: it ends with the process."""
        if self.store is None or not (records.keys or self._config.keys):
            return
        try:
            self.store.mark_required()
        except (InputError, OSError) as error:
            log.warning(
                "%s cannot be written (%s): after a restart without keys this gateway would open to this machine",
                self.store.location,
                error,
            )

    def _configured_keys(self, config: GatewayConfig) -> Mapping[str, Key]:
        """Return the keys of the configuration, and the one from VARIABLE."""
        starter = {STARTER_KEY_NAME: Key(env=VARIABLE, inspect="all")} if self._env.get(VARIABLE) else {}
        return {**starter, **config.keys}

    def _hash_keys(self, records: KeyRecords, config: GatewayConfig) -> dict[str, KeyMatch]:
        matches: dict[str, KeyMatch] = {}
        for name, key in {**records.keys, **self._configured_keys(config)}.items():
            end = key.expires.timestamp() if key.expires is not None else None
            for previous in key.previous:
                until = previous.expires.timestamp()
                matches[previous.hash] = KeyMatch(name, key, previous.hash, until if end is None else min(until, end))
            hashed = self._hash(name, key)
            matches[hashed] = KeyMatch(name, key, hashed, end)
        return matches

    def _hash(self, name: str, key: Key) -> str:
        if not key.env:
            return key.hash
        if not self._env.get(key.env):
            raise InputError(f"keys.{name}.env: the variable {key.env} is not set")
        return hash_key(self._env[key.env])


def _error_reason(error: Exception) -> str:
    """Return why a key store cannot be read, for clients: without paths and library messages."""
    if isinstance(error, PermissionError):
        return "the key store cannot be read (access to it is denied)"
    if isinstance(error, FileNotFoundError):
        return "the key store cannot be read (it is missing)"
    reason = "it reports an error" if isinstance(error, OSError) else "its content is not valid"
    return f"the key store cannot be read ({reason})"
