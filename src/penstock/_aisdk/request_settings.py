"""The fields of an AI SDK call beside its messages: settings, tools, tool choice, provider options. Both ways.

They are the same for model messages and for what a page posts with UI messages. Settings without a field in the SDK
are under our key in the provider options.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from penstock import _lenient_fields as lenient
from penstock import _strict_fields as strict
from penstock import request as rq
from penstock._aisdk import PENSTOCK, SDK, TABLES
from penstock._aisdk.provider_options import (
    OPTION_KEYS,
    OPTIONS,
    build_part_extra,
    read_extra_fields,
    read_options,
    report_foreign_fields,
    write_extra_fields,
    write_options,
)
from penstock._request_writer import RequestDraft, drop_empty, split_extra
from penstock.errors import BadRequest

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet

    from penstock._lenient_fields import Object

_REQUEST_KEYS = OPTION_KEYS[SDK]  # the same for requests of both protocols
FIELDS: dict[str, list[str]] = TABLES["setting_fields"]
_COMMON_FIELDS = "model messages tools toolChoice activeTools stream"
_KNOWN_FIELDS = {*_COMMON_FIELDS.split(), *_REQUEST_KEYS, *(key for keys in FIELDS.values() for key in keys)}
MODES: dict[str, rq.ChoiceMode] = {"auto": "auto", "none": "none", "required": "required", "tool": "tool"}
CUSTOM = "openai.custom"  # the SDK's id of a free-text tool
_DEFAULT_EFFORT = "provider-default"  # the effort that requests nothing
_INTEGER_FIELDS = ("max_output", "top_k", "seed")
_NUMBER_FIELDS = ("temperature", "top_p", "frequency_penalty", "presence_penalty")


def build_request(
    body: Object,
    protocol: str,
    known: AbstractSet[str],
    tools: list[rq.Tool],
    messages: list[rq.Message],
    *,
    stream: bool,
    **marks: Any,
) -> rq.Request:
    """Builds a request from its tools and messages; reads the other fields. `known` are fields of this protocol."""
    option_key = next((option_key for option_key in _REQUEST_KEYS if option_key in body), "")
    options = strict.get_object(body, option_key) if option_key else {}
    ours = lenient.get_object(options, PENSTOCK)
    settings, setting_marks = _read_settings(body, ours)
    marks |= {
        **setting_marks,
        "word": "" if option_key == OPTIONS else option_key,
        "named": isinstance(body.get("tools"), dict),
    }
    known = known | _KNOWN_FIELDS
    unknown = {key: value for key, value in body.items() if key not in known or value is None}
    return rq.Request(
        strict.get_text(body, "model"),
        messages,
        tools,
        _read_choice(body),
        settings,
        stream=stream,
        usage=strict.get_flag(ours, "usage"),
        options={key: value for key, value in options.items() if key != PENSTOCK},
        extra=build_part_extra(protocol, read_options({OPTIONS: {PENSTOCK: ours}} if ours else {}), unknown, **marks),
    )


def write_request_fields(request: rq.Request, draft: RequestDraft, marks: Object, *, with_stream: bool) -> Object:
    """Writes all fields of a request but its model and messages."""
    body = {**_write_tools(request, draft, named=bool(marks.get("named"))), **_write_choice(request.choice)}
    if with_stream:
        body["stream"] = request.stream
    settings, unsupported = _write_settings(request.settings, marks)
    report_foreign_fields(draft, request.extra)
    ours = write_options(request.extra, {}, protocol=draft.protocol, settings=unsupported, usage=request.usage).get(
        OPTIONS, {}
    )
    options = {**request.options, **({PENSTOCK: ours[PENSTOCK]} if PENSTOCK in ours else {})}
    return {**body, **settings, **({marks.get("word") or OPTIONS: options} if options else {})}


def _read_settings(body: Object, ours: Object) -> tuple[rq.Settings, Object]:
    """Reads the settings; also returns how they were spelled."""
    spellings = {
        field: next((spelling for spelling in row if spelling in body), row[0]) for field, row in FIELDS.items()
    }
    our_settings = lenient.get_object(ours, "settings")
    try:
        settings = msgspec.convert(our_settings, rq.Settings)
    except msgspec.ValidationError:
        raise BadRequest("settings of ours", our_settings, f"{OPTIONS}.{PENSTOCK}.settings") from None
    for field in _INTEGER_FIELDS:
        setattr(settings, field, strict.get_integer(body, spellings[field]))
    for field in _NUMBER_FIELDS:
        setattr(settings, field, strict.get_number(body, spellings[field]))
    settings.stop = strict.get_strings(body, spellings["stop"])
    effort = strict.get_text(body, spellings["effort"])
    settings.effort = "" if effort == _DEFAULT_EFFORT else effort
    is_strict = settings.format.strict if settings.format else None
    format_fields = strict.get_object(body, "responseFormat")
    settings.format = strict.read_object(body, "responseFormat", _read_format) if format_fields else None
    if settings.format is not None:
        settings.format.strict = is_strict
    unusual = {field: spelling for field, spelling in spellings.items() if spelling != FIELDS[field][0]}
    rest = strict.unknown_fields(format_fields, {"type", "schema", "name", "description"})
    return settings, {"words": unusual, "effort": _DEFAULT_EFFORT if effort == _DEFAULT_EFFORT else "", "format": rest}


def _read_format(fields: Object) -> rq.Format:
    schema = strict.get_object(fields, "schema") or None
    kind: rq.FormatKind = "text" if fields.get("type") != "json" else "schema" if schema else "json"
    name, description = strict.get_text(fields, "name"), strict.get_text(fields, "description")
    return rq.Format(kind, name, schema, description)


def _write_settings(settings: rq.Settings, marks: Object) -> tuple[Object, Object]:
    """Writes the settings; also returns those that the SDK has no field for."""
    spellings: Object = marks.get("words", {})
    unsupported: Object = msgspec.to_builtins(settings)
    body = {
        spellings.get(field) or row[0]: unsupported.pop(field) for field, row in FIELDS.items() if field in unsupported
    }
    if settings.format is not None:
        form = settings.format
        described = drop_empty(schema=form.schema, name=form.name, description=form.description)
        body["responseFormat"] = {
            "type": "text" if form.kind == "text" else "json",
            **described,
            **marks.get("format", {}),
        }
        if form.strict is not None:
            unsupported["format"] = {"kind": form.kind, "strict": form.strict}
    if marks.get("effort") and not settings.effort:
        body["reasoning"] = marks["effort"]
    return body, unsupported


# ── tools ─────────────────────────────────────────────────────────────────────────────────────────

_TOOL = frozenset({"type", "name", "description", "inputSchema", "parameters", "strict"})


def read_tools(body: Object) -> list[rq.Tool]:
    """Reads tools: an object by name (the SDK's form), or a list (its providers' form)."""
    value = body.get("tools")
    if not isinstance(value, dict):
        return strict.read_objects(body, "tools", read_tool)
    tools: list[rq.Tool] = []
    for name, tool in strict.get_object(body, "tools").items():
        try:
            tools.append(read_tool({**strict.as_object(tool), "name": name}))
        except BadRequest as error:
            raise error.at(name).at("tools") from None
    return tools


def read_tool(tool: Object) -> rq.Tool:
    """Reads a tool of any type. A provider's tool is kept as it is, except a free-text tool."""
    kind = tool.get("type")
    if kind in ("provider", "provider-defined"):
        return _read_provider_tool(tool)
    if kind not in (None, "function", "dynamic"):
        return rq.Tool(strict.require_text(tool, "name"), kind="unknown", extra={SDK: {"tool": tool}})
    schema_key = "parameters" if "inputSchema" not in tool and "parameters" in tool else "inputSchema"
    schema = strict.get_object(tool, schema_key)
    is_wrapped = "jsonSchema" in schema and "type" not in schema
    if is_wrapped:
        schema = strict.get_object(schema, "jsonSchema")
    name, description = strict.require_text(tool, "name"), strict.get_text(tool, "description")
    parsed_tool = rq.Tool(
        name, description, schema if schema_key in tool else None, strict=strict.get_flag(tool, "strict")
    )
    marks: Object = {"old": schema_key == "parameters", "wrapped": is_wrapped, "blank": tool.get("description") == ""}
    ours = read_extra_fields(parsed_tool, tool, _TOOL, kind="" if kind == "function" else kind or "-", **marks)
    parsed_tool.namespace = lenient.get_text(ours, "namespace")
    return parsed_tool


