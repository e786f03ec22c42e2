"""The upstream as an HTTP server. `serve` runs it in a thread; `python -m tools.strict_upstream` in the foreground."""

from __future__ import annotations

import asyncio
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from aiohttp import web

from tools.strict_upstream import refusal
from tools.strict_upstream.chat import read_chat
from tools.strict_upstream.chat_writer import write_chat_body, write_chat_frames
from tools.strict_upstream.gemini import read_gemini
from tools.strict_upstream.gemini_writer import write_gemini_body, write_gemini_frames
from tools.strict_upstream.listings import count_tokens, list_models
from tools.strict_upstream.messages import read_messages
from tools.strict_upstream.messages_writer import write_messages_body, write_messages_frames
from tools.strict_upstream.refusal import Refusal
from tools.strict_upstream.request_log import Exchange, RequestLog
from tools.strict_upstream.responses_endpoint import ResponsesEndpoint
from tools.strict_upstream.scenario import Scenario, ScriptedModel
from tools.strict_upstream.transport import read_json, record_exchange, refuse, stream_frames, write_refusal

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

    from tools.strict_upstream.conversation import Conversation, Protocol

LIMIT = 30.0
_SIZE_LIMIT = 64 * 2**20
_WRITERS = {
    "chat": (write_chat_body, write_chat_frames), "messages": (write_messages_body, write_messages_frames),
    "gemini": (write_gemini_body, write_gemini_frames),
}  # fmt: skip


class StrictUpstream:
    """Endpoints of all four protocols, one scripted model, and the log."""

    def __init__(self, scenario: Scenario, log: RequestLog | None = None) -> None:
        self.model = ScriptedModel(scenario)
        self.log = log or RequestLog()
        self.url = ""
        self._responses = ResponsesEndpoint(self.model, self.log)

    def application(self) -> web.Application:
        """The routes."""
        app = web.Application(client_max_size=_SIZE_LIMIT)
        app.router.add_post("/v1/chat/completions", self.handle_chat)
        app.router.add_post("/v1/messages", self.handle_messages)
        app.router.add_post("/v1/responses", self._responses.handle_post)
        app.router.add_get("/v1/responses", self._responses.handle_socket)
        app.router.add_post("/{version:v1|v1beta}/models/{model}:{method}", self.handle_gemini)
        app.router.add_get("/{version:v1|v1beta}/models", list_models)
        app.router.add_post("/v1/messages/count_tokens", count_tokens)
        app.router.add_route("*", "/{path:.*}", self.handle_unknown)
        return app

    async def handle_chat(self, request: web.Request) -> web.StreamResponse:
        """Chat Completions."""
        return await self._handle(request, "chat", lambda body: read_chat(body, request.headers))

    async def handle_messages(self, request: web.Request) -> web.StreamResponse:
        """Messages."""
        return await self._handle(request, "messages", lambda body: read_messages(body, request.headers))

    async def handle_gemini(self, request: web.Request) -> web.StreamResponse:
        """Gemini. The method stands in the path, the framing in `alt`."""
        method, model = request.match_info["method"], request.match_info["model"]
        if method == "countTokens":
            return web.json_response({"totalTokens": 100})
        headers = dict(request.headers)
        if request.query.get("key"):
            headers["x-goog-api-key"] = request.query["key"]
        lowered = {name.lower(): value for name, value in headers.items()}
        stream = method == "streamGenerateContent"
        return await self._handle(request, "gemini", lambda body: read_gemini(body, lowered, model, stream=stream))

    async def handle_unknown(self, request: web.Request) -> web.StreamResponse:
        """No such endpoint."""
        self.log.add(Exchange(request.path, "http", outcome="unknown-path", status=404, message=request.method))
        made = refusal.openai(f"Invalid URL ({request.method} {request.path})", status=404)
        return write_refusal(made)

    async def _handle(self, request: web.Request, protocol: Protocol, read: Any) -> web.StreamResponse:
        exchange = Exchange(request.path, "http", protocol, headers=dict(request.headers))
        try:
            exchange.body = await read_json(request, protocol)
            conversation: Conversation = read(exchange.body)
            record_exchange(exchange, conversation)
            reply = self.model.reply(conversation, protocol)
        except Refusal as error:
            return write_refusal(refuse(self.log, exchange, error))
        write_body, write_frames = _WRITERS[protocol]
        if not conversation.stream:
            self.log.add(exchange)
            return web.json_response(write_body(reply.answer, conversation))
        if reply.cut:
            exchange.outcome = "cut"
        self.log.add(exchange)
        done = b"data: [DONE]\n\n" if protocol == "chat" else b""
        return await stream_frames(request, write_frames(reply.answer, conversation), reply, done)


@contextmanager
def serve(scenario: Scenario, log: Path | None = None) -> Generator[StrictUpstream]:
    """Run the upstream on a free port, in a thread."""
    upstream = StrictUpstream(scenario, RequestLog(log))
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    runner = web.AppRunner(upstream.application(), access_log=None, shutdown_timeout=1.0)

    async def start() -> int:
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        return int(runner.addresses[0][1])

    port = asyncio.run_coroutine_threadsafe(start(), loop).result(LIMIT)
    upstream.url = f"http://127.0.0.1:{port}"
    try:
        yield upstream
    finally:
        asyncio.run_coroutine_threadsafe(runner.cleanup(), loop).result(LIMIT)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(LIMIT)
        loop.close()
