"""Reads Responses requests: settings, tools and input items. `request_write.py` is the opposite direction.

`instructions` become the first system message. Fields without a canonical counterpart (`previous_response_id`,
`include` …) stay in `extra`; how the request spelled something stays there under `_`.

Items of the assistant in a row (reasoning, messages, calls …) become one message. A part knows its item by `item`, the
item's id, and by the marks `head` (the first part of an item) and `more` (a further part).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from penstock import _lenient_fields as lenient
from penstock import _openai_requests as openai
from penstock import _strict_fields as strict
from penstock import request as rq
from penstock._markers import extract_markers
from penstock._protocols.responses import request_read_parts as parts
from penstock._protocols.responses.wire import CALLS, CALLS_WITH_OUTPUT, NAME, OUTPUTS
from penstock._strict_fields import build_extra, empty_fields, unknown_fields
from penstock.errors import BadRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from penstock._lenient_fields import Object
    from penstock.events import By, Extra

T = TypeVar("T")
__all__ = ["NAME", "read_format", "read_request"]
LOGPROBS = "message.output_text.logprobs"
OPTIONAL_SETTINGS = ("frequency_penalty", "presence_penalty", "top_k", "seed", "stop")  # only some providers have them
_FORMAT_FIELDS = frozenset({"type", "name", "schema", "description", "strict"})
_SETTING_READERS = openai.index_readers(
    {
        strict.get_number: "temperature top_p frequency_penalty presence_penalty",
        strict.get_integer: "max_output_tokens=max_output top_k seed top_logprobs",
        strict.get_flag: "parallel_tool_calls=parallel_calls store",
        strict.get_text: "service_tier=tier user prompt_cache_key=cache_key",
        strict.get_strings: "stop",
        openai.get_metadata: "metadata",
    }
)
_REQUEST_FIELDS = frozenset("model input instructions tools tool_choice stream reasoning text".split()).union(
    _SETTING_READERS
)
_REASONING_FIELDS, _TEXT_FIELDS = frozenset({"effort", "summary"}), frozenset({"format", "verbosity"})


def read_request(body: Object) -> rq.Request:
    """Reads a request from its parsed body."""
    strict.as_object(body)
    items = InputReader()
    instructions = strict.get_text(body, "instructions")
    if instructions:
        items.messages.append(rq.Message("system", [rq.Text(instructions)], extra=build_extra(NAME, {}, top=True)))
    items.read_input(body.get("input"))
    tools = read_tools(body)
    known = {(tool.namespace, tool.name) for tool in tools}
    tools += [tool for tool in items.tools if (tool.namespace, tool.name) not in known]
    reasoning, text = strict.get_object(body, "reasoning"), strict.get_object(body, "text")
    return rq.Request(
        strict.get_text(body, "model"),
        extract_markers(items.finish(), refusals=False),
        tools,
        read_choice(body),
        _read_settings(body, reasoning, text),
        stream=strict.get_flag(body, "stream") or False,
        extra=_build_request_extra(body, reasoning, text),
    )


def _build_request_extra(body: Object, reasoning: Object, text: Object) -> Any:
    fields = unknown_fields(body, _REQUEST_FIELDS)
    for key, value, known in (("reasoning", reasoning, _REASONING_FIELDS), ("text", text, _TEXT_FIELDS)):
        if unknown := unknown_fields(value, known):
            fields[key] = unknown
    also = empty_fields(body, _REQUEST_FIELDS)
    if body.get("stream") is False:
        also["stream"] = False
    form = lenient.get_object(text, "format")
    unusual = read_format(form) is None or unknown_fields(form, _FORMAT_FIELDS) or empty_fields(form, _FORMAT_FIELDS)
    return build_extra(
        NAME,
        fields,
        read=True,
        also=also,
        summary=reasoning.get("summary"),
        format=form if form and unusual else None,
        thinking=empty_fields(reasoning, _REASONING_FIELDS),
        texts=empty_fields(text, _TEXT_FIELDS),
        more=[key for key in OPTIONAL_SETTINGS if body.get(key) is not None],
        stop=isinstance(body.get("stop"), str),
    )


def _read_settings(body: Object, reasoning: Object, text: Object) -> rq.Settings:
    return rq.Settings(
        **openai.read_fields(body, _SETTING_READERS),
        logprobs=True if LOGPROBS in strict.get_strings(body, "include") else None,
        format=read_format(_read_inner(strict.get_object, text, "format", "text")),
        effort=_read_inner(strict.get_text, reasoning, "effort", "reasoning"),
        thoughts=True if _read_inner(strict.get_text, reasoning, "summary", "reasoning") else None,
        verbosity=_read_inner(strict.get_text, text, "verbosity", "text"),
    )


def _read_inner(read: Callable[[Object, str], T], source: Object, key: str, path: str) -> T:
    try:
        return read(source, key)
    except BadRequest as error:
        raise error.at(path) from None


def read_format(form: Object) -> rq.Format | None:
    """Reads the answer's format; None if it has no canonical counterpart."""
    kind = form.get("type")
    if kind != "json_schema":
        return openai.read_plain_format(kind)
    try:
        return openai.read_schema_format(form)
    except BadRequest as error:
        raise error.at("format").at("text") from None


