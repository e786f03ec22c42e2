"""The full-text index of kept turns (SQLite FTS5), in memory or in a file. All words of a text are indexed.

Agents send the whole conversation with every request, so each text is stored and indexed once, by its digest. The texts
of a turn are a path in a tree: turns that begin with the same texts share the path. A new turn of a long conversation
adds two or three nodes, whatever its length.
"""

from __future__ import annotations

import json
import zlib
from hashlib import blake2b
from typing import TYPE_CHECKING, Protocol

import msgspec

from penstock._store.kept_turns_words import read_json_words, remove_data

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Collection, Iterable

ROOT = 0  # the parent of the first node of each path
SCHEMA = """
CREATE TABLE IF NOT EXISTS texts (number INTEGER PRIMARY KEY, digest BLOB NOT NULL UNIQUE, form INTEGER NOT NULL,
    body BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS nodes (number INTEGER PRIMARY KEY, parent INTEGER NOT NULL, text INTEGER NOT NULL,
    UNIQUE (parent, text));
CREATE INDEX IF NOT EXISTS nodes_by_text ON nodes (text);
CREATE TABLE IF NOT EXISTS turns (number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, tenant TEXT NOT NULL,
    time REAL NOT NULL, cut INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS bodies (turn INTEGER PRIMARY KEY, body BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS paths (turn INTEGER NOT NULL, place INTEGER NOT NULL, node INTEGER NOT NULL,
    PRIMARY KEY (turn, place)) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS paths_by_node ON paths (node);
CREATE INDEX IF NOT EXISTS turns_by_time ON turns (time);
CREATE INDEX IF NOT EXISTS cut_turns ON turns (id, tenant) WHERE cut;
CREATE VIRTUAL TABLE IF NOT EXISTS word_index USING fts5(words, content='', tokenize="unicode61 remove_diacritics 0")
"""
# CROSS JOIN keeps the order of the tables: from the words that match to the turns. All ids in one row, some of them
# twice: 100,000 rows would take twice the time.
_FIND = """
WITH RECURSIVE
    found (number) AS (
        SELECT nodes.number FROM word_index CROSS JOIN nodes ON nodes.text = word_index.rowid WHERE word_index MATCH ?),
    below (number) AS (
        SELECT number FROM found UNION SELECT nodes.number FROM below CROSS JOIN nodes ON nodes.parent = below.number)
SELECT json_group_array(id) FROM below
    CROSS JOIN paths ON paths.node = below.number CROSS JOIN turns ON turns.number = paths.turn
"""
# Of turns with some ids: the last nodes of their paths; all nodes of paths; the texts that match.
_LAST_NODES = """
SELECT turns.id, turns.tenant, paths.node FROM json_each(?) AS wanted
    CROSS JOIN turns ON turns.id = wanted.value CROSS JOIN paths ON paths.turn = turns.number
"""
_NODES = """
WITH RECURSIVE above (number, parent, text) AS (
    SELECT nodes.number, nodes.parent, nodes.text FROM json_each(?) AS ends
        CROSS JOIN nodes ON nodes.number = ends.value
    UNION SELECT nodes.number, nodes.parent, nodes.text FROM above CROSS JOIN nodes ON nodes.number = above.parent)
SELECT number, parent, text FROM above ORDER BY number
"""
_TEXTS = """
SELECT word_index.rowid FROM json_each(?) AS text CROSS JOIN word_index ON word_index.rowid = text.value
WHERE word_index MATCH ?
"""


WORDS, JSON, STORED = range(3)  # forms of texts: plain words, JSON, JSON that is not indexed


class TextPiece(msgspec.Struct, frozen=True):
    """A text of a turn: a part of a request as JSON, or plain words. `form`: one of `WORDS`, `JSON`, `STORED`."""

    body: bytes
    form: int = JSON

    @property
    def digest(self) -> bytes:
        return blake2b(self.body, digest_size=16, person=b"words" if self.form == WORDS else b"json").digest()


class TextSearch(Protocol):
    """Finds kept turns by their words."""

    def find_turns(self, phrase: str, tenant: str | None) -> frozenset[str]:
        """Returns the ids of turns that have these words in this order. `tenant`: whose turns; None means all."""
        ...

    def find_cut_turns(self, tenant: str | None) -> Collection[str]:
        """Returns the ids of turns that are kept only in part: other words of them are not found."""
        ...


