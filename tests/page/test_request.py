"""Both halves of a request: tabs, tree, differences, losses, tries, who failed, the prompt and its tokens, what is gone."""

# ruff: noqa: PLR0915 — a story has as many steps as its user

from __future__ import annotations

import base64
import json
import re
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal

import pytest
from playwright.sync_api import expect

from penstock import events as ev
from penstock.testing import Reply
from tests.page.axe import serious
from tests.page.steps import PHONE, appearances, clipboard, expect_fit, leaving, look
from tests.support.client_requests import post
from tests.support.event_feed import ended, watching
from tests.support.inspector import inspected
from tests.support.inspector_calls import delete, trace_of
from tests.support.page_gateway import flush
from tests.support.page_pictures import png
from tests.support.paused_upstream import LIMIT, PausedUpstream, stream_halves
from tests.support.request_turns import PLANTED, THINKING, UPSTREAM_KEY, ask_messages, watched_gateway

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from http.server import BaseHTTPRequestHandler
    from pathlib import Path

    from playwright.sync_api import Locator, Page

    from penstock.testing import ReceivedRequest
    from tests.support.inspector import Inspected


PICTURE = {"type": "base64", "media_type": "image/png", "data": base64.b64encode(png(64, 48)).decode()}
LARGE = {**PICTURE, "data": base64.b64encode(png(1024, 1024)).decode()}
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
SYSTEM = [{"type": "text", "text": "You watch the gates of a canal. " * 80, "cache_control": {"type": "ephemeral"}}]
WHY = "deleted on the inspector's page: there is only its row in the journal."


def agent(picture: dict[str, str]) -> dict[str, Any]:
    last = {"role": "user", "content": [{"type": "image", "source": picture}, {"type": "text", "text": "And here?"}]}
    return {"system": SYSTEM, "tools": [TOOL], "messages": [QUESTION, CALL, RESULT, last]}


@pytest.fixture(scope="module")
def gateway() -> Iterator[Inspected]:
    with watched_gateway() as running:
        yield running


def open_page(page: Page, gateway: Inspected, path: str) -> None:
    page.goto("about:blank")
    page.goto(f"{gateway.url}/#/{path}")


def open_request(page: Page, gateway: Inspected, name: str, tab: str = "") -> None:
    open_page(page, gateway, f"turn/{name}?view=request{f'&tab={tab}' if tab else ''}")
    page.get_by_role("tab", name="Client request").wait_for()


def item(page: Page, place: str) -> Locator:
    return page.locator(f'[data-place="{place}"]')


# ── client, canonical, upstream ───────────────────────────────────────────────────────────────────


