"""The view of one turn in a real browser: steps, links, lanes, other consumers, live updates, a hostile stream."""

from __future__ import annotations

import re
import threading
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
from playwright.sync_api import expect

from penstock import events as ev
from penstock.testing import Reply
from tests.gateway.inspector import sample_streams
from tests.support.client_requests import ask
from tests.support.event_feed import watching
from tests.support.inspector import inspected
from tests.support.paused_upstream import waiting
from tests.support.sample_turns import send, send_named, sending, wired

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Locator, Page

    from tests.support.inspector import Inspected

MOST_ROWS = 70  # in a window of 800 pixels, with those beyond its edges


@pytest.fixture(scope="module")
def stage() -> Iterator[Inspected]:
    with inspected(wired) as running:
        yield running


@pytest.fixture
def opened(page: Page, stage: Inspected) -> Page:
    """The interleaved stream, asked for by a Chat client, at its end."""
    return open_turn(page, stage, "anthropic/interleaved", "openai-chat")


def open_turn(page: Page, stage: Inspected, model: str, client: str = "anthropic") -> Page:
    """Watch, let a client ask, and open the turn that comes of it."""
    page.goto(f"{stage.url}/")
    expect(page.get_by_role("status")).to_have_text("live")
    turn_id, _ = send_named(stage, model, client)
    row = page.locator(f".list-rows [role=row][data-id='{turn_id}']")
    row.locator(".state:not(.run, .wait)").wait_for()
    row.click()
    page.get_by_role("region", name="One turn").wait_for()
    return page


def where(page: Page) -> str:
    return page.locator(".whereabouts").inner_text()


def counts(page: Page) -> tuple[int, ...]:
    """How many frames, events and outputs there are."""
    found = page.locator(".ledger-title .count").all_inner_texts()
    return tuple(int(text.replace(",", "")) for text in found)


def chosen(page: Page) -> Locator:
    return page.locator(".cell.chosen")


def event(page: Page, kind: str, text: str = "") -> Locator:
    return page.locator(".cell.events").filter(has=page.locator(f".chip:text-is('{kind}')"), has_text=text).first


# ── stepping ──────────────────────────────────────────────────────────────────────────────────────


def test_steps_on_and_back_and_the_message_follows(opened: Page) -> None:
    message = opened.locator(".turn-message")
    expect(message).to_contain_text("By the rule the gate opens")
    opened.keyboard.press("g")
    expect(chosen(opened)).to_have_text(re.compile("start"))
    expect(message).not_to_contain_text("Before I decide")
    for _ in range(3):
        opened.keyboard.press("j")
    assert chosen(opened).get_attribute("data-at") == "events 3"
    expect(opened.get_by_role("slider")).to_have_attribute("aria-valuetext", re.compile("frame 3 of 1"))
    opened.keyboard.press("k")
    assert chosen(opened).get_attribute("data-at") == "events 2"
    later = opened.locator(".cell.events.later").first
    assert later.get_attribute("data-at") == "events 3"
    opened.keyboard.press("End")
    expect(chosen(opened)).to_have_count(0)
    expect(message).to_contain_text("By the rule the gate opens")


def test_steps_by_frame_event_or_output(opened: Page) -> None:
    for unit, column in (("frame", "frames"), ("event", "events"), ("client", "outputs")):
        opened.get_by_role("button", name=unit, exact=True).click()
        opened.get_by_role("button", name="To the start").click()
        assert chosen(opened).get_attribute("data-at") == f"{column} 0"
        opened.get_by_role("button", name="One step on").click()
        assert chosen(opened).get_attribute("data-at") == f"{column} 1"


def test_plays_at_the_recorded_speed_and_faster(page: Page, stage: Inspected) -> None:
    open_turn(page, stage, "anthropic/slow-interleaved", "openai-chat")
    page.keyboard.press("g")
    page.keyboard.press(" ")
    expect(page.get_by_role("button", name="Pause")).to_be_visible()
    frames = counts(page)[0]
    expect(page.locator(".whereabouts")).to_have_text(re.compile(r"frame (2[1-9]|[3-9]\d)/"))
    assert f"frame {frames}/" not in where(page), "a turn of seconds is not over at once"
    page.get_by_label("Speed").select_option("50")
    expect(page.get_by_role("button", name="Play")).to_be_visible()
    assert f"frame {frames}/{frames}" in where(page)


def test_the_axis_moves_through_the_turn(opened: Page) -> None:
    axis = opened.get_by_role("slider", name="Place in the turn")
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


# ── linking ───────────────────────────────────────────────────────────────────────────────────────


def test_a_click_lights_causes_and_effects(opened: Page) -> None:
    opened.keyboard.press("g")
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
        assert (chosen(opened).get_attribute("data-at") or "").startswith("outputs")


