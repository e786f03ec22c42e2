"""Anthropic Messages requests → canonical: the messages. `write.py` is the way back.

Tool results come inside user messages; here they are messages of role `tool`, and what stood beside them follows in a
user message marked as joined. The top-level system prompt is the first message; those further down stay there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from penstock import request as rq
from penstock import strict_fields as strict
from penstock.errors import BadRequest
from penstock.markers import grammar_of, restored
from penstock.markers.extract import free_calls
from penstock.protocols.anthropic.request_read_parts import NAME, cached, read_content
from penstock.strict_fields import build_extra, empty_fields, unknown_fields

if TYPE_CHECKING:
    from penstock.lenient_fields import Object

__all__ = ["NAME", "read_message", "read_request", "read_tool"]
SETTINGS = frozenset({
    "max_tokens", "temperature", "top_p", "top_k", "stop_sequences", "metadata", "service_tier", "thinking",
    "output_config", "output_format",
})  # fmt: skip

_REQUEST = SETTINGS | {"model", "messages", "system", "tools", "tool_choice", "stream"}
_ROLES = frozenset({"user", "assistant", "system"})


def read_request(body: Object) -> rq.Request:
    """A request from its parsed body."""
    strict.as_object(body)
    messages = _system(body.get("system"))
    for row in strict.read_objects(body, "messages", read_message, need=True):
        messages += row
    tools = strict.read_objects(body, "tools", read_tool)
    free_calls(messages, tools)
    also = empty_fields(body, _REQUEST)
    if body.get("stream") is False:
        also["stream"] = False
    return rq.Request(
        strict.get_text(body, "model"),
        restored(messages),
        tools,
        read_choice(body),
        read_settings(body),
        stream=strict.get_flag(body, "stream") or False,
        extra=build_extra(NAME, unknown_fields(body, _REQUEST), also=also, **spelled(body)),
    )


def _system(given: Any) -> list[rq.Message]:
    if given in (None, "", []):
        return []
    parts = read_content(given, "system", "system")
    return [rq.Message("system", parts, extra=build_extra(NAME, {}, listed=isinstance(given, list)))]


def read_message(message: Object) -> list[rq.Message]:
    """One message: two where tool results and other content share it."""
    role: Any = message.get("role")
    if not isinstance(role, str) or role not in _ROLES:
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
    extra = build_extra(NAME, unknown, **marks) if marks or unknown else None
    if role == "user" and any(type(part) is rq.Result for part in parts):
        return _parted(parts, unknown)
    return [rq.Message(cast("rq.Role", role), parts, "", extra)]


def _parted(parts: list[rq.AnyPart], unknown: Object) -> list[rq.Message]:
    """Results first, then the rest; where they stood otherwise, their places are kept."""
    results: list[rq.AnyPart] = [part for part in parts if type(part) is rq.Result]
    extra = build_extra(NAME, unknown) if unknown else None
    if len(results) == len(parts):
        return [rq.Message("tool", results, "", extra)]
    others: list[rq.AnyPart] = [part for part in parts if type(part) is not rq.Result]
    places = [place for place, part in enumerate(parts) if type(part) is not rq.Result]
    mixed = places if places[0] < len(results) else None
    joined = rq.Message("user", others, extra=build_extra(NAME, {}, joined=True, places=mixed))
    return [rq.Message("tool", results, "", extra), joined]


MODES: dict[str, rq.ChoiceMode] = {"auto": "auto", "any": "required", "none": "none", "tool": "tool"}
TIERS = {"standard_only": "default"}  # as the other protocols say it
_TOOL = frozenset({"type", "name", "description", "input_schema", "strict", "cache_control"})


def read_tool(tool: Object) -> rq.Tool:
    """The client's own tools have a schema; every other kind is run upstream or built in."""
    kind = tool.get("type")
    cache, hint = cached(tool)
    if kind not in (None, "custom") and "input_schema" not in tool:
        extra = build_extra(
            NAME,
            {"tool": unknown_fields(tool, {"cache_control"})},
            also=empty_fields(tool, {"cache_control"}),
            hint=hint,
        )
        return rq.Tool(strict.get_text(tool, "name") or str(kind), kind="provider", cache=cache, extra=extra)
    schema = tool.get("input_schema")
    if not isinstance(schema, dict):
        raise BadRequest("an object", schema, "input_schema")
    is_strict = strict.get_flag(tool, "strict") if "strict" in tool else None
    name, description = strict.require_text(tool, "name"), strict.get_text(tool, "description")
    made = rq.Tool(name, description, schema, "function", is_strict)  # pyright: ignore[reportUnknownArgumentType]
    if len(tool) != 3 or not made.description or "type" not in schema:  # noqa: PLR2004 — name, description, schema
        made.cache = cache
        made.extra = build_extra(
            NAME, unknown_fields(tool, _TOOL), also=empty_fields(tool, _TOOL - {"input_schema"}), hint=hint, kind=kind,
            untyped="type" not in schema,
        )  # fmt: skip
    grammar = grammar_of(schema)  # pyright: ignore[reportUnknownArgumentType]
    if grammar is not None:
        made.kind, made.schema = "custom", grammar or None
    return made


