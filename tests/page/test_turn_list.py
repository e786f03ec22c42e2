"""The list of turns, live, in a real browser: what comes and goes, search, pause, keys, a lost connection."""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from tests.support.gateway import hash_key
from tests.support.inspector import inspected
from tests.support.sample_turns import send, sending, wired

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Locator, Page

    from tests.support.inspector import Inspected

REACHABLE = """[...document.querySelectorAll("a, button, input, select, textarea, [tabindex]")]
    .filter((one) => one.tabIndex >= 0 && one.checkVisibility()).length"""
KEY = "pk-inspector-test-key"


@pytest.fixture(scope="module")
def stage() -> Iterator[Inspected]:
    with inspected(wired) as running:
        send(running, "openai-chat/text", "openai-chat")
        send(running, "gemini/text", "responses")
        send(running, "anthropic/overloaded")
        send(running, "anthropic/interleaved")
        yield running


@pytest.fixture
def streams(page: Page, stage: Inspected) -> Page:
    """The list, connected."""
    page.goto(f"{stage.url}/")
    live(page)
    return page


def live(page: Page) -> None:
    expect(page.get_by_role("status")).to_have_text("live")


def rows(page: Page) -> Locator:
    return page.locator(".list-rows [role=row]")


def chosen(page: Page) -> Locator:
    return page.locator(".list-rows [aria-selected=true]")


def test_a_live_turn_appears_and_finishes(streams: Page, stage: Inspected) -> None:
    before = rows(streams).count()
    thread = sending(stage, "anthropic/slow-interleaved", "openai-chat")
    first = rows(streams).first
    expect(first).to_contain_text("slow-interleaved")
    expect(first).to_contain_text("streaming")
    thread.join()
    expect(first.locator(".state")).to_have_text("calls")
    expect(first).to_contain_text("2,104 → 400")
    expect(first).to_contain_text("openai-python")
    expect(rows(streams)).to_have_count(before + 1)


def test_a_refusal_says_why(streams: Page) -> None:
    row = rows(streams).filter(has_text="overloaded").first
    expect(row.locator(".state")).to_have_text("failed")  # an error of the provider is no refusal
    expect(row.locator(".col-http")).to_have_text("529")
    expect(row.locator(".col-fault")).to_contain_text("the provider has too much to do")


def test_search_and_states(streams: Page) -> None:
    streams.keyboard.press("/")
    search = streams.get_by_role("combobox", name="Search requests")
    expect(search).to_be_focused()
    search.fill("provider:gemini")
    expect(rows(streams)).to_have_count(1)
    assert "q=provider%3Agemini" in streams.url
    search.fill("no such turn")
    expect(streams.get_by_text("No matching requests")).to_be_visible()
    streams.keyboard.press("Escape")
    expect(search).to_have_value("")
    streams.get_by_role("button", name=re.compile("Broken")).click()
    expect(rows(streams).filter(has_not_text="failed")).to_have_count(0)
    assert rows(streams).count() >= 1
    streams.reload()
    live(streams)
    expect(rows(streams).filter(has_not_text="failed")).to_have_count(0)


def test_pause_holds_the_list(streams: Page, stage: Inspected) -> None:
    expect(rows(streams).nth(3)).to_be_visible()
    count = rows(streams).count()
    streams.keyboard.press("p")
    expect(streams.get_by_role("status")).to_have_text("paused")
    send(stage, "ollama/text", "anthropic")
    expect(streams.get_by_role("button", name="Resume")).to_contain_text("1 new")
    expect(rows(streams)).to_have_count(count)
    streams.keyboard.press("p")
    expect(rows(streams)).to_have_count(count + 1)
    expect(rows(streams).first).to_contain_text("ollama")


