"""What requests need is imported at start-up: no request imports a module on the event loop."""

from __future__ import annotations

import json
import subprocess
import sys

import msgspec

from penstock._gateway.lifecycle import modules_to_preload
from penstock._gateway.routes import client_protocols
from penstock.gateway import Config
from penstock.testing import scripted
from tests.support.gateway import answer, config

# Runs in a process of its own: here everything is imported already.
PROGRAM = """
import asyncio, json, sys

from penstock._engines.config import Config
from penstock._gateway.app import App
from penstock._gateway.config import GatewayConfig, JournalTable, StateTable

async def ask(app, path, body):
    sent = []
    events = iter([{"type": "http.request", "body": json.dumps(body).encode()}])
    async def receive():
        event = next(events, None)
        if event is None:
            await asyncio.Event().wait()
        return event
    async def send(message):
        sent.append(message)
    headers = [(b"host", b"127.0.0.1"), (b"content-type", b"application/json")]
    scope = {"type": "http", "method": "POST", "path": path, "headers": headers, "query_string": b"",
             "client": ("127.0.0.1", 5), "scheme": "http", "http_version": "1.1"}
    await app(scope, receive, send)
    return sent[0]["status"]

BODIES = {
    "/v1/chat/completions": {"messages": [{"role": "user", "content": "hi"}]},
    "/v1/messages": {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 9},
    "/v1/responses": {"input": "hi"},
}

async def main(engine):
    config = GatewayConfig(engine=engine, journal=JournalTable(path="memory"), state=StateTable(path="memory"))
    app = App(config, env={})
    queue = asyncio.Queue()
    started = asyncio.Event()
    async def send(message):
        started.set()
    serving = asyncio.ensure_future(app({"type": "lifespan"}, queue.get, send))
    await queue.put({"type": "lifespan.startup"})
    await started.wait()
    before, statuses = set(sys.modules), []
    for provider in ("openai-chat", "anthropic", "gemini", "responses", "bedrock", "cohere", "ollama"):
        for path, body in BODIES.items():
            for stream in (True, False):
                model = f"{provider}/text"
                statuses.append(await ask(app, path, {**body, "model": model, "stream": stream}))
    late = sorted(name for name in set(sys.modules) - before if name.partition(".")[0] in ("penstock", "aiohttp"))
    await queue.put({"type": "lifespan.shutdown"})
    await serving
    print(json.dumps({"late": late, "statuses": sorted(set(statuses))}))

asyncio.run(main(Config.read(json.loads(sys.argv[1]))))
"""


def test_no_request_imports_a_module() -> None:
    with scripted(answer) as upstream:
        engine = msgspec.json.encode(config(upstream.url).engine).decode()
        command = [sys.executable, "-c", PROGRAM, engine]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {"late": [], "statuses": [200]}


def test_only_what_is_configured_is_imported() -> None:
    nothing = set(modules_to_preload(Config(), {}, client_protocols()))
    assert "penstock._protocols.anthropic.request_read" in nothing, "every client protocol is served"
    assert not {"aiohttp", "penstock._protocols.bedrock", "penstock._protocols.cohere"} & nothing
    some = set(modules_to_preload(Config(providers={"cohere": {"key": "made-up"}}), {}, client_protocols()))
    assert {"aiohttp", "penstock._protocols.cohere.request_write"} <= some
    assert "penstock._protocols.bedrock" not in some
