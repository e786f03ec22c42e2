"""Reads Anthropic Messages requests: messages, tools, settings. `request_write.py` is the opposite direction.

Anthropic puts tool results into user messages. Here they become messages of role `tool`; other content of the same
message follows in a user message with the mark `joined`. The top-level system prompt becomes the first message; system
messages inside the conversation stay in place.
"""

from __future__ import annotations

import binascii
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, cast

from penstock import _strict_fields as strict
from penstock import request as rq
from penstock._lenient_json import as_json
from penstock._markers import (
    PROVIDER_CALL_PREFIX,
    extract_markers,
    input_json,
    parse_free_text_schema,
    restore_free_text_calls,
)
from penstock._protocols.anthropic.wire import NAME
from penstock._strict_fields import build_extra, empty_fields, unknown_fields
from penstock.errors import BadRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from penstock._lenient_fields import Object

P = TypeVar("P", rq.Text, rq.Call, rq.Result, rq.File)
__all__ = ["NAME", "read_message", "read_request", "read_tool"]
SERVICE_TIERS = {"standard_only": "default"}  # this protocol's value → canonical value
_SAME_NAMES = ("temperature", "top_p", "top_k")
_SETTINGS = {**dict(zip(_SAME_NAMES, _SAME_NAMES, strict=True)), "max_tokens": "max_output", "stop_sequences": "stop"}
_OTHER_FIELDS = """metadata service_tier thinking output_config output_format model messages system tools tool_choice
    stream"""
_REQUEST_FIELDS = {*_SETTINGS, *_OTHER_FIELDS.split()}
_TOOL_FIELDS = frozenset({"type", "name", "description", "input_schema", "strict", "cache_control"})
_TEXT_FIELDS = frozenset({"type", "text"})
_CALL_FIELDS = frozenset({"type", "id", "name", "input"})
_RESULT_FIELDS = frozenset({"type", "tool_use_id", "content", "is_error"})
_FILE_FIELDS = frozenset({"type", "source", "title"})
_COMMON_MEDIA = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp", "application/pdf"})
_CHOICE_MODES: dict[str, rq.ChoiceMode] = {"auto": "auto", "any": "required", "none": "none", "tool": "tool"}


def read_request(body: Object) -> rq.Request:
    """Reads a request from its parsed body."""
    strict.as_object(body)
    messages = _read_system(body.get("system"))
    for row in strict.read_objects(body, "messages", read_message, need=True):
        messages += row
    tools = strict.read_objects(body, "tools", read_tool)
    restore_free_text_calls(messages, tools)
    also = empty_fields(body, _REQUEST_FIELDS)
    if body.get("stream") is False:
        also["stream"] = False
    return rq.Request(
        strict.get_text(body, "model"),
        extract_markers(messages, failed=False),
        tools,
        strict.read_optional(body, "tool_choice", _read_choice),
        _read_settings(body),
        stream=strict.get_flag(body, "stream") or False,
        extra=build_extra(NAME, unknown_fields(body, _REQUEST_FIELDS), also=also, **_build_marks(body)),
    )


# ── messages ──────────────────────────────────────────────────────────────────────────────────────


def _read_system(value: Any) -> list[rq.Message]:
    if value in (None, "", []):
        return []
    parts = read_content(value, "system", "system")
    return [rq.Message("system", parts, extra=build_extra(NAME, {}, listed=isinstance(value, list)))]


def read_message(message: Object) -> list[rq.Message]:
    """Reads one message. Returns two if it has tool results and other content."""
    role: Any = message.get("role")
    if not isinstance(role, str) or role not in ("user", "assistant", "system"):
        raise BadRequest("user, assistant or system", role, "role")
    content = message.get("content")
    parts = read_content(content, "content", role)
    listed = type(content) is list and len(content) == 1  # pyright: ignore[reportUnknownArgumentType]
    marks: Object = {}
    if listed and type(parts[0]) is rq.Text:
        marks["listed"] = True
    elif not parts:
        marks["also"] = {"content": content}
    if role == "system":
        marks["inside"] = True
    unknown = unknown_fields(message, {"role", "content"}) if len(message) > 2 else {}  # noqa: PLR2004
    if role == "user" and any(type(part) is rq.Result for part in parts):
        return _split_results(parts, build_extra(NAME, unknown) if unknown else None)
    extra = build_extra(NAME, unknown, **marks) if marks or unknown else None
    return [rq.Message(cast("rq.Role", role), parts, "", extra)]


