"""What only the inside of a gateway has, for tests of the inspector's page."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any, cast

import msgspec

from benchmarks.kept_search import SESSION
from benchmarks.turn_search import KeptSearch, seed_kept
from penstock._gateway.client_form import ClientForm
from penstock._gateway.worker_metrics import WorkerMetrics
from penstock._inspector.file_inspector import SingleFileApp
from penstock._inspector.kept_turn import KeptTurn
from penstock._inspector.stream_traces import source_from_file
from penstock._inspector.turn_keeper import encode_turn
from penstock._store.journal import JournalEntry
from penstock._store.kept_turns import FILE
from tests.support.gateway import Running

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable
    from pathlib import Path

    from tests.support.inspector import Inspected

__all__ = [
    "KeptSearch",
    "add_stuck_worker",
    "drop_listeners",
    "estimate_every_turn",
    "flush",
    "seed_readable",
    "serve_file",
    "set_times",
]


def flush(gateway: Inspected) -> None:
    """Wait until the turns so far are counted, and are in the journal and on disk."""
    services = gateway.inspector.services
    services.estimates.flush()
    services.journal.flush()
    gateway.inspector.watch.disk.flush()


def estimate_every_turn(gateway: Inspected) -> None:
    """Not a sample of them."""
    cast("Any", gateway.inspector.services.estimates)._interval = 0.0


def add_stuck_worker(gateway: Inspected, folder: Path) -> None:
    """The gateway is one of two processes, and the other one does not answer."""
    WorkerMetrics(folder, 0, gateway.inspector.services.metrics)
    (folder / "worker-1").touch()


def drop_listeners(gateway: Inspected) -> None:
    """Everybody who listens is let go, as by a gateway that restarts."""
    watch = gateway.inspector.watch

    async def drop() -> None:
        watch.close()
        while watch.listeners:  # noqa: ASYNC110 — nobody tells when a reader has gone
            await asyncio.sleep(0.01)
        watch.closed = False

    gateway.call(drop())


@contextmanager
def serve_file(data: bytes, name: str) -> Generator[str]:
    """What `penstock inspect --web` serves: one stream without a gateway. Gives its address."""
    app: Any = SingleFileApp(source_from_file(data, name))
    with Running(app, plain=True) as running:
        yield running.url


def seed_readable(folder: Path, turns: int) -> list[KeptSearch]:
    """Write this many turns to the journal and to the file of kept turns. Returns searches for them.

    Each turn of a session has the messages of those before it.
    """
    searches = seed_kept(folder, turns)
    with closing(sqlite3.connect(folder / FILE)) as file, file:
        for place in range(SESSION):
            said = [{"role": "user", "content": "a message"}] * (place + 1)
            turn = KeptTurn(
                id="turn",
                entry=JournalEntry(time=0.0, request_id="turn", protocol="openai-chat"),
                client=ClientForm("openai-chat"),
                request=json.dumps({"messages": said}).encode(),
            )
            body = encode_turn(turn, ()).body
            file.execute("UPDATE bodies SET body = ? WHERE (turn - 1) % ? = ?", (body, SESSION, place))
    return searches


def set_times(running: Inspected, ids: Iterable[str], times: Iterable[tuple[float, float]], start: float) -> None:
    """Gives turns that are over other times: the gap before each, and how long it took."""
    now = start
    for turn, (gap, duration) in zip(ids, times, strict=True):
        capture = running.inspector.watch.captures[turn]
        assert capture.entry is not None
        now += gap
        capture._time = now
        capture.entry = msgspec.structs.replace(capture.entry, time=now, duration=duration, ttft=duration / 4)
        now += duration
