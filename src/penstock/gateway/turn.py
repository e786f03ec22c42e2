"""One turn: a request is opened at a provider, and every read of the answer becomes one write to the client.

Leans on the router for the answer, on `writing` for its form, on `outlet` for its way out, on `cancel` for clients that
leave. Whatever happens, the upstream is let go of and the turn is noted, once.
"""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from penstock import events as ev
from penstock import protocols
from penstock.engines.request_plan import pass_headers
from penstock.errors import InputError, PenstockError
from penstock.fold import Fold
from penstock.framing import WRITERS
from penstock.gateway import error_responses
from penstock.gateway.client_stream import Passthrough, Translation, client_stream, tees, whole
from penstock.gateway.endpoints import Asked
from penstock.gateway.journal import Turn as Row
from penstock.gateway.journal import cost
from penstock.gateway.reasoning_capture import Keeping, SealedContent
from penstock.gateway.relay import Streaming
from penstock.http_errors import redact_fault
from penstock.messages import foreign_state
from penstock.messages.state import remember, seal_rows

if TYPE_CHECKING:
    from penstock.engines.interface import Job
    from penstock.engines.reply import Reply
    from penstock.engines.retries import Wait
    from penstock.gateway.endpoints import Door, Visit
    from penstock.gateway.services import Services
    from penstock.http.disconnect import Gone
    from penstock.http.response_writer import Outlet
    from penstock.messages.context import Cleared
    from penstock.store.journal import Status
    from penstock.transforms.remote_files import RemoteFiles

log = logging.getLogger("penstock.gateway")
LOSSES = 20  # names of losses that a header holds
LAST_WORDS = 0.5  # seconds that a client has to take the end of an answer that may not go on
WORTH = 1.0  # seconds: a shorter wait is not worth a word, nor the head of an answer that may yet be a refusal
# What a provider may want back: reasoning, what only it understands, and what came with a call.
STATE = frozenset({ev.ReasoningEnd, ev.Opaque, ev.CallEnd})


