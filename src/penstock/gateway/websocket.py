"""Responses over a WebSocket: one `response.create` after the other, each answered by the events of its stream.

A connection remembers its last responses, also those that are not stored, so that the next request need only say what
is new. Leans on `websocket_turn`. One at a time: those that come meanwhile wait, and a client that sends more
than may wait is not read from. The caller is let in again for every request; the connection of a revoked key is closed.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from penstock.errors import PenstockError
from penstock.events import Fault
from penstock.gateway import error_responses
from penstock.gateway.byte_budget import SCOPE_KEY
from penstock.gateway.endpoints import Visit
from penstock.gateway.endpoints.stored_responses import PREVIOUS, refused
from penstock.gateway.websocket_turn import ResponseMemory, WebSocketTurn, error_event

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, MutableMapping

    from penstock.gateway.byte_budget import ConnectionBytes
    from penstock.gateway.services import Services
    from penstock.lenient_fields import Object

    Scope = MutableMapping[str, Any]
    Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
    Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

PATHS = frozenset({"/v1/responses", "/responses"})
WAITING = 32  # requests that wait their turn at most
IDLE = 3600.0  # seconds without a request after which a connection is closed
CLOSING = 0.5  # seconds that a client has to take the close frame
# https://www.iana.org/assignments/websocket/websocket.xhtml#close-code-number
NORMAL, POLICY, TOO_BIG, INTERNAL, RESTART, TRY_LATER = 1000, 1008, 1009, 1011, 1012, 1013
_IDLE = "nothing was asked for an hour: create a new WebSocket connection to go on"
_OLD = "this connection has reached the age that serve.websocket_age allows: create a new WebSocket connection to go on"
log = logging.getLogger("penstock.gateway")


class Sockets:
    """All connections of a gateway."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self.open = 0
        services.metrics.gauge("penstock_websockets_open", "WebSockets that are open.", lambda: self.open)

    async def serve(self, path: str, scope: Scope, receive: Receive, send: Send) -> None:
        """One connection, from its first word to its last."""
        await receive()  # that there is one
        visit = Visit({**scope, "method": "GET"})
        visit.path = path
        fault = self._refusal(visit, scope)
        if fault is not None:
            self._services.away(visit, "responses", fault)
            await _turned_away(fault, scope, send)
            return
        await send({"type": "websocket.accept"})
        serve, own = self._services.config.serve, SCOPE_KEY not in scope
        account: ConnectionBytes = scope.get(SCOPE_KEY) or self._services.websocket_bytes.connect(
            serve.websocket_bytes, serve.body
        )
        self.open += 1
        try:
            await Connection(visit, scope, receive, send, account).run()
        finally:
            self.open -= 1
            if own:
                account.close()

    def _refusal(self, visit: Visit, scope: Scope) -> Fault | None:
        services = self._services
        try:
            services.admit(scope, visit)
        except PenstockError as error:
            return error_responses.fault_of(error)
        if visit.path not in PATHS:
            return Fault("not-found", "no WebSocket is served at this address", status=404)
        if self.open >= services.config.serve.streams:
            return Fault("overloaded", "too many connections are open", status=503)
        return None


OTHERWISE = {  # what is not served, and what to do in its place
    "response.steer": ": a response is not steered here; say more in the next response.create, with its id as "
    "previous_response_id",
    "response.cancel": ": to call a response off, close the connection",
}


