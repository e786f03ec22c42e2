"""One question for three providers: a picture, a tool, typed output and what it cost; then one with a fallback.

`python examples/any_provider.py openai/gpt-5 anthropic/claude-sonnet-4-5 gemini/gemini-2.5-flash` asks these, with
their keys in the environment. Without arguments a packaged model answers: no key, no network.
"""

import asyncio
import sys
from dataclasses import dataclass
from pathlib import Path

import penstock

PICTURE = penstock.File.from_bytes(Path(__file__).with_name("gauge.png").read_bytes(), "image/png")
QUESTION = penstock.Message("user", [penstock.Text("What does this gauge show? Correct it."), PICTURE])


@dataclass
class Reading:
    """What a gauge shows."""

    station: str
    metres: float


def correction(station: str) -> float:
    """Look up the correction of a gauge, in metres."""
    return {"upper gate": 0.05}.get(station, 0.0)


async def main(*models: str) -> None:
    """The alias `best` asks the next provider when one fails."""
    async with penstock.Client({"aliases": {"best": models}}) as client:
        for model in [*models, "best"]:
            run = await client.run(model, [QUESTION], tools=[correction], output=Reading)
            print(run.steps[-1].answer.provider, run.output, len(run.steps), run.cost)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:] or ["replay/agent"]))
