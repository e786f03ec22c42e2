"""A dropped file: its protocol is guessed, every consumer's output is shown, and it exports as one HTML file."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
from playwright.sync_api import expect

from penstock._inspector.file_inspector import SingleFileApp
from penstock._inspector.stream_traces import source_from_file
from penstock.testing import wire
from tests.gateway.inspector import sample_streams
from tests.page.axe import serious
from tests.page.exported_page import exported_data
from tests.page.file_drop import drop, hold, let_go, paste
from tests.support.gateway import Running
from tests.support.inspector import inspected
from tests.support.sample_turns import send, wired

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from playwright.sync_api import FilePayload, Page

    from tests.support.inspector import Inspected

STREAM = b"".join(sample_streams.interleaved())
LONG = 60_000  # milliseconds: two million letters on a machine that has much else to do
SECRET = "sk-proj-Zx81hQmT4vWcYbN2kR7dJ0fL"


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Inspected]:
    record = {"path": str(tmp_path_factory.mktemp("tapes"))}
    with inspected(wired, record=record, serve={"pace": 0.0}) as running:
        yield running


@pytest.fixture
def opened(gateway: Inspected, page: Page) -> Page:
    page.goto(f"{gateway.url}/#/file")
    page.get_by_role("heading", name="See what a stream holds").wait_for()
    return page


def events(page: Page) -> str:
    """Which events there are, as the page counts them."""
    return page.locator(".whereabouts").inner_text()


def test_a_file_dropped_anywhere_is_shown(page: Page, gateway: Inspected, shot: Callable[[Page, str], None]) -> None:
    page.goto(f"{gateway.url}/#/usage")
    page.get_by_role("heading", name="Usage").wait_for()
    hold(page, "gates.sse", STREAM)
    expect(page.get_by_text("Drop it to see what it holds")).to_be_visible()
    let_go(page)
    page.locator(".turn").wait_for()
    expect(page.get_by_text("Drop it to see what it holds")).to_be_hidden()
    assert "#/file" in page.url
    assert page.locator(".turn-head h1").inner_text() == "gates.sse"
    assert page.get_by_label("Read as").locator("option:checked").inner_text() == "anthropic (guessed)"
    expect(page.locator(".message .card")).to_have_count(3)
    assert serious(page) == []
    shot(page, "inspector-file")


def test_a_file_with_too_many_frames_is_refused_and_the_page_says_what_to_do(
    opened: Page, problems: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock._inspector.file_inspector.MAX_UPLOAD_STEPS", 1000)
    drop(opened, "tiny.sse", b"data: {}\n\n" * 2000)
    opened.get_by_label("Read as").select_option("openai-chat")
    alert = opened.get_by_role("alert")
    expect(alert).to_contain_text("tiny.sse cannot be shown.")
    expect(alert).to_contain_text("more than 1,000 frames, events and outputs in all")
    expect(alert).to_contain_text("penstock inspect FILE in a terminal takes any size")
    problems[:] = [problem for problem in problems if "400" not in problem and "413" not in problem]


KINDS = {
    "chat.sse": ("openai-chat", wire("tools", "openai-chat")),
    "responses.sse": ("responses", wire("tools", "responses")),
    "gemini.json": ("gemini", wire("tools", "gemini")),
    "ollama.ndjson": ("ollama", wire("tools", "ollama")),
    "bedrock.eventstream": ("bedrock", wire("tools", "bedrock")),
    "whole.json": ("openai-chat", wire("tools", "openai-chat", stream=False)),
}


def test_every_kind_of_file_is_known_by_itself(opened: Page) -> None:
    for name, (protocol, data) in KINDS.items():
        file: FilePayload = {"name": name, "mimeType": "application/octet-stream", "buffer": data}
        opened.get_by_label("A recorded stream").set_input_files([file])
        expect(opened.locator(".turn-head h1")).to_have_text(name)
        expect(opened.get_by_label("Read as").locator("option:checked")).to_have_text(f"{protocol} (guessed)")
        expect(opened.locator(".message .card")).to_have_count(1)
        opened.get_by_role("button", name="Close").click()


def test_pasted_text_is_shown_by_a_key_and_by_the_box(opened: Page) -> None:
    paste(opened, STREAM.decode())
    opened.locator(".turn").wait_for()
    assert opened.locator(".turn-head h1").inner_text() == "Pasted text"
    opened.get_by_role("button", name="Close").click()
    opened.get_by_label("Or paste it").fill(wire("text", "openai-chat").decode())
    opened.get_by_role("button", name="Show it").click()
    opened.locator(".turn").wait_for()
    assert opened.get_by_label("Read as").locator("option:checked").inner_text() == "openai-chat (guessed)"


def test_an_example_is_at_hand(opened: Page) -> None:
    assert serious(opened) == []
    opened.get_by_role("button", name="Show an example").click()
    opened.locator(".turn").wait_for()
    expect(opened.locator(".message .card")).to_have_count(2)


def test_another_protocol_and_another_consumer_can_be_chosen(opened: Page) -> None:
    drop(opened, "gates.sse", STREAM)
    opened.locator(".turn").wait_for()
    before = events(opened)
    opened.locator(".consumers select").select_option("responses")
    expect(opened.locator(".consumers select")).to_have_value("responses")
    expect(opened.locator(".ledger")).to_contain_text("response.created")
    assert events(opened) == before
    opened.get_by_label("Read as").select_option("openai-chat")
    expect(opened.locator(".turn-way .protocol").first).to_have_text("openai-chat")
    opened.get_by_label("Read as").select_option("")
    expect(opened.locator(".message .card")).to_have_count(3)


def test_what_cannot_be_read_says_so_and_offers_a_way_on(opened: Page, problems: list[str]) -> None:
    drop(opened, "picture.png", b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 4)
    alert = opened.get_by_role("alert")
    expect(alert).to_contain_text("picture.png cannot be shown.")
    problems[:] = [problem for problem in problems if "400" not in problem]
    drop(opened, "nothing.sse", b"")
    expect(alert).to_contain_text("There is nothing in it.")
    drop(opened, "gates.sse", STREAM)
    opened.locator(".turn").wait_for()


def test_more_than_the_page_takes_is_not_even_sent(opened: Page) -> None:
    opened.evaluate(
        """() => {
            const held = new DataTransfer();
            held.items.add(new File([new Uint8Array(33 * 1024 * 1024)], "large.sse"));
            document.body.dispatchEvent(new DragEvent("drop", { dataTransfer: held, bubbles: true, cancelable: true }));
        }"""
    )
    expect(opened.get_by_role("alert")).to_contain_text("penstock inspect FILE in a terminal takes any size")


def test_recordings_of_the_gateway_are_listed_and_open(page: Page, gateway: Inspected) -> None:
    send(gateway, "anthropic/interleaved")
    page.goto(f"{gateway.url}/#/file")
    row = page.locator(".recordings tbody tr").first
    row.get_by_role("link").click()
    page.locator(".turn").wait_for()
    expect(page.locator(".message .card")).to_have_count(3)
    page.get_by_role("button", name="Close").click()
    page.get_by_role("heading", name="See what a stream holds").wait_for()


def test_one_file_without_a_gateway(page: Page, tmp_path: Path, problems: list[str]) -> None:
    """What `penstock inspect --web` serves."""
    app: Any = SingleFileApp(source_from_file(STREAM, "gates.sse"))
    with Running(app, plain=True) as running:
        page.goto(running.url)
        page.locator(".turn").wait_for()
        assert page.locator(".turn-head h1").inner_text() == "gates.sse"
        page.locator(".consumers select").select_option("openai-chat")
        expect(page.locator(".ledger")).to_contain_text("chat.completion.chunk")
        assert downloaded(page, tmp_path).name == "gates.html"
        drop(page, "other.sse", wire("text", "openai-chat"))
        expect(page.locator(".turn-head h1")).to_have_text("other.sse")
        page.get_by_role("button", name="Close").click()
        page.get_by_role("heading", name="See what a stream holds").wait_for()
        assert problems == []


# ── download ─────────────────────────────────────────────────────────────────────────────────────────


def downloaded(page: Page, folder: Path, *others: str) -> Path:
    """The file that the button saves, with the views of these clients, too."""
    page.get_by_role("button", name="Download").click()
    dialog = page.get_by_role("dialog", name="Download")
    for consumer in others:
        dialog.get_by_role("checkbox", name=consumer, exact=True).check()
    with page.expect_download(timeout=LONG) as download:
        dialog.get_by_role("button", name="Download").click()
    place = folder / download.value.suggested_filename
    download.value.save_as(place)
    return place


def test_a_downloaded_file_works_anywhere_and_holds_no_secret(
    opened: Page, tmp_path: Path, problems: list[str]
) -> None:
    drop(opened, "the gates.sse", STREAM.replace(b"Rules of the gates", SECRET.encode()))
    opened.locator(".turn").wait_for()
    place = downloaded(opened, tmp_path, "responses")
    expect(opened.get_by_text("Downloaded, secrets removed")).to_be_visible()
    assert place.name == "the-gates.html"
    assert SECRET not in place.read_text()
    assert SECRET.encode() not in exported_data(place.read_bytes())
    assert b"[secret]" in exported_data(place.read_bytes())
    assert not re.search(r'(?:src|href)="(?!data:|#)', place.read_text().partition('id="penstock-trace"')[0])
    opened.goto(place.as_uri())
    opened.locator(".turn").wait_for()
    expect(opened.locator(".message .card")).to_have_count(3)
    opened.locator(".consumers select").select_option("responses")
    expect(opened.locator(".ledger")).to_contain_text("response.created")
    opened.get_by_role("button", name="To the start").click()
    for _ in range(3):
        opened.get_by_role("button", name="One step on").click()
    assert re.search(r"event [1-9]/", events(opened))
    expect(opened.locator(".message .card")).to_have_count(0)
    opened.get_by_role("button", name="To the end").click()
    expect(opened.locator(".message .card")).to_have_count(3)
    assert serious(opened) == []
    opened.get_by_role("button", name="Regular expression").click()  # the worker is in the file
    opened.get_by_role("textbox", name="Find in this turn").fill("rain_f.*t")
    expect(opened.locator(".find-count")).to_have_text(re.compile("rows? match"))
    assert problems == []


def test_a_hostile_file_runs_nothing_here_nor_when_it_is_downloaded(opened: Page, tmp_path: Path) -> None:
    drop(opened, "<script>ran=20<!--.sse", b"".join(sample_streams.hostile(50)))
    opened.locator(".turn").wait_for(timeout=LONG)
    text = opened.locator(".message .md").first
    expect(text).to_contain_text("<script>window.ran = 1</script>")
    place = downloaded(opened, tmp_path)
    assert opened.evaluate("window.ran") is None
    opened.goto(place.as_uri())
    opened.locator(".turn").wait_for(timeout=LONG)
    expect(opened.locator(".message .md").first).to_contain_text("<script>window.ran = 1</script>")
    assert opened.evaluate("window.ran") is None
    assert opened.locator("iframe, object, embed, svg [onload], img[onerror]").count() == 0
    assert exported_data(place.read_bytes()).count(b"window.ran=11") > 0
