"""The view of one turn: steps, links, lanes, other consumers, find, addresses, live updates, a hostile stream."""

# ruff: noqa: PLR0915 — a story has as many steps as its user

from __future__ import annotations

import re
import threading
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
from playwright.sync_api import expect

from penstock import events as ev
from penstock.testing import Reply
from tests.page.steps import PHONE, clipboard, leaving, open_list, open_turn, rows
from tests.support import sample_streams
from tests.support.client_requests import ask
from tests.support.event_feed import watching
from tests.support.inspector import inspected
from tests.support.paused_upstream import waiting
from tests.support.sample_turns import SSE, send, sending, wired

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Locator, Page

    from penstock.testing import ReceivedRequest
    from tests.support.inspector import Inspected

MOST_ROWS = 70  # in a window of 800 pixels, with those beyond its edges
EVIL = "(a+)+$"  # takes for ever on a text of many a's that does not end with one
BAR = """([row, share]) => {
    const canvas = document.querySelector(".lane-canvas");
    const ratio = canvas.width / canvas.clientWidth;
    const x = Math.round((7 + share * (canvas.clientWidth - 14)) * ratio);
    return canvas.getContext("2d").getImageData(x, Math.round((row * 18 + 9) * ratio), 1, 1).data[3] > 0;
}"""


def upstream(seen: ReceivedRequest) -> Reply:
    model = str(seen.json.get("model", "")) if seen.body else ""
    if model == "waiting":
        return Reply(tuple(sample_streams.interleaved()), headers=SSE).delayed(1.3)
    if model == "letters":
        text = [sample_streams.grown(0, type="text_delta", text="a" * 60 + "!")]
        made = [sample_streams.begin(), sample_streams.opened(0, type="text", text=""), *text, sample_streams.closed(0)]
        return Reply((*made, *sample_streams.ended("end_turn")), headers=SSE)
    if model == "texts":
        texts: list[Any] = [
            one
            for index, text in ((0, "First I look"), (2, "Then I answer"))
            for one in (ev.TextStart(index), ev.TextDelta(index, text), ev.TextEnd(index))
        ]
        given = '{"command": "ls"}'
        call: list[ev.AnyEvent] = [
            ev.CallStart(1, id="a", name="bash"),
            ev.CallDelta(1, given),
            ev.CallEnd(1, "a", "bash", given),
        ]
        return Reply.of("anthropic", [ev.Start(id="1", model="m"), *texts[:3], *call, *texts[3:], ev.Finish("calls")])
    return wired(seen)


@pytest.fixture(scope="module")
def stage() -> Iterator[Inspected]:
    with inspected(upstream) as running:
        yield running


@pytest.fixture
def opened(page: Page, stage: Inspected) -> Page:
    """The interleaved stream, asked for by a Chat client, at its end."""
    open_turn(page, stage, "anthropic/interleaved", "openai-chat")
    return page


def where(page: Page) -> str:
    return page.locator(".whereabouts").inner_text()


def counts(page: Page) -> tuple[int, ...]:
    """How many frames, events and outputs there are."""
    found = page.locator(".ledger-title .count").all_inner_texts()
    return tuple(int(text.replace(",", "")) for text in found)


def chosen(page: Page) -> Locator:
    return page.locator(".cell.chosen")


def place(page: Page) -> str:
    return chosen(page).get_attribute("data-at") or ""


def event(page: Page, kind: str) -> Locator:
    return page.locator(".cell.events").filter(has=page.locator(f".chip:text-is('{kind}')")).first


def ledger_rows(page: Page) -> Locator:
    return page.locator(".ledger-rows > [role=row]")


# ── steps and links ───────────────────────────────────────────────────────────────────────────────


