"""The tool that an agent calls: a required one, one that runs commands, else the first; and an example of its input."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import msgspec

from penstock._lenient_fields import Object, as_object, as_objects, get_list

if TYPE_CHECKING:
    from penstock.request import Request, Tool

COMMAND_FIELDS = ("command", "cmd", "commands", "script", "shell_command", "code")  # fields that hold a command
_SHELLS = (  # words of a tool's name, from the surest on
    frozenset({"bash", "shell", "terminal", "powershell", "sh"}),
    frozenset({"exec", "execute", "command", "commands", "cmd"}),
    frozenset({"run"}),
)
_WORDS = re.compile(r"[A-Z]?[a-z0-9]+|[A-Z]+(?![a-z])")
_CALLABLE = frozenset({"function", "custom"})
_DEPTH = 32  # schemas that hold schemas


def choose_tool(request: Request) -> Tool | None:
    """Returns the tool to call; None if there is none, or none may be called."""
    choice = request.choice
    if choice is not None and choice.mode == "none":
        return None
    offered = [tool for tool in request.tools if tool.kind in _CALLABLE]
    allowed = [tool for tool in offered if choice is not None and tool.name in choice.names] or offered
    return min(allowed, key=_rank_tool, default=None)  # of equal ones the client's first


def _rank_tool(tool: Tool) -> tuple[bool, int, bool]:
    words = {word.lower() for word in _WORDS.findall(tool.name)}
    rank = next((rank for rank, known in enumerate(_SHELLS) if words & known), len(_SHELLS))
    fields = (tool.schema or {}).get("properties")
    has_command = isinstance(fields, dict) and any(name in fields for name in COMMAND_FIELDS)
    runs = tool.kind == "custom" or has_command  # a tool of free text takes anything
    return not runs or rank == len(_SHELLS), rank if runs else len(_SHELLS), bool(tool.namespace)


def write_example_input(schema: Object, command: str) -> str:
    """Returns an input that fits the schema, as JSON text."""
    return msgspec.json.encode(_example_object(schema, command, schema, _DEPTH)).decode()


def _example_object(schema: Object, command: str, root: Object, depth: int) -> Object:
    fields = as_object(schema.get("properties"))
    example: Object = {}
    if name := next((name for name in COMMAND_FIELDS if name in fields), ""):
        example[name] = _example_command(name, as_object(fields[name]), command, root)
    for name in get_list(schema, "required"):
        if isinstance(name, str) and name in fields and name not in example:
            example[name] = _example_value(as_object(fields[name]), command, root, depth - 1)
    return example


def _example_command(name: str, schema: Object, command: str, root: Object) -> Any:
    """Returns a command as one text, as a list of commands, or as a list of words, as the field requires."""
    if _type_of(_resolve_schema(schema, root)) != "array":
        return command
    return [command] if name.endswith("s") else ["bash", "-lc", command]


def _example_value(schema: Object, command: str, root: Object, depth: int) -> Any:
    schema = _resolve_schema(schema, root)
    fixed = [schema[key] for key in ("const", "default") if key in schema] or get_list(schema, "enum")
    if fixed:
        return fixed[0]
    kind = _type_of(schema)
    if kind == "object" and depth > 0:
        return _example_object(schema, command, root, depth)
    if kind == "array":
        minimum: Any = schema.get("minItems")
        if depth <= 0 or not isinstance(minimum, int) or minimum <= 0:
            return []
        return [_example_value(as_object(schema.get("items")), command, root, depth - 1)]
    if kind in ("integer", "number"):
        return schema["minimum"] if isinstance(schema.get("minimum"), int | float) else 1
    examples: Object = {"boolean": False, "null": None, "object": {}}
    return examples.get(kind, "penstock")


def _resolve_schema(schema: Object, root: Object, depth: int = _DEPTH) -> Object:
    """Follows references, and takes the first alternative that is not null."""
    reference: Any = schema.get("$ref")
    found: Object | None = None
    if isinstance(reference, str) and reference.startswith("#/"):
        found = root
        for step in reference[2:].split("/"):
            found = as_object(found.get(step))
    for key in ("anyOf", "oneOf", "allOf"):
        found = found or next((row for row in as_objects(schema.get(key)) if _type_of(row) != "null"), None)
    return _resolve_schema(found, root, depth - 1) if found is not None and depth else schema


def _type_of(schema: Object) -> str:
    kind = next((name for name in get_list(schema, "type") if name != "null"), None) or schema.get("type")
    return kind if isinstance(kind, str) else "object" if "properties" in schema else "string"
