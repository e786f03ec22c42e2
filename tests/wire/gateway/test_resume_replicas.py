"""Two gateway processes with one Redis: a stream that began on one continues on the other."""

from __future__ import annotations

import re
import signal
import time
from contextlib import closing, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import httpx
import openai
import pytest
from redis import Redis

from penstock.testing import scripted
from tests.gateway.test_resume import STAYS, begin, first_event, resume, stalled
from tests.support import process
from tests.support.client_requests import get, post, read, told
from tests.support.gateway import answer, hash_key
from tests.support.openresponses import until
from tests.support.servers import PostgresServer, RedisServer

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator
    from pathlib import Path

    from penstock.testing import ReceivedRequest, Reply, Upstream

DEAD_SECONDS = 10.0  # in which followers hear that a process has died


def slow(seen: ReceivedRequest) -> Reply:
    return answer(seen).slow(0.02)


CONFIG = """
[providers.anthropic]
base_url = "{up}/anthropic"
key = "sk-up-000000"
[serve]
drain = 1
[stores]
redis = "{redis}"
"""


@pytest.fixture(scope="module")
def redis() -> Iterator[RedisServer]:
    with closing(RedisServer()) as server:
        server.start()
        yield server


@contextmanager
def replica(folder: Path, up: Upstream, redis: RedisServer, more: str = "") -> Generator[process.Gateway]:
    folder.mkdir()
    with process.gateway(folder, CONFIG.format(up=up.url, redis=redis.url) + more) as running:
        yield running


@pytest.fixture(scope="module")
def pair(
    redis: RedisServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[process.Gateway, process.Gateway, Upstream]]:
    folder = tmp_path_factory.mktemp("replicas")
    with scripted(slow) as up, replica(folder / "a", up, redis) as one, replica(folder / "b", up, redis) as two:
        yield one, two, up


Pair = tuple[process.Gateway, process.Gateway, "Upstream"]


def test_a_background_response_is_resumed_on_another_replica_by_the_official_sdk(pair: Pair) -> None:
    one, two, _ = pair
    here, there = (openai.OpenAI(base_url=f"{at.base}/v1", api_key="none", max_retries=0) for at in (one, two))
    seen: list[Any] = []
    with here.responses.create(model="anthropic/text", input="Hi.", background=True, stream=True) as stream:
        for event in stream:
            seen.append(event)
            if len(seen) == 6:
                break
    id = seen[0].response.id  # noqa: A001
    for client in (there, here):  # dropped again on each
        with client.responses.retrieve(id, stream=True, starting_after=seen[-1].sequence_number) as stream:
            seen += [next(stream) for _ in range(3)]
    seen += there.responses.retrieve(id, stream=True, starting_after=seen[-1].sequence_number)
    assert [event.sequence_number for event in seen] == list(range(len(seen)))
    assert seen[-1].type == "response.completed"
    whole = get(f"{two.base}/v1/responses/{id}?stream=true").content
    assert get(f"{one.base}/v1/responses/{id}?stream=true").content == whole
    number = seen[5].sequence_number
    rest = get(f"{two.base}/v1/responses/{id}?stream=true&starting_after={number}").content
    assert whole.endswith(rest)
    assert re.findall(rb'"sequence_number":(\d+)', whole[: -len(rest)])[-1] == b"%d" % number
    assert there.responses.retrieve(id).output_text == seen[-1].response.output_text
    there.responses.delete(id)
    for client in (here, there):
        with pytest.raises(openai.NotFoundError):
            client.responses.retrieve(id, stream=True, starting_after=number)
    here.close()
    there.close()


def test_a_background_response_is_cancelled_from_another_replica(pair: Pair) -> None:
    one, two, up = pair
    up.script(stalled)
    try:
        body = {"model": "anthropic/text", "input": "Hi.", "background": True}
        first = post(f"{one.base}/v1/responses", json=body).json()
        assert get(f"{two.base}/v1/responses/{first['id']}").json()["status"] == "in_progress"
        assert post(f"{two.base}/v1/responses/{first['id']}/cancel").json()["status"] == "cancelled"
        until(up.requests[-1].disconnected.is_set)
        assert get(f"{one.base}/v1/responses/{first['id']}").json()["status"] == "cancelled"
    finally:
        up.script(slow)


