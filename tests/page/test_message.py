"""The message view: Markdown, thinking, calls, images, sources, faults; no script in it ever runs."""

from __future__ import annotations

import json
from itertools import count
from typing import TYPE_CHECKING, Any

import pytest
from playwright.sync_api import expect

from tests.page.axe import serious
from tests.page.file_drop import drop
from tests.page.steps import clipboard, expect_fit, look
from tests.support import sample_streams
from tests.support.inspector import inspected

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from playwright.sync_api import Locator, Page

LONG = 60_000
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
Events = tuple[dict[str, Any], ...]


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with inspected() as running:
        yield running.url


def lines(*events: dict[str, Any], end: dict[str, Any] | None = None) -> bytes:
    """Canonical events as a file."""
    whole = ({"type": "start", "model": "tiny"}, *events, end or {"type": "finish", "reason": "stop"})
    return b"".join(json.dumps(event).encode() + b"\n" for event in whole)


def said(text: str, index: int = 0) -> Events:
    return (
        {"type": "text-start", "index": index},
        {"type": "text-delta", "index": index, "text": text},
        {"type": "text-end", "index": index},
    )


def file(index: int, media: str, data: str = "", url: str = "") -> Events:
    start = {"type": "file-start", "index": index, "media": media, **({"url": url} if url else {})}
    return (start, {"type": "file-delta", "index": index, "data": data}, {"type": "file-end", "index": index})


def call(name: str, index: int = 0) -> dict[str, Any]:
    return {"index": index, "id": f"call_{index}", "name": name}


@pytest.fixture
def show_message(url: str, page: Page) -> Callable[[bytes], Locator]:
    """Show a stream; what comes back is its message."""
    numbers = count()
    page.goto(f"{url}/#/file")
    page.get_by_role("heading", name="See what a stream holds").wait_for()

    def show(data: bytes) -> Locator:
        name = f"case-{next(numbers)}.jsonl"
        drop(page, name, data)
        expect(page.locator(".turn-head h1")).to_have_text(name, timeout=LONG)
        return page.locator(".message")

    return show


def test_an_answer_is_drawn_with_its_thinking_and_calls(
    show_message: Callable[[bytes], Locator], page: Page, shot: Callable[[Page, str], None]
) -> None:
    message = show_message(b"".join(sample_streams.interleaved()))
    assert message.get_by_role("heading", name="Before I decide").is_visible()
    expect(message.locator("strong").first).to_have_text("two readings at once")
    expect(message.get_by_role("row")).to_have_count(3)
    expect(message.locator("ol").first.locator("li")).to_have_count(2)
    message.get_by_role("button", name="Copy python code").click()
    expect(message.locator(".code")).to_contain_text("Copied")
    assert clipboard(page).startswith("def must_open(")
    expect(message.locator(".thinking .md")).to_have_count(0)  # folded until it is asked for
    message.locator(".thinking summary").click()
    expect(message.locator(".thinking .md")).to_contain_text("look for the rule in the meantime.")
    web = message.get_by_role("region", name="Call of web_search")
    expect(web).to_contain_text("run by the provider")
    expect(web.get_by_role("group", name="Result of web_search")).to_contain_text('"Rules of the gates"')
    rain = message.get_by_role("region", name="Call of rain_forecast")
    expect(rain).to_contain_text("for the client to run")
    expect(rain.get_by_role("group", name="Arguments of rain_forecast")).to_contain_text('"north ridge"')
    assert serious(page) == []
    look(page)
    page.get_by_role("tab", name="Message").click()
    page.locator(".message").wait_for()
    expect_fit(page)
    shot(page, "inspector-message-phone")


