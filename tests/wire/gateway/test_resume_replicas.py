"""Gateways with one Redis: a stream that began on one continues on another, and a response that is deleted is gone.

Two of them are in this process. A third is a process of its own where one must stop, die, or stand still.
"""

from __future__ import annotations

import re
import signal
import time
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import httpx
import openai
import pytest
from redis import Redis

from penstock.gateway import App
from penstock.testing import scripted
from tests.conftest import new_database
from tests.support import process
from tests.support.client_requests import get, post, read, told
from tests.support.gateway import Running, config, hash_key
from tests.support.openresponses import until
from tests.support.resumed_streams import STAYS, begin, first_event, resume, slow, stalled
from tests.support.servers import PostgresServer, RedisServer

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator
    from pathlib import Path

    from penstock.testing import Upstream

DEAD_SECONDS = 10.0  # in which followers hear that a process has died
BODY = {"model": "anthropic/text", "input": "Hi.", "background": True}
CONFIG = """
[providers.anthropic]
base_url = "{up}/anthropic"
key = "sk-up-000000"
[serve]
drain = 1
[stores]
redis = "{redis}"
"""


@dataclass
class Shared:
    """Two gateways, their upstream, and the stores that they share."""

    one: str
    two: str
    up: Upstream
    redis: RedisServer
    postgres: str = ""

    @contextmanager
    def stalling(self) -> Generator[None]:
        """Answers do not end meanwhile."""
        self.up.script(stalled)
        try:
            yield
        finally:
            self.up.script(slow)

    @contextmanager
    def third(self, folder: Path) -> Generator[process.Gateway]:
        """One more gateway, which is a process."""
        folder.mkdir(exist_ok=True)
        more = f'postgres = "{self.postgres}"\n' if self.postgres else ""
        with process.gateway(folder, CONFIG.format(up=self.up.url, redis=self.redis.url) + more) as running:
            yield running

    def make(self, base: str, **headers: str) -> str:
        """Have a response made in the background. Its path."""
        made = post(f"{base}/v1/responses", json=BODY, headers=headers).raise_for_status()
        return f"/v1/responses/{made.json()['id']}"

    def finish(self, base: str) -> str:
        """Have one made, and wait until the other gateway has heard its end."""
        where = self.make(base)
        assert b"response.completed" in get(f"{self.two}{where}?stream=true").content
        return where

    def forget(self, names: str) -> None:
        """Delete keys of Redis."""
        with closing(Redis(port=self.redis.port)) as client:
            found: Any = client.keys(names)
            if found:
                client.delete(*found)

    def forget_streams(self) -> None:
        """What happens eight minutes after a stream has ended."""
        self.forget("penstock:stream:*")


@pytest.fixture(scope="module")
def redis() -> Iterator[RedisServer]:
    with closing(RedisServer()) as server:
        server.start()
        yield server


@contextmanager
def two_gateways(redis: RedisServer, postgres: str = "", **tables: Any) -> Generator[Shared]:
    stores = {"redis": redis.url, **({"postgres": postgres} if postgres else {})}
    with ExitStack() as stack:
        up = stack.enter_context(scripted(slow))
        kept: dict[str, Any] = {"journal": {}, "state": {}} if postgres else {}
        apps = [App(config(up.url, serve={"pace": 0.0}, stores=stores, **kept, **tables), env={}) for _ in range(2)]
        one, two = (stack.enter_context(Running(app)) for app in apps)
        yield Shared(one.url, two.url, up, redis, postgres)


@pytest.fixture(scope="module")
def both(redis: RedisServer, postgres: PostgresServer) -> Iterator[Shared]:
    """With a database: each gateway has the responses of both."""
    with new_database(postgres) as database, two_gateways(redis, database) as shared:
        yield shared


@pytest.fixture(scope="module")
def apart(redis: RedisServer) -> Iterator[Shared]:
    """Without: each gateway has its own stored responses."""
    with two_gateways(redis) as shared:
        yield shared


@pytest.fixture(scope="module", params=["both", "apart"])
def pair(request: pytest.FixtureRequest) -> Shared:
    shared: Shared = request.getfixturevalue(request.param)
    return shared


def delete(where: str) -> httpx.Response:
    with httpx.Client(timeout=60, verify=False, trust_env=False) as http:  # noqa: S501 — loopback
        return http.delete(where)


