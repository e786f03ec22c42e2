"""Limits of keys, teams and the organisation: reservations, refusals and their words, and what is used of them."""

from __future__ import annotations

import re
import socket
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from penstock import events as ev
from tests.gateway.test_metrics import figure
from tests.support.budget_requests import MODEL, ask, auth, chat, held_stream, key, open_stream, reply_to
from tests.support.each_case import each
from tests.support.gateway import LIMIT, gateway
from tests.support.limit_store import DAY, MONTH, TOTAL, WEEK, StoppedClock, poll_at_every_scrape
from tests.support.openresponses import until
from tests.support.servers import RedisServer

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator
    from pathlib import Path

    from penstock.testing import ReceivedRequest
    from tests.support.gateway import Running

USAGE = ev.Usage(input=1000, output=200)
PRICES = {"models": {"openai-chat/*": {"input": 10.0, "output": 30.0}}}  # an answer costs 0.016 dollars
NOWHERE = "redis://127.0.0.1:9"


def answer(seen: ReceivedRequest) -> Any:
    return reply_to(seen, USAGE)


@contextmanager
def limiting(script: Any = answer, **tables: Any) -> Generator[tuple[Running, StoppedClock]]:
    with gateway(script, prices=PRICES, **tables) as (running, _):
        yield running, StoppedClock(running)


def enter(running: Running, name: str = "k", **more: Any) -> int:
    reply = ask(running.url, name, chat(**{"max_tokens": 200, **more}))
    running.settle()
    return reply.status_code


def refusal(running: Running, name: str = "k", **more: Any) -> tuple[httpx.Response, str]:
    """A request that must be refused: the response, and what it says."""
    reply = ask(running.url, name, chat(**{"max_tokens": 200, **more}))
    assert reply.status_code in (429, 503), reply.text
    return reply, reply.json()["error"]["message"]


def code(reply: httpx.Response) -> tuple[int, str]:
    return reply.status_code, reply.json()["error"]["code"]


def test_requests_a_minute_are_exact_and_the_refusal_says_when() -> None:
    with limiting(keys=key("k", limits={"requests": 2}) | key("other", limits={"requests": 2})) as (running, clock):
        assert [enter(running), enter(running)] == [200, 200]
        refused, said = refusal(running)
        assert code(refused) == (429, "rate_limit_exceeded")
        assert said == "the key 'k' has used 2 of its 2 requests a minute; try again in 60 s"
        assert refused.headers["retry-after"] == "60"
        assert enter(running, "other") == 200
        clock.now += 60.001
        assert enter(running) == 200


def test_requests_at_once_of_a_key_and_of_all() -> None:
    gate = threading.Event()
    keys = key("k", limits={"concurrent": 1}) | key("b")
    with limiting(lambda _: held_stream(gate, USAGE), keys=keys, serve={"streams": 2}) as (running, _):
        with open_stream(running.url, "k") as first:
            assert refusal(running)[1].startswith("the key 'k' has 1 of its 1 requests at once open")
            with open_stream(running.url, "b") as second:
                refused, said = refusal(running, "b")
                assert (refused.status_code, said) == (503, "2 requests are open already")
                gate.set()
                first.read()
                second.read()
        assert enter(running, stream=True) == 200


def test_what_a_request_may_use_is_reserved_and_what_it_did_not_use_is_given_back() -> None:
    gate = threading.Event()
    with limiting(lambda _: held_stream(gate, ev.Usage(input=1, output=1)), keys=key("k", limits={"day_cost": 0.01})) as (
        running,
        _,
    ):  # fmt: skip
        with open_stream(running.url, "k") as first:
            said = refusal(running)[1]
            assert re.fullmatch(
                r"the key 'k' has used 0\.006\d* of its 0\.01 dollars a day, and this request may cost 0\.006\d* "
                r"\(\d+ input and 200 output tokens\); try again in 8\d{4} s", said,
            ), said  # fmt: skip
            gate.set()
            first.read()
        assert enter(running, stream=True) == 200


def test_a_budget_below_one_cent_can_be_used() -> None:
    with limiting(keys=key("k", limits={"day_cost": 0.017})) as (running, _):
        assert enter(running) == 200
        assert "has used 0.016 of its 0.017 dollars" in refusal(running)[1]


def test_a_request_that_asks_for_more_than_the_whole_limit_is_told_what_helps() -> None:
    keys = key("k", limits={"tokens": 100}) | key("spent", limits={"total_requests": 1})
    with limiting(keys=keys) as (running, _):
        refused, said = refusal(running, max_tokens=500)
        assert code(refused) == (429, "insufficient_quota")
        assert "retry-after" not in refused.headers
        found = re.fullmatch(
            r"the key 'k' has used 0 of its 100 tokens a minute, and this request may use (\d+) \((\d+) input and 500 "
            r"output\); waiting does not help: set a lower output limit in the request, or `max_output` of the key",
            said,
        )
        assert found, said
        assert int(found[1]) == int(found[2]) + 500
        assert enter(running, "spent") == 200
        assert "1 of its 1 requests in total" in refusal(running, "spent")[1]


