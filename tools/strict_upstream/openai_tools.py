"""Rules for tools and tool calls that the Chat and Responses APIs share."""

from __future__ import annotations

import re
from typing import Any

from tools.strict_upstream import refusal

NAME = re.compile(r"[a-zA-Z0-9_-]+\Z")
_NAME_LIMIT = 64


def check_function(function: dict[str, Any], place: str) -> None:
    """The name and the schema of a function tool."""
    name = function["name"]
    if not NAME.match(name):
        text = f"Invalid '{place}.name': string does not match pattern. Expected a string that matches the pattern "
        raise refusal.openai(text + "'^[a-zA-Z0-9_-]+$'.", param=f"{place}.name", code="invalid_value")
    check_length(name, f"{place}.name", _NAME_LIMIT)
    schema = function.get("parameters")
    if schema and schema.get("type") != "object":
        kind = f"{schema.get('type')}".lower() if schema.get("type") else "None"
        text = (
            f"Invalid schema for function '{name}': schema must be a JSON Schema of 'type: \"object\"', got "
            f"'type: \"{kind}\"'."
        )
        raise refusal.openai(text, param=f"{place}.parameters", code="invalid_function_parameters")


def check_unique(names: list[str]) -> None:
    """No two tools of one name: a call could not say which it means."""
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise refusal.openai(
            f"Duplicate tool name: '{twice}'. Tool names must be unique.", param="tools", code="invalid_value"
        )


def check_length(value: str, place: str, limit: int) -> None:
    """The longest string that is accepted."""
    if len(value) > limit:
        text = (
            f"Invalid '{place}': string too long. Expected a string with maximum length {limit}, but got a "
            f"string with length {len(value)} instead."
        )
        raise refusal.openai(text, param=place, code="string_above_max_length")


def check_choice(body: dict[str, Any]) -> None:
    """Settings of tools need tools."""
    for name in ("tool_choice", "parallel_tool_calls"):
        if body.get(name) is not None and not body.get("tools") and body.get(name) not in ("none", "auto"):
            text = f"Invalid value for '{name}': '{name}' is only allowed when 'tools' are specified."
            raise refusal.openai(text, param=name)
