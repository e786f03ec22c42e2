"""Both halves of a request in a real browser: tabs, tree, differences, losses, tries, and the prompt as a conversation."""

from __future__ import annotations

import base64
import json
import re
import struct
import threading
import zlib
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal

import pytest
from playwright.sync_api import expect

from tests.page.appearances import THEMES
from tests.page.axe import serious
from tests.support.client_requests import post
from tests.support.event_feed import watching
from tests.support.paused_upstream import LIMIT, PausedUpstream, stream_halves
from tests.support.request_turns import PLANTED, THINKING, UPSTREAM_KEY, ask_messages, watched_gateway

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from http.server import BaseHTTPRequestHandler

    from playwright.sync_api import Locator, Page

    from tests.support.inspector import Inspected


def _chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def _png(width: int, height: int) -> bytes:
    """A picture that a browser can show: one colour."""
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    rows = (b"\0" + b"\x2a\x7f\x93" * width) * height
    return b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", head) + _chunk(b"IDAT", zlib.compress(rows)) + _chunk(b"IEND", b"")


PICTURE = {"type": "base64", "media_type": "image/png", "data": base64.b64encode(_png(64, 48)).decode()}
CACHED = {"type": "ephemeral"}
TOOL = {
    "name": "read_gauge",
    "description": "Reads the height of the water at a station.",
    "input_schema": {
        "type": "object",
        "properties": {
            "station": {"type": "integer", "description": "The number of the station."},
            "units": {"enum": ["m", "ft"]},
        },
        "required": ["station"],
    },
}
QUESTION = {"role": "user", "content": "How high is the water behind the gate at station four?"}
CALL = {
    "role": "assistant",
    "content": [{"type": "tool_use", "id": "t1", "name": "read_gauge", "input": {"station": 4}}],
}
RESULT = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "2.71 m, and rising"}]}
LOOK = {"role": "user", "content": [{"type": "image", "source": PICTURE}, {"type": "text", "text": "And here?"}]}
SYSTEM = [{"type": "text", "text": "You watch the gates of a canal. " * 80, "cache_control": CACHED}]
AGENT: dict[str, Any] = {"system": SYSTEM, "tools": [TOOL], "messages": [QUESTION, CALL, RESULT, LOOK]}


@pytest.fixture(scope="module")
def gateway() -> Iterator[Inspected]:
    with watched_gateway() as running:
        yield running


def open_request(page: Page, gateway: Inspected, name: str, tab: str = "") -> Page:
    page.goto("about:blank")
    page.goto(f"{gateway.url}/#/turn/{name}?view=request{f'&tab={tab}' if tab else ''}")
    page.get_by_role("tab", name="Client request").wait_for()
    return page


def tree(page: Page) -> Locator:
    return page.get_by_role("tree")


def item(page: Page, place: str) -> Locator:
    return page.locator(f'[data-place="{place}"]')


# ── client, canonical, upstream ───────────────────────────────────────────────────────────────────


def test_the_three_forms_of_a_request(page: Page, gateway: Inspected) -> None:
    name = ask_messages(gateway, "openai-chat/text", system="Be brief.", **THINKING)
    open_request(page, gateway, name, "client")
    expect(page.locator(".request-line")).to_have_text("POST /v1/messages")
    expect(item(page, "/system")).to_contain_text('"Be brief."')
    page.get_by_role("tab", name="Canonical").click()
    expect(item(page, "/settings/top_k")).to_contain_text("5")
    page.get_by_role("tab", name="Upstream request").click()
    expect(page.locator(".request-line")).to_have_text(f"POST {gateway.up.url}/openai-chat/chat/completions")
    expect(item(page, "/messages/0/role")).to_contain_text("system")


def test_all_digits_of_long_numbers_are_shown(page: Page, gateway: Inspected) -> None:
    most = 18446744073709551615
    schema = {"type": "object", "properties": {"level": {"type": "integer", "maximum": most}}}
    name = ask_messages(gateway, "openai-chat/text", tools=[{"name": "read_gauge", "input_schema": schema}])
    open_request(page, gateway, name, "canonical")
    place = "/tools/0/schema/properties/level/maximum"
    expect(item(page, place)).to_contain_text(str(most))
    page.get_by_role("button", name="upstream request", exact=True).click()
    expect(page.locator('.diff-row[data-change="changed"]').filter(has_text="maximum")).to_have_count(0)
    expect(page.locator(".diff-counts")).to_be_visible()


