"""Turns on disk: by one switch, without secrets, read back byte for byte, within bounds; deleting and pausing."""

from __future__ import annotations

import json
import re
import sqlite3
import threading
import time
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from msgspec.structs import replace

from benchmarks.kept_search import make_turns
from penstock import events as ev
from penstock._gateway.config import FeaturesTable, JournalTable, Key
from penstock._gateway.config_tables import InspectorTable
from penstock._gateway.worker_metrics import WorkerMetrics
from penstock._inspector import turn_keeper
from penstock._store.journal_queries import JournalHistory
from penstock._store.kept_turns import FILE, KeptTurnRow, KeptTurnStore
from penstock._store.kept_turns_index import WORDS, TextPiece
from penstock._store.settled_clock import SETTLE
from penstock.testing import Reply
from tests.gateway.client_requests import ask, get, post
from tests.inspector.conftest import Inspected, inspected
from tests.inspector.event_feed import bearer, ended, watching

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.slow, pytest.mark.row("V1")]
KEEP = InspectorTable(keep=True)


def on_disk(tmp_path: Path, **more: Any) -> dict[str, Any]:
    """A gateway whose data folder outlives it."""
    journal = JournalTable(path=str(tmp_path / "journal.sqlite"))
    return {"inspector": KEEP, "data": tmp_path, "journal": journal, **more}


def trace_of(gateway: Inspected, name: str, key: str = "") -> Any:
    response = get(f"{gateway.url}/inspector/turns/{name}", headers=bearer(key) if key else {})
    assert response.status_code == 200, response.text
    return response.json()


def without_times(outputs: list[Any]) -> list[Any]:
    """The Responses API says when a response was completed: that is the time of the trace."""
    return [{**row, "data": re.sub(r'"completed_at":\d+', "", row["data"])} for row in outputs]


def change(gateway: Inspected, **fields: bool) -> httpx.Response:
    return post(f"{gateway.url}/inspector/keeping", json=fields)


def delete(url: str, key: str = "") -> httpx.Response:
    headers = bearer(key) if key else {}
    return httpx.delete(url, timeout=20, trust_env=False, headers=headers)


def written(gateway: Inspected) -> None:
    gateway.inspector.watch.disk.flush()


@pytest.mark.parametrize(
    "protocol", ["openai-chat", "anthropic", "responses", "gemini", "vscode", "uistream", "ollama"]
)
@pytest.mark.parametrize("model", ["openai-chat/tools", "anthropic/text", "replay/text"])
def test_a_turn_outlives_the_gateway(tmp_path: Path, protocol: str, model: str) -> None:
    """Its trace is the same as from memory, and its request byte for byte."""
    with inspected(**on_disk(tmp_path)) as gateway:
        name = ask(gateway.url, protocol, model).headers["x-request-id"]
        ended(gateway, name)
        before, capture = trace_of(gateway, name), gateway.inspector.watch.captures[name]
        request, attempts, headers = capture.request, capture.attempts, capture.client_headers
    assert (tmp_path / FILE).stat().st_mode & 0o777 == 0o600
    with inspected(**on_disk(tmp_path)) as again:
        after = trace_of(again, name)
        kept = again.inspector.watch.find_turn(name, None)
        assert kept is not None
        assert (kept.request, kept.attempts, kept.client_headers) == (request, attempts, headers)
        for part in ("frames", "events", "marks", "request", "consumer", "protocol", "title"):
            assert after[part] == before[part], part
        if protocol != "ollama":  # its lines say when they were written
            assert without_times(after["outputs"]) == without_times(before["outputs"])
        (row,) = get(f"{again.url}/inspector/turns").json()["rows"]
        assert row["held"] is True


