"""Gemini requests (`generateContent`, `streamGenerateContent`): what Google refuses.

https://ai.google.dev/api/generate-content
https://ai.google.dev/gemini-api/docs/thought-signatures
"""

from __future__ import annotations

import base64
import json
import warnings
from typing import TYPE_CHECKING, Any

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # an escape in a docstring of the SDK
    from google.genai import types
from pydantic import ValidationError

from tools.strict_upstream import refusal
from tools.strict_upstream.conversation import Conversation, Item, Tool
from tools.strict_upstream.model_facts import gemini_generation, gemini_refuses_prefill
from tools.strict_upstream.seals import unseal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pydantic import BaseModel

_FIELDS: dict[str, Any] = {
    "contents": list[types.Content], "systemInstruction": types.Content, "tools": list[types.Tool],
    "toolConfig": types.ToolConfig, "safetySettings": list[types.SafetySetting],
    "generationConfig": types.GenerationConfig, "cachedContent": str, "model": str, "labels": dict, "serviceTier": str,
}  # fmt: skip
# Signatures that Google documents for calls that no Gemini model made.
_DUMMIES = frozenset({b"context_engineering_is_the_way_to_go", b"skip_thought_signature_validator"})
_THIRD = 3
_SIGNATURE = (
    "Function call is missing a thought_signature in functionCall parts. This is required for tools to work correctly, "
    "and missing thought_signature may lead to degraded model performance. Additional data, function call "
    "`default_api:{name}` , position {at}. Please refer to https://ai.google.dev/gemini-api/docs/thought-signatures "
    "for more details."
)


def read_gemini(body: dict[str, Any], headers: Mapping[str, str], model: str, *, stream: bool) -> Conversation:
    """Check a request and say what is in it; raise `Refusal`."""
    if not headers.get("x-goog-api-key") and not headers.get("authorization"):
        text = (
            "Method doesn't allow unregistered callers (callers without established identity). Please use API "
            "Key or other form of API consumer identity to call this API."
        )
        raise refusal.gemini(text, status=403, code="PERMISSION_DENIED")
    fields = {_camel(name): value for name, value in body.items()}
    read: dict[str, Any] = {}
    for name, value in fields.items():
        if name not in _FIELDS:
            raise _unknown(name, "")
        read[name] = _parse(_FIELDS[name], value, name)
    contents: list[types.Content] = read.get("contents") or []
    if not contents:
        raise refusal.gemini("* GenerateContentRequest.contents: contents is not specified\n")
    tools = _read_tools(read.get("tools") or [])
    _check_thinking(read.get("generationConfig"), model)
    _check_contents(contents)
    _check_order(contents, model)
    if gemini_generation(model) >= _THIRD:
        _check_signatures(contents)
    items = [item for content in contents for part in content.parts or [] for item in _read_part(content.role, part)]
    settings = read.get("generationConfig")
    thinking = settings.thinking_config if settings else None
    wants = bool(thinking and thinking.include_thoughts)
    instruction: types.Content | None = read.get("systemInstruction")
    system = "\n".join(part.text or "" for part in (instruction.parts if instruction else None) or [])
    return Conversation(model, stream, tools, items, system, wants_reasoning=wants)


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def _unknown(name: str, place: str) -> refusal.Refusal:
    at = f" at '{place}'" if place else ""
    text = f'Invalid JSON payload received. Unknown name "{name}"{at}: Cannot find field.'
    violation = {"field": place, "description": text} if place else {"description": text}
    detail = {"@type": "type.googleapis.com/google.rpc.BadRequest", "fieldViolations": [violation]}
    return refusal.gemini(text, details=[detail])


def _parse(kind: Any, value: Any, place: str) -> Any:
    if getattr(kind, "__origin__", None) is list:
        if not isinstance(value, list):
            raise refusal.gemini(f"Invalid value at '{place}' (oneof), expected an array")
        return [_parse(kind.__args__[0], one, f"{place}[{at}]") for at, one in enumerate(value)]
    if kind in (str, dict):
        return value
    model: type[BaseModel] = kind
    try:
        return model.model_validate(value)
    except ValidationError as error:
        first = error.errors()[0]
        path = [str(part) for part in first["loc"]]
        if first["type"] == "extra_forbidden":
            raise _unknown(path[-1], ".".join([place, *path[:-1]])) from error
        text = f"Invalid value at '{'.'.join([place, *path])}' ({first['msg']})"
        raise refusal.gemini(text) from error


