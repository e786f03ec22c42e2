"""The "Try it" view: a conversation with a model through each client protocol."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from tests.page.axe import serious
from tests.page.try_page import choose_model, hold_first, open_try_view, send_message, wait_for_answer
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


@pytest.fixture(scope="module")
def gateway() -> Iterator[Inspected]:
    with inspected(wired, serve={"pace": 0.004}) as running:
        yield running


@pytest.fixture
def opened(gateway: Inspected, page: Page) -> Page:
    return open_try_view(page, gateway.url)


def test_a_newcomer_sees_a_stream_with_one_click(opened: Page, shot: Callable[[Page, str], None]) -> None:
    expect(opened.get_by_label("Model", exact=True)).to_have_value("replay/reasoning")
    assert serious(opened) == []
    opened.locator(".prompts button").first.click()
    wait_for_answer(opened)
    assert opened.locator(".message .md").inner_text() == ANSWER
    assert "data: [DONE]" in opened.get_by_role("group", name="Raw stream").inner_text()
    assert serious(opened) == []
    opened.get_by_label("Model", exact=True).select_option("replay/citations")
    send_message(opened, "Which turbine for which head?")
    wait_for_answer(opened, 2)
    shot(opened, "inspector-try")


def test_every_client_protocol_streams(opened: Page) -> None:
    for way, words in WAYS.items():
        opened.get_by_role("button", name=way, exact=True).click()
        send_message(opened, "How long?")
        wait_for_answer(opened)
        assert opened.locator(".message .md").inner_text() == ANSWER, way
        assert "Thinking" in opened.locator(".thinking").inner_text(), way
        assert words in opened.get_by_role("group", name="Raw stream").inner_text(), way
        opened.get_by_role("button", name="New conversation").click()
        opened.get_by_role("heading", name="See a stream").wait_for()


def test_the_talk_goes_on_and_the_model_hears_what_was_said(opened: Page, gateway: Inspected) -> None:
    choose_model(opened, "openai-chat/text")
    send_message(opened, "Alpha")
    wait_for_answer(opened)
    said = opened.locator(".message .md").inner_text()
    opened.get_by_role("button", name="Messages", exact=True).click()
    send_message(opened, "Beta")
    wait_for_answer(opened, 2)
    sent = [row["content"] for row in gateway.up.requests[-1].json["messages"]]
    assert [sent[0], sent[-1]] == ["Alpha", "Beta"]
    assert re.sub(r"\W+", "", str(sent[1])) == re.sub(r"\W+", "", said)
    opened.get_by_role("button", name="New conversation").click()
    opened.get_by_role("heading", name="See a stream").wait_for()


def test_calls_pictures_and_faults_are_shown(opened: Page) -> None:
    opened.locator(".packaged").get_by_role("button", name="parallel-tools").click()
    wait_for_answer(opened)
    assert opened.locator(".card").count() == 3
    opened.get_by_label("Model", exact=True).select_option("replay/image")
    send_message(opened, "A picture")
    wait_for_answer(opened, 2)
    assert opened.locator(".file img").evaluate("image => image.naturalWidth") > 0
    opened.get_by_label("Model", exact=True).select_option("replay/error")
    send_message(opened, "Break")
    opened.get_by_role("alert").filter(has_text="overloaded").wait_for()


def test_it_can_be_stopped_by_the_button_and_by_a_key(opened: Page, gateway: Inspected) -> None:
    for press in ("button", "key"):
        choose_model(opened, "anthropic/live-interleaved")
        send_message(opened, f"Stop by {press}")
        opened.locator(".exchange").last.locator(".thinking").wait_for()
        if press == "button":
            opened.get_by_role("button", name="Stop").click()
        else:
            opened.keyboard.press("Escape")
        opened.locator(".exchange").last.get_by_text("You stopped it.").wait_for()
        assert opened.get_by_role("button", name="Send").is_visible()
    assert [row.status for row in gateway.rows()[:2]] == ["cancelled", "cancelled"]


def test_a_refusal_is_said_in_plain_words(opened: Page, problems: list[str]) -> None:
    for count, way in enumerate(WAYS, 1):
        opened.get_by_role("button", name=way, exact=True).click()
        choose_model(opened, "nobody/nothing")
        send_message(opened, "Hello?")
        opened.get_by_role("alert").nth(count - 1).wait_for()
    for said in opened.get_by_role("alert").all_inner_texts():
        assert said.startswith("That did not work.")
        assert "nobody" in said
    assert "404" in opened.locator(".status").inner_text()
    assert all("404" in problem for problem in problems)
    problems.clear()


def test_a_gateway_with_keys_is_asked_with_the_key_and_the_curl_command_has_none(page: Page) -> None:
    secret = "pk-penstock-try-0123456789"
    with inspected(keys={"anna": {"hash": hash_key(secret)}}) as running:
        page.goto(f"{running.url}/#key={secret}&to=try")
        page.get_by_role("heading", name="See a stream").wait_for()
        for count, way in enumerate(WAYS, 1):
            page.get_by_role("button", name=way, exact=True).click()
            send_message(page, "How long?")
            wait_for_answer(page, count)
        assert secret not in page.url
        assert {row.key for row in running.rows()} == {"anna"}
        page.get_by_text("The request").click()
        page.get_by_role("button", name="Copy as…").click()
        copied = page.get_by_role("group", name="What is copied")
        expect(copied).to_contain_text("$PENSTOCK_KEY")
        assert secret not in copied.inner_text()


def test_the_turn_is_one_click_away(opened: Page) -> None:
    send_message(opened, "How long?")
    wait_for_answer(opened)
    opened.get_by_role("link", name="See this turn").click()
    opened.locator(".turn").wait_for()
    assert opened.locator(".turn .message .md").inner_text() == ANSWER


def test_keyboard_alone(opened: Page) -> None:
    opened.get_by_label("Your message").focus()
    opened.keyboard.type("Line one")
    opened.keyboard.press("Shift+Enter")
    opened.keyboard.type("line two")
    opened.keyboard.press("Enter")
    wait_for_answer(opened)
    assert opened.locator(".said").inner_text() == "Line one\nline two"
    opened.locator(".thinking summary").focus()
    opened.keyboard.press("Enter")
    opened.locator(".thinking .md").wait_for()


def test_what_the_request_was_and_how_to_send_it_from_a_terminal(opened: Page) -> None:
    send_message(opened, "it's me")
    wait_for_answer(opened)
    opened.get_by_text("The request").click()
    assert '"replay/reasoning"' in opened.get_by_label("The request's body").inner_text()
    opened.get_by_role("button", name="Copy as…").click()
    copied = opened.get_by_role("group", name="What is copied")
    expect(copied).to_contain_text("curl -N http://127.0.0.1:")
    expect(copied).to_contain_text("it'\\''s me")


def test_a_phone_has_everything(opened: Page, shot: Callable[[Page, str], None]) -> None:
    opened.set_viewport_size({"width": 390, "height": 844})
    opened.locator(".packaged").get_by_role("button", name="citations").click()
    wait_for_answer(opened)
    wide = opened.evaluate("document.documentElement.scrollWidth")
    assert wide <= 390
    assert serious(opened) == []
    shot(opened, "inspector-try-phone")
    opened.get_by_role("group", name="Raw stream").scroll_into_view_if_needed()
    expect(opened.get_by_role("button", name="Send")).to_be_in_viewport()


def test_both_themes(opened: Page) -> None:
    opened.emulate_media(color_scheme="light")
    opened.locator(".prompts button").first.click()
    wait_for_answer(opened)
    assert serious(opened) == []


def test_a_message_is_accepted_before_the_events_of_the_last_answer_are_there(opened: Page, gateway: Inspected) -> None:
    held = hold_first(opened, "**/follow")
    choose_model(opened, "openai-chat/text")
    send_message(opened, "Alpha")
    expect(opened.get_by_role("button", name="Send", exact=True)).to_be_visible()
    expect(opened.get_by_role("status").filter(has_text="The answer is complete.")).to_have_count(1)
    send_message(opened, "Beta")
    expect(opened.locator(".said")).to_have_text(["Alpha", "Beta"])
    wait_for_answer(opened, 2)
    sent = gateway.up.requests[-1].json["messages"]
    assert [row["role"] for row in sent] == ["user", "assistant", "user"]
    assert sent[1]["content"]
    assert len(held) == 1
    held[0].abort()


def test_a_new_conversation_aborts_what_is_being_sent(opened: Page, gateway: Inspected) -> None:
    held = hold_first(opened, "**/inspector/convert?**")
    before = len(gateway.up.requests)
    choose_model(opened, "openai-chat/text")
    with opened.expect_request("**/inspector/convert?**"):
        send_message(opened, "Alpha")
    opened.get_by_role("button", name="New conversation").click()
    send_message(opened, "Beta")
    expect(opened.locator(".said")).to_have_text(["Beta"])
    with opened.expect_response(held[0].request.url):
        held[0].continue_()
    wait_for_answer(opened)
    assert [row["content"] for row in gateway.up.requests[-1].json["messages"]] == ["Beta"]
    assert len(gateway.up.requests) == before + 1
    expect(opened.locator(".said")).to_have_text(["Beta"])
    expect(opened.get_by_label("Your message")).to_have_value("")


def test_the_box_for_a_model_holds_what_is_typed(opened: Page) -> None:
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
