"""Every recorded request of a real client is taken on its route, as it was sent."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from tests import corpus
from tests.gateway.running import gateway

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.corpus
WHERE = corpus.root().parent / "recorded-requests"
KEPT = frozenset({"user-agent", "anthropic-version", "anthropic-beta", "originator", "x-goog-api-client"})


@pytest.fixture(scope="module")
def client() -> Iterator[httpx.Client]:
    with gateway() as (running, _), httpx.Client(base_url=running.url, timeout=20, trust_env=False) as made:
        yield made


def clients() -> list[Path]:
    return sorted(path for path in WHERE.glob("*") if path.is_dir()) if WHERE.is_dir() else []


def placed(url: str, body: Any) -> str:
    """The same request for a model that there is; one to a list of models stays as it is."""
    if isinstance(body, dict) and "model" in body:
        body["model"] = "openai-chat/text"
    before, models, rest = url.partition("models/")
    return f"{before}models/openai-chat/text:{rest.partition(':')[2]}" if models and ":" in rest else url


@pytest.mark.row("G1")
@pytest.mark.skipif(not WHERE.is_dir(), reason="corpus absent: no recorded requests")
@pytest.mark.parametrize("folder", clients(), ids=lambda path: str(path.name))
def test_what_a_client_sent_is_taken(client: httpx.Client, folder: Path) -> None:
    for file in sorted(folder.glob("*/*.json")):
        record = json.loads(file.read_text())
        body = record.get("body")
        if isinstance(body, dict) and "previous_response_id" in body:
            continue  # what was stored elsewhere is tested with the stored responses
        headers = {name: value for name, value in record["headers"].items() if name.lower() in KEPT}
        url = placed(record["url"], body).replace("/v1/models/stub-model", "/v1/models/quick")
        reply = client.request(record["method"], url, json=body, headers=headers)
        assert reply.status_code == 200, (file.name, reply.text[:300])
