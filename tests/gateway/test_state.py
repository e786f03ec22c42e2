"""What a client cannot carry comes back to the provider with its next request, and to no other tenant's."""

from __future__ import annotations

from typing import Any

from penstock import events as ev
from penstock.testing import Reply
from tests.support.client_requests import post
from tests.support.each_case import each
from tests.support.gateway import gateway, hash_key

SIGNED: list[Any] = [
    ev.Start("msg_1", "m", 7),
    ev.ReasoningStart(0),
    ev.ReasoningDelta(0, "The gauge will know."),
    ev.ReasoningEnd(0, {"anthropic": {"signature": "c2lnbmVk"}}),
    ev.CallStart(1, "toolu_1", "read_gauge"),
    ev.CallDelta(1, '{"unit":"m"}'),
    ev.CallEnd(1, "toolu_1", "read_gauge", '{"unit":"m"}'),
    ev.Usage(5, 5),
    ev.Finish("calls"),
]
TOOL = {"type": "function", "function": {"name": "read_gauge", "parameters": {"type": "object", "properties": {}}}}
ASK = {"role": "user", "content": "How deep?"}


def chat(url: str, messages: list[Any], key: str, *, stream: bool) -> Any:
    body = {"model": "anthropic/m", "messages": messages, "tools": [TOOL], "stream": stream}
    return post(f"{url}/v1/chat/completions", json=body, headers={"authorization": f"Bearer {key}"})


@each("stream", [True, False])
def test_signed_reasoning_survives_a_client_that_cannot_carry_it(stream: bool) -> None:
    keys = {"one": {"hash": hash_key("pk-one-000000")}, "two": {"hash": hash_key("pk-two-000000")}}
    call = {"id": "toolu_1", "type": "function", "function": {"name": "read_gauge", "arguments": '{"unit": "m"}'}}
    again = [
        ASK,
        {"role": "assistant", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "toolu_1", "content": "3"},
    ]
    with gateway(Reply.of("anthropic", SIGNED, stream=stream), keys=keys) as (running, up):
        assert chat(running.url, [ASK], "pk-one-000000", stream=stream).status_code == 200
        for key in ("pk-one-000000", "pk-two-000000"):
            assert chat(running.url, again, key, stream=stream).status_code == 200
        blocks = [seen.json["messages"][1]["content"] for seen in up.requests[1:]]
    thought = {"type": "thinking", "thinking": "The gauge will know.", "signature": "c2lnbmVk"}
    assert blocks[0][0] == thought
    assert [block["type"] for block in blocks[1]] == ["tool_use"], "another tenant's state"


BROKEN: list[Any] = [
    ev.Start("r1", "m", 7),
    ev.CallStart(0, "call_1", "read_gauge"),
    ev.CallDelta(0, '{"unit":"m"}'),
    ev.CallEnd(0, "call_1", "read_gauge", '{"unit":"m"}', extra={"gemini": {"thoughtSignature": "U0lH"}}),
    ev.TextStart(1),
    ev.TextDelta(1, "And then the answer goes on for a while"),
    ev.TextEnd(1),
    ev.Finish("calls"),
]


def test_the_signature_of_a_call_that_was_delivered_survives_a_cut_behind_it() -> None:
    call = {"id": "call_1", "type": "function", "function": {"name": "read_gauge", "arguments": '{"unit": "m"}'}}
    history = [
        ASK,
        {"role": "assistant", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "call_1", "content": "3"},
    ]
    whole = Reply.of("gemini", BROKEN, stream=True)
    cut = whole.disconnect(after=whole.data.index(b"And then") + 5)
    with gateway(cut) as (running, up):
        body = {"model": "gemini/gemini-3.1-pro-preview", "tools": [TOOL], "stream": True}
        broken = post(f"{running.url}/v1/chat/completions", json={**body, "messages": [ASK]}).text
        assert "read_gauge" in broken
        assert '"error"' in broken
        post(f"{running.url}/v1/chat/completions", json={**body, "messages": history})
        sent = up.requests[-1].json["contents"][1]["parts"][0]
    assert sent["thoughtSignature"] == "U0lH"
