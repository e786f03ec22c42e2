"""What happens when a provider fails: tried again, then the next one; every decision is on the result.

Two scripted upstreams on this machine stand for the providers, so that the failure comes when it is wanted.
"""

import asyncio

import penstock
from penstock.testing import Reply, Upstream, play


async def main() -> None:
    busy = Upstream(Reply.error("openai-chat", 503, "come back later"))
    ready = Upstream(Reply.of("anthropic", play("text")))
    async with busy, ready:
        config = {
            "providers": {
                "openai": {"base_url": f"{busy.url}/v1", "key": "none"},
                "anthropic": {"base_url": f"{ready.url}/v1", "key": "none"},
            },
            "aliases": {"best": ["openai/gpt-5", "anthropic/claude-sonnet-4-5"]},
            "retries": 1,
        }
        async with penstock.Client(config, env={}) as client:
            stream = client.chat_stream("best", "What is a penstock?", options={"timeouts": {"connect": 2}})
            turn = await stream.turn()
            print(turn.text)
            assert turn.provider == "anthropic"
            if turn.record is not None:
                print(*turn.record.lines(), sep="\n")

            # Nobody left to ask: everything that was said, in one block for a bug report.
            try:
                await client.chat("openai/gpt-5", "?")
            except penstock.ProviderError as error:
                print(penstock.errors.explain(error))


asyncio.run(main())
