"""The list of a long history in a real browser: every turn once and in order, true counts, and a page that stays quick.

The same for 2,000 turns, and for 100,000 by `make nightly`. All turns are kept, so that searches look through their
texts too.
"""

from __future__ import annotations

import json
import re
import sqlite3
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from playwright.sync_api import expect

from benchmarks.kept_search import SESSION
from benchmarks.turn_search import KEPT, KeptSearch, seed_kept
from penstock._gateway.client_form import ClientForm
from penstock._inspector.kept_turn import KeptTurn
from penstock._inspector.turn_keeper import encode_turn
from penstock._store.journal import JournalEntry
from penstock._store.kept_turns import FILE
from tests.support.inspector import Inspected, inspected
from tests.support.journal_history import seed
from tests.support.sample_turns import send, wired

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator
    from pathlib import Path

    from playwright.sync_api import Browser, Locator, Page, Route

SIZES = [2_000, pytest.param(100_000, marks=pytest.mark.nightly)]
ROW = 28  # pixels
MOST_NODES = 110  # rows that are drawn, however many there are
MOST_REQUESTS = 2  # pages of the history that are asked for at once
LONGEST = 200  # milliseconds of a task while the list scrolls, on a machine with nothing else to do
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
# Scrolls over some rows, a few in each frame. Returns the milliseconds of the longest task.
SCROLL = """
async ([from, frames, step]) => {
  const list = document.querySelector(".list"), tasks = [0];
  const observer = new PerformanceObserver((found) => tasks.push(...found.getEntries().map((one) => one.duration)));
  observer.observe({ type: "longtask" });
  for (let frame = 0; frame < frames; frame++) {
    list.scrollTop = (from + frame * step) * 28;
    await new Promise(requestAnimationFrame);
  }
  await new Promise((resolve) => setTimeout(resolve, 50));
  observer.disconnect();
  return Math.max(...tasks);
}
"""


class History(NamedTuple):
    """A gateway with many turns."""

    running: Inspected
    journal: Path
    searches: list[KeptSearch]

    def ids(self, where: str = "1") -> list[str]:
        """The ids of turns in the database, the newest first."""
        query = f"SELECT request_id FROM turns WHERE {where} ORDER BY time DESC, id DESC"  # noqa: S608
        with closing(sqlite3.connect(self.journal)) as journal:
            return [row[0] for row in journal.execute(query)]


