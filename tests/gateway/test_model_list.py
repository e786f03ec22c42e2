"""What the gateway tells an editor about models: names, limits and their source, capabilities, how tokens count."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from penstock.gateway import App
from tests.core.test_vscode_schema import faults
from tests.support.client_requests import get
from tests.support.gateway import Running, gateway, read_config

ACCOUNTS = {
    "anthropic": ("claude-sonnet-4-5", "claude-unheard-of"),
    "openrouter": ("anthropic/claude-sonnet-4.5", "acme/new-one"),
    "codestral": ("codestral-latest",),
}


def models(url: str, query: str = "") -> dict[str, dict[str, Any]]:
    body = get(f"{url}/vscode/models{query}").json()
    assert faults("models", body) == []
    return {model["id"]: model for model in body["models"]}


@cache
def listed(**features: bool) -> dict[str, dict[str, Any]]:
    providers = {name: {"key": "made-up", "models": names} for name, names in ACCOUNTS.items()}
    tables: dict[str, Any] = {
        "providers": providers,
        "aliases": {"quick": "anthropic/claude-sonnet-4-5"},
        "features": features,
    }
    with Running(App(read_config(journal={"path": "memory"}, state={"path": "memory"}, **tables), env={})) as running:
        return models(running.url)


def test_a_model_is_told_with_its_limits_and_who_says_so() -> None:
    models = listed()
    sonnet = models["anthropic/claude-sonnet-4-5"]
    assert sonnet["maxInputTokens"] == sonnet["maxContextWindowTokens"] - sonnet["maxOutputTokens"]
    assert sonnet["pricing"] == "$3/15", "VS Code shows it in a quarter of a column"
    assert "200K context" in sonnet["tooltip"]
    assert "$3 in, $15 out per million" in sonnet["tooltip"]
    assert "limits and prices: models.dev" in sonnet["tooltip"]
    assert sonnet["configurationSchema"]["properties"]["reasoningEffort"]["group"] == "navigation"
    unheard = models["anthropic/claude-unheard-of"]
    assert unheard["tooltip"].endswith("its context window is not known, 128,000 tokens are assumed")
    assert unheard["maxInputTokens"] + unheard["maxOutputTokens"] == 128_000
    assert "pricing" not in unheard


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


def test_families_are_bare_and_providers_have_their_names() -> None:
    models = listed()
    families = {name: model["family"] for name, model in models.items()}
    assert not any("/" in family for family in families.values())
    assert families["openrouter/anthropic/claude-sonnet-4.5"].startswith("claude")
    details = {model["id"].partition("/")[0]: model["detail"] for model in models.values()}
    wanted = {"anthropic": "Anthropic", "openrouter": "OpenRouter", "codestral": "Codestral", "replay": "Replay"}
    assert details == {"quick": "Anthropic", **wanted}


def test_a_model_of_which_only_the_name_is_known_may_call_tools() -> None:
    models = listed()
    assert models["openrouter/acme/new-one"]["capabilities"] == {"toolCalling": True, "imageInput": False}
    assert models["codestral/codestral-latest"]["capabilities"]["imageInput"] is False


def test_what_a_host_would_refuse_is_never_there() -> None:
    said = json.dumps(listed())
    assert not any(word in said for word in ("editTools", "isDefault", "requiresAuthorization"))


def test_what_is_played_and_what_is_shortened_is_told() -> None:
    plain, shortening = listed(), listed(context_management=True)
    assert [name for name, model in plain.items() if model.get("played")] == [
        name for name in plain if "replay/" in name
    ]
    assert not any("compacts" in model for model in plain.values())
    assert all(model.get("compacts", False) != model.get("played", False) for model in shortening.values())


def test_a_client_chooses_the_window_that_is_assumed() -> None:
    with gateway(providers={"acme": {"base_url": "http://127.0.0.1:9/v1", "models": ["tide"]}}) as (running, _):
        for query, window in (("", 128_000), ("?assumed_context=32768", 32_768), ("?assumed_context=1000", 1_000)):
            row = models(running.url, query)["acme/tide"]
            assert row["maxInputTokens"] + row["maxOutputTokens"] == window
            assert row["assumed"] is True
            assert f"{window:,} tokens are assumed" in row["tooltip"]
        for wrong in ("-1", "0", "many", "1e5", "9" * 30):
            assert get(f"{running.url}/vscode/models?assumed_context={wrong}").status_code == 400, wrong


PRICES = {
    (3, 15): "$3/15", (1.25, 10): "$1/10", (0.15, 0.6): "$.2/.6", (0.1, 0.4): "$.1/.4", (0, 0): "$0/0",
    (150, 600): "$150/600", (2.5, 15): "$3/15", (0.075, 0.3): "$.08/.3", (1, 5): "$1/5",
}  # fmt: skip


def test_prices_are_short() -> None:
    facts = {f"m{number}": {"prices": {"input": row[0], "output": row[1]}} for number, row in enumerate(PRICES)}
    lab = {"like": "openai-compatible", "base_url": "http://127.0.0.1:9", "models": facts}
    with gateway(providers={"lab": lab}) as (running, _):
        found = models(running.url)
    assert [found[f"lab/{name}"].get("pricing") for name in facts] == list(PRICES.values())
