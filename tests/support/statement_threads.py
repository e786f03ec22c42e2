"""Which threads run statements of SQLite in a gateway. SQLite calls a trace callback in the thread that runs one."""

from __future__ import annotations

import threading
from collections import Counter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.support.gateway import Running


class StatementThreads:
    """Counts statements that read, by the name of the thread, of the journal and of the state of turns."""

    def __init__(self, running: Running) -> None:
        services: Any = running.app.services
        self.seen: Counter[str] = Counter()
        self.loop = running._thread.name
        self._state, self._journal = services.telemetry.state, services.journal
        for writer in (self._state._writer, self._journal.rows._writer):
            for connection in (writer.connection, writer._reader):
                connection.set_trace_callback(self._note)

    def _note(self, statement: str) -> None:
        self.seen[threading.current_thread().name] += statement.startswith("SELECT")

    @property
    def on_loop(self) -> int:
        return self.seen[self.loop]

    def reads(self) -> int:
        """Rows that were looked for in the file of the state since the last call."""
        return self.seen.pop("penstock-reader-state.sqlite_0", 0)

    def has_readers(self) -> bool:
        """Whether there is a thread for reads of the state."""
        return self._state._writer._readers is not None

    def flush(self) -> None:
        """Wait until nothing is left in memory that would make a read unnecessary."""
        self._journal.flush()
        self._state.flush()

    def drop_table(self, name: str) -> None:
        self._state._writer.change(lambda database: database.execute(f"DROP TABLE {name}"))
