"""The full-text index of kept turns (SQLite FTS5), in memory or in a file.

Agents send the whole conversation with every request, so each text is stored and indexed once, by its digest. The texts
of a turn are a path in a tree: turns that begin with the same texts share the path. A new turn of a long conversation
adds two or three nodes, whatever its length.
"""

from __future__ import annotations

import zlib
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from penstock._input_limits import NestingError, decode_bounded

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Collection, Iterable, Sequence

MAX_WORDS_CHARACTERS = 2**20  # of one text that are indexed
MAX_PHRASE_CHARACTERS = 400
OPAQUE_LENGTH = 4096  # characters: a longer string without a space is data, such as an image, and is not indexed
ROOT = 0  # the parent of the first node of each path
_SKIPPED_NAMES = frozenset({"role", "type"})  # in every message: they would be found everywhere
_BREAK = " \ue000 "  # a token between two strings: no phrase goes across it
_SPACES = frozenset(" \n\t")
SCHEMA = """
CREATE TABLE IF NOT EXISTS texts (number INTEGER PRIMARY KEY, digest BLOB NOT NULL UNIQUE, form INTEGER NOT NULL,
    body BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS nodes (number INTEGER PRIMARY KEY, parent INTEGER NOT NULL, text INTEGER NOT NULL,
    UNIQUE (parent, text));
CREATE INDEX IF NOT EXISTS nodes_by_text ON nodes (text);
CREATE TABLE IF NOT EXISTS turns (number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, tenant TEXT NOT NULL,
    time REAL NOT NULL);
CREATE TABLE IF NOT EXISTS bodies (turn INTEGER PRIMARY KEY, body BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS paths (turn INTEGER NOT NULL, place INTEGER NOT NULL, node INTEGER NOT NULL,
    PRIMARY KEY (turn, place)) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS paths_by_node ON paths (node);
CREATE INDEX IF NOT EXISTS turns_by_time ON turns (time);
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

    def find_turns(self, phrase: str, tenant: str | None) -> Collection[str]:
        """Returns the ids of turns that have these words in this order. `tenant`: whose turns; None means all."""
        ...


class TextIndex:
    """The tables of the index. One thread at a time; the caller begins and commits transactions."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def create_tables(self) -> None:
        for statement in SCHEMA.split(";"):
            self._connection.execute(statement)

    def add_turn(
        self, id: str, tenant: str, time: float, paths: Iterable[Iterable[TextPiece]], body: bytes = b""
    ) -> None:
        """Adds a turn with the texts of each path. `body` is stored with it. A turn of the same id is replaced."""
        self.remove_turn(id)
        execute = self._connection.execute
        turn = execute("INSERT INTO turns (id, tenant, time) VALUES (?, ?, ?)", (id, tenant, time)).lastrowid
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
        ((form, body),) = execute("DELETE FROM texts WHERE number = ? RETURNING form, body", (number,)).fetchall()
        if form != STORED:
            words = read_words(TextPiece(zlib.decompress(body), form))
            execute("INSERT INTO word_index (word_index, rowid, words) VALUES ('delete', ?, ?)", (number, words))

    # ── queries ───────────────────────────────────────────────────────────────────────────────────

    def find_turns(self, phrase: str, tenant: str | None) -> Collection[str]:
        """Returns the ids of turns that have these words in this order. `tenant`: whose turns; None means all."""
        query, values = _FIND, [quote_phrase(phrase)]
        if tenant is not None:
            query, values = f"{query} WHERE tenant = ?", [*values, tenant]
        return frozenset(msgspec.json.decode(self._connection.execute(query, values).fetchone()[0], type=list[str]))

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
    plain = phrase[:MAX_PHRASE_CHARACTERS].replace("\0", " ").encode("utf-8", "replace").decode()
    return '"' + plain.replace('"', " ") + '"'


# ── words ─────────────────────────────────────────────────────────────────────────────────────────


def read_words(text: TextPiece) -> str:
    """Returns the words of a text that are indexed. A change of the result needs a new version of the file."""
    if text.form == WORDS:
        return text.body.decode("utf-8", "replace")[:MAX_WORDS_CHARACTERS]
    try:
        value = decode_bounded(text.body)
    except (msgspec.DecodeError, UnicodeDecodeError, NestingError):
        return text.body.decode("utf-8", "replace")[:MAX_WORDS_CHARACTERS]
    return join_words(list_strings(value))


def join_words(strings: Sequence[str]) -> str:
    """Returns strings as one text, in which no phrase goes from one to the next."""
    return _BREAK.join(strings)[:MAX_WORDS_CHARACTERS].encode("utf-8", "replace").decode()


def list_strings(value: Any) -> list[str]:
    """Returns the strings of a JSON value in their order. Not recursive."""
    strings: list[str] = []
    waiting = [value]
    while waiting:
        inner = waiting.pop()
        if isinstance(inner, str):
            if not is_opaque(inner):
                strings.append(inner)
        elif isinstance(inner, dict):
            named: dict[str, Any] = inner  # pyright: ignore[reportUnknownVariableType]
            waiting += reversed([one for name, one in named.items() if name not in _SKIPPED_NAMES])
        elif isinstance(inner, list):
            waiting += reversed(inner)  # pyright: ignore[reportUnknownArgumentType]
    return strings


def is_opaque(text: str) -> bool:
    """True if a string is data, not words."""
    return len(text) > OPAQUE_LENGTH and _SPACES.isdisjoint(text[:OPAQUE_LENGTH])
