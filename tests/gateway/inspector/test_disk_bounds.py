"""The file of kept turns stays within its bounds of size and age, also if the clock jumps."""

from __future__ import annotations

import json
import random
import sqlite3
import time
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

from benchmarks.kept_search import make_turns
from penstock._store.kept_turns import FILE, KeptTurnRow, KeptTurnStore
from penstock._store.kept_turns_index import WORDS, TextPiece
from penstock._store.settled_clock import SETTLE

if TYPE_CHECKING:
    from pathlib import Path


def test_the_oldest_turns_make_room(tmp_path: Path) -> None:
    """The file with its WAL stays within its bound, also while it is written."""
    size, peak = 4 * 2**20, 0
    store = KeptTurnStore(tmp_path / FILE, size=size, age=3600.0)
    removed: list[Any] = []
    for number in range(60):
        batch = [_turn(number * 20 + place) for place in range(20)]
        removed += store.write_turns(batch)
        peak = max(peak, store.file_bytes)
    assert peak <= size
    left = store.count()
    assert 0 < left < 1_200
    assert {one.reason for one in removed} == {"disk-full"}
    assert store.find_turns("number1199", None)
    assert not store.find_turns("number1", None), "its words are gone, too"
    assert len(removed) == 1_200 - left
    store.close()


def _turn(number: int) -> KeptTurnRow:
    chosen = random.Random(number)
    words = " ".join(f"word{chosen.randrange(10_000)}" for _ in range(300))
    text = TextPiece(json.dumps({"role": "user", "content": f"number{number} {words}"}).encode())
    return KeptTurnRow(
        f"{number:032x}", "", time.time() + number / 1e4, chosen.randbytes(2_000), [[text, TextPiece(b"answer", WORDS)]]
    )


@pytest.mark.parametrize("count", [1_000, pytest.param(100_000, marks=pytest.mark.nightly)])
def test_many_turns_stay_within_the_bound(tmp_path: Path, count: int) -> None:
    """Conversations of agents: 100,000 turns fit into 256 MB, and the newest are found."""
    size = 256 * 2**20 * count // 100_000
    store, peak = KeptTurnStore(tmp_path / FILE, size=size, age=86_400.0), 0
    rows = make_turns(count)
    for place in range(0, count, 100):
        store.write_turns(rows[place : place + 100])
        peak = max(peak, store.file_bytes)
    assert peak <= size
    assert store.find_turns(f"turn{count - 1}", None) == {rows[-1].id}
    last = (count - 1) // 20 * 20
    assert len(store.find_turns(f"turn{last}", None)) == count - last, "all later turns of its conversation have it"
    store.close()


def test_old_turns_go(tmp_path: Path) -> None:
    now = [time.time()]
    store = KeptTurnStore(tmp_path / FILE, size=2**26, age=3600.0, clock=lambda: now[0])
    store.write_turns([_turn(1)])
    assert store.count() == 1
    now[0] += 3602
    assert store.trim() == [], "the clock may have jumped"
    now[0] += SETTLE
    assert store.trim() == [(_turn(1).id, "", "disk-age")]
    assert store.count() == 0
    store.close()


def test_a_clock_that_jumps_ahead_deletes_nothing(tmp_path: Path) -> None:
    """Unless it stays there: then nobody can tell that it is wrong."""
    now = [time.time()]
    right = now[0]

    def open_store() -> KeptTurnStore:
        return KeptTurnStore(tmp_path / FILE, size=2**26, age=3600.0, clock=lambda: now[0])

    store = open_store()
    store.write_turns([_timed(1, now[0])])
    for jump in (1e6, 1e9):
        now[0] = right + jump
        assert store.write_turns([_timed(2, now[0])]) == store.trim() == []
        store.close()
        store = open_store()  # a restart changes nothing
        now[0] += SETTLE - 1
        assert store.trim() == []
        now[0] = right
        assert store.trim() == []
    now[0] += SETTLE
    assert store.trim() == []
    now[0] += 3600
    store.trim()
    now[0] += SETTLE
    assert _turn(1).id in {one.id for one in store.trim()}
    store.close()


def test_turns_go_by_their_age_also_if_the_gateway_runs_for_minutes_only(tmp_path: Path) -> None:
    now, left = [time.time()], list[int]()
    for day in range(9):
        store = KeptTurnStore(tmp_path / FILE, size=2**26, age=5.5 * 86_400.0, clock=lambda: now[0])
        store.write_turns([_timed(day, now[0])])
        left = [int(one, 16) for one in store.list_turns(100)]
        store.close()
        now[0] += 86_400
    assert left == [8, 7, 6, 5, 4, 3, 2], "what was too old at the last start is gone"


def _timed(number: int, when: float) -> KeptTurnRow:
    return replace(_turn(number), time=when)


def test_a_clock_that_jumps_back_deletes_nothing(tmp_path: Path) -> None:
    """Also if it is right again later: only what was written meanwhile looks old."""
    now = [time.time()]
    store = KeptTurnStore(tmp_path / FILE, size=2**26, age=3600.0, clock=lambda: now[0])
    store.write_turns([_timed(1, now[0])])
    right, now[0] = now[0], 86_400.0  # a machine without a battery begins in 1970
    assert store.write_turns([_timed(2, now[0])]) == store.trim() == []
    now[0] = right
    assert store.trim() == []
    now[0] += SETTLE
    assert store.trim() == [(_turn(2).id, "", "disk-age")]
    assert store.holds(_turn(1).id)
    store.close()


def test_turns_from_the_future_are_not_kept_for_ever(tmp_path: Path) -> None:
    """They go with the turns that were written after the clock was set right."""
    now = [time.time()]
    store = KeptTurnStore(tmp_path / FILE, size=2**26, age=3600.0, clock=lambda: now[0])
    store.write_turns([_timed(1, now[0] + 1e9)])
    store.write_turns([_timed(2, now[0])])
    assert store.trim() == []
    now[0] += 3602
    assert store.trim() == []
    now[0] += SETTLE
    assert {one.id for one in store.trim()} == {_turn(1).id, _turn(2).id}
    store.close()


def test_turns_from_the_future_do_not_keep_others_out(tmp_path: Path) -> None:
    """Room is made by what was written first, not by what has the earliest time."""
    store = KeptTurnStore(tmp_path / FILE, size=4 * 2**20, age=3600.0)
    for number in range(60):
        ahead = 1e9 if number < 30 else 0.0
        store.write_turns([_timed(number * 20 + place, time.time() + ahead) for place in range(20)])
    assert store.holds(_turn(1_199).id)
    assert not store.holds(_turn(0).id)
    assert store.list_turns(1) == [_turn(1_199).id]
    store.close()


def test_a_file_of_another_version_is_emptied(tmp_path: Path) -> None:
    store = KeptTurnStore(tmp_path / FILE, size=2**26, age=3600.0)
    store.write_turns([_turn(1)])
    store.close()
    connection = sqlite3.connect(tmp_path / FILE)
    connection.execute("PRAGMA user_version=99")
    connection.close()
    again = KeptTurnStore(tmp_path / FILE, size=2**26, age=3600.0)
    assert again.count() == 0
    again.write_turns([_turn(2)])
    again.close()