# ── input ─────────────────────────────────────────────────────────────────────────────────────────

_ROLES: dict[str, rq.Role] = {"user": "user", "assistant": "assistant", "system": "system", "developer": "system"}
_ASSISTANT_READERS = {"reasoning": parts.read_reasoning, "mcp_approval_request": parts.read_approval_request}
_PLAIN_FIELDS = frozenset({"type", "role", "content"})
_PLAIN_EXTRAS: dict[tuple[bool, bool], Extra | None] = {  # by: the content is a list, the item has a type
    (listed, typed): build_extra(NAME, {}, listed=listed, bare=not typed)
    for listed in (True, False)
    for typed in (True, False)
}


class InputReader:
    """Reads input items. State: the messages so far, tools in the input, and who runs the calls of built-in tools."""

    def __init__(self) -> None:
        self.messages: list[rq.Message] = []
        self.tools: list[rq.Tool] = []
        self._runners: dict[str, By] = {}

    def read_input(self, given: Any) -> None:
        """Reads the input: a string or a list of items."""
        if isinstance(given, str):
            if given:
                self.messages.append(rq.Message("user", [rq.Text(given)], extra=build_extra(NAME, {}, string=True)))
        elif isinstance(given, list):
            strict.read_each(given, self._read_item, "input")  # pyright: ignore[reportUnknownArgumentType]
        elif given is not None:
            raise BadRequest("a string or a list of items", given, "input")

    def _read_item(self, item: Object) -> None:
        kind = item.get("type")
        if kind is None:
            kind = "message" if "role" in item else "item_reference"
        read = self.readers.get(kind) if isinstance(kind, str) else None
        if read is not None:
            read(self, item)
        else:
            self._read_unknown(item, str(kind))

    def finish(self) -> list[rq.Message]:
        """Returns all messages. A message of the assistant without any content gets no parts."""
        for message in self.messages:
            only = message.parts[0] if len(message.parts) == 1 else None
            if type(only) is rq.Text and not only.text and message.role == "assistant" and only.extra:
                marks = only.extra.get(NAME, {}).get("_", {})
                if "blank" in marks:
                    message.parts, message.extra = [], build_extra(NAME, {}, **marks, id=only.item)
        return self.messages

    # ── messages ──────────────────────────────────────────────────────────────────────────────────

    def _add_assistant_parts(self, added: list[rq.AnyPart], id: str = "") -> None:
        """Adds parts to the assistant's message, or to a new one if the item's id asks for it."""
        last = self.messages[-1] if self.messages else None
        if last is None or last.role != "assistant" or id.partition("_")[2].startswith(parts.ID_SPLIT[1:]):
            self.messages.append(rq.Message("assistant", added))
            return
        for part in added:
            if type(part) is rq.Source and part.of is not None:
                part.of += len(last.parts)
        last.parts += added

    def _add_result(self, result: rq.Result) -> None:
        last = self.messages[-1] if self.messages else None
        if last is not None and last.role == "tool":
            last.parts.append(result)
        else:
            self.messages.append(rq.Message("tool", [result]))

    def _read_message(self, item: Object) -> None:
        role, content = strict.get_choice(item, "role", _ROLES), item.get("content")
        if role == "assistant":
            self._add_assistant_parts(parts.read_assistant_message(item), strict.get_text(item, "id"))
            return
        message = rq.Message(role, openai.read_content(content, parts.read_part))
        if item.keys() <= _PLAIN_FIELDS and item["role"] != "developer":
            message.extra = _PLAIN_EXTRAS[type(content) is list, "type" in item]
        else:
            message.extra = build_extra(
                NAME,
                unknown_fields(item, parts.MESSAGE_FIELDS),
                role=item["role"] if item["role"] == "developer" else "",
                bare="type" not in item,
                listed=isinstance(content, list),
                id=item.get("id"),
                status=item.get("status"),
                also=empty_fields(item, parts.MESSAGE_FIELDS - {"content"}),
            )
        self.messages.append(message)

    # ── calls and results ─────────────────────────────────────────────────────────────────────────

    def _read_call(self, item: Object) -> None:
        call = parts.read_function_call(item)
        self._add_assistant_parts([call], call.item)

    def _read_output(self, item: Object) -> None:
        self._add_result(parts.read_function_output(item))

    def _read_builtin_call(self, item: Object) -> None:
        call = parts.read_builtin_call(item)
        self._runners[call.id] = call.by
        self._add_assistant_parts([call])

    def _read_builtin_output(self, item: Object) -> None:
        by = self._runners.get(parts.get_call_id(item), "client")
        if item.get("execution") == "server" or item["type"] == "program_output":
            by = "provider"
        result = parts.read_builtin_output(item, by)
        if item["type"] == "tool_search_output":
            self._add_tools(item)
        if by == "provider":
            self._add_assistant_parts([result])
        else:
            self._add_result(result)

    def _read_assistant_item(self, item: Object) -> None:
        """Reads reasoning, a call that the provider ran, or its request for approval."""
        read = _ASSISTANT_READERS.get(item["type"], parts.read_provider_call)
        self._add_assistant_parts(read(item))

    def _read_approval(self, item: Object) -> None:
        self.messages.append(rq.Message("user", [parts.read_approval(item)]))

    # ── other items ───────────────────────────────────────────────────────────────────────────────

    def _add_tools(self, item: Object) -> None:
        """Adds tools that are part of the input: other protocols declare them like any other tool."""
        for tool in read_tools(item):
            tool.extra = strict.add_marks(tool.extra, NAME, elsewhere=True)
            self.tools.append(tool)

    def _read_configuration(self, item: Object) -> None:
        """Reads an item by which a developer configures the API, not the model."""
        if item["type"] == "additional_tools":
            self._add_tools(item)
        self.messages.append(rq.Message("system", [rq.Opaque(NAME, item["type"], item)]))

    def _read_unknown(self, item: Object, kind: str) -> None:
        """Reads an item of an unknown kind: the model's, unless its name marks it as an answer."""
        part = rq.Opaque(NAME, kind, item)
        if kind.endswith(("_output", "_response")):
            self.messages.append(rq.Message("user", [part]))
        else:
            self._add_assistant_parts([part])

    readers: ClassVar[Mapping[str, Callable[[Any, Object], None]]] = {
        **dict.fromkeys((*CALLS_WITH_OUTPUT, "mcp_call", *_ASSISTANT_READERS), _read_assistant_item),
        **dict.fromkeys(CALLS, _read_builtin_call),
        **dict.fromkeys(OUTPUTS, _read_builtin_output),
        "message": _read_message,
        **dict.fromkeys(("function_call", "custom_tool_call"), _read_call),
        **dict.fromkeys(("function_call_output", "custom_tool_call_output"), _read_output),
        "mcp_approval_response": _read_approval,
        **dict.fromkeys(("additional_tools", "configuration_update"), _read_configuration),
    }


