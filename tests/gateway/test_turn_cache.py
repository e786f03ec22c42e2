"""The response cache of the gateway: one stored turn answers clients of any protocol; what is never stored."""

from __future__ import annotations

import time
from contextlib import closing
from itertools import product
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from penstock import events as ev
from penstock.gateway import App
from penstock.testing import Reply
from tests.support.client_requests import ASKING, post, read, told
from tests.support.each_case import each
from tests.support.gateway import Running, answer, config, gateway, hash_key
from tests.support.openresponses import until
from tests.support.servers import RedisServer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from penstock.testing import Upstream

ALL = {"aliases": ("*",)}
FAST = {"pace": 0.0}
MODEL = "openai-chat/text"
# How each protocol says that an answer has at most 99 tokens: Anthropic's must say it.
LIMIT: dict[str, Any] = {
    "openai-chat": {"max_tokens": 99},
    "anthropic": {},
    "responses": {"max_output_tokens": 99},
    "gemini": {"generationConfig": {"maxOutputTokens": 99}},
    "uistream": {"maxOutputTokens": 99},
    "ollama": {"options": {"num_predict": 99}},
}


def ask(
    url: str, client: str = "openai-chat", model: str = MODEL, *, stream: bool = True, **more: Any
) -> tuple[str, Any, Any]:
    """Whether the cache was used, what was said, and the reply."""
    headers = more.pop("headers", None)
    path, body = ASKING[client](model, stream)
    reply = post(url + path, json={**body, **LIMIT.get(client, {}), **more}, headers=headers)
    found = told(read(client, reply.content, stream=stream)) if reply.status_code == 200 else None
    return reply.headers.get("x-penstock-cache", ""), found, reply


@pytest.fixture(scope="module")
def redis() -> Iterator[RedisServer]:
    with closing(RedisServer()) as server:
        server.start()
        yield server


@pytest.fixture(scope="module")
def both() -> Iterator[tuple[Running, Upstream]]:
    with gateway(answer, serve=FAST, cache=ALL) as found:
        yield found


@each("stream", [True, False])
@each("first", list(LIMIT))
def test_one_stored_turn_answers_clients_of_any_protocol(first: str, stream: bool) -> None:
    with gateway(answer, serve=FAST, cache=ALL) as (running, up):
        for model in (MODEL, "openai-chat/tools"):
            missed, said, _ = ask(running.url, first, model, stream=stream)
            assert missed == "miss"
            for client in LIMIT:
                hit, again, reply = ask(running.url, client, model, stream=not stream)
                assert (client, hit, again) == (client, "hit", said)
                assert b"upstream-model" in reply.content or client in {"gemini", "ollama", "uistream"}
        assert len(up.requests) == 2


@each("client", ["vscode", "completions"])
def test_clients_without_a_limit_share_answers_with_themselves(both: tuple[Running, Upstream], client: str) -> None:
    first = ask(both[0].url, client, "completions/text" if client == "completions" else MODEL)
    again = ask(both[0].url, client, "completions/text" if client == "completions" else MODEL)
    assert (first[0], again[0], again[1]) == ("miss", "hit", first[1])


def test_a_hit_costs_nothing_and_has_its_row() -> None:
    keys = {"ann": {"hash": hash_key("secret-of-ann"), "limits": {"day_requests": 1}}}
    headers = {"authorization": "Bearer secret-of-ann"}
    with gateway(answer, serve=FAST, cache={"keys": ("ann",)}, keys=keys) as (running, up):
        assert ask(running.url, headers=headers)[0] == "miss"
        for _ in range(3):
            assert ask(running.url, headers=headers)[0] == "hit"
        assert ask(running.url, headers=headers, temperature=0.5)[2].status_code == 429, "the limit is used up"
        assert len(up.requests) == 1
        hit = next(row for row in running.rows() if "cache" in row.decisions)
        assert (hit.status, hit.finish, hit.cost, hit.tries) == ("finish", "stop", 0.0, 0)
        assert not hit.input
        assert not hit.output
        assert "the response cache has the answer" in hit.decisions


