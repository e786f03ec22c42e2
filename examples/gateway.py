"""A gateway in a program of one's own: it is an ASGI application. Here it plays packaged streams to two clients.

Run it from anywhere: `python examples/gateway.py`. It needs no key and no network.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

from penstock.gateway import App


async def ask(app: App, path: str, body: dict[str, Any]) -> str:
    """What a server would do: one request in, chunks out."""
    said: list[bytes] = []
    over = asyncio.Event()
    waiting = [{"type": "http.request", "body": json.dumps(body).encode(), "more_body": False}]

    async def receive() -> dict[str, Any]:
        if waiting:
            return waiting.pop()
        await over.wait()
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        said.append(message.get("body", b""))

    scope = {
        "type": "http", "method": "POST", "path": path, "query_string": b"", "headers": [(b"host", b"localhost")],
        "client": ("127.0.0.1", 0),  # this machine: without gateway keys nobody else is served
    }  # fmt: skip
    await app(scope, receive, send)
    over.set()
    return b"".join(said).decode()


async def main() -> None:
    app = App(pace=0, env={})
    question = {"model": "replay/tools", "stream": True, "messages": [{"role": "user", "content": "How deep is it?"}]}
    print(await ask(app, "/v1/chat/completions", question))
    print(await ask(app, "/v1/messages", {**question, "max_tokens": 100}))
    await app.services.aclose()


asyncio.run(main())
