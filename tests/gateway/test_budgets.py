"""Budgets through a real gateway before a scripted upstream: reserved before a request, settled after it."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from penstock import events as ev
from penstock.testing import Reply, scripted
from tests.support import process
from tests.support.budget_requests import (
    BOSS,
    Gate,
    ask,
    ask_all,
    auth,
    chat,
    counted,
    key,
    reply_to,
    secret,
    turn_events,
    until_true,
)
from tests.support.each_case import each
from tests.support.gateway import answer as any_answer
from tests.support.gateway import fail_to_close, fail_to_estimate, gateway, hash_key
from tests.support.openresponses import FAST, socket

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from penstock.testing import ReceivedRequest, Upstream
    from tests.support.gateway import Running

DAY = 86_400
PRICES = {"models": {"openai-chat/*": {"input": 1.25, "output": 10}}}
USAGE = ev.Usage(input=1000, output=200)
COST = 0.00325  # of USAGE
PROMPT = "The gauge reads seven metres. " * 140  # about 1,000 tokens


def answer(seen: ReceivedRequest) -> Reply:
    return reply_to(seen, USAGE)


def used(running: Running, kind: str = "tokens") -> float:
    """What was spent of the key `a`, once all turns have ended."""
    running.settle()
    return counted(running.url, kind)


def test_parallel_streams_spend_at_most_the_budget(tmp_path: Path) -> None:
    gate = Gate(60, USAGE)
    keys, body = BOSS | key("a", limits={"day_cost": 0.02}), chat(PROMPT, stream=True, max_tokens=200)
    with gateway(gate.answer, keys=keys, prices=PRICES, data=tmp_path, serve=FAST) as (running, up):
        statuses = ask_all([running.url] * 60, "a", body, gate)
        accepted = statuses.count(200)
        assert (set(statuses), len(up.requests)) == ({200, 429}, accepted)
        assert 3 <= accepted <= 6
        assert used(running, "cost") == pytest.approx(accepted * COST)
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
def test_a_broken_answer_is_charged_with_a_bound(cut: str, tmp_path: Path) -> None:
    text = "word " * 60

    def broken(_: ReceivedRequest) -> Reply:
        whole = Reply.of("openai-chat", turn_events(USAGE, text))
        return whole.disconnect(0.7) if cut == "upstream" else whole.stall(0.7)

    keys = BOSS | key("a", limits={"day_tokens": 10_000})
    with gateway(broken, keys=keys, data=tmp_path, serve=FAST) as (running, _):
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
        tokens = used(running)
        row = running.rows()[0]
    assert (row.status, row.exact) == ("cancelled" if cut == "client" else "fault", False)
    assert tokens == row.input + row.output
    assert 900 < tokens < 1600


def test_errors_of_the_provider_cost_nothing_but_the_request(tmp_path: Path) -> None:
    keys = BOSS | key("a", limits={"day_tokens": 10_000, "day_requests": 5})
    with gateway(Reply.error("openai-chat", 500, "no"), keys=keys, data=tmp_path, serve=FAST) as (running, _):
        assert ask(running.url, "a", chat(max_tokens=9)).status_code >= 500
        assert used(running) == 0
        assert used(running, "requests") == 1


def test_embeddings_are_reserved_and_settled(tmp_path: Path) -> None:
    def embed(seen: ReceivedRequest) -> Reply:
        rows = [{"index": place, "embedding": [0.25]} for place in range(len(seen.json["input"]))]
        return Reply.body({"data": rows, "model": "e", "usage": {"prompt_tokens": 7, "total_tokens": 7}})

    keys = BOSS | key("a", limits={"day_tokens": 100})
    body = {"model": "openai-chat/e", "input": ["one", "two"]}
    with gateway(embed, keys=keys, data=tmp_path, serve=FAST) as (running, up):
        assert ask(running.url, "a", body, "/v1/embeddings").status_code == 200
        assert used(running) == 7
        long = {"model": "openai-chat/e", "input": [PROMPT, [1, 2, 3]]}
        refused = ask(running.url, "a", long, "/v1/embeddings")
        assert (refused.status_code, len(up.requests)) == (429, 1)
        assert "waiting does not help: the limit must be raised" in refused.text


def test_turns_of_a_websocket_and_in_the_background_are_settled(tmp_path: Path) -> None:
    keys = BOSS | key("a", limits={"day_tokens": 2500})
    body: dict[str, Any] = {"model": "openai-chat/text", "input": "Hi.", "max_output_tokens": 200}
    with gateway(answer, keys=keys, data=tmp_path, serve=FAST) as (running, _):
        with socket(running.url, **auth("a")) as ws:
            assert ws.turn(**body)[-1]["type"] == "response.completed"
            assert used(running) == 1200
        assert ask(running.url, "a", {**body, "background": True}, "/v1/responses").status_code == 200
        until_true(lambda: used(running) == 2400)
        with socket(running.url, **auth("a")) as ws:
            (frame,) = ws.turn(**body)
            assert (frame["status"], "2400 of its 2500 tokens a day" in frame["error"]["message"]) == (429, True)


def test_without_limits_of_tokens_none_are_told() -> None:
    with gateway(answer, keys=key("a") | key("b", limits={"requests": 9}), serve=FAST) as (running, _):
        for name in "ab":
            assert "x-ratelimit-limit-tokens" not in ask(running.url, name, chat(PROMPT)).headers


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
def test_a_slot_is_free_although_a_connection_cannot_be_closed(
    end: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A client that leaves while the connection to the provider is closed cancels that, too."""
    closing = fail_to_close(monkeypatch, cancelled=end != "an error")
    with gateway(answer, keys=BOSS | key("a", limits={"concurrent": 1}), data=tmp_path, serve=FAST) as (running, _):
        with suppress(httpx.HTTPError):
            ask(running.url, "a", chat(max_tokens=5))
        assert closing.wait(30)
        until_true(lambda: counted(running.url, "concurrent") == 0)
        with suppress(httpx.HTTPError):
            assert ask(running.url, "a", chat(max_tokens=5)).status_code != 429


