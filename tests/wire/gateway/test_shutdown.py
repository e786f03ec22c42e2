"""The end of a server: streams are let finish; past `serve.drain` every open answer ends with its dialect's error form,
whole answers with a 503, and nothing is forgotten.
"""

from __future__ import annotations

import asyncio
import json
import signal
import sqlite3
import sys
import time
from contextlib import closing
from typing import TYPE_CHECKING, Any

import aiohttp
import httpx
import pytest

from penstock import events as ev
from penstock.testing import Reply, scripted
from tests.support.client_requests import ASKING
from tests.support.openresponses import until
from tests.support.process import LIMIT, gateway

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from tests.support.process import Gateway

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals are another matter there")
EVENTS: list[ev.AnyEvent] = [ev.Start(), ev.TextStart(0), ev.TextDelta(0, "one"), ev.TextDelta(0, "two")]
NAMES = {
    "chat": "openai-chat", "messages": "anthropic", "responses": "responses", "gemini": "gemini", "ui": "uistream",
    "ollama": "ollama", "vscode": "vscode", "completions": "completions",
}  # fmt: skip


def dialects(model: str) -> dict[str, tuple[str, Any]]:
    """A streamed request in each of them."""
    made = {name: ASKING[protocol](model, True) for name, protocol in NAMES.items()}
    return {**made, "gemini array": (made["gemini"][0].partition("?")[0], made["gemini"][1])}


CHAT = dialects("slow/m")["chat"]
SAID = "shutting down"
# How the error of each dialect is recognised in the last bytes of a stream, by its official clients.
FORMS: dict[str, Callable[[str], bool]] = {
    "chat": lambda text: "error" in json.loads(_datas(text)[-1]) if _datas(text)[-1] != "[DONE]" else False,
    "messages": lambda text: "event: error" in text and json.loads(_datas(text)[-1])["type"] == "error",
    "responses": lambda text: any(json.loads(data)["type"] == "response.failed" for data in _datas(text) if data[0] == "{"),
    "gemini": lambda text: json.loads(_datas(text)[-1])["error"]["code"] == 503,
    "gemini array": lambda text: json.loads(text)[-1]["error"]["code"] == 503,
    "ui": lambda text: any(json.loads(data)["type"] == "error" for data in _datas(text) if data[0] == "{"),
    "ollama": lambda text: "error" in json.loads(text.strip().splitlines()[-1]),
    "vscode": lambda text: json.loads(text.strip().splitlines()[-1])["kind"] in {"error", "fault"},
    "completions": lambda text: "error" in json.loads(_datas(text)[-1]) if _datas(text)[-1] != "[DONE]" else False,
}  # fmt: skip


def _datas(text: str) -> list[str]:
    return [line[6:] for line in text.splitlines() if line.startswith("data: ")]


def stalling_answer(seen: Any) -> Reply:
    """A stream in the protocol that is asked for, which says one word and stalls within the next."""
    ends = {"/responses": "responses", "/chat/completions": "openai-chat", "/completions": "completions"}
    reply = Reply.of(next((name for end, name in ends.items() if seen.path.endswith(end)), "anthropic"), EVENTS)
    return reply.stall(after=reply.data.index(b"two"))


def stalled(upstream: str, drain: float = 1.0) -> str:
    """One upstream is passed through by Chat clients, the other by Messages clients; all others are translated."""
    providers = (f"[providers.{name}]\nkey = 'x'\nbase_url = '{upstream}'\n" for name in ("slow", "anthropic"))
    return f"[serve]\ndrain = {drain}\n{''.join(providers)}"


async def _streamed(base: str, path: str, body: Any, begun: Callable[[], None]) -> str:
    """All of a stream. `aiohttp` raises if its chunked end is missing."""
    async with aiohttp.ClientSession() as client, client.post(f"{base}{path}", json=body) as answer:
        first = await answer.content.readany()
        begun()
        return (first + await answer.content.read()).decode()


async def _socket(base: str, model: str, begun: Callable[[], None]) -> tuple[list[Any], int | None]:
    async with aiohttp.ClientSession() as client, client.ws_connect(f"{base}/v1/responses") as socket:
        await socket.send_json({"type": "response.create", "model": model, "input": "?"})
        said = [json.loads((await socket.receive()).data)]
        begun()
        said.extend([json.loads(message.data) async for message in socket])
        return said, socket.close_code


async def _all_at_once(server: Gateway, jobs: list[Callable[[Callable[[], None]], Awaitable[Any]]]) -> list[Any]:
    """Run the clients; send SIGTERM once all of them have begun to read."""
    left = len(jobs)
    ready = asyncio.Event()

    def begun() -> None:
        nonlocal left
        left -= 1
        if not left:
            ready.set()

    tasks = [asyncio.ensure_future(job(begun)) for job in jobs]
    await asyncio.wait_for(ready.wait(), LIMIT)
    server.process.send_signal(signal.SIGTERM)
    return await asyncio.wait_for(asyncio.gather(*tasks), LIMIT)


def turns(server: Gateway) -> list[tuple[str, str, int]]:
    """Status, fault and HTTP status of each turn in the journal."""
    with closing(sqlite3.connect(server.data / "journal.sqlite")) as opened:
        return opened.execute("SELECT status, fault, http FROM turns").fetchall()