def test_what_is_far_off_is_scrolled_into_view(opened: Page) -> None:
    opened.keyboard.press("g")
    opened.get_by_role("button", name="rain_forecast").click()
    expect(chosen(opened)).to_be_in_viewport()
    expect(chosen(opened)).to_contain_text("call-start")
    expect(opened.locator(".cell.frames.lit")).to_be_in_viewport()


# ── lanes ─────────────────────────────────────────────────────────────────────────────────────────

BAR = """([row, share]) => {
    const canvas = document.querySelector(".lane-canvas");
    const ratio = canvas.width / canvas.clientWidth;
    const x = Math.round((7 + share * (canvas.clientWidth - 14)) * ratio);
    return canvas.getContext("2d").getImageData(x, Math.round((row * 18 + 9) * ratio), 1, 1).data[3] > 0;
}"""


def test_interleaved_calls_are_lanes_side_by_side(opened: Page) -> None:
    names = opened.get_by_role("list", name="Parts").get_by_role("button").all_inner_texts()
    assert names == ["turn", "reasoning", "web_search", "text", "sources", "level", "rain_forecast"]
    opened.get_by_role("button", name="order", exact=True).click()
    shares: dict[str, float] = {}
    for name in ("level", "rain_forecast"):
        opened.get_by_role("button", name=name, exact=True).click()
        shares[name] = float(opened.locator(".playhead").first.evaluate("one => parseFloat(one.style.left)")) / 100
    middle = (shares["rain_forecast"] + 1) / 2
    for row in (5, 6):
        assert opened.evaluate(BAR, [row, middle - 0.01]), "both calls are growing"
        assert not opened.evaluate(BAR, [row, shares["level"] - 0.03]), "and neither had begun"
    parts = opened.locator(".cell.events .part").all_inner_texts()
    assert "5 6 5 6 5 6" in " ".join(parts)


@pytest.mark.parametrize("axis", ["time", "order"])
@pytest.mark.parametrize("width", [1280, 700, 390])
def test_the_ticks_of_the_axis_have_different_labels_side_by_side(opened: Page, axis: str, width: int) -> None:
    """The turn took some milliseconds, and its first frames are close together."""
    opened.set_viewport_size({"width": width, "height": 800})
    opened.get_by_role("button", name=axis, exact=True).click()
    expect(opened.locator(".axis-unit")).to_have_text("seconds" if axis == "time" else "frames")
    ticks = opened.locator(".axis-strip .tick")
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


def test_lanes_of_the_same_kind_have_different_names(page: Page) -> None:
    """By their number and how they begin; a call by its name, and its arguments are in the title."""
    texts: list[Any] = [
        one
        for index, text in ((0, "First I look"), (2, "Then I answer"))
        for one in (ev.TextStart(index), ev.TextDelta(index, text), ev.TextEnd(index))
    ]
    call: list[Any] = [
        ev.CallStart(1, id="a", name="bash"),
        ev.CallDelta(1, '{"command": "ls"}'),
        ev.CallEnd(1, "a", "bash", '{"command": "ls"}'),
    ]
    events = [ev.Start(id="1", model="m"), *texts[:3], *call, *texts[3:], ev.Finish("calls")]
    with inspected(Reply.of("anthropic", events)) as stage:
        open_turn(page, stage, "anthropic/text")
        parts = page.get_by_role("list", name="Parts").get_by_role("button")
        assert parts.all_inner_texts() == ["turn", "text 1 First I look", "bash", "text 2 Then I answer"]


# ── consumers ─────────────────────────────────────────────────────────────────────────────────────


def test_another_consumers_view_by_one_switch(opened: Page) -> None:
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
    opened.reload()
    expect(switch).to_have_value("uistream")


def test_the_whole_text_of_an_output_is_not_shown_for_another_client(page: Page, stage: Inspected) -> None:
    open_turn(page, stage, "anthropic/hostile", "openai-chat")
    open_huge_text(page, ".cell.outputs")
    details = page.locator(".details")
    page.get_by_role("button", name=re.compile("Show all of it")).click()
    expect(page.get_by_role("button", name=re.compile("Show all of it"))).to_have_count(0)
    expect(details).to_contain_text("chat.completion.chunk")
    page.get_by_label("As a client of this protocol gets it").select_option("uistream")
    expect(details).to_contain_text("toolCallId")  # the output at that place
    expect(details).not_to_contain_text("chat.completion.chunk")


# ── what is shown ─────────────────────────────────────────────────────────────────────────────────


def test_json_is_pretty_or_as_it_came(opened: Page) -> None:
    opened.keyboard.press("g")
    opened.keyboard.press("h")
    details = opened.locator(".details")
    expect(details.locator(".pretty-key").first).to_have_text('"type"')
    opened.keyboard.press("r")
    expect(details.locator(".long-text")).to_have_text(re.compile(r'^\{"type": "message_start", "message"'))
    details.get_by_role("button", name="pretty").click()
    expect(details.locator(".pretty-line").first).to_be_visible()