def test_a_turn_is_stepped_through_and_the_message_follows(opened: Page) -> None:
    message = opened.locator(".turn-message")
    expect(message).to_contain_text("By the rule the gate opens")
    opened.keyboard.press("g")
    expect(chosen(opened)).to_have_text(re.compile("start"))
    expect(message).not_to_contain_text("Before I decide")
    for _ in range(3):
        opened.keyboard.press("j")
    assert place(opened) == "events 3"
    axis = opened.get_by_role("slider", name="Place in the turn")
    expect(axis).to_have_attribute("aria-valuetext", re.compile("frame 3 of 1"))
    opened.keyboard.press("k")
    assert place(opened) == "events 2"
    assert opened.locator(".cell.events.later").first.get_attribute("data-at") == "events 3"
    opened.keyboard.press("End")
    expect(chosen(opened)).to_have_count(0)
    expect(message).to_contain_text("By the rule the gate opens")
    for unit, column in (("frame", "frames"), ("client", "outputs"), ("event", "events")):
        opened.get_by_role("button", name=unit, exact=True).click()
        opened.get_by_role("button", name="To the start").click()
        assert place(opened) == f"{column} 0"
        opened.get_by_role("button", name="One step on").click()
        assert place(opened) == f"{column} 1"
    axis.focus()
    opened.keyboard.press("Home")
    for _ in range(5):
        opened.keyboard.press("ArrowRight")
    expect(axis).to_have_attribute("aria-valuenow", "6")
    box = axis.bounding_box()
    assert box is not None
    opened.get_by_role("button", name="order", exact=True).click()
    axis.click(position={"x": box["width"] / 2, "y": 10})
    frames = counts(opened)[0]
    assert abs(int(axis.get_attribute("aria-valuenow") or 0) - frames / 2) < frames / 10
    # JSON is pretty or as it came.
    axis.blur()
    opened.keyboard.press("g")
    opened.keyboard.press("h")
    details = opened.locator(".details")
    expect(details.locator(".pretty-key").first).to_have_text('"type"')
    opened.keyboard.press("r")
    expect(details.locator(".long-text")).to_have_text(re.compile(r'^\{"type": "message_start", "message"'))
    details.get_by_role("button", name="pretty").click()
    expect(details.locator(".pretty-line").first).to_be_visible()


def test_a_click_lights_causes_and_effects_and_lanes_lie_side_by_side(opened: Page) -> None:
    parts = opened.get_by_role("list", name="Parts").get_by_role("button")
    assert parts.all_inner_texts() == ["turn", "reasoning", "web_search", "text", "sources", "level", "rain_forecast"]
    opened.get_by_role("button", name="order", exact=True).click()
    shares: dict[str, float] = {}
    for name in ("level", "rain_forecast"):
        opened.get_by_role("button", name=name, exact=True).click()
        shares[name] = float(opened.locator(".playhead").first.evaluate("one => parseFloat(one.style.left)")) / 100
    middle = (shares["rain_forecast"] + 1) / 2
    for row in (5, 6):
        assert opened.evaluate(BAR, [row, middle - 0.01]), "both calls are growing"
        assert not opened.evaluate(BAR, [row, shares["level"] - 0.03]), "and neither had begun"
    assert "5 6 5 6 5 6" in " ".join(opened.locator(".cell.events .part").all_inner_texts())
    opened.keyboard.press("g")
    parts.filter(has_text="rain_forecast").click()  # what is far off is scrolled into view
    expect(chosen(opened)).to_be_in_viewport()
    expect(chosen(opened)).to_contain_text("call-start")
    expect(opened.locator(".cell.frames.lit")).to_be_in_viewport()
    opened.get_by_role("button", name="level", exact=True).click()
    for _ in range(40):
        if "call-end" in chosen(opened).inner_text():
            break
        opened.keyboard.press("j")
    opened.locator(".cell.events").filter(has_text="call-end").first.click()
    frame, output = opened.locator(".cell.frames.lit"), opened.locator(".cell.outputs.lit")
    expect(frame).to_contain_text("content_block_stop")
    expect(frame).to_be_in_viewport()
    expect(opened.locator(".details")).to_contain_text("toolu_level")
    opened.get_by_role("list", name="Causes and effects").get_by_role("button").first.click()
    expect(chosen(opened)).to_contain_text("content_block_stop")
    expect(event(opened, "call-end")).to_have_class(re.compile("lit"))
    opened.keyboard.press("l")
    expect(chosen(opened)).to_contain_text("call-end")
    if output.count():
        opened.keyboard.press("l")
        assert place(opened).startswith("outputs")
    for axis in ("order", "time"):
        opened.get_by_role("button", name=axis, exact=True).click()
        for width in (1280, 700, PHONE):
            opened.set_viewport_size({"width": width, "height": 800})
            _expect_ticks(opened, axis)


