"""Two renderings that are not JSON: words alone, and the declarations that Gemini and FunctionGemma read.

`words` is what Google's own local tokeniser counts: names, keys, descriptions and choices, each a text by itself; marks
and numbers are free. `declared` is `declaration:name{description:…}` with a token of its own around each string, which
stands here as a quote between spaces. Both are of tools, and of JSON that calls and results hold.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from penstock.jsontext import as_json

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.request import Tool

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
    yield from _type(schema.get("type"))
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
    for kind in _type(schema.get("type")):
        found["type"] = kind
    if fields := mapping(schema.get("properties")):
        found["properties"] = {name: _declared(mapping(row), depth + 1) for name, row in fields.items()}
    if "items" in schema:
        found["items"] = _declared(mapping(schema["items"]), depth + 1)
    found.update(
        {key: [_declared(mapping(row), depth + 1) for row in listed(schema[key])] for key in INSIDE if key in schema}
    )
    return found


def _type(value: Any) -> Iterator[str]:
    """The name of a type is one token, whichever it is."""
    if isinstance(value, str):
        yield value[:4].lower()


def mapping(value: Any) -> dict[str, Any]:
    """It, or nothing if it is something else: schemas come from outside."""
    return value if isinstance(value, dict) else {}  # pyright: ignore[reportUnknownVariableType]


def listed(value: Any) -> list[Any]:
    """The same of a list."""
    return value if isinstance(value, list) else []  # pyright: ignore[reportUnknownVariableType]
