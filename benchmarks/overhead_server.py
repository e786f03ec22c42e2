"""The upstream of `benchmarks.client_overhead`, in its own process: Chat Completions from prepared bytes.

The first part of the path says what is sent: `/deltas-500/…` answers with 500 deltas, together; `/paced-200/…` with
200, one at a time; `/steps-5/…` asks for a tool in four answers and then gives the last one. Prints its port.
"""

from __future__ import annotations

import asyncio
import json
import re
from functools import cache
from typing import Any

ID = {"id": "chatcmpl-Bq8Zt", "created": 1735689600, "model": "gpt-4o-2024-08-06"}
USAGE = {"prompt_tokens": 21, "completion_tokens": 9, "total_tokens": 30}
TOOL_RESULT = re.compile(rb'"role":\s*"tool"')
STREAM = re.compile(rb'"stream":\s*true')
LENGTH = re.compile(rb"content-length:\s*(\d+)", re.IGNORECASE)
PAUSE = 0.001  # seconds between deltas that arrive one at a time
TEXT = "The water is 3.2 metres high."


def frame(delta: Any = None, finish: str | None = None, **fields: Any) -> bytes:
    choices = [] if delta is None else [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}]
    body = {**ID, "object": "chat.completion.chunk", "choices": choices, **fields}
    return b"data: " + json.dumps(body, separators=(",", ":")).encode() + b"\n\n"


def tool_call(step: int) -> dict[str, Any]:
    call = {"name": "read_gauge", "arguments": '{"station":"upper gate"}'}
    return {"id": f"call_{step}", "type": "function", "function": call}


@cache
def stream_frames(deltas: int, step: int) -> list[bytes]:
    """A whole stream: so many deltas, or the tool call of a step."""
    first = frame({"role": "assistant", "content": "" if not step else None})
    end = [frame({}, "tool_calls" if step else "stop"), frame(usage=USAGE), b"data: [DONE]\n\n"]
    if step:
        return [first, frame({"tool_calls": [{"index": 0, **tool_call(step)}]}), *end]
    return [
        first,
        *(frame({"content": f" drop {number}"}) for number in range(deltas)),
        *end,
    ]  # LiteLLM refuses equal ones


@cache
def whole_body(step: int) -> bytes:
    message: dict[str, Any] = {"role": "assistant", "content": None if step else TEXT, "refusal": None}
    if step:
        message["tool_calls"] = [tool_call(step)]
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": "tool_calls" if step else "stop"}
    return json.dumps({**ID, "object": "chat.completion", "choices": [choice], "usage": USAGE}).encode()


async def answer(path: str, body: bytes, writer: asyncio.StreamWriter) -> None:
    kind, _, number = path.split("/")[1].partition("-")
    results = len(TOOL_RESULT.findall(body))
    step = results + 1 if kind == "steps" and results + 1 < int(number) else 0
    if not STREAM.search(body):
        data = whole_body(step)
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(data))
        writer.write(data)
        return
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n"
    frames = stream_frames(4 if kind == "steps" else int(number), step)
    writer.write(head)
    if kind == "paced":
        for one in frames:
            writer.write(b"%x\r\n%b\r\n" % (len(one), one))
            await asyncio.sleep(PAUSE)
    else:
        writer.write(b"".join(b"%x\r\n%b\r\n" % (len(one), one) for one in frames))
    writer.write(b"0\r\n\r\n")


async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            length = LENGTH.search(head)
            body = await reader.readexactly(int(length[1]) if length else 0)
            await answer(head.split(b" ", 2)[1].decode(), body, writer)
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()


async def main() -> None:
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
