"""Which of the client's tools an agent would call: one that must be called, one that runs commands, else the first."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import msgspec

from penstock._lenient_fields import Object, as_object, as_objects, get_list

if TYPE_CHECKING:
    from penstock.request import Request, Tool

COMMAND_FIELDS = ("command", "cmd", "commands", "script", "shell_command", "code")  # fields that hold what is to be run
_SHELLS = (  # words of a name, from the surest on
    frozenset({"bash", "shell", "terminal", "powershell", "sh"}),
    frozenset({"exec", "execute", "command", "commands", "cmd"}),
    frozenset({"run"}),
)
_WORDS = re.compile(r"[A-Z]?[a-z0-9]+|[A-Z]+(?![a-z])")
_CALLABLE = frozenset({"function", "custom"})


def choose_tool(request: Request) -> Tool | None:
    """The tool to call; None where there is none, or none may be called."""
    choice = request.choice
    if choice is not None and choice.mode == "none":
        return None
    offered = [tool for tool in request.tools if tool.kind in _CALLABLE]
    allowed = [tool for tool in offered if choice is not None and tool.name in choice.names] or offered
    # The order of what is equally likely is the client's.
    return min(allowed, key=_rank, default=None)


def _rank(tool: Tool) -> tuple[bool, int, bool]:
    words = {word.lower() for word in _WORDS.findall(tool.name)}
    sure = next((place for place, known in enumerate(_SHELLS) if words & known), len(_SHELLS))
    runs = runs_commands(tool)
    return not runs or sure == len(_SHELLS), sure if runs else len(_SHELLS), bool(tool.namespace)


def runs_commands(tool: Tool) -> bool:
    """Whether there is a field for a command; a tool of free text takes anything."""
    fields = (tool.schema or {}).get("properties")
    return tool.kind == "custom" or (isinstance(fields, dict) and any(name in fields for name in COMMAND_FIELDS))


_DEPTH = 32  # schemas that hold schemas


def write_example_input(schema: Object, command: str) -> str:
    """The input as JSON text."""
    made = _object(schema, command, schema, _DEPTH)
    return msgspec.json.encode(made).decode()


def _object(schema: Object, command: str, root: Object, depth: int) -> Object:
    fields = as_object(schema.get("properties"))
    runs = next((name for name in COMMAND_FIELDS if name in fields), "")
    made: Object = {runs: _command(runs, as_object(fields[runs]), command, root)} if runs else {}
    for name in get_list(schema, "required"):
        if isinstance(name, str) and name in fields and name not in made:
            made[name] = _value(as_object(fields[name]), command, root, depth - 1)
    return made


def _command(name: str, schema: Object, command: str, root: Object) -> Any:
    """A command as a line, as a list of lines, or as the words of one, as the field has it."""
    if _type(_plain(schema, root)) != "array":
        return command
    return [command] if name.endswith("s") else ["bash", "-lc", command]


def _value(schema: Object, command: str, root: Object, depth: int) -> Any:
    found = _plain(schema, root)
    for word in ("const", "default"):
        if word in found:
            return found[word]
    chosen = get_list(found, "enum")
    if chosen:
        return chosen[0]
    kind = _type(found)
    if kind == "object" and depth > 0:
        return _object(found, command, root, depth)
    if kind == "array":
        return [_value(as_object(found.get("items")), command, root, depth - 1)] if _wants(found, depth) else []
    return _ZEROS.get(kind, _word)(found)


def _wants(schema: Object, depth: int) -> bool:
    least: Any = schema.get("minItems")
    return depth > 0 and isinstance(least, int) and least > 0


def _plain(schema: Object, root: Object, depth: int = _DEPTH) -> Object:
    """A schema without references, and the first of its choices that is not null."""
    where: Any = schema.get("$ref")
    found: Object | None = None
    if isinstance(where, str) and where.startswith("#/"):
        found = root
        for step in where[2:].split("/"):
            found = as_object(found.get(step))
    for word in ("anyOf", "oneOf", "allOf"):
        found = found or next((row for row in as_objects(schema.get(word)) if _type(row) != "null"), None)
    return _plain(found, root, depth - 1) if found is not None and depth else schema


def _type(schema: Object) -> str:
    said = next((word for word in get_list(schema, "type") if word != "null"), None) or schema.get("type")
    return said if isinstance(said, str) else "object" if "properties" in schema else "string"


def _number(schema: Object) -> Any:
    least: Any = schema.get("minimum")
    return least if isinstance(least, int | float) else 1


def _word(_: Object) -> str:
    return "penstock"


def _false(_: Object) -> bool:
    return False


def _none(_: Object) -> None:
    return None


def _empty(_: Object) -> Object:
    return {}


_ZEROS: dict[str, Any] = {"integer": _number, "number": _number, "boolean": _false, "null": _none, "object": _empty}