def test_a_request_to_fill_in_the_middle_is_read_the_same_from_disk(tmp_path: Path) -> None:
    """Its request and its answer have different protocols."""
    with inspected(**on_disk(tmp_path)) as gateway:
        body = {"model": "mistral/codestral-latest", "prompt": "def f(", "suffix": "): pass"}
        name = post(f"{gateway.url}/v1/fim/completions", json=body).headers["x-request-id"]
        ended(gateway, name)
        before = get(f"{gateway.url}/inspector/turns/{name}/request").json()
        written(gateway)
        gateway.inspector.watch.clear()
        after = get(f"{gateway.url}/inspector/turns/{name}/request").json()
    assert before["canonical_error"] == ""
    assert (after["client"], after["canonical"]) == (before["client"], before["canonical"])


def test_nothing_is_written_unless_it_is_switched_on(tmp_path: Path) -> None:
    with inspected(**on_disk(tmp_path, inspector=InspectorTable())) as gateway:
        name = ask(gateway.url, "anthropic", "replay/text").headers["x-request-id"]
        ended(gateway, name)
        assert not (tmp_path / FILE).exists()
        state = change(gateway, disk=True).json()
        assert (state["disk"]["on"], state["may_switch"]) == (True, True)
        written(gateway)
        assert gateway.inspector.watch.disk.holds(name), "what is in memory is kept too"
        assert change(gateway, disk=False).json()["disk"]["on"] is False
        other = ask(gateway.url, "anthropic", "replay/text").headers["x-request-id"]
        ended(gateway, other)
        written(gateway)
        assert not gateway.inspector.watch.disk.holds(other)


def test_without_a_data_folder_it_cannot_be_switched_on() -> None:
    with inspected() as gateway:
        refused = change(gateway, disk=True)
        assert (refused.status_code, refused.json()["error"]["code"]) == (409, "no_data_folder")


def test_no_secret_reaches_the_file(tmp_path: Path) -> None:
    """In the request, the answer, the headers, the error of a provider, the words of the index."""
    looks, known, halves = "sk-planted0123456789abcdef", "very secret value", "spelled-in-two-halves"
    words = [f"here is {looks} ", f"and {known} ", halves[:9], halves[9:]]
    events: list[ev.AnyEvent] = [
        ev.Start(id="1", model="m"), ev.TextStart(0), *(ev.TextDelta(0, word) for word in words), ev.TextEnd(0),
        ev.Finish("stop"),
    ]  # fmt: skip
    env = {"MY_API_KEY": known, "OTHER_SECRET": halves}
    refused = Reply.body({"error": {"message": f"bad key {looks}"}}, status=401)
    replies = [Reply.of("openai-chat", events), refused]
    with inspected(*replies, env=env, **on_disk(tmp_path)) as gateway:
        body = {
            "model": "openai-chat/text",
            "stream": True,
            "messages": [{"role": "user", "content": f"{looks} {known} ok"}],
        }
        for _ in range(2):
            post(f"{gateway.url}/v1/chat/completions", json=body, headers={"x-api-key": looks, "x-custom": known})
        written(gateway)
        index = gateway.inspector.watch.text_index
        assert len(index.find_turns("ok", None)) == 2
        assert index.find_turns(known, None) == index.find_turns(halves, None) == set()
        texts = _all_texts(tmp_path / FILE)
    raw = b"".join(path.read_bytes() for path in tmp_path.glob(f"{FILE}*"))
    for secret in (looks, known, "sk-up-000000", halves):
        assert secret.encode() not in raw
        assert secret not in texts, secret
    assert "here is" in texts


def _all_texts(path: Path) -> str:
    """Everything that the file holds, decompressed."""
    import zlib

    connection = sqlite3.connect(path)
    found: list[bytes] = []
    for table in ("bodies", "texts"):
        found += [zlib.decompress(row[0]) for row in connection.execute(f"SELECT body FROM {table}")]  # noqa: S608
    found += [str(row).encode() for row in connection.execute("SELECT * FROM turns")]
    connection.close()
    return "\n".join(one.decode("latin-1") for one in found)


