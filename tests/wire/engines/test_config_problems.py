"""What a valid configuration says and cannot work; engine flags that are wrong."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from penstock._engines.config import choose_engine
from penstock._engines.config_problems import find_missing_keys, find_problems
from penstock.errors import InputError
from penstock.gateway import Config

OPENAI = {"OPENAI_API_KEY": "k"}
MINE = {"base_url": "http://127.0.0.1:9/v1"}
PROBLEMS: dict[str, tuple[dict[str, Any], dict[str, str], str, str]] = {
    "an alias to nobody": ({"aliases": {"fast": "opnai/gpt-5"}}, OPENAI, "aliases.fast", "did you mean openai/gpt-5?"),
    "an alias to no model": (
        {"aliases": {"fast": "quik", "quick": "openai/gpt-5"}}, OPENAI, "aliases.fast", "did you mean quick?",
    ),
    "one of several": ({"aliases": {"a": ["openai/x", "nosuch/y"]}}, OPENAI, "aliases.a", "'nosuch/y' means no model"),
    "a circle": ({"aliases": {"a": "b", "b": "a"}}, OPENAI, "aliases.a", "circle"),
    "a pattern to nobody": ({"aliases": {"claude-*": "opnai/*"}}, OPENAI, "aliases.claude-*", "did you mean openai/x?"),
    "a pattern that fits no model": ({"aliases": {"my-*": "nosuch-*"}}, OPENAI, "aliases.my-*", "means no model"),
    "a star that nothing fills": ({"aliases": {"a": "openai/*"}}, OPENAI, "aliases.a", "nothing fills in"),
    "a fallback to nobody": (
        {"fallbacks": {"openai/gpt-5": ["nosuch/model"]}}, OPENAI, "fallbacks.openai/gpt-5", "'nosuch/model' means no",
    ),
    "a fallback of nobody": (
        {"fallbacks": {"opnai/gpt-5": ["openai/a"]}}, OPENAI, "fallbacks.opnai/gpt-5", "did you mean openai/gpt-5?",
    ),
    "an unset variable": ({"providers": {"a": {**MINE, "env": "NO_SUCH"}}}, {}, "providers.a.env", "NO_SUCH is not set"),
    "a provider without its key": ({"providers": {"openai": {}}}, {}, "providers.openai", "OPENAI_API_KEY is not set"),
    "an alias without a key": ({"aliases": {"a": "groq/b"}}, OPENAI, "aliases.a", "GROQ_API_KEY is not set"),
    "a setting": (
        {"providers": {"azure": {"key": "k"}}}, {}, "providers.azure", "AZURE_RESOURCE_NAME in the environment",
    ),
    "a provider by its other name": ({"providers": {"google": {"key": "k"}}}, {}, "providers.google", "providers.gemini"),
    "an engine": ({"engine": "fast"}, OPENAI, "engine", "expected native or sdk, found 'fast'"),
    "an engine of a provider": (
        {"providers": {"a": {**MINE, "engine": "turbo"}}}, {}, "providers.a.engine", "expected native or sdk",
    ),
    "a flag": ({}, {"PENSTOCK_ENGINE_OPENAI": "true"}, "", "PENSTOCK_ENGINE_OPENAI: expected native or sdk, found 'true'"),
    "a flag of nobody": ({}, {"PENSTOCK_ENGINE_OPENIA": "sdk"}, "", "did you mean PENSTOCK_ENGINE_OPENAI?"),
}  # fmt: skip


@pytest.mark.parametrize("case", PROBLEMS)
def test_a_problem_names_its_place_and_the_fix(case: str) -> None:
    config, env, place, words = PROBLEMS[case]
    found = [one for one in find_problems(Config.read(config), env) if ".".join(one.keys) == place]
    assert any(words in one.message for one in found), found


SOUND: dict[str, tuple[dict[str, Any], dict[str, str]]] = {
    "nothing": ({}, {}),
    "a key in the file": ({"providers": {"openai": {"key": "k"}}, "aliases": {"a": "openai/b"}}, {}),
    "one of one's own": ({"providers": {"a": MINE}, "aliases": {"x-*": "a/*"}, "fallbacks": {"a/m": ["x-1"]}}, {}),
    "packaged": ({"aliases": {"demo": "replay/agent"}}, {}),
    "packaged, by pattern": ({"aliases": {"demo-*": "replay/*"}}, {}),
    "a pattern for bare names": ({"aliases": {"my-*": "*", "team-gpt-*": "gpt-*"}}, OPENAI),
    "a fallback for everybody": ({"aliases": {"backup": "openai/a"}, "fallbacks": {"*": ["backup"]}}, OPENAI),
    "ambient credentials": ({"aliases": {"a": "bedrock/anthropic.claude-x"}}, {"AWS_REGION": "eu-west-1"}),
    "one of several has its key": ({"aliases": {"a": ["groq/b", "openai/c"]}}, OPENAI),
    "flags": ({"engine": "sdk"}, {"PENSTOCK_ENGINE": " Native ", "PENSTOCK_ENGINE_OPENAI": ""}),
}


@pytest.mark.parametrize("case", SOUND)
def test_what_can_work_is_no_problem(case: str) -> None:
    config, env = SOUND[case]
    assert find_problems(Config.read(config), env) == []


def test_callers_may_bring_the_keys() -> None:
    config = Config.read({"providers": {"openai": {}}})
    assert find_problems(config, {}, forward=True) == []
    assert [one.keys for one in find_missing_keys(config, {})] == [("providers", "openai")]


@pytest.mark.parametrize("where", ["environment", "provider", "file"])
def test_a_wrong_flag_warns_and_is_native(where: str, caplog: pytest.LogCaptureFixture) -> None:
    value = f"wrong-{where}"  # each is logged once
    config = Config.read(
        {
            "engine": value if where == "file" else "",
            "providers": {"a": {**MINE, "engine": value if where == "provider" else ""}},
        }
    )
    env = {"PENSTOCK_ENGINE_A": value} if where == "environment" else {}
    with caplog.at_level(logging.WARNING, "penstock.engines"):
        for _ in range(3):
            assert choose_engine("a", config, env)[0] == "native"
    assert [row.getMessage() for row in caplog.records if value in row.getMessage()] != []
    assert len(caplog.records) == 1


def test_a_wrong_engine_of_a_call_is_the_callers_error() -> None:
    with pytest.raises(InputError, match="the call: expected native or sdk"):
        choose_engine("a", Config(), {}, "turbo")
