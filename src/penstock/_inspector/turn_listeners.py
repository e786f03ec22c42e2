"""A page that watches the list of turns, and the changes that it has not been told of."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from penstock._store.journal import JournalEntry

MAX_UNREAD = 100  # turns that wait for one listener; further ones are only counted


class TurnChange(NamedTuple):
    """A change of a turn. `row`: its row of the journal, once it has ended. `is_update`: it had ended before."""

    row: JournalEntry | None
    is_update: bool = False


class TurnListener:
    """A page that watches the list. `news` is set when there are changes."""

    def __init__(self, tenant: str | None) -> None:
        self.tenant = tenant
        self.news: asyncio.Event = asyncio.Event()
        self.missed: int = 0  # turns since the last update that were too many to report
        self._fresh: dict[str, TurnChange] = {}
        self._running: set[str] = set()  # running turns that were reported: their end will be reported too
        self._removed: set[str] = set()

    def may_see(self, tenant: str) -> bool:
        """True if it may see the turns of a tenant."""
        return self.tenant is None or self.tenant == tenant

    def has_room(self, tenant: str) -> bool:
        """True if a turn that begins now will be reported: only such turns are captured."""
        return len(self._fresh) < MAX_UNREAD and self.may_see(tenant)

    def on_turn(self, id: str, tenant: str, row: JournalEntry | None = None, *, is_update: bool = False) -> None:
        """A turn changes. `row`: its row of the journal, at its end. `is_update`: the end was reported before."""
        if not self.may_see(tenant):
            return
        known = self._fresh.get(id)
        if len(self._fresh) >= MAX_UNREAD and known is None and id not in self._running:
            self.missed += row is not None
            return
        self._fresh[id] = TurnChange(row, is_update and (known is None or known.is_update))
        self.news.set()

    def take_changes(self) -> dict[str, TurnChange]:
        """Returns the turns that changed since the last call."""
        fresh, self._fresh = self._fresh, {}
        self.news.clear()
        for name, change in fresh.items():
            (self._running.add if change.row is None else self._running.discard)(name)
        return fresh

    def on_removal(self, id: str, tenant: str) -> None:
        """The content of a turn is gone."""
        if self.may_see(tenant):
            self._removed.add(id)
            self.news.set()

    def take_removals(self) -> list[str]:
        """Returns the turns whose content went since the last call."""
        removed, self._removed = sorted(self._removed), set()
        return removed
