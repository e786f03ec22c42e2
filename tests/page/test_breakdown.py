"""The tokens of a turn's prompt, part by part: in the API, in the page and in an exported file."""

from __future__ import annotations

import base64
import json
import re
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Literal

import pytest
from playwright.sync_api import expect
from tests.gateway.inspector.test_api import STREAM

from penstock._inspector.live_capture import MAX_REQUEST_BYTES
from penstock._inspector.request_breakdown import break_down
from penstock._tokens.estimate import HybridTokenEstimator
from penstock.testing import Reply
from tests.core.tokens.test_pictures import png
from tests.page.appearances import THEMES
from tests.page.axe import serious
from tests.page.test_tokens_view import COUNTED
from tests.support.client_requests import ASKING, WORDS, ask, get, post
from tests.support.event_feed import bearer, ended, watching
from tests.support.gateway import hash_key
from tests.support.inspector import inspected
from tests.support.sample_turns import wired

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from playwright.sync_api import Page

    from tests.support.inspector import Inspected

SECRET = "sk-proj-0123456789abcdefABCDEF0123456789abcdef"
PICTURE = {"type": "base64", "media_type": "image/png", "data": base64.b64encode(png(1024, 1024)).decode()}
TOOL = {
    "name": "read_gauge",
    "description": "Reads the height of the water at a station.",
    "input_schema": {"type": "object", "properties": {"station": {"type": "integer"}}, "required": ["station"]},
}
AGENT: dict[str, Any] = {
    "model": "anthropic/claude-sonnet-4-5",
    "stream": True,
    "max_tokens": 2000,
    "system": "You watch the gates of a canal. Answer in one sentence, with the height in metres.",
    "tools": [TOOL],
    "tool_choice": {"type": "any"},
    "messages": [
        {"role": "user", "content": "How high is the water behind the gate at station four?"},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": "read_gauge", "input": {"station": 4}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "2.71 m, and rising"}]},
        {"role": "user", "content": [{"type": "image", "source": PICTURE}, {"type": "text", "text": "And in this picture?"}]},
    ],
}  # fmt: skip


@pytest.fixture(scope="module")
def watched() -> Iterator[Inspected]:
    with inspected(wired) as running, watching(running.url) as reader:
        reader.until(lambda: reader.named("turns"))
        yield running


def send(gateway: Inspected, body: dict[str, Any], path: str = "/v1/messages") -> str:
    """Ask, and return the turn's id when the gateway is through with it."""
    response = post(f"{gateway.url}{path}", json=body)
    assert response.status_code == 200, response.text
    name = response.headers["x-request-id"]
    ended(gateway, name)
    return name


def breakdown(gateway: Inspected, name: str) -> dict[str, Any]:
    response = get(f"{gateway.url}/inspector/turns/{name}/breakdown")
    assert response.status_code == 200, response.text
    return dict(response.json())


# ── the API ───────────────────────────────────────────────────────────────────────────────────────


def test_every_part_of_a_prompt_has_a_line(watched: Inspected) -> None:
    found = breakdown(watched, send(watched, AGENT))
    kinds = [line["kind"] for line in found["lines"]]
    assert kinds == ["system", "tools", *["message"] * 4, "images", "framing", "hidden"]
    assert sum(line["share"] for line in found["lines"]) == pytest.approx(1, abs=0.001)
    assert sum(line["tokens"] for line in found["lines"]) == found["tokens"]
    for line in found["lines"]:
        assert line["low"] <= line["tokens"] <= line["high"]
        assert line["method"] in {"actual", "hybrid", "estimated"}
    by_message = {line["message"]: line.get("about") for line in found["lines"] if "message" in line}
    assert by_message[1] == "How high is the water behind the gate at station four?"
    assert by_message[2] == "read_gauge"
    images = next(line for line in found["lines"] if line["kind"] == "images")
    assert images["share"] > 0.5  # a square megapixel is most of this prompt
    assert (found["model"], found["provider"], found["lost"]) == ("claude-sonnet-4-5", "anthropic", "")
    assert found["actual"] > 0  # as its provider counted it
    assert found["uncertain"] == {}