def _split_results(parts: list[rq.AnyPart], extra: Any) -> list[rq.Message]:
    """Returns the results, then the other parts. A mark keeps the positions if the parts were in another order."""
    results, others, positions = strict.split_results(parts)
    tool = rq.Message("tool", results, "", extra)
    if not others:
        return [tool]
    return [tool, rq.Message("user", others, extra=build_extra(NAME, {}, joined=True, places=positions))]


# ── tools ─────────────────────────────────────────────────────────────────────────────────────────


def read_tool(tool: Object) -> rq.Tool:
    """Reads a tool. Tools of the client have a schema; the provider runs or defines the others."""
    kind = tool.get("type")
    cache, hint = read_cache_control(tool)
    if kind not in (None, "custom") and "input_schema" not in tool:
        native = {"tool": unknown_fields(tool, {"cache_control"})}
        extra = build_extra(NAME, native, also=empty_fields(tool, {"cache_control"}), hint=hint)
        return rq.Tool(strict.get_text(tool, "name") or str(kind), kind="provider", cache=cache, extra=extra)
    schema: Any = tool.get("input_schema")
    if not isinstance(schema, dict):
        raise BadRequest("an object", schema, "input_schema")
    is_strict = strict.get_flag(tool, "strict") if "strict" in tool else None
    name, description = strict.require_text(tool, "name"), strict.get_text(tool, "description")
    parsed = rq.Tool(name, description, schema, "function", is_strict)  # pyright: ignore[reportUnknownArgumentType]
    if len(tool) != 3 or not parsed.description or "type" not in schema:  # noqa: PLR2004 — name, description, schema
        parsed.cache = cache
        also = empty_fields(tool, _TOOL_FIELDS - {"input_schema"})
        untyped = "type" not in schema
        fields = unknown_fields(tool, _TOOL_FIELDS)
        parsed.extra = build_extra(NAME, fields, also=also, hint=hint, kind=kind, untyped=untyped)
    grammar = parse_free_text_schema(schema)  # pyright: ignore[reportUnknownArgumentType]
    if grammar is not None:
        parsed.kind, parsed.schema = "custom", grammar or None
    return parsed


def _read_choice(value: Object) -> rq.ToolChoice:
    mode = strict.get_choice(value, "type", _CHOICE_MODES)
    names = [strict.require_text(value, "name")] if mode == "tool" else []
    unknown = unknown_fields(value, {"type", "name", "disable_parallel_tool_use"})
    return rq.ToolChoice(mode, names, extra=build_extra(NAME, unknown) if unknown else None)


# ── settings ──────────────────────────────────────────────────────────────────────────────────────


def _build_marks(body: Object) -> Object:
    """Returns marks for settings that can be spelled in several ways, with their original values."""
    thinking, output = body.get("thinking"), body.get("output_config")
    return {
        "unlimited": body.get("max_tokens") is None,
        "thinking": _wrap_value(thinking),
        "unthinking": thinking is None and isinstance(output, dict) and "effort" in output,
        "output": _wrap_value(output),
        "form": _wrap_value(body.get("output_format")),
        "metadata": _wrap_value(body.get("metadata")),
    }


def _wrap_value(value: Any) -> Object | None:
    return None if value is None else {"as": value}


def _read_settings(body: Object) -> rq.Settings:
    effort, form = strict.read_optional(body, "output_config", read_output_config) or ("", None)
    if body.get("output_format") is not None:
        form = strict.read_object(body, "output_format", read_format)
    thinking = strict.read_optional(body, "thinking", lambda value: read_thinking(value, effort))
    budget, thoughts = thinking or (None, None)
    fields = strict.read_settings(body, _SETTINGS)
    settings = rq.Settings(**fields, format=form, effort=effort, budget=budget, thoughts=thoughts)
    settings.user, settings.metadata = read_metadata(body)
    tier = strict.get_text(body, "service_tier")
    settings.tier = SERVICE_TIERS.get(tier, tier)
    parallel = strict.get_flag(strict.get_object(body, "tool_choice"), "disable_parallel_tool_use")
    settings.parallel_calls = None if parallel is None else not parallel
    return settings


def read_thinking(thinking: Object, effort: str) -> tuple[int | None, bool | None]:
    """Returns the budget, and whether to show reasoning. Adaptive thinking without an effort counts as shown."""
    kind = strict.require_text(thinking, "type")
    if kind == "disabled":
        return 0, None
    display = strict.get_text(thinking, "display")
    shown = True if kind == "adaptive" and not effort else None
    return strict.get_integer(thinking, "budget_tokens"), display != "omitted" if display else shown


