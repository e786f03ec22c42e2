"""A gateway in this process, on a real port in its own thread, in front of a scripted upstream for every protocol.

The upstream's address begins with the protocol it is to speak; a model's name is the packaged script that it plays.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import re
import socket
import tempfile
import threading
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import pytest
import tomlkit
import uvicorn
from msgspec.structs import replace

from penstock import _delta_templates
from penstock._engines.reply import ModelReply
from penstock._gateway.byte_budget import websocket_protocol
from penstock._http.uvicorn_server import uvicorn_config
from penstock.gateway import App, GatewayConfig, load_config
from penstock.testing import Reply, Upstream, play, scripted, scripts
from penstock.tokens import HybridTokenEstimator

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from penstock.events import AnyEvent
    from penstock.testing import ReceivedRequest

LIMIT = 30.0
# Pytest hangs handlers on every logger that does not propagate. With one, uvicorn would log each request, and our server
# would leave the heads of streams to uvicorn: the way that users have would not be tested.
logging.getLogger("uvicorn.access").hasHandlers = lambda: False  # type: ignore[method-assign]
# protocol of the upstream → the provider it is like, and what of it is there
PROVIDERS: dict[str, dict[str, Any]] = {
    "openai-chat": {"like": "openai-compatible", "fields": {"has": ["chat", "embeddings", "rerank", "fim"]}},
    "responses": {"like": "openai-compatible", "fields": {"has": ["responses"]}},
    "anthropic": {"like": "anthropic"},
    "gemini": {"like": "gemini"},
    "bedrock": {"like": "bedrock"},
    "cohere": {"like": "cohere"},
    "ollama": {"like": "ollama"},
    "completions": {"like": "openai-compatible", "fields": {"has": ["completions"]}},
}


def config(url: str, **tables: Any) -> GatewayConfig:
    """One provider for each protocol, all of them at the upstream; nothing is kept but in memory.

    `tables` are those of penstock.toml. `data`: the folder of files without a path of their own.
    """
    providers = {
        name: {"base_url": f"{url}/{name}", "key": "sk-up-000000", "models": ["text", "tools"], **row}
        for name, row in PROVIDERS.items()
    }
    given = {
        "providers": providers | tables.pop("providers", {}), "retries": 0, "aliases": {"quick": "openai-chat/text"},
        "journal": {"path": "memory"}, "state": {"path": "memory"}, **tables,
    }  # fmt: skip
    return read_config(**given)


def read_config(*, data: Path | None = None, **tables: Any) -> GatewayConfig:
    """A configuration with just these tables, read as the file is."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "penstock.toml"
        path.write_text(tomlkit.dumps(_plain(tables)), encoding="utf-8")
        return replace(load_config(path, {"PENSTOCK_DATA": folder}), data=data)


def _plain(value: Any) -> Any:
    """What TOML can hold of a value: no tuples, nothing that is None."""
    if isinstance(value, dict):
        return {str(name): _plain(inner) for name, inner in value.items() if inner is not None}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(inner) for inner in value]
    return str(value) if isinstance(value, Path) else value


def hash_key(secret: str) -> str:
    """A gateway key as a configuration names it."""
    return f"sha256:{hashlib.sha256(secret.encode()).hexdigest()}"


def answer(seen: ReceivedRequest) -> Reply:
    """What the upstream says: the script that the model's name means, in the protocol that the path begins with."""
    protocol, _, rest = seen.path.lstrip("/").partition("/")
    asked = seen.json if seen.body else {}
    if rest.endswith(("/embeddings", "embeddings")):
        rows = [{"index": place, "embedding": [0.25, -1.5, place]} for place in range(len(asked["input"]))]
        return Reply.body({"data": rows, "model": asked["model"], "usage": {"prompt_tokens": 7, "total_tokens": 7}})
    if rest.endswith("rerank"):
        return Reply.body({"results": [{"index": 1, "relevance_score": 0.9}, {"index": 0, "relevance_score": 0.1}]})
    if "count" in rest.lower():
        return Reply.body({"input_tokens": 42, "totalTokens": 42})
    stream = asked.get("stream") is True or "stream" in rest
    return Reply.of(spoken_protocol(protocol, rest), events(asked, rest), stream=stream)


def spoken_protocol(protocol: str, path: str) -> str:
    """A provider may have other languages beside its own, at addresses that all the world knows."""
    if path.endswith("responses"):
        return "responses"
    if path.endswith("chat/completions"):
        return "openai-chat"
    return "completions" if path.endswith("completions") else protocol


def events(asked: Any, path: str) -> list[AnyEvent]:
    """The packaged events of a request; a result among its messages is answered."""
    said = str(asked)
    if any(word in said for word in ("tool_call_id", "tool_result", "functionResponse", "function_call_output",
                                     "toolResult", "'role': 'tool'")):  # fmt: skip
        return play("after-tool", id="two", model="upstream-model", created=7)
    name = asked.get("model") or next(iter(re.findall(r"models?/([a-z-]+)", path)), "")
    return play(name if name in scripts() else "text", id="one", model="upstream-model", created=7)


# Our own server, which has shorter ways, and any other, which has only ASGI's.
SERVERS = [pytest.param(False, id="own"), pytest.param(True, id="plain")]


class _Server(uvicorn.Server):
    """Stops within 10 ms, where uvicorn looks ten times a second whether it should."""

    async def main_loop(self) -> None:
        while not await self.on_tick(0):  # noqa: ASYNC110 — as in uvicorn, whose flag tells no other way
            await asyncio.sleep(0.01)