def read_choice(body: Object) -> rq.ToolChoice | None:
    """Which tool may or must be called."""
    return None if body.get("tool_choice") is None else strict.read_object(body, "tool_choice", _choice)


def _choice(given: Object) -> rq.ToolChoice:
    mode = strict.get_choice(given, "type", MODES)
    names = [strict.require_text(given, "name")] if mode == "tool" else []
    strange = unknown_fields(given, {"type", "name", "disable_parallel_tool_use"})
    return rq.ToolChoice(mode, names, extra=build_extra(NAME, strange) if strange else None)


def spelled(body: Object) -> Object:
    """How a request puts what can be put in several ways. What is odd about thinking and output is kept whole."""
    thinking, output = body.get("thinking"), body.get("output_config")
    metadata: Any = body.get("metadata")
    return {
        "unlimited": body.get("max_tokens") is None,
        "thinking": {"as": thinking} if thinking is not None else None,
        "unthinking": thinking is None and isinstance(output, dict) and "effort" in output,
        "output": {"as": output} if output is not None else None,
        "form": {"as": body["output_format"]} if body.get("output_format") is not None else None,
        "metadata": {"as": metadata} if metadata is not None else None,
    }


def read_settings(body: Object) -> rq.Settings:
    """The settings that all protocols share in some form."""
    parallel = strict.get_flag(strict.get_object(body, "tool_choice"), "disable_parallel_tool_use")
    effort, form = _output(body)
    budget, thoughts = (None, None)
    if body.get("thinking") is not None:
        budget, thoughts = strict.read_object(body, "thinking", lambda one: read_thinking(one, effort))
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
        tier=TIERS.get(tier, tier),
        user=user,
        metadata=metadata,
    )


def read_thinking(thinking: Object, effort: str) -> tuple[int | None, bool | None]:
    """(budget, whether to show it). Adaptive thinking has no budget: an effort or this says that it is wanted."""
    kind = strict.require_text(thinking, "type")
    if kind == "disabled":
        return 0, None
    display = strict.get_text(thinking, "display")
    shown = True if kind == "adaptive" and not effort else None
    return strict.get_integer(thinking, "budget_tokens"), display != "omitted" if display else shown


def _output(body: Object) -> tuple[str, rq.Format | None]:
    effort, form = "", None
    if body.get("output_config") is not None:
        effort, form = strict.read_object(body, "output_config", read_output)
    if body.get("output_format") is not None:
        form = strict.read_object(body, "output_format", read_format)
    return effort, form


def read_output(output: Object) -> tuple[str, rq.Format | None]:
    """(effort, form of the answer)."""
    form = None if output.get("format") is None else strict.read_object(output, "format", read_format)
    return strict.get_text(output, "effort"), form


def read_format(given: Object) -> rq.Format | None:
    """The form that an answer should have."""
    return (
        rq.Format("schema", schema=strict.get_object(given, "schema")) if given.get("type") == "json_schema" else None
    )


def read_metadata(body: Object) -> tuple[str, Object | None]:
    """Who asks, and what else is noted."""
    metadata = strict.get_object(body, "metadata")
    if not metadata:
        return "", None
    user = strict.read_object(body, "metadata", lambda one: strict.get_text(one, "user_id"))
    return user, unknown_fields(metadata, {"user_id"}) or None
