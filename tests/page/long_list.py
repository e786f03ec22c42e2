"""A gateway with a long history, and its list of requests in a real browser."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from playwright.sync_api import expect

from tests.support.inspector import inspected
from tests.support.journal_history import seed
from tests.support.sample_turns import send, wired

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

    from playwright.sync_api import Locator, Page

    from tests.support.inspector import Inspected

TURNS = 5_000


@contextmanager
def long_history(folder: Path) -> Generator[Inspected]:
    """A gateway with `TURNS` turns in its journal and three that are kept: one of them was cut, one failed."""
    path = folder / "journal.sqlite"
    seed(path, TURNS)
    with inspected(wired, journal={"path": str(path)}) as running:
        send(running, "openai-chat/text", "openai-chat", text="Where do pumps come from?")
        send(running, "openai-chat/length", "anthropic")
        send(running, "anthropic/overloaded")
        yield running


def open_list(page: Page, gateway: Inspected) -> Page:
    page.goto(f"{gateway.url}/")
    expect(page.get_by_role("status")).to_have_text("live")
    return page


def rows(page: Page) -> Locator:
    return page.locator(".list-rows [data-id]")


def search(page: Page) -> Locator:
    return page.get_by_role("combobox", name="Search requests")


def count(page: Page) -> Locator:
    return page.locator(".foot-count")