def test_headers_are_shown_without_secrets(page: Page, gateway: Inspected) -> None:
    open_request(page, gateway, ask_messages(gateway, "openai-chat/text", {"cookie": f"s={PLANTED}"}), "client")
    page.get_by_role("button", name="Show request headers").click()
    headers = page.get_by_role("region", name="Request headers")
    expect(headers).to_contain_text("user-agent")
    expect(headers).to_contain_text("cookie[secret]")
    page.get_by_role("tab", name="Upstream request").click()
    page.get_by_role("button", name="Show request headers").click()
    expect(page.get_by_role("region", name="Request headers")).to_contain_text("authorization[secret]")


def test_losses_are_explained_and_marked_in_place(
    page: Page, gateway: Inspected, shot: Callable[[Page, str], None]
) -> None:
    page.set_viewport_size({"width": 1400, "height": 860})
    open_request(page, gateway, ask_messages(gateway, "openai-chat/text", system="Be brief.", **THINKING), "upstream")
    losses = page.locator(".loss")
    expect(losses).to_have_count(2)
    expect(losses.first).to_contain_text("a setting that does not exist here is left out: top_k")
    expect(item(page, "/reasoning_effort").locator(".tree-mark")).to_have_text("changed")
    shot(page, "inspector-request")
    page.get_by_role("button", name="/top_k in the client's request").click()
    expect(page.get_by_role("tab", name="Client request")).to_have_attribute("aria-selected", "true")
    expect(item(page, "/top_k")).to_have_attribute("aria-selected", "true")
    expect(page.get_by_role("region", name="Chosen value")).to_contain_text("left out: top_k")


def test_losses_are_whole_on_a_phone(page: Page, gateway: Inspected, shot: Callable[[Page, str], None]) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    open_request(page, gateway, ask_messages(gateway, "openai-chat/text", system="Be brief.", **THINKING), "upstream")
    expect(page.locator(".loss")).to_have_count(2)
    shot(page, "check-losses-phone")
    cut = """(boxes) => boxes.filter((box) => {
        const around = box.closest(".request-pane").getBoundingClientRect();
        return box.getBoundingClientRect().right > around.right || box.scrollWidth > box.clientWidth
            || box.scrollHeight > box.clientHeight;
    }).length"""
    assert page.locator(".losses, .loss").evaluate_all(cut) == 0


def test_neighbours_are_compared(page: Page, gateway: Inspected, shot: Callable[[Page, str], None]) -> None:
    page.set_viewport_size({"width": 1400, "height": 860})
    open_request(page, gateway, ask_messages(gateway, "openai-chat/text", system="Be brief.", **THINKING), "upstream")
    page.get_by_role("button", name="client request", exact=True).click()
    expect(page.locator(".diff-counts")).to_contain_text(re.compile(r"\d+ added.*\d+ removed.*\d+ moved"))
    expect(page.locator('.diff-row[data-change="removed"]').filter(has_text="top_k: 5")).to_be_visible()
    moved = page.get_by_role("button", name="moved to /messages/0/content")
    expect(moved).to_contain_text("Be brief.")
    moved.click()
    expect(page.get_by_role("region", name="Chosen values")).to_contain_text("Be brief.")
    shot(page, "inspector-request-diff")
    page.get_by_role("button", name="canonical", exact=True).click()
    expect(page.locator(".diff-head")).to_contain_text("Canonical")


# ── tries ─────────────────────────────────────────────────────────────────────────────────────────


def test_a_failed_turn_shows_what_the_provider_answered(page: Page, gateway: Inspected) -> None:
    name = ask_messages(gateway, "openai-chat/broken")
    page.goto(f"{gateway.url}/#/turn/{name}")
    answered = page.get_by_role("region", name="What the provider answered to try 1")
    expect(answered).to_contain_text('"message": "the boiler is cold"')
    expect(answered.locator(".pretty-line").nth(1)).to_contain_text('"error"')  # on lines of its own
    one = page.get_by_role("listitem", name="Try 1")
    expect(one).to_contain_text("status 500")
    page.get_by_role("tab", name="About").click()
    expect(page.locator(".about")).to_contain_text("provideropenai-chat")
    expect(page.locator(".decisions")).to_contain_text("give-up: it was asked often enough")
    page.get_by_role("link", name="Request", exact=True).click()
    expect(page.get_by_role("tab", name="Tries")).to_have_attribute("aria-selected", "true")


