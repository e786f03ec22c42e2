"""Needs of single client programs, found by running them, tested here over a real gateway without them."""

from __future__ import annotations

import gzip
import json
import zlib
from typing import TYPE_CHECKING

import pytest

from penstock.testing import Reply, scripted
from tests.oracles.sdk_matrix import SAID, THOUGHT
from tests.support.client_requests import ask, get, post, read, told
from tests.support.each_case import each
from tests.support.gateway import gateway

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.testing import ReceivedRequest

MISTRAL = {"user-agent": "mistral-client-python/3.7"}


@pytest.fixture(scope="module")
def base() -> Iterator[str]:
    with gateway() as (running, _):
        yield running.url


AI_SDK = {
    "ai-sdk/openai/3.0.139 ai-sdk/provider-utils/4.0.65 runtime/node.js/24": "ai-sdk-openai",
    "ai-sdk-openai/4.0.114 ai-sdk-provider-utils/5.0.79 node.js/24": "ai-sdk-openai",
    "ai-sdk-openai-compatible/3.0.90 ai-sdk-provider-utils/5.0.79 node.js/24": "ai-sdk",
    "ai-sdk-anthropic/4.0.102 ai-sdk-provider-utils/5.0.79 node.js/24": "ai-sdk-anthropic",
    "ai-sdk-mistral/4.0.81 ai-sdk-provider-utils/5.0.76 node.js/24": "ai-sdk-mistral",
}


def test_every_version_of_the_ai_sdk_is_known() -> None:
    with gateway() as (running, _):
        for agent, row in AI_SDK.items():
            assert ask(running.url, "openai-chat", "replay/text", headers={"user-agent": agent}).status_code == 200
            assert running.rows()[0].client == row


@each("provider", ["openai-chat", "anthropic"])  # the same protocol, and another
def test_mistrals_clients_find_thoughts_among_the_content(base: str, provider: str) -> None:
    whole = ask(base, "openai-chat", f"{provider}/reasoning", stream=False, headers=MISTRAL)
    thought, text = whole.json()["choices"][0]["message"]["content"]
    assert thought["type"] == "thinking"
    assert thought["thinking"][0]["text"].endswith(THOUGHT)
    assert text == {"type": "text", "text": SAID}
    streamed = ask(base, "openai-chat", f"{provider}/reasoning", headers=MISTRAL)
    assert '"thinking"' in streamed.text
    assert "reasoning_content" not in streamed.text
    assert told(read("openai-chat", streamed.content))[0] == SAID


def test_a_model_with_slashes_may_stand_where_gemini_has_models(base: str) -> None:
    body = {"contents": [{"parts": [{"text": "hi"}]}]}
    for path in (
        "/v1beta/models/anthropic/text",
        "/v1beta/anthropic/text",
        "/v1/publishers/google/models/anthropic/text",
    ):
        reply = post(f"{base}{path}:generateContent", json=body)
        assert told(read("gemini", reply.content, stream=False))[0].startswith("A penstock"), path
    assert post(f"{base}/v1beta/anthropic/text:embroider", json=body).status_code == 404
    assert get(f"{base}/v1beta/models/quick:generateContent").status_code == 405


def test_the_name_of_a_model_may_end_like_a_method(base: str) -> None:
    reply = get(f"{base}/v1/models/ollama/llama:latest")
    assert (reply.status_code, reply.json()["id"]) == (200, "ollama/llama:latest")


# ── addresses and bodies as they come ─────────────────────────────────────────────────────────────

CHAT = {"model": "anthropic/text", "messages": [{"role": "user", "content": "hi"}]}
MESSAGES = {**CHAT, "max_tokens": 9}


