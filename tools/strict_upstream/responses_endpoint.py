"""The Responses endpoint: POST with Server-Sent Events or one body, and the WebSocket.

https://platform.openai.com/docs/guides/websocket-mode
"""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

from aiohttp import WSMsgType, web

from tools.strict_upstream import refusal, transport
from tools.strict_upstream.conversation import Answer
from tools.strict_upstream.frames import Frame, encode_json, find_cut
from tools.strict_upstream.refusal import Refusal
from tools.strict_upstream.request_log import Exchange, RequestLog
from tools.strict_upstream.responses import read_responses
from tools.strict_upstream.responses_writer import ResponsesWriter
from tools.strict_upstream.scenario import Reply, ScriptedModel

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tools.strict_upstream.conversation import Conversation

_WARM_UP = "warm"


class ResponsesEndpoint:
    """Answers requests and keeps responses, so that `previous_response_id` and `item_reference` find them."""

    def __init__(self, model: ScriptedModel, log: RequestLog) -> None:
        self._model = model
        self._log = log
        self._stored: dict[str, list[dict[str, Any]]] = {}
        self._items: dict[str, dict[str, Any]] = {}
        self._warm = 0

    async def handle_post(self, request: web.Request) -> web.StreamResponse:
        """One request over HTTP."""
        exchange = Exchange(request.path, "http", "responses", headers=dict(request.headers))
        try:
            body = exchange.body = self._resolve(await transport.read_json(request, "responses"))
            conversation, items = read_responses(body, request.headers, self._stored)
            transport.record_exchange(exchange, conversation)
            reply = self._model.reply(conversation, "responses")
        except Refusal as error:
            transport.refuse(self._log, exchange, error)
            failed = _failed_frames(error) if exchange.stream else []
            if failed:
                return await transport.stream_frames(request, failed, Reply(Answer("", "")), b"")
            return transport.write_refusal(error)
        exchange.outcome = "cut" if reply.cut else "answered"
        self._log.add(exchange)
        writer = ResponsesWriter(reply.answer, conversation)
        frames = writer.write()
        if not reply.cut and body.get("store") is not False:
            self._store(writer, items, self._stored)
        if not conversation.stream:
            return web.json_response(writer.resource("completed"))
        return await transport.stream_frames(request, frames, reply, b"")

    async def handle_socket(self, request: web.Request) -> web.StreamResponse:
        """A WebSocket: any number of requests, one after the other."""
        try:
            if self._model.scenario.fault == "auth":
                self._model.check_fault("responses")
        except Refusal as error:
            exchange = Exchange(request.path, "websocket", "responses", headers=dict(request.headers))
            return transport.write_refusal(transport.refuse(self._log, exchange, error))
        if request.headers.get("upgrade", "").lower() != "websocket":
            return transport.write_refusal(refusal.openai(f"Invalid URL (GET {request.path})", status=404))
        channel = web.WebSocketResponse(max_msg_size=64 * 2**20)
        await channel.prepare(request)
        stored = dict(self._stored)
        async for message in channel:
            if message.type != WSMsgType.TEXT:
                break
            if not await self._answer_frame(request, channel, message.data, stored):
                break
        return channel

    async def _answer_frame(
        self, request: web.Request, channel: web.WebSocketResponse, data: str, stored: dict[str, list[dict[str, Any]]]
    ) -> bool:
        """Answer one frame; False when the connection is gone."""
        exchange = Exchange(request.path, "websocket", "responses", headers=dict(request.headers))
        previous = ""
        try:
            body = exchange.body = _read_frame(data)
            generate = body.pop("generate", True)
            previous = body.get("previous_response_id") or ""
            conversation, items = read_responses(self._resolve(body), request.headers, stored)
            transport.record_exchange(exchange, conversation)
            if generate is False:
                return await self._warm_up(channel, exchange, conversation, items, stored)
            reply = self._model.reply(conversation, "responses")
        except Refusal as error:
            stored.pop(previous, None)  # a failed continuation leaves the cache of the connection
            transport.refuse(self._log, exchange, error)
            frame = {"type": "error", "status": error.status, **error.body, "headers": error.headers}
            frames = (_failed_frames(error) if exchange.stream else []) or [Frame(frame)]
            for one in frames:
                await channel.send_str(encode_json(one.data))
            return True
        exchange.outcome = "cut" if reply.cut else "answered"
        self._log.add(exchange)
        writer = ResponsesWriter(reply.answer, conversation)
        frames = writer.write()
        if not reply.cut:
            self._store(writer, items, stored)
        return await _send_frames(request, channel, frames, reply)

    async def _warm_up(
        self, channel: web.WebSocketResponse, exchange: Exchange, conversation: Conversation,
        items: list[dict[str, Any]], stored: dict[str, list[dict[str, Any]]],
    ) -> bool:  # fmt: skip
        """`generate: false` stores the input and answers with a response that has no output."""
        self._warm += 1
        exchange.main, exchange.message = False, "warm-up"
        self._log.add(exchange)
        writer = ResponsesWriter(Answer(f"{_WARM_UP}{self._warm:06}", conversation.model), conversation)
        for frame in writer.write():
            await channel.send_str(encode_json(frame.data))
        stored[f"resp_{writer.answer.id}"] = items
        return True

    def _resolve(self, body: dict[str, Any]) -> dict[str, Any]:
        """Put stored items in the place of references."""
        given = body.get("input")
        if not isinstance(given, list):
            return body
        whole = []
        for item in given:
            if isinstance(item, dict) and item.get("type") == "item_reference":
                known = item.get("id", "")
                if known not in self._items:
                    raise refusal.openai(f"Item with id '{known}' not found.", status=404, param="input")
                whole.append(self._items[known])
            else:
                whole.append(item)
        return {**body, "input": whole}

    def _store(
        self, writer: ResponsesWriter, items: list[dict[str, Any]], stored: dict[str, list[dict[str, Any]]]
    ) -> None:
        stored[f"resp_{writer.answer.id}"] = [*items, *writer.output]
        self._items |= {item["id"]: item for item in writer.output}


