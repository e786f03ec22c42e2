"""The two ends of the comparison of revisions: requests of each client, the upstream that answers them, and the load.

`python -m benchmarks.against_traffic PORT` is the upstream. A model's name says what it streams: `chat-recorded`.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from benchmarks import provider_streams
from penstock import convert

if TYPE_CHECKING:
    from collections.abc import Iterator

HOST = "127.0.0.1"
AT_ONCE = 16  # streams
PATIENCE = 120.0  # seconds that a round may take
WORDS = "Hello"
NUMBER = b"#00000000"  # is replaced in each request, so that no two are alike


@dataclass(frozen=True)
class Pair:
    """A client's request, the provider that answers it, and what the end of the answer looks like."""

    title: str
    provider: str
    path: str
    body: dict[str, Any]
    end: bytes

    @property
    def passed_through(self) -> bool:
        """Whether the client speaks the provider's protocol."""
        client, _, provider = self.title.partition(", ")[0].partition(" → ")
        return client == provider or (client, provider) == ("Anthropic", "Messages")

    def request(self, at: int, shape: str) -> bytes:
        model = f"{self.provider}/{self.provider}-{shape}"
        path = self.path.format(model=model)
        body = self.body if "{model}" in self.path else {**self.body, "model": model, "stream": True}
        data = json.dumps(body, separators=(",", ":")).encode()
        head = f"POST {path} HTTP/1.1\r\nhost: {HOST}:{at}\r\ncontent-type: application/json\r\n"
        return f"{head}content-length: {len(data)}\r\n\r\n".encode() + data


_SAID = {"messages": [{"role": "user", "content": WORDS}]}
_USAGE = {"stream_options": {"include_usage": True}}
_CHAT = ("/v1/chat/completions", b"[DONE]")
_MESSAGES = ("/v1/messages", b"message_stop")
_GEMINI: dict[str, Any] = {"contents": [{"role": "user", "parts": [{"text": WORDS}]}]}


def chat_body(tools: int, messages: int, text: str = WORDS) -> dict[str, Any]:
    """Return a Chat request of that size: a question, then calls and their results."""
    body: dict[str, Any] = {"model": "m", "stream": True, "max_tokens": 999}
    body["messages"] = [{"role": "user", "content": text}]
    for number in range((messages - 1) // 2):
        call = {"id": f"call_{number}", "type": "function", "function": {"name": "tool_1", "arguments": '{"of":"a"}'}}
        body["messages"] += [
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": call["id"], "content": f"result {number} " * 20},
        ]
    schema = {"type": "object", "properties": {"path": {"type": "string"}, "limit": {"type": "integer"}}}
    functions = [{"name": f"tool_{n}", "description": "does a thing", "parameters": schema} for n in range(tools)]
    return {**body, "tools": [{"type": "function", "function": one} for one in functions]} if tools else body


def _pair(title: str, provider: str, way: tuple[str, bytes], body: dict[str, Any]) -> Pair:
    return Pair(title, provider, way[0], body, way[1])


_AGENT = chat_body(10, 22, f"{WORDS} {NUMBER.decode()}")
_AGENT_MESSAGES = convert(_AGENT, "openai-chat", "anthropic").body
PAIRS: dict[str, Pair] = {
    "chat-chat": _pair("Chat → Chat", "chat", _CHAT, _SAID),
    "chat-chat-usage": _pair("Chat → Chat, stream_options", "chat", _CHAT, {**_SAID, **_USAGE}),
    "chat-messages": _pair("Chat → Messages", "chat", _MESSAGES, {**_SAID, "max_tokens": 999}),
    "anthropic-messages": _pair("Anthropic → Messages", "anthropic", _MESSAGES, {**_SAID, "max_tokens": 999}),
    "anthropic-chat": _pair("Anthropic → Chat", "anthropic", _CHAT, {**_SAID, "max_tokens": 999}),
    "responses-responses": _pair(
        "Responses → Responses", "responses", ("/v1/responses", b'"completed"'), {"input": WORDS, "store": False}
    ),
    "responses-messages": _pair("Responses → Messages", "responses", _MESSAGES, {**_SAID, "max_tokens": 999}),
    "gemini-gemini": _pair(
        "Gemini → Gemini", "gemini", ("/v1beta/models/{model}:streamGenerateContent?alt=sse", b"STOP"), _GEMINI
    ),
    "chat-chat-agent": _pair("Chat → Chat, 10 tools and 22 messages", "chat", _CHAT, _AGENT),
    "chat-messages-agent": _pair("Chat → Messages, 10 tools and 22 messages", "chat", _MESSAGES, _AGENT_MESSAGES),
}


# ── the upstream ──────────────────────────────────────────────────────────────────────────────────────────────────────
_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
_END = b"0\r\n\r\n"


def writes(model: str) -> list[bytes]:
    """The writes of an answer: a synthetic one at once, a recorded one in pieces of a few frames."""
    dialect, _, shape = model.partition("-")
    chunks = [b"%x\r\n%b\r\n" % (len(frame), frame) for frame in provider_streams.frames(dialect, shape)]
    if shape == "synthetic":
        return [_HEAD + b"".join(chunks) + _END]
    return [_HEAD, *(b"".join(chunks[at : at + 4]) for at in range(0, len(chunks), 4)), _END]


class Upstream(asyncio.Protocol):
    """Answers every POST with the stream that the model's name means."""

    def __init__(self, made: dict[bytes, list[bytes]]) -> None:
        self._made = made
        self._data = b""

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._data += data
        head, mark, body = self._data.partition(b"\r\n\r\n")
        size = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0] or 0) if mark else 0
        if not mark or len(body) < size:
            return
        asked, self._data = self._data[: len(head) + 4 + size], body[size:]
        self._write(iter(next(pieces for name, pieces in self._made.items() if name in asked)))

    def _write(self, pieces: Iterator[bytes]) -> None:
        piece = next(pieces, None)
        if piece is not None and not self._transport.is_closing():
            self._transport.write(piece)
            asyncio.get_running_loop().call_soon(self._write, pieces)


