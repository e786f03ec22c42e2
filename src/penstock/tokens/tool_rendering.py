"""Tools as the model sees them: what a provider makes of names, descriptions and JSON Schemas before counting.

Five renderings, named in tables.toml: JSON without and with spaces, a TypeScript namespace; words alone and
declarations (`words`), which show what calls and results hold in the same way. They need not be exact, only as long as
the real ones. Leans on the canonical `Tool` only.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import msgspec

from penstock.jsontext import as_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from penstock.request import Tool
    from penstock.tokens.families import Rendering


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
    fields = list(_typescript_fields(tool.schema or {}, 0))
    taken = "_: {\n" + "\n".join(fields) + "\n}" if fields else ""
    return f"{about}type {tool.name} = ({taken}) => any;\n\n"


def _typescript_fields(schema: dict[str, Any], depth: int) -> Iterator[str]:
    needed = listed(schema.get("required"))
    for name, row in mapping(schema.get("properties")).items():
        if not isinstance(row, dict):
            continue
        if row.get("description"):  # pyright: ignore[reportUnknownMemberType]
            yield f"// {row['description']}"
        mark = "" if name in needed else "?"
        default = f" // default: {row['default']}" if row.get("default") is not None else ""  # pyright: ignore[reportUnknownMemberType]
        yield f"{name}{mark}: {_typescript_type(row, depth + 1)},{default}"  # pyright: ignore[reportUnknownArgumentType]


def _typescript_type(schema: dict[str, Any], depth: int) -> str:
    if depth > DEPTH:
        return as_json(schema)
    for word in ("anyOf", "oneOf", "allOf"):
        if rows := listed(schema.get(word)):
            return " | ".join(_typescript_type(mapping(row), depth + 1) for row in rows)
    if "enum" in schema:
        return " | ".join(as_json(value) for value in listed(schema["enum"]))
    kind = schema.get("type")
    if kind == "array":
        return _typescript_type(mapping(schema.get("items")), depth + 1) + "[]"
    if kind == "object" or "properties" in schema:
        return "{\n" + "\n".join(_typescript_fields(schema, depth)) + "\n}"
    return {"integer": "number"}.get(str(kind), str(kind or "any"))


DEPTH = 24
"""Schemas nest no deeper than anybody could mean; below, they are shown as JSON."""
SHOWN = ("description", "title", "format", "nullable", "default", "enum", "required")
"""What a declaration tells of a schema, beside its type and what is inside; bounds and patterns it does not."""
INSIDE = ("anyOf", "oneOf", "allOf")
# A string that is not closed reaches to the end: tried again from each further quote, it would take for ever.
_STRING = re.compile(r'"([^"\\]*+(?:\\.[^"\\]*+)*+)(?:"(\s*+:)?|(\\?\Z))', re.DOTALL)
_ESCAPES = (("\\n", "\n"), ("\\t", "\t"), ('\\"', '"'))


def words_of(text: str) -> str:
    """The keys and strings of a JSON text."""
    return _plain(" ".join(found[1] for found in _STRING.finditer(text) if found[3] is None))


def declared_of(text: str) -> str:
    """A JSON text with bare keys and marked strings."""
    return _plain(_STRING.sub(_declared_string, text))


def _declared_string(found: re.Match[str]) -> str:
    if found[3] is not None:  # not closed
        return found[0]
    return f"{found[1]}:" if found[2] else f' " {found[1]} " '


def _plain(text: str) -> str:
    if "\\" in text:
        for escape, char in _ESCAPES:
            text = text.replace(escape, char)
    return text


def words(tool: Tool) -> str:
    """A tool as its words."""
    return " ".join([tool.name, tool.description, *_spoken(tool.schema or {}, 0)])


def _spoken(schema: dict[str, Any], depth: int) -> Iterator[str]:
    """What is required is named once more; the JSON around it costs nothing."""
    if depth > DEPTH:
        yield as_json(schema)
        return
    for key in ("description", "format"):
        if isinstance(schema.get(key), str):
            yield schema[key]
    yield from _type_names(schema.get("type"))
    yield from (str(value) for key in ("enum", "required") for value in listed(schema.get(key)))
    for name, row in mapping(schema.get("properties")).items():
        yield name
        yield from _spoken(mapping(row), depth + 1)
    for key in ("items", *INSIDE):
        for row in listed(schema.get(key)) or ([schema[key]] if key in schema else []):
            yield from _spoken(mapping(row), depth + 1)


def declared(tool: Tool) -> str:
    """A tool as a declaration."""
    about: dict[str, Any] = {"description": tool.description}
    if tool.schema:
        about["parameters"] = _declared(tool.schema, 0)
    return f"declaration:{tool.name}" + declared_of(as_json(about))


def _declared(schema: dict[str, Any], depth: int) -> dict[str, Any]:
    if depth > DEPTH:
        return schema
    found = {key: schema[key] for key in SHOWN if key in schema}
    for kind in _type_names(schema.get("type")):
        found["type"] = kind
    if fields := mapping(schema.get("properties")):
        found["properties"] = {name: _declared(mapping(row), depth + 1) for name, row in fields.items()}
    if "items" in schema:
        found["items"] = _declared(mapping(schema["items"]), depth + 1)
    found.update(
        {key: [_declared(mapping(row), depth + 1) for row in listed(schema[key])] for key in INSIDE if key in schema}
    )
    return found


def _type_names(value: Any) -> Iterator[str]:
    """The name of a type is one token, whichever it is."""
    if isinstance(value, str):
        yield value[:4].lower()


def mapping(value: Any) -> dict[str, Any]:
    """It, or nothing if it is something else: schemas come from outside."""
    return value if isinstance(value, dict) else {}  # pyright: ignore[reportUnknownVariableType]


def listed(value: Any) -> list[Any]:
    """The same of a list."""
    return value if isinstance(value, list) else []  # pyright: ignore[reportUnknownVariableType]


_RENDERINGS: dict[str, Callable[[Tool], str]] = {
    "json": _json, "spaced": lambda tool: _spaced(_whole(tool)), "typescript": _typescript, "words": words,
    "declared": declared,
}  # fmt: skip
_HELD: dict[str, Callable[[str], str]] = {"words": words_of, "declared": declared_of}
