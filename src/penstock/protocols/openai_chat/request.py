"""Chat Completions requests → canonical. `write.py` is the way back.

A message's calls, reasoning and refusal become parts in the order they would be streamed. What has no word here stays
in `extra`, at its level; how something was spelled (a list of one text, which of two limits) stays under `_`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock import reading
from penstock import request as rq
from penstock.errors import BadRequest
from penstock.media import of_url
from penstock.reading import rest

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.events import Extra
    from penstock.pick import Object

NAME = "openai-chat"
ROLES: dict[str, rq.Role] = {
    "system": "system", "developer": "system", "user": "user", "assistant": "assistant", "tool": "tool",
    "function": "tool",
}  # fmt: skip
MODES: dict[str, rq.ChoiceMode] = {"auto": "auto", "none": "none", "required": "required", "any": "required"}
_MESSAGE = frozenset({
    "role", "content", "name", "tool_calls", "tool_call_id", "function_call", "refusal", "reasoning_content",
    "reasoning", "reasoning_details",
})  # fmt: skip
_REQUEST = frozenset({
    "model", "messages", "tools", "functions", "tool_choice", "function_call", "stream", "stream_options",
    "max_tokens", "max_completion_tokens", "temperature", "top_p", "top_k", "stop", "seed", "frequency_penalty",
    "presence_penalty", "n", "logprobs", "top_logprobs", "response_format", "parallel_tool_calls", "reasoning_effort",
    "verbosity", "service_tier", "user", "metadata", "prompt_cache_key", "store",
})  # fmt: skip


def extra_of(fields: Object, **spelled: Any) -> Extra | None:
    """Extra data of this protocol: unknown fields, and how something was spelled."""
    marks = {key: value for key, value in spelled.items() if value}
    kept = {**fields, **({"_": marks} if marks else {})}
    return {NAME: kept} if kept else None


def read_request(body: Object) -> rq.Request:
    """A request from its parsed body."""
    stream_options = reading.table(body, "stream_options")
    return rq.Request(
        reading.text(body, "model"),
        reading.rows(body, "messages", read_message),
        [*reading.rows(body, "tools", read_tool), *reading.rows(body, "functions", _legacy_tool)],
        read_choice(body.get("tool_choice", body.get("function_call"))),
        read_settings(body),
        stream=reading.flag(body, "stream") or False,
        usage=reading.flag(stream_options, "include_usage"),
        extra=extra_of(
            {**rest(body, _REQUEST), **_if(stream_options=rest(stream_options, {"include_usage"}))},
            limit="max_completion_tokens" if body.get("max_completion_tokens") is not None else "",
            legacy="functions" in body or "function_call" in body,
        ),
    )


def _if(**fields: Any) -> Object:
    return {key: value for key, value in fields.items() if value}


# ── messages ──────────────────────────────────────────────────────────────────────────────────────


def read_message(message: Object) -> rq.Message:
    """One message of any role."""
    role = message.get("role")
    if role not in ROLES:
        raise BadRequest(f"one of {', '.join(ROLES)}", role, "role")
    canonical = ROLES[role]
    content = message.get("content")
    if canonical == "tool":
        parts: list[rq.AnyPart] = [_result(message, content)]
    elif canonical == "assistant":
        parts = _said(message, content)
    else:
        parts = read_content(content)
    listed = isinstance(content, list) and canonical != "tool" and all(type(part) is rq.Text for part in parts)
    unknown = rest(message, _MESSAGE) if message.keys() - _MESSAGE else {}
    marked = role if role in ("developer", "function") else ""
    extra = extra_of(unknown, listed=listed, role=marked) if unknown or listed or marked else None
    return rq.Message(canonical, parts, reading.text(message, "name") if "name" in message else "", extra)


def _said(message: Object, content: Any) -> list[rq.AnyPart]:
    """An assistant's message: what it thought, said, declined and called."""
    parts: list[rq.AnyPart] = []
    details = message.get("reasoning_details")
    thought = reading.text(message, "reasoning_content") or reading.text(message, "reasoning")
    if thought or details:
        field = "" if message.get("reasoning_content") is not None else "reasoning"
        parts.append(rq.Reasoning(thought, extra=extra_of(_if(reasoning_details=details), field=field)))
    parts += read_content(content)
    if message.get("refusal"):
        parts.append(rq.Text(reading.text(message, "refusal"), refusal=True))
    parts += reading.rows(message, "tool_calls", read_call)
    legacy = reading.table(message, "function_call")
    if legacy:
        name = reading.text(legacy, "name")
        parts.append(rq.Call(name, name, reading.text(legacy, "arguments"), extra=extra_of({}, legacy=True)))
    return parts


