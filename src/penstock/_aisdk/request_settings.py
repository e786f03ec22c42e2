"""The fields of an AI SDK call beside its messages: settings, tools, tool choice, provider options. Both ways.

They are the same for model messages and for what a page posts with UI messages. Settings without a field in the SDK
are under our key in the provider options.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import msgspec

from penstock import _lenient_fields as lenient
from penstock import _strict_fields as strict
from penstock import request as rq
from penstock._aisdk import PENSTOCK, SDK, TABLES, read_metadata, write_metadata
from penstock._request_writer import FOREIGN_FIELDS, RequestDraft, drop_empty, split_extra
from penstock.errors import BadRequest

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet

    from penstock._lenient_fields import Object
    from penstock.events import Extra

OPTIONS, METADATA = "providerOptions", "providerMetadata"
# the keys of provider options by protocol: today's, and those of version 4
OPTION_KEYS = {SDK: (OPTIONS, METADATA, "experimental_providerMetadata"), "uistream": (METADATA,)}
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
    word = next((word for word in _REQUEST_KEYS if word in body), "")
    options = strict.get_object(body, word) if word else {}
    ours = lenient.get_object(options, PENSTOCK)
    settings, spelled = _read_settings(body, ours)
    marks |= {**spelled, "word": "" if word == OPTIONS else word, "named": isinstance(body.get("tools"), dict)}
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
    settings, left = _write_settings(request.settings, marks)
    report_foreign_fields(draft, request.extra)
    ours = write_options(request.extra, {}, own=draft.protocol, settings=left, usage=request.usage).get(OPTIONS, {})
    options = {**request.options, **({PENSTOCK: ours[PENSTOCK]} if PENSTOCK in ours else {})}
    return {**body, **settings, **({marks.get("word") or OPTIONS: options} if options else {})}


def _read_settings(body: Object, ours: Object) -> tuple[rq.Settings, Object]:
    """Reads the settings; also returns how they were spelled."""
    words = {field: next((word for word in row if word in body), row[0]) for field, row in FIELDS.items()}
    held = lenient.get_object(ours, "settings")
    try:
        settings = msgspec.convert(held, rq.Settings)
    except msgspec.ValidationError:
        raise BadRequest("settings of ours", held, f"{OPTIONS}.{PENSTOCK}.settings") from None
    for field in _INTEGER_FIELDS:
        setattr(settings, field, strict.get_integer(body, words[field]))
    for field in _NUMBER_FIELDS:
        setattr(settings, field, strict.get_number(body, words[field]))
    settings.stop = strict.get_strings(body, words["stop"])
    effort = strict.get_text(body, words["effort"])
    settings.effort = "" if effort == _DEFAULT_EFFORT else effort
    is_strict = settings.format.strict if settings.format else None
    form = strict.get_object(body, "responseFormat")
    settings.format = strict.read_object(body, "responseFormat", _format) if form else None
    if settings.format is not None:
        settings.format.strict = is_strict
    old = {field: word for field, word in words.items() if word != FIELDS[field][0]}
    odd = strict.unknown_fields(form, {"type", "schema", "name", "description"})
    return settings, {"words": old, "effort": _DEFAULT_EFFORT if effort == _DEFAULT_EFFORT else "", "format": odd}


def _format(given: Object) -> rq.Format:
    schema = strict.get_object(given, "schema") or None
    kind: rq.FormatKind = "text" if given.get("type") != "json" else "schema" if schema else "json"
    name, description = strict.get_text(given, "name"), strict.get_text(given, "description")
    return rq.Format(kind, name, schema, description)


def _write_settings(settings: rq.Settings, marks: Object) -> tuple[Object, Object]:
    """Writes the settings; also returns those that the SDK has no field for."""
    words: Object = marks.get("words", {})
    left: Object = msgspec.to_builtins(settings)
    body = {words.get(field) or row[0]: left.pop(field) for field, row in FIELDS.items() if field in left}
    if settings.format is not None:
        form = settings.format
        described = drop_empty(schema=form.schema, name=form.name, description=form.description)
        body["responseFormat"] = {
            "type": "text" if form.kind == "text" else "json",
            **described,
            **marks.get("format", {}),
        }
        if form.strict is not None:
            left["format"] = {"kind": form.kind, "strict": form.strict}
    if marks.get("effort") and not settings.effort:
        body["reasoning"] = marks["effort"]
    return body, left


# ── tools ─────────────────────────────────────────────────────────────────────────────────────────

_TOOL = frozenset({"type", "name", "description", "inputSchema", "parameters", "strict"})


def read_tools(body: Object) -> list[rq.Tool]:
    """Reads tools: an object by name (the SDK's form), or a list (its providers' form)."""
    given = body.get("tools")
    if not isinstance(given, dict):
        return strict.read_objects(body, "tools", read_tool)
    made: list[rq.Tool] = []
    for name, tool in strict.get_object(body, "tools").items():
        try:
            made.append(read_tool({**strict.as_object(tool), "name": name}))
        except BadRequest as error:
            raise error.at(name).at("tools") from None
    return made


def read_tool(tool: Object) -> rq.Tool:
    """Reads a tool of any type. A provider's tool is kept as it is, except a free-text tool."""
    kind = tool.get("type")
    if kind in ("provider", "provider-defined"):
        return _provider_tool(tool)
    if kind not in (None, "function", "dynamic"):
        return rq.Tool(strict.require_text(tool, "name"), kind="unknown", extra={SDK: {"tool": tool}})
    word = "parameters" if "inputSchema" not in tool and "parameters" in tool else "inputSchema"
    schema = strict.get_object(tool, word)
    wrapped = "jsonSchema" in schema and "type" not in schema
    if wrapped:
        schema = strict.get_object(schema, "jsonSchema")
    name, description = strict.require_text(tool, "name"), strict.get_text(tool, "description")
    made = rq.Tool(name, description, schema if word in tool else None, strict=strict.get_flag(tool, "strict"))
    marks: Object = {"old": word == "parameters", "wrapped": wrapped, "blank": tool.get("description") == ""}
    ours = read_extra_fields(made, tool, _TOOL, kind="" if kind == "function" else kind or "-", **marks)
    made.namespace = lenient.get_text(ours, "namespace")
    return made


