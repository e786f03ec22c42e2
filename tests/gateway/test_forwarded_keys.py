"""`keys = "forward"`: the client's own key reaches the provider, in the form that this provider expects."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import httpx
import pytest

from penstock import events as ev
from penstock.gateway import App, Config, GatewayConfig
from penstock.testing import Reply, scripted

if TYPE_CHECKING:
    from penstock.testing import ReceivedRequest, Upstream

EVENTS: list[ev.AnyEvent] = [
    ev.Start(id="1", model="m"), ev.TextStart(0), ev.TextDelta(0, "hi"), ev.TextEnd(0), ev.Usage(input=1, output=1),
    ev.Finish("stop"),
]  # fmt: skip
# What the client sends its key as → what each provider must get.
WAYS = [{"x-api-key": "sk-mine-0001"}, {"authorization": "Bearer sk-mine-0001"}, {"x-goog-api-key": "sk-mine-0001"}]
WANTED = {"openai": ("authorization", "Bearer sk-mine-0001"), "anthropic": ("x-api-key", "sk-mine-0001")}


def answer(seen: ReceivedRequest) -> Reply:
    return Reply.of("anthropic" if seen.path.endswith("messages") else "openai-chat", EVENTS, stream=False)


async def ask(upstream: Upstream, provider: str, headers: dict[str, str]) -> httpx.Response:
    accounts = {name: {"base_url": f"{upstream.url}/v1", "like": name} for name in WANTED}
    accounts["anthropic"] = {"base_url": upstream.url, "like": "anthropic"}
    named = {f"up-{name}": account for name, account in accounts.items()}
    config = GatewayConfig(engine=Config(providers=named, retries=0), access={"keys": "forward"})
    app = App(config, env={"OPENAI_API_KEY": "sk-ours-00001", "ANTHROPIC_API_KEY": "sk-ours-00001"})
    body: dict[str, Any] = {
        "model": f"up-{provider}/m",
        "max_tokens": 9,
        "messages": [{"role": "user", "content": "?"}],
    }
    try:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client:
            return await client.post("/v1/messages", json=body, headers=headers)
    finally:
        await app.services.aclose()


@pytest.mark.parametrize("provider", WANTED)
@pytest.mark.parametrize("headers", WAYS, ids=lambda headers: next(iter(headers)))
def test_the_key_arrives_as_the_provider_wants_it(provider: str, headers: dict[str, str]) -> None:
    import asyncio

    with scripted(answer) as upstream:
        reply = asyncio.run(ask(upstream, provider, headers))
    assert reply.status_code == 200, reply.text
    [seen] = upstream.requests
    name, value = WANTED[provider]
    assert seen.headers.get(name) == value
    assert "sk-ours-00001" not in str(seen.headers)
