"""Turns that a gateway keeps on disk: a gateway with a data folder, what it tells of a turn, restarts and workers."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import httpx

from penstock._gateway.worker_metrics import WorkerMetrics
from tests.support.client_requests import get, post
from tests.support.event_feed import bearer

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.inspector import Inspected

KEEP = {"keep": True}


def on_disk(tmp_path: Path, **more: Any) -> dict[str, Any]:
    """A gateway whose data folder outlives it."""
    journal = {"path": str(tmp_path / "journal.sqlite")}
    return {"inspector": KEEP, "data": tmp_path, "journal": journal, **more}


def trace_of(gateway: Inspected, name: str, key: str = "") -> Any:
    response = get(f"{gateway.url}/inspector/turns/{name}", headers=bearer(key) if key else {})
    assert response.status_code == 200, response.text
    return response.json()


def without_times(outputs: list[Any]) -> list[Any]:
    """The Responses API says when a response was completed: that is the time of the trace."""
    return [{**row, "data": re.sub(r'"completed_at":\d+', "", row["data"])} for row in outputs]


def change(gateway: Inspected, **fields: bool) -> httpx.Response:
    return post(f"{gateway.url}/inspector/keeping", json=fields)


def delete(url: str, key: str = "") -> httpx.Response:
    headers = bearer(key) if key else {}
    return httpx.delete(url, timeout=20, trust_env=False, headers=headers)


def written(gateway: Inspected) -> None:
    gateway.inspector.watch.disk.flush()


def restart(gateway: Inspected) -> None:
    """Nothing is remembered, as after a restart. The file stays."""
    gateway.call(_forget_all(gateway))


async def _forget_all(gateway: Inspected) -> None:
    watch = gateway.inspector.watch
    watch.clear()
    watch.policy.started += 3600
    watch.policy.forgotten.clear()


def add_workers(gateway: Inspected, folder: Path) -> None:
    """The gateway is one of several processes from now on."""
    WorkerMetrics(folder, 0, gateway.app.services.metrics)
