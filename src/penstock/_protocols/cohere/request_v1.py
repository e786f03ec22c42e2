"""Cohere Chat version 1 requests ↔ canonical requests: a message, the history before it, and tool results.

Calls have no ids. They get one from their position, and results answer them by name and in order. A result whose call
is not in the history contains the call.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from penstock import _strict_fields as strict
from penstock import request as rq
from penstock._lenient_fields import Object, as_object, get_integer, get_object, get_text
from penstock._lenient_json import as_json, decode_unless_too_deep, is_object
from penstock._protocols.cohere.wire import NAME
from penstock._request_writer import (
    RequestDraft,
    add_missing,
    budget_for_effort,
    collect_text,
    describe_file,
    split_extra,
)
from penstock._strict_fields import ResultMatcher, build_extra, empty_fields, unknown_fields

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from collections.abc import Set as AbstractSet

_FIELDS: Sequence[tuple[str, str, Callable[[Object, str], Any]]] = (
    ("max_tokens", "max_output", strict.get_integer),
    ("temperature", "temperature", strict.get_number),
    ("p", "top_p", strict.get_number),
    ("k", "top_k", strict.get_integer),
    ("stop_sequences", "stop", strict.get_strings),
    ("seed", "seed", strict.get_integer),
    ("frequency_penalty", "frequency_penalty", strict.get_number),
    ("presence_penalty", "presence_penalty", strict.get_number),
    ("logprobs", "logprobs", strict.get_flag),
)
SETTINGS = {key for key, _, _ in _FIELDS} | {"response_format", "thinking"}
_UNSUPPORTED = "choices top_logprobs parallel_calls verbosity tier user metadata cache_key store"


def read_settings(body: Object) -> tuple[rq.Settings, Object]:
    """Returns the settings, and marks of how they were spelled."""
    thinking, format_ = strict.get_object(body, "thinking"), strict.get_object(body, "response_format")
    budget, thoughts = _read_thinking(thinking)
    fields = {name: read(body, key) for key, name, read in _FIELDS}
    settings = rq.Settings(**fields, format=_read_format(format_), budget=budget, thoughts=thoughts)
    return settings, {"thinking": thinking, "format": format_}


def _read_thinking(thinking: Object) -> tuple[int | None, bool | None]:
    """Returns the budget, and whether thinking is on."""
    if get_text(thinking, "type") == "disabled":
        return 0, None
    budget = get_integer(thinking, "token_budget")
    return budget, True if thinking and budget is None else None


def _read_format(given: Object) -> rq.Format | None:
    kind = given.get("type")
    if kind is None or kind == "text":
        return None if kind is None else rq.Format()
    key = "json_schema" if "json_schema" in given else "schema"
    return rq.Format("json") if given.get(key) is None else rq.Format("schema", schema=strict.get_object(given, key))


def write_settings(settings: rq.Settings, marks: Object, draft: RequestDraft, body: Object) -> None:
    """Writes the settings into a body and reports those that Cohere does not have."""
    draft.report_settings(settings, _UNSUPPORTED.split())
    fields: Object = {key: getattr(settings, name) for key, name, _ in _FIELDS}
    fields["response_format"] = _write_format(settings.format, marks.get("format", {}), draft)
    fields["thinking"] = _write_thinking(settings, marks.get("thinking", {}), draft)
    body.update({key: value for key, value in fields.items() if value is not None and value not in ([], {})})


def _write_thinking(settings: rq.Settings, original: Object, draft: RequestDraft) -> Object:
    budget, thoughts = settings.budget, settings.thoughts
    if settings.effort:
        draft.report_loss("effort")
    elif (budget, thoughts) == _read_thinking(original):
        return original
    if thoughts is not None and (budget is not None or settings.effort):
        draft.report_loss("setting", "thoughts")
    if budget is None and settings.effort:
        budget = budget_for_effort(settings.effort)
    if budget is None:
        return {} if thoughts is None else {"type": "enabled" if thoughts else "disabled"}
    return {"type": "enabled", "token_budget": budget} if budget else {"type": "disabled"}


def _write_format(format_: rq.Format | None, original: Object, draft: RequestDraft) -> Object:
    if format_ is None or format_ == _read_format(original):
        return original if format_ is not None else {}
    if format_.kind == "text":
        return {"type": "text"}
    if format_.name or format_.description or format_.strict is not None:
        draft.report_loss("format")
    return {"type": "json_object", **({"json_schema": format_.schema} if format_.schema is not None else {})}


_REQUEST = SETTINGS | {"model", "message", "chat_history", "preamble", "tools", "tool_results", "stream"}
_ENTRY = frozenset({"role", "message", "tool_calls", "tool_results"})
_ROLE_NAMES: dict[rq.Role, str] = {"system": "SYSTEM", "user": "USER", "assistant": "CHATBOT", "tool": "TOOL"}
_ROLES: dict[str, rq.Role] = {
    spelled: role for role, name in _ROLE_NAMES.items() for spelled in (name, name.capitalize(), name.lower())
}
_TYPE_NAMES = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "array": "list"}
_TYPE_NAMES["object"] = "dict"
_TYPES = {**{name: kind for kind, name in _TYPE_NAMES.items()}, **{kind: kind for kind in _TYPE_NAMES}}
_PART_LOSSES: dict[type, str] = {rq.Source: "source", rq.Ask: "approval", rq.Reasoning: "reasoning"}


# ── reading ───────────────────────────────────────────────────────────────────────────────────────


def read_v1_request(body: Object) -> rq.Request:
    """Reads a parsed body of version 1."""
    reader = _HistoryReader()
    preamble = strict.get_text(body, "preamble")
    messages: list[rq.Message] = []
    if preamble:
        messages.append(rq.Message("system", [rq.Text(preamble)], extra=build_extra(NAME, {}, preamble=True)))
    for row in strict.read_objects(body, "chat_history", reader.read):
        messages += row
    if body.get("message"):
        messages.append(rq.Message("user", [rq.Text(strict.require_text(body, "message"))]))
    if body.get("tool_results"):
        messages += reader.read_results(body, {})
    return build_request(body, _REQUEST, messages, _read_tool, version=1)


def build_request(
    body: Object, known: AbstractSet[str], messages: list[rq.Message], read_tool: Any, **marks: Any
) -> rq.Request:
    """Builds the request of either version: adds the model, tools, settings and unknown fields to the messages."""
    tools = strict.read_objects(body, "tools", read_tool)
    settings, spelled = read_settings(body)
    empty = empty_fields(body, known)
    if body.get("stream") is False:
        empty["stream"] = False
    extra = build_extra(NAME, unknown_fields(body, known), also=empty, **spelled, **marks)
    stream = strict.get_flag(body, "stream") or False
    return rq.Request(strict.get_text(body, "model"), messages, tools, None, settings, stream=stream, extra=extra)


class _HistoryReader:
    """State: the calls so far and their number."""

    def __init__(self) -> None:
        self._matcher = ResultMatcher()
        self._count = 0

    def read(self, entry: Object) -> list[rq.Message]:
        role = strict.get_choice(entry, "role", _ROLES)
        spelled = entry["role"]
        marks = {"role": spelled if spelled != spelled.upper() else "", "also": empty_fields(entry, _ENTRY)}
        extra: Any = build_extra(NAME, unknown_fields(entry, _ENTRY), **marks)
        if role == "tool":
            return self.read_results(entry, extra)
        text = strict.get_text(entry, "message")
        parts: list[rq.AnyPart] = [rq.Text(text)] if text else []
        if role == "assistant":
            self._matcher.begin()
            parts += strict.read_objects(entry, "tool_calls", self._read_call)
        return [rq.Message(role, parts, extra=extra)]

    def _read_call(self, call: Object) -> rq.Call:
        name = strict.require_text(call, "name")
        id = self._matcher.call("", name, f"call_{self._count}")  # noqa: A001 — as the part calls it
        self._count += 1
        extra = build_extra(NAME, unknown_fields(call, {"name", "parameters"}), minted=True)
        return rq.Call(id, name, as_json(strict.get_object(call, "parameters")), extra=extra)

    def read_results(self, entry: Object, extra: Any) -> list[rq.Message]:
        """Reads tool results; a message with the calls that are not in the history comes first."""
        new_calls: list[rq.AnyPart] = []

        def read(result: Object) -> rq.Result:
            call = strict.get_object(result, "call")
            name = strict.get_text(call, "name")
            id = self._matcher.result("", name)  # noqa: A001 — as the part calls it
            if not id:
                new_calls.append(self._read_call({**call, "name": name}))
                id = self._matcher.result("", name)  # noqa: A001 — as the part calls it
            outputs = strict.read_objects(result, "outputs", dict)
            extra = build_extra(NAME, unknown_fields(result, {"call", "outputs"}), call=call)
            return rq.Result(id, name, [rq.Json(as_json(output)) for output in outputs], extra=extra)

        results: list[rq.AnyPart] = [*strict.read_objects(entry, "tool_results", read)]
        tool = rq.Message("tool", results, extra=extra or None)
        if not new_calls:
            return [tool]
        return [rq.Message("assistant", new_calls, extra=build_extra(NAME, {}, implied=True)), tool]


def _read_tool(tool: Object) -> rq.Tool:
    definitions = strict.get_object(tool, "parameter_definitions")
    unknown = unknown_fields(tool, {"name", "description", "parameter_definitions"})
    name, description = strict.require_text(tool, "name"), strict.get_text(tool, "description")
    is_bare = "parameter_definitions" not in tool
    extra = build_extra(NAME, unknown, given=definitions, bare=is_bare)
    return rq.Tool(name, description, None if is_bare else _to_schema(definitions), extra=extra)


def _to_schema(definitions: Object) -> Object:
    """Converts parameter definitions to JSON Schema."""
    properties = {name: _to_property(as_object(one)) for name, one in definitions.items()}
    required = [name for name, one in definitions.items() if as_object(one).get("required") is True]
    return {"type": "object", "properties": properties, **({"required": required} if required else {})}


def _to_property(definition: Object) -> Object:
    """`{"type": "list[str]"}` → `{"type": "array", "items": {"type": "string"}}`."""
    outer, _, inner = str(definition.get("type") or "").partition("[")
    kind, item_kind = _TYPES.get(outer.lower()), _TYPES.get(inner.rstrip("]").lower())
    schema: Object = {"type": kind} if kind else {}
    if item_kind and kind == "array":
        schema["items"] = {"type": item_kind}
    if definition.get("description"):
        schema["description"] = definition["description"]
    return schema


# ── writing ───────────────────────────────────────────────────────────────────────────────────────


def write_v1_request(request: rq.Request, messages: list[rq.Message], draft: RequestDraft) -> Object:
    """Writes a body of version 1: the last message separately, the others as history."""
    own, marks = split_extra(request.extra, NAME)
    body: Object = {"model": request.model} if request.model else {}
    writer = _HistoryWriter(draft)
    history = writer.write(messages, body)
    last = history.pop() if history and "tool_results" in history[-1] else {}
    if last:
        body["tool_results"] = last["tool_results"]
    is_question = history and history[-1].get("role", "").upper() == "USER" and (not last or writer.calls_implied)
    body["message"] = history.pop().get("message", "") if is_question else ""
    if history:
        body["chat_history"] = history
    if request.stream:
        body["stream"] = True
    tools = [one for tool in request.tools for one in _write_tool(tool, draft)]
    if tools:
        body["tools"] = tools
    if request.choice is not None and (request.choice.mode != "auto" or request.choice.names):
        draft.report_loss("choice")
    write_settings(request.settings, marks, draft, body)
    body.update(own)
    add_missing(body, marks.get("also"))
    return body


class _HistoryWriter:
    """State: the calls so far, and whether the last calls are written only inside their results."""

    def __init__(self, draft: RequestDraft) -> None:
        self._draft = draft
        self._calls: dict[str, Object] = {}
        self.calls_implied = False

    def write(self, messages: list[rq.Message], body: Object) -> list[Object]:
        history: list[Object] = []
        for place, message in enumerate(messages):
            own, marks = self._draft.split_extra(message.extra)
            if message.name:
                self._draft.report_loss("name")
            text = self._write_text(message)
            if message.role == "system" and (marks.get("preamble") or (not place and not history and not marks)):
                body["preamble"] = text
                continue
            entry: Object = {"role": marks.get("role") or _ROLE_NAMES[message.role]}
            if text:
                entry["message"] = text
            self._write_tool_parts(message, entry)
            if message.role != "tool":
                self.calls_implied = bool(marks.get("implied"))
            if not marks.get("implied"):
                history.append({**entry, **own})
                add_missing(history[-1], marks.get("also"))
        return history

    def _write_text(self, message: rq.Message) -> str:
        texts: list[str] = []
        for part in message.parts:
            if type(part) is rq.Text:
                self._draft.split_extra(part.extra)
                texts.append(part.text)
            elif type(part) is rq.File:
                self._draft.report_loss("file", part.media)
                texts.append(describe_file(part))
            elif type(part) is rq.Opaque:
                self._draft.report_loss("opaque")
                texts += [text for text in (collect_text(part.data),) if text]
            elif type(part) in _PART_LOSSES:
                self._draft.report_loss(_PART_LOSSES[type(part)])
        if len(texts) > 1:
            self._draft.report_loss("order")
        return "\n".join(texts)

    def _write_tool_parts(self, message: rq.Message, entry: Object) -> None:
        for part in message.parts:
            if type(part) is rq.Call and part.cut:
                self._draft.report_loss("cut-call")
            elif type(part) is rq.Call:
                entry.setdefault("tool_calls", []).append(self._write_call(part))
            elif type(part) is rq.Result:
                entry.setdefault("tool_results", []).append(self._write_result(part))

    def _write_call(self, call: rq.Call) -> Object:
        own, marks = self._draft.split_extra(call.extra)
        if not marks.get("minted"):
            self._draft.report_loss("ids")
        self._calls[call.id] = {"name": call.name, "parameters": self._draft.write_call_input(call), **own}
        return self._calls[call.id]

    def _write_result(self, result: rq.Result) -> Object:
        own, marks = self._draft.split_extra(result.extra)
        call = marks.get("call") or self._calls.get(result.call) or {"name": result.name, "parameters": {}}
        return {"call": call, "outputs": [_write_output(part) for part in result.content], **own}


def _write_output(part: rq.ResultPart) -> Object:
    """Writes an output, which must be an object."""
    if isinstance(part, rq.Json):
        value: Any = decode_unless_too_deep(part.json)
        return value if is_object(value) else {"output": value}
    return {"output": part.text if isinstance(part, rq.Text) else collect_text(msgspec.to_builtins(part))}


def _write_tool(tool: rq.Tool, draft: RequestDraft) -> list[Object]:
    own, marks = draft.split_extra(tool.extra)
    if tool.kind in ("provider", "unknown"):
        draft.report_loss("tool", tool.name)
        return []
    original: Object = marks.get("given", {})
    written: Object = {"name": tool.name, "description": tool.description}
    if not marks.get("bare"):
        unchanged = _to_schema(original) == tool.schema
        written["parameter_definitions"] = original if unchanged else _write_definitions(tool, draft)
    return [{**written, **own}]


def _write_definitions(tool: rq.Tool, draft: RequestDraft) -> Object:
    schema = tool.schema or {}
    required = schema.get("required") or ()
    definitions: Object = {}
    for name, one in get_object(schema, "properties").items():
        given = as_object(one)
        kind = given.get("type")
        if not isinstance(kind, str) or given.keys() - {"type", "description"}:
            draft.report_loss("schema")
        type_name, description = _TYPE_NAMES.get(str(kind), "str"), given.get("description", "")
        definitions[name] = {"description": description, "type": type_name, "required": name in required}
    return definitions
