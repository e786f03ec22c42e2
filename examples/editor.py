"""What the VS Code extension does, in Python: list models, ask one, read the lines of its reply, send a result back.

Run it from anywhere: `python examples/editor.py`. It needs no key and no network: a gateway of its own plays packaged
streams. docs/vscode-parts.md describes the lines; examples/vscode/ has settings, and an extension that asks.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

from penstock.gateway import App


async def ask(app: App, method: str, path: str, body: Any = None) -> list[Any]:
    """One request in, lines out: what `fetch` would give an editor."""
    said: list[bytes] = []
    over = asyncio.Event()
    waiting = [{"type": "http.request", "body": json.dumps(body).encode() if body else b"", "more_body": False}]

    async def receive() -> dict[str, Any]:
        if waiting:
            return waiting.pop()
        await over.wait()
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        said.append(message.get("body", b""))

    scope = {
        "type": "http", "method": method, "path": path, "query_string": b"", "headers": [(b"host", b"localhost")],
        "client": ("127.0.0.1", 0),  # this machine: without gateway keys nobody else is served
    }  # fmt: skip
    await app(scope, receive, send)
    over.set()
    return [json.loads(line) for line in b"".join(said).splitlines() if line]


async def main() -> None:
    app = App(pace=0, env={})
    [listed] = await ask(app, "GET", "/vscode/models")
    for model in listed["models"][:3]:
        print(f"{model['id']}: {model['maxInputTokens']} tokens in, {model['detail']}")

    tool = {"name": "read_gauge", "description": "The level of the water", "inputSchema": {"type": "object"}}
    question = {"role": 1, "content": [{"value": "How high is the water?"}]}
    body: dict[str, Any] = {"version": 1, "model": "replay/tools", "tools": [tool], "messages": [question]}
    lines = await ask(app, "POST", "/vscode/chat", body)
    [call] = [line for line in lines if line["kind"] == "call"]
    print(f"{''.join(line['value'] for line in lines if line['kind'] == 'text')} → {call['name']}({call['input']})")

    # The editor runs the tool, and sends call and result back as they are.
    result = {"callId": call["callId"], "content": [{"value": "3.2 m"}]}
    body["messages"] += [{"role": 2, "content": [call]}, {"role": 1, "content": [result]}]
    lines = await ask(app, "POST", "/vscode/chat", body)
    print("".join(line["value"] for line in lines if line["kind"] == "text"))
    await app.services.aclose()


asyncio.run(main())