@pytest.fixture(scope="module", params=SIZES)
def history(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[History]:
    folder = tmp_path_factory.mktemp("history")
    searches = seed_kept(folder, request.param)
    add_bodies(folder / FILE)
    journal = folder / "journal.sqlite"
    with inspected(wired, journal={"path": str(journal)}, inspector=KEPT, data=folder) as running:
        yield History(running, journal, searches)


def add_bodies(path: Path) -> None:
    """Makes the turns of a file readable: their rows have the beginning of the prompt."""
    with closing(sqlite3.connect(path)) as file, file:
        for place in range(SESSION):  # a turn of a session has the messages of those before it
            said = [{"role": "user", "content": "a message"}] * (place + 1)
            turn = KeptTurn(
                id="turn",
                entry=JournalEntry(time=0.0, request_id="turn", protocol="openai-chat"),
                client=ClientForm("openai-chat"),
                request=json.dumps({"messages": said}).encode(),
            )
            body = encode_turn(turn, ()).body
            file.execute("UPDATE bodies SET body = ? WHERE (turn - 1) % ? = ?", (body, SESSION, place))


@pytest.fixture
def streams(page: Page, history: History) -> Page:
    open_list(page, history.running)
    return page


def open_list(page: Page, running: Inspected) -> None:
    page.goto(f"{running.url}/")
    expect(page.get_by_role("status")).to_have_text("live")


def row_at(page: Page, place: int) -> Locator:
    return page.locator(f".list-rows [data-id][aria-rowindex='{place + 2}']")


def search_for(page: Page, words: str) -> None:
    page.get_by_role("combobox", name="Search requests").fill(words)


def expect_count(page: Page, count: int) -> None:
    expect(page.locator(".foot-count")).to_have_text(f"{count:,} {'row' if count == 1 else 'rows'}")


def collect(page: Page, first: int, count: int, step: int = 20) -> list[str]:
    """Returns the ids of rows as they are shown while the list scrolls over them."""
    found: tuple[list[str], int] = page.evaluate(COLLECT, [first, count, step])
    ids, most = found
    assert most < MOST_NODES
    return ids


# ── all turns, once and in order ──────────────────────────────────────────────────────────────────


def test_every_turn_is_shown_once_and_in_order(streams: Page, history: History) -> None:
    ids = history.ids()
    assert len(ids) == len(set(ids))
    expect_count(streams, len(ids))
    streams.set_viewport_size({"width": 1280, "height": 2200})  # fewer steps
    assert collect(streams, 0, len(ids), step=60) == ids


def test_keys_go_to_the_end_and_back(streams: Page, history: History) -> None:
    ids = history.ids()
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


def test_the_wheel_goes_to_the_end(streams: Page, history: History) -> None:
    ids = history.ids()
    streams.locator(".list").hover()
    for turns in (1, 3, 10, 30):
        streams.mouse.wheel(0, turns * ROW * 10)
    streams.mouse.wheel(0, len(ids) * ROW)
    last = row_at(streams, len(ids) - 1)
    expect(last).to_be_in_viewport()
    expect(last).to_have_attribute("data-id", ids[-1])
    shown = streams.locator(".list-rows [data-id]").evaluate_all("rows => rows.map((row) => row.dataset.id)")
    assert shown == ids[-len(shown) :]


def test_pages_of_places_that_were_only_passed_are_not_asked_for(streams: Page, history: History) -> None:
    """A drag of the scrollbar: no page comes while it lasts."""
    ids = history.ids()
    held: list[Route] = []
    asked = 0
    dragged = False

    def answer(route: Route) -> None:
        nonlocal asked
        asked += 1
        if dragged:
            route.continue_()
        else:
            held.append(route)

    streams.route(re.compile(r"/inspector/turns\?"), answer)
    streams.evaluate(SCROLL, [0, 60, len(ids) // 60])
    streams.locator(".list").evaluate("list => { list.scrollTop = list.scrollHeight; }")
    assert 0 < len(held) <= MOST_REQUESTS
    dragged = True
    for route in held:
        route.continue_()
    expect(row_at(streams, len(ids) - 1)).to_have_attribute("data-id", ids[-1])
    assert asked <= len(held) + MOST_REQUESTS, "at the end, two pages at most are missing"


def test_a_page_that_could_not_be_read_is_asked_for_again(streams: Page, history: History, problems: list[str]) -> None:
    ids = history.ids()
    refused = 0

    def answer(route: Route) -> None:
        nonlocal refused
        if refused:
            route.continue_()
        else:
            refused += 1
            route.fulfill(status=503, json={"error": {"message": "too much to do", "code": "overloaded"}})

    streams.route(re.compile(r"/inspector/turns\?"), answer)
    middle = len(ids) // 200 * 100 + 50  # its rows are all in one page
    streams.locator(".list").evaluate("(list, top) => { list.scrollTop = top; }", (middle - 10) * ROW)
    expect(row_at(streams, middle)).to_have_attribute("data-id", ids[middle])
    assert refused == 1
    assert len(problems) == 1
    assert "503" in problems.pop()


# ── counts ────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("words", "where"),
    [
        ("provider:groq state:fault", "provider = 'groq' AND status = 'fault'"),
        ("model:sonnet input>=10k", "model LIKE '%sonnet%' AND input >= 10000"),
        ("-provider:anthropic", "provider <> 'anthropic'"),
    ],
)
def test_a_filter_counts_and_shows_its_turns(streams: Page, history: History, words: str, where: str) -> None:
    ids = history.ids(where)
    search_for(streams, words)
    expect_count(streams, len(ids))
    expect(row_at(streams, 0)).to_have_attribute("data-id", ids[0])
    some = min(len(ids), 400)
    assert collect(streams, len(ids) - some, some) == ids[-some:]


def test_a_search_in_texts_counts_and_shows_its_turns(streams: Page, history: History) -> None:
    known = {*history.ids()}
    for found in history.searches:
        search_for(streams, found.query)
        expect_count(streams, len(found.ids))
        expect(row_at(streams, 0)).to_have_attribute("data-id", found.ids[0])
        some = min(len(found.ids), 250)
        assert collect(streams, len(found.ids) - some, some) == found.ids[-some:]
        assert known.issuperset(found.ids)


# ── new turns ─────────────────────────────────────────────────────────────────────────────────────


def test_a_new_turn_moves_nothing_that_is_read(streams: Page, history: History) -> None:
    """Not the row that is looked at, and not the pages that are asked for after it."""
    ids = history.ids()
    middle = len(ids) // 2
    assert collect(streams, middle, 40) == ids[middle : middle + 40]
    row = streams.locator(f"[data-id='{ids[middle + 30]}']")
    before = row.bounding_box()
    for number in range(1, 4):
        send(history.running, "openai-chat/text", "openai-chat", text="Where do pumps come from?")
        expect(row).to_have_attribute("aria-rowindex", f"{middle + 30 + 2 + number}")
        assert row.bounding_box() == before
    now = history.ids()
    assert now[3:] == ids
    expect_count(streams, len(now))
    assert collect(streams, middle, 1_000) == now[middle : middle + 1_000]
    assert collect(streams, 0, 300) == now[:300]
    search_for(streams, '"where do pumps come"')
    expect(streams.locator(".list-rows [data-id]")).to_have_count(len(now) - count_seeded(history))


def count_seeded(history: History) -> int:
    """How many turns were there before the first one was sent."""
    return len(history.searches[1].ids)


# ── how quick the page is ─────────────────────────────────────────────────────────────────────────


@contextmanager
def scrolled(browser: Browser, folder: Path, turns: int) -> Generator[Page]:
    """A page with this many turns, whose middle is shown."""
    folder.mkdir()
    seed(folder / "journal.sqlite", turns)
    context = browser.new_context(viewport={"width": 1280, "height": 800}, reduced_motion="reduce")
    with inspected(journal={"path": str(folder / "journal.sqlite")}) as running, closing(context):
        page = context.new_page()
        open_list(page, running)
        page.evaluate(SCROLL, [0, 20, 10])
        yield page


def measure(page: Page, turns: int) -> tuple[float, float]:
    """Scrolls over 600 rows. Returns the page's milliseconds of work, and those of the longest task."""
    session: Any = page.context.new_cdp_session(page)
    session.send("Performance.enable")

    def work() -> float:
        found = session.send("Performance.getMetrics")["metrics"]
        metrics = {one["name"]: one["value"] for one in found}
        return 1000 * float(metrics["TaskDuration"])

    before = work()
    longest = page.evaluate(SCROLL, [turns // 2, 120, 5])
    taken = work() - before
    session.detach()
    return taken, longest


@pytest.mark.nightly
@pytest.mark.parametrize(("few", "many"), [(5_000, 100_000)])
def test_scrolling_costs_the_same_however_long_the_list_is(
    browser: Browser, tmp_path: Path, few: int, many: int
) -> None:
    """The least of some tries: other programs of the machine only add to it."""
    with scrolled(browser, tmp_path / "few", few) as short, scrolled(browser, tmp_path / "many", many) as long:
        tries = [(measure(short, few), measure(long, many)) for _ in range(4)]
    short_work, short_task = (min(pair) for pair in zip(*(one for one, _ in tries), strict=True))
    long_work, long_task = (min(pair) for pair in zip(*(one for _, one in tries), strict=True))
    figures = f"work {short_work:.0f} and {long_work:.0f} ms, longest task {short_task:.0f} and {long_task:.0f} ms"
    assert long_work < 1.7 * short_work, figures
    assert long_task < max(LONGEST, 2 * short_task), figures