@each(
    "path, body",
    [
        ("//v1/chat/completions", CHAT), ("/v1//chat/completions", CHAT), ("/openai/v1/chat/completions", CHAT),
        ("/api/v1/chat/completions", CHAT), ("/v1beta/openai/chat/completions", CHAT), ("/anthropic/v1/messages", MESSAGES),
        ("/anthropic/v1/messages/count_tokens?beta=true", CHAT), ("/openai/v1/responses", {"model": "anthropic/text", "input": "hi"}),
        ("/gemini/v1beta/models/anthropic/text:generateContent", {"contents": [{"parts": [{"text": "hi"}]}]}),
        ("/openai/deployments/quick/chat/completions?api-version=2024-10-21", {"messages": CHAT["messages"]}),
        ("/openai/deployments/quick/chat/completions", {**CHAT, "model": "any-other-word"}),
        ("/openai/deployments/openai-chat%2Fe/embeddings?api-version=2024-10-21", {"model": "e", "input": "hi"}),
    ],
)  # fmt: skip
def test_addresses_that_others_have(base: str, path: str, body: object) -> None:
    assert post(base + path, json=body).status_code == 200


@each("path", ["/elsewhere/v1/chat/completions", "/v1/threads/t/messages", "/openai/deployments/x", "//"])
def test_addresses_that_nobody_has(base: str, path: str) -> None:
    assert post(base + path, json=CHAT).status_code in {404, 501}


def test_bodies_may_come_packed_or_marked(base: str) -> None:
    raw = json.dumps(CHAT).encode()
    url = f"{base}/v1/chat/completions"
    for name, data in (
        ("gzip", gzip.compress(raw)),
        ("deflate", zlib.compress(raw)),
        ("identity", raw),
        ("GZip", gzip.compress(raw)),
    ):
        assert post(url, content=data, headers={"content-encoding": name}).status_code == 200, name
    assert post(url, content=b"\xef\xbb\xbf" + raw).status_code == 200, "a byte order mark"
    said = [
        (post(url, content=data, headers={"content-encoding": name}).status_code)
        for name, data in (("zstd", raw), ("gzip", raw), ("gzip", gzip.compress(raw)[:-9]), ("br", b""))
    ]
    assert said == [415, 400, 400, 415]


def test_a_body_that_unpacks_to_too_much_is_too_large() -> None:
    bomb = gzip.compress(b" " * 20_000_000)
    with gateway(serve={"pace": 0.0, "body": 1_000_000}) as (running, up):
        answer = post(f"{running.url}/v1/messages", content=bomb, headers={"content-encoding": "gzip"})
        assert (answer.status_code, "over 1000000 bytes" in answer.text) == (413, True)
        assert up.requests == []


THINKING = [{"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]}, {"type": "text", "text": "4"}]


def magistral(seen: ReceivedRequest) -> Reply:
    """An answer of Mistral's reasoning models: content that is a list of parts."""
    head = {"id": "c", "created": 1, "model": "magistral-medium-latest"}
    if not seen.json.get("stream"):
        message = {"role": "assistant", "content": THINKING}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        return Reply.body({**head, "object": "chat.completion", "choices": [choice]})
    rows = [
        {"index": 0, "delta": {"role": "assistant", "content": THINKING[:1]}, "finish_reason": None},
        {"index": 0, "delta": {"content": "4"}, "finish_reason": "stop"},
    ]
    frames = [json.dumps({**head, "object": "chat.completion.chunk", "choices": [row]}) for row in rows]
    body = "".join(f"data: {frame}\n\n" for frame in [*frames, "[DONE]"]).encode()
    return Reply.body(body, headers={"content-type": "text/event-stream"})


@each("like", ["mistral", "databricks"])
def test_clients_of_openai_get_text_from_providers_that_answer_with_lists(like: str) -> None:
    with (
        scripted(magistral) as up,
        gateway(
            providers={"lists": {"like": like, "key": "sk-up-000000", "base_url": f"{up.url}/lists"}},
            env={"DATABRICKS_HOST": "http://unused.test"},
        ) as (running, _),
    ):
        message = ask(running.url, "openai-chat", "lists/m", stream=False).json()["choices"][0]["message"]
        assert (message["content"], message["reasoning_content"]) == ("4", "Hm.")
        streamed = ask(running.url, "openai-chat", "lists/m")
        assert '"content":[' not in streamed.text.replace(" ", "")
        assert told(read("openai-chat", streamed.content))[0] == "4"
        own = ask(running.url, "openai-chat", "lists/m", stream=False, headers=MISTRAL).json()
        assert own["choices"][0]["message"]["content"] == THINKING