def _read_frame(data: str) -> dict[str, Any]:
    try:
        frame = json.loads(data)
    except ValueError:
        frame = None
    if not isinstance(frame, dict) or frame.get("type") != "response.create":
        raise refusal.openai("Expected a frame of type 'response.create'.", param="type", code="invalid_value")
    return {"stream": True, **{name: value for name, value in frame.items() if name != "type"}}


def _failed_frames(error: Refusal) -> list[Frame]:
    """OpenAI tells an overflow inside the stream: the request was accepted, then the response failed."""
    words: Mapping[str, Any] = error.body["error"]
    if words.get("code") != "context_length_exceeded":
        return []
    head = {"id": "resp_failed", "object": "response", "created_at": 1_780_000_000, "output": [], "model": "gpt-5.4"}
    created = {**head, "status": "in_progress", "error": None}
    failed = {**head, "status": "failed", "error": {"code": words["code"], "message": words["message"]}}
    rows = (("response.created", created), ("response.failed", failed))
    return [Frame({"type": name, "sequence_number": at, "response": one}, name) for at, (name, one) in enumerate(rows)]


async def _send_frames(request: web.Request, channel: web.WebSocketResponse, frames: list[Frame], reply: Reply) -> bool:
    end = find_cut(frames, reply.cut) if reply.cut else len(frames)
    for frame in frames[:end]:
        await channel.send_str(encode_json(frame.data))
    if not reply.cut:
        return True
    data = encode_json(frames[end].data)
    if reply.inside_frame and request.transport is not None:
        # The head of a text frame that promises more than follows (RFC 6455, section 5.2).
        size = len(data.encode())
        request.transport.write(bytes([0x81, 126]) + size.to_bytes(2, "big") + data.encode()[: size // 2])
    else:
        await channel.send_str(data)
    await transport.reset(request.transport)
    await asyncio.sleep(0)
    return False
