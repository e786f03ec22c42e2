"""Tools as the model sees them: what a provider makes of names, descriptions and JSON Schemas before counting.

Four renderings, named in tables.toml: JSON without and with spaces, a TypeScript namespace, words alone. They need not
be exact, only as long as the real ones. Leans on the canonical `Tool` only.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import msgspec

from penstock.jsontext import as_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from penstock.request import Tool
    from penstock.tokens.model import Rendering

DEPTH = 24
"""Schemas nest no deeper than anybody could mean; below, they are shown as JSON."""


def rendered(tool: Tool, how: Rendering) -> str:
    """One tool as text."""
    return _RENDERINGS[how](tool)


def schema_text(schema: dict[str, Any] | None, how: Rendering) -> str:
    """The schema of an answer as text: renderings of tools that leave JSON out do so for those alone."""
    if not schema:
        return ""
    return _spaced(schema) if how == "spaced" else as_json(schema)


def _whole(tool: Tool) -> dict[str, Any]:
    shown: dict[str, Any] = {"name": tool.name, "description": tool.description}
    if tool.schema is not None:
        shown["parameters"] = tool.schema
    if tool.kind != "function" and tool.extra is not None:
        shown["extra"] = msgspec.to_builtins(tool.extra)
    return shown


def _json(tool: Tool) -> str:
    return as_json(_whole(tool))


def _spaced(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


# ── TypeScript ────────────────────────────────────────────────────────────────────────────────────────────────────────


def _typescript(tool: Tool) -> str:
    if tool.kind != "function":
        return _json(tool)
    about = f"// {tool.description}\n" if tool.description else ""
    fields = list(_fields(tool.schema or {}, 0))
    taken = "_: {\n" + "\n".join(fields) + "\n}" if fields else ""
    return f"{about}type {tool.name} = ({taken}) => any;\n\n"


def _fields(schema: dict[str, Any], depth: int) -> Iterator[str]:
    needed = _listed(schema.get("required"))
    for name, row in _mapping(schema.get("properties")).items():
        if not isinstance(row, dict):
            continue
        if row.get("description"):  # pyright: ignore[reportUnknownMemberType]
            yield f"// {row['description']}"
        mark = "" if name in needed else "?"
        default = f" // default: {row['default']}" if row.get("default") is not None else ""  # pyright: ignore[reportUnknownMemberType]
        yield f"{name}{mark}: {_type(row, depth + 1)},{default}"  # pyright: ignore[reportUnknownArgumentType]


def _type(schema: dict[str, Any], depth: int) -> str:
    if depth > DEPTH:
        return as_json(schema)
    for word in ("anyOf", "oneOf", "allOf"):
        if rows := _listed(schema.get(word)):
            return " | ".join(_type(_mapping(row), depth + 1) for row in rows)
    if "enum" in schema:
        return " | ".join(as_json(value) for value in _listed(schema["enum"]))
    kind = schema.get("type")
    if kind == "array":
        return _type(_mapping(schema.get("items")), depth + 1) + "[]"
    if kind == "object" or "properties" in schema:
        return "{\n" + "\n".join(_fields(schema, depth)) + "\n}"
    return {"integer": "number"}.get(str(kind), str(kind or "any"))


# ── words ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _words(tool: Tool) -> str:
    return " ".join([tool.name, tool.description, *_spoken(tool.schema or {}, 0)])


def _spoken(schema: dict[str, Any], depth: int) -> Iterator[str]:
    """Names, descriptions, types and choices; the JSON around them costs nothing there."""
    if depth > DEPTH:
        yield as_json(schema)
        return
    for key in ("description", "type", "format"):
        if isinstance(schema.get(key), str) and not (key == "type" and schema[key] == "object"):
            yield schema[key]
    yield from (str(value) for value in _listed(schema.get("enum")))
    for name, row in _mapping(schema.get("properties")).items():
        yield name
        yield from _spoken(_mapping(row), depth + 1)
    for key in ("items", "anyOf", "oneOf", "allOf"):
        for row in _listed(schema.get(key)) or ([schema[key]] if key in schema else []):
            yield from _spoken(_mapping(row), depth + 1)


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}  # pyright: ignore[reportUnknownVariableType]


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []  # pyright: ignore[reportUnknownVariableType]


_RENDERINGS: dict[str, Callable[[Tool], str]] = {
    "json": _json, "spaced": lambda tool: _spaced(_whole(tool)), "typescript": _typescript, "words": _words,
}  # fmt: skip
