"""The ASGI application: admits a request, finds its route, and has it answered. It can be mounted in another app."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from penstock._gateway import error_responses, routes
from penstock._gateway.admin_api import AdminApi, is_admin_path
from penstock._gateway.admin_openapi import describe_api
from penstock._gateway.config import GatewayConfig
from penstock._gateway.endpoints import ClientEndpoint, Headers, IncomingRequest
from penstock._gateway.endpoints.resumed_streams import continue_stream
from penstock._gateway.endpoints.unsupported import NO_RETRY, UnsupportedFeature, find_unsupported
from penstock._gateway.journal import AuxRequest
from penstock._gateway.lifecycle import LoopWatchdog, preload
from penstock._gateway.request_body import read_request_body
from penstock._gateway.routes import Handler, Route
from penstock._gateway.services import Services
from penstock._gateway.stream_resume import LAST_EVENT_ID, read_event_id
from penstock._gateway.turn import ActiveTurn
from penstock._gateway.websocket import WebSocketServer
from penstock._http.direct_response import ResponseChannel, find_channel
from penstock._http.response_writer import (
    NO_CONTENT,
    CancellableTask,
    DisconnectWatch,
    EventStream,
    ResponseWriter,
    end_with_error,
)
from penstock._input_limits import MAX_PATH
from penstock._protocols import DEFAULT
from penstock.errors import PenstockError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, MutableMapping

    from penstock.events import Fault

    Message = MutableMapping[str, Any]
    Scope = MutableMapping[str, Any]
    Receive = Callable[[], Awaitable[Message]]
    Send = Callable[[Message], Awaitable[None]]
    FindHandler = Callable[[IncomingRequest], Any]

log = logging.getLogger("penstock.gateway")


class App:
    """The gateway. It does not close `services` that it was given. `pace` 0 plays packaged streams at full speed.

    Examples:
        >>> from penstock.gateway import GatewayConfig
        >>> app = App(GatewayConfig(), pace=0)  # `uvicorn module:app` serves it
    """

    closes_websockets = True  # after `stopping`, each once its turn has ended

    def __init__(
        self,
        config: GatewayConfig | None = None,
        *,
        services: Services | None = None,
        pace: float | None = None,
        env: Mapping[str, str] | None = None,
    ) -> None:
        config = config or GatewayConfig()
        if pace is not None:
            config = replace(config, serve=replace(config.serve, pace=pace))
        self._keeps_services = services is not None
        self.services: Services = services or Services(config, env=env)
        self._sockets = WebSocketServer(self.services)
        self._admin = AdminApi(self.services, describe_api)
        self._watchdog = LoopWatchdog(self.services.config.log.blocked)
        self.services.metrics.add_counters("loop_blocked", lambda: {(): self._watchdog.blocks})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await self._http(scope, receive, send)
        elif scope["type"] == "lifespan":
            await self._lifespan(receive, send)
        elif scope["type"] == "websocket":
            await self._sockets.serve(routes.mounted_path(scope), scope, receive, send)

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Admit a request, then route it. A refused request is routed only to find the protocol of its error."""
        incoming = IncomingRequest(scope)
        incoming.path = routes.mounted_path(scope)
        if is_admin_path(incoming.path):
            await self._admin.serve(incoming, scope, receive, send)
            return
        if "origin" in incoming.headers:
            send = self._with_cors(scope, send)
        if routes.is_public_page(incoming):
            await self._page(incoming, scope, send, known=False)
            return
        refusal: Fault | None = None
        try:
            self.services.admit(scope, incoming)
        except PenstockError as error:
            refusal = error_responses.fault_from_error(error)
        route = routes.find_route(incoming.method, incoming.path) if len(incoming.path) <= MAX_PATH else Route()
        if route.params:
            incoming.params = route.params
        target = route.endpoint or route.handler
        if target is not None:
            channel = find_channel(scope) if route.endpoint is not None else None
            try:
                fault = refusal or await self._read_request(incoming, receive, channel)
                if fault is not None:
                    self.services.record_refusal(incoming, target.protocol, fault)
                if isinstance(target, ClientEndpoint):
                    await self._turn(target, incoming, fault, receive, send, channel)
                else:
                    await self._respond(target, incoming, fault, receive, send)
            finally:
                incoming.release_body()
        else:
            await self._serve_without_route(incoming, scope, send, route, refusal)

    async def _serve_without_route(
        self, incoming: IncomingRequest, scope: Scope, send: Send, route: Route, refusal: Fault | None
    ) -> None:
        """Answer a request for a page, for something that is not served, or for nothing that is known."""
        if refusal is not None:
            await _send_response(send, *error_responses.error_response(routes.error_protocol(incoming.path), refusal))
        elif (feature := find_unsupported(route.path, incoming.headers)) is not None:
            await self._refuse_unsupported(feature, incoming, send)
        else:
            await self._page(incoming, scope, send, known=route.known)

    async def _refuse_unsupported(self, feature: UnsupportedFeature, incoming: IncomingRequest, send: Send) -> None:
        """Answer a request for something that is not served. Its body is not read."""
        fault = feature.fault
        self.services.record_refusal(incoming, feature.protocol, fault)
        status, body, headers = error_responses.error_response(feature.protocol, fault)
        await _send_response(send, status, body, (*headers, NO_RETRY))

    def _with_cors(self, scope: Scope, send: Send) -> Send:
        """Return a `send` that adds CORS headers, if the page's origin is allowed."""
        more = self.services.access.cors(scope)

        async def send_with_cors(message: Message) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message["headers"], *more]}
            await send(message)

        return send_with_cors if more else send

    def pause_watchdog(self) -> None:
        """Do not report that the event loop is blocked: the server is starting."""
        self._watchdog.stop()

    def resume_watchdog(self) -> None:
        """Report it again."""
        self._watchdog.start()

    def stopping(self) -> None:
        """Close WebSockets after their current turn, because the server stops."""
        self.services.closing.set()

    def end_answers(self) -> None:
        """End unfinished answers: their time to finish is over."""
        self.services.end_answers()

    # ── turns ─────────────────────────────────────────────────────────────────────────────────────

    async def _turn(
        self,
        endpoint: ClientEndpoint,
        incoming: IncomingRequest,
        fault: Fault | None,
        receive: Receive,
        send: Send,
        channel: ResponseChannel | None,
    ) -> None:
        gone, make = DisconnectWatch(receive, channel), None
        out = self._response_writer(send, gone, channel)
        try:
            if fault is not None:
                status, body, headers = error_responses.error_response(endpoint.protocol, fault)
                await out.send_response(status, body, headers)
            elif LAST_EVENT_ID in incoming.headers and read_event_id(incoming) is not None:
                make = continue_stream
            elif (make := await self._find_handler(endpoint.find_alternative, incoming, gone)) is None:
                with self.services.revocations.guard(incoming.caller, gone.cancel_with):
                    await ActiveTurn(self.services, endpoint, incoming, out, watch=gone).run(gone)
        except asyncio.CancelledError:
            if not gone.absorb_cancellation():
                raise
            if gone.fault is not None and not out.started:
                await end_with_error(out, *error_responses.error_response(endpoint.protocol, gone.fault))
        finally:
            gone.close()
        if make is not None:  # `_respond` has its own watch for disconnects
            await self._respond(Handler(endpoint.protocol, make), incoming, None, receive, send)

    def _response_writer(
        self, send: Send, gone: DisconnectWatch, channel: ResponseChannel | None = None
    ) -> ResponseWriter:
        serve = self.services.config.serve
        return ResponseWriter(send, gone, keep_alive=serve.ping, stuck_limit=serve.write, channel=channel)

    async def _find_handler(self, find: FindHandler | None, incoming: IncomingRequest, gone: DisconnectWatch) -> Any:
        """Return the handler of a request that needs no turn, or None."""
        if find is None:
            return None
        self.services.active.add(gone)
        try:
            return await incoming.offload(lambda: find(incoming))
        finally:
            self.services.active.discard(gone)

    async def _read_request(
        self, incoming: IncomingRequest, receive: Receive, channel: ResponseChannel | None
    ) -> Fault | None:
        """Read the body of an admitted request. Returns its fault, if there is one."""
        serve, budget, reading = self.services.config.serve, self.services.body_bytes, CancellableTask()
        compressed = "content-encoding" in incoming.headers
        small = channel.take_body(serve.body) if channel is not None and not compressed else None
        if small is not None:
            incoming.raw = small
            incoming.count_body(budget)
            return None
        self.services.active.add(reading)
        try:
            await read_request_body(incoming, receive, reading, budget, limit=serve.body, patience=serve.read)
        except PenstockError as error:
            return error_responses.fault_from_error(error)
        finally:
            self.services.active.discard(reading)
        return None

    # ── other requests ───────────────────────────────────────────────────────────────────────────

    async def _respond(
        self, handler: Handler, incoming: IncomingRequest, fault: Fault | None, receive: Receive, send: Send
    ) -> None:
        gone, id_header = DisconnectWatch(receive), (b"x-request-id", incoming.id.encode())
        out, status = self._response_writer(send, gone), error_responses.STATUSES["cancelled"]
        if handler.operation and fault is None:
            incoming.aux_request = AuxRequest(handler.operation, handler.protocol)
        self.services.active.add(gone)
        try:
            with self.services.revocations.guard(incoming.caller, gone.cancel_with):
                if fault is None:
                    status, body, headers = await self._call_handler(handler, incoming)
                else:
                    status, body, headers = error_responses.error_response(handler.protocol, fault)
                if isinstance(body, EventStream):
                    self.services.active.discard(gone)  # it ends with the response that it follows
                    await body.send_to(out, (id_header,))
                else:
                    await out.send_response(status, body, (*headers, id_header))
        except asyncio.CancelledError:
            if incoming.aux_request is not None:
                incoming.aux_request.set_fault(error_responses.cancellation_fault(gone))
            if not gone.absorb_cancellation():
                raise
            if gone.fault is not None:
                status = await end_with_error(out, *error_responses.error_response(handler.protocol, gone.fault))
        finally:
            self.services.active.discard(gone)
            gone.close()
            if incoming.aux_request is not None:
                self.services.finish_aux_request(incoming, status, out.body_size)

    async def _call_handler(self, handler: Handler, incoming: IncomingRequest) -> tuple[int, bytes | EventStream, Any]:
        why: Exception
        try:
            body = await handler.make(self.services, incoming)
        except PenstockError as error:
            fault, why = error_responses.fault_from_error(error, handler.protocol), error
        except Exception as error:
            log.exception("an answer at %s failed", incoming.path)
            fault, why = error_responses.fault_from_error(error), error
        else:
            more: Headers = incoming.aux_request.headers if incoming.aux_request is not None else ()
            if isinstance(body, bytes) and not body:
                return NO_CONTENT, body, more
            return 200, body, (error_responses.JSON, *more)
        if incoming.aux_request is not None:
            incoming.aux_request.set_fault(fault, why)
        return error_responses.error_response(handler.protocol, fault)

    async def _page(self, incoming: IncomingRequest, scope: Scope, send: Send, *, known: bool) -> None:
        try:
            status, body, headers = routes.serve_page(self.services, incoming, scope, known=known)
        except PenstockError as error:
            status, body, headers = error_responses.error_response(DEFAULT, error_responses.fault_from_error(error))
        await _send_response(send, status, body, headers)

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":  # services that were given may outlive a server
                self.services.closing.clear()
                self.services.stopped = False
                engine_config = self.services.upstream.router.config
                preload(engine_config, self.services.env, routes.client_protocols())  # nothing is served yet
                self.services.start()
                self._watchdog.start()
            if message["type"] == "lifespan.shutdown":
                self._watchdog.stop()
                if not self._keeps_services:
                    await self.services.aclose()
            await send({"type": f"{message['type']}.complete"})
            if message["type"] == "lifespan.shutdown":
                return


async def _send_response(send: Send, status: int, body: bytes, headers: Headers) -> None:
    fields = [*headers, (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": status, "headers": fields})
    await send({"type": "http.response.body", "body": body, "more_body": False})
