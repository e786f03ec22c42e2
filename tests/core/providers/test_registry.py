"""The table of providers: everyone who must be there is, every row is whole, and one's own server is a row too."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from penstock import _protocols as protocols
from penstock._engines.request_plan import request_profile
from penstock.errors import InputError
from penstock.framing import PARSERS
from penstock.providers import Provider, custom, provider, providers, url
from tests.client.providers.addresses_rewrite import FILE, lines
from tests.client.providers.provider_settings import ASKED, ENV, MODEL
from tests.support.each_case import each

if TYPE_CHECKING:
    from collections.abc import Callable

# Row P2, name by name.
LIST = """
openai azure anthropic bedrock vertexai gemini cohere mistral deepseek moonshot minimax xai zai groq cerebras sambanova
together fireworks deepinfra nvidia openrouter vercel huggingface perplexity nebius novita scaleway ovhcloud siliconflow
alibaba qwen inception relace cometapi kindo ncompass function-network tensorix venice watsonx asksage clawrouter voyage
jina replicate cloudflare sagemaker llamastack ollama lmstudio llama.cpp llamafile vllm tgi text-gen-webui msty
docker-model-runner lemonade nous openai-compatible
"""
# Words for what is no turn.
SHAPES = {
    "embeddings": {"openai", "cohere", "gemini", "vertex", "bedrock", "voyage", "watsonx"},
    "rerank": {"cohere", "voyage", "watsonx"},
    "models": {"openai", "anthropic", "gemini", "bedrock", "cohere", "ollama", "watsonx", "cloudflare"},
    "loaded": {"ollama", "lmstudio", "llamacpp"},
    "show": {"ollama"},
}


def every(test: Callable[[Provider], None]) -> Callable[[], None]:
    """The test for each row, all in one: they are many and quick."""

    def loop() -> None:
        failures: list[str] = []
        for row in providers().values():
            try:
                test(row)
            except AssertionError as error:
                failures.append(f"{row.name}: {error}")
        assert failures == []

    loop.__name__, loop.__doc__ = test.__name__, test.__doc__
    return loop


def test_everyone_is_there() -> None:
    assert [name for name in LIST.split() if provider(name) is None] == []
    assert len(providers()) >= 55
    assert list(providers()) == [row.name for row in providers().values()]


def test_no_two_go_by_one_name() -> None:
    names = [name for row in providers().values() for name in (row.name, *row.names)]
    assert sorted(names) == sorted(set(names))


def test_addresses_are_as_written_down() -> None:
    """One line for each operation of each provider; `python -m tests.client.providers.addresses_rewrite` writes them anew."""
    assert [line for row in ASKED for line in lines(row)] == FILE.read_text(encoding="utf-8").splitlines()


@every
def test_a_row_is_whole(row: Provider) -> None:
    assert row.title
    assert row.credentials
    assert row.endpoints
    for operation, place in row.endpoints.items():
        assert place.framing in PARSERS
        if operation in SHAPES:
            shape, _, word = place.protocol.rpartition("-")
            assert word == operation
            assert shape in SHAPES[operation]
        else:
            assert protocols.protocol(place.protocol).decoder is not None
            assert not place.answer or protocols.protocol(place.answer).decoder is not None
    if "chat" in row.endpoints:
        assert row.endpoints["chat"].protocol == row.protocol


@every
def test_quirks_are_fields_that_exist(row: Provider) -> None:
    """What a row demands of a request is what the writers know: a misspelt field would be an error here."""
    for protocol, said in row.quirks.items():
        quirks = request_profile(row, protocol).quirks
        assert {name: getattr(quirks, name) for name in said} == said
    for name in row.profile:
        assert hasattr(request_profile(row, row.protocol), name)


@every
def test_only_a_machine_of_ones_own_is_asked_in_the_clear(row: Provider) -> None:
    there = {line.split(maxsplit=2)[2] for line in lines(row)} if row.engine == "native" else set()
    assert all(address.startswith("https://") or row.local for address in there)


def test_who_takes_the_ids_of_calls_is_a_field() -> None:
    assert request_profile(provider("gemini"), "gemini").quirks is None  # as the protocol has it: they are sent
    assert not request_profile(provider("vertexai"), "gemini").quirks.ids


def test_local_ones_need_no_key() -> None:
    assert all(row.credentials[0].optional for row in providers().values() if row.local)


def test_who_takes_stream_options_is_a_field() -> None:
    assert provider("openai").stream_options
    assert not provider("mistral").stream_options


@each("model, only", [("gpt-5-codex", True), ("o1-pro", True), ("gpt-5", False), ("o3", False)])
def test_some_models_have_no_chat(model: str, only: bool) -> None:
    assert provider("openai").only_responses(model) is only
    assert provider("openai").only_responses(f"openai/{model}") is only
    assert not provider("groq").only_responses(model)


def test_a_server_of_ones_own() -> None:
    own = custom("mine", "http://localhost:9000/v1/", quirks={"openai-chat": {"top_k": True}})
    assert url(own, "chat", MODEL) == "http://localhost:9000/v1/chat/completions"
    assert own.credentials[0].optional
    assert request_profile(own, "openai-chat").quirks.top_k
    claude = custom("mine", "http://localhost:9000", like="anthropic", env=["MY_KEY"])
    assert url(claude, "chat", MODEL) == "http://localhost:9000/messages"
    assert (claude.protocol, claude.env) == ("anthropic", ("MY_KEY",))


@each(
    "make, words",
    [
        (lambda: provider("opnai"), "unknown provider 'opnai'; did you mean 'openai'? `penstock providers` lists the "),
        (lambda: provider("whatsit"), "unknown provider 'whatsit'; `penstock providers` lists the "),
        (lambda: custom("x", "http://x", stream_option=True), "provider 'x': Object contains unknown field"),
        (lambda: custom("x", "http://x", like="nobody"), "no row 'nobody'"),
        (lambda: url(provider("jina"), "chat", MODEL), "jina has no chat; it has: embeddings, rerank"),
        (lambda: url(provider("azure"), "chat", MODEL), "AZURE_RESOURCE_NAME in the environment"),
        (
            lambda: url(provider("bedrock"), "chat", MODEL, settings={"region": "x.evil.example/"}),
            "the setting 'region' may hold letters",
        ),
    ],
)
def test_bad_input_names_the_fix(make: object, words: str) -> None:
    assert callable(make)
    with pytest.raises(InputError) as caught:
        make()
    assert words in str(caught.value)


def test_a_model_cannot_lead_elsewhere() -> None:
    made = url(provider("gemini"), "chat", "a/evil?key=1#", env=ENV)
    assert made.endswith("/v1beta/models/a%2Fevil%3Fkey%3D1%23:generateContent")


@each("model", ["../../evil", "..", ".", "a/../b", "a\\..\\b", "a/.."])
def test_a_model_has_no_dot_segments(model: str) -> None:
    """A server resolves `..` in a path, some also behind an encoded slash."""
    with pytest.raises(InputError, match=r"model: .* '\.' and '\.\.' are not allowed"):
        url(provider("gemini"), "chat", model, env=ENV)
    assert url(provider("gemini"), "chat", "a..b/.c", env=ENV).endswith("/models/a..b%2F.c:generateContent")


def test_a_model_in_a_base_url_is_quoted() -> None:
    row = custom("mine", "http://up.example/{model}/v1")
    assert url(row, "chat", "a/b?c#d\r\ne") == "http://up.example/a%2Fb%3Fc%23d%0D%0Ae/v1/chat/completions"


@each(
    "name, env, there",
    [
        ("openai", {"OPENAI_API_KEY": "k"}, True),
        ("openai", {}, False),
        ("azure", {"AZURE_API_KEY": "k"}, False),
        ("azure", {"AZURE_API_KEY": "k", "AZURE_RESOURCE_NAME": "r"}, True),
        ("azure", {"AZURE_API_KEY": "k", "AZURE_OPENAI_ENDPOINT": "https://r.example"}, True),
        ("bedrock", {"AWS_ACCESS_KEY_ID": "k"}, False),
        ("bedrock", {"AWS_ACCESS_KEY_ID": "k", "AWS_REGION": "eu-west-1"}, True),
        ("ollama", {}, False),
    ],
)
def test_who_is_configured(name: str, env: dict[str, str], there: bool) -> None:
    assert provider(name).configured(env) is there