def test_a_conversation_takes_little_room(tmp_path: Path) -> None:
    """Agents send all of it with each request: each message is stored once."""
    with inspected(**on_disk(tmp_path)) as gateway:
        said: list[dict[str, str]] = []
        for number in range(12):
            said.append({"role": "user", "content": f"question {number} " + f"{number} " * 2_000})
            post(
                f"{gateway.url}/v1/chat/completions",
                json={"model": "openai-chat/text", "messages": said, "stream": True},
            )
        written(gateway)
        connection = sqlite3.connect(tmp_path / FILE)
        stored = connection.execute("SELECT count(*) FROM texts WHERE form = 1").fetchone()[0]
        connection.close()
        assert stored == 12
        found = gateway.inspector.watch.disk.find_turns("question 3", None)
        assert len(found) == 9


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
    import random

    chosen = random.Random(number)
    words = " ".join(f"word{chosen.randrange(10_000)}" for _ in range(300))
    text = TextPiece(json.dumps({"role": "user", "content": f"number{number} {words}"}).encode())
    return KeptTurnRow(
        f"{number:032x}", "", time.time() + number / 1e4, chosen.randbytes(2_000), [[text, TextPiece(b"answer", WORDS)]]
    )


@pytest.mark.parametrize("count", [1_000, pytest.param(100_000, marks=pytest.mark.exhaustive)])
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


def test_turns_that_could_not_be_written_say_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> Any:
        raise sqlite3.OperationalError("disk is full")

    with inspected(**on_disk(tmp_path)) as gateway:
        monkeypatch.setattr(KeptTurnStore, "write_turns", fail)
        name = ask(gateway.url, "anthropic", "replay/text").headers["x-request-id"]
        ended(gateway, name)
        written(gateway)
        state = get(f"{gateway.url}/inspector/keeping").json()
        assert "disk is full" in state["disk"]["problem"]
        assert trace_of(gateway, name)["frames"], "it is in memory"


def test_too_many_turns_at_once_are_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turn_keeper, "MAX_WAITING", 0)
    with inspected(**on_disk(tmp_path)) as gateway:
        name = ask(gateway.url, "anthropic", "replay/text").headers["x-request-id"]
        ended(gateway, name)
        watch = gateway.inspector.watch
        assert not watch.disk.holds(name)
        gateway.call(_drop(gateway, name))
        assert "too many turns came at once" in trace_of(gateway, name)["lost"]


async def _drop(gateway: Inspected, name: str) -> None:
    watch = gateway.inspector.watch
    watch.forget_capture(watch.captures[name], "memory")


def test_turns_that_wait_for_the_disk_count_in_the_bound_of_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write, writes, may_write = KeptTurnStore.write_turns, threading.Event(), threading.Event()

    def write_later(store: KeptTurnStore, rows: list[KeptTurnRow]) -> Any:
        writes.set()
        assert may_write.wait(20)
        return write(store, rows)

    monkeypatch.setattr(KeptTurnStore, "write_turns", write_later)
    with inspected(**on_disk(tmp_path)) as gateway:
        watch: Any = gateway.inspector.watch
        watch.max_size = 2**17
        body = {"model": "openai-chat/text", "messages": [{"role": "user", "content": "x" * 20_000}]}
        names: list[str] = []
        try:
            for _ in range(20):
                names.append(post(f"{gateway.url}/v1/chat/completions", json=body).headers["x-request-id"])
                ended(gateway, names[-1])
                assert writes.wait(20)
            waiting = list(watch.disk._keeper._waiting)
            assert len(waiting) == 19
            assert sum(one.size for one in waiting) <= watch.max_size
            assert sum(len(one.request) for one in waiting) <= watch.max_size
            assert watch.size == sum(one.size for one in watch.captures.values())
        finally:
            may_write.set()
        written(gateway)
        assert "too many turns came at once" in trace_of(gateway, names[1])["lost"]
        assert [watch.disk.holds(name) for name in (names[0], names[1], names[-1])] == [True, False, True]
        watch.clear()
        assert trace_of(gateway, names[0])["frames"], "it was written, and has left memory"


