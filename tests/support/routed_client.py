"""A client in front of scripted upstreams, whose pauses, choices and clock a test sets, and requests to send.

A `RoutedClient` is a `penstock.client.Client`. Only what no program may set stands here: the clock, and the length of
pauses.
"""

from __future__ import annotations

import asyncio
import functools
import random
import time
from contextlib import aclosing, asynccontextmanager
from typing import TYPE_CHECKING, Any, ParamSpec

import pytest

from penstock._engines.engine_interface import HttpRequest
from penstock._engines.native import NativeEngine
from penstock._engines.router import Router
from penstock._engines.sdk import SdkEngine
from penstock._fold import fold_all
from penstock.client import Client, RequestOptions
from penstock.request import Call, Message, Request, Result, Text, Tool
from penstock.testing import Reply as Scripted
from penstock.testing import Upstream, play

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping

    from penstock._engines.engine_interface import Decision
    from penstock._engines.reply import ModelReply
    from penstock.events import AnyEvent
    from penstock.request import Turn

P = ParamSpec("P")
KEY = "sk-planted-0123456789abcdef"
ENGINES = ("native", "sdk")
AGAIN = {"first_byte": 30.0, "between_bytes": 0.3}  # for what stalls after it has begun
each_engine = pytest.mark.parametrize("engine", ENGINES)
# provider → the protocol it speaks, the model asked for, what stands behind its host
VENDORS = {
    "openai": ("openai-chat", "gpt-4o", "/v1"),
    "anthropic": ("anthropic", "claude-sonnet-4-5", "/v1"),
    "gemini": ("gemini", "gemini-2.5-flash", "/v1beta"),
}
GOOD = Scripted.of("openai-chat", play("text"))
LIMITED = Scripted.rate_limit("openai-chat", retry_after=20)
BUSY = Scripted.error("openai-chat", 503, "busy")

_open: list[RoutedClient | Router] = []


def run(scene: Callable[[], Awaitable[None]]) -> None:
    """A scene to its end. Its clients are closed however it ends: a test that fails must not spoil the next ones."""

    async def staged() -> None:
        try:
            await scene()
        finally:
            while _open:
                await _open.pop().aclose()

    asyncio.run(staged())


def staged(test: Callable[P, Awaitable[None]]) -> Callable[P, None]:
    """The same for a test that is a coroutine."""

    @functools.wraps(test)
    def play_it(*given: P.args, **named: P.kwargs) -> None:
        run(functools.partial(test, *given, **named))

    return play_it


async def no_wait(_: float) -> None:
    """In place of a pause between two tries."""


class Clock:
    """A clock that a test sets. Waits move it."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.now += seconds


class RoutedClient(Client):
    """A client that keeps no state of conversations, and whose time is the test's."""

    def __init__(
        self,
        config: Mapping[str, Any] | None = None,
        *,
        env: Mapping[str, str] | None = None,
        sleep: Callable[[float], Awaitable[None]] = no_wait,
        chance: Callable[[], float] = lambda: 0.5,
        clock: Callable[[], float] = time.monotonic,
        **more: Any,
    ) -> None:
        made = Router(config, env={} if env is None else env, sleep=sleep, chance=chance, clock=clock)
        self.decisions: list[Decision] = []
        super().__init__(router=made, store=False, **{"on_decision": self.decisions.append, **more})
        _open.append(self)

    @property
    def counts(self) -> Counter[tuple[str, str, str]]:
        """The number of decisions by kind, code and provider."""
        return self.router.counts

    async def open(self, request: Request, operation: str = "chat", **how: Any) -> ModelReply:
        """Sends a request. Returns once its answer has begun; the answer is whole if the request wants it so."""
        suffix = "_stream" if request.stream else ""
        return await self._read_turn(operation + suffix, operation, request, None, how).open()

    def targets(self, name: str) -> list[tuple[str, float, str]]:
        """Whom a name means: provider and model, its weight, the alias that chooses among several."""
        found = self.router.targets(name)
        return [(f"{one.provider.name} {one.model}", one.weight, one.pool.name if one.pool else "") for one in found]

    def close_idle_after(self, seconds: float) -> None:
        """Connections of the vendors' libraries are closed if nobody uses them for this time."""
        self.router.engines.by_name["sdk"] = SdkEngine(idle_seconds=seconds)


def accounts(up: Upstream | Mapping[str, Upstream], config: dict[str, Any]) -> dict[str, Any]:
    """Upstreams as providers; a lone one stands for all vendors. What `config` has under their names is taken out."""
    ups: Mapping[str, Upstream] = dict.fromkeys(VENDORS, up) if isinstance(up, Upstream) else up
    return {
        name: {"base_url": one.url + VENDORS.get(name, ("", "", "/v1"))[2], "key": KEY, **config.pop(name, {})}
        for name, one in ups.items()
    }


