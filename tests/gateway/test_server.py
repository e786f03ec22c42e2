"""The small server as clients meet it: the official SDKs against a real process on loopback."""

from __future__ import annotations

import json
import socket
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import httpx
import pytest

from tests.support.each_case import each
from tests.support.loopback_server import serving

if TYPE_CHECKING:
    from collections.abc import Iterator

    import anthropic
    import openai

ASK: Any = [{"role": "user", "content": "How long does the tank take to fill?"}]
ANSWER = "Three minutes: 540 litres at 3 litres a second take 180 seconds."


@pytest.fixture(scope="module")
def base() -> Iterator[str]:
    with serving("--full-speed") as address:
        yield address


@pytest.fixture(scope="module")
def http(base: str) -> Iterator[httpx.Client]:
    """One for all tests: each client reads the certificates of the machine, which takes 50 ms."""
    with httpx.Client(base_url=base, trust_env=False) as client:
        yield client


@pytest.fixture
def chat(base: str) -> Iterator[openai.OpenAI]:
    import openai

    with openai.OpenAI(base_url=f"{base}/v1", api_key="any", max_retries=0) as client:
        yield client


@pytest.fixture
def claude(base: str) -> Iterator[anthropic.Anthropic]:
    import anthropic

    with anthropic.Anthropic(base_url=base, api_key="any", max_retries=0) as client:
        yield client


def test_chat_reasons_and_answers(chat: openai.OpenAI) -> None:
    with chat.chat.completions.stream(model="replay/reasoning", messages=ASK) as stream:
        whole = stream.get_final_completion()
    body = chat.chat.completions.create(model="replay/reasoning", messages=ASK)
    for completion in (whole, body):
        message = completion.choices[0].message
        assert message.content == ANSWER
        assert (message.model_extra or {})["reasoning_content"].endswith("= 540. Good.")
        assert completion.choices[0].finish_reason == "stop"


def test_chat_calls_tools_once_each(chat: openai.OpenAI) -> None:
    body = chat.chat.completions.create(model="replay/parallel-tools", messages=ASK)
    calls: Any = body.choices[0].message.tool_calls
    assert [(call.function.name, json.loads(call.function.arguments)) for call in calls] == [
        ("read_gauge", {"station": "upper gate", "unit": "m"}),
        ("read_gauge", {"station": "surge tank", "unit": "m"}),
        ("list_alarms", {}),
    ]
    assert len({call.id for call in calls}) == 3
    assert body.choices[0].finish_reason == "tool_calls"


def test_messages_stream_and_body_agree(claude: anthropic.Anthropic) -> None:
    with claude.messages.stream(model="replay/tools", max_tokens=99, messages=ASK) as stream:
        whole = stream.get_final_message()
    body = claude.messages.create(model="replay/tools", max_tokens=99, messages=ASK)
    for message in (whole, body):
        text, call = message.content
        assert text.type == "text"
        assert text.text == "Let me look at the gauge first."
        assert call.type == "tool_use"
        assert (call.name, call.input) == ("read_gauge", {"station": "upper gate", "unit": "m"})
        assert message.stop_reason == "tool_use"


def test_a_tool_result_closes_the_loop(claude: anthropic.Anthropic) -> None:
    result: Any = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "x", "content": "3.2"}]}
    body = claude.messages.create(model="replay/tools", max_tokens=99, messages=[*ASK, result])
    assert body.stop_reason == "end_turn"
    assert body.content[0].type == "text"
    assert body.content[0].text.startswith("Thank you: the result arrived")


def test_responses_stream_and_body_agree(chat: openai.OpenAI) -> None:
    with chat.responses.stream(model="replay/reasoning", input="?") as stream:
        whole: Any = stream.get_final_response()
    body = chat.responses.create(model="replay/reasoning", input="?")
    for response in (whole, body):
        assert response.output_text == ANSWER
        assert response.status == "completed"


def test_a_fault_in_mid_stream_is_the_dialects_own(chat: openai.OpenAI, claude: anthropic.Anthropic) -> None:
    import anthropic
    import openai

    with pytest.raises(openai.APIError, match="overloaded"):
        list(chat.chat.completions.create(model="replay/error", messages=ASK, stream=True))
    with (
        pytest.raises(anthropic.APIStatusError, match="overloaded"),
        claude.messages.stream(model="replay/error", max_tokens=9, messages=ASK) as stream,
    ):
        stream.get_final_message()


def test_a_refused_request_says_why_in_the_dialect(chat: openai.OpenAI, claude: anthropic.Anthropic) -> None:
    import anthropic
    import openai

    with pytest.raises(openai.NotFoundError, match="replay/nothing"):
        chat.chat.completions.create(model="replay/nothing", messages=ASK)
    with pytest.raises(anthropic.NotFoundError, match="replay/nothing"):
        claude.messages.create(model="replay/nothing", max_tokens=9, messages=ASK)


def test_both_sdks_list_the_models(chat: openai.OpenAI, claude: anthropic.Anthropic) -> None:
    names = [model.id for model in chat.models.list()]
    assert "replay/text" in names
    assert [model.id for model in claude.models.list()] == names


@each("path", ["/v1/chat/completions", "/v1/messages", "/v1/responses", "/api/chat"])
def test_a_body_that_is_not_json_is_a_400(http: httpx.Client, path: str) -> None:
    reply = http.post(path, content=b"{")
    assert reply.status_code == 400
    assert "not JSON" in reply.text


def test_the_ui_stream_has_its_header_and_its_end(http: httpx.Client) -> None:
    reply = http.post("/api/chat", json={"id": "1", "model": "replay/text", "messages": []})
    assert reply.headers["x-vercel-ai-ui-message-stream"] == "v1"
    assert reply.text.endswith("data: [DONE]\n\n")


def test_there_is_a_front_page(http: httpx.Client) -> None:
    """The inspector's, or where that is not built the one that says what to do (tests/gateway/inspector/test_static.py)."""
    page = http.get("/")
    assert page.status_code == 200
    assert "penstock" in page.text
    assert http.get("/healthz").json() == {"status": "ok"}
    assert http.get("/nothing").status_code == 404
    assert http.get("/v1/messages").status_code == 405


def test_a_taken_port_is_one_clear_line(base: str) -> None:
    import subprocess
    import sys

    port = str(urlsplit(base).port)
    done = subprocess.run(
        [sys.executable, "-m", "penstock", "serve", "--port", port],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr.strip() == (
        f"penstock: port {port} on 127.0.0.1 is taken; choose another with --port (0 picks a free one)"
    )


def test_a_client_that_leaves_does_not_hold_the_server_up() -> None:
    with serving() as address:
        where = urlsplit(address)
        body = b'{"model":"replay/reasoning","stream":true}'
        with socket.create_connection((where.hostname, where.port), timeout=10) as rude:
            head = f"POST /v1/messages HTTP/1.1\r\nhost: localhost\r\ncontent-length: {len(body)}\r\n\r\n"
            rude.sendall(head.encode() + body)
            assert rude.recv(4096).startswith(b"HTTP/1.1 200")
        assert httpx.get(f"{address}/healthz").status_code == 200
