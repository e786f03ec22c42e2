"""Reads the arguments of a call into a `TurnCall`: the canonical request, and how it is sent.

A request is a model's name with content and keyword parameters, a body of the operation's protocol, or a `Request`.
Messages and tools may be dicts of the protocol or canonical objects, mixed in one list.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, cast

from msgspec.structs import replace

from penstock._client import parameters as params
from penstock._http.request_options import RequestOptions
from penstock._markers import MARK_START, protect_text
from penstock._messages.options import OPTIONS
from penstock._messages.request_codecs import reader
from penstock._option_checks import check_options
from penstock.errors import BadRequest, InputError
from penstock.request import Format, Message, Request, Tool, ToolChoice, Turn

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock._messages.options import ConvertOptions


class TurnCall(NamedTuple):
    """One turn to send, with everything that was decided before. `source`: the protocol of the caller's side."""

    request: Request
    operation: str
    source: str
    options: RequestOptions
    engine: str
    convert: ConvertOptions
    cache: bool | Literal["refresh"] = True  # False: without the response cache; refresh: stored, but not looked up


class TurnOperation(NamedTuple):
    """How the calls of an operation are read. `content`: the field of the body that holds what is asked."""

    protocol: str
    content: str
    parameters: Any


CHAT = TurnOperation("openai-chat", "messages", params.ChatParameters)
OPERATIONS = {
    "chat": CHAT,
    "responses": TurnOperation("responses", "input", params.ResponsesParameters),
    "completions": TurnOperation("completions", "prompt", params.CompleteParameters),
    "fim": TurnOperation("completions", "prompt", params.CompleteParameters),
}


def read_turn_call(
    function: str, operation: str, model: Any, content: Any, given: Mapping[str, Any], defaults: RequestOptions
) -> TurnCall:
    """Reads the arguments of a method. `defaults` are the options of the client."""
    stream, row = function.endswith("_stream"), OPERATIONS[operation]
    params.check_parameters(function, given, row.parameters, ("model", row.content))
    fields = {name: value for name, value in given.items() if value is not None}
    _check_stream(function, fields.pop("stream", stream), stream=stream)
    options, engine = take_options(fields, defaults)
    convert = _take_convert_options(fields)
    cache = fields.pop("cache", True)
    if cache not in (True, False, "refresh"):
        raise InputError(f"cache: expected True, False or 'refresh', found {cache!r}")
    request = replace(read_request(model, row, content, fields), stream=stream)
    return TurnCall(request, operation, row.protocol, options, engine, convert, cache)


def _check_stream(function: str, asked: object, *, stream: bool) -> None:
    """Refuses `stream` where the method does the opposite."""
    if asked == stream:
        return
    if function == "run":
        raise InputError("stream: a run is awaited for its result, or read for its events; leave out stream")
    other = function.removesuffix("_stream") if stream else f"{function}_stream"
    raise InputError(f"stream: {function} {'yields events' if stream else 'returns a complete answer'}; call {other}")


_OPTION_NAMES = frozenset({"options", "timeout", "extra_body", "extra_headers"})


def take_options(fields: dict[str, Any], defaults: RequestOptions) -> tuple[RequestOptions, str]:
    """Takes the parameters that every call has. Returns the request options and the engine."""
    if _OPTION_NAMES.isdisjoint(fields):
        return defaults, fields.pop("engine", "")
    options = RequestOptions.read(fields.pop("options", None))
    own: dict[str, Any] = {}
    if "timeout" in fields:
        timeout = fields.pop("timeout")
        own["timeouts"] = {"total": timeout} if isinstance(timeout, int | float | str) else timeout
    for name, option in (("extra_body", "extra_body"), ("extra_headers", "headers")):
        if name in fields:
            own[option] = fields.pop(name)
    if own:
        options = RequestOptions.read(own).over(options)
    return options.over(defaults), fields.pop("engine", "")


