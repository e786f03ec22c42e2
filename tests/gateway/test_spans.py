"""Spans of turns, as an OpenTelemetry exporter gets them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import httpx
import pytest

from penstock._engines.engine_interface import AttemptRecord
from penstock._gateway.telemetry import SpanExporter, Telemetry
from penstock._store.journal import JournalEntry
from penstock.gateway import GatewayConfig
from penstock.testing import Reply, play, scripted
from tests.support.process import gateway

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from opentelemetry.sdk.trace import ReadableSpan

TRACE = "0af7651916cd43dd8448eb211c80319c"
ROW = JournalEntry(
    time=1000.0, route="/v1/messages", protocol="anthropic", asked="fast", provider="gemini", model="gemini-2.5-pro",
    finish="stop", input=10, output=5, cached=4, ttft=0.5, duration=2.0, request_id="r1", http=200, tries=1,
)  # fmt: skip


def span(row: JournalEntry, headers: dict[str, str] | None = None) -> ReadableSpan:
    [made] = spans(row, headers)
    return made


def spans(
    row: JournalEntry, headers: dict[str, str] | None = None, attempts: Sequence[AttemptRecord] = ()
) -> Sequence[ReadableSpan]:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    provider, exporter = TracerProvider(), InMemorySpanExporter()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    SpanExporter(provider).turn(row, headers, attempts)
    provider.shutdown()
    return exporter.get_finished_spans()


def test_a_turn_is_a_span_with_its_times() -> None:
    made = span(ROW)
    said: dict[str, Any] = dict(made.attributes or {})
    assert made.name == "chat gemini-2.5-pro"
    assert (made.start_time, made.end_time) == (1000 * 10**9, 1002 * 10**9)
    assert [(one.name, one.timestamp) for one in made.events] == [("gen_ai.first_token", 1000_500_000_000)]
    assert said["gen_ai.provider.name"] == "gcp.gemini"
    assert said["gen_ai.request.model"] == "fast"
    assert (said["gen_ai.usage.input_tokens"], said["gen_ai.usage.output_tokens"]) == (10, 5)
    assert said["gen_ai.response.finish_reasons"] == ("stop",)
    assert "penstock.cost" not in said  # unknown is not nothing
    assert made.parent is None


def test_every_attempt_is_a_child_with_its_own_times() -> None:
    first, second, turn = spans(
        ROW,
        attempts=[
            AttemptRecord("openai", "gpt-5", 0.1, 0.4, 429, "rate-limit"),
            AttemptRecord("gemini", "gemini-2.5-pro", 0.4, 0.5, 200),
        ],
    )
    assert turn.name == "chat gemini-2.5-pro"
    assert turn.context is not None
    assert {one.parent.span_id for one in (first, second) if one.parent} == {turn.context.span_id}
    assert [one.name for one in (first, second)] == ["attempt openai gpt-5", "attempt gemini gemini-2.5-pro"]
    assert (first.start_time, first.end_time) == (1000_100_000_000, 1000_400_000_000)
    assert (second.start_time, second.end_time) == (1000_400_000_000, 1002_000_000_000)  # until the stream ends
    said: list[dict[str, Any]] = [dict(one.attributes or {}) for one in (first, second)]
    assert [one["gen_ai.provider.name"] for one in said] == ["openai", "gcp.gemini"]
    assert [one["http.response.status_code"] for one in said] == [429, 200]
    assert [one.get("error.type") for one in said] == ["rate-limit", None]
    assert [one["penstock.attempt"] for one in said] == [1, 2]
    assert [one.status.is_ok for one in (first, second)] == [False, True]


@pytest.mark.parametrize("works", [True, False])
def test_attempts_of_a_real_turn_are_exported(tmp_path: Path, works: bool) -> None:
    """Also if no provider answers."""
    refused = Reply.body(b'{"error":{"message":"later"}}', status=503)
    answer = Reply.of("", play("text")) if works else refused
    with scripted(refused, answer) as up, scripted(Reply.body(b"{}")) as collector:
        config = f"retries = 1\n[providers.lab]\nbase_url = '{up.url}/v1'\nkey = 'k'\n"
        with gateway(tmp_path, config, OTEL_EXPORTER_OTLP_ENDPOINT=collector.url) as server:
            body = {"model": "lab/m", "messages": [{"role": "user", "content": "?"}]}
            reply = httpx.post(f"{server.base}/v1/chat/completions", json=body, timeout=60)
            server.stop()
        [sent] = collector.requests
    assert reply.is_success is works
    assert sent.body.count(b"attempt lab m") == sent.body.count(b"penstock.attempt") == 2


def test_a_fault_is_an_error() -> None:
    from msgspec.structs import replace

    made = span(replace(ROW, status="fault", finish="", fault="overloaded"))
    assert not made.status.is_ok
    assert dict(made.attributes or {})["error.type"] == "overloaded"


def test_a_client_that_traces_gets_a_child() -> None:
    made = span(ROW, {"traceparent": f"00-{TRACE}-b7ad6b7169203331-01"})
    assert made.parent is not None
    assert f"{made.parent.trace_id:032x}" == TRACE
    assert span(ROW, {"traceparent": "nonsense"}).parent is None


@pytest.mark.parametrize(
    ("route", "name"),
    [("/v1/embeddings", "embeddings"), ("/v1/completions", "text_completion"), ("/v1/chat/completions", "chat")],
)
def test_operations(route: str, name: str) -> None:
    from msgspec.structs import replace

    assert span(replace(ROW, route=route)).name.startswith(f"{name} ")


def test_nothing_is_made_unless_telemetry_is_set_up() -> None:
    for env, there in (({}, False), ({"OTEL_SERVICE_NAME": "x"}, True), ({"OTEL_SDK_DISABLED": "true"}, False)):
        kept = Telemetry(GatewayConfig(), env)
        assert (kept.spans is not None) is there
        kept.close()


def test_spans_leave_before_the_process_does(tmp_path: Path) -> None:
    with scripted(Reply.body(b"{}")) as collector:
        with gateway(tmp_path, "", "--full-speed", OTEL_EXPORTER_OTLP_ENDPOINT=collector.url) as server:
            httpx.post(f"{server.base}/v1/chat/completions", json={"model": "replay/text", "messages": []})
            server.stop()
            assert "useChat" in server.said
        [sent] = collector.requests
    assert sent.path == "/v1/traces"
    assert b"gen_ai.request.model" in sent.body
