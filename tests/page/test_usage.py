"""Usage and tokens: what the journal counted, and how near the estimates came, in figures, charts, tables and words."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Literal

import pytest
from playwright.sync_api import expect

from penstock import events as ev
from penstock.testing import Reply
from tests.page.axe import serious
from tests.page.steps import appearances, expect_fit, leaving, look, wait_frames
from tests.support.client_requests import post
from tests.support.inspector import inspected
from tests.support.journal_history import MODELS, Estimated, seed, seed_estimates
from tests.support.page_gateway import estimate_every_turn, flush
from tests.support.sample_turns import send, wired

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from playwright.sync_api import Locator, Page

    from tests.support.inspector import Inspected

TURNS = 2400
NAMES = [f"{kind.provider}/{kind.model}" for kind in MODELS]


@pytest.fixture(scope="module")
def month(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Inspected]:
    """A gateway that has been busy for a month."""
    place = tmp_path_factory.mktemp("journal") / "journal.sqlite"
    seed(place, TURNS)
    with inspected(journal={"path": str(place)}) as running:
        yield running


def figure(page: Page, name: str) -> str:
    return page.locator(".figure-box", has=page.get_by_text(name, exact=True)).locator(".figure-value").inner_text()


def cells(row: Locator) -> list[str]:
    return row.locator("th, td").all_inner_texts()


# How many dots of a colour of the theme each plot has, and where: the middle of each mark as a share of the height.
DOTS = """(all, name) => {
    const colour = getComputedStyle(document.documentElement).getPropertyValue(name).trim();
    const wanted = [1, 3, 5].map((at) => Number.parseInt(colour.slice(at, at + 2), 16));
    return all.map((canvas) => {
        const { width, height } = canvas;
        const { data } = canvas.getContext("2d").getImageData(0, 0, width, height);
        const marks = [];
        let count = 0;
        for (let y = 0; y < height; y += 1) {
            let found = 0;
            for (let x = 0; x < width; x += 1) {
                found += wanted.every((value, n) => Math.abs(data[4 * (y * width + x) + n] - value) < 3);
            }
            count += found;
            if (found && marks.at(-1)?.last !== y - 1) marks.push({ first: y, last: y });
            else if (found) marks.at(-1).last = y;
        }
        return [count, marks.map(({ first, last }) => (first + last) / 2 / height)];
    });
}"""


def drawn(page: Page, colour: str) -> list[int]:
    """How many dots of a colour each plot has."""
    return [count for count, _ in page.locator(".plot canvas").evaluate_all(DOTS, colour)]


# ── usage ─────────────────────────────────────────────────────────────────────────────────────────


def test_a_month_is_shown_in_figures_plots_and_tables_that_agree(
    month: Inspected, page: Page, shot: Callable[[Page, str], None]
) -> None:
    page.goto(f"{month.url}/#/usage?range=month")
    page.locator(".figures").wait_for()
    assert figure(page, "Requests") == f"{TURNS:,}"
    expect(page.locator(".plot canvas")).to_have_count(4)
    legend = page.locator(".legend button")
    assert {name.strip() for name in legend.all_inner_texts()} == set(NAMES)
    assert serious(page) == []
    shot(page, "inspector-usage")
    assert min(drawn(page, "--series-1")[:3]) > 50
    legend.first.click()  # a series is hidden, and the plots follow
    expect(legend.first).to_have_attribute("aria-pressed", "false")
    assert drawn(page, "--series-1") == [0, 0, 0, 0]
    assert min(drawn(page, "--series-2")[:3]) > 50
    legend.first.press("Enter")
    expect(legend.first).to_have_attribute("aria-pressed", "true")
    assert min(drawn(page, "--series-1")[:3]) > 50
    plot = page.locator(".plot .u-over").first
    plot.scroll_into_view_if_needed()
    box = plot.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] * 0.9, box["y"] + 40)
    expect(page.locator(".plot-tip").first).to_contain_text("anthropic/claude-sonnet-4-5")
    page.mouse.move(2, 2)
    expect(page.locator(".plot-tip")).to_have_count(0)
    table = page.get_by_role("table", name="Usage by model")
    turns = [int(cells(row)[1].replace(",", "")) for row in table.get_by_role("row").all()[1:]]
    assert sum(turns[:-1]) == turns[-1] == TURNS
    page.get_by_text("Over time, as a table").click()
    over_time = (
        page.get_by_role("table", name="Usage over time")
        .locator("tr")
        .evaluate_all("rows => rows.slice(1).map((row) => Number(row.children[1].textContent.replaceAll(',', '')))")
    )
    assert sum(over_time) == TURNS
    counts = [TURNS]
    for name in ("Week", "Day"):
        with page.expect_response(re.compile("/inspector/usage")) as answer:
            page.get_by_role("button", name=name, exact=True).click()
        counts.append(answer.value.json()["total"]["requests"])
        expect(page.locator(".figure-value").first).to_have_text(f"{counts[-1]:,}")
    assert counts[0] > counts[1] > counts[2] > 0
    page.reload()
    page.locator(".figures").wait_for()
    expect(page.get_by_role("button", name="Day", exact=True)).to_have_attribute("aria-pressed", "true")


def test_real_turns_are_counted(page: Page, tmp_path: Path) -> None:
    with inspected(wired, journal={"path": str(tmp_path / "journal.sqlite")}) as running, leaving(page):
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
        expect(page.get_by_role("table", name="Usage by client").get_by_role("row")).to_have_count(4)


@appearances
def test_both_views_fit(
    month: Inspected, page: Page, theme: Literal["dark", "light"], width: int, shot: Callable[[Page, str], None]
) -> None:
    page.goto(f"{month.url}/#/usage?range=month")
    page.locator(".figures").wait_for()
    look(page, theme, 1280)
    wait_frames(page)
    if theme == "light":
        shot(page, "inspector-usage-light")
    for view in ("usage", "tokens"):
        page.goto(f"{month.url}/#/{view}")
        page.locator(".figures").wait_for()
        look(page, theme, width)
        wait_frames(page)
        expect_fit(page)
        widths = page.locator(".plot canvas").evaluate_all("all => all.map((one) => one.getBoundingClientRect().width)")
        assert max(widths) <= width


# ── tokens ────────────────────────────────────────────────────────────────────────────────────────

COUNTED: list[ev.AnyEvent] = [
    ev.Start(id="1", model="m"), ev.TextStart(0), ev.TextDelta(0, "It stands at 2.71 m."), ev.TextEnd(0),
    ev.Usage(input=40, output=9), ev.Finish("stop"),
]  # fmt: skip


def ask_thrice(running: Inspected) -> None:
    """A conversation of three turns; each request holds the one before and its answer."""
    messages: list[dict[str, str]] = []
    for question in ("How high is the water at station four?", "And at station five?", "Is the gate open?"):
        messages.append({"role": "user", "content": question})
        body = {"model": "openai-chat/gpt-4o", "messages": messages}
        answer = post(f"{running.url}/v1/chat/completions", json=body).json()["choices"][0]["message"]["content"]
        messages.append({"role": "assistant", "content": answer})
        running.rows()  # waits for the end of the turn
        flush(running)


def test_estimates_of_real_turns_are_compared(page: Page, tmp_path: Path) -> None:
    journal = {"path": str(tmp_path / "journal.sqlite")}
    with inspected(Reply.of("openai-chat", COUNTED, stream=False), journal=journal) as running, leaving(page):
        page.goto(f"{running.url}/#/tokens")
        expect(page.get_by_role("heading", name="Nothing to compare yet")).to_be_visible()
        expect(page.locator(".notice")).to_contain_text("Ask a model something")
        estimate_every_turn(running)
        ask_thrice(running)
        page.reload()
        page.locator(".tokens-one").wait_for()
        row = page.get_by_role("table", name="Estimates by model").get_by_role("row").nth(1)
        assert cells(row)[:2] == ["openai-chat/gpt-4o", "3"]
        expect(page.locator(".advice")).to_contain_text("the factor is still learning (3 of about 12 turns)")
        expect(page.locator(".method-shares")).to_contain_text("67% (2) the provider counted its beginning before")
        noted = [turn for turn in running.rows() if turn.estimate is not None]
        page.get_by_text("The latest 3 turns, as a table").click()
        table = page.get_by_role("table", name="Estimates for openai-chat/gpt-4o", exact=True)
        shown = table.get_by_role("row").nth(1).locator("td").all_inner_texts()
        assert (shown[0], shown[2], shown[5]) == (f"{noted[0].estimate:,}", f"{noted[0].input:,}", "hybrid")


def test_the_error_of_estimates_is_said_in_words_and_drawn(
    month: Inspected, page: Page, shot: Callable[[Page, str], None]
) -> None:
    page.goto(f"{month.url}/#/tokens")
    page.locator(".tokens-one").wait_for()
    words = page.locator(".tokens-words").inner_text()
    assert re.search(r"\d+ requests were estimated", words)
    assert re.search(r"off by less than \d", words)
    assert "which promise 90%" in words
    assert "multiplied by 1.0" in words
    expect(page.locator(".plot canvas")).to_have_count(3)
    taught = page.locator(".figure-box", has_text="Turns that taught")
    assert int(taught.locator(".figure-value").inner_text()) > 12
    expect(taught).to_contain_text("learned")
    shares = [int(text) for text in re.findall(r"(\d+)% \(", page.locator(".method-shares").inner_text())]
    assert len(shares) == 3
    assert 99 <= sum(shares) <= 101
    assert serious(page) == []
    shot(page, "inspector-tokens")
    box = page.locator(".plot .u-over").first.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    for word in ("Counted", "Error", "Method"):
        expect(page.locator(".plot-tip").first).to_contain_text(word)
    spacing = page.get_by_role("group", name="Points in the plot")
    expect(spacing.get_by_role("button", name="by time")).to_have_attribute("aria-pressed", "true")
    spacing.get_by_role("button", name="by turn").focus()
    page.keyboard.press("Enter")
    expect(spacing.get_by_role("button", name="by turn")).to_have_attribute("aria-pressed", "true")
    assert "x=turn" in page.url
    expect(page.locator(".plot canvas")).to_have_count(3)
    for name in NAMES:
        page.get_by_role("button", name=name).click()
        expect(page.get_by_role("heading", name=name)).to_be_visible()
    page.reload()  # the address remembers
    expect(page.get_by_role("heading", name=NAMES[-1])).to_be_visible()


# Each model is wrong in one way: what its estimates are, and what is said of it.
ERRORS = {
    "openai/learning-1": ([Estimated(4, 820)], "Estimates are 18% low: the factor is still learning (4 of about 12 turns)"),
    "openai/gpt-4o": ([Estimated(20, 1150), Estimated(20, 1130)], "Estimates are 14% high after 40 turns"),
    "anthropic/pictures-1": ([Estimated(30, 1010, "hybrid"), Estimated(10, 1340, "hybrid", "image-urls")],
                             "10 of 40 requests give images by URL"),
    "gemini/searching-1": ([Estimated(30, 1000, "hybrid"), Estimated(3, 700, "hybrid", "provider-tools", teaches=False)],
                           "3 of 33 requests use tools that the provider runs"),
    "mistral/single-1": ([Estimated(40, 1010)], "100% of the counts are estimates from the first to the last token"),
    "xai/good-1": ([Estimated(10, 1000, "actual"), Estimated(20, 1020, "hybrid"), Estimated(10, 980)],
                   "Nothing has to be done"),
    "groq/odd-1": ([Estimated(30, 1020, "hybrid"), Estimated(1, 12_000, "hybrid"), Estimated(1, 20, "hybrid")],
                   "2 turns are far off"),
}  # fmt: skip


def test_what_can_be_done_is_said_with_the_numbers_of_the_model_and_outliers_are_drawn(
    page: Page, tmp_path: Path, shot: Callable[[Page, str], None]
) -> None:
    place = tmp_path / "journal.sqlite"
    seed_estimates(place, {model: groups for model, (groups, _) in ERRORS.items()})
    with inspected(journal={"path": str(place)}) as running, leaving(page):
        for model, (_, advice) in ERRORS.items():
            page.goto(f"{running.url}/#/tokens?model={model}")
            expect(page.get_by_role("heading", name=model)).to_be_visible()
            said = re.compile(rf"^[^:]*:\s*{re.escape(advice)}$")
            expect(page.locator(".advice-title").filter(has_text=said)).to_have_count(1)
            if model == "xai/good-1":
                expect(page.get_by_role("region", name="Outside the bounds")).to_have_count(0)
                assert drawn(page, "--bad")[0] == 0
        assert serious(page, "main") == []
        table = page.get_by_role("table", name="Estimates for groq/odd-1 outside their bounds")
        found = [row.locator("td").all_inner_texts() for row in table.get_by_role("row").all()[1:]]
        assert [(row[0], row[2], row[3], row[4]) for row in found] == [
            ("20", "1,000", "\N{MINUS SIGN}98%", "no"),
            ("12.0k", "1,000", "+1,100%", "no"),
        ]
        marks = page.locator(".plot canvas").evaluate_all(DOTS, "--bad")[0][1]
        assert len(marks) == 2, marks  # one far above, one below zero, both inside the plot
        assert all(0.0 < height < 1.0 for height in marks)
        shot(page, "inspector-tokens-outliers")
        page.locator(".advice").get_by_role("link", name="Look at the turn").first.click()
        expect(page.get_by_role("heading", name="odd-1", level=1)).to_be_visible()
        assert "#/turn/odd-1-31" in page.url


EMPTY: dict[str, tuple[dict[str, Any], str]] = {
    "The journal is off": ({"journal": {"path": "off"}}, "journal.path"),
    "Estimates are off": ({"features": {"estimates": False}}, "features.estimates"),
    "No provider has counted a prompt": ({}, "There was one request"),
}


def test_an_empty_view_says_what_must_happen(page: Page) -> None:
    for title, (options, text) in EMPTY.items():
        with inspected(wired, **options) as running, leaving(page):
            send(running, "overloaded")
            page.goto(f"{running.url}/#/tokens")
            expect(page.get_by_role("heading", name=title)).to_be_visible()
            expect(page.locator(".notice")).to_contain_text(text)
            assert serious(page, "main") == []
            if "journal" in options:
                page.goto(f"{running.url}/#/usage")
                expect(page.get_by_role("heading", name=title)).to_be_visible()
