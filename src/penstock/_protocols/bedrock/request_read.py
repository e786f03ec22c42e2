"""Reads Converse requests: messages, tools, settings. `request_write.py` is the opposite direction.

Converse puts tool results into user messages. Here they become messages of role `tool`; other content of the same
message follows in a user message. The system prompt becomes the first message.
"""

from __future__ import annotations

from typing import Any, cast

import msgspec

from penstock import _strict_fields as strict
from penstock import request as rq
from penstock._lenient_fields import Object, as_object, get_integer, get_object, get_text
from penstock._lenient_json import as_json
from penstock._markers import MARK_START, extract_markers, parse_free_text_schema, restore_free_text_calls
from penstock._protocols.bedrock.request_parts import read_blocks, read_cache_time
from penstock._protocols.bedrock.wire import NAME
from penstock._request_writer import drop_empty
from penstock._strict_fields import build_extra, empty_fields, unknown_fields
from penstock.errors import BadRequest

THINKING_FIELDS = ("thinking", "reasoning_config", "reasoningConfig")
SETTINGS = {"temperature": "temperature", "topP": "top_p", "stopSequences": "stop"}
_REQUEST_WORDS = """inferenceConfig additionalModelRequestFields outputConfig requestMetadata serviceTier modelId
    messages system toolConfig"""
_REQUEST_FIELDS = frozenset(_REQUEST_WORDS.split())
_TOOL_FIELDS = frozenset({"name", "description", "inputSchema", "strict"})
_CONFIG_FIELDS = {"maxTokens", "max_new_tokens", *SETTINGS}


def read_request(body: Object) -> rq.Request:
    """Reads a request from its parsed body. HTTP names the model in the URL; SDKs name it in the body."""
    strict.as_object(body)
    messages = _read_system(body)
    for row in strict.read_objects(body, "messages", read_message, need=True):
        messages += row
    settings, marks = _read_settings(body)
    config = strict.get_object(body, "toolConfig")
    tools, choice = _read_tools(config)
    restore_free_text_calls(messages, tools)
    native = unknown_fields(body, _REQUEST_FIELDS)
    native |= drop_empty(toolConfig=unknown_fields(config, {"tools", "toolChoice"}))
    extra = build_extra(NAME, native, model="modelId" in body, also=empty_fields(body, _REQUEST_FIELDS), **marks)
    messages = extract_markers(messages, failed=False)
    return rq.Request(strict.get_text(body, "modelId"), messages, tools, choice, settings, extra=extra)


# ── messages ──────────────────────────────────────────────────────────────────────────────────────


def _read_system(body: Object) -> list[rq.Message]:
    source = body.get("system")
    if not source:
        return []
    if not isinstance(source, list):
        raise BadRequest("a list of blocks", source, "system")
    return [rq.Message("system", read_blocks(source, "system", "user"))]  # pyright: ignore[reportUnknownArgumentType]


def read_message(message: Object) -> list[rq.Message]:
    """Reads one message. Returns several if it has tool results, carried files and other content."""
    role: Any = message.get("role")
    if role not in ("user", "assistant"):
        raise BadRequest("user or assistant", role, "role")
    source = message.get("content")
    if not isinstance(source, list):
        raise BadRequest("a list of blocks", source, "content")
    parts = read_blocks(source, "content", role)  # pyright: ignore[reportUnknownArgumentType]
    extra = build_extra(NAME, unknown_fields(message, {"role", "content"}))
    if role == "user" and any(type(part) is rq.Call for part in parts):
        raise BadRequest("toolUse in messages of the assistant alone", [], "content")
    if role == "assistant":
        return [rq.Message("assistant", parts, extra=extra)]
    return _split_user_message(parts, extra)


def _split_user_message(parts: list[rq.AnyPart], extra: Any) -> list[rq.Message]:
    results, others, positions = strict.split_results(parts)
    tool = [rq.Message("tool", results, extra=extra)] if results else []
    if results and not others:
        return tool
    first, *more = _split_off_marked_files(others)
    if results:
        extra = build_extra(NAME, {}, joined=True, places=None if more else positions)
    return [*tool, rq.Message("user", first, extra=extra), *(rq.Message("user", row) for row in more)]


def _split_off_marked_files(parts: list[rq.AnyPart]) -> list[list[rq.AnyPart]]:
    """Separates carried files from the user's parts. The writer joins them, because roles must alternate."""
    rows: list[list[rq.AnyPart]] = []
    start = position = 0
    while position < len(parts):
        end, mark = position, _get_file_mark(parts, position)
        while mark and _get_file_mark(parts, end) == mark:
            end += 2
        if end > position:
            rows += [parts[start:position]] if start < position else []
            rows.append(parts[position:end])
            start = end
        position = max(position + 1, end)
    return [*rows, parts[start:]] if start < len(parts) or not rows else rows


def _get_file_mark(parts: list[rq.AnyPart], position: int) -> str:
    """Returns the kind of the mark at `position`, if a file follows it."""
    mark, file = (parts[position], parts[position + 1]) if position + 1 < len(parts) else (None, None)
    if type(mark) is not rq.Text or type(file) is not rq.File or not mark.text.startswith(MARK_START):
        return ""
    return mark.text.partition(" ")[0]


# ── tools ─────────────────────────────────────────────────────────────────────────────────────────


def _read_tools(config: Object) -> tuple[list[rq.Tool], rq.ToolChoice | None]:
    tools: list[rq.Tool] = []
    try:
        for tool in strict.read_objects(config, "tools", _read_tool):
            if tool.cache and not tool.name and tools and not tools[-1].cache:
                tools[-1].cache = tool.cache
            else:
                tool.cache = ""
                tools.append(tool)
        return tools, strict.read_optional(config, "toolChoice", _read_choice)
    except BadRequest as error:
        raise error.at("toolConfig") from None


