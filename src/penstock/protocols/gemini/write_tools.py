"""Canonical tools and tool choice → `tools` and `functionCallingConfig`. `request_tools.py` is the way back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.carrying import schema_of
from penstock.protocols.gemini.request_tools import MODES
from penstock.protocols.gemini.schema import to_json, to_subset

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock import request as rq
    from penstock.pick import Object
    from penstock.protocols.gemini.write_parts import PartWriter

_WORDS = {"auto": "AUTO", "none": "NONE", "required": "ANY", "tool": "ANY"}


def write_tools(tools: Iterable[rq.Tool], draft: PartWriter) -> list[Object]:
    """Functions in one object, each of Google's tools in its own, unless they were grouped otherwise."""
    made: list[Object] = []
    groups: dict[int | str, Object] = {}
    for tool in tools:
        own, marks = draft.own(tool.extra)
        if tool.cache:
            draft.lose("cache")
        function = tool.kind in ("function", "custom")
        if not function and "tool" not in own:
            draft.lose("tool")
            continue
        key = marks.get("group") or ("functions" if function else f"tool {len(made)}")
        if key not in groups:
            groups[key] = {}
            made.append(groups[key])
        if function:
            groups[key].setdefault("functionDeclarations", []).append(_function(tool, own, marks, draft))
        else:
            groups[key].update(own["tool"])
    return made


def _function(tool: rq.Tool, own: Object, marks: Object, draft: PartWriter) -> Object:
    if tool.strict is not None:
        draft.lose("strict")
    if tool.namespace:
        draft.lose("namespace")
    made: Object = {"name": tool.name}
    if tool.description or marks.get("empty"):
        made["description"] = tool.description
    if tool.kind == "custom":
        draft.carry("free-text")
        made.update(_parameters(schema_of(tool), marks, draft))
    elif tool.schema is not None:
        made.update(_parameters(tool.schema, marks, draft))
    return {**made, **own}


def _parameters(schema: Object, marks: Object, draft: PartWriter) -> Object:
    was = marks.get("parameters")
    if was is True:
        return {"parameters": schema}
    if was and to_json(was) == schema:
        return {"parameters": was}
    whole = (
        schema if "type" in schema or not schema.keys().isdisjoint(("$ref", "anyOf")) else {"type": "object", **schema}
    )
    if draft.quirks.schemas == "subset":
        return {"parameters": to_subset(whole, lambda: draft.lose("schema"))}
    return {"parametersJsonSchema": whole}


def write_choice(choice: rq.ToolChoice, draft: PartWriter) -> Object:
    """A mode, and the names it is about. Names that only may be called are a mode of their own."""
    own, marks = draft.own(choice.extra)
    made: Object = {"mode": "VALIDATED" if choice.mode == "auto" and choice.names else _WORDS[choice.mode]}
    if "word" in marks and _WORDS[MODES[marks["word"][0]]] == _WORDS[choice.mode]:
        made = {"mode": marks["word"][0]} if marks["word"][0] is not None else {}
    if choice.names:
        made["allowedFunctionNames"] = choice.names
    return {**made, **own}
