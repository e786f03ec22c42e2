"""A dropped file: its protocol is guessed, every consumer's output is shown, and it exports as one HTML file."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from penstock.testing import wire
from tests.page.axe import serious
from tests.page.exported_page import exported_data
from tests.page.file_drop import drop, hold, let_go, paste
from tests.page.steps import drop_problems, leaving
from tests.support import sample_streams
from tests.support.inspector import inspected
from tests.support.inspector_bounds import bounds
from tests.support.page_gateway import serve_file
from tests.support.sample_turns import send, wired

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from playwright.sync_api import FilePayload, Page

    from tests.support.inspector import Inspected

STREAM = b"".join(sample_streams.interleaved())
LONG = 60_000  # milliseconds: two million letters on a machine that has much else to do
SECRET = "sk-proj-Zx81hQmT4vWcYbN2kR7dJ0fL"
KINDS = {
    "chat.sse": ("openai-chat", wire("tools", "openai-chat")),
    "responses.sse": ("responses", wire("tools", "responses")),
    "gemini.json": ("gemini", wire("tools", "gemini")),
    "ollama.ndjson": ("ollama", wire("tools", "ollama")),
    "bedrock.eventstream": ("bedrock", wire("tools", "bedrock")),
    "whole.json": ("openai-chat", wire("tools", "openai-chat", stream=False)),
}


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Inspected]:
    with inspected(wired, record={"path": str(tmp_path_factory.mktemp("tapes"))}) as running:
        yield running


@pytest.fixture
def opened(gateway: Inspected, page: Page) -> Page:
    page.goto(f"{gateway.url}/#/file")
    page.get_by_role("heading", name="See what a stream holds").wait_for()
    return page


def guessed(page: Page) -> str:
    return page.get_by_label("Read as").locator("option:checked").inner_text()


def test_files_of_every_kind_are_dropped_pasted_chosen_and_read_as_another(
    opened: Page, gateway: Inspected, shot: Callable[[Page, str], None]
) -> None:
    assert serious(opened) == []
    opened.get_by_role("button", name="Show an example").click()
    expect(opened.locator(".message .card")).to_have_count(2)
    opened.goto(f"{gateway.url}/#/usage")
    opened.get_by_role("heading", name="Usage").wait_for()
    hold(opened, "gates.sse", STREAM)  # anywhere
    expect(opened.get_by_text("Drop it to see what it holds")).to_be_visible()
    let_go(opened)
    expect(opened.locator(".turn-head h1")).to_have_text("gates.sse")
    expect(opened.get_by_text("Drop it to see what it holds")).to_be_hidden()
    assert "#/file" in opened.url
    assert guessed(opened) == "anthropic (guessed)"
    expect(opened.locator(".message .card")).to_have_count(3)
    shot(opened, "inspector-file")
    before = opened.locator(".whereabouts").inner_text()
    opened.locator(".consumers select").select_option("responses")
    expect(opened.locator(".consumers select")).to_have_value("responses")
    expect(opened.locator(".ledger")).to_contain_text("response.created")
    assert opened.locator(".whereabouts").inner_text() == before
    opened.get_by_label("Read as").select_option("openai-chat")
    expect(opened.locator(".turn-way .protocol").first).to_have_text("openai-chat")
    opened.get_by_label("Read as").select_option("")
    expect(opened.locator(".message .card")).to_have_count(3)
    opened.get_by_role("tab", name="Notes").click()  # a file has no request
    notes = opened.get_by_role("tabpanel")
    expect(notes).to_contain_text("Whether the request lost something is not known")
    expect(notes).not_to_contain_text("Nothing of the request was lost")
    opened.get_by_role("button", name="Close").click()
    for name, (protocol, data) in KINDS.items():
        file: FilePayload = {"name": name, "mimeType": "application/octet-stream", "buffer": data}
        opened.get_by_label("A recorded stream").set_input_files([file])
        expect(opened.locator(".turn-head h1")).to_have_text(name)
        expect(opened.get_by_label("Read as").locator("option:checked")).to_have_text(f"{protocol} (guessed)")
        expect(opened.locator(".message .card")).to_have_count(1)
        opened.get_by_role("button", name="Close").click()
    paste(opened, STREAM.decode())
    expect(opened.locator(".turn-head h1")).to_have_text("Pasted text")
    opened.get_by_role("button", name="Close").click()
    opened.get_by_label("Or paste it").fill(wire("text", "openai-chat").decode())
    opened.get_by_role("button", name="Show it").click()
    opened.locator(".turn").wait_for()
    assert guessed(opened) == "openai-chat (guessed)"


def test_what_cannot_be_shown_says_why_and_offers_a_way_on(opened: Page, problems: list[str]) -> None:
    alert = opened.get_by_role("alert")
    with bounds(steps=1000):
        drop(opened, "tiny.sse", b"data: {}\n\n" * 2000)
        opened.get_by_label("Read as").select_option("openai-chat")
        expect(alert).to_contain_text("tiny.sse cannot be shown.")
        expect(alert).to_contain_text("more than 1,000 frames, events and outputs in all")
        expect(alert).to_contain_text("penstock inspect FILE in a terminal takes any size")
    drop(opened, "picture.png", b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 4)
    expect(alert).to_contain_text("picture.png cannot be shown.")
    drop(opened, "nothing.sse", b"")
    expect(alert).to_contain_text("There is nothing in it.")
    opened.evaluate(
        """() => {
            const held = new DataTransfer();
            held.items.add(new File([new Uint8Array(33 * 1024 * 1024)], "large.sse"));
            document.body.dispatchEvent(new DragEvent("drop", { dataTransfer: held, bubbles: true, cancelable: true }));
        }"""
    )  # it is not even sent
    expect(alert).to_contain_text("penstock inspect FILE in a terminal takes any size")
    drop(opened, "gates.sse", STREAM)
    opened.locator(".turn").wait_for()
    drop_problems(problems, "400", "413")


def test_recordings_open_and_one_file_needs_no_gateway(
    page: Page, gateway: Inspected, tmp_path: Path, problems: list[str]
) -> None:
    send(gateway, "anthropic/interleaved")
    page.goto(f"{gateway.url}/#/file")
    page.locator(".recordings tbody tr").first.get_by_role("link").click()
    page.locator(".turn").wait_for()
    expect(page.locator(".message .card")).to_have_count(3)
    page.get_by_role("button", name="Close").click()
    page.get_by_role("heading", name="See what a stream holds").wait_for()
    with serve_file(STREAM, "gates.sse") as url, leaving(page):
        page.goto(url)
        expect(page.locator(".turn-head h1")).to_have_text("gates.sse")
        page.locator(".consumers select").select_option("openai-chat")
        expect(page.locator(".ledger")).to_contain_text("chat.completion.chunk")
        assert downloaded(page, tmp_path).name == "gates.html"
        drop(page, "other.sse", wire("text", "openai-chat"))
        expect(page.locator(".turn-head h1")).to_have_text("other.sse")
        page.get_by_role("button", name="Close").click()
        page.get_by_role("heading", name="See what a stream holds").wait_for()
        assert problems == []


# ── download ──────────────────────────────────────────────────────────────────────────────────────


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


def test_a_downloaded_file_works_anywhere_holds_no_secret_and_runs_nothing(
    opened: Page, gateway: Inspected, tmp_path: Path, problems: list[str]
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
    cards = opened.locator(".message .card")
    expect(cards).to_have_count(3)
    opened.locator(".consumers select").select_option("responses")
    expect(opened.locator(".ledger")).to_contain_text("response.created")
    opened.get_by_role("button", name="To the start").click()
    for _ in range(3):
        opened.get_by_role("button", name="One step on").click()
    expect(opened.locator(".whereabouts")).to_have_text(re.compile(r"event [1-9]/"))
    expect(cards).to_have_count(0)
    opened.get_by_role("button", name="To the end").click()
    expect(cards).to_have_count(3)
    assert serious(opened) == []
    opened.get_by_role("button", name="Regular expression").click()  # the worker is in the file
    opened.get_by_role("textbox", name="Find in this turn").fill("rain_f.*t")
    expect(opened.locator(".find-count")).to_have_text(re.compile("rows? match"))
    assert problems == []
    opened.goto(f"{gateway.url}/#/file")
    opened.get_by_role("heading", name="See what a stream holds").wait_for()
    drop(opened, "<script>ran=20<!--.sse", b"".join(sample_streams.hostile(50)))
    text = opened.locator(".message .md").first
    expect(text).to_contain_text("<script>window.ran = 1</script>", timeout=LONG)
    place = downloaded(opened, tmp_path)
    assert opened.evaluate("window.ran") is None
    opened.goto(place.as_uri())
    expect(text).to_contain_text("<script>window.ran = 1</script>", timeout=LONG)
    assert opened.evaluate("window.ran") is None
    assert opened.locator("iframe, object, embed, svg [onload], img[onerror]").count() == 0
    assert exported_data(place.read_bytes()).count(b"window.ran=11") > 0