# ── turns of which nothing is remembered ──────────────────────────────────────────────────────────


def restart(gateway: Inspected) -> None:
    """Nothing is remembered, as after a restart. The file stays."""
    gateway.call(_forget_all(gateway))


async def _forget_all(gateway: Inspected) -> None:
    watch = gateway.inspector.watch
    watch.clear()
    watch.policy.started += 3600
    watch.policy.forgotten.clear()


def _forget_losses(folder: Path) -> None:
    """As the file does with the oldest of many."""
    if (folder / FILE).exists():
        connection = sqlite3.connect(folder / FILE)
        connection.execute("DELETE FROM losses")
        connection.commit()
        connection.close()


def add_workers(gateway: Inspected, folder: Path) -> None:
    """The gateway is one of several processes from now on."""
    WorkerMetrics(folder, 0, gateway.app.services.metrics)


@pytest.mark.parametrize("still_on", [True, False])
def test_after_a_restart_a_turn_says_that_it_may_have_been_on_disk(tmp_path: Path, still_on: bool) -> None:
    """If the file does not know: it was made by a version that did not remember reasons."""
    with inspected(**on_disk(tmp_path)) as gateway:
        name = ask(gateway.url, "anthropic", "replay/text").headers["x-request-id"]
        ended(gateway, name)
        written(gateway)
        assert delete(f"{gateway.url}/inspector/turns/{name}").status_code == 200
        gateway.inspector.watch.close_files()
    connection = sqlite3.connect(tmp_path / FILE)
    for table in ("losses", "marks"):
        connection.execute(f"DROP TABLE {table}")
    connection.close()
    with inspected(**on_disk(tmp_path, inspector=InspectorTable(keep=still_on))) as again:
        lost = trace_of(again, name)["lost"]
        assert "it was in memory only, or it was deleted, or newer turns took its place on disk" in lost


@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize(("keep", "advice"), [(False, "or keep turns on disk"), (True, "took its place on disk")])
def test_one_of_several_workers_says_that_another_may_have_a_turn(
    tmp_path: Path, keep: bool, advice: str, restarted: bool
) -> None:
    with inspected(**on_disk(tmp_path, inspector=InspectorTable(keep=keep))) as gateway:
        name = ask(gateway.url, "anthropic", "replay/text").headers["x-request-id"]
        ended(gateway, name)
        assert delete(f"{gateway.url}/inspector/turns/{name}").status_code == 200
        _forget_losses(tmp_path)
        gateway.inspector.watch.policy.forgotten.clear()
        if restarted:
            restart(gateway)
        add_workers(gateway, tmp_path / "workers")
        lost = trace_of(gateway, name)["lost"]
        assert "another worker of this gateway may have it in memory (open it again" in lost
        assert advice in lost
        assert "in memory (32 MB)" not in lost


# ── deleting and pausing ──────────────────────────────────────────────────────────────────────────


def test_deleted_text_leaves_memory_index_and_file(tmp_path: Path) -> None:
    with inspected(**on_disk(tmp_path)) as gateway, watching(gateway.url) as reader:
        names: list[str] = []
        for word in ("xylophone", "marimba"):
            body = {"model": "openai-chat/text", "messages": [{"role": "user", "content": f"play the {word}"}]}
            names.append(post(f"{gateway.url}/v1/chat/completions", json=body).headers["x-request-id"])
            ended(gateway, names[-1])
        written(gateway)
        index = gateway.inspector.watch.text_index
        assert index.find_turns("xylophone", None) == {names[0]}
        reader.until(lambda: set(names) <= set(reader.rows))
        assert delete(f"{gateway.url}/inspector/turns/{names[0]}").json() == {"deleted": 1}
        assert delete(f"{gateway.url}/inspector/turns/{names[0]}").status_code == 404
        assert index.find_turns("xylophone", None) == set()
        assert index.find_turns("marimba", None) == {names[1]}
        assert "it was deleted on the inspector's page" in trace_of(gateway, names[0])["lost"]
        reader.until(lambda: names[0] in str(reader.named("removed")))
        raw = b"".join(path.read_bytes() for path in tmp_path.glob(f"{FILE}*"))
        assert b"xylophone" not in raw
        assert delete(f"{gateway.url}/inspector/turns").json() == {"deleted": 1}
        assert gateway.inspector.watch.disk.describe(None)["turns"] == 0


