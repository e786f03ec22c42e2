"""The soak in miniature, and that its verdict can be a bad one."""

from __future__ import annotations

import argparse
import sqlite3
from typing import TYPE_CHECKING

import pytest

from benchmarks import soak
from benchmarks.soak_traffic import Tally

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.mark.parametrize("seconds", [8, pytest.param(20, marks=pytest.mark.nightly)])
def test_some_seconds_of_it(seconds: int, record_property: Callable[[str, object], None]) -> None:
    # So short a run is still filling its caches: memory is judged by the long one.
    found = soak.soak(argparse.Namespace(minutes=seconds / 60, streams=40, seed=14, limit=0.3))
    record_property("table", found.text())
    assert found.wrong == []
    assert found.reloads >= 3
    assert len(found.tally.finished) > 40
    assert found.tally.failed
    assert found.tally.left


def flat(memory: list[float]) -> soak.Verdict:
    samples = [soak.Sample(float(at), value, 100, 40) for at, value in enumerate(memory)]
    return soak.Verdict(
        samples=samples, idle=[soak.Sample(0.0, 40.0, 19, 1), soak.Sample(99.0, 60.0, 22, 1)], warm=10.0
    )


def test_memory_that_grows_after_the_warm_up_is_found() -> None:
    steady = flat([*range(10), *[60.0] * 100])
    steady.judge(0.05)
    assert steady.wrong == []
    growing = flat([60.0 + at / 10 for at in range(110)])
    growing.judge(0.05)
    assert [one for one in growing.wrong if one.startswith("memory went")]


def test_a_peak_of_memory_is_found() -> None:
    found = flat([*[60.0] * 50, 64.0, *[60.0] * 50])
    found.judge(0.05)
    assert found.wrong == ["memory was 64.0 once, more than 5% above 60.0"]


def test_descriptors_that_stay_are_found() -> None:
    leaking = flat([60.0] * 100)
    leaking.idle[1] = soak.Sample(99.0, 60.0, 80, 1)
    leaking.judge(0.05)
    assert leaking.wrong == ["80 descriptors after the load, 19 before it"]


def test_a_turn_that_is_not_in_the_journal_is_found(tmp_path: Path) -> None:
    file = tmp_path / "journal.sqlite"
    made = sqlite3.connect(file)
    made.execute("CREATE TABLE turns (request_id TEXT, status TEXT)")
    made.executemany("INSERT INTO turns VALUES (?, ?)", [("a", "finish"), ("b", "fault"), ("c", "finish")])
    made.commit()
    made.close()
    found = soak.Verdict(tally=Tally(finished={"a", "lost"}, failed={"b", "c"}))
    soak.check_journal(file, found)
    assert found.wrong == [
        "1 of 2 turns that finished are not in the journal",
        "1 of 2 turns that failed have another end in the journal",
    ]
