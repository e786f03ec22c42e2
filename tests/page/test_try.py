"""The "Try it" view: a conversation with a model through each client protocol; settings, tools, images, late answers."""

# ruff: noqa: PLR0915 — a story has as many steps as its user

from __future__ import annotations

import json
import re
from base64 import b64decode
from typing import TYPE_CHECKING, Any

import pytest
from playwright.sync_api import expect

from tests.page.axe import serious
from tests.page.steps import drop_problems, expect_fit, hold, leaving, look
from tests.page.tab_store import wait_until_stored
from tests.support.client_requests import post
from tests.support.gateway import hash_key
from tests.support.inspector import inspected
from tests.support.sample_turns import wired

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from playwright.sync_api import Page

    from tests.support.inspector import Inspected

ANSWER = "Three minutes: 540 litres at 3 litres a second take 180 seconds."
WAYS = {
    "Chat": '"object":"chat.completion.chunk"', "Responses": "response.completed", "Messages": "event: message_stop",
    "Gemini": '"candidates"', "UI stream": '"type":"text-delta"', "VS Code": '"kind":"end"',
}  # fmt: skip
PNG = b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==")
IMAGE: Any = {"name": "dot.png", "mimeType": "image/png", "buffer": PNG}
TOOLS: list[dict[str, Any]] = [
    {"name": "level", "description": "The level of a gauge", "parameters": {"type": "object", "properties": {}}}
]
SCHEMA = {"type": "object", "properties": {"level": {"type": "number"}}}
SECRET = "pk-penstock-try-0123456789"


@pytest.fixture(scope="module")
def gateway() -> Iterator[Inspected]:
    with inspected(wired, serve={"pace": 0.004}) as running:
        yield running


@pytest.fixture
def opened(gateway: Inspected, page: Page) -> Page:
    page.goto(f"{gateway.url}/#/try")
    expect_welcome(page)
    return page


def expect_welcome(page: Page) -> None:
    page.get_by_role("heading", name="See a stream").wait_for()


def choose_model(page: Page, model: str) -> None:
    page.get_by_label("Model", exact=True).select_option("")
    page.get_by_label("Name of the model").fill(model)


def send_message(page: Page, text: str) -> None:
    page.get_by_label("Your message").fill(text)
    page.get_by_role("button", name="Send", exact=True).click()


def wait_for_answer(page: Page, count: int = 1) -> None:
    """Wait until that many answers have come to their end."""
    page.locator(".ending-finish").nth(count - 1).wait_for()


def send_and_wait(page: Page, text: str, count: int = 1) -> None:
    send_message(page, text)
    wait_for_answer(page, count)


def start_again(page: Page) -> None:
    page.get_by_role("button", name="New conversation").click()
    expect_welcome(page)


def upstream(gateway: Inspected) -> dict[str, Any]:
    """What the provider got last."""
    return dict(gateway.up.requests[-1].json)


def test_a_newcomer_sees_a_stream_with_one_click_and_goes_on_by_keys(
    opened: Page, shot: Callable[[Page, str], None]
) -> None:
    expect(opened.get_by_label("Model", exact=True)).to_have_value("replay/reasoning")
    assert serious(opened) == []
    opened.locator(".prompts button").first.click()
    wait_for_answer(opened)
    assert opened.locator(".message .md").inner_text() == ANSWER
    assert "data: [DONE]" in opened.get_by_role("group", name="Raw stream").inner_text()
    assert serious(opened) == []
    opened.get_by_label("Model", exact=True).select_option("replay/citations")
    send_and_wait(opened, "Which turbine for which head?", 2)
    shot(opened, "inspector-try")
    start_again(opened)
    opened.get_by_label("Model", exact=True).select_option("replay/reasoning")
    opened.get_by_label("Your message").focus()
    opened.keyboard.type("it's me")
    opened.keyboard.press("Shift+Enter")
    opened.keyboard.type("line two")
    opened.keyboard.press("Enter")
    wait_for_answer(opened)
    assert opened.locator(".said").inner_text() == "it's me\nline two"
    opened.locator(".thinking summary").focus()
    opened.keyboard.press("Enter")
    opened.locator(".thinking .md").wait_for()
    opened.get_by_text("The request").click()
    assert '"replay/reasoning"' in opened.get_by_label("The request's body").inner_text()
    opened.get_by_role("button", name="Copy as…").click()
    copied = opened.get_by_role("group", name="What is copied")
    expect(copied).to_contain_text("curl -N http://127.0.0.1:")
    expect(copied).to_contain_text("it'\\''s me")
    opened.keyboard.press("Escape")
    opened.get_by_role("link", name="See this turn").click()
    opened.locator(".turn").wait_for()
    assert opened.locator(".turn .message .md").inner_text() == ANSWER