def test_faults_and_losses_are_marked(page: Page, stage: Inspected) -> None:
    open_turn(page, stage, "anthropic/broken", "openai-chat")
    page.get_by_role("tab", name=re.compile("Notes")).click()
    expect(page.locator(".note.error")).to_contain_text("network")
    page.locator(".note.error").get_by_role("button", name="show").click()
    expect(chosen(page)).to_contain_text("fault")
    expect(chosen(page).locator(".sign.error")).to_be_visible()
    page.keyboard.press("g")
    page.keyboard.press("N")
    expect(chosen(page).locator(".sign")).to_be_visible()


def test_a_live_turn_is_followed(page: Page, stage: Inspected) -> None:
    page.goto(f"{stage.url}/")
    expect(page.get_by_role("status")).to_have_text("live")
    thread = sending(stage, "anthropic/live-interleaved", "openai-chat")
    running = page.locator(".list-rows [role=row]").filter(has_text="streaming").first
    running.click()
    expect(page.locator(".turn-head")).to_contain_text("streaming")
    page.locator(".ledger .cell").first.wait_for()
    first = counts(page)[1]
    thread.join()
    expect(page.locator(".turn-head")).to_contain_text("calls")
    expect(event(page, "finish")).to_be_in_viewport()
    assert counts(page)[1] > first
    expect(page.locator(".turn-message")).to_contain_text("rain_forecast")


def test_a_turn_that_waits_for_its_provider_shows_what_is_known_of_it(page: Page) -> None:
    with waiting(silent=True) as (gateway, gate), watching(gateway.url) as reader:
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


@pytest.mark.usefixtures("keeps_nothing")
def test_a_turn_that_nobody_watched_says_so(page: Page) -> None:
    with inspected(wired) as alone:
        send(alone, "anthropic/interleaved")
        page.goto(f"{alone.url}/")
        page.locator(".list-rows [role=row]").first.click()
        expect(page.locator(".bare-why")).to_contain_text("nobody watched")
        expect(page.locator(".about")).to_contain_text("claude-code")


# ── harm ──────────────────────────────────────────────────────────────────────────────────────────


def test_a_hostile_stream_runs_nothing_and_freezes_nothing(page: Page, stage: Inspected) -> None:
    page.on("dialog", lambda dialog: pytest.fail(f"a dialog: {dialog.message}"))
    open_turn(page, stage, "anthropic/hostile", "openai-chat")
    expect(page.locator(".ledger-title .count").first).to_have_text(re.compile(r"^10,\d{3}$"))  # in pages
    assert page.locator(".ledger").evaluate("one => one.scrollTop") == 0, "a turn that is over opens at its beginning"
    assert _rows(page) < MOST_ROWS
    for _ in range(8):
        page.mouse.move(400, 600)
        page.mouse.wheel(0, 25_000)
        assert _rows(page) < MOST_ROWS
    open_huge_text(page, ".cell")
    expect(page.locator(".details")).to_contain_text("AAAA")
    assert len(page.locator(".details").inner_text()) < 100_000
    page.get_by_role("button", name=re.compile("Show all of it")).click()
    page.get_by_role("button", name="2.0 MB: show all").click()
    page.get_by_role("button", name=re.compile("Show all of it")).click()
    assert page.evaluate("document.querySelector('.details').textContent.length") > sample_streams.HUGE
    page.get_by_role("tab", name=re.compile("Notes")).click()
    page.keyboard.press("End")
    assert page.evaluate("window.ran") is None
    assert page.evaluate("[...document.querySelectorAll('script, iframe, object, embed')].length") == 1
    assert _unsafe(page) == []


def test_a_turn_of_50_000_events_is_kept_whole_and_comes_in_pages(page: Page, stage: Inspected) -> None:
    open_turn(page, stage, "anthropic/fifty", "openai-chat")
    expect(page.locator(".ledger-title .count").first).to_have_text("50,005")
    expect(page.locator(".turn-progress")).to_have_count(0)
    page.keyboard.press("End")
    expect(page.locator(".cell.frames", has_text="message_stop")).to_be_visible()
    assert _rows(page) < MOST_ROWS
    expect(page.locator(".turn-said")).to_have_count(0)


def open_huge_text(page: Page, cell: str) -> None:
    """Looks for the text of 2 MB among the text events, and opens it."""
    huge = page.locator(cell).filter(has_text=re.compile("MB$"))
    page.keyboard.press("g")
    page.get_by_role("button", name="text", exact=True).click()
    for _ in range(12):
        if huge.count():
            break
        page.keyboard.press("PageDown")
    huge.first.click()


def _rows(page: Page) -> int:
    return page.locator(".ledger-rows > [role=row]").count()


def _unsafe(page: Page) -> Any:
    """Links and attributes that a press would run."""
    return page.evaluate("""[...document.querySelectorAll("*")].flatMap((one) => [...one.attributes])
        .filter(({ name, value }) => name.startsWith("on") || /^\\s*(javascript|vbscript|data:text)/i.test(value))
        .map(({ name, value }) => name + "=" + value)""")
