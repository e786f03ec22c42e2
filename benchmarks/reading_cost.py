"""What a gateway spends on the frames of a stream that it passes through: CPU µs, without the rest of a turn.

That is reading them, and choosing the bytes that the client gets. `python -m benchmarks.reading_cost` prints JSON, for
every dialect and shape. `benchmarks.against` runs it with the code of two revisions: older ones had another name for
the second half, and were told that the answer is `handed` on, so that most of its frames were not read.
"""

from __future__ import annotations

import json
import time
from importlib import import_module
from types import SimpleNamespace
from typing import Any

from benchmarks import provider_streams

ROUNDS = 60
PROTOCOLS = {"chat": "openai-chat", "anthropic": "anthropic", "responses": "responses", "gemini": "gemini"}


def reads(dialect: str, shape: str) -> list[bytes]:
    """A stream as it is read: a synthetic one at once, a recorded one a few frames at a time."""
    frames = list(provider_streams.frames(dialect, shape))
    many = len(frames) if shape == "synthetic" else 4
    return [b"".join(frames[at : at + many]) for at in range(0, len(frames), many)]


def passthrough() -> Any:
    """What chooses the bytes for the client, made of a request and the decoder of its answer."""
    try:
        module: Any = import_module("penstock.gateway.passthrough")
    except ImportError:
        old: Any = import_module("penstock.gateway.writing")
        return lambda asked, _: old.Tee(asked)
    return lambda asked, decoder: module.Passthrough(
        asked, SimpleNamespace(decoder=decoder, holding=False, secrets=(), end_frame_missing=False)
    )


def measure(dialect: str, shape: str) -> float:
    """CPU µs for one stream, in the best round."""
    from penstock.engines.reading import Reading

    made = passthrough()
    asked = SimpleNamespace(usage=True, protocol=PROTOCOLS[dialect], framing="sse")
    incoming: Any = SimpleNamespace(status=200, headers={"content-type": "text/event-stream"})
    job: Any = SimpleNamespace(
        protocol=PROTOCOLS[dialect], shaping=(), body={}, stream=True, handed=True,
        endpoint=SimpleNamespace(framing="sse"),
    )  # fmt: skip
    chunks = reads(dialect, shape)
    spent: list[float] = []
    for _ in range(ROUNDS):
        started = time.thread_time_ns()
        source: Any = Reading(incoming, job)
        passed = made(asked, source._decoding.decoder)  # noqa: SLF001 — without a connection
        for chunk in chunks:
            passed.feed((chunk, source._events(chunk)))  # noqa: SLF001
        spent.append((time.thread_time_ns() - started) / 1000)
    return min(spent)


async def main() -> None:
    keys = [(dialect, shape) for dialect in PROTOCOLS for shape in provider_streams.SHAPES]
    print(json.dumps({f"{dialect}-{shape}": measure(dialect, shape) for dialect, shape in keys}))


if __name__ == "__main__":
    import asyncio

    asyncio.run(main())
