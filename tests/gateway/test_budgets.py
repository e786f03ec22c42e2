"""Budgets through a real gateway before a scripted upstream: reserved before a request, settled after it."""

from __future__ import annotations

import asyncio
import threading
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from penstock import events as ev
from penstock._engines.reply import ModelReply
from penstock._gateway.limits import DAY
from penstock._store.limit_store import LimitRule
from penstock.testing import Reply, scripted
from tests.gateway.test_faults import settled, until
from tests.support import process
from tests.support.budget_requests import Gate, ask, ask_all, auth, chat, key, reply_to, secret, turn_events
from tests.support.gateway import gateway, hash_key
from tests.support.openresponses import FAST, socket

if TYPE_CHECKING:
    from pathlib import Path

    from penstock.testing import ReceivedRequest
    from tests.support.gateway import Running


PRICES = {"models": {"openai-chat/*": {"input": 1.25, "output": 10}}}
USAGE = ev.Usage(input=1000, output=200)
COST = 0.00325  # of USAGE
PROMPT = "The gauge reads seven metres. " * 140  # about 1,000 tokens


def answer(seen: ReceivedRequest) -> Reply:
    return reply_to(seen, USAGE)


def used(running: Running, rule: LimitRule) -> int:
    until(running, lambda: settled(running))
    found: list[int] = running.call(running.app.services.limits.store.usage([rule]))
    return found[0]


def test_parallel_streams_spend_at_most_the_budget() -> None:
    gate = Gate(60, USAGE)
    keys, body = key("a", limits={"day_cost": 0.02}), chat(PROMPT, stream=True, max_tokens=200)
    with gateway(gate.answer, keys=keys, prices=PRICES, serve=FAST) as (running, up):
        statuses = ask_all([running.url] * 60, "a", body, gate)
        accepted = statuses.count(200)
        assert (set(statuses), len(up.requests)) == ({200, 429}, accepted)
        assert 3 <= accepted <= 6
        assert used(running, LimitRule("key:a", "cost", DAY, 0)) == round(accepted * COST * 1e6)
        while ask(running.url, "a", body).status_code == 200:
            accepted += 1
        assert accepted * COST <= 0.02
        assert sum(row.cost or 0 for row in running.rows()) == pytest.approx(accepted * COST)


def test_organisation_team_and_key_are_limited_together() -> None:
    keys = key("a", team="x") | key("b", team="x") | key("c", team="y", limits={"requests": 9}) | key("d")
    teams = {"x": {"limits": {"total_tokens": 2400}}, "y": {"limits": {"week_requests": 1}}}
    organisation = {"limits": {"month_requests": 4}}
    small = chat(max_tokens=10)
    with gateway(answer, keys=keys, teams=teams, organisation=organisation, serve=FAST) as (running, up):
        assert [ask(running.url, name, small).status_code for name in "ab"] == [200, 200]
        refused = ask(running.url, "b", small)
        assert (refused.status_code, refused.json()["error"]["code"]) == (429, "insufficient_quota")
        assert "the team 'x' has used 2400 of its 2400 tokens in total" in refused.json()["error"]["message"]
        assert ask(running.url, "c", small).status_code == 200
        refused = ask(running.url, "c", small)
        assert "the team 'y' has used 1 of its 1 requests a week; try again in" in refused.text
        assert int(refused.headers["retry-after"]) > 6 * DAY
        assert ask(running.url, "d", small).status_code == 200
        assert "the organisation has used 4 of its 4 requests a month" in ask(running.url, "d", small).text
        assert len(up.requests) == 4


@pytest.mark.parametrize("clamp", [True, False])
def test_the_output_limit_of_a_key_is_sent_upstream(clamp: bool) -> None:
    keys = key("a", max_output=50) | key("b", limits={"day_tokens": 10**9})
    features = {"clamp_output": clamp}
    with gateway(answer, keys=keys, features=features, serve=FAST) as (running, up):
        for name, asked in (("a", None), ("a", 500), ("a", 20), ("b", None)):
            limit: dict[str, Any] = {"max_tokens": asked} if asked else {}
            assert ask(running.url, name, chat(**limit)).status_code == 200
        sent = [one.json.get("max_tokens") or one.json.get("max_completion_tokens") for one in up.requests]
        assert sent == ([50, 50, 20, 8192] if clamp else [None, 500, 20, None])
        lines = [row.decisions.splitlines()[0] for row in running.rows()]
    if clamp:
        assert lines[3] == "limit: the output limit 50 is sent, max_output of the key 'a'; the request sets none"
        assert lines[2] == "limit: the output limit 50 is sent, max_output of the key 'a'; the request asks for 500"
        assert lines[0].startswith("limit: the output limit 8192 is sent")
    assert not lines[1].startswith("limit:")


