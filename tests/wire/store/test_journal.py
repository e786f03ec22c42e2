"""The journal in memory, in a file and in PostgreSQL: the same rows, queries, pages and sums; bounds; trouble."""

from __future__ import annotations

import random
import sqlite3
import time
from collections import Counter
from contextlib import closing, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from penstock import events as ev
from penstock.testing import Reply
from tests.support.client_requests import get, metric
from tests.support.event_feed import bearer
from tests.support.gateway import answer, hash_key
from tests.support.stores import Place, found, full_disk, history, turn, until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from penstock.testing import ReceivedRequest

DAY = 86_400
MOVING = ("id", "time", "duration", "ttft", "rate", "last_byte", "held")  # facts that differ from run to run
ALPHABET = "абвгдеёжзийклмнопрстуфхцчшщъыьэюя"


def calling(tool: str, usage: ev.Usage | None = None) -> Reply:
    """An answer that calls a tool."""
    call: list[ev.AnyEvent] = [
        ev.CallStart(0, "call_1", tool),
        ev.CallDelta(0, "{}"),
        ev.CallEnd(0, "call_1", tool, "{}"),
    ]
    events: list[ev.AnyEvent] = [ev.Start("x", "m", 7), *call, *([usage] if usage else []), ev.Finish("calls")]
    return Reply.of("openai-chat", events, stream=False)


def tells(running: Any, ids: list[str]) -> bool:
    return found(running) == ids[::-1]


def test_every_store_tells_the_same(tmp_path: Path, postgres_url: str) -> None:
    """Rows of whole and streamed turns, of errors and refusals, and what is summed over them."""
    told: dict[str, Any] = {}
    for kind in ("memory", "file", "postgres"):
        folder = tmp_path / kind
        folder.mkdir()
        place = Place(kind, folder, postgres_url)
        with place.open() as running:
            ids = [turn(running), turn(running, "openai-chat/tools", stream=True), turn(running, "openai-chat/error")]
            ids += [turn(running, "nobody/none"), turn(running, "quick", text="tab\t \\ 'é\" \u2028", stream=True)]
            until(partial(tells, running, ids))
            rows = [{name: row[name] for name in row if name not in MOVING} for row in history(running)["rows"]]
            sums = get(f"{running.url}/inspector/usage?by=model").json()
            counted = [(one["name"], one["total"]["requests"], one["total"]["output"], one["total"]["refused"])
                       for one in sums["names"]]  # fmt: skip
            offered = get(f"{running.url}/inspector/complete", params={"q": "model:t", "at": 7}).json()["options"]
            told[kind] = (rows, counted, offered, history(running)["states"])
        if place.lasts:
            usage = place.usage()
            told[f"usage of {kind}"] = (usage["total"]["turns"], usage["total"]["output"],
                                        [(one.get("name"), one["turns"]) for one in usage["model"]])  # fmt: skip
    assert told["memory"] == told["file"] == told["postgres"]
    assert told["usage of file"] == told["usage of postgres"]
    assert told["memory"][3] == {"finish": 3, "warning": 0, "fault": 0, "cancelled": 0, "refused": 2}


FACTS: list[dict[str, Any]] = [
    {"status": "refused", "http": 429, "fault": "auth", "cost": None},
    {"finish": "length", "cost": 0.5, "notes": 2, "malformed": 1},
    {"finish": "stop", "cost": 0.05, "ttft": 2.5, "tries": 3},
]
QUERIES = {
    "": "210", "client:curl": "0", "state:broken": "0", "state:warning": "1", "state:finish": "2", "-state:finish": "10",
    "tool:bash": "1", "tool=BASH": "1", "-tool=bash": "20", "cost>0.1": "1", "-cost>0.1": "20", "-has:cost": "0",
    "ttft>2": "2", "http:429": "0", "http:429,200": "210", "has:notes": "1", "has:retries": "2",
    "key=änne": "2", "key:ÄN": "2", "-key=Änne": "10", "tool=жил": "2", "änne": "2",
    "state:running": "", 'model="openai-chat/m"': "210", "since:1h until:2100-01-01": "210", "walnut": "0",
}  # fmt: skip


