"""What a valid configuration says and cannot work; engine flags that are wrong."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import pytest

from penstock.errors import InputError
from penstock.testing import Upstream
from tests.support.check_config import check_config
from tests.support.each_case import each
from tests.support.routed_client import GOOD, asking, quick, routed, run

if TYPE_CHECKING:
    from pathlib import Path

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


def test_a_problem_names_its_place_and_the_fix(tmp_path: Path) -> None:
    wrong: list[str] = []
    for case, (config, env, place, words) in PROBLEMS.items():
        told = check_config(tmp_path, config, **env)
        if not any(line.startswith(f"{place}: " if place else "") and words in line for line in told):
            wrong.append(f"{case}: {told}")
    assert wrong == []


def test_what_can_work_is_no_problem(tmp_path: Path) -> None:
    told = {case: check_config(tmp_path, config, **env) for case, (config, env) in SOUND.items()}
    told["callers bring the keys"] = check_config(tmp_path, {"providers": {"openai": {}}, "keys": "forward"})
    assert {case: lines for case, lines in told.items() if lines} == {}


@each("where", ["environment", "provider", "file"])
def test_a_wrong_flag_warns_once_and_is_native(where: str, caplog: pytest.LogCaptureFixture) -> None:
    value = f"wrong-{where}"
    config: dict[str, Any] = {"engine": value} if where == "file" else {}
    config |= {"openai": {"engine": value}} if where == "provider" else {}

    async def scene() -> None:
        async with Upstream(GOOD) as up:
            way = routed(up, env={"PENSTOCK_ENGINE_OPENAI": value} if where == "environment" else {}, **config)
            for _ in range(3):
                reply = await way.open(asking(), options=quick())
                assert reply.engine == "native"
                await reply.aclose()
            with pytest.raises(InputError, match="engine: expected one of"):
                await way.open(asking(), engine="turbo")

    with caplog.at_level(logging.WARNING, "penstock.engines"):
        run(scene)
    assert len([row for row in caplog.records if value in row.getMessage()]) == 1
