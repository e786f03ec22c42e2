"""Responses requests → canonical. `write.py` is the way back.

`instructions` are the first system message. What has no word here (`previous_response_id`, `include` …) stays in
`extra`; how something was spelled stays under `_`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from penstock import lenient_fields as lenient
from penstock import request as rq
from penstock import strict_fields as strict
from penstock.errors import BadRequest
from penstock.jsontext import is_json
from penstock.markers import restored
from penstock.protocols.responses import request_read_parts as built
from penstock.protocols.responses.request_read_parts import MESSAGE, NEXT, read_content, read_said, read_thoughts
from penstock.protocols.responses.wire import ANSWERS, EARLY, LATE, NAME
from penstock.strict_fields import build_extra, empty_fields, unknown_fields

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from penstock.events import By, CallForm, Extra
    from penstock.lenient_fields import Object

__all__ = ["NAME", "read_format", "read_request"]
LOGPROBS = "message.output_text.logprobs"
MORE = ("frequency_penalty", "presence_penalty", "top_k", "seed", "stop")  # words that only some providers have
_FORMAT = frozenset({"type", "name", "schema", "description", "strict"})
_REQUEST = frozenset({
    "model", "input", "instructions", "tools", "tool_choice", "stream", "max_output_tokens", "temperature", "top_p",
    "top_logprobs", "parallel_tool_calls", "reasoning", "text", "service_tier", "user", "metadata", "prompt_cache_key",
    "store", *MORE,
})  # fmt: skip


def read_request(body: Object) -> rq.Request:
    """A request from its parsed body."""
    strict.as_object(body)
    items = Items()
    instructions = strict.get_text(body, "instructions")
    if instructions:
        items.messages.append(rq.Message("system", [rq.Text(instructions)], extra=build_extra(NAME, {}, top=True)))
    _read_input(items, body.get("input"))
    tools = read_tools(body)
    known = {(tool.namespace, tool.name) for tool in tools}
    tools += [tool for tool in items.tools if (tool.namespace, tool.name) not in known]
    reasoning, text = strict.get_object(body, "reasoning"), strict.get_object(body, "text")
    return rq.Request(
        strict.get_text(body, "model"),
        restored(items.done()),
        tools,
        read_choice(body),
        _settings(body, reasoning, text),
        stream=strict.get_flag(body, "stream") or False,
        extra=_extra(body, reasoning, text),
    )


def _read_input(items: Items, given: Any) -> None:
    if isinstance(given, str):
        if given:
            items.messages.append(rq.Message("user", [rq.Text(given)], extra=build_extra(NAME, {}, string=True)))
    elif isinstance(given, list):
        strict.read_each(given, items.read, "input")  # pyright: ignore[reportUnknownArgumentType]
    elif given is not None:
        raise BadRequest("a string or a list of items", given, "input")


def _extra(body: Object, reasoning: Object, text: Object) -> Any:
    fields = unknown_fields(body, _REQUEST)
    for key, more in (
        ("reasoning", unknown_fields(reasoning, {"effort", "summary"})),
        ("text", unknown_fields(text, {"format", "verbosity"})),
    ):
        if more:
            fields[key] = more
    also = empty_fields(body, _REQUEST)
    if body.get("stream") is False:
        also["stream"] = False
    form = lenient.get_object(text, "format")
    odd = bool(form) and (
        read_format(form) is None or bool(unknown_fields(form, _FORMAT) or empty_fields(form, _FORMAT))
    )
    return build_extra(
        NAME, fields, read=True, also=also, summary=reasoning.get("summary"), format=form if odd else None,
        thinking=empty_fields(reasoning, {"effort", "summary"}), texts=empty_fields(text, {"format", "verbosity"}),
        more=[key for key in MORE if body.get(key) is not None], stop=isinstance(body.get("stop"), str),
    )  # fmt: skip


def _settings(body: Object, reasoning: Object, text: Object) -> rq.Settings:
    return rq.Settings(
        max_output=strict.get_integer(body, "max_output_tokens"),
        temperature=strict.get_number(body, "temperature"),
        top_p=strict.get_number(body, "top_p"),
        top_k=strict.get_integer(body, "top_k"),
        stop=strict.get_strings(body, "stop"),
        seed=strict.get_integer(body, "seed"),
        frequency_penalty=strict.get_number(body, "frequency_penalty"),
        presence_penalty=strict.get_number(body, "presence_penalty"),
        logprobs=True if LOGPROBS in strict.get_strings(body, "include") else None,
        top_logprobs=strict.get_integer(body, "top_logprobs"),
        format=read_format(_table(text, "format", "text")),
        parallel_calls=strict.get_flag(body, "parallel_tool_calls"),
        effort=_word(reasoning, "effort", "reasoning"),
        thoughts=True if _word(reasoning, "summary", "reasoning") else None,
        verbosity=_word(text, "verbosity", "text"),
        tier=strict.get_text(body, "service_tier"),
        user=strict.get_text(body, "user"),
        metadata=strict.get_object(body, "metadata") or None,
        cache_key=strict.get_text(body, "prompt_cache_key"),
        store=strict.get_flag(body, "store"),
    )


def _word(source: Object, key: str, where: str) -> str:
    try:
        return strict.get_text(source, key)
    except BadRequest as error:
        raise error.at(where) from None


def _table(source: Object, key: str, where: str) -> Object:
    try:
        return strict.get_object(source, key)
    except BadRequest as error:
        raise error.at(where) from None


def read_format(form: Object) -> rq.Format | None:
    """The form of the answer; one without a word is None."""
    kind = form.get("type")
    if kind == "text":
        return rq.Format()
    if kind == "json_object":
        return rq.Format("json")
    if kind != "json_schema":
        return None
    try:
        return rq.Format(
            "schema", strict.get_text(form, "name"), strict.get_object(form, "schema") or None,
            strict.get_text(form, "description"), strict.get_flag(form, "strict"),
        )  # fmt: skip
    except BadRequest as error:
        raise error.at("format").at("text") from None


ROLES: dict[str, rq.Role] = {"user": "user", "assistant": "assistant", "system": "system", "developer": "system"}
_SAID = MESSAGE - {"content"}
_PLAIN = frozenset({"type", "role", "content"})
_SPELLED: dict[tuple[bool, bool], Extra | None] = {  # by: the content is a list, the type is said
    (listed, typed): build_extra(NAME, {}, listed=listed, bare=not typed)
    for listed in (True, False)
    for typed in (True, False)
}
_CALL = frozenset({"type", "id", "call_id", "name", "arguments", "input", "status"})
_OUTPUT = frozenset({"type", "id", "call_id", "name", "output", "status"})
_ANSWERED = _OUTPUT - {"output"}


class Items:
    """Input being read. State: the messages so far, tools that came as input, and who runs the calls of built-ins."""

    def __init__(self) -> None:
        self.messages: list[rq.Message] = []
        self.tools: list[rq.Tool] = []
        self._runs: dict[str, By] = {}

    def read(self, item: Object) -> None:
        """One item of any type."""
        kind = item.get("type")
        if kind is None:
            kind = "message" if "role" in item else "item_reference"
        read = self.kinds.get(kind) if isinstance(kind, str) else None
        if read is not None:
            read(self, item)
        else:
            self._strange(item, str(kind))

    # ── whose turn it is ──────────────────────────────────────────────────────────────────────────

    def _speak(self, parts: list[rq.AnyPart], id: str = "") -> None:
        """The assistant says more, in the same message unless the item's id says otherwise."""
        last = self.messages[-1] if self.messages else None
        if last is None or last.role != "assistant" or id.partition("_")[2].startswith(NEXT[1:]):
            self.messages.append(rq.Message("assistant", parts))
            return
        for part in parts:
            if type(part) is rq.Source and part.of is not None:
                part.of += len(last.parts)
        last.parts += parts

    def _answer(self, result: rq.Result) -> None:
        last = self.messages[-1] if self.messages else None
        if last is not None and last.role == "tool":
            last.parts.append(result)
        else:
            self.messages.append(rq.Message("tool", [result]))

    # ── messages ──────────────────────────────────────────────────────────────────────────────────

    def _message(self, item: Object) -> None:
        role, content = strict.get_choice(item, "role", ROLES), item.get("content")
        if role == "assistant":
            self._speak(read_said(item), strict.get_text(item, "id"))
            return
        made = rq.Message(role, read_content(content, "content"))
        if item.keys() <= _PLAIN and item["role"] != "developer":  # nothing but who speaks and what
            made.extra = _SPELLED[type(content) is list, "type" in item]
        else:
            made.extra = build_extra(
                NAME, unknown_fields(item, MESSAGE), role=item["role"] if item["role"] == "developer" else "",
                bare="type" not in item, listed=isinstance(content, list), id=item.get("id"), status=item.get("status"),
                also=empty_fields(item, _SAID),
            )  # fmt: skip
        self.messages.append(made)

    def _reasoning(self, item: Object) -> None:
        self._speak(read_thoughts(item))

    def done(self) -> list[rq.Message]:
        """All messages. One in which the assistant says nothing at all has no parts."""
        for message in self.messages:
            only = message.parts[0] if len(message.parts) == 1 else None
            if type(only) is rq.Text and not only.text and message.role == "assistant" and only.extra:
                marks = only.extra.get(NAME, {}).get("_", {})
                if "blank" in marks:
                    message.parts, message.extra = [], build_extra(NAME, {}, **marks, id=only.item)
        return self.messages

    # ── calls and answers ─────────────────────────────────────────────────────────────────────────

    def _call(self, item: Object) -> None:
        custom = item["type"] == "custom_tool_call"
        given = item.get("input" if custom else "arguments")
        if not isinstance(given, str | None):
            raise BadRequest("a string" if custom else "a string of JSON", given, "input" if custom else "arguments")
        call = strict.get_text(item, "call_id") or strict.get_text(item, "id")
        if custom and call.startswith("xs_"):  # a step of xAI's own search
            self._speak(
                [
                    rq.Call(
                        call,
                        strict.get_text(item, "name"),
                        given or "",
                        "provider",
                        extra={NAME: {"item": item}},
                    )
                ]
            )
            return
        form: CallForm = "text" if custom else "json"
        status = item.get("status")
        cut = status == "incomplete" and (custom or not is_json(given or ""))
        name, id = strict.require_text(item, "name"), strict.get_text(item, "id")  # noqa: A001 — as the part calls it
        made = rq.Call(call, name, given or "", "client", form, cut, item=id)
        if item.keys() <= _CALL and all(item.values()):
            made.extra = {NAME: {"_": {"status": status}}} if status else None
        else:
            about = {"status": status, "also": empty_fields(item, _CALL), "loose": not item.get("call_id")}
            made.extra = build_extra(NAME, unknown_fields(item, _CALL), **about)
        self._speak([made], id)

    def _output(self, item: Object) -> None:
        output = item.get("output")
        custom = item["type"] == "custom_tool_call_output"
        call, name = strict.get_text(item, "call_id"), strict.get_text(item, "name")
        if type(output) is str and output and call and len(item) == 3 and not custom:  # noqa: PLR2004 — type, call and words
            self._answer(rq.Result(call, "", [rq.Text(output)]))
            return
        inside: list[rq.ResultPart] = [
            part for part in read_content(output, "output") if isinstance(part, rq.ResultPart)
        ]
        extra = build_extra(
            NAME,
            unknown_fields(item, _OUTPUT),
            id=item.get("id"),
            status=item.get("status"),
            listed=isinstance(output, list),
            named=bool(name),
            loose=not call,
            also=empty_fields(item, _ANSWERED),
            kind=item["type"] if custom else "",
        )
        form: CallForm = "text" if custom else "json"
        self._answer(rq.Result(call, name, inside, form=form, extra=extra))

    def _built_call(self, item: Object) -> None:
        call = built.read_call(item)
        self._runs[call.id] = call.by
        self._speak([call])

    def _built_answer(self, item: Object) -> None:
        call = strict.get_text(item, "call_id") or strict.get_text(item, "id")
        by = self._runs.get(call, "client")
        if item.get("execution") == "server" or item["type"] == "program_output":
            by = "provider"
        result = built.read_answer(item, by)
        if item["type"] == "tool_search_output":
            self._learn(item)
        if by == "provider":
            self._speak([result])
        else:
            self._answer(result)

    def _run(self, item: Object) -> None:
        self._speak(built.read_run(item))

    def _question(self, item: Object) -> None:
        self._speak(built.read_question(item))

    def _permission(self, item: Object) -> None:
        self.messages.append(rq.Message("user", [built.read_permission(item)]))

    # ── the rest ──────────────────────────────────────────────────────────────────────────────────

    def _learn(self, item: Object) -> None:
        """Tools that came as input: other protocols must offer them like any other."""
        for tool in read_tools(item):
            own = (tool.extra or {}).get(NAME, {})
            tool.extra = {NAME: {**own, "_": {**own.get("_", {}), "elsewhere": True}}}
            self.tools.append(tool)

    def _more_tools(self, item: Object) -> None:
        self._learn(item)
        self._rule(item)

    def _rule(self, item: Object) -> None:
        """What a developer says to the API rather than to the model."""
        self.messages.append(rq.Message("system", [rq.Opaque(NAME, item["type"], item)]))

    def _strange(self, item: Object, kind: str) -> None:
        """An item without a word: of the model, unless its name says that it answers something."""
        part = rq.Opaque(NAME, kind, item)
        if kind.endswith(("_output", "_response")):
            self.messages.append(rq.Message("user", [part]))
        else:
            self._speak([part])

    kinds: ClassVar[Mapping[str, Callable[[Any, Object], None]]] = {
        **dict.fromkeys(EARLY, _run), **dict.fromkeys(LATE, _built_call),
        **dict.fromkeys(ANSWERS, _built_answer),
        "message": _message, "reasoning": _reasoning, "function_call": _call,
        "custom_tool_call": _call, "function_call_output": _output, "custom_tool_call_output": _output,
        "mcp_call": _run, "mcp_approval_request": _question, "mcp_approval_response": _permission,
        "additional_tools": _more_tools, "configuration_update": _rule,
    }  # fmt: skip


