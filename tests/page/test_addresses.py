"""Addresses of the page in a real browser: views that there are not, other names, and the number keys of the views."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from tests.page.axe import serious
from tests.support.client_requests import ask
from tests.support.inspector import inspected

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Page

    from tests.support.inspector import Inspected


@pytest.fixture(scope="module")
def stage() -> Iterator[Inspected]:
    with inspected() as running:
        yield running


def test_an_unknown_view_says_so_and_leads_to_those_there_are(page: Page, stage: Inspected) -> None:
    page.goto(f"{stage.url}/#/sreams%E2%80%AE/x")
    main = page.get_by_role("main")
    expect(main.get_by_role("heading")).to_have_text("There is no view “sreams⟨U+202E⟩”")
    expect(page).to_have_title("No such view · penstock")
    expect(page.locator("nav [aria-current]")).to_have_count(0)
    names = page.get_by_role("navigation", name="Views").get_by_role("link").all_inner_texts()
    assert main.get_by_role("link").all_inner_texts() == names
    assert serious(page) == []
    main.get_by_role("link", name="Usage").click()
    expect(page).to_have_title(re.compile("^Usage"))


def test_manage_is_found_by_its_name(page: Page, stage: Inspected) -> None:
    page.goto(f"{stage.url}/#/manage")
    expect(page).to_have_url(f"{stage.url}/#/keys")
    expect(page.locator("nav [aria-current=page]")).to_have_text("Manage")


def test_number_keys_follow_the_order_of_the_views(page: Page, stage: Inspected) -> None:
    page.goto(f"{stage.url}/")
    links = page.get_by_role("navigation", name="Views").get_by_role("link")
    expect(links).to_have_count(7)
    for number, name in enumerate(links.all_inner_texts(), 1):
        page.keyboard.press(str(number))
        expect(page.locator("nav [aria-current=page]")).to_have_text(name)


def test_a_phone_leads_from_a_turn_to_the_list(page: Page, stage: Inspected) -> None:
    ask(stage.url, "anthropic", "openai-chat/text")
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(f"{stage.url}/")
    page.locator(".list-rows [data-id]").first.click()
    page.get_by_role("main").get_by_role("link", name="Streams").click()
    expect(page.get_by_role("grid")).to_be_visible()


def test_a_phone_has_the_help_and_one_row_of_states(page: Page, stage: Inspected) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(f"{stage.url}/")
    boxes = [one.bounding_box() for one in page.get_by_role("group", name="States").get_by_role("button").all()]
    assert len(boxes) == 5
    assert len({box and box["y"] for box in boxes}) == 1
    assert all(box and box["x"] + box["width"] <= 390 for box in boxes)
    page.get_by_role("button", name="Keyboard keys").click()
    expect(page.get_by_role("dialog", name="Keys")).to_be_visible()