def test_every_protocol_streams_with_all_settings_and_the_model_hears_what_was_said(
    opened: Page, gateway: Inspected, shot: Callable[[Page, str], None]
) -> None:
    choose_model(opened, "openai-chat/reasoning")
    opened.get_by_text("Settings: system prompt").click()
    for label, value in (
        ("System prompt", "Be brief."), ("Tools, as JSON", json.dumps(TOOLS)), ("Temperature", "0.25"),
        ("JSON schema of the answer", json.dumps(SCHEMA)), ("Max output tokens", "321"),
    ):  # fmt: skip
        opened.get_by_label(label).fill(value)
    assert serious(opened, ".try-settings") == []
    shot(opened, "inspector-try-settings")
    opened.get_by_text("Settings (5)").click()
    for count, (way, words) in enumerate(WAYS.items(), 1):
        opened.get_by_role("button", name=way, exact=True).click()
        send_and_wait(opened, f"Question {count}", count)
        exchange = opened.locator(".exchange").last
        assert exchange.locator(".message .md").inner_text() == ANSWER, way
        assert "Thinking" in exchange.locator(".thinking").inner_text(), way
        expect(opened.get_by_role("group", name="Raw stream").last).to_contain_text(words)
        sent = upstream(gateway)
        assert sent["messages"][0] == {"role": "system", "content": "Be brief."}, way
        said = [row["content"] for row in sent["messages"] if row["role"] == "user"]
        assert said == [f"Question {number}" for number in range(1, count + 1)], way
        answers = [row["content"] for row in sent["messages"] if row["role"] == "assistant"]
        assert {re.sub(r"\W+", "", str(one)) for one in answers} <= {re.sub(r"\W+", "", ANSWER)}
        assert sent["temperature"] == 0.25
        assert sent["tools"][0]["function"]["name"] == "level"
        assert sent["response_format"]["json_schema"]["schema"] == SCHEMA, way
        assert 321 in (sent.get("max_tokens"), sent.get("max_completion_tokens"))


def test_calls_pictures_and_images_are_shown_and_sent(opened: Page, gateway: Inspected) -> None:
    opened.locator(".packaged").get_by_role("button", name="parallel-tools").click()
    wait_for_answer(opened)
    assert opened.locator(".card").count() == 3
    opened.get_by_label("Model", exact=True).select_option("replay/image")
    send_and_wait(opened, "A picture", 2)
    assert opened.locator(".file img").evaluate("image => image.naturalWidth") > 0
    opened.get_by_label("Model", exact=True).select_option("replay/error")
    send_message(opened, "Break")
    opened.get_by_role("alert").filter(has_text="overloaded").wait_for()
    start_again(opened)
    choose_model(opened, "openai-chat/text")
    images = opened.locator(".composer-images img")
    opened.get_by_label("Images").set_input_files([IMAGE])
    images.wait_for()
    opened.get_by_label("Your message").evaluate(
        """(box, data) => {
            const bytes = Uint8Array.from(atob(data), (letter) => letter.charCodeAt(0));
            const clipboardData = new DataTransfer();
            clipboardData.items.add(new File([bytes], "pasted.png", { type: "image/png" }));
            box.dispatchEvent(new ClipboardEvent("paste", { clipboardData, bubbles: true, cancelable: true }));
        }""",
        "iVBORw0KGgo=",
    )
    expect(images).to_have_count(2)
    opened.get_by_role("button", name="Remove image 2").click()
    expect(images).to_have_count(1)
    assert serious(opened, ".composer") == []
    send_and_wait(opened, "What is it?")
    content = upstream(gateway)["messages"][-1]["content"]
    assert content[0] == {"type": "text", "text": "What is it?"}
    assert content[1]["image_url"]["url"].startswith("data:image/png;base64,iVBORw0KGgo")
    start_again(opened)
    choose_model(opened, "openai-chat/tools")
    send_and_wait(opened, "Look at the gauges")
    boxes = opened.locator(".tool-result textarea")
    count = boxes.count()
    assert count > 0
    assert serious(opened, ".tool-result") == []
    for number in range(count):
        boxes.nth(number).fill(f"reading {number}")
    opened.get_by_role("button", name="Send", exact=True).click()
    wait_for_answer(opened, 2)
    rows = upstream(gateway)["messages"]
    assert [row["content"] for row in rows if row["role"] == "tool"] == [f"reading {n}" for n in range(count)]
    assert rows[1]["tool_calls"][0]["id"] == rows[2]["tool_call_id"]