def _read_provider_tool(tool: Object) -> rq.Tool:
    name, args = strict.require_text(tool, "name"), strict.get_object(tool, "args")
    if tool.get("id") != CUSTOM:
        return rq.Tool(name, kind="provider", extra={SDK: {"tool": tool}})
    grammar = strict.get_object(args, "format") or None
    schema = None if grammar is None or grammar.get("type") == "text" else grammar
    parsed_tool = rq.Tool(name, strict.get_text(args, "description"), schema, "custom")
    rest_args = strict.unknown_fields(args, {"description"} if grammar is not schema else {"description", "format"})
    kind = tool["type"] if tool["type"] != "provider" else ""
    read_extra_fields(parsed_tool, tool, {"type", "id", "name", "args"}, kind=kind, args=rest_args)
    return parsed_tool


def _write_tools(request: rq.Request, draft: RequestDraft, *, named: bool) -> Object:
    """Returns the field of tools, if there are any."""
    tools = [fields for tool in request.tools for fields in _write_tool(tool, draft)]
    if not named:
        return {"tools": tools} if tools else {}
    return {"tools": {tool["name"]: {key: tool[key] for key in tool if key != "name"} for tool in tools}}


def _write_tool(tool: rq.Tool, draft: RequestDraft) -> list[Object]:
    report_foreign_fields(draft, tool.extra)
    rest_fields, own, marks = write_extra_fields(tool, namespace=tool.namespace)
    if tool.kind in ("provider", "unknown") and "tool" in own:
        return [own["tool"]]
    if tool.kind in ("provider", "unknown"):
        draft.report_loss("tool")
        return []
    if tool.kind == "custom":
        args = {**drop_empty(description=tool.description, format=tool.schema), **marks.get("args", {})}
        return [{"type": marks.get("kind") or "provider", "id": CUSTOM, "name": tool.name, "args": args, **rest_fields}]
    kind = marks.get("kind") or "function"
    fields: Object = {**({} if kind == "-" else {"type": kind}), "name": tool.name}
    if tool.description or marks.get("blank"):
        fields["description"] = tool.description
    if tool.schema is not None or not marks:
        schema = tool.schema or {"type": "object", "properties": {}}
        fields["parameters" if marks.get("old") else "inputSchema"] = (
            {"jsonSchema": schema} if marks.get("wrapped") else schema
        )
    if tool.strict is not None:
        fields["strict"] = tool.strict
    return [{**rest_fields, **fields}]