class Turn:
    """A turn being answered, and afterwards what there is to tell of it."""

    __slots__ = ("_kept", "_out", "_sealed", "_services", "asked", "door", "fault", "first", "reply", "status",
                 "streaming", "tap", "tape", "teed", "ticket", "visit", "way")  # fmt: skip

    def __init__(self, services: Services, door: Door, visit: Visit, out: Outlet) -> None:
        self.door, self.visit = door, visit
        self.asked: Asked | None = None
        self.reply: Reply | None = None
        self.fault: ev.Fault | None = None
        self.status = 200
        self.first = 0.0  # seconds to the first content
        self.teed = False
        self.streaming: Streaming | None = None
        self.way: Translation | Passthrough | None = None
        self.ticket: Any = None
        self.tape: Any = None
        self.tap: Any = None  # of somebody who watches
        self._services = services
        self._out = out
        self._kept: Keeping | None = None
        self._sealed: SealedContent | None = None

    @property
    def out(self) -> Outlet:
        return self._out

    @property
    def malformed(self) -> int:
        """Frames of the provider that could not be read: withheld from the client, or skipped by the decoder."""
        if isinstance(self.way, Passthrough):
            return self.way.withheld
        return self.reply.malformed if self.reply is not None else 0

    async def run(self, gone: Gone) -> None:
        """All of it."""
        self._services.answering.add(gone)
        try:
            await self._answer()
        except asyncio.CancelledError:
            self.fault = gone.fault or ev.Fault("cancelled", gone.left or "the server is stopping")
            if not gone.caught():
                raise
            if gone.fault is not None:
                await self._end_with(gone.fault)
        except PenstockError as error:
            await self._refuse(self._fault(error))
        except Exception as error:
            log.exception("a turn at %s failed", self.visit.path)
            await self._refuse(error_responses.fault_of(error))
        finally:
            self._services.answering.discard(gone)
            self._out.stop()
            if self.reply is not None:
                await self.reply.aclose()
            self._services.note(self)

    async def _answer(self) -> None:
        services, visit = self._services, self.visit
        read = self.door.read(visit) if visit.is_small else await visit.offload(lambda: self.door.read(visit))
        asked = self.asked = read if isinstance(read, Asked) else await read
        if asked.over is not None:
            self._out.around(asked.over)
        asked.request.model = asked.request.model or services.default
        self.ticket = services.enter(visit, asked.request.model)
        self.tape = services.tape(visit, asked)
        self.tap = services.tap(self)
        if asked.request.stream:
            self._out.prepare(asked.framing, (*asked.headers, *self._named()))
        reply = self.reply = await services.open(visit, asked, self)
        visit.forget_body()  # it is converted and sent: long answers must not keep others from asking
        if self.tape is not None:
            self.tape.answered(reply, asked.protocol)
        if self.tap is not None:
            self.tap.on_reply(reply)
        self.first = time.monotonic() - visit.started
        if reply.cleared is not None:
            await self._tell(reply.cleared)
        if reply.protocol != asked.protocol:
            self._kept = Keeping()
        elif reply.protocol == foreign_state.PROTOCOL:
            self._sealed = SealedContent()
        if asked.request.stream:
            services.metrics.opened()
            try:
                await self._stream(asked, reply)
            finally:
                services.metrics.closed()
                self._remember()
        else:
            await self._whole(asked, reply)
            self._remember()

    # ── the answer ────────────────────────────────────────────────────────────────────────────────

    async def _stream(self, asked: Asked, reply: Reply) -> None:
        way = self.way = client_stream(asked, reply)
        self.teed = isinstance(way, Passthrough)
        files = None if self.teed else self._services.stream_files(asked)
        self.streaming = Streaming(
            reply, way, self._out, kept=self._kept or self._sealed, tap=self.tap, tape=self.tape, files=files
        )
        await self.streaming.run()
        self._log_findings(files)

    async def _whole(self, asked: Asked, reply: Reply) -> None:
        events: list[ev.AnyEvent] = []
        raw: list[bytes] = []
        while (pair := await reply.read()) is not None:
            raw.append(pair[0])
            events += pair[1]
            if self.tap is not None:
                self.tap.on_read(pair)
        data = b"".join(raw)
        if self.tape is not None and reply.raw:
            self.tape.chunk(data)
        if isinstance(reply.end, ev.Fault):
            await self._refuse(reply.end)
            return
        keeping = self._kept or self._sealed
        if keeping is not None:
            keeping.add(events)
        self.teed = tees(asked, reply) and data[:1] == b"{"
        files = None if self.teed else self._services.stream_files(asked)
        if files is not None:
            events = await files.fill(events)
            self._log_findings(files)
        body = data if self.teed else whole(asked, events, reply.cleared)
        if self.tape is not None and not reply.raw:
            self.tape.chunk(body)
        await self._out.whole(200, body, (error_responses.JSON, *asked.headers, *self._named(), *self._out.more))

    def chosen(self, job: Job) -> None:
        """Pass the client's headers on, and tell in a header what could not be carried."""
        pass_headers(job, self.visit.headers)
        self._out.more = ((b"x-penstock-losses", ",".join(job.losses[:LOSSES]).encode()),) if job.losses else ()
        if job.diagnostics and log.isEnabledFor(logging.DEBUG):
            for row in job.diagnostics:
                log.debug("%s: %s: %s", self.visit.id, row.code, row.message)

    def _log_findings(self, files: RemoteFiles | None) -> None:
        """Files of an answer that stayed addresses."""
        for row in files.diagnostics if files is not None else ():
            log.info("%s: %s: %s", self.visit.id, row.code, row.message)

    async def waits(self, wait: Wait) -> None:
        """A wait is told to who can hear it."""
        if wait.seconds >= WORTH:
            await self._tell(wait)

    async def _tell(self, told: Wait | Cleared) -> None:
        asked = self.asked
        if asked is not None and asked.notice is not None and asked.request.stream:
            said = asked.notice(told)
            if self.tap is not None:
                self.tap.on_notice(said)
            await self._out.say(b"".join(WRITERS[asked.framing]().feed([(b"", said)])))

    def _named(self) -> tuple[tuple[bytes, bytes], ...]:
        return ((b"x-request-id", self.visit.id.encode()),)

    # ── the end ───────────────────────────────────────────────────────────────────────────────────

    def _fault(self, error: PenstockError) -> ev.Fault:
        """The fault of an error; a model that means nobody is not found."""
        if type(error) is InputError and self.asked is not None and not self._services.means(self.asked.request.model):
            return error_responses.unknown_model(error)
        return error_responses.fault_of(error, self.door.protocol)

    async def _refuse(self, fault: ev.Fault) -> None:
        """Say no: with a status while there is time for one, else at the end of what was begun."""
        fault = self.fault = redact_fault(fault, self._services.secrets)
        protocol = self.asked.protocol if self.asked is not None else self.door.protocol
        if self.asked is not None and (self._out.begun or self._fails_in_stream(protocol, fault)):
            way = self.way or Translation(self.asked)
            left = self.streaming.leave() if self.streaming is not None else b""
            await self._out.end(left + way.fail(fault) + way.finish())
        else:
            self.status, body, headers = error_responses.refusal(protocol, fault)
            await self._out.whole(self.status, body, (*headers, *self._named()))

    def _fails_in_stream(self, protocol: str, fault: ev.Fault) -> bool:
        """Whether the client's vendor would begin the stream that it refuses. Then the head says who refused."""
        if not self._out.prepared or not protocols.is_error_in_stream(protocol, fault):
            return False
        self._out.more = (*self._out.more, *error_responses.headers_of(fault))
        return True

    async def _end_with(self, fault: ev.Fault) -> None:
        """End an answer that may not go on. The provider is let go of first; a client that does not read is left."""
        if self.reply is not None:
            await self.reply.aclose()
        with suppress(TimeoutError, OSError):
            async with asyncio.timeout(LAST_WORDS):
                await self._refuse(fault)

    def _remember(self) -> None:
        """Keep what the client cannot carry for its next request: also of an answer that broke, what came whole."""
        kept, reply = self._kept, self.reply
        if self._sealed is not None and reply is not None and self._sealed.found:
            rows = seal_rows(self._sealed.found, reply.provider)
            self._services.state.put(self.visit.caller.tenant, rows)
        if kept is None or reply is None or not kept.has(STATE):  # most turns have none
            return
        events = kept.events()
        if any(_has_state(event) for event in events if type(event) in STATE):
            book = Fold()
            book.feed(events)
            mark = self.asked.mark if self.asked is not None else ""
            tenant = self.visit.caller.tenant
            remember(book.whole_turn(), self._services.state, tenant, mark, kept.said, reply.provider)


