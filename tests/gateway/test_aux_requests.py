"""Requests that are not turns have journal rows too: embeddings, rankings, counts, and any number of refusals."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from penstock._gateway.journal import MAX_ANONYMOUS_ROWS, MAX_CALLER_ROWS, MAX_KINDS, MINUTE, JournalThrottle
from penstock._store.journal import JournalEntry
from penstock.events import Fault
from penstock.testing import Reply
from tests.gateway.test_faults import settled, until
from tests.gateway.test_metrics import figure
from tests.support.client_requests import get, post
from tests.support.gateway import gateway, hash_key

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.testing import Upstream
    from tests.support.gateway import Running

EMBED = {"model": "openai-chat/e", "input": ["a", "b"]}
RANK = {"model": "openai-chat/r", "query": "q", "documents": ["a", "b"]}
SAY = [{"role": "user", "content": "hi"}]
KEYS = {"one": {"hash": hash_key("pk-one-000000"), "limits": {"requests": 2}}}
AUTH = {"authorization": "Bearer pk-one-000000"}


@pytest.fixture(scope="module")
def both() -> Iterator[tuple[Running, Upstream]]:
    with gateway() as found:
        yield found


@pytest.mark.parametrize(
    ("path", "body", "said"),
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
    assert running.app.services.limits.open == 0


def test_calls_are_counted_apart_from_turns(both: tuple[Running, Upstream]) -> None:
    running, _ = both
    post(f"{running.url}/v1/embeddings", json={**EMBED, "model": "openai-chat/counted"})
    page = get(f"{running.url}/metrics", headers=AUTH).content
    assert figure(page, "penstock_calls_total", operation="embeddings", model="counted", status="finish") == 1
    assert figure(page, "penstock_tokens_total", model="counted", kind="input") == 7
    assert figure(page, "penstock_turns_total", model="counted") == 0
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
        with pytest.raises(Exception, match="timed out"):
            __import__("httpx").post(f"{running.url}/v1/rerank", json=RANK, timeout=0.3, trust_env=False)
        until(running, lambda: settled(running) and running.app.services.limits.open == 0)
        row = running.rows()[0]
        assert (row.operation, row.status, row.http, row.fault) == ("rerank", "cancelled", 499, "cancelled")


def test_whoever_is_not_let_in_is_in_the_journal() -> None:
    with gateway(keys=KEYS, serve={"pace": 0.0, "body": 1000}) as (running, up):
        chat = {"model": "openai-chat/text", "messages": SAY}
        seen: list[tuple[int, str, str, str]] = []
        for headers, body in (
            ({}, chat),
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
        page = get(f"{running.url}/metrics", headers=AUTH).content
        assert figure(page, "penstock_refused_total", status="401", reason="invalid_api_key") == 2
        assert figure(page, "penstock_refused_total", status="413") == 1
        assert up.requests == []


def test_a_flood_of_refusals_is_a_handful_of_rows() -> None:
    chat = {"model": "openai-chat/text", "messages": SAY}
    with gateway(keys=KEYS) as (running, _):
        for _ in range(20):
            post(f"{running.url}/v1/chat/completions", json=chat)
        for _ in range(MAX_CALLER_ROWS + 9):
            post(f"{running.url}/v1/chat/completions", json=chat, headers=AUTH)
        page = get(f"{running.url}/metrics", headers=AUTH).content
        assert figure(page, "penstock_refused_total", status="401") == 20
        assert figure(page, "penstock_refused_total", status="429") == MAX_CALLER_ROWS + 7
        assert len(running.rows()) == MAX_ANONYMOUS_ROWS + 2 + MAX_CALLER_ROWS
        services = running.app.services
        running.call(_flush(services.telemetry.throttle))
        rows = running.rows()
        assert services.journal.rows is not None
        assert services.journal.rows.total().refused == 20 + MAX_CALLER_ROWS + 7
        assert sorted((row.http, row.times) for row in rows if row.times > 1) == [(401, 17), (429, 7)]


async def _flush(sparing: JournalThrottle) -> None:
    sparing.flush()


def test_minutes_and_sorts() -> None:
    """Every minute begins anew; sorts beyond a number are counted together; nothing is forgotten."""

    async def run() -> list[JournalEntry]:
        written: list[JournalEntry] = []
        now = [0.0]
        sparing = JournalThrottle(written.append, lambda: now[0])
        for key in range(MAX_KINDS * 2):
            for _ in range(MAX_ANONYMOUS_ROWS + 2):
                sparing.write_row(JournalEntry(time=0, http=key, fault="auth"))
        assert len(written) == MAX_KINDS * MAX_ANONYMOUS_ROWS
        now[0] = MINUTE
        sparing.write_row(JournalEntry(time=0, http=0, fault="auth"))
        sparing.flush()
        assert sparing._timer is None
        return written

    written = asyncio.run(run())
    assert sum(row.times for row in written) == MAX_KINDS * 2 * (MAX_ANONYMOUS_ROWS + 2) + 1
    assert len(written) <= MAX_KINDS * (MAX_ANONYMOUS_ROWS + 1) + 2


def test_what_was_only_counted_is_written_by_the_clock() -> None:
    async def run() -> list[JournalEntry]:
        from penstock._gateway import journal as room

        written: list[JournalEntry] = []
        made = JournalThrottle(written.append)
        kept, room.MINUTE = room.MINUTE, 0.01
        try:
            for _ in range(MAX_ANONYMOUS_ROWS + 1):
                made.write_row(JournalEntry(time=0, fault="auth"))
            while len(written) == MAX_ANONYMOUS_ROWS:  # noqa: ASYNC110 — it is a list
                await asyncio.sleep(0.002)
        finally:
            room.MINUTE = kept
        return written

    assert [row.times for row in asyncio.run(run())] == [1] * (MAX_ANONYMOUS_ROWS + 1)


def test_a_row_of_somebody_unknown_says_nothing_of_him() -> None:
    from penstock._gateway.endpoints import IncomingRequest
    from penstock._gateway.journal import refused_row

    visit = IncomingRequest({"method": "POST", "path": "/v1/messages", "headers": [(b"x-api-key", b"sk-secret-000")]})
    row = refused_row(visit, "anthropic", 401, Fault("auth", "no gateway key was sent"), ())
    assert (row.key, row.tenant, row.asked) == ("", "", "")
    assert "sk-secret" not in repr(row)
