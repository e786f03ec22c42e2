"""Responses over HTTP as Open Responses asks for it: the rows of its compliance suite, and what that leaves out.

Each row is asked of a gateway with providers of several protocols behind it, streamed and whole.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock import events as ev
from penstock.testing import Reply
from tests.support.each_case import each
from tests.support.gateway import answer, gateway
from tests.support.openresponses import asking, check_life_of_call, events, fits, lawful, resource

if TYPE_CHECKING:
    import httpx

    from penstock.testing import Upstream
    from tests.support.gateway import Running

BEHIND = ("openai-chat", "anthropic", "responses", "gemini")
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
TOOL = {
    "type": "function", "name": "read_gauge", "description": "Reads a gauge.",
    "parameters": {"type": "object", "properties": {"station": {"type": "string"}}},
}  # fmt: skip
ROWS: dict[str, dict[str, Any]] = {
    "basic-response": {"input": [{"type": "message", "role": "user", "content": "Say hello in exactly 3 words."}]},
    "assistant-phase": {"input": [
        {"type": "message", "role": "assistant", "phase": "commentary", "content": "I shall look."},
        {"type": "message", "role": "assistant", "phase": "final_answer", "content": "It is open."},
        {"type": "message", "role": "user", "content": "And now?"},
    ]},
    "system-prompt": {"input": [
        {"type": "message", "role": "system", "content": "You are a lock keeper."},
        {"type": "message", "role": "user", "content": "Say hello."},
    ]},
    "image-input": {"input": [{"type": "message", "role": "user", "content": [
        {"type": "input_text", "text": "What is this?"},
        {"type": "input_image", "image_url": f"data:image/png;base64,{PIXEL}"},
    ]}]},
    "multi-turn": {"input": [
        {"type": "message", "role": "user", "content": "My name is Alice."},
        {"type": "message", "role": "assistant", "content": "Hello Alice!"},
        {"type": "message", "role": "user", "content": "What is my name?"},
    ]},
    "everything-said": {
        "input": "Hello.", "instructions": "Be short.", "temperature": 0.5, "top_p": 0.9, "max_output_tokens": 99,
        "reasoning": {"effort": "low"}, "text": {"verbosity": "low"}, "metadata": {"a": "b"}, "store": False,
        "tools": [TOOL], "tool_choice": {"type": "function", "name": "read_gauge"}, "parallel_tool_calls": False,
        "prompt_cache_key": "k", "safety_identifier": "s", "truncation": "auto", "service_tier": "flex",
    },
    "a-schema": {"input": "Hello.", "text": {"format": {
        "type": "json_schema", "name": "n", "schema": {"type": "object", "properties": {}},
    }}},
}  # fmt: skip


def get_response(http: httpx.Client, **body: Any) -> dict[str, Any]:
    reply = http.post("/responses", json=body)
    assert reply.status_code == 200, reply.text
    return resource(reply.json())


def streamed(http: httpx.Client, **body: Any) -> list[dict[str, Any]]:
    reply = http.post("/responses", json={**body, "stream": True})
    assert reply.status_code == 200, reply.text
    assert reply.headers["content-type"].startswith("text/event-stream")
    return events(reply.text)


# ── the suite's own rows ──────────────────────────────────────────────────────────────────────────


@each("provider", ["openai-chat", "responses", "replay"])
@each("row", ROWS)
def test_a_row_of_the_suite_holds(http: httpx.Client, provider: str, row: str) -> None:
    """Whole and streamed the same response, all of its fields, and every event within the schema."""
    body = {"model": f"{provider}/text", **ROWS[row]}
    one, two = get_response(http, **body), lawful(streamed(http, **body))
    said = "{}" if (provider, row) == ("replay", "a-schema") else "A penstock is the pipe"  # it keeps to the schema
    for response in (one, two):
        assert response["status"] == "completed"
        assert response["output"][0]["content"][0]["text"].startswith(said)
        assert response["completed_at"] is None or response["completed_at"] >= response["created_at"]


@each("provider", [*BEHIND, "replay"])
def test_tool_calling(http: httpx.Client, provider: str) -> None:
    body = {"model": f"{provider}/tools", "input": "How high is the water?", "tools": [TOOL]}
    stream = streamed(http, **body)
    for response in (get_response(http, **body), lawful(stream)):
        (call,) = [item for item in response["output"] if item["type"] == "function_call"]
        assert (call["name"], call["status"]) == ("read_gauge", "completed")
        if provider != "responses":  # which here echoes nothing, and is handed on as it is
            assert response["tools"] == [{**TOOL, "strict": None}]
    check_life_of_call(stream)


@each("provider", BEHIND)
def test_compaction(http: httpx.Client, made: tuple[Running, Upstream], provider: str) -> None:
    """A conversation is made short by the model itself, and what comes of it can be gone on from."""
    given = [
        {"type": "message", "role": "user", "content": "Open the upper gate."},
        {"type": "function_call", "call_id": "c1", "name": "open_gate", "arguments": '{"gate":"upper"}'},
        {"type": "function_call_output", "call_id": "c1", "output": "It jams at 40 %."},
        {"type": "message", "role": "assistant", "content": "It jams."},
    ]
    body = {"model": f"{provider}/text", "prompt_cache_key": "k", "input": given}
    reply = http.post("/responses/compact", json=body)
    assert reply.status_code == 200, reply.text
    short = reply.json()
    fits("CompactResource", short)
    assert short["object"] == "response.compaction"
    assert [item["type"] for item in short["output"]] == ["message", "compaction"]
    asked = str(made[1].requests[-1].json)
    assert "Open the upper gate." in asked
    assert "It jams at 40 %." in asked
    then = get_response(
        http, model=f"{provider}/text", input=[*short["output"], {"role": "user", "content": "Try again."}]
    )
    assert then["status"] == "completed"
    assert "A penstock is the pipe that feeds" in str(made[1].requests[-1].json)


def test_compaction_needs_a_model(http: httpx.Client) -> None:
    reply = http.post("/responses/compact", json={"input": "Hello."})
    assert (reply.status_code, reply.json()["error"]["param"]) == (400, "model")


def test_a_damaged_or_foreign_compaction_is_left_to_its_maker(http: httpx.Client) -> None:
    for content in ("gAAAAA", "penstock1.!!!", "penstock1.AAAA"):
        item = {"type": "compaction", "id": "cmp_1", "encrypted_content": content}
        assert get_response(http, model="openai-chat/text", input=[item, {"role": "user", "content": "Go on."}])[
            "output"
        ]


# ── what the suite leaves out ─────────────────────────────────────────────────────────────────────


@each("provider", BEHIND)
def test_reasoning_is_a_summary(http: httpx.Client, provider: str) -> None:
    """The one spelling that readers of both dialects share."""
    stream = streamed(http, model=f"{provider}/reasoning", input="How long?", reasoning={"summary": "auto"})
    response = lawful(stream)
    assert response["output"][0]["type"] == "reasoning"
    thought = "".join(event["delta"] for event in stream if event["type"] == "response.reasoning_summary_text.delta")
    assert thought == response["output"][0]["summary"][0]["text"]
    assert thought.endswith("= 540. Good.")


@each("provider", BEHIND)
@each("stream", [False, True])
def test_a_tool_result_goes_back(
    http: httpx.Client, made: tuple[Running, Upstream], provider: str, stream: bool
) -> None:
    def ask(**more: Any) -> dict[str, Any]:
        body = {"model": f"{provider}/tools", "tools": [TOOL], **more}
        return lawful(streamed(http, **body)) if stream else get_response(http, **body)

    question = {"role": "user", "content": "How high is the water?"}
    first = ask(input=[question])
    call = next(item for item in first["output"] if item["type"] == "function_call")
    result = {"type": "function_call_output", "call_id": call["call_id"], "output": "3.2 m"}
    then = ask(input=[question, *first["output"], result])
    assert then["output"][0]["content"][0]["text"].startswith("Thank you: the result arrived")
    assert "3.2 m" in str(made[1].requests[-1].json)
    short = ask(input=[result], previous_response_id=first["id"])
    assert short["output"][0]["content"] == then["output"][0]["content"]
    assert "How high is the water?" in str(made[1].requests[-1].json)


@each("provider", ["openai-chat", "anthropic"])
def test_a_response_that_is_cut_short_is_incomplete(http: httpx.Client, provider: str) -> None:
    for response in (
        get_response(http, model=f"{provider}/length", input="Go on."),
        lawful(streamed(http, model=f"{provider}/length", input="Go on.")),
    ):
        assert response["status"] == "incomplete"
        assert response["incomplete_details"] == {"reason": "max_output_tokens"}


@each("provider", ["openai-chat", "anthropic", "responses"])
def test_a_stream_that_breaks_fails_in_so_many_words(provider: str) -> None:
    """An error, then a response that has failed, numbered on from what was sent, with what there was of the answer."""

    def broken(seen: Any) -> Reply:
        return answer(seen).disconnect(after=-300)

    with gateway(broken) as (running, _), asking(running.url) as http:
        stream = streamed(http, model=f"{provider}/text", input="Go on.")
        assert [event["type"] for event in stream[-2:]] == ["error", "response.failed"]
        assert [event["sequence_number"] for event in stream] == list(range(len(stream)))
        for event in stream[-2:]:
            fits({"error": "ErrorStreamingEvent"}.get(event["type"], "ResponseFailedStreamingEvent"), event)
        response = resource(stream[-1]["response"])
        assert response["status"] == "failed"
        assert response["error"]["code"] == "server_error"


@each("stream", [False, True])
def test_a_refusal_before_the_first_word_has_a_status(stream: bool) -> None:
    with (
        gateway(Reply.rate_limit("openai-chat", retry_after=7)) as (running, _),
        asking(running.url) as http,
    ):
        reply = http.post("/responses", json={"model": "openai-chat/text", "input": "Hi.", "stream": stream})
    assert (reply.status_code, reply.headers["retry-after"]) == (429, "7")
    assert reply.json()["error"]["code"] == "rate_limit_exceeded"


def test_a_call_that_was_cut_is_not_there_to_be_run() -> None:
    """Neither in a body nor, as something that is done, in a stream."""
    said: list[ev.AnyEvent] = [
        ev.Start(id="one"), ev.CallStart(index=0, id="c1", name="rm"), ev.CallDelta(index=0, json='{"path": "/et'),
        ev.CallEnd(index=0, id="c1", name="rm", json='{"path": "/et'), ev.Finish("length"),
    ]  # fmt: skip

    def cut(seen: Any) -> Reply:
        return Reply.of("anthropic", said, stream=seen.json.get("stream") is True)

    with gateway(cut) as (running, _), asking(running.url) as http:
        body = {"model": "anthropic/text", "input": "Clean up."}
        one, stream = get_response(http, **body), streamed(http, **body)
    assert not one["output"]
    assert stream[-1]["type"] == "response.incomplete"
    assert not [event for event in stream if event["type"] == "response.output_item.done"]


@each("field", ["conversation"])
def test_what_is_not_served_says_so(http: httpx.Client, field: str) -> None:
    reply = http.post("/responses", json={"model": "openai-chat/text", "input": "Hi.", field: "conv_1"})
    assert (reply.status_code, reply.json()["error"]["param"]) == (400, field)
    message = reply.json()["error"]["message"]
    assert message.startswith(f"{field}: ")
    assert "previous_response_id" in message


def test_tools_that_only_some_know_are_taken(http: httpx.Client) -> None:
    tools = [
        TOOL, {"type": "web_search"}, {"type": "namespace", "name": "ns", "tools": [TOOL]},
        {"type": "something_new", "x": 1}, {"type": "custom", "name": "patch"},
    ]  # fmt: skip
    body = {"input": "Hi.", "tools": tools, "client_metadata": {"a": 1}, "include": ["reasoning.encrypted_content"]}
    for provider in BEHIND:
        assert lawful(streamed(http, model=f"{provider}/text", **body))["status"] == "completed"


@each("provider", ["openai-chat", "anthropic"])
def test_how_many_tokens_an_input_is(http: httpx.Client, provider: str) -> None:
    """By the provider's own count where it has one, with all that stands before the input."""
    import openai

    first = get_response(http, model=f"{provider}/text", input="How high is the water today, would you say?")
    with openai.OpenAI(base_url=str(http.base_url), api_key="any") as client:
        alone = client.responses.input_tokens.count(model=f"{provider}/text", input="And now?").input_tokens
        after = client.responses.input_tokens.count(
            model=f"{provider}/text", input="And now?", previous_response_id=first["id"]
        ).input_tokens
    assert (alone == after == 42) if provider == "anthropic" else (0 < alone < after)
