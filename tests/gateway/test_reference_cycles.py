"""Turns that do not end well leave nothing to the garbage collector either: no reference cycle of ours.

A cycle stays until the collector runs, which is rarely in a server. Until then it keeps buffers, frames and sockets.
Each case is run twice: the first run may load modules and fill caches, the second may leave nothing behind.
"""

from __future__ import annotations

import asyncio
import gc
import json
import socket
import types
from collections import Counter
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest
import uvloop

import penstock
from penstock._engines.config import Account, Config
from penstock._gateway.config import Key, Serve
from penstock._gateway.keys import hash_key
from penstock._http.pool import DirectPool
from penstock.testing import Reply
from tests.faults import readers
from tests.faults.cells import FAULTS, HEAD, NO_HEAD, Cell
from tests.faults.harness import account_of, started
from tests.gateway.client_requests import ASKING
from tests.gateway.gateway_thread import answer, gateway
from tests.gateway.openresponses import LIMIT, until
from tests.gateway.openresponses import socket as websocket
from tests.gateway.test_faults import settled
from tests.gateway.test_keys import key_file

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator
    from pathlib import Path

    from penstock.testing import ReceivedRequest
    from tests.faults.harness import Matrix
    from tests.gateway.gateway_thread import Running

pytestmark = pytest.mark.slow

PACKAGE = str(next(iter(penstock.__path__)))
OURS = ("penstock.", "uvicorn.", "httptools.")
TEST_TOOLS = "penstock.testing"
KEY = "pk-penstock-of-somebody"
CUT = -60  # bytes before the end of the upstream's answer
# (streamed?, frames or bytes that are sent before the fault)
POSITIONS = ((True, HEAD), (True, 4), (False, 10))


@pytest.fixture(autouse=True)
def _collector_off() -> Iterator[None]:
    """Objects stay frozen after a test. If they were not, each collection would look at everything that was collected and
    imported since the session began, which takes a second.
    """
    gc.disable()
    yield
    gc.set_debug(0)
    gc.garbage.clear()
    gc.enable()


def take_garbage() -> dict[str, int]:
    """The objects of ours that only the collector finds, by type. Objects from before `gc.freeze` are not looked at."""
    gc.set_debug(gc.DEBUG_SAVEALL)
    gc.collect()
    gc.set_debug(0)
    found = Counter(name for one in gc.garbage if (name := _name(one)))
    gc.garbage.clear()
    return dict(found)


def _name(one: Any) -> str:
    """What an object is called, if it is of ours."""
    if isinstance(one, types.FrameType):
        file = one.f_code.co_filename
        return f"frame {one.f_code.co_qualname}" if file.startswith(PACKAGE) and "/testing/" not in file else ""
    module = type(one).__module__
    return type(one).__qualname__ if module.startswith(OURS) and not module.startswith(TEST_TOOLS) else ""


def is_idle(running: Running) -> bool:
    """Nothing of a turn is left, nor of its client's connection."""
    server = running._server  # pyright: ignore[reportPrivateUsage]
    return settled(running) and not server.server_state.connections and not server.server_state.tasks


def left_by(running: Running, run: Callable[[], object]) -> dict[str, int]:
    """What the second run leaves to the collector."""
    for _ in range(2):
        gc.collect()
        gc.freeze()
        run()
        until(lambda: is_idle(running))
        running.call(asyncio.sleep(0))
    return take_garbage()


# ── faults of the upstream ────────────────────────────────────────────────────────────────────────


def cells(client: str) -> Iterator[Cell]:
    for upstream in ("openai-chat", "anthropic"):  # handed on as it is, or translated
        for fault in ("none", *FAULTS):
            for stream, position in POSITIONS:
                if position != HEAD or fault in NO_HEAD - {"stall"}:  # a missing head is waited for too long
                    yield Cell(client, upstream, "native", stream, fault, position)


