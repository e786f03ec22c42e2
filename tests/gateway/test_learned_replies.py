"""An answer that is sent back counts as the provider counted it: with calls, thinking, stored state, and large prompts."""

from __future__ import annotations

import json
import threading
from typing import TYPE_CHECKING, Any

from penstock import events as ev
from penstock.testing import Reply
from tests.gateway.test_learned_counts import ASKED, LONGER, NEXT, TALK, USED, Asking, answered, near, replies
from tests.support.client_requests import get, post
from tests.support.each_case import each
from tests.support.estimates import learn, trace_statements
from tests.support.gateway import gateway

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.gateway import Running

INPUT = {"place": "third gate", "hours": [2, 3, 4]}
THOUGHT = "The keeper asks for three hours, so the gauge must be read three times."
CALLING: list[ev.AnyEvent] = [
    ev.Start(id="1", model="m"), ev.TextStart(0), ev.TextDelta(0, "I read "), ev.TextDelta(0, "the gauge."),
    ev.TextEnd(0), ev.CallStart(1, "c1", "read_gauge"), ev.CallEnd(1, "c1", "read_gauge", json.dumps(INPUT)),
    ev.Usage(1500, 60), ev.Finish("calls"),
]  # fmt: skip
SCHEMA = {"type": "object", "properties": {"place": {"type": "string"}, "hours": {"type": "array"}}}
Body = dict[str, Any]


def counted(running: Running, path: str, body: Body) -> tuple[int, str]:
    reply = post(running.url + path, json=body)
    assert reply.status_code == 200, reply.text
    said = reply.json()
    tokens = said.get("input_tokens", said.get("totalTokens")) or said["prompt"]["tokens"]
    return tokens, reply.headers["x-penstock-tokens-method"]


# ── an agent's turn, in each protocol: the first request, the answer as it is sent back, the result ──


def _anthropic(said: Any) -> tuple[list[Any], list[Any]]:
    result = {"type": "tool_result", "tool_use_id": said["content"][-1]["id"], "content": "3.2 m"}
    return [{"role": "assistant", "content": said["content"]}], [{"role": "user", "content": [result]}]


def _responses(said: Any) -> tuple[list[Any], list[Any]]:
    output = {"type": "function_call_output", "call_id": said["output"][-1]["call_id"], "output": "3.2 m"}
    return said["output"], [output]


def _gemini(said: Any) -> tuple[list[Any], list[Any]]:
    response = {"functionResponse": {"name": "read_gauge", "response": {"height": "3.2 m"}}}
    return [said["candidates"][0]["content"]], [{"role": "user", "parts": [response]}]


def _vscode(said: Any) -> tuple[list[Any], list[Any]]:
    parts = [line for line in said["lines"] if line["kind"] in ("text", "call")]
    result = {"callId": parts[-1]["callId"], "content": [{"value": "3.2 m"}]}
    content = [{key: value for key, value in part.items() if key != "kind"} for part in parts]
    return [{"role": 2, "content": content}], [{"role": 1, "content": [result]}]


AGENTS: dict[str, tuple[str, str, str, Body, Any]] = {
    "anthropic": (
        "/v1/messages", "/v1/messages/count_tokens", "messages",
        {"max_tokens": 99, "messages": [{"role": "user", "content": ASKED}],
         "tools": [{"name": "read_gauge", "input_schema": SCHEMA}]}, _anthropic,
    ),
    "responses": (
        "/v1/responses", "/v1/responses/input_tokens", "input",
        {"input": [{"type": "message", "role": "user", "content": ASKED}], "store": False,
         "tools": [{"type": "function", "name": "read_gauge", "parameters": SCHEMA}]}, _responses,
    ),
    "gemini": (
        "/v1beta/models/openai-chat/text:generateContent", "/v1beta/models/openai-chat/text:countTokens", "contents",
        {"contents": [{"role": "user", "parts": [{"text": ASKED}]}],
         "tools": [{"functionDeclarations": [{"name": "read_gauge", "parameters": SCHEMA}]}]}, _gemini,
    ),
    "vscode": (
        "/vscode/chat", "/vscode/count", "messages",
        {"version": 1, "stream": False, "messages": [{"role": 1, "content": [{"value": ASKED}]}],
         "tools": [{"name": "read_gauge", "description": "Reads.", "inputSchema": SCHEMA}]}, _vscode,
    ),
}  # fmt: skip


PAIRS = [(protocol, "openai-chat") for protocol in AGENTS]
PAIRS += [("anthropic", "responses"), ("responses", "responses"), ("responses", "anthropic")]
PAIRS += [("vscode", "responses"), ("vscode", "anthropic"), ("vscode", "gemini")]


@each("protocol, upstream", PAIRS)
def test_calls_are_recognised(protocol: str, upstream: str) -> None:
    """Without a new message behind it, the count is exactly what the provider said: prompt and answer."""
    path, counting, field, body, step = AGENTS[protocol]
    body = {**body, "model": f"{upstream}/text"}
    with gateway(Reply.of(upstream, CALLING, stream=False)) as (running, _):
        answer = post(running.url + path, json=body)
        assert answer.status_code == 200, answer.text
        learn(running)
        reply, result = step(answer.json())
        assert counted(running, counting, body) == (1500, "actual")
        sent = {**body, field: [*body[field], *reply]}
        assert counted(running, counting, sent) == (1560, "hybrid")
        tokens, method = counted(running, counting, {**sent, field: [*sent[field], *result]})
        assert (method, 1560 < tokens < 1600) == ("hybrid", True)


