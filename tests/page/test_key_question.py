"""The page asks for the gateway's key when the gateway refuses its key, and never because a provider answered 401."""

from __future__ import annotations

from typing import TYPE_CHECKING

from playwright.sync_api import expect

from penstock.testing import Reply
from tests.support.gateway import answer, hash_key
from tests.support.inspector import inspected

if TYPE_CHECKING:
    from playwright.sync_api import Page

    from penstock.testing import ReceivedRequest

ENDPOINTS = ("Chat", "Responses", "Messages", "UI stream", "VS Code")  # Gemini answers 400 to a wrong key
KEY = "pk-penstock-question-0123456789"


def locked(seen: ReceivedRequest) -> Reply:
    """An upstream that knows no key."""
    model = str(seen.json.get("model", "")) if seen.body else ""
    return Reply.error("openai-chat", 401, "the provider knows no such key") if model == "locked" else answer(seen)


def ask_model(page: Page, model: str) -> None:
    page.get_by_label("Model", exact=True).select_option("")
    page.get_by_label("Name of the model").fill(model)
    page.get_by_label("Your message").fill("Hello?")
    page.get_by_role("button", name="Send").click()


def test_a_401_of_a_provider_leaves_the_page_open(page: Page, problems: list[str]) -> None:
    with inspected(locked) as running:
        page.goto(f"{running.url}/#/try")
        for count, endpoint in enumerate(ENDPOINTS, 1):
            page.get_by_role("button", name=endpoint, exact=True).click()
            with page.expect_response("**/inspector/about") as about:  # the page asks the gateway whose 401 it was
                ask_model(page, "openai-chat/locked")
            assert about.value.json()["key"] == "none"
            expect(page.get_by_role("alert").nth(count - 1)).to_contain_text("the provider knows no such key")
        page.get_by_role("link", name="Streams", exact=True).click()
        expect(page.locator(".streams-foot .live")).to_have_text("live")
        expect(page.get_by_role("heading", name="This gateway wants a key")).to_have_count(0)
        assert len(problems) == len(ENDPOINTS)
        assert all("401" in problem for problem in problems)
        problems.clear()


def test_a_provider_without_a_key_leaves_the_page_open(page: Page, problems: list[str]) -> None:
    with inspected() as running:
        page.goto(f"{running.url}/#/try")
        with page.expect_response("**/inspector/about"):
            ask_model(page, "groq/llama")
        expect(page.get_by_role("alert")).to_contain_text("GROQ_API_KEY")
        expect(page.get_by_role("heading", name="This gateway wants a key")).to_have_count(0)
        problems.clear()


def test_the_gateways_own_refusal_asks_for_the_key(page: Page, problems: list[str]) -> None:
    with inspected(keys={"anna": {"hash": hash_key(KEY)}}) as running:
        page.goto(f"{running.url}/#key=pk-penstock-wrong-0123456789&to=streams")
        expect(page.get_by_role("heading", name="This gateway wants a key")).to_be_visible()
        page.get_by_role("textbox", name="Key").fill(KEY)
        page.get_by_role("button", name="Open").click()
        expect(page.locator(".streams-foot .live")).to_have_text("live")
        problems.clear()


def test_an_empty_list_says_that_a_key_sees_only_its_own(page: Page) -> None:
    with inspected(
        keys={"anna": {"hash": hash_key(KEY)}, "root": {"hash": hash_key(KEY + "x"), "inspect": "all"}}
    ) as running:
        page.goto(f"{running.url}/#key={KEY}&to=streams")
        expect(page.get_by_role("heading", name="None of this key's requests yet")).to_be_visible()
        expect(page.get_by_text("sees only the requests of its own tenant")).to_be_visible()
        page.goto("about:blank")
        page.goto(f"{running.url}/#key={KEY}x&to=streams")
        expect(page.get_by_role("heading", name="No requests yet", exact=True)).to_be_visible()
