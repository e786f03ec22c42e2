"""Every recorded request to `/v1/responses` is accepted, as it was sent, with any provider behind the gateway."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.support import corpus
from tests.support.gateway import gateway
from tests.support.openresponses import asking, events, lawful, named, resource

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import httpx

WHERE = corpus.root().parent / "recorded-requests"


def recorded() -> list[Path]:
    return sorted(WHERE.glob("*/*/*_v1_responses*.json"))


@pytest.fixture(scope="module")
def http() -> Iterator[httpx.Client]:
    with gateway(named, serve={"pace": 0.0}) as (running, _), asking(running.url) as client:
        yield client


def accepted(http: httpx.Client, record: dict[str, Any], provider: str, previous: str) -> dict[str, Any]:
    body = {**record["body"], "model": f"{provider}/{'tools' if record['body'].get('tools') else 'text'}"}
    if "previous_response_id" in body:
        body["previous_response_id"] = previous
    keep = {"host", "content-length", "connection", "accept-encoding"}
    headers = {name: value for name, value in record["headers"].items() if name.lower() not in keep}
    reply = http.post("/responses", json=body, headers=headers)
    assert reply.status_code == 200, reply.text
    return lawful(events(reply.text)) if body.get("stream") else resource(reply.json())


@pytest.mark.parametrize("provider", ["openai-chat", "anthropic", "responses"])
def test_every_recorded_request_is_taken(http: httpx.Client, provider: str) -> None:
    """One goes on from the response before it, whose id is another here."""
    if not recorded():
        pytest.skip("corpus absent: no recorded requests")
    last = ""
    for path in recorded():
        response = accepted(http, json.loads(path.read_bytes()), provider, last)
        assert response["status"] == "completed", path
        last = response["id"]
