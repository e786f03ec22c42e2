"""`penstock serve --workers`: one address, one start line, one set of numbers, whichever process answers."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from penstock._gateway.metrics import HistogramValue, MetricsSnapshot, render_snapshot
from penstock._gateway.worker_metrics import WorkerFolder
from penstock.testing import scripted
from tests.support.process import gateway
from tests.wire.gateway.test_shutdown_errors import FORMS, stalled
from tests.wire.gateway.test_shutdown_errors import answer as stalling_answer

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

    from tests.support.process import Gateway

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="finds the workers in /proc")
LIMIT = 30.0
CHAT = "/v1/chat/completions"
BODY: dict[str, Any] = {"model": "replay/text", "messages": []}


def wait_for(condition: Callable[[], object]) -> None:
    ends = time.monotonic() + LIMIT
    while not condition():
        assert time.monotonic() < ends
        time.sleep(0.02)


def worker_ids(server: Gateway) -> list[int]:
    parent = server.process.pid
    return [int(one) for one in Path(f"/proc/{parent}/task/{parent}/children").read_text().split()]


@contextmanager
def only(server: Gateway, pid: int) -> Generator[None]:
    """Stop all workers but one for a while, so that this one answers."""
    others = [one for one in worker_ids(server) if one != pid]
    for one in others:
        os.kill(one, signal.SIGSTOP)
        wait_for(lambda one=one: "T" in Path(f"/proc/{one}/stat").read_text().rpartition(")")[2].split()[0])  # type: ignore[misc]
    try:
        yield
    finally:
        for one in others:
            with suppress(ProcessLookupError):
                os.kill(one, signal.SIGCONT)


def number(server: Gateway, name: str) -> float:
    text = httpx.get(f"{server.base}/metrics").text
    return sum(float(one) for one in re.findall(rf"^{name}(?:\{{.*\}})? (\S+)$", text, re.MULTILINE))


def test_the_numbers_of_all_workers_are_summed_and_survive_a_killed_one(tmp_path: Path) -> None:
    with gateway(tmp_path, "", "--workers", "2", "--full-speed") as server:
        first, second = worker_ids(server)
        for pid, count in ((first, 3), (second, 4)):
            with only(server, pid):
                assert all(httpx.post(f"{server.base}{CHAT}", json=BODY).is_success for _ in range(count))
                assert number(server, "penstock_turns_total") >= count
        for pid in (first, second):
            with only(server, pid):  # whoever answers
                wait_for(lambda: number(server, "penstock_turns_total") == 7)
        assert number(server, "penstock_workers") == 2
        os.kill(first, signal.SIGKILL)
        wait_for(lambda: number(server, "penstock_worker_restarts_total") == 1)
        wait_for(lambda: len(worker_ids(server)) == 2 and number(server, "penstock_workers") == 2)
        assert number(server, "penstock_turns_total") == number(server, "penstock_turn_seconds_count") == 7
        listed = httpx.get(f"{server.base}/inspector/turns", headers=server.session).json()
        assert len(listed["rows"]) == 7  # the journal is one
    assert server.said.count("penstock is listening on") == 1
    assert f"worker 1 (process {first}) was ended by SIGKILL: another is started" in server.said


def test_the_live_list_shows_turns_of_other_workers(tmp_path: Path) -> None:
    with gateway(tmp_path, "", "--workers", "2", "--full-speed") as server, httpx.Client(timeout=LIMIT) as client:
        first, second = worker_ids(server)
        with only(server, first):
            asked = client.build_request("GET", f"{server.base}/inspector/live", headers=server.session)
            response = client.send(asked, stream=True)
            lines = response.iter_lines()
            assert next(line for line in lines if line.startswith("data: "))
        with only(server, second):
            turn = httpx.post(f"{server.base}{CHAT}", json=BODY).headers["x-request-id"]
        assert next(line for line in lines if turn in line)
        response.close()


def test_a_response_that_one_worker_stored_is_found_by_the_other(tmp_path: Path) -> None:
    with gateway(tmp_path, "", "--workers", "2", "--full-speed") as server:
        first, second = worker_ids(server)
        with only(server, first):
            made = httpx.post(f"{server.base}/v1/responses", json={"model": "replay/text", "input": "?"}).json()["id"]

        def found() -> bool:
            with only(server, second):  # the first is stopped, perhaps before it has written: so more than once
                return httpx.get(f"{server.base}/v1/responses/{made}").is_success

        wait_for(found)


def test_limits_hold_across_workers(tmp_path: Path) -> None:
    """Without Redis: the workers share a file."""
    config = "[keys.alice]\nenv = 'ALICE'\nlimits = { requests = 5 }\n"
    with gateway(tmp_path, config, "--workers", "2", "--full-speed", ALICE="planted-alice-key") as server:
        statuses: list[int] = []
        for pid in worker_ids(server) * 4:
            with only(server, pid):
                reply = httpx.post(
                    f"{server.base}{CHAT}", json=BODY, headers={"x-api-key": "planted-alice-key"}, timeout=LIMIT
                )
                statuses.append(reply.status_code)
        assert statuses == [200] * 5 + [429] * 3


def test_streams_of_all_workers_end_whole_when_the_gateway_stops(tmp_path: Path) -> None:
    with gateway(tmp_path, "[serve]\npace = 0.05", "--workers", "2") as server, httpx.Client(timeout=LIMIT) as client:
        streams: list[tuple[Iterator[bytes], bytes]] = []
        for pid in worker_ids(server):
            with only(server, pid):
                request = client.build_request("POST", f"{server.base}{CHAT}", json={**BODY, "stream": True})
                response = client.send(request, stream=True)
                chunks = response.iter_bytes()
                streams.append((chunks, next(chunks)))
        server.process.send_signal(signal.SIGTERM)
        assert all((got + b"".join(chunks)).endswith(b"data: [DONE]\n\n") for chunks, got in streams)
        assert server.process.wait(LIMIT) == -signal.SIGTERM
        with pytest.raises(httpx.ConnectError):
            httpx.get(f"{server.base}/healthz")


def test_a_second_signal_ends_the_streams_of_all_workers(tmp_path: Path) -> None:
    """The streams stall, so that only the signal can end them: however slow the machine is."""
    with (
        scripted(stalling_answer) as upstream,
        gateway(tmp_path, stalled(upstream.url, drain=600), "--workers", "2") as server,
        httpx.Client(timeout=LIMIT) as client,
    ):
        streams: list[tuple[Iterator[bytes], bytes]] = []
        for pid in worker_ids(server):
            with only(server, pid):
                body = {**BODY, "model": "slow/m", "stream": True}
                response = client.send(client.build_request("POST", f"{server.base}{CHAT}", json=body), stream=True)
                chunks = response.iter_bytes()
                streams.append((chunks, next(chunks)))
        server.process.send_signal(signal.SIGINT)
        wait_for(lambda: not answers(server))
        server.process.send_signal(signal.SIGINT)
        for chunks, got in streams:
            text = (got + b"".join(chunks)).decode()
            assert "shutting down" in text
            assert FORMS["chat"](text), text
        server.process.wait(LIMIT)


def answers(server: Gateway) -> bool:
    try:
        return httpx.get(f"{server.base}/healthz").is_success
    except httpx.TransportError:
        return False


def test_a_hangup_reloads_all_workers_and_a_bad_file_none(tmp_path: Path) -> None:
    with gateway(tmp_path, "[aliases]\nold = 'replay/text'", "--workers", "2", "--full-speed") as server:
        server.config.write_text("[aliases]\nnew = 'replay/text'")
        server.process.send_signal(signal.SIGHUP)
        wait_for(lambda: "the configuration was reloaded by 2 of 2 workers" in server.said)
        for pid in worker_ids(server):
            with only(server, pid):
                statuses = [
                    httpx.post(f"{server.base}{CHAT}", json={**BODY, "model": name}).status_code
                    for name in ("new", "old")
                ]
                assert statuses == [200, 404]
        server.config.write_text("[serve]\nprot = 1")
        server.process.send_signal(signal.SIGHUP)
        wait_for(lambda: "was not reloaded" in server.said)
        assert answers(server)
    assert server.said.count("no such key; did you mean port?") == 1


def test_workers_end_with_their_parent(tmp_path: Path) -> None:
    with gateway(tmp_path, "", "--workers", "2") as server:
        workers = worker_ids(server)
        server.process.kill()
        server.process.wait(LIMIT)
        wait_for(lambda: not any(Path(f"/proc/{pid}/stat").exists() for pid in workers))


def test_a_gateway_whose_workers_cannot_start_says_why_once(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    config = tmp_path / "penstock.toml"
    config.write_text(f"[journal]\npath = '{tmp_path}/file/journal.sqlite'")
    command = [sys.executable, "-m", "penstock", "serve", "--port", "0", "--workers", "2", "--config", str(config)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, check=False)
    assert done.returncode != 0
    assert done.stderr.count(f"{tmp_path}/file") == 1
    assert "listening" not in done.stderr


def test_a_number_of_workers_that_cannot_be_is_refused(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "penstock", "serve", "--port", "0", "--workers", "0"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, check=False, cwd=tmp_path)
    assert "expected a number of workers from 1 to 256, found 0" in done.stderr


def test_a_worker_that_ended_is_counted_once_at_every_moment(tmp_path: Path) -> None:
    """Between the two steps of the parent, the file of a worker is there beside the sum that has it."""
    import msgspec

    folder = WorkerFolder(tmp_path)
    one = MetricsSnapshot({"tries": {("a",): 2.0}}, {"ttft_seconds": {("a",): HistogramValue([1, 1], 0.5)}}, {"x": 1.0})
    folder.write(1, data := msgspec.msgpack.encode(one))
    assert folder.read_others(9) == one
    folder.end_worker(1, restarted=False)
    ended = MetricsSnapshot(one.counters, one.histograms, {})
    assert folder.read_others(9) == ended
    (tmp_path / "worker-1").write_bytes(data)
    assert folder.read_others(9) == ended
    folder.write(2, data)
    assert folder.read_others(9).counters == {"tries": {("a",): 4.0}}
    assert folder.read_others(2) == ended
    assert render_snapshot(MetricsSnapshot(one.counters)).endswith(b'penstock_tries_total{provider="a"} 2\n')