def test_queries_mean_the_same_in_every_database(lasting: Place) -> None:
    keys = {
        name: {"hash": hash_key(f"pk-{tenant}-{len(name)}"), "tenant": tenant}
        for name, tenant in {"kim": "a", "bo": "b", "Änne": "b"}.items()
    }
    keys["root"] = {"hash": hash_key("root"), "role": "admin", "inspect": "all"}
    replies = [calling("x"), calling("Bash"), calling("Жил")]
    root = bearer("root")
    with lasting.open(*replies, keys=keys, without_session=True) as running:
        agents = ["Curl/8", "python-httpx/1", "python-httpx/1"]
        ids = [
            turn(running, "openai-chat/m", "walnut" if number == 0 else "hazel",
                 headers={**bearer(key), "user-agent": agent})
            for number, (key, agent) in enumerate(zip(("pk-a-3", "pk-b-2", "pk-b-4"), agents, strict=True))
        ]  # fmt: skip
        lasting.wait_for(*ids)
        for name, facts in zip(ids, FACTS, strict=True):
            sets = ", ".join(f"{field} = ?" for field in facts)
            lasting.run(f"UPDATE turns SET {sets} WHERE request_id = ?", [*facts.values(), name])  # noqa: S608
    with lasting.open(*replies, keys=keys, without_session=True) as running:  # nothing is remembered of the turns
        wrong: list[str] = []
        for text, expected in QUERIES.items():
            if text == "walnut":  # words of turns that the gateway has forgotten
                continue
            page = history(running, text, headers=root)
            if [row["id"] for row in page["rows"]] != [ids[int(n)] for n in expected]:
                wrong.append(f"{text}: {[ids.index(row['id']) for row in page['rows']]}")
        assert wrong == []
        assert found(running, "", headers=bearer("pk-b-2")) == [ids[2], ids[1]]
        assert found(running, "", headers=root, sort="cost") == [ids[1], ids[2], ids[0]]  # what is unknown is last
        assert found(running, "", headers=root, sort="cost", order="asc") == [ids[2], ids[1], ids[0]]
        assert found(running, "", headers=root, offset=1, limit=1) == [ids[1]]
        states = history(running, "", headers=root)["states"]
        assert states == {"finish": 1, "warning": 1, "fault": 0, "cancelled": 0, "refused": 1}
        offered = get(f"{running.url}/inspector/complete", params={"q": "tool:", "at": 5}, headers=root).json()
        assert {one["text"] for one in offered["options"]} == {"x", "Bash", "Жил"}
        other = get(
            f"{running.url}/inspector/complete", params={"q": "client:", "at": 7}, headers=bearer("pk-b-2")
        ).json()
        assert "Curl/8" not in {one["text"] for one in other["options"]}


def test_names_in_any_letters_are_found(lasting: Place) -> None:
    """As they are written, and in lower case where each letter has one counterpart; a short name in no other."""
    names = ["I\u015f\u0131k", "İbrahim", "STRAẞE", "ΟΔΟΣ ΣΙΣ", "日本", "ŁÓDŹ", ALPHABET]

    def reply(seen: ReceivedRequest) -> Reply:
        return calling(seen.json["messages"][0]["content"])

    wrong: list[str] = []
    with lasting.open(reply) as running:
        for name in names:
            ids = [turn(running, f"openai-chat/{one}", one) for one in (name, "CLI", f"x{name}")]
            lasting.wait_for(*ids)
            for field in ("model", "tool"):
                prefix = "openai-chat/" if field == "model" else ""
                checks = {f'{field}="{prefix}{name}"': [0], f'{field}:"{name}"': [2, 0]}
                if name in {"ŁÓDŹ", ALPHABET}:
                    for other in (name.lower(), name.upper()):
                        checks |= {f'{field}="{prefix}{other}"': [0], f'-{field}:"{other}"': [1]}
                for query, expected in checks.items():
                    since = [one for one in found(running, query) if one in ids]
                    wrong += (
                        [] if since == [ids[n] for n in expected] else [f"{query}: {[ids.index(n) for n in since]}"]
                    )
    assert wrong == []


