"""The traffic of the soak: an upstream that paces its streams and spoils some, and clients of which some leave early.

Raw asyncio protocols; both ends run in one process. A model's name says what the upstream does: `chat/ok`, `chat/rst` …
"""

from __future__ import annotations

import asyncio
import json
import random
import re
import socket
import struct
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from benchmarks import provider_streams

if TYPE_CHECKING:
    from collections.abc import Iterator

HOST = "127.0.0.1"
PACE = 0.1  # seconds between two frames
LENGTHS = (20, 50, 90)  # deltas of a stream
DIALECTS = ("chat", "anthropic", "responses", "gemini")
FAULTS = ("fin", "half", "rst", "clean", "error", "garbage", "stall")
FAULTY, LEAVING = 0.15, 0.15  # shares of the streams
_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
_END = b"0\r\n\r\n"
_GARBAGE = b'data: {"id":"c","choi\xff\xfe<<<\n\n'
_ERRORS = {
    "chat": b'data: {"error":{"message":"upstream exploded","type":"server_error","code":500}}\n\n',
    "responses": b'event: error\ndata: {"type":"error","code":"server_error","message":"upstream exploded"}\n\n',
    "anthropic": b'event: error\ndata: {"type":"error","error":{"type":"api_error","message":"upstream exploded"}}\n\n',
    "gemini": b'data: {"error":{"code":500,"message":"upstream exploded","status":"INTERNAL"}}\r\n\r\n',
}
_FAILED = (
    b'"error":{',
    b'{"error":"',
    b"event: error",
    b"response.failed",
    b"errorText",
)  # each client's own form of an error
_RESET = struct.pack("ii", 1, 0)
_ASKED = re.compile(rb'(?:/models/|"model":\s*")(' + "|".join(DIALECTS).encode() + rb")-(\w+)")
_STREAMS = {
    (dialect, length): provider_streams.frames(dialect, "recorded", length)
    for dialect in DIALECTS for length in LENGTHS
}  # fmt: skip


