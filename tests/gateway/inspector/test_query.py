"""The query language of the list: what a query finds in the history, where an error is, hints, and completion."""

from __future__ import annotations

import re
import sqlite3
import time
from contextlib import closing
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.inspector import Inspected, inspected
from tests.support.inspector_bounds import bounds
from tests.support.inspector_calls import ask_inspector, found, say, view
from tests.support.journal_history import write_turns

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

NOW = time.time()
THEN = NOW - 100
DAY = time.strftime("%Y-%m-%d", time.localtime(THEN))
EXACT = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(THEN))
# a query, and facts of a turn that it finds, or does not find
FOUND: list[tuple[str, dict[str, Any]]] = [
    ("model:OPUS", {"model": "claude-opus-4-5"}), ("model:opus", {"asked": "opus"}),
    ("model=anthropic/opus", {"provider": "anthropic", "model": "opus"}),
    ("model=opus", {"provider": "anthropic", "model": "opus"}),
    ('client:curl,"claude-cli/1.0 (external, cli)"', {"agent": "claude-cli/1.0 (external, cli)"}),
    ('model:"gpt 4",opus', {"model": "opus-4"}), ('model:"gpt 4",opus', {"model": "gpt 4"}), ('key="",anna', {}),
    ('key="",anna', {"key": "anna"}), ('state:length,"fault"', {"status": "fault"}), ("key=Änne", {"key": "Änne"}),
    ("key=änne", {"key": "Änne"}), ("key:ÄN", {"key": "Änne"}), ("tool=жил", {"tools": "read\nЖил"}),
    ("model=Ж/Жил", {"provider": "ж", "model": "жил"}), ("model=quick", {"asked": "quick"}), ('model=""', {}),
    ("state:fault", {"status": "fault"}), ("state:broken", {"status": "refused"}),
    ("state:fault,cancelled", {"status": "cancelled"}), ("state:warning", {"finish": "length"}),
    ("state:warning", {"finish": "stop", "malformed": 3}), ("state:finish", {"finish": "stop"}),
    ("state:stop", {"finish": "stop"}), ("state:calls", {"finish": "calls"}), ("state:pause", {"finish": "pause"}),
    ("state:other", {"finish": "other"}), ("state:length", {"finish": "length", "malformed": 1}),
    ("state:refusal", {"finish": "refusal"}), ("state:Filter", {"finish": "filter"}),
    ("state:malformed", {"finish": "stop", "malformed": 1}), ("state:malformed", {"malformed": 1}),
    ("state:failed", {"status": "refused", "http": 502}), ("state:refused", {"status": "refused", "http": 502}),
    ("state:stop,length", {"finish": "length"}), ("-state:stop", {"finish": "length"}),
    ("tool:bash", {"tools": "read\nbash_20250124"}), ("tool=bash", {"tools": "read\nbash"}),
    ("finish:len", {"finish": "length"}), ("route:messages", {"route": "/v1/messages"}),
    ("engine:fallback", {"decisions": "fallback: x is next"}), ("protocol:gemini", {"upstream": "gemini"}),
    ("operation:embed", {"operation": "embeddings"}), ("cost>0.1", {"cost": 0.2}), ("cost>=$0.1", {"cost": 0.1}),
    ("-cost>0.1", {"cost": None}), ("-has:cost", {"cost": None}), ("has:cost", {"cost": 0.0}),
    ("has:usage", {"output": 3}), ("has:tools", {"tools": "bash"}), ("has:fault", {"fault": "auth"}),
    ("has:estimate", {"estimate": 7}), ("has:notes", {"notes": 1}), ("has:notes", {"malformed": 1}),
    ("has:retries", {"tries": 2}), ("ttft>2", {"ttft": 2.5}), ("ttft<500ms", {"ttft": 0.4}),
    ("duration>1m", {"duration": 61.0}), ("input>=1k", {"input": 1000}), ("input<=1k", {"input": 1000}),
    ("input:1000", {"input": 1000}), ("output=1.5M", {"output": 1_500_000}), ("cached>0", {"cached": 1}),
    ("reasoning>0", {"reasoning": 1}), ("notes:0", {}), ("tries>1", {"tries": 2}),
    ("bytes>100k", {"bytes_out": 100_001}), ("http:429", {"http": 429}), ("http:429,500", {"http": 500}),
    ("http>=500", {"http": 502}), ("fault:auth", {"fault": "auth"}),
    ("fault:expired", {"fault": "auth", "fault_message": "the key has Expired"}),
    ("provider:up", {"provider": "upstream"}), ("-client:curl", {"client": "vscode"}),
    ("client:curl", {"agent": "curl/8.1"}), ("since:1h", {"time": NOW - 600}), ("until:1h", {"time": NOW - 9000}),
    (f"since:{DAY}", {"time": THEN}), (f"since:{THEN:.0f}", {"time": THEN + 1}), (f"since:{EXACT}", {"time": THEN}),
    ('"exact words"', {"fault_message": "these are Exact words"}), ("opus anna", {"model": "opus", "key": "anna"}),
    ("id:case", {}), ("", {}), ("100%", {"model": "100%"}), ("a_b", {"model": "a_b"}),
]  # fmt: skip
NOT_FOUND: list[tuple[str, dict[str, Any]]] = [
    ("model=opus", {"model": "opus-4"}), ('key="",anna', {"key": "ben"}), ("state:finish", {"finish": "length"}),
    ("state:finish", {"finish": "refusal"}), ("state:finish", {"finish": "filter"}),
    ("state:running", {"finish": "stop"}), ("state:stop", {"finish": "stop", "malformed": 1}),
    ("state:length", {"status": "fault", "finish": "length"}),
    ("state:malformed", {"finish": "length", "malformed": 1}), ("state:failed", {"status": "refused", "http": 429}),
    ("state:failed", {"status": "fault", "http": 502}), ("tool=bash", {"tools": "bash2"}), ("cost>0.1", {"cost": None}),
    ("cost<0.1", {"cost": None}), ("has:cost", {"cost": None}), ("has:usage", {}), ("has:notes", {}),
    ("has:retries", {"tries": 1}), ("duration>1m", {"duration": 59.0}), ("input>1k", {"input": 1000}),
    ("-client:curl", {"client": "curl"}), ("since:1h", {"time": NOW - 9000}), ("until:1h", {"time": NOW - 600}),
    (f"until:{DAY}", {"time": THEN}), (f"until:{EXACT}", {"time": THEN + 1}),
    ('"exact words"', {"fault_message": "words exact"}), ("opus anna", {"model": "opus"}), ("100%", {"model": "1000"}),
    ("a_b", {"model": "axb"}),
]  # fmt: skip
CASES = [*((*case, True) for case in FOUND), *((*case, False) for case in NOT_FOUND)]


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Inspected]:
    """A gateway whose journal has the turns of `CASES`, each with its place as its id."""
    path = tmp_path_factory.mktemp("history") / "journal.sqlite"
    write_turns(path, ({"time": THEN, **facts, "request_id": f"case{n}"} for n, (_, facts, _) in enumerate(CASES)))
    with inspected(journal={"path": str(path)}) as running:
        yield running


