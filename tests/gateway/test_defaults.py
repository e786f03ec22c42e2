"""What a gateway does that nobody told it: it plays nothing but packaged streams, and adds no limit of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from penstock.testing import Reply, play, scripted
from tests.support.asgi_gateway import AsgiGateway
from tests.support.client_requests import ASKING
from tests.support.each_case import each

if TYPE_CHECKING:
    import httpx

MINE = {"base_url": "http://127.0.0.1:9/v1"}


def ask(engine: dict[str, Any], path: str, body: Any = None, **more: Any) -> httpx.Response:
    """One request to a gateway with these tables."""
    with AsgiGateway(**engine, **more) as made:
        return made.ask(path, body)


# ── packaged streams ──────────────────────────────────────────────────────────────────────────────


def test_a_model_without_a_key_is_an_error_in_every_protocol() -> None:
    with AsgiGateway() as made:
        for protocol in ASKING:
            for model, known, words in (("gpt-5", 401, "OPENAI_API_KEY"), ("team", 404, "no provider is configured")):
                reply = made.ask(*ASKING[protocol](model, False))
                # Google has a status of its own for a key that is not valid
                status = 400 if (protocol, known) == ("gemini", 401) else known
                assert (reply.status_code, words in reply.text) == (status, True), (protocol, reply.text)


@each("body", [{"model": "replay/text"}, {}])
def test_packaged_streams_answer_their_own_names_and_no_name(body: dict[str, str]) -> None:
    reply = ask({}, "/v1/chat/completions", {**body, "messages": [{"role": "user", "content": "hi"}]})
    assert reply.status_code == 200
    assert reply.json()["model"] == "text"


@each(
    "engine, env, status",
    [
        ({}, {}, 200),  # a demo
        ({"providers": {"mine": MINE}}, {}, 200),
        ({"providers": {"mine": {**MINE, "env": "MINE_KEY"}}}, {}, 503),
        ({"providers": {"mine": {**MINE, "env": "MINE_KEY"}}}, {"MINE_KEY": "k"}, 200),
        ({"providers": {"openai": {"models": ["gpt-5"]}}}, {}, 503),
        ({"providers": {"openai": {"models": {"gpt-5": {"context": 9000}}}}}, {}, 200),  # facts ask for no key
        ({"providers": {"openai": {"models": {"gpt-5": {}}, "options": {"verify_ssl": False}}}}, {}, 503),
        ({"providers": {"openai": {"models": {"gpt-5": {}}}}, "aliases": {"fast": "openai/gpt-5"}}, {}, 503),
        ({"aliases": {"fast": "openai/gpt-5"}}, {}, 503),
        ({"aliases": {"fast": "openai/gpt-5"}}, {"OPENAI_API_KEY": "k"}, 200),
    ],
)
def test_ready_only_with_the_keys_that_are_configured(engine: dict[str, Any], env: dict[str, str], status: int) -> None:
    reply = ask(engine, "/readyz", env=env)
    assert reply.status_code == status
    assert "MINE_KEY" not in reply.text  # anybody may ask
    assert ask(engine, "/readyz", env=env, access={"keys": "forward"}).status_code == 200


# ── output limits ─────────────────────────────────────────────────────────────────────────────────

LIMITS = ("max_tokens", "max_completion_tokens", "max_output_tokens", "maxOutputTokens", "num_predict", "maxTokens")


@each(
    "provider, model, upstream, limit",
    [
        ("openai", "gpt-5", "openai-chat", None),
        ("groq", "llama-3.3-70b-versatile", "openai-chat", None),
        ("deepseek", "deepseek-chat", "openai-chat", None),
        ("gemini", "gemini-2.5-flash", "gemini", None),
        ("anthropic", "claude-sonnet-4-5", "anthropic", 32_000),
    ],
)
def test_a_limit_is_sent_only_where_one_is_required(
    provider: str, model: str, upstream: str, limit: int | None
) -> None:
    with scripted(Reply.of(upstream, play("text"), stream=False)) as up:
        engine = {"providers": {provider: {"base_url": f"{up.url}/v1", "key": "k"}}}
        reply = ask(engine, *ASKING["openai-chat"](f"{provider}/{model}", False))
        assert reply.status_code == 200, reply.text
        sent = up.requests[0].json
    flat = {**sent, **sent.get("generationConfig", {})}
    assert [flat[name] for name in LIMITS if name in flat] == ([] if limit is None else [limit])


def test_prompt_and_sent_limit_fill_the_window() -> None:
    engine = {"providers": {"anthropic": {"key": "k", "models": ["claude-sonnet-4-5"]}}}
    (row,) = [one for one in ask(engine, "/vscode/models").json()["models"] if one["id"].startswith("anthropic")]
    assert (row["maxInputTokens"], row["maxOutputTokens"], row["maxContextWindowTokens"]) == (168_000, 32_000, 200_000)


# ── models of one's own ───────────────────────────────────────────────────────────────────────────

OWN = {
    "context": 50_000, "max_output": 8_000, "vision": True, "tools": False, "thinking": "effort", "name": "Tide",
    "prices": {"input": 2.0, "output": 4.0, "cached": 0.5},
}  # fmt: skip


def test_facts_of_ones_own_are_listed() -> None:
    engine = {
        "providers": {"mine": {**MINE, "models": {"tide": OWN}}},
        "aliases": {"fast": "mine/tide", "x-*": "mine/*"},
    }
    rows = {row["id"]: row for row in ask(engine, "/vscode/models").json()["models"]}
    assert "x-*" not in rows  # a pattern is no model
    for name in ("mine/tide", "fast"):
        row = rows[name]
        assert (row["maxInputTokens"], row["maxOutputTokens"], row["name"]) == (42_000, 8_000, "Tide")
        assert row["capabilities"] == {"toolCalling": False, "imageInput": True}
        assert row["prices"] == {"input": 2.0, "output": 4.0}
        assert "reasoningEffort" in row["configurationSchema"]["properties"]
    shown = ask(engine, "/v1beta/models/fast").json()
    assert (shown["inputTokenLimit"], shown["outputTokenLimit"]) == (42_000, 8_000)


def test_the_policy_and_the_assumption_can_be_set() -> None:
    engine: dict[str, Any] = {"providers": {"mine": {**MINE, "models": {"tide": OWN, "unknown": {}}}}}
    engine["features"] = {"max_input": 0.5, "assumed_context": 9_000}
    rows = {row["id"]: row for row in ask(engine, "/vscode/models").json()["models"]}
    assert (rows["mine/tide"]["maxInputTokens"], rows["mine/unknown"]["maxInputTokens"]) == (25_000, 6_750)
    assert rows["mine/unknown"]["tooltip"].endswith("9,000 tokens are assumed")
    shown = ask(engine, "/v1beta/models/mine/unknown").json()
    assert "inputTokenLimit" not in shown
    assert "outputTokenLimit" not in shown


def test_an_editor_can_have_a_policy_of_its_own() -> None:
    limits = {"context-window": 50_000, "0.5": 25_000, "1": 50_000, "reserve-output": 42_000, "": 42_000}
    with AsgiGateway(providers={"mine": {**MINE, "models": {"tide": OWN}}}) as made:
        for policy, limit in limits.items():
            rows = {row["id"]: row for row in made.ask(f"/vscode/models?max_input={policy}").json()["models"]}
            assert rows["mine/tide"]["maxInputTokens"] == limit, policy
        for policy in ("all", "2", "nan", "-1", "1e-3"):
            reply = made.ask(f"/vscode/models?max_input={policy}")
            assert (reply.status_code, "max_input" in reply.text) == (400, True), policy


def test_prices_of_ones_own_are_in_the_journal() -> None:
    with scripted(Reply.of("openai-chat", play("text"), stream=False)) as up:
        mine = {"base_url": f"{up.url}/v1", "models": {"tide": OWN}}
        with AsgiGateway(providers={"mine": mine}) as made:
            made.ask(*ASKING["openai-chat"]("mine/tide", False))
            (row,) = made.rows()
    assert row.cost == pytest.approx((row.input * 2 + row.output * 4) / 1e6)
    assert row.cost


def test_a_wrong_engine_flag_does_not_refuse_requests() -> None:
    with scripted(Reply.of("openai-chat", play("text"), stream=False)) as up:
        engine = {"providers": {"openai": {"base_url": f"{up.url}/v1", "key": "k"}}}
        path, body = ASKING["openai-chat"]("openai/gpt-5", False)
        assert ask(engine, path, body, env={"PENSTOCK_ENGINE_OPENAI": "true"}).status_code == 200
