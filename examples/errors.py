"""What goes wrong with a model, and what a program does about it: limits, refusals, streams that break off.

`python examples/errors.py openai/gpt-5` asks that model. Without arguments packaged models answer, of which one
declines and one breaks off: no key, no network.
"""

import asyncio
import sys

import penstock
from penstock.errors import Filtered, RateLimited, TooLarge


async def ask(client: penstock.Client, model: str, question: str) -> str:
    words = ""
    try:
        stream = client.chat_stream(model, question)
        async for text in stream.text():
            words += text
        answer = await stream.turn()
    except RateLimited as error:
        return f"too many requests: try again in {error.retry_after} s"
    except TooLarge as error:
        return f"the conversation is too long: {error.message}"
    except Filtered as error:
        return f"declined: {error.message}"
    except penstock.ProviderError as error:
        return f"broke off after {words!r}: {error.message}"
    if answer.refusal or (answer.finish and answer.finish.reason in ("refusal", "filter")):
        return f"declined: {answer.refusal or words}"
    return words


async def main(*models: str) -> None:
    async with penstock.Client() as client:
        for model in models or ["replay/text", "replay/refusal", "replay/error"]:
            print(model, "→", await ask(client, model, "What is a penstock?"))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