MODES: dict[str, rq.ChoiceMode] = {"auto": "auto", "none": "none", "required": "required"}
RUN = (  # beginnings of the types of tools that the provider runs; the client runs the rest, or nobody here knows it
    "web_search", "file_search", "code_interpreter", "image_generation", "mcp", "x_search",
)  # fmt: skip
_FUNCTION = frozenset({"type", "name", "description", "parameters", "strict"})
_CUSTOM = frozenset({"type", "name", "description"})


def read_tools(source: Object) -> list[rq.Tool]:
    """All tools on offer; groups of them flattened."""
    return [tool for row in strict.read_objects(source, "tools", _read) for tool in row]


def _read(tool: Object) -> list[rq.Tool]:
    kind = tool.get("type", "function")
    read = _KINDS.get(kind) if isinstance(kind, str) else None
    if kind == "namespace" and tool.get("tools"):
        return _namespace(tool)
    return [_other(tool, str(kind)) if read is None else read(tool)]


def _function(tool: Object) -> rq.Tool:
    if isinstance(tool.get("function"), dict):
        return _nested(tool)
    made = _described(tool)
    whole = made.description and made.schema and "type" in tool and tool.get("strict", 0) is not None
    if not (whole and tool.keys() <= _FUNCTION):
        marks = {"also": empty_fields(tool, _FUNCTION), "untyped": "type" not in tool}
        made.extra = build_extra(NAME, unknown_fields(tool, _FUNCTION), **marks)
    return made