def test_a_message_without_an_answer_is_back_in_the_box(opened: Page, gateway: Inspected, problems: list[str]) -> None:
    for count, way in enumerate(WAYS, 1):
        opened.get_by_role("button", name=way, exact=True).click()
        choose_model(opened, "nobody/nothing")
        send_message(opened, "Hello?")
        opened.get_by_role("alert").nth(count - 1).wait_for()
    for said in opened.get_by_role("alert").all_inner_texts():  # in plain words
        assert said.startswith("That did not work.")
        assert "nobody" in said
    assert "404" in opened.locator(".status").inner_text()
    start_again(opened)
    opened.get_by_role("button", name="Chat", exact=True).click()
    choose_model(opened, "openai-chat/tools")
    send_and_wait(opened, "Look at the gauges")
    count = opened.locator(".tool-result textarea").count()
    assert count > 0
    opened.get_by_label("Images").set_input_files([IMAGE])
    opened.locator(".composer-images img").wait_for()
    for number in range(count):
        opened.locator(".tool-result textarea").nth(number).fill(f"reading {number}")
    choose_model(opened, "nobody/nothing")
    send_message(opened, "And the valve?")
    opened.get_by_role("alert").wait_for()
    _expect_message(opened, "And the valve?", count)
    for press in ("button", "key"):  # or if it is stopped
        choose_model(opened, "anthropic/live-interleaved")
        opened.get_by_role("button", name="Send", exact=True).click()
        opened.locator(".exchange").last.locator(".thinking").wait_for()
        expect(opened.locator(".tool-result")).to_have_count(0)
        if press == "button":
            opened.get_by_role("button", name="Stop").click()
        else:
            opened.keyboard.press("Escape")
        opened.locator(".exchange").last.get_by_text("You stopped it.").wait_for()
        expect(opened.get_by_role("button", name="Send", exact=True)).to_be_visible()
        _expect_message(opened, "And the valve?", count)
    assert [row.status for row in gateway.rows()[:2]] == ["cancelled", "cancelled"]
    choose_model(opened, "openai-chat/text")
    opened.get_by_role("button", name="Send", exact=True).click()
    wait_for_answer(opened, 2)
    roles = [row["role"] for row in upstream(gateway)["messages"]]
    assert roles == ["user", "assistant", *["tool"] * count, "user"]
    expect(opened.get_by_label("Your message")).to_have_value("")
    start_again(opened)
    choose_model(opened, "nobody/nothing")
    send_message(opened, "Hello?")
    opened.get_by_role("alert").wait_for()
    wait_until_stored(opened, "JSON.stringify(value).includes('\"failed\"')")
    opened.reload()
    expect(opened.get_by_label("Your message")).to_have_value("Hello?")
    drop_problems(problems, "404")


def _expect_message(page: Page, text: str, results: int) -> None:
    """The box has this text, an image and that many results."""
    expect(page.get_by_label("Your message")).to_have_value(text)
    expect(page.locator(".composer-images img")).to_have_count(1)
    boxes = page.locator(".tool-result textarea")
    expect(boxes).to_have_count(results)
    assert [box.input_value() for box in boxes.all()] == [f"reading {number}" for number in range(results)]


