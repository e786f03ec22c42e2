"""The message view: Markdown, thinking, calls, images, sources, faults; no script in it ever runs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from playwright.sync_api import expect

from tests.gateway.inspector import sample_streams
from tests.page.axe import serious
from tests.page.file_drop import drop

if TYPE_CHECKING:
    from collections.abc import Callable

    from playwright.sync_api import Locator, Page

    from tests.support.inspector import Inspected

LONG = 60_000
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


def lines(*events: dict[str, Any]) -> bytes:
    """Canonical events as a file."""
    whole = ({"type": "start", "model": "tiny"}, *events, {"type": "finish", "reason": "stop"})
    return b"".join(json.dumps(event).encode() + b"\n" for event in whole)


def said(text: str, index: int = 0) -> tuple[dict[str, Any], ...]:
    return (
        {"type": "text-start", "index": index},
        {"type": "text-delta", "index": index, "text": text},
        {"type": "text-end", "index": index},
    )


@pytest.fixture
def show_message(gateway: Inspected, page: Page) -> Callable[[bytes], Locator]:
    """Show a stream; what comes back is its message."""

    def show(data: bytes) -> Locator:
        page.goto(f"{gateway.url}/#/file")
        page.get_by_role("heading", name="See what a stream holds").wait_for()
        drop(page, "case.jsonl", data)
        message = page.locator(".message")
        message.first.wait_for(timeout=LONG)
        return message

    return show


def test_markdown_is_drawn(show_message: Callable[[bytes], Locator], page: Page) -> None:
    message = show_message(b"".join(sample_streams.interleaved()))
    assert message.get_by_role("heading", name="Before I decide").is_visible()
    expect(message.locator("strong").first).to_have_text("two readings at once")
    expect(message.get_by_role("row")).to_have_count(3)
    expect(message.locator("ol").first.locator("li")).to_have_count(2)
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    message.get_by_role("button", name="Copy python code").click()
    expect(message.locator(".code")).to_contain_text("Copied")
    assert page.evaluate("navigator.clipboard.readText()").startswith("def must_open(")


def test_thinking_is_folded_until_it_is_asked_for(show_message: Callable[[bytes], Locator]) -> None:
    message = show_message(b"".join(sample_streams.interleaved()))
    expect(message.locator(".thinking .md")).to_have_count(0)
    message.locator(".thinking summary").click()
    expect(message.locator(".thinking .md")).to_contain_text("look for the rule in the meantime.")


def test_calls_are_cards_and_those_of_the_provider_stand_out(show_message: Callable[[bytes], Locator]) -> None:
    message = show_message(b"".join(sample_streams.interleaved()))
    search = message.get_by_role("region", name="Call of web_search")
    expect(search).to_contain_text("run by the provider")
    expect(search.get_by_role("group", name="Result of web_search")).to_contain_text('"Rules of the gates"')
    rain = message.get_by_role("region", name="Call of rain_forecast")
    expect(rain).to_contain_text("for the client to run")
    expect(rain.get_by_role("group", name="Arguments of rain_forecast")).to_contain_text('"north ridge"')


def test_sources_are_numbered_and_lead_to_each_other(show_message: Callable[[bytes], Locator], page: Page) -> None:
    source = {"type": "source", "index": 1, "url": "https://tides.test/brest", "title": "Brest", "of": 0}
    message = show_message(lines(*said("High water is at 06:12. Low water later."), {**source, "span": [0, 23]}))
    expect(message.locator(".cited")).to_have_text("High water is at 06:12.")
    message.get_by_role("button", name="Source 1", exact=True).click()
    expect(page.locator("[data-source='1']")).to_be_focused()
    link = message.get_by_role("link", name="Brest")
    assert [link.get_attribute("href"), link.get_attribute("rel")] == [source["url"], "noopener noreferrer"]
    message.get_by_role("button", name="Where source 1 is cited").click()
    expect(page.locator("[data-cite='1']")).to_be_focused()


def test_files_are_shown_played_or_saved_and_never_fetched(
    show_message: Callable[[bytes], Locator], page: Page, problems: list[str]
) -> None:
    def file(index: int, media: str, data: str = "", url: str = "") -> tuple[dict[str, Any], ...]:
        start = {"type": "file-start", "index": index, "media": media, **({"url": url} if url else {})}
        return (start, {"type": "file-delta", "index": index, "data": data}, {"type": "file-end", "index": index})

    message = show_message(
        lines(
            *file(0, "image/png", PIXEL),
            *file(1, "audio/wav", "UklGRgAAAABXQVZF"),
            *file(2, "text/html", "PHNjcmlwdD4="),
            *file(3, "image/png", url="https://pictures.test/1.png"),
            *said("![a cat](https://pictures.test/cat.png)", 4),
        )
    )
    assert message.locator("img").evaluate_all("images => images.map((one) => one.naturalWidth)") == [1]
    expect(message.locator("audio")).to_have_count(1)
    expect(message.get_by_role("link", name="Open at pictures.test")).to_be_visible()
    expect(message.get_by_role("link", name="Picture: a cat")).to_be_visible()
    with page.expect_download() as download:
        message.locator("figure").nth(2).get_by_role("link", name="Save").click()
    assert download.value.path().read_bytes() == b"<script>"
    assert problems == []


def test_a_refusal_a_cut_call_and_a_fault_are_told_apart(show_message: Callable[[bytes], Locator]) -> None:
    call = {"index": 1, "id": "call_1", "name": "write_log", "json": '{"text": "half'}
    message = show_message(
        lines(
            {"type": "refusal-start", "index": 0},
            {"type": "refusal-delta", "index": 0, "text": "I will not."},
            {"type": "refusal-end", "index": 0},
            {"type": "call-start", "index": 1, "id": "call_1", "name": "write_log"},
            {"type": "call-delta", "index": 1, "json": call["json"]},
            {"type": "call-cut", **call},
        )[: -len('{"type": "finish", "reason": "stop"}\n')]
        + b'{"type": "fault", "kind": "overloaded", "message": "try later", "status": 529, "retry_after": 3}\n'
    )
    expect(message.get_by_role("region", name="Refusal")).to_contain_text("I will not.")
    expect(message.get_by_role("region", name="Call of write_log")).to_contain_text("cut: must not be run")
    fault = message.get_by_role("alert")
    expect(fault).to_contain_text("The server is overloaded")
    expect(fault).to_contain_text("status 529 · try again in 3 s")


def test_nothing_a_model_says_runs(show_message: Callable[[bytes], Locator], page: Page) -> None:
    message = show_message(b"".join(sample_streams.hostile(20)))
    expect(message.locator(".md").first).to_contain_text('<img src=x onerror="window.ran = 2">')
    addresses = message.locator("a").evaluate_all("links => links.map((link) => link.href)")
    assert [address for address in addresses if not address.startswith(("http://", "https://", "mailto:"))] == []
    for link in message.locator("a").all():
        assert link.get_attribute("rel") == "noopener noreferrer"
    kinds = set(message.locator("*").evaluate_all("all => all.map((one) => one.tagName.toLowerCase())"))
    assert kinds.isdisjoint({"script", "iframe", "object", "embed", "style", "form", "link", "meta", "base"})
    assert page.evaluate("window.ran") is None


@pytest.mark.parametrize(
    ("characters", "said_size"),
    [(400_000, "of 400 k characters"), pytest.param(2_000_000, "of 2.0 M characters", marks=pytest.mark.nightly)],
)
def test_a_long_text_is_shown_in_part_and_then_in_full(
    show_message: Callable[[bytes], Locator], characters: int, said_size: str
) -> None:
    block = "A **paragraph** of some words that is not worth reading.\n\n"
    count = characters // len(block)
    message = show_message(lines(*said(block * count + "The very end.")))
    more = message.locator(".md-more")
    expect(more).to_contain_text(said_size)
    assert message.locator(".md-page").count() == 4
    more.get_by_role("button", name="Show more").click()
    expect(message.locator(".md-page")).to_have_count(12)
    more.get_by_role("button", name="Show all").click()
    message.get_by_text("The very end.").wait_for(timeout=2 * LONG, state="attached")
    expect(more).to_have_count(0)


def test_many_lines_of_arguments_are_shown_in_part(show_message: Callable[[bytes], Locator]) -> None:
    whole = json.dumps({"rows": list(range(5000))})
    call = {"index": 0, "id": "call_1", "name": "sum", "json": whole}
    message = show_message(
        lines({"type": "call-start", "index": 0, "id": "call_1", "name": "sum"}, {"type": "call-end", **call})
    )
    arguments = message.get_by_role("group", name="Arguments of sum")
    assert "4999" not in arguments.inner_text()
    message.get_by_role("button", name="Show more").click()
    expect(arguments).to_contain_text("1500")


def test_both_themes_and_a_phone_shut_nobody_out(
    show_message: Callable[[bytes], Locator], page: Page, shot: Callable[[Page, str], None]
) -> None:
    show_message(b"".join(sample_streams.interleaved()))
    assert serious(page) == []
    page.emulate_media(color_scheme="light")
    assert serious(page) == []
    page.set_viewport_size({"width": 390, "height": 844})
    page.get_by_role("tab", name="Message").click()
    page.locator(".message").wait_for()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert serious(page) == []
    shot(page, "inspector-message-phone")