def _described(said: Object) -> rq.Tool:
    schema = None if said.get("parameters") is None else strict.get_object(said, "parameters")
    return rq.Tool(
        strict.require_text(said, "name"),
        strict.get_text(said, "description"),
        schema,
        strict=strict.get_flag(said, "strict"),
    )


def _nested(tool: Object) -> rq.Tool:
    """A function as Chat describes it."""
    made = strict.read_object(tool, "function", _described)
    said: Object = tool["function"]
    made.extra = build_extra(
        NAME,
        unknown_fields(tool, {"type", "function"}),
        nested=True,
        inner=unknown_fields(said, _FUNCTION),
        also=empty_fields(said, _FUNCTION),
    )
    return made


def _custom(tool: Object) -> rq.Tool:
    form = strict.get_object(tool, "format")
    grammar = form if form.get("type") == "grammar" else None
    known = _CUSTOM | {"format"} if grammar else _CUSTOM
    extra = build_extra(NAME, unknown_fields(tool, known), also=empty_fields(tool, known))
    return rq.Tool(
        strict.require_text(tool, "name"),
        strict.get_text(tool, "description"),
        grammar,
        "custom",
        extra=extra,
    )


def _namespace(group: Object) -> list[rq.Tool]:
    name = strict.require_text(group, "name")
    made = read_tools(group)
    for tool in made:
        tool.namespace = tool.namespace or name
    own = (made[0].extra or {}).get(NAME, {})
    about = unknown_fields(group, {"type", "name", "tools"})
    made[0].extra = {NAME: {**own, "_": {**own.get("_", {}), "space": about}}}
    return made