def test_one_of_several_workers_does_not_switch(tmp_path: Path) -> None:
    with inspected(**on_disk(tmp_path)) as gateway:
        add_workers(gateway, tmp_path / "workers")
        refused = change(gateway, paused=True)
        assert (refused.status_code, refused.json()["error"]["code"]) == (409, "several_processes")
        assert get(f"{gateway.url}/inspector/keeping").json()["may_switch"] is False


def test_paused_turns_are_not_kept_and_say_so() -> None:
    with inspected() as gateway:
        assert change(gateway, paused=True).json()["paused"] is True
        name = ask(gateway.url, "anthropic", "replay/text").headers["x-request-id"]
        assert "keeping was paused when it began" in trace_of(gateway, name)["lost"]
        assert change(gateway, paused=False).json()["paused"] is False
        other = ask(gateway.url, "anthropic", "replay/text").headers["x-request-id"]
        ended(gateway, other)
        assert trace_of(gateway, other)["frames"]


def test_a_key_deletes_its_own_turns_and_switches_nothing(tmp_path: Path) -> None:
    first, second, owner = "pk-penstock-first", "pk-penstock-second", "pk-penstock-owner"
    keys = {
        "first": Key(env="FIRST", inspect_keep=True),
        "second": Key(env="SECOND", inspect_keep=True),
        "owner": Key(env="OWNER", inspect="all"),
    }
    env = {"FIRST": first, "SECOND": second, "OWNER": owner}
    with inspected(**on_disk(tmp_path, env=env, keys=keys)) as gateway:
        names = {
            key: ask(gateway.url, "openai-chat", "openai-chat/text", headers=bearer(key)).headers["x-request-id"]
            for key in (first, second)
        }
        for name in names.values():
            ended(gateway, name)
        written(gateway)
        place = f"{gateway.url}/inspector"
        assert delete(f"{place}/turns/{names[second]}", first).status_code == 404
        assert delete(f"{place}/turns", first).json() == {"deleted": 1}
        assert trace_of(gateway, names[second], second)["frames"]
        assert gateway.inspector.watch.disk.holds(names[second])
        assert post(f"{place}/keeping", json={"disk": False}, headers=bearer(first)).status_code == 403
        assert post(f"{place}/keeping", json={"disk": False}, headers=bearer(owner)).status_code == 200
        state = get(f"{place}/keeping", headers=bearer(first)).json()
        assert (state["memory"]["turns"], state["disk"]["turns"], state["may_switch"]) == (0, 0, False)


def test_an_estimate_that_came_later_is_in_a_turn_from_disk(tmp_path: Path) -> None:
    with inspected(**on_disk(tmp_path, features=FeaturesTable(estimates=False))) as gateway:
        name = ask(gateway.url, "openai-chat", "openai-chat/text").headers["x-request-id"]
        ended(gateway, name)
        written(gateway)
        services, watch = gateway.app.services, gateway.inspector.watch
        assert trace_of(gateway, name)["row"].get("estimate") is None
        entry = watch.captures[name].entry
        assert entry is not None
        services.journal.flush()
        JournalHistory(services.journal.rows).add_estimate(
            replace(entry, estimate=100, low=90, high=110, method="estimated")
        )
        watch.clear()
        row = trace_of(gateway, name)["row"]
        assert (row["estimate"], row["low"], row["high"], row["method"]) == (100, 90, 110, "estimated")