@each("stream", [True, False])
def test_thinking_that_is_not_sent_back_does_not_count(stream: bool) -> None:
    thinking: list[ev.AnyEvent] = [ev.ReasoningStart(0), ev.ReasoningDelta(0, THOUGHT), ev.ReasoningEnd(0)]
    texts: list[ev.AnyEvent] = [ev.TextStart(1), ev.TextDelta(1, "Three "), ev.TextDelta(1, "metres."), ev.TextEnd(1)]
    events: list[ev.AnyEvent] = [
        ev.Start(id="1"), *thinking, *texts, ev.Usage(1500, 60, reasoning=40), ev.Finish("stop"),
    ]  # fmt: skip
    with gateway(replies(events)) as (running, _):
        client = Asking(running, stream=stream)
        client.say(TALK)
        assert client.count([*TALK, ("assistant", "Three metres.")]) == (1520, "hybrid")


def test_the_form_of_a_message_does_not_matter() -> None:
    """A client marks its last message for the cache, and writes it as a list for that; next time it is a text."""
    system = [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}]
    marked = [{"type": "text", "text": ASKED, "cache_control": {"type": "ephemeral"}}]
    body: Body = {"model": "openai-chat/text", "max_tokens": 99}
    with gateway(replies()) as (running, _):
        said = {**body, "system": system, "messages": [{"role": "user", "content": marked}]}
        post(f"{running.url}/v1/messages", json=said)
        learn(running)
        again = {**body, "system": "Be brief.", "messages": [{"role": "user", "content": ASKED}]}
        assert counted(running, "/v1/messages/count_tokens", again) == (1500, "actual")


def test_a_history_that_the_gateway_stores() -> None:
    """The client sends only its new message; the prompt is the whole conversation."""
    with gateway(replies()) as (running, _):
        body = {"model": "openai-chat/text", "input": ASKED}
        first = post(f"{running.url}/v1/responses", json=body).json()
        learn(running)
        more = {**body, "input": NEXT, "previous_response_id": first["id"]}
        tail = Asking(running).count_tail(NEXT)
        assert counted(running, "/v1/responses/input_tokens", more) == (near(sum(USED) + tail), "hybrid")


def test_a_prompt_with_a_deep_input() -> None:
    """What a model once wrote may be deeper than a body, and the conversation is still counted."""
    deep: Any = {}
    for _ in range(400):
        deep = {"a": deep}
    call, said = {"callId": "c1", "name": "read_gauge", "input": deep}, [{"value": ASKED}]
    messages = [{"role": 1, "content": said}, {"role": 2, "content": [call]}, {"role": 1, "content": said}]
    body = {"version": 1, "model": "openai-chat/text", "messages": messages}
    with gateway(replies()) as (running, _):
        assert counted(running, "/vscode/count", body)[1] == "estimated"
        assert post(f"{running.url}/vscode/chat", json=body).status_code == 200
        learn(running)
        assert counted(running, "/vscode/count", body) == (1500, "actual")


@each("stream", [True, False])
def test_a_large_prompt_is_learned_too(stream: bool) -> None:
    """Its body is converted in a thread, and too large to be estimated for the journal."""
    talk = [("user", ASKED * 400)]
    with gateway(replies(answered(used=(99_000, 60)))) as (running, _):
        client = Asking(running, stream=stream)
        client.say(talk)
        assert running.rows()[0].estimate is None
        assert client.count(talk) == (99_000, "actual")
        assert client.count([*talk, *LONGER[1:]])[1] == "hybrid"


def test_a_long_answer_is_recognised() -> None:
    """Many reads, also those that are read as runs of text."""
    text = 'The water fell by a hand every hour, and the keeper wrote it down. \N{ROWBOAT} ä "so"\n ' * 300
    for upstream, client_protocol in (("openai-chat", "anthropic"), ("responses", "responses")):
        with gateway(replies(answered(text, (1500, 4800)))) as (running, _):
            client = Asking(running, client_protocol, f"{upstream}/text")
            client.say(TALK)
            assert client.count([*TALK, ("assistant", text)]) == (6300, "hybrid")


def test_no_statement_runs_on_the_event_loop(tmp_path: Path) -> None:
    threads: set[str] = set()
    with gateway(replies(), data=tmp_path) as (running, _):
        client = Asking(running)
        client.count(TALK)
        trace_statements(running, lambda _: threads.add(threading.current_thread().name))
        client.say(TALK)
        client.count(LONGER)
        post(f"{running.url}/vscode/count", json={"model": "openai-chat/text", "items": ["one"]})
        assert get(f"{running.url}/vscode/models").status_code == 200
    assert {name.partition("_")[0] for name in threads} == {"penstock-counting", "penstock-estimates"}
