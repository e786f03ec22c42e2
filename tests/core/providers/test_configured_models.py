"""Facts about models that a configuration gives: `[providers.NAME.models."MODEL"]`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from penstock._engines.model_resolution import list_known_models
from penstock._gateway.config import read_config
from penstock._gateway.config_trust import sensitive_settings
from penstock._providers.models import CONFIGURATION, FACTS, PROVIDER
from penstock.errors import InputError
from penstock.gateway import Config
from penstock.providers import model, models, read_model_list
from tests.support.each_case import each


def config(models: Any, name: str = "mine", **more: Any) -> Config:
    own = {} if name == "openai" else {"base_url": "http://h/v1"}
    return Config.read({"providers": {name: {**own, **more, "models": models}}})


def test_they_go_before_the_table_and_say_so() -> None:
    row = config({"gpt-5": {"context": 1000, "tools": False}, "ft": {"thinking": "budget"}}, "openai").provider(
        "openai"
    )
    found = model(row, "gpt-5")
    assert (found.context, found.source["context"]) == (1000, CONFIGURATION)
    assert found.source["max_output"] == FACTS
    assert "tools" not in found.capabilities
    assert "images" in found.capabilities
    tuned = model(row, "ft")
    assert tuned.thinking is not None
    assert tuned.thinking.form == "budget"
    assert {"chat", "tools", "reasoning"} <= tuned.capabilities  # a name alone says nothing against tools
    assert model("openai", "gpt-5").context != 1000


def test_a_table_adds_to_a_list_and_a_list_is_all() -> None:
    table, names = config({"ft": {}}, "openai"), config(["ft"], "openai")
    assert {"ft", "gpt-5"} <= list_known_models(table.provider("openai"), table)
    assert list_known_models(names.provider("openai"), names) == {"ft"}
    assert "ft" in [one.id for one in models(table.provider("openai"))]


def test_they_go_before_the_providers_own_list() -> None:
    row = config({"tide": {"context": 5}, "other": {}}).provider("mine")
    rows = {
        one.id: one
        for one in read_model_list(row, {"data": [{"id": "tide", "context_window": 9, "max_output_tokens": 3}]})
    }
    assert (rows["tide"].context, rows["tide"].max_output, rows["tide"].source["max_output"]) == (5, 3, PROVIDER)
    assert "other" in rows


@each(
    "fact, words",
    [
        ("contxt = 1", "did you mean context"),
        ("context = -1", "context"),
        ('thinking = "hard"', "thinking"),
        ("prices = { inptu = 1.0 }", "did you mean input"),
        ("prices = { input = -1.0 }", "prices"),
    ],
)
def test_a_wrong_fact_says_where(fact: str, words: str) -> None:
    text = f'[providers.mine]\nbase_url = "http://h/v1"\n[providers.mine.models."m.1"]\n{fact}\n'
    with pytest.raises(InputError, match=words) as caught:
        read_config(text, Path("penstock.toml"))
    assert str(caught.value).startswith("penstock.toml:")


def test_facts_need_no_trust() -> None:
    facts = {"context": 1, "max_output": 1, "vision": True, "thinking": "none", "prices": {"input": 1.0}}
    assert sensitive_settings({"providers": {"openai": {"models": {"m": facts}}}}) == []