# ── responses in the background ───────────────────────────────────────────────────────────────────


def test_a_background_response_is_resumed_on_another_replica_by_the_official_sdk(apart: Shared) -> None:
    here, there = (openai.OpenAI(base_url=f"{at}/v1", api_key="none", max_retries=0) for at in (apart.one, apart.two))
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
    whole = get(f"{apart.two}/v1/responses/{id}?stream=true").content
    assert get(f"{apart.one}/v1/responses/{id}?stream=true").content == whole
    number = seen[5].sequence_number
    rest = get(f"{apart.two}/v1/responses/{id}?stream=true&starting_after={number}").content
    assert whole.endswith(rest)
    assert re.findall(rb'"sequence_number":(\d+)', whole[: -len(rest)])[-1] == b"%d" % number
    assert there.responses.retrieve(id).output_text == seen[-1].response.output_text
    there.responses.delete(id)
    for client in (here, there):
        with pytest.raises(openai.NotFoundError):
            client.responses.retrieve(id, stream=True, starting_after=number)
    here.close()
    there.close()


def test_a_background_response_is_cancelled_from_another_replica(pair: Shared) -> None:
    with pair.stalling():
        where = pair.make(pair.one)
        assert get(pair.two + where).json()["status"] == "in_progress"
        assert post(f"{pair.two}{where}/cancel").json()["status"] == "cancelled"
        until(pair.up.requests[-1].disconnected.is_set)
        assert get(pair.one + where).json()["status"] == "cancelled"


def test_a_response_in_a_shared_database_has_ended_when_its_stream_has(both: Shared) -> None:
    where = both.finish(both.one)
    both.forget_streams()
    assert get(both.two + where).json()["status"] == "completed"


def ask_all(base: str, id: str, headers: dict[str, str] | None = None) -> set[int]:
    """The statuses of everything that can be asked of a response."""
    where, last = f"{base}/v1/responses/{id}", {"last-event-id": f"{id.removeprefix('resp_')}-0"}
    with httpx.Client(timeout=20, verify=False, trust_env=False, headers=headers) as http:  # noqa: S501 — loopback
        replies = [http.get(where), http.get(f"{where}?stream=true"), http.get(f"{where}?stream=true&starting_after=1")]
        replies += [http.get(f"{where}/input_items"), http.post(f"{where}/cancel"), http.delete(where)]
        replies += [http.post(f"{base}/v1/responses", headers=last, json={})]
    return {reply.status_code for reply in replies}


# ── responses that are deleted ────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("is_running", [True, False])
def test_a_response_that_is_deleted_on_another_replica_is_gone_everywhere(pair: Shared, *, is_running: bool) -> None:
    with ExitStack() as stack:
        if is_running:
            stack.enter_context(pair.stalling())
        where = pair.make(pair.one) if is_running else pair.finish(pair.one)
        assert delete(pair.two + where).json()["deleted"] is True
        if is_running:
            until(pair.up.requests[-1].disconnected.is_set)
        assert [ask_all(at, where.rpartition("/")[2]) for at in (pair.one, pair.two)] == [{404}, {404}]


def test_a_replica_that_seemed_to_be_dead_does_not_write_a_deleted_response(both: Shared, tmp_path: Path) -> None:
    with both.stalling(), both.third(tmp_path / "still") as still:
        before = len(both.up.requests)
        paths = [both.make(still.base) for _ in range(2)]
        until(lambda: len(both.up.requests) == before + 2)
        seen = both.up.requests[before:]
        still.process.send_signal(signal.SIGSTOP)
        try:
            both.forget("penstock:stream:owner:*")  # all processes seem to be dead
            for where in paths:
                assert delete(both.two + where).json()["deleted"] is True
        finally:
            still.process.send_signal(signal.SIGCONT)
        for one in seen:
            until(one.disconnected.is_set)
        still.stop()  # it writes what it has
        both.forget_streams()
        for where in paths:
            assert get(both.two + where).status_code == 404
            assert delete(both.two + where).status_code == 404


