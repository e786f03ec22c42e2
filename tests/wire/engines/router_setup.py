"""Shared by the tests of engines: a router or client in front of a scripted upstream, and requests to send."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from penstock._engines.router import Router
from penstock._fold import fold_all
from penstock._http.request_options import RequestOptions
from penstock.request import Message, Request, Text
from penstock.testing import Reply as Scripted
from penstock.testing import Upstream, play

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from penstock._engines.reply import ModelReply
    from penstock.events import AnyEvent
    from penstock.request import Turn

KEY = "sk-planted-0123456789abcdef"
ENGINES = ("native", "sdk")
AGAIN = {"first_byte": 30.0, "between_bytes": 0.3}  # for what stalls after it has begun
# The SDKs take seconds to import, and a hundred times as long to read.
each_engine = pytest.mark.parametrize("engine", ["native", "sdk"])
# provider → the protocol it speaks, the model asked for, what stands behind its host
VENDORS = {
    "openai": ("openai-chat", "gpt-4o", "/v1"),
    "anthropic": ("anthropic", "claude-sonnet-4-5", "/v1"),
    "gemini": ("gemini", "gemini-2.5-flash", "/v1beta"),
}


_routers: list[Router] = []


def run(scene: Callable[[], Awaitable[None]]) -> None:
    """A scene to its end. Its routers are closed however it ends: a test that fails must not spoil the next ones."""

    async def staged() -> None:
        try:
            await scene()
        finally:
            while _routers:
                await _routers.pop().aclose()

    asyncio.run(staged())


async def no_wait(_: float) -> None:
    """In place of a pause between two tries."""


def router(up: Upstream | Mapping[str, Upstream], *, env: Mapping[str, str] | None = None, **config: Any) -> Router:
    """A router whose providers are upstreams; a lone one stands for all vendors."""
    ups: Mapping[str, Upstream] = dict.fromkeys(VENDORS, up) if isinstance(up, Upstream) else up
    accounts = {
        name: {"base_url": one.url + VENDORS.get(name, ("", "", "/v1"))[2], "key": KEY, **config.pop(name, {})}
        for name, one in ups.items()
    }
    made = Router({"providers": accounts, **config}, env=env or {}, sleep=no_wait, chance=lambda: 0.5)
    _routers.append(made)
    return made


def asking(provider: str = "openai", *, stream: bool = True, model: str = "", text: str = "How deep?") -> Request:
    return Request(f"{provider}/{model or VENDORS[provider][1]}", [Message("user", [Text(text)])], stream=stream)


async def events(reply: ModelReply) -> list[AnyEvent]:
    return [event async for event in reply]


async def turn(reply: ModelReply) -> Turn:
    return fold_all(await events(reply))[0]


def quick(**more: Any) -> RequestOptions:
    """Options whose limits a test can wait for."""
    limits = {"connect": 2.0, "first_byte": 5.0, "between_bytes": 5.0, "total": 20.0, **more.pop("timeouts", {})}
    return RequestOptions.read({"timeouts": limits, **more})


def good(protocol: str, *, stream: bool) -> Scripted:
    """A reply as it should be."""
    return Scripted.of(protocol, play("text"), stream=stream)


def middle(reply: Scripted) -> int:
    """Somewhere inside the words of the answer."""
    return len(reply.data) * 2 // 3
