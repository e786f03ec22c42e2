"""What must outlive a turn: reasoning state, and responses that clients ask for again. One SQLite file, tenants apart.

Leans on `store.rows`. A file that cannot be written is said, and done without, unless it was asked for by name.
"""

from __future__ import annotations

import logging
import sqlite3
import time
from typing import TYPE_CHECKING, TypeVar

from penstock.errors import StreamFault
from penstock.events import Fault
from penstock.gateway.config import place_of
from penstock.store.key_value import SqliteRows
from penstock.store.sqlite import ABSENT
from penstock.store.writer import Writer
from penstock.stores import HOUR, Bounds

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from penstock.gateway.config import GatewayConfig, StateTable

T = TypeVar("T")
FILE = "state.sqlite"
SHARE = 8  # a tenant has at most this part of all
log = logging.getLogger("penstock.state")


class State:
    """`reasoning` is a `penstock.stores.ReasoningStore`; `responses` the same for stored responses, by their ids."""

    def __init__(self, table: StateTable, path: Path, clock: Callable[[], float] = time.time) -> None:
        self._writer = Writer(path)
        age, size = table.hours * HOUR, table.size // 2
        rows = Bounds(rows=50_000, size=max(size // SHARE, 1), total=size, age=age)
        try:
            self.reasoning = SqliteRows(self._writer, "reasoning", clock, rows)
            self.responses = SqliteRows(self._writer, "responses", clock, rows)
        except BaseException:
            self._writer.close()
            raise

    @classmethod
    def open(cls, config: GatewayConfig) -> State:
        """The state that a configuration asks for."""
        try:
            return cls(config.state, place_of(config.state.path, config.data, FILE))
        except OSError as error:
            if config.state.path:
                raise
            log.warning("state is kept in memory only: %s", error)
            return cls(config.state, ABSENT)

    async def read(self, work: Callable[[], T]) -> T:
        """Look something up in a thread, while the event loop goes on. A file that cannot be read is a fault."""
        try:
            return await self._writer.in_thread(work)
        except sqlite3.Error as error:
            log.error("%s cannot be read: %s", self._writer.path, error)  # noqa: TRY400 — the file's fault, not ours
            said = f"stored responses cannot be read just now: {error}"
            raise StreamFault(Fault("server", said, status=503, code="store_unavailable", retry_after=1)) from None

    def flush(self) -> None:
        self._writer.flush()

    def close(self) -> None:
        """Write what waits."""
        self._writer.close()
