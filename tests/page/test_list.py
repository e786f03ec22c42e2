"""The list of requests: a long history in order, search, what comes live, columns, keys, and the addresses of views.

The same for 2,000 turns, and for 100,000 by `make nightly`. All turns are kept, so that searches look through their
texts too.
"""

# ruff: noqa: PLR0915 — a story has as many steps as its user

from __future__ import annotations

import re
import sqlite3
import threading
from contextlib import closing
from typing import TYPE_CHECKING, NamedTuple

import pytest
from playwright.sync_api import expect

from tests.page.axe import serious
from tests.page.steps import PHONE, drop_problems, expect_fit, hold, leaving, look, open_list, rows, search, wait_frames
from tests.support.client_requests import ask
from tests.support.inspector import Inspected, inspected
from tests.support.page_gateway import KeptSearch, drop_listeners, flush, seed_readable
from tests.support.paused_upstream import waiting
from tests.support.sample_turns import send, sending, wired

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from playwright.sync_api import Locator, Page, Route

SIZES = [2_000, pytest.param(100_000, marks=pytest.mark.nightly)]
ROW = 28  # pixels
MOST_NODES = 110  # rows that are drawn, however many there are
MOST_REQUESTS = 2  # pages of the history that are asked for at once
PUMPS = "Where do pumps come from?"
# Scrolls from a row on, `step` rows at a time, until `count` rows were seen: by place, once their page is here.
COLLECT = """
async ([from, count, step]) => {
  const list = document.querySelector(".list"), seen = new Map();
  let most = 0;
  for (let first = from; seen.size < count && first < from + count; first += step) {
    list.scrollTop = first * 28;
    const last = Math.min(first + step, from + count);
    for (;;) {
      const rows = [...document.querySelectorAll(".list-rows [role=row]")];
      most = Math.max(most, rows.length);
      const shown = new Map(rows.map((row) => [Number(row.ariaRowIndex) - 2, row.dataset.id]));
      const wanted = Array.from({ length: last - first }, (_, index) => first + index);
      if (wanted.every((place) => shown.get(place))) {
        for (const place of wanted) seen.set(place, shown.get(place));
        break;
      }
      await new Promise(requestAnimationFrame);
    }
  }
  return [[...seen.values()], most];
}
"""
# Scrolls over the list, a part of it in each frame.
DRAG = """
async ([frames, step]) => {
  const list = document.querySelector(".list");
  for (let frame = 0; frame < frames; frame++) {
    list.scrollTop = frame * step * 28;
    await new Promise(requestAnimationFrame);
  }
  list.scrollTop = list.scrollHeight;
}
"""
REACHABLE = """[...document.querySelectorAll("a, button, input, select, textarea, [tabindex]")]
    .filter((one) => one.tabIndex >= 0 && one.checkVisibility()).length"""


class History(NamedTuple):
    """A gateway with many turns."""

    running: Inspected
    journal: Path
    searches: list[KeptSearch]

    def ids(self, where: str = "1") -> list[str]:
        """The ids of turns in the database, the newest first."""
        flush(self.running)
        query = f"SELECT request_id FROM turns WHERE {where} ORDER BY time DESC, id DESC"  # noqa: S608
        with closing(sqlite3.connect(self.journal)) as journal:
            return [row[0] for row in journal.execute(query)]