def test_a_fallback_shows_each_try_with_its_decision_and_times(
    page: Page, gateway: Inspected, shot: Callable[[Page, str], None]
) -> None:
    page.set_viewport_size({"width": 1400, "height": 860})
    open_request(page, gateway, ask_messages(gateway, "either"), "tries")
    first, second = (page.get_by_role("listitem", name=f"Try {number}") for number in (1, 2))
    expect(first).to_contain_text("text at anthropic is next")
    expect(first.get_by_role("region", name="What was decided then")).to_contain_text("fallback")
    expect(second).to_contain_text("status 200")
    for one in (first, second):
        expect(one.locator(".timing")).to_contain_text("first byte after")
    shot(page, "inspector-request-tries")
    first.get_by_role("button", name="Show its request").click()
    expect(page.get_by_role("tab", name="Upstream request")).to_have_attribute("aria-selected", "true")
    expect(page.locator(".request-line")).to_contain_text("/openai-chat/chat/completions")
    page.get_by_role("button", name="2. anthropic").click()
    expect(page.locator(".request-line")).to_contain_text("/anthropic/")


def test_a_timeout_and_a_refused_key(page: Page, gateway: Inspected) -> None:
    open_request(page, gateway, ask_messages(gateway, "openai-chat/stuck"))
    expect(page.get_by_role("listitem", name="Try 1")).to_contain_text("timed out")
    expect(page.locator(".timing")).to_contain_text("failed after")
    open_request(page, gateway, ask_messages(gateway, "openai-chat/locked"))
    expect(page.get_by_role("listitem", name="Try 1")).to_contain_text("status 401")
    expect(page.locator(".error-body")).to_contain_text("Incorrect API key provided: [secret]")


def test_a_try_of_an_engine_without_http_ends(page: Page, gateway: Inspected) -> None:
    open_request(page, gateway, ask_messages(gateway, "replay/text"), "tries")
    one = page.get_by_role("listitem", name="Try 1")
    expect(one.locator(".badge")).to_have_text("ended")
    expect(one).to_contain_text("The engine replay sends no HTTP request.")
    expect(one.locator(".timing")).to_contain_text("ended after")


class PausedTries(PausedUpstream):
    """An upstream that waits before each step: Chat fails, Messages answers, one half and then the other."""

    def __init__(self) -> None:
        self.fail, self.start, self.finish = (threading.Event() for _ in range(3))
        super().__init__(self.fail, self.start, self.finish)

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        if request.path.startswith("/openai-chat"):
            self.fail.wait(LIMIT)
            request.send_error(500)
        else:
            self.start.wait(LIMIT)
            stream_halves(request, "anthropic", self.finish)


@contextmanager
def paused_tries() -> Iterator[tuple[Inspected, PausedTries, str]]:
    """A gateway, its upstream, and the id of a turn whose first try waits."""
    with PausedTries() as upstream, watched_gateway(at=upstream.url, options={}) as gateway:
        body = {"model": "either", "stream": True, "max_tokens": 200, "messages": [QUESTION]}
        asking = threading.Thread(target=post, args=(f"{gateway.url}/v1/messages",), kwargs={"json": body})
        with watching(gateway.url) as reader:
            asking.start()
            (row,) = reader.until(lambda: [row for row in reader.rows.values() if row["provider"]])
        yield gateway, upstream, row["id"]
        upstream.open_all()
        asking.join(LIMIT)
        assert not asking.is_alive()


def test_the_tries_of_a_turn_are_shown_as_they_go(page: Page) -> None:
    with paused_tries() as (gateway, upstream, name):
        page.goto(f"{gateway.url}/#/turn/{name}")
        first, second = (page.get_by_role("listitem", name=f"Try {number}") for number in (1, 2))
        expect(first.locator(".badge")).to_have_text("running")
        upstream.fail.set()
        expect(first.locator(".badge")).to_have_text("status 500")
        expect(second.locator(".badge")).to_have_text("running")
        upstream.start.set()
        page.get_by_role("tab", name="Tries").click()
        expect(page.locator(".turn-head")).to_contain_text("streaming")
        expect(first.locator(".badge")).to_have_text("status 500")
        expect(second.locator(".badge")).to_have_text("status 200")


