"""Anthropic Messages requests → canonical. `write.py` is the way back.

Tool results come inside user messages; here they are messages of role `tool`, and what stood beside them follows in a
user message marked as joined. The top-level system prompt is the first message; those further down stay there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from penstock import reading
from penstock import request as rq
from penstock.errors import BadRequest
from penstock.reading import rest

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.events import Extra
    from penstock.pick import Object

NAME = "anthropic"
ROLES = frozenset({"user", "assistant", "system"})
_REQUEST = frozenset({
    "model", "messages", "system", "tools", "tool_choice", "stream", "max_tokens", "temperature", "top_p", "top_k",
    "stop_sequences", "metadata", "service_tier", "thinking", "output_config", "output_format",
})  # fmt: skip
_encode = msgspec.json.Encoder().encode


def extra_of(fields: Object, **spelled: Any) -> Extra | None:
    """Extra data of this protocol: unknown fields, and how something was spelled."""
    marks = {key: value for key, value in spelled.items() if value}
    kept = {**fields, **({"_": marks} if marks else {})}
    return {NAME: kept} if kept else None


def read_request(body: Object) -> rq.Request:
    """A request from its parsed body."""
    messages = _system(body.get("system"))
    for row in reading.rows(body, "messages", read_message):
        messages += row
    thinking, output = reading.table(body, "thinking"), reading.table(body, "output_config")
    old_format = reading.table(body, "output_format")
    return rq.Request(
        reading.text(body, "model"),
        messages,
        reading.rows(body, "tools", read_tool),
        _choice(reading.table(body, "tool_choice")),
        _settings(body, thinking, output, old_format),
        stream=reading.flag(body, "stream") or False,
        extra=extra_of(
            {
                **rest(body, _REQUEST),
                **({"thinking": thinking} if thinking else {}),
                **({"output_config": more} if (more := rest(output, {"effort", "format"})) else {}),
            },
            old_format=bool(old_format),
        ),
    )


def _system(given: Any) -> list[rq.Message]:
    if given in (None, "", []):
        return []
    parts = read_content(given, "system")
    return [rq.Message("system", parts, extra=extra_of({}, top=True, listed=isinstance(given, list)))]


# ── messages ──────────────────────────────────────────────────────────────────────────────────────


def read_message(message: Object) -> list[rq.Message]:
    """One message: two where tool results and other content share it."""
    role = message.get("role")
    if role not in ROLES:
        raise BadRequest("user, assistant or system", role, "role")
    content = message.get("content")
    parts = read_content(content, "content")
    unknown = rest(message, {"role", "content"}) if len(message) > 2 else {}  # noqa: PLR2004
    listed = isinstance(content, list) and len(parts) == 1 and type(parts[0]) is rq.Text
    if role != "user":
        return [rq.Message(role, parts, extra=extra_of(unknown, listed=listed) if unknown or listed else None)]
    return _user(parts, unknown, listed=listed)


def _user(parts: list[rq.AnyPart], unknown: Object, *, listed: bool) -> list[rq.Message]:
    results: list[rq.AnyPart] = [part for part in parts if type(part) is rq.Result]
    if not results:
        return [rq.Message("user", parts, extra=extra_of(unknown, listed=listed) if unknown or listed else None)]
    made = [rq.Message("tool", results, extra=extra_of(unknown))]
    if len(results) < len(parts):
        others: list[rq.AnyPart] = [part for part in parts if type(part) is not rq.Result]
        made.append(rq.Message("user", others, extra=extra_of({}, joined=True)))
    return made


def read_content(content: Any, key: str) -> list[rq.AnyPart]:
    """Content: a string, or a list of blocks."""
    if isinstance(content, str):
        return [rq.Text(content)]
    if not isinstance(content, list):
        raise BadRequest("a string or a list of blocks", content, key)
    return reading.each(content, read_block, key)  # pyright: ignore[reportUnknownArgumentType]


def read_block(block: Object) -> rq.AnyPart:
    """A content block of any type."""
    kind = block.get("type")
    part = _BLOCKS.get(kind, _upstream_result if str(kind).endswith("_tool_result") else _other)(block)
    hint = block.get("cache_control")
    if hint is not None:
        part.cache = str(hint.get("ttl") or "5m") if isinstance(hint, dict) else "5m"  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]
    return part


_TEXT = frozenset({"type", "text", "cache_control"})


def _text(block: Object) -> rq.Text:
    extra = extra_of(rest(block, _TEXT)) if len(block) > 2 else None  # noqa: PLR2004
    return rq.Text(reading.needed(block, "text"), extra=extra)


def _thinking(block: Object) -> rq.Reasoning:
    own = {"signature": reading.text(block, "signature"), **rest(block, {"type", "thinking", "signature"})}
    return rq.Reasoning(reading.text(block, "thinking"), extra={NAME: own})


def _redacted(block: Object) -> rq.Reasoning:
    return rq.Reasoning(form="redacted", extra={NAME: {"redacted": reading.text(block, "data")}})


_CALL = frozenset({"type", "id", "name", "input", "cache_control"})


def _call(block: Object) -> rq.Call:
    extra = extra_of(rest(block, _CALL)) if block.keys() - _CALL else None
    json = _encode(block.get("input", {})).decode()
    return rq.Call(reading.needed(block, "id"), reading.needed(block, "name"), json, extra=extra)


def _upstream_call(block: Object) -> rq.Call:
    json = _encode(block.get("input", {})).decode()
    own = rest(block, {"id", "name", "input", "cache_control"})
    return rq.Call(reading.needed(block, "id"), reading.text(block, "name"), json, "provider", extra={NAME: own})


def _result(block: Object) -> rq.Result:
    content = block.get("content")
    inside = [] if content is None else read_content(content, "content")
    parts: list[rq.ResultPart] = [part for part in inside if isinstance(part, rq.ResultPart)]
    unknown = rest(block, {"type", "tool_use_id", "content", "is_error", "cache_control"})
    spelled = {"listed": isinstance(content, list), "said": block.get("is_error") is False}
    extra = extra_of(unknown, **spelled) if unknown or any(spelled.values()) else None
    return rq.Result(
        reading.needed(block, "tool_use_id"), "", parts, reading.flag(block, "is_error") or False, extra=extra
    )


def _upstream_result(block: Object) -> rq.Result:
    content: list[rq.ResultPart] = [rq.Json(_encode(block.get("content")).decode())]
    own = rest(block, {"content", "cache_control"})
    call = reading.text(block, "tool_use_id")
    return rq.Result(call, "", content, bool(block.get("is_error")), by="provider", extra={NAME: own})


def _image(block: Object) -> rq.File:
    return _file(block, "image/*")


def _document(block: Object) -> rq.AnyPart:
    source = reading.table(block, "source")
    if source.get("type") in ("text", "content"):
        return _other(block)
    return _file(block, "application/pdf")


def _file(block: Object, media: str) -> rq.File:
    """By base64, by URL, or by the id of an uploaded file."""
    source = reading.table(block, "source")
    made = rq.File(
        reading.text(source, "media_type") or media, reading.text(source, "url"), reading.text(source, "data"),
        name=reading.text(block, "title"), id=reading.text(source, "file_id"),
    )  # fmt: skip
    own = rest(block, {"type", "source", "title", "cache_control"})
    made.extra = extra_of(own, kind=block.get("type") if media != made.media.split("/")[0] + "/*" else "")
    return made


def _other(block: Object) -> rq.Opaque:
    return rq.Opaque(NAME, reading.text(block, "type"), rest(block, {"cache_control"}))


_BLOCKS: dict[Any, Callable[[Object], rq.AnyPart]] = {
    "text": _text, "thinking": _thinking, "redacted_thinking": _redacted, "tool_use": _call, "tool_result": _result,
    "server_tool_use": _upstream_call, "mcp_tool_use": _upstream_call, "mcp_tool_result": _upstream_result,
    "image": _image, "document": _document,
}  # fmt: skip

# ── tools and settings ────────────────────────────────────────────────────────────────────────────

_TOOL = frozenset({"type", "name", "description", "input_schema", "strict", "cache_control"})


def read_tool(tool: Object) -> rq.Tool:
    """The client's own tools have a schema; every other kind is run upstream or built in."""
    hint = tool.get("cache_control")
    cache = "" if hint is None else str(hint.get("ttl") or "5m") if isinstance(hint, dict) else "5m"  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]
    if "input_schema" not in tool and tool.get("type") not in (None, "custom"):
        return rq.Tool(
            reading.text(tool, "name"),
            kind="provider",
            cache=cache,
            extra={NAME: {"tool": rest(tool, {"cache_control"})}},
        )
    unknown = rest(tool, _TOOL) if tool.keys() - _TOOL else {}
    extra = extra_of(unknown, typed=tool.get("type") is not None)
    return rq.Tool(
        reading.needed(tool, "name"), reading.text(tool, "description"), reading.table(tool, "input_schema"),
        strict=reading.flag(tool, "strict"), cache=cache, extra=extra,
    )  # fmt: skip