def test_the_three_forms_of_a_request_are_shown_compared_and_what_was_lost(
    page: Page, gateway: Inspected, shot: Callable[[Page, str], None]
) -> None:
    page.set_viewport_size({"width": 1400, "height": 860})
    name = ask_messages(gateway, "openai-chat/text", {"cookie": f"s={PLANTED}"}, system="Be brief.", **THINKING)
    open_request(page, gateway, name, "client")
    expect(page.locator(".request-line")).to_have_text("POST /v1/messages")
    expect(item(page, "/system")).to_contain_text('"Be brief."')
    page.get_by_role("button", name="Show request headers").click()
    headers = page.get_by_role("region", name="Request headers")
    expect(headers).to_contain_text("user-agent")
    expect(headers).to_contain_text("cookie[secret]")
    page.get_by_role("tab", name="Canonical").click()
    expect(item(page, "/settings/top_k")).to_contain_text("5")
    open_request(page, gateway, name, "upstream")
    losses = page.locator(".loss")
    expect(losses).to_have_count(2)
    expect(losses.first).to_contain_text("a setting that does not exist here is left out: top_k")
    expect(item(page, "/reasoning_effort").locator(".tree-mark")).to_have_text("changed")
    shot(page, "inspector-request")
    expect(page.locator(".request-line")).to_have_text(f"POST {gateway.up.url}/openai-chat/chat/completions")
    expect(item(page, "/messages/0/role")).to_contain_text("system")
    page.get_by_role("button", name="Show request headers").click()
    expect(page.get_by_role("region", name="Request headers")).to_contain_text("authorization[secret]")
    page.get_by_role("button", name="/top_k in the client's request").click()
    expect(page.get_by_role("tab", name="Client request")).to_have_attribute("aria-selected", "true")
    expect(item(page, "/top_k")).to_have_attribute("aria-selected", "true")
    expect(page.get_by_role("region", name="Chosen value")).to_contain_text("left out: top_k")
    page.get_by_role("tab", name="Upstream request").click()
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
    page.set_viewport_size({"width": PHONE, "height": 844})
    open_request(page, gateway, name, "upstream")
    expect(losses).to_have_count(2)
    cut = """(boxes) => boxes.filter((box) => {
        const around = box.closest(".request-pane").getBoundingClientRect();
        return box.getBoundingClientRect().right > around.right || box.scrollWidth > box.clientWidth
            || box.scrollHeight > box.clientHeight;
    }).length"""
    assert page.locator(".losses, .loss").evaluate_all(cut) == 0
    page.set_viewport_size({"width": 1280, "height": 800})
    open_page(page, gateway, f"turn/{name}")
    page.get_by_role("tab", name="Notes (2)").click()
    panel = page.get_by_role("tabpanel")
    expect(panel).to_contain_text("left out: top_k")
    expect(panel).to_contain_text("/thinking/budget_tokens in the client's request")
    # All digits of long numbers are shown.
    most = 18446744073709551615
    schema = {"type": "object", "properties": {"level": {"type": "integer", "maximum": most}}}
    other = ask_messages(gateway, "openai-chat/text", tools=[{"name": "read_gauge", "input_schema": schema}])
    open_request(page, gateway, other, "canonical")
    expect(item(page, "/tools/0/schema/properties/level/maximum")).to_contain_text(str(most))
    page.get_by_role("button", name="upstream request", exact=True).click()
    expect(page.locator(".diff-counts")).to_be_visible()
    expect(page.locator('.diff-row[data-change="changed"]').filter(has_text="maximum")).to_have_count(0)
    open_page(page, gateway, f"turn/{other}")
    page.get_by_role("tab", name="Notes", exact=True).click()
    expect(panel).to_contain_text("Nothing of the request was lost or repaired.")


@pytest.mark.parametrize("size", [230_000, pytest.param(3_900_000, marks=pytest.mark.nightly)])
def test_a_long_body_is_folded_searched_scrolled_and_copied(page: Page, gateway: Inspected, size: int) -> None:
    count = size // 250
    messages = [{"role": ("user", "assistant")[n % 2], "content": f"Gate {n} " + "w" * 200} for n in range(count)]
    messages.append({"role": "user", "content": "the needle"})
    name = ask_messages(gateway, "openai-chat/text", messages=messages)
    open_request(page, gateway, name, "client")
    tree = page.get_by_role("tree")
    expect(tree).to_be_visible()
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
    other = ask_messages(gateway, "openai-chat/text", stop_sequences=["END OF WORK"])
    open_request(page, gateway, other, "client")
    item(page, "/stop_sequences").click()
    expect(item(page, "/stop_sequences")).to_have_attribute("aria-expanded", "true")
    tree.press("ArrowDown")
    expect(item(page, "/stop_sequences/0")).to_have_attribute("aria-selected", "true")
    page.get_by_role("button", name="Copy value of /stop_sequences/0").click()
    assert clipboard(page) == "END OF WORK"
    tree.press("ArrowLeft")
    tree.press("ArrowLeft")
    expect(item(page, "/stop_sequences")).to_have_attribute("aria-expanded", "false")


# ── tries ─────────────────────────────────────────────────────────────────────────────────────────

# What asks for an answer, who failed and how, and whether a provider was asked.
FAILED = {
    "nobody/none": ("The gateway does not know this model or address", "no provider was asked", False),
    "openai-chat/locked": ("The provider did not accept the key", "the provider openai-chat answered 401", True),
    "openai-chat/broken": ("The provider failed", "the provider openai-chat answered 500", True),
}


