"""What requests need is imported at start-up: no request imports a module on the event loop."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import tomlkit

from penstock.testing import scripted
from tests.support.gateway import PROVIDERS, answer

if TYPE_CHECKING:
    from pathlib import Path

# Runs in a process of its own: here everything is imported already.
PROGRAM = """
import asyncio, json, sys
from pathlib import Path

from penstock.gateway import App, load_config

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

async def main(config):
    app = App(config, env={})
    queue = asyncio.Queue()
    started = asyncio.Event()
    async def send(message):
        started.set()
    serving = asyncio.ensure_future(app({"type": "lifespan"}, queue.get, send))
    await queue.put({"type": "lifespan.startup"})
    await started.wait()
    before, statuses = set(sys.modules), []
    for provider in sys.argv[2:]:
        for path, body in BODIES.items():
            for stream in (True, False):
                model = f"{provider}/text"
                statuses.append(await ask(app, path, {**body, "model": model, "stream": stream}))
    late = sorted(name for name in set(sys.modules) - before if name.partition(".")[0] in ("penstock", "aiohttp"))
    await queue.put({"type": "lifespan.shutdown"})
    await serving
    print(json.dumps({"late": late, "statuses": sorted(set(statuses)), "modules": len(before),
                      "http": "aiohttp" in before}))

asyncio.run(main(load_config(Path(sys.argv[1]), {})))
"""


def run(folder: Path, providers: dict[str, Any], *asked: str) -> Any:
    """Start a gateway and ask some of its providers, in each protocol."""
    memory = {"path": "memory"}
    file = folder / "penstock.toml"
    file.write_text(tomlkit.dumps({"providers": providers, "retries": 0, "journal": memory, "state": memory}))
    command = [sys.executable, "-c", PROGRAM, str(file), *asked]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_no_request_imports_a_module_and_only_what_is_configured_is_imported(tmp_path: Path) -> None:
    with scripted(answer) as up:
        named = {
            name: {"base_url": f"{up.url}/{name}", "key": "sk-up-000000", "models": ["text"], **PROVIDERS[name]}
            for name in ("openai-chat", "anthropic", "gemini", "responses", "bedrock", "cohere", "ollama")
        }
        all_of_them = run(tmp_path, named, *named)
        nothing = run(tmp_path, {})
    assert (all_of_them["late"], all_of_them["statuses"], all_of_them["http"]) == ([], [200], True)
    assert not nothing["http"]
    assert nothing["modules"] < all_of_them["modules"]
