"""The query language: what it reads, where an error is, and that SQL and the test of one turn say the same."""

from __future__ import annotations

import time
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock._inspector.query_completion import STATE_HELP
from penstock._inspector.turn_query import (
    MAX_QUERY_CHARACTERS,
    MAX_QUERY_TERMS,
    QueryError,
    parse_query,
    split_query,
)
from penstock._inspector.turn_query_hints import find_hints
from penstock._inspector.turn_query_terms import HAS_VALUES, QUERY_FIELDS, STATE_VALUES
from penstock._store.journal import JournalEntry, JournalStore
from penstock._store.journal_queries import JournalHistory
from penstock._store.sqlite import IN_MEMORY
from penstock._store.turn_states import SHOWN_STATES

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator

NOW = 1_800_000_000.0


def turn(**more: Any) -> JournalEntry:
    fields: dict[str, Any] = {"time": NOW - 100, "request_id": "r1"} | more
    return JournalEntry(**fields)


def matches(query: str, running: str = "", **more: Any) -> bool:
    return parse_query(query, NOW).matches(turn(**more), running)


@pytest.mark.parametrize(
    ("query", "facts"),
    [
        ("model:OPUS", {"model": "claude-opus-4-5"}),
        ("model:opus", {"asked": "opus"}),
        ("model=anthropic/opus", {"provider": "anthropic", "model": "opus"}),
        ("model=opus", {"provider": "anthropic", "model": "opus"}),
        ('client:curl,"claude-cli/1.0 (external, cli)"', {"agent": "claude-cli/1.0 (external, cli)"}),
        ('model:"gpt 4",opus', {"model": "opus-4"}),
        ('model:"gpt 4",opus', {"model": "gpt 4"}),
        ('key="",anna', {}),
        ('key="",anna', {"key": "anna"}),
        ('state:length,"fault"', {"status": "fault"}),
        ("key=Änne", {"key": "Änne"}),
        ("key=änne", {"key": "Änne"}),
        ("key:ÄN", {"key": "Änne"}),
        ("tool=жил", {"tools": "read\nЖил"}),
        ("model=Ж/Жил", {"provider": "ж", "model": "жил"}),
        ("model=quick", {"asked": "quick"}),
        ('model=""', {}),
        ("state:fault", {"status": "fault"}),
        ("state:broken", {"status": "refused"}),
        ("state:fault,cancelled", {"status": "cancelled"}),
        ("state:warning", {"finish": "length"}),
        ("state:warning", {"finish": "stop", "malformed": 3}),
        ("state:finish", {"finish": "stop"}),
        ("state:stop", {"finish": "stop"}),
        ("state:calls", {"finish": "calls"}),
        ("state:length", {"finish": "length", "malformed": 1}),
        ("state:refusal", {"finish": "refusal"}),
        ("state:Filter", {"finish": "filter"}),
        ("state:malformed", {"finish": "stop", "malformed": 1}),
        ("state:malformed", {"malformed": 1}),
        ("state:failed", {"status": "refused", "http": 502}),
        ("state:refused", {"status": "refused", "http": 502}),
        ("state:stop,length", {"finish": "length"}),
        ("-state:stop", {"finish": "length"}),
        ("tool:bash", {"tools": "read\nbash_20250124"}),
        ("tool=bash", {"tools": "read\nbash"}),
        ("cost>0.1", {"cost": 0.2}),
        ("cost>=$0.1", {"cost": 0.1}),
        ("-cost>0.1", {"cost": None}),
        ("-has:cost", {"cost": None}),
        ("ttft>2", {"ttft": 2.5}),
        ("ttft<500ms", {"ttft": 0.4}),
        ("duration>1m", {"duration": 61.0}),
        ("input>=1k", {"input": 1000}),
        ("input:1000", {"input": 1000}),
        ("http:429", {"http": 429}),
        ("http:429,500", {"http": 500}),
        ("http>=500", {"http": 502}),
        ("fault:auth", {"fault": "auth"}),
        ("fault:expired", {"fault": "auth", "fault_message": "the key has Expired"}),
        ("provider:up", {"provider": "upstream"}),
        ("-client:curl", {"client": "vscode"}),
        ("client:curl", {"agent": "curl/8.1"}),
        ("has:notes", {"notes": 1}),
        ("has:notes", {"malformed": 1}),
        ("has:retries", {"tries": 2}),
        ("since:1h", {"time": NOW - 3599}),
        ("until:1h", {"time": NOW - 3601}),
        ("since:2027-01-01", {}),
        (f"since:{NOW - 100:.0f}", {}),
        ("since:2027-01-15T07:58:20Z", {}),
        ('"exact words"', {"fault_message": "these are Exact  words".replace("  ", " ")}),
        ("opus anna", {"model": "opus", "key": "anna"}),
        ("id:r1", {}),
        ("", {}),
        ("100%", {"model": "100%"}),
        ("a_b", {"model": "a_b"}),
    ],
)
def test_a_query_finds_a_turn(query: str, facts: dict[str, Any]) -> None:
    assert matches(query, **facts)


