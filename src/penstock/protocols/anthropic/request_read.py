"""Anthropic Messages requests → canonical: the messages. `write.py` is the way back.

Tool results come inside user messages; here they are messages of role `tool`, and what stood beside them follows in a
user message marked as joined. The top-level system prompt is the first message; those further down stay there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from penstock import reading
from penstock import request as rq
from penstock.errors import BadRequest
from penstock.markers import grammar_of, restored
from penstock.markers.extract import free_calls
from penstock.protocols.anthropic.request_read_parts import NAME, cached, read_content
from penstock.reading import keep, rest, unsaid

if TYPE_CHECKING:
    from penstock.pick import Object

__all__ = ["NAME", "read_message", "read_request", "read_tool"]
SETTINGS = frozenset({
    "max_tokens", "temperature", "top_p", "top_k", "stop_sequences", "metadata", "service_tier", "thinking",
    "output_config", "output_format",
})  # fmt: skip

_REQUEST = SETTINGS | {"model", "messages", "system", "tools", "tool_choice", "stream"}
_ROLES = frozenset({"user", "assistant", "system"})


def read_request(body: Object) -> rq.Request:
    """A request from its parsed body."""
    reading.as_object(body)
    messages = _system(body.get("system"))
    for row in reading.rows(body, "messages", read_message, need=True):
        messages += row
    tools = reading.rows(body, "tools", read_tool)
    free_calls(messages, tools)
    also = unsaid(body, _REQUEST)
    if body.get("stream") is False:
        also["stream"] = False
    return rq.Request(
        reading.text(body, "model"),
        restored(messages),
        tools,
        read_choice(body),
        read_settings(body),
        stream=reading.flag(body, "stream") or False,
        extra=keep(NAME, rest(body, _REQUEST), also=also, **spelled(body)),
    )


def _system(given: Any) -> list[rq.Message]:
    if given in (None, "", []):
        return []
    parts = read_content(given, "system", "system")
    return [rq.Message("system", parts, extra=keep(NAME, {}, listed=isinstance(given, list)))]


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
    unknown = rest(message, {"role", "content"}) if len(message) > 2 else {}  # noqa: PLR2004
    extra = keep(NAME, unknown, **marks) if marks or unknown else None
    if role == "user" and any(type(part) is rq.Result for part in parts):
        return _parted(parts, unknown)
    return [rq.Message(cast("rq.Role", role), parts, "", extra)]


def _parted(parts: list[rq.AnyPart], unknown: Object) -> list[rq.Message]:
    """Results first, then the rest; where they stood otherwise, their places are kept."""
    results: list[rq.AnyPart] = [part for part in parts if type(part) is rq.Result]
    extra = keep(NAME, unknown) if unknown else None
    if len(results) == len(parts):
        return [rq.Message("tool", results, "", extra)]
    others: list[rq.AnyPart] = [part for part in parts if type(part) is not rq.Result]
    places = [place for place, part in enumerate(parts) if type(part) is not rq.Result]
    mixed = places if places[0] < len(results) else None
    joined = rq.Message("user", others, extra=keep(NAME, {}, joined=True, places=mixed))
    return [rq.Message("tool", results, "", extra), joined]


MODES: dict[str, rq.ChoiceMode] = {"auto": "auto", "any": "required", "none": "none", "tool": "tool"}
TIERS = {"standard_only": "default"}  # as the other protocols say it
_TOOL = frozenset({"type", "name", "description", "input_schema", "strict", "cache_control"})


def read_tool(tool: Object) -> rq.Tool:
    """The client's own tools have a schema; every other kind is run upstream or built in."""
    kind = tool.get("type")
    cache, hint = cached(tool)
    if kind not in (None, "custom") and "input_schema" not in tool:
        extra = keep(NAME, {"tool": rest(tool, {"cache_control"})}, also=unsaid(tool, {"cache_control"}), hint=hint)
        return rq.Tool(reading.text(tool, "name") or str(kind), kind="provider", cache=cache, extra=extra)
    schema = tool.get("input_schema")
    if not isinstance(schema, dict):
        raise BadRequest("an object", schema, "input_schema")
    strict = reading.flag(tool, "strict") if "strict" in tool else None
    made = rq.Tool(reading.needed(tool, "name"), reading.text(tool, "description"), schema, "function", strict)  # pyright: ignore[reportUnknownArgumentType]
    if len(tool) != 3 or not made.description or "type" not in schema:  # noqa: PLR2004 — name, description, schema
        made.cache = cache
        made.extra = keep(
            NAME, rest(tool, _TOOL), also=unsaid(tool, _TOOL - {"input_schema"}), hint=hint, kind=kind,
            untyped="type" not in schema,
        )  # fmt: skip
    grammar = grammar_of(schema)  # pyright: ignore[reportUnknownArgumentType]
    if grammar is not None:
        made.kind, made.schema = "custom", grammar or None
    return made


def read_choice(body: Object) -> rq.ToolChoice | None:
    """Which tool may or must be called."""
    return None if body.get("tool_choice") is None else reading.inside(body, "tool_choice", _choice)


def _choice(given: Object) -> rq.ToolChoice:
    mode = reading.word(given, "type", MODES)
    names = [reading.needed(given, "name")] if mode == "tool" else []
    strange = rest(given, {"type", "name", "disable_parallel_tool_use"})
    return rq.ToolChoice(mode, names, extra=keep(NAME, strange) if strange else None)


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
    parallel = reading.flag(reading.table(body, "tool_choice"), "disable_parallel_tool_use")
    effort, form = _output(body)
    budget, thoughts = (None, None)
    if body.get("thinking") is not None:
        budget, thoughts = reading.inside(body, "thinking", lambda one: read_thinking(one, effort))
    user, metadata = read_metadata(body)
    tier = reading.text(body, "service_tier")
    return rq.Settings(
        max_output=reading.whole(body, "max_tokens"),
        temperature=reading.number(body, "temperature"),
        top_p=reading.number(body, "top_p"),
        top_k=reading.whole(body, "top_k"),
        stop=reading.strings(body, "stop_sequences"),
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
    kind = reading.needed(thinking, "type")
    if kind == "disabled":
        return 0, None
    display = reading.text(thinking, "display")
    shown = True if kind == "adaptive" and not effort else None
    return reading.whole(thinking, "budget_tokens"), display != "omitted" if display else shown


def _output(body: Object) -> tuple[str, rq.Format | None]:
    effort, form = "", None
    if body.get("output_config") is not None:
        effort, form = reading.inside(body, "output_config", read_output)
    if body.get("output_format") is not None:
        form = reading.inside(body, "output_format", read_format)
    return effort, form


def read_output(output: Object) -> tuple[str, rq.Format | None]:
    """(effort, form of the answer)."""
    form = None if output.get("format") is None else reading.inside(output, "format", read_format)
    return reading.text(output, "effort"), form


def read_format(given: Object) -> rq.Format | None:
    """The form that an answer should have."""
    return rq.Format("schema", schema=reading.table(given, "schema")) if given.get("type") == "json_schema" else None


def read_metadata(body: Object) -> tuple[str, Object | None]:
    """Who asks, and what else is noted."""
    metadata = reading.table(body, "metadata")
    if not metadata:
        return "", None
    user = reading.inside(body, "metadata", lambda one: reading.text(one, "user_id"))
    return user, rest(metadata, {"user_id"}) or None
