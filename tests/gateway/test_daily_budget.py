"""The daily budget of the person whose editor started the gateway: exact, and with a way out."""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from penstock import events as ev
from penstock.testing import Reply, scripted
from tests.support.asgi_gateway import AsgiGateway

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import httpx

KEY = "the-key-that-the-editor-made-for-its-gateway"
COST = 0.002  # of one turn: 1,000 tokens in at $1, 500 out at $2 a million


def answer(_: Any) -> Reply:
    said: list[ev.AnyEvent] = [ev.Start("m", "tide"), ev.TextStart(0), ev.TextDelta(0, "Ahoy"), ev.TextEnd(0)]
    return Reply.of("openai-chat", [*said, ev.Usage(input=1_000, output=500), ev.Finish("stop")])


@contextmanager
def gateway(budget: str = "", data: Path | None = None, journal: str = "") -> Iterator[AsgiGateway]:
    prices = {"tide": (1.0, 2.0), "gift": (0.0, 0.0), "dear": (4_369.0, 0.0)}
    models = {name: {"prices": {"input": given, "output": made}} for name, (given, made) in prices.items()}
    env = {"PENSTOCK_GATEWAY_KEY": KEY, **({"PENSTOCK_DAILY_BUDGET": budget} if budget else {})}
    with scripted(answer) as upstream:
        mine = {"base_url": f"{upstream.url}/v1", "key": "made-up", "models": models}
        table = {"path": journal or ("" if data else "memory")}
        with AsgiGateway(env=env, providers={"mine": mine}, data=data, journal=table) as made:
            yield made


def ask(made: AsgiGateway, model: str = "mine/tide") -> httpx.Response:
    message = {"role": 1, "content": [{"kind": "text", "value": "Hello"}]}
    body = {"version": 1, "model": model, "messages": [message]}
    return made.ask("/vscode/chat", body, authorization=f"Bearer {KEY}")


def shown(made: AsgiGateway) -> dict[str, Any]:
    found: dict[str, Any] = made.ask("/vscode/budget", authorization=f"Bearer {KEY}").json()
    return found


def change(made: AsgiGateway, **fields: Any) -> httpx.Response:
    return made.ask("/vscode/budget", fields, authorization=f"Bearer {KEY}")


def test_it_stops_at_the_budget_and_can_be_lifted_for_today() -> None:
    with gateway("0.01") as made:
        for turn in range(5):
            assert ask(made).status_code == 200
            assert shown(made)["used"] == pytest.approx(COST * (turn + 1), abs=1e-9)
        refused = ask(made)
        assert refused.status_code == 429
        line = refused.json()
        assert (line["fault"], line["code"]) == ("quota", "daily_budget")
        assert line["message"].startswith("today's budget of $0.01 is used up ($0.01 spent): ")
        assert ask(made, "mine/gift").status_code == 200, "what costs nothing is still answered"
        assert ask(made, "replay/text").status_code == 200

        day = shown(made)["day"]
        assert change(made, limit=0.01, lifted="2001-01-01").json()["lifted"] is False
        assert ask(made).status_code == 429
        assert change(made, limit=0.01, lifted=day).json()["lifted"] is True
        assert ask(made).status_code == 200
        assert shown(made) == {
            "version": 1, "day": day, "limit": 0.01, "used": pytest.approx(6 * COST), "unpriced": 1, "lifted": True,
            "enforced": True,
        }  # fmt: skip
        assert change(made, limit=0.02).json()["limit"] == 0.02
        assert ask(made).status_code == 200, "a higher budget counts at once"
        assert change(made, limit=0).json()["limit"] is None


def test_a_restart_does_not_reset_it(tmp_path: Path) -> None:
    with gateway("0.003", tmp_path) as made:
        assert [ask(made).status_code for _ in range(3)] == [200, 200, 429]
    with gateway("0.003", tmp_path) as made:
        assert shown(made)["used"] == pytest.approx(2 * COST)
        assert ask(made).status_code == 429


def test_it_begins_anew_at_midnight(tmp_path: Path) -> None:
    """Local midnight, not 24 hours after the first request."""
    with gateway("1", tmp_path) as made:
        for _ in range(4):
            assert ask(made).status_code == 200
        noon = time.mktime((2026, 11, 17, 12, 0, 0, 0, 0, -1))
    with closing(sqlite3.connect(tmp_path / "journal.sqlite", isolation_level=None)) as rows:
        for number, (hours, key) in enumerate(((-13, ""), (-11, ""), (0, ""), (0, "another")), 1):
            rows.execute("UPDATE turns SET time = ?, key = ? WHERE id = ?",
                         (noon + hours * 3600, key or "started-with", number))  # fmt: skip
    with gateway("1", tmp_path) as made:
        made.set_clock(noon)
        assert shown(made)["used"] == pytest.approx(2 * COST)
        assert change(made, limit=1.0, lifted=shown(made)["day"]).json()["lifted"] is True
        made.set_clock(noon + 13 * 3600)
        assert (shown(made)["used"], shown(made)["lifted"]) == (0.0, False)


def test_only_who_started_the_gateway_sees_or_changes_it() -> None:
    with gateway("1") as made:
        assert made.status("/vscode/budget") == 401
        for wrong in ({"limit": -1}, {"limit": "5"}, {"limit": True}, {"limit": 5, "lifted": "today"}):
            assert change(made, **wrong).status_code == 400, wrong
        assert shown(made)["limit"] == 1.0


def test_without_a_journal_it_says_that_it_counts_nothing() -> None:
    with gateway("0.001", journal="off") as made:
        assert [ask(made).status_code for _ in range(2)] == [200, 200]
        assert shown(made)["enforced"] is False


def test_a_wrong_variable_is_no_budget() -> None:
    for wrong in ("much", "-1", "nan", "inf"):
        with gateway(wrong) as made:
            assert shown(made)["limit"] is None, wrong


def test_amounts_are_short() -> None:
    with gateway("4.369") as made:
        assert ask(made, "mine/dear").status_code == 200
        for limit, amount in ((4.369, "$4.37"), (4, "$4"), (0.5, "$0.50"), (0.0042, "$0.0042")):
            change(made, limit=limit)
            said = ask(made).json()["message"]
            assert said.startswith(f"today's budget of {amount} is used up ($4.37 spent): "), said