@pytest.mark.parametrize("protocol", [name for name in ASKING if name != "ollama"])
def test_every_client_protocol_is_read(watched: Inspected, protocol: str) -> None:
    response = ask(watched.url, protocol, "openai-chat/text")
    name = response.headers["x-request-id"]
    ended(watched, name)
    found = breakdown(watched, name)
    assert (found["lost"], found["model"]) == ("", "text")
    message = next(line for line in found["lines"] if line["kind"] == "message")
    assert message["about"] == WORDS


GUESSES: dict[str, tuple[dict[str, Any], dict[str, int]]] = {
    "image": ({"type": "image", "source": {"type": "url", "url": "https://example.com/a.png"}}, {"image-urls": 1}),
    "file": ({"type": "document", "source": {"type": "url", "url": "https://example.com/a.pdf"}}, {"file-urls": 1}),
    "text": ({"type": "text", "text": "Open?"}, {}),
}


@pytest.mark.parametrize("case", GUESSES)
def test_what_is_guessed_is_named(watched: Inspected, case: str) -> None:
    part, kinds = GUESSES[case]
    body = {**AGENT, "tools": [], "tool_choice": {"type": "auto"}, "messages": [{"role": "user", "content": [part]}]}
    assert breakdown(watched, send(watched, body))["uncertain"] == kinds


def test_tools_of_the_provider_are_named(watched: Inspected) -> None:
    search = {"type": "web_search_20250305", "name": "web_search"}
    found = breakdown(watched, send(watched, {**AGENT, "tools": [search]}))
    assert found["uncertain"] == {"provider-tools": 1}


def test_a_secret_in_a_prompt_is_hidden(watched: Inspected) -> None:
    body = {**AGENT, "messages": [{"role": "user", "content": f"My key is {SECRET}"}]}
    response = get(f"{watched.url}/inspector/turns/{send(watched, body)}/breakdown")
    assert SECRET not in response.text
    assert "My key is [secret]" in response.text