def test_a_response_is_not_called_deleted_while_its_stream_cannot_be(both: Shared) -> None:
    """It would be there again, with Redis."""
    where = both.finish(both.one)
    both.redis.stop()
    try:
        away = delete(both.two + where)
        assert (away.status_code, away.json()["error"]["code"]) == (503, "stream_store_away")
        assert away.headers["retry-after"] == "1"
    finally:
        both.redis.start()
    until(lambda: delete(both.two + where).status_code == 200)
    for at in (both.one, both.two):
        assert get(at + where).status_code == 404
        assert get(f"{at}{where}?stream=true").status_code == 404


def test_nobody_knows_whether_an_unfinished_response_runs_while_redis_is_away(both: Shared) -> None:
    with both.stalling():
        before = len(both.up.requests)
        where = both.make(both.one)
        until(lambda: len(both.up.requests) > before)
        until(lambda: get(f"{both.two}{where}/input_items").status_code == 200)  # it is in the database
        both.redis.stop()
        try:
            away = get(both.two + where)
            assert (away.status_code, away.json()["error"]["code"]) == (503, "stream_store_away")
            assert get(both.one + where).json()["status"] == "in_progress"
        finally:
            both.redis.start()
        until(lambda: get(both.two + where).status_code == 200)
        assert get(both.two + where).json()["status"] == "in_progress"
        delete(both.two + where)


def test_a_response_that_another_replica_has_deleted_is_gone_for_good(apart: Shared) -> None:
    """Also when the mark in its stream has expired, and in whatever way it is asked for."""
    base = f"{apart.one}/v1/responses"
    first = apart.finish(apart.one).rpartition("/")[2]
    until(lambda: get(f"{base}/{first}").json()["status"] == "completed")
    item = get(f"{base}/{first}").json()["output"][0]["id"]
    plain = {"model": "anthropic/text", "input": "And?"}
    second = post(base, json={**plain, "previous_response_id": first}).json()["id"]
    assert get(f"{base}/{second}/input_items").json()["data"][-1]["content"][0]["text"] == "Hi."

    assert delete(f"{apart.two}/v1/responses/{first}").json()["deleted"] is True
    apart.forget_streams()
    assert get(f"{base}/{first}/input_items").status_code == 404
    assert post(base, json={**plain, "previous_response_id": first}).status_code == 400
    assert post(base, json={**plain, "previous_response_id": second}).status_code == 400
    reference = {"type": "item_reference", "id": item}
    asked = post(base, json={**plain, "input": [reference, {"role": "user", "content": "And?"}]})
    assert asked.status_code == 400 or item not in str(apart.up.requests[-1].json)
    assert get(f"{base}/{first}").status_code == 404
    assert get(f"{base}/{first}?stream=true").status_code == 404
    assert "Hi." not in get(f"{base}/{second}/input_items").text


def test_a_replica_that_was_down_hears_of_deletions(apart: Shared, tmp_path: Path) -> None:
    with apart.third(tmp_path) as third:
        where = apart.make(third.base)
        until(lambda: get(third.base + where).json()["status"] == "completed")
    assert delete(apart.two + where).json()["deleted"] is True
    apart.forget_streams()
    with apart.third(tmp_path) as again:
        assert get(f"{again.base}{where}/input_items").status_code == 404
        assert get(again.base + where).status_code == 404


# ── streams ───────────────────────────────────────────────────────────────────────────────────────


def is_gone(base: str, event: str, headers: dict[str, str]) -> bool:
    return resume(base, "uistream", event, **headers).status_code == 404


def test_streams_belong_to_a_tenant_and_are_gone_some_time_after_their_end(redis: RedisServer) -> None:
    ann, bob = ({"authorization": f"Bearer secret-of-{name}"} for name in ("ann", "bob"))
    keys = {name: {"hash": hash_key(f"secret-of-{name}")} for name in ("ann", "bob")}
    with two_gateways(redis, keys=keys, resume={"keep": 1}) as shared, shared.stalling():
        where = shared.make(shared.one, **ann)
        _, event = begin(shared.one, "uistream", "anthropic/text", {**STAYS, **ann})
        for at in (shared.one, shared.two):
            assert ask_all(at, where.rpartition("/")[2], bob) == {404}
            assert resume(at, "uistream", event, **bob).status_code == 404
            with httpx.Client(timeout=20, verify=False, trust_env=False, headers=bob) as http:  # noqa: S501
                chat = f"{at}/api/chat/c1/stream"
                assert (http.get(chat).status_code, http.delete(chat).status_code) == (204, 204)
            assert get(at + where, headers=ann).json()["status"] == "in_progress"
        assert not any(request.disconnected.is_set() for request in shared.up.requests)
        assert post(f"{shared.two}{where}/cancel", headers=ann).json()["status"] == "cancelled"
        with httpx.Client(timeout=20, verify=False, trust_env=False, headers=ann) as http:  # noqa: S501
            assert http.delete(f"{shared.two}/api/chat/c1/stream").status_code == 204
        for at in (shared.one, shared.two):
            until(partial(is_gone, at, event, ann))
            assert get(f"{at}/api/chat/c1/stream?ended=true", headers=ann).status_code == 204