def test_each_try_shows_who_failed_what_was_answered_and_decided(
    page: Page, gateway: Inspected, shot: Callable[[Page, str], None]
) -> None:
    one, two = (page.get_by_role("listitem", name=f"Try {number}") for number in (1, 2))
    for model, (words, lost, tried) in FAILED.items():
        open_page(page, gateway, f"turn/{ask_messages(gateway, model)}")
        expect(page.locator(".fault strong")).to_have_text(words)
        expect(page.locator(".turn-said")).to_contain_text(lost)
        link = page.get_by_role("link", name="What was sent, and what came back")
        expect(link).to_have_count(1 if tried else 0)
        if model == "openai-chat/locked":
            link.click()
            expect(one).to_contain_text("status 401")
            expect(page.locator(".error-body")).to_contain_text("Incorrect API key provided: [secret]")
    answered = page.get_by_role("region", name="What the provider answered to try 1")
    expect(answered).to_contain_text('"message": "the boiler is cold"')
    expect(answered.locator(".pretty-line").nth(1)).to_contain_text('"error"')  # on lines of its own
    expect(one).to_contain_text("status 500")
    page.get_by_role("tab", name="About").click()
    expect(page.locator(".about")).to_contain_text("provideropenai-chat")
    expect(page.locator(".decisions")).to_contain_text("give-up: it was asked often enough")
    page.get_by_role("link", name="Request", exact=True).click()
    expect(page.get_by_role("tab", name="Tries")).to_have_attribute("aria-selected", "true")
    page.set_viewport_size({"width": 1400, "height": 860})
    open_request(page, gateway, ask_messages(gateway, "either"), "tries")
    expect(one).to_contain_text("text at anthropic is next")
    expect(one.get_by_role("region", name="What was decided then")).to_contain_text("fallback")
    expect(two).to_contain_text("status 200")
    for each in (one, two):
        expect(each.locator(".timing")).to_contain_text("first byte after")
    shot(page, "inspector-request-tries")
    one.get_by_role("button", name="Show its request").click()
    expect(page.get_by_role("tab", name="Upstream request")).to_have_attribute("aria-selected", "true")
    expect(page.locator(".request-line")).to_contain_text("/openai-chat/chat/completions")
    page.get_by_role("button", name="2. anthropic").click()
    expect(page.locator(".request-line")).to_contain_text("/anthropic/")
    open_request(page, gateway, ask_messages(gateway, "openai-chat/stuck"))
    expect(one).to_contain_text("timed out")
    expect(page.locator(".timing")).to_contain_text("failed after")
    open_request(page, gateway, ask_messages(gateway, "replay/text"), "tries")
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


def test_the_request_and_the_tries_of_a_turn_that_goes_on(page: Page) -> None:
    with paused_tries() as (gateway, upstream, name), leaving(page):
        line, totals = page.locator(".request-line"), page.locator(".prompt-totals")
        one, two = (page.get_by_role("listitem", name=f"Try {number}").locator(".badge") for number in (1, 2))
        page.goto(f"{gateway.url}/#/turn/{name}")
        expect(one).to_have_text("running")
        open_request(page, gateway, name)
        expect(page.get_by_role("tab", name="Prompt")).to_have_attribute("aria-selected", "true")
        expect(page.locator(".prompt-messages")).to_contain_text("How high is the water")
        expect(totals).to_contain_text("of it is estimated")
        page.get_by_role("tab", name="Client request").click()
        expect(line).to_have_text("POST /v1/messages")
        page.get_by_role("tab", name="Upstream request").click()
        expect(line).to_contain_text("/openai-chat/chat/completions")
        upstream.fail.set()
        expect(page.get_by_role("tab", name="Tries (2)")).to_be_visible()
        expect(line).to_contain_text("/openai-chat/chat/completions")
        page.get_by_role("button", name="2. anthropic").click()
        expect(line).to_contain_text("/anthropic/")
        open_page(page, gateway, f"turn/{name}")
        expect(one).to_have_text("status 500")
        expect(two).to_have_text("running")
        upstream.start.set()
        page.get_by_role("tab", name="Tries").click()
        expect(page.locator(".turn-head")).to_contain_text("streaming")
        expect(one).to_have_text("status 500")
        expect(two).to_have_text("status 200")
        open_request(page, gateway, name, "prompt")
        expect(totals).to_contain_text("of it is estimated")
        upstream.finish.set()
        expect(totals).to_contain_text("11 input tokens")
        expect(totals).not_to_contain_text("of it is estimated")


