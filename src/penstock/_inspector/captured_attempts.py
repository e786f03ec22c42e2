"""Both halves of a captured turn's request: what the client sent, and what each attempt sent to a provider and got.

While the turn runs only references are kept. `CapturedAttempt` is made when somebody looks: plain data without secrets.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from penstock._diagnostics import Diagnostic
from penstock._engines.attempt_trace import AttemptTrace, begin_trace
from penstock._engines.engine_interface import Decision, DecisionLog
from penstock._gateway.endpoints import IncomingRequest
from penstock._inspector.turn_endings import LastAttempt
from penstock._redaction import MARK, cut_bytes, is_secret_name, redact, redact_bytes, redact_headers

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock._engines.engine_interface import UpstreamRequest

MAX_UPSTREAM_BODY_BYTES = 8 * 2**20  # of one attempt's request
MAX_ATTEMPTS = 20  # of one turn; of further ones the last is kept
_NO_TRACES: list[AttemptTrace] = []  # of an attempt whose turn has ended
_CHOICES = frozenset({"route", "operation", "engine", "skip"})  # kinds of decisions about the next attempt


class AttemptTiming(msgspec.Struct, omit_defaults=True):
    """Seconds. `start` counts from the client's request; `end` is None while the attempt runs, or if it answered.

    `dns`, `connect` and `tls` are durations; None if they were not measured or did not happen. `first_byte` is the
    time from `start` to the head of the response.
    """

    start: float
    reused: bool = False
    dns: float | None = None
    connect: float | None = None
    tls: float | None = None
    first_byte: float | None = None
    end: float | None = None


class CapturedAttempt(msgspec.Struct, omit_defaults=True, kw_only=True):
    """One attempt at a provider, without secrets.

    `sent` is False if the engine answers without HTTP: then `body` is empty. `reasons` are the decisions that led to
    the attempt, `decisions` those that followed it. `losses` are the diagnostics of writing the request.
    """

    provider: str
    model: str
    protocol: str
    operation: str
    engine: str
    sent: bool
    method: str = ""
    url: str = ""
    headers: dict[str, str] = {}
    body: str = ""
    body_size: int = 0
    body_cut: bool = False
    status: int = 0
    response_headers: dict[str, str] = {}
    error: str = ""
    message: str = ""
    error_body: str = ""
    reasons: list[Decision] = []
    decisions: list[Decision] = []
    losses: list[Diagnostic] = []
    timing: AttemptTiming


class RequestCapture(msgspec.Struct, eq=False):
    """The request of one turn, as the client sent it and as the attempts sent it."""

    _incoming: IncomingRequest
    _traces: list[AttemptTrace] = []
    _decisions: Sequence[Decision] = ()

    # ── called by the turn ──────────────────────────────────────────────────────────────────────────

    def on_attempt(self, upstream: UpstreamRequest, record: DecisionLog) -> None:
        """A request is built. The router and the engine fill in its trace."""
        traces, decisions = self._traces, record.decisions
        self._decisions = decisions
        if len(traces) >= MAX_ATTEMPTS:
            del traces[-1]
        upstream.trace = begin_trace(upstream, traces, len(decisions))

    def finish_attempts(self) -> int:
        """The turn has ended. Returns the bytes that are kept; equal bodies of two attempts are kept once."""
        headers: Mapping[str, str] = self._incoming.headers
        texts = [*headers, *headers.values()]
        size = 0
        last: bytes | None = None
        for trace in self._traces:
            headers = trace.response_headers
            texts += headers
            texts += headers.values()
            trace.traces = _NO_TRACES  # objects that refer to each other wait for the garbage collector
            body = trace.body
            if body is not None:
                length = len(body)
                if length > MAX_UPSTREAM_BODY_BYTES:
                    trace.cut_from = length
                    trace.body = body = self._cut_body(trace, body)
                    length = len(body)
                if body == last:
                    trace.body = last
                else:
                    last = body
                    size += length
            if trace.error_body:
                size += len(trace.error_body)
        return size + len("".join(texts))  # faster than the sum of their lengths

    def _cut_body(self, trace: AttemptTrace, body: bytes) -> bytes:
        """Returns the beginning of a long body. Half a secret would not be recognised later, so none is left there."""
        return cut_bytes(body, MAX_UPSTREAM_BODY_BYTES, (*self.known_secrets(), *trace.secrets))

    def drop_attempts(self) -> None:
        """Deletes everything that was sent and received."""
        self._traces.clear()
        self._decisions = ()

    # ── for the inspector ─────────────────────────────────────────────────────────────────────────

    def known_secrets(self) -> tuple[str, ...]:
        """Returns the secrets that are known by value: those of the gateway, and the caller's own key."""
        raise NotImplementedError

    def end_time(self) -> float:
        """Returns when the turn ended, by the monotonic clock; 0 while it runs."""
        raise NotImplementedError

    @property
    def tenant(self) -> str:
        """Whose turn it is."""
        tenant: str = self._incoming.caller.tenant
        return tenant

    @property
    def secret(self) -> str:
        """The key of the client; empty if it has none."""
        secret: str = self._incoming.caller.secret
        return secret

    @property
    def method(self) -> str:
        """The client's method."""
        return self._incoming.method

    @property
    def path(self) -> str:
        """The client's path and query, without secrets."""
        incoming = self._incoming
        path, query = incoming.path, incoming.query_string.decode("latin-1")
        return redact(f"{path}?{_redact_query(query)}" if query else path, self.known_secrets())

    @property
    def client_headers(self) -> dict[str, str]:
        """The client's headers, without secrets."""
        return redact_headers(self._incoming.headers, self.known_secrets())

    @property
    def losses(self) -> list[Diagnostic]:
        """What the last request to a provider could not carry, and what was repaired in it; empty if none was built."""
        last = self._traces[-1:]  # another thread may clear the list
        return list(last[0].diagnostics) if last else []

    @property
    def last_attempt(self) -> LastAttempt | None:
        """How the last attempt went so far; None if there is none."""
        last = self._traces[-1:]  # another thread may clear the list
        if not last:
            return None
        one = last[0]
        return LastAttempt(one.provider, one.status, one.error[0], one.engine, one.body is not None)

    @property
    def attempts(self) -> list[CapturedAttempt]:
        """The attempts at providers so far, without secrets."""
        traces, decisions, known = list(self._traces), list(self._decisions), self.known_secrets()
        starts = [trace.decision_count for trace in traces]
        groups = [decisions[: starts[0]]] if starts else []
        groups += [decisions[first:last] for first, last in zip(starts, [*starts[1:], None], strict=False)]
        reasons: list[Decision] = groups[0] if groups else []
        made: list[CapturedAttempt] = []
        for trace, group in zip(traces, groups[1:], strict=False):
            late, after, following = _split_decisions(group)
            made.append(self._attempt(trace, [*reasons, *late], after, known))
            reasons = following
        return made

    @property
    def error_bodies(self) -> list[str]:
        """What providers answered to attempts that failed, without secrets."""
        known, traces = self.known_secrets(), list(self._traces)
        return [_text(trace.error_body, (*known, *trace.secrets)) for trace in traces if trace.error_body]

    def _attempt(
        self, trace: AttemptTrace, reasons: list[Decision], decisions: list[Decision],
        secrets: tuple[str, ...],
    ) -> CapturedAttempt:  # fmt: skip
        known = (*secrets, *trace.secrets)
        url, headers = trace.prepared.describe() if trace.prepared is not None else (trace.url, trace.headers)
        body, sent = trace.body or b"", trace.body is not None
        size = trace.cut_from or len(body)
        if len(body) > MAX_UPSTREAM_BODY_BYTES and not trace.cut_from:  # the turn still runs
            body = self._cut_body(trace, body)
        return CapturedAttempt(
            provider=trace.provider,
            model=trace.model,
            protocol=trace.endpoint.protocol,
            operation=trace.operation,
            engine=trace.engine,
            sent=sent,
            method=trace.method or trace.endpoint.method,
            url=redact(url, known) if sent else "",
            headers=redact_headers(headers, known) if sent else {},
            body=_text(body, known),
            body_size=size,
            body_cut=size > MAX_UPSTREAM_BODY_BYTES,
            status=trace.status,
            response_headers=redact_headers(trace.response_headers, known),
            error=trace.error[0],
            message=redact(trace.error[1], known),
            error_body=_text(trace.error_body, known),
            reasons=reasons,
            decisions=decisions,
            losses=list(trace.diagnostics),
            timing=self._timing(trace),
        )

    def _timing(self, trace: AttemptTrace) -> AttemptTiming:
        end = trace.end
        if not end and not trace.head_at:  # it has not answered
            end = self.end_time()
        return AttemptTiming(
            start=_seconds(self._incoming.started, trace.start) or 0.0,
            reused=trace.reused,
            dns=_seconds(trace.connect_start, trace.resolved),
            connect=_seconds(trace.resolved, trace.connected),
            tls=_seconds(trace.connected, trace.secured),
            first_byte=_seconds(trace.start, trace.head_at),
            end=_seconds(self._incoming.started, end),
        )


def _seconds(start: float, end: float) -> float | None:
    """Returns the time between two moments; None if one of them did not happen."""
    return round(end - start, 6) if start and end else None


def _redact_query(query: str) -> str:
    """Returns a query string without the values of parameters whose names tell of a secret."""
    fields = (field.partition("=") for field in query.split("&"))
    return "&".join(f"{name}={MARK}" if is_secret_name(name) else name + sign + value for name, sign, value in fields)


def _text(data: bytes, secrets: tuple[str, ...]) -> str:
    return redact_bytes(data, secrets).decode("utf-8", "replace")


def _split_decisions(group: list[Decision]) -> tuple[list[Decision], list[Decision], list[Decision]]:
    """Splits the decisions since an attempt was built: before it was sent, its outcome, the choice of the next."""
    begin = next((at for at, one in enumerate(group) if one.what not in _CHOICES), len(group))
    end = next((at for at in range(begin, len(group)) if group[at].what in _CHOICES), len(group))
    return group[:begin], group[begin:end], group[end:]
