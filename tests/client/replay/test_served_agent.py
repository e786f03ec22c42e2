"""The agent behind a real server, met by the official SDKs: only a whole round trip can tell the random word."""

from __future__ import annotations

import json
import secrets
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.loopback_server import serving

if TYPE_CHECKING:
    from collections.abc import Iterator

MODEL = "replay/agent"
ASK = "Run `cat nonce.txt` with your shell tool and tell me what it printed."
SCHEMA: dict[str, Any] = {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}


@pytest.fixture(scope="module")
def base() -> Iterator[str]:
    with serving("--full-speed") as address:
        yield address


@pytest.fixture
def nonce() -> str:
    return secrets.token_hex(8)


def test_over_chat(base: str, nonce: str) -> None:
    tools: Any = [{"type": "function", "function": {"name": "bash", "parameters": SCHEMA}}]
    said: Any = [{"role": "user", "content": ASK}]
    import openai

    with openai.OpenAI(base_url=f"{base}/v1", api_key="any", max_retries=0) as client:
        with client.chat.completions.stream(model=MODEL, messages=said, tools=tools) as stream:
            message = stream.get_final_completion().choices[0].message
        assert message.tool_calls
        call: Any = message.tool_calls[0]
        assert json.loads(call.function.arguments) == {"command": "cat nonce.txt"}
        said += [message.model_dump(exclude_none=True), {"role": "tool", "tool_call_id": call.id, "content": nonce}]
        answer = client.chat.completions.create(model=MODEL, messages=said, tools=tools).choices[0]
    assert nonce in (answer.message.content or "")
    assert answer.finish_reason == "stop"


def test_over_messages(base: str, nonce: str) -> None:
    tools: Any = [{"name": "Bash", "input_schema": SCHEMA}]
    said: Any = [{"role": "user", "content": ASK}]
    import anthropic

    with anthropic.Anthropic(base_url=base, api_key="any", max_retries=0) as client:
        with client.messages.stream(model=MODEL, max_tokens=100, messages=said, tools=tools) as stream:
            message = stream.get_final_message()
        use: Any = message.content[-1]
        assert (message.stop_reason, use.input) == ("tool_use", {"command": "cat nonce.txt"})
        result = {"type": "tool_result", "tool_use_id": use.id, "content": nonce}
        aside = {"type": "text", "text": "<system-reminder>be brief</system-reminder>"}
        said += [{"role": "assistant", "content": [use.model_dump()]}, {"role": "user", "content": [result, aside]}]
        answer: Any = client.messages.create(model=MODEL, max_tokens=100, messages=said, tools=tools)
    assert nonce in answer.content[0].text


def test_over_responses(base: str, nonce: str) -> None:
    tools: Any = [{"type": "function", "name": "exec_command", "parameters": SCHEMA, "strict": False}]
    said: Any = [{"role": "user", "content": ASK}]
    import openai

    with openai.OpenAI(base_url=f"{base}/v1", api_key="any", max_retries=0) as client:
        with client.responses.stream(model=MODEL, input=said, tools=tools) as stream:
            call: Any = stream.get_final_response().output[-1]
        assert json.loads(call.arguments) == {"command": "cat nonce.txt"}
        said += [
            {"type": "function_call", "call_id": call.call_id, "name": call.name, "arguments": call.arguments},
            {"type": "function_call_output", "call_id": call.call_id, "output": nonce},
        ]
        answer = client.responses.create(model=MODEL, input=said, tools=tools)
    assert nonce in answer.output_text


def test_a_request_that_cannot_be_read_is_refused(base: str) -> None:
    import openai

    with openai.OpenAI(base_url=f"{base}/v1", api_key="any", max_retries=0) as client:
        wrong: Any = "not a list"
        with pytest.raises(openai.BadRequestError, match="messages"):
            client.chat.completions.create(model=MODEL, messages=wrong)
