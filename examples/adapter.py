"""A VS Code reply out of any stream: a provider's answer, the chunks of the AI SDK, or bytes of a file.

`python examples/adapter.py anthropic/claude-sonnet-4-5` asks that model. Without an argument a packaged model answers:
no key, no network and no VS Code.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import penstock
from penstock.vscode import HostPart, TextPart, ThinkingPart, ToolCallPart, VSCodeStreamAdapter

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

BYTES = Path(__file__).with_name("tides.sse")  # a small, made-up answer in the Responses protocol
TIDE = penstock.Tool(
    "tide", "The tide at a harbour.", {"type": "object", "properties": {"harbour": {"type": "string"}}}
)


def show(part: HostPart) -> None:
    """Stands for `progress.report`: here a part would become one of VS Code's own classes."""
    match part:
        case TextPart(value) | ThinkingPart(value):
            print(f"{type(part).__name__:<13} {value!r}")
        case ToolCallPart(call_id, name, given):
            print(f"call          {call_id} {name} {given}")
        case _:
            print(f"data          {part.mime_type}, {len(part.data)} bytes")


async def ask(client: penstock.Client, model: str) -> None:
    """A provider's answer, while it arrives."""
    adapter = VSCodeStreamAdapter(source="events")
    stream = client.chat_stream(model, "How high is the tide at Dover?", tools=[TIDE])
    usage = await adapter.process_stream(stream, show)
    print(f"used          {usage.input} tokens in, {usage.output} out")


async def full_stream() -> AsyncIterator[dict[str, Any]]:
    """What `streamText(…).fullStream` of the AI SDK gives."""
    yield {"type": "text-delta", "id": "2", "text": "One moment."}
    yield {"type": "tool-call", "toolCallId": "call_1", "toolName": "tide", "input": {"harbour": "Dover"}}
    yield {"type": "something-of-tomorrow"}
    yield {"type": "finish", "finishReason": "tool-calls", "totalUsage": {"inputTokens": 52, "outputTokens": 19}}


async def main(model: str = "replay/agent") -> None:
    async with penstock.Client() as client:
        await ask(client, model)
    adapter = VSCodeStreamAdapter(on_unknown=lambda chunk: print(f"(unknown: {chunk})"))
    await adapter.process_stream(full_stream(), show)
    assert adapter.restore("gw-call_1") == "call_1"  # the id for the tool's result on its way back
    with BYTES.open("rb") as file:
        await VSCodeStreamAdapter(source="responses", reasoning="drop").process_stream(file, show)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