def test_a_query_finds_the_turns_that_it_means(history: Inspected) -> None:
    found_by = {query: found(history, query) for query, _, _ in CASES}
    wrong = [case for n, case in enumerate(CASES) if (f"case{n}" in found_by[case[0]]) is not case[2]]
    assert wrong == []


def test_terms_have_the_laws_of_logic(history: Inspected) -> None:
    """`-` finds all others, two terms find what both find, values of a field are alternatives; counts agree."""
    everything, terms = found(history, ""), sorted({query for query, _, _ in CASES if " " not in query and query})
    found_by = {term: found(history, term) for term in terms}
    problems: list[str] = []
    for term in terms:
        other = term.removeprefix("-") if term.startswith("-") else f"-{term}"
        if found(history, other) != everything - found_by[term]:
            problems.append(other)
        page = view(history, "turns", q=term, limit=1)
        if not page["total"] == page["requests"] == sum(page["states"].values()) == len(found_by[term]):
            problems.append(f"count of {term}")
    chosen = Random(7)
    for one, two in (chosen.sample(terms, 2) for _ in range(60)):
        if found(history, f"{one} {two}") != found_by[one] & found_by[two]:
            problems.append(f"{one} {two}")
    for names in ("state:fault,refused", "http:429,500", "model:opus,gpt", "has:cost,tools"):
        field, _, values = names.partition(":")
        if found(history, names) != set().union(*(found(history, f"{field}:{one}") for one in values.split(","))):
            problems.append(names)
    assert problems == []


