"""Self-hosted servers: the window is the one with which the server has loaded the model."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from penstock import Client
from penstock.testing import Reply, scripted
from tests.support.asgi_gateway import AsgiGateway
from tests.support.each_case import each

if TYPE_CHECKING:
    from penstock.providers import Model

TAGS = {"models": [{"name": name, "model": name} for name in ("tide:3b", "flood:7b", "ebb:1b", "deep:cloud")]}
PS = {"models": [{"name": "tide:3b", "model": "tide:3b", "context_length": 16384}]}
SHOWN = {
    "tide:3b": {"parameters": "num_ctx                        8192", "capabilities": ["completion", "tools", "vision"]},
    "flood:7b": {"parameters": 'stop    "x"\nnum_ctx 32768\ntemperature 1', "capabilities": ["completion"]},
    "ebb:1b": {"model_info": {"ebb.context_length": 131072}, "capabilities": ["completion", "thinking"]},
    "deep:cloud": {"capabilities": ["completion", "tools"]},
}
LM_STUDIO = {
    "data": [
        {"id": "tide", "state": "loaded", "max_context_length": 131072, "loaded_context_length": 24576},
        {"id": "flood", "state": "not-loaded", "max_context_length": 131072},
    ]
}
ANSWERS: dict[str, dict[str, Any]] = {
    "ollama": {"/api/tags": TAGS, "/api/ps": PS},
    "lmstudio": {"/v1/models": {"data": [{"id": "tide"}, {"id": "flood"}]}, "/api/v0/models": LM_STUDIO},
    "llama.cpp": {
        "/v1/models": {"data": [{"id": "tide", "meta": {"n_ctx_train": 131072}}]},
        "/props": {"default_generation_settings": {"n_ctx": 12288}},
    },
    "vllm": {"/v1/models": {"data": [{"id": "tide", "max_model_len": 65536}]}},
}


def answering(name: str) -> Any:
    def answer(seen: Any) -> Reply:
        if seen.path == "/api/show" and name == "ollama":
            return Reply.body(SHOWN[seen.json["model"]])
        found = ANSWERS[name].get(seen.path)
        return Reply.body(found) if found is not None else Reply.error("openai-chat", 404, "no such address")

    return answer


def base(name: str, url: str) -> str:
    return url if name == "ollama" else f"{url}/v1"


def listed(name: str, url: str, **models: dict[str, Any]) -> dict[str, Model]:
    async def run() -> list[Model]:
        account = {"base_url": base(name, url), "models": models}
        async with Client({"providers": {name: account}}, env={}) as client:
            return await client.list_models(name)

    return {model.id: model for model in asyncio.run(run())}


@each(
    "name, windows",
    [
        ("ollama", {"tide:3b": 16384, "flood:7b": 32768, "ebb:1b": 0}),
        ("lmstudio", {"tide": 24576, "flood": 0}),
        ("llama.cpp", {"tide": 12288}),
        ("vllm", {"tide": 65536}),
    ],
)
def test_the_window_is_the_one_that_is_loaded(name: str, windows: dict[str, int]) -> None:
    with scripted(answering(name)) as upstream:
        models = listed(name, upstream.url)
    assert {id: models[id].context for id in windows} == windows  # noqa: A001
    for id, window in windows.items():  # noqa: A001
        assert (models[id].source.get("context") == "the provider") is bool(window), id


def test_ollama_says_what_its_models_can() -> None:
    with scripted(answering("ollama")) as upstream:
        models = listed("ollama", upstream.url)
    assert models["tide:3b"].capabilities >= {"tools", "images"}
    assert not models["flood:7b"].capabilities & {"tools", "images", "reasoning"}
    assert "reasoning" in models["ebb:1b"].capabilities


def test_the_configuration_goes_before_what_is_loaded() -> None:
    with scripted(answering("llama.cpp")) as upstream:
        models = listed("llama.cpp", upstream.url, tide={"context": 4096})
    assert models["tide"].context == 4096


@each("name", ["lmstudio", "llama.cpp", "ollama"])
def test_an_older_server_without_the_address_is_listed_all_the_same(name: str) -> None:
    def answer(seen: Any) -> Reply:
        lists = {"/api/tags": TAGS, "/v1/models": {"data": [{"id": "tide"}]}}
        return Reply.body(lists[seen.path]) if seen.path in lists else Reply.error("openai-chat", 404, "not here")

    with scripted(answer) as upstream:
        models = listed(name, upstream.url)
    assert "tide" in models or "tide:3b" in models


def test_input_and_output_are_the_window_in_vs_code() -> None:
    """65,536 of vLLM are prompt and answer together, in the list and in the count of a prompt."""
    with (
        scripted(answering("vllm")) as upstream,
        AsgiGateway(providers={"vllm": {"base_url": f"{upstream.url}/v1"}}) as running,
    ):
        models = running.ask("/vscode/models").json()["models"]
        chat = {"model": "vllm/tide", "messages": [{"role": 1, "content": [{"kind": "text", "value": "x"}]}]}
        count = running.ask("/vscode/count", {"version": 1, **chat}, content_type="application/json").json()
    (row,) = (model for model in models if model["id"] == "vllm/tide")
    assert row["maxInputTokens"] + row["maxOutputTokens"] == row["maxContextWindowTokens"] == 65_536
    assert row["maxOutputTokens"] == 16_000
    assert "assumed" not in row
    assert count["limit"] == row["maxInputTokens"]