def _provider_tool(tool: Object) -> rq.Tool:
    name, args = strict.require_text(tool, "name"), strict.get_object(tool, "args")
    if tool.get("id") != CUSTOM:
        return rq.Tool(name, kind="provider", extra={SDK: {"tool": tool}})
    form = strict.get_object(args, "format") or None
    schema = None if form is None or form.get("type") == "text" else form
    made = rq.Tool(name, strict.get_text(args, "description"), schema, "custom")
    rest = strict.unknown_fields(args, {"description"} if form is not schema else {"description", "format"})
    kind = tool["type"] if tool["type"] != "provider" else ""
    read_extra_fields(made, tool, {"type", "id", "name", "args"}, kind=kind, args=rest)
    return made


def _write_tools(request: rq.Request, draft: RequestDraft, *, named: bool) -> Object:
    """Returns the field of tools, if there are any."""
    tools = [made for tool in request.tools for made in _write_tool(tool, draft)]
    if not named:
        return {"tools": tools} if tools else {}
    return {"tools": {tool["name"]: {key: tool[key] for key in tool if key != "name"} for tool in tools}}


def _write_tool(tool: rq.Tool, draft: RequestDraft) -> list[Object]:
    report_foreign_fields(draft, tool.extra)
    rest, own, marks = write_extra_fields(tool, namespace=tool.namespace)
    if tool.kind in ("provider", "unknown") and "tool" in own:
        return [own["tool"]]
    if tool.kind in ("provider", "unknown"):
        draft.report_loss("tool")
        return []
    if tool.kind == "custom":
        args = {**drop_empty(description=tool.description, format=tool.schema), **marks.get("args", {})}
        return [{"type": marks.get("kind") or "provider", "id": CUSTOM, "name": tool.name, "args": args, **rest}]
    kind = marks.get("kind") or "function"
    made: Object = {**({} if kind == "-" else {"type": kind}), "name": tool.name}
    if tool.description or marks.get("blank"):
        made["description"] = tool.description
    if tool.schema is not None or not marks:
        schema = tool.schema or {"type": "object", "properties": {}}
        made["parameters" if marks.get("old") else "inputSchema"] = (
            {"jsonSchema": schema} if marks.get("wrapped") else schema
        )
    if tool.strict is not None:
        made["strict"] = tool.strict
    return [{**rest, **made}]


