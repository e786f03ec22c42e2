"""The file of kept turns: its switch, its bounds of size and age, wrong clocks, faults, damage, worker processes."""

from __future__ import annotations

import os
import secrets
import signal
import sqlite3
import sys
import threading
import time
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from penstock.testing import RecordingHeader, Reply, write_recording
from tests.support.event_feed import Reader, watching
from tests.support.inspector import Inspected, inspected
from tests.support.inspector_bounds import bounds, set_clock
from tests.support.inspector_calls import (
    CLIENT,
    ask_inspector,
    delete,
    found,
    lost,
    phrase,
    say,
    send,
    switch,
    trace_of,
    until,
    view,
)
from tests.support.kept_on_disk import FILE, damage_first_turn, full_disk, kept_bytes, locked, on_disk, workers, written
from tests.support.paused_upstream import TEXT
from tests.support.process import gateway as serve
from tests.support.process import only, wait_for, worker_ids
from tests.wire.gateway.test_workers import BODY, CHAT

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from pathlib import Path

NOBODY = 65_534
DAY = 86_400.0
SETTLE = 600.0  # seconds until a clock that has jumped counts


def has_content(gateway: Inspected, *names: str) -> list[bool]:
    return [bool(trace_of(gateway, name)["frames"]) for name in names]


def disk(gateway: Inspected) -> dict[str, Any]:
    return dict(view(gateway, "keeping")["disk"])


# ── the switch ────────────────────────────────────────────────────────────────────────────────────


def test_nothing_is_written_unless_it_is_switched_on(tmp_path: Path) -> None:
    with inspected(**on_disk(tmp_path, inspector={})) as gateway:
        name = say(gateway)
        assert not (tmp_path / FILE).exists()
        state = switch(gateway, disk=True).json()
        assert (state["disk"]["on"], state["may_switch"]) == (True, True)
        written(gateway)
        assert switch(gateway, disk=False).json()["disk"]["on"] is False
        other = say(gateway)
    with inspected(**on_disk(tmp_path)) as again:
        assert has_content(again, name, other) == [True, False], "what was in memory is kept too"


def test_without_a_data_folder_it_cannot_be_switched_on(gateway: Inspected) -> None:
    refused = switch(gateway, disk=True)
    assert (refused.status_code, refused.json()["error"]["code"]) == (409, "no_data_folder")


def test_a_request_to_fill_in_the_middle_is_read_the_same_from_disk(tmp_path: Path) -> None:
    """Its request and its answer have different protocols."""
    body = b'{"model": "mistral/codestral-latest", "prompt": "def f(", "suffix": "): pass"}'
    with inspected(**on_disk(tmp_path)) as gateway:
        name = send(gateway, "/v1/fim/completions", body)
        before = view(gateway, f"turns/{name}/request")
    with inspected(**on_disk(tmp_path)) as again:
        after = view(again, f"turns/{name}/request")
    assert before["canonical_error"] == ""
    assert (after["client"], after["canonical"]) == (before["client"], before["canonical"])


def test_an_estimate_that_came_later_is_in_a_turn_from_disk(tmp_path: Path) -> None:
    with inspected(Reply.of("openai-chat", TEXT), **on_disk(tmp_path)) as gateway, watching(gateway.url) as reader:
        name = say(gateway)
        row = reader.until(lambda: next((row for row in reader.latest.values() if row["estimate"]), None))
        assert (row["id"], row["estimate"]) == (name, 10)
    with inspected(**on_disk(tmp_path)) as again:
        kept = trace_of(again, name)["row"]
        assert [kept[part] for part in ("estimate", "low", "high", "method")] == [
            row[part] for part in ("estimate", "low", "high", "method")
        ]


