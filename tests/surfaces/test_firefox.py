"""Each view in a real Firefox: it is drawn, nothing goes wrong in it, and what needs the browser's help works."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.page.exported_page import exported_traces
from tests.support.browser import SHOTS
from tests.support.firefox import firefox
from tests.support.inspector import inspected
from tests.support.sample_turns import send, send_named, wired

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.firefox import FirefoxPage
    from tests.support.inspector import Inspected

VIEWS = ("streams", "runs", "file", "usage", "tokens", "try", "keys")
SHOWN = "document.querySelector('nav a[href=\"#/{view}\"][aria-current=page]') && document.querySelector('main *')"
ROW = "document.querySelector('.list-rows [role=row]')"


@pytest.fixture(scope="module")
def stage() -> Iterator[Inspected]:
    with inspected(wired) as running:
        yield running


@pytest.fixture(scope="module")
def tab() -> Iterator[FirefoxPage]:
    with firefox() as page:
        page.set_size(1400, 860)
        yield page


@pytest.fixture
def page(tab: FirefoxPage, stage: Inspected) -> Iterator[FirefoxPage]:
    """The list, live, with one turn in it."""
    tab.problems.clear()
    tab.open(f"{stage.url}/")
    tab.wait_for("document.querySelector('.live.open')")
    send(stage, "anthropic/interleaved", "openai-chat")
    tab.wait_for(ROW)
    yield tab
    assert tab.problems == []


def test_each_view_is_drawn(page: FirefoxPage) -> None:
    for view in VIEWS:
        page.evaluate(f"location.hash = '#/{view}'")
        page.wait_for(SHOWN.format(view=view))
        assert page.evaluate("document.title").endswith("penstock"), view
        assert page.problems == [], view
        _keep_picture(page, view)


def test_each_page_of_a_turn_is_drawn(page: FirefoxPage, stage: Inspected) -> None:
    one, two = (send_named(stage, "openai-chat/text", "openai-chat", text=text)[0] for text in ("Open?", "Shut?"))
    pages = {
        f"runs/{one}": "document.querySelector('main h1.runs-name')?.textContent.includes('Open?')",
        f"send/{one}": "document.querySelector('.json-editor-host')?.shadowRoot?.textContent.includes('Open?')",
        f"compare/{one}/{two}": "document.querySelectorAll('.compare-message .ending-finish').length === 2",
        f"turn/{one}?view=request": "document.querySelector('[aria-label=\"The request of a turn\"]')?.textContent.includes('Open?')",
    }
    for address, shown in pages.items():
        page.evaluate(f"location.hash = '#/{address}'")
        page.wait_for(shown)
        assert page.problems == [], address
        _keep_picture(page, "request" if "?" in address else address.partition("/")[0] + "-of-turn")


def test_a_turn_is_found_in_and_linked_to(page: FirefoxPage) -> None:
    page.evaluate(f"{ROW}.click()")
    page.wait_for("document.querySelector('.ledger .cell')")
    _type(page, "toolu_(level|rain)", regex=True)
    page.wait_for("document.querySelector('.find-count')?.textContent.endsWith('rows match')")
    page.evaluate("document.querySelector('[aria-label=\"Next match\"]').click()")
    page.wait_for("document.querySelector('.cell.chosen mark')")
    assert "at=" in page.evaluate("location.hash")
    _keep_picture(page, "turn")
    page.evaluate("history.back()")
    page.wait_for("!document.querySelector('.cell.chosen')")


def test_an_exported_file_opens_from_disk(page: FirefoxPage, stage: Inspected, tmp_path: Path) -> None:
    from tests.support.client_requests import get

    id_ = page.evaluate(f"{ROW}.dataset.id")
    html = get(f"{stage.url}/inspector/turns/{id_}/export?as=openai-chat").content
    assert list(exported_traces(html)) == ["openai-chat"]
    path = tmp_path / "turn.html"
    path.write_bytes(html)
    page.open(path.as_uri())
    page.wait_for("document.querySelector('.ledger .cell')")
    _type(page, "rain_f.*t", regex=True)
    page.wait_for("document.querySelector('.find-count')?.textContent.includes('match')")


def _type(page: FirefoxPage, text: str, *, regex: bool) -> None:
    """Type into the find bar, as a reader would."""
    if regex:
        page.evaluate("document.querySelector('[aria-label=\"Regular expression\"]').click()")
    page.evaluate("document.querySelector('.find input').focus()")
    for letter in text:
        page.press(letter)


def _keep_picture(page: FirefoxPage, name: str) -> None:
    if SHOTS:
        page.screenshot(Path(SHOTS) / f"firefox-{name}.png")
