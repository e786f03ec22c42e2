"""`GET /vscode/usage`: tokens, cost and cache hits of the caller's key, by model and day."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

import httpx

from penstock._gateway.callers import ANONYMOUS
from penstock._gateway.endpoints.vscode import _midnight
from penstock._store.journal import JournalEntry
from penstock.gateway import App, Config, GatewayConfig

if TYPE_CHECKING:
    import pytest

DAY = 86_400.0


def entry(ago: float, model: str, **fields: Any) -> JournalEntry:
    moment = time.time() - ago * DAY
    return JournalEntry(time=moment, key=ANONYMOUS, model=model, operation="chat", status="finish", **fields)


def asked(entries: list[JournalEntry], query: str) -> httpx.Response:
    async def work() -> httpx.Response:
        config = GatewayConfig(engine=Config(), journal={"path": "memory"}, state={"path": "memory"})
        app = App(config, env={})
        rows = app.services.journal.rows
        assert rows is not None
        for row in entries:
            rows.add(row)
        rows.flush()
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client:
            response = await client.get(f"/vscode/usage{query}")
        await app.services.aclose()
        return response

    return asyncio.run(work())


def test_days_are_told_model_by_model() -> None:
    entries = [
        entry(0, "a", input=1_000, cached=800, output=50, cost=0.25),
        entry(0, "a", input=100, output=5, cost=0.5),
        entry(0, "b", input=10, output=1),
        entry(0, ""),
        entry(2, "a", input=7, output=1, cost=0.125),
        entry(40, "a", input=9, output=1, cost=9.0),
    ]
    told = asked(entries, "?days=30").json()
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


def test_days_are_asked_for() -> None:
    assert "days" not in asked([], "").json()
    for wrong in ("93", "-1", "x"):
        assert asked([], f"?days={wrong}").status_code == 400


def test_midnights_are_those_of_the_local_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Europe/Berlin leaves summer time in October: one day has 25 hours."""
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    try:
        now = time.struct_time((2026, 10, 26, 12, 0, 0, 0, 299, 0))
        monkeypatch.setattr(time, "localtime", lambda *_: now)
        assert _midnight(0) - _midnight(1) == 25 * 3600
        assert _midnight(1) - _midnight(2) == 24 * 3600
    finally:
        monkeypatch.undo()
        time.tzset()
