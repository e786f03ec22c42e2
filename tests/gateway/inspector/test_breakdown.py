"""The tokens of a turn's prompt, part by part, as the inspector answers them. What the page shows of them: test_request."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any

import pytest

from penstock import events as ev
from penstock.testing import Reply
from tests.support import sample_streams
from tests.support.client_requests import ASKING, WORDS, ask
from tests.support.event_feed import ended
from tests.support.gateway import hash_key
from tests.support.inspector import inspected
from tests.support.inspector_bounds import bounds
from tests.support.inspector_calls import CLIENT, ask_inspector, lost, send, view
from tests.support.kept_on_disk import on_disk, recorded
from tests.support.page_gateway import flush
from tests.support.page_pictures import png
from tests.support.sample_turns import wired

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.inspector import Inspected

SECRET = "sk-proj-0123456789abcdefABCDEF0123456789abcdef"
PICTURE = {"type": "base64", "media_type": "image/png", "data": base64.b64encode(png(1024, 1024)).decode()}
QUESTION = "How high is the water behind the gate at station four?"
TOOL = {
    "name": "read_gauge",
    "description": "Reads the height of the water at a station.",
    "input_schema": {"type": "object", "properties": {"station": {"type": "integer"}}, "required": ["station"]},
}
AGENT: dict[str, Any] = {
    "model": "anthropic/claude-sonnet-4-5", "stream": True, "max_tokens": 2000, "tools": [TOOL],
    "system": "You watch the gates of a canal. Answer in one sentence, with the height in metres.",
    "tool_choice": {"type": "any"},
    "messages": [
        {"role": "user", "content": QUESTION},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": "read_gauge", "input": {"station": 4}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "2.71 m, and rising"}]},
        {"role": "user", "content": [{"type": "image", "source": PICTURE}, {"type": "text", "text": "And in this picture?"}]},
    ],
}  # fmt: skip
COUNTED: list[ev.AnyEvent] = [
    ev.Start(id="1", model="m"), ev.TextStart(0), ev.TextDelta(0, "It stands at 2.71 m."), ev.TextEnd(0),
    ev.Usage(input=40, output=9), ev.Finish("stop"),
]  # fmt: skip
CHAT = {"model": "openai-chat/gpt-4o", "messages": [{"role": "user", "content": "How high is the water?"}]}
KEYS = {name: f"pk-penstock-{name}0123456789" for name in ("owner", "anna")}


@pytest.fixture(scope="module")
def gateway() -> Iterator[Inspected]:
    with inspected(wired) as running:
        yield running


def tell(gateway: Inspected, body: Any, path: str = "/v1/messages", key: str = "") -> str:
    """Ask, and return the turn's id when the gateway is through with it."""
    return send(gateway, path, json.dumps(body).encode(), key)


def breakdown(gateway: Inspected, name: str, key: str = "") -> dict[str, Any]:
    return dict(view(gateway, f"turns/{name}/breakdown", key))


def break_down(gateway: Inspected, content: Any, **fields: Any) -> dict[str, Any]:
    """The breakdown of the agent's request with one message."""
    return breakdown(gateway, tell(gateway, {**AGENT, "messages": [{"role": "user", "content": content}], **fields}))


def test_every_part_of_a_prompt_has_a_line(gateway: Inspected) -> None:
    found = breakdown(gateway, tell(gateway, AGENT))
    kinds = [line["kind"] for line in found["lines"]]
    assert kinds == ["system", "tools", *["message"] * 4, "images", "framing", "hidden"]
    assert sum(line["share"] for line in found["lines"]) == pytest.approx(1, abs=0.001)
    assert sum(line["tokens"] for line in found["lines"]) == found["tokens"]
    assert all(line["low"] <= line["tokens"] <= line["high"] for line in found["lines"])
    assert {line["method"] for line in found["lines"]} <= {"actual", "hybrid", "estimated"}
    by_message = {line["message"]: line.get("about") for line in found["lines"] if "message" in line}
    assert (by_message[1], by_message[2]) == (QUESTION, "read_gauge")
    images = next(line for line in found["lines"] if line["kind"] == "images")
    assert images["share"] > 0.5  # a square megapixel is most of this prompt
    assert (found["model"], found["provider"], found["lost"]) == ("claude-sonnet-4-5", "anthropic", "")
    assert found["actual"] > 0  # as its provider counted it
    assert found["uncertain"] == {}
    messages = [{"role": ("user", "assistant")[number % 2], "content": f"Gate {number}"} for number in range(1500)]
    found = breakdown(gateway, tell(gateway, {**AGENT, "messages": messages}))
    assert len(found["lines"]) == 1000  # many messages are not a line each
    assert "more messages" in found["lines"][-1]["what"]
    assert sum(line["tokens"] for line in found["lines"]) == found["tokens"]
    assert sum(line["share"] for line in found["lines"]) == pytest.approx(1, abs=0.05)


def test_every_client_protocol_is_read(gateway: Inspected) -> None:
    for protocol in ASKING.keys() - {"ollama"}:
        name = ask(gateway.url, protocol, "openai-chat/text").headers["x-request-id"]
        ended(gateway, name)
        found = breakdown(gateway, name)
        message = next(line for line in found["lines"] if line["kind"] == "message")
        assert (found["lost"], found["model"], message["about"]) == ("", "text", WORDS), protocol


