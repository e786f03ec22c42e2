"""The "Try it" view in a browser: open it, choose a model, send a message."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Page, Route


def open_try_view(page: Page, url: str) -> Page:
    """Show the view of the gateway at `url`, before the first message."""
    page.goto(f"{url}/#/try")
    page.get_by_role("heading", name="See a stream").wait_for()
    return page


def choose_model(page: Page, model: str) -> None:
    page.get_by_label("Model", exact=True).select_option("")
    page.get_by_label("Name of the model").fill(model)


def send_message(page: Page, text: str) -> None:
    page.get_by_label("Your message").fill(text)
    page.get_by_role("button", name="Send", exact=True).click()


def wait_for_answer(page: Page, count: int = 1) -> None:
    """Wait until that many answers have come to their end."""
    page.locator(".ending-finish").nth(count - 1).wait_for()


def send_and_wait(page: Page, text: str, count: int = 1) -> None:
    """Send the message number `count` of a conversation, and wait for its answer."""
    send_message(page, text)
    wait_for_answer(page, count)


def hold_first(page: Page, url: str) -> list[Route]:
    """Hold back the first request to an address until the test continues or aborts it."""
    held: list[Route] = []

    def hold(route: Route) -> None:
        held.append(route)

    page.route(url, hold, times=1)
    return held
