"""Every provider of the table is asked for real: a scripted upstream sees the right address, headers, auth and body, and
what it answers comes back as events. No network: only the host is another.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

import pytest

import penstock
from penstock import request as rq
from penstock.client import Client
from penstock.messages import read_request
from penstock.providers import Provider, fill_template
from penstock.testing import ReceivedRequest, Reply, Upstream, play
from tests.client.providers.accounts import AWS_ID, AWS_SECRET, KEY, TOKEN, environment, exchange
from tests.client.providers.addresses_rewrite import FILE
from tests.client.providers.provider_settings import ASKED, ENV, MODEL, name_of
from tests.client.providers.sigv4 import verified
from tests.support.each_case import each

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterator
    from pathlib import Path

ADDRESSES = {
    (name, operation): address
    for name, operation, address in (line.split(maxsplit=2) for line in FILE.read_text(encoding="utf-8").splitlines())
}
T = TypeVar("T")
TOOL = rq.Tool("read_gauge", "Reads a gauge.", {"type": "object", "properties": {"station": {"type": "string"}}})
TURN = penstock.fold(play("tools"))
SYSTEM, QUESTION = "Be brief.", "How high is the water?"
# What providers want to see, where that is not `authorization: Bearer KEY`.
HEADERS = {"anthropic": "x-api-key", "azure": "api-key", "gemini": "x-goog-api-key"}
TOKENS = {"vertexai", "watsonx"}
SIGNED = {"bedrock", "sagemaker"}
# Who answers `stream_options` with an error, or not at all.
UNASKED = {"asksage", "codestral", "mistral", "perplexity", "relace", "replicate", "text-gen-webui", "watsonx"}
FIXED = {"anthropic": {"anthropic-version": "2023-06-01"}}


class Stage:
    """One loop and two servers for all tests of this file: what is asked, and what exchanges keys for tokens."""

    def __init__(self, runner: asyncio.Runner) -> None:
        self._runner = runner
        self.tokens, self.up = Upstream(exchange), Upstream()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self._runner.run(work)

    def says(self, *replies: Reply) -> Upstream:
        """The upstream, as if it were new."""
        self.up.requests.clear()
        self.up.script(*replies)
        return self.up

    def env(self, path: Path) -> dict[str, str]:
        return {**ENV, **environment(self.tokens, path / "account.json")}


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    async def ended(made: Stage) -> None:
        await made.tokens.__aexit__()
        await made.up.__aexit__()

    async def begun(made: Stage) -> None:
        await made.tokens.__aenter__()
        await made.up.__aenter__()

    with asyncio.Runner() as runner:
        made = Stage(runner)
        made.run(begun(made))
        yield made
        made.run(ended(made))


def _config(row: Provider, up: Upstream) -> dict[str, Any]:
    """The provider as it is, but for its host."""
    base = up.url + urlsplit(fill_template(row, row.base_url, env=ENV)).path
    keyed = row.auth not in {"aws", "google"} and row.name not in SIGNED
    return {"providers": {row.name: {"base_url": base, **({"key": KEY} if keyed else {})}}, "retries": 0}


def _check_address(seen: ReceivedRequest, row: Provider, operation: str) -> None:
    wanted = urlsplit(ADDRESSES[row.name, operation])
    assert seen.target == wanted.path + (f"?{wanted.query}" if wanted.query else "")


def _check_who(seen: ReceivedRequest, row: Provider) -> None:
    if row.name in SIGNED:
        assert verified(seen, AWS_SECRET) == (AWS_ID, "eu-west-1", row.name)  # the service is called so too
        return
    header = HEADERS.get(row.name, "authorization")
    prefix = "Bearer " if header == "authorization" else ""
    assert seen.headers[header] == prefix + (TOKEN if row.name in TOKENS else KEY)
    assert {name: seen.headers[name] for name in FIXED.get(row.name, {})} == FIXED.get(row.name, {})


def _check_body(seen: ReceivedRequest, row: Provider, *, stream: bool) -> None:
    """The body, read by the protocol's own reader, says what was asked; what has no place in it is not there."""
    place = row.endpoints["chat"]
    body = seen.json
    assert seen.headers["content-type"] == "application/json"
    assert set(body) & {*place.drop, *row.refuses} == set()
    said = read_request({**body, **({"model": MODEL} if "model" in place.drop else {})}, place.protocol)
    texts = {
        message.role: [part.text for part in message.parts if isinstance(part, rq.Text)] for message in said.messages
    }
    assert texts == {"system": [SYSTEM], "user": [QUESTION]}
    assert [(tool.name, tool.schema) for tool in said.tools] == [(TOOL.name, TOOL.schema)]
    assert said.settings.max_output == 100
    assert MODEL in (body.get("model"), body.get("model_id")) or MODEL in seen.path
    streamed = {"stream": True} if stream and "stream" not in place.drop else {}
    assert {name: body[name] for name in streamed} == streamed
    assert ("stream_options" in body) is (stream and place.protocol == "openai-chat" and row.name not in UNASKED)


