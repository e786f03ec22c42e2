"""Responses over a WebSocket: one `response.create` after the other, each answered by the events of its stream.

A connection remembers its last responses, also those that are not stored, so that the next request need only say what
is new. Leans on `inside` for the turns. One at a time: those that come meanwhile wait.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from penstock import pick
from penstock.errors import PenstockError, StreamFault
from penstock.events import Fault, Finish, Start, Usage
from penstock.gateway import inside, refusing
from penstock.gateway.doors.door import Door, Visit
from penstock.gateway.doors.responses import Keeper, asked_of, known_of
from penstock.gateway.doors.responses_past import PREVIOUS, refused
from penstock.gateway.frames import Frames, error_event
from penstock.gateway.outlet import BODY
from penstock.gateway.writing import Translation
from penstock.store.responses import Past

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, MutableMapping

    from penstock.gateway.doors.door import Asked
    from penstock.gateway.doors.responses_past import Told
    from penstock.gateway.services import Services
    from penstock.pick import Object

    Scope = MutableMapping[str, Any]
    Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
    Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

PATHS = frozenset({"/v1/responses", "/responses"})
KEPT = 16  # responses that a connection remembers
WAITING = 32  # requests that wait their turn at most
IDLE = 3600.0  # seconds without a request after which a connection is closed
NORMAL, POLICY, TOO_BIG, INTERNAL = 1000, 1008, 1009, 1011
_LIMIT = "nothing was asked for an hour: create a new WebSocket connection to go on"
log = logging.getLogger("penstock.gateway")


class Memory:
    """The last responses of a connection, with all that was said before them."""

    def __init__(self) -> None:
        self._past: OrderedDict[str, Past] = OrderedDict()

    def find(self, id: str) -> Past | None:
        return self._past.get(id)

    def keep(self, id: str, past: Past) -> None:
        self._past[id] = past
        self._past.move_to_end(id)
        if len(self._past) > KEPT:
            self._past.popitem(last=False)

    def drop(self, id: str) -> None:
        self._past.pop(id, None)


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
        self.open += 1
        try:
            await Connection(visit, receive, send).run()
        finally:
            self.open -= 1

    def _refusal(self, visit: Visit, scope: Scope) -> Fault | None:
        services = self._services
        try:
            services.admit(scope, visit)
        except PenstockError as error:
            return refusing.fault_of(error)
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
    """One client. `visit` is how it came: each request is a visit of its own, by the same caller."""

    def __init__(self, visit: Visit, receive: Receive, send: Send) -> None:
        self._visit, self._receive, self._send = visit, receive, send
        self._memory = Memory()
        self._inbox: asyncio.Queue[bytes] = asyncio.Queue(WAITING)
        self._gone = asyncio.Event()
        self._lock = asyncio.Lock()
        self._close = 0  # the code to close with, if it is we who close

    async def run(self) -> None:
        """Answer until the client leaves, or must."""
        listening = asyncio.get_running_loop().create_task(self._listen())
        try:
            while (raw := await self._next()) is not None:
                await self._answer(raw)
        except Exception:
            log.exception("a WebSocket at %s failed", self._visit.path)
            self._close = INTERNAL
        finally:
            listening.cancel()
        if self._close:
            with suppress(Exception):  # it may be gone by now
                await self._send({"type": "websocket.close", "code": self._close})

    async def _listen(self) -> None:
        largest = self._visit.services.config.serve.body
        while (message := await self._receive())["type"] == "websocket.receive":
            raw = message.get("bytes") or (message.get("text") or "").encode("utf-8", "surrogatepass")
            if len(raw) > largest or self._inbox.full():
                self._close = TOO_BIG if len(raw) > largest else POLICY
                break
            self._inbox.put_nowait(raw)
        self._gone.set()

    async def _next(self) -> bytes | None:
        """The next request; None where there will be none."""
        asked, left = asyncio.ensure_future(self._inbox.get()), asyncio.ensure_future(self._gone.wait())
        try:
            done, _ = await asyncio.wait((asked, left), timeout=IDLE, return_when=asyncio.FIRST_COMPLETED)
            if not done:
                await self._tell(refused(_LIMIT, code="websocket_connection_limit_reached").fault)
                self._close = NORMAL
            return asked.result() if asked in done and not self._gone.is_set() else None
        finally:
            asked.cancel()
            left.cancel()

    # ── a request ─────────────────────────────────────────────────────────────────────────────────

    async def _answer(self, raw: bytes) -> None:
        visit = self._visited(raw)
        try:
            body = self._read(visit)
        except PenstockError as error:
            await self._tell(refusing.fault_of(error, "responses"))
            return
        work = _Work(self, visit, body)
        await (work.warm if body.get("generate") is False else work.turn)()
        if not work.done and isinstance(body.get(PREVIOUS), str):
            self._memory.drop(body[PREVIOUS])  # a client whose request failed begins anew

    def _visited(self, raw: bytes) -> Visit:
        came = self._visit
        headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in came.headers.items()]
        visit = Visit({"method": "WEBSOCKET", "path": came.path, "query_string": b"", "headers": headers})
        visit.caller, visit.client, visit.services, visit.raw = came.caller, came.client, came.services, raw
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
        status, data, _ = refusing.refusal("responses", fault)
        await self.text(error_event(status, data))

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
    def memory(self) -> Memory:
        return self._memory

    @property
    def gone(self) -> asyncio.Event:
        return self._gone


class _Work:
    """A request being answered. `done` once its response is whole, and remembered."""

    def __init__(self, connection: Connection, visit: Visit, body: Object) -> None:
        self._connection, self._visit, self._body = connection, visit, body
        self._frames = Frames(connection.text, connection.pause, body.get("stream_id"))
        self.done = False

    async def turn(self) -> None:
        """Ask somebody."""
        await inside.run(Door("responses", self._asked), self._visit, self._frames.send, self._connection.gone)

    async def warm(self) -> None:
        """Only take note: the next request goes on from here, and nobody is asked for anything yet."""
        try:
            asked = await self._asked(self._visit)
            asked.request.model = asked.request.model or self._visit.services.default
            self._visit.caller.check(asked.request.model)
            if not self._visit.services.means(asked.request.model):
                said = ValueError(f"{asked.request.model[:200]!r} is no model that is known here")
                raise StreamFault(refusing.unknown_model(said))
        except PenstockError as error:
            status, data, _ = refusing.refusal("responses", refusing.fault_of(error, "responses"))
            await self._frames.refuse(status, data)
            return
        way = Translation(asked)
        data = way.feed((b"", [Start(), Usage(input=0, output=0), Finish("stop")])) + way.finish()
        assert asked.over is not None  # noqa: S101 — set by `_asked`
        await asked.over(self._frames.send)({"type": BODY, "body": data, "more_body": False})

    async def _asked(self, visit: Visit) -> Asked:
        known = await known_of(visit, self._body, self._connection.memory)
        keeper = Keeper(visit, known) if self._body.get("store") is not False else None
        return asked_of(visit, self._body, known, lambda response: self._kept(response, known, keeper))

    def _kept(self, response: Object, known: Told, keeper: Keeper | None) -> None:
        self._frames.ended = True
        if response.get("status") not in {"completed", "incomplete"}:
            return
        chain = keeper.keep(response) if keeper is not None else None
        said = [*(known.past.items if known.past else ()), *known.new, *pick.listed(response, "output")]
        self._connection.memory.keep(response["id"], Past(said, chain))
        self.done = True


async def _turned_away(fault: Fault, scope: Scope, send: Send) -> None:
    """No to a connection: in words where the server can say them, else by closing it."""
    status, body, headers = refusing.refusal("responses", fault)
    if "websocket.http.response" not in (scope.get("extensions") or {}):
        await send({"type": "websocket.close", "code": POLICY})
        return
    await send({"type": "websocket.http.response.start", "status": status, "headers": list(headers)})
    await send({"type": "websocket.http.response.body", "body": body, "more_body": False})