def test_turns_that_wait_for_the_disk_count_in_the_bound_of_memory(tmp_path: Path) -> None:
    with bounds(memory=2**17), inspected(**on_disk(tmp_path)) as gateway:
        first = say(gateway)
        written(gateway)
        with locked(tmp_path):
            names = [say(gateway, "x" * 20_000) for _ in range(20)]
            memory = view(gateway, "keeping")["memory"]
            assert memory["bytes"] <= 2**17
            assert memory["turns"] < 10
        written(gateway)
        assert "too many turns came at once" in lost(gateway, names[1])
        assert has_content(gateway, first, names[-1]) == [True, True]
    with inspected(**on_disk(tmp_path)) as again:
        assert has_content(again, first, names[1], names[-1]) == [True, False, True]


def test_a_turn_that_is_deleted_while_it_is_written_does_not_stay(tmp_path: Path) -> None:
    """Also if another worker deletes it."""
    with workers(tmp_path, keep=True) as made:
        first, second = made.gateways
        kept = say(second)
        written(second)
        name = ""
        for deleting in (second, first):
            answers: list[httpx.Response] = []
            with locked(tmp_path / "data"):
                name = say(second, "zebra")
                place = f"turns/{name}"
                asking = threading.Thread(target=lambda: answers.append(delete(deleting, place)))  # noqa: B023
                asking.start()
                until(lambda: not view(second, "turns", limit=1)["rows"][0]["held"])
            asking.join()
            assert answers[0].json() == {"deleted": 1}
            written(second)
            assert has_content(second, name, kept) == [False, True]
    with inspected(**on_disk(tmp_path / "data")) as again:
        assert (has_content(again, name, kept), phrase(again, "zebra")) == ([False, True], set())


# ── bounds ────────────────────────────────────────────────────────────────────────────────────────


