"""One turn: opens a request at a provider and writes the answer to the client, one write for each read.

However a turn ends, the upstream connection is released and the turn is journaled once. `internal_turn` has turns
without an HTTP client.
"""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penstock import _protocols as protocols
from penstock import events as ev
from penstock._engines.request_plan import forward_headers
from penstock._fold import Fold
from penstock._framing import WRITERS
from penstock._gateway import error_responses
from penstock._gateway.client_stream import Passthrough, Translation, can_pass_through, client_stream, encode_body
from penstock._gateway.endpoints import ClientEndpoint, IncomingRequest, TurnRequest
from penstock._gateway.journal import request_columns
from penstock._gateway.relay import CiphertextCapture, ReasoningCapture, ReplyCapture, StreamRelay
from penstock._gateway.turn_columns import refusal_columns, reply_columns
from penstock._http.response_writer import DisconnectWatch, ResponseWriter, write_timeout
from penstock._http_errors import redact_fault
from penstock._messages import foreign_state
from penstock._messages.carried_state import encrypted_rows, remember
from penstock._store.journal import JournalEntry as Row
from penstock.errors import InputError, PenstockError

if TYPE_CHECKING:
    from penstock._client.answer_cache import CachedReply
    from penstock._engines.engine_interface import DecisionLog, UpstreamRequest
    from penstock._engines.failure_policy import RetryWait
    from penstock._engines.reply import ModelReply
    from penstock._gateway.limits import LimitSlot
    from penstock._gateway.recordings import RecordingSession
    from penstock._gateway.services import Services
    from penstock._gateway.stream_resume import StreamTap
    from penstock._gateway.token_estimators import LimitWarning
    from penstock._gateway.turn_cache import CachedTurn
    from penstock._media import RemoteFiles
    from penstock._messages.context_trimming import Cleared

log = logging.getLogger("penstock.gateway")
MAX_LOSSES = 20  # names of losses in the header x-penstock-losses
END_TIMEOUT = 0.5  # seconds for writing the error that ends an answer early
MIN_WAIT_NOTICE = 1.0  # seconds: a notice sends the response head, after which the status can no longer be an error
# Events with state that a provider may expect back: reasoning, opaque parts, extras of calls.
STATE_EVENTS = frozenset({ev.ReasoningEnd, ev.Opaque, ev.CallEnd})
_NO_END = ev.Fault("truncated", "the turn has no end")