def _take_convert_options(fields: dict[str, Any]) -> ConvertOptions:
    convert = cast("ConvertOptions", dict(fields.pop("convert", {})))
    check_options("convert", convert, OPTIONS)
    convert["prompt_caching"] = bool(fields.pop("prompt_caching", False))
    convert["context_management"] = bool(fields.pop("context_management", False))
    if fields.pop("strict", False):
        convert["strict"] = True
    return convert


# ── requests ──────────────────────────────────────────────────────────────────────────────────────


def read_request(model: Any, row: TurnOperation, content: Any, fields: dict[str, Any]) -> Request:
    """Returns the request from any form that callers may use. A body is taken as it is; keywords were checked."""
    if isinstance(model, Request):
        if content is not None or fields:
            raise InputError("a Request says it all: messages and settings belong into it")
        return model
    settings = _take_settings(fields, row)
    if isinstance(model, str):
        body = {"model": model, **fields}
    elif isinstance(model, Mapping):
        body = {**cast("Mapping[str, Any]", model), **fields}
    else:
        raise InputError(f"model: expected a name, a body or a Request, found {type(model).__name__}")
    if content is not None:
        body[row.content] = content
    if isinstance(model, str) and body.get(row.content) is None:
        raise BadRequest("what to ask", None, row.content)
    if isinstance(body.get("tool_choice"), ToolChoice):
        settings["choice"] = body.pop("tool_choice")
    if isinstance(body.get("response_format"), Format):
        settings["format"] = body.pop("response_format")
    return _with_settings(_read_body(body, row), settings)


def _with_settings(request: Request, settings: dict[str, Any]) -> Request:
    if "choice" in settings:
        request = replace(request, choice=settings.pop("choice"))
    return replace(request, settings=replace(request.settings, **settings)) if settings else request


def _take_settings(fields: dict[str, Any], row: TurnOperation) -> dict[str, Any]:
    """Takes the keywords that the protocol has no field for. Returns them as canonical settings."""
    settings: dict[str, Any] = {}
    is_responses = row.protocol == "responses"
    if "max_output_tokens" in fields and not is_responses:
        settings["max_output"] = fields.pop("max_output_tokens")
        if not isinstance(settings["max_output"], int):
            raise BadRequest("a whole number", settings["max_output"], "max_output_tokens")
    if "reasoning" in fields and not (is_responses and isinstance(fields["reasoning"], Mapping)):
        settings.update(_read_reasoning(fields.pop("reasoning")))
    if isinstance(fields.get("response_format"), type):
        raise InputError("response_format: expected a JSON Schema; client.run(…, output=Type) takes a type")
    if is_responses and isinstance(fields.get("response_format"), Mapping):
        body: dict[str, Any] = {"messages": [], "response_format": dict(fields.pop("response_format"))}
        settings["format"] = reader(CHAT.protocol)(body).settings.format
    return settings


def _read_reasoning(value: Any) -> dict[str, Any]:
    """Returns the settings for an effort, a budget, a switch, or an object with these."""
    if isinstance(value, bool):
        return {"effort": "medium"} if value else {"budget": 0}
    if isinstance(value, int):
        return {"budget": value}
    if isinstance(value, str):
        return {"effort": value}
    if not isinstance(value, Mapping):
        raise BadRequest("an effort, a budget, True, False or an object", value, "reasoning")
    fields = cast("Mapping[str, Any]", value)
    params.check_parameters("reasoning", fields, params.ReasoningFields)
    settings: dict[str, Any] = {}
    if fields.get("effort"):
        settings["effort"] = fields["effort"]
    if fields.get("enabled") is False:
        settings["budget"] = 0
    elif fields.get("max_tokens") is not None:
        settings["budget"] = fields["max_tokens"]
    if fields.get("exclude") is not None or fields.get("summary"):
        settings["thoughts"] = not fields.get("exclude")
    return settings


# ── lists of dicts and canonical objects ──────────────────────────────────────────────────────────


