"""What a gateway does that nobody told it: it plays nothing but packaged streams, and adds no limit of its own."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest

from penstock.gateway import App, Config, GatewayConfig
from penstock.testing import Reply, play, scripted
from tests.support.client_requests import ASKING

MINE = {"base_url": "http://127.0.0.1:9/v1"}


def gateway(engine: dict[str, Any], **more: Any) -> GatewayConfig:
    memory: Any = {"journal": {"path": "memory"}, "state": {"path": "memory"}}
    return GatewayConfig(engine=Config.read(engine), **memory, **more)


def ask(config: GatewayConfig, path: str, body: Any = None, env: dict[str, str] | None = None) -> httpx.Response:
    """One request to a gateway in this process."""

    async def scene() -> httpx.Response:
        app = App(config, env=env or {})
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client:
            reply = await (client.get(path) if body is None else client.post(path, json=body))
        await app.services.aclose()
        return reply

    return asyncio.run(scene())


# ── packaged streams ──────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("protocol", ASKING)
@pytest.mark.parametrize(
    ("model", "status", "words"), [("gpt-5", 401, "OPENAI_API_KEY"), ("team", 404, "no provider is configured")]
)
def test_a_model_without_a_key_is_an_error_in_every_protocol(
    protocol: str, model: str, status: int, words: str
) -> None:
    path, body = ASKING[protocol](model, False)
    reply = ask(gateway({}), path, body)
    if protocol == "gemini" and status == 401:
        status = 400  # Google's own status for a key that is not valid
    assert (reply.status_code, words in reply.text) == (status, True), reply.text


@pytest.mark.parametrize("body", [{"model": "replay/text"}, {}])
def test_packaged_streams_answer_their_own_names_and_no_name(body: dict[str, str]) -> None:
    reply = ask(gateway({}), "/v1/chat/completions", {**body, "messages": [{"role": "user", "content": "hi"}]})
    assert reply.status_code == 200
    assert reply.json()["model"] == "text"


@pytest.mark.parametrize(
    ("engine", "env", "status"),
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
    reply = ask(gateway(engine), "/readyz", env=env)
    assert reply.status_code == status
    assert "MINE_KEY" not in reply.text  # anybody may ask
    assert ask(gateway(engine, access={"keys": "forward"}), "/readyz", env=env).status_code == 200


# ── output limits ─────────────────────────────────────────────────────────────────────────────────

LIMITS = ("max_tokens", "max_completion_tokens", "max_output_tokens", "maxOutputTokens", "num_predict", "maxTokens")


@pytest.mark.parametrize(
    ("provider", "model", "upstream", "limit"),
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
        config = gateway({"providers": {provider: {"base_url": f"{up.url}/v1", "key": "k"}}})
        reply = ask(config, *ASKING["openai-chat"](f"{provider}/{model}", False))
        assert reply.status_code == 200, reply.text
        sent = up.requests[0].json
    flat = {**sent, **sent.get("generationConfig", {})}
    assert [flat[name] for name in LIMITS if name in flat] == ([] if limit is None else [limit])


def test_prompt_and_sent_limit_fill_the_window() -> None:
    engine = {"providers": {"anthropic": {"key": "k", "models": ["claude-sonnet-4-5"]}}}
    (row,) = [
        one for one in ask(gateway(engine), "/vscode/models").json()["models"] if one["id"].startswith("anthropic")
    ]
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
    rows = {row["id"]: row for row in ask(gateway(engine), "/vscode/models").json()["models"]}
    assert "x-*" not in rows  # a pattern is no model
    for name in ("mine/tide", "fast"):
        row = rows[name]
        assert (row["maxInputTokens"], row["maxOutputTokens"], row["name"]) == (42_000, 8_000, "Tide")
        assert row["capabilities"] == {"toolCalling": False, "imageInput": True}
        assert row["prices"] == {"input": 2.0, "output": 4.0}
        assert "reasoningEffort" in row["configurationSchema"]["properties"]
    shown = ask(gateway(engine), "/v1beta/models/fast").json()
    assert (shown["inputTokenLimit"], shown["outputTokenLimit"]) == (42_000, 8_000)


def test_the_policy_and_the_assumption_can_be_set() -> None:
    engine = {"providers": {"mine": {**MINE, "models": {"tide": OWN, "unknown": {}}}}}
    config = gateway(engine, features={"max_input": 0.5, "assumed_context": 9_000})
    rows = {row["id"]: row for row in ask(config, "/vscode/models").json()["models"]}
    assert (rows["mine/tide"]["maxInputTokens"], rows["mine/unknown"]["maxInputTokens"]) == (25_000, 6_750)
    assert rows["mine/unknown"]["tooltip"].endswith("9,000 tokens are assumed")
    shown = ask(config, "/v1beta/models/mine/unknown").json()
    assert "inputTokenLimit" not in shown
    assert "outputTokenLimit" not in shown


@pytest.mark.parametrize(
    ("policy", "limit"),
    [("context-window", 50_000), ("0.5", 25_000), ("1", 50_000), ("reserve-output", 42_000), ("", 42_000)],
)
def test_an_editor_can_have_a_policy_of_its_own(policy: str, limit: int) -> None:
    config = gateway({"providers": {"mine": {**MINE, "models": {"tide": OWN}}}})
    rows = {row["id"]: row for row in ask(config, f"/vscode/models?max_input={policy}").json()["models"]}
    assert rows["mine/tide"]["maxInputTokens"] == limit


@pytest.mark.parametrize("policy", ["all", "2", "nan", "-1", "1e-3"])
def test_a_policy_that_is_none_is_refused(policy: str) -> None:
    reply = ask(
        gateway({"providers": {"mine": {**MINE, "models": {"tide": OWN}}}}), f"/vscode/models?max_input={policy}"
    )
    assert reply.status_code == 400
    assert "max_input" in reply.text


def test_prices_of_ones_own_are_in_the_journal() -> None:
    with scripted(Reply.of("openai-chat", play("text"), stream=False)) as up:
        config = gateway({"providers": {"mine": {"base_url": f"{up.url}/v1", "models": {"tide": OWN}}}})

        async def scene() -> tuple[float | None, int, int]:
            app = App(config, env={})
            async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client:
                await client.post("/v1/chat/completions", json=ASKING["openai-chat"]("mine/tide", False)[1])
            app.services.journal.flush()
            assert app.services.journal.rows is not None
            ((_, row),) = list(app.services.journal.rows.turns(limit=1))
            await app.services.aclose()
            return row.cost, row.input or 0, row.output or 0

        spent, given, made = asyncio.run(scene())
    assert spent == pytest.approx((given * 2 + made * 4) / 1e6)
    assert spent


def test_a_wrong_engine_flag_does_not_refuse_requests() -> None:
    with scripted(Reply.of("openai-chat", play("text"), stream=False)) as up:
        config = gateway({"providers": {"openai": {"base_url": f"{up.url}/v1", "key": "k"}}})
        path, body = ASKING["openai-chat"]("openai/gpt-5", False)
        assert ask(config, path, body, {"PENSTOCK_ENGINE_OPENAI": "true"}).status_code == 200
