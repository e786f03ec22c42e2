"""Find and filter inside one turn, links to an event, panes that are resized, gaps: in a real browser."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from penstock.testing import Reply
from tests.gateway.inspector import sample_streams
from tests.page.test_turn_view import chosen, counts, open_turn
from tests.support.inspector import inspected
from tests.support.sample_turns import SSE, wired

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import BrowserContext, Locator, Page

    from penstock.testing import ReceivedRequest
    from tests.support.inspector import Inspected

EVIL = "(a+)+$"  # takes for ever on a text of many a's that does not end with one


@pytest.fixture(scope="module")
def stage() -> Iterator[Inspected]:
    with inspected(upstream) as running:
        yield running


def upstream(seen: ReceivedRequest) -> Reply:
    model = str(seen.json.get("model", "")) if seen.body else ""
    if model == "waiting":
        return Reply(tuple(sample_streams.interleaved()), headers=SSE).delayed(1.3)
    if model == "letters":
        text = [sample_streams.grown(0, type="text_delta", text="a" * 60 + "!")]
        made = [sample_streams.begin(), sample_streams.opened(0, type="text", text=""), *text, sample_streams.closed(0)]
        return Reply((*made, *sample_streams.ended("end_turn")), headers=SSE)
    return wired(seen)


@pytest.fixture
def opened(page: Page, stage: Inspected) -> Page:
    return open_turn(page, stage, "anthropic/interleaved", "openai-chat")


def find(page: Page, text: str) -> Locator:
    """Type into the find bar; what it says of matches."""
    page.keyboard.press("/")
    field = page.get_by_role("textbox", name="Find in this turn")
    expect(field).to_be_focused()
    field.fill(text)
    return page.locator(".find-count")


def rows(page: Page) -> Locator:
    return page.locator(".ledger-rows > [role=row]")


# ── find ──────────────────────────────────────────────────────────────────────────────────────────


def test_only_rows_that_match_are_shown(opened: Page) -> None:
    said = find(opened, "toolu_rain")
    expect(said).to_have_text(re.compile(r"^\d+ rows match$"))
    count = int(said.inner_text().split()[0])
    expect(rows(opened)).to_have_count(count)
    assert 0 < count < sum(counts(opened))
    for row in rows(opened).all():
        expect(row).to_contain_text("toolu_rain")
    expect(opened.locator(".cell mark").first).to_have_text("toolu_rain")
    opened.get_by_role("button", name="Only matches").click()
    assert rows(opened).count() > count
    opened.get_by_role("button", name="End the search").click()
    expect(said).to_have_count(0)


def test_matches_are_marked_in_the_details(opened: Page) -> None:
    said = find(opened, "STATION")
    expect(said).to_have_text(re.compile("rows match"))
    opened.keyboard.press("Enter")
    marks = opened.locator(".details mark")
    for form in ("raw", "pretty"):
        opened.get_by_role("button", name=form, exact=True).click()
        expect(marks.first).to_have_text("station")
        expect(marks.first).to_be_in_viewport()
    opened.get_by_role("button", name="Regular expression").click()
    opened.get_by_role("textbox", name="Find in this turn").fill("st[a-z]{4}n")
    expect(marks.first).to_have_text("station")
    opened.get_by_role("button", name="End the search").click()
    expect(marks).to_have_count(0)


def test_next_previous_and_their_number(opened: Page) -> None:
    said = find(opened, "station")
    expect(said).to_have_text(re.compile("rows match"))
    total = int(said.inner_text().split()[0])
    opened.keyboard.press("Enter")
    expect(said).to_have_text(f"1 of {total}")
    expect(chosen(opened)).to_have_class(re.compile("hit"))
    opened.keyboard.press("Enter")
    expect(said).to_have_text(f"2 of {total}")
    opened.keyboard.press("Shift+Enter")
    opened.keyboard.press("Shift+Enter")
    expect(said).to_have_text(f"{total} of {total}")
    opened.get_by_role("button", name="Next match").click()
    expect(said).to_have_text(f"1 of {total}")
    opened.locator(".ledger").focus()
    opened.keyboard.press("f")
    expect(said).to_have_text(f"2 of {total}")
    opened.keyboard.press("j")  # steps stay among the matches
    expect(said).to_have_text(f"3 of {total}")
    expect(chosen(opened)).to_be_in_viewport()


def test_words_that_came_in_pieces_are_found(opened: Page) -> None:
    expect(find(opened, "two readings at once")).to_have_text(re.compile(r"^\d+ rows match$"))
    opened.keyboard.press("Enter")
    expect(chosen(opened)).to_contain_text("two")


def test_by_the_type_of_an_event_and_by_part(opened: Page) -> None:
    opened.get_by_role("combobox", name="Type of event").select_option("call-start")
    expect(opened.locator(".find-count")).to_have_text("3 rows match")
    expect(opened.locator(".cell.events .chip")).to_have_text(["call-start"] * 3)
    opened.get_by_role("combobox", name="Type of event").select_option("")
    opened.get_by_role("combobox", name="Part").select_option(label="rain_forecast")
    expect(opened.locator(".find-count")).to_have_text(re.compile("rows match"))
    expect(opened.locator(".cell.events .part").first).to_be_visible()
    assert len(set(opened.locator(".cell.events .part").all_inner_texts())) == 1


def test_a_regular_expression(opened: Page) -> None:
    opened.get_by_role("button", name="Regular expression").click()
    said = find(opened, r"toolu_(level|rain)\b")
    expect(said).to_have_text(re.compile("rows match"))
    marks = set(opened.locator(".cell mark").all_inner_texts())
    assert {"toolu_level", "toolu_rain"} <= marks
    find(opened, "toolu_(")
    expect(said).to_have_text(re.compile("Invalid regular expression"))
    find(opened, "TOOLU_L")
    expect(said).to_have_text(re.compile("row"))
    opened.get_by_role("button", name="Match case").click()
    expect(said).to_have_text("No matches")


def test_an_expression_that_takes_for_ever_is_stopped(page: Page, stage: Inspected) -> None:
    open_turn(page, stage, "anthropic/letters", "openai-chat")
    page.get_by_role("button", name="Regular expression").click()
    said = find(page, EVIL)
    # The page goes on meanwhile: it answers, and it draws.
    assert page.evaluate("new Promise((done) => requestAnimationFrame(() => done(2)))") == 2
    expect(said).to_have_text(re.compile("takes too long: it was stopped after 1 s"))
    find(page, "a{20,}!")  # the next one runs
    expect(said).to_have_text(re.compile("match"))


# ── the address ───────────────────────────────────────────────────────────────────────────────────


def test_the_chosen_event_is_in_the_address(opened: Page) -> None:
    opened.get_by_role("button", name="level", exact=True).click()
    expect(chosen(opened)).to_contain_text("toolu_level")
    first = chosen(opened).get_attribute("data-at") or ""
    number = int(first.split()[1]) + 1
    expect(opened).to_have_url(re.compile(rf"[?&]at=event-{number}$"))
    # One number for an event: in the address, the details, the toolbar and the tab.
    expect(opened.locator(".details h3")).to_have_text(f"Event {number}")
    expect(opened.locator(".whereabouts")).to_contain_text(f"event {number}/")
    expect(opened).to_have_title(f"event {number} · anthropic/interleaved · Turn · penstock")
    opened.get_by_role("button", name="rain_forecast", exact=True).click()
    second = chosen(opened).get_attribute("data-at")
    opened.go_back()
    expect(opened.locator(f".cell.chosen[data-at='{first}']")).to_be_in_viewport()
    opened.go_forward()
    expect(opened.locator(f".cell.chosen[data-at='{second}']")).to_be_in_viewport()
    opened.reload()
    expect(opened.locator(f".cell.chosen[data-at='{second}']")).to_be_in_viewport()
    opened.keyboard.press("j")  # a step is not a place to go back to
    opened.keyboard.press("j")
    opened.go_back()
    expect(opened.locator(f".cell.chosen[data-at='{first}']")).to_be_in_viewport()


def test_a_link_and_the_text_are_copied(opened: Page, context: BrowserContext) -> None:
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    opened.get_by_role("button", name="level", exact=True).click()
    opened.get_by_role("button", name="Copy link").click()
    expect(opened.locator(".details")).to_contain_text("Copied")
    assert opened.evaluate("navigator.clipboard.readText()") == opened.url
    opened.get_by_role("button", name=re.compile(r"^Copy event \d+$")).click()
    copied = opened.evaluate("navigator.clipboard.readText()")
    assert '"type":"call-start"' in copied
    assert "toolu_level" in copied


def test_the_title_says_what_is_shown(opened: Page) -> None:
    expect(opened).to_have_title("anthropic/interleaved · Turn · penstock")
    opened.evaluate("location.hash = '#/usage'")
    expect(opened).to_have_title("Usage · penstock")


# ── panes ─────────────────────────────────────────────────────────────────────────────────────────


def test_panes_are_resized_by_mouse_and_keys_and_remembered(opened: Page) -> None:
    bar = opened.get_by_role("separator", name="Size of the list and of the message")
    ledger = opened.locator(".ledger")

    def width() -> float:
        box = ledger.bounding_box()
        assert box is not None
        return box["width"]

    before, box = width(), bar.bounding_box()
    assert box is not None
    opened.mouse.move(box["x"] + 3, box["y"] + 100)
    opened.mouse.down()
    opened.mouse.move(box["x"] - 200, box["y"] + 100, steps=4)
    opened.mouse.up()
    dragged = width()
    assert abs(before - dragged - 203) < 8
    bar.focus()
    for _ in range(3):
        opened.keyboard.press("ArrowRight")
    assert width() > dragged + 40
    kept = width()
    opened.reload()
    expect(ledger).to_be_visible()
    assert abs(width() - kept) < 2
    bar.dblclick()
    assert abs(width() - before) < 2


# ── gaps ──────────────────────────────────────────────────────────────────────────────────────────


def test_a_gap_says_how_long_it_was(page: Page, stage: Inspected) -> None:
    open_turn(page, stage, "anthropic/waiting", "openai-chat")
    page.get_by_role("button", name=re.compile(r"a gap of \d\.\d+ s")).click()
    expect(chosen(page)).to_have_attribute("data-at", "frames 0")
    expect(chosen(page).locator(".gap")).to_have_text(re.compile(r"^after 1\.\d+ s$"))
