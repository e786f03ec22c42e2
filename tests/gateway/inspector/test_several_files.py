"""The File view: several files, HAR files, the stream's own protocol as its client, and reloads."""

from __future__ import annotations

import json
from base64 import b64encode
from typing import TYPE_CHECKING, Any

import pytest
from playwright.sync_api import expect

from penstock._inspector.stream_traces import source_from_file
from penstock.testing import wire
from tests.gateway.inspector import sample_streams
from tests.page.axe import serious
from tests.page.exported_page import exported_traces
from tests.page.tab_store import wait_until_stored
from tests.support.client_requests import post
from tests.support.inspector import inspected

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from playwright.sync_api import FilePayload, Page

    from tests.support.inspector import Inspected

STREAM = b"".join(sample_streams.interleaved())
SECRET = "sk-proj-Zx81hQmT4vWcYbN2kR7dJ0fL"
ASKED: dict[str, Any] = {
    "model": "m",
    "max_tokens": 9,
    "messages": [{"role": "user", "content": f"My key is {SECRET} — why?"}],
}


@pytest.fixture(scope="module")
def gateway() -> Iterator[Inspected]:
    with inspected() as running:
        yield running


@pytest.mark.parametrize(
    ("protocol", "consumer"),
    [("anthropic", "anthropic"), ("openai-chat", "openai-chat"), ("gemini", "gemini"), ("cohere", "openai-chat")],
)
def test_a_file_is_shown_for_a_client_of_its_own_protocol(protocol: str, consumer: str) -> None:
    assert source_from_file(wire("text", protocol)).consumer == consumer


def test_several_files_and_a_har_file_stay_over_a_reload(page: Page, gateway: Inspected) -> None:
    page.goto(f"{gateway.url}/#/file")
    page.get_by_role("heading", name="See what a stream holds").wait_for()
    entries: list[dict[str, Any]] = [
        {
            "request": {"method": "POST", "url": "https://api.test/v1/messages?key=x", "postData": {"text": '{"a":1}'}},
            "response": {"content": {"mimeType": "text/event-stream", "text": STREAM.decode()}},
        },
        {
            "request": {"method": "POST", "url": "https://chat.test/v1/chat/completions"},
            "response": {
                "content": {
                    "mimeType": "text/event-stream", "encoding": "base64",
                    "text": b64encode(wire("text", "openai-chat")).decode(),
                }
            },
        },
    ]  # fmt: skip
    files: list[FilePayload] = [
        {"name": "session.har", "mimeType": "application/json", "buffer": json.dumps({"log": {"entries": entries}}).encode()},
        {"name": "gates.sse", "mimeType": "text/event-stream", "buffer": STREAM},
    ]  # fmt: skip
    page.get_by_label("A recorded stream").set_input_files(files)
    choice = page.get_by_label("File, of 3")
    expect(choice.locator("option")).to_have_text(
        ["api.test/v1/messages", "chat.test/v1/chat/completions", "gates.sse"]
    )
    expect(page.locator(".turn-way")).to_contain_text("anthropic")
    expect(page.locator(".consumers select")).to_have_value("anthropic")
    page.get_by_role("tab", name="Request").click()
    expect(page.get_by_role("tabpanel")).to_contain_text("a: 1")
    assert serious(page) == []
    choice.select_option("1")
    expect(page.locator(".consumers select")).to_have_value("openai-chat")
    wait_until_stored(page, "value.chosen === 1")
    page.reload()
    expect(page.get_by_label("File, of 3")).to_have_value("1")
    expect(page.locator(".consumers select")).to_have_value("openai-chat")
    page.get_by_role("button", name="Close").click()
    page.get_by_role("heading", name="See what a stream holds").wait_for()
    page.reload()
    page.get_by_role("heading", name="See what a stream holds").wait_for()


# ── the request of a file ─────────────────────────────────────────────────────────────────────────


def test_the_request_of_a_har_file_shows_no_secret_and_is_in_the_download(
    page: Page, gateway: Inspected, tmp_path: Path
) -> None:
    page.goto(f"{gateway.url}/#/file")
    entry = {
        "request": {"method": "POST", "url": "https://api.test/v1/messages", "postData": {"text": json.dumps(ASKED)}},
        "response": {"content": {"mimeType": "text/event-stream", "text": STREAM.decode()}},
    }
    har = json.dumps({"log": {"entries": [entry]}}).encode()
    file: FilePayload = {"name": "session.har", "mimeType": "application/json", "buffer": har}
    page.get_by_label("A recorded stream").set_input_files([file])
    expect(page.locator(".turn-head h1")).to_have_text("api.test/v1/messages")
    _expect_request(page)
    page.get_by_role("button", name="Download").click()
    with page.expect_download() as started:
        page.get_by_role("dialog", name="Download").get_by_role("button", name="Download").click()
    place = tmp_path / "saved.html"
    started.value.save_as(place)
    assert SECRET not in json.dumps(exported_traces(place.read_bytes()))
    page.goto(place.as_uri())
    _expect_request(page)


def _expect_request(page: Page) -> None:
    page.get_by_role("tab", name="Request").click()
    expect(page.get_by_role("tabpanel")).to_contain_text("My key is [secret] — why?")
    assert SECRET not in page.content()
    page.get_by_role("tab", name="Tokens").click()
    expect(page.get_by_role("tabpanel")).to_contain_text("input tokens")


def test_the_file_routes_take_a_request_before_the_file(gateway: Inspected) -> None:
    request = json.dumps(ASKED, ensure_ascii=False).encode()
    url, body = f"{gateway.url}/inspector", request + STREAM
    trace = post(f"{url}/trace?request_bytes={len(request)}", content=body).json()
    assert json.loads(trace["request"])["messages"][0]["content"] == "My key is [secret] — why?"
    assert trace["events"] == post(f"{url}/trace", content=STREAM).json()["events"]
    found = post(f"{url}/breakdown?request_bytes={len(request)}", content=body).json()
    assert (found["lost"], found["model"]) == ("", "m")
    for wrong in ("-1", "x", str(len(body) + 1)):
        assert post(f"{url}/trace?request_bytes={wrong}", content=body).status_code == 400
    empty = post(f"{url}/trace?request_bytes={len(request)}", content=request)
    assert "there is nothing in it" in empty.json()["error"]["message"]
