"""Responses over a WebSocket: the rows of the compliance suite, chains that are stored nowhere, clients that leave."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest

from penstock.testing import Reply
from tests.support.gateway import answer, gateway
from tests.support.openresponses import FAST, LIMIT, lawful, socket, until

if TYPE_CHECKING:
    import httpx

    from penstock.testing import Upstream
    from tests.support.gateway import Running

BEHIND = ("openai-chat", "anthropic", "responses")
RESULT = {"type": "function_call_output", "call_id": "call_of_nobody", "output": "1"}


@pytest.fixture(scope="module")
def url(made: tuple[Running, Upstream]) -> str:
    return made[0].url


# ── the suite's own rows ──────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("provider", [*BEHIND, "replay"])
def test_a_response(url: str, provider: str) -> None:
    with socket(url) as ws:
        response = ws.get_response(
            model=f"{provider}/text", input=[{"type": "message", "role": "user", "content": "Hi."}]
        )
    assert response["output"][0]["content"][0]["text"].startswith("A penstock is the pipe")


def test_responses_one_after_the_other(url: str) -> None:
    """Also where the second is asked for before the first is over."""
    with socket(url) as ws:
        ws.send(model="openai-chat/text", input="One.", store=False)
        ws.send(model="openai-chat/reasoning", input="Two.", store=False)
        one, two = lawful(ws.read()), lawful(ws.read())
    assert [item["type"] for item in one["output"]] == ["message"]
    assert [item["type"] for item in two["output"]] == ["reasoning", "message"]


@pytest.mark.parametrize("provider", BEHIND)
def test_a_continuation(made: tuple[Running, Upstream], provider: str) -> None:
    with socket(made[0].url) as ws:
        first = ws.get_response(model=f"{provider}/text", input="My name is Alice.", store=False)
        then = ws.get_response(model=f"{provider}/text", input="And?", store=False, previous_response_id=first["id"])
        assert then["previous_response_id"] == first["id"]
        third = ws.get_response(model=f"{provider}/text", input="So?", store=False, previous_response_id=then["id"])
    said = str(made[1].requests[-1].json)
    places = [said.index(word) for word in ("My name is Alice.", "A penstock is the pipe", "And?", "So?")]
    assert places == sorted(places)
    assert third["store"] is False


@pytest.mark.parametrize("provider", BEHIND)
def test_a_new_connection_knows_nothing_that_was_not_stored(url: str, provider: str) -> None:
    with socket(url) as ws:
        first = ws.get_response(model=f"{provider}/text", input="Hi.", store=False)
    with socket(url) as ws:
        error = ws.error(model=f"{provider}/text", input="And?", store=False, previous_response_id=first["id"])
        assert (error["status"], error["code"]) == (400, "previous_response_not_found")
        assert ws.get_response(model=f"{provider}/text", input="Hi. And?", store=False)["status"] == "completed"


def test_what_was_stored_is_known_to_all_connections(made: tuple[Running, Upstream], http: httpx.Client) -> None:
    """A chain may go from HTTP to a connection to another, and back."""
    url = made[0].url
    body = {"model": "anthropic/text", "input": "My name is Alice."}
    id = http.post("/responses", json=body).json()["id"]  # noqa: A001
    for _ in range(2):
        with socket(url) as ws:
            id = ws.get_response(model="anthropic/text", input="And?", previous_response_id=id)["id"]  # noqa: A001
    then = {"model": "anthropic/text", "input": "So?", "previous_response_id": id}
    assert http.post("/responses", json=then).status_code == 200
    assert str(made[1].requests[-1].json).count("And?") == 2
    assert "My name is Alice." in str(made[1].requests[-1].json)


def test_a_response_that_never_was(url: str) -> None:
    with socket(url) as ws:
        error = ws.error(model="responses/text", input="Hi.", previous_response_id="resp_that_never_was")
    assert (error["code"], error["param"]) == ("previous_response_not_found", "previous_response_id")


@pytest.mark.parametrize("provider", BEHIND)
def test_a_continuation_that_fails_is_forgotten(url: str, provider: str) -> None:
    body = {"model": f"{provider}/text", "store": False}
    with socket(url) as ws:
        first = ws.get_response(**body, input="Hi.")
        error = ws.error(**body, input=[RESULT], previous_response_id=first["id"])
        assert "call_of_nobody" in error["message"]
        again = ws.error(**body, input="And?", previous_response_id=first["id"])
        assert again["code"] == "previous_response_not_found"
        assert ws.get_response(**body, input="Hi.")["status"] == "completed"


def test_a_compacted_conversation_begins_a_new_chain(made: tuple[Running, Upstream], http: httpx.Client) -> None:
    url = made[0].url
    body = {"model": "openai-chat/text", "input": [{"role": "user", "content": "Open the gate."}]}
    short = http.post("/responses/compact", json=body).json()["output"]
    with socket(url) as ws:
        first = ws.get_response(
            model="openai-chat/text", input=[*short, {"role": "user", "content": "Go on."}], store=False
        )
        ws.get_response(model="openai-chat/text", input="And?", store=False, previous_response_id=first["id"])
    assert "summary" in str(made[1].requests[-1].json)


# ── what the suite leaves out ─────────────────────────────────────────────────────────────────────


def test_a_warm_up_asks_nobody(made: tuple[Running, Upstream]) -> None:
    """As Codex does it: first all that stands before the question, then the question alone."""
    tool = {"type": "function", "name": "read_gauge", "parameters": {"type": "object", "properties": {}}}
    body = {"model": "openai-chat/tools", "tools": [tool], "store": False, "parallel_tool_calls": True}
    before = [{"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "You keep locks."}]}]
    asked = len(made[1].requests)
    with socket(made[0].url) as ws:
        warm = ws.get_response(**body, input=before, generate=False)
        assert (warm["output"], warm["usage"]["total_tokens"]) == ([], 0)
        assert len(made[1].requests) == asked
        first = ws.get_response(**body, input="How high?", previous_response_id=warm["id"])
        call = first["output"][-1]
        result = {"type": "function_call_output", "call_id": call["call_id"], "output": "3.2 m"}
        last = ws.get_response(**body, input=[result], previous_response_id=first["id"])
    assert last["output"][0]["content"][0]["text"].startswith("Thank you")
    assert [message["role"] for message in made[1].requests[-1].json["messages"]] == [
        "developer" if "developer" in str(made[1].requests[-1].json) else "system", "user", "assistant", "tool"
    ]  # fmt: skip
    assert "generate" not in made[1].requests[-1].json
    assert len(made[1].requests) == asked + 2


@pytest.mark.filterwarnings(
    "ignore:connect.. must be used as a context manager:DeprecationWarning"
)  # the SDK's own way
def test_the_official_sdk_chains_what_is_stored_nowhere(url: str) -> None:
    import openai

    with openai.OpenAI(base_url=f"{url}/v1", api_key="any") as client, client.responses.connect() as connection:
        previous: Any = None
        for text in ("Hi.", "And?"):
            connection.response.create(
                model="anthropic/text", input=text, store=False, previous_response_id=previous, stream_id="lane 1"
            )
            last: Any = next(event for event in connection if event.type == "response.completed")
            assert (last.response.previous_response_id, last.stream_id) == (previous, "lane 1")
            previous = last.response.id


def test_a_name_of_the_clients_own_is_repeated(url: str) -> None:
    with socket(url) as ws:
        for body in ({}, {"generate": False}, {"model": "nobody"}, {"model": "nobody", "generate": False}):
            made = ws.turn(**{"model": "responses/text", "input": "Hi.", "stream_id": 'a"b', **body})
            assert {event["stream_id"] for event in made} == {'a"b'}


def test_a_warm_up_of_no_model_is_refused(url: str) -> None:
    with socket(url) as ws:
        assert ws.error(model="nobody", input="Hi.", generate=False)["status"] == 404
        assert ws.error(model="openai-chat/text", generate=False, previous_response_id="resp_x")["status"] == 400


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        ("{", "the body is not JSON"), ("[]", "expected an object"),
        ('{"type":"response.cancel"}', "'response.cancel': to call a response off, close the connection"),
        ('{"type":"response.steer","response_id":"r","input":"x"}', "'response.steer': a response is not steered here"),
        ('{"type":"response.create","model":"openai-chat/text","input":7}', "input: expected a string or a list"),
        ('{"type":"response.create","model":"openai-chat/text","input":"x","background":true}', "background"),
        ('{"type":"response.create","model":"openai-chat/text","input":"x","conversation":"c"}', "conversations"),
        ('{"type":"response.create","model":"nobody","input":"x"}', "nobody"),
    ],
)  # fmt: skip
def test_what_is_not_understood_is_said_and_the_connection_stays(url: str, raw: str, said: str) -> None:
    with socket(url) as ws:
        ws.raw.send(raw)
        (error,) = ws.read()
        assert error["type"] == "error"
        assert error["status"] in {400, 404}
        assert said in error["error"]["message"]
        assert ws.get_response(model="openai-chat/text", input="Hi.")["status"] == "completed"


@pytest.mark.parametrize("provider", BEHIND)
def test_a_stream_that_breaks_ends_with_one_message(provider: str) -> None:
    """Wherever it breaks: a second would be taken for the answer to the next request."""
    places = [0, 1, 300, 700, 1500, 3000, -900, -300, -40]
    cuts = iter([place for broken in places for place in (broken, None)])

    def broken(seen: Any) -> Reply:
        place = next(cuts)
        return answer(seen) if place is None else answer(seen).disconnect(after=place)

    with gateway(broken, serve=FAST) as (running, _), socket(running.url) as ws:
        for _ in places:
            stream = ws.turn(model=f"{provider}/text", input="Hi.", store=False)
            kinds = [event["type"] for event in stream]
            assert kinds[-1] in {"error", "response.failed", "response.completed"}
            assert kinds == ["error"] or (kinds[0] == "response.created" and "error" not in kinds)
            assert ws.get_response(model=f"{provider}/text", input="Hi.", store=False)["status"] == "completed"
        rows = running.rows()
    assert len(rows) == 2 * len(places)
    assert [row.status for row in rows[1::2]].count("finish") <= 1  # where only the mark at the end was missing


def test_who_leaves_lets_the_provider_go() -> None:
    """Before the first word or after it: the upstream's connection is closed, and the turn is in the journal."""
    for reply in (Reply.of("openai-chat", []).stall(), lambda seen: answer(seen).stall(after=700)):
        with gateway(reply) as (running, up):
            tasks = _tasks(running)
            with socket(running.url) as ws:
                ws.send(model="openai-chat/text", input="Hi.")
                if not isinstance(reply, Reply):
                    assert json.loads(ws.raw.recv(timeout=LIMIT))["type"] == "response.created"
                until(lambda: up.requests)
            until(up.requests[0].disconnected.is_set)
            assert until(running.rows)[0].status == "cancelled"
            until(lambda: running.app._sockets.open == 0)
            until(lambda: _tasks(running) <= tasks)  # noqa: B023 — waited for here; that of the start may be over


def _tasks(running: Running) -> int:
    async def count() -> int:
        return len(asyncio.all_tasks())

    return int(running.call(count()))
