"""The spans that a gateway gives to OpenTelemetry, kept in memory instead of being sent."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from penstock._gateway.telemetry import SpanExporter

if TYPE_CHECKING:
    from tests.support.gateway import Running


def keep_spans(running: Running) -> InMemorySpanExporter:
    """Make a gateway trace its turns from now on."""
    provider, kept = TracerProvider(), InMemorySpanExporter()
    provider.add_span_processor(SimpleSpanProcessor(kept))
    running.app.services.telemetry.spans = SpanExporter(provider, lambda: running.app.services.secrets)
    return kept


def makes_spans(running: Running) -> bool:
    return running.app.services.telemetry.spans is not None