class Connection:
    """One client. `visit` is how it came: each request is a visit of its own, and is let in anew."""

    def __init__(self, visit: Visit, scope: Scope, receive: Receive, send: Send, account: ConnectionBytes) -> None:
        self._visit, self._scope, self._receive, self._send = visit, scope, receive, send
        self._bytes = account
        account.give_up, account.lost = self._give_up, self._lost
        self._memory = ResponseMemory(account)
        self._inbox: deque[bytes] = deque()
        self._room = asyncio.Event()  # for one more request
        self._room.set()
        self._news = asyncio.Event()  # a request came, or the connection ends
        self._gone = asyncio.Event()
        self._ending = False  # no more requests are taken
        self._lock = asyncio.Lock()
        self._close, self._why = 0, ""  # the code to close with, if it is we who close
        self._old = time.monotonic() + (visit.services.config.serve.websocket_age or float("inf"))

    async def run(self) -> None:
        """Answer until the client leaves, or must."""
        loop = asyncio.get_running_loop()
        listening, stopping = loop.create_task(self._listen()), loop.create_task(self._stop_with_server())
        try:
            with self._visit.services.revocations.guard(self._visit.caller, self._revoked, open_ended=True):
                while (raw := await self._next()) is not None:
                    size = len(raw)
                    self._bytes.begin(size)
                    await self._answer(raw)
                    raw = None  # or it would be held until the next one comes
                    self._bytes.finish(size)
                    self._make_room()
        except Exception:
            log.exception("a WebSocket at %s failed", self._visit.path)
            self._close = INTERNAL
        finally:
            listening.cancel()
            stopping.cancel()
            self._bytes.give_up = self._bytes.lost = None
        if self._close:
            with suppress(Exception):  # it may be gone by now
                async with asyncio.timeout(CLOSING):
                    await self._send({"type": "websocket.close", "code": self._close, "reason": self._why})

    async def _listen(self) -> None:
        """Take requests in while there is room: a server stops reading where nobody asks it for more."""
        largest = self._visit.services.config.serve.body
        while True:
            await self._room.wait()
            message = await self._receive()
            if message["type"] != "websocket.receive":
                break
            raw = message.get("bytes") or (message.get("text") or "").encode("utf-8", "surrogatepass")
            message.clear()  # or it would be held until the next one comes
            self._bytes.deliver(len(raw))
            if len(raw) > largest:
                self._close = TOO_BIG
                break
            self._inbox.append(raw)
            raw = b""
            self._make_room()
            self._news.set()
        self._lost()

    def _lost(self) -> None:
        """The client has gone. A server may say so before its messages were all taken."""
        self._gone.set()
        self._news.set()

    def _make_room(self) -> None:
        if self._bytes.full or len(self._inbox) >= WAITING:
            self._room.clear()
        else:
            self._room.set()

    async def _next(self) -> bytes | None:
        """The next request; None if there will be none."""
        while not (self._gone.is_set() or self._ending):
            left = self._old - time.monotonic()
            if left <= 0:
                await self._expire(_OLD)
            elif self._inbox:
                return self._inbox.popleft()
            else:
                self._news.clear()
                try:
                    async with asyncio.timeout(min(IDLE, left)):
                        await self._news.wait()
                except TimeoutError:
                    await self._expire(_IDLE if left > IDLE else _OLD)
        return None

    async def _expire(self, said: str) -> None:
        await self._tell(refused(said, code="websocket_connection_limit_reached").fault)
        self._end(NORMAL)

    # ── why it ends ───────────────────────────────────────────────────────────────────────────────

    def _end(self, code: int, why: str = "") -> None:
        self._close, self._why = code, why
        self._ending = True
        self._news.set()

    def _revoked(self, fault: Fault) -> None:
        """Its key is not valid any more. A turn that runs is ended by itself, with an error that says so."""
        self._end(POLICY, fault.message)

    async def _stop_with_server(self) -> None:
        """The server takes no more requests: the connection closes once its turn is over."""
        await self._visit.services.closing.wait()
        self._end(RESTART, "the gateway is shutting down")

    def _give_up(self) -> None:
        """All connections hold too much, and this one most: it forgets what was said, or is closed."""
        if self._bytes.remembered:
            self._memory.clear()
            return
        self._inbox.clear()
        self._bytes.abandon()
        self._end(TRY_LATER, "too many bytes wait on all WebSockets (serve.websocket_total)")
        self._gone.set()

    # ── a request ─────────────────────────────────────────────────────────────────────────────────

    async def _answer(self, raw: bytes) -> None:
        visit = self._visited(raw)
        try:
            self._visit.services.admit(self._scope, visit)
        except PenstockError as error:
            fault = error_responses.fault_of(error, "responses")
            self._visit.services.away(visit, "responses", fault)
            await self._tell(fault)
            self._end(POLICY, fault.message)
            return
        try:
            body = await visit.offload(lambda: self._read(visit))
        except PenstockError as error:
            await self._tell(error_responses.fault_of(error, "responses"))
            return
        work = WebSocketTurn(self, visit, body)
        await (work.warm if body.get("generate") is False else work.turn)()
        if not work.done and isinstance(body.get(PREVIOUS), str):
            self._memory.drop(body[PREVIOUS])  # a client whose request failed begins anew
        visit.raw = b""

    def _visited(self, raw: bytes) -> Visit:
        came = self._visit
        headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in came.headers.items()]
        visit = Visit({"method": "WEBSOCKET", "path": came.path, "query_string": b"", "headers": headers})
        visit.client, visit.services, visit.raw = came.client, came.services, raw
        return visit

    def _read(self, visit: Visit) -> Object:
        body = visit.body()
        kind = str(body.get("type"))[:100]
        if kind != "response.create":
            raise refused(f"type: expected response.create, found {kind!r}{OTHERWISE.get(kind, '')}", param="type")
        if body.get("background"):
            raise refused("background: not on a WebSocket, which is a stream by itself", param="background")
        return {**body, "stream": True}

    async def _tell(self, fault: Fault) -> None:
        await self.text(error_event(*error_responses.refusal("responses", fault)))

    async def text(self, data: bytes) -> None:
        """One message. Nothing comes between the halves of one."""
        async with self._lock:
            if self._gone.is_set():
                return
            try:
                await self._send({"type": "websocket.send", "text": data.decode("utf-8", "replace")})
            except OSError:  # so a server says that the client has gone, where that is not heard of yet
                self._gone.set()

    async def pause(self) -> None:
        """Wait until the last message is out: a client that takes none is found out by this."""
        async with self._lock:
            return

    @property
    def memory(self) -> ResponseMemory:
        return self._memory

    @property
    def gone(self) -> asyncio.Event:
        return self._gone


async def _turned_away(fault: Fault, scope: Scope, send: Send) -> None:
    """No to a connection: in words where the server can say them, else by closing it."""
    status, body, headers = error_responses.refusal("responses", fault)
    if "websocket.http.response" not in (scope.get("extensions") or {}):
        await send({"type": "websocket.close", "code": POLICY})
        return
    await send({"type": "websocket.http.response.start", "status": status, "headers": list(headers)})
    await send({"type": "websocket.http.response.body", "body": body, "more_body": False})