def test_models_without_a_price_follow_the_policy() -> None:
    keys, body = key("a", limits={"day_cost": 0.02}), chat(max_tokens=200)
    with gateway(answer, keys=keys | key("free"), serve=FAST) as (running, up):
        refused = ask(running.url, "a", body)
        assert (refused.status_code, len(up.requests)) == (403, 0)
        message = refused.json()["error"]["message"]
        assert message.startswith("no price is known for the model 'openai-chat/text', and the key 'a' has a limit")
        assert '`prices.models."openai-chat/text" = {' in message
        assert ask(running.url, "free", body).status_code == 200  # cost is not limited
    flat = {"unknown": "flat", "flat": {"input": 5, "output": 15}}
    with gateway(answer, keys=keys, prices=flat, serve=FAST) as (running, _):
        statuses = [ask(running.url, "a", body).status_code for _ in range(4)]
        assert statuses == [200, 200, 429, 429]
        assert [row.cost for row in running.rows() if row.cost] == pytest.approx([0.008, 0.008])
    with gateway(answer, keys=keys, prices={"unknown": "free"}, serve=FAST) as (running, _):
        assert [ask(running.url, "a", body).status_code for _ in range(4)] == [200] * 4
        assert {row.cost for row in running.rows()} == {None}


def test_a_budget_below_one_cent_can_be_used() -> None:
    keys = key("a", limits={"day_cost": 0.005})
    with gateway(answer, keys=keys, prices=PRICES, serve=FAST) as (running, _):
        assert ask(running.url, "a", chat(max_tokens=200)).status_code == 200
        refused = ask(running.url, "a", chat(max_tokens=200))
        assert refused.status_code == 429
        assert "the key 'a' has used 0.00325 of its 0.005 dollars a day" in refused.json()["error"]["message"]


def test_requests_a_minute_are_exact() -> None:
    keys = key("a", limits={"requests": 20})
    with gateway(answer, keys=keys, serve=FAST) as (running, up):
        first = ask(running.url, "a", chat())
        assert first.headers["x-ratelimit-limit-requests"] == "20"
        assert first.headers["x-ratelimit-remaining-requests"] == "19"
        statuses = ask_all([running.url] * 40, "a", chat(stream=True))
        assert (statuses.count(200), len(up.requests)) == (19, 20)


@pytest.mark.parametrize("cut", ["upstream", "client"])
def test_a_broken_answer_is_charged_with_a_bound(cut: str) -> None:
    text = "word " * 60

    def broken(_: ReceivedRequest) -> Reply:
        whole = Reply.of("openai-chat", turn_events(USAGE, text))
        return whole.disconnect(0.7) if cut == "upstream" else whole.stall(0.7)

    keys = key("a", limits={"day_tokens": 10_000})
    with gateway(broken, keys=keys, serve=FAST) as (running, _):
        with (
            httpx.Client(timeout=30, trust_env=False) as http,
            http.stream(
                "POST", f"{running.url}/v1/chat/completions", json=chat(PROMPT, stream=True), headers=auth("a")
            ) as reply,
        ):
            seen = ""
            for piece in reply.iter_text():
                seen += piece
                if cut == "client" and "word" in seen:
                    break
        tokens = used(running, LimitRule("key:a", "tokens", DAY, 0))
        row = running.rows()[0]
    assert (row.status, row.exact) == ("cancelled" if cut == "client" else "fault", False)
    assert tokens == row.input + row.output
    assert 900 < tokens < 1600


def test_errors_of_the_provider_cost_nothing_but_the_request() -> None:
    keys = key("a", limits={"day_tokens": 10_000, "day_requests": 5})
    with gateway(Reply.error("openai-chat", 500, "no"), keys=keys, serve=FAST) as (running, _):
        assert ask(running.url, "a", chat(max_tokens=9)).status_code >= 500
        assert used(running, LimitRule("key:a", "tokens", DAY, 0)) == 0
        assert used(running, LimitRule("key:a", "requests", DAY, 0)) == 1


