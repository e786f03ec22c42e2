"""The journal in SQLite (file, memory) and PostgreSQL: the same rows, sums, pages and bounds."""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING, Any

import pytest

from penstock._inspector.turn_query import parse_query
from penstock._store import journal_queries, row_marks
from penstock._store.journal import FIELDS, JournalEntry, JournalRows, JournalStore
from penstock._store.journal_queries import JournalHistory, SqlCondition
from penstock._store.postgres import PostgresDatabase
from penstock._store.postgres_stores import PostgresJournal
from penstock._store.sqlite import IN_MEMORY

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    OpenJournal = Callable[..., JournalRows]

NOW = time.time()


@pytest.fixture(params=["file", "memory", "postgres"])
def open_journal(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[OpenJournal]:
    """Opens the same journal each time it is called; one in memory is a new one."""
    opened: list[Any] = []

    def open_(age: float = 1e12, size: int = 10**9) -> JournalRows:
        made: JournalRows
        if request.param == "postgres":
            opened.append(PostgresDatabase(request.getfixturevalue("postgres_url")))
            made = PostgresJournal(opened[-1], time.time, age=age, size=size)
        else:
            path = tmp_path / "journal.sqlite" if request.param == "file" else IN_MEMORY
            made = JournalStore(path, time.time, age=age, size=size)
        opened.append(made)
        return made

    yield open_
    for one in reversed(opened):
        one.close()


def row(**more: Any) -> JournalEntry:
    given: dict[str, Any] = {"time": NOW, "key": "k", "provider": "openai", "model": "m", "finish": "stop"}
    given |= {"input": 10, "output": 5, "cost": 0.5, "ttft": 0.1, "duration": 1.0}
    return JournalEntry(**(given | more))


def fill(rows: JournalRows, entries: list[JournalEntry]) -> JournalRows:
    for entry in entries:
        assert rows.add(entry)
    rows.flush()
    assert rows.waiting == rows.lost == 0
    return rows


def test_a_row_comes_back_as_it_was(open_journal: OpenJournal) -> None:
    values = {name: f"{name} \\ \t\n'\"é" for name in FIELDS if isinstance(getattr(row(), name), str)}
    full = row(**{**values, "status": "fault"}, stream=True, tee=True, exact=False, reasoning=3, factor=1.1, high=2**40)
    bare = row(input=None, cost=None, ttft=None)
    rows = fill(open_journal(), [full, bare])
    assert [turn for _, turn in rows.turns()] == [bare, full]


def test_sums(open_journal: OpenJournal) -> None:
    entries = [
        row(time=NOW - number * 60, model=f"m{number % 2}", status="fault" if number == 3 else "finish")
        for number in range(10)
    ]
    entries += [row(key="other", input=None, output=None, cost=None, ttft=None), row(cost=None)]
    entries.append(row(key="none", status="refused", times=7, input=None, output=None, cost=None, operation="count"))
    rows = fill(open_journal(), entries)
    total = rows.total(without="count")
    found = (total.turns, total.faults, total.input, total.tokens, total.cost, total.unpriced, total.refused)
    assert found == (12, 1, 110, 165, 5.0, 1, 0)
    assert (rows.total().turns, rows.total().refused) == (19, 7)
    assert rows.total(since=NOW - 150, without="count").turns == 5
    assert rows.total(until=NOW - 150, model="m1").turns == 4
    groups = [(one.name, one.turns, one.input) for one in rows.by("model", without="count")]
    assert groups == [("m0", 5, 50), ("m1", 5, 50), ("m", 2, 10)]
    assert rows.by("key", key="nobody") == []
    assert sum(one.turns for one in rows.slices(60.0, since=NOW - 3600, without="count")) == 12
    assert {one.start % 60 for one in rows.slices(60.0, since=NOW - 3600)} == {0.0}
    assert min(one.start for one in rows.slices(60.0, since=NOW - 3600)) <= NOW - 540
    assert rows.total(key="nobody").ttft is None
    with pytest.raises(ValueError, match="1=1"):
        rows.by("1=1")
    everything: dict[str, Any] = {"1=1": "x"}
    with pytest.raises(ValueError, match="1=1"):
        rows.total(**everything)


def test_pages_and_search(open_journal: OpenJournal) -> None:
    clients = ["Claude-Code", "curl 100%", "ai_sdk"] * 3
    rows = fill(open_journal(), [row(time=NOW + n, client=one, request_id=f"r{n}") for n, one in enumerate(clients)])
    history = JournalHistory(rows)
    first = history.page(limit=4)
    second = history.page(limit=9, before=first[-1][0])
    assert [turn.request_id for _, turn in first + second] == [f"r{n}" for n in reversed(range(9))]
    assert len(search(history, "claude OPENAI")) == 3  # letters of either case
    words = ("100%", "i_s", "_", "%", "\\", "'", "?")
    assert [len(search(history, word)) for word in words] == [3, 3, 3, 3, 0, 0, 0]
    assert history.find("r4") is not None
    assert history.find("r4", tenant="other") is None
    assert [len(rows.turns(limit=2)), len(rows.turns(client="ai_sdk"))] == [2, 3]


def search(history: JournalHistory, text: str, tenant: str | None = None, **more: Any) -> list[str]:
    """Returns the ids of the turns that a query finds. Their number is the one that is counted."""
    query = parse_query(text, NOW)
    found = {phrase: {"r1", "r2"} for phrase in query.phrases if phrase == "kept"}
    condition, upto = query.to_sql(found, history.among), history.last_id()
    rows = history.search(condition, tenant=tenant, upto=upto, **more)
    if not more:
        assert history.count(condition, tenant=tenant, upto=upto).total == len(rows)
    return [one.request_id for one in rows]


@pytest.mark.parametrize("most", [row_marks.MAX_MARKS, 3])
def test_many_ids_find_the_same_as_few(open_journal: OpenJournal, monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    names = [f"r{number % 7}" for number in range(12)]  # some are there twice
    entries = [row(time=NOW + number, request_id=name) for number, name in enumerate(names)]
    rows = fill(open_journal(), entries)
    rows.update("DELETE FROM turns WHERE id IN (?, ?)", (1, 6))
    rows.flush()
    history, choices = JournalHistory(rows), [["r3"], ["r0", "r2", "r6"], ["r4", "none"], ["none"], sorted({*names})]

    def find(ids: list[str]) -> list[tuple[float, str]]:
        found: list[tuple[float, str]] = []
        condition = history.among(ids)
        for one in (condition, SqlCondition(f"NOT coalesce({condition.where}, FALSE)", condition.values)):
            turns = history.search(one, tenant=None, upto=history.last_id())
            assert history.count(one, tenant=None, upto=history.last_id()).total == len(turns)
            found += [(turn.time, turn.request_id) for turn in turns]
        return found

    few = [find(ids) for ids in choices]
    monkeypatch.setattr(journal_queries, "MANY_IDS", 1)
    monkeypatch.setattr(row_marks, "MAX_MARKS", most)
    assert [find(ids) for ids in choices] == few
    assert {len(found) for found in few} == {10}


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("changes", [row_marks.CHANGES, 2])
def test_marks_that_are_kept_find_what_new_ones_find(
    open_journal: OpenJournal, monkeypatch: pytest.MonkeyPatch, seed: int, changes: int
) -> None:
    """Rows come and go, the table is emptied, ids change: a search of the same words is always up to date."""
    monkeypatch.setattr(journal_queries, "MANY_IDS", 0)
    monkeypatch.setattr(row_marks, "CHANGES", changes)
    draw, rows, number = random.Random(seed), open_journal(), 0
    history, ids = JournalHistory(rows), frozenset[str]()
    for _ in range(80):
        action = draw.choice(["add", "add", "add", "oldest", "any", "all", "ids", "nothing"])
        if action == "add":
            many = draw.randint(1, 3)
            fill(rows, [row(time=NOW + number + n, request_id=f"r{(number + n) % 30}") for n in range(many)])
            number += many
        elif action == "ids":
            ids = ids ^ frozenset(f"r{draw.randrange(30)}" for _ in range(draw.randint(1, 3)))
        elif action != "nothing":
            which = {
                "oldest": "ORDER BY id LIMIT 2",
                "any": "WHERE id < (SELECT max(id) FROM turns) ORDER BY id DESC LIMIT 1",
                "all": "",
            }[action]
            rows.update(f"DELETE FROM turns WHERE id IN (SELECT id FROM turns {which})", ())  # noqa: S608
            rows.flush()
        if draw.random() < 0.5:  # several changes between two searches
            continue
        condition, upto = history.among(ids, "words"), history.last_id()
        found = history.search(condition, tenant=None, upto=upto)
        every = history.search(SqlCondition(), tenant=None, upto=upto)
        assert found == [turn for turn in every if turn.request_id in ids], action


def test_marks_are_kept_while_rows_are_added(open_journal: OpenJournal, monkeypatch: pytest.MonkeyPatch) -> None:
    """All rows are read once; then only those that are new, and those of ids that have changed."""
    monkeypatch.setattr(journal_queries, "MANY_IDS", 0)
    rows = fill(open_journal(), [row(time=NOW + number, request_id=f"r{number}") for number in range(9)])
    history, asked = JournalHistory(rows), list[str]()
    read = rows.read

    def read_and_note(query: str, values: tuple[object, ...] = ()) -> list[tuple[Any, ...]]:
        asked.append(query)
        return read(query, values)

    monkeypatch.setattr(rows, "read", read_and_note)
    ids = frozenset({"r1", "r2", "new"})
    for new, wanted in (([], ids), ([], ids), (["new", "none"], ids), ([], ids - {"r2"})):
        rows = fill(rows, [row(time=NOW + 20, request_id=one) for one in new])
        history.among(wanted, "words")
    assert [query for query in asked if query == rows.row_marks.queries.all_ids] == [rows.row_marks.queries.all_ids]
    assert {turn.request_id for turn in history.search(history.among(ids - {"r2"}, "words"), tenant=None, upto=99)} == {
        "r1",
        "new",
    }


ALPHABET = "абвгдеёжзийклмнопрстуфхцчшщъыьэюя"


@pytest.mark.parametrize("name", ["I\u015f\u0131k", "İbrahim", "STRAẞE", "ΟΔΟΣ ΣΙΣ", "日本", "ŁÓDŹ", ALPHABET])
@pytest.mark.parametrize("field", ["key", "client", "model", "tool"])
def test_names_in_any_letters_are_found(open_journal: OpenJournal, name: str, field: str) -> None:
    """As they are written, and in lower case where each letter has one counterpart; a short name in no other."""
    column = "tools" if field == "tool" else field
    facts = [{column: name}, {column: "CLI"}, {column: f"x{name}"}]
    history = JournalHistory(fill(open_journal(), [row(request_id=f"r{n}", **one) for n, one in enumerate(facts)]))
    assert search(history, f'{field}="{name}"') == ["r0"]
    assert search(history, f'{field}:"{name}"') == ["r2", "r0"]
    assert search(history, f"{field}:\u0131") == (["r2", "r0"] if "\u0131" in name else [])
    if name in {"ŁÓDŹ", ALPHABET}:
        for other in (name.lower(), name.upper()):
            assert search(history, f'{field}="{other}"') == ["r0"], other
            assert search(history, f'-{field}:"{other}"') == ["r1"], other


@pytest.mark.parametrize("newest", [1, 7, 1_000])
@pytest.mark.parametrize("tenant", [None, "red"])
def test_pages_of_rare_and_of_common_rows(
    open_journal: OpenJournal, monkeypatch: pytest.MonkeyPatch, newest: int, tenant: str | None
) -> None:
    """However few rows are looked at first, a page has the newest rows that a condition allows, in their order."""
    draw = random.Random(newest)
    facts = [
        {"time": NOW + draw.randrange(40), "client": draw.choice(["rare", *["common"] * 9]), "tenant": owner}
        for owner in draw.choices(["red", "blue"], k=90)
    ]
    rows = fill(open_journal(), [row(request_id=f"r{n}", **one) for n, one in enumerate(facts)])
    monkeypatch.setattr(rows, "newest_rows", newest)
    history, upto = JournalHistory(rows), 80
    newest_first = sorted(range(upto), key=lambda n: (facts[n]["time"], n), reverse=True)
    for client in ("rare", "common", "none"):
        condition = SqlCondition("client = ?", (client,))
        allowed = [
            f"r{n}" for n in newest_first if facts[n]["client"] == client and tenant in {None, facts[n]["tenant"]}
        ]
        for limit, offset in ((1, 0), (3, 0), (200, 0), (3, 2), (3, 50)):
            found = history.search(condition, tenant=tenant, upto=upto, limit=limit, offset=offset)
            assert [turn.request_id for turn in found] == allowed[offset:][:limit], (client, limit, offset)
        more = history.search(condition, tenant=tenant, upto=upto, limit=3, most=12)
        assert [turn.request_id for turn in more] in (allowed[:3], allowed[:12]), client


def test_queries_mean_the_same_in_every_database(open_journal: OpenJournal) -> None:
    facts: list[dict[str, Any]] = [
        {
            "client": "",
            "agent": "Curl/8",
            "status": "refused",
            "http": 429,
            "fault": "auth",
            "cost": None,
            "asked": "x",
        },
        {"finish": "length", "tools": "read\nBash", "cost": 0.5, "tenant": "b", "notes": 2, "malformed": 1},
        {"finish": "stop", "cost": 0.05, "ttft": 2.5, "tries": 3, "tenant": "b", "key": "Änne", "tools": "Жил"},
    ]
    rows = fill(open_journal(), [row(time=NOW + n, request_id=f"r{n}", **one) for n, one in enumerate(facts)])
    history = JournalHistory(rows)
    for text, ids in {
        "": "210", "client:curl": "0", "state:broken": "0", "state:warning": "1", "state:finish": "2", "-state:finish": "10",
        "tool:bash": "1", "tool=BASH": "1", "-tool=bash": "20", "cost>0.1": "1", "-cost>0.1": "20", "-has:cost": "0",
        "ttft>2": "2", "http:429": "0", "http:429,200": "0", "has:notes": "1", "has:retries": "2", "kept": "21",
        "key=änne": "2", "key:ÄN": "2", "-key=Änne": "10", "tool=жил": "2", "änne": "2",
        "-kept": "0", "state:running": "", 'model="openai/m"': "21", "since:1h until:2100-01-01": "210", "id:r1": "1",
    }.items():  # fmt: skip
        wanted = [f"r{n}" for n in ids]
        if text == 'model="openai/m"':
            wanted = search(history, "model:m provider:openai")
        assert search(history, text) == wanted, text
    assert search(history, "", tenant="b") == ["r2", "r1"]
    assert search(history, "kept", tenant="b") == ["r2", "r1"]
    assert search(history, "", sort="cost") == ["r1", "r2", "r0"]  # what is unknown is last
    assert search(history, "", sort="cost", ascending=True) == ["r2", "r1", "r0"]
    assert search(history, "", offset=1, limit=1) == ["r1"]
    assert search(history, "", after=history.last_id() - 1) == ["r2"]
    counts = history.count(SqlCondition(), tenant=None, upto=history.last_id())
    assert counts.states == {"finish": 1, "warning": 1, "fault": 0, "cancelled": 0, "refused": 1}
    assert history.values_of(["tools"], None) == {"read": 1, "Bash": 1, "Жил": 1}
    assert history.values_of(["client", "agent"], "b").keys().isdisjoint({"Curl/8"})


def test_usage_and_estimates(open_journal: OpenJournal) -> None:
    turn = row(request_id="a", tenant="t", status="fault")
    rows = fill(open_journal(), [turn, row(request_id="b", time=NOW + 1)])
    history = JournalHistory(rows)
    points = history.usage("model", 0, NOW + 10)
    assert [(one.name, one.turns, one.status, one.input, one.cost) for one in points] == [
        ("openai/m", 1, "fault", 10, 0.5), ("openai/m", 1, "finish", 10, 0.5),
    ]  # fmt: skip
    history.add_estimate(row(request_id="a", estimate=9, low=8, high=11, method="hybrid", factor=1.1))
    rows.flush()
    (found,) = history.estimates(0, tenant="t")
    assert (found.estimate, found.low, found.high, found.actual, found.method, found.id) == (
        9,
        8,
        11,
        10,
        "hybrid",
        "a",
    )


def test_old_rows_go(open_journal: OpenJournal, request: pytest.FixtureRequest) -> None:
    rows = fill(open_journal(age=86_400.0), [row(time=NOW - age) for age in (0, 3600, 90_000)])
    if "memory" in request.node.name:
        return
    again = open_journal(age=86_400.0)
    again.flush()
    fill(again, [row(time=NOW + 1)])
    assert again.total().turns == rows.total().turns == 3


def test_rows_from_the_future_are_not_kept_for_ever(open_journal: OpenJournal, request: pytest.FixtureRequest) -> None:
    """The clock was set back after they were written. They go with the first old row that was written after them."""
    ahead, late = NOW + 1e9, NOW - 90_000
    fill(open_journal(), [row(time=ahead, request_id="a"), row(time=NOW, request_id="b")])
    if "memory" in request.node.name:
        return
    again = open_journal(age=86_400.0)
    again.flush()
    assert again.total().turns == 2, "nothing is old yet"
    fill(again, [row(time=late, request_id="c"), row(time=ahead, request_id="d")])
    last = open_journal(age=86_400.0)
    last.flush()
    assert {turn.request_id for _, turn in last.turns()} == {"b", "d"}


def test_rows_from_the_future_do_not_keep_others_out(open_journal: OpenJournal, request: pytest.FixtureRequest) -> None:
    most = 400_000
    rows = [
        row(time=NOW + 1e9 * (number < 1000), decisions="x" * 400, request_id=str(number)) for number in range(2000)
    ]
    fill(open_journal(size=most), rows)
    if "memory" in request.node.name:
        return
    again = fill(open_journal(size=most), [row()])
    found = {turn.request_id for _, turn in again.turns(limit=5000)}
    assert "1999" in found
    assert "0" not in found


def test_the_size_is_bounded(open_journal: OpenJournal, request: pytest.FixtureRequest) -> None:
    most = 400_000
    fill(open_journal(size=most), [row(time=NOW + number, decisions="x" * 400) for number in range(2000)])
    if "memory" in request.node.name:
        return
    again = fill(open_journal(size=most), [row(time=NOW + 5000)])
    times = [turn.time for _, turn in again.turns(limit=5000)]
    assert times[0] == NOW + 5000  # the newest are there
    assert 100 < len(times) < 1000
    assert times == sorted(times, reverse=True)
