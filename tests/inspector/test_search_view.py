"""The list of requests in a real browser: search with completion, the whole history, columns, sorting, running rows."""

from __future__ import annotations

import re
import threading
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from penstock._gateway.config import JournalTable
from tests.gateway.client_requests import ask
from tests.inspector.axe import serious
from tests.inspector.conftest import inspected
from tests.inspector.journal_history import seed
from tests.inspector.paused_upstream import waiting
from tests.inspector.sample_turns import send, wired

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from playwright.sync_api import Locator, Page

    from tests.inspector.conftest import Inspected

pytestmark = pytest.mark.slow
TURNS = 5_000


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Inspected]:
    path = tmp_path_factory.mktemp("journal") / "journal.sqlite"
    seed(path, TURNS)
    with inspected(wired, journal=JournalTable(path=str(path))) as running:
        send(running, "openai-chat/text", "openai-chat", text="Where do pumps come from?")
        send(running, "openai-chat/length", "anthropic")
        send(running, "anthropic/overloaded")
        yield running


@pytest.fixture
def streams(page: Page, stage: Inspected) -> Page:
    page.goto(f"{stage.url}/")
    expect(page.get_by_role("status")).to_have_text("live")
    return page


def rows(page: Page) -> Locator:
    return page.locator(".list-rows [data-id]")


def search(page: Page) -> Locator:
    return page.get_by_role("combobox", name="Search requests")


def count(page: Page) -> Locator:
    return page.locator(".foot-count")


@pytest.mark.finding("INS-3")
@pytest.mark.row("V1", "V5")
def test_a_search_finds_and_counts_the_whole_history(streams: Page) -> None:
    expect(count(streams)).to_have_text(f"{TURNS + 3:,} rows")
    search(streams).fill("provider:groq state:fault")
    expect(count(streams)).to_have_text(re.compile(r"^\d{1,2} rows$"))
    expect(rows(streams).filter(has_not_text="qwen3")).to_have_count(0)
    assert rows(streams).count() > 5
    search(streams).fill("pumps")
    expect(rows(streams)).to_have_count(1)
    expect(rows(streams)).to_contain_text("Where do pumps come from?")
    search(streams).fill("no such words")
    expect(streams.get_by_text("No matching requests")).to_be_visible()
    search(streams).fill("")
    expect(count(streams)).to_have_text(f"{TURNS + 3:,} rows")


@pytest.mark.row("V1")
def test_completion_by_keyboard_and_mouse(streams: Page, shot: Callable[[Page, str], None]) -> None:
    box = search(streams)
    box.press_sequentially("prov")
    option = streams.get_by_role("option")
    expect(option.first).to_contain_text("provider:")
    expect(box).to_have_attribute("aria-expanded", "true")
    box.press("ArrowDown")
    expect(box).to_have_attribute("aria-activedescendant", "search-option-0")
    box.press("Enter")
    expect(box).to_have_value("provider:")
    expect(option.filter(has_text="gemini")).to_be_visible()
    assert serious(streams) == []
    shot(streams, "inspector-search")
    option.filter(has_text="gemini").click()
    expect(box).to_have_value("provider:gemini ")
    expect(box).to_be_focused()
    expect(rows(streams).filter(has_not_text="gemini")).to_have_count(0)
    box.press("Escape")
    expect(option).to_have_count(0)
    assert "q=provider%3Agemini" in streams.url


@pytest.mark.row("V1")
def test_an_error_is_shown_at_its_place(streams: Page) -> None:
    search(streams).fill("model:gpt stat:fault")
    alert = streams.get_by_role("alert")
    expect(alert).to_contain_text("there is no field 'stat': did you mean state?")
    expect(alert.locator("mark")).to_have_text("stat")
    expect(search(streams)).to_have_attribute("aria-invalid", "true")
    assert serious(streams) == []
    search(streams).fill("model:gpt state:fault")
    expect(alert).to_have_count(0)


def test_help_on_the_language(streams: Page) -> None:
    streams.get_by_role("button", name="How to search").click()
    dialog = streams.get_by_role("dialog", name="How to search")
    expect(dialog).to_be_visible()
    assert serious(streams) == []
    dialog.get_by_role("button", name="state:warning").click()
    expect(dialog).to_have_count(0)
    expect(search(streams)).to_have_value("state:warning")
    expect(rows(streams)).to_have_count(1)


@pytest.mark.row("V5")
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


@pytest.mark.finding("INS-15")
@pytest.mark.row("V5")
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


@pytest.mark.finding("INS-12", "INS-15")
def test_states_are_true_and_rows_say_what_happened(streams: Page) -> None:
    cut = rows(streams).filter(has_text="length")
    expect(cut.locator(".state")).to_have_class("state warn")
    expect(cut.locator(".col-notes")).to_have_text(re.compile(r"^\d+$"))
    failed = rows(streams).filter(has_text="overloaded").first
    expect(failed.locator(".state")).to_have_text("failed")
    expect(failed.locator(".col-http")).to_have_text("529")
    expect(failed.locator(".col-fault")).to_have_attribute("title", re.compile("overloaded: .*too much to do"))
    streams.get_by_role("button", name=re.compile("Warnings")).click()
    expect(rows(streams)).to_have_count(1)


@pytest.mark.finding("INS-15")
@pytest.mark.row("V5")
def test_a_hung_stream_looks_hung(page: Page) -> None:
    page.clock.install()
    with waiting() as (gateway, gate):
        page.goto(f"{gateway.url}/")
        expect(page.get_by_role("status")).to_have_text("live")
        asking = threading.Thread(target=ask, args=(gateway.url, "anthropic", "openai-chat/text"))
        asking.start()
        row = rows(page).first
        expect(row.locator(".state")).to_have_text("streaming")
        expect(row.locator(".silence")).to_have_text(re.compile(r"^[\d.]+ k?B$"))
        page.clock.fast_forward(45_000)
        expect(row.locator(".silence")).to_contain_text("nothing for 4")
        expect(row.locator(".silence")).to_have_class("silence hung")
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
