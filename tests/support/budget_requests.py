"""Answers with known usage for tests of budgets, a gate that holds them, callers by gateway key, and open streams."""

from __future__ import annotations

import asyncio
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import aiohttp
import httpx

from penstock import events as ev
from penstock._store.redis_limits import RedisLimitStore
from penstock.testing import Reply
from tests.support.client_requests import get
from tests.support.gateway import hash_key

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator

    from penstock._store.limit_store import LimitRule
    from penstock.events import AnyEvent
    from penstock.testing import ReceivedRequest

LIMIT = 60.0
MODEL = "openai-chat/text"


def secret(name: str) -> str:
    return f"pk-{name}-0000000000"


def key(name: str, **fields: Any) -> dict[str, Any]:
    return {name: {"hash": hash_key(secret(name)), **fields}}


BOSS = key("boss", role="admin")


def auth(name: str) -> dict[str, str]:
    return {"authorization": f"Bearer {secret(name)}"}


def chat(text: str = "Hi.", *, model: str = MODEL, **more: Any) -> dict[str, Any]:
    return {"model": model, "messages": [{"role": "user", "content": text}], **more}


def turn_events(usage: ev.Usage | None, text: str = "Hello.") -> list[AnyEvent]:
    """An answer with this text and usage."""
    said: list[AnyEvent] = [ev.Start("one", "upstream-model", 7), ev.TextStart(0), ev.TextDelta(0, text), ev.TextEnd(0)]
    return [*said, *([usage] if usage is not None else []), ev.Finish("stop")]


def reply_to(seen: ReceivedRequest, usage: ev.Usage | None, text: str = "Hello.") -> Reply:
    return Reply.of("openai-chat", turn_events(usage, text), stream=seen.json.get("stream") is True)


class Gate:
    """Holds all answers of an upstream until `total` requests have been sent upstream or were refused."""

    def __init__(self, total: int, usage: ev.Usage | Callable[[ReceivedRequest], ev.Usage]) -> None:
        self._usage = usage
        self._left = total
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._open = asyncio.Event()

    async def answer(self, seen: ReceivedRequest) -> Reply:
        self._loop = asyncio.get_running_loop()
        self.count()
        await self._open.wait()
        return reply_to(seen, self._usage if isinstance(self._usage, ev.Usage) else self._usage(seen))

    def count(self) -> None:
        with self._lock:
            self._left -= 1
            if self._left == 0:
                self.open()

    def open(self) -> None:
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._open.set)


@dataclass
class Meter:
    """A model whose answers have these lengths in turn, or less if the request says so. `spent`: all its tokens."""

    lengths: Iterator[int]
    spent: int = 0

    def usage(self, seen: ReceivedRequest) -> ev.Usage:
        most = seen.json.get("max_completion_tokens") or seen.json.get("max_tokens") or 1000
        length = min(next(self.lengths), most)
        self.spent += length
        return ev.Usage(input=5, output=length)


def ask_all(urls: Iterable[str], name: str, body: dict[str, Any], gate: Gate | None = None) -> list[int]:
    """Send a request to each address at once. Returns the statuses."""
    return asyncio.run(_send_all(urls, name, body, gate))


async def _send_all(urls: Iterable[str], name: str, body: dict[str, Any], gate: Gate | None) -> list[int]:
    """One event loop: threads cannot share a client of httpx, whose pool may close a connection that another thread
    uses ("Bad file descriptor", https://github.com/encode/httpcore/issues/1110).
    """
    async with aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0), timeout=aiohttp.ClientTimeout(LIMIT), headers=auth(name)
    ) as http:

        async def send(url: str) -> int:
            async with http.post(f"{url}/v1/chat/completions", json=body) as reply:
                if not reply.ok and gate is not None:
                    gate.count()
                await reply.read()
                return reply.status

        return await asyncio.gather(*map(send, urls))


def ask(url: str, name: str, body: dict[str, Any], path: str = "/v1/chat/completions") -> httpx.Response:
    with httpx.Client(timeout=LIMIT, trust_env=False, verify=False) as http:  # noqa: S501 — loopback, no TLS
        return http.post(f"{url}{path}", json=body, headers=auth(name))


# ── streams that stay open ────────────────────────────────────────────────────────────────────────


class HeldReply(Reply, frozen=True):
    """A stream that says its fourth chunk again and again until the gate is open."""

    gate: Any = None

    def steps(self) -> Iterator[Any]:
        yield from self.chunks[:4]
        while not self.gate.is_set():
            yield self.chunks[3]
            yield 0.05
        yield from self.chunks[4:]


def held_stream(gate: threading.Event, usage: ev.Usage) -> HeldReply:
    words = [ev.TextDelta(0, f"word{number} ") for number in range(8)]
    start, begin, _, *end = turn_events(usage)
    plain = Reply.of("openai-chat", [start, begin, *words, *end])
    return HeldReply(plain.chunks, headers=plain.headers, gate=gate)


@dataclass
class OpenStream:
    """A stream of which the first word has arrived."""

    reply: httpx.Response
    pieces: Iterator[str]

    @property
    def id(self) -> str:
        return self.reply.headers["x-request-id"]

    def is_running(self) -> bool:
        """Whether it says more words."""
        return "word" in next(self.pieces)

    def read(self) -> str:
        """The rest of it."""
        return "".join(self.pieces)


@contextmanager
def open_stream(url: str, name: str) -> Generator[OpenStream]:
    body = chat(stream=True, max_tokens=200)
    with (
        httpx.Client(timeout=LIMIT, trust_env=False, verify=False) as http,  # noqa: S501 — loopback, no TLS
        http.stream("POST", f"{url}/v1/chat/completions", json=body, headers=auth(name)) as reply,
    ):
        assert reply.status_code == 200
        pieces = reply.iter_text()
        seen = ""
        while "word0" not in seen:
            seen += next(pieces)
        yield OpenStream(reply, pieces)


def counted(url: str, kind: str = "tokens", name: str = "a") -> float:
    """What counts for a limit of a key, as the admin API tells `BOSS`: what is reserved, and what was spent."""
    reply = get(f"{url}/admin/limits?scope=key&name={name}", headers=auth("boss")).raise_for_status()
    (row,) = reply.json()["data"]
    return next(float(limit["used"]) for limit in row["limits"] if limit["kind"] == kind)


# ── what a store has counted ──────────────────────────────────────────────────────────────────────


def until_true(check: Callable[[], bool], seconds: float = LIMIT) -> float:
    """Wait until something is so. Returns the seconds that it took."""
    began = time.monotonic()
    while not check():
        assert time.monotonic() - began < seconds
        time.sleep(0.1)
    return time.monotonic() - began


def used(url: str, rule: LimitRule) -> int:
    """What counts for a rule in Redis."""

    async def read() -> int:
        store = RedisLimitStore(url, timeout=LIMIT)
        try:
            return (await store.usage([rule]))[0]
        finally:
            await store.aclose()

    return asyncio.run(read())
