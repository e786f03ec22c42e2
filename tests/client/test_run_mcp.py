"""Tools of MCP servers in `client.run`: a real server, over stdio and over streamable HTTP."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from penstock import request as rq
from penstock.client import McpServer
from penstock.errors import InputError, McpServerError, MissingExtra, NetworkError
from penstock.testing import Reply
from tests.client.run_setup import call, finish, model_of, play_agent, reply, result_text, sent_results, staged, text
from tests.support.client_parts import set_bound

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from penstock.client import Client
    from penstock.testing import Upstream

pytest.importorskip("mcp")
SERVER = str(Path(__file__).with_name("weather_mcp_server.py"))
MODEL = model_of("chat")
LIMIT = 30.0


def stdio_server(**more: Any) -> McpServer:
    return McpServer.stdio(sys.executable, SERVER, name="weather", **more)


@contextmanager
def http_server() -> Generator[str]:
    """The server on a free port. It says which one, once it listens."""
    code = (
        "import socket, sys, uvicorn; sys.path.insert(0, sys.argv[1]); import weather_mcp_server as one\n"
        "sock = socket.socket(); sock.bind(('127.0.0.1', 0)); sock.listen()\n"
        "print(sock.getsockname()[1], flush=True)\n"
        "app = one.server.streamable_http_app()\n"
        "uvicorn.Server(uvicorn.Config(app, log_level='error')).run(sockets=[sock])\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(Path(SERVER).parent)], stdout=subprocess.PIPE, text=True
    )
    guard = threading.Timer(LIMIT, process.kill)
    guard.start()
    try:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{int(process.stdout.readline())}/mcp"
    finally:
        guard.cancel()
        process.terminate()
        process.wait(LIMIT)
        assert process.stdout is not None
        process.stdout.close()


@pytest.fixture(scope="module")
def weather() -> Iterator[str]:
    """The address of one server for all tests of this file."""
    with http_server() as url:
        yield url


def http(url: str, name: str = "weather", **more: Any) -> McpServer:
    return McpServer.http(url, name=name, headers={"x-key": "sk-mcp-000000"}, **more)


@pytest.mark.parametrize("kind", ["stdio", "http"])
def test_tools_of_a_server_are_called_in_several_runs(kind: str, weather: str, tmp_path: Path) -> None:
    """Text, pictures, structured content and errors come back. Inside a block, runs share one connection."""
    starts = tmp_path / "starts"

    async def scene(up: Upstream, client: Client) -> None:
        async with stdio_server(env={"STARTS": str(starts)}) if kind == "stdio" else http(weather) as server:
            run = await client.run(MODEL, "?", tools=[server])
            sent = up.requests[0].json["tools"]
            assert [one["function"]["name"] for one in sent] == ["get_weather", "get_map", "fail", "note"]
            assert sent[0]["function"]["description"] == "Returns the weather of a city."
            assert sent[0]["function"]["parameters"]["required"] == ["city"]
            assert run.output == 'get_weather gave:\n\n{"city":"penstock","degrees":21}'
            await content(up, client, server)
            await errors(up, client, server)
        assert kind == "http" or starts.read_text() == "started\n"

    staged(scene, play_agent("chat"))


async def content(up: Upstream, client: Client, server: McpServer) -> None:
    calls = (call("get_weather", '{"city":"Rome"}', "call_1"), call("get_map", '{"city":"Rome"}', "call_2"))
    up.script(reply("anthropic", *calls), reply("anthropic", *text("done")))
    await finish(client.run(model_of("anthropic"), "?", tools=[server]))
    first, second = sent_results(up.requests[-1], "anthropic")
    assert result_text(first) == '{"city":"Rome","degrees":21}'
    assert [type(part) for part in second.content] == [rq.Text, rq.File]
    assert second.content[0] == rq.Text("a map of Rome")


async def errors(up: Upstream, client: Client, server: McpServer) -> None:
    """They are told to the model."""
    calls = (call("fail", '{"reason":"the sea is closed"}', "call_1"), call("get_weather", "{}", "call_2"))
    up.script(reply("chat", *calls), reply("chat", *text("done")))
    run = await client.run(MODEL, "?", tools=[server])
    assert [one.failed for one in run.steps[0].results] == [True, True]
    failed, invalid = sent_results(up.requests[-1])
    assert "the sea is closed" in result_text(failed)
    assert "city" in result_text(invalid)


def test_names_that_clash_get_a_prefix(weather: str) -> None:
    def get_weather(city: str) -> str:
        """Returns our own weather."""
        return f"rain in {city}"

    async def scene(up: Upstream, client: Client) -> None:
        run = await client.run(MODEL, "?", tools=[http(weather, only=["get_weather", "note"]), get_weather])
        names = [one["function"]["name"] for one in up.requests[0].json["tools"]]
        assert names == ["get_weather", "weather_get_weather", "note"]
        assert [result_text(one) for one in run.steps[0].results] == ['{"city":"Rome","degrees":21}', "rain in Rome"]

    calls = (call("weather_get_weather", '{"city":"Rome"}', "call_1"), call("get_weather", '{"city":"Rome"}', "call_2"))
    staged(scene, reply("chat", *calls), reply("chat", *text("done")))


def test_approval_for_all_tools_of_a_server(weather: str, tmp_path: Path) -> None:
    path = tmp_path / "note.txt"

    async def scene(_: Upstream, client: Client) -> None:
        server = http(weather, needs_approval=True)
        first = await client.run(MODEL, "?", tools=[server])
        assert not path.exists()
        await finish(client.run(MODEL, [*first.messages, first.pending[0].approve()], tools=[server]))
        assert path.read_text() == "ran"

    made = call("note", f'{{"path":"{path}"}}')
    staged(scene, reply("chat", made), reply("chat", *text("done")))


def test_a_server_that_does_not_start_is_named() -> None:
    async def scene(up: Upstream, client: Client) -> None:
        broken = [
            McpServer.stdio("/no/such/program", name="broken"),
            McpServer.http("http://127.0.0.1:1/mcp", name="broken"),
        ]
        for server in broken:
            with pytest.raises(NetworkError, match="the MCP server 'broken' cannot be used") as caught:
                await finish(client.run(MODEL, "?", tools=[server]))
            assert isinstance(caught.value, McpServerError)
            assert caught.value.server == "broken"
        assert up.requests == []

    staged(scene, play_agent("chat"))


def small_server(name: str) -> McpServer:
    """A server with the tools `get_weather`, which says who was asked, and `crash`, which ends the program."""
    code = (
        "import os, sys; from mcp.server import MCPServer; server = MCPServer('small', log_level='ERROR')\n"
        "@server.tool()\ndef get_weather() -> str:\n    return 'found by ' + sys.argv[1]\n"
        "@server.tool()\ndef crash() -> str:\n    os._exit(3)\n"
        "server.run('stdio')\n"
    )
    return McpServer.stdio(sys.executable, "-c", code, name, name=name, only=["get_weather", "crash"])


def test_names_that_two_servers_share_have_the_prefix_in_both(weather: str) -> None:
    async def scene(up: Upstream, client: Client) -> None:
        run = await client.run(MODEL, "?", tools=[http(weather, "a", only=["get_weather"]), small_server("b/c")])
        names = [one["function"]["name"] for one in up.requests[0].json["tools"]]
        assert names == ["a_get_weather", "b_c_get_weather", "crash"]
        assert "found by b/c" in result_text(run.steps[0].results[0])
        same = [http(weather, "a", only=["get_weather"]) for _ in range(2)]
        with pytest.raises(
            InputError, match=r"two have the name 'a_get_weather', one of the server 'a'; McpServer\(nam"
        ):
            await finish(client.run(MODEL, "?", tools=same))

    staged(scene, reply("chat", call("b_c_get_weather")), reply("chat", *text("done")))


def test_a_server_that_breaks_off_during_a_call_is_named() -> None:
    async def scene(_: Upstream, client: Client) -> None:
        async with asyncio.timeout(LIMIT):
            run = await client.run(MODEL, "?", tools=[small_server("small")])
        for step in run.steps[:2]:
            (result,) = step.results
            assert result.failed
            assert "the MCP server 'small' cannot be used" in result_text(result)
        assert run.output == "done"

    late = call("get_weather", id="call_2")
    staged(scene, reply("chat", call("crash")), reply("chat", late), reply("chat", *text("done")))


def test_a_server_that_says_nothing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    set_bound(monkeypatch, "seconds until an MCP server answers", 0.5)

    async def scene(_: Upstream, client: Client) -> None:
        silent = McpServer.stdio(sys.executable, "-c", "import sys; sys.stdin.read()", name="silent")
        with pytest.raises(McpServerError, match=r"'silent' cannot be used: it did not answer within 0\.5 seconds"):
            await finish(client.run(MODEL, "?", tools=[silent]))

    staged(scene, play_agent("chat"))


def test_the_server_is_closed_when_the_run_is_left() -> None:
    async def scene(_: Upstream, client: Client) -> None:
        async with client.run(MODEL, "?", tools=[stdio_server()]) as run:
            async for _event in run:
                break
        assert [task.get_name() for task in asyncio.all_tasks() if "mcp" in task.get_name()] == []

    staged(scene, play_agent("chat"))


def test_a_package_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mcp", None)

    async def scene(_: Upstream, client: Client) -> None:
        with pytest.raises(MissingExtra, match=r"penstock\[mcp\]"):
            await finish(client.run(MODEL, "?", tools=[stdio_server()]))

    staged(scene, Reply.error("openai-chat"))