MODES: dict[Any, rq.ChoiceMode] = {"auto": "auto", "any": "required", "none": "none", "tool": "tool"}


def _choice(given: Object) -> rq.ToolChoice | None:
    if not given:
        return None
    if given.get("type") not in MODES:
        raise BadRequest("auto, any, tool or none", given.get("type"), "tool_choice.type")
    name = reading.text(given, "name")
    return rq.ToolChoice(MODES[given["type"]], [name] if name else [])


def _settings(body: Object, thinking: Object, output: Object, old_format: Object) -> rq.Settings:
    parallel = reading.flag(reading.table(body, "tool_choice"), "disable_parallel_tool_use")
    form = reading.table(output, "format") or old_format
    metadata = reading.table(body, "metadata")
    return rq.Settings(
        max_output=reading.whole(body, "max_tokens"),
        temperature=reading.number(body, "temperature"),
        top_p=reading.number(body, "top_p"),
        top_k=reading.whole(body, "top_k"),
        stop=list(body.get("stop_sequences") or ()),
        format=rq.Format("schema", schema=reading.table(form, "schema")) if form else None,
        parallel_calls=None if parallel is None else not parallel,
        effort=reading.text(output, "effort"),
        budget=0 if thinking.get("type") == "disabled" else reading.whole(thinking, "budget_tokens"),
        thoughts=None if not thinking else thinking.get("type") != "disabled",
        tier=reading.text(body, "service_tier"),
        user=reading.text(metadata, "user_id"),
        metadata=metadata or None,
    )
