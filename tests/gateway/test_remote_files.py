"""Fetching by the gateway: off by default; remote images for providers that want data, files of answers for VS Code."""

from __future__ import annotations

import json
from base64 import b64encode
from typing import TYPE_CHECKING, Any

import pytest

from penstock import events as ev
from penstock.testing import Reply
from tests.support.client_requests import post
from tests.support.each_case import each
from tests.support.file_server import ATTACKS, PNG, Files, fetch_from, file_servers
from tests.support.gateway import gateway

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.testing import ReceivedRequest

PNG64 = b64encode(PNG).decode()
DONE: list[ev.AnyEvent] = [ev.Start("one", "m", 7), ev.TextStart(0), ev.TextDelta(0, "Seen."), ev.TextEnd(0),
                           ev.Finish("stop")]  # fmt: skip


@pytest.fixture(scope="module")
def files() -> Iterator[Files]:
    with file_servers() as running:
        yield running


def spoken(seen: ReceivedRequest) -> Reply:
    protocol, _, rest = seen.path.lstrip("/").partition("/")
    stream = seen.json.get("stream") is True or "stream" in rest
    return Reply.of("openai-chat" if "chat/completions" in rest else protocol, DONE, stream=stream)


def ask_about(base: str, model: str, url: str) -> Any:
    content = [{"type": "text", "text": "What is it?"}, {"type": "image_url", "image_url": {"url": url}}]
    body = {"model": model, "messages": [{"role": "user", "content": content}]}
    return post(f"{base}/v1/chat/completions", json=body)


# ── requests ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_off_by_default_nothing_is_fetched(files: Files) -> None:
    with gateway(spoken) as (running, up):
        fetch_from(running, files.limits())
        answer = ask_about(running.url, "ollama/m", files.url("off.png"))
        assert "file" in answer.headers["x-penstock-losses"]
        assert PNG64 not in json.dumps(up.requests[0].json)
    assert "off.png" not in files.asked


@each("provider", ["ollama", "bedrock"])
def test_a_provider_that_wants_data_gets_the_picture(files: Files, provider: str) -> None:
    def converse(seen: ReceivedRequest) -> Reply:
        body = {"output": {"message": {"role": "assistant", "content": [{"text": "Seen."}]}}, "stopReason": "end_turn",
                "usage": {"inputTokens": 1, "outputTokens": 1, "totalTokens": 2}}  # fmt: skip
        return Reply.body(body) if provider == "bedrock" else spoken(seen)

    with gateway(converse, fetch={"requests": "needed"}) as (running, up):
        fetch_from(running, files.limits())
        answer = ask_about(running.url, f"{provider}/m", files.url("a.png"))
        assert answer.status_code == 200, answer.text
        assert "file" not in answer.headers.get("x-penstock-losses", "")
        assert PNG64 in json.dumps(up.requests[0].json)


@each("when, data", [("needed", False), ("all", True)])
def test_a_provider_that_takes_addresses_gets_data_only_if_all_do(files: Files, when: Any, data: bool) -> None:
    with gateway(spoken, fetch={"requests": when}) as (running, up):
        fetch_from(running, files.limits())
        ask_about(running.url, "anthropic/m", files.url("a.png"))
        assert (PNG64 in json.dumps(up.requests[0].json)) is data


@each("attack", ATTACKS)
def test_an_attack_in_a_request_is_told_of_and_reaches_nobody(files: Files, attack: str) -> None:
    with gateway(spoken, fetch={"requests": "needed"}) as (running, up):
        fetch_from(running, files.limits(seconds=0.5))
        answer = ask_about(running.url, "ollama/m", files.url(attack))
        assert answer.status_code == 200
        assert "file" in answer.headers["x-penstock-losses"]
        assert PNG64 not in json.dumps(up.requests[0].json)
    assert files.hits == []


