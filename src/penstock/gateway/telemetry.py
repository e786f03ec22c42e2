"""What a gateway keeps of its turns, opened and closed together: journal, metrics, spans, recordings, state.

Spans only where the process has set OpenTelemetry up (`OTEL_…`) and the extra `otel` is there.
"""

from __future__ import annotations

import logging
import sqlite3
import time
from typing import TYPE_CHECKING, Any, TypeVar

from penstock.errors import MissingExtra, StreamFault
from penstock.events import Fault
from penstock.gateway.aux_requests import COUNT
from penstock.gateway.config import place_of
from penstock.gateway.journal import Journal
from penstock.gateway.journal_throttle import Sparing
from penstock.gateway.metrics import CALLS, Metrics
from penstock.gateway.recordings import Recorder
from penstock.redaction import redact_cut
from penstock.store.key_value import SqliteRows
from penstock.store.sqlite import ABSENT
from penstock.store.writer import Writer
from penstock.stores import HOUR, Bounds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from penstock.gateway.config import GatewayConfig, StateTable
    from penstock.gateway.limits import Limits
    from penstock.store.journal import Turn

DAY = 86_400.0
log = logging.getLogger("penstock.kept")


class Kept:
    """All of it. `secrets` are those known by value, kept out of everything that is written."""

    def __init__(
        self, config: GatewayConfig, env: Mapping[str, str], secrets: Callable[[], Iterable[str]] = tuple
    ) -> None:
        self.journal = Journal.open(config, secrets)
        self.sparing = Sparing(self.journal.note)
        self.state = State.open(config)
        self.recorder = Recorder(config.record, secrets)
        self.metrics = Metrics(secrets)
        self.spans = _spans(env, secrets)
        self.metrics.gauge("penstock_journal_waiting", "Rows not yet written.", lambda: self.journal.waiting)
        self.metrics.gauge("penstock_journal_lost", "Rows that were not written.", lambda: self.journal.lost)

    def note(self, row: Turn, headers: Mapping[str, str] | None = None, *, sparing: bool = False) -> None:
        """A turn is over. `sparing`: there may be thousands of the kind, and a few rows must do for all."""
        (self.sparing if sparing else self.journal).note(row)
        self.metrics.turn(row)
        if self.spans is not None:
            self.spans.turn(row, headers)

    def seed(self, limits: Limits) -> None:
        """Tell the limits what was used today, before this process."""
        if self.journal.rows is None:
            return
        today = time.time() // DAY * DAY
        for row in self.journal.rows.by("key", since=today, without=COUNT):
            limits.seed(row.name, row.turns - row.refused, row.input + row.output, row.cost)

    def close(self) -> None:
        """Write what waits. Nothing that was noted is lost."""
        self.recorder.close()
        self.sparing.flush()
        self.journal.close()
        if self.spans is not None:
            self.spans.close()
        self.state.close()


def _spans(env: Mapping[str, str], secrets: Callable[[], Iterable[str]]) -> Spans | None:
    if not any(name.startswith("OTEL_") for name in env) or env.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return None

    try:
        if env.get("OTEL_EXPORTER_OTLP_ENDPOINT") or env.get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"):
            setup()
        return Spans(secrets=secrets)
    except MissingExtra as error:
        log.warning("no spans are made: %s", error)
        return None


T = TypeVar("T")
FILE = "state.sqlite"
SHARE = 8  # a tenant has at most this part of all
log_state = logging.getLogger("penstock.state")


