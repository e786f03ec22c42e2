"""Smaller bounds of the inspector, a page of one's own and a clock that a test sets.

This is the one place that knows where the program has them.
"""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from penstock._store.kept_turns import KeptTurnStore

if TYPE_CHECKING:
    from collections.abc import Generator

_PLACES = {
    "turns": "capture_ring.MAX_TURNS",  # in memory
    "memory": "capture_ring.MAX_TOTAL_BYTES",  # bytes
    "unwatched": "capture_ring.KEEP_SECONDS",  # seconds that turns stay after the last page was closed
    "answer": "live_capture.MAX_TURN_BYTES",
    "request": "live_capture.MAX_REQUEST_BYTES",
    "sent": "captured_attempts.MAX_UPSTREAM_BODY_BYTES",
    "frame": "schemas.MAX_FRAME_CHARACTERS",
    "rows": "turn_list.MAX_ROWS",  # that are read to count them
    "unread": "turn_listeners.MAX_UNREAD",  # changes that wait for a page
    "interval": "live_feed.LIST_INTERVAL",
    "steps": "file_inspector.MAX_UPLOAD_STEPS",
    "upload_answer": "file_inspector.MAX_UPLOAD_ANSWER_BYTES",
    "export": "file_inspector.MAX_EXPORT_BYTES",
    "queue": "turn_keeper.MAX_WAITING",  # turns that wait for the disk
    "reopen": "turn_keeper.OPEN_INTERVAL",
    "trim": "turn_keeper.TRIM_INTERVAL",
    "disk_sessions": "tenant_sessions.MAX_DISK_TURNS",
    "silent": "session_findings.SILENT_SECONDS",  # without bytes, until it is a stall
    "sessions": "turn_sessions.MAX_SESSIONS",
    "deletion": "worker_deletions.ANSWER_TIMEOUT",
}


@contextmanager
def bounds(**values: float) -> Generator[None]:
    """Bounds of gateways that are made meanwhile. `settle`: seconds until a clock that has jumped counts."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in values.items():
            if name == "settle":
                patch.setattr("penstock._store.settled_clock.SETTLE", value)
            elif name == "newest":  # rows of the journal that a search looks at first
                patch.setattr("penstock._store.journal.JournalStore.newest_rows", value)
            elif name == "lock":  # seconds that a writer waits for a reader
                patch.setattr("penstock._store.sqlite.LOCK_TIMEOUT", value)
            else:
                patch.setattr(f"penstock._inspector.{_PLACES[name]}", value)
            if name in {"request", "memory"}:  # what is smaller is not measured at once
                patch.setattr("penstock._inspector.live_capture.MEASURED_STEP", min(value, 2**16))
        yield


class Clock:
    """What time it is for the gateway: `ahead` seconds later than for all others."""

    ahead = 0.0


@contextmanager
def set_clock() -> Generator[Clock]:
    """The clock of gateways that are made meanwhile."""
    clock, real = Clock(), time.time

    def now() -> float:
        return real() + clock.ahead

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(time, "time", now)
        patch.setitem(KeptTurnStore.__init__.__kwdefaults__ or {}, "clock", now)
        yield clock