# ── tool choice ───────────────────────────────────────────────────────────────────────────────────


def _read_choice(body: Object) -> rq.ToolChoice | None:
    """Reads which tools must be called, and which may be."""
    given, active = body.get("toolChoice"), strict.get_strings(body, "activeTools")
    if given is None:
        return rq.ToolChoice("auto", active, {SDK: {"_": {"unsaid": True}}}) if active else None
    if isinstance(given, str):
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


_CACHE_KEYS = ("cacheControl", "cache_control")
_CACHE_PROVIDER = "anthropic"  # under whose name every version's cache hints stand
# fields under our key that become something else than extra data
_KEYS = "content detail extra failed form id item json name"
_OWN_KEYS = frozenset(f"{_KEYS} namespace opaque opaques partial ran refusal settings sizes usage".split())


class HasExtra(Protocol):
    """A part, message or tool with extra data."""

    extra: Extra | None


class HasCache(HasExtra, Protocol):
    """One that also has a cache hint."""

    cache: str


class OptionFields(NamedTuple):
    """The contents of provider options: state of protocols, our fields, the cache lifetime, the spelling."""

    extra: Extra
    ours: Object
    cache: str
    marks: Object


_NO_OPTIONS = OptionFields({}, {}, "", {})


def read_options(source: Object, words: tuple[str, ...] = OPTION_KEYS[SDK]) -> OptionFields:
    """Reads the provider options of a message, part or tool. The first of the keys is the usual one."""
    word = next((word for word in words if source.get(word) is not None), "")
    if not word:
        return _NO_OPTIONS
    given = strict.get_object(source, word)
    for provider, value in given.items():
        if not isinstance(value, dict):
            raise BadRequest("an object", value, provider).at(word)
    cache, hint, left = _read_cache_hint(given)
    ours = lenient.get_object(left, PENSTOCK)
    state = strict.pick_provider_state(lenient.get_object(ours, "extra"))
    extra = read_metadata({**left, PENSTOCK: {"extra": state}} if ours else left, reasoning=True)
    for provider in [name for name, value in left.items() if not value]:
        extra.setdefault(SDK, {}).setdefault("metadata", {})[provider] = {}
    odd = {key: value for key, value in ours.items() if key not in _OWN_KEYS}
    if "extra" in ours and ours["extra"] != state:
        odd["extra"] = ours["extra"]
    spelled = {"options": "" if word == words[0] else word, "hint": hint, "no_options": not given, "ours": odd}
    return OptionFields(extra, ours, cache, {key: value for key, value in spelled.items() if value})


def _read_cache_hint(given: Object) -> tuple[str, str, Object]:
    """Returns the cache lifetime, its spelling if unusual, and the options without the hint."""
    own = lenient.get_object(given, _CACHE_PROVIDER)
    word = next((word for word in _CACHE_KEYS if word in own), "")
    hint = lenient.get_object(own, word)
    ttl = hint.get("ttl", "5m")
    if not word or hint.get("type") != "ephemeral" or not isinstance(ttl, str) or hint.keys() - {"type", "ttl"}:
        return "", "", given
    left = {**given, _CACHE_PROVIDER: {key: value for key, value in own.items() if key != word}}
    if not left[_CACHE_PROVIDER]:
        del left[_CACHE_PROVIDER]
    odd = word if word != _CACHE_KEYS[0] else "ttl" if hint.get("ttl") == "5m" else ""
    return ttl, odd, left


