"""Gateway keys, teams, the organisation and the audit log in PostgreSQL: a `KeyStore` for any number of gateways.

It has one connection of its own, so that the poll for revoked keys does not wait behind other queries.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from penstock._store.key_records import AuditRow, Key, KeyRecords, Organisation, RecordChange, Team, find_changes
from penstock._store.key_store import MAX_AUDIT_PAGE, RecordEdit, next_records
from penstock._store.postgres import connect, import_psycopg, location_of, migrate, wrap_error
from penstock.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from psycopg import Connection

T = TypeVar("T")
KEYS_HOLD = 60.0
KEYS_TIMEOUT = 5.0  # seconds for one statement
_KINDS: dict[str, type[Key | Team | Organisation]] = {"key": Key, "team": Team, "organisation": Organisation}
_ORGANISATION = "organisation"
_INSERT_AUDIT = "INSERT INTO key_audit SELECT coalesce(max(id), 0) + 1, %s, %s, %s, %s FROM key_audit RETURNING id"
_DELETE_AUDIT = "DELETE FROM key_audit WHERE id = %s"
_INSERT_RECORD = "INSERT INTO key_records VALUES (%s, %s, %s)"
_VERSION = "SELECT version, required FROM key_store"
_LOCKED_VERSION = "SELECT version, required FROM key_store FOR UPDATE"
_AUDIT = "SELECT id, time, actor, action, changes FROM key_audit WHERE id < %s ORDER BY id DESC LIMIT %s"


class PostgresKeyStore:
    """The keys of a database. `hold`: seconds that known keys still work while it cannot be read."""

    remote = True

    def __init__(self, url: str, *, hold: float = KEYS_HOLD, timeout: float = KEYS_TIMEOUT) -> None:
        self.location: str = location_of(url)
        self.hold: float = hold
        self._url, self._timeout = url, timeout
        self._psycopg, _ = import_psycopg()
        self._lock = threading.Lock()
        self._connection: Connection[Any] | None = None
        self._migrated = False

    def read(self) -> KeyRecords:
        return self._run(self._read)

    def version(self) -> Hashable:
        def fetch(connection: Connection[Any]) -> Hashable:
            return tuple(_fetch_row(connection, _VERSION))

        return self._run(fetch)

    def change(self, edit: RecordEdit, *, actor: str, action: str) -> KeyRecords:
        def work(connection: Connection[Any]) -> KeyRecords:
            before = self._read(connection, lock=True)
            after, changes = next_records(before, edit)
            self._write(connection, after)
            _add_audit(connection, actor, action, changes)
            return after

        return self._run(work, changes=True)

    def mark_required(self) -> None:
        query = "UPDATE key_store SET required = TRUE WHERE NOT required"
        self._run(lambda connection: connection.execute(query), changes=True)

    def reset(self, *, actor: str) -> None:
        def work(connection: Connection[Any]) -> None:
            try:
                before = self._read(connection, lock=True)
                changes = find_changes(before, KeyRecords())
                used = before.required
            except InputError:  # damaged: what it held is not known
                changes, used = (), True
            if used or changes:
                _add_audit(connection, actor, "reset", changes)
            connection.execute("DELETE FROM key_records")
            connection.execute("UPDATE key_store SET version = version + 1, required = FALSE")

        self._run(work, changes=True)

    def audit(self, *, limit: int = 100, before: int | None = None) -> list[AuditRow]:
        values = (before if before is not None else 2**62, min(limit, MAX_AUDIT_PAGE))
        rows = self._run(lambda connection: connection.execute(_AUDIT, values).fetchall())
        fields = ("id", "time", "actor", "action", "changes")
        return [msgspec.convert(dict(zip(fields, row, strict=True)), AuditRow) for row in rows]

    def add_audit(self, *, actor: str, action: str, changes: tuple[RecordChange, ...]) -> Callable[[], None]:
        def work(connection: Connection[Any]) -> int:
            self._read(connection, lock=True)  # ids grow by one: writers wait for each other
            return _add_audit(connection, actor, action, changes)

        row_id = self._run(work, changes=True)

        def remove_row() -> None:
            self._run(lambda connection: connection.execute(_DELETE_AUDIT, (row_id,)), changes=True)

        return remove_row

    def close(self) -> None:
        """Close the connection."""
        with self._lock:
            self._disconnect()

    def _read(self, connection: Connection[Any], *, lock: bool = False) -> KeyRecords:
        # The row of the version is locked for a change: changes wait for each other. A read sees one moment.
        query = _LOCKED_VERSION if lock else _VERSION
        with connection.transaction():
            if not lock:
                connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            version, required = _fetch_row(connection, query)
            rows = connection.execute("SELECT kind, name, record FROM key_records").fetchall()
        found: dict[str, dict[str, Any]] = {kind: {} for kind in _KINDS}
        for kind, name, record in rows:
            try:
                found[kind][name] = msgspec.convert(record, _KINDS[kind])
            except (msgspec.ValidationError, KeyError) as error:
                raise InputError(f"{self.location}: the {kind} {name!r} is not valid: {error}") from None
        return KeyRecords(
            keys=found["key"],
            teams=found["team"],
            organisation=found[_ORGANISATION].get(_ORGANISATION, Organisation()),
            version=version,
            required=required,
        )

    def _write(self, connection: Connection[Any], records: KeyRecords) -> None:
        from psycopg.types.json import Jsonb  # noqa: PLC0415 — an extra

        rows = [("key", name, key) for name, key in records.keys.items()]
        rows += [("team", name, team) for name, team in records.teams.items()]  # type: ignore[misc]
        rows += [(_ORGANISATION, _ORGANISATION, records.organisation)]  # type: ignore[list-item]
        connection.execute("DELETE FROM key_records")
        with connection.cursor() as cursor:
            data = [(kind, name, Jsonb(msgspec.to_builtins(record))) for kind, name, record in rows]
            cursor.executemany(_INSERT_RECORD, data)
        connection.execute("UPDATE key_store SET version = %s, required = %s", (records.version, records.required))

    def _run(self, work: Callable[[Connection[Any]], T], *, changes: bool = False) -> T:
        """Run a function with the connection. A connection that broke while it was idle is replaced."""
        with self._lock:
            try:
                if self._connection is not None and changes:
                    self._check()
                fresh = self._connection is None
                try:
                    return self._work(work, changes=changes)
                except self._psycopg.OperationalError:
                    if fresh or changes:
                        raise
                    self._disconnect()
                return self._work(work, changes=changes)
            except self._psycopg.Error as error:
                self._disconnect()
                raise wrap_error(error, self._url) from None

    def _check(self) -> None:
        try:
            if self._connection is not None:
                self._connection.execute("SELECT 1")
        except self._psycopg.Error:
            self._disconnect()

    def _work(self, work: Callable[[Connection[Any]], T], *, changes: bool) -> T:
        if self._connection is None:
            if not self._migrated:
                migrate(self._url, self._timeout)
                self._migrated = True
            self._connection = connect(self._url, self._timeout)
        if not changes:
            return work(self._connection)
        with self._connection.transaction():
            return work(self._connection)

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _fetch_row(connection: Connection[Any], query: str) -> tuple[Any, ...]:
    row = connection.execute(query.encode()).fetchone()
    if row is None:
        raise InputError("the table key_store of PostgreSQL is empty: restore it from a backup")
    return tuple(row)


def _add_audit(connection: Connection[Any], actor: str, action: str, changes: tuple[RecordChange, ...]) -> int:
    """Write a row of the audit log. Returns its id."""
    from psycopg.types.json import Jsonb  # noqa: PLC0415 — an extra

    values = (time.time(), actor, action, Jsonb(msgspec.to_builtins(changes)))
    row = connection.execute(_INSERT_AUDIT, values).fetchone()
    return int(row[0]) if row is not None else 0
