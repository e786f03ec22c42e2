"""The tokens view: estimates beside the provider's counts, in a chart, a table and a sentence."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from penstock._gateway.config import JournalTable
from tests.inspector.axe import serious
from tests.inspector.conftest import inspected
from tests.inspector.journal_history import MODELS, seed
from tests.inspector.sample_turns import send, wired

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from playwright.sync_api import Page

    from tests.inspector.conftest import Inspected

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def month(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Inspected]:
    place = tmp_path_factory.mktemp("journal") / "journal.sqlite"
    seed(place, 1200)
    with inspected(journal=JournalTable(path=str(place))) as running:
        yield running


@pytest.fixture
def tokens(month: Inspected, page: Page) -> Page:
    page.goto(f"{month.url}/#/tokens")
    page.locator(".tokens-one").wait_for()
    return page


@pytest.mark.row("G3")
def test_real_turns_are_compared(page: Page, tmp_path: Path) -> None:
    with inspected(wired, journal=JournalTable(path=str(tmp_path / "journal.sqlite"))) as running:
        page.goto(f"{running.url}/#/tokens")
        expect(page.get_by_role("heading", name="Nothing to compare yet")).to_be_visible()
        estimates = running.inspector.services.estimates
        estimates._interval = 0.0  # pyright: ignore[reportPrivateUsage] — every turn, not a sample
        for _ in range(3):
            send(running, "anthropic/interleaved", text="How high is the water behind the gate at station four?")
        estimates.flush()
        page.reload()
        page.locator(".tokens-one").wait_for()
        row = page.get_by_role("table", name="Estimates by model").get_by_role("row").nth(1)
        assert row.locator("th, td").all_inner_texts()[:2] == ["anthropic/interleaved", "3"]
        noted = [turn for turn in running.rows() if turn.estimate is not None]
        page.get_by_text("The latest 3 turns, as a table").click()
        shown = page.get_by_role("table", name="Estimates for anthropic/interleaved").get_by_role("row").nth(1)
        assert shown.locator("td").all_inner_texts()[0] == f"{noted[0].estimate:,}"
        assert shown.locator("td").all_inner_texts()[2] == f"{noted[0].input:,}"


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
    assert serious(tokens) == []
    shot(tokens, "inspector-tokens")


def test_what_lies_under_the_pointer_is_said(tokens: Page) -> None:
    box = tokens.locator(".plot .u-over").nth(1).bounding_box()
    assert box is not None
    tokens.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    expect(tokens.locator(".plot-tip").first).to_contain_text("Counted")


def test_a_phone_and_daylight(tokens: Page) -> None:
    tokens.emulate_media(color_scheme="light")
    assert serious(tokens) == []
    tokens.set_viewport_size({"width": 390, "height": 844})
    assert tokens.evaluate("document.documentElement.scrollWidth") <= 390
    assert serious(tokens) == []