def test_tenants_do_not_share_answers_unless_the_configuration_says_so() -> None:
    keys = {name: {"hash": hash_key(f"secret-of-{name}")} for name in ("ann", "bob")}
    ann, bob = ({"authorization": f"Bearer secret-of-{name}"} for name in ("ann", "bob"))
    for shared in (False, True):
        with gateway(answer, serve=FAST, cache={"aliases": ("*",), "shared": shared}, keys=keys) as (running, _):
            assert ask(running.url, headers=ann)[0] == "miss"
            assert ask(running.url, headers=ann)[0] == "hit"
            assert ask(running.url, headers=bob)[0] == ("hit" if shared else "miss")


def test_a_stored_answer_needs_the_right_to_its_model() -> None:
    keys = {
        "ann": {"hash": hash_key("secret-of-ann"), "tenant": "team"},
        "bob": {"hash": hash_key("secret-of-bob"), "tenant": "team", "models": ("anthropic/*",)},
    }
    with gateway(answer, serve=FAST, cache=ALL, keys=keys) as (running, _):
        assert ask(running.url, headers={"authorization": "Bearer secret-of-ann"})[0] == "miss"
        assert ask(running.url, headers={"authorization": "Bearer secret-of-bob"})[2].status_code == 403


def test_the_cache_is_off_by_default_and_only_for_what_is_named() -> None:
    with gateway(answer, serve=FAST) as (running, up):
        assert [ask(running.url)[0] for _ in range(2)] == ["", ""]
        assert len(up.requests) == 2
    with gateway(answer, serve=FAST, cache={"aliases": ("quick",)}) as (running, _):
        assert [ask(running.url, model="quick")[0] for _ in range(2)] == ["miss", "hit"]
        assert ask(running.url)[0] == ""


def test_what_the_client_says_about_caches_is_obeyed(both: tuple[Running, Upstream]) -> None:
    url, up = both[0].url, both[1]
    more: dict[str, Any] = {"seed": 1}
    assert ask(url, headers={"cache-control": "no-store"}, **more)[0] == ""
    assert ask(url, **more)[0] == "miss", "it was not stored"
    assert ask(url, **more)[0] == "hit"
    before = len(up.requests)
    assert ask(url, headers={"cache-control": "max-age=0, No-Cache"}, **more)[0] == "miss"
    assert len(up.requests) == before + 1
    assert ask(url, headers={"cache-control": "no-store"}, **more)[0] == ""


def test_other_requests_have_other_answers(both: tuple[Running, Upstream]) -> None:
    url = both[0].url
    assert ask(url, seed=2)[0] == "miss"
    others: list[dict[str, Any]] = [{"seed": 3}, {"seed": 2, "temperature": 0.5}, {"seed": 2, "max_tokens": 98}]
    for more in others:
        assert ask(url, **more)[0] == "miss"
    assert ask(url, model="anthropic/text", seed=2)[0] == "miss"
    assert ask(url, seed=2)[0] == "hit"


def test_requests_that_depend_on_more_than_themselves_are_not_cached(both: tuple[Running, Upstream]) -> None:
    url = both[0].url
    fields: list[dict[str, Any]] = [{"store": True}, {"tools": [{"type": "web_search"}]}, {"background": True}]
    for more in fields:
        for _ in range(2):
            assert ask(url, "responses", "responses/text", stream=False, **more)[0] == ""
    first = ask(url, "responses", stream=False, store=None)[2].json()
    for _ in range(2):
        body: dict[str, Any] = {"previous_response_id": first["id"], "input": "And?"}
        reply = ask(url, "responses", stream=False, **body)
        assert (reply[2].status_code, reply[0]) == (200, "")
    assert [ask(url, "openai-chat", n=2)[0] for _ in range(2)] == ["", ""]


def test_a_stored_answer_is_a_response_of_its_own(both: tuple[Running, Upstream]) -> None:
    """A client of Responses continues it, as any other."""
    url = both[0].url
    replies = [ask(url, "responses", stream=False, store=None, temperature=0.1)[2] for _ in range(2)]
    assert [reply.headers["x-penstock-cache"] for reply in replies] == ["miss", "hit"]
    ids = {reply.json()["id"] for reply in replies}
    assert len(ids) == 2
    for id in ids:  # noqa: A001
        assert ask(url, "responses", stream=False, previous_response_id=id, input="And?")[2].status_code == 200


def cut_short() -> list[Any]:
    return [ev.Start("one", "m"), ev.TextStart(0), ev.TextDelta(0, "It"), ev.TextEnd(0), ev.Finish("length")]


