"""Anthropic tools, tool choice and settings → canonical."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock import reading
from penstock import request as rq
from penstock.carrying import grammar_of
from penstock.errors import BadRequest
from penstock.protocols.anthropic.request_blocks import NAME, cached
from penstock.reading import keep, rest, unsaid

if TYPE_CHECKING:
    from penstock.pick import Object

SETTINGS = frozenset({
    "max_tokens", "temperature", "top_p", "top_k", "stop_sequences", "metadata", "service_tier", "thinking",
    "output_config", "output_format",
})  # fmt: skip
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