@pytest.mark.parametrize(
    ("query", "facts"),
    [
        ("model=opus", {"model": "opus-4"}),
        ("state:finish", {"finish": "length"}),
        ("state:finish", {"finish": "refusal"}),
        ("state:finish", {"finish": "filter"}),
        ("state:stop", {"finish": "stop", "malformed": 1}),
        ("state:malformed", {"finish": "length", "malformed": 1}),
        ("state:length", {"status": "fault", "finish": "length"}),
        ("state:failed", {"status": "refused", "http": 429}),
        ("state:failed", {"status": "fault", "http": 502}),
        ("state:running", {"finish": "stop"}),
        ("cost>0.1", {"cost": None}),
        ("-client:curl", {"client": "curl"}),
        ("since:1h", {"time": NOW - 3601}),
        ("until:1h", {"time": NOW - 3599}),
        ("tool=bash", {"tools": "bash2"}),
        ('"exact words"', {"fault_message": "words exact"}),
        ("opus anna", {"model": "opus"}),
        ("100%", {"model": "1000"}),
        ("a_b", {"model": "axb"}),
        ("has:cost", {"cost": None}),
    ],
)
def test_a_query_does_not_find_a_turn(query: str, facts: dict[str, Any]) -> None:
    assert not matches(query, **facts)


def test_turns_that_run_have_their_own_states() -> None:
    assert matches("state:running", "open")
    assert matches("state:waiting", "open")
    assert matches("state:streaming", "streaming")
    assert not matches("state:finish", "streaming")
    assert not matches("state:stop", "streaming", finish="stop")


def test_all_states_are_explained_in_completion() -> None:
    assert STATE_HELP.keys() == STATE_VALUES.keys() | SHOWN_STATES.keys()


@pytest.mark.parametrize(
    ("query", "position", "length", "fix"),
    [
        ("ok modl:opus", 3, 4, "did you mean model?"),
        ("zzzzz:1", 0, 5, "there is no field 'zzzzz': the button ? shows all fields. Quotes search for the words."),
        ("foo:1", 0, 3, "did you mean tool? Quotes"),
        ("output>1 inpt>1", 9, 4, "did you mean input"),
        (":", 0, 1, "write a field before :, such as model:opus"),
        ("a >", 2, 1, "write a field before >"),
        ("a - b", 2, 1, "write after - what to leave out"),
        ("model: opus", 0, 6, "model needs a value"),
        ('say"hi"', 3, 1, "put a space before this one"),
        ('words"', 5, 1, "put a space before this one"),
        ("-model:", 1, 6, "for example model:opus"),
        ("cost>lots", 5, 4, "expected dollars, such as 0.1"),
        ("ttft>2x", 5, 2, "expected a time, such as 2, 500ms or 1m"),
        ("input>=many", 7, 4, "expected a number, such as 200, 10k or 1.5M"),
        ("since:soon", 6, 4, "expected a span, such as 15m, 1h or 7d"),
        ("state:odd", 6, 3, "expected one of running, waiting"),
        ("state:fault,odd", 12, 3, "expected one of running, waiting"),
        ('model:a,"b c', 8, 4, 'add a " at the end'),
        ('model:a,""', 0, 10, "model needs a value"),
        ("has:nothing", 4, 7, "expected one of notes, tools"),
        ("model>3", 0, 7, "write model:3"),
        ('a "b c', 2, 4, 'add a " at the end'),
        ('""', 0, 2, "write words between them"),
        ("a\x00b", 1, 1, "control character"),
        ("x" * (MAX_QUERY_CHARACTERS + 5), MAX_QUERY_CHARACTERS, 5, "at most"),
        ("a " * (MAX_QUERY_TERMS + 1), MAX_QUERY_TERMS * 2, 1, "remove some"),
        ("cost>1e999", 5, 5, "expected dollars"),
        ("input>" + "9" * 400, 6, 400, "expected a number"),
        ("model:,,", 0, 8, "for example model:opus"),
    ],
)
def test_an_error_says_where_and_how_to_fix_it(query: str, position: int, length: int, fix: str) -> None:
    with pytest.raises(QueryError) as raised:
        parse_query(query, NOW)
    assert fix in str(raised.value)
    assert (raised.value.position, raised.value.length) == (position, length)


