"""Ollama requests → canonical: `/api/chat`, and `/api/generate`, which is told by its `prompt`. `write.py` goes back.

Calls often have no id: they get one from their place, and results answer them by the tool's name and in order. A
stream is what Ollama sends unless told otherwise.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from penstock import request as rq
from penstock import strict_fields as strict
from penstock.diagnostics import Diagnostic
from penstock.errors import BadRequest
from penstock.markers import grammar_of, json_of, restored
from penstock.markers.extract import free_calls
from penstock.media import of_url, sniff
from penstock.strict_fields import ResultMatcher, build_extra, empty_fields, unknown_fields

if TYPE_CHECKING:
    from penstock.lenient_fields import Object

NAME = "ollama"
ROLES: dict[str, rq.Role] = {"system": "system", "user": "user", "assistant": "assistant", "tool": "tool"}
SETTINGS = frozenset({"options", "format", "think", "logprobs", "top_logprobs"})
_CHAT = SETTINGS | {"model", "messages", "tools", "stream"}
_GENERATE = SETTINGS | {"model", "prompt", "system", "images", "stream"}
_MESSAGE = frozenset({"role", "content", "thinking", "images", "tool_calls", "tool_name", "tool_call_id"})
_FUNCTION = frozenset({"name", "description", "parameters"})


def read_request(body: Object) -> rq.Request:
    """A request from its parsed body."""
    strict.as_object(body)
    generate = "messages" not in body and "prompt" in body
    reader = _Messages()
    messages = _prompt(body) if generate else strict.read_objects(body, "messages", reader.read, need=True)
    tools = [] if generate else strict.read_objects(body, "tools", read_tool)
    free_calls(messages, tools)
    known = _GENERATE if generate else _CHAT
    settings, marks = read_settings(body)
    stream = strict.get_flag(body, "stream")
    extra = build_extra(
        NAME,
        unknown_fields(body, known),
        generate=generate,
        silent=stream is None,
        also=empty_fields(body, known),
        **marks,
    )
    return rq.Request(
        strict.get_text(body, "model"),
        restored(messages),
        tools,
        None,
        settings,
        stream=stream is not False,
        extra=extra,
        diagnostics=reader.diagnostics,
    )


def _prompt(body: Object) -> list[rq.Message]:
    """The prompt of `generate`, and its system prompt, as messages."""
    system, prompt = strict.get_text(body, "system"), strict.get_text(body, "prompt")
    made = [rq.Message("system", [rq.Text(system)])] if system else []
    parts: list[rq.AnyPart] = [rq.Text(prompt)] if prompt else []
    return [*made, rq.Message("user", [*parts, *_images(body)])]


def _images(source: Object) -> list[rq.File]:
    """Images are bare base64, or data URLs."""
    files: list[rq.File] = []
    for image in strict.get_strings(source, "images"):
        if image.startswith(("data:", "http://", "https://")):
            media, url, data = of_url(image, "image/*")
            files.append(rq.File(media, url, data, extra=build_extra(NAME, {}, url=True)))
        else:
            files.append(rq.File(sniff(image) or "image/*", data=image))
    return files


class _Messages:
    """State: where we are, and the calls that wait for results."""

    def __init__(self) -> None:
        self.diagnostics: list[Diagnostic] = []
        self._pairs = ResultMatcher()
        self._count = self._number = -1
        self._last = ""

    def read(self, message: Object) -> rq.Message:
        """One message of any role."""
        role = strict.get_choice(message, "role", ROLES)
        self._count, self._number, before = self._count + 1, -1, self._last
        self._last = role
        content = strict.get_text(message, "content")
        said: list[rq.AnyPart] = [rq.Text(content)] if content else []
        parts: list[rq.AnyPart] = [*said, *_images(message)]
        if role == "tool":
            parts = [self._result(message, cast("list[rq.ResultPart]", parts))]
        elif role == "assistant":
            if before != "assistant":
                self._pairs.begin()
            thought = strict.get_text(message, "thinking")
            calls = strict.read_objects(message, "tool_calls", self._call)
            parts = [*([rq.Reasoning(thought)] if thought else ()), *parts, *calls]
        extra = build_extra(NAME, unknown_fields(message, _MESSAGE), also=empty_fields(message, _MESSAGE))
        return rq.Message(role, parts, extra=extra)

    def _call(self, call: Object) -> rq.Call:
        self._number += 1
        given = strict.get_text(call, "id")
        said, name, args = strict.read_object(call, "function", _called)
        id = self._pairs.call(given, name, f"call_{self._count}_{self._number}")  # noqa: A001 — as the part calls it
        inner = unknown_fields(said, {"name", "arguments"})
        own = {**unknown_fields(call, {"id", "type", "function"}), **({"function": inner} if inner else {})}
        marks = {"minted": not given, "typed": call.get("type") is not None, "bare": "arguments" not in said}
        json = json_of(args)
        return rq.Call(id, name, json, extra=build_extra(NAME, own, **marks))

    def _result(self, message: Object, content: list[rq.ResultPart]) -> rq.Result:
        given, name = strict.get_text(message, "tool_call_id"), strict.get_text(message, "tool_name")
        call = self._pairs.result(given, name)
        if not call:
            told = f"a result of {name or 'a tool'!r} belongs to no call"
            self.diagnostics.append(Diagnostic("no-call", told, "ollama request"))
        extra = build_extra(NAME, {}, minted=not given, nameless=not name)
        return rq.Result(call or given or f"call_{self._count}_0", name, content, extra=extra)


def _called(said: Object) -> tuple[Object, str, Object]:
    return said, strict.require_text(said, "name"), strict.get_object(said, "arguments")


def read_tool(tool: Object) -> rq.Tool:
    """A tool; one of a type without a word is kept whole."""
    if tool.get("type", "function") != "function":
        return rq.Tool(str(tool.get("name") or tool.get("type")), kind="unknown", extra={NAME: {"tool": tool}})
    return strict.read_object(tool, "function", lambda said: _function(tool, said))


def _function(tool: Object, said: Object) -> rq.Tool:
    schema: Any = strict.get_object(said, "parameters") if said.get("parameters") is not None else None
    free = None if schema is None else grammar_of(schema)
    own = unknown_fields(said, _FUNCTION) if said.keys() - _FUNCTION else {}
    beside = unknown_fields(tool, {"type", "function"})
    marks = {"also": empty_fields(said, _FUNCTION), "untyped": "type" not in tool}
    extra = build_extra(NAME, {**own, **({"beside": beside} if beside else {})}, **marks)
    name, description = strict.require_text(said, "name"), strict.get_text(said, "description")
    if free is not None:
        return rq.Tool(name, description, free or None, kind="custom", extra=extra)
    return rq.Tool(name, description, schema, extra=extra)


_OPTIONS = frozenset({
    "num_predict", "temperature", "top_p", "top_k", "stop", "seed", "frequency_penalty", "presence_penalty",
})  # fmt: skip


def read_settings(body: Object) -> tuple[rq.Settings, Object]:
    """The settings, and how they were said."""
    options = strict.get_object(body, "options")
    try:
        settings, known = _options(options)
    except BadRequest as error:
        raise error.at("options") from None
    settings.format = read_format(body.get("format"))
    settings.logprobs, settings.top_logprobs = (
        strict.get_flag(body, "logprobs"),
        strict.get_integer(body, "top_logprobs"),
    )
    think = body.get("think")
    settings.effort, settings.budget, settings.thoughts = read_think(think)
    single = isinstance(options.get("stop"), str)
    return settings, {
        "options": unknown_fields(options, known), "unsaid": empty_fields(options, known), "single": single,
        "think": [] if think is None else [think],
    }  # fmt: skip


def _options(options: Object) -> tuple[rq.Settings, frozenset[str]]:
    """A limit below zero means none, or all of the context: that stays as it is."""
    limit = strict.get_integer(options, "num_predict")
    odd = limit is not None and limit < 0
    settings = rq.Settings(
        max_output=None if odd else limit,
        temperature=strict.get_number(options, "temperature"),
        top_p=strict.get_number(options, "top_p"),
        top_k=strict.get_integer(options, "top_k"),
        stop=strict.get_strings(options, "stop"),
        seed=strict.get_integer(options, "seed"),
        frequency_penalty=strict.get_number(options, "frequency_penalty"),
        presence_penalty=strict.get_number(options, "presence_penalty"),
    )
    return settings, _OPTIONS - {"num_predict"} if odd else _OPTIONS


def read_think(think: Any) -> tuple[str, int | None, bool | None]:
    """(effort, budget, whether it is wanted at all)."""
    if think is None:
        return "", None, None
    if isinstance(think, str):
        return think, None, None
    if not isinstance(think, bool):
        raise BadRequest("true, false or a level", think, "think")
    return ("", None, True) if think else ("", 0, None)


def read_format(given: Any) -> rq.Format | None:
    """The form of the answer: any JSON, or that of a schema."""
    if given is None or given == "":
        return None
    if isinstance(given, dict):
        return rq.Format("schema", schema=cast("Object", given))
    if given != "json":
        raise BadRequest('"json" or a schema', given, "format")
    return rq.Format("json")
