"""The journal: what is noted is there, across restarts and signals; bounded; and nothing of what was said is in it."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal

import httpx
import pytest
from msgspec.structs import replace

from penstock._gateway.journal import Journal
from penstock._gateway.telemetry import Telemetry
from penstock._store.journal import TRIM_INTERVAL, JournalEntry, JournalStore
from penstock._store.journal_queries import JournalHistory
from penstock._store.limit_store import LimitRule
from penstock._store.sqlite import IN_MEMORY, connect
from penstock.gateway import GatewayConfig
from tests.support.loopback_server import START_LIMIT

if TYPE_CHECKING:
    from pathlib import Path

NOW = time.time()


def row(**more: Any) -> JournalEntry:
    given: dict[str, Any] = {"time": NOW, "key": "k", "provider": "openai", "model": "m", "finish": "stop"}
    given |= {"input": 10, "output": 5, "cost": 0.5, "ttft": 0.1, "duration": 1.0, **more}
    return JournalEntry(**given)


def rows_of(journal: Journal) -> JournalStore:
    assert isinstance(journal.rows, JournalStore)
    journal.flush()
    return journal.rows


def open_in(folder: Path | None, **table: Any) -> Journal:
    return Journal.open(GatewayConfig(journal={**table}, data=folder))


def test_a_row_comes_back_as_it_was(tmp_path: Path) -> None:
    full = row(stream=True, tee=True, exact=False, reasoning=3, decisions="a\nb", fault="", tries=2, bytes_out=9)
    journal = open_in(tmp_path)
    journal.write_row(full)
    journal.write_row(row(input=None, cost=None, ttft=None))
    found = [turn for _, turn in rows_of(journal).turns()]
    journal.close()
    assert found == [row(input=None, cost=None, ttft=None), full]
    again = open_in(tmp_path)
    assert [turn for _, turn in rows_of(again).turns()] == found
    again.close()


def test_questions() -> None:
    journal = open_in(None)
    for number in range(10):
        journal.write_row(
            row(time=NOW - number * 60, model=f"m{number % 2}", status="fault" if number == 3 else "finish")
        )
    journal.write_row(row(key="other", input=None, output=None, cost=None, ttft=None))
    journal.write_row(row(cost=None))
    rows = rows_of(journal)
    total = rows.total()
    assert (total.turns, total.faults, total.input, total.tokens, total.cost, total.unpriced) == (
        12,
        1,
        110,
        165,
        5.0,
        1,
    )
    assert rows.total(since=NOW - 150).turns == 5
    assert rows.total(until=NOW - 150, model="m1").turns == 4
    assert [(one.name, one.turns) for one in rows.by("model")] == [("m0", 5), ("m1", 5), ("m", 2)]
    assert rows.by("key", key="nobody") == []
    assert sum(one.turns for one in rows.slices(60.0, since=NOW - 3600)) == 12
    assert rows.total(key="nobody").ttft is None
    first = rows.turns(limit=5)
    assert [number for number, _ in first] == [12, 11, 10, 9, 8]
    assert [number for number, _ in rows.turns(limit=2, before=8)] == [7, 6]
    unknown: dict[str, Any] = {"1=1": "x"}
    with pytest.raises(ValueError, match="1=1"):
        rows.by("1=1")
    with pytest.raises(ValueError, match="1=1"):
        rows.total(**unknown)
    journal.close()


def test_old_rows_go(tmp_path: Path) -> None:
    journal = open_in(tmp_path, days=1.0)
    for age in (0, 3600, 90_000):
        journal.write_row(row(time=NOW - age))
    journal.close()
    again = open_in(tmp_path, days=1.0)
    assert rows_of(again).total().turns == 2
    again.close()


def test_the_file_does_not_grow_for_ever(tmp_path: Path) -> None:
    most = 400_000
    journal = open_in(tmp_path, size=most)
    for number in range(4000):
        journal.write_row(row(time=NOW + number, decisions="x" * 400))
    journal.close()
    assert (tmp_path / "journal.sqlite").stat().st_size < most + TRIM_INTERVAL * 800
    again = open_in(tmp_path, size=most)
    times = [turn.time for _, turn in rows_of(again).turns(limit=5000)]
    again.close()
    assert times[0] == NOW + 3999  # the newest are there
    assert 100 < len(times) < 1500
    assert times == sorted(times, reverse=True)


def test_a_journal_of_an_older_version_is_given_what_it_lacks(tmp_path: Path) -> None:
    old = connect(tmp_path / "journal.sqlite")
    old.execute("CREATE TABLE turns (id INTEGER PRIMARY KEY, time REAL NOT NULL, key TEXT, status TEXT, future TEXT)")
    old.execute("INSERT INTO turns (time, key, status) VALUES (?, 'old', 'finish')", (NOW,))
    old.close()
    journal = open_in(tmp_path)
    journal.write_row(row())
    assert [turn.key for _, turn in rows_of(journal).turns()] == ["k", "old"]
    estimated = replace(row(), estimate=9, low=8, high=11, method="hybrid", factor=1.1)
    JournalHistory(rows_of(journal)).add_estimate(estimated)
    journal.flush()
    assert [turn.method for _, turn in rows_of(journal).turns()] == ["hybrid", ""]
    journal.close()


def test_what_others_say_is_cleaned_and_cut() -> None:
    journal = Journal(JournalStore(IN_MEMORY, time.time, age=1e9, size=10**9), lambda: ["hunter2-planted"])
    journal.write_row(
        row(fault_message="no sk-planted0123456789, no hunter2-planted " + "x" * 5000, client="Bearer abcdefgh12")
    )
    [(_, found)] = rows_of(journal).turns()
    journal.close()
    assert found.fault_message.startswith("no [secret], no [secret]")
    assert len(found.fault_message) <= 500
    assert found.client == "Bearer [secret]"


def test_off_and_memory_leave_no_file(tmp_path: Path) -> None:
    off = open_in(tmp_path, path="off")
    off.write_row(row())
    off.close()
    memory = open_in(tmp_path, path="memory")
    memory.write_row(row())
    assert rows_of(memory).total().turns == 1
    memory.close()
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written_is_said_and_done_without(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    taken = tmp_path / "file"
    taken.write_text("")
    journal = open_in(taken)
    journal.write_row(row())
    assert rows_of(journal).total().turns == 1
    journal.close()
    assert "kept in memory only" in caplog.text
    with pytest.raises(OSError, match="file"):
        open_in(tmp_path, path=str(taken / "x.sqlite"))


KINDS: tuple[Literal["requests"], Literal["tokens"], Literal["cost"]] = ("requests", "tokens", "cost")


def members(team: str) -> list[str]:
    return ["k", "x"] if team == "t" else []


def test_a_restart_forgives_no_daily_limit(tmp_path: Path) -> None:
    config = GatewayConfig(data=tmp_path)
    first = Telemetry(config, {})
    first.journal.write_row(row())
    first.journal.write_row(row(status="refused"))
    first.journal.write_row(row(time=NOW - 86_400))
    first.close()
    second = Telemetry(config, {})
    past = {
        (scope, kind): sum(amount for _, amount in second.read_past_usage(LimitRule(scope, kind, 86_400, 1), members))
        for scope in ("org", "team:t", "key:k", "key:other")
        for kind in KINDS
    }
    total = second.read_past_usage(LimitRule("key:k", "requests", 0, 1), members)
    second.close()
    used = {"requests": 1, "tokens": 30, "cost": 1_000_000}
    assert past == {(scope, kind): used[kind] for scope in ("org", "team:t", "key:k") for kind in KINDS} | {
        ("key:other", kind): 0 for kind in KINDS
    }
    assert [amount for _, amount in total] == [2]


# ── a real process ────────────────────────────────────────────────────────────────────────────────


@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGTERM to catch there")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_no_row_is_lost_to_a_signal(tmp_path: Path, number: signal.Signals) -> None:
    """Turns that have just ended, and one that is still streaming when the signal comes."""
    import os

    config = tmp_path / "penstock.toml"
    config.write_text("[serve]\ndrain = 1.0\npace = 0.2\n")
    command = [sys.executable, "-m", "penstock", "serve", "--port", "0", "--config", str(config)]
    env = {**os.environ, "PENSTOCK_DATA": str(tmp_path)}
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=env)
    assert process.stderr is not None
    base = process.stderr.readline().split()[-1]
    try:
        _ask(process, number, base)
    finally:
        process.kill()
        process.wait(START_LIMIT)
        process.stderr.close()
    rows = JournalStore(tmp_path / "journal.sqlite", time.time, read_only=True)
    turns = [turn for _, turn in rows.turns()]
    rows.close()
    assert sorted(turn.route for turn in turns) == ["/v1/messages"] * 21
    assert [turn.model for turn in turns if turn.model] == ["reasoning"]
    assert b"hidden words" not in (tmp_path / "journal.sqlite").read_bytes()


def _ask(process: subprocess.Popen[str], number: signal.Signals, base: str) -> None:
    asked = {"model": "replay/reasoning", "max_tokens": 9, "messages": [{"role": "user", "content": "hidden words"}]}
    with (
        httpx.Client(timeout=30) as client,
        client.stream("POST", f"{base}/v1/messages", json={**asked, "stream": True}) as stream,
    ):
        chunks = stream.iter_bytes()
        next(chunks)
        for _ in range(20):
            client.post(f"{base}/v1/messages", json=[])  # a turn that is refused
        process.send_signal(number)
        with suppress(httpx.TransportError):  # it is not given the time to end
            for _ in chunks:
                pass
    process.wait(START_LIMIT)
