"""Acting on a turn: copy its request, send it again, compare two turns."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Literal

import pytest
from playwright.sync_api import expect

from tests.page.axe import serious
from tests.page.steps import appearances, clipboard, drop_problems, expect_fit, hold, look, open_list, posts_to
from tests.support.client_requests import post
from tests.support.inspector import inspected
from tests.support.sample_turns import wired

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from playwright.sync_api import Locator, Page

    from tests.support.inspector import Inspected

LOOKS = "sk-planted0123456789abcdef"
CHAT: dict[str, Any] = {
    "model": "replay/text", "stream": True, "messages": [
        {"role": "system", "content": "Be brief."}, {"role": "user", "content": "How long does it take?"}],
    "seed": 90071992547409931, "temperature": 0.5,
}  # fmt: skip
HELLO = {"model": "replay/text", "messages": [{"role": "user", "content": "Hello"}]}
FORMS = {
    "curl": "curl -N", "Python: penstock": "SyncClient", "Python: OpenAI": "from openai",
    "Python: Anthropic": "from anthropic", "TypeScript: AI SDK": 'from "ai"',
}  # fmt: skip


@pytest.fixture(scope="module")
def gateway() -> Iterator[Inspected]:
    with inspected(wired) as running:
        yield running


@pytest.fixture
def opened(gateway: Inspected, page: Page) -> Page:
    open_list(page, gateway)
    return page


def ask(gateway: Inspected, body: dict[str, Any] | None = None, **changes: Any) -> str:
    answer = post(f"{gateway.url}/v1/chat/completions", json={**(body or CHAT), **changes})
    assert answer.status_code == 200, answer.text
    return str(answer.headers["x-request-id"])


def show_turn(page: Page, gateway: Inspected, turn: str) -> None:
    page.goto(f"{gateway.url}/#/turn/{turn}")
    page.get_by_role("button", name="Copy as…").wait_for()


def edit_turn(page: Page, gateway: Inspected, turn: str, words: str = "How long does it take?") -> Locator:
    page.goto("about:blank")
    page.goto(f"{gateway.url}/#/send/{turn}")
    editor = page.locator(".json-editor-host .cm-content")
    expect(editor).to_contain_text(words)
    return editor


def send(page: Page, path: str) -> Any:
    """Send what is in the editor; the request of the page, once both turns are compared."""
    with page.expect_request(posts_to(path)) as asked:
        page.get_by_role("button", name="Send", exact=True).click()
    expect(page.locator(".compare-message .ending-finish")).to_have_count(2)
    return asked.value


def test_a_request_is_copied_in_every_form_without_its_secret(
    opened: Page, gateway: Inspected, shot: Callable[[Page, str], None]
) -> None:
    show_turn(opened, gateway, ask(gateway, messages=[{"role": "user", "content": f"it's {LOOKS}"}]))
    opened.get_by_role("button", name="Copy as…").click()
    dialog = opened.get_by_role("dialog")
    for form, words in FORMS.items():
        dialog.get_by_role("button", name=form, exact=True).click()
        expect(dialog.get_by_role("group", name="What is copied")).to_contain_text(words)
        expect(dialog).to_contain_text("[secret] stands where a secret was removed")
        dialog.get_by_role("button", name="Copy", exact=True).click()
        opened.wait_for_function("async words => (await navigator.clipboard.readText()).includes(words)", arg=words)
        assert gateway.url in clipboard(opened)
        assert LOOKS not in clipboard(opened)
    assert serious(opened, "dialog[open]") == []
    shot(opened, "inspector-copy")
    opened.keyboard.press("Escape")
    expect(dialog).to_have_count(0)


def test_a_request_is_edited_sent_to_another_model_and_compared(
    opened: Page, gateway: Inspected, problems: list[str], shot: Callable[[Page, str], None]
) -> None:
    turn = ask(gateway)
    show_turn(opened, gateway, turn)
    opened.get_by_role("link", name="Send again").click()
    editor = opened.locator(".json-editor-host .cm-content")
    expect(editor).to_contain_text("How long does it take?")
    assert serious(opened) == []
    opened.get_by_label("Model", exact=True).select_option("")
    opened.get_by_label("Name of the model").fill("nobody/nothing")
    opened.get_by_role("button", name="Send", exact=True).click()
    expect(opened.locator(".send-error")).to_contain_text("nobody")
    expect(editor).to_contain_text('"nobody/nothing"')  # what is refused stays
    drop_problems(problems, "404")
    opened.get_by_label("Model", exact=True).select_option("replay/reasoning")
    expect(editor).to_contain_text('"replay/reasoning"')
    editor.get_by_text("Be brief.").dblclick()
    opened.keyboard.type("terse")
    shot(opened, "inspector-send")
    body = send(opened, "/v1/chat/completions").post_data
    expect(opened.get_by_role("heading", name="Two turns compared")).to_be_visible()
    assert re.fullmatch(rf".*#/compare/{turn}/(\w+)", opened.url)
    figures = opened.get_by_role("group", name="Figures of both turns: table")
    expect(figures.get_by_role("row", name=re.compile("^Model"))).to_contain_text("reasoning")
    requests = opened.get_by_role("group", name="Differences of the requests")
    expect(requests.locator(".diff-line.changed")).to_have_count(2)
    expect(requests.locator("ins").first).to_contain_text("replay/reasoning")
    expect(opened.get_by_role("group", name="Differences of the texts")).to_be_visible()
    assert serious(opened) == []
    shot(opened, "inspector-compare")
    assert str(CHAT["seed"]) in body  # the editor has not rounded it
    assert "Be brief." not in body
    assert '"replay/reasoning"' in body
    # The editor completes and checks.
    editor = edit_turn(opened, gateway, ask(gateway, HELLO), "Hello")
    editor.click()
    opened.keyboard.press("Control+End")
    opened.keyboard.press("ArrowLeft")
    opened.keyboard.press("ArrowLeft")
    opened.keyboard.type(',\n  "reas')
    opened.locator(".cm-tooltip-autocomplete li").filter(has_text="reasoning_effort").click()
    opened.keyboard.type('"m')
    opened.locator(".cm-tooltip-autocomplete li").filter(has_text="minimal").click()
    expect(editor).to_contain_text('"reasoning_effort": "minimal"')
    expect(opened.locator(".cm-lintRange-error")).to_have_count(0)
    opened.keyboard.type(',\n"temperature": "hot"')
    expect(opened.locator(".cm-lintRange-error")).to_have_text('"hot"')
    assert serious(opened, ".json-editor") == []


STREAMED = {
    "Messages": ('"max_tokens"', "/v1/messages"), "Gemini": ('"contents"', ":streamGenerateContent"),
    "Responses": ('"input"', "/v1/responses"), "VS Code": ('"version"', "/vscode/chat"),
}  # fmt: skip
WHOLE = {
    "Messages": ('"stream": false', "/v1/messages"), "Responses": ('"stream": false', "/v1/responses"),
    "Gemini": ('"contents"', ":generateContent"),
}  # fmt: skip


def test_a_request_is_sent_in_another_protocol_and_what_is_lost_is_named(opened: Page, gateway: Inspected) -> None:
    turn, protocol = ask(gateway), opened.get_by_label("Protocol")
    for name, (words, path) in STREAMED.items():
        editor = edit_turn(opened, gateway, turn)
        protocol.select_option(label="Chat (as it was sent)")
        protocol.select_option(label=name)
        expect(editor).to_contain_text(words)
        if name == "Messages":
            expect(opened.locator(".send-said")).to_contain_text("seed")
        if name == "Gemini":
            expect(editor).to_contain_text(str(CHAT["seed"]))  # all its digits
        send(opened, path)
    turn = ask(gateway, HELLO)
    for name, (words, path) in WHOLE.items():  # an answer that was not streamed is not streamed now
        editor = edit_turn(opened, gateway, turn, "Hello")
        protocol.select_option(label=name)
        expect(editor).to_contain_text(words)
        send(opened, path)
    # Headers that change the meaning are sent again or named.
    body = {"model": "replay/text", "max_tokens": 9, "stream": True, "messages": [{"role": "user", "content": "hi"}]}
    headers = {"anthropic-beta": "context-1m", "x-penstock-strict": "false"}
    turn = post(f"{gateway.url}/v1/messages", json=body, headers=headers).headers["x-request-id"]
    for other, path in (("", "/v1/messages"), ("Chat", "/v1/chat/completions")):
        edit_turn(opened, gateway, turn, "replay/text")
        if other:
            protocol.select_option(label=other)
        said = opened.get_by_text("Headers of the original that are not sent: anthropic-beta.")
        expect(said).to_have_count(1 if other else 0)
        sent = send(opened, path).headers
        assert sent["x-penstock-strict"] == "false"
        assert sent.get("anthropic-beta") == (None if other else "context-1m")


def test_what_comes_late_changes_nothing_and_long_requests_are_sent_whole(
    opened: Page, gateway: Inspected, problems: list[str]
) -> None:
    slow, fast = (
        ask(gateway, messages=[{"role": "user", "content": words}]) for words in ("The slow one", "The fast one")
    )
    held = hold(opened, f"**/inspector/turns/{slow}")
    opened.goto(f"{gateway.url}/#/send/{slow}")
    expect(opened.get_by_text("Loading the request")).to_be_visible()
    opened.goto(f"{gateway.url}/#/send/{fast}")
    editor = opened.locator(".json-editor-host .cm-content")
    expect(editor).to_contain_text("The fast one")
    with opened.expect_response(f"**/inspector/turns/{slow}"):
        held[0].continue_()
    opened.get_by_label("Model", exact=True).select_option("replay/reasoning")
    expect(editor).to_contain_text('"replay/reasoning"')
    expect(editor).to_contain_text("The fast one")
    # A request that is sent moves nobody who has left.
    held = hold(opened, "**/v1/chat/completions", times=1)
    opened.get_by_role("button", name="Send", exact=True).click()
    expect(opened.get_by_role("button", name="Sending")).to_be_visible()
    opened.get_by_role("link", name="Usage").click()
    with opened.expect_response("**/v1/chat/completions") as answered:
        held[0].continue_()
    answered.value.finished()
    opened.evaluate("new Promise(requestAnimationFrame)")
    assert opened.url.endswith("#/usage")
    # A text box with a megabyte would take seconds to be laid out: it is short until the editor is loaded.
    turn = ask(gateway, messages=[{"role": "user", "content": f"{'wide water ' * 10_000}the end"}])
    box = opened.get_by_label("The request's body")
    for loads in (True, False):
        opened.goto("about:blank")
        held = hold(opened, "**/assets/editor-*.js", times=1)
        opened.goto(f"{gateway.url}/#/send/{turn}")
        expect(box).to_have_attribute("readonly", "")
        assert len(box.input_value()) == 20_000
        expect(opened.locator(".json-editor")).to_contain_text("The editor is loading")
        if loads:
            held[0].continue_()
            expect(editor).to_contain_text("wide water")
        else:
            held[0].abort()
            expect(opened.locator(".json-editor")).to_contain_text("The editor could not be loaded")
            assert "the end" in box.input_value()
            drop_problems(problems, "editor-")
        with opened.expect_request(posts_to("/v1/chat/completions")) as posted:
            opened.get_by_role("button", name="Send", exact=True).click()
        assert "the end" in str(posted.value.post_data)


def test_two_turns_of_the_list_are_compared_by_mouse_and_keys(opened: Page, gateway: Inspected) -> None:
    one, two = ask(gateway, model="replay/parallel-tools"), ask(gateway, model="replay/agent")
    bar = opened.locator(".mark-bar")
    opened.locator(f"#row-{two}").wait_for()
    opened.get_by_role("button", name="Compare", exact=True).click()
    expect(bar).to_have_text(re.compile("Choose the first"))
    opened.locator(f"#row-{one}").click()
    expect(bar).to_contain_text("replay/parallel-tools")
    opened.locator(f"#row-{two}").click()
    expect(opened).to_have_url(re.compile(rf"#/compare/{one}/{two}$"))
    expect(opened.get_by_role("group", name="Differences of the calls")).to_be_visible()
    opened.get_by_role("link", name="Swap").click()
    expect(opened).to_have_url(re.compile(rf"#/compare/{two}/{one}$"))
    one, two = ask(gateway), ask(gateway)
    show_turn(opened, gateway, one)
    opened.get_by_role("button", name="Compare with…").click()
    opened.locator(f"#row-{two}").wait_for()
    opened.keyboard.press("Escape")
    expect(bar).to_have_count(0)
    for key in "gmjm":
        opened.keyboard.press(key)
    expect(opened).to_have_url(re.compile(rf"#/compare/{two}/{one}$"))
    expect(opened.get_by_text("Both requests are the same.")).to_be_visible()
    expect(opened.get_by_text("Both texts are the same.")).to_be_visible()


@appearances
def test_the_views_fit(opened: Page, gateway: Inspected, theme: Literal["dark", "light"], width: int) -> None:
    look(opened, theme, width)
    one, two = ask(gateway), ask(gateway, model="replay/reasoning", temperature=1)
    edit_turn(opened, gateway, one)
    expect_fit(opened)
    opened.goto(f"{gateway.url}/#/compare/{one}/{two}")
    expect(opened.get_by_role("group", name="Differences of the texts")).to_be_visible()
    expect_fit(opened)
    show_turn(opened, gateway, one)
    opened.get_by_role("button", name="Copy as…").click()
    expect(opened.get_by_role("group", name="What is copied")).to_be_visible()
    expect_fit(opened)
