"""How the page looks: dark and light, on a phone, to a screen reader; and the screenshots of the docs.

With PENSTOCK_SHOTS set the pictures are kept there: `PENSTOCK_SHOTS=docs/pictures make test ARGS=tests/gateway/inspector`.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import pytest
from playwright.sync_api import expect

from tests.page.appearances import THEMES
from tests.page.axe import misplaced_headings, serious
from tests.support.browser import SHOTS
from tests.support.inspector import inspected
from tests.support.sample_turns import SLOWLY, send, sending, wired

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from playwright.sync_api import Page, ViewportSize

    from tests.support.inspector import Inspected

ALL_SHOTS = os.environ.get("PENSTOCK_ALL_SHOTS", "")
VIEWS = ("streams", "runs", "turn", "file", "usage", "tokens", "try", "keys")
WIDE: ViewportSize = {"width": 1440, "height": 860}
PHONE: ViewportSize = {"width": 390, "height": 844}
DARK, LIGHT = "rgb(15, 19, 23)", "rgb(247, 248, 250)"
TURNS = (
    ("gemini/gemini-2.5-pro", "responses"), ("openai-chat/qwen3-coder", "openai-chat"), ("anthropic/limited", "anthropic"),
    ("ollama/llama3.3", "openai-chat"), ("anthropic/broken", "anthropic"), ("quick", "responses"),
    ("bedrock/tools", "openai-chat"), ("anthropic/claude-sonnet-4-5", "anthropic"), ("anthropic/overloaded", "anthropic"),
    ("anthropic/claude-opus-4-5", "openai-chat"),
)  # fmt: skip


@pytest.fixture(scope="module")
def stage() -> Iterator[Inspected]:
    with inspected(wired) as running:
        yield running


@pytest.fixture
def watched(page: Page, stage: Inspected) -> Page:
    """The list with turns of every kind, all of them tapped."""
    page.goto(f"{stage.url}/")
    expect(page.get_by_role("status")).to_have_text("live")
    for model, client in TURNS:
        send(stage, model, client)
    expect(page.locator(".list-rows [role=row]").first).to_contain_text("claude-opus")
    return page


def show(page: Page, view: str) -> None:
    if view != "turn":
        page.evaluate("view => { location.hash = `#/${view}` }", view)
        page.locator(f"nav a[href='#/{view}'][aria-current=page]").wait_for()
        return
    page.locator(".list-rows [role=row]").filter(has_text="claude-opus-4-5").first.click()
    page.get_by_role("button", name="rain_forecast", exact=True).click()
    for _ in range(5):
        page.keyboard.press("j")


def test_headings_follow_each_other_in_a_turn(watched: Page) -> None:
    show(watched, "turn")
    expect(watched.locator(".sources h3")).to_have_count(1)
    found = misplaced_headings(watched)
    assert [html for html in found if 'class="md-' not in html] == []  # those of the answer are the model's own


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("size", ["wide", "phone"])
def test_each_view_fits(watched: Page, theme: Literal["dark", "light"], size: str) -> None:
    """No view is wider than the window. With PENSTOCK_ALL_SHOTS set, a folder, a picture of each is kept there."""
    viewport = WIDE if size == "wide" else PHONE
    watched.emulate_media(color_scheme=theme)
    watched.set_viewport_size(viewport)
    for view in VIEWS:
        watched.evaluate("location.hash = '#/streams'")
        show(watched, view)
        assert watched.evaluate("document.documentElement.scrollWidth") <= viewport["width"], view
        if ALL_SHOTS:
            watched.evaluate("document.fonts.ready")
            watched.screenshot(path=Path(ALL_SHOTS) / f"{view}-{size}-{theme}.png")


@pytest.mark.parametrize("theme", THEMES)
def test_axe_finds_nothing_serious_in_any_view(watched: Page, theme: Literal["dark", "light"]) -> None:
    watched.emulate_media(color_scheme=theme)
    found: dict[str, list[str]] = {}
    for view in VIEWS:
        watched.evaluate("location.hash = '#/streams'")
        show(watched, view)
        found[view] = serious(watched)
    show(watched, "streams")  # the last view may have the focus in a field, where "?" is a character
    watched.keyboard.press("?")
    watched.get_by_role("dialog", name="Keys").wait_for()
    found["help"] = serious(watched)
    assert {view: faults for view, faults in found.items() if faults} == {}


def test_the_theme_is_the_systems_until_one_is_chosen(watched: Page) -> None:
    body = watched.locator("body")
    expect(body).to_have_css("background-color", DARK)
    watched.emulate_media(color_scheme="light")
    expect(body).to_have_css("background-color", LIGHT)
    watched.get_by_role("button", name=re.compile("^Theme: system")).click()
    expect(body).to_have_css("background-color", DARK)
    watched.reload()
    watched.get_by_role("button", name=re.compile("^Theme: dark")).click()
    expect(body).to_have_css("background-color", LIGHT)


def test_a_phones_width(watched: Page, shot: Callable[[Page, str], None]) -> None:
    watched.set_viewport_size(PHONE)
    for view in VIEWS:
        watched.evaluate("location.hash = '#/streams'")
        show(watched, view)
        wide = watched.evaluate("document.documentElement.scrollWidth")
        assert wide <= PHONE["width"], f"{view} is {wide} pixels wide"
    watched.evaluate("location.hash = '#/streams'")
    shot(watched, "inspector-phone-streams")
    show(watched, "turn")
    assert serious(watched) == []
    tabs = watched.get_by_role("tab")
    assert tabs.all_inner_texts()[:5] == ["Frames", "Events", "Client", "Message", "Details"]
    shot(watched, "inspector-phone-turn")
    linked = watched.locator(".cell.chosen").get_attribute("data-at")
    assert linked
    tabs.nth(0).click()
    expect(watched.locator(".cell.frames.lit")).to_be_in_viewport()
    watched.keyboard.press("ArrowRight")
    expect(tabs.nth(1)).to_be_focused()
    expect(watched.locator(".cell.events.chosen")).to_be_in_viewport()
    tabs.nth(3).click()
    expect(watched.get_by_role("tabpanel")).to_contain_text("rain_forecast")


def test_every_view_can_be_reached_on_a_phone(watched: Page) -> None:
    """No link of the navigation is cut off or out of sight."""
    watched.set_viewport_size(PHONE)
    for link in watched.get_by_role("navigation", name="Views").get_by_role("link").all():
        box = link.bounding_box()
        assert box is not None
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= PHONE["width"]


def test_motion_is_only_for_those_who_like_it(watched: Page, stage: Inspected) -> None:
    thread = sending(stage, "anthropic/slow-interleaved", "openai-chat")
    dot = watched.locator(".state.run .state-dot").first
    assert dot.evaluate("one => getComputedStyle(one).animationName") == "none"
    watched.emulate_media(reduced_motion="no-preference")
    assert dot.evaluate("one => getComputedStyle(one).animationName") == "breathe"
    thread.join()


def test_pictures(page: Page, shot: Callable[[Page, str], None]) -> None:
    """A list and a turn as on a working day; at a model's pace where somebody will look at the pictures."""
    pace, slow = (SLOWLY, "anthropic/claude-sonnet-4-5") if SHOTS else ("Hi. ", "anthropic/slow-interleaved")
    with inspected(wired) as stage:
        page.set_viewport_size(WIDE)
        page.goto(f"{stage.url}/")
        expect(page.get_by_role("status")).to_have_text("live")
        threads = [sending(stage, model, client, pace * (1 + place % 3)) for place, (model, client) in enumerate(TURNS)]
        for thread in threads:
            thread.join()
        last = sending(stage, slow, "openai-chat", pace)
        expect(page.locator(".list-rows [role=row]").first).to_contain_text("streaming")
        page.keyboard.press("j")
        shot(page, "inspector-streams")
        last.join()
        expect(page.locator(".list-rows .state").first).to_have_text("calls")
        page.locator(".list-rows [role=row]").first.click()
        page.get_by_role("button", name="rain_forecast", exact=True).click()
        for _ in range(8):
            page.keyboard.press("j")
        expect(page.locator(".cell.chosen")).to_contain_text("call-delta")
        page.evaluate("document.activeElement.blur()")
        page.mouse.move(700, 20)
        shot(page, "inspector-turn")
        page.emulate_media(color_scheme="light")
        expect(page.locator("body")).to_have_css("background-color", LIGHT)
        shot(page, "inspector-turn-light")