# ── tools and tool choice ─────────────────────────────────────────────────────────────────────────

_MODES: dict[str, rq.ChoiceMode] = {"auto": "auto", "none": "none", "required": "required"}
# How the types of tools start that the provider runs. Other tools are run by the client, or are unknown.
_PROVIDER_TOOLS = ("web_search", "file_search", "code_interpreter", "image_generation", "mcp", "x_search")
_FUNCTION_FIELDS = frozenset({"type", "name", "description", "parameters", "strict"})


def read_tools(source: Object) -> list[rq.Tool]:
    """Reads all tools. A tool in a namespace knows its namespace."""
    return [tool for row in strict.read_objects(source, "tools", _read_tool) for tool in row]


def _read_tool(tool: Object) -> list[rq.Tool]:
    kind = tool.get("type", "function")
    if kind == "namespace" and tool.get("tools"):
        return _read_namespace(tool)
    if kind == "function":
        return [_read_function(tool)]
    return [_read_custom_tool(tool) if kind == "custom" else _read_other_tool(tool, str(kind))]


def _read_function(tool: Object) -> rq.Tool:
    if isinstance(tool.get("function"), dict):  # nested, as in Chat Completions
        parsed = strict.read_object(tool, "function", openai.read_function)
        inner: Object = tool["function"]
        unknown, also = unknown_fields(inner, _FUNCTION_FIELDS), empty_fields(inner, _FUNCTION_FIELDS)
        fields = unknown_fields(tool, {"type", "function"})
        parsed.extra = build_extra(NAME, fields, nested=True, inner=unknown, also=also)
        return parsed
    parsed = openai.read_function(tool)
    plain = parsed.description and parsed.schema and "type" in tool and tool.get("strict", 0) is not None
    if not (plain and tool.keys() <= _FUNCTION_FIELDS):
        marks = {"also": empty_fields(tool, _FUNCTION_FIELDS), "untyped": "type" not in tool}
        parsed.extra = build_extra(NAME, unknown_fields(tool, _FUNCTION_FIELDS), **marks)
    return parsed


