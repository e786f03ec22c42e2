"""The bare ends of the gateway's benchmark, each in a process of its own: an upstream, a pass-through, a load.

`python -m benchmarks.wires upstream PORT`, `passing PORT UPSTREAM`, `load PORT PATH STREAMS SECONDS BODY`. Raw asyncio
protocols on uvloop. The load reads HTTP as any client must, and counts what it reads. Loopback only.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from typing import Any

HOST = "127.0.0.1"
END = b"0\r\n\r\n"
_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


def frame(content: str, **more: Any) -> bytes:
    """One chunk of a chat stream, in one HTTP chunk."""
    choice = {"index": 0, "delta": {"content": content}, "logprobs": None, "finish_reason": None, **more}
    body = {
        "id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m", "system_fingerprint": "fp",
        "choices": [choice],
    }  # fmt: skip
    return piece(b"data: " + json.dumps(body, separators=(",", ":")).encode() + b"\n\n")


def piece(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def last(count: int) -> bytes:
    usage = {"prompt_tokens": 9, "completion_tokens": count, "total_tokens": count + 9}
    done = {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "m",
        "choices": [],
        "usage": usage,
    }
    stop = frame("", finish_reason="stop")
    return stop + piece(b"data: " + json.dumps(done).encode() + b"\n\n") + piece(b"data: [DONE]\n\n") + END


class Upstream(asyncio.Protocol):
    """Answers every POST with a stream. The model's name says how: `n200` deltas, `n50-d40` one every 40 ms.

    A GET tells, as JSON, when a stream was last broken off by the other side, and how many were.
    """

    lost_at, lost = 0.0, 0

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        self.data = b""
        self.task: asyncio.Task[None] | None = None

    def data_received(self, data: bytes) -> None:
        self.data += data
        head, mark, body = self.data.partition(b"\r\n\r\n")
        if not mark:
            return
        if head.startswith(b"GET"):
            self.data = b""
            told = json.dumps({"at": Upstream.lost_at, "lost": Upstream.lost}).encode()
            self.transport.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b" % (len(told), told))
            return
        size = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0])
        if len(body) >= size:
            self.data = body[size:]
            self._answer(body[:size])

    def _answer(self, body: bytes) -> None:
        name = body.partition(b'"model":"')[2].partition(b'"')[0].decode() or json.loads(body)["model"]
        count, _, pause = name.partition("-")
        number = int(count[1:])
        if not pause:
            self.transport.write(complete_answer(number))
            return
        self.task = asyncio.ensure_future(self._paced(number, int(pause[1:]) / 1000))

    async def _paced(self, count: int, pause: float) -> None:
        self.transport.write(_HEAD)
        for _ in range(count):
            self.transport.write(frame(f" t{time.monotonic():.6f}"))
            await asyncio.sleep(pause)
        self.transport.write(last(count))
        self.task = None

    def connection_lost(self, _: object) -> None:
        if self.task is not None:
            Upstream.lost_at = time.monotonic()
            Upstream.lost += 1
            self.task.cancel()


_made: dict[int, bytes] = {}


def complete_answer(count: int) -> bytes:
    """An answer at full speed, made once."""
    if count not in _made:
        _made[count] = _HEAD + frame("") + b"".join(frame(f" word{n}") for n in range(count)) + last(count)
    return _made[count]


class Behind(asyncio.Protocol):
    """The far side of a pass-through."""

    def __init__(self, front: Front) -> None:
        self.front = front

    def connection_made(self, transport: Any) -> None:
        self.front.opened(transport)

    def data_received(self, data: bytes) -> None:
        self.front.transport.write(data)

    def connection_lost(self, _: object) -> None:
        self.front.transport.close()


class Front(asyncio.Protocol):
    """The near side: bytes go through as they come."""

    port = 0

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        self.behind: Any = None
        self.held: list[bytes] = []
        loop = asyncio.get_running_loop()
        self.opening = loop.create_task(loop.create_connection(lambda: Behind(self), HOST, Front.port))

    def opened(self, transport: Any) -> None:
        self.behind = transport
        transport.writelines(self.held)

    def data_received(self, data: bytes) -> None:
        self.held.append(data) if self.behind is None else self.behind.write(data)

    def connection_lost(self, _: object) -> None:
        if self.behind is not None:
            self.behind.close()


class Asking(asyncio.Protocol):
    """One client, asking again and again until told to stop."""

    def __init__(self, request: bytes, tally: Tally) -> None:
        self.request, self.tally = request, tally

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        self.ask()

    def ask(self) -> None:
        self.begun, self.first = time.perf_counter(), False
        self.parser: Any = self.tally.parser(self)
        self.transport.write(self.request)

    def data_received(self, data: bytes) -> None:
        if not self.first:
            self.first = True
            self.tally.firsts.append(time.perf_counter() - self.begun)
            self.tally.errors += not data.startswith(b"HTTP/1.1 200")
        self.parser.feed_data(data)

    def on_body(self, body: bytes) -> None:
        self.tally.heard(body)

    def on_message_complete(self) -> None:
        self.tally.done += 1
        asyncio.get_running_loop().call_soon(self.ask if self.tally.going else self.transport.close)

    def connection_lost(self, _: object) -> None:
        self.tally.gone()


class Tally:
    """What a load has seen."""

    def __init__(self, streams: int, *, paced: bool) -> None:
        self.going, self.paced, self.left = True, paced, streams
        self.done = self.errors = self.events = 0
        self.firsts: list[float] = []
        self.delays: list[float] = []
        self.over = asyncio.Event()
        self.parser = __import__("httptools").HttpResponseParser

    def heard(self, data: bytes) -> None:
        """Every delta is counted; paced ones say when they were sent, and the clock is the machine's."""
        if not self.paced:
            self.events += data.count(b" word")
            return
        now = time.monotonic()
        for found in data.split(b" t")[1:]:
            stamp = found[: found.find(b'"')]
            if stamp[:1].isdigit():
                self.events += 1
                self.delays.append(now - float(stamp))

    def gone(self) -> None:
        self.left -= 1
        if self.left == 0:
            self.over.set()


