"""The servers of one's own in docs/configuration.md: each is asked where it answers, whatever the client speaks."""

from __future__ import annotations

import asyncio
import json
import re
import threading
import tomllib
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import pytest

from penstock.client import Client
from tests.support.each_case import each
from tests.support.paths import PROJECT

if TYPE_CHECKING:
    from collections.abc import Iterator

PAGE = (PROJECT / "docs" / "configuration.md").read_text(encoding="utf-8")
ANSWERS: dict[str, dict[str, Any]] = {
    "/v1/responses": {
        "id": "resp_1", "object": "response", "status": "completed", "model": "my-model", "created_at": 1,
        "output": [{"type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
                    "content": [{"type": "output_text", "text": "hello", "annotations": []}]}],
    },
    "/v1/messages": {
        "id": "msg_1", "type": "message", "role": "assistant", "model": "my-model", "stop_reason": "end_turn",
        "content": [{"type": "text", "text": "hello"}], "usage": {"input_tokens": 1, "output_tokens": 1},
    },
}  # fmt: skip


class Handler(BaseHTTPRequestHandler):
    """Answers at two addresses; every other one is 404."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        answer = ANSWERS.get(self.path)
        data = json.dumps(answer or {"error": {"message": f"no {self.path} here"}}).encode()
        self.send_response(200 if answer else 404)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def place() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}/v1"
        server.shutdown()


@each("name", ["responses-only", "messages-only"])
@each("operation", ["chat", "responses"])
def test_a_server_with_one_protocol_answers_every_client(name: str, operation: str, place: str) -> None:
    blocks = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    text = next(block for block in blocks if f"[providers.{name}]" in block)
    config = tomllib.loads(text.replace("http://127.0.0.1:9000/v1", place))

    async def ask() -> str:
        async with Client({**config, "retries": 0}, env={}) as client:
            answer = await getattr(client, operation)(f"{name}/my-model", "hi")
            return str(answer.text)

    assert asyncio.run(ask()) == "hello"
