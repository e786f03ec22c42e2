"""Structured output: strict schemas, the way that is chosen for each model, validation, retries."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypedDict, assert_type

import jsonschema
import msgspec
import pydantic
import pytest

from penstock import events as ev
from penstock import request as rq
from penstock.errors import InputError, InvalidOutput
from penstock.messages import read_request
from penstock.providers import provider
from tests.client.run_setup import PROVIDERS, call, finish, model_of, play_agent, reply, result_text, staged, text
from tests.support.client_parts import (
    NotStrict,
    OutputFormat,
    OutputPlan,
    OutputType,
    find_violations,
    output_format,
    tighten_schema,
)
from tests.support.each_case import each

if TYPE_CHECKING:
    from penstock.client import Client
    from penstock.testing import Upstream


class Size(Enum):
    SMALL = "small"
    LARGE = "large"


@dataclass
class Street:
    name: str
    length: Annotated[float, msgspec.Meta(ge=0)] = 1.0


@dataclass
class City:
    """A city."""

    name: Annotated[str, msgspec.Meta(min_length=2)]
    people: int
    size: Size = Size.SMALL
    streets: list[Street] = field(default_factory=list[Street])
    mayor: str | None = None


class CityModel(pydantic.BaseModel):
    name: str = pydantic.Field(min_length=2)
    people: int
    streets: list[Street] = []


class CityStruct(msgspec.Struct):
    name: str
    people: int


class CityDict(TypedDict):
    name: str
    people: int


CITY_SCHEMA: dict[str, Any] = {
    "title": "city",
    "type": "object",
    "properties": {"name": {"type": "string", "minLength": 2}, "people": {"type": "integer"}},
    "required": ["name", "people"],
}
GOOD = '{"name":"Rome","people":2800000}'
TYPES: dict[str, tuple[Any, Any]] = {
    "dataclass": (City, City("Rome", 2800000)),
    "pydantic": (CityModel, CityModel(name="Rome", people=2800000)),
    "struct": (CityStruct, CityStruct("Rome", 2800000)),
    "typed dict": (CityDict, {"name": "Rome", "people": 2800000}),
    "schema": (CITY_SCHEMA, {"name": "Rome", "people": 2800000}),
}
# what a test provider's model takes: without tools, and beside tools
WAYS = {
    "chat": ("schema", "schema"),
    "responses": ("schema", "schema"),
    "anthropic": ("schema", "schema"),
    "gemini": ("schema", "tool"),
    "bedrock": ("schema", "schema"),
    "cohere": ("schema", "tool"),
    "mistral": ("schema", "schema"),
    "ollama": ("schema", "tool"),
    "groq": ("tool", "tool"),
    "deepseek": ("json", "tool"),
}


# ── the way ───────────────────────────────────────────────────────────────────────────────────────

MODELS: dict[str, tuple[str, str, str]] = {
    "gpt-5": ("openai", "gpt-5", "schema"),
    "gpt-4o": ("openai", "gpt-4o", "schema"),
    "the first gpt-4o": ("openai", "gpt-4o-2024-05-13", "tool"),
    "gpt-4-turbo": ("openai", "gpt-4-turbo", "tool"),
    "gpt-4.1": ("openai", "gpt-4.1-mini", "schema"),
    "claude 4.5": ("anthropic", "claude-sonnet-4-5-20250929", "schema"),
    "claude 4": ("anthropic", "claude-sonnet-4-20250514", "tool"),
    "claude 4.1": ("anthropic", "claude-opus-4-1-20250805", "tool"),
    "claude 4.6": ("anthropic", "claude-opus-4-6", "schema"),
    "claude 3.5": ("anthropic", "claude-3-5-haiku-latest", "tool"),
    "claude on bedrock": ("bedrock", "us.anthropic.claude-opus-4-5-20251101-v1:0", "schema"),
    "old claude on bedrock": ("bedrock", "anthropic.claude-3-haiku-20240307-v1:0", "tool"),
    "nova": ("bedrock", "amazon.nova-pro-v1:0", "tool"),
    "gemini": ("gemini", "gemini-2.5-pro", "schema"),
    "grok": ("xai", "grok-4", "schema"),
    "llama on groq": ("groq", "llama-3.3-70b-versatile", "tool"),
    "deepseek": ("deepseek", "deepseek-chat", "json"),
    "a local model": ("ollama", "anything", "schema"),
    "a model of which only the name is known": ("openrouter", "nobody/nothing", "tool"),
}


@each("case", MODELS)
def test_the_way_is_chosen_from_data(case: str) -> None:
    name, model, way = MODELS[case]
    row = output_format(provider(name), model)
    assert row.way == way
    assert row.source


# ── strict schemas ────────────────────────────────────────────────────────────────────────────────


@dataclass
class Tree:
    name: str
    children: list[Tree]


OPEN: dict[str, Any] = {
    "a map": dict[str, int],
    "anything": {"type": "object", "properties": {"a": {}}, "required": ["a"]},
    "allOf": {"type": "object", "properties": {"a": {"allOf": [{"type": "string"}, {"minLength": 1}]}}},
}


@each("case", OPEN)
def test_schemas_without_a_strict_form(case: str) -> None:
    kind = OutputType(OPEN[case])
    with pytest.raises(NotStrict):
        tighten_schema(kind.schema, "openai")
    plan = OutputPlan(kind, OutputFormat(way="schema", dialect="openai"), "gpt-5", tools={})
    form = plan.prepare(rq.Request("m")).settings.format
    assert form is not None
    assert (form.strict, form.schema) == (False, kind.schema)  # sent as it is, not strict
    strict = OutputFormat(way="schema", dialect="anthropic", strict_only=True)
    assert OutputPlan(kind, strict, "claude", tools={}).way == "tool"


def test_a_recursive_type() -> None:
    kind = OutputType(Tree)
    assert tighten_schema(kind.schema, "openai")["$defs"]
    with pytest.raises(NotStrict):
        tighten_schema(kind.schema, "anthropic")
    assert kind.convert({"name": "a", "children": [{"name": "b", "children": []}]}) == Tree("a", [Tree("b", [])])


def test_nulls_that_a_strict_schema_added_are_taken_back() -> None:
    value = {"name": "Rome", "people": 1, "size": None, "streets": [{"name": "Via", "length": None}], "mayor": None}
    assert OutputType(City).convert(value) == City("Rome", 1, Size.SMALL, [Street("Via", 1.0)], None)


WRAPPED: dict[str, tuple[Any, str, Any]] = {
    "a list": (list[int], '{"value":[1,2]}', [1, 2]),
    "a list as it is": (list[int], "[1,2]", [1, 2]),
    "a number": (int, '{"value":3}', 3),
    "a choice": (Literal["yes", "no"], '{"value":"no"}', "no"),
}


@each("case", WRAPPED)
def test_outputs_that_are_not_objects_are_wrapped(case: str) -> None:
    kind, json, expected = WRAPPED[case]
    plan = OutputPlan(OutputType(kind), OutputFormat(way="prompt"), "m", tools={})
    assert plan.read(json) == expected


PARSED: dict[str, str] = {
    "plain": GOOD,
    "fenced": f"```json\n{GOOD}\n```",
    "with words": f"Here it is: {GOOD} That is all.",
}


@each("case", PARSED)
def test_json_is_found_in_the_answer(case: str) -> None:
    plan = OutputPlan(OutputType(CityStruct), OutputFormat(way="prompt"), "m", tools={})
    assert plan.read(PARSED[case]) == CityStruct("Rome", 2800000)


INVALID: dict[str, tuple[str, str]] = {
    "nothing": ("", "it is empty"),
    "no JSON": ("I do not know.", "it is not JSON"),
    "a field is missing": ('{"name":"Rome"}', "people"),
    "a wrong type": ('{"name":"Rome","people":"many"}', "people: "),
}


@each("kind", TYPES)
@each("case", INVALID)
def test_invalid_outputs_are_named(case: str, kind: str) -> None:
    json, message = INVALID[case]
    plan = OutputPlan(OutputType(TYPES[kind][0]), OutputFormat(way="prompt"), "m", tools={})
    with pytest.raises(InvalidOutput, match=message) as caught:
        plan.read(json)
    assert caught.value.text == json


def test_outputs_that_cannot_be_asked_for() -> None:
    with pytest.raises(InputError, match="output"):
        OutputType({})
    with pytest.raises(InputError, match="output"):
        OutputType(object())


# ── the check of values by a JSON Schema ──────────────────────────────────────────────────────────

CHECKS: dict[str, tuple[Any, dict[str, Any]]] = {
    "type": (3, {"type": "string"}),
    "types": (3.5, {"type": ["string", "integer"]}),
    "boolean is no number": (True, {"type": "integer"}),
    "enum": ("c", {"enum": ["a", "b"]}),
    "const": ("c", {"const": "a"}),
    "minimum": (1, {"minimum": 2}),
    "exclusive": (2, {"exclusiveMaximum": 2}),
    "multiple": (3, {"multipleOf": 2}),
    "length": ("abc", {"maxLength": 2}),
    "pattern": ("abc", {"pattern": "^b"}),
    "items": ([1, "a"], {"items": {"type": "integer"}}),
    "too many items": ([1, 2], {"maxItems": 1}),
    "required": ({}, {"required": ["a"]}),
    "additional": ({"b": 1}, {"properties": {"a": {}}, "additionalProperties": False}),
    "additional of a type": ({"b": "x"}, {"additionalProperties": {"type": "integer"}}),
    "any": (3, {"anyOf": [{"type": "string"}, {"type": "null"}]}),
    "all": (3, {"allOf": [{"type": "integer"}, {"minimum": 4}]}),
    "reference": ({"a": 3}, {"properties": {"a": {"$ref": "#/$defs/A"}}, "$defs": {"A": {"type": "string"}}}),
    "nothing": (3, {"properties": {}, "items": {}, "not-a-keyword": 1}),
}


@each("case", CHECKS)
def test_the_check_agrees_with_jsonschema(case: str) -> None:
    value, schema = CHECKS[case]
    validator: Any = jsonschema.Draft202012Validator(schema)
    expected = validator.is_valid(value)
    assert (find_violations(value, schema) == []) == expected


# ── runs ──────────────────────────────────────────────────────────────────────────────────────────


def sent_request(received: Any, name: str) -> rq.Request:
    return read_request(received.json, PROVIDERS[name][1])


@each("kind", TYPES)
def test_every_kind_of_type(kind: str) -> None:
    made, expected = TYPES[kind]

    async def scene(_: Upstream, client: Client) -> None:
        run = await client.run(model_of("chat"), "Which city?", output=made)
        assert run.output == expected

    staged(scene, reply("chat", *text(GOOD)))


@each("name", WAYS)
def test_the_way_of_every_provider(name: str) -> None:
    """The packaged agent answers by the way that the request asks for."""

    async def scene(up: Upstream, client: Client) -> None:
        run = await client.run(model_of(name), "Which city?", output=CityStruct)
        assert run.output == CityStruct("penstock", 1)
        request = sent_request(up.requests[0], name)
        form = request.settings.format
        asked = "tool" if request.tools else "json" if form is not None and form.kind == "json" else "schema"
        assert asked == WAYS[name][0]
        assert asked != "schema" or (form is not None and form.schema is not None)

    answers = {"deepseek": reply("deepseek", *text('{"name":"penstock","people":1}'))}
    staged(scene, answers.get(name) or play_agent(name))


def lookup(name: str) -> str:
    """Looks a city up."""
    return f"{name} has 2800000 people"


@each("name", WAYS)
def test_output_beside_tools(name: str) -> None:
    async def scene(up: Upstream, client: Client) -> None:
        run = client.run(model_of(name), "Which city?", tools=[lookup], output=CityStruct)
        found = [event async for event in run]
        assert run.output == CityStruct("Rome", 2800000)
        assert next(tool.name for tool in sent_request(up.requests[0], name).tools) == "lookup"
        words = "".join(event.text for event in found if isinstance(event, ev.TextDelta))
        assert CityStruct("Rome", 2800000) == msgspec.json.decode(words, type=CityStruct)  # text, whatever the way
        assert not any(isinstance(event, ev.CallEnd) and event.by == "client" for event in found)
        roles = [message.role for message in run.messages]
        assert roles == ["user", "assistant", "tool", "assistant"]
        assert [part.text for part in run.messages[-1].parts if isinstance(part, rq.Text)] == [GOOD]

    by_tool = WAYS[name][1] == "tool"
    last = reply(name, call("final_output", GOOD, "call_2")) if by_tool else reply(name, *text(GOOD))
    staged(scene, reply(name, call("lookup", '{"name":"Rome"}')), last)


@each("name", WAYS)
def test_invalid_twice_then_right(name: str) -> None:
    by_tool = WAYS[name][0] == "tool"

    def wrong(json: str, id: str) -> Any:
        return reply(name, call("final_output", json, id)) if by_tool else reply(name, *text(json))

    async def scene(up: Upstream, client: Client) -> None:
        run = await client.run(model_of(name), "Which city?", output=CityStruct, retries=2)
        assert run.output == CityStruct("Rome", 2800000)
        assert len(up.requests) == 3
        last = sent_request(up.requests[1], name).messages[-1]
        said = "".join(
            result_text(part) if isinstance(part, rq.Result) else getattr(part, "text", "") for part in last.parts
        )
        assert "The output is not valid: " in said
        assert "people" in said
        assert last.role == ("tool" if by_tool else "user")
        assert run.usage is not None
        assert run.usage.input == 30
        assert all(message.role != "tool" for message in run.messages)  # they can be sent without the tool
        assert [part.text for part in run.messages[-1].parts if isinstance(part, rq.Text)] == [GOOD]

    staged(
        scene,
        wrong('{"name":"Rome"}', "call_1"),
        wrong('{"name":"Rome","people":"x"}', "call_2"),
        wrong(GOOD, "call_3"),
    )


def test_retries_end() -> None:
    async def scene(up: Upstream, client: Client) -> None:
        run = client.run(model_of("chat"), "Which city?", output=City, retries=1)
        found = [event async for event in run]
        assert len(up.requests) == 2
        assert isinstance(found[-1], ev.Fault)
        assert found[-1].kind == "malformed"
        with pytest.raises(InvalidOutput, match="people"):
            await finish(run)
        with pytest.raises(InvalidOutput, match="people"):
            _ = run.output

    staged(scene, reply("chat", *text('{"name":"Rome"}')))


ENDS: dict[str, tuple[Any, str]] = {
    "the output limit": (reply("chat", rq.Text('{"name":'), reason="length"), "output limit"),
    "a refusal": (reply("chat", rq.Text("I will not.", refusal=True)), "the model declined: I will not."),
    "steps": (reply("chat", call("lookup", '{"name":"Rome"}')), "without an output"),
}


@each("case", ENDS)
def test_an_answer_without_output_is_not_retried(case: str) -> None:
    answer, message = ENDS[case]

    async def scene(up: Upstream, client: Client) -> None:
        with pytest.raises(InvalidOutput, match=message):
            await finish(client.run(model_of("chat"), "?", tools=[lookup], output=City, max_steps=2))
        assert len(up.requests) <= 2

    staged(scene, answer)


def test_a_thinking_claude_is_not_forced_to_call() -> None:
    """It refuses a forced call while it thinks."""
    row = OutputFormat(way="tool")
    plan = OutputPlan(OutputType(City), row, "claude-sonnet-4-20250514", tools={})
    thinking = rq.Request("m", settings=rq.Settings(budget=2000))
    assert plan.prepare(thinking).choice == rq.ToolChoice("auto")
    assert plan.prepare(rq.Request("m")).choice == rq.ToolChoice("tool", ["final_output"])


def test_type_checkers_know_the_type_of_the_output() -> None:
    """Pyright and mypy check these lines."""

    async def scene(_: Upstream, client: Client) -> None:
        assert_type((await client.run(model_of("chat"), "?", output=City)).output, City)
        assert_type((await client.run(model_of("chat"), "?", output=CityModel)).output, CityModel)
        assert_type((await client.run(model_of("chat"), "?", output=CityDict)).output, CityDict)
        assert_type((await client.run(model_of("chat"), "?")).output, str)

    staged(scene, reply("chat", *text(GOOD)))


def test_output_before_the_end_is_an_error() -> None:
    async def scene(up: Upstream, client: Client) -> None:
        run = client.run(model_of("chat"), "?", output=CityStruct)
        with pytest.raises(InputError, match="not finished"):
            _ = run.output
        assert up.requests == []
        await run.aclose()

    staged(scene, reply("chat", *text(GOOD)))
