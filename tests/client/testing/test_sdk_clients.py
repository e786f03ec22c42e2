"""The vendors' SDKs against a scripted upstream: one script, each SDK in its own dialect, at its base URL."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from penstock.testing import Reply, Upstream, scripted
from tests.support.each_case import each

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# The SDKs take seconds to import.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


@pytest.fixture
def upstream() -> Iterator[Upstream]:
    with scripted(keep_alive=False) as up:
        yield up
    assert up.problems == []


def ask_openai(up: Upstream, *, stream: bool) -> str:
    from openai import OpenAI

    with OpenAI(base_url=up.base_url("openai"), api_key="k") as client:
        messages: Any = [{"role": "user", "content": "When?"}]
        if not stream:
            return client.chat.completions.create(model="gpt-4o", messages=messages).choices[0].message.content or ""
        chunks = client.chat.completions.create(model="gpt-4o", messages=messages, stream=True)
        return "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)


def ask_responses(up: Upstream, *, stream: bool) -> str:
    from openai import OpenAI

    with OpenAI(base_url=up.base_url("responses"), api_key="k") as client:
        if not stream:
            return client.responses.create(model="gpt-5", input="When?").output_text
        with client.responses.stream(model="gpt-5", input="When?") as events:
            return events.get_final_response().output_text


def ask_anthropic(up: Upstream, *, stream: bool) -> str:
    from anthropic import Anthropic

    with Anthropic(base_url=up.base_url("anthropic"), api_key="k") as client:
        asked: Any = {
            "model": "claude-sonnet-4-5",
            "max_tokens": 99,
            "messages": [{"role": "user", "content": "When?"}],
        }
        if not stream:
            return client.messages.create(**asked).content[0].text  # type: ignore[no-any-return]
        with client.messages.stream(**asked) as events:
            return events.get_final_text()


def ask_gemini(up: Upstream, *, stream: bool) -> str:
    from google import genai

    with genai.Client(api_key="k", http_options={"base_url": up.base_url("gemini")}) as client:
        asked: Any = {"model": "gemini-2.5-flash", "contents": "When?"}
        if not stream:
            return client.models.generate_content(**asked).text or ""
        return "".join(chunk.text or "" for chunk in client.models.generate_content_stream(**asked))


def ask_ollama(up: Upstream, *, stream: bool) -> str:
    from ollama import Client

    with Client(host=up.base_url("ollama")) as client:
        messages = [{"role": "user", "content": "When?"}]
        if not stream:
            return client.chat("llama3", messages).message.content or ""
        return "".join(chunk.message.content or "" for chunk in client.chat("llama3", messages, stream=True))


def ask_mistral(up: Upstream, *, stream: bool) -> str:
    from mistralai.client import Mistral

    with Mistral(api_key="k", server_url=up.url) as client:
        messages: Any = [{"role": "user", "content": "When?"}]
        if not stream:
            return str(client.chat.complete(model="mistral-small", messages=messages).choices[0].message.content)
        with client.chat.stream(model="mistral-small", messages=messages) as events:
            return "".join(str(event.data.choices[0].delta.content or "") for event in events if event.data.choices)


SDKS: dict[str, Callable[..., str]] = {
    "openai": ask_openai,
    "responses": ask_responses,
    "anthropic": ask_anthropic,
    "gemini": ask_gemini,
    "ollama": ask_ollama,
    "mistral": ask_mistral,
}
each_sdk = each("ask", SDKS.values())


@each_sdk
@each("stream", [True, False])
def test_a_text(upstream: Upstream, ask: Callable[..., str], stream: bool) -> None:
    upstream.script("The tide turns at six.")
    assert ask(upstream, stream=stream) == "The tide turns at six."
    assert upstream.last.prompt == "When?"
    assert upstream.turns[0].text == "The tide turns at six."


@each_sdk
def test_an_error_is_the_sdks_own(upstream: Upstream, ask: Callable[..., str]) -> None:
    upstream.script(Reply.error(status=401, message="who are you?"))
    with pytest.raises(Exception, match=r"who are you\?") as caught:
        ask(upstream, stream=True)
    assert type(caught.value).__module__.partition(".")[0] in {"openai", "anthropic", "google", "ollama", "mistralai"}


@each_sdk
def test_a_stream_that_is_cut(upstream: Upstream, ask: Callable[..., str]) -> None:
    upstream.script(Reply.text("word " * 100).disconnect(after=0.5))
    with pytest.raises(Exception, match=r"(?i)peer closed|incomplete|connection|disconnect|closed"):
        ask(upstream, stream=True)


def test_the_environment_points_the_sdks_at_the_upstream(upstream: Upstream, monkeypatch: pytest.MonkeyPatch) -> None:
    from anthropic import Anthropic
    from google import genai
    from openai import OpenAI

    for name, value in upstream.sdk_environment().items():
        monkeypatch.setenv(name, value)
    upstream.script("At six.")
    with OpenAI() as openai:
        assert openai.responses.create(model="gpt-5", input="When?").output_text == "At six."
    with Anthropic() as anthropic:
        asked: Any = [{"role": "user", "content": "When?"}]
        block: Any = anthropic.messages.create(model="c", max_tokens=9, messages=asked).content[0]
        assert block.text == "At six."
    with genai.Client() as gemini:
        assert gemini.models.generate_content(model="g", contents="When?").text == "At six."
    upstream.assert_request_count(3)