# ── the prompt and its tokens ─────────────────────────────────────────────────────────────────────


def _numbers(page: Page, selector: str) -> list[int]:
    texts = page.locator(selector).all_inner_texts()
    return [int(re.sub(r"\D.*", "", text.replace(",", ""))) for text in texts]


def test_the_prompt_is_a_conversation_that_adds_up_and_says_what_is_new(
    page: Page, gateway: Inspected, shot: Callable[[Page, str], None]
) -> None:
    page.set_viewport_size({"width": 1400, "height": 1000})
    name = ask_messages(gateway, "anthropic/claude-sonnet-4-5", **agent(PICTURE))
    open_request(page, gateway, name, "prompt")
    messages = page.get_by_role("article", name=re.compile("^Message"))
    expect(messages).to_have_count(5)
    system = messages.first
    expect(system).to_contain_text("1. system")
    expect(system).to_contain_text("cache point of the client (5m): it asks for a cache up to here")
    expect(system.locator(".token-count")).to_contain_text(re.compile(r"\d+ tokens, <?\d+% of the window"))
    system.get_by_role("button", name="Show all of it (2.6 kB)").click()
    system.get_by_role("button", name="Fold").click()
    totals = page.locator(".prompt-totals")
    expect(totals).to_contain_text("of the model's window of 200,000")
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
    # Its rows add up, and the cache is what the provider said.
    expect(page.locator(".sum-total dd")).to_contain_text("(100%)")
    (total,) = _numbers(page, ".prompt-totals b")
    *kinds, last = _numbers(page, ".prompt-sums dd")
    assert (sum(kinds), last) == (total, total)
    assert sum(_numbers(page, ".prompt .token-count")) == total
    others = page.get_by_role("region", name="Beside the messages")
    for words in ("Images and files", "Framing", "Added by the provider"):
        expect(others).to_contain_text(words)
    cached = trace_of(gateway, name)["row"]["cached"]
    expect(page.locator(".cache-point")).to_have_count(1 if cached else 0)
    expect(totals).to_contain_text("from its cache" if cached is not None else "did not say")
    expect(totals).to_contain_text(re.compile("counted|estimated"))
    # What changed since the previous request.
    question = {"role": "user", "content": "How high is the water at station seven?"}
    first = ask_messages(gateway, "openai-chat/text", messages=[question])
    more = [question, {"role": "assistant", "content": "3.1 m"}, {"role": "user", "content": "And an hour ago?"}]
    open_request(page, gateway, ask_messages(gateway, "openai-chat/text", messages=more), "prompt")
    since = page.locator(".since")
    expect(since).to_contain_text("The first message is as before.")
    expect(messages).to_have_count(2)
    expect(messages.first).to_contain_text("2. assistant")
    since.get_by_role("button", name="Show them").click()
    expect(messages).to_have_count(3)
    since.get_by_role("link", name="The previous request").click()
    expect(page).to_have_url(re.compile(f"/turn/{first}"))
    expect(since).to_have_count(0)
    expect(messages).to_have_count(1)


def says_cached(seen: ReceivedRequest) -> Reply:
    """The provider's count: as many tokens are from its cache as the model's name says."""
    usage = ev.Usage(input=60, output=3, cached=int(seen.json["model"]))
    text: list[ev.AnyEvent] = [ev.TextStart(0), ev.TextDelta(0, "Hi"), ev.TextEnd(0)]
    return Reply.of("anthropic", [ev.Start(id="1", model="m"), *text, usage, ev.Finish("stop")], stream=False)