def _read_tool(source: Object) -> rq.Tool:
    if source.get("toolSpec") is not None:
        beside = unknown_fields(source, {"toolSpec"})
        return strict.read_object(source, "toolSpec", lambda spec: _read_function(spec, beside))
    kind = next(iter(source), "")
    if kind == "cachePoint":
        return rq.Tool("", kind="unknown", cache=read_cache_time(source[kind]), extra={NAME: {"tool": source}})
    inner = source.get(kind)
    name = strict.get_text(cast("Object", inner), "name") if isinstance(inner, dict) else ""
    tool_kind: rq.ToolKind = "provider" if kind == "systemTool" else "unknown"
    return rq.Tool(name or kind, kind=tool_kind, extra={NAME: {"tool": source}})


def _read_function(spec: Object, beside: Object) -> rq.Tool:
    holder = strict.get_object(spec, "inputSchema")
    schema = strict.get_object(holder, "json") if holder.get("json") is not None else None
    grammar = None if schema is None else parse_free_text_schema(schema)
    native = unknown_fields(spec, _TOOL_FIELDS) | drop_empty(beside=beside)
    return rq.Tool(
        strict.require_text(spec, "name"),
        strict.get_text(spec, "description"),
        schema if grammar is None else grammar or None,
        kind="function" if grammar is None else "custom",
        strict=strict.get_flag(spec, "strict"),
        extra=build_extra(NAME, native, empty=spec.get("description") == ""),
    )


def _read_choice(source: Object) -> rq.ToolChoice | None:
    kind = next((key for key in source if source[key] is not None), "")
    if not kind:
        return None
    if kind not in ("auto", "any", "tool"):
        return rq.ToolChoice(extra={NAME: {"choice": source}})
    if kind == "tool":
        name = strict.read_object(source, "tool", lambda tool: strict.require_text(tool, "name"))
        return rq.ToolChoice("tool", [name])
    return rq.ToolChoice("auto" if kind == "auto" else "required")


# ── settings ──────────────────────────────────────────────────────────────────────────────────────


class ModelFields(msgspec.Struct, frozen=True):
    """The canonical settings in the additional fields of a model family."""

    budget: int | None = None
    thoughts: bool | None = None
    effort: str = ""
    top_k: int | None = None


def read_model_fields(fields: Object) -> ModelFields:
    """Reads additional fields. Each model family has its own."""
    key = next((key for key in THINKING_FIELDS if isinstance(fields.get(key), dict)), "")
    thinking = get_object(fields, key)
    effort = get_text(get_object(fields, "output_config"), "effort") or get_text(fields, "reasoning_effort")
    effort = effort or get_text(thinking, "maxReasoningEffort")
    kind, budget = get_text(thinking, "type"), get_integer(thinking, "budget_tokens")
    if kind == "disabled":
        budget = 0
    shown = True if kind and kind != "disabled" and budget is None and not effort else None
    top_k = get_integer(fields, "top_k")
    if top_k is None:
        top_k = get_integer(get_object(fields, "inferenceConfig"), "topK")
    return ModelFields(budget, shown, effort, top_k)


def _read_settings(body: Object) -> tuple[rq.Settings, Object]:
    """Returns the settings and the marks of their spelling."""
    config = strict.get_object(body, "inferenceConfig")
    more = strict.get_object(body, "additionalModelRequestFields")
    fields = read_model_fields(more)
    form, output = _read_format(body)
    limit = "maxTokens" if config.get("maxTokens") is not None else "max_new_tokens"
    marks = {
        "limit": limit if limit != "maxTokens" and limit in config else "",
        "config": unknown_fields(config, _CONFIG_FIELDS),
        "unsaid": empty_fields(config, _CONFIG_FIELDS),
        "more": more,
        "output": output,
    }
    try:
        settings = rq.Settings(**strict.read_settings(config, {limit: "max_output", **SETTINGS}))
    except BadRequest as error:
        raise error.at("inferenceConfig") from None
    for name in ModelFields.__struct_fields__:
        setattr(settings, name, getattr(fields, name))
    tier = body.get("serviceTier")
    settings.format, settings.tier = form, get_text(as_object(tier), "type")
    settings.metadata = strict.get_object(body, "requestMetadata") or None
    if tier is not None and unknown_fields(as_object(tier), {"type"}):
        marks["tier"] = tier
    return settings, marks


def _read_format(body: Object) -> tuple[rq.Format | None, Any]:
    """Returns the answer's format, and the field if it cannot be rebuilt. The schema is JSON inside a string."""
    output = strict.get_object(body, "outputConfig")
    if not output:
        return None, None
    source = get_object(get_object(get_object(output, "textFormat"), "structure"), "jsonSchema")
    try:
        schema = msgspec.json.decode(get_text(source, "schema"))
    except (msgspec.DecodeError, UnicodeEncodeError):
        return None, output
    if not isinstance(schema, dict):
        return None, output
    form = rq.Format("schema", get_text(source, "name"), as_object(schema), get_text(source, "description"))
    return form, None if build_output_config(form) == output else output


def build_output_config(form: rq.Format) -> Object:
    """Returns the usual request for a schema."""
    schema = drop_empty(name=form.name, description=form.description)
    schema["schema"] = as_json(form.schema or {"type": "object"})
    return {"textFormat": {"type": "json_schema", "structure": {"jsonSchema": schema}}}