class TextIndex:
    """The tables of the index. One thread at a time; the caller begins and commits transactions."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._has_unknown_words = False  # of damaged texts that were removed

    def create_tables(self) -> None:
        for statement in SCHEMA.split(";"):
            self._connection.execute(statement)

    def add_turn(
        self,
        id: str,
        tenant: str,
        time: float,
        paths: Iterable[Iterable[TextPiece]],
        body: bytes = b"",
        *,
        cut: bool = False,
    ) -> None:
        """Adds a turn with the texts of each path. A turn of the same id is replaced.

        `body` is stored with it. `cut`: it has more texts than these.
        """
        self.remove_turn(id)
        execute, values = self._connection.execute, (id, tenant, time, cut)
        turn = execute("INSERT INTO turns (id, tenant, time, cut) VALUES (?, ?, ?, ?)", values).lastrowid
        execute("INSERT INTO bodies (turn, body) VALUES (?, ?)", (turn, body))
        for place, texts in enumerate(paths):
            node = ROOT
            for text in texts:
                node = self._add_node(node, self._add_text(text))
            execute("INSERT INTO paths (turn, place, node) VALUES (?, ?, ?)", (turn, place, node))

    def _add_text(self, text: TextPiece) -> int:
        execute, digest = self._connection.execute, text.digest
        found = execute("SELECT number, form FROM texts WHERE digest = ?", (digest,)).fetchone()
        if found is not None:
            number, form = int(found[0]), int(found[1])
            if form != STORED or text.form == STORED:
                return number
            execute("UPDATE texts SET form = ? WHERE number = ?", (text.form, number))
        else:
            values = (digest, text.form, zlib.compress(text.body, 6))
            number = execute("INSERT INTO texts (digest, form, body) VALUES (?, ?, ?)", values).lastrowid or 0
        if text.form != STORED:
            execute("INSERT INTO word_index (rowid, words) VALUES (?, ?)", (number, read_words(text)))
        return number

    def _add_node(self, parent: int, text: int) -> int:
        execute = self._connection.execute
        found = execute("SELECT number FROM nodes WHERE parent = ? AND text = ?", (parent, text)).fetchone()
        if found is not None:
            return int(found[0])
        return execute("INSERT INTO nodes (parent, text) VALUES (?, ?)", (parent, text)).lastrowid or 0

    def remove_turn(self, id: str) -> bool:
        """Removes a turn, and the texts that no other turn has. False if there is no such turn."""
        execute = self._connection.execute
        found = execute("DELETE FROM turns WHERE id = ? RETURNING number", (id,)).fetchall()
        for (turn,) in found:
            execute("DELETE FROM bodies WHERE turn = ?", (turn,))
            nodes = execute("DELETE FROM paths WHERE turn = ? RETURNING node", (turn,)).fetchall()
            for (node,) in nodes:
                self._remove_path(int(node))
        return bool(found)

    def _remove_path(self, node: int) -> None:
        execute = self._connection.execute
        used = "SELECT 1 FROM paths WHERE node = ? UNION ALL SELECT 1 FROM nodes WHERE parent = ?"
        while node != ROOT and not execute(used, (node, node)).fetchone():
            row = execute("DELETE FROM nodes WHERE number = ? RETURNING parent, text", (node,)).fetchall()
            if not row:  # two paths of the turn were one
                return
            node, text = row[0]
            if not execute("SELECT 1 FROM nodes WHERE text = ?", (text,)).fetchone():
                self._remove_text(text)

    def _remove_text(self, number: int) -> None:
        """Removes a text. The index has no copy of it, so FTS5 must be told the words that it removes."""
        execute = self._connection.execute
        found = execute("DELETE FROM texts WHERE number = ? RETURNING form, body", (number,)).fetchall()
        for form, body in found:
            if form == STORED:
                continue
            try:
                words = read_words(TextPiece(zlib.decompress(body), form))
            except zlib.error:
                self._has_unknown_words = True
            else:
                execute("INSERT INTO word_index (word_index, rowid, words) VALUES ('delete', ?, ?)", (number, words))

    def rebuild_damaged_index(self) -> None:
        """Rebuilds the index if a damaged text was removed: its words are not known, so they cannot be deleted."""
        if not self._has_unknown_words:
            return
        execute = self._connection.execute
        execute("INSERT INTO word_index (word_index) VALUES ('delete-all')")
        for number, form, body in execute("SELECT number, form, body FROM texts WHERE form != ?", (STORED,)).fetchall():
            try:
                words = read_words(TextPiece(zlib.decompress(body), form))
            except zlib.error:
                execute("UPDATE texts SET form = ? WHERE number = ?", (STORED, number))
            else:
                execute("INSERT INTO word_index (rowid, words) VALUES (?, ?)", (number, words))
        self._has_unknown_words = False

    # ── queries ───────────────────────────────────────────────────────────────────────────────────

    def find_turns(self, phrase: str, tenant: str | None) -> frozenset[str]:
        """Returns the ids of turns that have these words in this order. `tenant`: whose turns; None means all."""
        query, values = _FIND, [quote_phrase(phrase)]
        if tenant is not None:
            query, values = f"{query} WHERE tenant = ?", [*values, tenant]
        return frozenset(msgspec.json.decode(self._connection.execute(query, values).fetchone()[0], type=list[str]))

    def find_cut_turns(self, tenant: str | None) -> frozenset[str]:
        """Returns the ids of turns that are kept only in part."""
        rows = self._connection.execute("SELECT id, tenant FROM turns WHERE cut").fetchall()
        return frozenset(name for name, owner in rows if tenant in {None, owner})

    def find_among(self, ids: Collection[str], phrase: str, tenant: str | None) -> frozenset[str]:
        """Returns those of some ids that `find_turns` would return. For few ids it takes less time."""
        execute = self._connection.execute
        turns = [
            (name, node) for name, owner, node in execute(_LAST_NODES, (json.dumps([*ids]),)) if tenant in {None, owner}
        ]
        nodes = execute(_NODES, (json.dumps([node for _, node in turns]),)).fetchall()
        texts = json.dumps([*{text for _, _, text in nodes}])
        found = {text for (text,) in execute(_TEXTS, (texts, quote_phrase(phrase)))}
        matching: set[int] = set()
        for node, parent, text in nodes:  # a parent is older than its children: its number is lower
            if text in found or parent in matching:
                matching.add(node)
        return frozenset(name for name, node in turns if node in matching)

    def read_turn(self, id: str, tenant: str | None) -> tuple[bytes, list[list[TextPiece]]] | None:
        """Returns the body of a turn and the texts of its paths; None if there is no such turn."""
        execute = self._connection.execute
        query = "SELECT tenant, number, body FROM turns JOIN bodies ON turn = number WHERE id = ?"
        found = execute(query, (id,)).fetchone()
        if found is None or tenant not in {None, found[0]}:
            return None
        nodes = execute("SELECT node FROM paths WHERE turn = ? ORDER BY place", (found[1],)).fetchall()
        return found[2], [self._read_path(int(node)) for (node,) in nodes]

    def _read_path(self, node: int) -> list[TextPiece]:
        query = """
        WITH RECURSIVE path (number, parent, text, depth) AS (
            SELECT number, parent, text, 0 FROM nodes WHERE number = ?
            UNION ALL SELECT n.number, n.parent, n.text, depth + 1 FROM nodes n JOIN path ON n.number = path.parent)
        SELECT form, body FROM path JOIN texts ON texts.number = path.text ORDER BY depth DESC"""
        rows = self._connection.execute(query, (node,)).fetchall()
        return [TextPiece(zlib.decompress(body), form) for form, body in rows]


def quote_phrase(phrase: str) -> str:
    """Returns the phrase as a string of FTS5's query language: no word in it is an operator."""
    plain = phrase.replace("\0", " ").encode("utf-8", "replace").decode()
    return '"' + plain.replace('"', " ") + '"'


def read_words(text: TextPiece) -> str:
    """Returns the words of a text that are indexed. A change of the result needs a new version of the file."""
    return remove_data(text.body.decode("utf-8", "replace")) if text.form == WORDS else read_json_words(text.body)
