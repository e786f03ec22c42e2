"""Results of the last searches of kept turns, brought up to date by the turns that have changed since.

A log of changed turns is in the file, written by triggers: so changes of other connections and processes are in it too.
Only changed turns are looked at again. The match of a turn depends on its path alone, and a path is never changed while
a turn has it. The one exception is a text that becomes searchable later; it makes all results void.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import sqlite3

    from penstock._store.kept_turns_index import TextIndex

CACHED_SEARCHES = 8
CHANGES = 1_000  # that the log has; an older result is searched anew
_ALL = ""  # in the log instead of an id: every turn may have changed
_SCHEMA = "CREATE TABLE IF NOT EXISTS changes (number INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL)"
_TRIGGER = """
CREATE TRIGGER IF NOT EXISTS {name} AFTER {event} BEGIN
    INSERT INTO changes (id) VALUES ({value});
    DELETE FROM changes WHERE number <= (SELECT max(number) FROM changes) - {count};
END
"""
_TRIGGERS = (
    ("turn_added", "INSERT ON turns", "new.id"),
    ("turn_removed", "DELETE ON turns", "old.id"),
    ("text_indexed", "UPDATE OF form ON texts", f"'{_ALL}'"),
)


def join_ids(first: frozenset[str], second: frozenset[str]) -> frozenset[str]:
    """Returns the ids that are in one of two sets: one of these themselves, if it has all."""
    small, large = sorted((first, second), key=len)
    return large if small <= large else large | small


class CachedSearch(NamedTuple):
    """The ids that a search has found, and the last change that they take into account."""

    ids: frozenset[str]
    change: int


class SearchCache:
    """Searches by one connection, which one thread at a time uses."""

    def __init__(self, connection: sqlite3.Connection, index: TextIndex) -> None:
        self._connection, self._index = connection, index
        self._searches: OrderedDict[tuple[str, str | None], CachedSearch] = OrderedDict()

    def find_turns(self, phrase: str, tenant: str | None) -> frozenset[str]:
        """Returns the ids of turns that have these words in this order. `tenant`: whose turns; None means all."""
        with self._connection:  # ends the transaction, in which all queries see the same state
            self._connection.execute("BEGIN")
            found = self._update(phrase, tenant, self._searches.pop((phrase, tenant), None))
        self._searches[phrase, tenant] = found
        if len(self._searches) > CACHED_SEARCHES:
            self._searches.popitem(last=False)
        return found.ids

    def _update(self, phrase: str, tenant: str | None, cached: CachedSearch | None) -> CachedSearch:
        last = self._last_change()
        changed = self._read_changes(cached.change, last) if cached is not None else None
        if cached is None or changed is None:
            return CachedSearch(self._index.find_turns(phrase, tenant), last)
        if not changed:
            return cached
        matching = self._index.find_among(changed, phrase, tenant)
        gone = (changed - matching) & cached.ids
        kept = cached.ids - gone if gone else cached.ids  # no copy of a large set, if it can be avoided
        return CachedSearch(join_ids(kept, matching), last)

    def _last_change(self) -> int:
        row = self._connection.execute("SELECT seq FROM sqlite_sequence WHERE name = 'changes'").fetchone()
        return int(row[0]) if row is not None else 0

    def _read_changes(self, since: int, last: int) -> frozenset[str] | None:
        """Returns the ids of the turns that have changed; None if the log does not tell."""
        if since == last:
            return frozenset()
        rows = self._connection.execute("SELECT id FROM changes WHERE number > ?", (since,)).fetchall()
        changed = frozenset(str(row[0]) for row in rows)
        return None if len(rows) != last - since or _ALL in changed else changed


def create_log(connection: sqlite3.Connection) -> None:
    """Creates the log of changed turns, and the triggers that write it. The tables of the index exist."""
    connection.execute(_SCHEMA)
    for name, event, value in _TRIGGERS:
        connection.execute(_TRIGGER.format(name=name, event=event, value=value, count=CHANGES))


def invalidate_searches(connection: sqlite3.Connection) -> None:
    """Makes the results of all searches invalid, because tables were dropped."""
    connection.execute("INSERT INTO changes (id) VALUES (?)", (_ALL,))
