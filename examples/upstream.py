"""A scripted upstream: test a program against a provider that misbehaves on purpose. A real server, on this machine.

Run it from anywhere: `python examples/upstream.py`. It needs the extra `client` (aiohttp), no key and no network.
"""

from __future__ import annotations

import asyncio

from penstock import events as ev
from penstock.client import Client
from penstock.errors import ProviderError
from penstock.testing import Reply, Upstream, play

ANSWER = Reply.of("anthropic", play("text"))  # any events, in any protocol


async def ask(client: Client) -> str:
    """What a program would do: stream an answer, and say how it ended."""
    words = ""
    try:
        async for event in client.chat_stream("anthropic/any-model", "What is a penstock?"):
            if isinstance(event, ev.TextDelta):
                words += event.text
            elif isinstance(event, ev.Fault):
                return f"{len(words)} characters, then {event.kind}"
    except ProviderError as error:
        return f"{type(error).__name__}: {error.message}"
    return f"{len(words)} characters, and the end"


async def main() -> None:
    """The same question under different skies."""
    async with Upstream() as up:
        config = {"providers": {"anthropic": {"base_url": f"{up.url}/v1", "key": "made-up"}}, "retries": 1}
        skies = {
            "all is well": [ANSWER],
            "cut in the middle": [ANSWER.disconnect(after=900)],
            "noise between frames": [ANSWER.garbage(after=len(ANSWER.chunks[0]), noise=b"data: {]\n\n")],
            "too many requests, once": [Reply.rate_limit("anthropic", retry_after=0.01), ANSWER],
            "a key that is wrong": [Reply.error("anthropic", 401, "invalid x-api-key")],
        }
        for name, replies in skies.items():
            up.script(*replies)
            before = len(up.requests)
            async with Client(config) as client:
                outcome = await ask(client)
            print(f"{name:<24} {len(up.requests) - before} request(s): {outcome}")
        last = up.requests[-1]
        print(f"it was asked: {last.method} {last.path}, anthropic-version {last.headers['anthropic-version']}")


asyncio.run(main())