FAULTY = {
    "an error": lambda: Reply.error("openai-chat", 400, "no such thing"),
    "an overload": lambda: Reply.error("openai-chat", 503, "come later"),
    "a stream that breaks off": lambda: Reply.text("It is six, and more.").disconnect(after=200),
    "an answer cut by its limit": lambda: Reply.of("openai-chat", cut_short()),
    "garbage inside": lambda: Reply.text("It is six, and more.").garbage(after=200),
}


@each("case, stream", product(FAULTY, (True, False)))
def test_only_whole_answers_are_stored(both: tuple[Running, Upstream], case: str, stream: bool) -> None:
    running, up = both
    before = len(up.requests)
    up.script(FAULTY[case](), FAULTY[case]())
    try:
        for _ in range(2):
            running.close_circuits()
            assert ask(running.url, stream=stream, seed=100 + 2 * [*FAULTY].index(case) + stream)[0] in {"", "miss"}
        assert len(up.requests) == before + 2
    finally:
        up.script(answer)


def test_a_client_that_leaves_stores_nothing(both: tuple[Running, Upstream]) -> None:
    running, up = both
    up.script(lambda seen: answer(seen).stall(after=900))
    try:
        path, body = ASKING["openai-chat"](MODEL, True)
        with (
            httpx.Client(base_url=running.url, timeout=20, verify=False, trust_env=False) as http,  # noqa: S501
            http.stream("POST", path, json={**body, "seed": 7, "max_tokens": 99}) as reply,
        ):
            next(reply.iter_raw())
    finally:
        up.script(answer)
    assert ask(running.url, seed=7)[0] == "miss"


def test_a_stored_answer_is_streamed_at_the_given_pace() -> None:
    with gateway(answer, serve=FAST, cache={"aliases": ("*",), "pace": 0.01}) as (running, _):
        _, said, _ = ask(running.url)
        began = time.monotonic()
        hit, again, reply = ask(running.url)
        words = len(said[0].split(" "))
        assert (hit, again) == ("hit", said)
        assert time.monotonic() - began >= 0.01 * (words - 1)
        assert reply.content.count(b'"content":"') >= words
        assert ask(running.url, stream=False)[:2] == ("hit", said)


@each("kind", ["memory", "sqlite", "redis"])
def test_answers_expire_and_are_bounded(kind: str, redis: RedisServer, tmp_path: Path) -> None:
    stores = {"redis": redis.url if kind == "redis" else ""}
    path = str(tmp_path / "cache.sqlite") if kind == "sqlite" else ""
    for table, kept in (
        ({"aliases": ("*",), "path": path}, True),
        ({"aliases": ("*",), "path": path + "2" if path else "", "size": 100}, False),
        ({"aliases": ("*",), "path": path + "3" if path else "", "ttl": 0.001}, False),
    ):
        with gateway(answer, serve=FAST, cache=table, stores=stores) as (running, _):
            seed: dict[str, Any] = {"seed": 10 if kept else 11}
            assert ask(running.url, **seed)[0] == "miss"
            until(running.rows)  # an answer is stored before its row is written
            assert ask(running.url, **seed)[0] == ("hit" if kept else "miss")


@each("kind", ["sqlite", "redis"])
def test_several_gateways_share_a_cache(kind: str, redis: RedisServer, tmp_path: Path) -> None:
    stores = {"redis": redis.url if kind == "redis" else ""}
    table = {"aliases": ("*",), "path": str(tmp_path / "cache.sqlite") if kind == "sqlite" else ""}
    with gateway(answer, serve=FAST, cache=table, stores=stores) as (running, up):
        assert ask(running.url, seed=20)[0] == "miss"
        until(running.rows)
        with Running(App(config(up.url, serve=FAST, cache=table, stores=stores), env={})) as second:
            until(lambda: ask(second.url, seed=20)[0] == "hit")
        assert len(up.requests) <= 1 + (kind == "sqlite")


def test_a_cache_that_is_away_counts_as_empty() -> None:
    with closing(RedisServer()) as away:
        away.start()
        with gateway(answer, serve=FAST, cache=ALL, stores={"redis": away.url, "outage": "fail-open"}) as (
            running,
            _,
        ):
            assert ask(running.url)[0] == "miss"
            away.stop()
            assert [ask(running.url)[0] for _ in range(2)] == ["miss", "miss"]
