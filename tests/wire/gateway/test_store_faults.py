"""Files that cannot be written stop no turn: what is kept waits in memory, is used from there, and is written later."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from penstock._store.journal import JournalStore
from penstock._store.sqlite_writer import SqliteWriter
from tests.support.gateway import gateway
from tests.support.openresponses import ask, asking, named

if TYPE_CHECKING:
    from pathlib import Path

FAULTS = {
    "read-only": ("PRAGMA query_only=ON", "PRAGMA query_only=OFF"),
    "disk full": ("PRAGMA max_page_count=1", "PRAGMA max_page_count=1000000"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_turns_go_on_while_nothing_can_be_written(tmp_path: Path, caplog: pytest.LogCaptureFixture, fault: str) -> None:
    begin, end = FAULTS[fault]
    journal, state = (
        {"path": str(tmp_path / "journal.sqlite")},
        {"path": str(tmp_path / "state.sqlite")},
    )
    with gateway(named, journal=journal, state=state) as (running, _), asking(running.url) as http:
        services = running.app.services
        assert isinstance(services.journal.rows, JournalStore)
        state_writer = services.telemetry.state._writer
        assert isinstance(state_writer, SqliteWriter)
        writers = [services.journal.rows._writer, state_writer]
        for writer in writers:
            writer.flush()
            writer.connection.execute(begin)
        response = ask(http, "Hi." * 5_000, "anthropic/text")
        for _ in range(30):  # more than fits into the pages that there are
            response = ask(http, "And?" * 5_000, "anthropic/text", previous_response_id=response["id"])
        http.get("/responses/x")
        services.journal.flush()
        services.telemetry.state.flush()
        assert caplog.text.count("rows are held back") == 2
        assert 0 < services.journal.rows.waiting <= 31  # a full disk has room for some
        assert services.journal.lost == 0
        for writer in writers:
            writer.connection.execute(end)
        services.journal.flush()
        assert (services.journal.rows.total().turns, services.journal.lost) == (31, 0)
    with gateway(named, journal=journal, state=state) as (running, _), asking(running.url) as http:
        assert http.get(f"/responses/{response['id']}").json()["id"] == response["id"]
