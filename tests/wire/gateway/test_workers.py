"""`penstock serve --workers`: one address, one start line, one set of numbers, whichever process answers."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from penstock.testing import scripted
from tests.cli.command_runner import inside
from tests.support.process import gateway, only, wait_for, worker_ids
from tests.wire.gateway.test_shutdown import FORMS, stalled, stalling_answer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.process import Gateway

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="finds the workers in /proc")
LIMIT = 30.0
CHAT = "/v1/chat/completions"
BODY: dict[str, Any] = {"model": "replay/text", "messages": []}
CONFIG = """
[serve]
pace = 0.0
[access]
metrics = "open"
[keys.root]
env = "ROOT"
role = "admin"
[keys.alice]
env = "ALICE"
limits = { requests = 5 }
[aliases]
old = "replay/text"
"""
ROOT, ALICE = {"x-api-key": "planted-root-key"}, {"x-api-key": "planted-alice-key"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """A gateway with two workers, which end with their parent."""
    keys = {"ROOT": ROOT["x-api-key"], "ALICE": ALICE["x-api-key"]}
    with gateway(tmp_path_factory.mktemp("workers"), CONFIG, "--workers", "2", **keys) as running:
        yield running
        workers = worker_ids(running)
        running.process.kill()
        running.process.wait(LIMIT)
        wait_for(lambda: not any(Path(f"/proc/{pid}/stat").exists() for pid in workers))
        assert running.said.count("penstock is listening on") == 1


def ask(server: Gateway, headers: dict[str, str] = ROOT, **more: Any) -> httpx.Response:
    return httpx.post(f"{server.base}{CHAT}", json={**BODY, **more}, headers=headers, timeout=LIMIT)


def number(server: Gateway, name: str) -> float:
    text = httpx.get(f"{server.base}/metrics").text
    return sum(float(one) for one in re.findall(rf"^{name}(?:\{{.*\}})? (\S+)$", text, re.MULTILINE))


def turns(server: Gateway) -> float:
    return number(server, "penstock_turns_total")


def test_the_numbers_of_all_workers_are_summed_and_survive_a_killed_one(server: Gateway) -> None:
    before, restarts = turns(server), number(server, "penstock_worker_restarts_total")
    first, second = worker_ids(server)
    for pid, count in ((first, 3), (second, 4)):
        with only(server, pid):
            assert all(ask(server).is_success for _ in range(count))
            assert turns(server) >= before + count
    for pid in (first, second):
        with only(server, pid):  # whoever answers
            wait_for(lambda: turns(server) == before + 7)
    assert number(server, "penstock_workers") == 2
    os.kill(first, signal.SIGKILL)
    while number(server, "penstock_worker_restarts_total") == restarts:
        assert turns(server) == before + 7  # at every moment each worker counts once
    wait_for(lambda: len(worker_ids(server)) == 2 and number(server, "penstock_workers") == 2)
    assert turns(server) == number(server, "penstock_turn_seconds_count") == before + 7
    listed = httpx.get(f"{server.base}/inspector/turns", headers=ROOT).json()
    assert len(listed["rows"]) == before + 7  # the journal is one
    assert f"(process {first}) was ended by SIGKILL: another is started" in server.said


def test_the_live_list_shows_turns_of_other_workers(server: Gateway) -> None:
    first, second = worker_ids(server)
    with httpx.Client(timeout=LIMIT) as client:
        with only(server, first):
            asked = client.build_request("GET", f"{server.base}/inspector/live", headers=ROOT)
            response = client.send(asked, stream=True)
            lines = response.iter_lines()
            assert next(line for line in lines if line.startswith("data: "))
        with only(server, second):
            turn = ask(server).headers["x-request-id"]
        assert next(line for line in lines if turn in line)
        response.close()


def test_a_response_that_one_worker_stored_is_found_by_the_other(server: Gateway) -> None:
    first, second = worker_ids(server)
    base = f"{server.base}/v1/responses"
    with only(server, first):
        made = httpx.post(base, json={"model": "replay/text", "input": "?"}, headers=ROOT).json()["id"]

    def found() -> bool:
        with only(server, second):  # the first is stopped, perhaps before it has written: so more than once
            return httpx.get(f"{base}/{made}", headers=ROOT).is_success

    wait_for(found)


def test_limits_hold_across_workers(server: Gateway) -> None:
    """Without Redis: the workers share a file."""
    statuses: list[int] = []
    for pid in worker_ids(server) * 4:
        status = 503  # the other one was stopped while it held the file
        while status == 503:
            with only(server, pid):
                status = ask(server, ALICE).status_code
        statuses.append(status)
    assert statuses == [200] * 5 + [429] * 3


def test_a_hangup_reloads_all_workers_and_a_bad_file_none(server: Gateway) -> None:
    server.config.write_text(CONFIG.replace("old =", "new ="))
    server.process.send_signal(signal.SIGHUP)
    wait_for(lambda: "the configuration was reloaded by 2 of 2 workers" in server.said)
    for pid in worker_ids(server):
        with only(server, pid):
            assert [ask(server, model=name).status_code for name in ("new", "old")] == [200, 404]
    server.config.write_text("[serve]\nprot = 1")
    server.process.send_signal(signal.SIGHUP)
    wait_for(lambda: "was not reloaded" in server.said)
    assert answers(server)
    assert server.said.count("no such key; did you mean port?") == 1


def answers(server: Gateway) -> bool:
    try:
        return httpx.get(f"{server.base}/healthz").is_success
    except httpx.TransportError:
        return False


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
    done = inside("serve", "--port", "0", "--workers", "0", PENSTOCK_DATA=str(tmp_path))
    assert b"expected a number of workers from 1 to 256, found 0" in done.stderr