async def ask(made: Matrix, cell: Cell, read: Callable[[str], Awaitable[object]]) -> None:
    """One turn in a cell, until nothing of it is left."""
    name = f"{cell.fault}-{'paced' if cell.stream else 'joined'}"
    made.upstream.plan[name] = cell
    await read(f"{account_of(cell)}/{name}")
    async with asyncio.timeout(LIMIT):
        while not settled(made.running):  # noqa: ASYNC110 — what is waited for is in another thread, and tells nobody
            await asyncio.sleep(0.005)
        made.upstream.drop()
        while made.upstream.connections or not is_idle(made.running):  # noqa: ASYNC110 — as above
            await asyncio.sleep(0.005)


@pytest.mark.slow
@pytest.mark.parametrize("client", ["openai-chat", "responses", "gemini"])
def test_a_turn_whose_upstream_fails_leaves_nothing(client: str) -> None:
    async def main() -> dict[str, dict[str, int]]:
        found: dict[str, dict[str, int]] = {}
        async with started() as made:

            async def read(model: str) -> None:
                await readers.ask(made.port, client, model, stream=cell.stream)

            for cell in cells(client):
                await ask(made, cell, read)
                gc.collect()
                gc.freeze()
                await ask(made, cell, read)
                if left := take_garbage():
                    found[f"{cell.title}, {cell.position}"] = left
        return found

    assert asyncio.run(main()) == {}


def test_errors_of_earlier_attempts_leave_nothing() -> None:
    """A provider is asked again, then another one: the last error lists the others."""
    with gateway(Reply.error("openai-chat", 503)) as (running, up):
        accounts = {name: Account(base_url=f"{up.url}/openai-chat", key="sk-up-000000", like="openai-compatible")
                    for name in ("first", "second")}  # fmt: skip
        services = running.app.services
        services.upstream.router = services.upstream.router.renewed(
            Config(providers=accounts, retries=1, aliases={"both": ["first/text", "second/text"]})
        )
        services.upstream.router._sleep = _no_sleep  # pyright: ignore[reportPrivateUsage]
        assert left_by(running, lambda: exchange(running, "both")) == {}
        assert len(up.requests) == 8


async def _no_sleep(_: float) -> None: ...


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run])
def test_a_connection_that_is_given_up_while_it_is_made_leaves_nothing(run: Any) -> None:
    """Given up after every number of steps that connecting may take."""

    async def main() -> dict[str, int]:
        direct = DirectPool(aiohttp)
        server = socket.create_server(("127.0.0.1", 0), backlog=100)  # the system answers for it
        port = server.getsockname()[1]
        gc.collect()
        gc.freeze()
        for steps in range(20):
            at = (asyncio.get_running_loop(), "127.0.0.1", port, False, None)
            connect = direct._connect  # pyright: ignore[reportPrivateUsage]
            task = asyncio.ensure_future(connect(at, "127.0.0.1", port, None, LIMIT))
            for _ in range(steps):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait([task])
            del task
            direct.close()
            await asyncio.sleep(0.005)
        server.close()
        return take_garbage()

    assert run(main()) == {}


# ── ends that are not the upstream's ──────────────────────────────────────────────────────────────


def send(
    running: Running, model: str, *, stream: bool = True, client: str = "openai-chat", key: str = KEY
) -> socket.socket:
    path, body = ASKING[client](model, stream)
    return send_raw(running, path, json.dumps(body).encode(), key)


def send_raw(running: Running, path: str, data: bytes, key: str = KEY) -> socket.socket:
    port = int(running.url.rpartition(":")[2])
    made = socket.create_connection(("127.0.0.1", port), timeout=LIMIT)
    head = f"POST {path} HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer {key}\r\nconnection: close\r\n"
    made.sendall(f"{head}content-length: {len(data)}\r\n\r\n".encode() + data)
    return made


def read_all(made: socket.socket) -> bytes:
    with made:
        return b"".join(iter(lambda: made.recv(65536), b""))


def exchange(running: Running, model: str, *, stream: bool = True) -> bytes:
    return read_all(send(running, model, stream=stream))