def _has_state(event: ev.AnyEvent) -> bool:
    return type(event) is ev.Opaque or bool(getattr(event, "extra", None))


_UNSAID = ev.Usage()


def row_of(turn: Turn) -> Row:
    """The row. All of it at once: every turn pays for it."""
    visit, asked, reply = turn.visit, turn.asked, turn.reply
    spent = time.monotonic() - visit.started
    end = turn.fault or (reply.end if reply is not None else None) or _ENDLESS
    finish, fault = (end, None) if isinstance(end, ev.Finish) else (None, end)
    used = (reply.usage if reply is not None else None) or _UNSAID
    return Row(
        time=time.time() - spent, key=visit.caller.key, tenant=visit.caller.tenant, client=visit.client.name,
        route=visit.path, protocol=asked.protocol if asked else turn.door.protocol,
        stream=bool(asked and asked.request.stream), tee=turn.teed, asked=asked.request.model if asked else "",
        user=asked.request.settings.user if asked else "", operation=asked.operation if asked else "",
        http=turn.status, duration=spent, ttft=turn.first if reply else None, request_id=visit.id,
        bytes_in=len(visit.raw), bytes_out=turn.out.size,
        status="finish" if fault is None else _status(turn, fault), finish=finish.reason if finish else "",
        fault=fault.kind if fault else "", fault_message=fault.message if fault else "",
        upstream_id=fault.request_id if fault else "",
        provider=reply.provider if reply else "", model=reply.model if reply else "",
        engine=reply.engine if reply else "", upstream=reply.protocol if reply else "",
        tries=reply.record.tries if reply else 0, decisions="\n".join(reply.record.lines()) if reply else "",
        input=used.input, output=used.output, cached=used.cached, written=used.written, reasoning=used.reasoning,
        exact=used.exact, cost=_cost(turn, reply) if reply else None,
        malformed=turn.malformed,
    )  # fmt: skip


def _cost(turn: Turn, reply: Reply) -> float | None:
    return cost(turn.visit.services.price_list, reply.provider, reply.model, reply.usage)


_ENDLESS = ev.Fault("truncated", "the turn has no end")


def _status(turn: Turn, fault: ev.Fault) -> Status:
    if fault.kind == "cancelled":
        return "cancelled"
    return "fault" if turn.reply is not None else "refused"