def test_the_request_of_a_turn_that_waits(page: Page) -> None:
    with paused_tries() as (gateway, upstream, name):
        open_request(page, gateway, name)
        expect(page.get_by_role("tab", name="Prompt")).to_have_attribute("aria-selected", "true")
        expect(page.locator(".prompt-messages")).to_contain_text("How high is the water")
        expect(page.locator(".prompt-totals")).to_contain_text("of it is estimated")
        page.get_by_role("tab", name="Client request").click()
        expect(page.locator(".request-line")).to_have_text("POST /v1/messages")
        page.get_by_role("tab", name="Upstream request").click()
        expect(page.locator(".request-line")).to_contain_text("/openai-chat/chat/completions")
        upstream.fail.set()
        expect(page.get_by_role("tab", name="Tries (2)")).to_be_visible()
        expect(page.locator(".request-line")).to_contain_text("/openai-chat/chat/completions")
        page.get_by_role("button", name="2. anthropic").click()
        expect(page.locator(".request-line")).to_contain_text("/anthropic/")
        page.get_by_role("tab", name="Prompt").click()
        upstream.start.set()
        upstream.finish.set()
        totals = page.locator(".prompt-totals")
        expect(totals).to_contain_text("11 input tokens")
        expect(totals).not_to_contain_text("of it is estimated")


# ── notes ─────────────────────────────────────────────────────────────────────────────────────────


def test_the_notes_have_the_losses_of_the_request(page: Page, gateway: Inspected) -> None:
    name = ask_messages(gateway, "openai-chat/text", **THINKING)
    page.goto(f"{gateway.url}/#/turn/{name}")
    page.get_by_role("tab", name="Notes (2)").click()
    panel = page.get_by_role("tabpanel")
    expect(panel).to_contain_text("left out: top_k")
    expect(panel).to_contain_text("/thinking/budget_tokens in the client's request")
    other = ask_messages(gateway, "openai-chat/text")
    page.goto(f"{gateway.url}/#/turn/{other}")
    page.get_by_role("tab", name="Notes", exact=True).click()
    expect(page.get_by_role("tabpanel")).to_contain_text("Nothing of the request was lost or repaired.")


def test_the_notes_say_not_known_where_nothing_was_kept(page: Page, gateway: Inspected) -> None:
    stream = (
        b'data: {"id":"1","choices":[{"index":0,"delta":{"content":"Hi"},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
    )
    page.goto(f"{gateway.url}/#/file")
    page.locator("input[type=file]").set_input_files({"name": "a.sse", "mimeType": "text/plain", "buffer": stream})
    page.get_by_role("tab", name="Notes").click()
    panel = page.get_by_role("tabpanel")
    expect(panel).to_contain_text("Whether the request lost something is not known")
    expect(panel).not_to_contain_text("Nothing of the request was lost")


# ── the tree ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("size", [230_000, pytest.param(3_900_000, marks=pytest.mark.nightly)])
def test_a_long_body_is_folded_searched_and_scrolled(page: Page, gateway: Inspected, size: int) -> None:
    count = size // 250
    messages = [{"role": ("user", "assistant")[n % 2], "content": f"Gate {n} " + "w" * 200} for n in range(count)]
    messages.append({"role": "user", "content": "the needle"})
    open_request(page, gateway, ask_messages(gateway, "openai-chat/text", messages=messages), "client")
    expect(tree(page)).to_be_visible()
    assert page.get_by_role("treeitem").count() < 80  # only those that are seen
    page.get_by_role("searchbox").fill("needle")
    expect(page.locator(".tree-found")).to_have_text("1 of 1")
    expect(item(page, f"/messages/{count}/content")).to_be_in_viewport()
    expect(page.get_by_role("region", name="Chosen value")).to_contain_text(f"/messages/{count}/content")
    page.get_by_role("searchbox").fill("Gate 1")
    page.keyboard.press("Enter")
    expect(page.locator(".tree-found")).to_have_text(re.compile(r"2 of [\d,]+"))
    page.get_by_role("button", name="Fold all", exact=True).click()
    expect(page.get_by_role("treeitem")).to_have_count(4)  # the whole, model, max_tokens, messages
    expect(item(page, "/messages")).to_contain_text(re.compile(r"\[ \d+ \].*[kM]B"))


def test_the_tree_is_used_by_keys_and_copied(page: Page, gateway: Inspected) -> None:
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    open_request(page, gateway, ask_messages(gateway, "openai-chat/text", stop_sequences=["END OF WORK"]), "client")
    item(page, "/stop_sequences").click()
    expect(item(page, "/stop_sequences")).to_have_attribute("aria-expanded", "true")
    tree(page).press("ArrowDown")
    expect(item(page, "/stop_sequences/0")).to_have_attribute("aria-selected", "true")
    page.get_by_role("button", name="Copy value of /stop_sequences/0").click()
    assert page.evaluate("navigator.clipboard.readText()") == "END OF WORK"
    tree(page).press("ArrowLeft")
    tree(page).press("ArrowLeft")
    expect(item(page, "/stop_sequences")).to_have_attribute("aria-expanded", "false")


# ── the prompt ────────────────────────────────────────────────────────────────────────────────────


