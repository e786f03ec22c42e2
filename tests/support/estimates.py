"""The thread that learns from turns, and who holds it up. What it has learned is told by counts and by the journal."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from penstock._gateway import token_estimates, token_estimators

if TYPE_CHECKING:
    from collections.abc import Generator

    import pytest

    from tests.support.gateway import Running

MAX_BODY, MAX_FAILURES = token_estimates.MAX_BODY, token_estimates.MAX_FAILURES


def learn(running: Running) -> list[Any]:
    """Wait until all turns so far are learned. Returns the journal's rows."""
    running.settle()  # a client may see the end of a turn before the gateway does
    services = running.app.services
    services.estimates.flush()
    return running.rows() if services.journal.rows is not None else []


def estimate_every_turn(running: Running) -> None:
    """And not only one in a while."""
    running.app.services.estimates._interval = 0.0


def limit_queue(monkeypatch: pytest.MonkeyPatch, **limits: int) -> None:
    """Set `turns` that may wait, and `bytes` of one of them."""
    for name, value in limits.items():
        monkeypatch.setattr(token_estimates, {"turns": "MAX_TURNS", "bytes": "MAX_TURN_BYTES"}[name], value)


@contextmanager
def held_thread(running: Running, monkeypatch: pytest.MonkeyPatch) -> Generator[threading.Event]:
    """The first turn is learned at the end of the block. Gives what is set once its turn has come."""
    estimates: Any = running.app.services.estimates
    gate, begun, learn_turn = threading.Event(), threading.Event(), estimates._learn

    def wait(*given: Any) -> Any:
        begun.set()
        assert gate.wait(20)
        return learn_turn(*given)

    monkeypatch.setattr(estimates, "_learn", wait)
    yield begun
    gate.set()


def break_learning(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make every turn fail to be learned."""
    monkeypatch.setattr(running.app.services.estimators, "find", lambda _: object())


def trace_statements(running: Running, note: Any) -> None:
    """Call something with each statement that runs on the file of counts, in the thread that runs it."""
    store: Any = running.app.services.estimators._store
    store._connection.set_trace_callback(note)


def hold_large_counts(running: Running, gate: threading.Event) -> tuple[list[str], list[str]]:
    """Have the counts of large bodies wait until the gate is set. Gives whose counts were asked for, and were made."""
    estimators: Any = running.app.services.estimators
    asked: list[str] = []
    made: list[str] = []
    run = estimators.run

    async def held(tenant: str, count: Any, size: int = 0) -> Any:
        def wait(estimator: Any) -> Any:
            assert size <= token_estimators.SMALL_BODY or gate.wait(20)
            made.append(tenant)
            return count(estimator)

        asked.append(tenant)
        return await run(tenant, wait, size)

    estimators.run = held
    return asked, made
