"""Turns on disk: off unless `inspector.keep` or the switch on the page says so.

The switch lasts until the gateway is restarted. A file that is there is read, and its old turns are deleted, also while
nothing new is kept.
"""

from __future__ import annotations

import logging
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

from penstock._gateway.config import data_path
from penstock._inspector.turn_keeper import TurnKeeper, decode_turn
from penstock._store.kept_turns import FILE, FILE_ERRORS, TURN_ERRORS
from penstock._store.kept_turns_searches import join_ids
from penstock._store.sqlite import IN_MEMORY

if TYPE_CHECKING:
    from collections import deque
    from collections.abc import Callable, Collection
    from pathlib import Path

    from penstock._gateway.services import Services
    from penstock._inspector.keeping_policy import Forgotten
    from penstock._inspector.kept_turn import KeptTurn
    from penstock._inspector.turn_keeper import KeepableTurn
    from penstock._store.kept_turns import KeptTurnStore
    from penstock._store.kept_turns_index import TextSearch
    from penstock._store.kept_turns_missing import MissingReason, MissingTurn

T = TypeVar("T")
MAX_DAMAGED_TURNS = 1_000  # whose ids are remembered
_UNREADABLE = "{path}: kept turns cannot be read: {error}"
_DAMAGED_TURN = "%s: the content of turn %s is damaged and cannot be read: %s"
_NOT_ERASED = (
    "the deleted text is still in the file {name}-wal, because another program is reading {name}; "
    "it is erased when that program has finished"
)
_NOT_DELETED = (
    "turns are deleted from memory, but not from disk ({problem}). To delete them, stop the gateway and remove {name}, "
    "{name}-wal and {name}-shm of the data folder"
)
log = logging.getLogger("penstock.inspector")


