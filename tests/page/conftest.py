"""A real Chromium to look at the inspector's page: one for all modules of a process."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.browser import LIMIT, PAGE, SHOTS, shared_chromium

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page


@pytest.fixture(scope="session")
def built() -> None:
    """The page is there to be looked at."""
    if not (PAGE / "index.html").exists():
        pytest.skip("the inspector's page is not built (make web builds it)")


@pytest.fixture(scope="session")
def chromium(built: None) -> Iterator[Callable[[], AbstractContextManager[Browser]]]:
    assert built is None
    with shared_chromium() as taken:
        yield taken


@pytest.fixture(scope="module")
def browser(chromium: Callable[[], AbstractContextManager[Browser]]) -> Iterator[Browser]:
    """The machine's own Chromium, without a window."""
    with chromium() as made:
        yield made


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    """A browser that has never been anywhere; dark, 1280 by 800."""
    made = browser.new_context(
        viewport={"width": 1280, "height": 800},
        color_scheme="dark",
        reduced_motion="reduce",
        accept_downloads=True,
        permissions=["clipboard-read", "clipboard-write"],
    )
    made.set_default_timeout(LIMIT)
    try:
        yield made
    finally:
        made.close()


@pytest.fixture
def problems() -> list[str]:
    """What went wrong in the page: errors in the console, exceptions, requests to the world outside. A test that
    expects some takes them out.
    """
    return []


@pytest.fixture
def page(context: BrowserContext, problems: list[str]) -> Iterator[Page]:
    """A page. It must not complain, and must ask nobody but this machine."""
    made = context.new_page()
    made.on("console", lambda said: problems.append(_console_line(said)) if said.type == "error" else None)
    made.on("pageerror", lambda error: problems.append(f"exception: {error}"))
    made.on("request", lambda asked: _outside(asked.url, problems))
    yield made
    assert problems == []


def _console_line(said: ConsoleMessage) -> str:
    return f"console: {said.text} ({said.location.get('url', '')})"


def _outside(url: str, problems: list[str]) -> None:
    if not url.startswith(("http://127.0.0.1:", "data:", "blob:", "file:")):
        problems.append(f"asked {url}")


@pytest.fixture
def shot() -> Callable[[Page, str], None]:
    """Take a picture, where pictures are wanted: `PENSTOCK_SHOTS=docs/pictures make test ARGS=tests/page`."""

    def taken(page: Page, name: str) -> None:
        if SHOTS:
            page.screenshot(path=Path(SHOTS) / f"{name}.png")

    return taken
