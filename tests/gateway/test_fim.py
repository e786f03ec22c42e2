"""Filling in the middle: which models have it, at the end of a file too, and never by chat."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from msgspec.structs import replace

from penstock._providers.fim import fim_format
from penstock._providers.model_lists import read_model_list
from penstock._providers.models import model
from penstock._providers.registry import ConfiguredModel, provider
from penstock.gateway import Account, App, Config, GatewayConfig
from penstock.testing import Reply, scripted

if TYPE_CHECKING:
    from penstock.testing import ReceivedRequest

CHAT_ANSWER = {
    "id": "f1", "object": "chat.completion", "created": 1, "model": "m",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "x + 1"}, "finish_reason": "stop"}],
}  # fmt: skip
TEXT_ANSWER = {
    "id": "f1", "object": "text_completion", "created": 1, "model": "m",
    "choices": [{"index": 0, "text": "x + 1", "finish_reason": "stop"}],
}  # fmt: skip


def answer(seen: ReceivedRequest) -> Reply:
    return Reply.body(CHAT_ANSWER if seen.path.endswith("/fim/completions") else TEXT_ANSWER)


def ask(name: str, account: Account, body: dict[str, Any], path: str = "/v1/completions") -> tuple[Any, Any]:
    """Ask a gateway with one provider; the response, and the provider's request if there was one."""

    async def work(url: str) -> httpx.Response:
        engine = Config(providers={name: replace(account, base_url=url)})
        config = GatewayConfig(engine=engine, journal={"path": "memory"}, state={"path": "memory"})
        app = App(config, env={})
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client:
            response = await client.post(path, json=body)
        await app.services.aclose()
        return response

    with scripted(answer) as upstream:
        response = asyncio.run(work(upstream.url))
        return response, upstream.requests[0] if upstream.requests else None


MISTRAL = {"key": "made-up", "models": ("codestral-latest",)}


@pytest.mark.parametrize("suffix", ["", "x"])
@pytest.mark.parametrize("path", ["/v1/completions", "/v1/fim/completions"])
def test_the_end_of_a_file_is_filled_in_and_not_chatted_about(path: str, suffix: str) -> None:
    body = {"model": "mistral/codestral-latest", "prompt": "def f(", "suffix": suffix}
    response, seen = ask("mistral", MISTRAL, body, path)
    assert response.status_code == 200
    assert seen.path == "/fim/completions"
    assert (seen.json["prompt"], seen.json["suffix"]) == ("def f(", suffix)


def test_a_completion_without_a_suffix_is_still_a_completion() -> None:
    for suffix in ({}, {"suffix": None}):
        account = {"key": "made-up", "like": "openai-compatible", "models": ("m",)}
        _, seen = ask("mine", account, {"model": "mine/m", "prompt": "def f(", **suffix})
        assert seen.path == "/completions"
        assert "suffix" not in seen.json or seen.json["suffix"] is None


@pytest.mark.parametrize("path", ["/v1/completions", "/v1/fim/completions"])
def test_a_provider_that_cannot_fill_in_is_not_asked(path: str) -> None:
    body = {"model": "anthropic/claude-sonnet-4-5", "prompt": "def f(", "suffix": ""}
    account = {"key": "made-up", "models": ("claude-sonnet-4-5",)}
    response, seen = ask("anthropic", account, body, path)
    assert seen is None
    assert response.status_code == 404
    assert "has no fim" in response.json()["error"]["message"]


@pytest.mark.parametrize(
    ("name", "prompt"),
    [
        ("Qwen/Qwen2.5-Coder-7B", "<|fim_prefix|>a {b}<|fim_suffix|>{prefix}<|fim_middle|>"),
        ("bigcode/starcoder2-15b", "<fim_prefix>a {b}<fim_suffix>{prefix}<fim_middle>"),
        (
            "deepseek-ai/deepseek-coder-6.7b-base",
            "<\uff5cfim▁begin\uff5c>a {b}<\uff5cfim▁hole\uff5c>{prefix}<\uff5cfim▁end\uff5c>",
        ),
        ("codellama-13b", "<PRE> a {b} <SUF>{prefix} <MID>"),
        ("codestral-22b-v0.1", "[SUFFIX]{prefix}[PREFIX]a {b}"),
    ],
)
def test_a_server_without_a_suffix_gets_the_prompt_of_the_model(name: str, prompt: str) -> None:
    """Braces in the text are kept."""
    account = {"key": "made-up", "like": "vllm", "models": (name,)}
    body = {"model": f"mine/{name}", "prompt": "a {b}", "suffix": "{prefix}", "stop": ["\n"]}
    response, seen = ask("mine", account, body)
    assert response.status_code == 200
    assert seen.path == "/completions"
    assert seen.json["prompt"] == prompt
    assert "suffix" not in seen.json
    assert seen.json["stop"][0] == "\n"
    assert 2 <= len(seen.json["stop"]) <= 4