class Upstream(asyncio.Protocol):
    """One connection of the upstream."""

    open: set[Any] = set()  # noqa: RUF012 — all connections there are

    def __init__(self, dice: random.Random) -> None:
        self._dice = dice
        self._data = b""
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        Upstream.open.add(transport)

    def connection_lost(self, _: object) -> None:
        Upstream.open.discard(self._transport)
        if self._timer is not None:
            self._timer.cancel()

    def data_received(self, data: bytes) -> None:
        self._data += data
        head, mark, body = self._data.partition(b"\r\n\r\n")
        size = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0] or 0) if mark else 0
        if not mark or len(body) < size:
            return
        asked, self._data = self._data[: len(head) + 4 + size], body[size:]
        found = _ASKED.search(asked)
        assert found, asked[:300]
        frames = _STREAMS[found[1].decode(), self._dice.choice(LENGTHS)]
        self._step(self._writes(found[1].decode(), found[2].decode(), frames))

    def _writes(self, dialect: str, fault: str, frames: list[bytes]) -> Iterator[bytes | str]:
        """What is written, one piece at a time; a word is what happens instead."""
        place = self._dice.randrange(len(frames) - 3) if fault != "ok" else -1
        yield _HEAD
        for number, frame in enumerate(frames):
            if number == place and fault == "garbage":
                yield _chunk(_GARBAGE)
            elif number == place:
                yield from _spoilt(dialect, fault, frame)
                return
            yield _chunk(frame)
        yield _END

    def _step(self, writes: Iterator[bytes | str]) -> None:
        piece = next(writes, None)
        if piece is None or self._transport.is_closing() or piece == "stall":
            return
        if piece == "close":
            self._transport.close()
        elif piece == "reset":
            raw = self._transport.get_extra_info("socket")
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            self._transport.abort()
        else:
            self._transport.write(piece)
            pause = PACE * self._dice.uniform(0.5, 1.5)
            self._timer = asyncio.get_running_loop().call_later(pause, self._step, writes)


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def _spoilt(dialect: str, fault: str, frame: bytes) -> Iterator[bytes | str]:
    if fault == "half":
        yield _chunk(frame)[: len(frame) // 2]
    elif fault == "clean":
        yield _END
    elif fault == "error":
        yield _chunk(_ERRORS[dialect]) + _END
    if fault in {"fin", "half"}:
        yield "close"
    elif fault == "rst":
        yield "reset"
    elif fault == "stall":
        yield "stall"


@dataclass(frozen=True)
class Asking:
    """A client dialect: where and how it asks, and what a complete answer ends with."""

    path: str
    body: dict[str, Any]
    end: bytes

    def request(self, model: str) -> bytes:
        path = self.path.format(model=model)
        body = self.body if "{model}" in self.path else {"model": model, "stream": True, **self.body}
        data = json.dumps(body).encode()
        head = f"POST {path} HTTP/1.1\r\nhost: {HOST}\r\ncontent-type: application/json\r\n"
        return f"{head}content-length: {len(data)}\r\n\r\n".encode() + data


_SAID: dict[str, Any] = {"messages": [{"role": "user", "content": "Read the gauge."}]}
_UI = {"id": "c1", "messages": [{"id": "m1", "role": "user", "parts": [{"type": "text", "text": "Read the gauge."}]}]}
_GEMINI = {"contents": [{"role": "user", "parts": [{"text": "Read the gauge."}]}]}
CLIENTS = {
    "openai-chat": Asking("/v1/chat/completions", _SAID, b"[DONE]"),
    "anthropic": Asking("/v1/messages", {**_SAID, "max_tokens": 999}, b"message_stop"),
    "responses": Asking("/v1/responses", {"input": "Read the gauge.", "store": False}, b"response.completed"),
    "gemini": Asking("/v1beta/models/{model}:streamGenerateContent?alt=sse", _GEMINI, b'"finishReason"'),
    "uistream": Asking("/api/chat", _UI, b'"type":"finish"'),
}


@dataclass
class Tally:
    """What the clients have seen. Ids are those of the gateway's responses (x-request-id)."""

    finished: set[str] = field(default_factory=set)
    failed: set[str] = field(default_factory=set)
    left: set[str] = field(default_factory=set)
    broken: list[str] = field(default_factory=list)  # ends that no client understands
    asked: Counter[str] = field(default_factory=Counter)
    going: bool = True
    open: int = 0  # connections
    busy: int = 0  # streams

    @property
    def turns(self) -> int:
        return len(self.finished) + len(self.failed) + len(self.left)


class Client(asyncio.Protocol):
    """One client. It asks again and again, over a new connection where it left or the old one is gone."""

    def __init__(self, port: int, dice: random.Random, tally: Tally) -> None:
        self._port, self._dice, self._tally = port, dice, tally
        self._leaving: asyncio.TimerHandle | None = None
        self._id = ""
        self._busy = False

    async def connect(self) -> None:
        await asyncio.get_running_loop().create_connection(lambda: self, HOST, self._port)

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        self._tally.open += 1
        self._ask()

    def _ask(self) -> None:
        if not self._tally.going:
            self._transport.close()
            return
        dice = self._dice
        self._name = dice.choice(list(CLIENTS))
        fault = dice.choice(FAULTS) if dice.random() < FAULTY else "ok"
        dialect = dice.choice(DIALECTS)
        self._tally.asked[fault] += 1
        self._set_busy(now=True)
        self._id, self._head, self._tail, self._size = "", b"", b"", 0
        self._pair = f"{dialect} -> {self._name}, {fault}"
        self._transport.write(CLIENTS[self._name].request(f"{dialect}/{dialect}-{fault}"))
        if dice.random() < LEAVING:
            pause = dice.uniform(0.0, PACE * max(LENGTHS))
            self._leaving = asyncio.get_running_loop().call_later(pause, self._leave)

    def _set_busy(self, *, now: bool) -> None:
        self._tally.busy += now - self._busy
        self._busy = now

    def _leave(self) -> None:
        self._leaving = None
        if self._id:
            self._tally.left.add(self._id)
        self._id = ""
        self._transport.abort()

    def data_received(self, data: bytes) -> None:
        if not self._id:
            self._head += data
            found = re.search(rb"(?i)\r\nx-request-id: *(\w+)", self._head)
            self._id = found[1].decode() if found else ""
            sized = re.search(rb"(?i)\r\ncontent-length: *(\d+)", self._head.partition(b"\r\n\r\n")[0])
            self._size = int(sized[1]) if sized else 0
        self._tail = (self._tail + data)[-8192:]
        whole = self._size and len(self._head.partition(b"\r\n\r\n")[2]) >= self._size
        if whole or self._tail.endswith(_END):
            self._over()

    def _over(self) -> None:
        """An answer has ended: well, with an error, or as it must not."""
        if self._leaving is not None:
            self._leaving.cancel()
            self._leaving = None
        self._set_busy(now=False)
        if any(mark in self._tail for mark in _FAILED):
            self._tally.failed.add(self._id)
        elif CLIENTS[self._name].end in self._tail:
            self._tally.finished.add(self._id)
        else:
            self._tally.broken.append(f"{self._pair}: {self._tail[-200:]!r}")
        asyncio.get_running_loop().call_later(self._dice.uniform(0, PACE), self._next)

    def _next(self) -> None:
        if not self._transport.is_closing():
            self._ask()

    def connection_lost(self, _: object) -> None:
        self._tally.open -= 1
        self._set_busy(now=False)
        if self._leaving is not None:
            self._leaving.cancel()
            self._leaving = None
        if self._id and not self._tail.endswith(_END) and not self._size:
            self._tally.broken.append(f"{self._pair}: the connection was lost")
        if self._tally.going:
            self._id = ""
            self._again = asyncio.get_running_loop().create_task(self.connect())


async def ramp(port: int, streams: int, seed: int, tally: Tally, seconds: float = 5.0) -> None:
    """Start the clients, one after the other."""
    begun = time.monotonic()
    for number in range(streams):
        await Client(port, random.Random(f"{seed} {number}"), tally).connect()
        await asyncio.sleep(max(0.0, begun + seconds * number / streams - time.monotonic()))