def _result(message: Object, content: Any) -> rq.Result:
    call = reading.text(message, "tool_call_id") or reading.text(message, "name")
    parts: list[rq.ResultPart] = [part for part in read_content(content) if isinstance(part, rq.ResultPart)]
    extra = extra_of({}, listed=isinstance(content, list))
    return rq.Result(call, reading.text(message, "name"), parts, extra=extra)


def read_call(call: Object) -> rq.Call:
    """A tool call of an assistant's message."""
    custom = call.get("type") == "custom"
    said = reading.table(call, "custom" if custom else "function")
    extra = extra_of(rest(call, {"id", "type", "function", "custom", "index"})) if len(call) > 3 else None  # noqa: PLR2004
    given = said.get("input" if custom else "arguments")
    if not isinstance(given, str | None):
        raise BadRequest("a string of JSON", given, "function.arguments")
    name, form = reading.needed(said, "name"), "text" if custom else "json"
    return rq.Call(reading.text(call, "id"), name, given or "", form=form, extra=extra)  # type: ignore[arg-type]


def read_content(content: Any) -> list[rq.AnyPart]:
    """A message's content: a string, a list of parts, or nothing."""
    if isinstance(content, str):
        return [rq.Text(content)] if content else []
    if content is None:
        return []
    if not isinstance(content, list):
        raise BadRequest("a string or a list of parts", content, "content")
    return reading.each(content, _part, "content")  # pyright: ignore[reportUnknownArgumentType]


def _part(part: Object) -> rq.AnyPart:
    made = _PARTS.get(part.get("type", ""), _other)(part)
    hint = part.get("cache_control")
    if hint is not None:
        made.cache = str(hint.get("ttl") or "5m") if isinstance(hint, dict) else "5m"  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]
    return made


def _text(part: Object) -> rq.Text:
    extra = extra_of(rest(part, {"type", "text", "cache_control"})) if len(part) > 2 else None  # noqa: PLR2004
    return rq.Text(reading.needed(part, "text"), extra=extra)


def _refusal(part: Object) -> rq.Text:
    return rq.Text(reading.needed(part, "refusal"), refusal=True)


def _image(part: Object) -> rq.File:
    given = part.get("image_url")
    image: Object = {"url": given} if isinstance(given, str) else reading.table(part, "image_url")
    try:
        media, url, data = of_url(reading.needed(image, "url"), "image/*")
    except BadRequest as error:
        raise error.at("image_url") from None
    return rq.File(media, url, data, extra=extra_of(rest(image, {"url"}), bare=isinstance(given, str)))


def _audio(part: Object) -> rq.File:
    audio = reading.table(part, "input_audio")
    return rq.File(f"audio/{reading.text(audio, 'format') or 'wav'}", data=reading.text(audio, "data"))


def _file(part: Object) -> rq.File:
    file = reading.table(part, "file")
    media, url, data = of_url(reading.text(file, "file_data"), "application/pdf")
    name, id = reading.text(file, "filename"), reading.text(file, "file_id")  # noqa: A001 — as the part calls it
    return rq.File(media, url, data, name=name, id=id, extra=extra_of(rest(file, {"file_data", "filename", "file_id"})))


def _other(part: Object) -> rq.Opaque:
    """A kind of part without a word: kept whole for this protocol."""
    return rq.Opaque(NAME, reading.text(part, "type"), part)


_PARTS: dict[Any, Callable[[Object], rq.AnyPart]] = {
    "text": _text, "refusal": _refusal, "image_url": _image, "input_audio": _audio, "file": _file,
}  # fmt: skip

# ── tools and settings ────────────────────────────────────────────────────────────────────────────


