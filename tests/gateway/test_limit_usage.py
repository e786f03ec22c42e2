"""What is used of limits: in the admin API and in metrics, from the store in memory and from Redis."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from penstock import events as ev
from penstock._gateway import limit_usage
from penstock._gateway.limit_usage import MAX_METRIC_LIMITS, LimitGauges, LimitScope
from penstock._gateway.limits import USAGE_BATCH, CallerLimits, scope_rules
from penstock._gateway.metrics import Metrics, MetricsSnapshot, render_snapshot
from penstock._store.limit_store import Amounts, LimitRule
from penstock._store.memory_limits import MemoryLimitStore
from tests.gateway.test_metrics import figure
from tests.support.budget_requests import auth, chat, key, reply_to
from tests.support.gateway import LIMIT, gateway
from tests.support.servers import RedisServer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from penstock.testing import ReceivedRequest
    from tests.support.gateway import Running

USAGE = ev.Usage(input=1000, output=200)


def answer(seen: ReceivedRequest) -> Any:
    return reply_to(seen, USAGE)


@pytest.fixture(scope="module")
def redis() -> Iterator[RedisServer]:
    server = RedisServer()
    server.start()
    yield server
    server.close()


def until(check: Callable[[], bool]) -> None:
    began = time.monotonic()
    while not check():
        assert time.monotonic() - began < LIMIT
        time.sleep(0.02)


def get(running: Running, path: str, status: int = 200) -> Any:
    reply = httpx.get(running.url + path, headers=auth("boss"), timeout=LIMIT)
    assert reply.status_code == status, reply.text
    return reply.json()


def scopes(running: Running, query: str = "") -> dict[str, dict[str, Any]]:
    """The limits by whom they limit, and each by its kind and window."""
    rows = get(running, f"/admin/limits{query}")["data"]
    return {
        f"{row['scope']}:{row['name']}": {f"{one['kind']} {one['window']}": one for one in row["limits"]}
        for row in rows
    }


@pytest.mark.parametrize("kind", ["memory", "redis"])
def test_what_is_used_is_shown(kind: str, redis: RedisServer, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limit_usage, "POLL_INTERVAL", 0.0)
    limits = {"requests": 60, "concurrent": 5, "day_cost": 20.0, "total_tokens": 10**6}
    table: dict[str, Any] = {
        "keys": {**key("boss", role="admin"), **key("ann", team="lab", limits=limits), **key("bob", team="lab")},
        "teams": {"lab": {"limits": {"week_tokens": 50_000}}, "idle": {}},
        "organisation": {"limits": {"month_cost": 500.0}},
        "prices": {"models": {"openai-chat/*": {"input": 1000.0, "output": 5000.0}}},
        "stores": {"redis": redis.url if kind == "redis" else ""},
    }
    with gateway(answer, data=tmp_path, **table) as (running, _):

        def ask(name: str) -> int:
            body = chat(max_tokens=200)
            url = f"{running.url}/v1/chat/completions"
            return httpx.post(url, json=body, headers=auth(name), timeout=LIMIT).status_code

        assert [ask("ann"), ask("ann"), ask("bob")] == [200, 200, 200]
        until(lambda: scopes(running)["organisation:"]["cost 2592000"]["used"] == 6.0)
        found = scopes(running)
        assert list(found) == ["organisation:", "team:lab", "key:ann"], "those who have limits"
        ann = found["key:ann"]
        assert ann["cost 86400"] == {"kind": "cost", "window": 86400, "used": 4.0, "most": 20.0, "resets": 86400}
        assert ann["requests 60"] == {"kind": "requests", "window": 60, "used": 2, "most": 60, "resets": 60}
        assert ann["tokens 0"] == {"kind": "tokens", "window": 0, "used": 2400, "most": 10**6, "resets": None}
        assert ann["concurrent None"] == {"kind": "concurrent", "window": None, "used": 0, "most": 5, "resets": None}
        assert found["team:lab"]["tokens 604800"]["used"] == 3600
        assert list(scopes(running, "?scope=team")) == ["team:lab"]
        assert list(scopes(running, "?scope=key&name=ann")) == ["key:ann"]
        first = get(running, "/admin/limits?limit=2")
        assert first["next"] == "team:lab"
        rest = get(running, "/admin/limits?limit=2&after=team:lab")
        assert ([row["name"] for row in rest["data"]], rest["next"]) == (["ann"], None)
        assert get(running, "/admin/limits?scope=x", 400)["error"]["field"] == "scope"
        assert "after" in get(running, "/admin/limits?after=x", 400)["error"]["message"]

        def page() -> bytes:
            return httpx.get(f"{running.url}/metrics", headers=auth("boss"), timeout=LIMIT).content

        labels = {"scope": "key", "name": "ann", "kind": "cost", "window": "day"}
        until(lambda: figure(page(), "penstock_limit_used", **labels) == 4)
        assert figure(page(), "penstock_limit_most", **labels) == 20
        assert figure(page(), "penstock_limit_used", scope="team", name="lab", window="week") == 3600
        assert figure(page(), "penstock_limits_hidden") == 0
        if kind == "redis":
            redis.kill()
            assert get(running, "/admin/limits", 503)["error"]["code"] == "limits_unavailable"
            until(lambda: figure(page(), "penstock_limit_most") == 0)
            redis.start()
            until(lambda: figure(page(), "penstock_limit_most", **labels) == 20)


class CountingStore(MemoryLimitStore):
    """Counts the calls that read usage."""

    calls = 0

    async def usage(self, rules: Sequence[LimitRule]) -> list[int]:
        self.calls += 1
        return await super().usage(rules)


def test_metrics_of_many_keys_are_bounded_in_series_and_calls() -> None:
    def everybody() -> Iterator[LimitScope]:
        for number in range(MAX_METRIC_LIMITS):
            rules = scope_rules(f"key:k{number:05}", {"day_requests": 5, "day_cost": 1.0})
            yield LimitScope("key", f"k{number:05}", rules)

    async def scene() -> None:
        store = CountingStore()
        gauges = LimitGauges(CallerLimits(store), everybody, str)
        rules = scope_rules("key:k00000", {"day_requests": 5, "day_cost": 1.0})
        await store.reserve("one", rules, Amounts(1, 0, 250_000), 60)
        assert gauges.used() == {}, "a scrape does not wait"
        await asyncio.wait([task for task in asyncio.all_tasks() if task.get_name() == "penstock-limit-gauges"])
        for _ in range(50):
            gauges.used()
        used = gauges.used()
        assert store.calls == MAX_METRIC_LIMITS / USAGE_BATCH
        assert (len(used), len(gauges.most()), gauges.hidden) == (MAX_METRIC_LIMITS,) * 3
        assert used["key", "k00000", "cost", "day"] == 0.25
        await gauges.aclose()

    asyncio.run(scene())


def test_workers_show_the_highest_value_of_what_they_share() -> None:
    made, total, labels = Metrics(), MetricsSnapshot(), ("key", "ann", "cost", "day")
    made.add_levels("limit_used", lambda: {labels: 4.0})
    total.add(made.snapshot())
    total.add(made.snapshot())
    assert figure(render_snapshot(total), "penstock_limit_used", name="ann") == 4
