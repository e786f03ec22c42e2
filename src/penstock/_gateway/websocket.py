"""The Responses API over WebSocket: each `response.create` is answered with the events of its stream, one at a time.

A connection remembers its last responses, also unstored ones, so that the next request only sends new input. Requests
that arrive meanwhile wait; a client that sends too many is not read. The caller is admitted again for every request,
and the connection of a revoked key is closed.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from contextlib import suppress
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from penstock._gateway import error_responses, routes
from penstock._gateway.byte_budget import SCOPE_KEY, ConnectionBytes
from penstock._gateway.endpoints import IncomingRequest
from penstock._gateway.endpoints.stored_responses import PREVIOUS_ID, responses_error
from penstock._gateway.endpoints.unsupported import UnsupportedFeature, find_unsupported
from penstock._gateway.websocket_turn import ResponseMemory, WebSocketSender, WebSocketTurn, error_event
from penstock._input_limits import MAX_PATH
from penstock.errors import PenstockError
from penstock.events import Fault

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, MutableMapping

    from penstock._gateway.services import Services
    from penstock._lenient_fields import Object

    Scope = MutableMapping[str, Any]
    Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
    Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

PATHS = frozenset({"/v1/responses", "/responses"})
PROTOCOL = "responses"
MAX_WAITING = 32  # waiting requests
IDLE_TIMEOUT = 3600.0  # seconds without a request
CLOSE_TIMEOUT = 0.5  # seconds for sending the close frame
# https://www.iana.org/assignments/websocket/websocket.xhtml#close-code-number
NORMAL, POLICY, TOO_BIG, INTERNAL, RESTART, TRY_LATER = 1000, 1008, 1009, 1011, 1012, 1013
_IDLE_MESSAGE = "nothing was asked for an hour: create a new WebSocket connection to go on"
_AGE_MESSAGE = (
    "this connection has reached the age that serve.websocket_age allows: create a new WebSocket connection to go on"
)
log = logging.getLogger("penstock.gateway")


class WebSocketServer:
    """Accepts the WebSockets of a gateway."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self.open = 0
        services.metrics.add_gauge("websockets_open", lambda: self.open)

    async def serve(self, path: str, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection."""
        await receive()  # the connect message
        incoming = IncomingRequest({**scope, "method": "GET"})
        incoming.path = path
        fault = self._find_refusal(incoming, scope)
        if fault is not None:
            protocol = PROTOCOL
            if fault.status == HTTPStatus.NOT_FOUND and (feature := _find_unsupported(incoming)) is not None:
                protocol, fault = feature.protocol, feature.fault
            self._services.record_refusal(incoming, protocol, fault)
            await _refuse_connection(protocol, fault, scope, send)
            return
        await send({"type": "websocket.accept"})
        serve, opened_here = self._services.config.serve, SCOPE_KEY not in scope
        budget = self._services.websocket_bytes
        account: ConnectionBytes = scope.get(SCOPE_KEY) or budget.connect(serve.websocket_bytes, serve.body)
        self.open += 1
        try:
            await WebSocketConnection(incoming, scope, receive, send, account).run()
        finally:
            self.open -= 1
            if opened_here:
                account.close()

    def _find_refusal(self, incoming: IncomingRequest, scope: Scope) -> Fault | None:
        services = self._services
        try:
            services.admit(scope, incoming)
        except PenstockError as error:
            return error_responses.fault_from_error(error)
        if incoming.path not in PATHS:
            return Fault("not-found", "no WebSocket is served at this address", status=404)
        if self.open >= services.config.serve.streams:
            return Fault("overloaded", "too many connections are open", status=503)
        return None


UNSUPPORTED_HINTS = {  # unsupported events, and what to do instead
    "response.steer": ": a response is not steered here; say more in the next response.create, with its id as "
    "previous_response_id",
    "response.cancel": ": to call a response off, close the connection",
}


class WebSocketConnection:
    """One WebSocket. `incoming` is its handshake; each message is a request that is admitted again."""

    def __init__(
        self, incoming: IncomingRequest, scope: Scope, receive: Receive, send: Send, account: ConnectionBytes
    ) -> None:
        self._incoming, self._scope, self._receive, self._send = incoming, scope, receive, send
        self._bytes = account
        account.give_up, account.on_disconnect = self._give_up, self._mark_disconnected
        self._memory = ResponseMemory(account)
        self._inbox: deque[bytes] = deque()
        self._room = asyncio.Event()  # set while there is room for a request
        self._room.set()
        self._wakeup = asyncio.Event()  # a request came, or the connection ends
        self._gone = asyncio.Event()
        self._ending = False  # no more requests are accepted
        self._lock = asyncio.Lock()
        self._close_code, self._close_reason = 0, ""  # the close code, if the gateway closes
        self._expires_at = time.monotonic() + (incoming.services.config.serve.websocket_age or float("inf"))

    async def run(self) -> None:
        """Answer requests until the connection ends."""
        loop = asyncio.get_running_loop()
        listening, stopping = loop.create_task(self._listen()), loop.create_task(self._stop_with_server())
        try:
            with self._incoming.services.revocations.guard(self._incoming.caller, self._close_revoked, open_ended=True):
                while (raw := await self._next_request()) is not None:
                    size = len(raw)
                    self._bytes.begin(size)
                    await self._answer(raw)
                    raw = None  # frees the memory before the next message
                    self._bytes.finish(size)
                    self._make_room()
        except Exception:
            log.exception("a WebSocket at %s failed", self._incoming.path)
            self._close_code = INTERNAL
        finally:
            listening.cancel()
            stopping.cancel()
            self._bytes.give_up = self._bytes.on_disconnect = None
        if self._close_code:
            with suppress(Exception):  # the client may have disconnected
                async with asyncio.timeout(CLOSE_TIMEOUT):
                    reason = self._close_reason
                    await self._send({"type": "websocket.close", "code": self._close_code, "reason": reason})

    async def _listen(self) -> None:
        """Receive requests while there is room; else the server stops reading."""
        largest = self._incoming.services.config.serve.body
        while True:
            await self._room.wait()
            message = await self._receive()
            if message["type"] != "websocket.receive":
                break
            raw = message.get("bytes") or (message.get("text") or "").encode("utf-8", "surrogatepass")
            message.clear()  # frees the memory before the next message
            self._bytes.deliver(len(raw))
            if len(raw) > largest:
                self._close_code = TOO_BIG
                break
            self._inbox.append(raw)
            raw = b""
            self._make_room()
            self._wakeup.set()
        self._mark_disconnected()

    def _mark_disconnected(self) -> None:
        """Mark the client as disconnected. Its messages may still wait."""
        self._gone.set()
        self._wakeup.set()

    def _make_room(self) -> None:
        if self._bytes.is_full or len(self._inbox) >= MAX_WAITING:
            self._room.clear()
        else:
            self._room.set()

    async def _next_request(self) -> bytes | None:
        """Return the next request; None if the connection ends."""
        while not (self._gone.is_set() or self._ending):
            left = self._expires_at - time.monotonic()
            if left <= 0:
                await self._expire(_AGE_MESSAGE)
            elif self._inbox:
                return self._inbox.popleft()
            else:
                self._wakeup.clear()
                try:
                    async with asyncio.timeout(min(IDLE_TIMEOUT, left)):
                        await self._wakeup.wait()
                except TimeoutError:
                    await self._expire(_IDLE_MESSAGE if left > IDLE_TIMEOUT else _AGE_MESSAGE)
        return None

    async def _expire(self, message: str) -> None:
        await self._send_error(responses_error(message, code="websocket_connection_limit_reached").fault)
        self._begin_close(NORMAL)

    # ── why it ends ───────────────────────────────────────────────────────────────────────────────

    def _begin_close(self, code: int, why: str = "") -> None:
        self._close_code, self._close_reason = code, why
        self._ending = True
        self._wakeup.set()

    def _close_revoked(self, fault: Fault) -> None:
        """Close the connection because its key was revoked. A running turn ends with its own error."""
        self._begin_close(POLICY, fault.message)

    async def _stop_with_server(self) -> None:
        """Close the connection after its turn when the server stops."""
        await self._incoming.services.closing.wait()
        self._begin_close(RESTART, "the gateway is shutting down")

    def _give_up(self) -> None:
        """Free bytes because the budget is full: drop remembered responses, or close the connection."""
        if self._bytes.remembered:
            self._memory.clear()
            return
        self._inbox.clear()
        self._bytes.abandon()
        self._begin_close(TRY_LATER, "too many bytes wait on all WebSockets (serve.websocket_total)")
        self._gone.set()

    # ── a request ─────────────────────────────────────────────────────────────────────────────────

    async def _answer(self, raw: bytes) -> None:
        incoming = self._build_incoming(raw)
        try:
            self._incoming.services.admit(self._scope, incoming)
        except PenstockError as error:
            fault = error_responses.fault_from_error(error, PROTOCOL)
            self._incoming.services.record_refusal(incoming, PROTOCOL, fault)
            await self._send_error(fault)
            self._begin_close(POLICY, fault.message)
            return
        try:
            body = await incoming.offload(lambda: self._read(incoming))
        except PenstockError as error:
            await self._send_error(error_responses.fault_from_error(error, PROTOCOL))
            return
        sender = WebSocketSender(self.send_text, self.wait_for_sends, body.get("stream_id"))
        turn = WebSocketTurn(incoming, body, sender, self._memory, self._gone)
        await (turn.remember if body.get("generate") is False else turn.run)()
        if not turn.done and isinstance(body.get(PREVIOUS_ID), str):
            self._memory.drop(body[PREVIOUS_ID])  # after a failure the client must send the whole conversation
        incoming.raw = b""

    def _build_incoming(self, raw: bytes) -> IncomingRequest:
        came = self._incoming
        headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in came.headers.items()]
        incoming = IncomingRequest({"method": "WEBSOCKET", "path": came.path, "query_string": b"", "headers": headers})
        incoming.client, incoming.services, incoming.raw = came.client, came.services, raw
        incoming.access_entry = came.access_entry
        return incoming

    def _read(self, incoming: IncomingRequest) -> Object:
        body = incoming.json_body()
        kind = str(body.get("type"))[:100]
        if kind != "response.create":
            reason = f"type: expected response.create, found {kind!r}{UNSUPPORTED_HINTS.get(kind, '')}"
            raise responses_error(reason, param="type")
        if body.get("background"):
            raise responses_error("background: not on a WebSocket, which is a stream by itself", param="background")
        return {**body, "stream": True}

    async def _send_error(self, fault: Fault) -> None:
        await self.send_text(error_event(*error_responses.error_response(PROTOCOL, fault)))

    async def send_text(self, data: bytes) -> None:
        """Send one message. Messages do not interleave."""
        async with self._lock:
            if self._gone.is_set():
                return
            try:
                await self._send({"type": "websocket.send", "text": data.decode("utf-8", "replace")})
            except OSError:  # the client has disconnected
                self._gone.set()

    async def wait_for_sends(self) -> None:
        """Wait until the last message is sent. Detects clients that do not read."""
        async with self._lock:
            return


def _find_unsupported(incoming: IncomingRequest) -> UnsupportedFeature | None:
    path = incoming.path if len(incoming.path) <= MAX_PATH else ""
    return find_unsupported(routes.find_route(incoming.method, path).path, incoming.headers)


async def _refuse_connection(protocol: str, fault: Fault, scope: Scope, send: Send) -> None:
    """Refuse a connection: with an HTTP response if the server supports it, else by closing it."""
    status, body, headers = error_responses.error_response(protocol, fault)
    if "websocket.http.response" not in (scope.get("extensions") or {}):
        await send({"type": "websocket.close", "code": POLICY})
        return
    await send({"type": "websocket.http.response.start", "status": status, "headers": list(headers)})
    await send({"type": "websocket.http.response.body", "body": body, "more_body": False})
