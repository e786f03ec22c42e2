"""What `penstock setup AGENT` changed, so that `--undo` can put it back: a private file for each agent."""

from __future__ import annotations

from pathlib import Path

import msgspec

from penstock.cli.setup.config_files import Change, Edited, FileEdit, Form, undo, write_file
from penstock.errors import InputError
from penstock.store import provider_keys

FOLDER = "setup-backups"


class _Saved(msgspec.Struct, frozen=True):
    """A file as it was, as it was left, and the values that were set in it."""

    path: str
    form: Form
    before: str | None
    after: str
    changes: list[Change]


class Backup:
    """The backup of one agent."""

    def __init__(self, data: Path, agent: str) -> None:
        self.path = data / FOLDER / f"{agent}.json"

    def read(self) -> list[_Saved]:
        try:
            data = self.path.read_bytes()
        except FileNotFoundError:
            return []
        try:
            return msgspec.json.decode(data, type=list[_Saved])
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise InputError(f"{self.path}: {error}; it cannot be used to undo anything") from None

    def save(self, edits: list[tuple[FileEdit, Edited]]) -> None:
        """Remember what is about to be written. A second setup is undone together with the first."""
        rows = [*self.read()]
        rows += [_Saved(str(one.path), one.form, edited.before, edited.after, edited.changes) for one, edited in edits]
        provider_keys.replace(self.path, msgspec.json.format(msgspec.json.encode(rows)) + b"\n")

    def restore(self) -> list[str]:
        """Put everything back, the last change first. Gives a line for each file."""
        done = [_restored(row) for row in reversed(self.read())]
        provider_keys.remove(self.path)
        return done


def _restored(row: _Saved) -> str:
    path = Path(row.path)
    if not path.is_file():
        return f"{path}: it is gone already"
    text = path.read_text(encoding="utf-8")
    if text == row.after:
        if row.before is None:
            path.unlink()
            return f"{path}: removed"
        write_file(path, row.before)
        return f"{path}: as it was"
    write_file(path, undo(FileEdit(path, row.form, {}), text, row.changes))
    return f"{path}: the settings are taken back; what was changed since stays"
