"""The File view with a browser's HAR file: each answer is a file with its request, which shows no secret."""

from __future__ import annotations

import json
from base64 import b64encode
from typing import TYPE_CHECKING, Any

from playwright.sync_api import expect

from penstock.testing import wire
from tests.page.axe import serious
from tests.page.exported_page import exported_traces
from tests.page.tab_store import wait_until_stored
from tests.support import sample_streams
from tests.support.inspector import inspected

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import FilePayload, Page

STREAM = b"".join(sample_streams.interleaved())
SECRET = "sk-proj-Zx81hQmT4vWcYbN2kR7dJ0fL"
ASKED = json.dumps(
    {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": f"My key is {SECRET} — why?"}]}
)


def _entry(url: str, asked: str, **content: str) -> dict[str, Any]:
    request = {"method": "POST", "url": url, "postData": {"text": asked}}
    return {"request": request, "response": {"content": {"mimeType": "text/event-stream", **content}}}


def test_a_har_file_is_several_files_that_stay_over_a_reload(page: Page, tmp_path: Path) -> None:
    chat = b64encode(wire("text", "openai-chat")).decode()
    entries = [
        _entry("https://api.test/v1/messages?key=x", ASKED, text=STREAM.decode()),
        _entry("https://chat.test/v1/chat/completions", "{}", text=chat, encoding="base64"),
    ]
    har = json.dumps({"log": {"entries": entries}}).encode()
    files: list[FilePayload] = [
        {"name": "session.har", "mimeType": "application/json", "buffer": har},
        {"name": "gates.sse", "mimeType": "text/event-stream", "buffer": STREAM},
    ]
    with inspected() as gateway:
        page.goto(f"{gateway.url}/#/file")
        page.get_by_label("A recorded stream").set_input_files(files)
        choice, consumer = page.get_by_label("File, of 3"), page.locator(".consumers select")
        names = ["api.test/v1/messages", "chat.test/v1/chat/completions", "gates.sse"]
        expect(choice.locator("option")).to_have_text(names)
        expect(page.locator(".turn-way")).to_contain_text("anthropic")
        expect(consumer).to_have_value("anthropic")
        _expect_request(page)
        assert serious(page) == []
        page.get_by_role("button", name="Download").click()
        with page.expect_download() as started:
            page.get_by_role("dialog", name="Download").get_by_role("button", name="Download").click()
        started.value.save_as(tmp_path / "saved.html")
        choice.select_option("1")
        expect(consumer).to_have_value("openai-chat")
        wait_until_stored(page, "value.chosen === 1")
        page.reload()
        expect(choice).to_have_value("1")
        expect(consumer).to_have_value("openai-chat")
        page.get_by_role("button", name="Close").click()
        page.get_by_role("heading", name="See what a stream holds").wait_for()
        page.reload()
        page.get_by_role("heading", name="See what a stream holds").wait_for()
        assert SECRET not in json.dumps(exported_traces((tmp_path / "saved.html").read_bytes()))
        page.goto((tmp_path / "saved.html").as_uri())
        _expect_request(page)


def _expect_request(page: Page) -> None:
    page.get_by_role("tab", name="Request").click()
    expect(page.get_by_role("tabpanel")).to_contain_text("My key is [secret] — why?")
    assert SECRET not in page.content()
    page.get_by_role("tab", name="Tokens").click()
    expect(page.get_by_role("tabpanel")).to_contain_text("input tokens")