def _expect_ticks(page: Page, axis: str) -> None:
    """Labels of the axis differ and lie side by side, though the turn took milliseconds and began with many frames."""
    expect(page.locator(".axis-unit")).to_have_text("seconds" if axis == "time" else "frames")
    ticks = page.locator(".axis-strip .tick")
    expect(ticks.nth(1)).to_be_attached()
    labels = ticks.all_inner_texts()
    assert len(set(labels)) == len(labels)
    if axis == "time":
        assert labels[0] == "0"
        assert all(re.fullmatch(r"[\d.]+ m?s", label) for label in labels[1:])
    else:
        numbers = [int(label) for label in labels]
        assert (numbers[0], numbers) == (1, sorted(numbers))
    boxes = [tick.bounding_box() for tick in ticks.all()]
    edges = [(box["x"], box["x"] + box["width"]) for box in boxes if box is not None]
    assert len(edges) == len(labels)
    assert all(end <= start for (_, end), (start, _) in pairwise(edges)), edges


def test_the_view_of_another_client_and_panes_of_another_size_are_remembered(opened: Page) -> None:
    frames, events, outputs = counts(opened)
    opened.keyboard.press("g")
    expect(opened.locator(".cell.outputs").first).to_contain_text("chat.completion.chunk")
    switch = opened.get_by_label("As a client of this protocol gets it")
    options = switch.locator("option").all_inner_texts()
    assert {"vscode", "openai-chat (its client)", "responses", "anthropic", "uistream"} <= set(options)
    switch.select_option("vscode")
    expect(opened.locator(".cell.outputs").first).to_contain_text("start")
    assert counts(opened)[:2] == (frames, events)
    assert counts(opened)[2] != outputs
    expect(chosen(opened)).to_have_text(re.compile("start"))  # the place is kept
    switch.select_option("uistream")
    expect(opened.locator(".cell.outputs").first).to_contain_text("messageId")
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
    expect(switch).to_have_value("uistream")
    expect(ledger).to_be_visible()
    assert abs(width() - kept) < 2
    bar.dblclick()
    assert abs(width() - before) < 2


# ── find ──────────────────────────────────────────────────────────────────────────────────────────


def find(page: Page, text: str) -> Locator:
    """Type into the find bar; what it says of matches."""
    page.keyboard.press("/")
    field = page.get_by_role("textbox", name="Find in this turn")
    expect(field).to_be_focused()
    field.fill(text)
    return page.locator(".find-count")


def total(said: Locator) -> int:
    expect(said).to_have_text(re.compile(r"^\d+ rows match$"))
    return int(said.inner_text().split()[0])


