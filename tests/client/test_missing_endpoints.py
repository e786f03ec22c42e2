"""A compatible server without `/responses` is asked by Chat: once learned, at once; recorded; never for a missing model."""

from __future__ import annotations

import tomllib
from typing import TYPE_CHECKING, Any

import pytest

from penstock.errors import NotFound, ProviderError
from penstock.testing import Reply, Upstream, play
from tests.support.each_case import each
from tests.support.paths import PROJECT
from tests.support.routed_client import RoutedClient, asking, quick, routed, run, staged, turn

if TYPE_CHECKING:
    from penstock.testing import ReceivedRequest

COMPATIBLE: dict[str, Any] = {"like": "openai-compatible"}
NOWHERE: dict[str, tuple[int, bytes]] = {
    "fastapi": (404, b'{"detail":"Not Found"}'),
    "go": (404, b"404 page not found"),
    "llama.cpp": (404, b'{"error":{"code":404,"message":"File Not Found","type":"not_found_error"}}'),
    "express": (404, b"<html><head><title>Error</title></head><body><pre>Cannot POST /v1/responses</pre></body></html>"),
    "method": (405, b'{"detail":"Method Not Allowed"}'),
    "openai": (404, b'{"error":{"message":"Invalid URL (POST /v1/responses)","type":"invalid_request_error","param":null,"code":null}}'),
}  # fmt: skip
MODEL: dict[str, tuple[int, bytes]] = {
    "openai": (404, b'{"error":{"message":"gone","type":"invalid_request_error","param":null,"code":"model_not_found"}}'),
    "vllm": (404, b'{"error":{"message":"The model `m` does not exist.","type":"NotFoundError","param":null,"code":404}}'),
    "param": (404, b'{"error":{"message":"not found","type":"invalid_request_error","param":"model","code":null}}'),
    "previous": (404, b'{"error":{"message":"no","type":"invalid_request_error","code":"previous_response_not_found"}}'),
    "bad request": (400, b'{"detail":"Not Found"}'),
}  # fmt: skip


def answering(status: int, body: bytes) -> Any:
    def answer(seen: ReceivedRequest) -> Reply:
        if seen.path.endswith("/chat/completions"):
            return Reply.of("openai-chat", play("text"))
        return Reply.body(body, status=status)

    return answer


@pytest.mark.parametrize("case", NOWHERE)
def test_chat_is_asked_and_remembered(case: str, caplog: pytest.LogCaptureFixture) -> None:
    async def scene() -> None:
        async with Upstream(answering(*NOWHERE[case])) as up:
            way = routed({"local": up}, local=COMPATIBLE)
            first = await way.open(asking("local", model="m"), "responses", options=quick())
            assert (await turn(first)).text
            assert (first.operation, first.protocol) == ("chat", "openai-chat")
            assert [seen.path for seen in up.requests] == ["/v1/responses", "/v1/chat/completions"]
            assert ("fallback", "no-endpoint") in [(one.what, one.code) for one in first.record.decisions]
            assert (way.counts["fallback", "no-endpoint", "local"], first.record.tries) == (1, 2)
            second = await way.open(asking("local", model="m"), "responses", options=quick())
            assert (await turn(second)).text
            assert [seen.path for seen in up.requests][2:] == ["/v1/chat/completions"]
            assert [(one.what, one.code) for one in second.record.decisions][1] == ("operation", "chat")

    with caplog.at_level("INFO", logger="penstock.routing"):
        run(scene)
    assert "local has no responses, chat is asked in its place" in caplog.text


@each("case", MODEL)
@staged
async def test_a_missing_model_is_no_missing_endpoint(case: str) -> None:
    async with Upstream(answering(*MODEL[case])) as up:
        way = routed({"local": up}, local=COMPATIBLE)
        with pytest.raises(ProviderError):
            await way.open(asking("local", model="m"), "responses", options=quick())
        assert [seen.path for seen in up.requests] == ["/v1/responses"]


@staged
async def test_a_wrong_address_teaches_nothing() -> None:
    async with Upstream(Reply.body(b'{"detail":"Not Found"}', status=404)) as up:
        way = routed({"local": up}, local=COMPATIBLE)
        for _ in range(2):
            with pytest.raises(NotFound):
                await way.open(asking("local", model="m"), "responses", options=quick())
        assert [seen.path for seen in up.requests] == ["/v1/responses", "/v1/chat/completions"] * 2


DOCUMENT = PROJECT / "docs" / "providers.md"
SPOKEN = {"chat-only": "openai-chat", "responses-only": "responses", "messages-only": "anthropic"}


@each("operation", ["chat", "responses"])
@each("name", SPOKEN)
@staged
async def test_the_documented_servers_are_asked_where_they_can_answer(name: str, operation: str) -> None:
    """The examples of docs/providers.md, with another address."""
    said = DOCUMENT.read_text(encoding="utf-8").partition("## Servers of your own")[2]
    table = tomllib.loads(said.partition("```toml\n")[2].partition("```")[0])["providers"][name]
    paths = {"openai-chat": "/v1/chat/completions", "responses": "/v1/responses", "anthropic": "/v1/messages"}
    async with Upstream(Reply.of(SPOKEN[name], play("text"))) as up:
        way = RoutedClient({"providers": {name: {**table, "base_url": f"{up.url}/v1"}}})
        reply = await way.open(asking(name, model="m"), operation, options=quick())
        assert (await turn(reply)).text
        assert [seen.path for seen in up.requests] == [paths[SPOKEN[name]]]
