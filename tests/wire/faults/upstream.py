"""An upstream of raw sockets that plays the fault of a cell: it writes bytes, then closes, resets, stalls or goes on.

The model's name in a request names the cell. Every response has its own bytes, HTTP framing included.
"""

from __future__ import annotations

import asyncio
import json
import re
import socket
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Self

from tests.wire.faults.answers import ANSWERS, BODY_GARBAGE, JSON, SSE
from tests.wire.faults.cells import HEAD

if TYPE_CHECKING:
    from tests.wire.faults.answers import Answer
    from tests.wire.faults.cells import Cell

HOST = "127.0.0.1"
_MODEL = re.compile(r"/models/([^:?]+):(\w+)")
_LINGER_NONE = struct.pack("ii", 1, 0)  # close with a reset, and drop what was not sent
_END = b"0\r\n\r\n"


@dataclass(frozen=True)
class Script:
    """What is written, and what happens then: `keep` the connection, `close`, `reset` or `stall`."""

    writes: tuple[bytes, ...]
    then: Literal["keep", "close", "reset", "stall"]


def script_of(cell: Cell) -> Script:
    """What the upstream does in a cell."""
    answer = ANSWERS[cell.upstream]
    keep = cell.engine == "native"  # the SDKs keep closed connections in their pools; those would look like leaks
    if cell.position == HEAD:
        return _before_head(cell.fault, answer, keep)
    if cell.fault.startswith("none"):
        return _good(answer, keep, stream=cell.stream)
    if cell.stream:
        return _streamed(cell.fault, cell.position, answer, keep)
    return _whole(cell.fault, cell.position, answer, keep)


def _head(kind: str, length: int | None, keep: bool, status: str = "200 OK") -> bytes:
    framing = "transfer-encoding: chunked" if length is None else f"content-length: {length}"
    closing = "" if keep else "connection: close\r\n"
    return f"HTTP/1.1 {status}\r\ncontent-type: {kind}\r\n{closing}{framing}\r\n\r\n".encode()


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def _after(keep: bool) -> Literal["keep", "close"]:
    return "keep" if keep else "close"


def _good(answer: Answer, keep: bool, *, stream: bool) -> Script:
    if not stream:
        return Script((_head(JSON, len(answer.body), keep), answer.body), _after(keep))
    return Script((_head(SSE, None, keep), *map(_chunk, answer.frames), _END), _after(keep))


def _before_head(fault: str, answer: Answer, keep: bool) -> Script:
    if fault == "error":
        head = _head(JSON, len(answer.error_body), keep, "500 Internal Server Error")
        return Script((head, answer.error_body), _after(keep))
    if fault == "half":
        return Script((_head(SSE, None, keep)[:40],), "close")
    return Script((), "reset" if fault == "rst" else "stall" if fault == "stall" else "close")


def _streamed(fault: str, position: int, answer: Answer, keep: bool) -> Script:
    head = _head(SSE, None, keep)
    frames = [_chunk(frame) for frame in answer.frames]
    sent = (head, *frames[:position])
    if fault == "half":
        return Script((*sent, frames[position][: len(frames[position]) // 2]), "close")
    if fault == "error":
        # The connection stays open behind the error: whoever waits for more than the error waits for ever.
        return Script((*sent, _chunk(answer.error_frame)), "stall")
    if fault == "garbage":
        return Script((*sent, _chunk(answer.garbage), *frames[position:], _END), _after(keep))
    if fault == "duplicate":
        return Script((*sent, frames[position], *frames[position:], _END), _after(keep))
    if fault == "clean":
        return Script((*sent, _END), _after(keep))
    return Script(sent, "reset" if fault == "rst" else "stall" if fault == "stall" else "close")


def _whole(fault: str, position: int, answer: Answer, keep: bool) -> Script:
    body = answer.body
    if fault == "half":
        # A chunk that is announced whole and comes in part.
        return Script((_head(JSON, None, keep), _chunk(body)[: 4 + position]), "close")
    if fault in {"clean", "garbage", "duplicate", "error"}:
        spoilt = {
            "clean": body[:position],
            "garbage": body[:position] + BODY_GARBAGE + body[position:],
            "duplicate": body + body,
            "error": answer.error_body,
        }[fault]
        return Script((_head(JSON, len(spoilt), keep), spoilt), _after(keep))
    # What is closed behind a complete answer says so, or the next request may be sent into the closing connection.
    keep = keep and position < len(body)
    then: Any = "reset" if fault == "rst" else "stall" if fault == "stall" else "close"
    return Script((_head(JSON, len(body), keep), body[:position]), then)


class FaultyUpstream:
    """The server. `plan` maps a model's name to its cell; `paced` models get one write a frame, the others one in all."""

    def __init__(self) -> None:
        self.plan: dict[str, Cell] = {}
        self.asked: dict[str, bool] = {}  # the models that were asked for, and whether for a stream
        self.connections: set[asyncio.Transport] = set()
        self._server: asyncio.Server | None = None
        self.port = 0

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: _Connection(self), HOST, 0, backlog=1024)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self.drop()
        assert self._server is not None
        self._server.close()
        await self._server.wait_closed()

    def drop(self) -> None:
        """Close every connection that is still open: kept ones and stalled ones."""
        for transport in list(self.connections):
            transport.abort()


class _Connection(asyncio.Protocol):
    def __init__(self, server: FaultyUpstream) -> None:
        self._server = server
        self._data = b""
        self._task: asyncio.Task[None] | None = None

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        self._server.connections.add(transport)

    def connection_lost(self, _: object) -> None:
        self._server.connections.discard(self._transport)
        if self._task is not None:
            self._task.cancel()
            self._task = None

    def data_received(self, data: bytes) -> None:
        self._data += data
        head, mark, body = self._data.partition(b"\r\n\r\n")
        if not mark:
            return
        found = re.search(rb"(?i)\r\ncontent-length: *(\d+)", head)
        size = int(found[1]) if found else 0
        if len(body) < size:
            return
        self._data = body[size:]
        name, stream = _asked(head.partition(b"\r\n")[0].decode(), body[:size])
        self._server.asked[name] = stream
        script = script_of(self._server.plan[name])
        self._task = asyncio.get_running_loop().create_task(self._play(script, paced=name.endswith("-paced")))

    async def _play(self, script: Script, *, paced: bool) -> None:
        for data in script.writes if paced else (b"".join(script.writes),):
            self._transport.write(data)
            if paced:
                await asyncio.sleep(0.001)  # so that each write is most often a read of its own
        self._task = None
        if script.then == "reset":
            raw: socket.socket = self._transport.get_extra_info("socket")
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_NONE)
            self._transport.abort()
        elif script.then == "close":
            self._transport.close()


def _asked(line: str, body: bytes) -> tuple[str, bool]:
    """The model that a request names, and whether it wants a stream."""
    if found := _MODEL.search(line):
        return found[1], "stream" in found[2]
    value = json.loads(body)
    return value["model"], value.get("stream") is True
