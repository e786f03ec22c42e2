"""Spans of turns, as an OpenTelemetry exporter gets them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock import events as ev
from penstock.testing import Reply, play, scripted
from tests.support.client_requests import ask, post
from tests.support.each_case import each
from tests.support.gateway import answer, gateway
from tests.support.process import gateway as gateway_process
from tests.support.spans import keep_spans, makes_spans

if TYPE_CHECKING:
    from pathlib import Path

    from opentelemetry.sdk.trace import ReadableSpan

TRACE = "0af7651916cd43dd8448eb211c80319c"
SAID: list[ev.AnyEvent] = [
    ev.Start("1", "m"), ev.TextStart(0), ev.TextDelta(0, "Hi"), ev.TextEnd(0), ev.Usage(10, 5), ev.Finish("stop"),
]  # fmt: skip


def attributes(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


def test_a_turn_is_a_span_with_its_times_and_each_attempt_its_child() -> None:
    with gateway(Reply.rate_limit("openai-chat", retry_after=0.01), Reply.of("gemini", SAID),
                 aliases={"fast": ["openai-chat/m", "gemini/gemini-2.5-pro"]}) as (running, _):  # fmt: skip
        spans = keep_spans(running)
        assert ask(running.url, "anthropic", "fast").status_code == 200
        row = running.rows()[0]
    first, second, turn = spans.get_finished_spans()
    assert [one.name for one in (first, second, turn)] == [
        "attempt openai-chat m", "attempt gemini gemini-2.5-pro", "chat gemini-2.5-pro"
    ]  # fmt: skip
    said, start, end = attributes(turn), turn.start_time, turn.end_time
    assert start is not None
    assert end is not None
    assert start == int(row.time * 1e9)
    assert abs((end - start) / 1e9 - row.duration) < 0.001
    assert [one.name for one in turn.events] == ["gen_ai.first_token"]
    assert abs((turn.events[0].timestamp - start) / 1e9 - row.ttft) < 0.001
    assert said["gen_ai.provider.name"] == "gcp.gemini"
    assert said["gen_ai.request.model"] == "fast"
    assert (said["gen_ai.usage.input_tokens"], said["gen_ai.usage.output_tokens"]) == (10, 5)
    assert said["gen_ai.response.finish_reasons"] == ("stop",)
    assert "penstock.cost" not in said or row.cost is not None  # unknown is not nothing
    assert turn.parent is None
    assert turn.context is not None
    assert {one.parent.span_id for one in (first, second) if one.parent} == {turn.context.span_id}
    assert first.end_time is not None
    assert second.start_time is not None
    assert start <= (first.start_time or 0) <= first.end_time <= second.start_time
    assert abs((second.end_time or 0) - end) < 10_000  # until the stream ends
    tries = [attributes(one) for one in (first, second)]
    assert [one["http.response.status_code"] for one in tries] == [429, 200]
    assert [one.get("error.type") for one in tries] == ["rate-limit", None]
    assert [one["penstock.attempt"] for one in tries] == [1, 2]
    assert [one.status.is_ok for one in (first, second)] == [False, True]


def test_a_fault_is_an_error() -> None:
    with gateway(Reply.of("openai-chat", SAID).disconnect(after=-250)) as (running, _):
        spans = keep_spans(running)
        ask(running.url, "anthropic", "openai-chat/m")
        row = running.rows()[0]
    turn = spans.get_finished_spans()[-1]
    assert not turn.status.is_ok
    assert attributes(turn)["error.type"] == row.fault != ""


def test_a_client_that_traces_gets_a_child() -> None:
    with gateway() as (running, _):
        spans = keep_spans(running)
        for parent in (f"00-{TRACE}-b7ad6b7169203331-01", "nonsense"):
            ask(running.url, "anthropic", "openai-chat/text", headers={"traceparent": parent})
            running.rows()
    traced, other = (one for one in spans.get_finished_spans() if one.name.startswith("chat"))
    assert traced.parent is not None
    assert f"{traced.parent.trace_id:032x}" == TRACE
    assert other.parent is None


def test_operations_have_their_names_and_no_span_holds_a_key() -> None:
    with gateway(answer) as (running, _):
        spans = keep_spans(running)
        post(f"{running.url}/v1/embeddings", json={"model": "openai-chat/e", "input": ["a"]})
        ask(running.url, "completions", "completions/sk-planted0123456789abcdef")
        running.rows()
    turns = [one for one in spans.get_finished_spans() if not one.name.startswith("attempt")]
    assert [one.name.partition(" ")[0] for one in turns] == ["embeddings", "text_completion"]
    assert not [one for one in spans.get_finished_spans() if "planted" in one.name + str(attributes(one))]


@each("env, there", [({}, False), ({"OTEL_SERVICE_NAME": "x"}, True), ({"OTEL_SDK_DISABLED": "true"}, False)])
def test_nothing_is_made_unless_telemetry_is_set_up(env: dict[str, str], there: bool) -> None:
    with gateway(env=env) as (running, _):
        assert makes_spans(running) is there


def test_spans_leave_before_the_process_does(tmp_path: Path) -> None:
    """Those of attempts too, also if no provider answers."""
    refused = Reply.body(b'{"error":{"message":"later"}}', status=503)
    with scripted(refused, Reply.of("", play("text")), refused) as up, scripted(Reply.body(b"{}")) as collector:
        config = f"retries = 1\n[providers.lab]\nbase_url = '{up.url}/v1'\nkey = 'k'\n"
        with gateway_process(tmp_path, config, OTEL_EXPORTER_OTLP_ENDPOINT=collector.url) as server:
            body = {"model": "lab/m", "messages": [{"role": "user", "content": "?"}]}
            replies = [post(f"{server.base}/v1/chat/completions", json=body) for _ in range(2)]
            server.stop()
        [sent] = collector.requests
    assert [reply.is_success for reply in replies] == [True, False]
    assert sent.path == "/v1/traces"
    assert b"gen_ai.request.model" in sent.body
    assert sent.body.count(b"attempt lab m") == sent.body.count(b"penstock.attempt") == 4