def test_old_rows_are_found_by_their_names(tmp_path: Path) -> None:
    """Rows of older versions lack columns: NULL is unknown or nothing."""
    path = tmp_path / "journal.sqlite"
    write_turns(path, [])
    with closing(sqlite3.connect(path)) as database, database:
        row = (time.time() - 60, "old-model", "finish", "old-model")
        database.execute("INSERT INTO turns (time, model, status, names) VALUES (?, ?, ?, ?)", row)
    counts = {"old": 1, "-model:new": 1, "-has:notes": 1, "notes:0": 1, "state:finish": 1, "cost<1": 0,
              "-state:stop,failed,malformed,length": 1}  # fmt: skip
    with inspected(journal={"path": str(path)}) as running:
        assert {query: view(running, "turns", q=query)["total"] for query in counts} == counts


# ── errors and hints ──────────────────────────────────────────────────────────────────────────────

ERRORS = [
    ("ok modl:opus", 3, 4, "did you mean model?"),
    ("zzzzz:1", 0, 5, "there is no field 'zzzzz': the button ? shows all fields. Quotes search for the words."),
    ("foo:1", 0, 3, "did you mean tool? Quotes"), ("output>1 inpt>1", 9, 4, "did you mean input"),
    (":", 0, 1, "write a field before :, such as model:opus"), ("a >", 2, 1, "write a field before >"),
    ("a - b", 2, 1, "write after - what to leave out"), ("model: opus", 0, 6, "model needs a value"),
    ('say"hi"', 3, 1, "put a space before this one"), ('words"', 5, 1, "put a space before this one"),
    ("-model:", 1, 6, "for example model:opus"), ("cost>lots", 5, 4, "expected dollars, such as 0.1"),
    ("ttft>2x", 5, 2, "expected a time, such as 2, 500ms or 1m"),
    ("input>=many", 7, 4, "expected a number, such as 200, 10k or 1.5M"),
    ("since:soon", 6, 4, "expected a span, such as 15m, 1h or 7d"),
    ("state:odd", 6, 3, "expected one of running, waiting"),
    ("state:fault,odd", 12, 3, "expected one of running, waiting"), ('model:a,"b c', 8, 4, 'add a " at the end'),
    ('model:a,""', 0, 10, "model needs a value"), ("has:nothing", 4, 7, "expected one of notes, tools"),
    ("model>3", 0, 7, "write model:3"), ('a "b c', 2, 4, 'add a " at the end'),
    ('""', 0, 2, "write words between them"), ("a\x00b", 1, 1, "control character"), ("x" * 1005, 1000, 5, "at most"),
    ("a " * 31, 60, 1, "remove some"), ("cost>1e999", 5, 5, "expected dollars"),
    ("input>" + "9" * 400, 6, 400, "expected a number"), ("model:,,", 0, 8, "for example model:opus"),
]  # fmt: skip


def test_an_error_says_where_and_how_to_fix_it(history: Inspected) -> None:
    wrong: list[Any] = []
    for query, position, length, fix in ERRORS:
        reply = ask_inspector(history, "turns", q=query)
        error = reply.json().get("error", {})
        told = (reply.status_code, error.get("code"), error.get("position"), error.get("length"))
        if told != (400, "query", position, length) or fix not in error["message"]:
            wrong.append((query, told, error))
    assert wrong == []
    assert ask_inspector(history, "live", q="a stat:fault").json()["error"]["position"] == 2


def hints(gateway: Inspected, query: str) -> list[dict[str, Any]]:
    return list(view(gateway, "turns", q=query).get("hints", []))


