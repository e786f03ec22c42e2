"""The watchdog: a blocked event loop is logged with what ran, counted, and nothing of its data is shown."""

from __future__ import annotations

import signal
import threading
import time
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from tests.support.client_requests import metric
from tests.support.gateway import gateway
from tests.support.openresponses import until
from tests.support.process import gateway as gateway_process

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.gateway import Running


LIMIT = 20.0
QUICK = {"blocked": 0.2}  # seconds


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


def blocks(running: Running) -> float:
    return metric(running.url, "loop_blocked_total")


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [
        one.getMessage() for one in caplog.records if one.name == "penstock.watchdog" and one.levelname == "WARNING"
    ]


@pytest.mark.parametrize("work", [block_in_python, block_in_sleep, block_in_c])
def test_a_blocked_loop_is_logged_with_what_ran(caplog: pytest.LogCaptureFixture, work: Any) -> None:
    with gateway(log=QUICK) as (running, _):
        call_in_loop(running, work, 0.4)
        until(lambda: blocks(running) >= 1)
        said = until(lambda: lines(caplog))[0]
        assert "the event loop was blocked for" in said
        assert work.__name__ in said
        assert "test_watchdog.scene:" in said
        assert "planted" not in said
        for count in range(2, 4):  # lines are few
            call_in_loop(running, block_in_sleep, 0.3)
            until(lambda count=count: blocks(running) >= count)  # type: ignore[misc]
    assert len(lines(caplog)) == 1


def test_a_block_without_end_is_logged_while_it_lasts(caplog: pytest.LogCaptureFixture) -> None:
    over = threading.Event()

    async def scene() -> None:
        assert over.wait(LIMIT)

    with gateway(log=QUICK) as (running, _):
        caller = threading.Thread(target=lambda: running.call(scene()))
        caller.start()
        said = until(lambda: lines(caplog))[0]
        over.set()
        caller.join(LIMIT)
    assert "and still is" in said
    assert "test_watchdog.scene" in said


def test_a_process_that_was_stopped_had_no_blocked_loop(tmp_path: Path) -> None:
    """As on a machine that was asleep. Nor is the start of a server a block: nothing is served before it is ready."""
    with gateway_process(tmp_path, "[log]\nblocked = 0.3\n") as server:
        httpx.get(f"{server.base}/healthz").raise_for_status()  # it serves: it is watched
        server.process.send_signal(signal.SIGSTOP)
        time.sleep(0.8)  # nothing can tell how long a process has been stopped
        server.process.send_signal(signal.SIGCONT)
        httpx.get(f"{server.base}/healthz").raise_for_status()
        server.stop()
    assert "was blocked" not in server.said


def watching() -> list[str]:
    return [one.name for one in threading.enumerate() if one.name == "penstock-watchdog"]


def test_it_ends_with_the_gateway_and_can_be_switched_off() -> None:
    with gateway():
        assert len(watching()) == 1
    assert watching() == []
    with gateway(log={"blocked": 0.0}):
        assert watching() == []