@dataclass(slots=True, eq=False)
class ActiveTurn:
    """A turn while it is answered; afterwards its result, for the journal and the inspector."""

    services: Services
    endpoint: ClientEndpoint
    incoming: IncomingRequest
    out: ResponseWriter
    turn_request: TurnRequest | None = None
    reply: ModelReply | None = None
    fault: ev.Fault | None = None
    status: int = 200
    first_content: float = 0.0  # seconds from the request to the first content
    passthrough: bool = False
    relay: StreamRelay | None = None
    decisions: DecisionLog | None = None  # of the router, also if no provider answers
    writer: Translation | Passthrough | None = None
    slot: LimitSlot | None = None
    recording: RecordingSession | None = None
    observer: Any = None  # sees every read: the inspector, the trace log
    warning: LimitWarning | None = None  # set if the prompt may be near the model's input limit
    answer: ReplyCapture | None = None  # the answer, for the token estimator and for limits
    usage: ev.Usage | None = None  # what a limited turn has used
    watch: DisconnectWatch | None = None  # of a client over HTTP, whose stream can be kept
    tap: StreamTap | None = None  # keeps the stream
    cached: CachedTurn | None = None  # the response cache for this turn
    price_factor: float = 1.0  # of the last request that was sent: a tier of service may have its own price
    is_hit: bool = False  # the answer came from the response cache
    _capture: ReasoningCapture | None = None
    _ciphertexts: CiphertextCapture | None = None

    @property
    def malformed(self) -> int:
        """The number of malformed frames from the provider: withheld from the client, or skipped by the decoder."""
        if isinstance(self.writer, Passthrough):
            return self.writer.withheld
        return self.reply.malformed if self.reply is not None else 0

    async def run(self, gone: DisconnectWatch) -> None:
        """Answer the request. `gone` cancels this task when the client disconnects or the server stops."""
        self.services.active.add(gone)
        try:
            await self._answer()
        except asyncio.CancelledError:
            self.fault = error_responses.cancellation_fault(gone)
            if not gone.absorb_cancellation():
                raise
            if gone.fault is not None:
                await self._end_with_error(gone.fault)
        except PenstockError as error:
            if self.warning is not None:
                await self.warning.wait()
            await self._refuse(self._convert_error(error))
        except Exception as error:
            log.exception("a turn at %s failed", self.incoming.path)
            await self._refuse(error_responses.fault_from_error(error))
        finally:
            self.services.active.discard(gone)
            self.out.stop_keep_alives()
            try:
                if self.reply is not None:
                    await self.reply.aclose()
            finally:  # the slot is freed even if that fails or is cancelled
                if self.tap is not None:
                    self.tap.close(self.fault)
                self._finish()

    async def _answer(self) -> None:
        services, incoming = self.services, self.incoming
        read = await incoming.offload(lambda: self.endpoint.read(incoming))
        turn_request = self.turn_request = read if isinstance(read, TurnRequest) else await read
        turn_request.request.model = turn_request.request.model or services.catalogue.default_model
        self._wrap_send(turn_request)
        hit = await self._find_cached(turn_request) if services.cache.enabled else None
        self.is_hit = hit is not None
        if hit is None:
            self.slot = await services.reserve_turn(incoming, turn_request.request)
        self.recording = services.record(incoming, turn_request)
        self.observer = services.observe(self)
        self.warning = services.warn_of_limit(incoming, turn_request.request, self.out)
        if turn_request.request.stream:
            self.out.prepare_stream(turn_request.framing, (*turn_request.headers, *self._own_headers()))
        reply = self.reply = hit or await services.upstream.open(incoming, turn_request, self)
        if self.warning is not None:
            await self.warning.wait()
        incoming.release_body()  # it is converted and sent; a long answer must not block the budget
        if self.recording is not None:
            self.recording.set_reply(reply, turn_request)
        if self.observer is not None:
            self.observer.on_reply(reply)
        self.first_content = time.monotonic() - incoming.started
        if reply.cleared is not None:
            await self._send_notice(reply.cleared)
        self._start_captures(turn_request, reply)
        if turn_request.request.stream:
            services.metrics.open_streams += 1
            try:
                await self._stream(turn_request, reply)
            finally:
                services.metrics.open_streams -= 1
                self._remember()
        else:
            await self._send_body(turn_request, reply)
            self._remember()
        if self.cached is not None:
            await self.cached.store(reply)

    async def _find_cached(self, turn_request: TurnRequest) -> CachedReply | None:
        """Return the stored answer to an equal request, which costs nothing; None if there is none."""
        cached = self.cached = self.services.cache.begin(self.incoming, turn_request)
        if cached is not None:
            self.incoming.caller.check_model(turn_request.request.model)
            await cached.find()
            self.out.late_headers = cached.header
        return cached.hit if cached is not None else None

    def _wrap_send(self, turn_request: TurnRequest) -> None:
        """Wrap `send` for those who need the bytes of the answer: the log of streams, the endpoint."""
        if self.watch is not None:
            self.tap = self.services.resume.tap(self.incoming, turn_request, self.watch)
        if self.tap is not None:
            self.out.wrap_send(self.tap.wrap_send)
        if turn_request.wrap_send is not None:
            self.out.wrap_send(turn_request.wrap_send)

    def _start_captures(self, turn_request: TurnRequest, reply: ModelReply) -> None:
        limited = self.slot is not None and self.slot.bound is not None
        self.answer = ReplyCapture() if limited or (self.services.estimates.has_room and not self.is_hit) else None
        if reply.protocol != turn_request.protocol:
            self._capture = ReasoningCapture()
        elif reply.protocol == foreign_state.PROTOCOL:
            self._ciphertexts = CiphertextCapture()

    # ── answer ────────────────────────────────────────────────────────────────────────────────

    async def _stream(self, turn_request: TurnRequest, reply: ModelReply) -> None:
        writer = self.writer = client_stream(turn_request, reply)
        self.passthrough = isinstance(writer, Passthrough)
        files = None if self.passthrough else self.services.upstream.stream_files(turn_request)
        capture = self._capture or self._ciphertexts
        answer = self.answer if self.cached is None else self.cached.capture(self.answer)
        self.relay = StreamRelay(reply, writer, self.out, capture, self.observer, self.recording, files, answer)
        await self.relay.run()
        self._log_file_problems(files)

    async def _send_body(self, turn_request: TurnRequest, reply: ModelReply) -> None:
        events: list[ev.AnyEvent] = []
        raw: list[bytes] = []
        while (pair := await reply.read()) is not None:
            raw.append(pair[0])
            events += pair[1]
            if self.observer is not None:
                self.observer.on_read(*pair)
        data = b"".join(raw)
        answer = self.answer if self.cached is None else self.cached.capture(self.answer)
        if answer is not None:
            answer.add(events)
        if self.recording is not None and reply.raw:
            self.recording.add_chunk(data)
        if isinstance(reply.end, ev.Fault):
            await self._refuse(reply.end)
            return
        capture = self._capture or self._ciphertexts
        if capture is not None:
            capture.add(events)
        self.passthrough = can_pass_through(turn_request, reply) and data[:1] == b"{"
        files = None if self.passthrough else self.services.upstream.stream_files(turn_request)
        if files is not None:
            events = await files.fill(events)
            self._log_file_problems(files)
        body = data if self.passthrough else encode_body(turn_request, events, reply.cleared)
        if self.recording is not None and not reply.raw:
            self.recording.add_chunk(body)
        await self.out.send_response(
            200, body, (error_responses.JSON, *turn_request.headers, *self._own_headers(), *self.out.late_headers)
        )

    def route_begins(self, record: DecisionLog) -> None:
        """Keep the record of attempts for the turn's spans."""
        self.decisions = record

    def request_built(self, upstream: UpstreamRequest) -> None:
        """Forward the client's headers to the provider, and name conversion losses in a response header."""
        forward_headers(upstream, self.incoming.headers)
        if self.observer is not None and self.decisions is not None:
            self.observer.on_attempt(upstream, self.decisions)
        self.price_factor = self.services.upstream.price_list.factors.of_upstream(upstream)
        losses = ((b"x-penstock-losses", ",".join(upstream.losses[:MAX_LOSSES]).encode()),) if upstream.losses else ()
        cached = self.cached.header if self.cached is not None else ()
        self.out.late_headers = (*losses, *cached, *self._warning_header())
        if upstream.diagnostics and log.isEnabledFor(logging.DEBUG):
            for row in upstream.diagnostics:
                log.debug("%s: %s: %s", self.incoming.id, row.code, row.message)

    def _log_file_problems(self, files: RemoteFiles | None) -> None:
        """Log files of an answer that could not be fetched."""
        for row in files.diagnostics if files is not None else ():
            log.info("%s: %s: %s", self.incoming.id, row.code, row.message)

    async def retry_waits(self, wait: RetryWait) -> None:
        """Send a notice of a wait before a retry, if the protocol has one."""
        if wait.seconds >= MIN_WAIT_NOTICE:
            await self._send_notice(wait)

    async def retry_begins(self, record: DecisionLog) -> None:
        """Reserve once more if the provider may have answered the last attempt, and charged for it."""
        if self.slot is not None and record.attempts[-1].unsure:
            await self.slot.reserve_retry()

    async def _send_notice(self, notice: RetryWait | Cleared) -> None:
        turn_request = self.turn_request
        if turn_request is not None and turn_request.encode_notice is not None and turn_request.request.stream:
            payload = turn_request.encode_notice(notice)
            if self.observer is not None:
                self.observer.on_notice(payload)
            await self.out.write(b"".join(WRITERS[turn_request.framing]().feed([(b"", payload)])))

    def _own_headers(self) -> tuple[tuple[bytes, bytes], ...]:
        limits = self.slot.headers if self.slot is not None else ()
        return ((b"x-request-id", self.incoming.id.encode()), *limits)

    def _warning_header(self) -> tuple[tuple[bytes, bytes], ...]:
        return self.warning.headers if self.warning is not None else ()

    # ── end ───────────────────────────────────────────────────────────────────────────────────

    def _convert_error(self, error: PenstockError) -> ev.Fault:
        """Return the fault of an error. An input error of an unknown model is reported as not found."""
        model = self.turn_request.request.model if self.turn_request is not None else None
        if type(error) is InputError and model is not None and not self.services.catalogue.is_known(model):
            return error_responses.unknown_model_fault(error)
        return error_responses.fault_from_error(error, self.endpoint.protocol)

    async def _refuse(self, fault: ev.Fault) -> None:
        """Send an error: as a status and body, or, once the response has begun, at the end of the stream."""
        fault = self.fault = redact_fault(fault, self.services.secrets)
        protocol = self.turn_request.protocol if self.turn_request is not None else self.endpoint.protocol
        if self.turn_request is not None and (self.out.started or self._fails_in_stream(protocol, fault)):
            writer = self.writer or Translation(self.turn_request)
            unsent = self.relay.take_unsent() if self.relay is not None else b""
            await self.out.end(unsent + writer.fail(fault) + writer.finish())
        else:
            self.status, body, headers = error_responses.error_response(protocol, fault)
            await self.out.send_response(self.status, body, (*headers, *self._own_headers(), *self._warning_header()))

    def _fails_in_stream(self, protocol: str, fault: ev.Fault) -> bool:
        """Return whether the client's vendor sends this error inside a stream. If so, add the error headers."""
        if not self.out.prepared or not protocols.is_error_in_stream(protocol, fault):
            return False
        self.out.late_headers = (*self.out.late_headers, *error_responses.error_headers(fault))
        return True

    async def _end_with_error(self, fault: ev.Fault) -> None:
        """End an unfinished answer with an error. Releases the provider first; gives up if the client does not read."""
        if self.reply is not None:
            await self.reply.aclose()
        with suppress(TimeoutError, OSError):
            async with write_timeout(END_TIMEOUT):
                await self._refuse(fault)

    def _remember(self) -> None:
        """Store state that the client cannot send back with its next request. Also after a broken answer."""
        capture, reply = self._capture, self.reply
        if self._ciphertexts is not None and reply is not None and self._ciphertexts.ciphertexts:
            rows = encrypted_rows(self._ciphertexts.ciphertexts, reply.provider)
            self.services.reasoning_store.put(self.incoming.caller.tenant, rows)
        if capture is None or reply is None or not capture.has(STATE_EVENTS):  # most turns have none
            return
        events = capture.events()
        states = [event for event in events if type(event) in STATE_EVENTS]
        if any(type(event) is ev.Opaque or getattr(event, "extra", None) for event in states):
            fold = Fold()
            fold.feed(events)
            turn_id = self.turn_request.turn_id if self.turn_request is not None else ""
            tenant, store = self.incoming.caller.tenant, self.services.reasoning_store
            remember(fold.whole_turn(), store, tenant, turn_id, capture.text_key, reply.provider)

    def _finish(self) -> None:
        """Journal the turn, and free its slot."""
        services, reply = self.services, self.reply
        bounds, stream = services.bounds, self.turn_request is not None and bool(self.turn_request.request.stream)
        if self.slot is not None and self.slot.bound is not None:
            self.usage = bounds.turn_usage(self.slot, reply, self.answer, stream=stream)
        row = self.journal_row()
        if self.observer is None and self.fault is not None and self.reply is None:  # it was refused before any attempt
            self.observer = services.observe(self)
        if row.malformed:
            log.warning("%s: %d malformed frames from %s were left out", row.request_id, row.malformed, row.provider)
        if self.slot is not None and self.slot.bound is None:
            self.slot.release()
        elif self.slot is not None:
            unanswered = bounds.unanswered_usage(self.slot, self.decisions, stream=stream)
            bounds.settle_slot(self.slot, self.usage, row.cost, unanswered)
        if self.recording is not None:
            self.recording.close()
        services.telemetry.add_turn(row, self.incoming, self.decisions, throttle=self.slot is None and not self.is_hit)
        self.incoming.log_row(row)
        if self.turn_request is not None and reply is not None and not self.is_hit:
            services.estimates.add_turn(self.turn_request.request, self.answer, reply, row)
        if self.observer is not None:
            self.observer.on_end(self, row)
        if services.watch is not None:
            services.watch.on_journal_row(row)

    def journal_row(self) -> Row:
        """Return the journal row of the finished turn: numbers and names, no content."""
        incoming, request, reply = self.incoming, self.turn_request, self.reply
        end = self.fault or (reply.end if reply is not None else None) or _NO_END
        fields = request_columns(incoming)
        fields["protocol"] = self.endpoint.protocol
        if request is not None:
            fields["protocol"] = request.protocol
            fields["stream"] = bool(request.request.stream)
            fields["asked"] = request.request.model
            fields["user"] = request.request.settings.user
            fields["operation"] = request.operation
        if isinstance(end, ev.Finish):
            is_refusal = reply is not None and reply.refused and end.reason == "stop"
            fields["finish"] = "refusal" if is_refusal else end.reason
        else:
            fields |= {"fault": end.kind, "fault_message": end.message, "upstream_id": end.request_id}
            refused = "fault" if reply is not None else "refused"
            fields["status"] = "cancelled" if end.kind == "cancelled" else refused
        limits = self.slot.decisions if self.slot is not None else ()
        if reply is None:
            fields |= refusal_columns(self.decisions, limits)
        else:
            used, prices = ev.Usage() if self.is_hit else self.usage or reply.usage, self.services.upstream.price_list
            cost = 0.0 if self.is_hit else prices.dollars(reply.provider, reply.model, used, self.price_factor)
            fields |= reply_columns(reply, used, cost, self.first_content, limits)
        return Row(
            tee=self.passthrough,
            http=self._client_status(),
            bytes_out=self.out.body_size,
            malformed=self.malformed,
            **fields,
        )

    def _client_status(self) -> int:
        """Return the HTTP status of the answer. A client that left before any of it was sent has got none: 499."""
        if self.fault is None or self.out.started:
            return self.status
        return error_responses.STATUSES[self.fault.kind]
