"""The vendors' own SDKs do the task with the strict upstream."""

from __future__ import annotations

import json
import warnings
from contextlib import closing
from typing import Any

import anthropic
import openai

from tests.oracles.strict_upstream.valid_requests import SCHEMA
from tests.support.each_case import each
from tools.strict_upstream.scenario import SCENARIOS
from tools.strict_upstream.server import serve

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # an escape in a docstring of the SDK
    from google import genai
    from google.genai import types as genai_types

WORDS = {"cat first.txt": "first-0123456789ab", "cat second.txt": "second-ba9876543210"}
TURNED = {"one-call": "ba9876543210-tsrif", "parallel-calls": "0123456789ab-dnoces ba9876543210-tsrif"}
STEPS = 5


def run_command(arguments: str | dict[str, Any]) -> str:
    """A shell that knows two files and `rev`."""
    command = str((json.loads(arguments) if isinstance(arguments, str) else arguments)["command"])
    return WORDS.get(command) or command.partition("|")[0].removeprefix("echo ").strip()[::-1]


def ask_chat(url: str) -> str:
    with closing(openai.OpenAI(base_url=f"{url}/v1", api_key="k", max_retries=0)) as client:
        return _ask_chat(client)


def _ask_chat(client: openai.OpenAI) -> str:
    messages: list[Any] = [{"role": "user", "content": "go"}]
    tools: Any = [{"type": "function", "function": {"name": "bash", "parameters": SCHEMA}}]
    for _ in range(STEPS):
        with client.chat.completions.stream(model="gpt-4.1", messages=messages, tools=tools) as stream:
            message = stream.get_final_completion().choices[0].message
        if not message.tool_calls:
            return message.content or ""
        messages.append(message.model_dump(include={"role", "content", "tool_calls"}, exclude_none=True))
        for call in messages[-1]["tool_calls"]:
            call["function"].pop("parsed_arguments", None)
            call.pop("index", None)
            output = run_command(call["function"]["arguments"])
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": output})
    return ""


def ask_responses(url: str) -> str:
    with closing(openai.OpenAI(base_url=f"{url}/v1", api_key="k", max_retries=0)) as client:
        return _ask_responses(client)


def _ask_responses(client: openai.OpenAI) -> str:
    items: list[Any] = [{"role": "user", "content": "go"}]
    tools: Any = [{"type": "function", "name": "bash", "parameters": SCHEMA, "strict": False}]
    for _ in range(STEPS):
        with client.responses.stream(
            model="gpt-5.4", input=items, tools=tools, include=["reasoning.encrypted_content"], store=False
        ) as stream:
            response = stream.get_final_response()
        calls = [item for item in response.output if item.type == "function_call"]
        if not calls:
            return response.output_text
        items += [item.model_dump(exclude_none=True, exclude={"parsed_arguments"}) for item in response.output]
        for call in calls:
            output = run_command(call.arguments)
            items.append({"type": "function_call_output", "call_id": call.call_id, "output": output})
    return ""


def ask_messages(url: str) -> str:
    with closing(anthropic.Anthropic(base_url=url, api_key="k", max_retries=0)) as client:
        return _ask_messages(client)


def _ask_messages(client: anthropic.Anthropic) -> str:
    messages: list[Any] = [{"role": "user", "content": "go"}]
    tools: Any = [{"name": "bash", "input_schema": SCHEMA}]
    for _ in range(STEPS):
        with client.messages.stream(
            model="claude-opus-4-7", max_tokens=4096, messages=messages, tools=tools, thinking={"type": "adaptive"}
        ) as stream:
            message = stream.get_final_message()
        calls = [block for block in message.content if block.type == "tool_use"]
        if not calls:
            return "".join(block.text for block in message.content if block.type == "text")
        messages.append({"role": "assistant", "content": [block.to_dict() for block in message.content]})
        results = [
            {"type": "tool_result", "tool_use_id": call.id, "content": run_command(dict(call.input))} for call in calls
        ]
        messages.append({"role": "user", "content": results})
    return ""


def ask_gemini(url: str) -> str:
    with closing(genai.Client(api_key="k", http_options=genai_types.HttpOptions(base_url=url))) as client:
        return _ask_gemini(client)


def _ask_gemini(client: genai.Client) -> str:
    contents: list[Any] = [genai_types.Content(role="user", parts=[genai_types.Part(text="go")])]
    declared = genai_types.FunctionDeclaration(name="bash", parameters_json_schema=SCHEMA)
    config = genai_types.GenerateContentConfig(tools=[genai_types.Tool(function_declarations=[declared])])
    for _ in range(STEPS):
        model = "gemini-3.1-pro-preview"
        chunks = list(client.models.generate_content_stream(model=model, contents=contents, config=config))
        parts = [part for chunk in chunks for part in (chunk.parts or []) if part.text != ""]
        calls = [part.function_call for part in parts if part.function_call]
        if not calls:
            return "".join(part.text or "" for part in parts)
        contents.append(genai_types.Content(role="model", parts=parts))
        results = [
            genai_types.Part(
                function_response=genai_types.FunctionResponse(
                    id=call.id, name=call.name, response={"output": run_command(call.args or {})}
                )
            )
            for call in calls
        ]
        contents.append(genai_types.Content(role="user", parts=results))
    return ""


CLIENTS = {"chat": ask_chat, "responses": ask_responses, "messages": ask_messages, "gemini": ask_gemini}


@each("scenario", TURNED)
@each("protocol", CLIENTS)
def test_the_vendors_sdk_does_the_task(protocol: str, scenario: str) -> None:
    with serve(SCENARIOS[scenario]) as upstream:
        assert TURNED[scenario] in CLIENTS[protocol](upstream.url)
    assert [one.outcome for one in upstream.log.exchanges] == ["answered"] * 3
    assert upstream.model.calls == (2 if scenario == "one-call" else 3)
