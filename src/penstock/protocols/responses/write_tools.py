"""Canonical tools and tool choice → Responses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.writing import add, said

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock import request as rq
    from penstock.pick import Object
    from penstock.protocols.responses.write_content import Content

_NOTHING: Object = {"type": "object", "properties": {}}  # the input of a tool that has none


def write_tools(draft: Content, tools: Iterable[rq.Tool]) -> list[Object]:
    """All tools; those of one namespace, as far as they follow each other, in one group."""
    made: list[Object] = []
    group: Object = {}
    for tool in tools:
        own, marks = draft.own(tool.extra)
        one = None if "elsewhere" in marks else _tool(draft, tool, own, marks)
        if one is None:
            continue
        if not tool.namespace:
            made.append(one)
            group = {}
        elif group.get("name") == tool.namespace and "space" not in marks:
            group["tools"].append(one)
        else:
            about = marks.get("space", {"description": ""})
            group = {"type": "namespace", **about, "name": tool.namespace, "tools": [one]}
            made.append(group)
    return made


def _tool(draft: Content, tool: rq.Tool, own: Object, marks: Object) -> Object | None:
    if "tool" in own:
        return own["tool"]  # type: ignore[no-any-return]
    if tool.kind in ("provider", "unknown"):
        draft.lose("tool", tool.name)
        draft.hint(tool, {}, fits=False)
        return None
    made = _custom(tool) if tool.kind == "custom" else _function(draft, tool)
    if "nested" in marks:
        inner = {key: value for key, value in made.items() if key != "type"}
        add(inner, marks.get("also"))
        return {"type": "function", "function": {**inner, **marks.get("inner", {})}, **own}
    if "untyped" in marks:
        del made["type"]
    made.update(own)
    add(made, marks.get("also"))
    draft.hint(tool, made, fits=False)
    return made


def _custom(tool: rq.Tool) -> Object:
    return {"type": "custom", **said(name=tool.name, description=tool.description, format=tool.schema)}


def _function(draft: Content, tool: rq.Tool) -> Object:
    made: Object = {"type": "function", "name": tool.name}
    if tool.description:
        made["description"] = tool.description
    if tool.schema is not None or not draft.native:
        made["parameters"] = _NOTHING if tool.schema is None else tool.schema
    if tool.strict is not None or not draft.native:
        made["strict"] = bool(tool.strict)  # unlike elsewhere, a tool that does not say is strict here
    return made


def write_choice(draft: Content, choice: rq.ToolChoice, tools: Iterable[rq.Tool]) -> Any:
    """Which tool may or must be called, as it was said where it was said here."""
    marks = draft.own(choice.extra)[1]
    if "choice" in marks:
        return marks["choice"]
    if choice.mode == "none" or not choice.names:
        return "required" if choice.mode == "tool" else choice.mode
    kinds = {tool.name: tool.kind for tool in tools}
    rows = [{"type": "custom" if kinds.get(name) == "custom" else "function", "name": name} for name in choice.names]
    return rows[0] if choice.mode == "tool" else {"type": "allowed_tools", "mode": choice.mode, "tools": rows}