@each("stream", [True, False])
@each("row", [row for row in ASKED if "chat" in row.endpoints], name=name_of)
def test_chat_reaches_everyone(row: Provider, stream: bool, tmp_path: Path, stage: Stage) -> None:
    place = row.endpoints["chat"]
    framing = place.framing if "+" in place.framing else ""
    reply = Reply.of(place.protocol, play("tools"), stream=stream, framing=framing)

    async def work() -> tuple[ReceivedRequest, rq.Turn]:
        up = stage.says(reply)
        said = [rq.Message("system", [rq.Text(SYSTEM)]), rq.Message("user", [rq.Text(QUESTION)])]
        asked: dict[str, Any] = {"tools": [TOOL], "max_output_tokens": 100}
        async with Client(_config(row, up), env=stage.env(tmp_path)) as client:
            model = f"{row.name}/{MODEL}"
            if stream:
                turn = penstock.fold([event async for event in client.chat_stream(model, said, **asked)])
            else:
                turn = await client.chat(model, said, **asked)
        return up.requests[0], turn

    seen, turn = stage.run(work())
    _check_address(seen, row, "chat/stream" if stream and place.stream else "chat")
    _check_who(seen, row)
    _check_body(seen, row, stream=stream)
    assert turn.text == TURN.text
    assert [(call.name, call.json) for call in turn.calls] == [(call.name, call.json) for call in TURN.calls]
    assert turn.finish is not None
    assert turn.finish.reason == "calls"


# An answer in each shape that is no turn: two vectors, two ranks, two models.
VECTORS: dict[str, Any] = {
    "openai-embeddings": {"data": [{"index": 1, "embedding": [3, 4]}, {"index": 0, "embedding": [1, 2]}]},
    "voyage-embeddings": {"data": [{"index": 0, "embedding": [1, 2]}, {"index": 1, "embedding": [3, 4]}]},
    "cohere-embeddings": {"id": "1", "embeddings": {"float": [[1, 2], [3, 4]]}},
    "gemini-embeddings": {"embeddings": [{"values": [1, 2]}, {"values": [3, 4]}]},
    "vertex-embeddings": {"predictions": [{"embeddings": {"values": [1, 2]}}, {"embeddings": {"values": [3, 4]}}]},
    "bedrock-embeddings": {"embeddings": [[1, 2], [3, 4]], "response_type": "embeddings_floats"},
    "watsonx-embeddings": {"results": [{"embedding": [1, 2]}, {"embedding": [3, 4]}]},
}
RANKS: dict[str, Any] = {
    "cohere-rerank": {"results": [{"index": 1, "relevance_score": 0.9}, {"index": 0, "relevance_score": 0.1}]},
    "voyage-rerank": {"data": [{"index": 1, "relevance_score": 0.9}, {"index": 0, "relevance_score": 0.1}]},
    "watsonx-rerank": {"results": [{"index": 1, "score": 0.9}, {"index": 0, "score": 0.1}]},
}
LISTS: dict[str, Any] = {
    "openai-models": {"object": "list", "data": [{"id": "tide-1"}, {"id": "tide-embed"}]},
    "anthropic-models": {"data": [{"id": "tide-1", "type": "model"}, {"id": "tide-embed", "type": "model"}]},
    "gemini-models": {"models": [{"name": "models/tide-1"}, {"name": "models/tide-embed"}]},
    "bedrock-models": {"modelSummaries": [{"modelId": "tide-1"}, {"modelId": "tide-embed"}]},
    "cohere-models": {"models": [{"name": "tide-1", "endpoints": ["chat"]}, {"name": "tide-embed", "endpoints": ["embed"]}]},
    "ollama-models": {"models": [{"name": "tide-1", "model": "tide-1"}, {"name": "tide-embed"}]},
    "watsonx-models": {"resources": [{"model_id": "tide-1"}, {"model_id": "tide-embed"}]},
    "cloudflare-models": {"result": [{"id": "1", "name": "tide-1"}, {"id": "2", "name": "tide-embed"}]},
}  # fmt: skip


