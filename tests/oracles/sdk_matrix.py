"""The vendors' own SDKs against a gateway with every provider protocol behind it: text, reasoning, a tool turn, whole
and streamed. `python -m tests.oracles.sdk_matrix` prints the matrix.
"""

from __future__ import annotations

import json
import sys
from abc import ABC, abstractmethod
from functools import cached_property
from itertools import product
from random import Random
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeAlias

from tests.support.gateway import PROVIDERS, gateway

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

ASK = "How long does the tank take to fill?"
SAID = "Three minutes: 540 litres at 3 litres a second take 180 seconds."
THOUGHT = "= 540. Good."
THANKS = "Thank you: the result arrived"
CALL = ("read_gauge", {"station": "upper gate", "unit": "m"})
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"station": {"type": "string"}, "unit": {"type": "string"}},
    "required": ["station"],
}
SCENARIOS = ("text", "reasoning", "tools")
Cell: TypeAlias = tuple[str, str, bool]  # provider, scenario, whether it is streamed
Found: TypeAlias = tuple[str, str, str, str]  # client, provider, scenario and form, what is wrong


class Client(ABC):
    """One SDK. `turn` asks and gives (text, reasoning, calls as (id, name, input)); `back` sends a result.

    All turns share the SDK's own client: to make one takes longer than a turn.
    """

    def __init__(self, base: str) -> None:
        self.base = base

    @cached_property
    @abstractmethod
    def sdk(self) -> Any: ...

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.sdk.__exit__(None, None, None)

    @abstractmethod
    def turn(self, model: str, *, stream: bool, tools: bool) -> tuple[str, str, list[tuple[str, str, Any]]]: ...

    @abstractmethod
    def back(self, model: str, call: tuple[str, str, Any], *, stream: bool) -> str: ...


class OpenaiChat(Client):
    tool: ClassVar[Any] = {"type": "function", "function": {"name": "read_gauge", "parameters": SCHEMA}}

    @cached_property
    def sdk(self) -> Any:
        import openai

        return openai.OpenAI(base_url=f"{self.base}/v1", api_key="any", max_retries=0)

    def _ask(self, model: str, messages: list[Any], stream: bool, **more: Any) -> Any:
        if not stream:
            return self.sdk.chat.completions.create(model=model, messages=messages, **more).choices[0].message
        with self.sdk.chat.completions.stream(model=model, messages=messages, **more) as made:
            return made.get_final_completion().choices[0].message

    def turn(self, model: str, *, stream: bool, tools: bool) -> tuple[str, str, list[tuple[str, str, Any]]]:
        more = {"tools": [self.tool]} if tools else {}
        message = self._ask(model, [{"role": "user", "content": ASK}], stream, **more)
        calls = [(one.id, one.function.name, json.loads(one.function.arguments)) for one in message.tool_calls or ()]
        return message.content or "", (message.model_extra or {}).get("reasoning_content", ""), calls

    def back(self, model: str, call: tuple[str, str, Any], *, stream: bool) -> str:
        made = {"id": call[0], "type": "function", "function": {"name": call[1], "arguments": json.dumps(call[2])}}
        messages = [
            {"role": "user", "content": ASK},
            {"role": "assistant", "content": None, "tool_calls": [made]},
            {"role": "tool", "tool_call_id": call[0], "content": "3.2"},
        ]
        return str(self._ask(model, messages, stream, tools=[self.tool]).content)


class OpenaiResponses(Client):
    tool: ClassVar[Any] = {"type": "function", "name": "read_gauge", "parameters": SCHEMA, "strict": False}

    @cached_property
    def sdk(self) -> Any:
        import openai

        return openai.OpenAI(base_url=f"{self.base}/v1", api_key="any", max_retries=0)

    def _ask(self, model: str, given: list[Any], stream: bool, **more: Any) -> Any:
        if not stream:
            return self.sdk.responses.create(model=model, input=given, **more)
        with self.sdk.responses.stream(model=model, input=given, **more) as made:
            return made.get_final_response()

    def turn(self, model: str, *, stream: bool, tools: bool) -> tuple[str, str, list[tuple[str, str, Any]]]:
        more = {"tools": [self.tool]} if tools else {}
        made = self._ask(model, [{"role": "user", "content": ASK}], stream, **more)
        calls = [
            (one.call_id, one.name, json.loads(one.arguments)) for one in made.output if one.type == "function_call"
        ]
        thought = "".join(part.text for one in made.output if one.type == "reasoning" for part in one.summary)
        return made.output_text, thought, calls

    def back(self, model: str, call: tuple[str, str, Any], *, stream: bool) -> str:
        given = [
            {"role": "user", "content": ASK},
            {"type": "function_call", "call_id": call[0], "name": call[1], "arguments": json.dumps(call[2])},
            {"type": "function_call_output", "call_id": call[0], "output": "3.2"},
        ]
        return str(self._ask(model, given, stream, tools=[self.tool]).output_text)