def _read_body(body: dict[str, Any], row: TurnOperation) -> Request:
    """Reads a body whose messages and tools may be canonical."""
    body = {name: _as_json_value(value) for name, value in body.items()}
    if row.content == "messages" and isinstance(body.get("messages"), str):
        body["messages"] = [{"role": "user", "content": body["messages"]}]
    _check_tools(body.get("tools"))
    if isinstance(body.get(row.content), list):
        body[row.content] = [_protect_result(item) for item in body[row.content]]
    mixed = {name: body[name] for name in (row.content, "tools") if _is_mixed(body.get(name))}
    request = reader(row.protocol)({**body, **{name: list[Any]() for name in mixed}})
    if row.content in mixed:  # a system message may come from another field of the body
        messages = [*request.messages, *_read_mixed_list(mixed[row.content], row, row.content)]
        request = replace(request, messages=messages)
    if "tools" in mixed:
        request = replace(request, tools=list(_read_mixed_list(mixed["tools"], row, "tools")))
    return request


_RESULT_FIELDS = {"tool": "content", "function": "content", "function_call_output": "output"}  # role or type → field


def _protect_result(item: Any) -> Any:
    """Returns a tool's result whose words are taken for nothing but words. A program says otherwise that it failed."""
    if type(item) is not dict:
        return item
    message = cast("dict[str, Any]", item)
    field = _RESULT_FIELDS.get(str(message.get("role") or message.get("type")), "")
    content: Any = message.get(field) if field else None
    if isinstance(content, str) and content.startswith(MARK_START):
        return {**message, field: protect_text(content)}
    if isinstance(content, list) and content and isinstance(content[0], dict):
        first, *rest = cast("list[dict[str, Any]]", content)
        if isinstance(first.get("text"), str) and first["text"].startswith(MARK_START):
            return {**message, field: [{**first, "text": protect_text(first["text"])}, *rest]}
    return message


def _check_tools(tools: Any) -> None:
    """Refuses functions with a hint: they are run by `client.run`."""
    for position, tool in enumerate(tools if isinstance(tools, list) else ()):  # pyright: ignore[reportUnknownArgumentType]
        if callable(tool):
            hint = "client.run(…, tools=[function]) runs Python functions"
            raise InputError(f"tools[{position}]: expected a tool's definition, found a function; {hint}")


def _as_json_value(value: Any) -> Any:
    """Returns tuples as lists, and other mappings as dicts. Readers take what JSON gives."""
    if type(value) in (str, int, float, bool, dict) or value is None:
        return value
    if isinstance(value, Mapping):
        return dict(cast("Mapping[str, Any]", value))
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return _as_json_list(value)  # pyright: ignore[reportUnknownArgumentType]
    return value


def _as_json_list(items: Sequence[Any]) -> list[Any]:
    if all(type(item) is dict for item in items):
        return list(items)
    return [dict(cast("Mapping[str, Any]", item)) if isinstance(item, Mapping) else item for item in items]


def _is_mixed(value: Any) -> bool:
    return isinstance(value, list) and any(map(_is_canonical, value))  # pyright: ignore[reportUnknownArgumentType]


def _is_canonical(item: Any) -> bool:
    return isinstance(item, Message | Turn | Tool)


def _read_mixed_list(items: list[Any], row: TurnOperation, field: str) -> Iterator[Any]:
    """Yields canonical objects. Dicts in a row are read together, because some protocols join them to one message."""
    position = 0
    for is_canonical, group in groupby(items, key=_is_canonical):
        run = list(group)
        if is_canonical:
            yield from (item.message if isinstance(item, Turn) else item for item in run)
        else:
            try:
                request = reader(row.protocol)({row.content: [], field: run})
            except BadRequest as error:
                error.path = _shift_index(error.path, position)
                raise
            yield from request.messages if field == row.content else request.tools
        position += len(run)


def _shift_index(path: str, by: int) -> str:
    """Returns the path of an error with its first index counted from the start of the whole list."""
    return re.sub(r"\[(\d+)\]", lambda found: f"[{int(found[1]) + by}]", path, count=1)