def test_pages_of_rare_and_of_common_rows(lasting: Place) -> None:
    """However few rows are looked at first, a page has the newest rows that a query allows, in their order."""
    draw, now = random.Random(7), time.time()
    with lasting.open() as running:
        lasting.wait_for(turn(running))
        facts = [
            {"request_id": f"r{n}", "time": now + 1 + draw.randrange(400) / 100, "tries": 9,
             "http": draw.choice([418, *[200] * 99])} for n in range(1500)
        ]  # fmt: skip
        lasting.clone_turns(facts)
        order = sorted(range(len(facts)), key=lambda n: (facts[n]["time"], n), reverse=True)
        for query, status in (("http:418", 418), ("http:200 tries>8", 200), ("http:500", 500)):
            allowed = [f"r{n}" for n in order if facts[n]["http"] == status]
            for limit, offset in ((1, 0), (3, 0), (200, 0), (3, 2), (3, 50), (200, 1300)):
                page = found(running, query, limit=limit, offset=offset)
                assert page == allowed[offset:][:limit], (query, limit, offset)
            assert history(running, query).get("total", 0) == len(allowed)


def test_sums(lasting: Place) -> None:
    now = time.time()
    with lasting.open() as running:
        lasting.wait_for(turn(running))
    base = {"input": 10, "output": 5, "cost": 0.5, "ttft": 0.1, "duration": 1.0, "provider": "openai", "model": "m"}
    facts: list[dict[str, Any]] = [
        {**base, "time": now - n * 60, "model": f"m{n % 2}", "status": "fault" if n == 3 else "finish"}
        for n in range(10)
    ]
    nothing = {"input": None, "output": None, "cost": None, "ttft": None}
    facts += [{**base, **nothing, "key": "other"}, {**base, "cost": None}]
    facts.append({**base, **nothing, "key": "none", "status": "refused", "times": 7})
    lasting.clone_turns(
        [{"request_id": f"r{n}", "time": now, "status": "finish", **one} for n, one in enumerate(facts)]
    )
    lasting.run(
        "DELETE FROM turns WHERE request_id NOT LIKE 'r%'".replace("%", "%%" if lasting.kind == "postgres" else "%")
    )
    told = lasting.usage("--by", "key")
    total = told["total"]
    assert (total["turns"], total["refused"], total["faults"]) == (19, 7, 1)
    assert (total["input"], total["output"], total["cost"], total["unpriced"]) == (110, 55, 5.0, 1)
    assert {one["name"]: one["turns"] for one in told["key"]} == {"anonymous": 11, "other": 1, "none": 7}
    by_model = Counter({one["name"]: one["turns"] for one in lasting.usage("--by", "model")["model"]})
    assert by_model == {"m0": 5, "m1": 5, "m": 9}
    assert sum(one["turns"] for one in told["slices"]) == 19
    assert {one["start"] % 60 for one in told["slices"]} == {0.0}


# ── bounds ────────────────────────────────────────────────────────────────────────────────────────


def fill(place: Place, facts: list[dict[str, Any]]) -> None:
    """The journal has just these rows."""
    with place.open() as running:
        place.wait_for(turn(running))
    place.clone_turns(facts)
    place.run("DELETE FROM turns WHERE length(request_id) > 20")


def reopened(place: Place, **journal: Any) -> list[str]:
    """A gateway with these bounds notes a turn. Returns the rows that are left."""
    with place.open(journal=journal) as running:
        name = turn(running)
        place.wait_for(name)
    return [one for one in place.ids() if one != name]


