"""Files of a gateway that cannot be written for a while."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Generator

    from tests.support.gateway import Running

FAULTS = {
    "read-only": ("PRAGMA query_only=ON", "PRAGMA query_only=OFF"),
    "disk full": ("PRAGMA max_page_count=1", "PRAGMA max_page_count=1000000"),
}


@contextmanager
def no_writing(running: Running, fault: str) -> Generator[None]:
    """Nothing can be written to the journal and the state meanwhile. What waits is tried at once, before and after."""
    services: Any = running.app.services
    begin, end = FAULTS[fault]
    writers = [services.journal.rows._writer, services.telemetry.state._writer]
    for writer in writers:
        writer.flush()
        writer.connection.execute(begin)
    yield
    for writer in writers:
        writer.flush()
        writer.connection.execute(end)
        writer.flush()