# ── tool choice ───────────────────────────────────────────────────────────────────────────────────


def _read_choice(body: Object) -> rq.ToolChoice | None:
    """Reads which tools must be called, and which may be."""
    value, active = body.get("toolChoice"), strict.get_strings(body, "activeTools")
    if value is None:
        return rq.ToolChoice("auto", active, {SDK: {"_": {"unsaid": True}}}) if active else None
    if isinstance(value, str):
        mode = strict.get_choice(body, "toolChoice", MODES)
        return rq.ToolChoice(mode, active)
    choice = strict.get_object(body, "toolChoice")
    try:
        mode = strict.get_choice(choice, "type", MODES)
        names = [strict.require_text(choice, "toolName")] if mode == "tool" else active
    except BadRequest as error:
        raise error.at("toolChoice") from None
    marks: Object = {**({"active": active} if active and mode == "tool" else {}), "object": mode != "tool"}
    return rq.ToolChoice(mode, names, {SDK: {"_": marks}} if any(marks.values()) else None)


def _write_choice(choice: rq.ToolChoice | None) -> Object:
    """Returns the fields of tool choice."""
    if choice is None:
        return {}
    _, marks = split_extra(choice.extra, SDK)
    if choice.mode == "tool":
        active = drop_empty(activeTools=marks.get("active"))
        return {"toolChoice": {"type": "tool", "toolName": choice.names[0]}, **active}
    active = drop_empty(activeTools=choice.names)
    if marks.get("unsaid"):
        return active
    return {"toolChoice": {"type": choice.mode} if marks.get("object") else choice.mode, **active}
