"""Canonical tools and tool choice → Anthropic Messages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.carrying import schema_of
from penstock.writing import add

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock import request as rq
    from penstock.pick import Object
    from penstock.protocols.anthropic.write_blocks import Blocks


def write_tools(draft: Blocks, tools: Iterable[rq.Tool], body: Object) -> None:
    """All tools that have a place here."""
    made = [written for tool in tools if (written := _tool(draft, tool)) is not None]
    if made:
        body["tools"] = made


def _tool(draft: Blocks, tool: rq.Tool) -> Object | None:
    own, marks = draft.own(tool.extra)
    if tool.namespace:
        draft.lose("namespace", tool.namespace)
    if "tool" in own:
        made: Object = dict(own["tool"])
    elif tool.kind in ("provider", "unknown"):
        draft.lose("tool", tool.name)
        return None
    else:
        made = {"name": tool.name}
        if tool.description:
            made["description"] = tool.description
        made["input_schema"] = _schema(draft, tool, marks)
        if tool.strict is not None:
            made["strict"] = tool.strict
        if own or marks:
            made.update(own)
            if "kind" in marks:
                made["type"] = marks["kind"]
    if tool.cache:
        draft.hint(tool, made, marks)
    add(made, marks.get("also"))
    return made


def _schema(draft: Blocks, tool: rq.Tool, marks: Object) -> Object:
    if tool.kind == "custom":
        draft.carry("free-text")
        return schema_of(tool)
    schema = tool.schema
    if schema is None:
        return {"type": "object", "properties": {}}
    return schema if "type" in schema or "untyped" in marks else {"type": "object", **schema}


def write_choice(draft: Blocks, request: rq.Request, body: Object) -> None:
    """Which tool may or must be called, and whether several may be at once."""
    choice, parallel = request.choice, request.settings.parallel_calls
    if choice is not None and "tools" not in body:
        draft.lose("choice")
        choice = None
    if choice is None and parallel is None:
        return
    mode = "auto" if choice is None else choice.mode
    if parallel is not None and (mode == "none" or (choice is None and not body.get("tools"))):
        draft.lose("setting", "parallel_calls")
        parallel = None
        if choice is None:
            return
    made: Object = {"type": "any" if mode == "required" else mode}
    if choice is not None and choice.names:
        if mode == "tool":
            made["name"] = choice.names[0]
        else:
            draft.lose("allowed")
    if parallel is not None:
        made["disable_parallel_tool_use"] = not parallel
    if choice is not None:
        made.update(draft.own(choice.extra)[0])
    body["tool_choice"] = made