def write_options(
    extra: Extra | None, marks: Object, *, cache: str = "", word: str = OPTIONS, own: str = SDK, **ours: Any
) -> Object:
    """Returns the field of provider options, if there are any. `own` is the protocol that writes."""
    found: Object = {}
    ours = {**marks.get("ours", {}), **{key: value for key, value in ours.items() if value}}
    if extra:
        others = strict.pick_provider_state({key: fields for key, fields in extra.items() if key not in (SDK, own)})
        if SDK in extra:
            others[SDK] = extra[SDK]
        found = write_metadata(others, reasoning=True)
    if ours:
        found[PENSTOCK] = {**found.get(PENSTOCK, {}), **ours}
    if cache:
        odd = marks.get("hint", "")
        hint = {"type": "ephemeral", **({} if cache == "5m" and odd != "ttl" else {"ttl": cache})}
        found[_CACHE_PROVIDER] = {**found.get(_CACHE_PROVIDER, {}), odd if odd in _CACHE_KEYS else _CACHE_KEYS[0]: hint}
    return {marks.get("options") or word: found} if found or marks.get("no_options") else {}


def report_foreign_fields(draft: RequestDraft, extra: Extra | None) -> None:
    """Reports fields of other protocols that are not written: all but provider state."""
    for protocol, fields in (extra or {}).items():
        names = [key for key in fields if key != "_" and key not in strict.PROVIDER_STATE]
        if names and protocol not in (SDK, draft.protocol):
            draft.diagnostics.add(
                "loss-extra", f"{draft.protocol}: {FOREIGN_FIELDS.format(protocol, ', '.join(names))}"
            )


def build_part_extra(protocol: str, options_read: OptionFields, rest: Object, **marks: Any) -> Extra | None:
    """Builds a part's extra data: its state, and under the protocol's name unknown fields and spelling."""
    spelled = {**options_read.marks, **{key: value for key, value in marks.items() if value}}
    own = {**({"rest": rest} if rest else {}), **({"_": spelled} if spelled else {})}
    if own:
        return {**options_read.extra, protocol: {**options_read.extra.get(protocol, {}), **own}}
    return options_read.extra or None


def read_extra_fields(
    made: HasCache,
    source: Object,
    known: AbstractSet[str],
    protocol: str = SDK,
    words: tuple[str, ...] = (),
    **marks: Any,
) -> Object:
    """Sets a part's extra data and cache hint from options, unknown fields, nulls and spelling. Returns our fields."""
    words = words or OPTION_KEYS[protocol]
    if source.keys() <= known and None not in source.values() and not any(marks.values()):
        return {}
    options_read = read_options(source, words)
    rest = {key: value for key, value in source.items() if value is None or (key not in known and key not in words)}
    made.extra = build_part_extra(protocol, options_read, rest, **marks)
    made.cache = options_read.cache
    return options_read.ours


def add_extra(made: HasExtra, protocol: str = SDK, **fields: Any) -> None:
    """Adds fields to a part's extra data of a protocol."""
    extra = made.extra or {}
    made.extra = {**extra, protocol: {**extra.get(protocol, {}), **fields}}


def write_extra_fields(
    part: HasCache, protocol: str = SDK, word: str = "", **ours: Any
) -> tuple[Object, Object, Object]:
    """Returns a part's further fields, the protocol's extra data, and its marks."""
    if part.extra is None and not part.cache and not any(ours.values()):
        return {}, {}, {}
    own, marks = split_extra(part.extra, protocol)
    word = word or OPTION_KEYS[protocol][0]
    options = write_options(part.extra, marks, cache=part.cache, word=word, own=protocol, **ours)
    return {**own.get("rest", {}), **options}, own, marks