def test_embeddings_are_reserved_and_settled() -> None:
    def embed(seen: ReceivedRequest) -> Reply:
        rows = [{"index": place, "embedding": [0.25]} for place in range(len(seen.json["input"]))]
        return Reply.body({"data": rows, "model": "e", "usage": {"prompt_tokens": 7, "total_tokens": 7}})

    keys = key("a", limits={"day_tokens": 100})
    body = {"model": "openai-chat/e", "input": ["one", "two"]}
    with gateway(embed, keys=keys, serve=FAST) as (running, up):
        assert ask(running.url, "a", body, "/v1/embeddings").status_code == 200
        assert used(running, LimitRule("key:a", "tokens", DAY, 0)) == 7
        long = {"model": "openai-chat/e", "input": [PROMPT, [1, 2, 3]]}
        refused = ask(running.url, "a", long, "/v1/embeddings")
        assert (refused.status_code, len(up.requests)) == (429, 1)
        assert "waiting does not help: the limit must be raised" in refused.text


def test_turns_of_a_websocket_and_in_the_background_are_settled() -> None:
    keys = key("a", limits={"day_tokens": 2500})
    body: dict[str, Any] = {"model": "openai-chat/text", "input": "Hi.", "max_output_tokens": 200}
    rule = LimitRule("key:a", "tokens", DAY, 0)
    with gateway(answer, keys=keys, serve=FAST) as (running, _):
        with socket(running.url, **auth("a")) as ws:
            assert ws.turn(**body)[-1]["type"] == "response.completed"
            assert used(running, rule) == 1200
        assert ask(running.url, "a", {**body, "background": True}, "/v1/responses").status_code == 200
        until(running, lambda: len(running.app.services.background) == 0)
        assert used(running, rule) == 2400
        with socket(running.url, **auth("a")) as ws:
            (frame,) = ws.turn(**body)
            assert (frame["status"], "2400 of its 2500 tokens a day" in frame["error"]["message"]) == (429, True)


def test_without_limits_nothing_is_estimated() -> None:
    with gateway(answer, keys=key("a") | key("b", limits={"requests": 9}), serve=FAST) as (running, _):
        for name in "ab":
            assert ask(running.url, name, chat(PROMPT)).status_code == 200
        estimators: Any = running.app.services.estimators
        assert estimators._pools == {}
        assert "x-ratelimit-limit-tokens" not in ask(running.url, "b", chat()).headers


def test_a_caller_without_a_key_is_limited_too() -> None:
    organisation = {"limits": {"day_requests": 2}}
    with gateway(answer, organisation=organisation, limits={"requests": 9}, serve=FAST) as (running, _):
        statuses = [ask(running.url, "nobody", chat()).status_code for _ in range(3)]
    assert statuses == [200, 200, 429]


PROCESS_CONFIG = """
journal.path = "memory"
state.path = "memory"
stores.limits = "sqlite"
[keys.k]
hash = "{hash}"
limits = {{ requests = 2 }}
[providers.openai-chat]
base_url = "{url}/v1"
key = "sk-up-000000"
like = "openai-compatible"
fields = {{ has = ["chat"] }}
"""


def test_two_processes_on_one_data_folder_share_a_file(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("one", "two", "data")]
    for folder in folders:
        folder.mkdir()
    with scripted(answer) as up, ExitStack() as stack:
        config = PROCESS_CONFIG.format(url=up.url, hash=hash_key(secret("k")))
        one, two = (
            stack.enter_context(process.gateway(folder, config, PENSTOCK_DATA=str(folders[2])))
            for folder in folders[:2]
        )
        statuses = [ask(each.base, "k", chat()).status_code for each in (one, two, one, two)]
    assert statuses == [200, 200, 429, 429]


@pytest.mark.parametrize("end", ["an error", "a second cancellation"])
def test_a_slot_is_free_although_a_connection_cannot_be_closed(end: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that leaves while the connection to the provider is closed cancels that, too."""
    closing = threading.Event()

    async def aclose(reply: ModelReply) -> None:
        await original(reply)
        closing.set()
        if end == "an error":
            raise OSError("it is gone")
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(0)

    original = ModelReply.aclose
    monkeypatch.setattr(ModelReply, "aclose", aclose)
    with gateway(answer, keys=key("a", limits={"concurrent": 1}), serve=FAST) as (running, _):
        with suppress(httpx.HTTPError):
            ask(running.url, "a", chat(max_tokens=5))
        assert closing.wait(30)
        until(running, lambda: running.app.services.limits.open == 0)
        rule = LimitRule("key:a", "concurrent", 0, 1)
        assert running.call(running.app.services.limits.store.usage([rule])) == [0]
