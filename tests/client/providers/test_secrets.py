"""A planted key is found nowhere: not in errors, their explanations, logs, decisions, reprs or records of a request,
even where the provider says it back to us.
"""

from __future__ import annotations

import asyncio
import io
import logging
from typing import TYPE_CHECKING, Any

from penstock.client import Client
from penstock.errors import ProviderError, explain
from penstock.providers import Provider, provider
from penstock.testing import ReceivedRequest, Reply, Upstream
from tests.client.providers.accounts import AWS_SECRET, AWS_TOKEN, KEY, TOKEN, environment, exchange, printed_forms
from tests.client.providers.provider_settings import ENV, MODEL
from tests.client.providers.test_provider_requests import _config
from tests.support.each_case import each

if TYPE_CHECKING:
    from pathlib import Path

ROWS = [
    provider(name) for name in ("openai", "anthropic", "azure", "gemini", "bedrock", "vertexai", "watsonx", "asksage")
]
PLANTED = (KEY, TOKEN, AWS_SECRET, AWS_TOKEN, "BEGIN PRIVATE KEY")


def _echo(seen: ReceivedRequest) -> Reply:
    """A provider that says everything back."""
    given = " ".join(seen.headers.values())
    said = {"error": {"message": f"wrong key, I was given {given}", "headers": seen.headers, "url": seen.target}}
    return Reply.body(said, status=401, headers={"x-request-id": "r-1", "x-echo": given})


async def _fail(row: Provider, path: Path) -> list[Any]:
    """All that can be got hold of after a failure."""
    found: list[Any] = []
    async with Upstream(exchange) as tokens, Upstream(_echo) as up:
        env = {**ENV, **environment(tokens, path)}
        async with Client(_config(row, up), env=env) as client:
            for stream in (True, False):
                try:
                    if stream:
                        found += [event async for event in client.chat_stream(f"{row.name}/{MODEL}", "hello")]
                    else:
                        await client.chat(f"{row.name}/{MODEL}", "hello")
                except ProviderError as error:
                    found += [error, explain(error), error.fault, error.body, error.headers, error.args, error.attempts]
            found += [client, client.router, repr(client.router.config), client.router.counts, client.spending]
        assert any(
            KEY in str(seen.headers) or TOKEN in str(seen.headers) or "AWS4" in str(seen.headers)
            for seen in up.requests
        )
    return found


@each("row", ROWS)
def test_a_planted_key_is_nowhere(row: Provider, tmp_path: Path) -> None:
    text = io.StringIO()
    listening = logging.StreamHandler(text)
    root = logging.getLogger()
    before = root.level
    root.addHandler(listening)
    root.setLevel(logging.DEBUG)
    try:
        found = asyncio.run(_fail(row, tmp_path / "account.json"))
    finally:
        root.removeHandler(listening)
        root.setLevel(before)
    assert any(isinstance(one, ProviderError) for one in found)
    everything = text.getvalue() + " ".join(printed_forms(one) for one in found)
    assert [secret for secret in PLANTED if secret in everything] == []
