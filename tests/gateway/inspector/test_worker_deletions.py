"""Deleting turns on a gateway of several worker processes: what is deleted is shown by none of them any more."""

from __future__ import annotations

import os
import signal
import sys
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from penstock._gateway.worker_metrics import WorkerMetrics
from penstock._inspector import worker_deletions
from penstock._inspector.worker_deletions import FOLDER
from penstock._store.kept_turns import KeptTurnStore
from tests.support.client_requests import get, post
from tests.support.event_feed import bearer, ended, watching
from tests.support.inspector import Inspected, inspected
from tests.support.process import gateway as serve
from tests.wire.gateway.test_workers import BODY, CHAT, only, wait_for, worker_ids

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

ANNA, BEN = "pk-penstock-anna0123456789", "pk-penstock-ben0123456789"


class Workers:
    """Two gateways in this process that share a folder, as two workers do. `shared`: that folder."""

    def __init__(self, shared: Path, gateways: list[Inspected]) -> None:
        self.shared, self.gateways = shared, gateways
        self._metrics: list[WorkerMetrics] = []
        for number, one in enumerate(gateways):
            made = WorkerMetrics(shared, number, one.app.services.metrics)
            made.on_publish.append(one.inspector.watch.deletions.apply_deletions)
            made.publish()
            self._metrics.append(made)
            self.start(number)

    def start(self, number: int) -> None:
        """The worker looks for deletions from now on, also while nobody asks it."""
        self.gateways[number].call(_run(self._metrics[number].start))

    def stop(self, number: int) -> None:
        self.gateways[number].call(_run(self._metrics[number].close))


async def _run(call: Any) -> None:
    call()


@contextmanager
def workers(folder: Path, *, keep: bool, **more: Any) -> Generator[Workers]:
    shared, data = folder / "workers", folder / "data"
    shared.mkdir()
    options: dict[str, Any] = {
        "inspector": {"keep": keep}, "data": data, "journal": {"path": str(data / "journal.sqlite")},
    }  # fmt: skip
    with inspected(**options, **more) as first, inspected(**options, **more) as second:
        made = Workers(shared, [first, second])
        try:
            yield made
        finally:
            for number in range(2):
                made.stop(number)


def send(gateway: Inspected, words: str, key: str = "") -> str:
    body = {"model": "openai-chat/text", "stream": True, "messages": [{"role": "user", "content": words}]}
    headers = bearer(key) if key else {}
    name: str = post(f"{gateway.url}/v1/chat/completions", json=body, headers=headers).headers["x-request-id"]
    ended(gateway, name)
    return name


def trace_of(gateway: Inspected, name: str, key: str = "") -> Any:
    response = get(f"{gateway.url}/inspector/turns/{name}", headers=bearer(key) if key else {})
    assert response.status_code == 200, response.text
    return response.json()


def delete(gateway: Inspected, name: str = "", key: str = "") -> httpx.Response:
    place = f"{gateway.url}/inspector/turns/{name}".rstrip("/")
    return httpx.delete(place, timeout=20, trust_env=False, headers=bearer(key) if key else {})


@pytest.mark.parametrize("keep", [False, True])
def test_a_turn_of_another_worker_is_deleted(tmp_path: Path, keep: bool) -> None:
    with workers(tmp_path, keep=keep) as made:
        first, second = made.gateways
        name, other = send(second, "zebra one"), send(second, "zebra two")
        assert delete(first, name).json() == {"deleted": 1}
        for one in (second, first):
            trace = trace_of(one, name)
            assert trace["frames"] == []
            assert "it was deleted on the inspector's page" in trace["lost"]
        assert second.inspector.watch.text_index.find_turns("zebra", None) == {other}
        assert trace_of(second, other)["frames"]
        assert delete(first, name).status_code == 404
        assert list((made.shared / FOLDER).iterdir()) == [], "nothing is left of deletions that all have applied"


def test_all_turns_of_all_workers_are_deleted_and_counted_once(tmp_path: Path) -> None:
    with workers(tmp_path, keep=True) as made:
        names = [send(one, f"zebra {place}") for place, one in enumerate(made.gateways * 2)]
        made.gateways[0].inspector.watch.disk.flush()
        assert delete(made.gateways[1]).json() == {"deleted": 4}
        for one in made.gateways:
            one.inspector.watch.disk.flush()
            assert not one.inspector.watch.captures
            assert one.inspector.watch.text_index.find_turns("zebra", None) == set()
            assert all(trace_of(one, name)["frames"] == [] for name in names)


def test_a_turn_that_another_worker_is_writing_is_deleted_on_disk_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write, writes, may_write = KeptTurnStore.write_turns, threading.Event(), threading.Event()

    def write_later(store: KeptTurnStore, rows: Any) -> Any:
        writes.set()
        assert may_write.wait(20)
        return write(store, rows)

    monkeypatch.setattr(KeptTurnStore, "write_turns", write_later)
    with workers(tmp_path, keep=True) as made:
        first, second = made.gateways
        name = send(second, "zebra")
        assert writes.wait(20)
        answers: list[httpx.Response] = []
        asking = threading.Thread(target=lambda: answers.append(delete(first)))
        asking.start()
        while second.inspector.watch.captures:
            assert asking.is_alive()
        may_write.set()
        asking.join()
        assert answers[0].json() == {"deleted": 1}
        second.inspector.watch.disk.flush()
        assert not first.inspector.watch.disk.holds(name)
        assert first.inspector.watch.disk.count(None) == 0


