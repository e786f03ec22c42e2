"""The watchdog: a blocked event loop is logged with what ran, counted, and nothing of its data is shown."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

from penstock._gateway import lifecycle
from penstock._gateway.app import App
from penstock._gateway.config import GatewayConfig, Log, Serve
from penstock._http import uvicorn_server
from penstock._inspector.app import Inspector
from tests.gateway.client_requests import get
from tests.gateway.gateway_thread import gateway
from tests.gateway.test_metrics import figure

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock._http.uvicorn_server import GatewayServer
    from tests.gateway.gateway_thread import Running

pytestmark = pytest.mark.slow

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
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pass


def block_in_sleep(seconds: float) -> None:
    time.sleep(seconds)


def block_in_c(seconds: float) -> None:
    """One call that holds the interpreter lock; no other thread runs meanwhile."""
    size, end = 100_000, time.monotonic() + seconds
    while time.monotonic() < end:
        began = time.monotonic()
        sum(range(size))
        if time.monotonic() - began < seconds:
            size *= 2


def call_in_loop(running: Running, work: Any, seconds: float) -> None:
    async def scene() -> None:
        secret = "planted-value"
        work(seconds)
        assert secret

    running.call(scene())


@pytest.mark.finding("SEC-3")
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
    uvicorn_server.listen(Inspector(app), Serve(port=0), block)
    assert watched == [True]  # afterwards it is on
    assert lines.lines == []


def test_it_can_be_switched_off() -> None:
    with gateway(log=Log(blocked=0.0)) as (running, _):
        assert running.app._watchdog._thread is None
        assert not [one for one in threading.enumerate() if one.name == "penstock-watchdog"]


def test_it_ends_with_the_gateway() -> None:
    with gateway() as (running, _):
        assert running.app._watchdog._thread is not None
    assert not [one for one in threading.enumerate() if one.name == "penstock-watchdog"]
