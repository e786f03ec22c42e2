"""The watchdog: a blocked event loop is logged with what ran, counted, and nothing of its data is shown."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from penstock._gateway import lifecycle
from penstock._http import uvicorn_server
from penstock.gateway import App, GatewayConfig, Inspector
from tests.gateway.test_metrics import figure
from tests.support.client_requests import get
from tests.support.gateway import gateway
from tests.support.process import gateway as gateway_process

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from penstock._http.uvicorn_server import GatewayServer
    from tests.support.gateway import Running


LIMIT = 20.0


class Lines(logging.Handler):
    """Keeps the watchdog's lines, and tells when there is a new one."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []
        self.arrived = threading.Event()

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())
        self.arrived.set()

    def next(self) -> str:
        assert self.arrived.wait(LIMIT), "nothing was logged"
        self.arrived.clear()
        return self.lines[-1]


@pytest.fixture
def lines(monkeypatch: pytest.MonkeyPatch) -> Iterator[Lines]:
    monkeypatch.setattr(lifecycle, "LOG_INTERVAL", 0.0)
    handler = Lines()
    lifecycle.log_watchdog.addHandler(handler)
    yield handler
    lifecycle.log_watchdog.removeHandler(handler)


def block_in_python(seconds: float) -> None:
    end = time.thread_time() + seconds  # what other programs use does not count
    while time.thread_time() < end:
        pass


def block_in_sleep(seconds: float) -> None:
    time.sleep(seconds)


def block_in_c(seconds: float) -> None:
    """One call that holds the interpreter lock; no other thread runs meanwhile."""
    size, end = 100_000, time.thread_time() + seconds
    while time.thread_time() < end:
        began = time.thread_time()
        sum(range(size))
        if time.thread_time() - began < seconds:
            size *= 2


def call_in_loop(running: Running, work: Any, seconds: float) -> None:
    async def scene() -> None:
        secret = "planted-value"
        work(seconds)
        assert secret

    running.call(scene())


@pytest.mark.parametrize("work", [block_in_python, block_in_sleep, block_in_c])
def test_a_blocked_loop_is_logged_with_what_ran(lines: Lines, work: Any) -> None:
    with gateway() as (running, _):
        call_in_loop(running, work, 0.8)
        said = lines.next()
        page = get(f"{running.url}/metrics").content
    assert "the event loop was blocked for" in said
    assert work.__name__ in said
    assert "test_watchdog.scene:" in said
    assert "planted" not in said
    assert figure(page, "penstock_loop_blocked_total") >= 1


def test_a_process_that_was_stopped_had_no_blocked_loop(tmp_path: Path) -> None:
    """As on a machine that was asleep."""
    with gateway_process(tmp_path, "") as server:
        httpx.get(f"{server.base}/healthz").raise_for_status()  # it serves: it is watched
        server.process.send_signal(signal.SIGSTOP)
        time.sleep(1.5)  # nothing can tell how long a process has been stopped
        server.process.send_signal(signal.SIGCONT)
        httpx.get(f"{server.base}/healthz").raise_for_status()
        server.stop()
    assert "was blocked" not in server.said


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="cores are chosen as on Linux")
def test_waiting_for_a_processor_is_measured() -> None:
    allowed = os.sched_getaffinity(0)
    core = {min(allowed)}
    with subprocess.Popen(
        [sys.executable, "-c", "print(flush=True)\nwhile True: pass"], stdout=subprocess.PIPE
    ) as busy:
        try:
            assert busy.stdout is not None
            busy.stdout.readline()
            os.sched_setaffinity(busy.pid, core)
            os.sched_setaffinity(0, core)
            clock = lifecycle._ThreadClock()
            clock.open()
            began = clock.beat()
            block_in_python(0.3)
            ended = clock.beat()
        finally:
            os.sched_setaffinity(0, allowed)
            busy.kill()
    clock.close()
    time_passed, used, starved = (after - before for before, after in zip(began, ended, strict=True))
    assert used == pytest.approx(0.3, rel=0.1)
    assert starved > 0.05
    assert used + starved == pytest.approx(time_passed, rel=0.2)


def test_lines_are_few(lines: Lines, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lifecycle, "LOG_INTERVAL", 1e9)
    with gateway() as (running, _):
        found = running.app._watchdog
        found._logged = -1e9
        for count in range(1, 4):
            call_in_loop(running, block_in_sleep, 0.6)
            end = time.monotonic() + LIMIT
            while found.blocks < count and time.monotonic() < end:
                found._stopped.wait(0.01)
            assert found.blocks >= count
    assert len(lines.lines) == 1


def test_a_block_without_end_is_logged_while_it_lasts(lines: Lines, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lifecycle, "LONG_BLOCK", 0.3)
    over = threading.Event()

    async def scene() -> None:
        assert over.wait(LIMIT)

    with gateway() as (running, _):
        caller = threading.Thread(target=lambda: running.call(scene()))
        caller.start()
        said = lines.next()
        over.set()
        caller.join(LIMIT)
    assert "and still is" in said
    assert "test_watchdog.scene" in said


def test_the_start_of_the_server_is_not_logged(lines: Lines) -> None:
    """Nothing is served before the server is ready: a slow machine gives no warning when `penstock serve` starts."""
    watched: list[bool] = []

    def block(_port: int, server: GatewayServer) -> None:
        block_in_sleep(0.8)
        asyncio.get_running_loop().call_later(0.05, stop, server)

    def stop(server: GatewayServer) -> None:
        watched.append(app._watchdog._thread is not None)
        server.should_exit = True

    app: Any = App(GatewayConfig())
    uvicorn_server.listen(Inspector(app), {"port": 0}, block)
    assert watched == [True]  # afterwards it is on
    assert lines.lines == []


def test_it_can_be_switched_off() -> None:
    with gateway(log={"blocked": 0.0}) as (running, _):
        assert running.app._watchdog._thread is None
        assert not [one for one in threading.enumerate() if one.name == "penstock-watchdog"]


def test_it_ends_with_the_gateway() -> None:
    with gateway() as (running, _):
        assert running.app._watchdog._thread is not None
    assert not [one for one in threading.enumerate() if one.name == "penstock-watchdog"]