def ask_all(base: str, id: str, headers: dict[str, str] | None = None) -> set[int]:
    """The statuses of everything that can be asked of a response."""
    where, last = f"{base}/v1/responses/{id}", {"last-event-id": f"{id.removeprefix('resp_')}-0"}
    with httpx.Client(timeout=20, verify=False, trust_env=False, headers=headers) as http:  # noqa: S501 — loopback
        replies = [http.get(where), http.get(f"{where}?stream=true"), http.get(f"{where}?stream=true&starting_after=1")]
        replies += [http.get(f"{where}/input_items"), http.post(f"{where}/cancel"), http.delete(where)]
        replies += [http.post(f"{base}/v1/responses", headers=last, json={})]
    return {reply.status_code for reply in replies}


@pytest.mark.parametrize("is_running", [True, False])
def test_a_response_that_is_deleted_on_another_replica_is_gone_everywhere(pair: Pair, *, is_running: bool) -> None:
    one, two, up = pair
    up.script(stalled if is_running else slow)
    try:
        body = {"model": "anthropic/text", "input": "Hi.", "background": True}
        where = f"/v1/responses/{post(f'{one.base}/v1/responses', json=body).json()['id']}"
        if not is_running:
            assert b"response.completed" in get(f"{two.base}{where}?stream=true").content
        with httpx.Client(timeout=20, verify=False, trust_env=False) as http:  # noqa: S501 — loopback
            assert http.delete(two.base + where).json()["deleted"] is True
        if is_running:
            until(up.requests[-1].disconnected.is_set)
        assert [ask_all(at.base, where.rpartition("/")[2]) for at in (one, two)] == [{404}, {404}]
    finally:
        up.script(slow)


@pytest.mark.nightly  # a database of its own, and three gateways
def test_a_response_in_a_shared_database_has_ended_when_its_stream_has(
    pair: Pair, redis: RedisServer, tmp_path: Path
) -> None:
    """Nor does the replica that made it write it again after it was deleted on another one."""
    *_, up = pair
    body = {"model": "anthropic/text", "input": "Hi.", "background": True}
    with closing(PostgresServer()) as database:
        database.start()
        more = f'postgres = "{database.url}"\n'
        with replica(tmp_path / "a", up, redis, more) as one, replica(tmp_path / "b", up, redis, more) as two:
            id = post(f"{one.base}/v1/responses", json=body).json()["id"]  # noqa: A001
            assert b"response.completed" in get(f"{two.base}/v1/responses/{id}?stream=true").content
            forget_streams(redis)
            assert get(f"{two.base}/v1/responses/{id}").json()["status"] == "completed"
            up.script(stalled)
            try:
                id = post(f"{one.base}/v1/responses", json=body).json()["id"]  # noqa: A001
                with httpx.Client(timeout=20, verify=False, trust_env=False) as http:  # noqa: S501 — loopback
                    assert http.delete(f"{two.base}/v1/responses/{id}").json()["deleted"] is True
            finally:
                up.script(slow)
            one.stop()  # it writes what it has
            forget_streams(redis)
            assert get(f"{two.base}/v1/responses/{id}").status_code == 404


def forget_streams(redis: RedisServer) -> None:
    """Only the database is left to tell of responses."""
    client: Any = Redis(port=redis.port)
    client.flushall()
    client.close()


def is_gone(base: str, event: str, headers: dict[str, str]) -> bool:
    return resume(base, "uistream", event, **headers).status_code == 404


KEYS = """
[keys.ann]
hash = "{ann}"
[keys.bob]
hash = "{bob}"
[resume]
keep = 1
"""


def test_streams_belong_to_a_tenant_and_are_gone_some_time_after_their_end(
    pair: Pair, redis: RedisServer, tmp_path: Path
) -> None:
    *_, up = pair
    ann, bob = ({"authorization": f"Bearer secret-of-{name}"} for name in ("ann", "bob"))
    keys = KEYS.format(ann=hash_key("secret-of-ann"), bob=hash_key("secret-of-bob"))
    up.script(stalled)
    try:
        with replica(tmp_path / "a", up, redis, keys) as one, replica(tmp_path / "b", up, redis, keys) as two:
            body = {"model": "anthropic/text", "input": "Hi.", "background": True}
            id = post(f"{one.base}/v1/responses", json=body, headers=ann).json()["id"]  # noqa: A001
            _, event = begin(one.base, "uistream", "anthropic/text", {**STAYS, **ann})
            for at in (one, two):
                assert ask_all(at.base, id, bob) == {404}
                assert resume(at.base, "uistream", event, **bob).status_code == 404
                with httpx.Client(timeout=20, verify=False, trust_env=False, headers=bob) as http:  # noqa: S501
                    chat = f"{at.base}/api/chat/c1/stream"
                    assert (http.get(chat).status_code, http.delete(chat).status_code) == (204, 204)
                assert get(f"{at.base}/v1/responses/{id}", headers=ann).json()["status"] == "in_progress"
            assert not any(request.disconnected.is_set() for request in up.requests[-2:])
            assert post(f"{two.base}/v1/responses/{id}/cancel", headers=ann).json()["status"] == "cancelled"
            with httpx.Client(timeout=20, verify=False, trust_env=False, headers=ann) as http:  # noqa: S501
                assert http.delete(f"{two.base}/api/chat/c1/stream").status_code == 204
            for at in (one, two):
                until(partial(is_gone, at.base, event, ann))
                assert get(f"{at.base}/api/chat/c1/stream?ended=true", headers=ann).status_code == 204
    finally:
        up.script(slow)


