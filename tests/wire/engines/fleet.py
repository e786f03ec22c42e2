"""Several upstreams that are the targets of one alias, with a router in front of them and a clock that tests set."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any, Self

from penstock._engines.router import Router
from penstock.request import Call, Message, Request, Result, Text, Tool
from penstock.testing import Reply, Upstream, play
from tests.wire.engines.router_setup import events, quick

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from penstock._engines.reply import ModelReply
    from penstock.testing import ReceivedRequest

GOOD = Reply.of("openai-chat", play("text"))
BUSY = Reply.error("openai-chat", 503, "busy")
LIMITED = Reply.rate_limit("openai-chat", retry_after=20)


class Clock:
    """A clock that a test sets. Waits of the router move it."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.now += seconds


class Fleet:
    """Upstreams that are the targets of the alias `fast`, by the names of their providers, and a router."""

    def __init__(self, *replies: Reply | Callable[[ReceivedRequest], Reply], clock: Clock | None = None) -> None:
        self.clock = clock or Clock()
        self.ups = {name: Upstream(reply) for name, reply in zip("abc", replies, strict=False)}
        self.routers: list[Router] = []

    async def __aenter__(self) -> Self:
        for up in self.ups.values():
            await up.__aenter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        for router in self.routers:
            await router.aclose()
        for up in self.ups.values():
            await up.__aexit__()

    def router(
        self, strategy: str = "weighted", weights: Mapping[str, float] | None = None, seed: int = 1, **alias: Any
    ) -> Router:
        targets = [{"model": f"{name}/m", "weight": (weights or {}).get(name, 1)} for name in self.ups]
        chance = alias.pop("chance", random.Random(seed).random)
        more = alias.pop("config", {})
        config = {
            "providers": {name: {"base_url": f"{up.url}/v1", "key": "k"} for name, up in self.ups.items()},
            "aliases": {"fast": {"targets": targets, "strategy": strategy, **alias}},
            **more,
        }
        made = Router(config, env={}, sleep=self.clock.sleep, chance=chance, clock=self.clock)
        self.routers.append(made)
        return made

    @property
    def counts(self) -> dict[str, int]:
        """The number of requests that each target got."""
        return {name: len(up.requests) for name, up in self.ups.items()}


def conversation(text: str = "How deep?", turns: int = 0) -> Request:
    """A conversation with tools after so many rounds of a call and its result."""
    messages = [Message("system", [Text("You know the sea.")]), Message("user", [Text(text)])]
    for number in range(turns):
        call = Call(id=f"call_{number}", name="sound", json='{"place": "bay"}')
        messages.append(Message("assistant", [Text(f"Sounding {number} for {text}"), call]))
        messages.append(Message("tool", [Result(call=f"call_{number}", content=[Text(f"{number} m")])]))
    return Request("fast", messages, tools=[Tool("sound", "Measures depth.", {"type": "object"})], stream=True)


async def ask(router: Router, request: Request | None = None, tenant: str = "", **options: Any) -> ModelReply:
    """Sends a request and reads its answer."""
    reply = await router.open(request or conversation(), convert={"tenant": tenant}, options=quick(**options))
    await events(reply)
    return reply


def route_of(reply: ModelReply) -> tuple[str, str]:
    """The code and the reason of the choice."""
    found = next(one for one in reply.record.decisions if one.what == "route")
    return found.code, found.why
