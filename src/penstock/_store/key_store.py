"""Stores of gateway keys, teams and the organisation, with an audit log. `FileKeyStore` is the default.

A store is synchronous. The gateway calls a remote one in threads only; `KeyRing` holds the keys in memory.

Once a key has existed, one is required: an empty, missing or damaged store refuses everybody (see
docs/decisions/2026-11-15-keys-fail-closed.md). The file store keeps that in a marker file beside the key file.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Protocol, TypeAlias

import msgspec
from msgspec.structs import replace

from penstock._store import provider_keys
from penstock._store.key_records import (
    AuditRow,
    Key,
    KeyRecords,
    Organisation,
    RecordChange,
    Team,
    check_records,
    find_changes,
)
from penstock.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path

FILE_FORMAT = 2  # 1 was a plain object of keys
MARKER = ".required"  # appended to the name of the key file, as the following two
AUDIT = ".audit"
BACKUP = ".v1.bak"
MAX_AUDIT_BYTES = 8 * 2**20  # of the audit log; the one before it is kept too
MAX_AUDIT_PAGE = 1_000  # rows
_ADVICE = "`penstock keys` writes this file"
_MARKER_CONTENT = (
    b"Gateway keys have been in use here, so one is required. `penstock keys reset` deletes all keys and this file.\n"
)
RecordEdit: TypeAlias = Callable[[KeyRecords], KeyRecords]


class KeyStore(Protocol):
    """A store of gateway keys.

    `location` names it in messages, without secrets. `remote`: calls may wait for a network, so a running gateway polls
    it in a thread. `hold`: seconds that known keys still work while the store cannot be read.
    """

    location: str
    remote: bool
    hold: float

    def read(self) -> KeyRecords:
        """Return all records. Raises `InputError` or `OSError` if they cannot be read."""
        ...

    def version(self) -> Hashable:
        """Return a value that differs after every change. Cheap: it is polled."""
        ...

    def change(self, edit: RecordEdit, *, actor: str, action: str) -> KeyRecords:
        """Replace the records by `edit(records)` and write an audit row, all or nothing. Returns the new records.

        No other change happens between the read and the write. What `edit` raises is raised, and changes nothing.
        """
        ...

    def mark_required(self) -> None:
        """Remember that keys have existed, also in the configuration."""
        ...

    def reset(self, *, actor: str) -> None:
        """Delete all keys and teams, and forget that keys have existed. Works with a damaged store. The log stays."""
        ...

    def audit(self, *, limit: int = 100, before: int | None = None) -> list[AuditRow]:
        """Return rows of the audit log, the newest first. `before`: only rows with a smaller id."""
        ...

    def add_audit(self, *, actor: str, action: str, changes: tuple[RecordChange, ...]) -> Callable[[], None]:
        """Write an audit row for a change of something that is kept elsewhere, before the change is made.

        Returns a function that removes the row again, for a change that fails.
        """
        ...

    def close(self) -> None:
        """Close connections."""
        ...


def next_records(before: KeyRecords, edit: RecordEdit) -> tuple[KeyRecords, tuple[RecordChange, ...]]:
    """Return the records after an edit, checked, and the changes for the audit log. For implementations of stores."""
    after = edit(before)
    check_records(after)
    required = before.required or bool(before.keys) or bool(after.keys)
    return replace(after, version=before.version + 1, required=required), find_changes(before, after)


class _KeyFileContent(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    format: int = FILE_FORMAT
    version: int = 0
    keys: dict[str, Key] = {}
    teams: dict[str, Team] = {}
    organisation: Organisation = Organisation()


class FileKeyStore:
    """The key file, `keys.json`. Changes are made under a lock and replace the whole file.

    A file of format 1 can be read. The first change writes format 2, and a copy of the old file beside it.
    """

    remote = False
    hold = 0.0

    def __init__(self, path: Path) -> None:
        self.path = path
        self.location = str(path)
        self.marker = path.with_name(path.name + MARKER)
        self.log = AuditFile(path.with_name(path.name + AUDIT))

    def read(self) -> KeyRecords:
        return self._parse(self._read_bytes())

    def version(self) -> Hashable:
        """Return the times, size and inode of the file: a replaced file may have the size and time of the old one."""
        return provider_keys.file_stamp(self.path)

    def change(self, edit: RecordEdit, *, actor: str, action: str) -> KeyRecords:
        with provider_keys.lock_file(self.path):
            data = self._read_bytes()
            before = self._parse(data)
            after, changes = next_records(before, edit)
            if data is not None and not _is_current(data):
                provider_keys.replace_file(self.path.with_name(self.path.name + BACKUP), data)
            if after.required:
                self.mark_required()  # first: after a crash in between, keys must still be required
            undo = self.log.append(actor, action, changes)
            try:
                self._write(after)
            except BaseException:
                undo()
                raise
        return after

    def mark_required(self) -> None:
        if not self.marker.exists():
            provider_keys.replace_file(self.marker, _MARKER_CONTENT)

    def reset(self, *, actor: str) -> None:
        with provider_keys.lock_file(self.path):
            try:
                changes = find_changes(self.read(), KeyRecords())
            except InputError:  # damaged: what it held is not known
                changes = ()
            if self.path.exists() or self.marker.exists():
                self.log.append(actor, "reset", changes)
            provider_keys.remove_file(self.path)
            provider_keys.remove_file(self.marker)

    def audit(self, *, limit: int = 100, before: int | None = None) -> list[AuditRow]:
        return self.log.read(limit, before)

    def add_audit(self, *, actor: str, action: str, changes: tuple[RecordChange, ...]) -> Callable[[], None]:
        with provider_keys.lock_file(self.path):
            self.log.append(actor, action, changes)
            row = self.log.read(1, None)[0]

        def remove_row() -> None:
            with provider_keys.lock_file(self.path):
                self.log.remove(row)

        return remove_row

    def close(self) -> None:
        pass

    def _read_bytes(self) -> bytes | None:
        try:
            return self.path.read_bytes()
        except FileNotFoundError:
            return None

    def _parse(self, data: bytes | None) -> KeyRecords:
        # An empty key file counts too: older versions wrote no marker.
        required = os.path.lexists(self.marker) or os.path.lexists(self.path)
        if data is None:
            return KeyRecords(required=required)
        try:
            if not _is_current(data):
                return KeyRecords(keys=msgspec.json.decode(data, type=dict[str, Key]), required=required)
            content = msgspec.json.decode(data, type=_KeyFileContent)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise InputError(f"{self.path}: {error}; {_ADVICE}") from None
        if content.format != FILE_FORMAT:
            raise InputError(f"{self.path}: format {content.format} was written by a newer version of penstock")
        return KeyRecords(
            keys=content.keys,
            teams=content.teams,
            organisation=content.organisation,
            version=content.version,
            required=required,
        )

    def _write(self, records: KeyRecords) -> None:
        content = _KeyFileContent(
            version=records.version, keys=records.keys, teams=records.teams, organisation=records.organisation
        )
        provider_keys.write_json_file(self.path, content)


class _FormatField(msgspec.Struct):
    format: int | dict[str, object] = 1  # an object is a key of this name, in a file of format 1


def _is_current(data: bytes) -> bool:
    """Return whether a key file has a number as `format`: files of format 1 held keys only."""
    try:
        return isinstance(msgspec.json.decode(data, type=_FormatField).format, int) and b'"format"' in data
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return False


class AuditFile:
    """An audit log of JSON lines that only its owner can read. The caller holds the lock of the key file.

    At `MAX_AUDIT_BYTES` the file is renamed to `….1`, which replaces an older one.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.older = path.with_name(path.name + ".1")

    def append(self, actor: str, action: str, changes: tuple[RecordChange, ...]) -> Callable[[], None]:
        """Append a row and write it to the disk. Returns a function that removes it again."""
        rows = self.read(1, None)
        row = AuditRow(id=rows[0].id + 1 if rows else 1, time=time.time(), actor=actor, action=action, changes=changes)
        line = msgspec.json.encode(row) + b"\n"
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if self._size() and self._size() + len(line) > MAX_AUDIT_BYTES:
            self.path.replace(self.older)
        descriptor = os.open(self.path, os.O_CREAT | os.O_RDWR | os.O_APPEND, 0o600)
        with os.fdopen(descriptor, "rb+", buffering=0) as file:
            size = file.seek(0, os.SEEK_END)
            if size:
                file.seek(-1, os.SEEK_END)
                line = line if file.read(1) == b"\n" else b"\n" + line  # a crash left half a row
            try:
                file.write(line)
                os.fsync(file.fileno())
            except OSError:
                file.truncate(size)
                raise
        return lambda: os.truncate(self.path, size)

    def read(self, limit: int, before: int | None) -> list[AuditRow]:
        """Return rows, the newest first. Damaged lines are skipped."""
        rows: list[AuditRow] = []
        for path in (self.path, self.older):
            if len(rows) >= limit:
                break
            try:
                lines = path.read_bytes().splitlines()
            except FileNotFoundError:
                continue
            for line in reversed(lines):
                row = _parse_row(line)
                if row is not None and (before is None or row.id < before):
                    rows.append(row)
                if len(rows) >= limit:
                    break
        return rows

    def remove(self, row: AuditRow) -> None:
        """Remove a row. Others may have been written after it."""
        for path in (self.path, self.older):
            try:
                lines = path.read_bytes().splitlines(keepends=True)
            except FileNotFoundError:
                continue
            kept = [line for line in lines if _parse_row(line) != row]
            if len(kept) == len(lines):
                continue
            if kept == lines[:-1]:
                os.truncate(path, sum(map(len, kept)))  # works on a full disk too
            else:
                provider_keys.replace_file(path, b"".join(kept))
            return

    def _size(self) -> int:
        try:
            return self.path.stat().st_size
        except FileNotFoundError:
            return 0


def _parse_row(line: bytes) -> AuditRow | None:
    try:
        return msgspec.json.decode(line, type=AuditRow)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