def test_what_is_guessed_is_named_and_a_secret_is_hidden(gateway: Inspected) -> None:
    def at(kind: str, ending: str) -> list[Any]:
        return [{"type": kind, "source": {"type": "url", "url": f"https://example.com/a.{ending}"}}]

    plain = {"tools": [], "tool_choice": {"type": "auto"}}
    assert break_down(gateway, at("image", "png"), **plain)["uncertain"] == {"image-urls": 1}
    assert break_down(gateway, at("document", "pdf"), **plain)["uncertain"] == {"file-urls": 1}
    assert break_down(gateway, "Open?", **plain)["uncertain"] == {}
    search = {"type": "web_search_20250305", "name": "web_search"}
    assert break_down(gateway, "Open?", tools=[search])["uncertain"] == {"provider-tools": 1}
    told = str(break_down(gateway, f"My key is {SECRET}"))
    assert SECRET not in told
    assert "My key is [secret]" in told


def test_a_request_that_is_not_whole_or_not_kept_is_not_counted(gateway: Inspected) -> None:
    with bounds(request=20_000):
        found = break_down(gateway, "high water " * 2_000)
        assert "only its beginning is kept" in found["lost"]
        assert found["lines"] == []
    public: dict[str, Any] = {"serve": {"pace": 0.0, "host": "0.0.0.0"}, "access": {"trusted_proxies": []}}  # noqa: S104
    with inspected(wired, **public) as alone:
        name = CLIENT.post(f"{alone.url}/v1/messages", json=AGENT).headers["x-request-id"]
        flush(alone)
        found = breakdown(alone, name)
        assert "keeps no turns without keys, and nobody watched" in found["lost"]
        assert lost(alone, name)
        assert (found["lines"], found["actual"] > 0) == ([], True)
        assert ask_inspector(alone, "turns/nobody/breakdown").status_code == 404


def expect_counted(found: dict[str, Any]) -> None:
    """The parts are divided from what the provider has counted."""
    assert (found["method"], found["tokens"], found["actual"]) == ("actual", 40, 40)
    assert sum(line["tokens"] for line in found["lines"]) == 40
    assert all(line["low"] <= line["tokens"] <= line["high"] for line in found["lines"])


def test_a_prompt_that_its_provider_counted_is_actual_for_all_and_after_a_restart(tmp_path: Path) -> None:
    reply, path = Reply.of("openai-chat", COUNTED, stream=False), "/v1/chat/completions"
    keys = {name: {"hash": hash_key(key), "inspect": "all" if name == "owner" else "own", "inspect_keep": True}
            for name, key in KEYS.items()}  # fmt: skip
    with inspected(reply, keys=keys) as gateway:  # by the estimator of its tenant
        name = tell(gateway, CHAT, path, KEYS["anna"])
        flush(gateway)
        for key in KEYS.values():
            expect_counted(breakdown(gateway, name, key))
    # The text on disk is not the one that was counted if it has lost a secret, but the turn's row has the count.
    secret = {**CHAT, "messages": [{"role": "user", "content": "password: hunter2planted, how high is the water?"}]}
    with inspected(reply, **on_disk(tmp_path)) as gateway:
        names = [tell(gateway, body, path) for body in (CHAT, secret)]
        flush(gateway)
    with inspected(reply, **on_disk(tmp_path)) as again:
        for name in names:
            expect_counted(breakdown(again, name))


def test_a_count_of_more_than_the_request_shows_is_not_divided() -> None:
    counted: list[ev.AnyEvent] = [ev.Start(id="1", model="m"), ev.Usage(input=1_000, output=1), ev.Finish("stop")]
    body = {"model": "responses/gpt-4o", "input": "How high is the water?"}
    reply = Reply.of("responses", counted, stream=False)
    with inspected(reply, features={"estimates": False}) as gateway:  # nothing else has the count
        for more in ({"previous_response_id": "resp_elsewhere"}, {"tools": [{"type": "web_search"}]}):
            found = breakdown(gateway, tell(gateway, {**body, **more}, "/v1/responses"))
            assert (found["method"], found["actual"]) == ("estimated", 1_000), more
            assert found["tokens"] < 500


def test_a_recording_has_its_request(tmp_path: Path) -> None:
    with inspected(wired, record={"path": str(tmp_path)}) as gateway:
        name = tell(gateway, AGENT)
        recorded(gateway)
        (tape,) = tmp_path.glob("*.tape")
        kinds = [line["kind"] for line in breakdown(gateway, name)["lines"]]
        assert "images" in kinds
        url = f"{gateway.url}/inspector/breakdown"
        dropped = CLIENT.post(url, params={"name": "a.tape"}, content=tape.read_bytes()).json()
        for found in (view(gateway, f"recordings/{tape.name}/breakdown"), dropped):
            assert found["lost"] == ""
            assert [line["kind"] for line in found["lines"]] == kinds
        bare = CLIENT.post(url, content=b"".join(sample_streams.interleaved())).json()
        assert bare["lost"] == "the file has no request"
