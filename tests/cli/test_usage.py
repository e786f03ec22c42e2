"""`penstock usage`: sums, groups, a plot and the last turns, from a journal made here."""

from __future__ import annotations

import json
import re
import sys
import time
from typing import TYPE_CHECKING

import pytest
from rich.cells import cell_len

from tests.cli.command_runner import inside
from tests.support.journal_history import write_turns

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def journal(tmp_path: Path) -> str:
    """A journal with a turn every ten minutes, the newest of now."""
    path, now = tmp_path / "journal.sqlite", time.time()
    write_turns(path, (
        {
            "time": now - number * 600, "key": "ci" if number % 3 else "laptop", "provider": "openai",
            "model": f"gpt-{number % 2}", "input": 1000 * number, "output": 50, "cached": 100,
            "cost": 0.01 if number % 2 else None, "ttft": 0.25, "duration": 1.5,
            "status": "fault" if number == 7 else "finish", "fault": "overloaded" if number == 7 else "",
            "finish": "" if number == 7 else "stop", "client": "a\nb\tc\r\x1b[31mred\u202e",
        }
        for number in reversed(range(30))
    ))  # fmt: skip
    return str(path)


def usage(journal: str, *words: str) -> str:
    done = inside("usage", "--journal", journal, *words, COLUMNS="100")
    assert done.returncode == 0, done.stderr
    return done.stdout.decode()


def test_the_whole_picture(journal: str) -> None:
    said = usage(journal)
    assert said.startswith(
        "30 turns in the last 24h, 1 broken off\n435,000 tokens in (1% cached), 1,500 out, $0.1500+ (15 turns have no price)\n"
    )
    assert [line.split()[:2] for line in said.splitlines()[4:6]] == [["gpt-0", "15"], ["gpt-1", "15"]]
    assert "tokens by 1h" in said
    assert "█" in said


def test_filters_and_groups(journal: str) -> None:
    assert usage(journal, "--since", "30m").startswith("3 turns")
    assert usage(journal, "--key", "laptop").startswith("10 turns")
    assert "overloaded" in usage(journal, "--by", "fault", "--plot", "cost")
    assert usage(journal, "--model", "nothing").strip() == "0 turns in the last 24h"


def test_json_is_the_same(journal: str) -> None:
    said = json.loads(usage(journal, "--json", "--by", "key"))
    assert said["total"]["turns"] == 30
    assert [(row["name"], row["turns"]) for row in said["key"]] == [("ci", 20), ("laptop", 10)]
    assert sum(row["turns"] for row in said["slices"]) == 30


def test_the_last_turns(journal: str) -> None:
    lines = usage(journal, "--last", "8").splitlines()
    assert len(lines) == 8
    assert lines[0].split("  ")[1:4] == ["laptop", "openai/gpt-0", "0→50"]
    assert lines[7].endswith("fault:overloaded")
    assert json.loads(usage(journal, "--last", "1", "--json"))["model"] == "gpt-0"


def test_what_a_client_called_itself_is_not_obeyed(journal: str) -> None:
    assert "a⏎b⇥c␍\ufffd[31mred\ufffd" in usage(journal, "--by", "client", "--no-color")


def test_no_journal_is_one_line(tmp_path: Path) -> None:
    done = inside("usage", PENSTOCK_DATA=str(tmp_path))
    assert done.returncode == 2
    assert "there is no journal yet" in done.stderr.decode()
    assert not (tmp_path / "journal.sqlite").exists()


def test_times(journal: str) -> None:
    turns = {"90m": 9, "2w": 30, "2026-01-01": 30, "2099-01-01": 0}
    found = {since: int(usage(journal, "--since", since).split()[0]) for since in turns}
    assert found == turns
    done = inside("usage", "--journal", journal, "--since", "yesterday")
    assert (done.returncode, b"expected a time such as 24h" in done.stderr) == (2, True)


def test_bars_are_as_long_as_their_figures(journal: str) -> None:
    lines = usage(journal, "--plot", "turns", "--no-color").splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith("from "))
    rows = [(int(line.split()[1]), line.count("█")) for line in lines[start + 1 :]]
    assert max(rows) == (max(turns for turns, _ in rows), max(length for _, length in rows))
    assert all(length > 0 for turns, length in rows if turns)
    assert all(length == 0 for turns, length in rows if not turns)


def test_what_is_no_turn_is_named_beside_them(tmp_path: Path) -> None:
    path, now = tmp_path / "journal.sqlite", time.time()
    chat, embed = {"time": now - 9, "model": "gpt"}, {"time": now - 9, "model": "embed", "operation": "embeddings"}
    write_turns(path, [
        {**chat, "operation": "chat", "input": 5, "output": 5},
        *[{**embed, "input": 100, "cost": 0.5}] * 2,
        {**chat, "operation": "count", "estimate": 5, "times": 40},
        {"time": now - 9, "status": "refused", "http": 401, "fault": "auth", "times": 1000},
    ])  # fmt: skip
    said = usage(str(path), "--no-color")
    assert said.startswith("1,001 turns, 40 counts, 2 embeddings in the last 24h, 1,000 refused\n205 tokens in, 5 out")
    table = [line.split()[:2] for line in said.splitlines()[4:7]]
    assert table == [["-", "1,000"], ["embed", "2"], ["gpt", "1"]], "a count is no turn of its model's"
    by = usage(str(path), "--by", "operation", "--no-color")
    assert ["count", "40"] in [line.split()[:2] for line in by.splitlines()]
    assert usage(str(path), "--operation", "count").startswith("0 turns, 40 counts in the last 24h")
    assert any(line.endswith("refused:auth, 1000 times") for line in usage(str(path), "--last", "9").splitlines())
    assert json.loads(usage(str(path), "--json"))["beside"] == {"count": 40, "embeddings": 2}


def test_in_a_narrow_terminal_only_names_are_cut(tmp_path: Path) -> None:
    """Nothing wraps, and the figures stay. Wide characters count twice."""
    path = tmp_path / "journal.sqlite"
    models = ("潮汐表" * 9, "harbour-" * 6)
    write_turns(path, ({"model": model, "input": 1_234_567, "output": 7, "cost": 0.5} for model in models))
    for width in ("58", "64"):
        done = inside("usage", "--journal", str(path), COLUMNS=width)
        lines = done.stdout.decode().splitlines()
        rows = [line for line in lines if "…" in line]
        assert len(rows) == 2, lines
        assert all("1.23M" in line for line in rows)
        assert max(cell_len(line) for line in lines[3:]) <= int(width)


def test_without_rich_the_same_cells_are_plain_lines(journal: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rich = usage(journal, "--no-color")
    monkeypatch.setitem(sys.modules, "rich.console", None)
    without_bars = re.sub(r"[▏▎▍▌▋▊▉█]", " ", rich)
    assert [line.split() for line in usage(journal).splitlines()] == [
        line.split() for line in without_bars.splitlines()
    ]
