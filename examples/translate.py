"""Translate a stream, from a file and from an async source, and look at the turn it makes.

Run it from anywhere: `python examples/translate.py`. It needs no key and no network.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

import penstock
from penstock.framing import SseParser

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

STREAM = Path(__file__).with_name("tides.sse")  # a small, made-up answer in the Responses protocol


def from_a_file() -> None:
    """A file opened in binary is an iterable of bytes; `auto`, the default source, finds the protocol out."""
    with STREAM.open("rb") as file:
        for chunk in penstock.translate(file, target="openai-chat"):
            print(chunk.decode(), end="")


async def network() -> AsyncIterator[bytes]:
    """Bytes as a network would deliver them: cut anywhere."""
    data = STREAM.read_bytes()
    for start in range(0, len(data), 700):
        await asyncio.sleep(0)
        yield data[start : start + 700]


async def from_a_network() -> None:
    """Async in, async out; every chunk that leaves is ready to be sent on. What the target cannot say is told."""
    stream = penstock.translate(network(), "responses", "anthropic", on_diagnostic=print)
    async for chunk in stream:
        print(f"{len(chunk)} bytes of Messages")


def as_a_turn() -> None:
    """A pipe of one's own, from bytes to canonical events, and the whole turn they fold into."""
    pipe = penstock.Pipe(SseParser(), penstock.decoder("responses"))
    events = [*pipe.feed([STREAM.read_bytes()]), *pipe.finish()]
    turn = penstock.fold(events)
    print(turn.text)
    for call in turn.calls:
        print(f"{call.name}({call.json})")
    assert [call.json for call in turn.calls] == ['{"harbour":"Dover"}', '{"harbour":"Brest"}']


if __name__ == "__main__":
    from_a_file()
    asyncio.run(from_a_network())
    as_a_turn()