def test_rows_are_found_by_words_types_parts_and_expressions(opened: Page) -> None:
    said = find(opened, "toolu_rain")
    number = total(said)
    expect(ledger_rows(opened)).to_have_count(number)  # only rows that match are shown
    assert 0 < number < sum(counts(opened))
    for row in ledger_rows(opened).all():
        expect(row).to_contain_text("toolu_rain")
    expect(opened.locator(".cell mark").first).to_have_text("toolu_rain")
    opened.get_by_role("button", name="Only matches").click()
    assert ledger_rows(opened).count() > number
    opened.get_by_role("button", name="Only matches").click()
    opened.get_by_role("button", name="End the search").click()
    expect(said).to_have_count(0)
    number = total(find(opened, "STATION"))
    opened.keyboard.press("Enter")
    expect(said).to_have_text(f"1 of {number}")
    expect(chosen(opened)).to_have_class(re.compile("hit"))
    marks = opened.locator(".details mark")
    for form in ("raw", "pretty"):
        opened.get_by_role("button", name=form, exact=True).click()
        expect(marks.first).to_have_text("station")
        expect(marks.first).to_be_in_viewport()
    find(opened, "STATION")
    opened.keyboard.press("Enter")
    expect(said).to_have_text(f"2 of {number}")
    opened.keyboard.press("Shift+Enter")
    opened.keyboard.press("Shift+Enter")
    expect(said).to_have_text(f"{number} of {number}")
    opened.get_by_role("button", name="Next match").click()
    expect(said).to_have_text(f"1 of {number}")
    opened.locator(".ledger").focus()
    opened.keyboard.press("f")
    expect(said).to_have_text(f"2 of {number}")
    opened.keyboard.press("j")  # steps stay among the matches
    expect(said).to_have_text(f"3 of {number}")
    expect(chosen(opened)).to_be_in_viewport()
    opened.get_by_role("button", name="End the search").click()
    expect(marks).to_have_count(0)
    opened.keyboard.press("End")
    total(find(opened, "two readings at once"))  # words that came in pieces
    opened.keyboard.press("Enter")
    expect(chosen(opened)).to_contain_text("two")
    opened.get_by_role("button", name="End the search").click()
    opened.get_by_role("combobox", name="Type of event").select_option("call-start")
    expect(said).to_have_text("3 rows match")
    expect(opened.locator(".cell.events .chip")).to_have_text(["call-start"] * 3)
    opened.get_by_role("combobox", name="Type of event").select_option("")
    opened.get_by_role("combobox", name="Part").select_option(label="rain_forecast")
    total(said)
    expect(opened.locator(".cell.events .part").first).to_be_visible()
    assert len(set(opened.locator(".cell.events .part").all_inner_texts())) == 1
    opened.get_by_role("combobox", name="Part").select_option("")
    opened.get_by_role("button", name="Regular expression").click()
    total(find(opened, r"toolu_(level|rain)\b"))
    assert {"toolu_level", "toolu_rain"} <= set(opened.locator(".cell mark").all_inner_texts())
    find(opened, "toolu_(")
    expect(said).to_have_text(re.compile("Invalid regular expression"))
    find(opened, "st[a-z]{4}n")
    total(said)
    opened.keyboard.press("Enter")
    expect(marks.first).to_have_text("station")
    find(opened, "TOOLU_L")
    expect(said).to_have_text(re.compile("row"))
    opened.get_by_role("button", name="Match case").click()
    expect(said).to_have_text("No matches")


def test_an_event_has_an_address_and_is_copied(opened: Page) -> None:
    expect(opened).to_have_title("anthropic/interleaved · Turn · penstock")
    opened.get_by_role("button", name="level", exact=True).click()
    expect(chosen(opened)).to_contain_text("toolu_level")
    first = place(opened)
    number = int(first.split()[1]) + 1
    expect(opened).to_have_url(re.compile(rf"[?&]at=event-{number}$"))
    # One number for an event: in the address, the details, the toolbar and the tab.
    expect(opened.locator(".details h3")).to_have_text(f"Event {number}")
    expect(opened.locator(".whereabouts")).to_contain_text(f"event {number}/")
    expect(opened).to_have_title(f"event {number} · anthropic/interleaved · Turn · penstock")
    opened.get_by_role("button", name="Copy link").click()
    expect(opened.locator(".details")).to_contain_text("Copied")
    assert clipboard(opened) == opened.url
    opened.get_by_role("button", name=re.compile(r"^Copy event \d+$")).click()
    assert '"type":"call-start"' in clipboard(opened)
    assert "toolu_level" in clipboard(opened)
    opened.get_by_role("button", name="rain_forecast", exact=True).click()
    second = place(opened)
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
    opened.evaluate("location.hash = '#/usage'")
    expect(opened).to_have_title("Usage · penstock")


