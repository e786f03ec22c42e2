"""Models: the facts, what a provider's own list says instead, and what follows from both."""

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
from penstock.providers import (
    Model,
    Prices,
    custom,
    detail,
    max_input_tokens,
    model,
    models,
    provider,
    providers,
    read_model_list,
)
from tests.support.each_case import each

MODEL = Model(
    id="m", provider="p", context=200_000, max_output=64_000, prices=Prices(3, 15), capabilities=frozenset({"tools"})
)


@each("policy, tokens", [("context-window", 200_000), ("reserve-output", 136_000), (0.8, 160_000), (1, 200_000)])
def test_the_longest_prompt_by_policy(policy: Any, tokens: int) -> None:
    assert max_input_tokens(MODEL, policy) == tokens


def test_a_limit_of_its_own_and_one_that_would_leave_nothing() -> None:
    assert max_input_tokens(Model(id="m", provider="p", context=400, max_input=272, max_output=100)) == 272
    assert max_input_tokens(Model(id="m", provider="p", context=400, max_output=400)) == 200
    assert max_input_tokens(Model(id="m", provider="p")) == 0


@each("policy", [0, 1.5, -1, "all", True])
def test_a_policy_that_is_none(policy: Any) -> None:
    with pytest.raises(InputError):
        max_input_tokens(MODEL, policy)


def test_a_line_about_a_model() -> None:
    assert detail(MODEL) == "200K context · 64K output · $3 in, $15 out per million · tools"
    assert detail(Model(id="m", provider="p")) == ""


def test_facts_of_the_large_providers() -> None:
    known = {name: models(name) for name in providers()}
    assert sum(map(len, known.values())) > 1500
    for name in ("openai", "anthropic", "gemini", "bedrock", "mistral", "openrouter"):
        row = max(known[name], key=lambda one: (one.chat, one.prices is not None, one.context))
        assert row.context
        assert row.prices
        assert row.source["context"] == FACTS
    assert all(one.provider == name for name, rows in known.items() for one in rows)


def test_a_model_elsewhere_is_its_makers() -> None:
    """Its limits go with it, its price does not."""
    there = next(one for one in models("anthropic") if one.chat and one.context)
    here = model(custom("mine", "http://localhost/v1"), f"anthropic/{there.id}")
    assert (here.context, here.max_output, here.capabilities) == (there.context, there.max_output, there.capabilities)
    assert (here.provider, here.prices) == ("mine", None)


def test_nothing_is_known_of_a_stranger_but_its_name() -> None:
    row = model("openai", "tide-1")
    assert (row.id, row.context, row.prices, row.chat) == ("tide-1", 0, None, True)
    assert not model("openai", "tide-embed").chat


