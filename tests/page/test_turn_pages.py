"""The pages of one turn in a real browser: who failed, the same head beside the answer and the request, true reasons."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from playwright.sync_api import expect

from penstock import events as ev
from penstock.testing import Reply
from tests.page.axe import serious
from tests.support.client_requests import post
from tests.support.event_feed import ended
from tests.support.inspector import inspected
from tests.support.request_turns import ask_messages, failing_gateway

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from playwright.sync_api import Page

    from tests.support.inspector import Inspected

WHY = "deleted on the inspector's page: there is only its row in the journal."


@pytest.fixture(scope="module")
def gateway() -> Iterator[Inspected]:
    with failing_gateway() as running:
        yield running


def ask_bytes(gateway: Inspected, body: bytes) -> str:
    name = str(post(f"{gateway.url}/v1/messages", content=body).headers["x-request-id"])
    ended(gateway, name)
    return name


def open_page(page: Page, gateway: Inspected, path: str) -> None:
    page.goto("about:blank")
    page.goto(f"{gateway.url}/#/{path}")


# ── who failed ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("model", "words", "lost", "tried"),
    [
        ("nobody/none", "The gateway does not know this model or address", "no provider was asked", False),
        ("openai-chat/locked", "The provider did not accept the key", "the provider openai-chat answered 401", True),
        ("openai-chat/broken", "The provider failed", "the provider openai-chat answered 500", True),
    ],
)
def test_a_failed_turn_names_the_gateway_or_the_provider(
    page: Page, gateway: Inspected, model: str, words: str, lost: str, tried: bool, shot: Callable[[Page, str], None]
) -> None:
    open_page(page, gateway, f"turn/{ask_messages(gateway, model)}")
    expect(page.locator(".fault strong")).to_have_text(words)
    expect(page.locator(".turn-said")).to_contain_text(lost)
    link = page.get_by_role("link", name="What was sent, and what came back")
    expect(link).to_have_count(1 if tried else 0)
    shot(page, f"check-ending-{model.replace('/', '-')}")
    if tried:
        link.click()
        expect(page.get_by_role("listitem", name="Try 1")).to_contain_text("status")


def test_a_body_that_is_not_json_is_refused_by_the_gateway_and_cannot_be_sent_again(
    page: Page, gateway: Inspected
) -> None:
    open_page(page, gateway, f"turn/{ask_bytes(gateway, b'{oops')}")
    expect(page.locator(".fault strong")).to_have_text("The gateway did not accept the request")
    expect(page.get_by_role("heading", level=1)).to_have_text("no model · anthropic")
    for name in ("Send again", "Open in Try it"):
        button = page.get_by_role("button", name=name)
        expect(button).to_be_disabled()
        expect(button).to_have_attribute("title", "The body of the request is not a JSON object.")
    expect(page.get_by_role("button", name="Copy as…")).to_be_enabled()


# ── one head ──────────────────────────────────────────────────────────────────────────────────────


def test_the_request_has_the_head_of_the_turn_and_a_title_of_its_own(
    page: Page, gateway: Inspected, shot: Callable[[Page, str], None]
) -> None:
    history: list[dict[str, Any]] = [{"role": "user", "content": "Which gate leaks?"}]
    first = ask_messages(gateway, "openai-chat/text", messages=history)
    history += [{"role": "assistant", "content": "The fourth."}, {"role": "user", "content": "Since when?"}]
    second = ask_messages(gateway, "openai-chat/text", messages=history)
    open_page(page, gateway, f"turn/{first}?view=request&tab=client")
    head = page.locator(".turn-head")
    for name in ("Copy as…", "Compare with…", "Delete"):
        expect(head.get_by_role("button", name=name, exact=True)).to_be_visible()
    for name in ("Send again", "Open in Try it", "Answer", "Streams"):
        expect(head.get_by_role("link", name=name, exact=True)).to_be_visible()
    expect(head.locator(".turn-way")).to_have_text("clientanthropic→togateway→toprovideropenai-chat")
    expect(page.locator(".request-way")).to_have_text("From the client to the gateway")
    expect(page).to_have_title("openai-chat/text · Request · penstock")
    shot(page, "check-request-head")
    assert serious(page) == []
    expect(head.locator(".session-place")).to_contain_text("Turn 1 of 2")
    head.get_by_role("link", name="Next turn in the session").click()
    expect(page).to_have_url(re.compile(f"{second}\\?view=request&tab=client$"))
    page.get_by_role("tab", name="Upstream request").click()
    expect(page.locator(".request-way")).to_have_text("From the gateway to the provider openai-chat")
    head.get_by_role("link", name="Send again").click()
    expect(page).to_have_title("openai-chat/text · Send again · penstock")
    open_page(page, gateway, f"compare/{first}/{second}")
    expect(page).to_have_title("openai-chat/text, openai-chat/text · Compare · penstock")


def test_the_request_on_a_phone(page: Page, gateway: Inspected, shot: Callable[[Page, str], None]) -> None:
    page.set_viewport_size({"width": 390, "height": 860})
    open_page(page, gateway, f"turn/{ask_messages(gateway, 'openai-chat/text')}?view=request")
    expect(page.locator(".prompt-sums .sum-total")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    shot(page, "check-request-head-phone")


# ── what is gone ──────────────────────────────────────────────────────────────────────────────────


def test_each_view_of_a_deleted_turn_says_that_it_was_deleted(page: Page, gateway: Inspected) -> None:
    gone, kept = (ask_messages(gateway, "openai-chat/text") for _ in range(2))
    assert httpx.delete(f"{gateway.url}/inspector/turns/{gone}", timeout=20, trust_env=False).status_code == 200
    gateway.inspector.services.journal.flush()
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
    expect(page.locator("section[aria-labelledby=compare-requests]")).to_contain_text(
        f"The request of A is not here: it was {WHY}"
    )
    answers = page.locator("section[aria-labelledby=compare-answers]")
    expect(answers).to_contain_text(f"The answer of A is not here: it was {WHY}")
    expect(answers).not_to_contain_text("The answer of B is not here")
    expect(answers.locator(".diff")).to_have_count(0)
    open_page(page, gateway, f"compare/{gone}/{gone}")
    expect(answers).to_contain_text(f"The answer of B is not here: it was {WHY}")
    expect(answers).not_to_contain_text("the same")


def test_one_turn_alone_is_not_compared(page: Page, gateway: Inspected) -> None:
    open_page(page, gateway, f"compare/{ask_messages(gateway, 'openai-chat/text')}")
    main = page.get_by_role("main")
    expect(main).to_contain_text("No second turn")
    expect(main).not_to_contain_text("Loading")
    expect(main.get_by_role("link", name="Swap")).to_have_count(0)
    main.locator(".compare-turn").get_by_role("link", name="Streams").click()
    expect(page).to_have_url(re.compile("#/streams$"))


# ── the prompt adds up ────────────────────────────────────────────────────────────────────────────

PICTURE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}}
TOOL = {"name": "read_gauge", "description": "Reads a gauge.", "input_schema": {"type": "object", "properties": {}}}


def _numbers(page: Page, selector: str) -> list[int]:
    texts = page.locator(selector).all_inner_texts()
    return [int(re.sub(r"\D.*", "", text.replace(",", ""))) for text in texts]


def test_the_rows_of_a_prompt_add_up_and_the_cache_is_what_the_provider_said(
    page: Page, gateway: Inspected, shot: Callable[[Page, str], None]
) -> None:
    cached = [{"type": "text", "text": "You watch the gates.", "cache_control": {"type": "ephemeral"}}]
    asked = [{"role": "user", "content": [PICTURE, {"type": "text", "text": "And here?"}]}]
    name = ask_messages(gateway, "anthropic/text", system=cached, tools=[TOOL], messages=asked)
    open_page(page, gateway, f"turn/{name}?view=request&tab=prompt")
    expect(page.locator(".sum-total dd")).to_contain_text("(100%)")
    (total,) = _numbers(page, ".prompt-totals b")
    *kinds, last = _numbers(page, ".prompt-sums dd")
    assert (sum(kinds), last) == (total, total)
    assert sum(_numbers(page, ".prompt .token-count")) == total
    others = page.get_by_role("region", name="Beside the messages")
    for words in ("Images and files", "Framing", "Added by the provider"):
        expect(others).to_contain_text(words)
    expect(page.locator(".cache-wish")).to_contain_text("cache point of the client (5m)")
    row = gateway.inspector.watch.captures[name].to_row()
    expect(page.locator(".cache-point")).to_have_count(1 if row.cached else 0)
    said = "from its cache" if row.cached is not None else "did not say"
    expect(page.locator(".prompt-totals")).to_contain_text(said)
    expect(page.locator(".prompt-totals")).to_contain_text(re.compile("counted|estimated"))
    shot(page, "check-prompt-sums")


@pytest.mark.parametrize(
    ("cached", "said"), [(0, "read none of them from its cache"), (40, "read 40 of them from its")]
)
def test_a_cache_hit_is_what_the_provider_reported_and_not_what_the_client_asked_for(
    page: Page, cached: int, said: str
) -> None:
    usage = ev.Usage(input=60, output=3, cached=cached)
    answer: list[ev.AnyEvent] = [
        ev.Start(id="1", model="m"),
        ev.TextStart(0),
        ev.TextDelta(0, "Hi"),
        ev.TextEnd(0),
        usage,
    ]
    system = [{"type": "text", "text": "You watch the gates of a canal. " * 8, "cache_control": {"type": "ephemeral"}}]
    with inspected(Reply.of("anthropic", [*answer, ev.Finish("stop")], stream=False)) as gateway:
        name = ask_messages(gateway, "anthropic/text", system=system)
        assert gateway.inspector.watch.captures[name].to_row().cached == cached
        open_page(page, gateway, f"turn/{name}?view=request&tab=prompt")
        expect(page.locator(".prompt-totals")).to_contain_text(said)
        expect(page.locator(".cache-wish")).to_have_count(1)
        expect(page.locator(".cache-point")).to_have_count(1 if cached else 0)
        if cached:
            message = page.get_by_role("article", name="Message 1")
            expect(message).to_contain_text(f"The provider's cache hit ({cached} tokens) ends about in this message.")