# ── requests that try to get more ─────────────────────────────────────────────────────────────────

MOST = 50  # tokens of an answer
TEXT = [{"role": "user", "content": "Hi."}]
CHAT, MESSAGES, OLLAMA = "/v1/chat/completions", "/v1/messages", "/api/chat"
THINKING = {"type": "enabled", "budget_tokens": 60_000}
LIMIT_NAMES = ("max_tokens", "max_completion_tokens", "max_output_tokens", "max_new_tokens", "num_predict")
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "both": (CHAT, chat(max_tokens=100_000, max_completion_tokens=10)),
    "both, the other way": (CHAT, chat(max_tokens=10, max_completion_tokens=100_000)),
    "of other servers": (CHAT, chat(max_tokens=10, max_new_tokens=100_000, num_predict=100_000)),
    "in options": (CHAT, chat(max_tokens=10, options={"num_predict": 100_000, "top_k": 3})),
    "in an extra body": (CHAT, chat(max_tokens=10, extra_body={"max_new_tokens": 100_000})),
    "of another protocol": (CHAT, chat(max_output_tokens=100_000)),
    "negative": (CHAT, chat(max_tokens=-1)),
    "zero": (CHAT, chat(max_tokens=0)),
    "reasoning": (MESSAGES, {"model": "anthropic/text", "messages": TEXT, "max_tokens": 40, "thinking": THINKING}),
    "more reasoning": (
        MESSAGES,
        {"model": "anthropic/text", "messages": TEXT, "max_tokens": 61_000, "thinking": THINKING},
    ),
    "reasoning without a limit": (CHAT, chat(model="anthropic/text", reasoning={"max_tokens": 60_000})),
    "endless": (OLLAMA, {"model": "ollama/text", "messages": TEXT, "stream": False, "options": {"num_predict": -1}}),
    "the whole context": (
        OLLAMA,
        {"model": "ollama/text", "messages": TEXT, "stream": False, "options": {"num_predict": -2}},
    ),
}


def sent_limits(seen: ReceivedRequest) -> list[int]:
    places = [seen.json, *(seen.json.get(name, {}) for name in ("options", "extra_body"))]
    return [fields[name] for fields in places for name in LIMIT_NAMES if name in fields]


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Running, Upstream, list[float]]]:
    """A gateway; what was reserved of the day of `a` while the provider was asked, the last last; `b` has short answers."""
    reserved: list[float] = []

    async def script(seen: ReceivedRequest) -> Any:
        reserved.append(await asyncio.to_thread(counted, running.url))
        refused = seen.path.endswith("embeddings") and seen.json["input"] == ["refuse this"]
        return Reply.error("openai-chat", 400, "no") if refused else any_answer(seen)

    keys = BOSS | key("a", limits={"day_tokens": 10**9}) | key("b", max_output=MOST) | key("c", max_output=8_000)
    with gateway(script, keys=keys, data=tmp_path_factory.mktemp("data"), serve=FAST) as (running, up):
        yield running, up, reserved


def ask_watched(watched: tuple[Running, Upstream, list[float]], body: Any, path: str) -> tuple[ReceivedRequest, float]:
    """What a request of `a` makes a provider hear first, and what is reserved for it meanwhile."""
    running, up, reserved = watched
    before, first = used(running), len(up.requests)
    assert ask(running.url, "a", body, path).status_code == 200
    return up.requests[first], reserved[first] - before


