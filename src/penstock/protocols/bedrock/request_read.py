"""Converse requests → canonical. `write.py` is the way back; content blocks and settings have files of their own.

Tool results come inside user messages; here they are messages of role `tool`, and what stood beside them follows in a
user message. The system prompt is the first message.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import msgspec

from penstock import request as rq
from penstock import strict_fields as strict
from penstock.errors import BadRequest
from penstock.jsontext import as_json
from penstock.lenient_fields import as_object, get_integer, get_object, get_text
from penstock.markers import grammar_of, restored
from penstock.markers.extract import free_calls
from penstock.markers.marks import OPEN
from penstock.protocols.bedrock.decode_blocks import NAME
from penstock.protocols.bedrock.request_read_parts import cache_of, read_blocks
from penstock.strict_fields import build_extra, empty_fields, unknown_fields

if TYPE_CHECKING:
    from penstock.lenient_fields import Object

SETTINGS = frozenset({
    "inferenceConfig", "additionalModelRequestFields", "outputConfig", "requestMetadata", "serviceTier",
})  # fmt: skip

_REQUEST = SETTINGS | {"modelId", "messages", "system", "toolConfig"}
_TOOL = frozenset({"name", "description", "inputSchema", "strict"})


def read_request(body: Object) -> rq.Request:
    """A request from its parsed body. The model is named in the URL; SDKs say it in the body."""
    strict.as_object(body)
    messages = _system(body)
    for row in strict.read_objects(body, "messages", read_message, need=True):
        messages += row
    settings, marks = read_settings(body)
    config = strict.get_object(body, "toolConfig")
    tools, choice = _tools(config)
    free_calls(messages, tools)
    own = unknown_fields(body, _REQUEST)
    beside = unknown_fields(config, {"tools", "toolChoice"})
    if beside:
        own["toolConfig"] = beside
    extra = build_extra(NAME, own, model="modelId" in body, also=empty_fields(body, _REQUEST), **marks)
    return rq.Request(strict.get_text(body, "modelId"), restored(messages), tools, choice, settings, extra=extra)


def _system(body: Object) -> list[rq.Message]:
    given = body.get("system")
    if not given:
        return []
    if not isinstance(given, list):
        raise BadRequest("a list of blocks", given, "system")
    return [rq.Message("system", read_blocks(given, "system", "user"))]  # pyright: ignore[reportUnknownArgumentType]


def read_message(message: Object) -> list[rq.Message]:
    """One message: several where tool results, carried files and the user share it."""
    role: Any = message.get("role")
    if role not in ("user", "assistant"):
        raise BadRequest("user or assistant", role, "role")
    given = message.get("content")
    if not isinstance(given, list):
        raise BadRequest("a list of blocks", given, "content")
    parts = read_blocks(given, "content", role)  # pyright: ignore[reportUnknownArgumentType]
    extra = build_extra(NAME, unknown_fields(message, {"role", "content"}))
    if role == "user" and any(type(part) is rq.Call for part in parts):
        raise BadRequest("toolUse in messages of the assistant alone", [], "content")
    if role == "assistant":
        return [rq.Message("assistant", parts, extra=extra)]
    return _user(parts, extra)


def _user(parts: list[rq.AnyPart], extra: Any) -> list[rq.Message]:
    results: list[rq.AnyPart] = [part for part in parts if type(part) is rq.Result]
    others: list[rq.AnyPart] = [part for part in parts if type(part) is not rq.Result]
    if not results:
        first, *more = _apart(parts)
        return [rq.Message("user", first, extra=extra), *(rq.Message("user", row) for row in more)]
    made = [rq.Message("tool", results, extra=extra)]
    if others:
        places = [place for place, part in enumerate(parts) if type(part) is not rq.Result]
        first, *more = _apart(others)
        mixed = places if places[0] < len(results) and not more else None
        made += [rq.Message("user", first, extra=build_extra(NAME, {}, joined=True, places=mixed))]
        made += [rq.Message("user", row) for row in more]
    return made


def _apart(parts: list[rq.AnyPart]) -> list[list[rq.AnyPart]]:
    """What had to be joined because nobody may speak twice in a row: carried files, and the user."""
    rows: list[list[rq.AnyPart]] = []
    start = place = 0
    while place < len(parts):
        end, mark = place, _mark(parts, place)
        while mark and _mark(parts, end) == mark:
            end += 2
        if end > place:
            rows += [parts[start:place]] if start < place else []
            rows.append(parts[place:end])
            start = end
        place = max(place + 1, end)
    return [*rows, parts[start:]] if start < len(parts) or not rows else rows


def _mark(parts: list[rq.AnyPart], place: int) -> str:
    """The kind of the mark at a place that has its file behind it."""
    mark, file = (parts[place], parts[place + 1]) if place + 1 < len(parts) else (None, None)
    if type(mark) is not rq.Text or type(file) is not rq.File or not mark.text.startswith(OPEN):
        return ""
    return mark.text.partition(" ")[0]


# ── tools ─────────────────────────────────────────────────────────────────────────────────────────


def _tools(config: Object) -> tuple[list[rq.Tool], rq.ToolChoice | None]:
    tools: list[rq.Tool] = []
    try:
        for tool in strict.read_objects(config, "tools", _tool):
            if tool.cache and not tool.name and tools and not tools[-1].cache:
                tools[-1].cache = tool.cache
            else:
                tool.cache = ""
                tools.append(tool)
        choice = config.get("toolChoice")
        return tools, None if choice is None else strict.read_object(config, "toolChoice", _choice)
    except BadRequest as error:
        raise error.at("toolConfig") from None


def _tool(given: Object) -> rq.Tool:
    if given.get("toolSpec") is not None:
        return strict.read_object(given, "toolSpec", lambda said: _function(said, unknown_fields(given, {"toolSpec"})))
    kind = next(iter(given), "")
    if kind == "cachePoint":
        return rq.Tool("", kind="unknown", cache=cache_of(given[kind]), extra={NAME: {"tool": given}})
    inner = given.get(kind)
    name = strict.get_text(cast("Object", inner), "name") if isinstance(inner, dict) else ""
    known = kind == "systemTool"
    return rq.Tool(name or kind, kind="provider" if known else "unknown", extra={NAME: {"tool": given}})


def _function(said: Object, beside: Object) -> rq.Tool:
    holder = strict.get_object(said, "inputSchema")
    schema = strict.get_object(holder, "json") if holder.get("json") is not None else None
    free = None if schema is None else grammar_of(schema)
    own = unknown_fields(said, _TOOL) if said.keys() - _TOOL else {}
    if beside:
        own["beside"] = beside
    return rq.Tool(
        strict.require_text(said, "name"),
        strict.get_text(said, "description"),
        schema if free is None else free or None,
        kind="function" if free is None else "custom",
        strict=strict.get_flag(said, "strict"),
        extra=build_extra(NAME, own, empty=said.get("description") == ""),
    )


def _choice(given: Object) -> rq.ToolChoice | None:
    kind = next((key for key in given if given[key] is not None), "")
    if not kind:
        return None
    if kind not in ("auto", "any", "tool"):
        return rq.ToolChoice(extra={NAME: {"choice": given}})
    if kind == "tool":
        name = strict.read_object(given, "tool", lambda said: strict.require_text(said, "name"))
        return rq.ToolChoice("tool", [name])
    return rq.ToolChoice("auto" if kind == "auto" else "required")


_CONFIG = frozenset({"maxTokens", "max_new_tokens", "temperature", "topP", "stopSequences"})
THOUGHTS = ("thinking", "reasoning_config", "reasoningConfig")


class Wishes(msgspec.Struct, frozen=True):
    """What additional fields ask for, as far as it has a canonical word."""

    budget: int | None = None
    thoughts: bool | None = None
    effort: str = ""
    top_k: int | None = None


def wishes(fields: Object) -> Wishes:
    """Read additional fields, each model family's own."""
    key = next((key for key in THOUGHTS if isinstance(fields.get(key), dict)), "")
    said = get_object(fields, key)
    effort = get_text(get_object(fields, "output_config"), "effort") or get_text(fields, "reasoning_effort")
    effort = effort or get_text(said, "maxReasoningEffort")
    kind, budget = get_text(said, "type"), get_integer(said, "budget_tokens")
    if kind == "disabled":
        budget = 0
    shown = True if kind and kind != "disabled" and budget is None and not effort else None
    top_k = get_integer(fields, "top_k")
    if top_k is None:
        top_k = get_integer(get_object(fields, "inferenceConfig"), "topK")
    return Wishes(budget, shown, effort, top_k)


