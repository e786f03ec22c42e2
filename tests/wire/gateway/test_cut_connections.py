"""The connection to a provider breaks in the middle of an answer: what each client's own SDK raises then."""

from __future__ import annotations

import json
import warnings
from typing import TYPE_CHECKING, Any

import anthropic
import openai
import pytest

from penstock import events as ev
from penstock.testing import Reply, play
from tests.oracles.gateway.vendor_error_cases import CLIENTS, UPSTREAMS
from tests.support.client_requests import ASKING, post, read
from tests.support.gateway import gateway

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.testing import Upstream
    from tests.support.gateway import Running

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # the SDK's own source makes Python complain
    from google import genai
    from google.genai import errors as google_errors

CUT = "the connection to the provider broke in the middle of the answer (premature close)"
ENDED = "the stream ended before the answer was finished"
# client → type or status, code, message: after a reset, and after an end in order
WANTED: dict[str, tuple[tuple[Any, Any, str], tuple[Any, Any, str]]] = {
    "openai-chat": (("server_error", "server_error", CUT), ("server_error", "server_error", ENDED)),
    "completions": (("server_error", "server_error", CUT), ("server_error", "server_error", ENDED)),
    "responses": (("server_error", "server_error", CUT), ("server_error", "server_error", ENDED)),
    "anthropic": (
        ("api_error", None, f"Connection error: {CUT}"),
        ("api_error", None, f"Connection error (premature close): {ENDED}"),
    ),
    "gemini": (("UNAVAILABLE", 502, CUT), ("INTERNAL", 502, ENDED)),
}


@pytest.fixture(scope="module")
def both() -> Iterator[tuple[Running, Upstream]]:
    with gateway(Reply.no_response(), breaker={"failures": 10**9}) as found:
        yield found


def script(both: tuple[Running, Upstream], upstream: str, turn: str, *, reset: bool) -> str:
    """Let the provider send half an answer: with a connection that breaks, or one that ends in order."""
    running, up = both
    whole = Reply.of(upstream, play(turn))
    half = len(whole.data) * 2 // 3
    end = whole.data.rfind(b"\n\n", 0, half) + 2
    kept = Reply.body(whole.data[:end], headers=whole.headers)
    up.script(whole.disconnect(after=half) if reset else kept)
    return running.url


def stream_with_sdk(client: str, base: str, model: str) -> tuple[Any, Any, str]:
    """Read a stream with the SDK of a client: the type, the code and the message that it raises."""
    http: dict[str, Any] = {"timeout": 20.0, "max_retries": 0}
    said: Any = [{"role": "user", "content": "hello"}]
    try:
        if client == "anthropic":
            messages = anthropic.Anthropic(base_url=base, api_key="x", **http).messages
            list(messages.create(model=model, max_tokens=9, messages=said, stream=True))
        elif client == "gemini":
            options: Any = {"base_url": base, "timeout": 20_000, "retry_options": {"attempts": 1}}
            with genai.Client(api_key="x", http_options=options) as google:
                models: Any = google.models
                list(models.generate_content_stream(model=model, contents="hi"))
        else:
            _stream_with_openai(client, openai.OpenAI(base_url=f"{base}/v1", api_key="x", **http), model)
    except anthropic.APIStatusError as error:
        body: Any = error.body
        return body["error"]["type"], None, body["error"]["message"]
    except google_errors.APIError as error:
        return error.status, error.code, str(error.message)
    except openai.APIError as error:
        return error.type, error.code, error.message
    raise AssertionError("nothing was raised")


def _stream_with_openai(client: str, sdk: openai.OpenAI, model: str) -> None:
    if client == "responses":
        list(sdk.responses.create(model=model, input="hello", stream=True))
    elif client == "completions":
        list(sdk.completions.create(model=model, prompt="hello", stream=True))
    else:
        list(sdk.chat.completions.create(model=model, messages=[{"role": "user", "content": "hello"}], stream=True))


@pytest.mark.parametrize("client", CLIENTS)
def test_a_broken_connection_is_told_in_words_that_clients_know(both: tuple[Running, Upstream], client: str) -> None:
    """Agents ask again after these words: tried with the agents of docs/agents.md."""
    for upstream in UPSTREAMS:
        for reset in (True, False):
            base = script(both, upstream, "text", reset=reset)
            found = stream_with_sdk(client, base, f"{upstream}/text")
            assert found == WANTED[client][0 if reset else 1], (upstream, reset)


@pytest.mark.parametrize("client", ["openai-chat", "completions"])
def test_no_usage_chunk_stands_before_an_error(both: tuple[Running, Upstream], client: str) -> None:
    """A chunk without choices says that an answer is complete. Goose ran half a call because of it."""
    base = script(both, "anthropic", "tools" if client == "openai-chat" else "text", reset=True)
    path, body = ASKING[client]("anthropic/tools", True)
    answer = post(base + path, json={**body, "stream_options": {"include_usage": True}})
    rows = [json.loads(line[5:]) for line in answer.text.splitlines() if line.startswith("data:")]
    assert len(rows) > 1
    assert all(row["choices"] and "usage" not in row for row in rows[:-1])
    assert set(rows[-1]) == {"error", "usage"}
    events = read(client, answer.content)
    assert isinstance(events[-1], ev.Fault)
    assert any(isinstance(one, ev.Usage) for one in events)