def test_gaps_faults_lanes_of_one_kind_and_an_endless_expression(page: Page, stage: Inspected) -> None:
    open_turn(page, stage, "anthropic/waiting", "openai-chat")
    page.get_by_role("button", name=re.compile(r"a gap of \d\.\d+ s")).click()
    expect(chosen(page)).to_have_attribute("data-at", "frames 0")
    expect(chosen(page).locator(".gap")).to_have_text(re.compile(r"^after 1\.\d+ s$"))
    open_turn(page, stage, "anthropic/broken", "openai-chat")
    page.get_by_role("tab", name=re.compile("Notes")).click()
    expect(page.locator(".note.error")).to_contain_text("network")
    page.locator(".note.error").get_by_role("button", name="show").click()
    expect(chosen(page)).to_contain_text("fault")
    expect(chosen(page).locator(".sign.error")).to_be_visible()
    page.keyboard.press("g")
    page.keyboard.press("N")
    expect(chosen(page).locator(".sign")).to_be_visible()
    # By their number and how they begin; a call by its name.
    open_turn(page, stage, "anthropic/texts")
    parts = page.get_by_role("list", name="Parts").get_by_role("button")
    assert parts.all_inner_texts() == ["turn", "text 1 First I look", "bash", "text 2 Then I answer"]
    open_turn(page, stage, "anthropic/letters", "openai-chat")
    page.get_by_role("button", name="Regular expression").click()
    said = find(page, EVIL)
    # The page goes on meanwhile: it answers, and it draws.
    assert page.evaluate("new Promise((done) => requestAnimationFrame(() => done(2)))") == 2
    expect(said).to_have_text(re.compile("takes too long: it was stopped after 1 s"))
    find(page, "a{20,}!")  # the next one runs
    expect(said).to_have_text(re.compile("match"))


# ── turns that go on ──────────────────────────────────────────────────────────────────────────────


def test_a_live_turn_is_followed_and_played_again(page: Page, stage: Inspected) -> None:
    open_list(page, stage)
    thread = sending(stage, "anthropic/live-interleaved", "openai-chat")
    rows(page).filter(has_text="streaming").first.click()
    expect(page.locator(".turn-head")).to_contain_text("streaming")
    page.locator(".ledger .cell").first.wait_for()
    first = counts(page)[1]
    thread.join()
    expect(page.locator(".turn-head")).to_contain_text("calls")
    expect(event(page, "finish")).to_be_in_viewport()
    assert counts(page)[1] > first
    expect(page.locator(".turn-message")).to_contain_text("rain_forecast")
    page.keyboard.press("g")
    page.keyboard.press(" ")
    expect(page.get_by_role("button", name="Pause")).to_be_visible()
    frames = counts(page)[0]
    expect(page.locator(".whereabouts")).to_have_text(re.compile(r"frame (2[1-9]|[3-9]\d)/"))
    assert f"frame {frames}/" not in where(page), "a turn of seconds is not over at once"
    page.get_by_label("Speed").select_option("50")
    expect(page.get_by_role("button", name="Play")).to_be_visible()
    assert f"frame {frames}/{frames}" in where(page)


def test_a_turn_without_an_answer_shows_what_is_known_of_it(page: Page) -> None:
    with waiting(silent=True) as (gateway, gate), watching(gateway.url) as reader, leaving(page):
        asking = threading.Thread(target=ask, args=(gateway.url, "anthropic", "openai-chat/text"))
        asking.start()
        (row,) = reader.until(lambda: [row for row in reader.rows.values() if row["provider"]])
        page.goto(f"{gateway.url}/#/turn/{row['id']}")
        expect(page.get_by_role("region", name="One turn")).to_contain_text("no provider has answered yet")
        expect(page.get_by_role("listitem", name="Try 1").locator(".badge")).to_have_text("running")
        expect(page.get_by_role("tree")).to_contain_text("Read the gauge.")
        expect(page.locator(".about")).not_to_contain_text("status")
        gate.open.set()
        expect(page.locator(".turn-message")).to_contain_text("word39")
        expect(page.locator(".turn-said")).to_have_count(0)
        asking.join(20)
    assert not asking.is_alive()
    # A gateway that others can reach keeps turns while somebody watches only.
    public: dict[str, Any] = {"serve": {"pace": 0.0, "host": "0.0.0.0"}, "access": {"trusted_proxies": []}}  # noqa: S104
    with inspected(wired, **public) as alone, leaving(page):
        send(alone, "anthropic/interleaved")
        page.goto(f"{alone.url}/")
        rows(page).first.click()
        expect(page.locator(".bare-why")).to_contain_text("nobody watched")
        expect(page.locator(".about")).to_contain_text("claude-code")
        expect(page.locator(".bare-why")).to_contain_text("only its row in the journal")