def _other(tool: Object, kind: str) -> rq.Tool:
    """A tool of a type that is all there is to know about it."""
    name = lenient.get_text(tool, "name", "server_label") or ("computer" if kind.startswith("computer") else kind)
    contained = lenient.get_text(lenient.get_object(tool, "environment"), "type").startswith("container")
    run: rq.ToolKind = "provider" if kind.startswith(RUN) or contained else "unknown"
    return rq.Tool(name, lenient.get_text(tool, "description"), kind=run, extra={NAME: {"tool": tool}})


_KINDS: dict[str, Callable[[Object], rq.Tool]] = {"function": _function, "custom": _custom}

# ── tool choice ───────────────────────────────────────────────────────────────────────────────────


def read_choice(body: Object) -> rq.ToolChoice | None:
    """Which tool may or must be called. An object is kept as it was said."""
    choice: Any = body.get("tool_choice")
    if choice is None:
        return None
    if isinstance(choice, str):
        return rq.ToolChoice(strict.get_choice(body, "tool_choice", MODES))
    return strict.read_object(body, "tool_choice", _chosen)


def _chosen(choice: Object) -> rq.ToolChoice:
    kind = strict.require_text(choice, "type")
    extra = {NAME: {"_": {"choice": choice}}}
    if kind in MODES:
        return rq.ToolChoice(MODES[kind], extra=extra)
    if kind == "allowed_tools":
        names = strict.read_objects(choice, "tools", _name)
        return rq.ToolChoice(strict.get_choice(choice, "mode", MODES), [name for name in names if name], extra)
    return rq.ToolChoice("tool", [_name(choice)], extra)


def _name(tool: Object) -> str:
    """A tool by its name; those without one go by their type, as they do among the tools."""
    inner = lenient.get_object(tool, lenient.get_text(tool, "type"))
    return lenient.get_text(inner, "name") or lenient.get_text(tool, "name", "server_label", "type")
