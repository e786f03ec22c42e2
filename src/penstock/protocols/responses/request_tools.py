"""Responses tools and tool choice → canonical. Tools in a namespace are tools that know it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock import pick, reading
from penstock import request as rq
from penstock.protocols.responses.speech import NAME
from penstock.reading import keep, rest, unsaid

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.pick import Object

MODES: dict[str, rq.ChoiceMode] = {"auto": "auto", "none": "none", "required": "required"}
RUN = (  # beginnings of the types of tools that the provider runs; the client runs the rest, or nobody here knows it
    "web_search", "file_search", "code_interpreter", "image_generation", "mcp", "x_search",
)  # fmt: skip
_FUNCTION = frozenset({"type", "name", "description", "parameters", "strict"})
_CUSTOM = frozenset({"type", "name", "description"})


def read_tools(source: Object) -> list[rq.Tool]:
    """All tools on offer; groups of them flattened."""
    return [tool for row in reading.rows(source, "tools", _read) for tool in row]


def _read(tool: Object) -> list[rq.Tool]:
    kind = tool.get("type", "function")
    read = _KINDS.get(kind) if isinstance(kind, str) else None
    if kind == "namespace" and tool.get("tools"):
        return _namespace(tool)
    return [_other(tool, str(kind)) if read is None else read(tool)]


def _function(tool: Object) -> rq.Tool:
    if isinstance(tool.get("function"), dict):
        return _nested(tool)
    made = _described(tool)
    whole = made.description and made.schema and "type" in tool and tool.get("strict", 0) is not None
    if not (whole and tool.keys() <= _FUNCTION):
        marks = {"also": unsaid(tool, _FUNCTION), "untyped": "type" not in tool}
        made.extra = keep(NAME, rest(tool, _FUNCTION), **marks)
    return made


def _described(said: Object) -> rq.Tool:
    schema = None if said.get("parameters") is None else reading.table(said, "parameters")
    return rq.Tool(
        reading.needed(said, "name"), reading.text(said, "description"), schema, strict=reading.flag(said, "strict")
    )


def _nested(tool: Object) -> rq.Tool:
    """A function as Chat describes it."""
    made = reading.inside(tool, "function", _described)
    said: Object = tool["function"]
    made.extra = keep(
        NAME, rest(tool, {"type", "function"}), nested=True, inner=rest(said, _FUNCTION), also=unsaid(said, _FUNCTION)
    )
    return made


def _custom(tool: Object) -> rq.Tool:
    form = reading.table(tool, "format")
    grammar = form if form.get("type") == "grammar" else None
    known = _CUSTOM | {"format"} if grammar else _CUSTOM
    extra = keep(NAME, rest(tool, known), also=unsaid(tool, known))
    return rq.Tool(reading.needed(tool, "name"), reading.text(tool, "description"), grammar, "custom", extra=extra)


def _namespace(group: Object) -> list[rq.Tool]:
    name = reading.needed(group, "name")
    made = read_tools(group)
    for tool in made:
        tool.namespace = tool.namespace or name
    own = (made[0].extra or {}).get(NAME, {})
    about = rest(group, {"type", "name", "tools"})
    made[0].extra = {NAME: {**own, "_": {**own.get("_", {}), "space": about}}}
    return made


def _other(tool: Object, kind: str) -> rq.Tool:
    """A tool of a type that is all there is to know about it."""
    name = pick.text(tool, "name", "server_label") or ("computer" if kind.startswith("computer") else kind)
    contained = pick.text(pick.table(tool, "environment"), "type").startswith("container")
    run: rq.ToolKind = "provider" if kind.startswith(RUN) or contained else "unknown"
    return rq.Tool(name, pick.text(tool, "description"), kind=run, extra={NAME: {"tool": tool}})


_KINDS: dict[str, Callable[[Object], rq.Tool]] = {"function": _function, "custom": _custom}

# ── tool choice ───────────────────────────────────────────────────────────────────────────────────


def read_choice(body: Object) -> rq.ToolChoice | None:
    """Which tool may or must be called. An object is kept as it was said."""
    choice: Any = body.get("tool_choice")
    if choice is None:
        return None
    if isinstance(choice, str):
        return rq.ToolChoice(reading.word(body, "tool_choice", MODES))
    return reading.inside(body, "tool_choice", _chosen)


def _chosen(choice: Object) -> rq.ToolChoice:
    kind = reading.needed(choice, "type")
    extra = {NAME: {"_": {"choice": choice}}}
    if kind in MODES:
        return rq.ToolChoice(MODES[kind], extra=extra)
    if kind == "allowed_tools":
        names = reading.rows(choice, "tools", _name)
        return rq.ToolChoice(reading.word(choice, "mode", MODES), [name for name in names if name], extra)
    return rq.ToolChoice("tool", [_name(choice)], extra)


def _name(tool: Object) -> str:
    """A tool by its name; those without one go by their type, as they do among the tools."""
    inner = pick.table(tool, pick.text(tool, "type"))
    return pick.text(inner, "name") or pick.text(tool, "name", "server_label", "type")
