"""Turns as OpenTelemetry spans, by the conventions for generative AI; needs the extra `otel`.

A span is made when its turn has ended, with the times it had: nothing is done while a stream runs. No prompt and no
answer is in it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.errors import MissingExtra
from penstock.gateway.metrics import CALLS
from penstock.secrecy import redact_cut

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from penstock.store.journal import Turn

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