def test_keys_alone_reach_a_turn_and_come_back(streams: Page) -> None:
    expect(rows(streams).nth(2)).to_be_visible()
    for key in "jjjk":
        streams.keyboard.press(key)
    expect(chosen(streams)).to_have_attribute("aria-rowindex", "3")
    grid = streams.get_by_role("grid")
    assert grid.get_attribute("aria-activedescendant") == chosen(streams).get_attribute("id")
    name = chosen(streams).get_attribute("data-id") or ""
    streams.keyboard.press("Enter")
    expect(streams.get_by_role("region", name="One turn")).to_be_visible()
    assert streams.url.endswith(f"#/turn/{name}")
    streams.keyboard.press("Escape")
    expect(chosen(streams)).to_have_attribute("data-id", name)


def test_the_help_says_which_keys_there_are(streams: Page) -> None:
    streams.keyboard.press("?")
    help_ = streams.get_by_role("dialog", name="Keys")
    expect(help_.get_by_text("Open the request")).to_be_visible()
    expect(help_.get_by_text("Try it")).to_be_visible()
    streams.keyboard.press("?")
    expect(help_).to_be_hidden()
    streams.keyboard.press("?")
    expect(help_).to_be_visible()
    streams.keyboard.press("Escape")
    expect(help_).to_be_hidden()
    streams.keyboard.press("4")
    expect(streams).to_have_url(re.compile("#/usage$"))


def test_everything_is_reached_by_tab(streams: Page) -> None:
    """No trap, and nothing that can be pressed is left out."""
    count = streams.evaluate(REACHABLE)
    assert count > 12
    for _ in range(count + 1):
        streams.keyboard.press("Tab")
        streams.evaluate("document.activeElement.dataset.reached = 'yes'")
    assert streams.evaluate(f"{REACHABLE} - document.querySelectorAll('[data-reached]:not(body)').length") == 0


def test_only_the_rows_that_are_seen_are_drawn(streams: Page, stage: Inspected) -> None:
    streams.set_viewport_size({"width": 1280, "height": 400})
    for _ in range(60):
        send(stage, "openai-chat/text", "openai-chat", stream=False)
    expect(streams.get_by_role("button", name=re.compile("^All"))).to_have_text(re.compile(r"All\s*6\d"))
    assert rows(streams).count() < 35
    streams.keyboard.press("End")
    expect(chosen(streams)).to_be_in_viewport()
    assert rows(streams).count() < 35
    index = int(chosen(streams).get_attribute("aria-rowindex") or 0)
    assert index > 60


def test_a_lost_connection_is_said_and_made_again(streams: Page, stage: Inspected, problems: list[str]) -> None:
    streams.context.set_offline(True)
    stage.call(_dropped(stage))
    expect(streams.get_by_role("status")).to_contain_text("connection lost")
    send(stage, "cohere/text", "openai-chat")
    streams.context.set_offline(False)
    live(streams)
    expect(rows(streams).filter(has_text="cohere").first).to_be_visible()
    problems[:] = [said for said in problems if "ERR_INTERNET_DISCONNECTED" not in said]


async def _dropped(stage: Inspected) -> None:
    """Everybody who listens is let go, as by a gateway that restarts."""
    watch = stage.inspector.watch
    watch.close()
    while watch.listeners:  # noqa: ASYNC110 — nobody tells when a reader has gone
        await asyncio.sleep(0.01)
    watch.closed = False


def test_a_key_is_asked_for_and_goes_no_further(page: Page, problems: list[str]) -> None:
    with inspected(wired, keys={"me": {"hash": hash_key(KEY)}}) as guarded:
        page.goto(f"{guarded.url}/")
        page.get_by_label("Key", exact=True).fill("wrong")
        page.get_by_role("button", name="Open").click()
        expect(page.get_by_text("is not known to it")).to_be_visible()
        page.get_by_label("Key", exact=True).fill(KEY)
        page.keyboard.press("Enter")
        live(page)
        page.evaluate("sessionStorage.clear()")
        page.goto("about:blank")
        page.goto(f"{guarded.url}/#key={KEY}")
        live(page)
        assert page.url == f"{guarded.url}/#/"
        page.go_back()
        assert page.url == "about:blank"  # the address with the key was no step of its own
    problems[:] = [said for said in problems if "401" not in said]
