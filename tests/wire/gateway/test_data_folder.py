"""Gateways, `penstock usage` and `sqlite3` on one data folder, with restarts and kills: every turn is in the journal."""

from __future__ import annotations

import json
import random
import signal
import sqlite3
import time
import urllib.request
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING

import httpx
import pytest

from tests.cli.command_runner import inside
from tests.support.process import gateway
from tests.wire.store.processes import READER, WRITER, deleted_files, holds_lock, integrity, needs_proc, run_python

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.process import Gateway

pytestmark = needs_proc
ASKED = b'{"model":"replay/text","input":"Hi."}'
CONFIG = "[serve]\npace = 0\n"
FILES = ("journal.sqlite", "state.sqlite")
PAUSE = 0.25  # seconds after its end in which a turn is in the journal: docs/gateway.md


def turn(base: str) -> str:
    """One short turn, to its end; gives its id. The answer is stored too."""
    asked = urllib.request.Request(f"{base}/v1/responses", ASKED, {"content-type": "application/json"})  # noqa: S310
    with urllib.request.urlopen(asked, timeout=30) as reply:  # noqa: S310 — a gateway on this machine
        reply.read()
        return str(reply.headers["x-request-id"])


def usage(data: Path) -> int:
    """The turns that `penstock usage` sees."""
    done = inside("usage", "--json", PENSTOCK_DATA=str(data))
    assert done.returncode == 0, done.stderr
    return int(json.loads(done.stdout)["total"].get("turns", 0))


def ids(data: Path) -> set[str]:
    with closing(sqlite3.connect(data / "journal.sqlite", timeout=30)) as opened:
        return {row[0] for row in opened.execute("SELECT request_id FROM turns")}


def check(running: Gateway, data: Path) -> None:
    assert deleted_files(running.process.pid) == []
    for name in FILES:
        assert holds_lock(running.process.pid, data / name)


def test_a_reader_beside_a_restarted_gateway_costs_no_row(tmp_path: Path) -> None:
    """The reproduction: two turns, a restart, one turn, a reader, three turns, kill -9."""
    data = tmp_path / "data"
    with gateway(tmp_path, CONFIG) as first:
        for _ in range(2):
            turn(first.base)
    with gateway(tmp_path, CONFIG) as second:
        turn(second.base)
        time.sleep(PAUSE)
        assert usage(data) == 3
        check(second, data)
        for _ in range(3):
            turn(second.base)
        time.sleep(PAUSE)
        assert usage(data) == 6
        check(second, data)
        second.stop(signal.SIGKILL)
    assert usage(data) == 6
    assert [integrity(data / name) for name in FILES] == ["ok", "ok"]


def test_two_gateways_share_what_they_keep(tmp_path: Path) -> None:
    """The second is what the extension starts beside one that runs already; it knows the responses of the first."""
    data = tmp_path / "data"
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    with (
        gateway(tmp_path / "one", CONFIG, PENSTOCK_DATA=str(data)) as one,
        gateway(tmp_path / "two", CONFIG, PENSTOCK_DATA=str(data)) as two,
    ):
        known = {turn(running.base) for _ in range(30) for running in (one, two)}
        first = httpx.post(f"{one.base}/v1/responses", json={"model": "replay/text", "input": "Hi."}, timeout=30).json()
        time.sleep(PAUSE)
        assert httpx.get(f"{two.base}/v1/responses/{first['id']}", timeout=30).json()["id"] == first["id"]
        check(one, data)
        check(two, data)
        assert known < ids(data)
        assert usage(data) == 61
    assert [integrity(data / name) for name in FILES] == ["ok", "ok"]
    assert not list(data.glob("*-wal"))


STEPS = ("turns", "turns", "turns", "restart", "kill", "usage", "read", "write")


def run_steps(tmp_path: Path, seed: int, count: int) -> None:
    """Two gateways on one folder. After a kill, turns that ended within the pause before it may be missing."""
    chance, data = random.Random(seed), tmp_path / "data"
    known: dict[str, float] = {}
    missing: set[str] = set()
    stacks = [ExitStack(), ExitStack()]
    running: list[Gateway] = []

    def start(place: int) -> Gateway:
        folder = tmp_path / f"gateway-{place}"
        folder.mkdir(exist_ok=True)
        return stacks[place].enter_context(gateway(folder, CONFIG, PENSTOCK_DATA=str(data)))

    try:
        running += [start(0), start(1)]
        for _ in range(count):
            step, place = chance.choice(STEPS), chance.randrange(2)
            if step == "turns":
                for _ in range(chance.randrange(1, 10)):
                    name = turn(running[place].base)
                    known[name] = time.monotonic()
                time.sleep(chance.choice([0, 0, PAUSE, 2 * PAUSE]))
            elif step in ("restart", "kill"):
                killed = time.monotonic()
                running[place].stop(signal.SIGKILL if step == "kill" else signal.SIGTERM)
                if step == "kill":
                    missing |= {name for name, ended in known.items() if ended > killed - PAUSE}
                stacks[place].close()
                running[place] = start(place)
            elif step == "usage":
                usage(data)
            else:
                assert run_python({"read": READER, "write": WRITER}[step], str(data)).returncode == 0
            for one in running:
                check(one, data)
    finally:
        for stack in stacks:
            stack.close()
    assert set(known) - ids(data) - missing == set()
    assert [integrity(data / name) for name in FILES] == ["ok", "ok"]


def test_gateways_in_any_order(tmp_path: Path) -> None:
    run_steps(tmp_path, 11, 9)


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(200, 215))
def test_gateways_in_any_order_at_length(tmp_path: Path, seed: int) -> None:
    run_steps(tmp_path, seed, 40)


def test_a_damaged_journal_is_named_with_the_fix(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    (data / "journal.sqlite").write_bytes(b"not a database at all " * 1000)
    done = inside("usage", PENSTOCK_DATA=str(data))
    assert done.returncode != 0
    assert b"journal.sqlite" in done.stderr
    assert b".recover" in done.stderr
    assert b"Traceback" not in done.stderr


def test_usage_leaves_a_file_that_is_no_journal_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "other.sqlite"
    with closing(sqlite3.connect(path)) as opened:
        opened.execute("CREATE TABLE mine (x)")
    done = inside("usage", "--journal", str(path), PENSTOCK_DATA=str(tmp_path))
    assert done.returncode != 0
    assert b"there is no journal in this file" in done.stderr
    with closing(sqlite3.connect(path)) as opened:
        assert [row[0] for row in opened.execute("SELECT name FROM sqlite_master")] == ["mine"]