# ── harm ──────────────────────────────────────────────────────────────────────────────────────────


def test_a_hostile_stream_runs_nothing_and_freezes_nothing(page: Page, stage: Inspected) -> None:
    page.on("dialog", lambda dialog: pytest.fail(f"a dialog: {dialog.message}"))
    open_turn(page, stage, "anthropic/hostile", "openai-chat")
    expect(page.locator(".ledger-title .count").first).to_have_text(re.compile(r"^10,\d{3}$"))  # in pages
    assert page.locator(".ledger").evaluate("one => one.scrollTop") == 0, "a turn that is over opens at its beginning"
    assert ledger_rows(page).count() < MOST_ROWS
    for _ in range(8):
        page.mouse.move(400, 600)
        page.mouse.wheel(0, 25_000)
        assert ledger_rows(page).count() < MOST_ROWS
    details, show = page.locator(".details"), page.get_by_role("button", name=re.compile("Show all of it"))
    _open_huge_text(page, ".cell")
    expect(details).to_contain_text("AAAA")
    assert len(details.inner_text()) < 100_000
    show.click()
    page.get_by_role("button", name="2.0 MB: show all").click()
    show.click()
    assert page.evaluate("document.querySelector('.details').textContent.length") > sample_streams.HUGE
    page.get_by_role("tab", name=re.compile("Notes")).click()
    page.keyboard.press("End")
    assert page.evaluate("window.ran") is None
    assert page.evaluate("[...document.querySelectorAll('script, iframe, object, embed')].length") == 1
    assert _unsafe(page) == []
    # The whole text of an output is not shown for another client.
    page.get_by_role("tab", name="Details").click()
    _open_huge_text(page, ".cell.outputs")
    show.click()
    expect(show).to_have_count(0)
    expect(details).to_contain_text("chat.completion.chunk")
    page.get_by_label("As a client of this protocol gets it").select_option("uistream")
    expect(details).to_contain_text("toolCallId")  # the output at that place
    expect(details).not_to_contain_text("chat.completion.chunk")


@pytest.mark.nightly
def test_a_turn_of_50_000_events_is_kept_whole_and_comes_in_pages(page: Page, stage: Inspected) -> None:
    open_turn(page, stage, "anthropic/fifty", "openai-chat")
    expect(page.locator(".ledger-title .count").first).to_have_text("50,005")
    expect(page.locator(".turn-progress")).to_have_count(0)
    page.keyboard.press("End")
    expect(page.locator(".cell.frames", has_text="message_stop")).to_be_visible()
    assert ledger_rows(page).count() < MOST_ROWS
    expect(page.locator(".turn-said")).to_have_count(0)


def _open_huge_text(page: Page, cell: str) -> None:
    """Looks for the text of 2 MB among the text events, and opens it."""
    huge = page.locator(cell).filter(has_text=re.compile("MB$"))
    page.keyboard.press("g")
    page.get_by_role("button", name="text", exact=True).click()
    for _ in range(12):
        if huge.count():
            break
        page.keyboard.press("PageDown")
    huge.first.click()


def _unsafe(page: Page) -> Any:
    """Links and attributes that a press would run."""
    return page.evaluate("""[...document.querySelectorAll("*")].flatMap((one) => [...one.attributes])
        .filter(({ name, value }) => name.startsWith("on") || /^\\s*(javascript|vbscript|data:text)/i.test(value))
        .map(({ name, value }) => name + "=" + value)""")