class Anthropic(Client):
    tool: ClassVar[Any] = {"name": "read_gauge", "input_schema": SCHEMA}

    @cached_property
    def sdk(self) -> Any:
        import anthropic

        return anthropic.Anthropic(base_url=self.base, api_key="any", max_retries=0)

    def _ask(self, model: str, messages: list[Any], stream: bool, **more: Any) -> Any:
        if not stream:
            return self.sdk.messages.create(model=model, max_tokens=999, messages=messages, **more)
        with self.sdk.messages.stream(model=model, max_tokens=999, messages=messages, **more) as made:
            return made.get_final_message()

    def turn(self, model: str, *, stream: bool, tools: bool) -> tuple[str, str, list[tuple[str, str, Any]]]:
        more = {"tools": [self.tool]} if tools else {}
        blocks = self._ask(model, [{"role": "user", "content": ASK}], stream, **more).content
        text = "".join(one.text for one in blocks if one.type == "text")
        thought = "".join(one.thinking for one in blocks if one.type == "thinking")
        return text, thought, [(one.id, one.name, one.input) for one in blocks if one.type == "tool_use"]

    def back(self, model: str, call: tuple[str, str, Any], *, stream: bool) -> str:
        messages = [
            {"role": "user", "content": ASK},
            {"role": "assistant", "content": [{"type": "tool_use", "id": call[0], "name": call[1], "input": call[2]}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": call[0], "content": "3.2"}]},
        ]
        return str(self._ask(model, messages, stream, tools=[self.tool]).content[0].text)


class Genai(Client):
    @cached_property
    def sdk(self) -> Any:
        from google import genai
        from google.genai import types

        return genai.Client(api_key="any", http_options=types.HttpOptions(base_url=self.base, timeout=20_000))

    def _ask(self, model: str, contents: Any, stream: bool, **more: Any) -> list[Any]:
        from google.genai import types

        models, config = self.sdk.models, types.GenerateContentConfig(**more)
        if stream:
            replies = list(models.generate_content_stream(model=model, contents=contents, config=config))
        else:
            replies = [models.generate_content(model=model, contents=contents, config=config)]
        return [part for one in replies for part in one.candidates[0].content.parts or ()]

    def _tools(self) -> list[Any]:
        from google.genai import types

        return [types.Tool(function_declarations=[
            types.FunctionDeclaration(name="read_gauge", parameters_json_schema=SCHEMA),
        ])]  # fmt: skip

    def turn(self, model: str, *, stream: bool, tools: bool) -> tuple[str, str, list[tuple[str, str, Any]]]:
        parts = self._ask(model, ASK, stream, **({"tools": self._tools()} if tools else {}))
        text = "".join(part.text for part in parts if part.text and not part.thought)
        thought = "".join(part.text for part in parts if part.text and part.thought)
        calls = [part.function_call for part in parts if part.function_call]
        return text, thought, [(one.id or "", one.name, dict(one.args)) for one in calls]

    def back(self, model: str, call: tuple[str, str, Any], *, stream: bool) -> str:
        from google.genai import types

        made = types.Part(function_call=types.FunctionCall(id=call[0] or None, name=call[1], args=call[2]))
        given = types.Part(
            function_response=types.FunctionResponse(id=call[0] or None, name=call[1], response={"m": 3.2})
        )
        contents = [
            types.Content(role="user", parts=[types.Part(text=ASK)]),
            types.Content(role="model", parts=[made]), types.Content(role="user", parts=[given]),
        ]  # fmt: skip
        parts = self._ask(model, contents, stream, tools=self._tools())
        return "".join(part.text for part in parts if part.text and not part.thought)


class Mistral(Client):
    tool: ClassVar[Any] = {"type": "function", "function": {"name": "read_gauge", "parameters": SCHEMA}}

    @cached_property
    def sdk(self) -> Any:
        from mistralai.client import Mistral as Sdk

        return Sdk(api_key="any", server_url=self.base)

    def _ask(self, model: str, messages: list[Any], stream: bool, **more: Any) -> tuple[str, str, list[Any]]:
        if not stream:
            message = self.sdk.chat.complete(model=model, messages=messages, **more).choices[0].message
            return *self._said(message.content), list(message.tool_calls or ())
        text, thought, calls = "", "", list[Any]()
        for event in self.sdk.chat.stream(model=model, messages=messages, **more):
            for choice in event.data.choices:
                more_text, more_thought = self._said(choice.delta.content)
                text, thought = text + more_text, thought + more_thought
                calls += choice.delta.tool_calls or ()
        return text, thought, calls

    def _said(self, content: Any) -> tuple[str, str]:
        """Content is a text, or chunks of text and of thinking."""
        if not isinstance(content, list):
            return str(content or ""), ""
        text = "".join(one.text for one in content if one.type == "text")
        return text, "".join(inner.text for one in content if one.type == "thinking" for inner in one.thinking)

    def turn(self, model: str, *, stream: bool, tools: bool) -> tuple[str, str, list[tuple[str, str, Any]]]:
        more = {"tools": [self.tool]} if tools else {}
        text, thought, calls = self._ask(model, [{"role": "user", "content": ASK}], stream, **more)
        return text, thought, [(one.id, one.function.name, json.loads(str(one.function.arguments))) for one in calls]

    def back(self, model: str, call: tuple[str, str, Any], *, stream: bool) -> str:
        made = {"id": call[0], "type": "function", "function": {"name": call[1], "arguments": json.dumps(call[2])}}
        messages = [
            {"role": "user", "content": ASK},
            {"role": "assistant", "content": "", "tool_calls": [made]},
            {"role": "tool", "tool_call_id": call[0], "name": call[1], "content": "3.2"},
        ]
        return self._ask(model, messages, stream, tools=[self.tool])[0]


CLIENTS: dict[str, type[Client]] = {
    "openai chat": OpenaiChat, "openai responses": OpenaiResponses, "anthropic": Anthropic, "google-genai": Genai,
    "mistralai": Mistral,
}  # fmt: skip
SPOKEN = tuple(name for name in PROVIDERS if name != "completions")


def check(client: Client, provider: str, scenario: str, *, stream: bool) -> None:
    """A scenario, or an assertion that fails."""
    model = f"{provider}/{scenario}"
    text, thought, calls = client.turn(model, stream=stream, tools=scenario == "tools")
    if scenario == "text":
        assert text.startswith("A penstock is the pipe"), text
    elif scenario == "reasoning":
        assert text == SAID, text
        assert thought.endswith(THOUGHT), thought
    else:
        assert [call[1:] for call in calls] == [CALL], calls
        assert client.back(model, calls[0], stream=stream).startswith(THANKS)


def sample(name: str, forms: Sequence[bool]) -> list[Cell]:
    """Some cells of a client: of each provider one, and every scenario. The same ones each time."""
    random = Random(name)
    scenarios = random.sample(SCENARIOS * 3, len(SPOKEN))
    scenarios[: len(SCENARIOS)] = random.sample(SCENARIOS, len(SCENARIOS))
    return [(provider, scenario, random.choice(forms)) for provider, scenario in zip(SPOKEN, scenarios, strict=True)]


def cells(base: str, name: str, chosen: Iterable[Cell] = ()) -> Iterator[Found]:
    """Client, provider, scenario with its form, and what is wrong with it (nothing, if all is well).

    `chosen`: which ones; all of them, if it is not said.
    """
    with CLIENTS[name](base) as client:
        for provider, scenario, stream in chosen or product(SPOKEN, SCENARIOS, (False, True)):
            wrong = ""
            try:
                check(client, provider, scenario, stream=stream)
            except Exception as error:  # noqa: BLE001 — a cell of the matrix is bad, the rest goes on
                wrong = f"{type(error).__name__}: {error}"[:300]
            yield name, provider, f"{scenario}, {'streamed' if stream else 'whole'}", wrong


def row(found: list[Found]) -> str:
    """A line of the matrix: how many cells of a client are good, provider by provider."""
    made = f"{found[0][0]:<24}"
    for provider in dict.fromkeys(one[1] for one in found):
        marks = [not one[3] for one in found if one[1] == provider]
        made += f" {provider} {sum(marks)}/{len(marks)} "
    return made.rstrip()


def main() -> int:
    """Print the matrix; 1 if a cell of it is bad."""
    bad: list[str] = []
    with gateway() as (running, _):
        for client in CLIENTS:
            found = list(cells(running.url, client))
            sys.stdout.write(row(found) + "\n")
            bad += [f"{one[0]} and {one[1]}, {one[2]}: {one[3]}" for one in found if one[3]]
    sys.stdout.write("\n".join([*bad, ""]))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