class Running:
    """A gateway that runs. `url` is where; `app` is what. `plain`: by uvicorn as it is, as in somebody else's server."""

    def __init__(self, app: App, *, plain: bool = False) -> None:
        self.app = app
        self.url = ""
        self.upstream = ""  # where the upstream is that `gateway` has made
        self._listening = socket.socket()
        self._listening.bind(("127.0.0.1", 0))
        if plain:
            made = uvicorn.Config(app, log_level="error", access_log=False, lifespan="on")
        else:
            serve = app.services.config.serve
            made = uvicorn_config(
                app, serve, websocket_protocol(app, serve), direct_send=app.services.config.features.direct_send
            )
        made.timeout_graceful_shutdown = 2
        self._server = _Server(made)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._ready = threading.Event()
        self.loop: asyncio.AbstractEventLoop | None = None

    def _run(self) -> None:
        async def main() -> None:
            self.loop = asyncio.get_running_loop()
            serving = asyncio.ensure_future(self._server.serve(sockets=[self._listening]))
            while not self._server.started and not serving.done():  # noqa: ASYNC110 — uvicorn tells no other way
                await asyncio.sleep(0.005)
            self._ready.set()
            await serving

        with asyncio.Runner(loop_factory=self._server.config.get_loop_factory()) as runner:
            runner.run(main())

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._ready.wait(LIMIT)
        self.url = f"http://127.0.0.1:{self._listening.getsockname()[1]}"
        return self

    def __exit__(self, *_: object) -> None:
        self._server.should_exit = True
        self._thread.join(LIMIT)
        assert not self._thread.is_alive()
        self._listening.close()

    def call(self, work: Any) -> Any:
        """Run something in the gateway's loop."""
        assert self.loop is not None
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(LIMIT)

    def rows(self, limit: int = 1000) -> list[Any]:
        """The journal's rows so far, the last first."""
        if self._thread.is_alive():
            self.call(asyncio.sleep(0))  # a client may see the end of an answer before its row is noted
        return journal_rows(self.app, limit)

    def settled(self) -> bool:
        """Whether nothing of a turn is left: no place taken, no stream counted, no connection held."""
        services = self.app.services
        engine: Any = services.upstream.router.engines.by_name.get("native")
        held = 0
        if engine:
            held = len(engine._http._direct._open) - engine._http._direct.idle
            held += sum(len(one.connector._acquired) for one in engine._http._sessions.values())
        return services.limits.open + services.metrics.open_streams + held == 0

    def settle(self) -> None:
        """Wait until it is."""
        until(self, self.settled)

    def tasks(self) -> int:
        """How many tasks its loop has."""
        return len(asyncio.all_tasks(self.loop))

    def reload(self, **tables: Any) -> None:
        """Replace the configuration, as a change of the file does."""

        async def load() -> None:
            self.app.services.reload(config(self.upstream, **tables))

        self.call(load())

    @property
    def websocket_bytes(self) -> int:
        """Bytes of requests that all WebSockets hold."""
        return int(self.app.services.websocket_bytes.used)

    def close_circuits(self) -> None:
        """Forget which providers have failed."""
        self.app.services.upstream.router.breakers._circuits.clear()


def journal_rows(app: App, limit: int = 1000) -> list[Any]:
    """The rows of a journal, the last first."""
    journal = app.services.journal
    journal.flush()
    assert journal.rows is not None
    return [row for _, row in journal.rows.turns(limit=limit)]


def until(running: Running, check: Any) -> None:
    """Wait for something to be so, in the gateway's own loop, for as long as a test may take."""

    async def wait() -> None:
        async with asyncio.timeout(10):
            while not check():  # noqa: ASYNC110 — what is waited for is in another thread, and tells nobody
                await asyncio.sleep(0.002)

    running.call(wait())


def settled(running: Running) -> bool:
    return running.settled()


def fail_to_close(patch: pytest.MonkeyPatch, *, cancelled: bool) -> threading.Event:
    """Have no connection to a provider be closed, for an error or because the work is cancelled. Set when one was tried."""
    close, tried = ModelReply.aclose, threading.Event()

    async def aclose(reply: ModelReply) -> None:
        await close(reply)
        tried.set()
        if not cancelled:
            raise OSError("it is gone")
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(0)

    patch.setattr(ModelReply, "aclose", aclose)
    return tried


def fail_to_estimate(patch: pytest.MonkeyPatch) -> None:
    """Have no conversation be counted."""

    def fail(*_: object, **__: object) -> None:
        raise ValueError("no count")

    patch.setattr(HybridTokenEstimator, "estimate_conversation", fail)


@contextmanager
def without_fast_path() -> Iterator[None]:
    """Have the text of no stream take the shorter way."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_delta_templates, "enabled", False)
        yield


@contextmanager
def gateway(*replies: Any, env: Mapping[str, str] | None = None, **more: Any) -> Iterator[tuple[Running, Upstream]]:
    """A gateway and the upstream behind it."""
    with scripted(*(replies or (answer,))) as up:
        serve, plain = more.pop("serve", {"pace": 0.0}), more.pop("plain", False)
        with Running(App(config(up.url, serve=serve, **more), env=env or {}), plain=plain) as running:
            running.upstream = up.url
            yield running, up