@pytest.mark.parametrize(
    ("query", "position", "length", "hint"),
    [
        ("-la", 0, 3, '-la leaves out requests with la. To search for la, write "-la" in quotes.'),
        ("ls --all", 3, 5, 'To search for all, write "--all" in quotes.'),
        ("cats OR dogs", 5, 2, "OR is searched as a word"),
        ("cats AND dogs", 5, 3, "Leave it out"),
        ("NOT dogs", 0, 3, "To leave out requests with a word, write - before it."),
        ("do*", 0, 3, "prompts and answers are searched for whole words"),
        ("model:gpt*", 0, 10, "model:gpt finds a part of a name"),
        ('model:"a*",gpt*', 0, 15, "model:gpt finds a part of a name"),
        ("cats ???", 5, 3, "has no letter and no digit"),
        ('":"', 0, 3, "has no letter and no digit"),
        ("model!=gpt", 0, 10, "-model:opus for all others"),
        ("(cost>1", 0, 7, "cost:0.1 for a value of a field"),
        ("'exact words'", 0, 6, 'Only " quotes words'),
    ],
)
def test_a_hint_says_what_may_surprise(query: str, position: int, length: int, hint: str) -> None:
    assert read_error(query) is None
    (found,) = find_hints(query)
    assert hint in found.message
    assert (found.position, found.length) == (position, length)


def test_a_time_of_day_has_a_hint_that_can_be_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "strftime", lambda *_: "2027-02-03")
    for clock, full in {"12:30": "12:30", "9:05": "09:05", "9:30:15": "09:30:15"}.items():
        (found,) = find_hints(f"opus {clock}")
        assert found.message.endswith(f"since:2027-02-03T{full}.")
        assert parse_query(found.message.rpartition(" ")[2].rstrip("."), NOW).terms


@pytest.mark.parametrize("words", ["99:99", "24:00", "12:60", "3:1", "12:30:60", "1:234"])
def test_other_numbers_with_a_colon_are_no_time_of_day(words: str) -> None:
    assert find_hints(f"john {words}") == []


@pytest.mark.parametrize("query", ["model:m1 or model:m2", "model:m1 and state:fault", "-model:m1 Or cost>1"])
def test_a_small_connective_between_fields_has_a_hint(query: str) -> None:
    (found,) = find_hints(query)
    word = query.split()[1]
    assert found.message.startswith(f"{word} is searched as a word")
    assert (found.position, found.length) == (query.index(word), len(word))


@pytest.mark.parametrize("query", ["this or that", "model:m1 or words", "or model:m1", 'model:m1 "or" model:m2'])
def test_a_small_connective_among_words_is_a_word(query: str) -> None:
    assert find_hints(query) == []


@pytest.mark.parametrize(
    "query", ["", "pumps", '"-la"', "OR", '"a OR b"', "-model:opus", '-"la"', "model:opus cost>0.1", "it's", "日本"]
)
def test_plain_queries_have_no_hints(query: str) -> None:
    assert find_hints(query) == []


@given(st.text(max_size=80) | st.text("model:stae-\"'><=,. 0159kms_%$\\", max_size=60))
def test_any_text_is_a_query_or_an_error_within_it(text: str) -> None:
    for part in split_query(text):
        assert text[part.start : part.start + part.length].strip()
    for hint in find_hints(text):
        assert 0 <= hint.position < hint.position + hint.length <= len(text)
    error = read_error(text)
    if error is not None:
        assert 0 <= error.position < len(text)
        assert 0 < error.length <= len(text) - error.position


def read_error(text: str) -> QueryError | None:
    try:
        parse_query(text, NOW)
    except QueryError as error:
        return error
    return None


# ── SQL and the test of one turn ──────────────────────────────────────────────────────────────────

