"""The rows of Open Responses' suite through two gateways: the second one is the first one's upstream.

The client speaks Responses to gateway A. A speaks Chat, Messages or Gemini to gateway B, which plays its packaged
streams. So every row passes two translations, and B reads what A wrote as any client's request.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from penstock.gateway import App
from tests.gateway.test_responses import ROWS, TOOL, get_response, streamed
from tests.support.each_case import each
from tests.support.gateway import Running, read_config
from tests.support.openresponses import asking, check_life_of_call, fits, lawful, socket

if TYPE_CHECKING:
    from collections.abc import Iterator

    import httpx

UPSTREAMS: dict[str, dict[str, Any]] = {
    "chat": {"like": "openai-compatible", "fields": {"has": ["chat"]}, "base_url": "{}/v1"},
    "messages": {"like": "anthropic", "base_url": "{}/v1"},
    "gemini": {"like": "gemini", "base_url": "{}/v1beta"},
}
SCRIPTS = ("text", "tools", "agent", "reasoning")
USER = {"type": "message", "role": "user", "content": "Say hello."}
CLOSED = "response.completed"


def run(**tables: Any) -> Running:
    memory: dict[str, Any] = {"journal": {"path": "memory"}, "state": {"path": "memory"}, "serve": {"pace": 0.0}}
    return Running(App(read_config(**memory, **tables), env={}))


@pytest.fixture(scope="module")
def gateways() -> Iterator[tuple[Running, Running]]:
    """Gateway A, and gateway B behind it."""
    with run(aliases={name: f"replay/{name}" for name in SCRIPTS}) as second:
        accounts = {
            name: {"key": "sk-second", "models": SCRIPTS, **row, "base_url": row["base_url"].format(second.url)}
            for name, row in UPSTREAMS.items()
        }
        with run(providers=accounts, retries=0) as first:
            yield first, second


@pytest.fixture(scope="module")
def url(gateways: tuple[Running, Running]) -> str:
    return gateways[0].url


@pytest.fixture(scope="module")
def client(url: str) -> Iterator[httpx.Client]:
    with asking(url) as made:
        yield made


@each("upstream, protocol", [("chat", "openai-chat"), ("messages", "anthropic"), ("gemini", "gemini")])
def test_the_second_gateway_is_asked(
    gateways: tuple[Running, Running], client: httpx.Client, upstream: str, protocol: str
) -> None:
    before = len(gateways[1].rows())
    get_response(client, model=f"{upstream}/text", input="Hello.")
    rows = gateways[1].rows()
    assert (len(rows), rows[0].protocol) == (before + 1, protocol)


@pytest.mark.parametrize("upstream", UPSTREAMS)
@each("row", ROWS)
def test_a_row_of_the_suite_holds(client: httpx.Client, upstream: str, row: str) -> None:
    """Whole and streamed, the response is complete and every event is within the schema."""
    body = {"model": f"{upstream}/text", **ROWS[row]}
    for response in (get_response(client, **body), lawful(streamed(client, **body))):
        assert response["status"] == "completed"
        text = response["output"][-1]["content"][0]["text"]
        assert text.startswith("{}" if row == "a-schema" else "A penstock is the pipe"), text


@each("upstream", UPSTREAMS)
def test_tool_calling(client: httpx.Client, upstream: str) -> None:
    """A call comes through with a lawful life of its item, and its result goes back."""
    body = {"model": f"{upstream}/tools", "input": "How high is the water?", "tools": [TOOL]}
    stream = streamed(client, **body)
    for response in (get_response(client, **body), lawful(stream)):
        (call,) = [item for item in response["output"] if item["type"] == "function_call"]
        assert (call["name"], call["status"]) == ("read_gauge", "completed")
        result = {"type": "function_call_output", "call_id": call["call_id"], "output": "3.2 m"}
        history = [{**USER, "content": body["input"]}, *response["output"], result]
        after = get_response(client, model=f"{upstream}/agent", input=history, tools=[TOOL])
        assert after["output"][-1]["type"] == "message"
    check_life_of_call(stream)


@each("upstream", UPSTREAMS)
def test_compaction(url: str, client: httpx.Client, upstream: str) -> None:
    """The compacted conversation starts a new chain, over HTTP and over a WebSocket."""
    given = [USER, {"type": "message", "role": "assistant", "content": "Hello."}]
    body = {"model": f"{upstream}/text", "prompt_cache_key": "k", "input": given}
    reply = client.post("/responses/compact", json=body)
    assert reply.status_code == 200, reply.text
    short = reply.json()
    fits("CompactResource", short)
    assert "compaction" in [item["type"] for item in short["output"]]
    then = {"model": f"{upstream}/text", "input": [*short["output"], USER]}
    assert get_response(client, **then)["status"] == "completed"
    with socket(url) as open_socket:
        assert open_socket.get_response(**then)["status"] == "completed"


def test_compaction_needs_a_model(client: httpx.Client) -> None:
    assert client.post("/responses/compact", json={"input": "Hello."}).status_code == 400


@each("upstream", UPSTREAMS)
def test_a_socket_continues_and_knows_what_was_said_on_it_alone(url: str, upstream: str) -> None:
    """The next turn has the last one's id and only the new input; another connection has not, if nothing is stored."""
    body = {"model": f"{upstream}/text", "store": False}
    with socket(url) as one:
        first = one.get_response(**body, input=[USER])
        again = one.get_response(**body, input=[USER])
        assert first["id"] != again["id"]
        known = one.get_response(**body, input=[USER], previous_response_id=again["id"])["id"]
    with socket(url) as other:
        assert other.error(**body, input=[USER], previous_response_id=known)["code"] == "previous_response_not_found"
        assert other.get_response(**body, input=[USER])["status"] == "completed"


@each("upstream", UPSTREAMS)
def test_a_failed_continuation_is_forgotten(url: str, upstream: str) -> None:
    body = {"model": f"{upstream}/text", "store": False}
    orphan = {"type": "function_call_output", "call_id": "call_nobody", "output": "?"}
    with socket(url) as made:
        known = made.get_response(**body, input=[USER])["id"]
        assert made.turn(**body, input=[orphan], previous_response_id=known)[-1]["type"] != CLOSED
        again = made.error(**body, input=[USER], previous_response_id=known)
        assert again["code"] == "previous_response_not_found"
