"""What the gateway tells an editor about models: names, limits and their source, capabilities, how tokens count."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx
import pytest

from penstock._engines.config import Account, Config
from penstock._gateway.app import App
from penstock._gateway.config import FeaturesTable, GatewayConfig, JournalTable, StateTable
from tests.test_vscode_schema import faults

ACCOUNTS = {
    "anthropic": ("claude-sonnet-4-5", "claude-unheard-of"),
    "openrouter": ("anthropic/claude-sonnet-4.5", "acme/new-one"),
    "codestral": ("codestral-latest",),
}


async def asked(app: App) -> Any:
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client:
        body = (await client.get("/vscode/models")).json()
    await app.services.aclose()
    return body


def listed(**features: bool) -> dict[str, dict[str, Any]]:
    providers = {name: Account(key="made-up", models=models) for name, models in ACCOUNTS.items()}
    config = GatewayConfig(
        engine=Config(providers=providers, aliases={"quick": "anthropic/claude-sonnet-4-5"}), features=FeaturesTable(**features),
        journal=JournalTable(path="memory"), state=StateTable(path="memory"),
    )  # fmt: skip
    body = asyncio.run(asked(App(config, env={})))
    assert faults("models", body) == []
    return {model["id"]: model for model in body["models"]}


@pytest.mark.row("G2")
def test_a_model_is_told_with_its_limits_and_who_says_so() -> None:
    models = listed()
    sonnet = models["anthropic/claude-sonnet-4-5"]
    assert sonnet["maxInputTokens"] == sonnet["maxContextWindowTokens"] - sonnet["maxOutputTokens"]
    assert sonnet["pricing"] == "$3 in · $15 out per million tokens (prices and limits: models.dev 2026-07)"
    assert "200K context" in sonnet["tooltip"]
    assert "limits: models.dev" in sonnet["tooltip"]
    assert sonnet["configurationSchema"]["properties"]["reasoningEffort"]["group"] == "navigation"
    unheard = models["anthropic/claude-unheard-of"]
    assert unheard["tooltip"].endswith("its limits are not known, 128K of context are assumed")
    assert "pricing" not in unheard


@pytest.mark.row("G2")
def test_thinking_can_be_switched_off_where_every_model_takes_that() -> None:
    """The least comes first: the utility alias takes it."""
    models = listed()
    offered = {
        name: model["configurationSchema"]["properties"]["reasoningEffort"]
        for name, model in models.items()
        if "configurationSchema" in model
    }
    assert offered["anthropic/claude-sonnet-4-5"]["enum"] == ["none", "low", "medium", "high"]
    assert offered["quick"]["enumItemLabels"] == ["None", "Low", "Medium", "High"]
    assert offered["openrouter/anthropic/claude-sonnet-4.5"]["enum"] == ["low", "medium", "high"]


@pytest.mark.row("G2")
def test_families_are_bare_and_providers_have_their_names() -> None:
    models = listed()
    families = {name: model["family"] for name, model in models.items()}
    assert not any("/" in family for family in families.values())
    assert families["openrouter/anthropic/claude-sonnet-4.5"].startswith("claude")
    details = {model["id"].partition("/")[0]: model["detail"] for model in models.values()}
    wanted = {"anthropic": "Anthropic", "openrouter": "OpenRouter", "codestral": "Codestral", "replay": "Replay"}
    assert details == {"quick": "Anthropic", **wanted}


@pytest.mark.row("G2")
def test_a_model_of_which_only_the_name_is_known_may_call_tools() -> None:
    models = listed()
    assert models["openrouter/acme/new-one"]["capabilities"] == {"toolCalling": True, "imageInput": False}
    assert models["codestral/codestral-latest"]["capabilities"]["imageInput"] is False


@pytest.mark.row("G2")
def test_what_a_host_would_refuse_is_never_there() -> None:
    said = json.dumps(listed())
    assert not any(word in said for word in ("editTools", "isDefault", "requiresAuthorization"))


@pytest.mark.row("G2")
def test_what_is_played_and_what_is_shortened_is_told() -> None:
    plain, shortening = listed(), listed(context_management=True)
    assert [name for name, model in plain.items() if model.get("played")] == [
        name for name in plain if "replay/" in name
    ]
    assert not any("compacts" in model for model in plain.values())
    assert all(model.get("compacts", False) != model.get("played", False) for model in shortening.values())
