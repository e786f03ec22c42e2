"""Responses over a WebSocket: the rows of the compliance suite, chains that are stored nowhere, clients that leave."""

from __future__ import annotations

import asyncio
import json
import time
from itertools import product
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus

from penstock.testing import Reply
from tests.gateway.test_metrics import figure
from tests.oracles.gateway.vendor_error_cases import SENT, UPSTREAMS, WANTED, begun
from tests.support import process
from tests.support.client_requests import get
from tests.support.each_case import each
from tests.support.gateway import answer, gateway, hash_key
from tests.support.openresponses import FAST, LIMIT, fits, lawful, socket, until

if TYPE_CHECKING:
    from pathlib import Path

    import httpx

    from penstock.testing import Upstream
    from tests.support.gateway import Running

BEHIND = ("openai-chat", "anthropic", "responses")
RESULT = {"type": "function_call_output", "call_id": "call_of_nobody", "output": "1"}


@pytest.fixture(scope="module")
def url(made: tuple[Running, Upstream]) -> str:
    return made[0].url


# ── the suite's own rows ──────────────────────────────────────────────────────────────────────────


@each("provider", [*BEHIND, "replay"])
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


@each("provider", BEHIND)
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


@each("provider", BEHIND)
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


@each("provider", BEHIND)
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


@each("raw, said", [
        ("{", "the body is not JSON"), ("[]", "expected an object"),
        ('{"type":"response.cancel"}', "'response.cancel': to call a response off, close the connection"),
        ('{"type":"response.steer","response_id":"r","input":"x"}', "'response.steer': a response is not steered here"),
        ('{"type":"response.create","model":"openai-chat/text","input":7}', "input: expected a string or a list"),
        ('{"type":"response.create","model":"openai-chat/text","input":"x","background":true}', "background"),
        ('{"type":"response.create","model":"openai-chat/text","input":"x","conversation":"c"}', "conversations"),
        ('{"type":"response.create","model":"nobody","input":"x"}', "nobody"),
    ])  # fmt: skip
def test_what_is_not_understood_is_said_and_the_connection_stays(url: str, raw: str, said: str) -> None:
    with socket(url) as ws:
        ws.raw.send(raw)
        (error,) = ws.read()
        assert error["type"] == "error"
        assert error["status"] in {400, 404}
        assert said in error["error"]["message"]
        assert ws.get_response(model="openai-chat/text", input="Hi.")["status"] == "completed"


@each("provider", BEHIND)
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
            until(lambda: figure(get(f"{running.url}/metrics").content, "penstock_websockets_open") == 0)
            until(lambda: _tasks(running) <= tasks)  # noqa: B023 — waited for here; that of the start may be over


def _tasks(running: Running) -> int:
    async def count() -> int:
        return len(asyncio.all_tasks())

    return int(running.call(count()))


# ── who may open one, and what ends one ───────────────────────────────────────────────────────────


def test_a_key_is_asked_for_at_the_door() -> None:
    keys = {name: {"hash": hash_key(f"secret-of-{name}")} for name in ("ann", "ben")}
    with gateway(keys=keys) as (running, _):
        with pytest.raises(InvalidStatus) as refused, socket(running.url):
            pass
        assert refused.value.response.status_code in {401, 403}
        with socket(running.url, Authorization="Bearer secret-of-ann") as ann:
            first = ann.get_response(model="openai-chat/text", input="Hi.")
        with socket(running.url, Authorization="Bearer secret-of-ben") as ben:
            error = ben.error(model="openai-chat/text", input="Hi.", previous_response_id=first["id"])
        assert error["code"] == "previous_response_not_found"
        assert [(row.key, row.http) for row in running.rows()] == [("ben", 400), ("ann", 200), ("", 401)]


def test_a_page_of_another_site_may_not_connect(url: str) -> None:
    with pytest.raises(InvalidStatus), socket(url, Origin="https://elsewhere.example"):
        pass


def test_there_is_no_socket_elsewhere(url: str) -> None:
    with pytest.raises(InvalidStatus), socket(url, "/v1/chat/completions"):
        pass


def test_a_message_that_is_too_large_ends_the_connection() -> None:
    with gateway(serve={"body": 1000}) as (running, _), socket(running.url) as ws:
        ws.send(model="openai-chat/text", input="x" * 2000)
        with pytest.raises(ConnectionClosed) as closed:
            ws.raw.recv(timeout=LIMIT)
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 1009