def read_output_config(output: Object) -> tuple[str, rq.Format | None]:
    """Returns the effort and the answer's format."""
    return strict.get_text(output, "effort"), strict.read_optional(output, "format", read_format)


def read_format(value: Object) -> rq.Format | None:
    """Returns the answer's format; None if it is not a JSON schema."""
    if value.get("type") != "json_schema":
        return None
    return rq.Format("schema", schema=strict.get_object(value, "schema"))


def read_metadata(body: Object) -> tuple[str, Object | None]:
    """Returns the user's id, and the other metadata."""
    metadata = strict.get_object(body, "metadata")
    if not metadata:
        return "", None
    user = strict.read_object(body, "metadata", lambda value: strict.get_text(value, "user_id"))
    return user, unknown_fields(metadata, {"user_id"}) or None


# ── content blocks ────────────────────────────────────────────────────────────────────────────────


def read_content(content: Any, key: str, role: str) -> list[rq.AnyPart]:
    """Reads content: a string or a list of blocks."""
    if isinstance(content, str):
        return [rq.Text(content)] if content else []
    if not isinstance(content, list):
        raise BadRequest("a string or a list of blocks", content, key)
    return strict.read_each(content, _READERS[role], key)  # pyright: ignore[reportUnknownArgumentType]


def read_cache_control(source: Object) -> tuple[str, Object | None]:
    """Returns how long to cache the prompt up to here, and the hint if it cannot be rebuilt from that."""
    hint = source.get("cache_control")
    if hint is None:
        return "", None
    hint = strict.as_object(hint, "cache_control")
    time = strict.get_text(hint, "ttl")
    usual = hint == {"type": "ephemeral"} or (time not in ("", "5m") and hint == {"type": "ephemeral", "ttl": time})
    return time or "5m", None if usual else hint


def _add_extra(part: P, block: Object, known: frozenset[str], **marks: Any) -> P:
    """Adds the block's other fields, its cache hint and its spelling to a part."""
    hint = None
    if block.get("cache_control") is not None:
        part.cache, hint = read_cache_control(block)
    unknown = unknown_fields(block, known | {"cache_control"})
    also = empty_fields(block, {"cache_control"}) | marks.pop("also", {})
    if unknown or also or hint or marks:
        part.extra = build_extra(NAME, unknown, also=also, hint=hint, **marks)
    return part


def _read_text(block: Object) -> rq.AnyPart:
    text = strict.require_text(block, "text")
    if len(block) == len(_TEXT_FIELDS) and text:
        return rq.Text(text)
    return _add_extra(rq.Text(text), block, _TEXT_FIELDS, **({} if text else {"empty": True}))


def _read_thinking(block: Object) -> rq.AnyPart:
    unknown = unknown_fields(block, {"type", "thinking", "signature"})
    native = {"signature": strict.get_text(block, "signature"), **unknown}
    return rq.Reasoning(strict.get_text(block, "thinking"), extra={NAME: native})


def _read_redacted_thinking(block: Object) -> rq.AnyPart:
    native = {"redacted": strict.require_text(block, "data"), **unknown_fields(block, {"type", "data"})}
    return rq.Reasoning(form="redacted", extra={NAME: native})


# ── calls and results ─────────────────────────────────────────────────────────────────────────────


def _read_call(block: Object) -> rq.AnyPart:
    value = block.get("input")
    if not isinstance(value, dict):
        raise BadRequest("an object", value, "input")
    call = rq.Call(strict.require_text(block, "id"), strict.require_text(block, "name"), input_json(value))
    return call if len(block) == len(_CALL_FIELDS) else _add_extra(call, block, _CALL_FIELDS)


def _read_hint(block: Object, native: Object) -> Object:
    """Returns `cache` and `extra` of a part whose block is kept nearly unchanged."""
    cache, hint = read_cache_control(block)
    return {"cache": cache, "extra": build_extra(NAME, native, hint=hint)}


def _read_provider_call(block: Object) -> rq.AnyPart:
    call, json = strict.require_text(block, "id"), as_json(block.get("input", {}))
    name = strict.get_text(block, "name")
    if call.startswith(PROVIDER_CALL_PREFIX):  # another provider ran it: the encoder wrote the block
        return rq.Call(call.removeprefix(PROVIDER_CALL_PREFIX), name, json, "provider")
    native = unknown_fields(block, {"id", "name", "input", "cache_control"})
    return rq.Call(call, name, json, "provider", **_read_hint(block, native))