@each("host", ["127.0.0.1", "localhost", "[::1]", "169.254.169.254"])
def test_the_guard_of_a_configured_gateway_refuses_this_machine(files: Files, host: str) -> None:
    with gateway(spoken, fetch={"requests": "needed"}) as (running, _):
        answer = ask_about(running.url, "ollama/m", f"http://{host}/a.png")
        assert "file" in answer.headers["x-penstock-losses"]
    assert files.hits == []


def test_files_are_fetched_once_for_all_tries(files: Files) -> None:
    files.asked.clear()
    tries: list[str] = []

    def busy(seen: ReceivedRequest) -> Reply:
        tries.append(seen.path)
        return Reply.body({"error": "busy"}, status=503) if len(tries) == 1 else spoken(seen)

    aliases = {"both": ["ollama/m", "ollama/n"]}
    with gateway(busy, fetch={"requests": "needed"}, aliases=aliases) as (running, _):
        fetch_from(running, files.limits())
        assert ask_about(running.url, "both", files.url("once.png")).status_code == 200
    assert len(tries) == 2
    assert files.asked == ["once.png"]


# ── answers for VS Code ───────────────────────────────────────────────────────────────────────────────────────────────


def answer_of(base: str, *, stream: bool, path: str = "/vscode/chat") -> list[Any]:
    body = {
        "version": 1,
        "model": "gemini/m",
        "stream": stream,
        "messages": [{"role": 1, "content": [{"value": "Draw"}]}],
    }
    answer = post(base + path, json=body)
    assert answer.status_code == 200, answer.text
    rows = [json.loads(line) for line in answer.text.splitlines() if line.strip()]
    return rows if stream else rows[0].get("parts", rows)


def drawing(url: str) -> Any:
    parts = [{"text": "Here:"}, {"fileData": {"mimeType": "image/png", "fileUri": url}}, {"text": " done."}]
    chunk = {
        "candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": "STOP"}],
        "modelVersion": "m",
    }

    def reply(seen: ReceivedRequest) -> Reply:
        if "stream" not in seen.path:
            return Reply.body(chunk)
        data = f"data: {json.dumps(chunk)}\n\n".encode()
        return Reply((data,), headers={"content-type": "text/event-stream"})

    return reply


@each("stream", [True, False])
@each("on", [True, False])
def test_a_file_of_an_answer_is_data_for_the_extension(files: Files, stream: bool, on: bool) -> None:
    with gateway(drawing(files.url("a.png")), fetch={"streams": on}) as (running, _):
        fetch_from(running, files.limits())
        text = json.dumps(answer_of(running.url, stream=stream))
    assert (PNG64 in text) is on
    assert ("[a.png](http" in text) is not on
    assert " done." in text


@each("attack", ATTACKS)
def test_an_attack_in_an_answer_stays_a_link(files: Files, attack: str) -> None:
    with gateway(drawing(files.url(attack)), fetch={"streams": True}) as (running, _):
        fetch_from(running, files.limits(seconds=0.5))
        rows = answer_of(running.url, stream=True)
    assert any(f"[{attack}](http" in row.get("value", "") for row in rows)
    assert [row["kind"] for row in rows if row["kind"] == "data"] == []
    assert rows[-1]["kind"] == "end"
    assert files.hits == []


def test_other_clients_keep_the_address(files: Files) -> None:
    files.asked.clear()
    with gateway(drawing(files.url("a.png")), fetch={"streams": True}) as (running, _):
        fetch_from(running, files.limits())
        body = {"model": "gemini/m", "messages": [{"role": "user", "content": "Draw"}]}
        post(f"{running.url}/v1/chat/completions", json=body)
    assert files.asked == []


# ── the setting ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_reload_changes_the_setting(files: Files) -> None:
    with gateway(drawing(files.url("a.png"))) as (running, _):
        fetch_from(running, files.limits())
        running.reload(fetch={"streams": True})
        assert PNG64 in json.dumps(answer_of(running.url, stream=True))