async def _asked(row: Provider, operation: str, up: Upstream, env: dict[str, str]) -> tuple[ReceivedRequest, Any]:
    async with Client(_config(row, up), env=env) as client:
        if operation == "embeddings":
            got: Any = (await client.embed(f"{row.name}/{MODEL}", ["a", "b"])).vectors
        elif operation == "rerank":
            ranking = await client.rerank(f"{row.name}/{MODEL}", "q", ["a", "b"])
            got = [(one.index, one.document) for one in ranking.results]
        else:
            got = [one.id for one in await client.list_models(row.name, chat=True)]
    return up.requests[0], got


@each(
    "row, operation",
    [(row, name) for row in ASKED for name in row.endpoints if name in {"embeddings", "rerank", "models"}],
    name=lambda pair: f"{pair[0].name} {pair[1]}",
)
def test_the_rest_reaches_everyone_who_has_it(row: Provider, operation: str, tmp_path: Path, stage: Stage) -> None:
    place = row.endpoints[operation]
    answers = {"embeddings": VECTORS, "rerank": RANKS, "models": LISTS}[operation]
    up = stage.says(Reply.body(answers[place.protocol]))
    seen, got = stage.run(_asked(row, operation, up, stage.env(tmp_path)))
    wanted = {"embeddings": [[1, 2], [3, 4]], "rerank": [(1, "b"), (0, "a")], "models": ["tide-1"]}
    assert got == wanted[operation]
    if not place.base_url:
        _check_address(seen, row, operation)
    _check_who(seen, row)
    assert seen.method == place.method
    for name, value in place.body.items():
        assert seen.json[name] == fill_template(row, value, MODEL, env=ENV)


@each("row", [row for row in ASKED if "fim" in row.endpoints], name=name_of)
def test_filling_in_the_middle_reaches_everyone_who_has_it(row: Provider, stage: Stage) -> None:
    place = row.endpoints["fim"]

    async def work() -> tuple[ReceivedRequest, str]:
        up = stage.says(Reply.of(place.answer or place.protocol, play("text")))
        async with Client(_config(row, up), env=ENV) as client:
            events = [event async for event in client.fim_stream(f"{row.name}/{MODEL}", "def f(", "return 1")]
            return up.requests[0], penstock.fold(events).text

    seen, text = stage.run(work())
    assert text == penstock.fold(play("text")).text
    assert (seen.json["prompt"], seen.json["suffix"], seen.json["model"]) == ("def f(", "return 1", MODEL)
    if not place.base_url:
        _check_address(seen, row, "fim")


@each("row", [row for row in ASKED if row.special], name=name_of)
def test_models_that_live_elsewhere(row: Provider, tmp_path: Path, stage: Stage) -> None:
    """A provider that serves others' models at places of their own, in protocols of their own."""

    async def work() -> list[tuple[Any, ReceivedRequest, str]]:
        made: list[tuple[Any, ReceivedRequest, str]] = []
        async with Client(_config(row, stage.up), env=stage.env(tmp_path)) as client:
            for special in row.special:
                model = special.models[0].replace("*", "tide")
                up = stage.says(Reply.of(special.endpoint.protocol, play("text")))
                events = [event async for event in client.chat_stream(f"{row.name}/{model}", QUESTION)]
                made.append((special, up.requests[-1], penstock.fold(events).text))
        return made

    for special, seen, text in stage.run(work()):
        assert text == penstock.fold(play("text")).text
        assert set(seen.json) & set(special.endpoint.drop) == set()
        assert {name: seen.json[name] for name in special.endpoint.body} == special.endpoint.body
        assert {name: seen.headers[name] for name in special.endpoint.headers} == special.endpoint.headers