def test_sources_files_refusals_and_faults_are_told_apart(
    show_message: Callable[[bytes], Locator], page: Page, problems: list[str]
) -> None:
    source = {"type": "source", "index": 1, "url": "https://tides.test/brest", "title": "Brest", "of": 0}
    message = show_message(lines(*said("High water is at 06:12. Low water later."), {**source, "span": [0, 23]}))
    expect(message.locator(".cited")).to_have_text("High water is at 06:12.")
    message.get_by_role("button", name="Source 1", exact=True).click()
    expect(page.locator("[data-source='1']")).to_be_focused()
    link = message.get_by_role("link", name="Brest")
    assert [link.get_attribute("href"), link.get_attribute("rel")] == [source["url"], "noopener noreferrer"]
    message.get_by_role("button", name="Where source 1 is cited").click()
    expect(page.locator("[data-cite='1']")).to_be_focused()
    # Files are shown, played or saved, and never fetched.
    pictures = "https://pictures.test"
    message = show_message(
        lines(
            *file(0, "image/png", PIXEL),
            *file(1, "audio/wav", "UklGRgAAAABXQVZF"),
            *file(2, "text/html", "PHNjcmlwdD4="),
            *file(3, "image/png", url=f"{pictures}/1.png"),
            *said(f"![a cat]({pictures}/cat.png)", 4),
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
    half = '{"text": "half'
    message = show_message(
        lines(
            {"type": "refusal-start", "index": 0},
            {"type": "refusal-delta", "index": 0, "text": "I will not."},
            {"type": "refusal-end", "index": 0},
            {"type": "call-start", **call("write_log", 1)},
            {"type": "call-delta", "index": 1, "json": half},
            {"type": "call-cut", **call("write_log", 1), "json": half},
            end={"type": "fault", "kind": "overloaded", "message": "try later", "status": 529, "retry_after": 3},
        )
    )
    expect(message.get_by_role("region", name="Refusal")).to_contain_text("I will not.")
    expect(message.get_by_role("region", name="Call of write_log")).to_contain_text("cut: must not be run")
    fault = message.get_by_role("alert")
    expect(fault).to_contain_text("The server is overloaded")
    expect(fault).to_contain_text("status 529 · try again in 3 s")


@pytest.mark.parametrize(
    ("characters", "size"),
    [(400_000, "of 400 k characters"), pytest.param(2_000_000, "of 2.0 M characters", marks=pytest.mark.nightly)],
)
def test_long_texts_are_shown_in_part_and_nothing_a_model_says_runs(
    show_message: Callable[[bytes], Locator], page: Page, characters: int, size: str
) -> None:
    block = "A **paragraph** of some words that is not worth reading.\n\n"
    message = show_message(lines(*said(block * (characters // len(block)) + "The very end.")))
    more = message.locator(".md-more")
    expect(more).to_contain_text(size)
    assert message.locator(".md-page").count() == 4
    more.get_by_role("button", name="Show more").click()
    expect(message.locator(".md-page")).to_have_count(12)
    more.get_by_role("button", name="Show all").click()
    message.get_by_text("The very end.").wait_for(timeout=2 * LONG, state="attached")
    expect(more).to_have_count(0)
    numbers = json.dumps({"rows": list(range(5000))})
    end = {"type": "call-end", **call("sum"), "json": numbers}
    message = show_message(lines({"type": "call-start", **call("sum")}, end))
    arguments = message.get_by_role("group", name="Arguments of sum")
    assert "4999" not in arguments.inner_text()
    message.get_by_role("button", name="Show more").click()
    expect(arguments).to_contain_text("1500")
    message = show_message(b"".join(sample_streams.hostile(20)))
    expect(message.locator(".md").first).to_contain_text('<img src=x onerror="window.ran = 2">')
    links = message.locator("a").evaluate_all("links => links.map((link) => [link.href, link.rel])")
    assert [one for one, _ in links if not one.startswith(("http://", "https://", "mailto:"))] == []
    assert {rel for _, rel in links} <= {"noopener noreferrer"}
    kinds = set(message.locator("*").evaluate_all("all => all.map((one) => one.tagName.toLowerCase())"))
    assert kinds.isdisjoint({"script", "iframe", "object", "embed", "style", "form", "link", "meta", "base"})
    assert page.evaluate("window.ran") is None