def random_words(number: int, length: int) -> str:
    return f"number{number} " + " ".join(secrets.token_hex(8) for _ in range(length // 17))


def test_the_oldest_turns_make_room(tmp_path: Path) -> None:
    """The file with its log stays within its bound, also while it is written; removed words are gone."""
    size, turns = 2**20, 24
    with bounds(turns=1), inspected(**on_disk(tmp_path, inspector={"keep": True, "size": size})) as gateway:
        for number in range(turns):
            say(gateway, random_words(number, 2**15))
            written(gateway)
            assert sum(path.stat().st_size for path in tmp_path.glob(f"{FILE}*") if "shm" not in path.name) <= size
        left = disk(gateway)["turns"]
        assert 3 < left < turns
        kept = [bool(phrase(gateway, f"number{number}")) for number in range(turns)]
        assert kept == [False] * (turns - left) + [True] * left


class Days:
    """A gateway that keeps turns for an hour, started anew for each turn, at times that its clock says."""

    def __init__(self, folder: Path, days: float = 1 / 24) -> None:
        self._options = on_disk(folder, inspector={"keep": True, "days": days})
        self.names: list[str] = []

    def at(self, *times: float) -> list[bool]:
        """Sends a turn at each time, in seconds from now. Which turns are kept then, of all."""
        with set_clock() as clock:
            for ahead in times:
                clock.ahead = ahead
                with inspected(**self._options) as gateway:
                    self.names.append(say(gateway))
                    written(gateway)
        with inspected(**self._options) as again:  # the clock is right; the journal may have forgotten a turn
            answers = [ask_inspector(again, f"turns/{name}") for name in self.names]
        return [bool(answer.json().get("frames")) for answer in answers]


def test_old_turns_go_once_the_clock_is_settled(tmp_path: Path) -> None:
    made = Days(tmp_path)
    assert made.at(0) == [True]
    assert made.at(3_602, 3_602 + SETTLE / 2)[0] is True, "the clock may have jumped"
    assert made.at(3_602 + 2 * SETTLE, 3_602 + 3 * SETTLE + 1)[0] is False


def test_a_clock_that_jumps_ahead_deletes_nothing(tmp_path: Path) -> None:
    made = Days(tmp_path)
    assert made.at(0, 1e6, 1e6 + SETTLE - 1, 0, 1e9, 1e9 + SETTLE - 1, 0, 1) == [True] * 8


def test_a_clock_that_jumps_back_deletes_nothing(tmp_path: Path) -> None:
    """A machine without a battery begins in 1970. Only what was written meanwhile looks old when it is right again."""
    made = Days(tmp_path)
    long_ago = DAY - time.time()
    assert made.at(0, long_ago, 0, 1, SETTLE + 2, 2 * SETTLE + 3) == [True, False, *[True] * 4]


def test_turns_from_the_future_go_with_those_that_were_written_after_the_clock_was_right(tmp_path: Path) -> None:
    made = Days(tmp_path)
    assert made.at(1e8, 0, 1) == [True] * 3
    assert made.at(3_602, 3_602 + SETTLE, 3_602 + 2 * SETTLE + 1)[:3] == [False] * 3


def test_turns_go_by_their_age_also_if_the_gateway_runs_for_minutes_only(tmp_path: Path) -> None:
    kept = Days(tmp_path, days=3.5).at(*(day * DAY for day in range(7)))
    assert kept == [False] * 2 + [True] * 5, "what was too old at the last start is gone"


def test_a_file_of_another_version_is_emptied(tmp_path: Path) -> None:
    with inspected(**on_disk(tmp_path)) as gateway:
        name = say(gateway)
    with closing(sqlite3.connect(tmp_path / FILE)) as database:
        database.execute("PRAGMA user_version=99")
    with inspected(**on_disk(tmp_path)) as again:
        new = say(again)
        written(again)
        assert disk(again)["turns"] == 1
        assert has_content(again, name, new) == [False, True]


# ── faults ────────────────────────────────────────────────────────────────────────────────────────


@contextmanager
def read_only(folder: Path) -> Generator[None]:
    """Nothing can be created in the folder. Root may write everywhere, so this process is another user meanwhile."""
    folder.chmod(0o500)
    is_root = os.geteuid() == 0
    if is_root:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        if is_root:
            os.seteuid(0)
        folder.chmod(0o700)


def errors(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [row.getMessage() for row in caplog.records if row.name == "penstock.inspector" and row.levelname == "ERROR"]


def ask_whole(gateway: Inspected, text: str = "hello") -> str:
    """Sends a request, and expects the whole stream."""
    body = {"model": "openai-chat/text", "stream": True, "messages": [{"role": "user", "content": text}]}
    reply = CLIENT.post(f"{gateway.url}/v1/chat/completions", json=body)
    assert (reply.status_code, reply.text.rstrip()[-12:]) == (200, "data: [DONE]")
    written(gateway)
    return str(reply.headers["x-request-id"])


def test_a_read_only_folder(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Streams go on, the page and the log say once what is wrong, and it recovers."""
    folder, other = tmp_path / "data", tmp_path / "other"
    folder.mkdir()
    with inspected(**on_disk(other)) as gateway:  # modules that are imported late cannot be read then
        name = ask_whole(gateway)
        for place in (f"turns/{name}", "turns?q=hello", "sessions", "keeping"):
            view(gateway, place)
    journal = {"path": str(tmp_path / "journal.sqlite")}
    with bounds(reopen=0.0), inspected(**on_disk(folder, journal=journal)) as gateway:
        with read_only(folder):
            names = [ask_whole(gateway) for _ in range(3)]
            assert "turns cannot be kept on disk" in disk(gateway)["problem"]
            assert len(errors(caplog)) == 1
            assert has_content(gateway, *names) == [True] * 3, "they are in memory"
            assert found(gateway, "hello") == {*names}
            assert view(gateway, "sessions")["unread"] == 0
        kept = ask_whole(gateway)
        assert "problem" not in disk(gateway)
    with inspected(**on_disk(folder, journal=journal)) as again:
        assert has_content(again, names[0], kept) == [False, True]


def test_a_full_disk(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The same. No part of a recording is left, either."""
    with inspected(**on_disk(tmp_path)) as gateway:
        first = ask_whole(gateway)
        with full_disk(2**19):
            large = [ask_whole(gateway, secrets.token_hex(2**20)) for _ in range(2)]  # cannot be compressed enough
            assert "the file cannot be written" in disk(gateway)["problem"]
            assert len(errors(caplog)) == 1
            assert has_content(gateway, *large, first) == [True] * 3
            tape = tmp_path / "tapes/one.tape"
            tape.parent.mkdir()
            with pytest.raises(OSError, match="too large"):
                write_recording(tape, RecordingHeader(), [(0.0, secrets.token_bytes(2**21))])
            assert list(tape.parent.iterdir()) == []
        last = ask_whole(gateway)
        assert "problem" not in disk(gateway)
    with inspected(**on_disk(tmp_path)) as again:
        assert has_content(again, first, *large, last) == [True, False, False, True]


# ── damage ────────────────────────────────────────────────────────────────────────────────────────


def _spoil_pages(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[3 * 4096 :] = bytes(len(data) - 3 * 4096)
    file.write_bytes(data)


def _spoil_all(file: Path) -> None:
    file.write_bytes(b"no database" * 1_000)


@pytest.mark.parametrize("spoil", [_spoil_pages, _spoil_all])
def test_a_damaged_file_hides_its_turns_and_nothing_else(tmp_path: Path, spoil: Callable[[Path], None]) -> None:
    """Deleting all turns mends it."""
    with inspected(**on_disk(tmp_path)) as gateway:
        old = [say(gateway, f"zebra {number}") for number in range(3)]
    spoil(tmp_path / FILE)
    with inspected(**on_disk(tmp_path)) as gateway:
        new = say(gateway, "zebra again")
        assert found(gateway, "") == {*old, new}
        assert new in found(gateway, "zebra")
        with Reader(f"{gateway.url}/inspector/live?q=zebra") as reader:
            reader.until(lambda: new in reader.rows)
        for place in (f"turns/{old[0]}/request", "sessions", f"previews?ids={old[0]},{new}", f"turns/{new}"):
            view(gateway, place)
        assert lost(gateway, old[0]).startswith("it is not in memory, and the file of kept turns cannot be read")
        assert FILE in disk(gateway)["problem"]
        assert delete(gateway).status_code == 200
        assert has_content(gateway, old[0], new) == [False, False]
        assert "deleted" in lost(gateway, new)
        assert ("problem" in disk(gateway), disk(gateway)["turns"]) == (False, 0)
        assert b"zebra" not in kept_bytes(tmp_path)
        kept = say(gateway, "zebra at last")
        written(gateway)
        assert phrase(gateway, "zebra") == {kept}
    with inspected(**on_disk(tmp_path)) as again:
        assert has_content(again, kept) == [True]


@pytest.mark.parametrize("table", ["bodies", "texts"])
def test_a_damaged_turn_hides_itself_alone(tmp_path: Path, table: str) -> None:
    """The file can be read and written: nothing says that turns cannot be kept, and other reasons stay true."""
    with inspected(**on_disk(tmp_path)) as gateway:
        damaged, whole, deleted = (say(gateway, f"zebra {number}") for number in range(3))
        assert delete(gateway, f"turns/{deleted}").status_code == 200
    damage_first_turn(tmp_path, table)
    with inspected(**on_disk(tmp_path)) as gateway:
        assert lost(gateway, damaged).startswith("its content on disk is damaged")
        assert has_content(gateway, whole) == [True]
        assert "deleted" in lost(gateway, deleted)
        state = disk(gateway)
        assert ("problem" in state, state["damaged"], state["turns"]) == (False, 1, 2)
        assert delete(gateway, f"turns/{damaged}").status_code == 200
        assert "deleted" in lost(gateway, damaged)
        assert disk(gateway)["damaged"] == 0
        assert phrase(gateway, "zebra") == {whole}, "nobody knows the words of the other any more"


def test_a_file_that_was_removed_is_made_anew(tmp_path: Path) -> None:
    """By another worker, because it was damaged, or by hand while the gateway runs."""
    with inspected(**on_disk(tmp_path)) as gateway:
        old = say(gateway, "zebra")
        written(gateway)
        for path in tmp_path.glob(f"{FILE}*"):
            path.unlink()
        new = say(gateway, "zebra")
        written(gateway)
        assert "problem" not in disk(gateway)
    with inspected(**on_disk(tmp_path)) as again:
        assert (has_content(again, old, new), phrase(again, "zebra")) == ([False, True], {new})


def test_the_size_of_the_file_is_for_who_sees_all_turns(tmp_path: Path) -> None:
    """It grows with the turns of others; and not, if somebody else has sent the same words before."""
    keys = {"one": {"env": "ONE"}, "all": {"env": "ALL", "inspect": "all"}}
    env = {"ONE": "pk-penstock-one0123456789", "ALL": "pk-penstock-all0123456789"}
    with inspected(env=env, keys=keys, **on_disk(tmp_path)) as gateway:
        (tmp_path / FILE).touch(mode=0o600)  # an empty file is a database without tables
        seen = {name: view(gateway, "keeping", key)["disk"] for name, key in env.items()}
        assert ("bytes" in seen["ONE"], seen["ALL"]["bytes"] > 0) == (False, True)


def test_a_worker_that_cannot_change_the_file_says_why(tmp_path: Path) -> None:
    with bounds(deletion=60.0, lock=0.05), workers(tmp_path, keep=True) as made:
        first, second = made.gateways
        name = say(second, "zebra")
        written(second)
        with locked(tmp_path / "data"):
            reply = delete(first, f"turns/{name}")
        assert "locked" in reply.text
        assert has_content(second, name) == [True], "it is on disk"


# ── processes ─────────────────────────────────────────────────────────────────────────────────────


def journaled(journal: Path) -> set[str]:
    with closing(sqlite3.connect(journal)) as connection:
        return {name for (name,) in connection.execute("SELECT request_id FROM turns")}


@pytest.mark.skipif(sys.platform != "linux", reason="finds the workers in /proc")
def test_the_processes_of_a_gateway_delete_together_and_know_of_a_restart(tmp_path: Path) -> None:
    """A process that was replaced is no restart: another may have the turn."""

    def ask_for(name: str) -> httpx.Response:
        return httpx.get(f"{server.base}/inspector/turns/{name}", headers=server.session)

    def why(name: str) -> str | None:
        """Why the turn has no content; None if it is not known yet, or nobody serves."""
        try:
            answer = ask_for(name)
        except httpx.HTTPError:
            return None
        return str(answer.json().get("lost", "")) if answer.is_success else None

    def send_to(pid: int) -> str:
        with only(server, pid):
            name = httpx.post(f"{server.base}{CHAT}", json=BODY).headers["x-request-id"]
            wait_for(lambda: ask_for(name).json().get("done"))
            return str(name)

    with serve(tmp_path, "", "--workers", "2", "--full-speed") as server:
        first, second = worker_ids(server)
        names = [send_to(pid) for pid in (first, second)]
        with only(server, first):
            answer = httpx.delete(f"{server.base}/inspector/turns", headers=server.session, timeout=20).json()
            assert (answer["deleted"], len(answer["pending"])) == (1, 1)
        for pid in (first, second):
            with only(server, pid):
                for trace in (ask_for(name).json() for name in names):  # 404: the other has not written the row
                    assert trace["error"]["code"] == "not-found" if "error" in trace else trace["frames"] == []
        names += [send_to(pid) for pid in (first, second)]
        answer = httpx.delete(f"{server.base}/inspector/turns", headers=server.session, timeout=20).json()
        assert answer in ({"deleted": 2}, {"deleted": 3})
        name = send_to(first)
        wait_for(lambda: name in journaled(server.data / "journal.sqlite"))
        with only(server, second):
            wait_for(lambda: why(name) is not None)
        for pid in (first, second):
            os.kill(pid, signal.SIGKILL)
        wait_for(lambda: len(worker_ids(server)) == 2 and not {first, second} & {*worker_ids(server)})
        wait_for(lambda: "another worker of this gateway may have it in memory" in (why(name) or ""))
    with serve(tmp_path, "", "--workers", "2", "--full-speed") as server:
        assert "the gateway was restarted since, and turns were kept in memory only" in (why(name) or "")
