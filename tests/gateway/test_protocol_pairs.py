"""Every client protocol to every provider protocol, streamed and whole, through a real server and a real upstream."""

from __future__ import annotations

import base64
import json
import struct
from typing import TYPE_CHECKING, Any

import pytest

from tests.core.test_vscode_schema import faults
from tests.support.client_requests import ASKING, CALLING, ask, get, post, read, told
from tests.support.each_case import each
from tests.support.gateway import PROVIDERS, gateway

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.testing import Upstream
    from tests.support.gateway import Running

CALL = ("read_gauge", {"station": "upper gate", "unit": "m"})
TEXT = "Let me look at the gauge first."
TALKING = tuple(name for name in PROVIDERS if name != "completions")


@pytest.fixture(scope="module")
def both() -> Iterator[tuple[Running, Upstream]]:
    with gateway() as found:
        yield found


@pytest.fixture
def base(both: tuple[Running, Upstream]) -> str:
    return both[0].url


@each("stream", [True, False])
@each("provider", TALKING)
@each("client", CALLING)
def test_any_client_to_any_provider(base: str, client: str, provider: str, stream: bool) -> None:
    reply = ask(base, client, f"{provider}/tools", stream=stream)
    assert reply.status_code == 200, reply.text
    text, calls, end = told(read(client, reply.content, stream=stream))
    assert (text, calls, end) == (TEXT, [CALL], "calls")


@each("provider", PROVIDERS)
def test_text_completions_to_any_provider(base: str, provider: str) -> None:
    reply = ask(base, "completions", f"{provider}/text")
    text, _, end = told(read("completions", reply.content))
    assert text.startswith("A penstock is the pipe")
    assert end == "stop"


def test_streams_say_what_they_are(base: str) -> None:
    kinds = {"vscode": "application/x-ndjson", "ollama": "application/x-ndjson"}
    for client in ASKING:
        reply = ask(base, client, "openai-chat/text")
        assert reply.headers["content-type"].startswith(kinds.get(client, "text/event-stream"))
        assert reply.headers["cache-control"] == "no-cache, no-transform"
        assert "content-length" not in reply.headers
        assert "content-encoding" not in reply.headers
        assert reply.headers["x-request-id"]
    assert ask(base, "uistream", "openai-chat/text").headers["x-vercel-ai-ui-message-stream"] == "v1"


def test_gemini_streams_a_json_array_unless_asked_for_events(base: str) -> None:
    body = {"contents": [{"parts": [{"text": "hi"}]}]}
    for version in ("v1", "v1beta"):
        reply = post(f"{base}/{version}/models/openai-chat/tools:streamGenerateContent", json=body)
        assert reply.headers["content-type"] == "application/json"
        parts = [part for chunk in reply.json() for part in chunk["candidates"][0]["content"]["parts"]]
        assert "".join(part.get("text", "") for part in parts) == TEXT


def test_usage_that_nobody_asked_for_is_not_sent(base: str) -> None:
    body = {"model": "openai-chat/text", "stream": True, "messages": [{"role": "user", "content": "hi"}]}
    for model in ("openai-chat/text", "anthropic/text"):
        plain = post(f"{base}/v1/chat/completions", json={**body, "model": model}).text
        asked = post(
            f"{base}/v1/chat/completions", json={**body, "model": model, "stream_options": {"include_usage": True}}
        ).text
        chunks = [json.loads(line[6:]) for line in plain.splitlines() if line.startswith("data: {")]
        assert all(chunk["choices"] for chunk in chunks)
        assert '"choices":[]' in asked
        assert plain.rstrip().endswith("data: [DONE]")


def test_mistrals_client_gets_whole_calls(base: str) -> None:
    reply = ask(base, "openai-chat", "openai-chat/tools", headers={"user-agent": "mistral-client-python/3.7"})
    chunks = [json.loads(line[6:]) for line in reply.text.splitlines() if line.startswith("data: {")]
    calls = [
        call for chunk in chunks for choice in chunk["choices"] for call in choice["delta"].get("tool_calls") or ()
    ]
    assert [(call["function"]["name"], json.loads(call["function"]["arguments"])) for call in calls] == [CALL]


@each(
    "headers, fields",
    [
        ({}, {"id", "object", "created", "owned_by"}),
        ({"anthropic-version": "2023-06-01"}, {"id", "type", "display_name", "created_at"}),
        ({"user-agent": "mistral-client-python/3"}, {"id", "type", "capabilities", "object"}),
        ({"x-goog-api-client": "gl-python/3"}, {"name", "displayName", "supportedGenerationMethods"}),
        ({"user-agent": "ollama-python/0.5"}, {"name", "model", "details", "modified_at"}),
    ],
)
def test_models_in_the_shape_that_a_client_expects(base: str, headers: dict[str, str], fields: set[str]) -> None:
    made = get(f"{base}/v1/models", headers=headers).json()
    rows = made.get("data") or made["models"]
    names = [row.get("id") or row["name"].removeprefix("models/") for row in rows]
    assert fields <= set(rows[0])
    assert names[0] == "quick"  # aliases come first
    assert "anthropic/tools" in names
    assert "replay/text" in names
    assert get(f"{base}/v1/models/{names[0]}", headers=headers).json() == rows[0]


def test_an_editor_gets_models_counts_and_lines(base: str) -> None:
    models = get(f"{base}/vscode/models").json()
    assert faults("models", models) == []
    assert models["models"][0]["id"] == "quick"
    assert models["models"][0]["counting"]["factors"]
    items = ["How many?", {"role": 1, "content": [{"value": "hello"}]}, {"name": "t", "description": "d"}]
    counts = post(f"{base}/vscode/count", json={"model": "quick", "items": items}).json()
    assert faults("counts", counts) == []
    assert all(count > 0 for count in counts["counts"])
    for line in ask(base, "vscode", "gemini/parallel-tools").text.splitlines():
        assert faults("line", json.loads(line)) == []