def test_a_stream_is_let_finish(tmp_path: Path) -> None:
    ask = {"model": "replay/reasoning", "stream": True, "messages": [{"role": "user", "content": "?"}]}
    with gateway(tmp_path, "[serve]\ndrain = 20.0\n") as server, httpx.Client(timeout=LIMIT) as client:
        with client.stream("POST", f"{server.base}/v1/chat/completions", json=ask) as stream:
            chunks = stream.iter_bytes()
            got = next(chunks)
            server.process.send_signal(signal.SIGTERM)
            got += b"".join(chunks)
        assert got.endswith(b"data: [DONE]\n\n")
        assert server.process.wait(LIMIT) in {-signal.SIGTERM, 0}
    assert [status for status, _, _ in turns(server)] == ["finish"]


async def _whole(base: str, path: str, body: Any) -> tuple[int, str]:
    async with aiohttp.ClientSession() as client, client.post(f"{base}{path}", json=body) as answer:
        return answer.status, await answer.text()


def test_all_that_is_open_ends_in_its_dialects_error_form(tmp_path: Path) -> None:
    asked = {
        (provider, name): one for provider in ("slow", "anthropic") for name, one in dialects(f"{provider}/m").items()
    }
    whole = {name: ASKING[protocol]("slow/late", False) for name, protocol in NAMES.items()}

    def answer(seen: Any) -> Reply:
        return Reply.of("openai-chat", EVENTS).delayed(60) if b"late" in seen.body else stalling_answer(seen)

    async def ask_all(server: Gateway, upstream: Any) -> tuple[list[tuple[int, str]], list[Any]]:
        refused = [asyncio.ensure_future(_whole(server.base, path, body)) for path, body in whole.values()]
        await asyncio.to_thread(until, lambda: len(upstream.requests) >= len(refused))
        jobs: list[Any] = [
            lambda begun, path=path, body=body: _streamed(server.base, path, body, begun)
            for path, body in asked.values()
        ]
        jobs += [lambda begun, at=at: _socket(server.base, f"{at}/m", begun) for at in ("slow", "anthropic")]
        said = await _all_at_once(server, jobs)
        return await asyncio.gather(*refused), said

    with scripted(answer) as upstream, gateway(tmp_path, stalled(upstream.url)) as server:
        refused, said = asyncio.run(ask_all(server, upstream))
        signalled = time.monotonic()
        server.process.wait(LIMIT)
        assert time.monotonic() - signalled < 5
    wrong = [
        (where, text)
        for where, text in zip(asked, said[:-2], strict=True)
        if SAID not in text or not FORMS[where[1]](text)
    ]
    assert wrong == []
    for messages, code in said[-2:]:
        assert messages[-1]["type"] in {"response.failed", "error"}
        assert SAID in json.dumps(messages[-1])
        assert code == 1012
    assert [(status, SAID in text) for status, text in refused] == [(503, True)] * len(whole)
    assert "Traceback" not in server.said
    rows = turns(server)
    assert len(rows) == len(asked) + 2 + len(whole)
    assert {(status, fault) for status, fault, _ in rows if status != "refused"} == {("fault", "overloaded")}
    assert [http for _, _, http in rows].count(503) == len(whole)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_second_signal_ends_streams_at_once(tmp_path: Path, number: signal.Signals) -> None:
    async def asked(server: Gateway) -> str:
        def begun() -> None:
            server.process.send_signal(signal.SIGTERM)
            asyncio.get_running_loop().call_later(0.5, server.process.send_signal, number)

        return await _streamed(server.base, *CHAT, begun)

    with scripted(stalling_answer) as upstream:
        with gateway(tmp_path, stalled(upstream.url, 600)) as server:
            began = time.monotonic()
            text = asyncio.run(asked(server))
            server.process.wait(LIMIT)
            assert time.monotonic() - began < 10
        assert FORMS["chat"](text)
        assert "Traceback" not in server.said
    assert [fault for _, fault, _ in turns(server)] == ["overloaded"]


def test_a_client_that_reads_nothing_does_not_hold_the_server(tmp_path: Path) -> None:
    large: list[ev.AnyEvent] = [ev.Start(), ev.TextStart(0), *[ev.TextDelta(0, "x" * 60_000)] * 400]

    async def asked(server: Gateway) -> None:
        host, port = server.base.removeprefix("http://").split(":")
        reader, writer = await asyncio.open_connection(host, int(port), limit=1024)
        body = json.dumps(CHAT[1]).encode()
        head = f"POST /v1/chat/completions HTTP/1.1\r\nhost: {host}\r\ncontent-type: application/json\r\n"
        writer.write(head.encode() + b"content-length: %d\r\n\r\n" % len(body) + body)
        await reader.readuntil(b"data: ")
        server.process.send_signal(signal.SIGTERM)
        await asyncio.to_thread(server.process.wait, LIMIT)
        writer.close()

    with scripted(Reply.of("openai-chat", large).stall(after=20_000_000)) as upstream:
        with gateway(tmp_path, stalled(upstream.url)) as server:
            asyncio.run(asked(server))
        assert "Traceback" not in server.said
    assert len(turns(server)) == 1
