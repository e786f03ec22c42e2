"""SIGTERM past `serve.drain`: every open answer ends with its dialect's error form, whole answers with a 503."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
import time
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest

from penstock import events as ev
from penstock.testing import Reply, scripted
from tests.support.client_requests import ASKING
from tests.support.openresponses import until
from tests.support.process import LIMIT, gateway
from tests.wire.gateway.test_shutdown import turns

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


def answer(seen: Any) -> Reply:
    """A stream in the protocol that is asked for, which says one word and stalls within the next."""
    ends = {"/responses": "responses", "/chat/completions": "openai-chat", "/completions": "completions"}
    reply = Reply.of(next((name for end, name in ends.items() if seen.path.endswith(end)), "anthropic"), EVENTS)
    return reply.stall(after=reply.data.index(b"two"))


def stalled(upstream: str, drain: float = 1.0, provider: str = "slow") -> str:
    return f"[serve]\ndrain = {drain}\n[providers.{provider}]\nkey = 'x'\nbase_url = '{upstream}'\n"


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


@pytest.mark.parametrize("provider", ["slow", "anthropic"])
def test_open_streams_end_in_their_dialects_error_form(tmp_path: Path, provider: str) -> None:
    """One upstream is passed through by Chat clients, the other by Messages clients; all others are translated."""
    with scripted(answer) as upstream:
        asked = dialects(f"{provider}/m")
        with gateway(tmp_path, stalled(upstream.url, provider=provider)) as server:
            jobs: list[Any] = [
                lambda begun, path=path, body=body: _streamed(server.base, path, body, begun)
                for path, body in asked.values()
            ]
            jobs.append(lambda begun: _socket(server.base, f"{provider}/m", begun))
            *texts, (messages, code) = asyncio.run(_all_at_once(server, jobs))
            signalled = time.monotonic()
            server.process.wait(LIMIT)
            assert time.monotonic() - signalled < 5
        for dialect, text in zip(asked, texts, strict=True):
            assert SAID in text, dialect
            assert FORMS[dialect](text), (dialect, text)
        assert messages[-1]["type"] in {"response.failed", "error"}
        assert SAID in json.dumps(messages[-1])
        assert code == 1012
        assert "Traceback" not in server.said
    rows = turns(server)
    assert len(rows) == len(asked) + 1
    assert {(row.status, row.fault) for row in rows} == {("fault", "overloaded")}


def test_whole_answers_in_flight_are_refused_with_503(tmp_path: Path) -> None:
    whole = {name: ASKING[protocol]("slow/m", False) for name, protocol in NAMES.items()}

    async def asked(server: Gateway, upstream: Any) -> list[tuple[int, str]]:
        async def one(client: aiohttp.ClientSession, path: str, body: Any) -> tuple[int, str]:
            async with client.post(f"{server.base}{path}", json=body) as answer:
                return answer.status, await answer.text()

        async with aiohttp.ClientSession() as client:
            tasks = [asyncio.ensure_future(one(client, path, body)) for path, body in whole.values()]
            await asyncio.to_thread(until, lambda: len(upstream.requests) >= len(tasks))
            server.process.send_signal(signal.SIGTERM)
            return await asyncio.wait_for(asyncio.gather(*tasks), LIMIT)

    with (
        scripted(Reply.of("openai-chat", EVENTS).delayed(60)) as upstream,
        gateway(tmp_path, stalled(upstream.url)) as server,
    ):
        answers = asyncio.run(asked(server, upstream))
        server.process.wait(LIMIT)
    for name, (status, text) in zip(whole, answers, strict=True):
        assert (name, status) == (name, 503)
        assert SAID in text
    assert "Traceback" not in server.said
    assert [row.http for row in turns(server)] == [503] * len(whole)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_second_signal_ends_streams_at_once(tmp_path: Path, number: signal.Signals) -> None:
    async def asked(server: Gateway) -> str:
        def begun() -> None:
            server.process.send_signal(signal.SIGTERM)
            asyncio.get_running_loop().call_later(0.5, server.process.send_signal, number)

        return await _streamed(server.base, *CHAT, begun)

    with scripted(answer) as upstream:
        with gateway(tmp_path, stalled(upstream.url, 600)) as server:
            began = time.monotonic()
            text = asyncio.run(asked(server))
            server.process.wait(LIMIT)
            assert time.monotonic() - began < 10
        assert FORMS["chat"](text)
        assert "Traceback" not in server.said
    assert [row.fault for row in turns(server)] == ["overloaded"]


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
