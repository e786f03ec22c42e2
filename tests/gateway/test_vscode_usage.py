"""`GET /vscode/usage`: tokens, cost and cache hits of the caller's key, by model and day."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from tests.support.asgi_gateway import AsgiGateway
from tests.support.journal_history import write_turns

if TYPE_CHECKING:
    from pathlib import Path

    import httpx
    import pytest

DAY = 86_400.0


def entry(ago: float, model: str, **fields: Any) -> dict[str, Any]:
    moment = time.time() - ago * DAY
    return {"time": moment, "key": "anonymous", "model": model, "operation": "chat", "status": "finish", **fields}


def asked(folder: Path, entries: list[dict[str, Any]], query: str) -> httpx.Response:
    write_turns(folder / "journal.sqlite", entries)
    with AsgiGateway(journal={"path": str(folder / "journal.sqlite"), "days": 99.0}) as gateway:
        return gateway.ask(f"/vscode/usage{query}")


def test_days_are_told_model_by_model(tmp_path: Path) -> None:
    entries = [
        entry(0, "a", input=1_000, cached=800, output=50, cost=0.25),
        entry(0, "a", input=100, output=5, cost=0.5),
        entry(0, "b", input=10, output=1),
        entry(0, ""),
        entry(2, "a", input=7, output=1, cost=0.125),
        entry(40, "a", input=9, output=1, cost=9.0),
    ]
    told = asked(tmp_path, entries, "?days=30").json()
    assert len(told["days"]) == 30
    assert told["days"][-1]["day"] == time.strftime("%Y-%m-%d")
    today = {row["model"]: row for row in told["days"][-1]["models"]}
    expected = {"requests": 2, "input": 1_100, "cached": 800, "output": 55, "cost": 0.75, "unpriced": 0}
    assert today["a"] == {"model": "a", **expected}
    assert today["b"]["unpriced"] == 1
    assert (today[""]["requests"], today[""]["input"], today[""]["unpriced"]) == (1, 0, 0)
    earlier = [row["day"] for row in told["days"][:-1] if row["models"]]
    assert earlier == [time.strftime("%Y-%m-%d", time.localtime(time.time() - 2 * DAY))]
    assert told["today"]["cached"] == 800


def test_days_are_asked_for(tmp_path: Path) -> None:
    assert "days" not in asked(tmp_path, [], "").json()
    for wrong in ("93", "-1", "x"):
        assert asked(tmp_path, [], f"?days={wrong}").status_code == 400


def test_days_begin_at_midnights_of_the_local_clock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Europe/Berlin leaves summer time in October: the 25th has 25 hours."""
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    try:
        local = time.localtime
        noon = time.mktime((2026, 10, 26, 12, 0, 0, 0, 0, -1))
        monkeypatch.setattr(time, "time", lambda: noon)
        monkeypatch.setattr(time, "localtime", lambda *at: local(*at) if at else local(noon))
        hours = {"first": 37 - 1 / 60, "before": 37 + 1 / 60, "last": 12 + 1 / 60}  # hours before that noon
        entries = [entry(ago / 24, name) for name, ago in hours.items()]
        told = asked(tmp_path, entries, "?days=3").json()["days"]
    finally:
        monkeypatch.undo()
        time.tzset()
    found = {row["day"]: {one["model"] for one in row["models"]} for row in told}
    assert found == {"2026-10-24": {"before"}, "2026-10-25": {"first", "last"}, "2026-10-26": set()}
