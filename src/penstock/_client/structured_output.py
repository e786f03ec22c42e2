"""Structured output: a schema for the model in the way that it takes best, and the validated value of its answer.

The way is chosen from data (`_providers/output_formats.toml`): the API's own schema, a tool, JSON mode, or the prompt.
A value is always validated here, whatever the vendor promises.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, cast

import msgspec
from msgspec.structs import replace

from penstock import request as rq
from penstock._client.schema_check import check_schema, find_violations
from penstock._client.strict_schemas import NotStrict, drop_added_nulls, tighten_schema
from penstock._client.value_types import InvalidValue, Schema, ValueType
from penstock._input_limits import NestingError, decode_bounded
from penstock._lenient_fields import as_object
from penstock._providers.thinking import thinking_of
from penstock.errors import InputError, InvalidOutput

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock._providers.output_formats import OutputFormat, OutputWay

TOOL_NAME = "final_output"
_WRAPPED = "value"  # the property of an output that is not an object
_FENCE = "```"
_TOOL_TEXT = "Gives the final answer. Call it once, when the answer is known."
_INSTRUCTION = (
    "Answer with one JSON value and nothing else: no other words and no code fence. It must keep to this JSON Schema:\n"
)
_CORRECTION = "The output is not valid: {error}. Give the whole output again, corrected."
_NAME = re.compile(r"[^A-Za-z0-9_-]+")


class OutputType:
    """What `output=` names: a Python type, or a JSON Schema. An output that is not an object is wrapped in one."""

    def __init__(self, output: Any) -> None:
        if isinstance(output, dict):
            self._kind: ValueType | None = None
            self.original: Schema = _read_schema(cast("dict[str, Any]", output))
            check_schema(self.original)
            name = str(self.original.get("title", ""))
        else:
            self._kind = ValueType(output, "output")
            self.original = self._kind.schema
            name = getattr(output, "__name__", "")
        self.name: str = _NAME.sub("_", name)[:64] or "output"
        self._is_wrapped = self.original.get("type") != "object"
        self.schema: Schema = _wrap(self.original) if self._is_wrapped else self.original

    def convert(self, value: Any) -> Any:
        """Returns the value as the type. Raises `InvalidValue` with every place that is wrong."""
        cleaned: Any = drop_added_nulls(value, self.schema, self.schema)
        if self._is_wrapped:
            cleaned = as_object(cleaned).get(_WRAPPED, cleaned)
        if self._kind is not None:
            return self._kind.convert(cleaned)
        wrong = find_violations(cleaned, self.original)
        if wrong:
            raise InvalidValue("; ".join(wrong))
        return cleaned


class OutputPlan:
    """How one run gets its output. `tool_name` is empty unless the way is a tool."""

    def __init__(self, kind: OutputType, row: OutputFormat, model: str, *, tools: Mapping[str, Any]) -> None:
        self._kind, self._model, self._has_tools = kind, model, bool(tools)
        self.way: OutputWay = "tool" if self._has_tools and not row.with_tools else row.way
        self._schema, self._strict = kind.schema, None if row.dialect == "any" else False
        if row.dialect != "any" and self.way == "schema":
            self._tighten(row)
        name = TOOL_NAME
        while name in tools:
            name += "_"
        self.tool_name: str = name if self.way == "tool" else ""

    def _tighten(self, row: OutputFormat) -> None:
        try:
            self._schema, self._strict = tighten_schema(self._kind.schema, row.dialect), True
        except NotStrict:
            if row.strict_only:
                self.way = "tool"

    def prepare(self, request: rq.Request) -> rq.Request:
        """Returns the request that asks for the output."""
        kind = self._kind
        if self.way == "schema":
            text = str(kind.original.get("description", ""))
            schema = rq.Format("schema", kind.name, self._schema, text, self._strict)
            return replace(request, settings=replace(request.settings, format=schema))
        if self.way == "tool":
            return self._prepare_tool(request)
        instruction = _INSTRUCTION + msgspec.json.encode(kind.schema).decode()
        messages = _add_instruction(request.messages, instruction)
        form = rq.Format("json") if self.way == "json" else None
        return replace(request, messages=messages, settings=replace(request.settings, format=form))

    def _prepare_tool(self, request: rq.Request) -> rq.Request:
        tool = rq.Tool(self.tool_name, self._kind.original.get("description") or _TOOL_TEXT, self._schema)
        if self._refuses_forced_call(request.settings):
            choice = rq.ToolChoice("auto")
        elif self._has_tools:
            choice = rq.ToolChoice("required")
        else:
            choice = rq.ToolChoice("tool", [self.tool_name])
        return replace(request, tools=[*request.tools, tool], choice=request.choice or choice)

    def _refuses_forced_call(self, settings: rq.Settings) -> bool:
        """True if the model thinks, and refuses a tool that must be called while it does."""
        facts = thinking_of(self._model)
        if facts is None or not facts.exclusive:
            return False
        return bool(settings.budget) or settings.effort not in ("", "none") or facts.on

    def read(self, json: str) -> Any:
        """Returns the validated output. Raises `InvalidOutput`."""
        try:
            return self._kind.convert(_parse(json))
        except InvalidValue as error:
            raise InvalidOutput(str(error), json) from None

    def explain(self, error: InvalidOutput) -> str:
        """Returns what the model is told about an invalid output."""
        call = f" Call {self.tool_name} again." if self.tool_name else " Answer with JSON only."
        return _CORRECTION.format(error=str(error).rstrip(".")) + call


def _without_fence(text: str) -> str:
    """Returns what stands inside of a code fence, if the whole text is one."""
    head, _, rest = text.partition("\n")
    language = head.removeprefix(_FENCE).strip()
    is_fenced = head.startswith(_FENCE) and rest.endswith(_FENCE) and (not language or language.isalpha())
    return rest.removesuffix(_FENCE) if is_fenced else text


def _parse(text: str) -> Any:
    """Returns the JSON of an answer. A code fence, and words around an object, are left out."""
    candidates = [_without_fence(text.strip())]
    first, last = text.find("{"), text.rfind("}")
    if 0 <= first < last:
        candidates.append(text[first : last + 1])
    message = "there is no answer"
    for candidate in candidates:
        try:
            return decode_bounded(candidate.encode())
        except (msgspec.DecodeError, NestingError, UnicodeError, RecursionError) as error:
            message = str(error)
    raise InvalidValue(f"it is not JSON ({message})" if text.strip() else "it is empty")


def _read_schema(given: dict[str, Any]) -> Schema:
    """Returns the schema of a JSON Schema, or of OpenAI's `response_format`."""
    schema = (
        as_object(as_object(given.get("json_schema")).get("schema")) if given.get("type") == "json_schema" else given
    )
    if not schema:
        raise InputError("output: expected a type or a JSON Schema")
    return schema


def _wrap(schema: Schema) -> Schema:
    inner = {key: value for key, value in schema.items() if key != "$defs"}
    defs = {"$defs": schema["$defs"]} if "$defs" in schema else {}
    wrapped: Schema = {"type": "object", "properties": {_WRAPPED: inner}, "required": [_WRAPPED]}
    return {**wrapped, "additionalProperties": False, **defs}


def _add_instruction(messages: list[rq.Message], text: str) -> list[rq.Message]:
    leading = next((number for number, one in enumerate(messages) if one.role != "system"), len(messages))
    return [*messages[:leading], rq.Message("system", [rq.Text(text)]), *messages[leading:]]