HINTS = [
    ("-la", 0, 3, '-la leaves out requests with la. To search for la, write "-la" in quotes.'),
    ("ls --all", 3, 5, 'To search for all, write "--all" in quotes.'),
    ("cats OR dogs", 5, 2, "OR is searched as a word"), ("cats AND dogs", 5, 3, "Leave it out"),
    ("NOT dogs", 0, 3, "To leave out requests with a word, write - before it."),
    ("do*", 0, 3, "prompts and answers are searched for whole words"),
    ("model:gpt*", 0, 10, "model:gpt finds a part of a name"),
    ('model:"a*",gpt*', 0, 15, "model:gpt finds a part of a name"), ("cats ???", 5, 3, "has no letter and no digit"),
    ('":"', 0, 3, "has no letter and no digit"), ("model!=gpt", 0, 10, "-model:opus for all others"),
    ("(cost>1", 0, 7, "cost:0.1 for a value of a field"), ("'exact words'", 0, 6, 'Only " quotes words'),
    ("model:m1 or model:m2", 9, 2, "or is searched as a word"),
    ("model:m1 and state:fault", 9, 3, "and is searched as a word"),
    ("-model:m1 Or cost>1", 10, 2, "Or is searched as a word"),
]  # fmt: skip
PLAIN = (
    "", "pumps", '"-la"', "OR", '"a OR b"', "-model:opus", '-"la"', "model:opus cost>0.1", "it's", "日本", "this or that",
    "model:m1 or words", "or model:m1", 'model:m1 "or" model:m2', "john 99:99", "john 24:00", "john 12:60", "john 3:1",
    "john 12:30:60", "john 1:234",
)  # fmt: skip


def test_a_hint_says_what_may_surprise(history: Inspected) -> None:
    told = {query: [(row["position"], row["length"], row["message"]) for row in hints(history, query)]
            for query, *_ in HINTS}  # fmt: skip
    wrong = [
        (query, told[query])
        for query, position, length, hint in HINTS
        if [row[:2] for row in told[query]] != [(position, length)] or hint not in told[query][0][2]
    ]
    assert wrong == []
    assert [query for query in PLAIN if hints(history, query)] == []


def test_a_time_of_day_has_a_hint_that_can_be_searched(history: Inspected) -> None:
    for clock, full in {"12:30": "12:30", "9:05": "09:05", "9:30:15": "09:30:15"}.items():
        (hint,) = hints(history, f"opus {clock}")
        term = hint["message"].rpartition(" ")[2].rstrip(".")
        assert re.fullmatch(rf"since:\d{{4}}-\d\d-\d\dT{full}", term)
        view(history, "turns", q=term)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(max_size=80) | st.text("model:stae-\"'><=,. 0159kms_%$\\", max_size=60))
def test_any_text_is_a_query_or_an_error_within_it(history: Inspected, text: str) -> None:
    reply = ask_inspector(history, "turns", q=text, limit=1)
    assert reply.status_code in {200, 400}
    rows = reply.json().get("hints", []) if reply.status_code == 200 else [reply.json()["error"]]
    for row in rows:
        assert 0 <= row["position"] < row["position"] + row["length"] <= len(text)


# ── completion ────────────────────────────────────────────────────────────────────────────────────


def completed(gateway: Inspected, q: str, at: int | None = None) -> dict[str, Any]:
    return dict(view(gateway, "complete", q=q) if at is None else view(gateway, "complete", q=q, at=at))


def texts(gateway: Inspected, q: str, at: int | None = None) -> list[str]:
    return [option["text"] for option in completed(gateway, q, at)["options"]]


def test_fields_and_values_are_completed(history: Inspected) -> None:
    fields = completed(history, "ok mod")
    assert (fields["start"], fields["end"], fields["options"][0]["text"]) == (3, 6, "model:")
    assert {"cost>", "http:", "state:"} <= set(texts(history, ""))
    models = completed(history, "model:quick")
    assert (models["start"], [option["text"] for option in models["options"]]) == (6, ["quick"])
    assert models["error"] is None
    assert texts(history, "model:gpt") == ['"gpt 4"']
    states = completed(history, "state:fault,refu")
    assert (states["start"], [option["text"] for option in states["options"]]) == (12, ["refused", "refusal"])
    quoted = completed(history, 'state:"a b","faul')
    assert (quoted["start"], [option["text"] for option in quoted["options"]]) == (12, ["fault"])
    tools = completed(history, "tool:")
    assert tools["options"]
    assert tools["error"]["message"] == "tool needs a value, for example tool:bash"
    assert texts(history, '"words in quotes') == []
    assert texts(history, "-has:note x", 9) == ["notes"]
    assert texts(history, "since:") == ["15m", "1h", "1d", "7d"]
    assert texts(history, "cost>") == []


