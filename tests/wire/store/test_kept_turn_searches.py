"""Results of searches that are brought up to date: after any changes they are those of a new search.

Two stores have the same file open, as two processes have: each searches, and each changes the file.
"""

from __future__ import annotations

import json
import sqlite3
import tempfile
import time
from collections import deque
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from penstock._store import kept_turns
from penstock._store.kept_turns import FILE, KeptTurnRow, KeptTurnStore
from penstock._store.kept_turns_index import JSON, STORED, WORDS, TextIndex, TextPiece
from penstock._store.kept_turns_searches import CACHED_SEARCHES, CHANGES, SearchCache
from penstock._store.sqlite import connect

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

WORD_LIST = ("pump", "valve", "steam", "boiler")
TENANTS = ("", "ours", "theirs")
PHRASES = (*WORD_LIST, "pump valve", "nowhere")
AGE = 1_000.0


def make_text(words: list[str], form: int) -> TextPiece:
    return TextPiece(json.dumps(" ".join(words)).encode(), form)


texts = st.builds(
    make_text,
    st.lists(st.sampled_from(WORD_LIST), min_size=1, max_size=2),
    st.sampled_from((JSON, JSON, WORDS, STORED)),
)
paths = st.lists(st.lists(texts, max_size=4), min_size=1, max_size=2)
searches = st.lists(st.tuples(st.sampled_from(PHRASES), st.sampled_from((None, *TENANTS))), min_size=1, max_size=6)
stores = st.integers(0, 1)


