"""The ASGI application, bare: reads a request, plays the script it names in the client's own protocol.

Leans on the core for every byte it writes. A client that leaves ends its stream at once.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from typing import TYPE_CHECKING, Any

import msgspec

from penstock import events as ev
from penstock import pick, protocols
from penstock.bridge import encoding
from penstock.gateway.pages import MODELS, page
from penstock.gateway.routes import ROUTES, Asked, Route
from penstock.replay import offered, play, scripts

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, MutableMapping

    Scope = MutableMapping[str, Any]
    Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
    Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

BODY_LIMIT = 32 * 1024 * 1024
PREFIX = "replay/"
JSON = (b"content-type", b"application/json")
SSE = (
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),
)
_DELTAS = (ev.TextDelta, ev.ReasoningDelta, ev.RefusalDelta, ev.CallDelta)


class App:
    """`pace` is the time between two deltas in seconds; 0 plays at full speed."""

    def __init__(self, *, pace: float = 0.02) -> None:
        self._pace = pace
        self._routes = {route.path: route for route in ROUTES}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await _lifespan(receive, send)
        elif scope["type"] == "http":
            await self._http(scope, receive, send)

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        path, method = scope["path"].rstrip("/") or "/", scope["method"]
        route = self._routes.get(path)
        if route is not None and method == "POST":
            await self._answer(route, receive, send)
        elif route is not None:
            await _reply(send, 405, b'{"error":{"message":"this address takes POST"}}', JSON)
        else:
            status, body, kind = page(path, dict(scope["headers"]))
            await _reply(send, status, body, kind)

    async def _answer(self, route: Route, receive: Receive, send: Send) -> None:
        raw = await _body(receive)
        if raw is None:
            await self._refuse(route, send, 413, ev.Fault("too-large", f"the body is over {BODY_LIMIT} bytes"))
            return
        try:
            body = msgspec.json.decode(raw)
        except msgspec.DecodeError as error:
            await self._refuse(route, send, 400, ev.Fault("invalid", f"the body is not JSON: {error}"))
            return
        asked = route.read(pick.as_object(body))
        name = _script(asked)
        if name not in scripts():
            message = f"no model {asked.model!r} here; there are: {', '.join(MODELS)}"
            await self._refuse(route, send, 404, ev.Fault("not-found", message, code="model_not_found"))
            return
        model = asked.model or f"{PREFIX}{name}"
        events = play(name, id=uuid.uuid4().hex[:12], model=model, created=int(time.time()), asked=len(raw) // 4)
        await (self._stream if asked.stream else self._whole)(route, asked, events, receive, send)

    async def _stream(
        self, route: Route, asked: Asked, events: list[ev.AnyEvent], receive: Receive, send: Send
    ) -> None:
        pipe = encoding(route.protocol, asked.options)
        gone = asyncio.ensure_future(_gone(receive))
        await send({"type": "http.response.start", "status": 200, "headers": [*SSE, *route.headers]})
        try:
            for event in events:
                for chunk in pipe.feed([event]):
                    await send({"type": "http.response.body", "body": chunk, "more_body": True})
                if self._pace and isinstance(event, _DELTAS):
                    await asyncio.wait({gone}, timeout=self._pace)
                if gone.done():
                    return
            await send({"type": "http.response.body", "body": b"".join(pipe.finish()), "more_body": False})
        finally:
            gone.cancel()

    async def _whole(self, route: Route, asked: Asked, events: list[ev.AnyEvent], _: Receive, send: Send) -> None:
        fault = events[-1]
        status = (fault.status or 500) if isinstance(fault, ev.Fault) else 200
        await _reply(send, status, _body_of(route, asked.options, events), JSON)

    async def _refuse(self, route: Route, send: Send, status: int, fault: ev.Fault) -> None:
        await _reply(send, status, _body_of(route, {}, [ev.Start(), fault]), JSON)


def _body_of(route: Route, options: dict[str, Any], events: list[ev.AnyEvent]) -> bytes:
    """A turn as one body of the client's protocol; the UI stream has none, so its stream stands in."""
    whole = protocols.protocol(route.protocol).body
    pipe = encoding(route.protocol, options, frames=whole is not None)
    out = [*pipe.feed(events), *pipe.finish()]
    return whole(out) if whole is not None else b"".join(out)


def _script(asked: Asked) -> str:
    if asked.answered:
        return "after-tool"
    name = asked.model.removeprefix(PREFIX)
    return name if name in offered() else "" if asked.model.startswith(PREFIX) else "text"


async def _body(receive: Receive) -> bytes | None:
    pieces: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        pieces.append(message.get("body", b""))
        size += len(pieces[-1])
        if size > BODY_LIMIT:
            return None
        if not message.get("more_body"):
            return b"".join(pieces)


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _reply(send: Send, status: int, body: bytes, kind: tuple[bytes, bytes]) -> None:
    headers = [kind, (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": False})


async def _lifespan(receive: Receive, send: Send) -> None:
    while True:
        message = await receive()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return