# A provider's own words → what they say.
LISTS: list[tuple[str, Any, dict[str, Any]]] = [
    ("openai", {"data": [{"id": "tide-1", "object": "model"}]}, {"id": "tide-1", "context": 0, "can": {"chat"}}),
    ("groq", {"data": [{"id": "tide-1", "active": True, "context_window": 8192, "max_completion_tokens": 4096}]},
     {"context": 8192, "max_output": 4096, "can": {"chat"}}),
    ("anthropic", {"data": [{"id": "tide-1", "type": "model", "display_name": "Tide", "max_input_tokens": 200000,
                             "max_tokens": 64000, "capabilities": {"image_input": {"supported": True}, "thinking": {"supported": True}}}]},
     {"name": "Tide", "context": 200000, "max_input": 200000, "max_output": 64000, "can": {"chat", "images", "reasoning"}}),
    ("gemini", {"models": [{"name": "models/tide-1", "displayName": "Tide", "inputTokenLimit": 1000, "outputTokenLimit": 200,
                            "supportedGenerationMethods": ["generateContent", "countTokens"], "thinking": True}]},
     {"id": "tide-1", "context": 1000, "max_output": 200, "can": {"chat", "reasoning"}}),
    ("mistral", {"data": [{"id": "tide-1", "max_context_length": 32768,
                           "capabilities": {"completion_chat": True, "completion_fim": True, "function_calling": True, "vision": False}}]},
     {"context": 32768, "can": {"chat", "fim", "tools"}}),
    ("openrouter", {"data": [{"id": "isle/tide-1", "name": "Isle: Tide", "context_length": 9000,
                              "architecture": {"input_modalities": ["text", "image", "file"], "output_modalities": ["text", "image"]},
                              "pricing": {"prompt": "0.000003", "completion": "0.000015", "input_cache_read": "0.0000003"},
                              "top_provider": {"max_completion_tokens": 500}, "supported_parameters": ["tools", "reasoning", "temperature"]}]},
     {"id": "isle/tide-1", "context": 9000, "max_output": 500, "prices": Prices(3, 15, 0.3),
      "can": {"chat", "images", "documents", "image-output", "tools", "reasoning", "temperature"}}),
    ("vercel", {"data": [{"id": "isle/tide-1", "type": "language", "context_window": 9000, "max_tokens": 500,
                          "tags": ["reasoning", "tool-use", "vision"], "pricing": {"input": "0.000001", "output": "0.000002"}}]},
     {"context": 9000, "max_output": 500, "prices": Prices(1, 2), "can": {"chat", "reasoning", "tools", "images"}}),
    ("together", [{"id": "isle/tide-1", "type": "chat", "context_length": 4096, "pricing": {"input": 0.2, "output": 0.4}}],
     {"context": 4096, "prices": Prices(0.2, 0.4), "can": {"chat"}}),
    ("cohere", {"models": [{"name": "tide-1", "endpoints": ["chat", "generate"], "features": ["tools", "vision"], "context_length": 128000}]},
     {"id": "tide-1", "context": 128000, "can": {"chat", "tools", "images"}}),
    ("ollama", {"models": [{"name": "tide:3b", "model": "tide:3b", "capabilities": ["completion", "tools", "thinking"]}]},
     {"id": "tide:3b", "can": {"chat", "tools", "reasoning"}}),
    ("bedrock", {"modelSummaries": [{"modelId": "isle.tide-v1:0", "modelName": "Tide", "inputModalities": ["TEXT", "IMAGE"], "outputModalities": ["TEXT"]}]},
     {"id": "isle.tide-v1:0", "can": {"chat", "images"}}),
    ("watsonx", {"resources": [{"model_id": "ibm/tide-1", "functions": [{"id": "text_chat"}], "model_limits": {"max_sequence_length": 8000, "max_output_tokens": 100}}]},
     {"id": "ibm/tide-1", "context": 8000, "max_output": 100, "can": {"chat"}}),
    ("cloudflare", {"result": [{"id": "0-1", "name": "@cf/isle/tide-1", "task": {"name": "Text Generation"}}]}, {"id": "@cf/isle/tide-1", "can": {"chat"}}),
    ("vllm", {"data": [{"id": "isle/tide-1", "max_model_len": 4096}]}, {"context": 4096, "can": {"chat"}}),
    ("fireworks", {"data": [{"id": "accounts/fireworks/models/tide-1", "supports_chat": True, "supports_tools": True, "supports_image_input": False, "context_length": 4096}]},
     {"context": 4096, "can": {"chat", "tools"}}),
]  # fmt: skip


@each("name, answer, says", LISTS)
def test_a_providers_own_list_goes_first(name: str, answer: Any, says: dict[str, Any]) -> None:
    (row,) = read_model_list(provider(name), answer)
    can = says.pop("can")
    assert {key: getattr(row, key) for key in says} == says
    assert row.capabilities == can
    told = {key for key in ("context", "max_output", "prices") if says.get(key)}
    assert {key for key, by in row.source.items() if by == PROVIDER} - {"max_input", "capabilities"} == told


def test_what_a_list_leaves_out_the_facts_complete_and_say_so() -> None:
    known = next(one for one in models("openai") if one.chat and one.prices)
    (row,) = read_model_list(provider("openai"), {"data": [{"id": known.id, "context_window": 7}]})
    assert (row.context, row.source["context"]) == (7, PROVIDER)
    assert (row.prices, row.source["prices"]) == (known.prices, FACTS)
    assert (row.capabilities, row.source["capabilities"]) == (known.capabilities, FACTS)


def test_what_a_list_denies_is_believed() -> None:
    known = next(one for one in models("mistral") if {"images", "tools"} <= one.capabilities)
    said = {"completion_chat": True, "function_calling": True, "vision": False}
    (row,) = read_model_list(provider("mistral"), {"data": [{"id": known.id, "capabilities": said}]})
    assert row.capabilities == known.capabilities - {"images"}
    assert row.source["capabilities"] == f"{PROVIDER}, {FACTS}"


def test_only_chat_models_are_offered_for_chat() -> None:
    rows = [
        {"id": "tide-1"},
        {"id": "text-embedding-3-small"},
        {"id": "whisper-1"},
        {"id": "x", "type": "embedding"},
        {"id": "old", "active": False},
    ]
    assert [row.id for row in read_model_list(provider("openai"), {"data": rows})] == ["tide-1"]
    assert [row.id for row in read_model_list(provider("openai"), {"data": rows}, chat=False)] == [
        "tide-1",
        "text-embedding-3-small",
        "whisper-1",
        "x",
    ]


@each(
    "answer",
    [
        None,
        1,
        "x",
        [],
        {},
        {"data": 3},
        {"data": [3, None, {}, [], {"id": 0}]},
        b"{}",
        {"data": [{"id": "x", "pricing": 3, "capabilities": 7, "context_length": "many"}]},
    ],
)
def test_any_answer_is_a_list(answer: Any) -> None:
    assert [row.id for row in read_model_list(provider("openai"), answer)] in ([], ["x"])


# ── Facts about models that a configuration gives: `[providers.NAME.models."MODEL"]` ──


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
