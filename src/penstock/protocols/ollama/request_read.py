"""Ollama requests → canonical: `/api/chat`, and `/api/generate`, which is told by its `prompt`. `write.py` goes back.

Calls often have no id: they get one from their place, and results answer them by the tool's name and in order. A
stream is what Ollama sends unless told otherwise.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from penstock import reading
from penstock import request as rq
from penstock.diagnostics import Diagnostic
from penstock.errors import BadRequest
from penstock.markers import grammar_of, json_of, restored
from penstock.markers.extract import free_calls
from penstock.media import of_url, sniff
from penstock.reading import Pairs, keep, rest, unsaid

if TYPE_CHECKING:
    from penstock.pick import Object

NAME = "ollama"
ROLES: dict[str, rq.Role] = {"system": "system", "user": "user", "assistant": "assistant", "tool": "tool"}
SETTINGS = frozenset({"options", "format", "think", "logprobs", "top_logprobs"})
_CHAT = SETTINGS | {"model", "messages", "tools", "stream"}
_GENERATE = SETTINGS | {"model", "prompt", "system", "images", "stream"}
_MESSAGE = frozenset({"role", "content", "thinking", "images", "tool_calls", "tool_name", "tool_call_id"})
_FUNCTION = frozenset({"name", "description", "parameters"})


def read_request(body: Object) -> rq.Request:
    """A request from its parsed body."""
    reading.as_object(body)
    generate = "messages" not in body and "prompt" in body
    reader = _Messages()
    messages = _prompt(body) if generate else reading.rows(body, "messages", reader.read, need=True)
    tools = [] if generate else reading.rows(body, "tools", read_tool)
    free_calls(messages, tools)
    known = _GENERATE if generate else _CHAT
    settings, marks = read_settings(body)
    stream = reading.flag(body, "stream")
    extra = keep(
        NAME, rest(body, known), generate=generate, silent=stream is None, also=unsaid(body, known), **marks
    )  # fmt: skip
    return rq.Request(
        reading.text(body, "model"),
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
    system, prompt = reading.text(body, "system"), reading.text(body, "prompt")
    made = [rq.Message("system", [rq.Text(system)])] if system else []
    parts: list[rq.AnyPart] = [rq.Text(prompt)] if prompt else []
    return [*made, rq.Message("user", [*parts, *_images(body)])]


def _images(source: Object) -> list[rq.File]:
    """Images are bare base64, or data URLs."""
    files: list[rq.File] = []
    for image in reading.strings(source, "images"):
        if image.startswith(("data:", "http://", "https://")):
            media, url, data = of_url(image, "image/*")
            files.append(rq.File(media, url, data, extra=keep(NAME, {}, url=True)))
        else:
            files.append(rq.File(sniff(image) or "image/*", data=image))
    return files


class _Messages:
    """State: where we are, and the calls that wait for results."""

    def __init__(self) -> None:
        self.diagnostics: list[Diagnostic] = []
        self._pairs = Pairs()
        self._count = self._number = -1
        self._last = ""

    def read(self, message: Object) -> rq.Message:
        """One message of any role."""
        role = reading.word(message, "role", ROLES)
        self._count, self._number, before = self._count + 1, -1, self._last
        self._last = role
        content = reading.text(message, "content")
        said: list[rq.AnyPart] = [rq.Text(content)] if content else []
        parts: list[rq.AnyPart] = [*said, *_images(message)]
        if role == "tool":
            parts = [self._result(message, cast("list[rq.ResultPart]", parts))]
        elif role == "assistant":
            if before != "assistant":
                self._pairs.begin()
            thought = reading.text(message, "thinking")
            calls = reading.rows(message, "tool_calls", self._call)
            parts = [*([rq.Reasoning(thought)] if thought else ()), *parts, *calls]
        extra = keep(NAME, rest(message, _MESSAGE), also=unsaid(message, _MESSAGE))
        return rq.Message(role, parts, extra=extra)

    def _call(self, call: Object) -> rq.Call:
        self._number += 1
        given = reading.text(call, "id")
        said, name, args = reading.inside(call, "function", _called)
        id = self._pairs.call(given, name, f"call_{self._count}_{self._number}")  # noqa: A001 — as the part calls it
        inner = rest(said, {"name", "arguments"})
        own = {**rest(call, {"id", "type", "function"}), **({"function": inner} if inner else {})}
        marks = {"minted": not given, "typed": call.get("type") is not None, "bare": "arguments" not in said}
        json = json_of(args)
        return rq.Call(id, name, json, extra=keep(NAME, own, **marks))

    def _result(self, message: Object, content: list[rq.ResultPart]) -> rq.Result:
        given, name = reading.text(message, "tool_call_id"), reading.text(message, "tool_name")
        call = self._pairs.result(given, name)
        if not call:
            told = f"a result of {name or 'a tool'!r} belongs to no call"
            self.diagnostics.append(Diagnostic("no-call", told, "ollama request"))
        extra = keep(NAME, {}, minted=not given, nameless=not name)
        return rq.Result(call or given or f"call_{self._count}_0", name, content, extra=extra)


def _called(said: Object) -> tuple[Object, str, Object]:
    return said, reading.needed(said, "name"), reading.table(said, "arguments")


def read_tool(tool: Object) -> rq.Tool:
    """A tool; one of a type without a word is kept whole."""
    if tool.get("type", "function") != "function":
        return rq.Tool(str(tool.get("name") or tool.get("type")), kind="unknown", extra={NAME: {"tool": tool}})
    return reading.inside(tool, "function", lambda said: _function(tool, said))


def _function(tool: Object, said: Object) -> rq.Tool:
    schema: Any = reading.table(said, "parameters") if said.get("parameters") is not None else None
    free = None if schema is None else grammar_of(schema)
    own = rest(said, _FUNCTION) if said.keys() - _FUNCTION else {}
    beside = rest(tool, {"type", "function"})
    marks = {"also": unsaid(said, _FUNCTION), "untyped": "type" not in tool}
    extra = keep(NAME, {**own, **({"beside": beside} if beside else {})}, **marks)
    name, description = reading.needed(said, "name"), reading.text(said, "description")
    if free is not None:
        return rq.Tool(name, description, free or None, kind="custom", extra=extra)
    return rq.Tool(name, description, schema, extra=extra)


_OPTIONS = frozenset({
    "num_predict", "temperature", "top_p", "top_k", "stop", "seed", "frequency_penalty", "presence_penalty",
})  # fmt: skip


def read_settings(body: Object) -> tuple[rq.Settings, Object]:
    """The settings, and how they were said."""
    options = reading.table(body, "options")
    try:
        settings, known = _options(options)
    except BadRequest as error:
        raise error.at("options") from None
    settings.format = read_format(body.get("format"))
    settings.logprobs, settings.top_logprobs = reading.flag(body, "logprobs"), reading.whole(body, "top_logprobs")
    think = body.get("think")
    settings.effort, settings.budget, settings.thoughts = read_think(think)
    single = isinstance(options.get("stop"), str)
    return settings, {
        "options": rest(options, known), "unsaid": unsaid(options, known), "single": single,
        "think": [] if think is None else [think],
    }  # fmt: skip


def _options(options: Object) -> tuple[rq.Settings, frozenset[str]]:
    """A limit below zero means none, or all of the context: that stays as it is."""
    limit = reading.whole(options, "num_predict")
    odd = limit is not None and limit < 0
    settings = rq.Settings(
        max_output=None if odd else limit,
        temperature=reading.number(options, "temperature"),
        top_p=reading.number(options, "top_p"),
        top_k=reading.whole(options, "top_k"),
        stop=reading.strings(options, "stop"),
        seed=reading.whole(options, "seed"),
        frequency_penalty=reading.number(options, "frequency_penalty"),
        presence_penalty=reading.number(options, "presence_penalty"),
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
