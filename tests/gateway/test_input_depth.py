"""Deep JSON through the gateway, over real sockets: clients get a 400 or an answer, never a 500."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from penstock import events as ev
from penstock.testing import Reply
from tests.support.client_requests import post
from tests.support.each_case import each
from tests.support.gateway import gateway

if TYPE_CHECKING:
    from collections.abc import Iterator

    import httpx

    from penstock.testing import ReceivedRequest, Upstream
    from tests.support.gateway import Running


DEPTH = 1100
DEEP = "[" * DEPTH + "]" * DEPTH
INPUT = f'{{"deep":{DEEP}}}'
MESSAGES: list[dict[str, Any]] = [{"role": "user", "content": "x"}]
CALL: list[ev.AnyEvent] = [
    ev.Start("t", "m"), ev.CallStart(0, "c1", "f"), ev.CallDelta(0, INPUT), ev.CallEnd(0, "c1", "f", INPUT),
    ev.Usage(1, 1), ev.Finish("calls"),
]  # fmt: skip
TEXT: list[ev.AnyEvent] = [
    ev.Start("t", "m"), ev.TextStart(0), ev.TextDelta(0, "fine"), ev.TextEnd(0), ev.Finish("stop"),
]  # fmt: skip
ENDPOINTS: dict[str, tuple[str, dict[str, Any]]] = {
    "openai-chat": ("/v1/chat/completions", {"messages": MESSAGES}),
    "responses": ("/v1/responses", {"input": "x"}),
    "anthropic": ("/v1/messages", {"messages": MESSAGES, "max_tokens": 9}),
    "gemini": ("/v1beta/models/{model}:generateContent", {"contents": [{"role": "user", "parts": [{"text": "x"}]}]}),
    "ollama": ("/api/chat", {"messages": MESSAGES, "stream": False}),
}


def answer(seen: ReceivedRequest) -> Reply:
    """`call` answers with a deep call, `frame` with a frame that is too deep, `refuse` with a deep error body."""
    protocol = seen.path.lstrip("/").partition("/")[0]
    asked = seen.body.decode()
    if "refuse" in asked:
        return Reply.body(f'{{"error":{{"message":"no such thing","x":{DEEP}}}}}'.encode(), status=400)
    if "frame" in asked:
        frame = f'{{"id":"c","choices":[{{"index":0,"delta":{{"content":"a","x":{DEEP}}}}}]}}'.encode()
        if '"stream":true' in asked:
            return Reply((b"data: %b\n\ndata: [DONE]\n\n" % frame,), headers={"content-type": "text/event-stream"})
        return Reply.body(frame)
    events = CALL if "call" in asked and "c1" not in asked else TEXT
    return Reply.of(protocol, events, stream='"stream":true' in asked)


@pytest.fixture(scope="module")
def made() -> Iterator[tuple[Running, Upstream]]:
    with gateway(answer) as both:
        yield both


def ask(made: tuple[Running, Upstream], protocol: str, model: str, body: str = "", **more: Any) -> httpx.Response:
    path, small = ENDPOINTS[protocol]
    data = body or json.dumps({"model": model, **small, **more})
    kind = {"content-type": "application/json"}
    return post(made[0].url + path.format(model=model), content=data, headers=kind)


@each("protocol, depth", [(protocol, depth) for protocol in ENDPOINTS for depth in (300, 1100, 50_000)])
def test_a_deep_body_is_a_400_with_its_place(made: tuple[Running, Upstream], protocol: str, depth: int) -> None:
    _, small = ENDPOINTS[protocol]
    start = json.dumps({"model": "openai-chat/m", **small})[:-1]
    got = ask(made, protocol, "openai-chat/m", f'{start},"metadata":{{"x":{"[" * depth}{"]" * depth}}}}}')
    assert got.status_code == 400
    assert "nests deeper than 256 levels at metadata.x" in got.text


@each("upstream", ["openai-chat", "responses", "anthropic", "gemini", "bedrock", "cohere", "ollama"])
def test_a_conversation_with_deep_arguments_goes_on(made: tuple[Running, Upstream], upstream: str) -> None:
    """The model writes them, the client sends them back as it got them, and the provider gets all of them."""
    got = ask(made, "openai-chat", "openai-chat/call", tools=[{"type": "function", "function": {"name": "f"}}])
    assert got.status_code == 200, got.text[:300]
    said = got.json()["choices"][0]["message"]
    assert said["tool_calls"][0]["function"]["arguments"] == INPUT
    result = {"role": "tool", "tool_call_id": said["tool_calls"][0]["id"], "content": "done"}
    got = ask(made, "openai-chat", f"{upstream}/call", messages=[*MESSAGES, said, result])
    assert got.status_code == 200, got.text[:300]
    assert got.json()["choices"][0]["message"]["content"] == "fine"
    assert DEEP in made[1].requests[-1].body.decode()


@each("protocol", ["anthropic", "gemini", "ollama"])
def test_clients_whose_inputs_are_objects_may_send_them_back(made: tuple[Running, Upstream], protocol: str) -> None:
    got = ask(made, protocol, "openai-chat/call")
    assert got.status_code == 200, got.text[:300]
    assert DEEP in got.text
    history = {
        "anthropic": f'"max_tokens":9,"messages":[{{"role":"user","content":"x"}},{{"role":"assistant","content":[{{"type":'
        f'"tool_use","id":"c1","name":"f","input":{INPUT}}}]}},{{"role":"user","content":[{{"type":"tool_result",'
        '"tool_use_id":"c1","content":"done"}]}]',
        "gemini": f'"contents":[{{"role":"user","parts":[{{"text":"x"}}]}},{{"role":"model","parts":[{{"functionCall":{{'
        f'"id":"c1","name":"f","args":{INPUT}}}}}]}},{{"role":"user","parts":[{{"functionResponse":{{"id":"c1","name":"f",'
        '"response":{"output":"done"}}}]}]',
        "ollama": f'"stream":false,"messages":[{{"role":"user","content":"x"}},{{"role":"assistant","content":"","tool_calls":['
        f'{{"id":"c1","function":{{"name":"f","arguments":{INPUT}}}}}]}},{{"role":"tool","tool_name":"f","content":"done"}}]',
    }[protocol]
    got = ask(made, protocol, "openai-chat/call", f'{{"model":"openai-chat/call",{history}}}')
    assert got.status_code == 200, got.text[:300]
    assert DEEP in made[1].requests[-1].body.decode()


@each("protocol", ENDPOINTS)
def test_a_provider_s_payload_that_is_too_deep_is_a_fault(made: tuple[Running, Upstream], protocol: str) -> None:
    got = ask(made, protocol, "openai-chat/frame")
    assert got.status_code == 502, got.text[:300]
    assert "deeper than 256 levels" in got.text


def test_the_same_in_a_stream(made: tuple[Running, Upstream]) -> None:
    made[0].close_circuits()
    got = ask(made, "anthropic", "openai-chat/frame", stream=True)
    assert "deeper than 256 levels" in got.text
    assert got.status_code == 502 or "event: error" in got.text


def test_an_error_body_that_is_too_deep_keeps_its_status(made: tuple[Running, Upstream]) -> None:
    made[0].close_circuits()
    assert ask(made, "openai-chat", "openai-chat/refuse").status_code == 400
