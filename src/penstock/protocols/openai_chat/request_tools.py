"""Chat Completions tools and tool choice → canonical."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock import reading
from penstock import request as rq
from penstock.errors import BadRequest
from penstock.pick import as_object
from penstock.protocols.openai_chat.request_parts import cached
from penstock.protocols.openai_chat.request_thoughts import NAME
from penstock.reading import keep, rest, unsaid

if TYPE_CHECKING:
    from penstock.pick import Object

MODES: dict[str, rq.ChoiceMode] = {"auto": "auto", "none": "none", "required": "required", "any": "required"}
_FUNCTION = frozenset({"name", "description", "parameters", "strict"})


def read_tools(body: Object) -> list[rq.Tool]:
    """Tools, and what was called functions before there were others."""
    return [*reading.rows(body, "tools", read_tool), *reading.rows(body, "functions", _legacy)]


def read_tool(tool: Object) -> rq.Tool:
    """A tool of any type; one of a type without a word is kept whole."""
    kind = tool.get("type", "function")
    if kind == "function":
        return _function(tool)
    if kind == "custom":
        return reading.inside(tool, "custom", lambda said: _custom(tool, said))
    return rq.Tool(reading.text(tool, "name") or str(kind), kind="unknown", extra={NAME: {"tool": tool}})


def _function(tool: Object) -> rq.Tool:
    if "function" not in tool:
        return _flat(tool)
    said = tool["function"]
    try:
        made = _described(reading.as_object(said), "parameters")
        usual = len(said) == 3 + (made.strict is not None) and made.schema is not None and made.description
        if usual and len(tool) == 2 and "type" in tool:  # noqa: PLR2004 — nothing else is said
            return made
        function, also = rest(said, _FUNCTION), unsaid(said, _FUNCTION)
    except BadRequest as error:
        raise error.at("function") from None
    made.cache = cached(tool) or ""
    beside = rest(tool, {"type", "function", "cache_control"})
    hint = {"cache_control": tool["cache_control"]} if made.cache else None
    fields = {key: value for key, value in (("function", function), ("tool", beside)) if value}
    made.extra = keep(NAME, fields, also=also, hint=hint, untyped="type" not in tool)
    return made


def _described(said: Object, schema: str) -> rq.Tool:
    given: Any = said.get(schema)
    if not isinstance(given, dict | None):
        raise BadRequest("an object", given, schema)
    strict = None if said.get("strict") is None else reading.flag(said, "strict")
    return rq.Tool(reading.needed(said, "name"), reading.text(said, "description"), given, "function", strict)  # pyright: ignore[reportUnknownArgumentType]


def _flat(tool: Object) -> rq.Tool:
    """A function said as other protocols say it: without the object around it, its schema under another name."""
    made = _described(tool, "input_schema" if "parameters" not in tool and "input_schema" in tool else "parameters")
    made.cache = cached(tool) or ""
    function = rest(tool, _FUNCTION | {"type", "input_schema", "cache_control"})
    made.extra = keep(NAME, {"function": function} if function else {})
    return made


def _custom(tool: Object, said: Object) -> rq.Tool:
    form = reading.table(said, "format")
    schema = read_grammar(form)
    fields = {"tool": rest(tool, {"type", "custom"}), "custom": rest(said, {"name", "description", "format"})}
    made = rq.Tool(reading.needed(said, "name"), reading.text(said, "description"), schema, "custom")
    made.extra = keep(
        NAME,
        {key: value for key, value in fields.items() if value},
        also=unsaid(said, {"name", "description"}),
        format=form,
    )
    return made


def read_grammar(form: Object) -> Object | None:
    """The grammar of free text, if there is one."""
    if form.get("type") != "grammar":
        return None
    grammar = reading.table(form, "grammar") or form
    return {"type": "grammar", "syntax": grammar.get("syntax"), "definition": grammar.get("definition")}


def _legacy(function: Object) -> rq.Tool:
    made = _described(function, "parameters")
    strange = rest(function, _FUNCTION)
    made.extra = keep(NAME, {"function": strange} if strange else {}, also=unsaid(function, _FUNCTION), legacy=True)
    return made


# ── tool choice ───────────────────────────────────────────────────────────────────────────────────


def read_choice(body: Object) -> rq.ToolChoice | None:
    """Which tool may or must be called, in all the ways it can be said."""
    key = "tool_choice" if body.get("tool_choice") is not None else "function_call"
    choice: Any = body.get(key)
    if choice is None:
        return None
    if isinstance(choice, str):
        made = rq.ToolChoice(reading.word(body, key, MODES))
    else:
        made = reading.inside(body, key, _chosen)
    # What is said as another protocol says it is mended; these are this one's own.
    kind = as_object(choice).get("type")
    odd = key == "function_call" or choice == "any" or (kind in ("custom", "allowed_tools") and kind in choice)
    made.extra = {NAME: {"_": {"choice": {key: choice}}}} if odd else None
    return made


def _chosen(choice: Object) -> rq.ToolChoice:
    kind = choice.get("type", "function")
    if kind == "allowed_tools":
        return reading.inside(choice, "allowed_tools", _allowed)
    if isinstance(kind, str) and kind in MODES:
        return rq.ToolChoice(MODES[kind])
    if isinstance(choice.get("name"), str):
        return rq.ToolChoice("tool", [choice["name"]])
    if kind not in ("function", "custom"):
        raise BadRequest("function, custom or allowed_tools", kind, "type")
    return rq.ToolChoice("tool", [reading.inside(choice, kind, lambda said: reading.needed(said, "name"))])


def _allowed(allowed: Object) -> rq.ToolChoice:
    names = reading.rows(allowed, "tools", _allowed_name)
    return rq.ToolChoice(reading.word(allowed, "mode", MODES), [name for name in names if name])


def _allowed_name(tool: Object) -> str:
    kind = tool.get("type")
    inner = reading.table(tool, kind) if isinstance(kind, str) else {}
    return reading.text(inner, "name") or reading.text(tool, "name")
