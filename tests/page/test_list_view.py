"""The list of requests in a real browser: scrolling, columns, sorting, states, running rows, widths."""

from __future__ import annotations

import re
import threading
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from tests.page.axe import serious
from tests.page.long_list import TURNS, long_history, open_list, rows, search
from tests.support.client_requests import ask
from tests.support.paused_upstream import waiting
from tests.support.sample_turns import send

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Locator, Page

    from tests.support.inspector import Inspected


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Inspected]:
    with long_history(tmp_path_factory.mktemp("journal")) as running:
        yield running


@pytest.fixture
def streams(page: Page, stage: Inspected) -> Page:
    return open_list(page, stage)


def test_all_history_is_scrolled_to_without_a_button(streams: Page) -> None:
    streams.keyboard.press("End")
    last = streams.locator(f"[aria-rowindex='{TURNS + 4}']")
    expect(last).to_be_in_viewport()
    expect(last).to_have_attribute("data-id", re.compile("."))
    assert streams.locator(".list-rows [role=row]").count() < 60
    streams.locator(".list").evaluate("list => { list.scrollTop = list.scrollHeight / 2; }")
    expect(streams.locator(f".list-rows [data-id][aria-rowindex='{TURNS // 2 + 10}']")).to_be_visible()


def test_rows_that_are_looked_at_stay_where_they_are(streams: Page, stage: Inspected) -> None:
    streams.locator(".list").evaluate("list => { list.scrollTop = 28 * 300; }")
    row = streams.locator("[aria-rowindex='310']")
    expect(row).to_have_attribute("data-id", re.compile("."))
    name = row.get_attribute("data-id")
    before = row.bounding_box()
    send(stage, "openai-chat/text", "openai-chat")
    moved = streams.locator(f"[data-id='{name}']")
    expect(moved).to_have_attribute("aria-rowindex", "311")
    assert moved.bounding_box() == before


def test_columns_are_chosen_sorted_resized_and_remembered(streams: Page) -> None:
    head = streams.locator(".list-head")
    streams.get_by_role("button", name="Columns").click()
    streams.get_by_role("checkbox", name="Key", exact=True).check()
    streams.get_by_role("checkbox", name="Prompt").uncheck()
    assert serious(streams) == []
    streams.keyboard.press("Escape")
    expect(head.get_by_text("Key", exact=True)).to_be_visible()
    expect(head.get_by_text("Prompt", exact=True)).to_have_count(0)
    edge = streams.get_by_role("button", name="Width of Model: arrows change it")
    cell = head.locator(".col-model")
    before = cell.bounding_box()
    edge.press("ArrowRight")
    edge.press("ArrowRight")
    streams.get_by_role("button", name="Sort by Cost").click()
    expect(head.locator(".col-cost")).to_have_attribute("aria-sort", "descending")
    expect(rows(streams).first).to_contain_text("$")
    cost = rows(streams).first.locator(".col-cost").inner_text()
    streams.reload()
    expect(head.get_by_text("Key", exact=True)).to_be_visible()
    after = cell.bounding_box()
    assert before is not None
    assert after is not None
    assert 30 <= after["width"] - before["width"] <= 34
    expect(rows(streams).first.locator(".col-cost")).to_have_text(cost)
    streams.get_by_role("button", name="Sort by Cost").click()
    expect(head.locator(".col-cost")).to_have_attribute("aria-sort", "ascending")


def test_states_are_true_and_rows_say_what_happened(streams: Page) -> None:
    cut = rows(streams).filter(has_text="length")
    expect(cut.locator(".state")).to_have_class("state warn")
    expect(cut.locator(".col-notes")).to_have_text(re.compile(r"^\d+$"))
    failed = rows(streams).filter(has_text="overloaded").first
    expect(failed.locator(".state")).to_have_text("failed")
    expect(failed.locator(".col-http")).to_have_text("529")
    expect(failed.locator(".col-fault")).to_have_attribute("title", re.compile("overloaded: .*too much to do"))
    streams.set_viewport_size({"width": 1000, "height": 800})  # without a column for it
    expect(failed.locator(".col-fault")).to_have_count(0)
    expect(failed.locator(".col-state")).to_contain_text("overloaded")
    streams.get_by_role("button", name=re.compile("Warnings")).click()
    expect(rows(streams)).to_have_count(1)


