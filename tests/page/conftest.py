"""A gateway with its inspector, and a real Chromium to look at its page.

The browser is a module's: Playwright holds an event loop in this thread as long as it runs, and tests elsewhere need one
of their own.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from penstock._inspector import keeping_policy
from penstock._inspector.static_files import StaticFiles
from tests.support.browser import LIMIT, SHOTS, chromium
from tests.support.inspector import Inspected, inspected

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page


@pytest.fixture(scope="module")
def gateway() -> Iterator[Inspected]:
    with inspected() as running:
        yield running


@pytest.fixture
def keeps_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Turns are kept while somebody watches only, as with team keys."""
    monkeypatch.setattr(keeping_policy, "is_loopback", lambda _host: False)


@pytest.fixture(scope="module")
def slow_gateway() -> Iterator[Inspected]:
    with inspected(serve={"pace": 0.02}) as running:
        yield running


# ── the browser ───────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="session")
def built() -> None:
    """The page is there to be looked at."""
    if not StaticFiles().built:
        pytest.skip("the inspector's page is not built (make web builds it)")


@pytest.fixture(scope="module")
def browser(built: None) -> Iterator[Browser]:
    """The machine's own Chromium, without a window."""
    assert built is None
    with chromium() as made:
        yield made


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    """A browser that has never been anywhere; dark, 1280 by 800. What it may not do is said in the test that asks it."""
    made = browser.new_context(
        viewport={"width": 1280, "height": 800}, color_scheme="dark", reduced_motion="reduce", accept_downloads=True
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
    """Take a picture, where pictures are wanted: `PENSTOCK_SHOTS=docs/pictures make test ARGS=tests/gateway/inspector`."""

    def taken(page: Page, name: str) -> None:
        if SHOTS:
            page.screenshot(path=Path(SHOTS) / f"{name}.png")

    return taken
