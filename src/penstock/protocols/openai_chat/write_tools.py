"""Canonical tools and tool choice → Chat Completions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.protocols.openai_chat.request_tools import read_choice, read_grammar
from penstock.writing import add, said

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock import request as rq
    from penstock.pick import Object
    from penstock.protocols.openai_chat.write_parts import Parts


def write_tools(draft: Parts, tools: Iterable[rq.Tool], body: Object) -> None:
    """All tools: as tools, or as functions where that is how they came."""
    for tool in tools:
        own, marks = draft.own(tool.extra)
        made = _tool(draft, tool, own, marks)
        if made is not None:
            body.setdefault("functions" if "legacy" in marks else "tools", []).append(made)


def _tool(draft: Parts, tool: rq.Tool, own: Object, marks: Object) -> Object | None:
    if tool.namespace:
        draft.lose("namespace", tool.namespace)
    if tool.kind in ("provider", "unknown"):
        if "tool" not in own:
            draft.lose("tool", tool.name)
        return own.get("tool")
    if tool.kind == "custom":
        return _custom(tool, own, marks)
    function = _function(tool)
    made: Object = {"type": "function", "function": function}
    if own or marks:
        function.update(own.get("function", {}))
        add(function, marks.get("also"))
        if "legacy" in marks:
            return function
        made.update(own.get("tool", {}))
        if "untyped" in marks:
            del made["type"]
    if tool.cache:
        draft.hint(tool, made, marks)
    return made


def _function(tool: rq.Tool) -> Object:
    function: Object = {"name": tool.name}
    if tool.description:
        function["description"] = tool.description
    if tool.schema is not None:
        function["parameters"] = tool.schema
    if tool.strict is not None:
        function["strict"] = tool.strict
    return function


def _custom(tool: rq.Tool, own: Object, marks: Object) -> Object:
    custom = said(name=tool.name, description=tool.description)
    grammar = tool.schema or {}
    if "format" in marks and read_grammar(marks["format"]) == tool.schema:
        custom["format"] = marks["format"]
    elif grammar.get("definition"):
        rules = {"syntax": grammar.get("syntax"), "definition": grammar["definition"]}
        custom["format"] = {"type": "grammar", "grammar": rules}
    custom.update(own.get("custom", {}))
    add(custom, marks.get("also"))
    return {"type": "custom", "custom": custom, **own.get("tool", {})}


def write_choice(draft: Parts, choice: rq.ToolChoice | None, body: Object) -> None:
    """Which tool may or must be called, as it was said where it was said here."""
    if choice is None:
        return
    given: Object = draft.own(choice.extra)[1].get("choice", {})
    meant = read_choice(given)
    if meant is not None and (meant.mode, meant.names) == (choice.mode, choice.names):
        body.update(given)
    else:
        body["tool_choice"] = _chosen(choice)


def _chosen(choice: rq.ToolChoice) -> Any:
    if choice.mode == "tool" and choice.names:
        return {"type": "function", "function": {"name": choice.names[0]}}
    mode = "required" if choice.mode == "tool" else choice.mode
    if not choice.names or mode == "none":
        return mode
    tools = [{"type": "function", "function": {"name": name}} for name in choice.names]
    return {"type": "allowed_tools", "allowed_tools": {"mode": mode, "tools": tools}}
