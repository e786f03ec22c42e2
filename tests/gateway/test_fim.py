"""Filling in the middle: which models have it, at the end of a file too, and never by chat."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.testing import Reply, scripted
from tests.support.asgi_gateway import AsgiGateway
from tests.support.each_case import each

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


def ask(name: str, account: dict[str, Any], body: Any, path: str = "/v1/completions") -> tuple[Any, Any]:
    """Ask a gateway with one provider; the response, and the provider's request if there was one."""
    with scripted(answer) as up, AsgiGateway(providers={name: {**account, "base_url": up.url}}) as made:
        response = made.ask(path, body)
        return response, up.requests[0] if up.requests else None


def fills_in(**providers: Any) -> set[str]:
    """Which models of these providers an editor is told to fill in with."""
    with AsgiGateway(providers=providers) as made:
        return set(made.ask("/vscode/models").json()["fim"])


MISTRAL = {"key": "made-up", "models": ["codestral-latest"]}


PATHS = ("/v1/completions", "/v1/fim/completions")


@each("path, suffix", [(path, suffix) for path in PATHS for suffix in ("", "x")])
def test_the_end_of_a_file_is_filled_in_and_not_chatted_about(path: str, suffix: str) -> None:
    body = {"model": "mistral/codestral-latest", "prompt": "def f(", "suffix": suffix}
    response, seen = ask("mistral", MISTRAL, body, path)
    assert response.status_code == 200
    assert seen.path == "/fim/completions"
    assert (seen.json["prompt"], seen.json["suffix"]) == ("def f(", suffix)


def test_a_completion_without_a_suffix_is_still_a_completion() -> None:
    for suffix in ({}, {"suffix": None}):
        account = {"key": "made-up", "like": "openai-compatible", "models": ["m"]}
        _, seen = ask("mine", account, {"model": "mine/m", "prompt": "def f(", **suffix})
        assert seen.path == "/completions"
        assert "suffix" not in seen.json or seen.json["suffix"] is None


@each("path", PATHS)
def test_a_provider_that_cannot_fill_in_is_not_asked(path: str) -> None:
    body = {"model": "anthropic/claude-sonnet-4-5", "prompt": "def f(", "suffix": ""}
    account = {"key": "made-up", "models": ["claude-sonnet-4-5"]}
    response, seen = ask("anthropic", account, body, path)
    assert seen is None
    assert response.status_code == 404
    assert "has no fim" in response.json()["error"]["message"]


@each(
    "name, prompt",
    [
        ("Qwen/Qwen2.5-Coder-7B", "<|fim_prefix|>a {b}<|fim_suffix|>{prefix}<|fim_middle|>"),
        ("bigcode/starcoder2-15b", "<fim_prefix>a {b}<fim_suffix>{prefix}<fim_middle>"),
        (
            "deepseek-ai/deepseek-coder-6.7b-base",
            "<\uff5cfim▁begin\uff5c>a {b}<\uff5cfim▁hole\uff5c>{prefix}<\uff5cfim▁end\uff5c>",
        ),
        ("codellama-13b", "<PRE> a {b} <SUF>{prefix} <MID>"),
        ("codestral-22b-v0.1", "[SUFFIX]{prefix}[PREFIX]a {b}"),
        ("codegemma-7b", "<|fim_prefix|>a {b}<|fim_suffix|>{prefix}<|fim_middle|>"),
    ],
)
def test_a_server_without_a_suffix_gets_the_prompt_of_the_model(name: str, prompt: str) -> None:
    """Braces in the text are kept."""
    account = {"key": "made-up", "like": "vllm", "models": [name]}
    body = {"model": f"mine/{name}", "prompt": "a {b}", "suffix": "{prefix}", "stop": ["\n"]}
    response, seen = ask("mine", account, body)
    assert response.status_code == 200
    assert seen.path == "/completions"
    assert seen.json["prompt"] == prompt
    assert "suffix" not in seen.json
    assert seen.json["stop"][0] == "\n"
    assert 2 <= len(seen.json["stop"]) <= 4


def test_a_model_of_unknown_format_keeps_its_suffix() -> None:
    account = {"key": "made-up", "like": "openai-compatible", "models": ["tide-1"]}
    _, seen = ask("mine", account, {"model": "mine/tide-1", "prompt": "a", "suffix": "b"})
    assert (seen.json["prompt"], seen.json["suffix"]) == ("a", "b")
    assert "stop" not in seen.json


MODELS: dict[str, dict[str, bool]] = {
    "mistral": {"codestral-latest": True, "codestral-embed": False, "mistral-large-latest": False},
    "codestral": {"codestral-2508": True},
    "deepseek": {"deepseek-chat": True, "deepseek-v4-flash": True, "deepseek-reasoner": False},
    "siliconflow": {"deepseek-ai/DeepSeek-V3": True, "deepseek-ai/DeepSeek-V3.1": False},
    "alibaba": {"qwen2.5-coder-32b-instruct": True, "qwen3-coder-plus": False},
    "inception": {"mercury-edit-2": True},
    "ollama": {"qwen2.5-coder:7b": True, "llama3.2": False},
    "vllm": {"Qwen/Qwen3-Coder-30B-A3B-Instruct": True, "meta-llama/Llama-4": False},
    "openai": {"gpt-5.5": False}, "anthropic": {"claude-sonnet-4-5": False}, "openrouter": {"qwen/qwen3-coder": False},
}  # fmt: skip


def test_which_models_fill_in_the_middle() -> None:
    local = {"base_url": "http://127.0.0.1:9/v1"}
    providers = {
        name: {"key": "made-up", "models": list(models), **(local if name in {"ollama", "vllm"} else {})}
        for name, models in MODELS.items()
    }
    assert fills_in(**providers) == {
        f"{where}/{name}" for where, models in MODELS.items() for name, has in models.items() if has
    }


def test_the_configuration_decides_which_models_fill_in() -> None:
    models = {"tide-1": {"fim": True}, "Qwen2.5-Coder-7B": {"fim": False}}
    assert fills_in(vllm={"base_url": "http://127.0.0.1:9/v1", "models": models}) == {"vllm/tide-1"}


def test_a_list_can_deny_it_and_seldom_names_it() -> None:
    denied = {"completion_chat": True, "completion_fim": False}
    lists: dict[str, dict[str, Any]] = {
        "mistral": {"id": "codestral-latest", "capabilities": denied},
        "siliconflow": {"id": "Qwen/Qwen2.5-Coder-7B-Instruct", "type": "chat"},
    }
    with scripted(lambda seen: Reply.body({"data": [lists[seen.path.split("/")[1]]]})) as up:
        found = fills_in(**{name: {"base_url": f"{up.url}/{name}/v1", "key": "made-up"} for name in lists})
    assert found == {"siliconflow/Qwen/Qwen2.5-Coder-7B-Instruct"}


def test_an_alias_of_a_model_fills_in_too() -> None:
    with AsgiGateway(providers={"codestral": MISTRAL}, aliases={"code": "codestral/codestral-latest"}) as made:
        assert made.ask("/vscode/models").json()["fim"] == ["code", "codestral/codestral-latest"]