class SearchMachine(RuleBasedStateMachine):
    """Changes and searches in any order. A search that was made before is brought up to date."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.now = time.time()
        path = Path(self.folder.name, FILE)
        self.stores = [KeptTurnStore(path, size=2**19, age=AGE, clock=lambda: self.now) for _ in range(2)]
        self.connection = connect(path)
        self.fresh = TextIndex(self.connection)
        self.written = 0
        self.asked: list[deque[tuple[str, str | None]]] = [deque(maxlen=CACHED_SEARCHES) for _ in range(2)]

    def names(self) -> list[str]:
        return [str(row[0]) for row in self.connection.execute("SELECT id FROM turns ORDER BY number")]

    @rule(store=stores, turns=st.lists(st.tuples(st.sampled_from(TENANTS), paths), min_size=1, max_size=6))
    def write(self, store: int, turns: list[tuple[str, list[list[TextPiece]]]]) -> None:
        self.now += 1.0
        rows = [self.row(tenant, found) for tenant, found in turns]
        self.stores[store].write_turns(rows)

    @rule(store=stores, tenant=st.sampled_from(TENANTS), path=st.lists(texts, min_size=1, max_size=3))
    def begin_conversation(self, store: int, tenant: str, path: list[TextPiece]) -> None:
        """Later turns have the texts of those before; the first text is searchable from the last turn on."""
        first, *rest = path
        hidden = TextPiece(first.body, STORED)
        self.write(store, [(tenant, [[hidden, *rest[:place]]]) for place in range(len(rest) + 1)])
        self.search(store, [(phrase, None) for phrase in PHRASES])
        self.write(store, [(tenant, [[TextPiece(first.body, JSON), *rest]])])

    @rule(store=stores, count=st.integers(10, 20))
    def fill(self, store: int, count: int) -> None:
        """Turns that are so large that the first ones go."""
        self.now += 1.0
        text = TextPiece(b"pump", WORDS)
        self.stores[store].write_turns([self.row("ours", [[text]], bytes(20_000)) for _ in range(count)])

    @precondition(lambda self: self.names())
    @rule(store=stores, which=st.integers(0), tenant=st.sampled_from(TENANTS), found=paths)
    def replace(self, store: int, which: int, tenant: str, found: list[list[TextPiece]]) -> None:
        names = self.names()
        self.stores[store].write_turns([KeptTurnRow(names[which % len(names)], tenant, self.now, b"", found)])

    @precondition(lambda self: self.names())
    @rule(
        store=stores, which=st.lists(st.integers(0), min_size=1, max_size=3), tenant=st.sampled_from((None, *TENANTS))
    )
    def delete(self, store: int, which: list[int], tenant: str | None) -> None:
        names = self.names()
        self.stores[store].delete_turns({names[one % len(names)] for one in which}, tenant)

    @precondition(lambda self: self.names())
    @rule(store=stores)
    def replace_the_last(self, store: int) -> None:
        """Its number in the file is given to the next turn."""
        self.stores[store].delete_turns({self.names()[-1]})
        self.stores[store].write_turns([self.row("ours", [[TextPiece(b"valve", WORDS)]])])

    @rule(store=stores, tenant=st.sampled_from((None, *TENANTS)))
    def delete_all(self, store: int, tenant: str | None) -> None:
        self.stores[store].delete_turns(None, tenant)

    @rule(store=stores, seconds=st.floats(1.0, AGE))
    def trim(self, store: int, seconds: float) -> None:
        self.now += seconds
        self.stores[store].trim()

    @rule(store=stores, wanted=searches)
    def search(self, store: int, wanted: list[tuple[str, str | None]]) -> None:
        self.asked[store] += wanted
        self.compare(self.stores[store], wanted)

    def row(self, tenant: str, found: list[list[TextPiece]], body: bytes = b"") -> KeptTurnRow:
        self.written += 1
        return KeptTurnRow(f"turn-{self.written}", tenant, self.now, body, found)

    def compare(self, store: KeptTurnStore, wanted: Iterable[tuple[str, str | None]]) -> None:
        for phrase, tenant in wanted:
            assert store.find_turns(phrase, tenant) == self.fresh.find_turns(phrase, tenant), (phrase, tenant)

    def teardown(self) -> None:
        everything = [(phrase, tenant) for phrase in PHRASES for tenant in (None, *TENANTS)]
        for store, asked in zip(self.stores, self.asked, strict=True):
            self.compare(store, [*asked, *everything])  # first those whose results are cached
            store.close()
        self.connection.close()
        self.folder.cleanup()


TestSearches = SearchMachine.TestCase
TestSearches.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)


class LongSearchMachine(SearchMachine):
    """The same, longer."""


TestManySearches = pytest.mark.nightly(LongSearchMachine.TestCase)
TestManySearches.settings = settings(max_examples=600, stateful_step_count=60, deadline=None)


# ── what is searched anew, and what is not ────────────────────────────────────────────────────────


class TracedSearches:
    """A file, its store, and searches whose statements are known: `ran`."""

    def __init__(self, folder: Path) -> None:
        self.store = KeptTurnStore(folder / FILE, size=2**26, age=AGE)
        self.connection = connect(folder / FILE)
        self.searches = SearchCache(self.connection, TextIndex(self.connection))
        self.ran: list[str] = []
        self.connection.set_trace_callback(self.ran.append)

    def find(self, phrase: str = "pump") -> Collection[str]:
        return self.searches.find_turns(phrase, None)

    @property
    def whole(self) -> int:
        """How many searches have looked through all turns."""
        return sum("json_group_array(id)" in text for text in self.ran)

    def close(self) -> None:
        self.connection.close()
        self.store.close()


@pytest.fixture
def traced(tmp_path: Path) -> Iterator[TracedSearches]:
    with closing(TracedSearches(tmp_path)) as made:
        yield made


def turn(number: int, words: str = "pump") -> KeptTurnRow:
    return KeptTurnRow(f"turn-{number}", "", time.time(), b"", [[TextPiece(words.encode(), WORDS)]])


def test_a_new_turn_costs_no_new_search(traced: TracedSearches) -> None:
    traced.store.write_turns([turn(number) for number in range(50)])
    for number in range(50, 80):
        assert len(traced.find()) == number
        traced.store.write_turns([turn(number)])
    assert traced.find() == {f"turn-{number}" for number in range(80)}
    traced.store.delete_turns({"turn-3", "turn-70"})
    assert traced.find() == {f"turn-{number}" for number in range(80)} - {"turn-3", "turn-70"}
    assert traced.whole == 1


@pytest.mark.parametrize(("changes", "searched"), [(CHANGES, 1), (CHANGES + 1, 2)])
def test_more_changes_than_the_log_has_cost_a_search(traced: TracedSearches, changes: int, searched: int) -> None:
    assert traced.find() == frozenset()
    traced.store.write_turns([turn(number, "pump" if number % 2 else "valve") for number in range(changes)])
    assert traced.find() == {f"turn-{number}" for number in range(changes) if number % 2}
    assert traced.whole == searched
    assert traced.connection.execute("SELECT count(*) FROM changes").fetchone()[0] == CHANGES


def test_the_last_searches_are_known(traced: TracedSearches) -> None:
    for number in range(CACHED_SEARCHES + 1):
        traced.find(f"word{number}")
    traced.ran.clear()
    traced.find(f"word{CACHED_SEARCHES}")
    traced.find("word1")
    assert traced.whole == 0
    traced.find("word0")
    assert traced.whole == 1


def test_a_search_during_a_change_sees_one_state(traced: TracedSearches) -> None:
    traced.store.write_turns([turn(0)])
    assert traced.find() == {"turn-0"}
    traced.store.write_turns([turn(1, "old pump")])
    changed = False

    def change(statement: str) -> None:
        nonlocal changed
        if "RECURSIVE above" in statement and not changed:  # the search has read which turns it looks at
            changed = True
            traced.store.delete_turns({"turn-1"})
            traced.store.write_turns([turn(2, "new valve")])

    traced.connection.set_trace_callback(change)
    assert traced.find() == {"turn-0", "turn-1"}
    assert changed
    assert traced.find() == {"turn-0"}


def test_a_file_of_before_gets_its_log(tmp_path: Path) -> None:
    with closing(KeptTurnStore(tmp_path / FILE, size=2**26, age=AGE)) as store:
        store.write_turns([turn(0)])
    with closing(sqlite3.connect(tmp_path / FILE)) as file, file:
        for name in ("turn_added", "turn_removed", "text_indexed"):
            file.execute(f"DROP TRIGGER {name}")
        file.execute("DROP TABLE changes")
    with closing(KeptTurnStore(tmp_path / FILE, size=2**26, age=AGE)) as store:
        assert store.find_turns("pump", None) == {"turn-0"}
        store.write_turns([turn(1)])
        assert store.find_turns("pump", None) == {"turn-0", "turn-1"}


def test_a_file_of_another_version_leaves_no_results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process empties the file: what this one has found is void."""
    with closing(KeptTurnStore(tmp_path / FILE, size=2**26, age=AGE)) as store:
        store.write_turns([turn(number) for number in range(5)])
        assert len(store.find_turns("pump", None)) == 5
        monkeypatch.setattr(kept_turns, "VERSION", kept_turns.VERSION + 1)
        with closing(KeptTurnStore(tmp_path / FILE, size=2**26, age=AGE)) as newer:
            newer.write_turns([turn(number) for number in range(5, 9)])
        assert store.find_turns("pump", None) == {f"turn-{number}" for number in range(5, 9)}