def test_a_model_of_unknown_format_keeps_its_suffix() -> None:
    account = {"key": "made-up", "like": "openai-compatible", "models": ("tide-1",)}
    _, seen = ask("mine", account, {"model": "mine/tide-1", "prompt": "a", "suffix": "b"})
    assert (seen.json["prompt"], seen.json["suffix"]) == ("a", "b")
    assert "stop" not in seen.json


@pytest.mark.parametrize(
    ("where", "name", "has"),
    [
        ("mistral", "codestral-latest", True),
        ("mistral", "codestral-embed", False),
        ("mistral", "mistral-large-latest", False),
        ("codestral", "codestral-2508", True),
        ("deepseek", "deepseek-chat", True),
        ("deepseek", "deepseek-v4-flash", True),
        ("deepseek", "deepseek-reasoner", False),
        ("siliconflow", "deepseek-ai/DeepSeek-V3", True),
        ("siliconflow", "deepseek-ai/DeepSeek-V3.1", False),
        ("alibaba", "qwen2.5-coder-32b-instruct", True),
        ("alibaba", "qwen3-coder-plus", False),
        ("inception", "mercury-edit-2", True),
        ("ollama", "qwen2.5-coder:7b", True),
        ("ollama", "llama3.2", False),
        ("vllm", "Qwen/Qwen3-Coder-30B-A3B-Instruct", True),
        ("vllm", "meta-llama/Llama-4", False),
        ("openai", "gpt-5.5", False),
        ("anthropic", "claude-sonnet-4-5", False),
        ("openrouter", "qwen/qwen3-coder", False),
    ],
)
def test_which_models_fill_in_the_middle(where: str, name: str, has: bool) -> None:
    assert ("fim" in model(where, name).capabilities) is has


def test_the_configuration_decides_which_models_fill_in() -> None:
    facts = {"tide-1": ConfiguredModel(fim=True), "Qwen2.5-Coder-7B": ConfiguredModel(fim=False)}
    row = replace(provider("vllm"), models=facts)
    assert "fim" in model(row, "tide-1").capabilities
    assert "fim" not in model(row, "Qwen2.5-Coder-7B").capabilities


def test_a_list_can_deny_it_and_seldom_names_it() -> None:
    def listed(where: str, row: dict[str, Any]) -> frozenset[str]:
        return read_model_list(provider(where), {"data": [row]}, chat=False)[0].capabilities

    denied = {"completion_chat": True, "completion_fim": False}
    assert "fim" not in listed("mistral", {"id": "codestral-latest", "capabilities": denied})
    assert listed("siliconflow", {"id": "Qwen/Qwen2.5-Coder-7B-Instruct", "type": "chat"}) >= {"chat", "fim"}
    assert "fim" in listed("ollama", {"id": "new-one", "capabilities": ["completion", "insert"]})


def test_every_format_has_both_places() -> None:
    for name in ("qwen2.5-coder", "starcoder2", "deepseek-coder", "codellama", "codestral-2405", "codegemma"):
        found = fim_format(name)
        assert found is not None
        assert (found.prompt.count("{prefix}"), found.prompt.count("{suffix}")) == (1, 1)
        assert found.stop


def test_the_editor_is_told_which_models_fill_in() -> None:
    async def listed() -> Any:
        accounts = {"codestral": MISTRAL, "anthropic": {"key": "made-up", "models": ("claude-sonnet-4-5",)}}
        engine = Config(providers=accounts, aliases={"code": "codestral/codestral-latest"})
        app = App(GatewayConfig(engine=engine, journal={"path": "memory"}, state={"path": "memory"}), env={})
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client:
            body = (await client.get("/vscode/models")).json()
        await app.services.aclose()
        return body

    assert asyncio.run(listed())["fim"] == ["code", "codestral/codestral-latest"]