async def upstream(at: int) -> None:
    names = [f"{dialect}-{shape}" for dialect in ("chat", "anthropic", "responses", "gemini")
             for shape in (*provider_streams.SHAPES, provider_streams.GOLDEN)]  # fmt: skip
    made = {name.encode(): writes(name) for name in names}
    server = await asyncio.get_running_loop().create_server(lambda: Upstream(made), HOST, at, backlog=1024)
    print("ready", flush=True)
    await server.serve_forever()


# ── the load ──────────────────────────────────────────────────────────────────────────────────────────────────────────
TAIL = 2**14  # bytes in which the end of an answer is looked for: Responses repeats the tools after its usage


class Load:
    """So many streams over a few connections; each answer must be 200 and have its end."""

    def __init__(self, request: bytes, end: bytes, streams: int) -> None:
        self.request, self.end, self.left = request, end, streams
        self.open, self.bad = 0, list[bytes]()
        self.over = asyncio.Event()

    def lost(self) -> None:
        self.open -= 1
        if self.open == 0:
            self.over.set()


class _Asking(asyncio.Protocol):
    def __init__(self, load: Load) -> None:
        self._load = load

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        self._load.open += 1
        self._ask()

    def _ask(self) -> None:
        if self._load.left <= 0:
            self._transport.close()
            return
        self._load.left -= 1
        self._head, self._tail = b"", b""
        self._transport.write(self._load.request.replace(NUMBER, b"#%08x" % random.getrandbits(32)))

    def data_received(self, data: bytes) -> None:
        self._head = self._head or data[:60]
        self._tail = (self._tail + data)[-TAIL:]
        if not self._tail.endswith(_END):
            return
        if not self._head.startswith(b"HTTP/1.1 200") or self._load.end not in self._tail:
            self._load.bad.append(self._head + self._tail)
        self._ask()

    def connection_lost(self, _: object) -> None:
        self._load.lost()


async def ask(at: int, pair: Pair, shape: str, streams: int) -> None:
    """A round of load."""
    load, loop = Load(pair.request(at, shape), pair.end, streams), asyncio.get_running_loop()
    for _ in range(min(AT_ONCE, streams)):
        await loop.create_connection(lambda: _Asking(load), HOST, at)
    async with asyncio.timeout(PATIENCE):
        await load.over.wait()
    assert not load.bad, f"{pair.title}, {shape}: {load.bad[0]!r}"
    assert not load.left, f"{pair.title}, {shape}: {load.left} streams were not asked for"


def run(work: Any) -> None:
    """On uvloop, to its end."""
    import uvloop

    uvloop.run(work)


if __name__ == "__main__":
    run(upstream(int(sys.argv[1])))
