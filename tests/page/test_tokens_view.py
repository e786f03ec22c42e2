"""The tokens view: estimates beside the provider's counts, in a chart, a table and a sentence."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Literal

import pytest
from playwright.sync_api import expect

from penstock import events as ev
from penstock.testing import Reply
from tests.page.appearances import THEMES
from tests.page.axe import serious
from tests.support.client_requests import post
from tests.support.inspector import inspected
from tests.support.journal_history import MODELS, Estimated, seed, seed_estimates
from tests.support.sample_turns import send, wired

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from playwright.sync_api import Page

    from tests.support.inspector import Inspected


@pytest.fixture(scope="module")
def month(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Inspected]:
    place = tmp_path_factory.mktemp("journal") / "journal.sqlite"
    seed(place, 1200)
    with inspected(journal={"path": str(place)}) as running:
        yield running


@pytest.fixture
def tokens(month: Inspected, page: Page) -> Page:
    page.goto(f"{month.url}/#/tokens")
    page.locator(".tokens-one").wait_for()
    return page


COUNTED: list[ev.AnyEvent] = [
    ev.Start(id="1", model="m"),
    ev.TextStart(0),
    ev.TextDelta(0, "It stands at 2.71 m."),
    ev.TextEnd(0),
    ev.Usage(input=40, output=9),
    ev.Finish("stop"),
]


def ask_thrice(running: Inspected) -> None:
    """A conversation of three turns; each request holds the one before and its answer."""
    messages: list[dict[str, str]] = []
    for question in ("How high is the water at station four?", "And at station five?", "Is the gate open?"):
        messages.append({"role": "user", "content": question})
        body = {"model": "openai-chat/gpt-4o", "messages": messages}
        answer = post(f"{running.url}/v1/chat/completions", json=body).json()["choices"][0]["message"]["content"]
        messages.append({"role": "assistant", "content": answer})
        running.rows()  # waits for the end of the turn
        running.inspector.services.estimates.flush()


def test_real_turns_are_compared(page: Page, tmp_path: Path) -> None:
    journal = {"path": str(tmp_path / "journal.sqlite")}
    with inspected(Reply.of("openai-chat", COUNTED, stream=False), journal=journal) as running:
        page.goto(f"{running.url}/#/tokens")
        expect(page.get_by_role("heading", name="Nothing to compare yet")).to_be_visible()
        running.inspector.services.estimates._interval = 0.0  # every turn, not a sample
        ask_thrice(running)
        page.reload()
        page.locator(".tokens-one").wait_for()
        row = page.get_by_role("table", name="Estimates by model").get_by_role("row").nth(1)
        assert row.locator("th, td").all_inner_texts()[:2] == ["openai-chat/gpt-4o", "3"]
        expect(page.locator(".advice")).to_contain_text("the factor is still learning (3 of about 12 turns)")
        expect(page.locator(".method-shares")).to_contain_text("67% (2) the provider counted its beginning before")
        noted = [turn for turn in running.rows() if turn.estimate is not None]
        page.get_by_text("The latest 3 turns, as a table").click()
        table = page.get_by_role("table", name="Estimates for openai-chat/gpt-4o", exact=True)
        shown = table.get_by_role("row").nth(1).locator("td").all_inner_texts()
        assert (shown[0], shown[2], shown[5]) == (f"{noted[0].estimate:,}", f"{noted[0].input:,}", "hybrid")


def test_models_can_be_chosen_and_the_address_remembers(tokens: Page) -> None:
    names = [f"{kind.provider}/{kind.model}" for kind in MODELS]
    for name in names:
        tokens.get_by_role("button", name=name).click()
        expect(tokens.get_by_role("heading", name=name)).to_be_visible()
    tokens.reload()
    expect(tokens.get_by_role("heading", name=names[-1])).to_be_visible()


def test_the_figures_are_said_in_words_and_drawn(tokens: Page, shot: Callable[[Page, str], None]) -> None:
    words = tokens.locator(".tokens-words").inner_text()
    assert re.search(r"\d+ requests were estimated", words)
    assert re.search(r"off by less than \d", words)
    assert "which promise 90%" in words
    assert "multiplied by 1.0" in words
    expect(tokens.locator(".plot canvas")).to_have_count(3)
    taught = tokens.locator(".figure-box", has_text="Turns that taught")
    assert int(taught.locator(".figure-value").inner_text()) > 12
    expect(taught).to_contain_text("learned")
    shares = [int(text) for text in re.findall(r"(\d+)% \(", tokens.locator(".method-shares").inner_text())]
    assert len(shares) == 3
    assert 99 <= sum(shares) <= 101
    assert serious(tokens) == []
    shot(tokens, "inspector-tokens")


def test_what_lies_under_the_pointer_is_said(tokens: Page) -> None:
    box = tokens.locator(".plot .u-over").first.bounding_box()
    assert box is not None
    tokens.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    tip = tokens.locator(".plot-tip").first
    for word in ("Counted", "Error", "Method"):
        expect(tip).to_contain_text(word)


def test_the_plots_are_spaced_by_time_or_by_turn_from_the_keyboard(tokens: Page) -> None:
    spacing = tokens.get_by_role("group", name="Points in the plot")
    expect(spacing.get_by_role("button", name="by time")).to_have_attribute("aria-pressed", "true")
    spacing.get_by_role("button", name="by turn").focus()
    tokens.keyboard.press("Enter")
    expect(spacing.get_by_role("button", name="by turn")).to_have_attribute("aria-pressed", "true")
    assert "x=turn" in tokens.url
    expect(tokens.locator(".plot canvas")).to_have_count(3)


@pytest.mark.parametrize("theme", THEMES)
def test_a_phone_in_both_themes(tokens: Page, theme: Literal["dark", "light"]) -> None:
    tokens.emulate_media(color_scheme=theme)
    assert serious(tokens) == []
    tokens.set_viewport_size({"width": 400, "height": 844})
    assert tokens.evaluate("document.documentElement.scrollWidth") <= 400
    assert serious(tokens) == []


# ── what can be done ──────────────────────────────────────────────────────────────────────────────

# Each model is wrong in one way.
ERRORS = {
    "openai/learning-1": [Estimated(4, 820)],
    "openai/gpt-4o": [Estimated(20, 1150), Estimated(20, 1130)],
    "anthropic/pictures-1": [Estimated(30, 1010, "hybrid"), Estimated(10, 1340, "hybrid", "image-urls")],
    "gemini/searching-1": [Estimated(30, 1000, "hybrid"), Estimated(3, 700, "hybrid", "provider-tools", teaches=False)],
    "groq/odd-1": [Estimated(30, 1020, "hybrid"), Estimated(1, 12_000, "hybrid"), Estimated(1, 20, "hybrid")],
    "mistral/single-1": [Estimated(40, 1010)],
    "xai/good-1": [Estimated(10, 1000, "actual"), Estimated(20, 1020, "hybrid"), Estimated(10, 980)],
}
ADVICE = {
    "openai/learning-1": "Estimates are 18% low: the factor is still learning (4 of about 12 turns)",
    "openai/gpt-4o": "Estimates are 14% high after 40 turns",
    "anthropic/pictures-1": "10 of 40 requests give images by URL",
    "gemini/searching-1": "3 of 33 requests use tools that the provider runs",
    "groq/odd-1": "2 turns are far off",
    "mistral/single-1": "100% of the counts are estimates from the first to the last token",
    "xai/good-1": "Nothing has to be done",
}


@pytest.fixture(scope="module")
def wrong(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Inspected]:
    place = tmp_path_factory.mktemp("journal") / "journal.sqlite"
    seed_estimates(place, ERRORS)
    with inspected(journal={"path": str(place)}) as running:
        yield running


def test_what_can_be_done_is_said_with_the_numbers_of_the_model(wrong: Inspected, page: Page) -> None:
    for model, advice in ADVICE.items():
        page.goto(f"{wrong.url}/#/tokens?model={model}")
        expect(page.get_by_role("heading", name=model)).to_be_visible()
        said = re.compile(rf"^[^:]*:\s*{re.escape(advice)}$")
        expect(page.locator(".advice-title").filter(has_text=said)).to_have_count(1)
        assert serious(page) == [], model


def test_outliers_are_drawn_where_they_are_and_listed(
    wrong: Inspected, page: Page, shot: Callable[[Page, str], None]
) -> None:
    page.goto(f"{wrong.url}/#/tokens?model=groq/odd-1")
    table = page.get_by_role("table", name="Estimates for groq/odd-1 outside their bounds")
    table.wait_for()
    rows = [row.locator("td").all_inner_texts() for row in table.get_by_role("row").all()[1:]]
    assert [(row[0], row[2], row[3], row[4]) for row in rows] == [
        ("20", "1,000", "\N{MINUS SIGN}98%", "no"),
        ("12.0k", "1,000", "+1,100%", "no"),
    ]
    drawn = page.evaluate(MARKED)
    assert len(drawn) == 2, drawn  # one far above, one below zero, both inside the plot
    assert all(0.0 < height < 1.0 for height in drawn)
    shot(page, "inspector-tokens-outliers")
    page.goto(f"{wrong.url}/#/tokens?model=xai/good-1")
    expect(page.get_by_role("heading", name="xai/good-1")).to_be_visible()
    expect(page.get_by_role("region", name="Outside the bounds")).to_have_count(0)
    assert page.evaluate(MARKED) == []


# Where marks of the colour of outliers are in the first plot, as shares of its height: one for each.
MARKED = """() => {
    const canvas = document.querySelector(".plot canvas");
    const { width, height } = canvas;
    const { data } = canvas.getContext("2d").getImageData(0, 0, width, height);
    const bad = getComputedStyle(document.documentElement).getPropertyValue("--bad").trim();
    const wanted = [1, 3, 5].map((at) => Number.parseInt(bad.slice(at, at + 2), 16));
    const rows = [];
    for (let y = 0; y < height; y += 1) {
        let found = false;
        for (let x = 0; x < width && !found; x += 1) {
            found = wanted.every((value, n) => Math.abs(data[4 * (y * width + x) + n] - value) < 3);
        }
        if (found && rows.at(-1)?.last !== y - 1) rows.push({ first: y, last: y });
        else if (found) rows.at(-1).last = y;
    }
    return rows.map(({ first, last }) => (first + last) / 2 / height);
}"""


def test_an_outlier_leads_to_its_turn(wrong: Inspected, page: Page) -> None:
    page.goto(f"{wrong.url}/#/tokens?model=groq/odd-1")
    page.locator(".advice").get_by_role("link", name="Look at the turn").first.click()
    expect(page.get_by_role("heading", name="odd-1", level=1)).to_be_visible()
    assert "#/turn/odd-1-31" in page.url


# ── nothing to show ───────────────────────────────────────────────────────────────────────────────

EMPTY: dict[str, tuple[dict[str, Any], str, str]] = {
    "journal": ({"journal": {"path": "off"}}, "The journal is off", "journal.path"),
    "estimates": ({"features": {"estimates": False}}, "Estimates are off", "features.estimates"),
    "turns": ({}, "Nothing to compare yet", "Ask a model something"),
}


@pytest.mark.parametrize("case", EMPTY)
def test_an_empty_page_says_what_must_happen(page: Page, case: str) -> None:
    options, title, text = EMPTY[case]
    with inspected(**options) as running:
        page.goto(f"{running.url}/#/tokens")
        expect(page.get_by_role("heading", name=title)).to_be_visible()
        expect(page.locator(".notice")).to_contain_text(text)
        assert serious(page) == []


def test_turns_without_a_count_are_told_apart(page: Page) -> None:
    with inspected(wired) as running:
        send(running, "overloaded")
        page.goto(f"{running.url}/#/tokens")
        expect(page.get_by_role("heading", name="No provider has counted a prompt")).to_be_visible()
        expect(page.locator(".notice")).to_contain_text("There was one request")
