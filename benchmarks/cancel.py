"""How long a provider goes on after nobody listens: from leaving an answer to the moment the upstream sees it.

`python -m benchmarks cancel`. Wall time over loopback, upstream and client in one loop.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from statistics import median
from time import monotonic
from typing import TYPE_CHECKING, Any

from benchmarks.timing import Section, table
from penstock._engines.router import Router
from penstock._replay import play
from penstock.request import Message, Request, Text
from penstock.testing import Reply, Upstream

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

TRIES = 20
LIMIT = 50  # ms
_PATIENCE = 30.0


def _asking(up: Upstream) -> tuple[Router, Request]:
    router = Router({"providers": {"openai": {"base_url": f"{up.url}/v1", "key": "k"}}}, env={})
    return router, Request("openai/gpt-4o", [Message("user", [Text("?")])], stream=True)


async def in_the_middle(up: Upstream, engine: str) -> float:
    """An answer that is being read is left: its task is cancelled."""
    router, asked = _asking(up)
    begun = asyncio.Event()

    async def reading() -> None:
        async for _ in await router.open(asked, engine=engine):
            begun.set()

    task = asyncio.create_task(reading())
    await begun.wait()
    return await _left(up, task, router.aclose)


async def before_the_first_byte(up: Upstream, engine: str) -> float:
    """The same while the head of the answer is waited for."""
    router, asked = _asking(up)
    task = asyncio.create_task(router.open(asked, engine=engine))
    await up.wait_for_request(len(up.requests) + 1)
    return await _left(up, task, router.aclose)


async def _left(up: Upstream, task: asyncio.Task[Any], close: Callable[[], Awaitable[None]]) -> float:
    seen, begun = up.requests[-1], monotonic()
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
    await asyncio.wait_for(seen.disconnected.wait(), _PATIENCE)
    await close()
    return (seen.disconnected_at - begun) * 1000


async def measured() -> dict[tuple[str, str], list[float]]:
    good = Reply.of("openai-chat", play("text"))
    scenes = {
        "in the middle": (in_the_middle, good.stall(len(good.data) * 2 // 3)),
        "before the first byte": (before_the_first_byte, good.delayed(_PATIENCE)),
    }
    made: dict[tuple[str, str], list[float]] = {}
    for name, (scene, reply) in scenes.items():
        async with Upstream(reply, patience=_PATIENCE) as up:
            for engine in ("native", "sdk"):
                await scene(up, engine)  # once for what is only done once
                made[name, engine] = [await scene(up, engine) for _ in range(TRIES)]
    return made


def report() -> Section:
    found = asyncio.run(measured())
    rows = [[place, engine, f"{median(took):.1f}", f"{max(took):.1f}"] for (place, engine), took in found.items()]
    text = f"""## To leave

ms from cancelling until the upstream sees the connection close, {TRIES} times; half of them in at most {LIMIT}.

{table(["left", "engine", "median", "worst"], rows)}"""
    slow = [(place, engine) for (place, engine), took in found.items() if median(took) > LIMIT]
    return Section(text, [f"leaving {place} takes more than {LIMIT} ms by {engine}" for place, engine in slow])