def test_the_list_is_never_wider_than_the_window(streams: Page) -> None:
    expect(rows(streams).first).to_be_visible()
    for width in (760, 800, 880, 900, 960, 1000, 1080, 1140, 1200, 1264, 1366, 1480, 1560, 1700, 1920):
        streams.set_viewport_size({"width": width, "height": 800})
        wait = "width => document.querySelector('.list').clientWidth === width"
        streams.wait_for_function(wait, arg=width)
        streams.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
        assert streams.locator(".list").evaluate("list => list.scrollWidth - list.clientWidth") == 0, width


def fits(cell: Locator, longest: str) -> None:
    """What is said of a running turn is seen as a whole, at its longest too, and the list is no wider than the window."""
    expect(cell.locator(".silence")).to_be_in_viewport(ratio=1)
    hidden = """(cell, words) => {
        const silence = cell.querySelector(".silence");
        const before = silence.textContent;
        silence.textContent = words;
        const hidden = cell.scrollWidth - cell.clientWidth;
        silence.textContent = before;
        const list = cell.closest(".list");
        return [hidden, list.scrollWidth - list.clientWidth];
    }"""
    assert cell.evaluate(hidden, longest) == [0, 0]


def test_a_hung_stream_looks_hung(page: Page) -> None:
    page.clock.install()
    with waiting() as (gateway, gate):
        page.goto(f"{gateway.url}/")
        expect(page.get_by_role("status")).to_have_text("live")
        asking = threading.Thread(target=ask, args=(gateway.url, "anthropic", "openai-chat/text"))
        asking.start()
        row = rows(page).first
        expect(row.locator(".state")).to_have_text("streaming")
        expect(row.locator(".silence")).to_have_text(re.compile(r"^[\d.]+ k?B · last byte \d s ago$"))
        expect(row.locator(".silence")).to_have_class("silence")
        page.clock.fast_forward(95_000)
        expect(row.locator(".silence")).to_have_text(re.compile(r"^[\d.]+ k?B · last byte 9\d s ago$"))
        expect(row.locator(".silence")).to_have_class("silence hung")
        expect(row.locator(".elapsed")).to_have_text(re.compile(r"^9\d s$"))
        for width in (1264, 1280, 1440):  # a scrollbar takes up to 16 pixels
            page.set_viewport_size({"width": width, "height": 800})
            fits(row.locator(".col-state"), "999 kB · last byte 99 s ago")
        page.set_viewport_size({"width": 390, "height": 844})
        # The times are the gateway's again if the page has read a row of it meanwhile.
        expect(row.locator(".silence")).to_have_text(re.compile(r"^\d+ s · [\d.]+ k?B · last byte \d+ s ago$"))
        fits(row.locator(".cut"), "1 min 39 s · 999 kB · last byte 99 s ago")
        gate.open.set()
        asking.join(20)
        expect(row.locator(".state")).to_have_text("stop")
        expect(row.locator(".silence")).to_have_count(0)


def test_a_phone_and_daylight(streams: Page) -> None:
    streams.emulate_media(color_scheme="light")
    streams.set_viewport_size({"width": 390, "height": 844})
    expect(rows(streams).first).to_be_visible()
    assert streams.evaluate("document.documentElement.scrollWidth") <= 390
    assert serious(streams) == []
    search(streams).fill("stat:x")
    expect(streams.get_by_role("alert")).to_be_visible()
    assert streams.evaluate("document.documentElement.scrollWidth") <= 390
    assert serious(streams) == []