def follow(base: str, event: str) -> Any:
    """Open a stream that runs; None if it is not known yet."""
    request = Request(f"{base}/v1/chat/completions", b"{}", {"last-event-id": event})  # noqa: S310 — loopback
    try:
        return urlopen(request, timeout=30)  # noqa: S310 — loopback
    except HTTPError as error:
        error.close()
        return None


CLIENTS = ("uistream", "responses")


def test_followers_hear_that_a_gateway_stops(apart: Shared, tmp_path: Path) -> None:
    """The gateway that stops is that of the follower, whose stream then goes on; or that of the stream."""
    with apart.stalling(), apart.third(tmp_path) as stopping:
        before, followers = len(apart.up.requests), []
        for makes, sends in ((apart.one, stopping.base), (stopping.base, apart.one)):
            for client in CLIENTS:
                _, event = begin(makes, client, "anthropic/text", STAYS)
                followers.append((client, event, until(lambda sends=sends, event=event: follow(sends, event))))  # type: ignore[misc]
        stopping.stop()
        for client, _, follower in followers:
            found = read(client, follower.read())
            follower.close()
            assert "shutting down" in found[-1].message
        left = [seen.disconnected.is_set() for seen in apart.up.requests[before:]]
        assert left == [False, False, True, True]
        assert "Traceback" not in stopping.said
        for _, event, _ in followers[:2]:
            until(lambda event=event: follow(apart.one, event)).close()  # type: ignore[misc]


def test_followers_of_a_replica_that_dies_get_an_error(apart: Shared, tmp_path: Path) -> None:
    with apart.stalling():
        with apart.third(tmp_path) as dying:
            events = {client: begin(dying.base, client, "anthropic/text", STAYS)[1] for client in CLIENTS}
            followers = {
                client: until(lambda event=event: follow(apart.two, event))  # type: ignore[misc]
                for client, event in events.items()
            }
            dying.stop(signal.SIGKILL)
        began = time.monotonic()
        for client, follower in followers.items():
            found = read(client, follower.read())
            follower.close()
            assert "the gateway process that made this stream has ended" in found[-1].message
        assert time.monotonic() - began < DEAD_SECONDS


@pytest.mark.parametrize("client", ["uistream", "openai-chat", "responses"])
def test_a_stream_continues_on_another_replica(apart: Shared, client: str) -> None:
    first, event = begin(apart.one, client, "anthropic/text", STAYS)
    if client == "uistream":
        page = get(f"{apart.two}/api/chat/c1/stream")
        assert page.headers["x-vercel-ai-ui-message-stream"] == "v1"
        assert page.content.startswith(first)
    rest = resume(apart.two, client, event).content
    whole = resume(apart.two, client, first_event(event)).content
    assert first + rest == whole
    assert told(read(client, whole))[2] == "stop"
    assert resume(apart.one, client, first_event(event)).content == whole
    if client == "responses":
        id = re.findall(rb'"id":"(resp_[0-9a-f]+)"', first)[0].decode()  # noqa: A001
        assert get(f"{apart.two}/v1/responses/{id}?stream=true").content == whole


def test_redis_may_be_away_for_a_while(apart: Shared) -> None:
    first, event = begin(apart.one, "openai-chat", "anthropic/text", STAYS)
    apart.redis.stop()
    try:
        rest = resume(apart.one, "openai-chat", event).content  # its own process has it
        away = resume(apart.two, "openai-chat", event)
        assert (away.status_code, away.json()["error"]["code"]) == (503, "stream_store_away")
    finally:
        apart.redis.start()
    until(lambda: resume(apart.two, "openai-chat", first_event(event)).content == first + rest)