def test_counts_are_the_providers_own_where_it_has_them(base: str) -> None:
    said = {"messages": [{"role": "user", "content": "one two three"}]}
    own = post(f"{base}/v1/messages/count_tokens?beta=true", json={"model": "anthropic/text", **said})
    assert own.json() == {"input_tokens": 42}
    guessed = post(f"{base}/v1/messages/count_tokens", json={"model": "openai-chat/text", **said}).json()
    assert 3 <= guessed["input_tokens"] < 20
    contents = {"contents": [{"parts": [{"text": "one two three"}]}]}
    assert post(f"{base}/v1beta/models/gemini/text:countTokens", json=contents).json() == {"totalTokens": 42}


def test_a_count_is_asked_for_with_the_betas_and_fields_of_its_client(both: tuple[Running, Upstream]) -> None:
    running, up = both
    edits = {"context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]}}
    said = {"messages": [{"role": "user", "content": "one two three"}], **edits}
    beta = {"anthropic-beta": "context-management-2025-06-27", "x-other": "1"}
    post(f"{running.url}/v1/messages/count_tokens", json={"model": "anthropic/text", **said}, headers=beta)
    seen = up.requests[-1]
    assert seen.path.endswith("/count_tokens")
    assert seen.headers["anthropic-beta"] == beta["anthropic-beta"]
    assert "x-other" not in seen.headers
    assert seen.json["context_management"] == edits["context_management"]


def test_embeddings_as_numbers_and_packed(both: tuple[Running, Upstream]) -> None:
    running, up = both
    body = {"model": "openai-chat/embedder", "input": ["a", "b"], "dimensions": 3}
    plain = post(f"{running.url}/v1/embeddings", json=body).json()
    packed = post(f"{running.url}/v1/embeddings", json={**body, "encoding_format": "base64"}).json()
    assert [row["embedding"] for row in plain["data"]] == [[0.25, -1.5, 0.0], [0.25, -1.5, 1.0]]
    unpacked = [list(struct.unpack("<3f", base64.b64decode(row["embedding"]))) for row in packed["data"]]
    assert unpacked == [row["embedding"] for row in plain["data"]]
    assert plain["usage"] == {"prompt_tokens": 7, "total_tokens": 7}
    assert up.requests[-1].json == {"model": "embedder", "input": ["a", "b"], "dimensions": 3}
    wrong = post(f"{running.url}/v1/embeddings", json={"model": "openai-chat/e", "input": []})
    assert wrong.status_code == 400
    assert wrong.json()["error"]["param"] == "input"


def test_documents_are_ranked(base: str) -> None:
    body = {"model": "openai-chat/r", "query": "q", "documents": ["a", {"text": "b"}], "return_documents": True}
    rows = post(f"{base}/v1/rerank", json=body).json()["results"]
    assert [(row["index"], row["document"]["text"]) for row in rows] == [(1, "b"), (0, "a")]


def test_filling_in_the_middle_is_answered_like_a_chat(both: tuple[Running, Upstream]) -> None:
    running, up = both
    body = {"model": "openai-chat/text", "prompt": "def f(", "suffix": ")"}
    made = post(f"{running.url}/v1/fim/completions", json=body).json()
    assert made["object"] == "chat.completion"
    assert made["choices"][0]["message"]["content"].startswith("A penstock")
    assert up.requests[-1].json["suffix"] == ")"


@each(
    "path, body, where",
    [
        ("/v1/chat/completions", {"model": "quick", "messages": [{"role": "user", "content": 7}]}, "messages[0]"),
        ("/v1/messages", {"model": "quick", "max_tokens": 9, "messages": "x"}, "messages"),
        ("/v1/responses", {"model": "quick", "input": 7}, "input"),
        ("/v1beta/models/quick:generateContent", {"contents": 7}, "contents"),
    ],
)
def test_what_is_wrong_with_a_request_is_said_with_its_place(base: str, path: str, body: Any, where: str) -> None:
    reply = post(base + path, json=body)
    assert reply.status_code == 400
    assert where in reply.json()["error"]["message"]


def test_a_model_that_means_nobody_is_not_found(base: str) -> None:
    for client in ASKING:
        reply = ask(base, client, "nobody-knows-this-model")
        assert reply.status_code == 404, client
        assert "nobody-knows-this-model" in reply.text


def test_a_page_that_names_no_model_gets_the_first_there_is(both: tuple[Running, Upstream]) -> None:
    running, up = both
    message = {"id": "m1", "role": "user", "parts": [{"type": "text", "text": "hi"}]}
    assert post(f"{running.url}/api/chat", json={"id": "c", "messages": [message]}).status_code == 200
    assert up.requests[-1].json["model"] == "text"  # what the first alias means
    assert get(f"{running.url}/v1/models/nobody-knows-it").status_code == 404


def test_addresses_are_met_as_clients_write_them(base: str) -> None:
    body = {"model": "quick", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 9}
    for path in ("/chat/completions", "/v1/chat/completions/", "/v1/v1/messages", "/messages"):
        assert post(base + path, json=body).status_code == 200, path
    assert get(f"{base}/models").status_code == 200
    assert get(f"{base}/v1/messages").status_code == 405
    assert post(f"{base}/v1/models").status_code == 405
    assert get(f"{base}/v1/nothing").status_code == 404