def test_every_word_of_a_state_is_offered_explained_and_understood(history: Inspected) -> None:
    options = completed(history, "state:")["options"]
    told = re.findall(r"[a-z]+", ask_inspector(history, "turns", q="state:odd").json()["error"]["message"])
    assert {option["text"] for option in options} <= set(told)
    assert len(options) >= 18
    assert [option for option in options if not option["about"]] == []
    assert [option for option in options if ask_inspector(history, "turns", q=f"state:{option['text']}").is_error] == []


def test_the_most_frequent_values_come_first_and_few_are_offered(tmp_path: Path) -> None:
    path = tmp_path / "journal.sqlite"
    write_turns(path, [{"model": f"m{number % 15:02}"} for number in range(46)])
    with inspected(journal={"path": str(path)}) as running:
        options = completed(running, "model:m")["options"]
    assert [option["text"] for option in options] == [f"m{number:02}" for number in range(12)]
    assert [option["about"] for option in options[:2]] == ["4", "3"]


# ── pages of history ──────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("newest", "most"), [(1, 2), (1, 1_000), (20_000, 3), (20_000, 1_000)])
def test_a_first_page_counts_all(newest: int, most: int) -> None:
    """However its rows are looked for, a page has as many as it should, and its counts are those of all rows."""
    with bounds(newest=newest, rows=most), inspected() as gateway:
        for model in ("openai-chat/text", "anthropic/text", "openai-chat-unknown", "openai-chat/text", "replay/tools"):
            say(gateway, model=model)
        for query, total, ended in (("model:openai-chat", 3, 2), ("model:anthropic", 1, 1), ("none", 0, 0)):
            for limit in (1, 2):
                page = view(gateway, "turns", q=query, limit=limit)
                assert len(page["rows"]) == min(limit, total), query
                assert (page["total"], page["requests"], page["states"]["finish"]) == (total, total, ended), query
            page = view(gateway, "turns", q=query, limit=2, state="finish")
            assert (len(page["rows"]), page["total"], sum(page["states"].values())) == (ended, ended, total), query


def test_the_history_has_pages_that_fit_together_and_is_sorted(tmp_path: Path) -> None:
    path = tmp_path / "journal.sqlite"
    costs = [None if number % 5 == 0 else number * 0.013 % 1 for number in range(1_200)]
    write_turns(
        path,
        ({"time": NOW - 9_000 + number, "model": "needle" if not number else "m", "cost": costs[number]}
         for number in range(1_200)),
    )  # fmt: skip
    with inspected(journal={"path": str(path)}) as running:
        assert [row["model"] for row in view(running, "turns", q="needle")["rows"]] == ["needle"]
        first = view(running, "turns", limit=500)
        say(running)  # a turn that comes meanwhile changes no page
        more = [view(running, "turns", offset=at, upto=first["upto"], limit=500)["rows"] for at in (500, 1_000)]
        times = [row["time"] for page in (first["rows"], *more) for row in page]
        assert first["total"] == len(times) == 1_200
        assert times == sorted(times, reverse=True)
        known = sorted(cost for cost in costs if cost is not None)
        for order, wanted in (("desc", known[::-1]), ("asc", known)):
            shown = [row["cost"] for row in view(running, "turns", sort="cost", order=order, limit=1_000)["rows"]]
            assert shown[: len(known)] == wanted
            assert set(shown[len(known) :]) == {None}, "what is unknown is last"
        refused = ask_inspector(running, "turns", sort="names")
        assert (refused.status_code, "sort: expected one of time" in refused.text) == (400, True)
