"""What is kept, on the page: its line, its switches, deleting one turn and all."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

from playwright.sync_api import expect

from penstock._gateway.worker_metrics import WorkerMetrics
from penstock._inspector import worker_deletions
from penstock._store.kept_turns import FILE
from tests.page.axe import serious
from tests.support.client_requests import ask
from tests.support.event_feed import ended
from tests.support.inspector import Inspected, inspected

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import pytest
    from playwright.sync_api import Page


def test_turns_are_kept_on_disk_paused_and_deleted(
    tmp_path: Path, page: Page, problems: list[str], shot: Callable[[Page, str], None]
) -> None:
    with inspected(data=tmp_path) as gateway:
        names = [ask(gateway.url, "anthropic", "replay/text").headers["x-request-id"] for _ in range(2)]
        for name in names:
            ended(gateway, name)
        watch = gateway.inspector.watch
        page.goto(f"{gateway.url}/")
        page.get_by_role("button", name="The newest turns are kept in memory").click()
        dialog = page.get_by_role("dialog", name="What is kept")
        expect(dialog).to_contain_text("2 turns, 0.0 of 32 MB")
        dialog.get_by_label("Keep turns on disk").check()
        expect(page.get_by_role("button", name="Turns are kept on disk")).to_be_attached()
        assert watch.disk.enabled
        shot(page, "inspector-keeping")
        assert serious(page) == []
        dialog.get_by_role("button", name="Pause keeping").click()
        expect(dialog.get_by_role("button", name="Resume keeping")).to_be_visible()
        assert watch.policy.paused
        dialog.get_by_role("button", name="Resume keeping").click()
        expect(dialog.get_by_role("button", name="Pause keeping")).to_be_visible()
        dialog.get_by_role("button", name="Close").click()
        page.goto(f"{gateway.url}/#/turn/{names[0]}")
        page.get_by_role("button", name="Delete", exact=True).click()
        page.get_by_role("button", name="Delete now").click()
        expect(page).to_have_url(f"{gateway.url}/#/streams")
        assert names[0] not in watch.captures
        assert names[1] in watch.captures
        page.goto(f"{gateway.url}/#/turn/{names[0]}")
        expect(page.locator(".bare-why")).to_contain_text("it was deleted on the inspector's page")
        page.goto(f"{gateway.url}/#/streams")
        page.get_by_role("button", name="Turns are kept on disk").click()
        dialog.get_by_role("button", name="Delete all …").click()
        dialog.get_by_role("button", name="Delete all now").click()
        expect(dialog).to_contain_text("0 turns, 0.0 of 32 MB")
        assert not watch.captures
        assert not watch.disk.holds(names[1])
    problems[:] = [problem for problem in problems if "404" not in problem]  # what was deleted has no request


def test_why_turns_were_not_deleted_is_said(
    tmp_path: Path, page: Page, problems: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another program holds the lock of the file."""
    monkeypatch.setattr("penstock._store.sqlite.LOCK_TIMEOUT", 0.1)
    with inspected(data=tmp_path, inspector={"keep": True}) as gateway:
        name = ask(gateway.url, "anthropic", "replay/text").headers["x-request-id"]
        ended(gateway, name)
        gateway.inspector.watch.disk.flush()
        with closing(sqlite3.connect(tmp_path / FILE, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            _expect_deletion_says(gateway, page, name, "not from disk")
        assert gateway.inspector.watch.disk.holds(name)
    problems[:] = [problem for problem in problems if "503" not in problem]


def test_a_worker_that_does_not_answer_is_said(tmp_path: Path, page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_deletions, "ANSWER_TIMEOUT", 0.1)
    with inspected(data=tmp_path / "data") as gateway:
        name = ask(gateway.url, "anthropic", "replay/text").headers["x-request-id"]
        ended(gateway, name)
        WorkerMetrics(tmp_path, 0, gateway.app.services.metrics)
        (tmp_path / "worker-1").touch()  # a process that is stuck
        _expect_deletion_says(gateway, page, name, "It deletes its turns before it shows any of them again.")
        assert not gateway.inspector.watch.captures


def _expect_deletion_says(gateway: Inspected, page: Page, name: str, text: str) -> None:
    page.goto(f"{gateway.url}/#/turn/{name}")
    page.get_by_role("button", name="Delete", exact=True).click()
    page.get_by_role("button", name="Delete now").click()
    expect(page.get_by_role("alert")).to_contain_text(text)
    page.goto(f"{gateway.url}/#/streams")
    page.locator(".keeping-open").click()
    dialog = page.get_by_role("dialog", name="What is kept")
    dialog.get_by_role("button", name="Delete all …").click()
    dialog.get_by_role("button", name="Delete all now").click()
    expect(dialog.get_by_role("alert")).to_contain_text(text)


def test_a_file_that_cannot_be_used_is_said_on_the_page(tmp_path: Path, page: Page) -> None:
    (tmp_path / FILE).mkdir()
    with inspected(data=tmp_path, inspector={"keep": True}) as gateway:
        ended(gateway, ask(gateway.url, "anthropic", "replay/text").headers["x-request-id"])
        page.goto(f"{gateway.url}/")
        page.get_by_role("button", name="Turns cannot be kept on disk").click()
        dialog = page.get_by_role("dialog", name="What is kept")
        expect(dialog.locator(".error")).to_contain_text("turns cannot be kept on disk: ")
        expect(dialog.locator(".error")).to_contain_text(FILE)
