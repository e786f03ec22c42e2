"""Everything that a gateway records of its turns: journal, metrics, recordings, stored state, OpenTelemetry spans.

Spans follow the conventions for generative AI and need the extra `otel` and `OTEL_…` variables. A span is created when
its turn has ended, with the turn's times: nothing is done while a stream runs. It contains no prompt and no answer.
"""

from __future__ import annotations

import logging
import math
import sqlite3
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from msgspec.structs import replace

from penstock._client.span_content import finish_reason
from penstock._client.spans import MAX_ATTRIBUTE, SCOPE, AttributeValue, clean_attributes, provider_name
from penstock._gateway import read_tables
from penstock._gateway.config import GatewayConfig, StateTable, data_path
from penstock._gateway.journal import COUNT, Journal, JournalThrottle
from penstock._gateway.metrics import AUX_OPERATIONS, Metrics
from penstock._gateway.recordings import Recorder
from penstock._redaction import redact_cut
from penstock._store.key_value import SqliteKeyValueTable
from penstock._store.migrations import migrate_sqlite
from penstock._store.sqlite import IN_MEMORY
from penstock._store.sqlite_writer import GATHER_SECONDS, SqliteWriter
from penstock.errors import MissingExtra, StreamFault
from penstock.events import Fault
from penstock.stores import HOUR, Bounds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from penstock._engines.engine_interface import AttemptRecord, DecisionLog
    from penstock._gateway.endpoints import IncomingRequest
    from penstock._store.journal import JournalEntry, UsageSum
    from penstock._store.limit_store import LimitRule
    from penstock._store.postgres import PostgresDatabase
    from penstock._store.postgres_stores import PostgresKeyValueTable

    StateRows: TypeAlias = SqliteKeyValueTable | PostgresKeyValueTable

LIMIT_SLICES = 60  # of a limit's window, as the stores of limits count it
MICRO_DOLLARS = 1_000_000
log = logging.getLogger("penstock.kept")


class Telemetry:
    """Opens and closes all of them. `secrets` returns the secrets that are redacted in everything that is written."""

    def __init__(
        self, config: GatewayConfig, env: Mapping[str, str], secrets: Callable[[], Iterable[str]] = tuple
    ) -> None:
        self.database: PostgresDatabase | None = open_database(config)
        self.journal: Journal = Journal.open(config, secrets, self.database)
        self.throttle: JournalThrottle = JournalThrottle(self.journal.write_row)
        self.state: StateStore = StateStore.open(config, self.database)
        self.recorder: Recorder = Recorder(config.record, secrets)
        self.metrics: Metrics = Metrics(secrets)
        self.spans: SpanExporter | None = _open_spans(env, secrets)
        self.metrics.add_gauge("journal_waiting", lambda: self.journal.waiting)
        self.metrics.add_gauge("journal_lost", lambda: self.journal.lost)

    def add_turn(
        self, row: JournalEntry, incoming: IncomingRequest, record: DecisionLog | None, *, throttle: bool = False
    ) -> None:
        """Record a finished turn. `throttle`: thousands of the kind may come, so only a few get a row."""
        (self.throttle if throttle else self.journal).write_row(row)
        self.metrics.count_turn(row)
        if self.spans is not None:
            attempts = [_since(one, incoming.started) for one in record.attempts] if record is not None else []
            self.spans.turn(row, incoming.headers, attempts)

    def read_past_usage(self, rule: LimitRule, team_keys: Callable[[str], list[str]]) -> list[tuple[float, int]]:
        """Return what the journal knows of a limit's window, by time, so that a restart does not reset it. Blocks."""
        if self.journal.rows is None:
            return []
        kind, _, name = rule.scope.partition(":")
        column = "tenant" if kind == "caller" else "key"
        names = team_keys(name) if kind == "team" else [name]
        filters: list[dict[str, Any]] = [{}] if kind == "org" else [{column: one} for one in names]
        now, step = time.time(), rule.window / LIMIT_SLICES
        amounts: Counter[float] = Counter()
        for same in filters:
            if rule.window:
                rows = self.journal.rows.slices(step, since=now - rule.window, without=COUNT, **same)
            else:
                rows = [self.journal.rows.total(without=COUNT, **same)]
            for row in rows:
                amounts[min(row.start + step, now) if rule.window else now] += _limited_amount(rule, row)
        return sorted(amounts.items())

    def close(self) -> None:
        """Write everything that waits."""
        self.recorder.close()
        self.throttle.flush()
        self.journal.close()
        if self.spans is not None:
            self.spans.close()
        self.state.close()
        if self.database is not None:
            self.database.close()


def open_database(config: GatewayConfig) -> PostgresDatabase | None:
    """Return the PostgreSQL database of a configuration, with the latest schema; None if there is none."""
    stores = config.stores
    if not stores.postgres:
        return None
    from penstock._store.postgres import PostgresDatabase  # noqa: PLC0415 — an extra

    return PostgresDatabase(stores.postgres, connections=stores.postgres_connections, timeout=stores.postgres_timeout)


