"""Ollama's own client against the gateway: turns, tools, thoughts, pictures, embeddings, and what it asks of models."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.oracles.sdk_matrix import SAID, THANKS, THOUGHT
from tests.support.client_requests import get, post
from tests.support.each_case import each
from tests.support.gateway import PROVIDERS, gateway

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.testing import Upstream
    from tests.support.gateway import Running

ollama: Any = pytest.importorskip("ollama")
ASK = [{"role": "user", "content": "How long does the tank take to fill?"}]
PICTURE = b"\x89PNG\r\n\x1a\n" + b"0" * 40
BOTH = each("stream", [True, False])
UPSTREAMS = [name for name in PROVIDERS if name != "completions"]


def read_gauge(station: str, unit: str = "m") -> str:
    """Read a gauge.

    Args:
      station: where it stands
      unit: what to tell it in
    """
    return f"{station}: 3 {unit}"


@pytest.fixture(scope="module")
def both() -> Iterator[tuple[Running, Upstream]]:
    with gateway() as found:
        yield found


@pytest.fixture(scope="module")
def client(both: tuple[Running, Upstream]) -> Iterator[Any]:
    made = ollama.Client(host=both[0].url, trust_env=False)
    yield made
    made._client.close()


def joined(answer: Any, *, stream: bool) -> tuple[str, str, list[Any], Any]:
    rows = list(answer) if stream else [answer]
    said = "".join(row.message.content or "" for row in rows)
    thought = "".join(row.message.thinking or "" for row in rows)
    calls = [call for row in rows for call in row.message.tool_calls or ()]
    return said, thought, calls, rows[-1]


@BOTH
@each("upstream", UPSTREAMS)
def test_text_and_thoughts(client: Any, upstream: str, stream: bool) -> None:
    answer = client.chat(f"{upstream}/reasoning", ASK, stream=stream, think=True)
    said, thought, _, last = joined(answer, stream=stream)
    assert said == SAID
    assert thought.endswith(THOUGHT)
    assert (last.done, last.done_reason) == (True, "stop")
    assert last.eval_count > 0
    assert last.total_duration >= last.eval_duration >= 0


@BOTH
@each("upstream", UPSTREAMS)
def test_a_tool_turn(client: Any, upstream: str, stream: bool) -> None:
    said, _, calls, _ = joined(client.chat(f"{upstream}/tools", ASK, stream=stream, tools=[read_gauge]), stream=stream)
    assert calls[0].function.name == "read_gauge"
    assert dict(calls[0].function.arguments) == {"station": "upper gate", "unit": "m"}
    message = {"role": "assistant", "content": said, "tool_calls": [call.model_dump() for call in calls]}
    results = [{"role": "tool", "tool_name": call.function.name, "content": "3 m"} for call in calls]
    again = client.chat(f"{upstream}/tools", [*ASK, message, *results], stream=stream, tools=[read_gauge])
    assert joined(again, stream=stream)[0].startswith(THANKS)


@BOTH
def test_generate_with_a_picture_and_a_form(both: tuple[Running, Upstream], client: Any, stream: bool) -> None:
    answer = client.generate(
        "anthropic/text", "What is it?", system="Be brief.", images=[PICTURE], stream=stream,
        format={"type": "object", "properties": {}}, options={"temperature": 0.5, "num_predict": 40, "stop": ["END"]},
    )  # fmt: skip
    rows = list(answer) if stream else [answer]
    assert "".join(row.response for row in rows)
    assert rows[-1].done_reason == "stop"
    sent = both[1].requests[-1].json
    assert (sent["temperature"], sent["max_tokens"], sent["stop_sequences"]) == (0.5, 40, ["END"])
    assert [block["type"] for block in sent["messages"][0]["content"]] == ["text", "image"]


def test_filling_in(both: tuple[Running, Upstream], client: Any) -> None:
    answer = client.generate("openai-chat/text", "def add(a, b):", suffix="return c", options={"num_predict": 9})
    assert answer.response
    seen = both[1].requests[-1]
    assert seen.path.endswith("/completions")
    assert (seen.json["prompt"], seen.json["suffix"], seen.json["max_tokens"]) == ("def add(a, b):", "return c", 9)


def test_embeddings_old_and_new(client: Any) -> None:
    made = client.embed("openai-chat/e", ["a", "b"])
    assert [list(row) for row in made.embeddings] == [[0.25, -1.5, 0.0], [0.25, -1.5, 1.0]]
    assert made.prompt_eval_count == 7
    assert list(client.embeddings("openai-chat/e", "a").embedding) == [0.25, -1.5, 0.0]


def test_models_are_listed_and_shown(client: Any) -> None:
    rows = {row.model: row for row in client.list().models}
    assert "anthropic/text" in rows
    assert len({row.digest for row in rows.values()}) == len(rows)
    shown = client.show("replay/text")
    assert set(shown.capabilities) >= {"completion", "tools", "vision", "thinking"}
    family = shown.modelinfo["general.architecture"]
    assert shown.modelinfo[f"{family}.context_length"] == 200_000
    with pytest.raises(ollama.ResponseError) as error:
        client.show("nobody-knows-this")
    assert error.value.status_code == 404


def test_what_runs_and_what_is_spoken(both: tuple[Running, Upstream], client: Any) -> None:
    assert client.ps().models == []
    found = get(f"{both[0].url}/api/version").json()["version"]
    assert tuple(map(int, found.split("."))) >= (0, 6, 4), "editors ask for no less"


@each("method", ["generate", "chat"])
def test_a_model_is_loaded_by_saying_nothing(both: tuple[Running, Upstream], client: Any, method: str) -> None:
    before = len(both[1].requests)
    ask = getattr(client, method)
    assert ask("openai-chat/text").done_reason == "load"
    assert ask("openai-chat/text", keep_alive=0).done_reason == "unload"
    assert [row.done for row in ask("openai-chat/text", stream=True)] == [True]
    with pytest.raises(ollama.ResponseError) as error:
        ask("nobody-knows-this")
    assert error.value.status_code == 404
    assert len(both[1].requests) == before


def test_errors_are_ollamas(both: tuple[Running, Upstream], client: Any) -> None:
    with pytest.raises(ollama.ResponseError) as error:
        client.pull("llama3")
    assert (error.value.status_code, "GET /api/tags" in error.value.error) == (501, True)
    with pytest.raises(ollama.ResponseError) as error:
        client.chat("nobody-knows-this", ASK)
    assert error.value.status_code == 404
    answer = post(f"{both[0].url}/api/generate", content=b"{")
    assert answer.status_code == 400
    assert "error" in json.loads(answer.content)
