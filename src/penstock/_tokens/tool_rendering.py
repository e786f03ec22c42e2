"""Reads tools of any protocol. Renders tools, schemas and JSON as the model reads them, to count the rendered text.

tables.toml names five renderings: JSON without and with spaces, a TypeScript namespace, words, and declarations. They
need not be exact, only as long as the real ones. The last two also apply to the JSON of calls and results:

- `words` is what Google's local tokenizer counts: names, keys, descriptions and enum values, no marks or numbers.
- `declared` is what Gemini and FunctionGemma read: `declaration:name{description:…}` with a special token around each
  string, which is a quote between spaces here.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, cast

import msgspec

from penstock._lenient_json import as_json
from penstock._protocols import protocol as find_protocol
from penstock._protocols import reader, request_shapes, typed_errors
from penstock._strict_fields import to_json_values
from penstock.errors import BadRequest
from penstock.request import Tool

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from penstock._tokens.families import Rendering

_MAX_DEPTH = 24  # deeper schemas are rendered as JSON
_ALTERNATIVES = ("anyOf", "oneOf", "allOf")


# ── reading ───────────────────────────────────────────────────────────────────────────────────────────────────────────

_TOOL_STEP = re.compile(r"^.*?tools\[0\]")


def read_tools(tools: Iterable[Any], protocol: str = "") -> list[Tool]:
    """Reads each tool by its own shape; by the protocol if several have this shape. Raises `InputError`."""
    found: list[Tool] = []
    for position, tool in enumerate(tools):
        found += [tool] if isinstance(tool, Tool) else _read_tool(tool, protocol, position)
    return found


def list_telling(tools: Iterable[Any]) -> list[Any]:
    """Returns the tools by which the protocol of messages may be told."""
    values: list[Any] = to_json_values([tool for tool in tools if not isinstance(tool, Tool)])
    telling = request_shapes().telling_tools
    return [value for value in values if isinstance(value, dict) and _find_form(cast("Any", value), "") in telling]


def _read_tool(tool: Any, protocol: str, position: int) -> list[Tool]:
    with typed_errors:
        value = to_json_values([tool])[0]
    if not isinstance(value, dict):
        raise BadRequest("a tool", tool).at(position).at("tools")
    fields: dict[str, Any] = {**value}
    name = _find_form(fields, protocol)
    body: dict[str, Any] = {find_protocol(name).messages_field: []}
    inside = request_shapes().tools_inside.get(name)
    body |= {inside: {"tools": [fields]}} if inside else {"tools": [fields]}
    try:
        with typed_errors:
            found = reader(name)(body).tools
    except BadRequest as error:
        error.path = _TOOL_STEP.sub(f"tools[{position}]", error.path)
        raise
    if not found and "cachePoint" not in fields:
        raise BadRequest("a tool in the form of a protocol", tool).at(position).at("tools")
    return found


def _find_form(tool: dict[str, Any], protocol: str) -> str:
    shapes = request_shapes()
    names = next((names.split() for key, names in shapes.tool_forms.items() if tool.get(key) is not None), list[str]())
    if not names:
        return protocol or shapes.default
    return protocol if protocol in names else names[0]


# ── rendering ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def render_tool(tool: Tool, rendering: Rendering) -> str:
    """Renders one tool."""
    return _TOOL_RENDERERS[rendering](tool)


def render_schema(schema: dict[str, Any] | None, rendering: Rendering) -> str:
    """Renders the schema of a response format, which is JSON in every rendering."""
    if not schema:
        return ""
    return _spaced_json(schema) if rendering == "spaced" else as_json(schema)


def render_json(text: str, rendering: Rendering) -> str:
    """Renders the JSON of a call or a result."""
    return _JSON_RENDERERS[rendering](text) if rendering in _JSON_RENDERERS else text


def _tool_object(tool: Tool) -> dict[str, Any]:
    fields: dict[str, Any] = {"name": tool.name, "description": tool.description}
    if tool.schema is not None:
        fields["parameters"] = tool.schema
    if tool.kind != "function" and tool.extra is not None:
        fields["extra"] = msgspec.to_builtins(tool.extra)
    return fields


def _spaced_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


# ── TypeScript ────────────────────────────────────────────────────────────────────────────────────────────────────────


def _typescript(tool: Tool) -> str:
    if tool.kind != "function":
        return as_json(_tool_object(tool))
    comment = f"// {tool.description}\n" if tool.description else ""
    fields = list(_typescript_fields(tool.schema or {}, 0))
    parameters = "_: {\n" + "\n".join(fields) + "\n}" if fields else ""
    return f"{comment}type {tool.name} = ({parameters}) => any;\n\n"


def _typescript_fields(schema: dict[str, Any], depth: int) -> Iterator[str]:
    required = _as_list(schema.get("required"))
    for name, row in _as_dict(schema.get("properties")).items():
        if not isinstance(row, dict):
            continue
        field = _as_dict(row)
        if field.get("description"):
            yield f"// {field['description']}"
        mark = "" if name in required else "?"
        default = f" // default: {field['default']}" if field.get("default") is not None else ""
        yield f"{name}{mark}: {_typescript_type(field, depth + 1)},{default}"


def _typescript_type(schema: dict[str, Any], depth: int) -> str:
    if depth > _MAX_DEPTH:
        return as_json(schema)
    for key in _ALTERNATIVES:
        if rows := _as_list(schema.get(key)):
            return " | ".join(_typescript_type(_as_dict(row), depth + 1) for row in rows)
    if "enum" in schema:
        return " | ".join(as_json(value) for value in _as_list(schema["enum"]))
    kind = schema.get("type")
    if kind == "array":
        return _typescript_type(_as_dict(schema.get("items")), depth + 1) + "[]"
    if kind == "object" or "properties" in schema:
        return "{\n" + "\n".join(_typescript_fields(schema, depth)) + "\n}"
    return {"integer": "number"}.get(str(kind), str(kind or "any"))


# ── words and declarations ────────────────────────────────────────────────────────────────────────────────────────────

# The fields of a schema in a declaration, beside its type and inner schemas. Bounds and patterns are not in it.
_DECLARED_FIELDS = ("description", "title", "format", "nullable", "default", "enum", "required")
# An unclosed string matches to the end. Otherwise the search would start again at each further quote and take too long.
_STRING = re.compile(r'"([^"\\]*+(?:\\.[^"\\]*+)*+)(?:"(\s*+:)?|(\\?\Z))', re.DOTALL)
_ESCAPES = (("\\n", "\n"), ("\\t", "\t"), ('\\"', '"'))


def _json_words(text: str) -> str:
    """Returns the keys and strings of a JSON text."""
    return _unescape(" ".join(found[1] for found in _STRING.finditer(text) if found[3] is None))


def _declared_json(text: str) -> str:
    """Returns a JSON text with bare keys and marked strings."""
    return _unescape(_STRING.sub(_declared_string, text))


def _declared_string(found: re.Match[str]) -> str:
    if found[3] is not None:  # unclosed
        return found[0]
    return f"{found[1]}:" if found[2] else f' " {found[1]} " '


def _unescape(text: str) -> str:
    if "\\" in text:
        for escape, char in _ESCAPES:
            text = text.replace(escape, char)
    return text


def _tool_words(tool: Tool) -> str:
    return " ".join([tool.name, tool.description, *_schema_words(tool.schema or {}, 0)])


def _schema_words(schema: dict[str, Any], depth: int) -> Iterator[str]:
    """Yields the words of a schema. Required names occur twice; the JSON around the words costs nothing."""
    if depth > _MAX_DEPTH:
        yield as_json(schema)
        return
    for key in ("description", "format"):
        if isinstance(schema.get(key), str):
            yield schema[key]
    yield from _type_names(schema.get("type"))
    yield from (str(value) for key in ("enum", "required") for value in _as_list(schema.get(key)))
    for name, row in _as_dict(schema.get("properties")).items():
        yield name
        yield from _schema_words(_as_dict(row), depth + 1)
    for key in ("items", *_ALTERNATIVES):
        for row in _as_list(schema.get(key)) or ([schema[key]] if key in schema else []):
            yield from _schema_words(_as_dict(row), depth + 1)


def _declared_tool(tool: Tool) -> str:
    fields: dict[str, Any] = {"description": tool.description}
    if tool.schema:
        fields["parameters"] = _declared_schema(tool.schema, 0)
    return f"declaration:{tool.name}" + _declared_json(as_json(fields))


def _declared_schema(schema: dict[str, Any], depth: int) -> dict[str, Any]:
    if depth > _MAX_DEPTH:
        return schema
    fields = {key: schema[key] for key in _DECLARED_FIELDS if key in schema}
    for kind in _type_names(schema.get("type")):
        fields["type"] = kind
    if properties := _as_dict(schema.get("properties")):
        fields["properties"] = {name: _declared_schema(_as_dict(row), depth + 1) for name, row in properties.items()}
    if "items" in schema:
        fields["items"] = _declared_schema(_as_dict(schema["items"]), depth + 1)
    for key in _ALTERNATIVES:
        if key in schema:
            fields[key] = [_declared_schema(_as_dict(row), depth + 1) for row in _as_list(schema[key])]
    return fields


def _type_names(value: Any) -> Iterator[str]:
    """Yields a shortened type name, because every type name is one token."""
    if isinstance(value, str):
        yield value[:4].lower()


def _as_dict(value: Any) -> dict[str, Any]:
    """Returns an empty dict for other values, because schemas come from clients."""
    return value if isinstance(value, dict) else {}  # pyright: ignore[reportUnknownVariableType]


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []  # pyright: ignore[reportUnknownVariableType]


_TOOL_RENDERERS: dict[str, Callable[[Tool], str]] = {
    "json": lambda tool: as_json(_tool_object(tool)),
    "spaced": lambda tool: _spaced_json(_tool_object(tool)),
    "typescript": _typescript,
    "words": _tool_words,
    "declared": _declared_tool,
}
_JSON_RENDERERS: dict[str, Callable[[str], str]] = {"words": _json_words, "declared": _declared_json}