@each("case", CASES)
def test_no_request_gets_around_the_output_limit_of_its_key(
    watched: tuple[Running, Upstream, list[float]], case: str
) -> None:
    path, body = CASES[case]
    running, up, _ = watched
    assert ask(running.url, "b", body, path).status_code == 200
    (sent,) = sent_limits(up.requests[-1])
    assert 0 < sent <= MOST
    assert up.requests[-1].json.get("thinking", {}).get("type") in {None, "disabled"}


@each("case", CASES)
def test_what_is_sent_was_reserved(watched: tuple[Running, Upstream, list[float]], case: str) -> None:
    """Without an output limit of the key, the reservation covers the limit that the provider gets."""
    path, body = CASES[case]
    seen, reserved = ask_watched(watched, body, path)
    (sent,) = sent_limits(seen)
    assert 0 < sent <= reserved


def test_reasoning_is_fitted_into_the_output_limit_of_a_key(watched: tuple[Running, Upstream, list[float]]) -> None:
    running, up, _ = watched
    body = {"model": "anthropic/text", "messages": TEXT, "max_tokens": 61_000, "thinking": THINKING}
    assert ask(running.url, "c", body, MESSAGES).status_code == 200
    sent = up.requests[-1].json
    assert (sent["max_tokens"], sent["thinking"]["budget_tokens"]) == (8_000, 8_000 - 1_024)
    assert "limit: a reasoning budget of 60000 is sent as 6976" in running.rows()[0].decisions


def test_a_key_with_some_models_cannot_leave_the_choice_to_a_provider() -> None:
    keys = key("some", models=("openai-chat/text",)) | key("all")
    body = chat(models=["vendor/expensive"])
    with gateway(answer, keys=keys, serve=FAST) as (running, up):
        refused = ask(running.url, "some", body)
        assert (refused.status_code, refused.json()["error"]["code"]) == (403, "model_not_allowed")
        assert ask(running.url, "some", chat()).status_code == 200
        assert ask(running.url, "all", body).status_code == 200
        assert len(up.requests) == 2


# ── embeddings and rerank ─────────────────────────────────────────────────────────────────────────

LONG = "The gauge reads seven metres. " * 500  # about 3,500 tokens
EMBED, RERANK = "/v1/embeddings", "/v1/rerank"
INPUTS: dict[str, tuple[str, dict[str, Any], int]] = {
    "a text": (EMBED, {"input": LONG}, 3_000),
    "a list in a list": (EMBED, {"input": [[LONG]]}, 3_000),
    "tokens": (EMBED, {"input": [[7] * 3_000]}, 3_000),
    "messages": (EMBED, {"input": "Hi.", "messages": [{"role": "user", "content": LONG}]}, 3_000),
    "another field": (EMBED, {"input": "Hi.", "text": LONG}, 3_000),
    "a query": (RERANK, {"query": LONG, "documents": ["one", "two", "three", "four"]}, 4 * 3_000),
    "documents of another name": (RERANK, {"query": "Hi.", "documents": ["one"], "texts": [LONG]}, 3_000),
}


@each("case", INPUTS)
def test_all_inputs_are_reserved(watched: tuple[Running, Upstream, list[float]], case: str) -> None:
    path, body, least = INPUTS[case]
    assert ask_watched(watched, {"model": "openai-chat/e", **body}, path)[1] >= least


def test_settings_of_embeddings_are_not_counted() -> None:
    body = {"model": "openai-chat/e", "input": "Hi.", "dimensions": 256, "user": "somebody", "input_type": "query"}
    with gateway(any_answer, keys=key("a", limits={"day_tokens": 60}), serve=FAST) as (running, _):
        assert ask(running.url, "a", body, EMBED).status_code == 200


def test_batches_that_were_answered_are_charged_if_another_one_is_refused(
    watched: tuple[Running, Upstream, list[float]],
) -> None:
    running, up, _ = watched
    before, first = used(running), len(up.requests)
    body = {"model": "openai-chat/e", "input": [*["one two"] * 2_048, "refuse this"]}
    assert ask(running.url, "a", body, EMBED).status_code == 400
    assert len(up.requests) - first == 2
    assert used(running) - before >= 2 * 2_048


def test_a_history_that_cannot_be_counted_is_reserved_by_its_bytes(
    watched: tuple[Running, Upstream, list[float]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It comes from the store of responses: the body of the request is short."""
    fail_to_estimate(monkeypatch)
    body = {"model": "responses/text", "max_output_tokens": 10}
    first = ask(watched[0].url, "a", {**body, "input": LONG}, "/v1/responses").json()["id"]
    more = {**body, "input": "And?", "previous_response_id": first}
    assert ask_watched(watched, more, "/v1/responses")[1] >= len(LONG)
