"""OpenTelemetry spans and metrics of a client, as the SDK's exporters in memory get them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from opentelemetry import metrics, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from penstock import events as ev
from penstock.client import Client, MemoryCache, SyncClient
from penstock.errors import ProviderError
from penstock.testing import Reply, Upstream, scripted
from tests.client.observed_client import MODEL, STREAM, TURN, by_stream, run
from tests.core.public.test_surface import python
from tests.support.client_parts import set_bound, tool_span
from tests.wire.engines.router_setup import KEY

if TYPE_CHECKING:
    from collections.abc import Iterator

    from opentelemetry.sdk.trace import ReadableSpan


class Collected:
    def __init__(self) -> None:
        self.exporter, self.reader = InMemorySpanExporter(), InMemoryMetricReader()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.meters = MeterProvider([self.reader])

    @property
    def spans(self) -> list[ReadableSpan]:
        return list(self.exporter.get_finished_spans())

    @property
    def only(self) -> ReadableSpan:
        [span] = self.spans
        return span

    def metrics(self) -> dict[str, list[Any]]:
        data: Any = self.reader.get_metrics_data()
        found: list[Any] = data.resource_metrics[0].scope_metrics[0].metrics if data is not None else []
        return {metric.name: list(metric.data.data_points) for metric in found}


@pytest.fixture
def collected(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collected]:
    """The program's own SDK. The API allows one provider for a process, so each test puts its own in that place."""
    made = Collected()
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: made.provider)
    monkeypatch.setattr(trace, "get_tracer", made.provider.get_tracer)
    monkeypatch.setattr(metrics, "get_meter_provider", lambda: made.meters)
    set_bound(monkeypatch, "instruments of metrics", [])
    yield made
    made.provider.shutdown()
    made.meters.shutdown()