def stalled(seen: ReceivedRequest) -> Reply:
    return answer(seen).stall(after=CUT)


def silent(seen: ReceivedRequest) -> Reply:
    return answer(seen).delayed(LIMIT)


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("upstream", ["openai-chat", "anthropic"])
def test_a_client_that_leaves_leaves_nothing(upstream: str, *, stream: bool) -> None:
    with gateway(stalled if stream else silent) as (running, up):

        def leave() -> None:
            before = len(up.requests)
            with send(running, f"{upstream}/text", stream=stream) as made:
                if stream:
                    assert made.recv(10)
                until(lambda: len(up.requests) > before)

        assert left_by(running, leave) == {}
        assert {row.status for row in running.rows()} == {"cancelled"}


@pytest.mark.parametrize("client", ["openai-chat", "anthropic"])
def test_a_turn_whose_key_is_revoked_leaves_nothing(tmp_path: Path, client: str) -> None:
    keys = key_file(tmp_path)
    names = ["dave", "eve"]
    for name in names:
        keys.add(name, Key(hash=hash_key(KEY + name)))
    keys.add("mallory", Key(hash=hash_key(KEY)))
    with gateway(stalled, data=tmp_path) as (running, _):

        def revoke() -> None:
            name = names.pop()
            with send(running, "openai-chat/text", client=client, key=KEY + name) as made:
                got = made.recv(65536)
                keys.revoke(name)
                got += b"".join(iter(lambda: made.recv(65536), b""))
            assert b"was revoked" in got

        assert left_by(running, revoke) == {}


def test_a_turn_that_a_shutdown_ends_leaves_nothing() -> None:
    with gateway(stalled) as (running, _):
        services = running.app.services

        async def end() -> None:
            services.end_answers()
            services.stopped = False  # only the answers are ended: the server is needed once more

        def stop() -> None:
            with send(running, "openai-chat/text") as made:
                got = made.recv(65536)
                running.call(end())
                got += b"".join(iter(lambda: made.recv(65536), b""))
            assert b'"error"' in got

        assert left_by(running, stop) == {}


REFUSED = {
    "not JSON": ("/v1/chat/completions", b"{", 400),
    "too deep": ("/v1/chat/completions", b'{"model":' + b"[" * 5000 + b"]" * 5000 + b"}", 400),
    "no messages": ("/v1/chat/completions", b'{"model":"openai-chat/text","messages":7}', 400),
    "unknown model": ("/v1/chat/completions", b'{"model":"nobody/has-it","messages":[]}', 404),
    "unknown path": ("/v1/nowhere", b"{}", 404),
    "too large": ("/v1/messages", b" " * 5000 + b"{}" * 5000, 413),
}  # fmt: skip


@pytest.mark.parametrize("name", list(REFUSED))
def test_a_refused_request_leaves_nothing(name: str) -> None:
    path, data, status = REFUSED[name]
    with gateway(serve=Serve(pace=0.0, body=12_000)) as (running, _):

        def refuse() -> None:
            assert read_all(send_raw(running, path, data)).startswith(b"HTTP/1.1 %d " % status)

        assert left_by(running, refuse) == {}


def test_a_request_without_a_known_key_leaves_nothing(tmp_path: Path) -> None:
    keys = key_file(tmp_path)
    keys.add("eve", Key(hash=hash_key("pk-penstock-of-eve")))
    with gateway(data=tmp_path) as (running, up):

        def refuse() -> None:
            assert exchange(running, "openai-chat/text").startswith(b"HTTP/1.1 401 ")

        assert left_by(running, refuse) == {}
        assert not up.requests


def test_a_websocket_turn_leaves_nothing() -> None:
    with gateway() as (running, _):

        def talk() -> None:
            with websocket(running.url) as made:
                made.get_response(model="openai-chat/text", input="Hi.")
                made.error(model="nobody/has-it", input="Hi.")

        assert left_by(running, talk) == {}