def read_tool(tool: Object) -> rq.Tool:
    """A tool of any type; one of a type without a word is kept whole."""
    kind = tool.get("type", "function")
    if kind == "function":
        return _function(tool, reading.table(tool, "function") or rest(tool, {"type"}))
    if kind == "custom":
        said = reading.table(tool, "custom")
        extra = extra_of(_if(tool=rest(tool, {"type", "custom"}), custom=rest(said, {"name", "description"})))
        return rq.Tool(reading.needed(said, "name"), reading.text(said, "description"), kind="custom", extra=extra)
    return rq.Tool(str(tool.get("name") or kind), kind="unknown", extra={NAME: {"tool": tool}})


def _function(tool: Object, said: Object) -> rq.Tool:
    strange = rest(said, {"name", "description", "parameters", "strict"})
    beside = rest(tool, {"type", "function", "cache_control"}) if "function" in tool else {}
    extra = extra_of(_if(function=strange, tool=beside)) if strange or beside else None
    schema = reading.table(said, "parameters") if said.get("parameters") is not None else None
    return rq.Tool(
        reading.needed(said, "name"), reading.text(said, "description"), schema, strict=reading.flag(said, "strict"),
        cache="5m" if tool.get("cache_control") else "", extra=extra,
    )  # fmt: skip


def _legacy_tool(function: Object) -> rq.Tool:
    return _function({}, function)


def read_choice(choice: Any) -> rq.ToolChoice | None:
    """Which tool may or must be called, in all the ways it can be said."""
    if choice is None:
        return None
    if isinstance(choice, str):
        if choice not in MODES:
            raise BadRequest("auto, none, required or an object", choice, "tool_choice")
        return rq.ToolChoice(MODES[choice], extra=extra_of({}, word="any" if choice == "any" else ""))
    if not isinstance(choice, dict):
        raise BadRequest("a string or an object", choice, "tool_choice")
    return _chosen(choice)  # pyright: ignore[reportUnknownArgumentType]


def _chosen(choice: Object) -> rq.ToolChoice:
    kind = choice.get("type", "function")
    if kind == "allowed_tools":
        allowed = reading.table(choice, "allowed_tools")
        names = reading.rows(allowed, "tools", lambda tool: reading.text(reading.table(tool, "function"), "name"))
        mode = MODES.get(reading.text(allowed, "mode"), "auto")
        return rq.ToolChoice(mode, names, extra={NAME: {"choice": choice}})
    name = reading.text(reading.table(choice, str(kind)), "name") or reading.text(choice, "name")
    extra = extra_of({}, kind=kind if kind != "function" else "")
    return rq.ToolChoice("tool", [name], extra=extra)


def read_settings(body: Object) -> rq.Settings:
    """The settings that all protocols share in some form."""
    stop = body.get("stop")
    limit = reading.whole(body, "max_completion_tokens")
    return rq.Settings(
        max_output=reading.whole(body, "max_tokens") if limit is None else limit,
        temperature=reading.number(body, "temperature"),
        top_p=reading.number(body, "top_p"),
        top_k=reading.whole(body, "top_k"),
        stop=[stop] if isinstance(stop, str) else list(stop or ()),
        seed=reading.whole(body, "seed"),
        frequency_penalty=reading.number(body, "frequency_penalty"),
        presence_penalty=reading.number(body, "presence_penalty"),
        choices=reading.whole(body, "n"),
        logprobs=reading.flag(body, "logprobs"),
        top_logprobs=reading.whole(body, "top_logprobs"),
        format=_format(reading.table(body, "response_format")),
        parallel_calls=reading.flag(body, "parallel_tool_calls"),
        effort=reading.text(body, "reasoning_effort"),
        verbosity=reading.text(body, "verbosity"),
        tier=reading.text(body, "service_tier"),
        user=reading.text(body, "user"),
        metadata=reading.table(body, "metadata") or None,
        cache_key=reading.text(body, "prompt_cache_key"),
        store=reading.flag(body, "store"),
    )


def _format(given: Object) -> rq.Format | None:
    kind = given.get("type")
    if kind is None or kind == "text":
        return None if kind is None else rq.Format()
    if kind == "json_object":
        return rq.Format("json")
    said = reading.table(given, "json_schema")
    return rq.Format(
        "schema", reading.text(said, "name"), reading.table(said, "schema") or None, reading.text(said, "description"),
        reading.flag(said, "strict"),
    )  # fmt: skip