class DiskRing:
    """The file of kept turns, which is opened when it is needed. `on_forget`, `missing`: as in `TurnKeeper`."""

    def __init__(
        self, services: Services, on_forget: Callable[[str, str, Forgotten], None], missing: deque[MissingTurn]
    ) -> None:
        self._services, self._on_forget, self._missing = services, on_forget, missing
        self.path: Path | None = None
        path = data_path("", services.config.data, FILE)
        if path != IN_MEMORY:
            self.path = path
        self.switched: bool | None = None  # by the page
        self.damage: str = ""  # why the file could not be read
        self._damaged_turns: dict[str, None] = {}  # of a file that can be read
        self._keeper: TurnKeeper | None = None
        self._closed = False
        self._lock = threading.Lock()  # one keeper only: turns end in the event loop, and pages read in threads

    @property
    def problem(self) -> str:
        """Why the file cannot be used; empty if it can."""
        return self._keeper.open_problem if self._keeper is not None else ""

    @property
    def enabled(self) -> bool:
        """True if turns are kept on disk. Called for every turn."""
        return self._services.config.inspector.keep if self.switched is None else self.switched

    @property
    def writes(self) -> bool:
        """True if turns are kept on disk, or wait for it since they were."""
        return self.enabled or (self._keeper is not None and self._keeper.waits)

    def is_used(self) -> bool:
        """True if turns are or were kept on disk. May look for the file."""
        return self.path is not None and (self.enabled or self._open_existing() is not None)

    def add(self, turn: KeepableTurn) -> Forgotten | None:
        """Writes a finished turn soon. Returns why it cannot be written, if it cannot."""
        keeper = self._open()
        if keeper is None:
            return "disk-error"
        return None if keeper.add(turn) else "disk-busy"

    def _open(self) -> TurnKeeper | None:
        """Returns the keeper. Its thread opens the file, so that nothing here waits for a disk."""
        with self._lock:
            if self._keeper is None and self.path is not None and not self._closed:
                table = self._services.config.inspector
                self._keeper = TurnKeeper(
                    self.path,
                    size=table.size,
                    days=table.days,
                    secrets=lambda: self._services.secrets,
                    on_forget=self._on_forget,
                    missing=self._missing,
                )
            return self._keeper

    def _open_existing(self) -> TurnKeeper | None:
        """Returns the keeper, if turns are or were kept on disk."""
        with suppress(OSError):  # a folder that may not be looked into
            if self._keeper is None and self.path is not None and self.path.exists():
                self._open()
        return self._keeper

    def _read(self, read: Callable[[KeptTurnStore], T], otherwise: T) -> T:
        """Returns what is read from the file; `otherwise` if there is none, or if it is damaged."""
        keeper = self._open_existing()
        store = keeper.find_store() if keeper is not None else None
        if store is None:
            return otherwise
        try:
            return read(store)
        except FILE_ERRORS as error:
            if not self.damage:
                self.damage = _UNREADABLE.format(path=self.path, error=error)
                log.error(self.damage)  # noqa: TRY400 — the message says all
            return otherwise

    def read_turn(self, id: str, tenant: str | None) -> KeptTurn | None:
        """Returns a turn of the file, if the tenant may see it."""

        def read(store: KeptTurnStore) -> KeptTurn | None:
            try:
                found = store.read_turn(id, tenant)
                return decode_turn(*found) if found is not None else None
            except TURN_ERRORS as error:
                self._add_damaged(id, error)
                return None

        return self._read(read, None)

    def is_damaged(self, id: str) -> bool:
        """True if a turn is in the file, and could not be read."""
        return id in self._damaged_turns and self.holds(id)

    def _add_damaged(self, id: str, error: Exception) -> None:
        if id not in self._damaged_turns and len(self._damaged_turns) < MAX_DAMAGED_TURNS:
            self._damaged_turns[id] = None
            log.error(_DAMAGED_TURN, self.path, id, error)

    def list_turns(self, limit: int, tenant: str | None) -> list[str]:
        """Returns the ids of the newest turns of the file, the newest first. `tenant`: whose turns; None means all."""
        return self._read(lambda store: store.list_turns(limit, tenant), [])

    def list_tenants(self, limit: int) -> list[str]:
        """Returns the tenants of the newest turns of the file."""
        return self._read(lambda store: store.list_tenants(limit), [])

    def count(self, tenant: str | None) -> int:
        """Returns the number of turns in the file, of one tenant or all."""
        return self._read(lambda store: store.count(tenant), 0)

    def holds(self, id: str) -> bool:
        """True if a turn is in the file."""
        return bool(self.find_kept((id,)))

    def find_kept(self, ids: Collection[str]) -> frozenset[str]:
        """Returns those of some turns that are in the file."""
        return self._read(lambda store: store.find_kept(ids), frozenset[str]())

    def find_missing(self, id: str) -> MissingReason | None:
        """Returns what the file tells of a turn that it has no more, or never had; None without a file."""
        return self._read(lambda store: store.find_missing(id), None)

    def find_turns(self, phrase: str, tenant: str | None) -> frozenset[str]:
        """Returns the ids of turns that have these words in this order. `tenant`: whose turns; None means all."""
        return self._read(lambda store: store.find_turns(phrase, tenant), frozenset[str]())

    def find_cut_turns(self, tenant: str | None) -> Collection[str]:
        """Returns the ids of turns that are kept only in part: other words of them are not found."""
        return self._read(lambda store: store.find_cut_turns(tenant), ())

    def delete_turns(self, ids: Collection[str] | None, tenant: str | None) -> dict[str, str]:
        """Deletes turns by their ids, or all. Returns the tenants of those that were in the file.

        Raises OSError if they stay in a file that cannot be changed.
        """
        keeper = self._open_existing()
        try:
            deleted = keeper.delete_turns(ids, tenant) if keeper is not None else {}
        except FILE_ERRORS as error:
            raise OSError(_NOT_DELETED.format(problem=error, name=FILE)) from error
        for name in deleted:
            self._damaged_turns.pop(name, None)
        if ids is None and tenant is None:  # a damaged file is empty now
            self.damage = ""
            self._damaged_turns.clear()
        return deleted

    def remaining_text(self) -> str:
        """Returns where deleted text still is, and why; empty if it is erased."""
        return _NOT_ERASED.format(name=FILE) if self._keeper is not None and self._keeper.may_hold_deleted else ""

    def flush(self) -> None:
        """Waits until all turns are written."""
        if self._keeper is not None:
            self._keeper.flush()

    def close(self) -> None:
        """Writes what waits. Nothing is kept or read from then on."""
        if self._missing and self.is_used():  # reasons, though no turn was written
            self._open()
        with self._lock:
            keeper, self._keeper, self._closed = self._keeper, None, True
        if keeper is not None:
            keeper.close()

    def describe(self, tenant: str | None) -> dict[str, object]:
        """Returns what the page shows: whether it is on, the bounds, and how much there is."""
        keeper, table = self._open_existing(), self._services.config.inspector
        found: dict[str, object] = {"on": self.enabled, "size": table.size, "days": table.days}
        found["possible"] = self.path is not None
        if keeper is not None and keeper.find_store() is not None:
            found["turns"] = self.count(tenant)
            if tenant is None:  # the file holds turns of all: its size tells of those of others
                found["bytes"] = self._read(lambda store: store.file_bytes, 0)
                found["damaged"] = len(self.find_kept([*self._damaged_turns]))
        problem = self.problem or self.damage or (keeper.problem if keeper is not None else "")
        return {**found, "problem": problem} if problem else found


class KeptTurnSearch:
    """Searches the turns in memory and on disk."""

    def __init__(self, memory: TextSearch, disk: TextSearch) -> None:
        self._memory, self._disk = memory, disk

    def find_turns(self, phrase: str, tenant: str | None) -> frozenset[str]:
        """Returns the ids of turns that have these words in this order. `tenant`: whose turns; None means all."""
        return join_ids(self._memory.find_turns(phrase, tenant), self._disk.find_turns(phrase, tenant))

    def find_cut_turns(self, tenant: str | None) -> Collection[str]:
        """Returns the ids of turns that are kept only in part: other words of them are not found."""
        return {*self._memory.find_cut_turns(tenant), *self._disk.find_cut_turns(tenant)}
