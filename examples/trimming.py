"""A conversation that is too long: the oldest turns go until it fits, and the result says what went.

`python examples/trimming.py anthropic/claude-sonnet-4-5` asks that model. Without an argument a packaged model
answers: no key, no network.
"""

import asyncio
import sys

import penstock
from penstock import Message
from penstock.request import Text


async def ask(client: penstock.Client, model: str) -> str:
    messages: list[Message] = []
    for day in range(60):
        messages.append(Message("user", [Text(f"And on day {day}?")]))
        messages.append(Message("assistant", [Text(f"Day {day}: high water two metres, low water half a metre.")]))
    messages.append(Message("user", [Text("And tomorrow?")]))
    fitted = penstock.HybridTokenEstimator().fit(messages, model=model, limit=1000, reserve=500)
    removed = len(fitted.removed)
    print(f"{fitted.before.tokens} tokens are now {fitted.estimate.tokens}: {removed} messages removed")
    answer = await client.chat(model, fitted.request, max_output_tokens=500)
    return answer.text


async def main(model: str = "replay/text") -> None:
    async with penstock.Client() as client:
        print(await ask(client, model))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
