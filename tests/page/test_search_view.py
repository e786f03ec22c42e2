"""The search box in a real browser: the whole history, completion, errors, hints and help."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from tests.page.axe import serious
from tests.page.long_list import TURNS, count, long_history, open_list, rows, search

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from playwright.sync_api import Locator, Page, Route

    from tests.support.inspector import Inspected


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Inspected]:
    with long_history(tmp_path_factory.mktemp("journal")) as running:
        yield running


@pytest.fixture
def streams(page: Page, stage: Inspected) -> Page:
    return open_list(page, stage)


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


def test_an_error_is_shown_at_its_place(streams: Page) -> None:
    search(streams).fill("model:gpt stat:fault")
    alert = streams.get_by_role("alert")
    expect(alert).to_contain_text("there is no field 'stat': did you mean state?")
    expect(alert.locator("mark")).to_have_text("stat")
    expect(search(streams)).to_have_attribute("aria-invalid", "true")
    assert serious(streams) == []
    search(streams).fill("😀 stat:fault")
    expect(alert.locator("mark")).to_have_text("stat")
    search(streams).fill("model:gpt state:fault")
    expect(alert).to_have_count(0)


def test_completion_after_an_emoji(streams: Page) -> None:
    box = search(streams)
    box.press_sequentially("😀 provi")
    expect(streams.get_by_role("option").first).to_contain_text("provider:")
    box.press("Tab")
    expect(box).to_have_value("😀 provider:")
    box.press_sequentially("gemi")
    box.press("Tab")
    expect(box).to_have_value("😀 provider:gemini ")


def test_a_search_that_cannot_be_read_has_no_rows_and_counts(
    streams: Page, stage: Inspected, problems: list[str]
) -> None:
    """The rows of the previous search stay, but cannot be taken for an answer."""
    sets = streams.get_by_role("group", name="States").get_by_role("button")
    expect(count(streams)).to_have_text(f"{TURNS + 3:,} rows")
    for wrong in ("provider:groq stat:fault", "state:odd "):
        search(streams).fill(wrong)
        expect(streams.get_by_role("alert")).to_be_visible()
        expect(streams.locator(".list-rows")).to_have_css("filter", "grayscale(1)")
        expect(count(streams)).to_have_text("rows of the previous search")
        expect(sets.first).to_have_text("All \u2013")
        assert serious(streams) == []
    search(streams).press("Escape")
    search(streams).press("Enter")  # searched for all the same: the address has it
    streams.wait_for_url(re.compile("q=state"))
    expect(count(streams)).to_have_text("rows of the previous search")
    search(streams).fill("state:fault")
    expect(streams.locator(".list-rows")).to_have_css("filter", "none")
    expect(count(streams)).to_have_text(re.compile(r"^[\d,]+ rows$"))
    streams.goto("about:blank")
    streams.goto(f"{stage.url}/#/streams?q=state:odd")
    expect(streams.get_by_text("The search cannot be read.")).to_be_visible()
    problems.clear()  # the browser tells of a 400


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
    expect(hints).to_contain_text("The * in pump* is not a wildcard")
    search(streams).fill("pump* zzz:1")
    expect(streams.get_by_role("alert")).to_contain_text("there is no field 'zzz'")
    expect(hints.locator("p")).to_have_count(0)


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


def test_the_sign_that_clears_the_search_is_in_the_middle_of_its_line(streams: Page) -> None:
    field = streams.get_by_role("combobox", name="Search requests")
    field.fill("model")
    sign = streams.get_by_role("button", name="Clear the search").locator("svg")
    assert abs(_middle(sign) - _middle(field)) <= 1


def _middle(element: Locator) -> float:
    box = element.bounding_box()
    assert box is not None
    return box["y"] + box["height"] / 2
