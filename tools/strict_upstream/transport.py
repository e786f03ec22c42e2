"""How requests are read, refusals and streams written, and connections reset."""

from __future__ import annotations

import asyncio
import json
import socket
import struct
from typing import TYPE_CHECKING, Any

from aiohttp import web

from tools.strict_upstream import refusal
from tools.strict_upstream.frames import Frame, find_cut
from tools.strict_upstream.scenario import Reply, find_shell

if TYPE_CHECKING:
    from tools.strict_upstream.conversation import Conversation, Protocol
    from tools.strict_upstream.refusal import Refusal
    from tools.strict_upstream.request_log import Exchange, RequestLog


def record_exchange(exchange: Exchange, conversation: Conversation) -> None:
    """Put what was read into the log's entry."""
    exchange.items, exchange.stream = conversation.items, conversation.stream
    exchange.system, exchange.tools = conversation.system, sorted(tool.name for tool in conversation.tools)
    exchange.main = find_shell(conversation.tools) is not None


def refuse(log: RequestLog, exchange: Exchange, error: Refusal) -> Refusal:
    """Log a refusal: a fault of the scenario, or a rule that the request broke."""
    exchange.outcome = "fault" if error.fault else "refused"
    exchange.status, exchange.message = error.status, str(error)
    log.add(exchange)
    return error


def write_refusal(error: Refusal) -> web.Response:
    """A refusal as an HTTP response."""
    return web.json_response(error.body, status=error.status, headers=error.headers)


async def read_json(request: web.Request, protocol: Protocol) -> dict[str, Any]:
    """The body; anything but an object is refused."""
    try:
        body = json.loads(await request.read())
    except ValueError:
        body = None
    if isinstance(body, dict):
        return body
    text = "We could not parse the JSON body of your request."
    match protocol:
        case "messages":
            raise refusal.anthropic("The request body is not valid JSON")
        case "gemini":
            raise refusal.gemini("Invalid JSON payload received.")
        case _:
            raise refusal.openai(text)


async def stream_frames(request: web.Request, frames: list[Frame], reply: Reply, done: bytes) -> web.StreamResponse:
    """Write Server-Sent Events, and reset the connection where the scenario wants it."""
    response = web.StreamResponse(headers={"content-type": "text/event-stream", "cache-control": "no-cache"})
    await response.prepare(request)
    end = find_cut(frames, reply.cut) if reply.cut else len(frames)
    for frame in frames[:end]:
        await response.write(frame.encode_sse())
    if reply.cut:
        data = frames[end].encode_sse()
        await response.write(data[: len(data) // 2] if reply.inside_frame else data)
        await reset(request.transport)
        return response
    if done:
        await response.write(done)
    await response.write_eof()
    return response


async def reset(transport: asyncio.Transport | None) -> None:
    """Reset the connection (RST), after what was written has left."""
    if transport is None:
        return
    await asyncio.sleep(0.1)  # the kernel does not say when the other side has read everything
    raw: socket.socket = transport.get_extra_info("socket")
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    transport.abort()