def test_the_prompt_as_a_conversation(page: Page, gateway: Inspected, shot: Callable[[Page, str], None]) -> None:
    page.set_viewport_size({"width": 1400, "height": 1000})
    name = ask_messages(gateway, "anthropic/claude-sonnet-4-5", **AGENT)
    open_request(page, gateway, name, "prompt")
    messages = page.get_by_role("article", name=re.compile("^Message"))
    expect(messages).to_have_count(5)
    system = messages.first
    expect(system).to_contain_text("1. system")
    expect(system).to_contain_text("cache point of the client (5m): it asks for a cache up to here")
    expect(system.locator(".token-count")).to_contain_text(re.compile(r"\d+ tokens, <?\d+% of the window"))
    system.get_by_role("button", name="Show all of it (2.6 kB)").click()
    system.get_by_role("button", name="Fold").click()
    expect(page.locator(".prompt-totals")).to_contain_text("of the model's window of 200,000")
    expect(messages.nth(4).get_by_role("img")).to_have_js_property("naturalWidth", 64)
    page.get_by_role("button", name="1 tool read_gauge").click()
    form = page.get_by_role("article", name="Tool read_gauge")
    expect(form).to_contain_text("station integerrequired")
    expect(form).to_contain_text('units "m" or "ft"')
    messages.nth(2).get_by_role("button", name="result in message 4").click()
    expect(messages.nth(3)).to_be_in_viewport()
    expect(messages.nth(3).get_by_role("button", name="call in message 3")).to_be_visible()
    page.locator(".panel").evaluate("panel => panel.scrollTo(0, 0)")
    shot(page, "inspector-prompt")


def test_what_changed_since_the_previous_request(page: Page, gateway: Inspected) -> None:
    question = {"role": "user", "content": "How high is the water at station seven?"}
    first = ask_messages(gateway, "openai-chat/text", messages=[question])
    more = [question, {"role": "assistant", "content": "3.1 m"}, {"role": "user", "content": "And an hour ago?"}]
    second = ask_messages(gateway, "openai-chat/text", messages=more)
    open_request(page, gateway, second, "prompt")
    since = page.locator(".since")
    expect(since).to_contain_text("The first message is as before.")
    messages = page.get_by_role("article", name=re.compile("^Message"))
    expect(messages).to_have_count(2)
    expect(messages.first).to_contain_text("2. assistant")
    since.get_by_role("button", name="Show them").click()
    expect(messages).to_have_count(3)
    since.get_by_role("link", name="The previous request").click()
    expect(page).to_have_url(re.compile(f"/turn/{first}"))
    expect(page.locator(".since")).to_have_count(0)
    expect(messages).to_have_count(1)


# ── secrets and appearance ────────────────────────────────────────────────────────────────────────


def test_planted_secrets_are_never_shown(page: Page, gateway: Inspected) -> None:
    headers = {"x-api-key": PLANTED, "x-note": f"see {PLANTED}"}
    messages = [{"role": "user", "content": f"My key is {PLANTED}"}]
    name = ask_messages(gateway, "nobody", headers, messages=messages, metadata={"user_id": PLANTED})
    received: list[str] = []
    page.on("response", lambda response: received.append(response.text()) if "/turns/" in response.url else None)
    for tab in ("prompt", "client", "canonical", "upstream", "tries"):
        open_request(page, gateway, name, tab)
        folded = page.get_by_role("button", name=re.compile("^Show (request|response) headers"))
        while folded.count():
            folded.first.click()
        shown = page.locator("body").inner_text()
        assert "PLANTED" not in shown
        assert UPSTREAM_KEY not in shown
    assert received
    for text in received:
        assert PLANTED not in text
        assert UPSTREAM_KEY not in text


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("width", [390, pytest.param(1400, marks=pytest.mark.nightly)])
def test_every_tab_in_both_themes_wide_and_on_a_phone(
    page: Page, gateway: Inspected, theme: Literal["dark", "light"], width: int, shot: Callable[[Page, str], None]
) -> None:
    page.emulate_media(color_scheme=theme)
    page.set_viewport_size({"width": width, "height": 860})
    name = ask_messages(gateway, "either", **{**AGENT, **THINKING})
    for tab in ("prompt", "client", "canonical", "upstream", "tries"):
        open_request(page, gateway, name, tab)
        page.get_by_role("tab", selected=True).wait_for()
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert serious(page) == []
        shot(page, f"check-request-{tab}-{theme}-{width}")
    body = json.loads(gateway.up.requests[-1].body)
    assert body["tools"][0]["name"] == "read_gauge"
