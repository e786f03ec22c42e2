"""Shared by the tests of a client's operations: a client in front of a scripted upstream."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from penstock import events as ev
from penstock.client import Client
from penstock.testing import Reply, Upstream
from tests.wire.engines.router_setup import VENDORS, quick, router

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable

MODEL = "openai/gpt-4o"
USAGE = ev.Usage(1000, 100)
TURN: list[ev.AnyEvent] = [
    ev.Start("id-1", "gpt-4o-2024"),
    ev.TextStart(0),
    ev.TextDelta(0, "12 "),
    ev.TextDelta(0, "metres"),
    ev.TextEnd(0),
    USAGE,
    ev.Finish("stop"),
]
STREAM = Reply.of("openai-chat", TURN)
WHOLE = Reply.of("openai-chat", TURN, stream=False)


def by_stream(events: list[ev.AnyEvent] | None = None) -> Callable[[Any], Reply]:
    """A reply in the form that the request asks for."""
    turn = events or TURN

    def reply(request: Any) -> Reply:
        return Reply.of("openai-chat", turn, stream=bool(request.json.get("stream")))

    return reply


@asynccontextmanager
async def upstream_client(
    *replies: Any, router_config: dict[str, Any] | None = None, **parameters: Any
) -> AsyncGenerator[tuple[Upstream, Client]]:
    async with Upstream(*(replies or (by_stream(),))) as up:
        made = router(dict.fromkeys(VENDORS, up), **(router_config or {}))
        async with Client(router=made, options=quick(), **parameters) as client:
            yield up, client


def run(scene: Callable[[Upstream, Client], Awaitable[None]], *replies: Any, **parameters: Any) -> None:
    """Runs a scene, and checks that it leaves no task behind."""

    async def staged() -> None:
        async with upstream_client(*replies, **parameters) as (up, client):
            await scene(up, client)
        left = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        assert not left

    asyncio.run(staged())