def test_a_cache_hit_is_what_the_provider_reported_and_not_what_the_client_asked_for(page: Page) -> None:
    with inspected(says_cached) as gateway, leaving(page):
        for cached, said in ((0, "read none of them from its cache"), (40, "read 40 of them from its")):
            name = ask_messages(gateway, f"anthropic/{cached}", system=SYSTEM)
            assert trace_of(gateway, name)["row"]["cached"] == cached
            open_request(page, gateway, name, "prompt")
            expect(page.locator(".prompt-totals")).to_contain_text(said)
            expect(page.locator(".cache-wish")).to_have_count(1)
            expect(page.locator(".cache-point")).to_have_count(1 if cached else 0)
        message = page.get_by_role("article", name="Message 1")
        expect(message).to_contain_text(f"The provider's cache hit ({cached} tokens) ends about in this message.")


def test_each_part_of_a_prompt_has_its_share_of_tokens_here_and_in_an_exported_file(
    page: Page, gateway: Inspected, tmp_path: Path, shot: Callable[[Page, str], None]
) -> None:
    open_page(page, gateway, f"turn/{ask_messages(gateway, 'anthropic/claude-sonnet-4-5', **agent(LARGE))}")
    page.get_by_role("tab", name="Details").click()
    page.keyboard.press("ArrowLeft")  # from the first tab to the last
    expect(page.get_by_role("tab", name="Tokens")).to_be_focused()
    lines = page.locator(".breakdown-lines li")
    expect(lines.first).to_contain_text("System prompt")
    texts = lines.all_inner_texts()
    names = [text.splitlines()[0] for text in texts]
    assert names[1] == "Tools"
    assert names[2].startswith("2. user How high is the water")
    assert names[-3:] == ["Images and files", "Framing", "Added by the provider"]
    for text in texts:
        assert re.search(r"[\d,]+ \(<?\d+%\)", text), text
        assert re.search(r"(to [\d,]+, )?(estimated|hybrid|actual)$", text), text
    widths = lines.locator(".breakdown-bar span").evaluate_all("bars => bars.map((bar) => bar.offsetWidth)")
    assert max(widths) == widths[names.index("Images and files")]  # the largest part has the longest bar
    assert min(widths) > 0
    expect(page.locator(".breakdown-total")).to_contain_text("counted as claude")
    assert serious(page, "[role=tabpanel]") == []
    shot(page, "inspector-breakdown")
    with page.expect_download() as download:
        page.get_by_role("button", name="Download").click()
        page.get_by_role("dialog", name="Download").get_by_role("button", name="Download").click()
    place = tmp_path / "turn.html"
    download.value.save_as(place)
    look(page)
    page.get_by_role("tab", name="Tokens").click()
    expect(lines.first).to_be_visible()
    expect_fit(page)
    page.goto(place.as_uri())
    page.get_by_role("tab", name="Tokens").click()
    expect(lines.first).to_contain_text("System prompt")


# ── one head, secrets, what is gone ───────────────────────────────────────────────────────────────


