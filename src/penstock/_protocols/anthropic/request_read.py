"""Reads Anthropic Messages requests: messages, tools, settings. `request_write.py` is the opposite direction.

Anthropic puts tool results into user messages. Here they become messages of role `tool`; other content of the same
message follows in a user message with the mark `joined`. The top-level system prompt becomes the first message; system
messages inside the conversation stay in place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from penstock import _strict_fields as strict
from penstock import request as rq
from penstock._markers import extract_markers, parse_free_text_schema
from penstock._markers.extract import restore_free_text_calls
from penstock._protocols.anthropic.request_read_parts import read_cache_control, read_content
from penstock._protocols.anthropic.wire import NAME
from penstock._strict_fields import build_extra, empty_fields, unknown_fields
from penstock.errors import BadRequest

if TYPE_CHECKING:
    from penstock._lenient_fields import Object

__all__ = ["NAME", "read_message", "read_request", "read_tool"]
SERVICE_TIERS = {"standard_only": "default"}  # this protocol's value → canonical value
_REQUEST_FIELDS = frozenset(
    str.split("""
        max_tokens temperature top_p top_k stop_sequences metadata service_tier thinking output_config output_format
        model messages system tools tool_choice stream
    """)
)
_TOOL_FIELDS = frozenset({"type", "name", "description", "input_schema", "strict", "cache_control"})
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
        extract_markers(messages),
        tools,
        None if body.get("tool_choice") is None else strict.read_object(body, "tool_choice", _read_choice),
        _read_settings(body),
        stream=strict.get_flag(body, "stream") or False,
        extra=build_extra(NAME, unknown_fields(body, _REQUEST_FIELDS), also=also, **_build_marks(body)),
    )


# ── messages ──────────────────────────────────────────────────────────────────────────────────────


def _read_system(given: Any) -> list[rq.Message]:
    if given in (None, "", []):
        return []
    parts = read_content(given, "system", "system")
    return [rq.Message("system", parts, extra=build_extra(NAME, {}, listed=isinstance(given, list)))]


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
    results: list[rq.AnyPart] = [part for part in parts if type(part) is rq.Result]
    if len(results) == len(parts):
        return [rq.Message("tool", results, "", extra)]
    others: list[rq.AnyPart] = [part for part in parts if type(part) is not rq.Result]
    places = [position for position, part in enumerate(parts) if type(part) is not rq.Result]
    mixed = places if places[0] < len(results) else None
    joined = rq.Message("user", others, extra=build_extra(NAME, {}, joined=True, places=mixed))
    return [rq.Message("tool", results, "", extra), joined]


# ── tools ─────────────────────────────────────────────────────────────────────────────────────────


def read_tool(tool: Object) -> rq.Tool:
    """Reads a tool. Tools of the client have a schema; the provider runs or defines the others."""
    kind = tool.get("type")
    cache, hint = read_cache_control(tool)
    if kind not in (None, "custom") and "input_schema" not in tool:
        own = {"tool": unknown_fields(tool, {"cache_control"})}
        extra = build_extra(NAME, own, also=empty_fields(tool, {"cache_control"}), hint=hint)
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


def _read_choice(given: Object) -> rq.ToolChoice:
    mode = strict.get_choice(given, "type", _CHOICE_MODES)
    names = [strict.require_text(given, "name")] if mode == "tool" else []
    unknown = unknown_fields(given, {"type", "name", "disable_parallel_tool_use"})
    return rq.ToolChoice(mode, names, extra=build_extra(NAME, unknown) if unknown else None)


# ── settings ──────────────────────────────────────────────────────────────────────────────────────


def _build_marks(body: Object) -> Object:
    """Returns marks for settings that can be spelled in several ways, with their original values."""
    thinking, output = body.get("thinking"), body.get("output_config")
    return {
        "unlimited": body.get("max_tokens") is None,
        "thinking": _keep_value(thinking),
        "unthinking": thinking is None and isinstance(output, dict) and "effort" in output,
        "output": _keep_value(output),
        "form": _keep_value(body.get("output_format")),
        "metadata": _keep_value(body.get("metadata")),
    }


def _keep_value(value: Any) -> Object | None:
    return None if value is None else {"as": value}


def _read_settings(body: Object) -> rq.Settings:
    parallel = strict.get_flag(strict.get_object(body, "tool_choice"), "disable_parallel_tool_use")
    effort, form = "", None
    if body.get("output_config") is not None:
        effort, form = strict.read_object(body, "output_config", read_output_config)
    if body.get("output_format") is not None:
        form = strict.read_object(body, "output_format", read_format)
    budget, thoughts = (None, None)
    if body.get("thinking") is not None:
        budget, thoughts = strict.read_object(body, "thinking", lambda given: read_thinking(given, effort))
    user, metadata = read_metadata(body)
    tier = strict.get_text(body, "service_tier")
    return rq.Settings(
        max_output=strict.get_integer(body, "max_tokens"),
        temperature=strict.get_number(body, "temperature"),
        top_p=strict.get_number(body, "top_p"),
        top_k=strict.get_integer(body, "top_k"),
        stop=strict.get_strings(body, "stop_sequences"),
        format=form,
        parallel_calls=None if parallel is None else not parallel,
        effort=effort,
        budget=budget,
        thoughts=thoughts,
        tier=SERVICE_TIERS.get(tier, tier),
        user=user,
        metadata=metadata,
    )


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
    form = None if output.get("format") is None else strict.read_object(output, "format", read_format)
    return strict.get_text(output, "effort"), form


def read_format(given: Object) -> rq.Format | None:
    """Returns the answer's format; None if it is not a JSON schema."""
    if given.get("type") != "json_schema":
        return None
    return rq.Format("schema", schema=strict.get_object(given, "schema"))


def read_metadata(body: Object) -> tuple[str, Object | None]:
    """Returns the user's id, and the other metadata."""
    metadata = strict.get_object(body, "metadata")
    if not metadata:
        return "", None
    user = strict.read_object(body, "metadata", lambda given: strict.get_text(given, "user_id"))
    return user, unknown_fields(metadata, {"user_id"}) or None
