"""Shared by the tests of `client.run`: clients in front of scripted upstreams, in every provider's protocol."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from penstock import events as ev
from penstock import request as rq
from penstock import unfold
from penstock.client import Client
from penstock.messages import read_request
from penstock.testing import Reply, Upstream, answer

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence

    from penstock.client import Run
    from penstock.testing import ReceivedRequest

# name of the provider in a test → the provider it is like, the protocol that it speaks, the model that is asked for
PROVIDERS: dict[str, tuple[dict[str, Any], str, str]] = {
    "chat": ({"like": "openai", "fields": {"has": ["chat"]}}, "openai-chat", "gpt-4.1"),
    "responses": ({"like": "openai", "fields": {"has": ["responses"]}}, "responses", "gpt-5"),
    "anthropic": ({"like": "anthropic"}, "anthropic", "claude-sonnet-4-5"),
    "gemini": ({"like": "gemini"}, "gemini", "gemini-2.5-flash"),
    "bedrock": ({"like": "bedrock"}, "bedrock", "anthropic.claude-sonnet-4-5-20250929-v1:0"),
    "cohere": ({"like": "cohere"}, "cohere", "command-a-03-2025"),
    "mistral": ({"like": "mistral"}, "openai-chat", "mistral-large-latest"),
    "ollama": ({"like": "ollama"}, "ollama", "llama3.2"),
    "groq": ({"like": "groq"}, "openai-chat", "llama-3.3-70b-versatile"),
    "deepseek": ({"like": "deepseek"}, "openai-chat", "deepseek-chat"),
    "openrouter": ({"like": "openrouter"}, "openai-chat", "openai/gpt-5"),
}
KEY = "sk-planted-0123456789abcdef"


def model_of(provider: str) -> str:
    return f"{provider}/{PROVIDERS[provider][2]}"


def reply(provider: str, *parts: rq.AnyPart, reason: ev.Reason | None = None, usage: ev.Usage | None = None) -> Reply:
    """An answer of these parts, as the provider streams it."""
    turn = rq.Turn("turn-1", PROVIDERS[provider][2], 0, list(parts), usage or ev.Usage(10, 3))
    turn.finish = ev.Finish(reason or ("calls" if turn.calls else "stop"))
    return Reply.of(PROVIDERS[provider][1], list(unfold(turn)))


def play_agent(provider: str) -> Callable[[ReceivedRequest], Reply]:
    """The packaged agent model behind a provider's protocol: it calls a tool, then repeats the result."""
    protocol = PROVIDERS[provider][1]

    def play(received: ReceivedRequest) -> Reply:
        request = read_request(received.json, protocol)
        return Reply.of(protocol, answer(replace(request, model="replay/agent"), id="turn1", prompt_tokens=10))

    return play


@asynccontextmanager
async def client_of(*replies: Any, **more: Any) -> AsyncGenerator[tuple[Upstream, Client]]:
    """A client whose providers are all one upstream."""
    async with Upstream(*replies) as up:
        accounts = {
            name: {"base_url": f"{up.url}/{name}", "key": KEY, "models": [model], **row}
            for name, (row, _, model) in PROVIDERS.items()
        }
        async with Client({"providers": accounts, "retries": 0}, env={}, **more) as client:
            yield up, client


def staged(scene: Callable[[Upstream, Client], Awaitable[None]], *replies: Any, **more: Any) -> None:
    """Runs a scene, and makes sure that it leaves no task behind."""

    async def run() -> None:
        before = asyncio.all_tasks()
        async with client_of(*replies, **more) as (up, client):
            await scene(up, client)
        left = [task for task in asyncio.all_tasks() - before if not task.done()]
        await asyncio.sleep(0)
        assert [task for task in left if not task.done()] == []

    asyncio.run(run())


async def finish(run: Run[Any]) -> None:
    """Awaits a run whose result does not matter."""
    _ = await run


def text(*words: str) -> list[rq.AnyPart]:
    return [rq.Text(" ".join(words))]


def call(name: str, json: str = "{}", id: str = "call_1") -> rq.Call:
    return rq.Call(id, name, json)


def results_of(messages: Sequence[rq.Message]) -> list[rq.Result]:
    return [part for message in messages for part in message.parts if isinstance(part, rq.Result)]


def sent_results(received: ReceivedRequest, provider: str = "chat") -> list[rq.Result]:
    """The results in a request, as the upstream received it."""
    return results_of(read_request(received.json, PROVIDERS[provider][1]).messages)


def result_text(result: rq.Result) -> str:
    return "".join(part.text if isinstance(part, rq.Text) else getattr(part, "json", "") for part in result.content)
