"""What is kept, its switches, deleting one turn and all; and the question for a key."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

from playwright.sync_api import expect

from penstock.testing import Reply
from tests.page.axe import serious
from tests.page.steps import drop_problems, leaving, open_list
from tests.support.client_requests import ask
from tests.support.event_feed import ended
from tests.support.gateway import answer, hash_key
from tests.support.inspector import Inspected, inspected
from tests.support.inspector_bounds import bounds
from tests.support.inspector_calls import lost, view
from tests.support.kept_on_disk import FILE
from tests.support.page_gateway import add_stuck_worker, flush

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from playwright.sync_api import Page

    from penstock.testing import ReceivedRequest

KEY = "pk-penstock-question-0123456789"
ENDPOINTS = ("Chat", "Responses", "Messages", "UI stream", "VS Code")  # Gemini answers 400 to a wrong key


def ask_text(gateway: Inspected) -> str:
    name = str(ask(gateway.url, "anthropic", "replay/text").headers["x-request-id"])
    ended(gateway, name)
    return name


def test_turns_are_kept_on_disk_paused_and_deleted(
    tmp_path: Path, page: Page, problems: list[str], shot: Callable[[Page, str], None]
) -> None:
    with inspected(data=tmp_path) as gateway, leaving(page):
        gone, other = ask_text(gateway), ask_text(gateway)
        page.goto(f"{gateway.url}/")
        page.get_by_role("button", name="The newest turns are kept in memory").click()
        dialog = page.get_by_role("dialog", name="What is kept")
        expect(dialog).to_contain_text("2 turns, 0.0 of 32 MB")
        dialog.get_by_label("Keep turns on disk").check()
        expect(page.get_by_role("button", name="Turns are kept on disk")).to_be_attached()
        assert view(gateway, "keeping")["disk"]["on"]
        shot(page, "inspector-keeping")
        assert serious(page, "dialog[open]") == []
        dialog.get_by_role("button", name="Pause keeping").click()
        expect(dialog.get_by_role("button", name="Resume keeping")).to_be_visible()
        assert view(gateway, "keeping")["paused"]
        dialog.get_by_role("button", name="Resume keeping").click()
        expect(dialog.get_by_role("button", name="Pause keeping")).to_be_visible()
        dialog.get_by_role("button", name="Close").click()
        page.goto(f"{gateway.url}/#/turn/{gone}")
        page.get_by_role("button", name="Delete", exact=True).click()
        page.get_by_role("button", name="Delete now").click()
        expect(page).to_have_url(f"{gateway.url}/#/streams")
        assert "deleted" in lost(gateway, gone)
        assert lost(gateway, other) == ""
        page.goto(f"{gateway.url}/#/turn/{gone}")
        page.reload()
        expect(page.locator(".bare-why")).to_contain_text("it was deleted on the inspector's page")
        page.goto(f"{gateway.url}/#/streams")
        page.get_by_role("button", name="Turns are kept on disk").click()
        dialog.get_by_role("button", name="Delete all …").click()
        dialog.get_by_role("button", name="Delete all now").click()
        expect(dialog).to_contain_text("0 turns, 0.0 of 32 MB")
        assert "deleted" in lost(gateway, other)
    drop_problems(problems, "404")  # what was deleted has no request


def test_why_turns_were_not_kept_or_deleted_is_said(tmp_path: Path, page: Page, problems: list[str]) -> None:
    with bounds(lock=0.1), inspected(data=tmp_path, inspector={"keep": True}) as gateway, leaving(page):
        name = ask_text(gateway)
        flush(gateway)
        with closing(sqlite3.connect(tmp_path / FILE, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")  # another program holds the lock of the file
            _expect_deletion_says(gateway, page, name, "not from disk")
            kept = other.execute("SELECT count(*) FROM turns").fetchone()
        assert kept == (1,)
    drop_problems(problems, "503")
    with bounds(deletion=0.1), inspected(data=tmp_path / "data") as gateway, leaving(page):
        name = ask_text(gateway)
        add_stuck_worker(gateway, tmp_path)
        _expect_deletion_says(gateway, page, name, "It deletes its turns before it shows any of them again.")
        assert "deleted" in lost(gateway, name)
    (tmp_path / "other" / FILE).mkdir(parents=True)  # a file that cannot be used
    with inspected(data=tmp_path / "other", inspector={"keep": True}) as gateway, leaving(page):
        ask_text(gateway)
        page.goto(f"{gateway.url}/")
        page.get_by_role("button", name="Turns cannot be kept on disk").click()
        error = page.get_by_role("dialog", name="What is kept").locator(".error")
        expect(error).to_contain_text("turns cannot be kept on disk: ")
        expect(error).to_contain_text(FILE)


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


# ── the question for a key ────────────────────────────────────────────────────────────────────────


def locked(seen: ReceivedRequest) -> Reply:
    """An upstream that knows no key."""
    model = str(seen.json.get("model", "")) if seen.body else ""
    return Reply.error("openai-chat", 401, "the provider knows no such key") if model == "locked" else answer(seen)


def ask_model(page: Page, model: str) -> None:
    """The page asks the gateway then whose 401 it was."""
    page.get_by_label("Model", exact=True).select_option("")
    page.get_by_label("Name of the model").fill(model)
    page.get_by_label("Your message").fill("Hello?")
    with page.expect_response("**/inspector/about") as about:
        page.get_by_role("button", name="Send").click()
    assert about.value.json()["key"] == "none"


def test_a_401_of_a_provider_leaves_the_page_open(page: Page, problems: list[str]) -> None:
    with inspected(locked) as running, leaving(page):
        page.goto(f"{running.url}/#/try")
        question, alert = page.get_by_role("heading", name="This gateway wants a key"), page.get_by_role("alert")
        for count, endpoint in enumerate(ENDPOINTS, 1):
            page.get_by_role("button", name=endpoint, exact=True).click()
            ask_model(page, "openai-chat/locked")
            expect(alert.nth(count - 1)).to_contain_text("the provider knows no such key")
        assert len(problems) == len(ENDPOINTS)
        assert all("401" in problem for problem in problems)
        ask_model(page, "groq/llama")  # a provider whose key is not set
        expect(alert.last).to_contain_text("GROQ_API_KEY")
        page.get_by_role("link", name="Streams", exact=True).click()
        expect(page.locator(".streams-foot .live")).to_have_text("live")
        expect(question).to_have_count(0)
        problems.clear()


def test_a_key_is_asked_for_goes_no_further_and_sees_only_its_own(page: Page, problems: list[str]) -> None:
    keys = {"anna": {"hash": hash_key(KEY)}, "root": {"hash": hash_key(KEY + "x"), "inspect": "all"}}
    with inspected(keys=keys) as running, leaving(page):
        page.goto(f"{running.url}/#key=pk-penstock-wrong-0123456789&to=streams")
        expect(page.get_by_role("heading", name="This gateway wants a key")).to_be_visible()
        field = page.get_by_role("textbox", name="Key")
        expect(field).to_be_focused()
        field.fill("wrong")
        page.get_by_role("button", name="Open").click()
        expect(page.get_by_text("is not known to it")).to_be_visible()
        field.fill(KEY)
        page.keyboard.press("Enter")
        expect(page.locator(".streams-foot .live")).to_have_text("live")
        expect(page.get_by_role("heading", name="None of this key's requests yet")).to_be_visible()
        expect(page.get_by_text("sees only the requests of its own tenant")).to_be_visible()
        page.evaluate("sessionStorage.clear()")
        page.goto("about:blank")
        open_list_with(page, running, f"{KEY}x")
        expect(page.get_by_role("heading", name="No requests yet", exact=True)).to_be_visible()
        assert page.url == f"{running.url}/#/"
        page.go_back()
        assert page.url == "about:blank"  # the address with the key was no step of its own
        drop_problems(problems, "401")
    with inspected(without_session=True) as running, leaving(page):
        page.goto(f"{running.url}/#/streams")
        expect(page.get_by_role("textbox", name="Link or token")).to_be_focused()
        page.goto("about:blank")
        page.goto(f"{running.url}/#session={running.inspector.session_token}")
        open_list(page, running)
    drop_problems(problems, "401")


def open_list_with(page: Page, gateway: Inspected, key: str) -> None:
    page.goto(f"{gateway.url}/#key={key}")
    expect(page.get_by_role("status")).to_have_text("live")
