"""Requests that are not turns have journal rows too: embeddings, rankings, counts, and any number of refusals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import httpx
import pytest

from penstock.testing import Reply
from tests.support.budget_requests import until_true
from tests.support.client_requests import get, metric, post
from tests.support.each_case import each
from tests.support.gateway import gateway, hash_key
from tests.support.journal_throttle import short_minutes, write_counts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.testing import Upstream
    from tests.support.gateway import Running

EMBED = {"model": "openai-chat/e", "input": ["a", "b"]}
RANK = {"model": "openai-chat/r", "query": "q", "documents": ["a", "b"]}
SAY = [{"role": "user", "content": "hi"}]
KEYS = {"one": {"hash": hash_key("pk-one-000000"), "limits": {"requests": 2}}}
MAX_ANONYMOUS_ROWS, MAX_CALLER_ROWS, MAX_KINDS = 3, 30, 64
AUTH = {"authorization": "Bearer pk-one-000000"}


@pytest.fixture(scope="module")
def both() -> Iterator[tuple[Running, Upstream]]:
    with gateway() as found:
        yield found


@each(
    "path, body, said",
    [
        ("/v1/embeddings", EMBED, {"operation": "embeddings", "provider": "openai-chat", "model": "e", "input": 7}),
        ("/v1/rerank", RANK, {"operation": "rerank", "provider": "openai-chat", "model": "r", "input": None}),
        ("/api/embed", EMBED, {"operation": "embeddings", "protocol": "ollama", "tries": 1}),
        (
            "/v1beta/models/openai-chat/e:embedContent",
            {"content": {"parts": [{"text": "a"}]}},
            {"operation": "embeddings", "protocol": "gemini", "asked": "openai-chat/e"},
        ),
        (
            "/v1/messages/count_tokens",
            {"model": "anthropic/m", "messages": SAY},
            {"operation": "count", "provider": "anthropic", "estimate": 42, "input": None, "tries": 1},
        ),
        (
            "/v1/messages/count_tokens",
            {"model": "openai-chat/m", "messages": SAY},
            {"operation": "count", "provider": "openai-chat", "tries": 0, "asked": "openai-chat/m"},
        ),
        (
            "/v1/responses/input_tokens",
            {"model": "openai-chat/m", "input": "hi"},
            {"operation": "count", "protocol": "responses"},
        ),
        ("/vscode/count", {"model": "openai-chat/other", "items": ["one two", "three"]}, {"operation": "count"}),
    ],
)
def test_a_call_leaves_a_row(both: tuple[Running, Upstream], path: str, body: Any, said: dict[str, Any]) -> None:
    running, _ = both
    assert post(running.url + path, json=body).status_code == 200
    row = running.rows()[0]
    assert {name: getattr(row, name) for name in said} == said
    assert (row.route, row.http, row.status, row.ttft) == (path, 200, "finish", None)
    assert row.duration > 0
    assert row.bytes_out > 0
    assert (row.estimate is None) is (said["operation"] != "count")
    running.settle()


def test_calls_are_counted_apart_from_turns(both: tuple[Running, Upstream]) -> None:
    running, _ = both
    post(f"{running.url}/v1/embeddings", json={**EMBED, "model": "openai-chat/counted"})
    url = running.url
    assert metric(url, "calls_total", operation="embeddings", model="counted", status="finish") == 1
    assert metric(url, "tokens_total", model="counted", kind="input") == 7
    assert metric(url, "turns_total", model="counted") == 0
    paid = [row for row in running.rows() if row.operation != "count"]
    assert get(f"{running.url}/vscode/usage").json()["today"]["requests"] == len(paid)


def test_calls_that_fail_or_are_left_have_a_row_too() -> None:
    broken = Reply.error("openai-chat", 503, "no room")
    with gateway(broken) as (running, up):
        assert post(f"{running.url}/v1/embeddings", json=EMBED).status_code == 503
        row = running.rows()[0]
        assert (row.status, row.http, row.fault, row.provider, row.model) == (
            "refused", 503, "overloaded", "openai-chat", "e",
        )  # fmt: skip
        assert post(f"{running.url}/v1/embeddings", json={"model": "openai-chat/e"}).status_code == 400
        assert (running.rows()[0].http, running.rows()[0].fault) == (400, "invalid")
        up.script(Reply.body({}).delayed(20))
        with pytest.raises(httpx.TimeoutException):
            httpx.post(f"{running.url}/v1/rerank", json=RANK, timeout=0.3, trust_env=False)
        running.settle()
        row = running.rows()[0]
        assert (row.operation, row.status, row.http, row.fault) == ("rerank", "cancelled", 499, "cancelled")


def test_whoever_is_not_let_in_is_in_the_journal() -> None:
    with gateway(keys=KEYS, serve={"pace": 0.0, "body": 1000}) as (running, up):
        chat = {"model": "openai-chat/text", "messages": SAY}
        seen: list[tuple[int, str, str, str]] = []
        for headers, body in (
            ({"x-api-key": "pk-one-of-nobody"}, chat),
            ({**AUTH, "origin": "https://elsewhere.example"}, chat),
            (AUTH, {**chat, "messages": [{"role": "user", "content": "x" * 2000}]}),
            (AUTH, {"model": "openai-chat/text"}),
        ):
            answer = post(f"{running.url}/v1/chat/completions", json=body, headers=headers)
            row = running.rows()[0]
            assert answer.status_code == row.http
            seen.append((row.http, row.status, row.fault, row.key))
        assert seen == [
            (401, "refused", "auth", ""), (403, "refused", "permission", ""), (413, "refused", "too-large", "one"),
            (400, "refused", "invalid", "one"),
        ]  # fmt: skip
        assert post(f"{running.url}/v1/embeddings", json=EMBED).status_code == 401
        assert (running.rows()[0].route, running.rows()[0].http) == ("/v1/embeddings", 401)
        assert metric(running.url, "refused_total", headers=AUTH, status="401", reason="invalid_api_key") == 2
        assert metric(running.url, "refused_total", headers=AUTH, status="413") == 1
        assert (running.rows()[0].key, running.rows()[0].tenant, running.rows()[0].asked) == ("", "", "")
        assert "pk-one" not in repr(running.rows())
        assert up.requests == []


def test_a_flood_of_refusals_is_a_handful_of_rows() -> None:
    chat = {"model": "openai-chat/text", "messages": SAY}
    with gateway(keys=KEYS) as (running, _):
        for _ in range(20):
            post(f"{running.url}/v1/chat/completions", json=chat)
        for _ in range(MAX_CALLER_ROWS + 9):
            post(f"{running.url}/v1/chat/completions", json=chat, headers=AUTH)
        assert metric(running.url, "refused_total", headers=AUTH, status="401") == 20
        assert metric(running.url, "refused_total", headers=AUTH, status="429") == MAX_CALLER_ROWS + 7
        assert len(running.rows()) == MAX_ANONYMOUS_ROWS + 2 + MAX_CALLER_ROWS
        write_counts(running)
        rows = running.rows()
        assert sorted((row.http, row.times) for row in rows if row.times > 1) == [(401, 17), (429, 7)]
        assert sum(row.times for row in rows if row.status == "refused") == 20 + MAX_CALLER_ROWS + 7


def test_every_minute_begins_anew() -> None:
    chat = {"model": "openai-chat/text", "messages": SAY}
    with gateway(keys=KEYS) as (running, _):
        for minute in (1, 2):
            for _ in range(MAX_ANONYMOUS_ROWS + 2):
                post(f"{running.url}/v1/chat/completions", json=chat)
            write_counts(running, later=61.0)
            assert [row.times for row in running.rows()] == [2, *[1] * MAX_ANONYMOUS_ROWS] * minute


def test_what_was_only_counted_is_written_by_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    short_minutes(monkeypatch)
    with gateway(keys=KEYS) as (running, _):
        for _ in range(MAX_ANONYMOUS_ROWS + 2):
            post(f"{running.url}/v1/embeddings", json=EMBED)
        until_true(lambda: sum(row.times for row in running.rows()) == MAX_ANONYMOUS_ROWS + 2)


def test_kinds_of_refusals_beyond_a_number_are_counted_together() -> None:
    keys = {f"k{number}": {"hash": hash_key(f"pk-{number}-000000")} for number in range(MAX_KINDS + 6)}
    with gateway(keys=keys) as (running, _), httpx.Client(base_url=running.url, trust_env=False) as http:
        for number in range(len(keys)):
            for _ in range(2):
                reply = http.post("/v1/chat/completions", content=b"{", headers={"x-api-key": f"pk-{number}-000000"})
                assert reply.status_code == 400
        write_counts(running)
        # the last kind that is told apart is that of all others
        assert [row.times for row in running.rows()] == [12, *[1] * 2 * MAX_KINDS]