def test_a_worker_that_does_not_answer_is_named_and_shows_nothing_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It looks for deletions before it answers."""
    monkeypatch.setattr(worker_deletions, "ANSWER_TIMEOUT", 0.1)
    with workers(tmp_path, keep=False) as made:
        first, second = made.gateways
        made.stop(1)
        name, own = send(second, "zebra"), send(first, "zebra")
        assert delete(first).json() == {"deleted": 1, "pending": [1]}
        assert name in second.inspector.watch.captures
        later = send(second, "zebra")
        assert trace_of(second, name)["frames"] == []
        assert trace_of(first, own)["frames"] == []
        assert trace_of(second, later)["frames"], "it ended after that"
        made.start(1)
        monkeypatch.setattr(worker_deletions, "ANSWER_TIMEOUT", 20.0)
        assert delete(first, later).json() == {"deleted": 1}
        assert list((made.shared / FOLDER).iterdir()) == []


def test_a_turn_that_may_be_in_a_worker_that_does_not_answer_is_not_called_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_deletions, "ANSWER_TIMEOUT", 0.1)
    with workers(tmp_path, keep=False) as made:
        made.stop(1)
        name = send(made.gateways[1], "zebra")
        assert delete(made.gateways[0], name).json() == {"deleted": 0, "pending": [1]}


def test_a_worker_that_cannot_change_the_file_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(worker_deletions, "ANSWER_TIMEOUT", 60.0)
    with workers(tmp_path, keep=True) as made:
        first, second = made.gateways
        name = send(second, "zebra")
        monkeypatch.setattr(second.inspector.watch.disk, "delete_turns", fail)
        assert delete(first, name).json() == {"deleted": 1, "error": "No space left on device"}
        assert name not in second.inspector.watch.captures
        assert list((made.shared / FOLDER).iterdir()) == []


def test_pages_of_the_other_worker_hear_of_it(tmp_path: Path) -> None:
    with workers(tmp_path, keep=False) as made:
        first, second = made.gateways
        name = send(second, "zebra")
        with watching(second.url) as reader:
            reader.until(lambda: name in reader.rows)
            assert delete(first).json() == {"deleted": 1}
            reader.until(lambda: name in str(reader.named("removed")))


def test_a_key_deletes_its_own_turns_only(tmp_path: Path) -> None:
    keys = {"anna": {"env": "ANNA", "inspect_keep": True}, "ben": {"env": "BEN", "inspect_keep": True}}
    with workers(tmp_path, keep=True, keys=keys, env={"ANNA": ANNA, "BEN": BEN}) as made:
        first, second = made.gateways
        names = {key: send(second, "zebra", key) for key in (ANNA, BEN)}
        assert delete(first, names[BEN], ANNA).status_code == 404
        assert delete(first, key=ANNA).json() == {"deleted": 1}
        assert trace_of(second, names[ANNA], ANNA)["frames"] == []
        assert trace_of(second, names[BEN], BEN)["frames"]


@pytest.mark.skipif(sys.platform != "linux", reason="finds the workers in /proc")
def test_a_turn_from_before_a_restart_of_all_processes_says_so(tmp_path: Path) -> None:
    """A process that was replaced is no restart: another may have the turn."""
    with serve(tmp_path, "", "--workers", "2", "--full-speed") as server:
        first, second = worker_ids(server)
        with only(server, first):
            name = httpx.post(f"{server.base}{CHAT}", json=BODY).headers["x-request-id"]
            wait_for(lambda: _lost(server, name) is not None)
        wait_for(lambda: _is_in_journal(server, second, name))
        for pid in (first, second):
            os.kill(pid, signal.SIGKILL)
        wait_for(lambda: len(worker_ids(server)) == 2 and not {first, second} & {*worker_ids(server)})
        wait_for(lambda: "another worker of this gateway may have it in memory" in (_lost(server, name) or ""))
    with serve(tmp_path, "", "--workers", "2", "--full-speed") as server:
        assert "the gateway was restarted since, and turns were kept in memory only" in (_lost(server, name) or "")


def _is_in_journal(server: Any, pid: int, name: str) -> bool:
    with only(server, pid):  # it has not answered the turn; the one that has may be stopped before it has written
        return _lost(server, name) is not None


def _lost(server: Any, name: str) -> str | None:
    """Why the turn has no content; None if it is not known yet, or nobody serves."""
    try:
        answer = httpx.get(f"{server.base}/inspector/turns/{name}", headers=server.session)
    except httpx.HTTPError:
        return None
    return str(answer.json().get("lost", "")) if answer.is_success else None


@pytest.mark.skipif(sys.platform != "linux", reason="finds the workers in /proc")
def test_the_processes_of_a_gateway_delete_together(tmp_path: Path) -> None:
    with serve(tmp_path, "", "--workers", "2", "--full-speed") as server:
        pids, names = worker_ids(server), list[str]()
        place = f"{server.base}/inspector/turns"

        def trace_in(name: str) -> Any:
            return httpx.get(f"{place}/{name}", headers=server.session).json()

        def send_to_each() -> None:
            for pid in pids:
                with only(server, pid):
                    names.append(httpx.post(f"{server.base}{CHAT}", json=BODY).headers["x-request-id"])
                    wait_for(lambda: trace_in(names[-1]).get("done"))

        def expect_gone() -> None:
            for pid in pids:
                with only(server, pid):
                    for trace in map(trace_in, names):  # 404: the other was stopped before it wrote the row
                        assert trace["error"]["code"] == "not-found" if "error" in trace else trace["frames"] == []

        send_to_each()
        assert httpx.delete(place, headers=server.session, timeout=20).json() == {"deleted": 2}
        expect_gone()
        send_to_each()
        with only(server, pids[0]):
            answer = httpx.delete(place, headers=server.session, timeout=20).json()
            assert (answer["deleted"], len(answer["pending"])) == (1, 1)
        expect_gone()
