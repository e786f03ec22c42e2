"""Ollama requests → canonical requests. A body with `prompt` is for `/api/generate`, any other for `/api/chat`.

Calls often have no id. They get one from their position, and results answer them by the tool's name and in order.
Ollama streams unless `stream` is false.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from penstock import _strict_fields as strict
from penstock import request as rq
from penstock._diagnostics import Diagnostic
from penstock._markers import extract_markers, input_json, restore_free_text_calls
from penstock._media import sniff_media_type, split_file_url
from penstock._strict_fields import ResultMatcher, build_extra, empty_fields, unknown_fields
from penstock.errors import BadRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from penstock._lenient_fields import Object

NAME = "ollama"
_ROLES: dict[str, rq.Role] = {"system": "system", "user": "user", "assistant": "assistant", "tool": "tool"}
_SETTINGS = frozenset({"options", "format", "think", "logprobs", "top_logprobs"})
_CHAT = _SETTINGS | {"model", "messages", "tools", "stream"}
_GENERATE = _SETTINGS | {"model", "prompt", "system", "images", "stream"}
_MESSAGE = frozenset({"role", "content", "thinking", "images", "tool_calls", "tool_name", "tool_call_id"})
OPTIONS: Sequence[tuple[str, str, Callable[[Object, str], Any]]] = (
    ("num_predict", "max_output", strict.get_integer),
    ("temperature", "temperature", strict.get_number),
    ("top_p", "top_p", strict.get_number),
    ("top_k", "top_k", strict.get_integer),
    ("stop", "stop", strict.get_strings),
    ("seed", "seed", strict.get_integer),
    ("frequency_penalty", "frequency_penalty", strict.get_number),
    ("presence_penalty", "presence_penalty", strict.get_number),
)


def read_request(body: Object) -> rq.Request:
    """Reads a parsed body."""
    strict.as_object(body)
    is_generate = "messages" not in body and "prompt" in body
    reader = _MessageReader()
    messages = _read_prompt(body) if is_generate else strict.read_objects(body, "messages", reader.read, need=True)
    tools = [] if is_generate else strict.read_objects(body, "tools", _read_tool)
    restore_free_text_calls(messages, tools)
    known = _GENERATE if is_generate else _CHAT
    settings, marks = _read_settings(body)
    stream = strict.get_flag(body, "stream")
    marks |= {"generate": is_generate, "silent": stream is None, "also": empty_fields(body, known)}
    return rq.Request(
        strict.get_text(body, "model"),
        extract_markers(messages),
        tools,
        None,
        settings,
        stream=stream is not False,
        extra=build_extra(NAME, unknown_fields(body, known), **marks),
        diagnostics=reader.diagnostics,
    )


# ── messages ──────────────────────────────────────────────────────────────────────────────────────


def _read_prompt(body: Object) -> list[rq.Message]:
    """Reads the prompt of `generate` and its system prompt as messages."""
    system, prompt = strict.get_text(body, "system"), strict.get_text(body, "prompt")
    first = [rq.Message("system", [rq.Text(system)])] if system else []
    parts: list[rq.AnyPart] = [rq.Text(prompt)] if prompt else []
    return [*first, rq.Message("user", [*parts, *_read_images(body)])]


def _read_images(source: Object) -> list[rq.File]:
    """Reads images: plain Base64, or URLs."""
    files: list[rq.File] = []
    for image in strict.get_strings(source, "images"):
        if image.startswith(("data:", "http://", "https://")):
            media, url, data = split_file_url(image, "image/*")
            files.append(rq.File(media, url, data, extra=build_extra(NAME, {}, url=True)))
        else:
            files.append(rq.File(sniff_media_type(image) or "image/*", data=image))
    return files


class _MessageReader:
    """State: the position, the last role, and the calls without results."""

    def __init__(self) -> None:
        self.diagnostics: list[Diagnostic] = []
        self._matcher = ResultMatcher()
        self._message = self._call = -1
        self._last_role = ""

    def read(self, message: Object) -> rq.Message:
        role = strict.get_choice(message, "role", _ROLES)
        self._message, self._call, last_role = self._message + 1, -1, self._last_role
        self._last_role = role
        content = strict.get_text(message, "content")
        text: list[rq.AnyPart] = [rq.Text(content)] if content else []
        parts: list[rq.AnyPart] = [*text, *_read_images(message)]
        if role == "tool":
            parts = [self._read_result(message, cast("list[rq.ResultPart]", parts))]
        elif role == "assistant":
            if last_role != "assistant":
                self._matcher.begin()
            thinking = strict.get_text(message, "thinking")
            calls = strict.read_objects(message, "tool_calls", self._read_call)
            parts = [*([rq.Reasoning(thinking)] if thinking else ()), *parts, *calls]
        extra = build_extra(NAME, unknown_fields(message, _MESSAGE), also=empty_fields(message, _MESSAGE))
        return rq.Message(role, parts, extra=extra)

    def _read_call(self, call: Object) -> rq.Call:
        self._call += 1
        given = strict.get_text(call, "id")
        function, name, args = strict.read_object(call, "function", _read_called)
        id = self._matcher.call(given, name, f"call_{self._message}_{self._call}")  # noqa: A001 — as the part calls it
        inner = unknown_fields(function, {"name", "arguments"})
        unknown = {**unknown_fields(call, {"id", "type", "function"}), **({"function": inner} if inner else {})}
        marks = {"minted": not given, "typed": call.get("type") is not None, "bare": "arguments" not in function}
        return rq.Call(id, name, input_json(args), extra=build_extra(NAME, unknown, **marks))

    def _read_result(self, message: Object, content: list[rq.ResultPart]) -> rq.Result:
        given, name = strict.get_text(message, "tool_call_id"), strict.get_text(message, "tool_name")
        call = self._matcher.result(given, name)
        if not call:
            text = f"a result of {name or 'a tool'!r} belongs to no call"
            self.diagnostics.append(Diagnostic("no-call", text, "ollama request"))
        extra = build_extra(NAME, {}, minted=not given, nameless=not name)
        return rq.Result(call or given or f"call_{self._message}_0", name, content, extra=extra)


def _read_called(function: Object) -> tuple[Object, str, Object]:
    return function, strict.require_text(function, "name"), strict.get_object(function, "arguments")


# ── tools and settings ────────────────────────────────────────────────────────────────────────────


def _read_tool(tool: Object) -> rq.Tool:
    return strict.read_function_tool(tool, NAME, untyped="type" not in tool)


def _read_settings(body: Object) -> tuple[rq.Settings, Object]:
    """Returns the settings, and marks of how they were spelled."""
    options = strict.get_object(body, "options")
    known = {key for key, _, _ in OPTIONS}
    try:
        settings = rq.Settings(**{name: read(options, key) for key, name, read in OPTIONS})
    except BadRequest as error:
        raise error.at("options") from None
    if settings.max_output is not None and settings.max_output < 0:  # no limit, or the whole context: kept as it is
        settings.max_output = None
        known.remove("num_predict")
    settings.format = _read_format(body.get("format"))
    settings.logprobs = strict.get_flag(body, "logprobs")
    settings.top_logprobs = strict.get_integer(body, "top_logprobs")
    think = body.get("think")
    settings.effort, settings.budget, settings.thoughts = read_think(think)
    return settings, {
        "options": unknown_fields(options, known),
        "unsaid": empty_fields(options, known),
        "single": isinstance(options.get("stop"), str),
        "think": [] if think is None else [think],
    }


def read_think(think: Any) -> tuple[str, int | None, bool | None]:
    """Returns effort, budget, and whether thinking is on."""
    if think is None:
        return "", None, None
    if isinstance(think, str):
        return think, None, None
    if not isinstance(think, bool):
        raise BadRequest("true, false or a level", think, "think")
    return ("", None, True) if think else ("", 0, None)


def _read_format(given: Any) -> rq.Format | None:
    """Reads the response format: any JSON, or a schema."""
    if given is None or given == "":
        return None
    if isinstance(given, dict):
        return rq.Format("schema", schema=cast("Object", given))
    if given != "json":
        raise BadRequest('"json" or a schema', given, "format")
    return rq.Format("json")
