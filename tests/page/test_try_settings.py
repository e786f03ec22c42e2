"""Try it: settings, tools, images, and a conversation that outlives a reload."""

from __future__ import annotations

import json
from base64 import b64decode
from typing import TYPE_CHECKING, Any

import pytest
from playwright.sync_api import expect

from tests.page.axe import serious
from tests.page.tab_store import wait_until_stored
from tests.page.try_page import choose_model, open_try_view, send_and_wait, send_message, wait_for_answer
from tests.support.client_requests import post
from tests.support.inspector import inspected
from tests.support.sample_turns import wired

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from playwright.sync_api import Page

    from tests.support.inspector import Inspected

PNG = b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==")
TOOLS: list[dict[str, Any]] = [
    {"name": "level", "description": "The level of a gauge", "parameters": {"type": "object", "properties": {}}}
]
SCHEMA = {"type": "object", "properties": {"level": {"type": "number"}}}


@pytest.fixture(scope="module")
def gateway() -> Iterator[Inspected]:
    with inspected(wired, serve={"pace": 0.0}) as running:
        yield running


@pytest.fixture
def opened(gateway: Inspected, page: Page) -> Page:
    return open_try_view(page, gateway.url)


def upstream(gateway: Inspected) -> dict[str, Any]:
    return dict(gateway.up.requests[-1].json)


def test_settings_reach_the_provider_in_every_protocol(
    opened: Page, gateway: Inspected, shot: Callable[[Page, str], None]
) -> None:
    choose_model(opened, "openai-chat/text")
    opened.get_by_text("Settings: system prompt").click()
    for label, value in (
        ("System prompt", "Be brief."), ("Tools, as JSON", json.dumps(TOOLS)), ("Temperature", "0.25"),
        ("JSON schema of the answer", json.dumps(SCHEMA)), ("Max output tokens", "321"),
    ):  # fmt: skip
        opened.get_by_label(label).fill(value)
    assert serious(opened) == []
    shot(opened, "inspector-try-settings")
    opened.get_by_text("Settings (5)").click()
    for count, protocol in enumerate(("Chat", "Responses", "Messages", "Gemini", "UI stream", "VS Code"), 1):
        opened.get_by_role("button", name=protocol, exact=True).click()
        send_and_wait(opened, f"Question {count}", count)
        sent = upstream(gateway)
        assert sent["messages"][0] == {"role": "system", "content": "Be brief."}, protocol
        assert sent["messages"][-1]["content"] == f"Question {count}"
        assert sent["temperature"] == 0.25
        assert sent["tools"][0]["function"]["name"] == "level"
        assert sent["response_format"]["json_schema"]["schema"] == SCHEMA, protocol
        assert 321 in (sent.get("max_tokens"), sent.get("max_completion_tokens"))


def test_an_image_is_chosen_or_pasted_and_sent(opened: Page, gateway: Inspected) -> None:
    choose_model(opened, "openai-chat/text")
    image: Any = {"name": "dot.png", "mimeType": "image/png", "buffer": PNG}
    opened.get_by_label("Images").set_input_files([image])
    opened.locator(".composer-images img").wait_for()
    opened.get_by_label("Your message").evaluate(
        """(box, data) => {
            const bytes = Uint8Array.from(atob(data), (letter) => letter.charCodeAt(0));
            const clipboardData = new DataTransfer();
            clipboardData.items.add(new File([bytes], "pasted.png", { type: "image/png" }));
            box.dispatchEvent(new ClipboardEvent("paste", { clipboardData, bubbles: true, cancelable: true }));
        }""",
        "iVBORw0KGgo=",
    )
    expect(opened.locator(".composer-images img")).to_have_count(2)
    opened.get_by_role("button", name="Remove image 2").click()
    expect(opened.locator(".composer-images img")).to_have_count(1)
    assert serious(opened) == []
    send_and_wait(opened, "What is it?")
    content = upstream(gateway)["messages"][-1]["content"]
    assert content[0] == {"type": "text", "text": "What is it?"}
    assert content[1]["image_url"]["url"].startswith("data:image/png;base64,iVBORw0KGgo")


def test_the_conversation_outlives_a_reload_and_can_be_forgotten(opened: Page, gateway: Inspected) -> None:
    choose_model(opened, "openai-chat/text")
    opened.get_by_text("Settings: system prompt").click()
    opened.get_by_label("System prompt").fill("Remember.")
    send_and_wait(opened, "Alpha")
    wait_until_stored(opened, "JSON.stringify(value).includes('\"done\"')")
    opened.reload()
    expect(opened.locator(".said")).to_have_text("Alpha")
    expect(opened.locator(".ending-finish")).to_have_count(1)
    opened.get_by_text("Settings (1)").click()
    expect(opened.get_by_label("System prompt")).to_have_value("Remember.")
    send_and_wait(opened, "Beta", 2)
    assert [row["content"] for row in upstream(gateway)["messages"] if row["role"] == "user"] == ["Alpha", "Beta"]
    opened.get_by_role("button", name="Forget all").click()
    opened.get_by_role("heading", name="See a stream").wait_for()
    opened.reload()
    opened.get_by_role("heading", name="See a stream").wait_for()
    expect(opened.get_by_text("Settings: system prompt")).to_be_visible()


