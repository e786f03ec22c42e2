"""Several gateways that record to one folder: no recording replaces another, and a folder is bounded."""

from __future__ import annotations

import os
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from penstock.testing import read_recording
from tests.support.client_requests import ask
from tests.support.gateway import gateway
from tests.support.openresponses import until

if TYPE_CHECKING:
    from pathlib import Path


def recordings(folder: Path) -> list[Path]:
    return [path for path in folder.iterdir() if path.suffix != ".part"] if folder.exists() else []


def record(url: str) -> str:
    """One turn, whose id is returned."""
    return str(ask(url, "openai-chat", "openai-chat/text").headers["x-request-id"])


def test_recordings_of_the_same_second_are_all_there(tmp_path: Path) -> None:
    with ExitStack() as stack:
        urls = [
            stack.enter_context(gateway(record={"path": tmp_path}))[0].url for _ in range(3)
        ]  # each counts from one
        ids = {record(url) for url in urls}
    assert {read_recording(path).header.id for path in recordings(tmp_path)} == ids
    assert not list(tmp_path.glob("*.part"))


def test_recordings_from_the_future_go_first(tmp_path: Path) -> None:
    """The clock was set back after they were written: new recordings must not be deleted for them."""
    with gateway(record={"path": tmp_path}) as (running, _):
        old = [record(running.url) for _ in range(3)]
        until(lambda: len(recordings(tmp_path)) == 3)
    size = max(path.stat().st_size for path in recordings(tmp_path))
    for path in recordings(tmp_path):
        os.utime(path, (time.time() + 1e9,) * 2)
    table: dict[str, Any] = {"path": tmp_path, "total": 3 * size + size // 2}
    with gateway(record=table) as (running, _):
        new = [record(running.url) for _ in range(3)]
    left = {read_recording(path).header.id for path in recordings(tmp_path)}
    assert set(new) <= left
    assert not set(old) & left
