"""Ask a model, whoever serves it: a stream, a whole answer, a tool call, and the same answer in another wire shape.

Runs with no key and no network: the packaged streams answer. With a key in the environment, name any other model:
`anthropic/claude-sonnet-4-5`, `openai/gpt-5`, `gemini/gemini-2.5-flash` …
"""

import asyncio

import penstock
from penstock.events import Fault, TextDelta


async def main() -> None:
    async with penstock.Client(env={}) as client:
        # Events as they come.
        async for event in client.chat_stream("replay/text", "What is a penstock?"):
            if isinstance(event, TextDelta):
                print(event.text, end="")
            elif isinstance(event, Fault):
                print(f"\nbroken off: {event.message}")
        print()

        # A whole turn, with what the model wants done.
        turn = await client.chat("replay/tools", "How high is the water?")
        for call in turn.calls:
            print(f"run {call.name}({call.json})")

        # The same turn as Anthropic would have sent it.
        print(turn.to("anthropic")["stop_reason"])

        # How that came to be, and what it cost.
        if turn.record is not None:
            print(*turn.record.lines(), sep="\n")
        print(client.spending.total)


asyncio.run(main())
