"""Steps that stories of several views share."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal

import pytest
from playwright.sync_api import expect

from tests.page.axe import serious
from tests.support.sample_turns import send_named

if TYPE_CHECKING:
    import re
    from collections.abc import Callable, Generator

    from playwright.sync_api import Locator, Page, Request, Route

    from tests.support.inspector import Inspected

PHONE = 390
# What differs most from the dark theme at 1280 pixels, in which stories go. `make nightly` looks at all four.
APPEARANCES: list[tuple[Literal["dark", "light"], int]] = [
    ("light", PHONE),
    ("light", 1400),
    ("dark", PHONE),
    ("dark", 1400),
]
_ALL = [pytest.param(*one, marks=pytest.mark.nightly) for one in APPEARANCES[1:]]
appearances = pytest.mark.parametrize(("theme", "width"), [APPEARANCES[0], *_ALL])


def look(page: Page, theme: Literal["dark", "light"] = "light", width: int = PHONE) -> None:
    """In another theme and width."""
    page.emulate_media(color_scheme=theme)
    page.set_viewport_size({"width": width, "height": 844})
    expect(page.locator("html")).to_have_attribute("data-theme", theme)


def expect_fit(page: Page) -> None:
    """The page is no wider than its window, and shuts nobody out."""
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    assert serious(page) == []


def wait_frames(page: Page) -> None:
    page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")


def drop_problems(problems: list[str], *words: str) -> None:
    """The console names what a story does on purpose."""
    problems[:] = [one for one in problems if not any(word in one for word in words)]


def drop_refusals(problems: list[str]) -> None:
    drop_problems(problems, "Failed to load resource")


def hold(page: Page, url: str | re.Pattern[str], times: int | None = None) -> list[Route]:
    """Requests to an address, which wait until the test continues or aborts them."""
    held: list[Route] = []

    def add(route: Route) -> None:
        held.append(route)

    page.route(url, add, times=times)
    return held


@contextmanager
def leaving(page: Page) -> Generator[None]:
    """The page is left before its gateway stops, which it would complain of."""
    try:
        yield
    finally:
        page.goto("about:blank")


def posts_to(path: str) -> Callable[[Request], bool]:
    return lambda asked: path in asked.url and asked.method == "POST"


def clipboard(page: Page) -> str:
    text: str = page.evaluate("navigator.clipboard.readText()")
    return text


# ── the list and a turn ───────────────────────────────────────────────────────────────────────────


def open_list(page: Page, gateway: Inspected) -> None:
    page.goto(f"{gateway.url}/")
    expect(page.get_by_role("status")).to_have_text("live")


def rows(page: Page) -> Locator:
    return page.locator(".list-rows [data-id]")


def search(page: Page) -> Locator:
    return page.get_by_role("combobox", name="Search requests")


def open_turn(page: Page, gateway: Inspected, model: str, client: str = "anthropic") -> str:
    """Watch, let a client ask, and open the turn that comes of it. Returns its id."""
    open_list(page, gateway)
    name, _ = send_named(gateway, model, client)
    row = page.locator(f".list-rows [data-id='{name}']")
    row.locator(".state:not(.run, .wait)").wait_for()
    row.click()
    page.get_by_role("region", name="One turn").wait_for()
    return name