def test_a_connection_outlives_the_time_that_a_request_has_to_come(tmp_path: Path) -> None:
    """`penstock serve` gives up on a head that does not come; a WebSocket's has come."""
    with process.gateway(tmp_path, "[serve]\nread = 0.3\npace = 0.0\n") as running, socket(running.base) as ws:
        first = ws.get_response(model="replay/text", input="Hi.", store=False)
        time.sleep(0.5)
        assert ws.get_response(model="replay/text", input="And?", store=False, previous_response_id=first["id"])


# ── errors say what HTTP would say beside the body: the status, and when to come back ─────────────


@each("upstream", UPSTREAMS)
def test_a_refusal_has_status_and_headers(upstream: str) -> None:
    status, body = SENT[upstream]["rate-limit"]
    reply = Reply.body(body, status=status, headers={"retry-after": "7", "x-request-id": "up-1"})
    with gateway(reply, serve=FAST) as (running, _), socket(running.url) as ws:
        (frame,) = ws.turn(model=f"{upstream}/text", input="Hi.")
        fits("WebSocketErrorEvent", frame)
        assert (frame["status"], frame["error"]["code"]) == (429, "rate_limit_exceeded")
        headers: dict[str, Any] = frame["headers"]
        assert (headers["retry-after"], headers["retry-after-ms"]) == ("7", "7000")
        assert (headers["x-penstock-refused-by"], headers["x-upstream-request-id"]) == ("provider", "up-1")
        assert not [name for name in headers if name.startswith("content-")]


@each("upstream, kind", product(UPSTREAMS, ["rate-limit", "quota", "overflow", "server"]))
def test_a_failure_in_mid_turn_has_them_too(upstream: str, kind: str) -> None:
    failing = Reply.body(
        begun(upstream, SENT[upstream][kind][1]["error"]), headers={"content-type": "text/event-stream"}
    )
    with gateway(failing, serve=FAST) as (running, _), socket(running.url) as ws:
        frames = ws.turn(model=f"{upstream}/text", input="Hi.")
        assert any(frame["type"] == "response.output_text.delta" for frame in frames)
        last = frames[-1]
        assert last["type"] == "response.failed"
        assert last["status"] == WANTED["responses"][kind][0]
        wait = "7" if kind == "rate-limit" and upstream != "anthropic" else None  # whose message gives no time
        assert last["headers"].get("retry-after") == wait


def test_the_gateways_own_refusal_has_status_and_headers() -> None:
    with gateway(serve=FAST) as (running, _), socket(running.url) as ws:
        for body in ({"model": "nobody", "input": "x"}, {"model": "nobody", "input": "x", "generate": False}):
            (frame,) = ws.turn(**body)
            fits("WebSocketErrorEvent", frame)
            assert (frame["status"], frame["headers"]["x-penstock-refused-by"]) == (404, "gateway")


def _broken_off(*rows: dict[str, Any]) -> Reply:
    """A Responses stream that says one word, then the rows, and ends without the end of its response."""
    said = begun("responses", {"code": "", "message": "gone"})
    opening = said[: said.index(b"event: response.failed")] if b"event: " in said else said[: said.rindex(b"data: ")]
    more = b"".join(b"data: %b\n\n" % msgspec.json.encode(row) for row in rows)
    return Reply.body(opening + more, headers={"content-type": "text/event-stream"})


@each(
    "error, wanted",
    [
        ({"code": "server_error", "message": "boom"}, (500, "server_error", "server_error")),
        ({"code": "rate_limit_exceeded", "message": "slow"}, (429, "rate_limit_error", "rate_limit_exceeded")),
        (
            {"error": {"type": "insufficient_quota", "code": "insufficient_quota", "message": "spent"}},
            (429, "insufficient_quota", "insufficient_quota"),
        ),
    ],
)
def test_an_error_that_no_failed_response_follows_has_its_own_type(
    error: dict[str, Any], wanted: tuple[int, str, str]
) -> None:
    """In the stream it may be flat, beside the type of the event, which is not the type of the error."""
    with gateway(_broken_off({"type": "error", **error}), serve=FAST) as (running, _), socket(running.url) as ws:
        frame = ws.turn(model="responses/text", input="Hi.")[-1]
        fits("WebSocketErrorEvent", frame)
        assert (frame["status"], frame["error"]["type"], frame["error"]["code"]) == wanted


def test_a_response_that_is_cut_fails_under_the_id_that_it_began_with() -> None:
    with gateway(_broken_off(), serve=FAST) as (running, _), socket(running.url) as ws:
        frames = ws.turn(model="responses/text", input="Hi.")
        assert frames[-1]["type"] == "response.failed"
        assert {frame["response"]["id"] for frame in frames if "response" in frame} == {"resp_1"}