def _read_result(block: Object) -> rq.AnyPart:
    content = block.get("content")
    call, failed = strict.require_text(block, "tool_use_id"), block.get("is_error")
    if type(content) is str and content and len(block) == 3:  # noqa: PLR2004 — type, id and text
        return rq.Result(call, "", [rq.Text(content)])
    inside = [] if content is None else read_content(content, "content", "result")
    parts: list[rq.ResultPart] = [part for part in inside if isinstance(part, rq.ResultPart)]
    result = rq.Result(call, "", parts, strict.get_flag(block, "is_error") or False)
    listed = isinstance(content, list) and bool(parts)
    marks = {"listed": listed, "said": failed is False, "also": empty_fields(block, {"content", "is_error"})}
    return _add_extra(result, block, _RESULT_FIELDS, **{key: value for key, value in marks.items() if value})


def _read_provider_result(block: Object) -> rq.AnyPart:
    content: list[rq.ResultPart] = [rq.Json(as_json(block.get("content")))]
    native = unknown_fields(block, {"content", "cache_control"})
    call, failed = strict.get_text(block, "tool_use_id"), strict.get_flag(block, "is_error") or False
    if call.startswith(PROVIDER_CALL_PREFIX):
        return rq.Result(call.removeprefix(PROVIDER_CALL_PREFIX), "", content, failed, by="provider")
    return rq.Result(call, "", content, failed, by="provider", **_read_hint(block, native))


# ── files ─────────────────────────────────────────────────────────────────────────────────────────


def _read_file(block: Object, media: str) -> rq.AnyPart:
    """Reads a file by base64, plain text, URL, or the id of an upload. Other sources are kept unchanged."""
    file, source = strict.read_object(block, "source", lambda value: (_read_source(value, media), value))
    if file is None:
        return _keep_block(block)
    file.name = strict.get_text(block, "title")
    is_unusual = file.id or (source["type"] == "base64" and file.media not in _COMMON_MEDIA)
    marks: Object = {"own": source["type"]} if is_unusual else {}
    if media == "image/*" and not file.media.startswith("image/"):
        marks["kind"] = "image"
    if unknown := unknown_fields(source, {"type", "media_type", "data", "url", "file_id"}):
        marks["source"] = unknown
    if "title" in block and not file.name:
        marks["also"] = {"title": block["title"]}
    return _add_extra(file, block, _FILE_FIELDS, **marks)


def _read_source(source: Object, media: str) -> rq.File | None:
    match source.get("type"):
        case "base64":
            return rq.File(strict.get_text(source, "media_type") or media, data=strict.require_text(source, "data"))
        case "text":
            text = strict.require_text(source, "data").encode("utf-8", "surrogatepass")
            data = binascii.b2a_base64(text, newline=False).decode()
            return rq.File(strict.get_text(source, "media_type") or "text/plain", data=data)
        case "url":
            return rq.File(media, strict.require_text(source, "url"))
        case "file":
            return rq.File(media, id=strict.require_text(source, "file_id"))
        case _:
            return None


def _keep_block(block: Object) -> rq.Opaque:
    """Keeps a block of an unknown type unchanged for this protocol."""
    return rq.Opaque(NAME, strict.get_text(block, "type"), block, cache=read_cache_control(block)[0])


# ── readers by role ───────────────────────────────────────────────────────────────────────────────

_CONTENT: dict[str, Callable[[Object], rq.AnyPart]] = {
    "text": _read_text,
    "image": partial(_read_file, media="image/*"),
    "document": partial(_read_file, media="application/pdf"),
}
_ASSISTANT_CONTENT = _CONTENT | {
    "thinking": _read_thinking,
    "redacted_thinking": _read_redacted_thinking,
    "tool_use": _read_call,
    **dict.fromkeys(("server_tool_use", "mcp_tool_use"), _read_provider_call),
    "*_tool_result": _read_provider_result,
}


def _build_reader(table: Mapping[str, Callable[[Object], rq.AnyPart]]) -> Callable[[Object], rq.AnyPart]:
    """Returns a function that reads a block by its type. `*_tool_result` stands for all results of provider tools."""
    read_provider_result = table.get("*_tool_result", _keep_block)

    def read_block(block: Object) -> rq.AnyPart:
        kind = block.get("type")
        if not isinstance(kind, str):
            raise BadRequest("a string", kind, "type")
        if kind in table:
            return table[kind](block)
        return read_provider_result(block) if kind.endswith("_tool_result") else _keep_block(block)

    return read_block


_READERS = {
    "system": _build_reader({"text": _read_text}),
    "user": _build_reader(_CONTENT | {"tool_result": _read_result}),
    "assistant": _build_reader(_ASSISTANT_CONTENT),
    "result": _build_reader(_CONTENT),
}