def _read_custom_tool(tool: Object) -> rq.Tool:
    form = strict.get_object(tool, "format")
    grammar = form if form.get("type") == "grammar" else None
    known = {"type", "name", "description", *(("format",) if grammar else ())}
    extra = build_extra(NAME, unknown_fields(tool, known), also=empty_fields(tool, known))
    name, description = strict.require_text(tool, "name"), strict.get_text(tool, "description")
    return rq.Tool(name, description, grammar, "custom", extra=extra)


def _read_namespace(group: Object) -> list[rq.Tool]:
    name, tools = strict.require_text(group, "name"), read_tools(group)
    for tool in tools:
        tool.namespace = tool.namespace or name
    fields = unknown_fields(group, {"type", "name", "tools"})
    tools[0].extra = strict.add_marks(tools[0].extra, NAME, space=fields)
    return tools


def _read_other_tool(tool: Object, kind: str) -> rq.Tool:
    name = lenient.get_text(tool, "name", "server_label") or ("computer" if kind.startswith("computer") else kind)
    contained = lenient.get_text(lenient.get_object(tool, "environment"), "type").startswith("container")
    tool_kind: rq.ToolKind = "provider" if kind.startswith(_PROVIDER_TOOLS) or contained else "unknown"
    return rq.Tool(name, lenient.get_text(tool, "description"), kind=tool_kind, extra={NAME: {"tool": tool}})


def read_choice(body: Object) -> rq.ToolChoice | None:
    """Reads which tool may or must be called. An object is also kept unchanged."""
    choice: Any = body.get("tool_choice")
    if choice is None:
        return None
    if isinstance(choice, str):
        return rq.ToolChoice(strict.get_choice(body, "tool_choice", _MODES))
    return strict.read_object(body, "tool_choice", _read_choice_object)


def _read_choice_object(choice: Object) -> rq.ToolChoice:
    kind = strict.require_text(choice, "type")
    extra = {NAME: {"_": {"choice": choice}}}
    if kind in _MODES:
        return rq.ToolChoice(_MODES[kind], extra=extra)
    if kind == "allowed_tools":
        names = strict.read_objects(choice, "tools", _get_tool_name)
        return rq.ToolChoice(strict.get_choice(choice, "mode", _MODES), [name for name in names if name], extra)
    return rq.ToolChoice("tool", [_get_tool_name(choice)], extra)


def _get_tool_name(tool: Object) -> str:
    """Returns a tool's name. A tool without a name is named by its type, like in the list of tools."""
    inner = lenient.get_object(tool, lenient.get_text(tool, "type"))
    return lenient.get_text(inner, "name") or lenient.get_text(tool, "name", "server_label", "type")