WORDS = st.sampled_from(
    [
        "",
        "opus",
        "o",
        "Opus-4",
        "100%",
        "a_b",
        "x\\y",
        "up",
        "curl/8",
        "it's",
        "50",
        "日本",
        "Änne",
        "än",
        "ЖИЛ",
        "I\u015f\u0131k",
        "İbo",
    ]
)
ENTRIES = st.builds(
    turn,
    time=st.integers(0, 10_000).map(lambda ago: NOW - ago),
    request_id=st.sampled_from(["r1", "r2", "r3", "r4"]),
    status=st.sampled_from(["finish", "fault", "refused", "cancelled"]),
    finish=st.sampled_from(["", "stop", "length", "refusal", "filter", "calls"]),
    http=st.sampled_from([0, 200, 429, 500]),
    tools=st.sampled_from(["", "bash", "read\nbash", "bash2\nread", "a_b"]),
    **dict.fromkeys(("model", "asked", "provider", "client", "agent", "key", "fault_message", "engine"), WORDS),
    **{name: st.none() | st.sampled_from([0, 1, 10, 1000]) for name in ("input", "output", "cached")},
    **{name: st.none() | st.sampled_from([0.0, 0.1, 2.0]) for name in ("cost", "ttft")},
    **{name: st.sampled_from([0, 1, 2]) for name in ("malformed", "notes", "tries")},
)
NUMBERS = [name for name, field in QUERY_FIELDS.items() if field.convert is not None]
NAMES = [name for name, field in QUERY_FIELDS.items() if field.columns and field.convert is None]
TERMS = st.one_of(
    st.tuples(
        st.sampled_from(NUMBERS),
        st.sampled_from([":", "=", ">", "<", ">=", "<="]),
        st.sampled_from("0 1 0.1 10 1000 429".split()),
    ).map("".join),
    st.tuples(st.sampled_from(NAMES), st.sampled_from(":="), WORDS.filter(bool)).map("".join),
    st.sampled_from(
        [f"state:{name}" for name in (*STATE_VALUES, *SHOWN_STATES)] + [f"has:{name}" for name in HAS_VALUES]
    ),
    st.sampled_from(["since:1h", "until:1h", "since:2h", 'model=""', 'key=""']),
    WORDS.filter(bool),
    WORDS.filter(bool).map(lambda word: f'"{word}"'),
)
QUERIES = st.lists(st.tuples(st.sampled_from(["", "-"]), TERMS).map("".join), max_size=3).map(" ".join)


@pytest.fixture
def history() -> Iterator[tuple[JournalStore, JournalHistory]]:
    with closing(JournalStore(IN_MEMORY, time.time, age=1e12, size=2**40)) as rows:
        yield rows, JournalHistory(rows)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(entries=st.lists(ENTRIES, max_size=12), queries=st.lists(QUERIES, min_size=1, max_size=12))
def test_sql_finds_the_turns_that_match(
    history: tuple[JournalStore, JournalHistory], entries: list[JournalEntry], queries: list[str]
) -> None:
    rows, asked = history
    before = asked.last_id()
    for entry in entries:
        rows.add(entry)
    rows.flush()
    for text in queries:
        query = parse_query(text, NOW)
        found = {phrase: {"r2"} for phrase in query.phrases if "o" in phrase}
        condition = query.to_sql(found, asked.among)
        got = asked.search(condition, tenant=None, after=before, upto=asked.last_id(), limit=50)
        want = [entry for entry in entries if query.matches(entry, "", found)]
        assert sorted(map(repr, got)) == sorted(map(repr, want)), text
        counts = asked.count(condition, tenant=None, upto=asked.last_id())
        assert counts.total == sum(counts.states.values()) >= len(want)


def test_old_rows_are_found_by_their_names(history: tuple[JournalStore, JournalHistory]) -> None:
    """Rows of older versions lack columns: NULL is unknown or nothing."""
    rows, asked = history

    def insert(database: sqlite3.Connection) -> None:
        database.execute(
            "INSERT INTO turns (time, model, status, names) VALUES (1, 'old-model', 'finish', 'old-model')"
        )

    rows._writer.submit(insert)
    rows.flush()
    for text, count in {
        "old": 1,
        "-model:new": 1,
        "-has:notes": 1,
        "notes:0": 1,
        "state:finish": 1,
        "-state:stop,failed,malformed,length": 1,
        "cost<1": 0,
    }.items():
        condition = parse_query(text, NOW).to_sql({}, asked.among)
        assert asked.count(condition, tenant=None, upto=asked.last_id()).total == count, text
