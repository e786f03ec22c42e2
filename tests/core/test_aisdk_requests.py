"""Requests of the AI SDK, both forms of them, held against the SDK itself, and what no golden case shows.

What a page posts must become the model messages that the SDK would make of it; what we write must be taken as its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from penstock import request as rq
from penstock._protocols.aisdk.request_write import Quirks
from penstock.errors import BadRequest
from tests.oracles.node.oracle import UI_VERSIONS, Oracles, Version
from tests.support import request_facets
from tests.support import request_protocols as requesting
from tests.support.request_cases import cases

if TYPE_CHECKING:
    from collections.abc import Iterator

Json = dict[str, Any]
SINCE: dict[str, Version] = {"uistream-page": 7, "uistream-approval": 7}
"""Cases with parts that older versions do not know."""
PAGES = [case for case in cases() if case.source == "uistream" and case.id != "uistream-version4"]
STEP: Json = {"type": "step-start"}


@pytest.fixture(scope="module")
def oracles() -> Iterator[Oracles]:
    with Oracles() as pool:
        yield pool


def said(request: rq.Request) -> list[Any]:
    """Roles and parts, without state and without what model messages have no part for."""
    rows: list[Any] = []
    for message in request.messages:
        parts = [part for part in message.parts if not isinstance(part, rq.Source | rq.Opaque)]
        bare = [
            {key: value for key, value in msgspec.to_builtins(part).items() if key not in ("extra", "cache")}
            for part in parts
        ]
        rows += [(message.role, bare)] if bare else []
    return rows


def page(*parts: Json, role: str = "assistant") -> Json:
    return {"messages": [{"id": "m1", "role": role, "parts": list(parts)}]}


def tool(state: str, id: str = "c1", **fields: Any) -> Json:
    return {"type": "tool-log", "toolCallId": id, "state": state, "input": {"page": 1}, **fields}


# ── the SDK's own opinion ─────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("ai", UI_VERSIONS)
def test_pages_messages_become_what_the_sdk_makes_of_them(oracles: Oracles, ai: Version) -> None:
    known = [case for case in PAGES if SINCE.get(case.id, 5) <= ai]
    bodies = [case.body("uistream") for case in known]
    bodies += [one.body for one in requesting.recorded("uistream")]
    theirs = oracles.model_messages(ai, [body["messages"] for body in bodies])
    for body, messages in zip(bodies, theirs, strict=True):
        assert said(requesting.read("uistream", body)) == said(requesting.read("aisdk", {"messages": messages}))


@pytest.mark.parametrize("ai", UI_VERSIONS)
def test_the_sdk_takes_what_is_written(oracles: Oracles, ai: Version) -> None:
    golden = [case.read() for case in cases() if case.source != "aisdk"]
    some = [one for source in requesting.MAIN for one in requesting.recorded(source)[::25]]
    requests = golden + [requesting.read(one.protocol, one.body) for one in some]
    models = [requesting.write("aisdk", request, Quirks(ai)).body["messages"] for request in requests]
    refused = [place for place, found in enumerate(oracles.refused(ai, models)) if found]
    assert refused == []


# ── round trips ───────────────────────────────────────────────────────────────────────────────────


def test_what_useChat_posts_comes_back_as_it_was() -> None:  # noqa: N802 — its name
    for one in requesting.recorded_or_skip("uistream"):
        draft = requesting.write("uistream", requesting.read("uistream", one.body))
        assert draft.body == one.body, one.name
        assert list(draft.diagnostics) == []


@pytest.mark.parametrize("source", ["uistream"])
@pytest.mark.parametrize("target", [name for name in requesting.WRITERS if name != "uistream"])
def test_every_provider_is_told_what_the_page_says(source: str, target: str) -> None:
    for one in requesting.recorded_or_skip(source):
        request = requesting.read(source, one.body)
        draft = requesting.write(target, request)
        again = requesting.read(target, draft.body)
        assert request_facets.changed(request, again) - request_facets.excused(target, draft.diagnostics) == set()


@pytest.mark.parametrize("target", ["aisdk", "uistream"])
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


# ── what cannot be read ───────────────────────────────────────────────────────────────────────────

USER: Json = {"role": "user", "content": "x"}


@pytest.mark.parametrize(
    ("source", "body", "path"),
    [
        ("aisdk", {}, "messages"),
        ("aisdk", {"messages": [USER, {"role": "user", "content": [{"type": "image", "image": 5}]}]}, "messages[1].content[0].image"),
        ("aisdk", {"messages": [{"role": "tool", "content": [{"type": "tool-result", "toolCallId": "a", "output": {"type": "content", "value": [{"type": "image-data", "data": [999]}]}}]}]}, "messages[0].content[0].output.value[0].data"),
        ("aisdk", {"messages": [{"role": "tool", "content": [{"type": "tool-result", "toolCallId": "a"}]}]}, "messages[0].content[0].output"),
        ("aisdk", {"messages": [{"role": "user", "content": [{"type": "text", "text": "x", "providerOptions": {"a": 1}}]}]}, "messages[0].content[0].providerOptions.a"),
        ("aisdk", {"messages": [USER], "tools": {"log": {"inputSchema": 5}}}, "tools.log.inputSchema"),
        ("aisdk", {"messages": [USER], "toolChoice": {"type": "tool"}}, "toolChoice.toolName"),
        ("aisdk", {"messages": [USER], "responseFormat": {"type": "json", "schema": 4}}, "responseFormat.schema"),
        ("aisdk", {"messages": [USER], "providerOptions": {"penstock": {"settings": {"seed": "x"}}}}, "providerOptions.penstock.settings"),
        ("uistream", page({"type": "text"}), "messages[0].parts[0].text"),
        ("uistream", page(tool("nearly")), "messages[0].parts[0].state"),
        ("uistream", page(tool("approval-requested", approval={"id": 4})), "messages[0].parts[0].approval.id"),
        ("uistream", page({"type": "file", "url": 5}, role="user"), "messages[0].parts[0].url"),
        ("uistream", {"messages": [{"role": "user", "content": 4}]}, "messages[0].content"),
        ("uistream", {"messages": [{"role": "assistant", "content": "", "toolInvocations": [{"state": "result"}]}]}, "messages[0].toolInvocations[0].toolName"),
        ("uistream", {"messages": [{"role": "boatswain", "parts": []}]}, "messages[0].role"),
    ],
)  # fmt: skip
def test_a_bad_request_names_the_place(source: str, body: Json, path: str) -> None:
    with pytest.raises(BadRequest) as caught:
        requesting.read(source, body)
    assert caught.value.path == path


# ── from a stream into the next request ───────────────────────────────────────────────────────────


@pytest.mark.parametrize("target", ["aisdk", "uistream"])
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
    from penstock import events as ev
    from penstock._protocols import encoder

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