async def load(port: int, path: str, streams: int, seconds: float, body: bytes, header: str = "") -> None:
    """Keep so many streams open for so long; print what was seen as JSON."""
    head = (
        f"POST {path} HTTP/1.1\r\nhost: {HOST}:{port}\r\ncontent-type: application/json\r\ncontent-length: {len(body)}"
        + (f"\r\n{header}" if header else "")
    )
    tally = Tally(streams, paced=b"-d" in body)
    loop = asyncio.get_running_loop()
    begun = time.perf_counter()
    for number in range(streams):
        await loop.create_connection(lambda: Asking(f"{head}\r\n\r\n".encode() + body, tally), HOST, port)
        if tally.paced and number % 10 == 0:
            await asyncio.sleep(0.01)  # not all in one instant
    await asyncio.sleep(seconds)
    done, taken, tally.going = tally.done, time.perf_counter() - begun, False
    try:
        await asyncio.wait_for(tally.over.wait(), 30)
    except TimeoutError:
        tally.errors += tally.left
    firsts, delays = sorted(tally.firsts), sorted(tally.delays)
    print(json.dumps({
        "streams": tally.done, "rate": done / taken, "errors": tally.errors, "events": tally.events,
        "first": firsts[len(firsts) // 2] if firsts else 0.0,
        "delay": delays[len(delays) // 2] if delays else 0.0,
        "delay99": delays[int(len(delays) * 0.99)] if delays else 0.0,
    }))  # fmt: skip


async def listening(made: type[asyncio.Protocol], port: int) -> None:
    server = await asyncio.get_running_loop().create_server(made, HOST, port, backlog=4096)
    print("ready", flush=True)
    await server.serve_forever()


def main(role: str, port: str, *more: str) -> None:
    import uvloop

    if role == "upstream":
        uvloop.run(listening(Upstream, int(port)))
    elif role == "passing":
        Front.port = int(more[0])
        uvloop.run(listening(Front, int(port)))
    else:
        path, streams, seconds, body, *header = more
        uvloop.run(load(int(port), path, int(streams), float(seconds), body.encode(), *header))


if __name__ == "__main__":
    main(*sys.argv[1:])
