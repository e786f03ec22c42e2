"""The daily budget of the person whose editor started the gateway: exact, and with a way out."""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from penstock import events as ev
from penstock._gateway.daily_budget import DailyBudget, format_dollars
from penstock._gateway.journal import Journal
from penstock._providers.registry import ConfiguredModel
from penstock._store.journal import JournalEntry, JournalStore
from penstock._store.sqlite import IN_MEMORY
from penstock.gateway import App, Config, GatewayConfig
from penstock.testing import Reply, scripted
from tests.support.gateway import Running

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

KEY = "the-key-that-the-editor-made-for-its-gateway"
AUTH = {"authorization": f"Bearer {KEY}"}
COST = 0.002  # of one turn: 1,000 tokens in at $1, 500 out at $2 a million


def answer(_: Any) -> Reply:
    said: list[ev.AnyEvent] = [ev.Start("m", "tide"), ev.TextStart(0), ev.TextDelta(0, "Ahoy"), ev.TextEnd(0)]
    return Reply.of("openai-chat", [*said, ev.Usage(input=1_000, output=500), ev.Finish("stop")])


@contextmanager
def gateway(budget: str = "", data: Path | None = None, journal: str = "") -> Iterator[str]:
    priced = ConfiguredModel(prices={"input": 1.0, "output": 2.0})
    models = {"tide": priced, "gift": ConfiguredModel(prices={"input": 0.0, "output": 0.0})}
    with scripted(answer) as upstream:
        mine = {"base_url": f"{upstream.url}/v1", "key": "made-up", "models": models}
        config = GatewayConfig(
            engine=Config(providers={"mine": mine}), serve={"pace": 0.0}, data=data,
            journal={"path": journal or ("" if data else "memory")}, state={"path": "memory"},
        )  # fmt: skip
        env = {"PENSTOCK_GATEWAY_KEY": KEY, **({"PENSTOCK_DAILY_BUDGET": budget} if budget else {})}
        with Running(App(config, env=env)) as running:
            yield running.url


def ask(url: str, model: str = "mine/tide") -> httpx.Response:
    message = {"role": 1, "content": [{"kind": "text", "value": "Hello"}]}
    return httpx.post(f"{url}/vscode/chat", json={"version": 1, "model": model, "messages": [message]}, headers=AUTH)


def shown(url: str) -> dict[str, Any]:
    found: dict[str, Any] = httpx.get(f"{url}/vscode/budget", headers=AUTH).json()
    return found


def change(url: str, **fields: Any) -> httpx.Response:
    return httpx.post(f"{url}/vscode/budget", json=fields, headers=AUTH)


def test_it_stops_at_the_budget_and_can_be_lifted_for_today() -> None:
    with gateway("0.01") as url:
        for turn in range(5):
            assert ask(url).status_code == 200
            assert shown(url)["used"] == pytest.approx(COST * (turn + 1), abs=1e-9)
        refused = ask(url)
        assert refused.status_code == 429
        line = refused.json()
        assert (line["fault"], line["code"]) == ("quota", "daily_budget")
        assert line["message"].startswith("today's budget of $0.01 is used up ($0.01 spent): ")
        assert ask(url, "mine/gift").status_code == 200, "what costs nothing is still answered"
        assert ask(url, "replay/text").status_code == 200

        day = shown(url)["day"]
        assert change(url, limit=0.01, lifted="2001-01-01").json()["lifted"] is False
        assert ask(url).status_code == 429
        assert change(url, limit=0.01, lifted=day).json()["lifted"] is True
        assert ask(url).status_code == 200
        assert shown(url) == {
            "version": 1, "day": day, "limit": 0.01, "used": pytest.approx(6 * COST), "unpriced": 1, "lifted": True,
            "enforced": True,
        }  # fmt: skip
        assert change(url, limit=0.02).json()["limit"] == 0.02
        assert ask(url).status_code == 200, "a higher budget counts at once"
        assert change(url, limit=0).json()["limit"] is None


def test_a_restart_does_not_reset_it(tmp_path: Path) -> None:
    with gateway("0.003", tmp_path) as url:
        assert [ask(url).status_code for _ in range(3)] == [200, 200, 429]
    with gateway("0.003", tmp_path) as url:
        assert shown(url)["used"] == pytest.approx(2 * COST)
        assert ask(url).status_code == 429


def test_it_begins_anew_at_midnight() -> None:
    """Local midnight, not 24 hours after the first request."""
    noon = time.mktime((2026, 11, 17, 12, 0, 0, 0, 0, -1))
    now = [noon]
    rows = JournalStore(IN_MEMORY, lambda: now[0])
    budget = DailyBudget(Journal(rows), {"PENSTOCK_DAILY_BUDGET": "1"}, lambda: now[0])
    for at, cost in ((noon - 13 * 3600, 7.0), (noon - 11 * 3600, 0.5), (noon, 0.25)):
        assert rows.add(JournalEntry(time=at, key="started-with", cost=cost, input=1, status="finish"))
    assert rows.add(JournalEntry(time=noon, key="another", cost=9.0, input=1, status="finish"))
    assert budget._read_spending().cost == pytest.approx(0.75)
    budget.change(1.0, budget.today)
    assert budget.is_lifted
    now[0] = noon + 13 * 3600
    assert budget._read_spending().cost == 0.0
    assert not budget.is_lifted
    rows.close()


def test_only_who_started_the_gateway_sees_or_changes_it() -> None:
    with gateway("1") as url:
        assert httpx.get(f"{url}/vscode/budget").status_code == 401
        for wrong in ({"limit": -1}, {"limit": "5"}, {"limit": True}, {"limit": 5, "lifted": "today"}):
            assert change(url, **wrong).status_code == 400, wrong
        assert shown(url)["limit"] == 1.0


def test_without_a_journal_it_says_that_it_counts_nothing() -> None:
    with gateway("0.001", journal="off") as url:
        assert [ask(url).status_code for _ in range(2)] == [200, 200]
        assert shown(url)["enforced"] is False


@pytest.mark.parametrize("wrong", ["much", "-1", "nan", "inf"])
def test_a_wrong_variable_is_no_budget(wrong: str) -> None:
    assert DailyBudget(Journal(None), {"PENSTOCK_DAILY_BUDGET": wrong}).limit == 0


def test_amounts_are_short() -> None:
    amounts = {5: "$5", 4.369: "$4.37", 0.0042: "$0.0042", 0.5: "$0.50", 0: "$0"}
    assert {value: format_dollars(value) for value in amounts} == amounts
