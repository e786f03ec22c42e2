"""Everything that a gateway records of its turns: journal, metrics, recordings, stored state, OpenTelemetry spans.

Spans follow the conventions for generative AI and need the extra `otel` and `OTEL_…` variables. A span is created when
its turn has ended, with the turn's times: nothing is done while a stream runs. It contains no prompt and no answer.
"""

from __future__ import annotations

import logging
import sqlite3
import time
from typing import TYPE_CHECKING, Any, TypeVar

from penstock._client.span_content import finish_reason
from penstock._client.spans import MAX_ATTRIBUTE, SCOPE, AttributeValue, clean_attributes, provider_name
from penstock._gateway import read_tables
from penstock._gateway.config import GatewayConfig, StateTable, data_path
from penstock._gateway.journal import COUNT, Journal, JournalThrottle
from penstock._gateway.metrics import AUX_OPERATIONS, Metrics
from penstock._gateway.recordings import Recorder
from penstock._redaction import redact_cut
from penstock._store.key_value import SqliteKeyValueTable
from penstock._store.sqlite import IN_MEMORY
from penstock._store.sqlite_writer import SqliteWriter
from penstock.errors import MissingExtra, StreamFault
from penstock.events import Fault
from penstock.stores import HOUR, Bounds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from penstock._gateway.limits import CallerLimits
    from penstock._store.journal import JournalEntry

DAY = 86_400.0
log = logging.getLogger("penstock.kept")


class Telemetry:
    """Opens and closes all of them. `secrets` returns the secrets that are redacted in everything that is written."""

    def __init__(
        self, config: GatewayConfig, env: Mapping[str, str], secrets: Callable[[], Iterable[str]] = tuple
    ) -> None:
        self.journal: Journal = Journal.open(config, secrets)
        self.throttle: JournalThrottle = JournalThrottle(self.journal.write_row)
        self.state: StateStore = StateStore.open(config)
        self.recorder: Recorder = Recorder(config.record, secrets)
        self.metrics: Metrics = Metrics(secrets)
        self.spans: SpanExporter | None = _open_spans(env, secrets)
        self.metrics.add_gauge("journal_waiting", lambda: self.journal.waiting)
        self.metrics.add_gauge("journal_lost", lambda: self.journal.lost)

    def add_turn(self, row: JournalEntry, headers: Mapping[str, str] | None = None, *, throttle: bool = False) -> None:
        """Record a finished turn. `throttle`: thousands of the kind may come, so only a few get a row."""
        (self.throttle if throttle else self.journal).write_row(row)
        self.metrics.count_turn(row)
        if self.spans is not None:
            self.spans.turn(row, headers)

    def seed(self, limits: CallerLimits) -> None:
        """Load today's usage from the journal into the limits, so that a restart does not reset them."""
        if self.journal.rows is None:
            return
        today = time.time() // DAY * DAY
        for row in self.journal.rows.by("key", since=today, without=COUNT):
            limits.seed(row.name, row.turns - row.refused, row.input + row.output, row.cost)

    def close(self) -> None:
        """Write everything that waits."""
        self.recorder.close()
        self.throttle.flush()
        self.journal.close()
        if self.spans is not None:
            self.spans.close()
        self.state.close()


def _open_spans(env: Mapping[str, str], secrets: Callable[[], Iterable[str]]) -> SpanExporter | None:
    if not any(name.startswith("OTEL_") for name in env) or env.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return None
    try:
        if env.get("OTEL_EXPORTER_OTLP_ENDPOINT") or env.get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"):
            setup_tracing()
        return SpanExporter(secrets=secrets)
    except MissingExtra as error:
        log.warning("spans are not created: %s", error)
        return None


T = TypeVar("T")
FILE = "state.sqlite"
RESPONSES_SHARE = 8  # a tenant may use one of so many parts of the size
log_state = logging.getLogger("penstock.state")


class StateStore:
    """Reasoning state and stored responses in one SQLite file, separated by tenant.

    If the file cannot be written, state is kept in memory, unless the configuration names the path.
    """

    reasoning: SqliteKeyValueTable
    responses: SqliteKeyValueTable

    def __init__(self, table: StateTable, path: Path, clock: Callable[[], float] = time.time) -> None:
        self._writer = SqliteWriter(path)
        age, size = table.hours * HOUR, table.size // 2
        rows = Bounds(rows=50_000, size=max(size // RESPONSES_SHARE, 1), total=size, age=age)
        try:
            self.reasoning = SqliteKeyValueTable(self._writer, "reasoning", clock, rows)
            self.responses = SqliteKeyValueTable(self._writer, "responses", clock, rows)
        except BaseException:
            self._writer.close()
            raise

    @classmethod
    def open(cls, config: GatewayConfig) -> StateStore:
        """Open the store that a configuration describes."""
        try:
            return cls(config.state, data_path(config.state.path, config.data, FILE))
        except OSError as error:
            if config.state.path:
                raise
            log_state.warning("state is kept in memory only: %s", error)
            return cls(config.state, IN_MEMORY)

    async def read(self, work: Callable[[], T]) -> T:
        """Run a lookup in a thread. Raises a fault if the file cannot be read."""
        try:
            return await self._writer.in_thread(work)
        except sqlite3.Error as error:
            log_state.error("%s cannot be read: %s", self._writer.path, error)  # noqa: TRY400 — a stack would not help
            message = f"stored responses cannot be read just now: {error}"
            raise StreamFault(Fault("server", message, status=503, code="store_unavailable", retry_after=1)) from None

    def flush(self) -> None:
        self._writer.flush()

    def close(self) -> None:
        """Write everything that waits."""
        self._writer.close()


FLUSH_MILLISECONDS = 5_000
_OPERATIONS = {"/chat/completions": "chat", "/embeddings": "embeddings", "/completions": "text_completion"}


def setup_tracing() -> None:
    """Send spans where OTEL_EXPORTER_OTLP_ENDPOINT says, unless the process has set up a provider of spans."""
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


class SpanExporter:
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
        self._tracer = trace.get_tracer(SCOPE, tracer_provider=provider)
        self._propagator = TraceContextTextMapPropagator()

    def turn(self, row: JournalEntry, headers: Mapping[str, str] | None = None) -> None:
        """A turn has ended. `headers` are the client's: a `traceparent` among them makes the span its child."""
        parent = self._propagator.extract(dict(headers or {}))
        start, known = int(row.time * 1e9), tuple(self._secrets())
        name = redact_cut(f"{_operation_name(row)} {row.model or row.asked}".strip(), MAX_ATTRIBUTE, known)
        span = self._tracer.start_span(
            name, parent, self._trace.SpanKind.CLIENT, attributes=span_attributes(row, known), start_time=start
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
            flush(FLUSH_MILLISECONDS)


def _operation_name(row: JournalEntry) -> str:
    if row.operation in AUX_OPERATIONS:
        return row.operation
    return next((word for end, word in _OPERATIONS.items() if row.route.endswith(end)), "chat")


def span_attributes(row: JournalEntry, secrets: tuple[str, ...] = ()) -> dict[str, AttributeValue]:
    """Return the attributes of a span, redacted. A column that is 0 says nothing."""
    fields: dict[str, Any] = {
        "gen_ai.operation.name": _operation_name(row),
        "gen_ai.provider.name": provider_name(row.provider),
        "gen_ai.response.finish_reasons": [finish_reason(row.finish)] if row.finish else None,
        **{name: getattr(row, column) for name, column in read_tables()["span_attributes"].items()},
    }
    return clean_attributes({name: value or None for name, value in fields.items()}, secrets)
