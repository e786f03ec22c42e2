"""A VS Code reply out of two streams: one of the AI SDK's chunks, one of a provider's own bytes.

Run it from anywhere: `python examples/adapter.py`. It needs no key, no network and no VS Code.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.vscode import HostPart, TextPart, ThinkingPart, ToolCallPart, VSCodeStreamAdapter

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

BYTES = Path(__file__).with_name("tides.sse")  # a small, made-up answer in the Responses protocol


async def full_stream() -> AsyncIterator[dict[str, Any]]:
    """What `streamText(…).fullStream` gives, as it arrives."""
    yield {"type": "reasoning-delta", "id": "1", "text": "Tides are looked up."}
    yield {"type": "text-delta", "id": "2", "text": "One moment."}
    yield {"type": "tool-call", "toolCallId": "call_1", "toolName": "tide", "input": {"harbour": "Dover"}}
    yield {"type": "something-of-tomorrow"}
    usage = {"inputTokens": 52, "outputTokens": 19, "totalTokens": 71}
    yield {"type": "finish", "finishReason": "tool-calls", "totalUsage": usage}


def show(part: HostPart) -> None:
    """Stands for `progress.report`: here a part would become one of VS Code's own classes."""
    match part:
        case TextPart(value):
            print(f"text      {value!r}")
        case ThinkingPart(value):
            print(f"thinking  {value!r}")
        case ToolCallPart(call_id, name, given):
            print(f"call      {call_id} {name} {given}")
        case _:
            print(f"data      {part.mime_type}, {len(part.data)} bytes")


async def main() -> None:
    adapter = VSCodeStreamAdapter(on_unknown=lambda chunk: print(f"(unknown: {chunk})"))
    usage = await adapter.process_stream(full_stream(), show)
    print(f"used      {usage.input} tokens in, {usage.output} out")
    assert adapter.restore("gw-call_1") == "call_1"  # the id for the tool's result on its way back

    print()
    adapter = VSCodeStreamAdapter(source="responses", reasoning="drop")
    with BYTES.open("rb") as file:
        async for part in adapter.adapt_stream(file):
            show(part)
    print(f"finished  {adapter.last.finish}")


if __name__ == "__main__":
    asyncio.run(main())
