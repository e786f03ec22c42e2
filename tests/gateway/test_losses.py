"""What an upstream has no word for: done here, refused, or said in a header; at every door, streamed or not."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from penstock import events as ev
from penstock.testing import Reply
from tests.support.client_requests import ASKING, post, read, told
from tests.support.each_case import each
from tests.support.gateway import gateway, settled, until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.testing import ReceivedRequest, Upstream
    from tests.support.gateway import Running

HEADER = "x-penstock-losses"
WORDS = ["One, ", "two, ST", "OP three", " and so on"]
SCRIPT: list[ev.AnyEvent] = [
    ev.Start("one", "m", 7), ev.TextStart(0), *(ev.TextDelta(0, word) for word in WORDS), ev.TextEnd(0),
    ev.Usage(5, 9), ev.Finish("stop"),
]  # fmt: skip
BOTH = each("stream", [True, False])
STOPPING: dict[str, dict[str, Any]] = {
    "openai-chat": {"stop": "STOP"}, "anthropic": {"stop_sequences": ["STOP"]}, "completions": {"stop": ["STOP"]},
    "gemini": {"generationConfig": {"stopSequences": ["STOP"]}}, "vscode": {"modelOptions": {"stop": ["STOP"]}},
    "ollama": {"options": {"stop": ["STOP"]}},
}  # fmt: skip
CHAT: dict[str, Any] = {"messages": [{"role": "user", "content": "Count."}]}


def spoken(seen: ReceivedRequest) -> Reply:
    protocol, _, rest = seen.path.lstrip("/").partition("/")
    stream = seen.json.get("stream") is True or "stream" in rest
    return Reply.of("openai-chat" if "chat/completions" in rest else protocol, SCRIPT, stream=stream)


@pytest.fixture(scope="module")
def both() -> Iterator[tuple[Running, Upstream]]:
    with gateway(spoken) as found:
        yield found


def asked(client: str, model: str, *, stream: bool, **more: Any) -> tuple[str, Any]:
    path, body = ASKING[client](model, stream)
    return path, {**body, **more}


@BOTH
@each("client", STOPPING)
def test_a_stop_sequence_stops_an_upstream_that_knows_none(
    both: tuple[Running, Upstream], client: str, stream: bool
) -> None:
    running, up = both
    before = len(up.requests)
    path, body = asked(client, "responses/m", stream=stream, **STOPPING[client])
    answer = post(running.url + path, json=body)
    text, _, end = told(read(client, answer.content, stream=stream))
    assert (text, end) == ("One, two, ", "stop")
    assert "stop" not in up.requests[before].json
    assert "stop" not in answer.headers.get(HEADER, "").split(",")
    if client == "anthropic":
        assert b'"stop_reason":"stop_sequence","stop_sequence":"STOP"' in answer.content


def test_the_upstream_is_let_go_at_the_stop() -> None:
    """Nobody pays for what is not read."""
    endless = Reply.of("responses", SCRIPT)
    place = endless.data.index(b" and so on") - 60
    with gateway(endless.stall(after=place)) as (running, up):
        path, body = asked("openai-chat", "responses/m", stream=True, stop=["STOP"])
        with httpx.stream("POST", running.url + path, json=body, timeout=20, trust_env=False) as answer:
            data = answer.read()
        until(running, lambda: up.requests[0].disconnected.is_set() and settled(running))
        row = running.rows()[0]
    assert told(read("openai-chat", data))[::2] == ("One, two, ", "stop")
    usage = [event for event in read("openai-chat", data) if isinstance(event, ev.Usage)][-1]
    assert usage.output == 3, "an estimate is better than nothing"
    assert (row.status, row.finish, row.exact, row.output) == ("finish", "stop", False, 3)


@BOTH
def test_an_upstream_that_knows_stop_sequences_is_told_them(both: tuple[Running, Upstream], stream: bool) -> None:
    running, up = both
    for upstream, field in (("anthropic", "stop_sequences"), ("openai-chat", "stop")):
        path, body = asked("openai-chat", f"{upstream}/m", stream=stream, stop=["STOP"])
        answer = post(running.url + path, json=body)
        assert up.requests[-1].json[field] == ["STOP"]
        assert "three and so on" in answer.text.replace('"', "") or stream
        assert HEADER not in answer.headers or "stop" not in answer.headers[HEADER].split(",")


# ── what is refused ───────────────────────────────────────────────────────────────────────────────


@BOTH
@each("upstream", ["responses", "anthropic", "bedrock", "cohere", "ollama"])
def test_several_choices_are_refused_where_there_is_one(
    both: tuple[Running, Upstream], upstream: str, stream: bool
) -> None:
    running, up = both
    before = len(up.requests)
    path, body = asked("openai-chat", f"{upstream}/m", stream=stream, n=2)
    answer = post(running.url + path, json=body)
    assert answer.status_code == 400
    error = answer.json()["error"]
    assert error["code"] == "unsupported_parameter"
    assert error["message"].startswith(f"n: {upstream} gives one answer to a request, not 2")
    assert len(up.requests) == before
    path, body = asked("openai-chat", f"{upstream}/m", stream=stream, n=1)
    assert post(running.url + path, json=body).status_code == 200, "one is what everybody gives"


def test_a_list_of_prompts_is_refused_where_they_would_become_one(both: tuple[Running, Upstream]) -> None:
    running, _ = both
    body = {"model": "openai-chat/m", "prompt": ["one", "two"]}
    answer = post(f"{running.url}/v1/completions", json=body)
    assert answer.status_code == 400
    assert "prompt: openai-chat takes one prompt at a time" in answer.text


def test_the_next_provider_may_know_what_the_first_does_not() -> None:
    with gateway(spoken, aliases={"either": ["anthropic/m", "openai-chat/m"]}) as (running, up):
        path, body = asked("openai-chat", "either", stream=False, n=2)
        assert post(running.url + path, json=body).status_code == 200
        assert [seen.json["n"] for seen in up.requests] == [2]


# ── what is said ──────────────────────────────────────────────────────────────────────────────────


@BOTH
@each(
    "client, more, names",
    [
        ("openai-chat", {"logprobs": True, "top_logprobs": 3, "seed": 7}, {"seed", "logprobs", "top_logprobs"}),
        ("completions", {"logprobs": 2, "seed": 7}, {"seed", "logprobs"}),
        ("responses", {"top_logprobs": 3}, {"top_logprobs"}),
        ("gemini", {"generationConfig": {"seed": 7, "responseLogprobs": True}}, {"seed", "logprobs"}),
        ("vscode", {"modelOptions": {"seed": 7}}, {"seed"}),
        ("ollama", {"options": {"seed": 7}}, {"seed"}),
        ("uistream", {"seed": 7}, set()),
    ],
)
def test_what_is_not_carried_is_named_in_a_header(
    both: tuple[Running, Upstream], client: str, more: dict[str, Any], names: set[str], stream: bool
) -> None:
    running, _ = both
    path, body = asked(client, "anthropic/m", stream=stream, **more)
    answer = post(running.url + path, json=body)
    assert answer.status_code == 200, answer.text
    said = set(answer.headers.get(HEADER, "").split(","))
    assert names <= said, said
    assert not {"choices", "stop", "max_output"} & said
    assert len(answer.headers.get(HEADER, "")) < 400


def test_what_says_nothing_is_no_loss(both: tuple[Running, Upstream]) -> None:
    running, _ = both
    more = {"n": 1, "logprobs": False, "frequency_penalty": 0, "presence_penalty": 0.0, "max_tokens": 5}
    path, body = asked("openai-chat", "anthropic/m", stream=True, **more)
    assert HEADER not in post(running.url + path, json=body).headers


@BOTH
@each("upstream", ["anthropic", "bedrock"])
def test_json_of_any_shape_is_asked_for_in_words(both: tuple[Running, Upstream], upstream: str, stream: bool) -> None:
    running, up = both
    path, body = asked("openai-chat", f"{upstream}/m", stream=stream, response_format={"type": "json_object"})
    body["messages"] = [{"role": "system", "content": "Be brief."}, *body["messages"]]
    answer = post(running.url + path, json=body)
    assert answer.status_code == 200
    assert "any-json" not in answer.headers.get(HEADER, "")
    sent = json.dumps(up.requests[-1].json["system"])
    assert "Be brief." in sent
    assert "one valid JSON object" in sent
    assert sent.index("Be brief.") < sent.index("one valid JSON object")


def test_the_header_is_of_who_answers_and_comes_with_the_first_sign_of_life() -> None:

    slow = Reply.of("anthropic", SCRIPT).delayed(0.3)
    with gateway(slow, serve={"pace": 0.0, "ping": 0.05}) as (running, _):
        path, body = asked("openai-chat", "anthropic/m", stream=True, logprobs=True)
        answer = post(running.url + path, json=body)
    assert answer.content.startswith(b":")
    assert "logprobs" in answer.headers[HEADER]


@BOTH
def test_strict_refuses_what_changes_the_result(both: tuple[Running, Upstream], stream: bool) -> None:
    running, up = both
    path, body = asked("openai-chat", "anthropic/m", stream=stream, logprobs=True, seed=3, user="u")
    before = len(up.requests)
    assert post(running.url + path, json=body).status_code == 200
    assert len(up.requests) == before + 1
    answer = post(running.url + path, json=body, headers={"x-penstock-strict": "true"})
    assert answer.status_code == 400
    assert "seed, logprobs" in answer.json()["error"]["message"]
    assert len(up.requests) == before + 1
    answer = post(running.url + path, json=body, headers={"x-penstock-strict": "perhaps"})
    assert (answer.status_code, "expected true or false" in answer.text) == (400, True)


def test_strict_by_configuration_can_be_switched_off_for_a_request() -> None:
    with gateway(spoken, features={"strict": True}) as (running, _):
        path, body = asked("openai-chat", "anthropic/m", stream=False, logprobs=True)
        assert post(running.url + path, json=body).status_code == 400
        assert post(running.url + path, json=body, headers={"x-penstock-strict": "false"}).status_code == 200


@BOTH
def test_a_setting_that_was_changed_is_in_the_header(both: tuple[Running, Upstream], stream: bool) -> None:
    running, up = both
    path, body = asked("openai-chat", "anthropic/claude-sonnet-4-5", stream=stream, reasoning_effort="high")
    answer = post(running.url + path, json={**body, "max_tokens": 30_000})
    assert answer.headers[HEADER] == "effort"
    assert up.requests[-1].json["thinking"]["budget_tokens"] == 24576