def test_old_rows_go(lasting: Place) -> None:
    now = time.time()
    fill(lasting, [{"request_id": f"r{age}", "time": now - age} for age in (90_000, 3600, 0)])
    assert reopened(lasting, days=1) == ["r3600", "r0"]


def test_rows_from_the_future_are_not_kept_for_ever_and_keep_no_others_out(lasting: Place) -> None:
    """The clock was set back after they were written. They go with the first old row that was written after them."""
    now = time.time()
    ahead, late = now + 1e9, now - 90_000
    fill(lasting, [{"request_id": "a", "time": ahead}, {"request_id": "b", "time": now}])
    assert reopened(lasting, days=1) == ["a", "b"], "nothing is old yet"
    lasting.clone_turns([{"request_id": "c", "time": late}, {"request_id": "d", "time": ahead}])
    left = reopened(lasting, days=1)
    assert [name for name in left if len(name) == 1] == ["b", "d"]


def test_the_size_is_bounded(lasting: Place) -> None:
    """The newest are there, also if those of a wrong clock are in the file."""
    now, count = time.time(), 2000
    facts = [
        {"request_id": f"{n}", "time": now + 1e9 * (n < 1000) - count + n, "decisions": "x" * 400} for n in range(count)
    ]
    fill(lasting, facts)
    left = [int(name) for name in reopened(lasting, size=400_000) if len(name) < 5]
    assert 100 < len(left) < 1000
    assert left == [*range(count - len(left), count)]


# ── trouble ───────────────────────────────────────────────────────────────────────────────────────


def test_a_value_that_no_column_takes_costs_its_own_row_at_most(place: Place) -> None:
    def reply(seen: ReceivedRequest) -> Any:
        text = seen.json["messages"][0]["content"]
        return calling("a\0b", ev.Usage(input=2**80, output=1)) if text == "many" else answer(seen)

    odd = {2: {"text": "many"}, 3: {"model": "openai-chat/a\0b"}, 5: {"model": "openai-chat/\ud800"}}
    with place.open(reply) as running:
        ids = [turn(running, **odd.get(number, {})) for number in range(8)]
        good = {name for number, name in enumerate(ids) if number not in odd}
        until(lambda: good <= {*found(running)} and metric(running.url, "journal_waiting") == 0)
        assert {*found(running)} <= {*ids}
        assert metric(running.url, "journal_lost") == len(ids) - len(found(running))


@contextmanager
def locked(place: Place) -> Iterator[None]:
    with closing(sqlite3.connect(place.path("journal"), isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield
        other.execute("ROLLBACK")


@pytest.mark.parametrize("fault", [locked, lambda _: full_disk()], ids=["locked", "full"])
def test_rows_are_held_until_the_file_can_be_written(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, fault: Any
) -> None:
    place = Place("file", tmp_path)
    with place.open() as running:
        place.wait_for(turn(running))
        with fault(place):
            ids = [turn(running) for _ in range(12)]
            until(lambda: "rows are held back" in caplog.text)
            assert metric(running.url, "journal_waiting") == 12
        place.wait_for(*ids)
        until(lambda: "are written again" in caplog.text)
        assert metric(running.url, "journal_lost") == 0


def test_rows_that_could_not_be_written_at_the_end_are_counted_and_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    place = Place("file", tmp_path)
    with place.open() as running:
        place.wait_for(turn(running))
        lock = sqlite3.connect(place.path("journal"), isolation_level=None)
        lock.execute("BEGIN IMMEDIATE")
        for _ in range(3):
            turn(running)
    lock.close()
    assert "3 rows were not written and are lost" in caplog.text
    assert len(place.ids()) == 1


def test_a_file_that_is_taken_away_is_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    place = Place("file", tmp_path)
    with place.open() as running:
        place.wait_for(turn(running))
        place.path("journal").rename(tmp_path / "elsewhere.sqlite")

        def is_said() -> bool:
            turn(running)
            return "was moved, replaced or deleted while it is in use" in caplog.text

        until(is_said)
