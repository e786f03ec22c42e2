"""What a provider has no word for: a stop sequence is met by the gateway itself, other wishes are named in a header.

Run it from anywhere: `python examples/losses.py`. It needs no key and no network: the provider is a scripted one, here
of the Responses API, which knows neither stop sequences nor a seed.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

from penstock import events as ev
from penstock.gateway import Account, App, Config, GatewayConfig, JournalTable, StateTable
from penstock.testing import Reply, scripted

SAYS: list[ev.AnyEvent] = [
    ev.Start("one", "m", 7), ev.TextStart(0), ev.TextDelta(0, "The gate is open. EN"), ev.TextDelta(0, "D and so on"),
    ev.TextEnd(0), ev.Usage(5, 9), ev.Finish("stop"),
]  # fmt: skip


async def ask(app: App, body: dict[str, Any]) -> tuple[dict[str, str], str]:
    """One request in; the headers and the body of its answer."""
    head: dict[str, str] = {}
    said: list[bytes] = []
    over = asyncio.Event()
    waiting = [{"type": "http.request", "body": json.dumps(body).encode(), "more_body": False}]

    async def receive() -> dict[str, Any]:
        if waiting:
            return waiting.pop()
        await over.wait()
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        head.update({name.decode(): value.decode() for name, value in message.get("headers", ())})
        said.append(message.get("body", b""))

    path = "/v1/chat/completions"
    scope = {
        "type": "http", "method": "POST", "path": path, "query_string": b"", "headers": [(b"host", b"localhost")],
        "client": ("127.0.0.1", 0),  # this machine: without gateway keys nobody else is served
    }  # fmt: skip
    await app(scope, receive, send)
    over.set()
    return head, b"".join(said).decode()


async def main(url: str) -> None:
    account = Account(like="openai-compatible", base_url=url, key="any", fields={"has": ["responses"]})
    config = GatewayConfig(
        engine=Config(providers={"acme": account}), journal=JournalTable(path="off"), state=StateTable(path="memory")
    )
    app = App(config, env={})
    body = {"model": "acme/m", "messages": [{"role": "user", "content": "The gate?"}], "stop": ["END"], "seed": 7}
    head, said = await ask(app, body)
    print(json.loads(said)["choices"][0]["message"]["content"])
    print("x-penstock-losses:", head["x-penstock-losses"])
    head, said = await ask(app, {**body, "n": 2})
    print(json.loads(said)["error"]["message"])
    await app.services.aclose()


with scripted(Reply.of("responses", SAYS, stream=False)) as upstream:
    asyncio.run(main(upstream.url))