def test_a_turn_is_opened_and_continued(opened: Page, gateway: Inspected) -> None:
    body = {
        "model": "openai-chat/text", "max_tokens": 99, "system": "Old prompt.", "stream": True, "top_k": 3,
        "stop_sequences": ["\n\nHuman:"], "tool_choice": {"type": "tool", "name": "rain"}, "tools": [
            {"name": "rain", "input_schema": {"type": "object"}}], "messages": [
            {"role": "user", "content": "One"}, {"role": "assistant", "content": "Two"},
            {"role": "user", "content": "Three"}],
    }  # fmt: skip
    turn = post(f"{gateway.url}/v1/messages", json=body).headers["x-request-id"]
    opened.goto(f"{gateway.url}/#/turn/{turn}")
    opened.get_by_role("link", name="Open in Try it").click()
    expect(opened.get_by_label("Your message")).to_have_value("Three")
    expect(opened.get_by_text("2 messages before yours")).to_be_visible()
    expect(opened.get_by_role("button", name="Messages", exact=True)).to_have_attribute("aria-pressed", "true")
    send_and_wait(opened, "Four")
    sent = upstream(gateway)
    assert [row["content"] for row in sent["messages"]] == ["Old prompt.", "One", "Two", "Four"]
    assert sent["tools"][0]["function"]["name"] == "rain"
    assert sent["tool_choice"] == {"type": "function", "function": {"name": "rain"}}
    assert sent["stop"] == ["\n\nHuman:"]
    expect(opened.locator(".try-opened li")).to_contain_text(["top_k"])
    assert serious(opened) == []
    opened.get_by_text("Settings (").click()
    opened.get_by_label("Tools, as JSON").fill("")
    opened.get_by_role("button", name="Take the tools of the last request").click()
    expect(opened.get_by_label("Tools, as JSON")).to_have_value(json.dumps(sent["tools"], indent=2))


def test_results_of_calls_are_written_and_sent(opened: Page, gateway: Inspected) -> None:
    choose_model(opened, "openai-chat/tools")
    send_and_wait(opened, "Look at the gauges")
    boxes = opened.locator(".tool-result textarea")
    count = boxes.count()
    assert count > 0
    assert serious(opened) == []
    for number in range(count):
        boxes.nth(number).fill(f"reading {number}")
    opened.get_by_role("button", name="Send", exact=True).click()
    wait_for_answer(opened, 2)
    sent = upstream(gateway)["messages"]
    assert [row["content"] for row in sent if row["role"] == "tool"] == [f"reading {n}" for n in range(count)]
    assert sent[1]["tool_calls"][0]["id"] == sent[2]["tool_call_id"]


def test_a_message_without_an_answer_is_back_in_the_box(opened: Page, gateway: Inspected, problems: list[str]) -> None:
    choose_model(opened, "openai-chat/tools")
    send_and_wait(opened, "Look at the gauges")
    count = opened.locator(".tool-result textarea").count()
    assert count > 0
    image: Any = {"name": "dot.png", "mimeType": "image/png", "buffer": PNG}
    opened.get_by_label("Images").set_input_files([image])
    opened.locator(".composer-images img").wait_for()
    for number in range(count):
        opened.locator(".tool-result textarea").nth(number).fill(f"reading {number}")
    choose_model(opened, "nobody/nothing")
    send_message(opened, "And the valve?")
    opened.get_by_role("alert").wait_for()
    _expect_message(opened, "And the valve?", count)
    choose_model(opened, "anthropic/live-interleaved")
    opened.get_by_role("button", name="Send", exact=True).click()
    opened.locator(".exchange").last.locator(".thinking").wait_for()
    expect(opened.locator(".tool-result")).to_have_count(0)
    opened.get_by_role("button", name="Stop").click()
    opened.get_by_text("You stopped it.").wait_for()
    expect(opened.get_by_role("button", name="Send", exact=True)).to_be_visible()
    _expect_message(opened, "And the valve?", count)
    choose_model(opened, "openai-chat/text")
    opened.get_by_role("button", name="Send", exact=True).click()
    wait_for_answer(opened, 2)
    roles = [row["role"] for row in upstream(gateway)["messages"]]
    assert roles == ["user", "assistant", *["tool"] * count, "user"]
    expect(opened.get_by_label("Your message")).to_have_value("")
    assert all("404" in problem for problem in problems)
    problems.clear()


def _expect_message(page: Page, text: str, results: int) -> None:
    """The box has this text, an image and that many results."""
    expect(page.get_by_label("Your message")).to_have_value(text)
    expect(page.locator(".composer-images img")).to_have_count(1)
    boxes = page.locator(".tool-result textarea")
    expect(boxes).to_have_count(results)
    assert [box.input_value() for box in boxes.all()] == [f"reading {number}" for number in range(results)]


def test_a_message_without_an_answer_outlives_a_reload(opened: Page, problems: list[str]) -> None:
    choose_model(opened, "nobody/nothing")
    send_message(opened, "Hello?")
    opened.get_by_role("alert").wait_for()
    wait_until_stored(opened, "JSON.stringify(value).includes('\"failed\"')")
    opened.reload()
    expect(opened.get_by_label("Your message")).to_have_value("Hello?")
    assert all("404" in problem for problem in problems)
    problems.clear()
