"""Addresses below `/inspector` → answers, over ASGI: what the page asks for, and the page itself.

Knows neither turns nor files: routes are handed in. A body is bounded in size and time; a flow ends when its reader
leaves. Every answer has the headers of `answers.SAFE`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, cast

from penstock.errors import PenstockError
from penstock.gateway import error_responses
from penstock.gateway.byte_budget import ByteBudget
from penstock.gateway.callers import refused
from penstock.gateway.endpoints import Visit
from penstock.gateway.request_body import read_into
from penstock.gateway.routes import path_of
from penstock.http.disconnect import Gone, Stoppable
from penstock.http.response_writer import Flow, Outlet, end_with
from penstock.input_limits import MAX_BODY_TOTAL_BYTES
from penstock.inspector.answers import JSON, SAFE, TEXT, encoded
from penstock.inspector.static import INDEX, Pages

if TYPE_CHECKING:
    from penstock.events import Fault
    from penstock.gateway.endpoints import Headers
    from penstock.gateway.services import Services

PREFIX = "/inspector"
BODY = 32 * 2**20  # bytes that may be sent to be looked at
READ = 120.0  # seconds that they may take
PING = 15.0  # silence after which a reader is sent a comment
STUCK = 60.0  # seconds that a reader may take nothing
READING = frozenset({"GET", "HEAD"})
Route: TypeAlias = Callable[[Visit], Awaitable["Said | Flow"]]
log = logging.getLogger("penstock.inspector")


class Said(NamedTuple):
    """An answer in one piece."""

    body: bytes
    headers: Headers = JSON
    status: int = 200


class Serving:
    """The page and its routes. `admit` lets a visit in, or raises why not: it is told whether a key is asked for.

    A route is named by its method and its address, in which every second word is a name: `("GET", "turns/*/frames/*")`.
    """

    def __init__(
        self, routes: Mapping[tuple[str, str], Route], admit: Callable[[Any, Visit, bool], None],
        free: frozenset[str] = frozenset(), pages: Pages | None = None,
    ) -> None:  # fmt: skip
        self.pages = pages or Pages()
        self._routes = routes
        self._admit = admit
        self._bytes = ByteBudget(MAX_BODY_TOTAL_BYTES)  # where there is no gateway
        self._free = free  # addresses that ask for no key

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        visit = Visit(scope)
        visit.path = path_of(scope)
        try:
            await self._answer(visit, scope, receive, send)
        finally:
            visit.forget_body()

    async def _answer(self, visit: Visit, scope: Any, receive: Any, send: Any) -> None:
        try:
            said = await self._said(visit, scope, receive)
        except PenstockError as error:
            said = _refusal(error_responses.fault_of(error))
        except Exception as error:
            log.exception("the inspector failed at %s", visit.path)
            said = _refusal(error_responses.fault_of(error))
        if isinstance(said, Flow):
            await self._flow(said, visit, receive, send)
        else:
            await _whole(said, send, head=visit.method == "HEAD")

    async def _said(self, visit: Visit, scope: Any, receive: Any) -> Said | Flow:
        self._admit(scope, visit, False)  # noqa: FBT003 — size, Host and Origin, before anything is looked up
        page = self._page(visit)
        if page is not None:
            return page
        words = visit.path.removeprefix(PREFIX).strip("/").split("/")
        shape = "/".join("*" if place % 2 else word for place, word in enumerate(words))
        if shape not in self._free:
            self._admit(scope, visit, True)  # noqa: FBT003 — and its key
        route = self._routes.get(("GET" if visit.method == "HEAD" else visit.method, shape))
        if route is None:
            known = any(where == shape for _, where in self._routes)
            said = "this address takes another method" if known else "nothing is served at this address"
            raise refused(405, "invalid", said) if known else refused(404, "not-found", said)
        visit.params = dict(zip(("one", "two"), words[1::2], strict=False))
        if visit.method == "POST":
            budget = cast("Services", visit.services).body_bytes if visit.services is not None else self._bytes
            await read_into(visit, receive, Stoppable(), budget, limit=BODY, patience=READ)
        return await route(visit)

    def _page(self, visit: Visit) -> Said | None:
        """A file of the page, if that is what is asked for. It needs no key: there is nothing of anybody's in it."""
        name = INDEX if visit.path == "/" else visit.path.removeprefix(f"{PREFIX}/")
        found = self.pages.get(name) if visit.method in READING else None
        return Said(*found) if found is not None else None

    async def _flow(self, flow: Flow, visit: Visit, receive: Any, send: Any) -> None:
        gone = Gone(receive)
        out = Outlet(send, gone, every=PING, limit=STUCK)
        try:
            with _guard(visit, gone):
                await flow.out(out, SAFE)
        except asyncio.CancelledError:
            if not gone.caught():
                raise
            if gone.fault is not None:
                await end_with(out, *error_responses.refusal("", gone.fault))
        finally:
            gone.close()
            close: Any = getattr(flow.chunks, "aclose", None)
            if close is not None:
                await close()


def _guard(visit: Visit, gone: Gone) -> AbstractContextManager[None]:
    """End a feed whose reader is no longer let in."""
    if visit.services is None:
        return nullcontext()
    return cast("Services", visit.services).revocations.guard(visit.caller, gone.end_with, open_ended=True)


def text(said: str) -> Said:
    """A text by itself."""
    return Said(said.encode("utf-8", "replace"), TEXT)


def _refusal(fault: Fault) -> Said:
    body = encoded({"error": {"message": fault.message, "code": fault.code or fault.kind}})
    return Said(body, (*JSON, *error_responses.headers_of(fault)), error_responses.status_of(fault, ""))


async def _whole(said: Said, send: Any, *, head: bool) -> None:
    made = [*said.headers, *SAFE, (b"content-length", b"%d" % len(said.body))]
    await send({"type": "http.response.start", "status": said.status, "headers": made})
    await send({"type": "http.response.body", "body": b"" if head else said.body, "more_body": False})
