"""Every recorded request of a real client is accepted on its route, as it was sent."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from tests.support import corpus
from tests.support.client_requests import read, told
from tests.support.each_case import each
from tests.support.gateway import gateway

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

WHERE = corpus.root().parent / "recorded-requests"
KEPT = frozenset({"user-agent", "anthropic-version", "anthropic-beta", "originator", "x-goog-api-client"})


@pytest.fixture(scope="module")
def client() -> Iterator[httpx.Client]:
    with gateway() as (running, _), httpx.Client(base_url=running.url, timeout=20, trust_env=False) as made:
        yield made


def clients() -> list[Path]:
    return sorted(path for path in WHERE.glob("*") if path.is_dir()) if WHERE.is_dir() else []


# what an address ends in → the protocol that is spoken there; the others have no turns, or are not for every provider
SPOKEN = {
    "/chat/completions": "openai-chat", "/messages": "anthropic",
    "/responses": "responses", ":generateContent": "gemini", ":streamGenerateContent": "gemini", "/api/chat": "uistream",
}  # fmt: skip


def placed(url: str, body: Any, provider: str) -> str:
    """The same request for a model that there is; one to a list of models stays as it is."""
    if isinstance(body, dict) and ("model" in body or spoken(url) == "uistream"):
        body["model"] = f"{provider}/text"
    before, models, rest = url.partition("models/")
    if models and ":" in rest:
        return f"{before}models/{provider}/text:{rest.partition(':')[2]}"
    return url.replace("/v1/models/stub-model", "/v1/models/quick")


def spoken(url: str) -> str:
    path = url.partition("?")[0]
    return next((name for end, name in SPOKEN.items() if path.endswith(end)), "")


def well(protocol: str, reply: httpx.Response, body: Any) -> bool:
    """Whether an answer is one that ends well, as its own protocol says it."""
    stream = "event-stream" in reply.headers["content-type"]
    if protocol == "gemini" and not stream and reply.content.startswith(b"["):
        return bool(reply.json())
    events = read(protocol, reply.content, stream=stream)
    return stream == bool(body.get("stream", stream)) and told(events)[2] == "stop"


@pytest.mark.skipif(not WHERE.is_dir(), reason="corpus absent: no recorded requests")
@each("provider", ["openai-chat", "anthropic", "responses"])
@each("folder", clients())
def test_what_a_client_sent_is_taken(client: httpx.Client, folder: Path, provider: str) -> None:
    files = sorted(folder.glob("*/*.json"))
    assert files
    for file in files:
        record = json.loads(file.read_text())
        body = record.get("body")
        if isinstance(body, dict) and "previous_response_id" in body:
            continue  # what was stored elsewhere is tested with the stored responses
        protocol = spoken(record["url"])
        headers = {name: value for name, value in record["headers"].items() if name.lower() in KEPT}
        url = placed(record["url"], body, provider if protocol else "openai-chat")
        reply = client.request(record["method"], url, json=body, headers=headers)
        assert reply.status_code == 200, (file.name, reply.text[:300])
        assert not protocol or well(protocol, reply, body), (file.name, reply.text[-600:])
