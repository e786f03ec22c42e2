"""How responses are stored: captured while they are sent, in a limited table; and the state for the next request."""

from __future__ import annotations

import asyncio
import json
from itertools import count
from typing import Any

import pytest

from penstock import events as ev
from penstock._gateway.endpoints.responses import ResponseCapture
from penstock._store.key_value import SqliteKeyValueTable, StoredResponses, StoredTurn
from penstock._store.sqlite import IN_MEMORY
from penstock._store.sqlite_writer import SqliteWriter
from penstock.stores import Bounds
from penstock.testing import Reply
from tests.support.gateway import gateway
from tests.support.openresponses import asking, events, lawful, resource

THOUGHT: list[ev.AnyEvent] = [
    ev.Start(id="one"), ev.ReasoningStart(index=0), ev.ReasoningDelta(index=0, text="Look at the gauge."),
    ev.ReasoningEnd(index=0, extra={"anthropic": {"signature": "c2lnbmVk"}}),
    ev.CallStart(index=1, id="toolu_1", name="read_gauge"), ev.CallDelta(index=1, json='{"station":"upper"}'),
    ev.CallEnd(index=1, id="toolu_1", name="read_gauge", json='{"station":"upper"}'), ev.Finish("calls"),
]  # fmt: skip


@pytest.mark.parametrize("stream", [False, True])
def test_reasoning_that_must_come_back_does(stream: bool) -> None:
    """A signature has no place in Responses: it waits at the gateway for the request that goes on."""

    def thinking(seen: Any) -> Reply:
        return Reply.of("anthropic", THOUGHT, stream=seen.json.get("stream") is True)

    tool = {"type": "function", "name": "read_gauge", "parameters": {"type": "object", "properties": {}}}
    body = {"model": "anthropic/text", "tools": [tool], "reasoning": {"effort": "high"}, "stream": stream}
    with gateway(thinking) as (running, up), asking(running.url) as http:
        reply = http.post("/responses", json={**body, "input": "How high?"})
        first = lawful(events(reply.text)) if stream else resource(reply.json())
        result = [{"type": "function_call_output", "call_id": first["output"][-1]["call_id"], "output": "3.2 m"}]
        http.post("/responses", json={**body, "input": result, "previous_response_id": first["id"]})
        said = up.requests[-1].json["messages"]
    assert [message["role"] for message in said] == ["user", "assistant", "user"]
    assert said[1]["content"][0] == {"type": "thinking", "thinking": "Look at the gauge.", "signature": "c2lnbmVk"}
    assert said[2]["content"][0]["tool_use_id"] == "toolu_1"


@pytest.mark.parametrize("size", [50, 333, 100_000])
def test_a_response_is_kept_however_its_stream_is_cut(size: int) -> None:
    """Once, and also where its end is larger than what is sent at a time."""
    text = "response.completed" + "x" * 1000
    last = {"type": "response.completed", "response": {"id": "resp_1", "output": [{"text": text}]}}
    first = {"type": "response.output_text.delta", "delta": '"response.completed"'}
    frames = [f"event: {one['type']}\ndata: {json.dumps(one)}\n\n".encode() for one in (first, last)]
    found: list[Any] = []
    sent: list[bytes] = []

    async def send(message: Any) -> None:
        sent.append(message.get("body", b""))

    async def run() -> None:
        over = ResponseCapture(found.append).wrap_send(send)
        await over({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/event-stream")]})
        pieces = [frames[1][at : at + size] for at in range(0, len(frames[1]), size)]
        for piece in (frames[0], *pieces, b"data: [DONE]\n\n"):
            await over({"type": "http.response.body", "body": piece, "more_body": True})

    asyncio.run(run())
    assert found == [last["response"]]
    assert b"".join(sent) == b"".join(frames) + b"data: [DONE]\n\n"


def test_an_answer_that_cannot_be_kept_is_given_all_the_same(caplog: pytest.LogCaptureFixture) -> None:
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    def keep(_: Any) -> None:
        raise OSError("no room")

    body = {"type": "http.response.body", "body": b'{"id":"resp_1","output":[]}', "more_body": False}

    async def run() -> None:
        over = ResponseCapture(keep).wrap_send(send)
        await over({"type": "http.response.start", "status": 200, "headers": []})
        await over(body)

    asyncio.run(run())
    assert sent[-1] is body
    assert "resp_1 was not kept" in caplog.text


def stored(number: int, text: str = "x") -> StoredTurn:
    item = {"type": "message", "id": f"msg_{number}", "role": "assistant", "content": text}
    return StoredTurn([{"role": "user", "content": f"{number}"}], {"id": f"resp_{number}", "output": [item]})


def test_the_table_is_bounded_in_number_and_age() -> None:
    """A response is three rows: its head, its turn, and where its item is."""
    now = [1000.0]
    names = count()
    rows = SqliteKeyValueTable(SqliteWriter(IN_MEMORY), "responses", lambda: now[0], Bounds(rows=6, age=100.0))
    table = StoredResponses(rows, lambda: f"{next(names)}")
    before: tuple[str, ...] = ()
    for number in range(5):
        before = (*before, table.put("ann", stored(number), before))
        now[0] += 1
    rows._writer.flush()
    assert table.past("ann", "resp_4") is None  # its beginning is forgotten
    assert table.get("ann", "resp_0") is None
    assert table.get("ann", "resp_4") == stored(4)
    assert table.input_items("ann", "resp_4") == [*stored(3).input, *stored(3).response["output"], *stored(4).input]
    assert table.items("ann", ["msg_4", "msg_0", "msg_x"]) == {"msg_4": stored(4).response["output"][0]}
    assert table.get("ben", "resp_4") is None
    now[0] += 200
    assert table.get("ann", "resp_4") is None


def test_a_row_that_is_damaged_is_forgotten() -> None:
    rows = SqliteKeyValueTable(SqliteWriter(IN_MEMORY), "responses", lambda: 0.0)
    table = StoredResponses(rows, lambda: "key")
    table.put("ann", stored(1))
    rows.put("ann", {"t:key": b"{"})
    assert table.get("ann", "resp_1") is None
    assert not table.drop("ann", "resp_1")
    rows.put("ann", {"r:resp_1": b"[]"})
    assert table.past("ann", "resp_1") is None
