"""One turn: a request is opened at a provider, and every read of the answer becomes one write to the client.

Leans on the router for the answer, on `writing` for its form, on `outlet` for its way out, on `cancel` for clients that
leave. Whatever happens, the upstream is let go of and the turn is noted, once.
"""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING, Any

from penstock import events as ev
from penstock.errors import InputError, PenstockError
from penstock.fold import fold
from penstock.gateway import refusing, writing
from penstock.gateway.keeping import Keeping
from penstock.gateway.outlet import BODY
from penstock.messages.state import remember

if TYPE_CHECKING:
    from penstock.engines.reply import Reply
    from penstock.gateway.cancel import Gone
    from penstock.gateway.doors.door import Asked, Door, Visit
    from penstock.gateway.outlet import Outlet
    from penstock.gateway.services import Services

log = logging.getLogger("penstock.gateway")
# What a provider may want back: reasoning, what only it understands, and what came with a call.
STATE = frozenset({ev.ReasoningEnd, ev.Opaque, ev.CallEnd})


class Turn:
    """A turn being answered, and afterwards what there is to tell of it."""

    __slots__ = ("_kept", "_out", "_services", "asked", "door", "fault", "first", "reply", "status", "tape", "teed",
                 "ticket", "visit", "way")  # fmt: skip

    def __init__(self, services: Services, door: Door, visit: Visit, out: Outlet) -> None:
        self.door, self.visit = door, visit
        self.asked: Asked | None = None
        self.reply: Reply | None = None
        self.fault: ev.Fault | None = None
        self.status = 200
        self.first = 0.0  # seconds to the first content
        self.teed = False
        self.way: writing.Translation | writing.Tee | None = None
        self.ticket: Any = None
        self.tape: Any = None
        self._services = services
        self._out = out
        self._kept: Keeping | None = None

    @property
    def out(self) -> Outlet:
        return self._out

    async def run(self, gone: Gone) -> None:
        """All of it."""
        try:
            await self._answer()
        except asyncio.CancelledError:
            self.fault = ev.Fault("cancelled", gone.left or "the server is stopping")
            if not gone.caught():
                raise
        except PenstockError as error:
            await self._refuse(self._fault(error))
        except Exception as error:
            log.exception("a turn at %s failed", self.visit.path)
            await self._refuse(refusing.fault_of(error))
        finally:
            self._out.stop()
            if self.reply is not None:
                await self.reply.aclose()
            self._services.note(self)

    async def _answer(self) -> None:
        services, visit = self._services, self.visit
        asked = self.asked = self.door.read(visit)
        if asked.over is not None:
            self._out.send = asked.over(self._out.send)
        asked.request.model = asked.request.model or services.default
        self.ticket = services.enter(visit, asked.request.model)
        self.tape = services.tape(visit, asked)
        if asked.request.stream:
            self._out.prepare(asked.framing, (*asked.headers, *self._named()))
        reply = self.reply = await services.open(visit, asked)
        if self.tape is not None:
            self.tape.answered(reply, asked.protocol)
        self.first = time.monotonic() - visit.started
        if reply.protocol != asked.protocol:
            self._kept = Keeping()
        if asked.request.stream:
            services.metrics.opened()
            try:
                await self._stream(asked, reply)
            finally:
                services.metrics.closed()
        else:
            await self._whole(asked, reply)
        if self._kept is not None:
            self._remember(self._kept.events())

    # ── the answer ────────────────────────────────────────────────────────────────────────────────

    async def _stream(self, asked: Asked, reply: Reply) -> None:
        way = self.way = writing.way(asked, reply)
        self.teed = isinstance(way, writing.Tee)
        out, tape, kept = self._out, self.tape, self._kept
        read, feed, send = reply.read, way.feed, out.send
        data = b""
        await out.begin()
        while (pair := await read()) is not None:
            if kept is not None:
                kept.add(pair[1])
            data = feed(pair)
            if tape is not None:
                tape.chunk(pair[0] if reply.raw else data)
            if reply.end is not None and pair[1] and pair[1][-1] is reply.end:
                break  # the last words and the end are one write
            if data:
                out.count += 1
                out.size += len(data)
                await send({"type": BODY, "body": data, "more_body": True})
                data = b""
        last = way.finish()
        if tape is not None and not reply.raw:
            tape.chunk(last)
        await out.end(data + last)

    async def _whole(self, asked: Asked, reply: Reply) -> None:
        events: list[ev.AnyEvent] = []
        raw: list[bytes] = []
        while (pair := await reply.read()) is not None:
            raw.append(pair[0])
            events += pair[1]
        data = b"".join(raw)
        if self.tape is not None and reply.raw:
            self.tape.chunk(data)
        if isinstance(reply.end, ev.Fault):
            await self._refuse(reply.end)
            return
        if self._kept is not None:
            self._kept.add(events)
        self.teed = writing.tees(asked, reply) and data[:1] == b"{"
        body = data if self.teed else writing.whole(asked, events)
        if self.tape is not None and not reply.raw:
            self.tape.chunk(body)
        await self._out.whole(200, body, (refusing.JSON, *asked.headers, *self._named()))

    def _named(self) -> tuple[tuple[bytes, bytes], ...]:
        return ((b"x-request-id", self.visit.id.encode()),)

    # ── the end ───────────────────────────────────────────────────────────────────────────────────

    def _fault(self, error: PenstockError) -> ev.Fault:
        """The fault of an error; a model that means nobody is not found."""
        if type(error) is InputError and self.asked is not None and not self._services.means(self.asked.request.model):
            return refusing.unknown_model(error)
        return refusing.fault_of(error, self.door.protocol)

    async def _refuse(self, fault: ev.Fault) -> None:
        """Say no: with a status while there is time for one, else at the end of what was begun."""
        self.fault = fault
        protocol = self.asked.protocol if self.asked is not None else self.door.protocol
        if self._out.begun and self.asked is not None:
            way = self.way or writing.Translation(self.asked)
            await self._out.end(way.fail(fault) + way.finish())
        else:
            self.status, body, headers = refusing.refusal(protocol, fault)
            await self._out.whole(self.status, body, (*headers, *self._named()))

    def _remember(self, events: list[ev.AnyEvent]) -> None:
        """Keep what the client cannot carry for its next request."""
        if not isinstance(self.reply and self.reply.end, ev.Finish):
            return
        if any(_has_state(event) for event in events if type(event) in STATE):
            remember(fold(events)[0], self._services.state, self.visit.caller.tenant)


def _has_state(event: ev.AnyEvent) -> bool:
    return type(event) is ev.Opaque or bool(getattr(event, "extra", None))
