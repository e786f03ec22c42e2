"""Who a model is, from ids of every spelling; what it is for; who a client is."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock._providers.model_identity import kind
from penstock.providers import client, clients, identify
from tests.support.each_case import each

# id → provider, maker, family, version
SPELLINGS = """
openai/gpt-4o-2024-11-20                          openai      openai     gpt-4o                  2024-11-20
anthropic:claude-3-5-sonnet-20241022              anthropic   anthropic  claude-3-5-sonnet       20241022
mistral-large-2411                                mistral     mistral    mistral-large           2411
us.anthropic.claude-3-5-sonnet-20241022-v2:0      bedrock     anthropic  claude-3-5-sonnet       20241022
anthropic.claude-sonnet-4-5-20250929-v1:0         bedrock     anthropic  claude-sonnet-4-5       20250929
amazon.nova-pro-v1:0                              bedrock     amazon     nova-pro                v1
claude-3-5-sonnet@20241022                        anthropic   anthropic  claude-3-5-sonnet       20241022
anthropic/claude-3.5-sonnet                       anthropic   anthropic  claude-3-5-sonnet       -
openrouter/anthropic/claude-3.5-sonnet:thinking   openrouter  anthropic  claude-3-5-sonnet       thinking
models/gemini-2.5-pro-preview-05-06               gemini      google     gemini-2.5-pro          preview-05-06
publishers/google/models/gemini-2.5-pro           gemini      google     gemini-2.5-pro          -
vertex_ai/gemini-2.0-flash-001                    vertexai    google     gemini-2.0-flash        001
accounts/fireworks/models/deepseek-v3             fireworks   deepseek   deepseek                v3
@cf/meta/llama-3.1-8b-instruct                    cloudflare  meta       llama-3.1-8b-instruct   -
meta-llama/Llama-3.3-70B-Instruct                 meta        meta       llama-3.3-70b-instruct  -
ollama/llama3.2:3b                                ollama      meta       llama3.2                3b
qwen2.5-coder:7b                                  alibaba     alibaba    qwen2.5-coder           7b
qwen:7b                                           alibaba     alibaba    qwen                    7b
mistral:mistral-large-latest                      mistral     mistral    mistral-large           latest
ft:gpt-4o-mini-2024-07-18:org::abc                openai      openai     gpt-4o-mini             2024-07-18
gpt-4-0613                                        openai      openai     gpt-4                   0613
o3-mini-2025-01-31                                openai      openai     o3-mini                 2025-01-31
command-r-plus-08-2024                            cohere      cohere     command-r-plus          08-2024
kimi-k2-0905-preview                              moonshot    moonshot   kimi-k2                 0905
grok-4-0709                                       xai         xai        grok-4                  0709
gpt-4.1                                           openai      openai     gpt-4.1                 -
my-own-model                                      -           -          my-own-model            -
"""


@each("line", SPELLINGS.split("\n")[1:-1], name=lambda line: line.split()[0])
def test_an_id_tells_who_it_is(line: str) -> None:
    id, provider, maker, family, version = (word.replace("-", "", word == "-") for word in line.split())  # noqa: A001
    found = identify(id)
    assert (found.provider, found.maker, found.family, found.version) == (provider, maker, family, version)


@given(st.text(max_size=80))
def test_any_text_is_an_id(text: str) -> None:
    found = identify(text)
    assert kind(text)
    assert len(found.family) + len(found.version) <= 2 * len(text) + 2


@each(
    "id, what",
    [
        ("gpt-5", "chat"), ("claude-opus-4-1", "chat"), ("gemini-2.5-flash-image", "chat"), ("llama3.2:3b", "chat"),
        ("text-embedding-3-small", "embeddings"), ("voyage-3-large", "embeddings"), ("rerank-v3.5", "rerank"),
        ("whisper-1", "speech"), ("gpt-4o-mini-tts", "speech"), ("dall-e-3", "images"), ("openai/gpt-image-1", "images"),
        ("omni-moderation-latest", "moderation"), ("gpt-realtime", "realtime"), ("gpt-3.5-turbo-instruct", "completions"),
    ],
)  # fmt: skip
def test_what_a_model_is_for(id: str, what: str) -> None:
    assert kind(id) == what


@each(
    "headers, name",
    [
        ({"originator": "codex_exec", "user-agent": "codex_exec/0.166"}, "codex"),
        ({"User-Agent": "claude-cli/2.1.325 (external, cli)", "anthropic-version": "2023-06-01"}, "claude-code"),
        ({"user-agent": "Anthropic/Python 0.50", "anthropic-version": "2023-06-01"}, "anthropic-sdk"),
        ({"user-agent": "mistral-client-python/3.7.0"}, "mistral-sdk"),
        ({"agent-session-id": "1", "user-agent": "goose/1"}, "goose"),
        ({"user-agent": "ai-sdk/openai-compatible/2.0 ai/7"}, "ai-sdk"),
        ({"user-agent": "ai-sdk/anthropic/3.0", "anthropic-version": "2023-06-01"}, "ai-sdk-anthropic"),
        ({"user-agent": "OpenAI/Python 3.49.0"}, "openai-python"),
        ({"x-goog-api-client": "google-genai-sdk/3.1"}, "google-genai"),
        ({"user-agent": "curl/8"}, ""),
        ({}, ""),
    ],
)
def test_a_client_is_known_by_its_headers(headers: dict[str, str], name: str) -> None:
    assert client(headers).name == name


AGENTS = {
    "codex": ["codex_exec", "codex_cli_rs", "Codex Desktop"],
    "claude-code": ["claude-cli/2.1.325 (external, cli)"],
    "copilot-cli": ["copilot/1.0", "copilot-cli/0.4 (linux)"],
    "gemini-cli": ["GeminiCLI/0.9 (linux; x64)", "GeminiCLI-a2a/0.9"],
    "mistral-sdk": ["mistral-client-python/3.7.0", "mistralai/1.0"],
    "ollama-client": ["ollama-python/0.6", "ollama/0.12"],
    "ai-sdk-anthropic": ["ai-sdk-anthropic/4.0", "ai-sdk/anthropic/3.0"],
    "ai-sdk-mistral": ["ai-sdk-mistral/4.0"],
    "ai-sdk-openai": ["ai-sdk/openai/3.0"],
    "ai-sdk": ["ai-sdk/google/2.0", "ai-sdk-openai-compatible/3.0"],
    "langchain": ["langchain/1.0", "langchain-openai/1.0", "langchainjs-openai/1.0"],
    "openai-node": ["OpenAI/JS 6.1"],
    "openai-python": ["OpenAI/Python 3.49.0", "AsyncOpenAI/Python 3.49.0", "AsyncAzureOpenAI/Python 3"],
}
"""What the programs call themselves: in `originator` for Codex, else in `User-Agent`."""


def _named(name: str, agent: str) -> str:
    return client({"originator" if name == "codex" else "user-agent": agent}).name


def test_every_pattern_has_examples() -> None:
    known_by_name = {name for name, row in clients().items() if {"user-agent", "originator"} & row.headers.keys()}
    assert known_by_name == AGENTS.keys()


@each("name, agent", [(name, agent) for name, agents in AGENTS.items() for agent in agents])
def test_a_client_is_known_by_a_whole_word(name: str, agent: str) -> None:
    """The name of another program may have that of a client in it."""
    assert _named(name, agent) == name
    for other in (f"my{agent}", f"gen{agent}", f"some-{agent}"):
        assert _named(name, other) == "", other


@each(
    "agent",
    [
        "google-genai-sdk/1 gl-python", "google-genai-sdk/1.2 gl-python/3.12", "Ollamac/1", "GeminiCLIent/2", "mistralaint/1",
        "langchained/1", "OpenAI/Pythonic 1", "OpenAI/JSON 1", "copilot-clip/1", "mistral-clients/1",
    ],
)  # fmt: skip
def test_a_longer_name_is_another_program(agent: str) -> None:
    assert client({"user-agent": agent}).name == ""


def test_what_clients_need_is_told_in_fields() -> None:
    assert clients()["mistral-sdk"].whole_calls
    assert clients()["claude-code"].models == "anthropic"
    assert client({}).models == "openai"
