"""The ASGI application, bare: it lets the visit in, finds the door, has it answered. It can be mounted in any other.

Leans on `routes` for what an address means, `turn` for answers of models, `services` for all that outlives a request.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from penstock import events as ev
from penstock.errors import PenstockError
from penstock.gateway import error_responses
from penstock.gateway.aux_requests import Errand
from penstock.gateway.config import GatewayConfig
from penstock.gateway.endpoints import Visit
from penstock.gateway.lifecycle import Watchdog, preload
from penstock.gateway.request_body import read_into
from penstock.gateway.routes import Answer, Route, client_protocols, dialect_of, find, is_open, page, path_of
from penstock.gateway.services import Services
from penstock.gateway.turn import Turn
from penstock.gateway.websocket import Sockets
from penstock.http.disconnect import Gone, Stoppable
from penstock.http.response_channel import line_of
from penstock.http.response_writer import Flow, Outlet, end_with
from penstock.input_limits import MAX_PATH
from penstock.protocols import DEFAULT

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, MutableMapping

    from penstock.events import Fault
    from penstock.gateway.endpoints import Door, Headers
    from penstock.http.response_channel import Line

    Message = MutableMapping[str, Any]
    Scope = MutableMapping[str, Any]
    Receive = Callable[[], Awaitable[Message]]
    Send = Callable[[Message], Awaitable[None]]

log = logging.getLogger("penstock.gateway")


class App:
    """The gateway. Services that are given are not closed with it. `pace` 0 plays packaged streams at full speed."""

    closes_websockets = True  # once `stopping` was called, each after the turn that is going on

    def __init__(
        self, config: GatewayConfig | None = None, *, services: Services | None = None, pace: float | None = None,
        env: Mapping[str, str] | None = None,
    ) -> None:  # fmt: skip
        made = config or GatewayConfig()
        if pace is not None:
            made = replace(made, serve=replace(made.serve, pace=pace))
        self._given = services is not None
        self.services = services or Services(made, env=env)
        self._sockets = Sockets(self.services)
        self._watchdog = Watchdog(self.services.config.log.blocked)
        self.services.metrics.counts(
            "penstock_loop_blocked_total", "How often the event loop was blocked.", (), self._watchdog.counts
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await self._http(scope, receive, send)
        elif scope["type"] == "lifespan":
            await self._lifespan(receive, send)
        elif scope["type"] == "websocket":
            await self._sockets.serve(path_of(scope), scope, receive, send)

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Admit, then route. A request that is not let in is routed only to learn the dialect of its refusal."""
        visit = Visit(scope)
        visit.path = path_of(scope)
        if "origin" in visit.headers:
            send = self._shared(scope, send)
        if is_open(visit):
            await self._page(visit, scope, send, known=False)
            return
        refusal = self._admitted(scope, visit)
        route = find(visit.method, visit.path) if len(visit.path) <= MAX_PATH else Route()
        if route.params:
            visit.params = route.params
        if route.door is not None or route.answer is not None:
            try:
                if route.door is not None:
                    await self._turn(route.door, visit, refusal, receive, send, line_of(scope))
                elif route.answer is not None:
                    await self._answer(route.answer, visit, refusal, receive, send)
            finally:
                visit.forget_body()
        elif refusal is not None:
            await _whole(send, *error_responses.refusal(dialect_of(visit.path), refusal))
        else:
            await self._page(visit, scope, send, known=route.known)

    def _admitted(self, scope: Scope, visit: Visit) -> Fault | None:
        """Let a visit in; why not, where it is not let in."""
        try:
            self.services.admit(scope, visit)
        except PenstockError as error:
            return error_responses.fault_of(error)
        return None

    def _shared(self, scope: Scope, send: Send) -> Send:
        """What a browser needs to let a page read the answer, where the page is welcome."""
        more = self.services.access.cors(scope)

        async def sharing(message: Message) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message["headers"], *more]}
            await send(message)

        return sharing if more else send

    def stopping(self) -> None:
        """The server stops: WebSockets close once their turn is over."""
        self.services.closing.set()

    def end_answers(self) -> None:
        """The time for answers to become whole is over."""
        self.services.end_answers()

    # ── turns ─────────────────────────────────────────────────────────────────────────────────────

    async def _turn(
        self, door: Door, visit: Visit, refusal: Fault | None, receive: Receive, send: Send, line: Line | None
    ) -> None:
        serve = self.services.config.serve
        fault = await self._came(door.protocol, visit, refusal, receive, line)
        gone, make = Gone(receive, line), None
        out = Outlet(send, gone, every=serve.ping, limit=serve.write, line=line)
        try:
            if fault is not None:
                status, body, headers = error_responses.refusal(door.protocol, fault)
                await out.whole(status, body, headers)
            elif door.instead is None or (make := await self._instead(door.instead, visit, gone)) is None:
                with self.services.revocations.guard(visit.caller, gone.end_with):
                    await Turn(self.services, door, visit, out).run(gone)
        except asyncio.CancelledError:
            if not gone.caught():
                raise
            if gone.fault is not None and not out.begun:
                await end_with(out, *error_responses.refusal(door.protocol, gone.fault))
        finally:
            gone.close()
        if make is not None:  # an answer in one piece, which watches over its client itself
            await self._said(Answer(door.protocol, make), None, visit, receive, send)

    async def _instead(self, find: Callable[[Visit], Any], visit: Visit, gone: Gone) -> Any:
        """What answers a visit that wants no turn, if it is such a one."""
        self.services.answering.add(gone)
        try:
            return await visit.offload(partial(find, visit))
        finally:
            self.services.answering.discard(gone)

    async def _came(
        self, protocol: str, visit: Visit, refusal: Fault | None, receive: Receive, line: Line | None = None
    ) -> Fault | None:
        """Read the body of a visit that was let in; what is wrong with either, if anything is."""
        serve = self.services.config.serve
        if refusal is not None:
            self.services.away(visit, protocol, refusal)
            return refusal
        small = line.take_body(serve.body) if line is not None and "content-encoding" not in visit.headers else None
        if small is not None:
            visit.raw = small
            visit.count_body(self.services.body_bytes)
            return None
        try:
            await self._read(visit, receive)
        except PenstockError as error:
            fault = error_responses.fault_of(error)
            self.services.away(visit, protocol, fault)
            return fault
        return None

    async def _read(self, visit: Visit, receive: Receive) -> None:
        serve, reading = self.services.config.serve, Stoppable()
        self.services.answering.add(reading)
        try:
            await read_into(visit, receive, reading, self.services.body_bytes, limit=serve.body, patience=serve.read)
        finally:
            self.services.answering.discard(reading)

    # ── what is no turn ───────────────────────────────────────────────────────────────────────────

    async def _answer(self, answer: Answer, visit: Visit, refusal: Fault | None, receive: Receive, send: Send) -> None:
        fault = await self._came(answer.protocol, visit, refusal, receive)
        if answer.operation and fault is None:
            visit.errand = Errand(answer.operation, answer.protocol)
        await self._said(answer, fault, visit, receive, send)

    async def _said(self, answer: Answer, fault: Fault | None, visit: Visit, receive: Receive, send: Send) -> None:
        serve, named = self.services.config.serve, (b"x-request-id", visit.id.encode())
        gone, status, out = Gone(receive), error_responses.STATUSES["cancelled"], None
        self.services.answering.add(gone)
        try:
            with self.services.revocations.guard(visit.caller, gone.end_with):
                if fault is None:
                    status, body, headers = await self._made(answer, visit)
                else:
                    status, body, headers = error_responses.refusal(answer.protocol, fault)
                out = Outlet(send, gone, every=serve.ping, limit=serve.write)
                if isinstance(body, Flow):
                    self.services.answering.discard(gone)  # it ends when what it follows ends
                    await body.out(out, (named,))
                else:
                    await out.whole(status, body, (*headers, named))
        except asyncio.CancelledError:
            if visit.errand is not None:
                visit.errand.failed(gone.fault or ev.Fault("cancelled", gone.left or "the server is stopping"))
            if not gone.caught():
                raise
            if gone.fault is not None:
                out = out or Outlet(send, gone, every=serve.ping, limit=serve.write)
                status = await end_with(out, *error_responses.refusal(answer.protocol, gone.fault))
        finally:
            self.services.answering.discard(gone)
            gone.close()
            if visit.errand is not None:
                self.services.ran(visit, status, out.size if out is not None else 0)

    async def _made(self, answer: Answer, visit: Visit) -> tuple[int, bytes | Flow, Any]:
        why: Exception
        try:
            return 200, await answer.make(self.services, visit), (error_responses.JSON,)
        except PenstockError as error:
            fault, why = error_responses.fault_of(error, answer.protocol), error
        except Exception as error:
            log.exception("an answer at %s failed", visit.path)
            fault, why = error_responses.fault_of(error), error
        if visit.errand is not None:
            visit.errand.failed(fault, why)
        return error_responses.refusal(answer.protocol, fault)

    async def _page(self, visit: Visit, scope: Scope, send: Send, *, known: bool) -> None:
        try:
            status, body, headers = page(self.services, visit, scope, known=known)
        except PenstockError as error:
            status, body, headers = error_responses.refusal(DEFAULT, error_responses.fault_of(error))
        await _whole(send, status, body, headers)

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":  # services that were given may outlive a server
                self.services.closing.clear()
                self.services.stopped = False
                preload(self.services.router.config, self.services.env, client_protocols())  # nothing is served yet
                self._watchdog.start()
            if message["type"] == "lifespan.shutdown":
                self._watchdog.stop()
                if not self._given:
                    await self.services.aclose()
            await send({"type": f"{message['type']}.complete"})
            if message["type"] == "lifespan.shutdown":
                return


async def _whole(send: Send, status: int, body: bytes, headers: Headers) -> None:
    made = [*headers, (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": status, "headers": made})
    await send({"type": "http.response.body", "body": body, "more_body": False})
