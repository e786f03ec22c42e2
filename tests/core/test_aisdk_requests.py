"""Requests of the AI SDK, both forms of them: what no golden case shows."""

from __future__ import annotations

from typing import Any

import msgspec

from penstock import encoder
from penstock import events as ev
from penstock import request as rq
from tests.support import request_facets
from tests.support import request_protocols as requesting
from tests.support.each_case import each

Json = dict[str, Any]
STEP: Json = {"type": "step-start"}


def page(*parts: Json, role: str = "assistant") -> Json:
    return {"messages": [{"id": "m1", "role": role, "parts": list(parts)}]}


def tool(state: str, id: str = "c1", **fields: Any) -> Json:
    return {"type": "tool-log", "toolCallId": id, "state": state, "input": {"page": 1}, **fields}


@each("target", ["aisdk", "uistream"])
def test_what_the_sdk_has_no_word_for_goes_under_our_name_and_comes_back(target: str) -> None:
    asked = rq.Settings(
        choices=2,
        parallel_calls=False,
        user="mate",
        budget=1024,
        format=rq.Format("schema", "x", {"type": "object"}, strict=True),
    )
    request = rq.Request(
        "tiny-1",
        [
            rq.Message("system", [rq.Text("One."), rq.Text("Two.", cache="5m")]),
            rq.Message("user", [rq.Text("Go.")]),
            rq.Message("assistant", [rq.Text("No.", refusal=True), rq.Reasoning("Hm", "summary", item="rs_1"), rq.Call("c1", "log", "free", form="text")]),
            rq.Message("tool", [rq.Result("c1", "log", [rq.Text("a"), rq.Json("[1]")], failed=True)]),
            rq.Message("tool", [rq.Result("lost", "log", [rq.Text("no call")])]),
        ],
        settings=asked,
    )  # fmt: skip
    again = requesting.read(target, requesting.write(target, request).body)
    assert again.settings == asked
    assert request_facets.changed(request, again) == set()
    thought = next(part for message in again.messages for part in message.parts if isinstance(part, rq.Reasoning))
    assert (thought.form, thought.item) == ("summary", "rs_1")


def test_approvals_are_answered_in_the_message_that_holds_the_results() -> None:
    body = page(
        STEP,
        tool("output-available", output="x", approval={"id": "a1", "approved": True}),
        tool("output-available", "c2", output="y"),
    )
    made = requesting.write("aisdk", requesting.read("uistream", body)).body["messages"]
    assert [message["role"] for message in made] == ["assistant", "tool"]
    assert [part["type"] for part in made[1]["content"]] == ["tool-approval-response", "tool-result", "tool-result"]


def test_a_client_may_give_back_state_and_nothing_else() -> None:
    """What our own writers rely on they must have read themselves."""
    options = {
        "providerOptions": {
            "penstock": {"extra": {"openai-chat": {"_": 5, "beside": 1}, "gemini": {"thoughtSignature": "ts"}}}
        }
    }
    request = requesting.read(
        "aisdk", {"messages": [{"role": "user", "content": [{"type": "text", "text": "x", **options}], **options}]}
    )
    (message,) = request.messages
    assert isinstance(message.parts[0], rq.Text)
    for extra in (message.extra or {}, message.parts[0].extra or {}):
        assert {key: own for key, own in extra.items() if key != "aisdk"} == {"gemini": {"thoughtSignature": "ts"}}


def test_a_call_still_streaming_is_no_call() -> None:
    request = requesting.read("uistream", page(STEP, {"type": "text", "text": "x"}, tool("input-streaming")))
    assert [type(part) for part in request.messages[0].parts] == [rq.Text]
    assert requesting.write("uistream", request).body == page(
        STEP, {"type": "text", "text": "x"}, tool("input-streaming")
    )


# ── from a stream into the next request ───────────────────────────────────────────────────────────


@each("target", ["aisdk", "uistream"])
def test_what_the_sdk_ran_in_a_turn_is_a_call_and_its_result_in_messages(target: str) -> None:
    """Nobody else ran it: a provider would look for it in vain."""
    mine = {"aisdk": {"sdk": True}}
    turn: list[rq.AnyPart] = [
        rq.Text("I look."), rq.Call("c1", "look", "{}", "provider", extra=mine),
        rq.Result("c1", "look", [rq.Json('{"a":1}')], by="provider"), rq.Text("Done."),
    ]  # fmt: skip
    talk = [rq.Message("user", [rq.Text("Look.")]), rq.Message("assistant", turn)]
    body = requesting.write(target, rq.Request("m", talk)).body
    assert "providerExecuted" not in str(body)
    back = requesting.read(target, body)
    assert [message.role for message in back.messages] == ["user", "assistant", "tool", "assistant"]
    ran = [part for message in back.messages for part in message.parts if isinstance(part, rq.Call | rq.Result)]
    assert [part.by for part in ran] == ["client", "client"]


def test_a_page_gives_back_that_a_call_was_free_text() -> None:
    """What a stream said of it is in the page's messages, and is read there."""
    frames = encoder("uistream").feed([
        ev.Start(), ev.CallStart(0, "c1", "patch", form="text"), ev.CallDelta(0, "*** x"),
        ev.CallEnd(0, "c1", "patch", "*** x", form="text"),
    ])  # fmt: skip
    whole = next(found for _, data in frames if (found := msgspec.json.decode(data))["type"] == "tool-input-available")
    part = {
        "type": "tool-patch", "toolCallId": "c1", "state": "output-available", "input": whole["input"], "output": "ok",
        "callProviderMetadata": whole["providerMetadata"],
    }  # fmt: skip
    read = requesting.read("uistream", {"messages": [{"id": "1", "role": "assistant", "parts": [part]}]})
    [call] = [part for part in read.messages[0].parts if isinstance(part, rq.Call)]
    assert (call.form, call.json) == ("text", "*** x")