def test_a_request_that_is_cut_is_not_counted_as_a_whole(watched: Inspected) -> None:
    body = {**AGENT, "messages": [{"role": "user", "content": "high water " * (MAX_REQUEST_BYTES // 10)}]}
    found = breakdown(watched, send(watched, body))
    assert "only its beginning is kept" in found["lost"]
    assert found["lines"] == []


def test_many_messages_are_not_a_line_each(watched: Inspected) -> None:
    messages = [{"role": ("user", "assistant")[number % 2], "content": f"Gate {number}"} for number in range(1500)]
    found = breakdown(watched, send(watched, {**AGENT, "messages": messages}))
    assert len(found["lines"]) == 1000
    assert "more messages" in found["lines"][-1]["what"]
    assert sum(line["tokens"] for line in found["lines"]) == found["tokens"]
    assert sum(line["share"] for line in found["lines"]) == pytest.approx(1, abs=0.05)


@pytest.mark.usefixtures("keeps_nothing")
def test_a_turn_that_nobody_watched_says_why_there_is_nothing() -> None:
    with inspected(wired) as gateway:
        response = post(f"{gateway.url}/v1/messages", json=AGENT)
        assert response.status_code == 200
        gateway.inspector.services.journal.flush()
        found = breakdown(gateway, response.headers["x-request-id"])
        assert "keeps no turns without keys, and nobody watched" in found["lost"]
        assert (found["lines"], found["actual"] > 0) == ([], True)
        assert get(f"{gateway.url}/inspector/turns/nobody/breakdown").status_code == 404


KEYS = {name: f"pk-penstock-{name}0123456789" for name in ("owner", "anna")}


def test_a_prompt_that_its_provider_counted_is_actual_by_the_estimator_of_its_tenant() -> None:
    keys = {name: {"hash": hash_key(key), "inspect": "all" if name == "owner" else "own"} for name, key in KEYS.items()}
    body = {"model": "openai-chat/gpt-4o", "messages": [{"role": "user", "content": "How high is the water?"}]}
    with (
        inspected(Reply.of("openai-chat", COUNTED, stream=False), keys=keys) as gateway,
        watching(gateway.url, bearer(KEYS["owner"])) as reader,
    ):
        reader.until(lambda: reader.named("turns"))
        headers = {name: bearer(key) for name, key in KEYS.items()}
        answer = post(f"{gateway.url}/v1/chat/completions", json=body, headers=headers["anna"])
        name = answer.headers["x-request-id"]
        ended(gateway, name)
        gateway.inspector.services.estimates.flush()
        for caller in KEYS:
            found = get(f"{gateway.url}/inspector/turns/{name}/breakdown", headers=headers[caller]).json()
            assert (found["method"], found["tokens"], found["actual"]) == ("actual", 40, 40)
            assert sum(line["tokens"] for line in found["lines"]) == 40


@pytest.mark.parametrize("words", ["How high is the water?", "password: hunter2planted, how high is the water?"])
def test_a_kept_prompt_that_lost_a_secret_has_its_count_after_a_restart(tmp_path: Path, words: str) -> None:
    """The text on disk is not the one that was counted, but the turn's row has the count."""
    options: dict[str, Any] = {
        "inspector": {"keep": True},
        "data": tmp_path,
        "journal": {"path": str(tmp_path / "journal.sqlite")},
    }
    body = {"model": "openai-chat/gpt-4o", "messages": [{"role": "user", "content": words}]}
    reply = Reply.of("openai-chat", COUNTED, stream=False)
    with inspected(reply, **options) as gateway:
        name = send(gateway, body, "/v1/chat/completions")
        gateway.inspector.services.estimates.flush()
        gateway.inspector.watch.disk.flush()
    with inspected(reply, **options) as again:
        assert name not in again.inspector.watch.captures
        found = breakdown(again, name)
    assert (found["method"], found["tokens"], found["actual"]) == ("actual", 40, 40)
    assert sum(line["tokens"] for line in found["lines"]) == 40
    assert all(line["low"] <= line["tokens"] <= line["high"] for line in found["lines"])


@pytest.mark.parametrize(
    "more", [{"previous_response_id": "resp_elsewhere"}, {"tools": [{"type": "web_search"}]}], ids=["stored", "tools"]
)
def test_a_count_of_more_than_the_request_shows_is_not_divided(more: dict[str, Any]) -> None:
    row: Any = SimpleNamespace(model="gpt-4o", provider="openai", input=1_000)
    text = json.dumps({"model": "gpt-4o", "input": "How high is the water?", **more})
    source: Any = SimpleNamespace(
        row=row, request=text, request_cut=False, request_protocol="responses", model="", provider="", secrets=()
    )
    found = break_down(source, HybridTokenEstimator())
    assert (found.method, found.actual) == ("estimated", 1_000)
    assert found.tokens < 500


def test_a_recording_has_its_request(tmp_path: Path) -> None:
    with inspected(wired, record={"path": str(tmp_path)}) as gateway:
        name = post(f"{gateway.url}/v1/messages", json=AGENT).headers["x-request-id"]
        gateway.inspector.services.recorder.close()
        gateway.inspector.services.journal.flush()
        (tape,) = tmp_path.glob("*.tape")
        turn = breakdown(gateway, name)
        recording = get(f"{gateway.url}/inspector/recordings/{tape.name}/breakdown").json()
        dropped = post(f"{gateway.url}/inspector/breakdown?name=a.tape", content=tape.read_bytes()).json()
        kinds = [line["kind"] for line in turn["lines"]]
        assert "images" in kinds
        for found in (recording, dropped):
            assert found["lost"] == ""
            assert [line["kind"] for line in found["lines"]] == kinds
        bare = post(f"{gateway.url}/inspector/breakdown", content=STREAM).json()
        assert bare["lost"] == "the file has no request"


# ── the page ──────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def turn(page: Page, tmp_path: Path) -> Iterator[Page]:
    """The page of a turn with its tokens shown. The page is open before the turn begins, so its request is kept."""
    with inspected(wired, journal={"path": str(tmp_path / "journal.sqlite")}) as running:
        page.goto(f"{running.url}/#/streams")
        expect(page.get_by_text("Nothing has happened yet").or_(page.locator(".streams"))).to_be_visible()
        with watching(running.url) as reader:
            reader.until(lambda: reader.named("turns"))
            name = send(running, AGENT)
        page.goto(f"{running.url}/#/turn/{name}")
        page.get_by_role("tab", name="Tokens").click()
        page.locator(".breakdown-lines").wait_for()
        yield page


def test_the_page_shows_each_part_with_its_share(turn: Page, shot: Callable[[Page, str], None]) -> None:
    lines = turn.locator(".breakdown-lines li")
    names = [text.splitlines()[0] for text in lines.all_inner_texts()]
    assert names[0].startswith("System prompt")
    assert names[1] == "Tools"
    assert names[2].startswith("2. user How high is the water")
    assert names[-3:] == ["Images and files", "Framing", "Added by the provider"]
    for text in lines.all_inner_texts():
        assert re.search(r"[\d,]+ \(<?\d+%\)", text), text
        assert re.search(r"(to [\d,]+, )?(estimated|hybrid|actual)$", text), text
    bars = lines.locator(".breakdown-bar span")
    widths = [bars.nth(number).evaluate("bar => bar.offsetWidth") for number in range(bars.count())]
    assert max(widths) == widths[names.index("Images and files")]  # the largest part has the longest bar
    assert min(widths) > 0
    expect(turn.locator(".breakdown-total")).to_contain_text("counted as claude")
    assert serious(turn) == []
    shot(turn, "inspector-breakdown")


@pytest.mark.parametrize("theme", THEMES)
def test_the_parts_fit_a_phone_in_both_themes(turn: Page, theme: Literal["dark", "light"]) -> None:
    turn.emulate_media(color_scheme=theme)
    turn.set_viewport_size({"width": 400, "height": 844})
    turn.get_by_role("tab", name="Tokens").click()
    turn.locator(".breakdown-lines").wait_for()
    assert turn.evaluate("document.documentElement.scrollWidth") <= 400
    assert serious(turn) == []


def test_the_tab_is_reached_by_keys(turn: Page) -> None:
    turn.get_by_role("tab", name="Details").click()
    turn.keyboard.press("ArrowLeft")  # from the first tab to the last
    expect(turn.get_by_role("tab", name="Tokens")).to_be_focused()
    expect(turn.locator(".breakdown-lines")).to_be_visible()


def test_an_exported_turn_has_them_without_a_gateway(turn: Page, tmp_path: Path) -> None:
    with turn.expect_download() as download:
        turn.get_by_role("button", name="Download").click()
        turn.get_by_role("dialog", name="Download").get_by_role("button", name="Download").click()
    place = tmp_path / "turn.html"
    download.value.save_as(place)
    turn.goto(place.as_uri())
    turn.get_by_role("tab", name="Tokens").click()
    expect(turn.locator(".breakdown-lines li").first).to_contain_text("System prompt")


@pytest.mark.usefixtures("keeps_nothing")
def test_a_turn_that_was_not_watched_says_why(page: Page) -> None:
    with inspected(wired) as running:
        name = post(f"{running.url}/v1/messages", json=AGENT).headers["x-request-id"]
        running.inspector.services.journal.flush()
        page.goto(f"{running.url}/#/turn/{name}")
        expect(page.locator(".bare-why")).to_contain_text("only its row in the journal")
