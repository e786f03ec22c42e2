"""What a coding agent needs is on in a gateway that an editor starts (PENSTOCK_FEATURES), and off in a plain one."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from penstock import events as ev
from penstock.errors import InputError
from penstock.gateway import App, GatewayConfig, load_config
from penstock.testing import Reply, scripted
from tests.support.gateway import Running

if TYPE_CHECKING:
    from pathlib import Path

ON = {"PENSTOCK_FEATURES": "prompt_caching,context_management"}
CONFIG = """
journal.path = "off"
state.path = "memory"
[providers.anthropic]
base_url = "{url}"
key = "made-up"
models = ["claude-sonnet-4-5"]
[providers.near]
like = "openai-compatible"
base_url = "{url}/v1"
key = "made-up"
[providers.near.models.tide]
context = 4_000
max_output = 1_000
[providers.unknown]
like = "openai-compatible"
base_url = "{url}/v1"
key = "made-up"
models = ["tide"]
"""
TOOLS = [{"name": f"tool{number}", "description": "Does it", "inputSchema": {"type": "object"}} for number in range(3)]
TOO_LONG = "This model's maximum context length is 4000 tokens. However, your messages resulted in 9000 tokens."


def settings(text: str, env: dict[str, str], folder: Path) -> GatewayConfig:
    file = folder / "penstock.toml"
    file.write_text(text)
    return load_config(file, {**env, "PENSTOCK_DATA": str(folder)})


def say(role: int, text: str) -> dict[str, Any]:
    return {"role": role, "content": [{"kind": "text", "value": text}]}


def long_talk(turns: int) -> list[dict[str, Any]]:
    """An agent's conversation: a system prompt (role 3) of 12 KB, turns of 500 words, a last question."""
    rounds = [
        message for number in range(turns) for message in (say(1, f"{number} " + "tide " * 500), say(2, "Noted."))
    ]
    return [say(3, "You are a careful agent. " * 480), *rounds, say(1, "The last question?")]


def answer(seen: Any) -> Reply:
    protocol = "anthropic" if seen.path.endswith("/messages") else "openai-chat"
    if protocol == "openai-chat" and len(seen.body) > 20_000:
        return Reply.error(protocol, 400, TOO_LONG, code="context_length_exceeded")
    said: list[ev.AnyEvent] = [ev.Start("m", "tide"), ev.TextStart(0), ev.TextDelta(0, "Ahoy"), ev.TextEnd(0)]
    return Reply.of(protocol, [*said, ev.Usage(input=10, output=2), ev.Finish("stop")])


def talk(env: dict[str, str], folder: Path, model: str, messages: list[Any]) -> tuple[httpx.Response, list[bytes]]:
    with scripted(answer) as upstream:
        config = settings(CONFIG.format(url=upstream.url), env, folder)
        with Running(App(config, env={})) as running:
            body = {"version": 1, "model": model, "messages": messages, "tools": TOOLS}
            response = httpx.post(f"{running.url}/vscode/chat", json=body, timeout=30)
        return response, [seen.body for seen in upstream.requests]


def cache_points(body: bytes) -> list[str]:
    """Where a body of Messages has cache points."""
    sent = json.loads(body)
    found = ["tools" for tool in sent["tools"] if "cache_control" in tool]
    found += ["system" for block in sent["system"] if isinstance(block, dict) and "cache_control" in block]
    for number, message in enumerate(sent["messages"]):
        content = message["content"] if isinstance(message["content"], list) else []
        found += [f"message {number}" for block in content if "cache_control" in block]
    return found


def test_cache_points_are_placed_for_anthropic(tmp_path: Path) -> None:
    messages = long_talk(2)
    _, (plain,) = talk({}, tmp_path, "anthropic/claude-sonnet-4-5", messages)
    assert b"cache_control" not in plain, "a plain gateway keeps its default"
    response, (sent,) = talk(ON, tmp_path, "anthropic/claude-sonnet-4-5", messages)
    assert response.status_code == 200
    assert cache_points(sent) == ["tools", "system", "message 2", "message 4"]


@pytest.mark.parametrize("model", ["near/tide", "unknown/tide"])
def test_a_conversation_over_the_limit_is_shortened_rather_than_refused(tmp_path: Path, model: str) -> None:
    """Of a known window before it is sent; of an unknown one when the provider refuses it."""
    messages = [say(3, "Be brief."), *long_talk(12)[1:]]
    refused, bodies = talk({}, tmp_path, model, messages)
    assert '"fault":"too-large"' in refused.text
    assert len(bodies) == 1
    response, bodies = talk(ON, tmp_path, model, messages)
    lines = [json.loads(line) for line in response.text.splitlines()]
    assert [line["value"] for line in lines if line["kind"] == "text"] == ["Ahoy"], response.text
    assert [line["kind"] for line in lines].count("compacted") == 1
    assert len(bodies[-1]) < 20_000
    assert b"The last question?" in bodies[-1]
    assert b"Be brief." in bodies[-1]


def test_the_file_goes_before_the_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cases: list[tuple[str, dict[str, str], tuple[bool, bool]]] = [
        ("", {}, (False, False)), ("", ON, (True, True)), ("[features]\nprompt_caching = false\n", ON, (False, True)),
        ("", {"PENSTOCK_FEATURES": " context_management , "}, (False, True)),
        ("[features]\nstrict = true\n", ON, (True, True)),
    ]  # fmt: skip
    for text, env, wanted in cases:
        found = settings(text, env, tmp_path).features
        assert (found.prompt_caching, found.context_management) == wanted, text
    empty = tmp_path / "empty"
    empty.mkdir()
    monkeypatch.chdir(empty)
    found = load_config(None, {**ON, "PENSTOCK_DATA": str(tmp_path)}).features
    assert (found.prompt_caching, found.context_management) == (True, True), "without a file"
    with pytest.raises(InputError, match=r"PENSTOCK_FEATURES: expected names of prompt_caching, .* found 'caching'"):
        load_config(None, {"PENSTOCK_FEATURES": "caching", "PENSTOCK_DATA": str(tmp_path)})
