"""Acting on a turn in the page: copy its request, send it again, compare two turns."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest
from playwright.sync_api import expect

from tests.page.appearances import THEMES
from tests.page.axe import serious
from tests.support.client_requests import get, post
from tests.support.inspector import inspected
from tests.support.sample_turns import wired

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from playwright.sync_api import Locator, Page, Request, Route

    from tests.support.inspector import Inspected

LOOKS = "sk-planted0123456789abcdef"
CHAT: dict[str, Any] = {
    "model": "replay/text", "stream": True, "messages": [
        {"role": "system", "content": "Be brief."}, {"role": "user", "content": "How long does it take?"}],
    "seed": 90071992547409931, "temperature": 0.5,
}  # fmt: skip


@pytest.fixture(scope="module")
def gateway() -> Iterator[Inspected]:
    with inspected(wired, serve={"pace": 0.0}) as running:
        yield running


@pytest.fixture
def opened(gateway: Inspected, page: Page) -> Page:
    page.goto(f"{gateway.url}/#/streams")
    expect(page.locator(".streams-foot .live")).to_have_text("live")
    return page


def ask(gateway: Inspected, body: dict[str, Any] | None = None, **changes: Any) -> str:
    answer = post(f"{gateway.url}/v1/chat/completions", json={**(body or CHAT), **changes})
    assert answer.status_code == 200, answer.text
    return str(answer.headers["x-request-id"])


def show_turn(page: Page, gateway: Inspected, turn: str) -> None:
    page.goto(f"{gateway.url}/#/turn/{turn}")
    page.get_by_role("button", name="Copy as…").wait_for()


def editor(page: Page) -> Locator:
    return page.locator(".json-editor-host .cm-content")


def sent_body(gateway: Inspected) -> dict[str, Any]:
    """The body of the newest turn."""
    (row,) = get(f"{gateway.url}/inspector/turns?limit=1").json()["rows"]
    return dict(json.loads(get(f"{gateway.url}/inspector/turns/{row['id']}").json()["request"]))


def test_a_request_is_copied_in_every_form(opened: Page, gateway: Inspected, shot: Callable[[Page, str], None]) -> None:
    turn = ask(gateway, messages=[{"role": "user", "content": f"it's {LOOKS}"}])
    show_turn(opened, gateway, turn)
    opened.context.grant_permissions(["clipboard-read", "clipboard-write"])
    opened.get_by_role("button", name="Copy as…").click()
    dialog = opened.get_by_role("dialog")
    for form, words in (
        ("curl", "curl -N"), ("Python: penstock", "SyncClient"), ("Python: OpenAI", "from openai"),
        ("Python: Anthropic", "from anthropic"), ("TypeScript: AI SDK", 'from "ai"'),
    ):  # fmt: skip
        dialog.get_by_role("button", name=form, exact=True).click()
        expect(dialog.get_by_role("group", name="What is copied")).to_contain_text(words)
        expect(dialog).to_contain_text("[secret] stands where a secret was removed")
        dialog.get_by_role("button", name="Copy", exact=True).click()
        opened.wait_for_function("async words => (await navigator.clipboard.readText()).includes(words)", arg=words)
        copied = opened.evaluate("navigator.clipboard.readText()")
        assert gateway.url in copied
        assert LOOKS not in copied
    assert serious(opened) == []
    shot(opened, "inspector-copy")
    opened.keyboard.press("Escape")
    expect(dialog).to_have_count(0)


def test_a_request_is_edited_and_sent_to_another_model(
    opened: Page, gateway: Inspected, shot: Callable[[Page, str], None]
) -> None:
    turn = ask(gateway)
    show_turn(opened, gateway, turn)
    opened.get_by_role("link", name="Send again").click()
    expect(editor(opened)).to_contain_text("How long does it take?")
    assert serious(opened) == []
    opened.get_by_label("Model", exact=True).select_option("replay/reasoning")
    expect(editor(opened)).to_contain_text('"replay/reasoning"')
    editor(opened).get_by_text("Be brief.").dblclick()
    opened.keyboard.type("terse")
    shot(opened, "inspector-send")
    opened.get_by_role("button", name="Send", exact=True).click()
    expect(opened.get_by_role("heading", name="Two turns compared")).to_be_visible()
    found = re.fullmatch(rf".*#/compare/{turn}/(\w+)", opened.url)
    assert found
    expect(opened.locator(".compare-message .ending-finish")).to_have_count(2)
    figures = opened.get_by_role("group", name="Figures of both turns: table")
    expect(figures.get_by_role("row", name=re.compile("^Model"))).to_contain_text("reasoning")
    requests = opened.get_by_role("group", name="Differences of the requests")
    expect(requests.locator(".diff-line.changed")).to_have_count(2)
    expect(requests.locator("ins").first).to_contain_text("replay/reasoning")
    expect(opened.get_by_role("group", name="Differences of the texts")).to_be_visible()
    assert serious(opened) == []
    shot(opened, "inspector-compare")
    body = sent_body(gateway)
    assert body["seed"] == CHAT["seed"]  # the editor has not rounded it
    assert body["messages"][0]["content"] != "Be brief."
    assert body["model"] == "replay/reasoning"


def posts_to(path: str) -> Callable[[Request], bool]:
    return lambda asked: path in asked.url and asked.method == "POST"


def test_a_request_is_sent_in_another_protocol_and_the_losses_are_shown(opened: Page, gateway: Inspected) -> None:
    turn = ask(gateway)
    opened.goto(f"{gateway.url}/#/send/{turn}")
    expect(editor(opened)).to_contain_text("How long does it take?")
    protocol = opened.get_by_label("Protocol")
    for name, words, path in (
        ("Messages", '"max_tokens"', "/v1/messages"), ("Gemini", '"contents"', ":streamGenerateContent"),
        ("Responses", '"input"', "/v1/responses"), ("VS Code", '"version"', "/vscode/chat"),
    ):  # fmt: skip
        opened.goto(f"{gateway.url}/#/send/{turn}")
        protocol.select_option(label="Chat (as it was sent)")
        protocol.select_option(label=name)
        expect(editor(opened)).to_contain_text(words)
        if name == "Messages":
            expect(opened.locator(".send-said")).to_contain_text("seed")
        if name == "Gemini":
            expect(editor(opened)).to_contain_text(str(CHAT["seed"]))  # all its digits
        with opened.expect_request(posts_to(path)):
            opened.get_by_role("button", name="Send", exact=True).click()
        expect(opened.locator(".compare-message .ending-finish")).to_have_count(2)


def test_an_answer_that_was_not_streamed_is_not_streamed_in_another_protocol(opened: Page, gateway: Inspected) -> None:
    turn = ask(gateway, {"model": "replay/text", "messages": [{"role": "user", "content": "Hello"}]})
    for name, words, path in (
        ("Messages", '"stream": false', "/v1/messages"), ("Responses", '"stream": false', "/v1/responses"),
        ("Gemini", '"contents"', ":generateContent"),
    ):  # fmt: skip
        opened.goto(f"{gateway.url}/#/send/{turn}")
        expect(editor(opened)).to_contain_text("Hello")
        opened.get_by_label("Protocol").select_option(label=name)
        expect(editor(opened)).to_contain_text(words)
        with opened.expect_request(posts_to(path)):
            opened.get_by_role("button", name="Send", exact=True).click()
        expect(opened.locator(".compare-message .ending-finish")).to_have_count(2)


def hold_requests(page: Page, address: str) -> list[Route]:
    """Requests to an address, which wait until the test continues them."""
    held: list[Route] = []

    def hold(route: Route) -> None:
        held.append(route)

    page.route(address, hold)
    return held


def test_an_answer_about_another_request_comes_too_late(opened: Page, gateway: Inspected) -> None:
    slow, fast = (
        ask(gateway, messages=[{"role": "user", "content": words}]) for words in ("The slow one", "The fast one")
    )
    held = hold_requests(opened, f"**/inspector/turns/{slow}")
    opened.goto(f"{gateway.url}/#/send/{slow}")
    expect(opened.get_by_text("Loading the request")).to_be_visible()
    opened.goto(f"{gateway.url}/#/send/{fast}")
    expect(editor(opened)).to_contain_text("The fast one")
    with opened.expect_response(f"**/inspector/turns/{slow}"):
        held[0].continue_()
    opened.get_by_label("Model", exact=True).select_option("replay/reasoning")
    expect(editor(opened)).to_contain_text('"replay/reasoning"')
    expect(editor(opened)).to_contain_text("The fast one")


def test_a_request_that_is_sent_moves_nobody_who_has_left(opened: Page, gateway: Inspected) -> None:
    turn = ask(gateway)
    held = hold_requests(opened, "**/v1/chat/completions")
    opened.goto(f"{gateway.url}/#/send/{turn}")
    expect(editor(opened)).to_contain_text("How long does it take?")
    opened.get_by_role("button", name="Send", exact=True).click()
    expect(opened.get_by_role("button", name="Sending")).to_be_visible()
    opened.get_by_role("link", name="Usage").click()
    with opened.expect_response("**/v1/chat/completions") as answered:
        held[0].continue_()
    answered.value.finished()
    opened.evaluate("new Promise(requestAnimationFrame)")
    assert opened.url.endswith("#/usage")


def test_headers_that_change_the_meaning_are_sent_again_or_named(opened: Page, gateway: Inspected) -> None:
    body = {"model": "replay/text", "max_tokens": 9, "stream": True, "messages": [{"role": "user", "content": "hi"}]}
    beta, own = {"anthropic-beta": "context-1m"}, {"x-penstock-strict": "false"}
    turn = post(f"{gateway.url}/v1/messages", json=body, headers={**beta, **own}).headers["x-request-id"]
    for protocol, path, named in ((None, "/v1/messages", 0), ("Chat", "/v1/chat/completions", 1)):
        opened.goto(f"{gateway.url}/#/send/{turn}")
        expect(editor(opened)).to_contain_text("replay/text")
        if protocol:
            opened.get_by_label("Protocol").select_option(label=protocol)
        words = opened.get_by_text("Headers of the original that are not sent: anthropic-beta.")
        expect(words).to_have_count(named)
        with opened.expect_request(posts_to(path)) as asked:
            opened.get_by_role("button", name="Send", exact=True).click()
        sent = asked.value.headers
        assert sent["x-penstock-strict"] == "false"
        assert sent.get("anthropic-beta") == (None if protocol else "context-1m")
        expect(opened.locator(".compare-message .ending-finish")).to_have_count(2)


def test_the_editor_completes_and_checks(opened: Page, gateway: Inspected) -> None:
    turn = ask(gateway, {"model": "replay/text", "messages": [{"role": "user", "content": "Hello"}]})
    opened.goto(f"{gateway.url}/#/send/{turn}")
    expect(editor(opened)).to_contain_text("Hello")
    editor(opened).click()
    opened.keyboard.press("Control+End")
    opened.keyboard.press("ArrowLeft")
    opened.keyboard.press("ArrowLeft")
    opened.keyboard.type(',\n  "reas')
    option = opened.locator(".cm-tooltip-autocomplete li").filter(has_text="reasoning_effort")
    option.wait_for()
    option.click()
    opened.keyboard.type('"m')
    opened.locator(".cm-tooltip-autocomplete li").filter(has_text="minimal").click()
    expect(editor(opened)).to_contain_text('"reasoning_effort": "minimal"')
    expect(opened.locator(".cm-lintRange-error")).to_have_count(0)
    opened.keyboard.type(',\n"temperature": "hot"')
    expect(opened.locator(".cm-lintRange-error")).to_have_text('"hot"')
    assert serious(opened) == []


@pytest.mark.parametrize("loads", [True, False])
def test_a_long_request_is_whole_in_the_editor_and_short_while_that_is_loaded(
    opened: Page, gateway: Inspected, problems: list[str], loads: bool
) -> None:
    """A text box with a megabyte would take seconds to be laid out."""
    turn = ask(gateway, messages=[{"role": "user", "content": f"{'wide water ' * 10_000}the end"}])
    held = hold_requests(opened, "**/assets/editor-*.js")
    opened.goto(f"{gateway.url}/#/send/{turn}")
    box = opened.get_by_label("The request's body")
    expect(box).to_have_attribute("readonly", "")
    assert len(box.input_value()) == 20_000
    expect(opened.locator(".json-editor")).to_contain_text("The editor is loading")
    (route,) = held
    if loads:
        route.continue_()
        expect(editor(opened)).to_contain_text("wide water")
    else:
        route.abort()
        expect(opened.locator(".json-editor")).to_contain_text("The editor could not be loaded")
        assert "the end" in box.input_value()
        problems[:] = [problem for problem in problems if "editor-" not in problem]
    with opened.expect_request(posts_to("/v1/chat/completions")) as posted:
        opened.get_by_role("button", name="Send", exact=True).click()
    assert "the end" in str(posted.value.post_data)


def test_a_refused_request_stays_in_the_editor(opened: Page, gateway: Inspected, problems: list[str]) -> None:
    turn = ask(gateway)
    opened.goto(f"{gateway.url}/#/send/{turn}")
    expect(editor(opened)).to_contain_text("How long does it take?")
    opened.get_by_label("Model", exact=True).select_option("")
    opened.get_by_label("Name of the model").fill("nobody/nothing")
    opened.get_by_role("button", name="Send", exact=True).click()
    expect(opened.locator(".send-error")).to_contain_text("nobody")
    expect(editor(opened)).to_contain_text('"nobody/nothing"')
    assert all("404" in problem for problem in problems)
    problems.clear()


def test_two_turns_of_the_list_are_compared(opened: Page, gateway: Inspected) -> None:
    one, two = ask(gateway, model="replay/parallel-tools"), ask(gateway, model="replay/agent")
    opened.locator(f"#row-{two}").wait_for()
    opened.get_by_role("button", name="Compare", exact=True).click()
    expect(opened.locator(".mark-bar")).to_have_text(re.compile("Choose the first"))
    opened.locator(f"#row-{one}").click()
    expect(opened.locator(".mark-bar")).to_contain_text("replay/parallel-tools")
    opened.locator(f"#row-{two}").click()
    expect(opened).to_have_url(re.compile(rf"#/compare/{one}/{two}$"))
    expect(opened.get_by_role("group", name="Differences of the calls")).to_be_visible()
    opened.get_by_role("link", name="Swap").click()
    expect(opened).to_have_url(re.compile(rf"#/compare/{two}/{one}$"))


def test_a_turn_is_compared_with_one_of_the_list_by_keys(opened: Page, gateway: Inspected) -> None:
    one, two = ask(gateway), ask(gateway)
    show_turn(opened, gateway, one)
    opened.get_by_role("button", name="Compare with…").click()
    opened.locator(f"#row-{two}").wait_for()
    opened.keyboard.press("Escape")
    expect(opened.locator(".mark-bar")).to_have_count(0)
    opened.keyboard.press("g")
    opened.keyboard.press("m")
    opened.keyboard.press("j")
    opened.keyboard.press("m")
    expect(opened).to_have_url(re.compile(rf"#/compare/{two}/{one}$"))
    expect(opened.get_by_text("Both requests are the same.")).to_be_visible()
    expect(opened.get_by_text("Both texts are the same.")).to_be_visible()


@pytest.mark.parametrize("theme", THEMES)
def test_the_views_on_a_phone(opened: Page, gateway: Inspected, shot: Callable[[Page, str], None], theme: Any) -> None:
    opened.emulate_media(color_scheme=theme)
    one, two = ask(gateway), ask(gateway, model="replay/reasoning", temperature=1)
    for width in (390, 1400):
        opened.set_viewport_size({"width": width, "height": 844})
        for name, view in (("send", f"send/{one}"), ("compare", f"compare/{one}/{two}")):
            opened.goto(f"{gateway.url}/#/{view}")
            ready = editor(opened) if name == "send" else opened.get_by_role("group", name="Differences of the texts")
            expect(ready).to_be_visible()
            assert opened.evaluate("document.documentElement.scrollWidth") <= width
            assert serious(opened) == []
            shot(opened, f"act-{name}-{width}-{theme}")
        show_turn(opened, gateway, one)
        opened.get_by_role("button", name="Copy as…").click()
        expect(opened.get_by_role("group", name="What is copied")).to_be_visible()
        assert serious(opened) == []
        shot(opened, f"act-copy-{width}-{theme}")
        opened.keyboard.press("Escape")
        shot(opened, f"act-turn-{width}-{theme}")