class State:
    """`reasoning` is a `penstock.stores.ReasoningStore`; `responses` the same for stored responses, by their ids."""

    def __init__(self, table: StateTable, path: Path, clock: Callable[[], float] = time.time) -> None:
        self._writer = Writer(path)
        age, size = table.hours * HOUR, table.size // 2
        rows = Bounds(rows=50_000, size=max(size // SHARE, 1), total=size, age=age)
        try:
            self.reasoning = SqliteRows(self._writer, "reasoning", clock, rows)
            self.responses = SqliteRows(self._writer, "responses", clock, rows)
        except BaseException:
            self._writer.close()
            raise

    @classmethod
    def open(cls, config: GatewayConfig) -> State:
        """The state that a configuration asks for."""
        try:
            return cls(config.state, place_of(config.state.path, config.data, FILE))
        except OSError as error:
            if config.state.path:
                raise
            log_state.warning("state is kept in memory only: %s", error)
            return cls(config.state, ABSENT)

    async def read(self, work: Callable[[], T]) -> T:
        """Look something up in a thread, while the event loop goes on. A file that cannot be read is a fault."""
        try:
            return await self._writer.in_thread(work)
        except sqlite3.Error as error:
            log_state.error("%s cannot be read: %s", self._writer.path, error)  # noqa: TRY400 — the file's fault, not ours
            said = f"stored responses cannot be read just now: {error}"
            raise StreamFault(Fault("server", said, status=503, code="store_unavailable", retry_after=1)) from None

    def flush(self) -> None:
        self._writer.flush()

    def close(self) -> None:
        """Write what waits."""
        self._writer.close()


NAMES = {  # a provider's name here → its name in the conventions, where that is another
    "gemini": "gcp.gemini", "vertexai": "gcp.vertex_ai", "bedrock": "aws.bedrock", "azure": "azure.ai.openai",
    "mistral": "mistral_ai", "xai": "x_ai", "watsonx": "ibm.watsonx.ai",
}  # fmt: skip
FLUSH = 5_000  # milliseconds
LONG = 500  # characters of a name or an attribute
_OPERATIONS = {"/embeddings": "embeddings", "/completions": "text_completion"}


def setup() -> None:
    """Send spans where OTEL_EXPORTER_OTLP_ENDPOINT says, unless the process has set up something of its own."""
    try:
        from opentelemetry import trace  # noqa: PLC0415
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # noqa: PLC0415
        from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415
        from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415
    except ImportError as error:
        raise MissingExtra("opentelemetry-sdk", "otel") from error
    if isinstance(trace.get_tracer_provider(), TracerProvider):
        return
    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    trace.set_tracer_provider(provider)


class Spans:
    """Makes spans with the tracer that the process has set up. `provider`: another one than the process's.

    `secrets` are those known by value: they are kept out of names and attributes.
    """

    def __init__(self, provider: Any = None, secrets: Callable[[], Iterable[str]] = tuple) -> None:
        try:
            from opentelemetry import trace  # noqa: PLC0415 — an extra
            from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator  # noqa: PLC0415
        except ImportError as error:
            raise MissingExtra("opentelemetry-api", "otel") from error
        self._trace = trace
        self._secrets = secrets
        self._provider: Any = provider or trace.get_tracer_provider()
        self._tracer = trace.get_tracer("penstock", tracer_provider=provider)
        self._propagator = TraceContextTextMapPropagator()

    def turn(self, row: Turn, headers: Mapping[str, str] | None = None) -> None:
        """A turn has ended. `headers` are the client's: a `traceparent` among them makes the span its child."""
        parent = self._propagator.extract(dict(headers or {}))
        start, known = int(row.time * 1e9), tuple(self._secrets())
        name = redact_cut(f"{_operation(row)} {row.model or row.asked}".strip(), LONG, known)
        span = self._tracer.start_span(
            name, parent, self._trace.SpanKind.CLIENT, attributes=attributes(row, known), start_time=start
        )
        if row.ttft is not None:
            span.add_event("gen_ai.first_token", timestamp=start + int(row.ttft * 1e9))
        if row.status == "fault":
            span.set_status(self._trace.Status(self._trace.StatusCode.ERROR, row.fault))
        span.end(start + int(row.duration * 1e9))

    def close(self) -> None:
        """Send what waits: a process that is ended by a signal has no other chance."""
        flush = getattr(self._provider, "force_flush", None)
        if flush is not None:
            flush(FLUSH)


def _operation(row: Turn) -> str:
    if row.operation in CALLS:
        return row.operation
    if row.route.endswith("/chat/completions"):
        return "chat"
    return next((word for end, word in _OPERATIONS.items() if row.route.endswith(end)), "chat")


def attributes(row: Turn, secrets: tuple[str, ...] = ()) -> dict[str, str | int | float | list[str]]:
    """What a span says, redacted."""
    said: dict[str, Any] = {
        "gen_ai.operation.name": _operation(row),
        "gen_ai.provider.name": NAMES.get(row.provider, row.provider),
        "gen_ai.request.model": row.asked,
        "gen_ai.response.model": row.model,
        "gen_ai.usage.input_tokens": row.input,
        "gen_ai.usage.output_tokens": row.output,
        "gen_ai.usage.cache_read.input_tokens": row.cached,
        "gen_ai.usage.cache_creation.input_tokens": row.written,
        "gen_ai.response.finish_reasons": [row.finish] if row.finish else None,
        "gen_ai.response.id": row.upstream_id,
        "error.type": row.fault,
        "http.response.status_code": row.http,
        "penstock.protocol": row.protocol,
        "penstock.engine": row.engine,
        "penstock.key": row.key,
        "penstock.request_id": row.request_id,
        "penstock.tries": row.tries,
        "penstock.ttft": row.ttft,
        "penstock.cost": row.cost,
    }
    return {
        name: redact_cut(value, LONG, secrets) if isinstance(value, str) else value
        for name, value in said.items()
        if value not in (None, "", 0)
    }
