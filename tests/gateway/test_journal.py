"""The journal: what is noted is there, across restarts and signals; bounded; and nothing of what was said is in it.

Its tables, in every database: tests/wire/store/test_journal.py.
"""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing, suppress
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from penstock import events as ev
from penstock.testing import Reply, scripted
from tests.support.asgi_gateway import AsgiGateway
from tests.support.budget_requests import BOSS, auth, chat, key, reply_to
from tests.support.loopback_server import START_LIMIT

if TYPE_CHECKING:
    from pathlib import Path

    from penstock.testing import ReceivedRequest

CHAT = "/v1/chat/completions"
LOCAL: dict[str, Any] = {"model": "replay/text", "messages": [{"role": "user", "content": "Hi"}]}


def kept(folder: Path, path: str = "", **tables: Any) -> AsgiGateway:
    """A gateway whose journal is in this folder, or elsewhere."""
    return AsgiGateway(data=folder, journal={"path": path}, features={"estimates": False}, **tables)


def test_rows_come_back_as_they_were_and_old_ones_go(tmp_path: Path) -> None:
    with kept(tmp_path) as made:
        for body in (LOCAL, {**LOCAL, "stream": True}, {}, {**LOCAL, "model": "nobody/m"}):
            made.ask(CHAT, body)
        before = made.rows()
    assert len(before) == 4
    with kept(tmp_path) as again:
        assert again.rows() == before
    with closing(sqlite3.connect(tmp_path / "journal.sqlite", isolation_level=None)) as rows:
        rows.execute("UPDATE turns SET time = ? WHERE id <= 2", (time.time() - 90_000,))
    with AsgiGateway(data=tmp_path, journal={"path": "", "days": 1.0}) as later:
        later.ask(CHAT, LOCAL)
        assert later.rows()[1:] == before[:2]


def test_a_journal_of_an_older_version_is_given_what_it_lacks(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "journal.sqlite", isolation_level=None)) as old:
        old.execute(
            "CREATE TABLE turns (id INTEGER PRIMARY KEY, time REAL NOT NULL, key TEXT, status TEXT, future TEXT)"
        )
        old.execute("INSERT INTO turns (time, key, status) VALUES (?, 'old', 'finish')", (time.time(),))
    with AsgiGateway(data=tmp_path, journal={"path": ""}) as made:
        assert made.status(CHAT, LOCAL) == 200
        assert made.status("/v1/messages/count_tokens", LOCAL) == 200
        found = made.rows()
    assert [row.key for row in found] == ["anonymous", "anonymous", "old"]
    assert (found[0].operation, found[0].method != "", found[2].method) == ("count", True, "")


def test_what_others_say_is_cleaned_and_cut() -> None:
    said = "no sk-planted0123456789, no hunter2-planted " + "x" * 5000
    with scripted(Reply.error("openai-chat", 400, said)) as up:
        lab = {"base_url": f"{up.url}/v1", "key": "hunter2-planted"}
        with AsgiGateway(providers={"lab": lab}) as made:
            made.ask(CHAT, {**LOCAL, "model": "lab/m"}, user_agent="Bearer abcdefgh12")
            (found,) = made.rows()
    assert found.fault_message.startswith("no [secret], no [secret]")
    assert len(found.fault_message) <= 500
    assert "abcdefgh12" not in repr(found)


def test_off_and_memory_leave_no_file(tmp_path: Path) -> None:
    for path in ("off", "memory"):
        with kept(tmp_path, path) as made:
            assert made.status(CHAT, LOCAL) == 200
            assert path == "off" or len(made.rows()) == 1
    assert not list(tmp_path.glob("journal*"))


def test_a_file_that_cannot_be_written_is_said_and_done_without(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "journal.sqlite").mkdir()
    with kept(tmp_path) as made:
        assert made.status(CHAT, LOCAL) == 200
        assert len(made.rows()) == 1
    assert "kept in memory only" in caplog.text
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="file"):
        kept(tmp_path, str(tmp_path / "file" / "x.sqlite"))


def test_a_restart_forgives_no_limit(tmp_path: Path) -> None:
    """A day's has what is not older; that in total has all; what was refused costs nothing."""
    limits = {f"day_{kind}": 10**6 for kind in ("requests", "tokens", "cost")} | {"total_requests": 10**6}

    def answer(seen: ReceivedRequest) -> Reply:
        return reply_to(seen, ev.Usage(input=10, output=5))

    with scripted(answer) as up:
        tables: dict[str, Any] = {
            "keys": BOSS | key("k", team="t", limits=limits) | key("x", team="t") | key("other", limits=limits),
            "teams": {"t": {"limits": limits}}, "organisation": {"limits": limits},
            "providers": {"openai-chat": {"like": "openai-compatible", "base_url": up.url, "key": "sk-up-000000"}},
            "prices": {"models": {"openai-chat/*": {"input": 10_000, "output": 20_000}}},
        }  # fmt: skip
        with kept(tmp_path, **tables) as made:
            for name in "kkk":
                assert made.status(CHAT, chat(), **auth(name)) == 200
            assert made.status(CHAT, {}, **auth("k")) == 400
        with closing(sqlite3.connect(tmp_path / "journal.sqlite", isolation_level=None)) as rows:
            rows.execute("UPDATE turns SET time = time - 86500 WHERE id = 1")
        with kept(tmp_path, **tables) as made:
            shown = made.ask("/admin/limits", **auth("boss")).json()["data"]
    used = {
        f"{row['scope']}:{row['name']}": {f"{one['kind']} {one['window']}": one["used"] for one in row["limits"]}
        for row in shown
    }
    spent = {"requests 86400": 2, "tokens 86400": 30, "cost 86400": pytest.approx(0.4), "requests 0": 3}
    assert used.pop("key:other") == dict.fromkeys(spent, 0)
    assert used == dict.fromkeys(("organisation:", "team:t", "key:k"), spent)


# ── a real process ────────────────────────────────────────────────────────────────────────────────


@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGTERM to catch there")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_no_row_is_lost_to_a_signal(tmp_path: Path, number: signal.Signals) -> None:
    """Turns that have just ended, and one that is still streaming when the signal comes."""
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
    with closing(sqlite3.connect(tmp_path / "journal.sqlite")) as journal:
        turns = journal.execute("SELECT route, model FROM turns").fetchall()
    assert sorted(route for route, _ in turns) == ["/v1/messages"] * 21
    assert [model for _, model in turns if model] == ["reasoning"]
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