def test_the_request_has_the_head_of_the_turn_and_views_have_titles(page: Page, gateway: Inspected) -> None:
    history: list[dict[str, Any]] = [{"role": "user", "content": "Which gate leaks?"}]
    first = ask_messages(gateway, "openai-chat/text", messages=history)
    history += [{"role": "assistant", "content": "The fourth."}, {"role": "user", "content": "Since when?"}]
    second = ask_messages(gateway, "openai-chat/text", messages=history)
    open_request(page, gateway, first, "client")
    head = page.locator(".turn-head")
    for name in ("Copy as…", "Compare with…", "Delete"):
        expect(head.get_by_role("button", name=name, exact=True)).to_be_visible()
    for name in ("Send again", "Open in Try it", "Answer", "Streams"):
        expect(head.get_by_role("link", name=name, exact=True)).to_be_visible()
    expect(head.locator(".turn-way")).to_have_text("clientanthropic→togateway→toprovideropenai-chat")
    expect(page.locator(".request-way")).to_have_text("From the client to the gateway")
    expect(page).to_have_title("openai-chat/text · Request · penstock")
    assert serious(page, ".turn-head") == []
    expect(head.locator(".session-place")).to_contain_text("Turn 1 of 2")
    head.get_by_role("link", name="Next turn in the session").click()
    expect(page).to_have_url(re.compile(f"{second}\\?view=request&tab=client$"))
    page.get_by_role("tab", name="Upstream request").click()
    expect(page.locator(".request-way")).to_have_text("From the gateway to the provider openai-chat")
    head.get_by_role("link", name="Send again").click()
    expect(page).to_have_title("openai-chat/text · Send again · penstock")
    open_page(page, gateway, f"compare/{first}/{second}")
    expect(page).to_have_title("openai-chat/text, openai-chat/text · Compare · penstock")
    open_page(page, gateway, f"compare/{first}")
    main = page.get_by_role("main")
    expect(main).to_contain_text("No second turn")
    expect(main).not_to_contain_text("Loading")
    expect(main.get_by_role("link", name="Swap")).to_have_count(0)
    main.locator(".compare-turn").get_by_role("link", name="Streams").click()
    expect(page).to_have_url(re.compile("#/streams$"))
    # A body that is not JSON is refused by the gateway, and cannot be sent again.
    odd = str(post(f"{gateway.url}/v1/messages", content=b"{oops").headers["x-request-id"])
    ended(gateway, odd)
    open_page(page, gateway, f"turn/{odd}")
    expect(page.locator(".fault strong")).to_have_text("The gateway did not accept the request")
    expect(page.get_by_role("heading", level=1)).to_have_text("no model · anthropic")
    for name in ("Send again", "Open in Try it"):
        button = page.get_by_role("button", name=name)
        expect(button).to_be_disabled()
        expect(button).to_have_attribute("title", "The body of the request is not a JSON object.")
    expect(page.get_by_role("button", name="Copy as…")).to_be_enabled()


def test_each_view_of_a_deleted_turn_says_that_it_was_deleted(page: Page, gateway: Inspected) -> None:
    gone, kept = (ask_messages(gateway, "openai-chat/text") for _ in range(2))
    assert delete(gateway, f"turns/{gone}").status_code == 200
    flush(gateway)
    open_page(page, gateway, f"turn/{gone}?view=request")
    expect(page.locator(".bare-why")).to_have_text(f"It was {WHY}")
    for name in ("Copy as…", "Send again", "Open in Try it"):
        expect(page.get_by_role("button", name=name)).to_be_disabled()
    expect(page.get_by_role("button", name="Send again")).to_have_attribute("title", f"It was {WHY}")
    open_page(page, gateway, f"send/{gone}")
    expect(page.locator(".notice")).to_contain_text(f"It was {WHY}")
    open_page(page, gateway, f"try?turn={gone}")
    expect(page.locator(".try-error")).to_have_text(f"It was {WHY}")
    open_page(page, gateway, f"compare/{gone}/{kept}")
    requests = page.locator("section[aria-labelledby=compare-requests]")
    expect(requests).to_contain_text(f"The request of A is not here: it was {WHY}")
    answers = page.locator("section[aria-labelledby=compare-answers]")
    expect(answers).to_contain_text(f"The answer of A is not here: it was {WHY}")
    expect(answers).not_to_contain_text("The answer of B is not here")
    expect(answers.locator(".diff")).to_have_count(0)
    open_page(page, gateway, f"compare/{gone}/{gone}")
    expect(answers).to_contain_text(f"The answer of B is not here: it was {WHY}")
    expect(answers).not_to_contain_text("the same")


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


@appearances
def test_every_tab_of_a_request_fits(
    page: Page, gateway: Inspected, theme: Literal["dark", "light"], width: int
) -> None:
    name = ask_messages(gateway, "either", **{**agent(PICTURE), **THINKING})
    for tab in ("prompt", "client", "canonical", "upstream", "tries"):
        page.goto(f"{gateway.url}/#/turn/{name}?view=request&tab={tab}")
        look(page, theme, width)
        expect(page.get_by_role("tab", selected=True)).to_have_attribute("id", re.compile(tab))
        expect_fit(page)
    assert json.loads(gateway.up.requests[-1].body)["tools"][0]["name"] == "read_gauge"