def read_settings(body: Object) -> tuple[rq.Settings, Object]:
    """The settings, and how they were said."""
    config = strict.get_object(body, "inferenceConfig")
    more = strict.get_object(body, "additionalModelRequestFields")
    wished = wishes(more)
    form, spelled = _format(body)
    limit = "maxTokens" if config.get("maxTokens") is not None else "max_new_tokens"
    tier = body.get("serviceTier")
    marks = {
        "limit": limit if limit != "maxTokens" and limit in config else "", "config": unknown_fields(config, _CONFIG),
        "unsaid": empty_fields(config, _CONFIG), "more": more, "output": spelled,
    }  # fmt: skip
    try:
        settings = rq.Settings(
            max_output=strict.get_integer(config, limit),
            temperature=strict.get_number(config, "temperature"),
            top_p=strict.get_number(config, "topP"),
            stop=strict.get_strings(config, "stopSequences"),
        )
    except BadRequest as error:
        raise error.at("inferenceConfig") from None
    settings.top_k, settings.budget = wished.top_k, wished.budget
    settings.effort, settings.thoughts = wished.effort, wished.thoughts
    settings.format = form
    settings.tier = get_text(as_object(tier), "type")
    settings.metadata = strict.get_object(body, "requestMetadata") or None
    if tier is not None and unknown_fields(as_object(tier), {"type"}):
        marks["tier"] = tier
    return settings, marks


def _format(body: Object) -> tuple[rq.Format | None, Any]:
    """The schema of the answer is JSON inside of a string."""
    output = strict.get_object(body, "outputConfig")
    if not output:
        return None, None
    said = get_object(get_object(get_object(output, "textFormat"), "structure"), "jsonSchema")
    try:
        schema = msgspec.json.decode(get_text(said, "schema"))
    except (msgspec.DecodeError, UnicodeEncodeError):
        return None, output
    if not isinstance(schema, dict):
        return None, output
    form = rq.Format("schema", get_text(said, "name"), as_object(schema), get_text(said, "description"))
    return form, None if write_format(form) == output else output


def write_format(form: rq.Format) -> Object:
    """The usual way to ask for a schema."""
    schema: Object = {"name": form.name} if form.name else {}
    if form.description:
        schema["description"] = form.description
    schema["schema"] = as_json(form.schema or {"type": "object"})
    return {"textFormat": {"type": "json_schema", "structure": {"jsonSchema": schema}}}
