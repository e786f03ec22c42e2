"""Files that cannot be written stop no turn: what is kept waits in memory, is used from there, and is written later."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.client_requests import metric
from tests.support.gateway import gateway
from tests.support.openresponses import ask, asking, named
from tests.support.store_faults import FAULTS, no_writing

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("fault", FAULTS)
def test_turns_go_on_while_nothing_can_be_written(tmp_path: Path, caplog: pytest.LogCaptureFixture, fault: str) -> None:
    files: dict[str, Any] = {name: {"path": tmp_path / f"{name}.sqlite"} for name in ("journal", "state")}
    with gateway(named, **files) as (running, _), asking(running.url) as http:
        with no_writing(running, fault):
            response = ask(http, "Hi." * 5_000, "anthropic/text")
            for _ in range(30):  # more than fits into the pages that there are
                response = ask(http, "And?" * 5_000, "anthropic/text", previous_response_id=response["id"])
            http.get("/responses/x")
            running.rows()
            assert 0 < metric(running.url, "journal_waiting") <= 31  # a full disk has room for some
            assert metric(running.url, "journal_lost") == 0
        assert caplog.text.count("rows are held back") == 2
        assert (metric(running.url, "journal_waiting"), metric(running.url, "journal_lost")) == (0, 0)
    with closing(sqlite3.connect(tmp_path / "journal.sqlite")) as opened:
        assert opened.execute("SELECT count(*) FROM turns").fetchone() == (31,)
    with gateway(named, **files) as (running, _), asking(running.url) as http:
        assert http.get(f"/responses/{response['id']}").json()["id"] == response["id"]