def test_a_team_and_the_organisation_are_limited_together() -> None:
    keys = key("a", team="x") | key("b", team="x") | key("c", team="y")
    teams = {name: {"limits": {"day_requests": 2}} for name in ("x", "y")}
    organisation = {"limits": {"day_requests": 3}}
    with limiting(keys=keys, teams=teams, organisation=organisation) as (running, _):
        assert [enter(running, "a"), enter(running, "b")] == [200, 200]
        assert "the team 'x' has used 2 of its 2 requests a day" in refusal(running, "a")[1]
        assert enter(running, "c") == 200
        assert "the organisation has used 3 of its 3" in refusal(running, "c")[1]


@each("kind", ["memory", "sqlite"])
def test_headers_say_what_is_left_of_the_tightest_rule(kind: str, tmp_path: Path) -> None:
    limits = {"requests": 5, "day_requests": 3, "tokens": 1000}
    keys, stores = key("k", limits=limits) | key("first", limits={"requests": 99}), {"limits": kind}
    with limiting(keys=keys, data=tmp_path, stores=stores, features={"estimates": False}) as (running, _):
        until(lambda: enter(running, "first") == 200)  # a file that is made takes its time
        reply = ask(running.url, "k", chat(max_tokens=200))
        assert reply.status_code == 200, reply.text
        told = reply.headers
        assert {name: told[f"x-ratelimit-{name}"] for name in (
            "limit-requests", "remaining-requests", "reset-requests", "limit-tokens", "reset-tokens",
        )} == {
            "limit-requests": "3", "remaining-requests": "2", "reset-requests": "24h0m0s", "limit-tokens": "1000",
            "reset-tokens": "1m0s",
        }  # fmt: skip
        assert 700 < int(told["x-ratelimit-remaining-tokens"]) < 800
    assert (tmp_path / "limits.sqlite").exists() == (kind == "sqlite")


def test_the_past_is_read_from_the_journal(tmp_path: Path) -> None:
    journal = {"path": str(tmp_path / "journal.sqlite")}
    with limiting(keys=key("k"), journal=journal) as (running, _):
        assert [enter(running), enter(running)] == [200, 200]
    with limiting(keys=key("k", limits={"day_requests": 3, "requests": 10}), journal=journal) as (running, clock):
        assert enter(running) == 200
        assert "has used 3 of its 3 requests a day" in refusal(running)[1]
        clock.now += 2 * DAY
        assert enter(running) == 200


def test_a_key_may_have_the_name_of_those_without_one(tmp_path: Path) -> None:
    stores, limits = {"limits": "sqlite"}, {"day_requests": 1}
    with gateway(answer, data=tmp_path, stores=stores, limits=limits) as (running, _):
        assert httpx.post(f"{running.url}/v1/chat/completions", json=chat(), timeout=LIMIT).status_code == 200
        assert httpx.post(f"{running.url}/v1/chat/completions", json=chat(), timeout=LIMIT).status_code == 429
    with gateway(answer, data=tmp_path, stores=stores, keys=key("anonymous", limits=limits)) as (running, _):
        assert ask(running.url, "anonymous", chat()).status_code == 200


def test_an_outage_refuses_or_lets_in() -> None:
    keys = key("k", limits={"requests": 1}) | key("free")
    with gateway(answer, keys=keys, stores={"redis": NOWHERE}) as (running, _):
        assert code(refusal(running)[0]) == (503, "limits_unavailable")
        assert enter(running, "free") == 200, "who has no limit does not need the store"
    with gateway(answer, keys=keys, stores={"redis": NOWHERE, "outage": "fail-open"}) as (running, _):
        assert [enter(running), enter(running)] == [200, 200]
        page = httpx.get(f"{running.url}/metrics", headers=auth("k"), timeout=LIMIT).content
        assert figure(page, "penstock_limits_unchecked") == 2
        assert "limit" in running.rows()[0].decisions


def test_a_client_that_leaves_while_the_store_is_asked_frees_its_place() -> None:
    silent = socket.create_server(("127.0.0.1", 0))
    stores = {"redis": f"redis://127.0.0.1:{silent.getsockname()[1]}", "redis_timeout": 60.0}
    with gateway(answer, keys=key("k", limits={"requests": 1}), stores=stores) as (running, _), silent:
        with pytest.raises(httpx.ReadTimeout):
            httpx.post(f"{running.url}/v1/chat/completions", json=chat(), headers=auth("k"), timeout=0.3)
        running.settle()


# ── what is used ──────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def redis() -> Iterator[RedisServer]:
    server = RedisServer()
    server.start()
    yield server
    server.close()