@pytest.fixture(scope="module", params=SIZES)
def history(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[History]:
    """A gateway with turns of a month, and three of today: one of them was cut, one failed."""
    folder = tmp_path_factory.mktemp("history")
    searches = seed_readable(folder, request.param)
    journal = folder / "journal.sqlite"
    kept = {"size": 2**30, "days": 60.0}
    with inspected(wired, journal={"path": str(journal)}, inspector=kept, data=folder) as running:
        send(running, "openai-chat/text", "openai-chat", text=PUMPS)
        send(running, "openai-chat/length", "anthropic")
        send(running, "anthropic/overloaded")
        yield History(running, journal, searches)


@pytest.fixture
def streams(page: Page, history: History) -> Page:
    open_list(page, history.running)
    return page


def row_at(page: Page, place: int) -> Locator:
    return page.locator(f".list-rows [data-id][aria-rowindex='{place + 2}']")


def chosen(page: Page) -> Locator:
    return page.locator(".list-rows [aria-selected=true]")


def count(page: Page) -> Locator:
    return page.locator(".foot-count")


def expect_count(page: Page, number: int) -> None:
    expect(count(page)).to_have_text(f"{number:,} {'row' if number == 1 else 'rows'}")


def collect(page: Page, first: int, number: int, step: int = 20) -> list[str]:
    """Returns the ids of rows as they are shown while the list scrolls over them."""
    found: tuple[list[str], int] = page.evaluate(COLLECT, [first, number, step])
    ids, most = found
    assert most < MOST_NODES
    return ids


# ── a long history ────────────────────────────────────────────────────────────────────────────────


def test_every_turn_is_shown_once_and_in_order_by_keys_wheel_and_bar(
    streams: Page, history: History, problems: list[str]
) -> None:
    ids = history.ids()
    assert len(ids) == len(set(ids))
    expect_count(streams, len(ids))
    streams.keyboard.press("End")
    last = row_at(streams, len(ids) - 1)
    expect(last).to_be_in_viewport()
    expect(last).to_have_attribute("data-id", ids[-1])
    expect(last).to_have_attribute("aria-selected", "true")
    assert streams.locator(".list-rows [role=row]").count() < MOST_NODES
    for _ in range(6):
        streams.keyboard.press("PageUp")
    expect(row_at(streams, len(ids) - 121)).to_have_attribute("data-id", ids[-121])
    for _ in range(8):
        streams.keyboard.press("PageDown")
    expect(last).to_have_attribute("aria-selected", "true")
    streams.keyboard.press("Home")
    expect(row_at(streams, 0)).to_have_attribute("data-id", ids[0])
    for _ in range(30):
        streams.keyboard.press("PageDown")
    expect(row_at(streams, 600)).to_have_attribute("aria-selected", "true")
    expect(row_at(streams, 600)).to_have_attribute("data-id", ids[600])
    # The rows that were passed have not kept the prompts of those that are shown waiting.
    expect(row_at(streams, 600).locator(".col-prompt")).to_contain_text("turn")
    streams.keyboard.press("Home")
    streams.locator(".list").hover()
    for turns in (1, 3, 10, 30, len(ids)):
        streams.mouse.wheel(0, turns * ROW * 10)
    expect(last).to_be_in_viewport()
    expect(last).to_have_attribute("data-id", ids[-1])
    shown = rows(streams).evaluate_all("rows => rows.map((row) => row.dataset.id)")
    assert shown == ids[-len(shown) :]
    streams.set_viewport_size({"width": 1280, "height": 2200})  # fewer steps
    assert collect(streams, 0, len(ids), step=60) == ids
    _drag_over_pages(streams, history.running, ids)
    _refuse_one_page(streams, history.running, ids)
    assert len(problems) == 1
    assert "503" in problems.pop()


def _drag_over_pages(page: Page, gateway: Inspected, ids: list[str]) -> None:
    """A drag of the scrollbar, and no page comes while it lasts: those that were only passed are not asked for."""
    asked: list[Route] = []
    dragged = False

    def answer(route: Route) -> None:
        asked.append(route)
        if dragged:
            route.continue_()

    page.set_viewport_size({"width": 1280, "height": 800})
    open_list(page, gateway)
    expect_count(page, len(ids))
    page.route(re.compile(r"/inspector/turns\?"), answer)
    page.evaluate(DRAG, [60, len(ids) // 60])
    held, dragged = list(asked), True
    assert 0 < len(held) <= MOST_REQUESTS
    for route in held:
        route.continue_()
    expect(row_at(page, len(ids) - 1)).to_have_attribute("data-id", ids[-1])
    assert len(asked) <= len(held) + MOST_REQUESTS, "at the end, two pages at most are missing"
    page.unroute_all()


def _refuse_one_page(page: Page, gateway: Inspected, ids: list[str]) -> None:
    """A page that could not be read is asked for again."""

    def refuse(route: Route) -> None:
        route.fulfill(status=503, json={"error": {"message": "too much to do", "code": "overloaded"}})

    open_list(page, gateway)
    expect_count(page, len(ids))
    page.route(re.compile(r"/inspector/turns\?"), refuse, times=1)
    middle = len(ids) // 200 * 100 + 50  # its rows are all in one page
    page.locator(".list").evaluate("(list, top) => { list.scrollTop = top; }", (middle - 10) * ROW)
    expect(row_at(page, middle)).to_have_attribute("data-id", ids[middle])


# ── search ────────────────────────────────────────────────────────────────────────────────────────

FILTERS = {
    "provider:groq state:fault": "provider = 'groq' AND status = 'fault'",
    "model:sonnet input>=10k": "model LIKE '%sonnet%' AND input >= 10000",
    "-provider:anthropic": "provider <> 'anthropic'",
}


def test_a_search_counts_and_shows_all_of_its_turns(streams: Page, history: History) -> None:
    everything = history.ids()
    expect_count(streams, len(everything))
    for words, where in FILTERS.items():
        ids = history.ids(where)
        search(streams).fill(words)
        expect_count(streams, len(ids))
        expect(row_at(streams, 0)).to_have_attribute("data-id", ids[0])
        some = min(len(ids), 400)
        assert collect(streams, len(ids) - some, some) == ids[-some:], words
    for found in history.searches:
        search(streams).fill(found.query)
        expect_count(streams, len(found.ids))
        expect(row_at(streams, 0)).to_have_attribute("data-id", found.ids[0])
        some = min(len(found.ids), 250)
        assert collect(streams, len(found.ids) - some, some) == found.ids[-some:], found.query
    search(streams).fill("pumps")
    expect(rows(streams).filter(has_not_text=PUMPS)).to_have_count(0)
    expect(rows(streams).first).to_contain_text(PUMPS)
    search(streams).fill("no such words")
    expect(streams.get_by_text("No matching requests")).to_be_visible()
    search(streams).fill("")
    expect_count(streams, len(everything))
    # A list that waits for its answer is busy.
    held = hold(streams, re.compile("/inspector/turns.*q=provider"))
    grid = streams.get_by_role("grid")
    expect(grid).to_have_attribute("aria-busy", "false")
    search(streams).fill("provider:groq")
    expect(grid).to_have_attribute("aria-busy", "true")
    expect(streams.locator(".list-rows")).to_have_css("opacity", "0.45")
    expect_count(streams, len(everything))
    held[0].continue_()
    expect(grid).to_have_attribute("aria-busy", "false")
    expect(streams.locator(".list-rows")).to_have_css("opacity", "1")
    expect(rows(streams).filter(has_not_text="groq")).to_have_count(0)

    def add_partial(route: Route) -> None:
        reply = route.fetch()
        route.fulfill(response=reply, json={**reply.json(), "partial": 1_200})

    streams.route("**/inspector/turns?q=comes*", add_partial)
    search(streams).fill("comes")
    note = "1,200 turns were searched only in part: the rest of the prompt or answer is not kept."
    expect(streams.get_by_role("note", name="About this search")).to_have_text(note)


def test_the_search_box_completes_by_mouse_and_keys(
    streams: Page, history: History, shot: Callable[[Page, str], None]
) -> None:
    box, option = search(streams), streams.get_by_role("option")
    box.press_sequentially("prov")
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
    sign = streams.get_by_role("button", name="Clear the search")
    assert abs(_middle(sign.locator("svg")) - _middle(box)) <= 1
    sign.click()
    box.press_sequentially("😀 prov")
    expect(option.first).to_contain_text("provider:")
    box.press("Tab")  # it takes the first completion
    expect(box).to_have_value("😀 provider:")
    expect(option.filter(has_text="gemini")).to_be_visible()
    box.press_sequentially("gem")
    box.press("Tab")  # the completions of what was typed may not have come yet
    expect(box).to_have_value("😀 provider:gemini ")
    expect(streams).to_have_url(re.compile("gemini"))
    box.fill("provider:groq ")
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
    box.press("Enter")  # searches
    expect(option).to_have_count(0)
    expect(box).to_have_value("model")
    expect(streams).to_have_url(re.compile(r"q=model$"))
    box.fill("stat:fault sta")
    expect(option.first).to_contain_text("state:")
    box.press("Escape")  # closes the completions, and then clears what cannot be searched for
    expect(option).to_have_count(0)
    expect(box).to_have_value("stat:fault sta")
    expect(streams.get_by_role("alert")).to_be_visible()
    box.press("Escape")
    expect(box).to_have_value("")
    expect(streams.get_by_role("alert")).to_have_count(0)
    expect_count(streams, len(history.ids()))
    box.fill("stat:fault")  # an error where nothing else is searched for
    expect(streams.get_by_role("alert")).to_be_visible()
    box.blur()
    streams.keyboard.press("Escape")
    expect(box).to_have_value("")
    expect(streams.get_by_role("alert")).to_have_count(0)
    streams.keyboard.press("?")
    keys = streams.get_by_role("dialog", name="Keys").get_by_role("region", name="Search box")
    expect(keys).to_contain_text("Take the chosen completion, or the first one")


def test_a_search_that_cannot_be_read_says_where_and_hints_say_what_is_odd(
    streams: Page, history: History, problems: list[str]
) -> None:
    """The rows of the previous search stay, but cannot be taken for an answer."""
    box, alert = search(streams), streams.get_by_role("alert")
    sets = streams.get_by_role("group", name="States").get_by_role("button")
    expect_count(streams, len(history.ids()))
    box.fill("model:gpt stat:fault")
    expect(alert).to_contain_text("there is no field 'stat': did you mean state?")
    expect(alert.locator("mark")).to_have_text("stat")
    expect(box).to_have_attribute("aria-invalid", "true")
    expect(streams.locator(".list-rows")).to_have_css("filter", "grayscale(1)")
    expect(count(streams)).to_have_text("rows of the previous search")
    expect(sets.first).to_have_text("All \u2013")
    box.fill("😀 stat:fault")
    expect(alert.locator("mark")).to_have_text("stat")
    box.fill("model:gpt state:fault")
    expect(alert).to_have_count(0)
    expect(streams.locator(".list-rows")).to_have_css("filter", "none")
    box.fill("state:odd ")
    expect(alert).to_be_visible()
    box.press("Escape")
    box.press("Enter")  # searched for all the same: the address has it
    streams.wait_for_url(re.compile("q=state"))
    expect(count(streams)).to_have_text("rows of the previous search")
    box.fill("state:fault")
    expect(count(streams)).to_have_text(re.compile(r"^[\d,]+ rows$"))
    streams.goto("about:blank")
    streams.goto(f"{history.running.url}/#/streams?q=state:odd")
    expect(streams.get_by_text("The search cannot be read.")).to_be_visible()
    drop_problems(problems, "400")
    hints = streams.get_by_role("note", name="About this search")
    box.fill("come -la OR")
    expect(hints).to_contain_text('-la leaves out requests with la. To search for la, write "-la" in quotes.')
    expect(hints).to_contain_text("OR is searched as a word")
    assert serious(streams, ".search-place, .search-hints") == []
    box.fill('"pumps come"')
    expect(hints.locator("p")).to_have_count(0)
    expect(rows(streams).first).to_contain_text(PUMPS)
    streams.goto(f"{history.running.url}/#/streams?q=pump*")
    expect(hints).to_contain_text("The * in pump* is not a wildcard")
    box.fill("pump* zzz:1")
    expect(alert).to_contain_text("there is no field 'zzz'")
    expect(hints.locator("p")).to_have_count(0)
    streams.get_by_role("button", name="How to search").click()
    dialog = streams.get_by_role("dialog", name="How to search")
    expect(dialog).to_be_visible()
    assert serious(streams, "dialog[open]") == []
    text, edge = dialog.get_by_text("A request must match all terms.").bounding_box(), dialog.bounding_box()
    assert text is not None
    assert edge is not None
    assert text["x"] - edge["x"] >= 12
    expect(dialog.get_by_text("AND, OR and NOT are words like others")).to_be_visible()
    dialog.get_by_role("button", name="state:warning").click()
    expect(dialog).to_have_count(0)
    expect(box).to_have_value("state:warning")
    expect(rows(streams)).to_have_count(1)


def _middle(element: Locator) -> float:
    box = element.bounding_box()
    assert box is not None
    return box["y"] + box["height"] / 2


# ── what comes live ───────────────────────────────────────────────────────────────────────────────


def test_new_turns_come_live_and_move_nothing_that_is_read(
    streams: Page, history: History, problems: list[str]
) -> None:
    stage, first = history.running, rows(streams).first
    thread = sending(stage, "anthropic/slow-interleaved", "openai-chat")
    expect(first).to_contain_text("slow-interleaved")
    expect(first).to_contain_text("streaming")
    thread.join()
    expect(first.locator(".state")).to_have_text("calls")
    expect(first).to_contain_text("2,104 → 400")
    expect(first).to_contain_text("openai-python")
    # Neither the row that is looked at moves, nor the pages that are asked for after it.
    ids = history.ids()
    expect_count(streams, len(ids))
    middle = len(ids) // 2
    assert collect(streams, middle, 40) == ids[middle : middle + 40]
    row = streams.locator(f"[data-id='{ids[middle + 30]}']")
    before = row.bounding_box()
    for number in range(1, 4):
        send(stage, "openai-chat/text", "openai-chat", text=PUMPS)
        expect(row).to_have_attribute("aria-rowindex", f"{middle + 30 + 2 + number}")
        assert row.bounding_box() == before
    now = history.ids()
    assert now[3:] == ids
    expect_count(streams, len(now))
    assert collect(streams, middle, 1_000) == now[middle : middle + 1_000]
    assert collect(streams, 0, 300) == now[:300]
    search(streams).fill('"where do pumps come"')
    expect(rows(streams)).to_have_count(4)
    search(streams).fill("")
    search(streams).blur()
    expect_count(streams, len(now))
    # Paused, the list is held.
    streams.keyboard.press("p")
    expect(streams.get_by_role("status")).to_have_text("paused")
    send(stage, "ollama/text", "anthropic")
    expect(streams.get_by_role("button", name="Resume")).to_contain_text("1 new")
    expect(first).not_to_contain_text("ollama")
    streams.keyboard.press("p")
    expect(first).to_contain_text("ollama")
    # A connection that was lost is made again.
    streams.context.set_offline(True)
    drop_listeners(stage)
    expect(streams.get_by_role("status")).to_contain_text("connection lost")
    send(stage, "cohere/text", "openai-chat")
    streams.context.set_offline(False)
    expect(streams.get_by_role("status")).to_have_text("live")
    expect(rows(streams).filter(has_text="cohere").first).to_be_visible()
    drop_problems(problems, "ERR_INTERNET_DISCONNECTED")


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
    with waiting() as (gateway, gate), leaving(page):
        open_list(page, gateway)
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
        page.set_viewport_size({"width": PHONE, "height": 844})
        # The times are the gateway's again if the page has read a row of it meanwhile.
        expect(row.locator(".silence")).to_have_text(re.compile(r"^\d+ s · [\d.]+ k?B · last byte \d+ s ago$"))
        fits(row.locator(".cut"), "1 min 39 s · 999 kB · last byte 99 s ago")
        gate.open.set()
        asking.join(20)
        expect(row.locator(".state")).to_have_text("stop")
        expect(row.locator(".silence")).to_have_count(0)


# ── columns and states ────────────────────────────────────────────────────────────────────────────


def test_columns_are_chosen_and_states_say_what_happened(streams: Page) -> None:
    head = streams.locator(".list-head")
    cut = rows(streams).filter(has_text="length")
    expect(cut.locator(".state")).to_have_class("state warn")
    expect(cut.locator(".col-notes")).to_have_text(re.compile(r"^\d+$"))
    failed = rows(streams).filter(has_text="overloaded").first
    expect(failed.locator(".state")).to_have_text("failed")  # an error of the provider is no refusal
    expect(failed.locator(".col-http")).to_have_text("529")
    expect(failed.locator(".col-fault")).to_have_attribute("title", re.compile("overloaded: .*too much to do"))
    expect(failed.locator(".col-fault")).to_contain_text("the provider has too much to do")
    streams.get_by_role("button", name="Columns").click()
    streams.get_by_role("checkbox", name="Key", exact=True).check()
    streams.get_by_role("checkbox", name="Prompt").uncheck()
    assert serious(streams, ".column-menu") == []
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


def test_the_list_fits_every_window(streams: Page) -> None:
    expect(rows(streams).first).to_be_visible()
    for width in (760, 800, 880, 900, 960, 1000, 1080, 1140, 1200, 1264, 1366, 1480, 1560, 1700, 1920):
        streams.set_viewport_size({"width": width, "height": 800})
        streams.wait_for_function("width => document.querySelector('.list').clientWidth === width", arg=width)
        wait_frames(streams)
        assert streams.locator(".list").evaluate("list => list.scrollWidth - list.clientWidth") == 0, width
    streams.set_viewport_size({"width": 1000, "height": 800})  # without a column for it
    failed = rows(streams).filter(has_text="overloaded").first
    expect(failed.locator(".col-fault")).to_have_count(0)
    expect(failed.locator(".col-state")).to_contain_text("overloaded")
    streams.get_by_role("button", name=re.compile("Warnings")).click()
    expect(rows(streams)).to_have_count(1)
    look(streams)
    assert streams.evaluate("document.documentElement.scrollWidth") <= PHONE
    search(streams).fill("stat:x")
    expect(streams.get_by_role("alert")).to_be_visible()
    expect_fit(streams)


# ── keys and addresses ────────────────────────────────────────────────────────────────────────────


def test_keys_alone_reach_a_turn_every_view_and_everything_that_can_be_pressed(streams: Page) -> None:
    expect(rows(streams).nth(2)).to_be_visible()
    for key in "jjjk":
        streams.keyboard.press(key)
    expect(chosen(streams)).to_have_attribute("aria-rowindex", "3")
    assert streams.get_by_role("grid").get_attribute("aria-activedescendant") == chosen(streams).get_attribute("id")
    name = chosen(streams).get_attribute("data-id") or ""
    streams.keyboard.press("Enter")
    expect(streams.get_by_role("region", name="One turn")).to_be_visible()
    assert streams.url.endswith(f"#/turn/{name}")
    streams.keyboard.press("Escape")
    expect(chosen(streams)).to_have_attribute("data-id", name)
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
    # No trap, and nothing that can be pressed is left out.
    number = streams.evaluate(REACHABLE)
    assert number > 12
    for _ in range(number + 1):
        streams.keyboard.press("Tab")
        streams.evaluate("document.activeElement.dataset.reached = 'yes'")
    assert streams.evaluate(f"{REACHABLE} - document.querySelectorAll('[data-reached]:not(body)').length") == 0
    streams.evaluate("document.activeElement.blur()")
    streams.keyboard.press("/")
    expect(search(streams)).to_be_focused()
    search(streams).fill("no such turn")
    expect(streams.get_by_text("No matching requests")).to_be_visible()
    streams.keyboard.press("Escape")
    expect(search(streams)).to_have_value("")
    streams.get_by_role("button", name=re.compile("Broken")).click()
    expect(rows(streams).first).to_contain_text("failed")
    streams.reload()
    expect(streams.get_by_role("button", name=re.compile("Broken"))).to_have_attribute("aria-pressed", "true")
    links = streams.get_by_role("navigation", name="Views").get_by_role("link")
    expect(links).to_have_count(7)
    for place, view in enumerate(links.all_inner_texts(), 1):
        streams.keyboard.press(str(place))
        expect(streams.locator("nav [aria-current=page]")).to_have_text(view)
        streams.evaluate("document.activeElement.blur()")


def test_an_unknown_view_leads_to_those_there_are_and_a_phone_has_them_all(streams: Page, history: History) -> None:
    url = history.running.url
    streams.goto(f"{url}/#/sreams%E2%80%AE/x")
    main = streams.get_by_role("main")
    expect(main.get_by_role("heading")).to_have_text("There is no view “sreams⟨U+202E⟩”")
    expect(streams).to_have_title("No such view · penstock")
    expect(streams.locator("nav [aria-current]")).to_have_count(0)
    views = streams.get_by_role("navigation", name="Views").get_by_role("link")
    assert main.get_by_role("link").all_inner_texts() == views.all_inner_texts()
    assert serious(streams, "main") == []
    main.get_by_role("link", name="Usage").click()
    expect(streams).to_have_title(re.compile("^Usage"))
    streams.goto(f"{url}/#/manage")
    expect(streams).to_have_url(f"{url}/#/keys")
    expect(streams.locator("nav [aria-current=page]")).to_have_text("Manage")
    streams.set_viewport_size({"width": PHONE, "height": 844})
    streams.goto(f"{url}/#/streams")
    states = streams.get_by_role("group", name="States").get_by_role("button")
    expect(states).to_have_count(5)
    edges = "all => all.map((one) => one.getBoundingClientRect()).map(({ left, right, top }) => [left, right, top])"
    for group in (states, views):  # nothing is cut off or out of sight
        assert all(left >= 0 and right <= PHONE for left, right, _ in group.evaluate_all(edges))
    assert len({top for _, _, top in states.evaluate_all(edges)}) == 1
    streams.get_by_role("button", name="Keyboard keys").click()
    expect(streams.get_by_role("dialog", name="Keys")).to_be_visible()
    streams.keyboard.press("Escape")
    rows(streams).first.click()
    main.get_by_role("link", name="Streams").click()
    expect(streams.get_by_role("grid")).to_be_visible()