def _limited_amount(rule: LimitRule, row: UsageSum) -> int:
    if rule.kind == "cost":
        return math.ceil(row.cost * MICRO_DOLLARS)
    return row.turns - row.refused if rule.kind == "requests" else row.tokens


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
    """Reasoning state and stored responses, separated by tenant: in PostgreSQL, else in one SQLite file.

    If the file cannot be written, state is kept in memory, unless the configuration names the path.
    """

    reasoning: StateRows
    responses: StateRows

    def __init__(
        self,
        table: StateTable,
        place: Path | PostgresDatabase,
        clock: Callable[[], float] = time.time,
        *,
        gather: float = GATHER_SECONDS,
    ) -> None:
        age, size = table.hours * HOUR, table.size // 2
        rows = Bounds(rows=50_000, size=max(size // RESPONSES_SHARE, 1), total=size, age=age)
        self._writer: SqliteWriter | PostgresDatabase
        if not isinstance(place, Path):
            from penstock._store.postgres_stores import PostgresKeyValueTable  # noqa: PLC0415 — an extra

            self._writer = place
            self.reasoning = PostgresKeyValueTable(place, "reasoning", clock, rows)
            self.responses = PostgresKeyValueTable(place, "responses", clock, rows)
            return
        self._writer = writer = SqliteWriter(place, gather=gather)
        try:
            writer.change(lambda opened: migrate_sqlite(opened, place, "state"))
            self.reasoning = SqliteKeyValueTable(writer, "reasoning", clock, rows)
            self.responses = SqliteKeyValueTable(writer, "responses", clock, rows)
        except BaseException:
            writer.close()
            raise

    @classmethod
    def open(cls, config: GatewayConfig, database: PostgresDatabase | None = None) -> StateStore:
        """Open the store that a configuration describes. A path in the configuration goes before `database`."""
        if database is not None and not config.state.path:
            return cls(config.state, database)
        gather = 0.0 if config.serve.workers > 1 else GATHER_SECONDS  # what one worker stores, the others read at once
        try:
            return cls(config.state, data_path(config.state.path, config.data, FILE), gather=gather)
        except OSError as error:
            if config.state.path:
                raise
            log_state.warning("state is kept in memory only: %s", error)
            return cls(config.state, IN_MEMORY)

    async def read(self, work: Callable[[], T]) -> T:
        """Run a lookup in a thread. Raises a fault if the database cannot be read."""
        try:
            return await self._writer.in_thread(work)
        except (sqlite3.Error, OSError) as error:
            log_state.error("stored responses cannot be read: %s", error)  # noqa: TRY400 — a stack would not help
            message = "stored responses cannot be read just now: their database does not answer, or is damaged"
            raise StreamFault(Fault("server", message, status=503, code="store_unavailable", retry_after=1)) from None

    def flush(self) -> None:
        self._writer.flush()

    def close(self) -> None:
        """Write everything that waits. A database is closed by who opened it."""
        if isinstance(self._writer, SqliteWriter):
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

    def turn(
        self, row: JournalEntry, headers: Mapping[str, str] | None = None, attempts: Sequence[AttemptRecord] = ()
    ) -> None:
        """A turn has ended. `headers` are the client's: a `traceparent` among them makes the span its child.

        `attempts` have times in seconds since the turn began. Each is a child; that of the answer ends with the turn.
        """
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
        context = self._trace.set_span_in_context(span)
        for number, attempt in enumerate(attempts, 1):
            self._add_attempt(number, attempt, row, context, known)
        span.end(start + int(row.duration * 1e9))

    def _add_attempt(
        self, number: int, attempt: AttemptRecord, row: JournalEntry, context: Any, secrets: tuple[str, ...]
    ) -> None:
        """Add the span of one attempt at a provider."""
        start, end = row.time + attempt.start, row.time + (attempt.end if attempt.error else row.duration)
        fields: dict[str, Any] = {
            "gen_ai.operation.name": _operation_name(row),
            "gen_ai.provider.name": provider_name(attempt.provider),
            "gen_ai.request.model": attempt.model,
            "http.response.status_code": attempt.status or None,
            "error.type": attempt.error or None,
            "penstock.attempt": number,
        }
        name = redact_cut(f"attempt {attempt.provider} {attempt.model}".strip(), MAX_ATTRIBUTE, secrets)
        attributes = clean_attributes(fields, secrets)
        span = self._tracer.start_span(
            name, context, self._trace.SpanKind.CLIENT, attributes=attributes, start_time=int(start * 1e9)
        )
        if attempt.error:
            span.set_status(self._trace.Status(self._trace.StatusCode.ERROR, attempt.error))
        span.end(int(end * 1e9))

    def close(self) -> None:
        """Send what waits: a process that is ended by a signal has no other chance."""
        flush = getattr(self._provider, "force_flush", None)
        if flush is not None:
            flush(FLUSH_MILLISECONDS)


def _since(attempt: AttemptRecord, start: float) -> AttemptRecord:
    """Return an attempt with times since `start`, a time of the same clock."""
    return replace(attempt, start=attempt.start - start, end=attempt.end - start)


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
