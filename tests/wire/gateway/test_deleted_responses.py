"""Two gateway processes with one Redis and one PostgreSQL: a response that one of them deletes stays deleted."""

from __future__ import annotations

import signal
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from redis import Redis

from penstock.testing import scripted
from tests.conftest import new_database
from tests.gateway.test_resume import stalled
from tests.support import process
from tests.support.client_requests import get, post
from tests.support.openresponses import until
from tests.support.servers import PostgresServer, RedisServer
from tests.wire.gateway.test_resume_replicas import CONFIG, forget_streams, replica, slow

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from penstock.testing import Upstream

BODY = {"model": "anthropic/text", "input": "Hi.", "background": True}


@pytest.fixture
def redis() -> Iterator[RedisServer]:
    with closing(RedisServer()) as server:
        server.start()
        yield server


Pair = tuple["process.Gateway", "process.Gateway", "Upstream"]


@pytest.fixture
def pair(redis: RedisServer, postgres: PostgresServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    folder = tmp_path_factory.mktemp("replicas")
    with ExitStack() as stack:
        up = stack.enter_context(scripted(slow))
        more = f'postgres = "{stack.enter_context(new_database(postgres))}"\n'
        one, two = (stack.enter_context(replica(folder / name, up, redis, more)) for name in "ab")
        yield one, two, up


def delete(where: str) -> httpx.Response:
    with httpx.Client(timeout=60, verify=False, trust_env=False) as http:  # noqa: S501 — loopback
        return http.delete(where)


def forget_owners(redis: RedisServer) -> None:
    """All processes seem to be dead."""
    with closing(Redis(port=redis.port)) as client:
        found: Any = client.keys("penstock:stream:owner:*")
        client.delete(*found)


def delete_while_its_replica_stands_still(pair: Pair, redis: RedisServer) -> str:
    """Delete a response on the second replica, while the first one, which makes it, seems to be dead. Its path."""
    one, two, up = pair
    up.script(stalled)
    where = f"/v1/responses/{post(f'{one.base}/v1/responses', json=BODY).json()['id']}"
    until(lambda: len(up.requests) == 1)
    one.process.send_signal(signal.SIGSTOP)
    try:
        forget_owners(redis)
        assert delete(two.base + where).json()["deleted"] is True
    finally:
        one.process.send_signal(signal.SIGCONT)
    return where


def test_a_replica_that_seemed_to_be_dead_does_not_write_a_deleted_response(pair: Pair, redis: RedisServer) -> None:
    one, two, _ = pair
    where = delete_while_its_replica_stands_still(pair, redis)
    one.stop()  # it writes what it has
    forget_streams(redis)
    assert get(two.base + where).status_code == 404
    assert delete(two.base + where).status_code == 404


def test_a_replica_that_seemed_to_be_dead_cancels_a_deleted_response(pair: Pair, redis: RedisServer) -> None:
    delete_while_its_replica_stands_still(pair, redis)
    until(pair[2].requests[0].disconnected.is_set)


def test_a_response_is_not_called_deleted_while_its_stream_cannot_be(pair: Pair, redis: RedisServer) -> None:
    """It would be there again, with Redis."""
    one, two, _ = pair
    where = f"/v1/responses/{post(f'{one.base}/v1/responses', json=BODY).json()['id']}"
    assert b"response.completed" in get(f"{two.base}{where}?stream=true").content
    redis.stop()
    try:
        away = delete(two.base + where)
        assert (away.status_code, away.json()["error"]["code"]) == (503, "stream_store_away")
        assert away.headers["retry-after"] == "1"
    finally:
        redis.start()
    until(lambda: delete(two.base + where).status_code == 200)
    for at in (one, two):
        assert get(at.base + where).status_code == 404
        assert get(f"{at.base}{where}?stream=true").status_code == 404


def test_nobody_knows_whether_an_unfinished_response_runs_while_redis_is_away(pair: Pair, redis: RedisServer) -> None:
    one, two, up = pair
    up.script(stalled)
    where = f"/v1/responses/{post(f'{one.base}/v1/responses', json=BODY).json()['id']}"
    until(lambda: len(up.requests) == 1)
    until(lambda: get(f"{two.base}{where}/input_items").status_code == 200)  # it is in the database
    redis.stop()
    try:
        away = get(two.base + where)
        assert (away.status_code, away.json()["error"]["code"]) == (503, "stream_store_away")
        assert get(one.base + where).json()["status"] == "in_progress"
    finally:
        redis.start()
    until(lambda: get(two.base + where).status_code == 200)
    assert get(two.base + where).json()["status"] == "in_progress"


# ── without PostgreSQL: each replica has its own stored responses ─────────────────────────────────


def expire_streams(redis: RedisServer) -> None:
    """What happens eight minutes after a stream has ended."""
    with closing(Redis(port=redis.port)) as client:
        found: Any = client.keys("penstock:stream:*")
        client.delete(*found)


@pytest.fixture
def separate(redis: RedisServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    folder = tmp_path_factory.mktemp("replicas")
    with ExitStack() as stack:
        up = stack.enter_context(scripted(slow))
        one, two = (stack.enter_context(replica(folder / name, up, redis)) for name in "ab")
        yield one, two, up


def test_a_response_that_another_replica_has_deleted_is_gone_for_good(separate: Pair, redis: RedisServer) -> None:
    """Also when the mark in its stream has expired, and in whatever way it is asked for."""
    one, two, _ = separate
    base = f"{one.base}/v1/responses"
    first = post(base, json=BODY).json()["id"]
    assert b"response.completed" in get(f"{two.base}/v1/responses/{first}?stream=true").content
    until(lambda: get(f"{base}/{first}").json()["status"] == "completed")
    item = get(f"{base}/{first}").json()["output"][0]["id"]
    plain = {"model": "anthropic/text", "input": "And?"}
    second = post(base, json={**plain, "previous_response_id": first}).json()["id"]
    assert get(f"{base}/{second}/input_items").json()["data"][-1]["content"][0]["text"] == "Hi."

    assert delete(f"{two.base}/v1/responses/{first}").json()["deleted"] is True
    expire_streams(redis)
    assert get(f"{base}/{first}/input_items").status_code == 404
    assert post(base, json={**plain, "previous_response_id": first}).status_code == 400
    assert post(base, json={**plain, "previous_response_id": second}).status_code == 400
    reference = {"type": "item_reference", "id": item}
    asked = post(base, json={**plain, "input": [reference, {"role": "user", "content": "And?"}]})
    assert asked.status_code == 400 or item not in str(separate[2].requests[-1].json)
    assert get(f"{base}/{first}").status_code == 404
    assert get(f"{base}/{first}?stream=true").status_code == 404
    assert "Hi." not in get(f"{base}/{second}/input_items").text


def test_a_replica_that_was_down_hears_of_deletions(separate: Pair, redis: RedisServer, tmp_path: Path) -> None:
    _, two, up = separate
    with replica(tmp_path / "c", up, redis) as three:
        id = post(f"{three.base}/v1/responses", json=BODY).json()["id"]  # noqa: A001 — as the protocol calls it
        until(lambda: get(f"{three.base}/v1/responses/{id}").json()["status"] == "completed")
    assert delete(f"{two.base}/v1/responses/{id}").json()["deleted"] is True
    expire_streams(redis)
    with process.gateway(tmp_path / "c", CONFIG.format(up=up.url, redis=redis.url)) as again:
        assert get(f"{again.base}/v1/responses/{id}/input_items").status_code == 404
        assert get(f"{again.base}/v1/responses/{id}").status_code == 404