def routed(
    up: Upstream | Mapping[str, Upstream],
    *,
    env: Mapping[str, str] | None = None,
    how: Mapping[str, Any] | None = None,
    **config: Any,
) -> RoutedClient:
    """A client whose providers are upstreams. `how`: arguments of `RoutedClient`; the rest is configuration."""
    return RoutedClient({"providers": accounts(up, config), **config}, env=env, **(how or {}))


def router(up: Upstream | Mapping[str, Upstream], *, env: Mapping[str, str] | None = None, **config: Any) -> Router:
    """What a `Client` may be given as its router."""
    made = Router({"providers": accounts(up, config), **config}, env=env or {}, sleep=no_wait, chance=lambda: 0.5)
    _open.append(made)
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


# ── several targets of one alias ──────────────────────────────────────────────────────────────────


class Fleet:
    """Upstreams that are the targets of the alias `fast`, by the names of their providers, and their clients."""

    def __init__(self, ups: dict[str, Upstream], clock: Clock) -> None:
        self.clock, self.ups = clock, ups

    def client(
        self, strategy: str = "weighted", weights: Mapping[str, float] | None = None, seed: int = 1, **alias: Any
    ) -> RoutedClient:
        """A client. `config`: further tables; `chance`: a number from 0 to 1 for each choice."""
        targets = [{"model": f"{name}/m", "weight": (weights or {}).get(name, 1)} for name in self.ups]
        chance, more = alias.pop("chance", random.Random(seed).random), alias.pop("config", {})
        config = {
            "providers": {name: {"base_url": f"{up.url}/v1", "key": "k"} for name, up in self.ups.items()},
            "aliases": {"fast": {"targets": targets, "strategy": strategy, **alias}},
            **more,
        }
        return RoutedClient(config, sleep=self.clock.sleep, chance=chance, clock=self.clock)

    @property
    def counts(self) -> dict[str, int]:
        """The number of requests that each target got."""
        return {name: len(up.requests) for name, up in self.ups.items()}

    def script(self, reply: Scripted, *names: str) -> None:
        """Everybody, or these, answer so from now on."""
        for name in names or self.ups:
            self.ups[name].script(reply)


def conversation(text: str = "How deep?", turns: int = 0) -> Request:
    """A conversation with tools after so many rounds of a call and its result."""
    messages = [Message("system", [Text("You know the sea.")]), Message("user", [Text(text)])]
    for number in range(turns):
        call = Call(id=f"call_{number}", name="sound", json='{"place": "bay"}')
        messages.append(Message("assistant", [Text(f"Sounding {number} for {text}"), call]))
        messages.append(Message("tool", [Result(call=f"call_{number}", content=[Text(f"{number} m")])]))
    return Request("fast", messages, tools=[Tool("sound", "Measures depth.", {"type": "object"})], stream=True)


@asynccontextmanager
async def fleet(*replies: Any, clock: Clock | None = None) -> AsyncGenerator[Fleet]:
    """Upstreams a, b and c, as many as there are replies."""
    made = Fleet({name: Upstream(reply) for name, reply in zip("abc", replies, strict=False)}, clock or Clock())
    for up in made.ups.values():
        await up.__aenter__()
    try:
        yield made
    finally:
        for up in made.ups.values():
            await up.__aexit__()


async def ask(
    client: RoutedClient, request: Request | None = None, *, tenant: str = "", engine: str = "", **options: Any
) -> ModelReply:
    """Sends a request, by default one to the alias `fast`, and reads its answer."""
    given = quick(**options)
    convert = {"tenant": tenant} if tenant else {}
    reply = await client.open(request or conversation(), convert=convert, engine=engine, options=given)
    await events(reply)
    return reply


def route_of(reply: ModelReply) -> tuple[str, str]:
    """The code and the reason of the choice."""
    found = next(one for one in reply.record.decisions if one.what == "route")
    return found.code, found.why


def check_files_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Changes of files with keys are looked for with every request, where else a quarter of a second may pass."""
    monkeypatch.setattr("penstock._engines.environ.CHECK_INTERVAL", 0.0)


def pretend_sdk_version(monkeypatch: pytest.MonkeyPatch, major: int) -> None:
    """All vendors' libraries seem to be of this version: what is installed is one version only."""
    monkeypatch.setattr("penstock._engines.sdk_vendors._major", lambda _: major)


async def send_unchecked(url: str, proxy: str, *, method: str = "POST", headers: dict[str, str] | None = None) -> None:
    """Sends a request that no configuration and no caller could ask for: what checks them is passed by."""
    async with aclosing(NativeEngine()) as native:
        await native.send(
            HttpRequest(url=url, method=method, headers=headers or {}, body=b"{}"), RequestOptions(proxy=proxy)
        )
