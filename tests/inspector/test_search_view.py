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

    from playwright.sync_api import Locator, Page, Route

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
def test_tab_takes_the_first_completion_and_enter_searches(streams: Page) -> None:
    box, option = search(streams), streams.get_by_role("option")
    box.press_sequentially("prov")
    expect(option.first).to_contain_text("provider:")
    box.press("Tab")
    expect(box).to_have_value("provider:")
    expect(option.filter(has_text="gemini")).to_be_visible()
    box.press_sequentially("gem")
    box.press("Tab")  # the completions of what was typed may not have come yet
    expect(box).to_have_value("provider:gemini ")
    expect(rows(streams).filter(has_not_text="gemini")).to_have_count(0)
    expect(option.first).to_be_visible()
    box.press("Tab")  # nothing is begun: Tab goes on
    expect(box).not_to_be_focused()
    expect(option).to_have_count(0)
    box.fill("mod")
    expect(option.first).to_contain_text("model:")
    box.press("Shift+Tab")
    expect(box).not_to_be_focused()
    expect(box).to_have_value("mod")
    box.focus()
    box.press_sequentially("el")
    expect(option.first).to_contain_text("model:")
    box.press("Enter")
    expect(option).to_have_count(0)
    expect(box).to_have_value("model")
    expect(streams).to_have_url(re.compile(r"q=model$"))


@pytest.mark.row("V1")
def test_escape_closes_the_completions_and_then_clears_what_cannot_be_searched_for(streams: Page) -> None:
    box, option = search(streams), streams.get_by_role("option")
    box.fill("provider:gemini")
    expect(streams).to_have_url(re.compile("q=provider"))
    box.fill("stat:fault sta")
    expect(option.first).to_contain_text("state:")
    box.press("Escape")
    expect(option).to_have_count(0)
    expect(box).to_have_value("stat:fault sta")
    expect(streams.get_by_role("alert")).to_be_visible()
    box.press("Escape")
    expect(box).to_have_value("")
    expect(streams.get_by_role("alert")).to_have_count(0)
    expect(count(streams)).to_have_text(f"{TURNS + 3:,} rows")
    box.fill("stat:fault")  # an error where nothing else is searched for
    expect(streams.get_by_role("alert")).to_be_visible()
    box.blur()
    streams.keyboard.press("Escape")
    expect(box).to_have_value("")
    expect(streams.get_by_role("alert")).to_have_count(0)
    streams.keyboard.press("?")
    keys = streams.get_by_role("dialog", name="Keys").get_by_role("region", name="Search box")
    expect(keys).to_contain_text("Take the chosen completion, or the first one")


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


@pytest.mark.row("V1")
def test_a_search_that_cannot_be_read_has_no_rows_and_counts(
    streams: Page, stage: Inspected, problems: list[str]
) -> None:
    """The rows of the search before stay, but cannot be taken for an answer."""
    sets = streams.get_by_role("group", name="States").get_by_role("button")
    expect(count(streams)).to_have_text(f"{TURNS + 3:,} rows")
    for wrong in ("provider:groq stat:fault", "state:odd "):
        search(streams).fill(wrong)
        expect(streams.get_by_role("alert")).to_be_visible()
        expect(streams.locator(".list-rows")).to_have_css("filter", "grayscale(1)")
        expect(count(streams)).to_have_text("rows of the search before")
        expect(sets.first).to_have_text("All \u2013")
        assert serious(streams) == []
    search(streams).press("Escape")
    search(streams).press("Enter")  # searched for all the same: the address has it
    streams.wait_for_url(re.compile("q=state"))
    expect(count(streams)).to_have_text("rows of the search before")
    search(streams).fill("state:fault")
    expect(streams.locator(".list-rows")).to_have_css("filter", "none")
    expect(count(streams)).to_have_text(re.compile(r"^[\d,]+ rows$"))
    streams.goto("about:blank")
    streams.goto(f"{stage.url}/#/streams?q=state:odd")
    expect(streams.get_by_text("The search cannot be read.")).to_be_visible()
    problems.clear()  # the browser tells of a 400


@pytest.mark.row("V1")
def test_a_list_that_waits_for_its_answer_is_busy(streams: Page) -> None:
    held: list[Route] = []

    def hold(route: Route) -> None:
        held.append(route)

    streams.route(re.compile("/inspector/turns.*q=provider"), hold)
    grid = streams.get_by_role("grid")
    expect(grid).to_have_attribute("aria-busy", "false")
    search(streams).fill("provider:groq")
    expect(grid).to_have_attribute("aria-busy", "true")
    expect(streams.locator(".list-rows")).to_have_css("opacity", "0.45")
    expect(count(streams)).to_have_text(f"{TURNS + 3:,} rows")
    held[0].continue_()
    expect(grid).to_have_attribute("aria-busy", "false")
    expect(streams.locator(".list-rows")).to_have_css("opacity", "1")
    expect(rows(streams).filter(has_not_text="groq")).to_have_count(0)


@pytest.mark.row("V1")
def test_hints_are_below_the_search(streams: Page) -> None:
    hints = streams.get_by_role("note", name="About this search")
    search(streams).fill("come -la OR")
    expect(hints).to_contain_text('-la leaves out requests with la. To search for la, write "-la" in quotes.')
    expect(hints).to_contain_text("OR is searched as a word")
    assert serious(streams) == []
    search(streams).fill('"pumps come"')
    expect(hints.locator("p")).to_have_count(0)
    expect(rows(streams)).to_have_count(1)
    streams.goto(streams.url.partition("#")[0] + "#/streams?q=pump*")
    expect(hints).to_contain_text("The * in pump* stands for nothing")
    search(streams).fill("pump* zzz:1")
    expect(streams.get_by_role("alert")).to_contain_text("there is no field 'zzz'")
    expect(hints.locator("p")).to_have_count(0)


@pytest.mark.row("V1")
def test_turns_that_were_searched_in_part_are_counted(streams: Page) -> None:
    def add_partial(route: Route) -> None:
        reply = route.fetch()
        route.fulfill(response=reply, json={**reply.json(), "partial": 1_200})

    streams.route("**/inspector/turns?q=comes*", add_partial)
    search(streams).fill("comes")
    note = "1,200 turns were searched only in part: the rest of the prompt or answer is not kept."
    expect(streams.get_by_role("note", name="About this search")).to_have_text(note)


def test_help_on_the_language(streams: Page) -> None:
    streams.get_by_role("button", name="How to search").click()
    dialog = streams.get_by_role("dialog", name="How to search")
    expect(dialog).to_be_visible()
    assert serious(streams) == []
    text, edge = dialog.get_by_text("A request must match all terms.").bounding_box(), dialog.bounding_box()
    assert text is not None
    assert edge is not None
    assert text["x"] - edge["x"] >= 12
    expect(dialog.get_by_text("AND, OR and NOT are words like others")).to_be_visible()
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
        expect(row.locator(".silence")).to_have_text(re.compile(r"^9\d s · [\d.]+ k?B · last byte 9\d s ago$"))
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


def test_the_sign_that_clears_the_search_is_in_the_middle_of_its_line(streams: Page) -> None:
    field = streams.get_by_role("combobox", name="Search requests")
    field.fill("model")
    sign = streams.get_by_role("button", name="Clear the search").locator("svg")
    assert abs(_middle(sign) - _middle(field)) <= 1


def _middle(element: Locator) -> float:
    box = element.bounding_box()
    assert box is not None
    return box["y"] + box["height"] / 2