def get(running: Running, path: str, status: int = 200) -> Any:
    reply = httpx.get(running.url + path, headers=auth("boss"), timeout=LIMIT)
    assert reply.status_code == status, reply.text
    return reply.json()


def page(running: Running) -> bytes:
    return httpx.get(f"{running.url}/metrics", headers=auth("boss"), timeout=LIMIT).content


def scopes(running: Running, query: str = "") -> dict[str, dict[str, Any]]:
    """The limits by whom they limit, and each by its kind and window."""
    rows = get(running, f"/admin/limits{query}")["data"]
    return {
        f"{row['scope']}:{row['name']}": {f"{one['kind']} {one['window']}": one for one in row["limits"]}
        for row in rows
    }


@pytest.mark.parametrize("kind", ["memory", "redis"])
def test_what_is_used_is_shown(kind: str, redis: RedisServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    poll_at_every_scrape(monkeypatch)
    limits = {"requests": 60, "concurrent": 5, "day_cost": 20.0, "total_tokens": 10**6}
    table: dict[str, Any] = {
        "keys": {**key("boss", role="admin"), **key("ann", team="lab", limits=limits), **key("bob", team="lab")},
        "teams": {"lab": {"limits": {"week_tokens": 50_000}}, "idle": {}},
        "organisation": {"limits": {"month_cost": 500.0}},
        "prices": {"models": {"openai-chat/*": {"input": 1000.0, "output": 5000.0}}},
        "stores": {"redis": redis.url if kind == "redis" else ""},
    }
    with gateway(answer, data=tmp_path, **table) as (running, _):
        assert [enter(running, name) for name in ("ann", "ann", "bob")] == [200, 200, 200]
        until(lambda: scopes(running)["organisation:"][f"cost {MONTH}"]["used"] == 6.0)
        found = scopes(running)
        assert list(found) == ["organisation:", "team:lab", "key:ann"], "those who have limits"
        ann = found["key:ann"]
        assert ann[f"cost {DAY}"] == {"kind": "cost", "window": DAY, "used": 4.0, "most": 20.0, "resets": DAY}
        assert ann["requests 60"] == {"kind": "requests", "window": 60, "used": 2, "most": 60, "resets": 60}
        assert ann[f"tokens {TOTAL}"] == {
            "kind": "tokens", "window": TOTAL, "used": 2400, "most": 10**6, "resets": None
        }  # fmt: skip
        assert ann["concurrent None"] == {"kind": "concurrent", "window": None, "used": 0, "most": 5, "resets": None}
        assert found["team:lab"][f"tokens {WEEK}"]["used"] == 3600
        assert list(scopes(running, "?scope=team")) == ["team:lab"]
        assert list(scopes(running, "?scope=key&name=ann")) == ["key:ann"]
        first = get(running, "/admin/limits?limit=2")
        assert first["next"] == "team:lab"
        rest = get(running, "/admin/limits?limit=2&after=team:lab")
        assert ([row["name"] for row in rest["data"]], rest["next"]) == (["ann"], None)
        assert get(running, "/admin/limits?scope=x", 400)["error"]["field"] == "scope"
        assert "after" in get(running, "/admin/limits?after=x", 400)["error"]["message"]
        labels = {"scope": "key", "name": "ann", "kind": "cost", "window": "day"}
        until(lambda: figure(page(running), "penstock_limit_used", **labels) == 4)
        assert figure(page(running), "penstock_limit_most", **labels) == 20
        assert figure(page(running), "penstock_limit_used", scope="team", name="lab", window="week") == 3600
        assert figure(page(running), "penstock_limits_hidden") == 0
        if kind == "redis":
            redis.kill()
            assert get(running, "/admin/limits", 503)["error"]["code"] == "limits_unavailable"
            until(lambda: figure(page(running), "penstock_limit_most") == 0)
            redis.start()
            until(lambda: figure(page(running), "penstock_limit_most", **labels) == 20)


def test_limits_of_many_keys_have_a_bounded_number_of_series(monkeypatch: pytest.MonkeyPatch) -> None:
    most = poll_at_every_scrape(monkeypatch)
    keys = key("boss", role="admin")
    for number in range(most // 2 + 5):
        keys |= key(f"k{number:05}", limits={"day_requests": 5, "day_cost": 1.0})
    with gateway(answer, keys=keys, prices=PRICES) as (running, _):
        assert ask(running.url, "k00000", chat(model=MODEL, max_tokens=200)).status_code == 200
        until(lambda: page(running).count(b"penstock_limit_used{") == most)
        shown = page(running)
        assert shown.count(b"penstock_limit_most{") == most
        assert figure(shown, "penstock_limits_hidden") == 10
        assert figure(shown, "penstock_limit_used", name="k00000", kind="cost", window="day") == 0.016