def attributes(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


@pytest.mark.parametrize("stream", [True, False])
def test_a_call_is_a_span(collected: Collected, stream: bool) -> None:
    async def scene(up: Upstream, client: Client) -> None:
        settings: dict[str, Any] = {"temperature": 0.5, "max_output_tokens": 9, "stop": ["x"], "seed": 3, "top_p": 0.9}
        settings["response_format"] = {"type": "json_object"}
        if stream:
            await client.chat_stream(MODEL, "a secret question", **settings).turn()
        else:
            await client.chat(MODEL, "a secret question", **settings)
        span, found = collected.only, attributes(collected.only)
        assert (span.name, span.kind) == (f"chat {MODEL}", SpanKind.CLIENT)
        assert span.status.is_unset
        port = int(up.url.rpartition(":")[2])
        first = found.pop("gen_ai.response.time_to_first_chunk", None)
        assert (first is not None) is stream
        assert found.pop("gen_ai.request.stream", False) is stream
        assert found == {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": "openai",
            "gen_ai.request.model": MODEL,
            "gen_ai.request.temperature": 0.5,
            "gen_ai.request.max_tokens": 9,
            "gen_ai.request.stop_sequences": ("x",),
            "gen_ai.request.seed": 3,
            "gen_ai.request.top_p": 0.9,
            "gen_ai.output.type": "json",
            "gen_ai.response.id": "id-1",
            "gen_ai.response.model": "gpt-4o-2024",
            "gen_ai.response.finish_reasons": ("stop",),
            "gen_ai.usage.input_tokens": 1000,
            "gen_ai.usage.output_tokens": 100,
            "server.address": "127.0.0.1",
            "server.port": port,
            "penstock.cost": pytest.approx(0.0035),
            "penstock.engine": "native",
            "penstock.tries": 1,
        }
        assert KEY not in span.to_json()
        assert "secret question" not in span.to_json()
        assert "metres" not in span.to_json()

    run(scene)


def test_usage_in_detail(collected: Collected) -> None:
    usage = ev.Usage(1000, 100, cached=10, written=20, reasoning=5)

    async def scene(_: Upstream, client: Client) -> None:
        await client.chat("anthropic/claude-sonnet-4-5", "?")
        found = attributes(collected.only)
        assert found["gen_ai.usage.cache_read.input_tokens"] == 10
        assert found["gen_ai.usage.cache_creation.input_tokens"] == 20

    turn: list[ev.AnyEvent] = [*TURN[:-2], usage, ev.Finish("stop")]
    run(scene, Reply.of("anthropic", turn, stream=False))


def test_spans_are_below_the_callers(collected: Collected) -> None:
    tracer = collected.provider.get_tracer("the program")

    async def scene(_: Upstream, client: Client) -> None:
        with tracer.start_as_current_span("outer"):
            await client.chat(MODEL, "?")
            async for _event in client.chat_stream(MODEL, "?"):
                pass
            await client.map(["a", "b"], model=MODEL)
        [outer] = [span for span in collected.spans if span.name == "outer"]
        chats = [span for span in collected.spans if span.name.startswith("chat")]
        assert len(chats) == 4
        assert outer.context is not None
        for span in chats:
            assert span.parent is not None
            assert span.parent.span_id == outer.context.span_id

    run(scene)


def test_the_sync_client_is_below_the_callers_span_too(collected: Collected) -> None:
    tracer = collected.provider.get_tracer("the program")
    with scripted(by_stream()) as up:
        config = {"providers": {"openai": {"base_url": f"{up.url}/v1", "key": "k"}}}
        with SyncClient(config, env={}) as client, tracer.start_as_current_span("outer") as outer:
            client.chat(MODEL, "?")
            list(client.chat_stream(MODEL, "?"))
    chats = [span for span in collected.spans if span.name.startswith("chat")]
    assert len(chats) == 2
    for span in chats:
        assert span.parent is not None
        assert span.parent.span_id == outer.get_span_context().span_id


FAILURES: dict[str, tuple[Any, str]] = {
    "refused": (Reply.error("openai-chat", 401), "auth"),
    "rate limited": (Reply.rate_limit("openai-chat", retry_after=9999), "rate-limit"),
    "broken": (STREAM.disconnect(after=STREAM.data.index(b"metres")), "network"),
}


@pytest.mark.parametrize("name", FAILURES)
def test_an_error_is_an_error(collected: Collected, name: str) -> None:
    reply, kind = FAILURES[name]

    async def scene(_: Upstream, client: Client) -> None:
        with pytest.raises(ProviderError) as found:
            await client.chat_stream(MODEL, "?").turn()
        span = collected.only
        assert span.status.status_code is StatusCode.ERROR
        assert attributes(span)["error.type"] == found.value.kind in {kind, "truncated"}
        assert attributes(span)["gen_ai.provider.name"] == "openai"
        assert attributes(span)["gen_ai.response.finish_reasons"] == ("error",)

    run(scene, reply)


def test_a_retry_is_one_span(collected: Collected) -> None:
    async def scene(_: Upstream, client: Client) -> None:
        await client.chat(MODEL, "?")
        assert attributes(collected.only)["penstock.tries"] == 2

    run(scene, Reply.error("openai-chat", 500), by_stream())


def test_a_stored_answer_has_no_tokens(collected: Collected) -> None:
    async def scene(_: Upstream, client: Client) -> None:
        for _number in range(2):
            await client.chat(MODEL, "?")
        second = attributes(collected.spans[1])
        assert second["penstock.cached"] is True
        assert "gen_ai.usage.input_tokens" not in second
        assert "server.address" not in second
        assert [one.count for one in collected.metrics()["gen_ai.client.token.usage"]] == [1, 1]

    run(scene, cache=MemoryCache())


def test_other_operations(collected: Collected) -> None:
    body = {"data": [{"index": 0, "embedding": [0.5]}], "usage": {"prompt_tokens": 7}, "model": "m"}

    async def scene(up: Upstream, client: Client) -> None:
        await client.embed("openai/text-embedding-3-small", "x")
        span, found = collected.spans[0], attributes(collected.spans[0])
        assert span.name == "embeddings openai/text-embedding-3-small"
        assert (found["gen_ai.operation.name"], found["gen_ai.usage.input_tokens"]) == ("embeddings", 7)
        assert found["server.address"] == "127.0.0.1"
        up.script(Reply.error("openai-chat", 401))
        with pytest.raises(ProviderError):
            await client.embed("openai/text-embedding-3-small", "x")
        assert attributes(collected.spans[1])["error.type"] == "auth"

    run(scene, Reply.body(body))


def test_metrics(collected: Collected) -> None:
    async def scene(up: Upstream, client: Client) -> None:
        await client.chat(MODEL, "?")
        await client.chat_stream(MODEL, "?").turn()
        up.script(Reply.error("openai-chat", 401))
        with pytest.raises(ProviderError):
            await client.chat(MODEL, "?")
        found = collected.metrics()
        assert set(found) == {
            "gen_ai.client.token.usage",
            "gen_ai.client.operation.duration",
            "gen_ai.client.operation.time_to_first_chunk",
        }
        tokens = {point.attributes["gen_ai.token.type"]: point for point in found["gen_ai.client.token.usage"]}
        assert {kind: (point.count, point.sum) for kind, point in tokens.items()} == {
            "input": (2, 2000),
            "output": (2, 200),
        }
        assert tuple(tokens["input"].explicit_bounds)[:3] == (1, 4, 16)
        kinds = {point.attributes.get("error.type"): point for point in found["gen_ai.client.operation.duration"]}
        assert {kind: point.count for kind, point in kinds.items()} == {None: 2, "auth": 1}
        assert dict(kinds[None].attributes)["gen_ai.response.model"] == "gpt-4o-2024"
        [first] = found["gen_ai.client.operation.time_to_first_chunk"]
        assert first.count == 1

    run(scene)


# ── content ───────────────────────────────────────────────────────────────────────────────────────

CALLING: list[ev.AnyEvent] = [
    *TURN[:-2],
    ev.CallStart(1, "call_1", "measure"),
    ev.CallEnd(1, "call_1", "measure", '{"a":1}'),
    ev.Usage(1, 1),
    ev.Finish("calls"),
]


@pytest.mark.parametrize("how", ["parameter", "variable"])
def test_content_on_request(collected: Collected, how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene(_: Upstream, client: Client) -> None:
        messages: list[dict[str, Any]] = [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": f"How deep? My key is {KEY}"},
            {
                "role": "assistant",
                "tool_calls": [{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
            },
            {"role": "tool", "tool_call_id": "c", "content": "12"},
        ]
        await client.chat(MODEL, messages)
        found = attributes(collected.only)
        assert json.loads(found["gen_ai.system_instructions"]) == [{"type": "text", "content": "Be brief."}]
        user, assistant, tool = json.loads(found["gen_ai.input.messages"])
        assert user["parts"][0]["content"] == "How deep? My key is [secret]"
        assert assistant["parts"] == [{"type": "tool_call", "id": "c", "name": "f", "arguments": {}}]
        assert tool["parts"][0]["type"] == "tool_call_response"
        [output] = json.loads(found["gen_ai.output.messages"])
        assert output["role"] == "assistant"
        assert output["finish_reason"] == "tool_call"
        assert [part["type"] for part in output["parts"]] == ["text", "tool_call"]

    if how == "variable":
        monkeypatch.setenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "SPAN_ONLY")
    run(scene, by_stream(CALLING), **({"tracing": "content"} if how == "parameter" else {}))


def test_no_spans_on_request(collected: Collected) -> None:
    async def scene(_: Upstream, client: Client) -> None:
        await client.chat(MODEL, "?")
        assert not collected.spans

    run(scene, tracing=False)


# ── tools ─────────────────────────────────────────────────────────────────────────────────────────


def test_the_span_of_a_tool(collected: Collected) -> None:
    with tool_span("measure", "call_1", description="Measures.", arguments='{"a":1}') as span:
        collected.provider.get_tracer("the tool").start_span("inner").end()
        span.set_result("12 m")
    with pytest.raises(ZeroDivisionError), tool_span("measure"):
        raise ZeroDivisionError
    with tool_span("measure", content=True, arguments='{"a":1}') as span:
        span.set_result({"depth": 12}, failed=True)
    inner, first, second, third = collected.spans
    assert (first.name, first.kind) == ("execute_tool measure", SpanKind.INTERNAL)
    assert attributes(first) == {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "measure",
        "gen_ai.tool.call.id": "call_1",
        "gen_ai.tool.type": "function",
        "gen_ai.tool.description": "Measures.",
    }
    assert inner.parent is not None
    assert first.context is not None
    assert inner.parent.span_id == first.context.span_id
    assert attributes(second)["error.type"] == "ZeroDivisionError"
    assert second.status.status_code is StatusCode.ERROR
    assert attributes(third)["gen_ai.tool.call.arguments"] == '{"a":1}'
    assert json.loads(attributes(third)["gen_ai.tool.call.result"]) == {"depth": 12}
    assert attributes(third)["error.type"] == "tool_error"


def measure(unit: str) -> str:
    """Measures the depth."""
    trace.get_current_span().add_event("measured")
    if unit == "x":
        raise ValueError("no such unit")
    return f"12 {unit}"


def calling(unit: str) -> list[ev.AnyEvent]:
    json_text = f'{{"unit":"{unit}"}}'
    call: list[ev.AnyEvent] = [ev.CallStart(0, "call_1", "measure"), ev.CallEnd(0, "call_1", "measure", json_text)]
    return [TURN[0], *call, ev.Usage(10, 1), ev.Finish("calls")]


@pytest.mark.parametrize("tracing", [True, "content", False])
def test_the_steps_of_a_run(collected: Collected, tracing: Any) -> None:
    tracer = collected.provider.get_tracer("the program")

    async def scene(_: Upstream, client: Client) -> None:
        with tracer.start_as_current_span("outer") as outer:
            finished = await client.run(MODEL, "How deep?", tools=[measure])
        assert len(finished.steps) == 3
        spans = [span for span in collected.spans if span.name != "outer"]
        if not tracing:
            assert not spans
            return
        chat, tool = f"chat {MODEL}", "execute_tool measure"
        assert [span.name for span in spans] == [chat, tool, chat, tool, chat]
        for span in spans:
            assert span.parent is not None
            assert span.parent.span_id == outer.get_span_context().span_id
        good, bad = spans[1], spans[3]
        assert [event.name for event in good.events] == ["measured"]
        found = attributes(good)
        assert (found["gen_ai.tool.name"], found["gen_ai.tool.call.id"]) == ("measure", "call_1")
        assert found.get("gen_ai.tool.call.arguments") == ('{"unit":"m"}' if tracing == "content" else None)
        assert ("12 m" in str(found.get("gen_ai.tool.call.result"))) is (tracing == "content")
        assert good.status.is_unset
        assert attributes(bad)["error.type"] == "tool_error"

    replies = [Reply.of("openai-chat", turn) for turn in (calling("m"), calling("x"), TURN)]
    run(scene, *replies, tracing=tracing)


# ── without OpenTelemetry ─────────────────────────────────────────────────────────────────────────

WITHOUT = """
import asyncio, json, sys
from penstock.client import Client
def look() -> str:
    return "x"
async def main():
    async with Client() as client:
        answer = await client.chat("replay/text", "?")
        run = await client.run("replay/agent", "?", tools=[look])
        assert answer.text and run.steps
asyncio.run(main())
print(json.dumps([name for name in sys.modules if name.startswith("opentelemetry")]))
"""


def test_nothing_is_imported_by_us() -> None:
    assert python(WITHOUT) == []


ONLY_THE_API = """
import json
import opentelemetry.trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from penstock.client import SyncClient

exporter, provider = InMemorySpanExporter(), TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(exporter))
found = []
with SyncClient() as client:
    client.chat("replay/text", "?")
    found.append(len(exporter.get_finished_spans()) > 0)
    opentelemetry.trace.set_tracer_provider(provider)
    client.chat("replay/text", "?")
    found.append(len(exporter.get_finished_spans()) > 0)
print(json.dumps(found))
"""


def test_without_an_sdk_nothing_is_recorded() -> None:
    """In its own process: a provider can be set once."""
    assert python(ONLY_THE_API) == [False, True]
