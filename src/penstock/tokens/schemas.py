"""Tools as the model sees them: what a provider makes of names, descriptions and JSON Schemas before counting.

Five renderings, named in tables.toml: JSON without and with spaces, a TypeScript namespace; words alone and
declarations (`words`), which show what calls and results hold in the same way. They need not be exact, only as long as
the real ones. Leans on the canonical `Tool` only.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import msgspec

from penstock.jsontext import as_json
from penstock.tokens.words import DEPTH, declared, declared_of, listed, mapping, words, words_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from penstock.request import Tool
    from penstock.tokens.model import Rendering


def rendered(tool: Tool, how: Rendering) -> str:
    """One tool as text."""
    return _RENDERINGS[how](tool)


def schema_text(schema: dict[str, Any] | None, how: Rendering) -> str:
    """The schema of an answer as text: renderings of tools that leave JSON out do so for those alone."""
    if not schema:
        return ""
    return _spaced(schema) if how == "spaced" else as_json(schema)


def held(text: str, how: Rendering) -> str:
    """What a call or a result holds, JSON already, as the model sees it."""
    return _HELD[how](text) if how in _HELD else text


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
    needed = listed(schema.get("required"))
    for name, row in mapping(schema.get("properties")).items():
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
        if rows := listed(schema.get(word)):
            return " | ".join(_type(mapping(row), depth + 1) for row in rows)
    if "enum" in schema:
        return " | ".join(as_json(value) for value in listed(schema["enum"]))
    kind = schema.get("type")
    if kind == "array":
        return _type(mapping(schema.get("items")), depth + 1) + "[]"
    if kind == "object" or "properties" in schema:
        return "{\n" + "\n".join(_fields(schema, depth)) + "\n}"
    return {"integer": "number"}.get(str(kind), str(kind or "any"))


_RENDERINGS: dict[str, Callable[[Tool], str]] = {
    "json": _json, "spaced": lambda tool: _spaced(_whole(tool)), "typescript": _typescript, "words": words,
    "declared": declared,
}  # fmt: skip
_HELD: dict[str, Callable[[str], str]] = {"words": words_of, "declared": declared_of}