def _read_tools(tools: list[types.Tool]) -> list[Tool]:
    made: list[Tool] = []
    for tool in tools:
        for one in tool.function_declarations or []:
            schema = one.parameters_json_schema or (
                one.parameters.model_dump(mode="json", exclude_none=True) if one.parameters else {}
            )
            if one.parameters_json_schema and one.parameters:
                raise refusal.gemini(f"Only one of parameters and parametersJsonSchema may be set: {one.name}")
            made.append(Tool(one.name or "", dict(schema)))
    names = [tool.name for tool in made]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise refusal.gemini(f"Duplicate function declaration found: {twice}")
    return made


def _check_thinking(settings: types.GenerationConfig | None, model: str) -> None:
    thinking = settings.thinking_config if settings else None
    if not thinking:
        return
    if thinking.thinking_level is not None and thinking.thinking_budget is not None:
        raise refusal.gemini("You can only set only one of thinking budget and thinking level.")
    if thinking.thinking_level is not None and 0 < gemini_generation(model) < _THIRD:
        raise refusal.gemini("Thinking level is not supported for this model.")
    if thinking.thinking_budget == 0 and "pro" in model:
        raise refusal.gemini("Budget 0 is invalid. This model only works in thinking mode.")


def _check_contents(contents: list[types.Content]) -> None:
    for at, content in enumerate(contents):
        if not content.parts:
            raise refusal.gemini(f"* GenerateContentRequest.contents[{at}].parts: contents.parts must not be empty.\n")
        if content.role not in (None, "user", "model", "function"):
            raise refusal.gemini("Please use a valid role: user, model.")
        for number, part in enumerate(content.parts):
            filled = part.model_dump(exclude_none=True, exclude={"thought", "thought_signature", "video_metadata"})
            if not filled:
                text = (
                    f"* GenerateContentRequest.contents[{at}].parts[{number}].data: required oneof field 'data' "
                    "must have one initialized field\n"
                )
                raise refusal.gemini(text)


def _check_order(contents: list[types.Content], model: str) -> None:
    """A turn of calls follows the user or results; a turn of results follows the calls, as many as they are."""
    calls = 0
    for at, content in enumerate(contents):
        made = sum(part.function_call is not None for part in content.parts or [])
        results = sum(part.function_response is not None for part in content.parts or [])
        if calls and not results:
            raise refusal.gemini(
                "Please ensure that the number of function response parts is equal to the number of "
                "function call parts of the function call turn."
            )
        if results and not calls:
            raise refusal.gemini(
                "Please ensure that function response turn comes immediately after a function call turn."
            )
        if results and results != calls:
            raise refusal.gemini(
                "Please ensure that the number of function response parts is equal to the number of "
                "function call parts of the function call turn."
            )
        if made and (at == 0 or contents[at - 1].role == "model"):
            raise refusal.gemini(
                "Please ensure that function call turn comes immediately after a user turn or after a "
                "function response turn."
            )
        calls = made
    if calls:
        raise refusal.gemini("Please ensure that multiturn requests end with a user role or a function response.")
    if contents[-1].role == "model" and gemini_refuses_prefill(model):
        raise refusal.gemini("Requests ending with a model turn are not supported.")


def _check_signatures(contents: list[types.Content]) -> None:
    """In the current turn, the first call of each step carries the signature it came with."""
    last = max((at for at, one in enumerate(contents) if _is_prompt(one)), default=0)
    for at, content in enumerate(contents):
        parts = [part for part in content.parts or [] if part.function_call]
        for part in content.parts or []:
            if part.thought_signature is not None and not _is_genuine(part.thought_signature):
                raise refusal.gemini("Thought signature is not valid.")
        if at > last and parts and not parts[0].thought_signature:
            call = parts[0].function_call
            raise refusal.gemini(_SIGNATURE.format(name=call.name if call else "", at=at + 1))


def _is_prompt(content: types.Content) -> bool:
    """A message of the user that is more than results."""
    return content.role != "model" and not any(part.function_response for part in content.parts or [])


def _is_genuine(signature: bytes) -> bool:
    written = base64.urlsafe_b64encode(signature)  # a dummy may stand in the JSON as it is, or as bytes in Base64
    return signature in _DUMMIES or written in _DUMMIES or unseal(base64.b64encode(signature).decode()) is not None


def _read_part(role: str | None, part: types.Part) -> list[Item]:
    sealed = "sealed" if part.thought_signature else ""
    if part.function_call:
        call = part.function_call
        item = Item("call", json.dumps(call.args or {}), call.name or "", call.id or "")
        return [Item("reasoning", id=sealed), item] if sealed else [item]
    if part.function_response:
        made = part.function_response
        return [Item("result", json.dumps(made.response or {}), id=made.id or "")]
    if part.text is not None:
        kind = "reasoning" if part.thought else "assistant" if role == "model" else "user"
        return [Item(kind, part.text, id=sealed)]  # type: ignore[arg-type]
    return []
