"""The usage view: what the journal counted, in figures, charts and tables that agree."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from tests.page.axe import serious
from tests.support.inspector import inspected
from tests.support.journal_history import MODELS, seed
from tests.support.sample_turns import send, wired

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from playwright.sync_api import Locator, Page

    from tests.support.inspector import Inspected

TURNS = 2400


@pytest.fixture(scope="module")
def month(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Inspected]:
    """A gateway that has been busy for a month."""
    place = tmp_path_factory.mktemp("journal") / "journal.sqlite"
    seed(place, TURNS)
    with inspected(journal={"path": str(place)}) as running:
        yield running


@pytest.fixture
def usage(month: Inspected, page: Page) -> Page:
    page.goto(f"{month.url}/#/usage?range=month")
    page.locator(".figures").wait_for()
    return page


def figure(page: Page, name: str) -> str:
    return page.locator(".figure-box", has=page.get_by_text(name, exact=True)).locator(".figure-value").inner_text()


def cells(row: Locator) -> list[str]:
    return row.locator("th, td").all_inner_texts()


def test_real_turns_are_counted(page: Page, tmp_path_factory: pytest.TempPathFactory) -> None:
    place = tmp_path_factory.mktemp("journal") / "journal.sqlite"
    with inspected(wired, journal={"path": str(place)}) as running:
        page.goto(f"{running.url}/#/usage")
        expect(page.get_by_role("heading", name="Nothing in the last day")).to_be_visible()
        expect(page.locator("main").get_by_role("link", name="Try one")).to_have_attribute("href", "#/try")
        for client in ("openai-chat", "anthropic", "openai-chat"):
            send(running, "openai-chat/text", client)
        send(running, "anthropic/broken")
        page.get_by_role("button", name="Refresh").click()
        page.locator(".figures").wait_for()
        assert [figure(page, "Requests"), figure(page, "Errors")] == ["4", "1"]
        tokens = sum(row.output or 0 for row in running.rows())
        assert figure(page, "Tokens out") == f"{tokens:,}"
        table = page.get_by_role("table", name="Usage by model")
        assert [cells(row)[:2] for row in table.get_by_role("row").all()[1:]] == [
            ["openai-chat/text", "3"], ["anthropic/broken", "1"], ["All", "4"],
        ]  # fmt: skip
        page.get_by_role("button", name="Client", exact=True).click()
        rows = page.get_by_role("table", name="Usage by client").get_by_role("row")
        expect(rows).to_have_count(4)


def test_a_month_by_model(usage: Page, shot: Callable[[Page, str], None]) -> None:
    assert figure(usage, "Requests") == f"{TURNS:,}"
    expect(usage.locator(".plot canvas")).to_have_count(4)
    legend = usage.locator(".legend button")
    assert {name.strip() for name in legend.all_inner_texts()} == {f"{kind.provider}/{kind.model}" for kind in MODELS}
    assert serious(usage) == []
    shot(usage, "inspector-usage")


def test_ranges_hold_less_and_less(usage: Page) -> None:
    counts: list[int] = []
    for name in ("Month", "Week", "Day"):
        with usage.expect_response(re.compile("/inspector/usage")) as answer:
            usage.get_by_role("button", name=name, exact=True).click() if counts else usage.reload()
        counts.append(answer.value.json()["total"]["requests"])
        expect(usage.locator(".figure-value").first).to_have_text(f"{counts[-1]:,}")
    assert counts[0] > counts[1] > counts[2] > 0
    usage.reload()
    usage.locator(".figures").wait_for()
    expect(usage.get_by_role("button", name="Day", exact=True)).to_have_attribute("aria-pressed", "true")


def drawn(page: Page, colour: str) -> list[int]:
    """How many dots of a colour of the theme each plot has."""
    found: list[int] = page.locator(".plot canvas").evaluate_all(
        """(all, name) => {
            const colour = getComputedStyle(document.documentElement).getPropertyValue(name).trim();
            const wanted = [1, 3, 5].map((at) => Number.parseInt(colour.slice(at, at + 2), 16));
            return all.map((canvas) => {
                const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
                let count = 0;
                for (let at = 0; at < data.length; at += 4) {
                    if (wanted.every((value, n) => Math.abs(data[at + n] - value) < 3)) count += 1;
                }
                return count;
            });
        }""",
        colour,
    )
    return found


def test_a_series_can_be_hidden_and_the_plots_follow(usage: Page) -> None:
    assert min(drawn(usage, "--series-1")[:3]) > 50
    first = usage.locator(".legend button").first
    first.click()
    expect(first).to_have_attribute("aria-pressed", "false")
    assert drawn(usage, "--series-1") == [0, 0, 0, 0]
    assert min(drawn(usage, "--series-2")[:3]) > 50
    first.press("Enter")
    expect(first).to_have_attribute("aria-pressed", "true")
    assert min(drawn(usage, "--series-1")[:3]) > 50


def test_what_lies_under_the_pointer_is_said(usage: Page) -> None:
    plot = usage.locator(".plot .u-over").first
    box = plot.bounding_box()
    assert box is not None
    usage.mouse.move(box["x"] + box["width"] * 0.9, box["y"] + 40)
    expect(usage.locator(".plot-tip").first).to_contain_text("anthropic/claude-sonnet-4-5")
    usage.mouse.move(2, 2)
    expect(usage.locator(".plot-tip")).to_have_count(0)


def test_the_tables_say_what_the_plots_show(usage: Page) -> None:
    table = usage.get_by_role("table", name="Usage by model")
    turns = [int(cells(row)[1].replace(",", "")) for row in table.get_by_role("row").all()[1:]]
    assert sum(turns[:-1]) == turns[-1] == TURNS
    usage.get_by_text("Over time, as a table").click()
    rows = usage.get_by_role("table", name="Usage over time").get_by_role("row").all()[1:]
    assert sum(int(cells(row)[1].replace(",", "")) for row in rows) == TURNS


def test_a_phone_and_daylight(usage: Page, shot: Callable[[Page, str], None]) -> None:
    usage.emulate_media(color_scheme="light")
    expect(usage.locator("html")).to_have_attribute("data-theme", "light")
    usage.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    shot(usage, "inspector-usage-light")
    assert serious(usage) == []
    usage.set_viewport_size({"width": 390, "height": 844})
    assert usage.evaluate("document.documentElement.scrollWidth") <= 390
    widths = usage.locator(".plot canvas").evaluate_all("all => all.map((one) => one.getBoundingClientRect().width)")
    assert max(widths) <= 390
    assert serious(usage) == []


def test_without_a_journal_it_says_what_to_do(page: Page) -> None:
    with inspected(journal={"path": "off"}) as running:
        page.goto(f"{running.url}/#/usage")
        expect(page.get_by_role("heading", name="The journal is off")).to_be_visible()