def test_a_conversation_outlives_a_reload_a_turn_is_continued_and_late_answers_are_ignored(
    opened: Page, gateway: Inspected, problems: list[str]
) -> None:
    opened.get_by_label("Model", exact=True).select_option("")
    box = opened.get_by_label("Name of the model")
    box.press_sequentially("replay/text-2025")  # replay/text is in the list
    expect(box).to_have_value("replay/text-2025")
    opened.reload()
    expect(box).to_have_value("replay/text-2025")
    box.fill("")
    expect(box).to_have_value("")
    box.press_sequentially("replay/text")
    expect(box).to_have_value("replay/text")
    expect(opened.locator(".welcome code").first).to_have_text("replay/text")
    opened.get_by_label("Model", exact=True).select_option("replay/reasoning")
    expect(box).to_have_count(0)
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
    expect_welcome(opened)
    opened.reload()
    expect_welcome(opened)
    expect(opened.get_by_text("Settings: system prompt")).to_be_visible()
    # A message is accepted before the events of the last answer are there.
    held = hold(opened, "**/follow", times=1)
    choose_model(opened, "openai-chat/text")
    send_message(opened, "Alpha")
    expect(opened.get_by_role("button", name="Send", exact=True)).to_be_visible()
    expect(opened.get_by_role("status").filter(has_text="The answer is complete.")).to_have_count(1)
    send_message(opened, "Beta")
    expect(opened.locator(".said")).to_have_text(["Alpha", "Beta"])
    wait_for_answer(opened, 2)
    sent = upstream(gateway)["messages"]
    assert [row["role"] for row in sent] == ["user", "assistant", "user"]
    assert sent[1]["content"]
    assert len(held) == 1
    held[0].abort()
    start_again(opened)
    # A new conversation aborts what is being sent.
    held, before = hold(opened, "**/inspector/convert?**", times=1), len(gateway.up.requests)
    with opened.expect_request("**/inspector/convert?**"):
        send_message(opened, "Alpha")
    opened.get_by_role("button", name="New conversation").click()
    send_message(opened, "Beta")
    expect(opened.locator(".said")).to_have_text(["Beta"])
    with opened.expect_response(held[0].request.url):
        held[0].continue_()
    wait_for_answer(opened)
    assert [row["content"] for row in upstream(gateway)["messages"]] == ["Beta"]
    assert len(gateway.up.requests) == before + 1
    expect(opened.locator(".said")).to_have_text(["Beta"])
    expect(opened.get_by_label("Your message")).to_have_value("")
    _continue_a_turn(opened, gateway)
    drop_problems(problems, "/follow")


def _continue_a_turn(page: Page, gateway: Inspected) -> None:
    said = [("user", "One"), ("assistant", "Two"), ("user", "Three")]
    body = {
        "model": "openai-chat/text", "max_tokens": 99, "system": "Old prompt.", "stream": True, "top_k": 3,
        "stop_sequences": ["\n\nHuman:"], "tool_choice": {"type": "tool", "name": "rain"},
        "tools": [{"name": "rain", "input_schema": {"type": "object"}}],
        "messages": [{"role": role, "content": text} for role, text in said],
    }  # fmt: skip
    turn = post(f"{gateway.url}/v1/messages", json=body).headers["x-request-id"]
    page.goto(f"{gateway.url}/#/turn/{turn}")
    page.get_by_role("link", name="Open in Try it").click()
    expect(page.get_by_label("Your message")).to_have_value("Three")
    expect(page.get_by_text("2 messages before yours")).to_be_visible()
    expect(page.get_by_role("button", name="Messages", exact=True)).to_have_attribute("aria-pressed", "true")
    send_and_wait(page, "Four")
    sent = upstream(gateway)
    assert [row["content"] for row in sent["messages"]] == ["Old prompt.", "One", "Two", "Four"]
    assert sent["tools"][0]["function"]["name"] == "rain"
    assert sent["tool_choice"] == {"type": "function", "function": {"name": "rain"}}
    assert sent["stop"] == ["\n\nHuman:"]
    expect(page.locator(".try-opened li")).to_contain_text(["top_k"])
    assert serious(page, ".try-opened") == []
    page.get_by_text("Settings (").click()
    page.get_by_label("Tools, as JSON").fill("")
    page.get_by_role("button", name="Take the tools of the last request").click()
    expect(page.get_by_label("Tools, as JSON")).to_have_value(json.dumps(sent["tools"], indent=2))


def test_a_gateway_with_keys_is_asked_with_the_key_and_a_phone_has_everything(
    page: Page, shot: Callable[[Page, str], None]
) -> None:
    with inspected(keys={"anna": {"hash": hash_key(SECRET)}}) as running, leaving(page):
        page.goto(f"{running.url}/#key={SECRET}&to=try")
        expect_welcome(page)
        for count, way in enumerate(WAYS, 1):
            page.get_by_role("button", name=way, exact=True).click()
            send_and_wait(page, "How long?", count)
        assert SECRET not in page.url
        assert {row.key for row in running.rows()} == {"anna"}
        page.get_by_text("The request").first.click()
        page.get_by_role("button", name="Copy as…").click()
        copied = page.get_by_role("group", name="What is copied")
        expect(copied).to_contain_text("$PENSTOCK_KEY")
        assert SECRET not in copied.inner_text()
        page.keyboard.press("Escape")
        start_again(page)
        page.set_viewport_size({"width": 390, "height": 844})
        page.locator(".packaged").get_by_role("button", name="citations").click()
        wait_for_answer(page)
        shot(page, "inspector-try-phone")
        look(page)
        expect_fit(page)
        page.get_by_role("group", name="Raw stream").scroll_into_view_if_needed()
        expect(page.get_by_role("button", name="Send")).to_be_in_viewport()