@pytest.mark.parametrize("client", ["uistream", "responses"])
@pytest.mark.parametrize("follows", [True, False])
def test_followers_hear_that_a_gateway_stops(
    pair: Pair, redis: RedisServer, tmp_path: Path, client: str, *, follows: bool
) -> None:
    """The gateway that stops is that of the follower, whose stream then goes on; or that of the stream."""
    one, _, up = pair
    up.script(stalled)
    try:
        with replica(tmp_path / "stopping", up, redis) as stopping:
            makes, sends = (one, stopping) if follows else (stopping, one)
            _, event = begin(makes.base, client, "anthropic/text", STAYS)
            follower = until(lambda: follow(sends.base, event))
            stopping.stop()
            found = read(client, follower.read())
            follower.close()
            assert "shutting down" in found[-1].message
            assert up.requests[-1].disconnected.is_set() is not follows
        assert "Traceback" not in stopping.said
        if follows:
            until(lambda: follow(one.base, event)).close()
    finally:
        up.script(slow)


@pytest.mark.parametrize("client", ["uistream", "openai-chat", "responses"])
def test_a_stream_continues_on_another_replica(pair: Pair, client: str) -> None:
    one, two, _ = pair
    first, event = begin(one.base, client, "anthropic/text", STAYS)
    if client == "uistream":
        page = get(f"{two.base}/api/chat/c1/stream")
        assert page.headers["x-vercel-ai-ui-message-stream"] == "v1"
        assert page.content.startswith(first)
    rest = resume(two.base, client, event).content
    whole = resume(two.base, client, first_event(event)).content
    assert first + rest == whole
    assert told(read(client, whole))[2] == "stop"
    assert resume(one.base, client, first_event(event)).content == whole
    if client == "responses":
        id = re.findall(rb'"id":"(resp_[0-9a-f]+)"', first)[0].decode()  # noqa: A001
        assert get(f"{two.base}/v1/responses/{id}?stream=true").content == whole


def follow(base: str, event: str) -> Any:
    """Open a stream that runs; None if it is not known yet."""
    request = Request(f"{base}/v1/chat/completions", b"{}", {"last-event-id": event})  # noqa: S310 — loopback
    try:
        return urlopen(request, timeout=30)  # noqa: S310 — loopback
    except HTTPError as error:
        error.close()
        return None


@pytest.mark.parametrize("client", ["uistream", "responses"])
def test_followers_of_a_replica_that_dies_get_an_error(
    pair: Pair, redis: RedisServer, tmp_path: Path, client: str
) -> None:
    _, two, up = pair
    up.script(stalled)
    try:
        with replica(tmp_path / "dying", up, redis) as dying:
            _, event = begin(dying.base, client, "anthropic/text", STAYS)
            follower = until(lambda: follow(two.base, event))
            dying.stop(signal.SIGKILL)
        began = time.monotonic()
        found = read(client, follower.read())
        follower.close()
        assert time.monotonic() - began < DEAD_SECONDS
        assert "the gateway process that made this stream has ended" in found[-1].message
    finally:
        up.script(slow)


def test_redis_may_be_away_for_a_while(pair: Pair, redis: RedisServer) -> None:
    one, two, _ = pair
    first, event = begin(one.base, "openai-chat", "anthropic/text", STAYS)
    redis.stop()
    try:
        rest = resume(one.base, "openai-chat", event).content  # its own process has it
        away = resume(two.base, "openai-chat", event)
        assert (away.status_code, away.json()["error"]["code"]) == (503, "stream_store_away")
    finally:
        redis.start()
    until(lambda: resume(two.base, "openai-chat", first_event(event)).content == first + rest)
