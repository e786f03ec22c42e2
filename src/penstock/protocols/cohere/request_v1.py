"""Cohere Chat requests, version 1 → canonical: a message, the history before it, and results of tools.

Calls have no ids: they get one from their place, and results answer them by name and in order. A result whose call is
told nowhere else brings it along. `write1.py` is the way back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from penstock import request as rq
from penstock import strict_fields as strict
from penstock.jsontext import as_json, is_object, plain_or_raw
from penstock.lenient_fields import as_object, get_object
from penstock.markers import input_of
from penstock.protocols.cohere.decode_v1 import NAME
from penstock.protocols.cohere.request_settings import SETTINGS, read_settings, write_settings
from penstock.request_writer import add_missing, collect_text, describe_file, split_extra
from penstock.strict_fields import ResultMatcher, build_extra, empty_fields, unknown_fields

if TYPE_CHECKING:
    from penstock.lenient_fields import Object
    from penstock.protocols.cohere.request_write import Writer

_UPPERCASE_ROLES: dict[str, rq.Role] = {"SYSTEM": "system", "USER": "user", "CHATBOT": "assistant", "TOOL": "tool"}
ROLES: dict[str, rq.Role] = {
    role: made for word, made in _UPPERCASE_ROLES.items() for role in (word, word.capitalize(), word.lower())
}
TYPES: dict[str, str] = {
    "str": "string", "string": "string", "int": "integer", "integer": "integer", "float": "number",
    "number": "number", "bool": "boolean", "boolean": "boolean", "list": "array", "array": "array", "dict": "object",
    "object": "object",
}  # fmt: skip
_REQUEST = SETTINGS | {"model", "message", "chat_history", "preamble", "tools", "tool_results", "stream"}


def read_request1(body: Object) -> rq.Request:
    """A request of version 1 from its parsed body."""
    reader = _HistoryReader()
    messages = reader.preamble(strict.get_text(body, "preamble"))
    for row in strict.read_objects(body, "chat_history", reader.read):
        messages += row
    if body.get("message"):
        messages.append(rq.Message("user", [rq.Text(strict.require_text(body, "message"))]))
    if body.get("tool_results"):
        messages += reader.answers(body, {})
    settings, marks = read_settings(body)
    also = empty_fields(body, _REQUEST)
    if body.get("stream") is False:
        also["stream"] = False
    return rq.Request(
        strict.get_text(body, "model"),
        messages,
        strict.read_objects(body, "tools", _read_tool),
        None,
        settings,
        stream=strict.get_flag(body, "stream") or False,
        extra=build_extra(NAME, unknown_fields(body, _REQUEST), version=1, also=also, **marks),
    )


class _HistoryReader:
    """State: the calls so far, and how many there were."""

    def __init__(self) -> None:
        self._pairs = ResultMatcher()
        self._count = 0

    def preamble(self, text: str) -> list[rq.Message]:
        return [rq.Message("system", [rq.Text(text)], extra=build_extra(NAME, {}, preamble=True))] if text else []

    def read(self, entry: Object) -> list[rq.Message]:
        """One entry of the history."""
        role = strict.get_choice(entry, "role", ROLES)
        known = {"role", "message", "tool_calls", "tool_results"}
        word = entry["role"]
        marks = {"role": word if word != word.upper() else "", "also": empty_fields(entry, known)}
        extra: Any = build_extra(NAME, unknown_fields(entry, known), **marks)
        if role == "tool":
            return self.answers(entry, extra)
        said = strict.get_text(entry, "message")
        parts: list[rq.AnyPart] = [rq.Text(said)] if said else []
        if role == "assistant":
            self._pairs.begin()
            parts += strict.read_objects(entry, "tool_calls", self._call)
        return [rq.Message(role, parts, extra=extra)]

    def _call(self, call: Object) -> rq.Call:
        name = strict.require_text(call, "name")
        id = self._pairs.call("", name, f"call_{self._count}")  # noqa: A001 — as the part calls it
        self._count += 1
        extra = build_extra(NAME, unknown_fields(call, {"name", "parameters"}), minted=True)
        return rq.Call(id, name, as_json(strict.get_object(call, "parameters")), extra=extra)

    def answers(self, entry: Object, extra: Any) -> list[rq.Message]:
        """Results, and behind whose calls they stand."""
        brought: list[rq.AnyPart] = []

        def read(result: Object) -> rq.Result:
            call = strict.get_object(result, "call")
            name = strict.get_text(call, "name")
            id = self._pairs.result("", name)  # noqa: A001 — as the part calls it
            if not id:
                brought.append(self._call({**call, "name": name}))
                id = self._pairs.result("", name)  # noqa: A001 — the same
            content: list[rq.ResultPart] = [
                rq.Json(as_json(output)) for output in strict.read_objects(result, "outputs", dict)
            ]  # fmt: skip
            extra = build_extra(NAME, unknown_fields(result, {"call", "outputs"}), call=call)
            return rq.Result(id, name, content, extra=extra)

        results: list[rq.AnyPart] = [*strict.read_objects(entry, "tool_results", read)]
        tool = rq.Message("tool", results, extra=extra or None)
        return (
            [rq.Message("assistant", brought, extra=build_extra(NAME, {}, implied=True)), tool] if brought else [tool]
        )


def _read_tool(tool: Object) -> rq.Tool:
    given = strict.get_object(tool, "parameter_definitions")
    own = unknown_fields(tool, {"name", "description", "parameter_definitions"})
    name, description = strict.require_text(tool, "name"), strict.get_text(tool, "description")
    bare = "parameter_definitions" not in tool
    marks = {"given": given, "bare": bare}
    return rq.Tool(name, description, None if bare else to_schema(given), extra=build_extra(NAME, own, **marks))


def to_schema(given: Object) -> Object:
    """JSON Schema of a table of parameters."""
    properties = {name: _property(as_object(one)) for name, one in given.items()}
    needed = [name for name, one in given.items() if as_object(one).get("required") is True]
    return {"type": "object", "properties": properties, **({"required": needed} if needed else {})}


def _property(said: Object) -> Object:
    word = str(said.get("type") or "")
    outer, _, inner = word.partition("[")
    kind = TYPES.get(outer.lower())
    made: Object = {"type": kind} if kind else {}
    items = TYPES.get(inner.rstrip("]").lower())
    if items and kind == "array":
        made["items"] = {"type": items}
    return {**made, **({"description": said["description"]} if said.get("description") else {})}


_ROLE_NAMES = {"system": "SYSTEM", "user": "USER", "assistant": "CHATBOT", "tool": "TOOL"}
_TYPE_NAMES = {
    "string": "str",
    "integer": "int",
    "number": "float",
    "boolean": "bool",
    "array": "list",
    "object": "dict",
}
_LOST: dict[type, str] = {rq.Source: "source", rq.Ask: "approval", rq.Reasoning: "reasoning"}


def write_request1(request: rq.Request, messages: list[rq.Message], draft: Writer) -> Object:
    """A body of version 1."""
    own, marks = split_extra(request.extra, NAME)
    body: Object = {"model": request.model} if request.model else {}
    writer = _HistoryWriter(draft)
    history = writer.run(messages, body)
    last = history.pop() if history and "tool_results" in history[-1] else {}
    if last:
        body["tool_results"] = last["tool_results"]
    asks = history and history[-1].get("role", "").upper() == "USER" and (not last or writer.implied)
    body["message"] = history.pop().get("message", "") if asks else ""
    if history:
        body["chat_history"] = history
    if request.stream:
        body["stream"] = True
    tools = [made for tool in request.tools for made in _write_tool(tool, draft)]
    if tools:
        body["tools"] = tools
    if request.choice is not None and (request.choice.mode != "auto" or request.choice.names):
        draft.report_loss("choice")
    write_settings(request.settings, marks, draft, body)
    body.update(own)
    add_missing(body, marks.get("also"))
    return body


class _HistoryWriter:
    """State: the calls so far, and whether the last of them were told by their results alone."""

    def __init__(self, draft: Writer) -> None:
        self._draft = draft
        self._calls: dict[str, Object] = {}
        self.implied = False

    def run(self, messages: list[rq.Message], body: Object) -> list[Object]:
        made: list[Object] = []
        for place, message in enumerate(messages):
            own, marks = self._draft.split_extra(message.extra)
            if message.name:
                self._draft.report_loss("name")
            words = self._words(message)
            if message.role == "system" and (marks.get("preamble") or (not place and not made and not marks)):
                body["preamble"] = words
                continue
            entry: Object = {"role": marks.get("role") or _ROLE_NAMES[message.role]}
            if words:
                entry["message"] = words
            self._tools(message, entry)
            if message.role != "tool":
                self.implied = bool(marks.get("implied"))
            if not marks.get("implied"):
                made.append({**entry, **own})
                add_missing(made[-1], marks.get("also"))
        return made

    def _words(self, message: rq.Message) -> str:
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
                texts += [words for words in (collect_text(part.data),) if words]
            elif type(part) in _LOST:
                self._draft.report_loss(_LOST[type(part)])
        if len(texts) > 1:
            self._draft.report_loss("order")
        return "\n".join(texts)

    def _tools(self, message: rq.Message, entry: Object) -> None:
        for part in message.parts:
            if type(part) is rq.Call and part.cut:
                self._draft.report_loss("cut-call")
            elif type(part) is rq.Call:
                entry.setdefault("tool_calls", []).append(self._call(part))
            elif type(part) is rq.Result:
                entry.setdefault("tool_results", []).append(self._result(part))

    def _call(self, call: rq.Call) -> Object:
        own, marks = self._draft.split_extra(call.extra)
        if not marks.get("minted"):
            self._draft.report_loss("ids")
        given, carried = input_of(call)
        if carried:
            self._draft.report_carried(carried)
        self._calls[call.id] = {"name": call.name, "parameters": given, **own}
        return self._calls[call.id]

    def _result(self, result: rq.Result) -> Object:
        own, marks = self._draft.split_extra(result.extra)
        call = marks.get("call") or self._calls.get(result.call) or {"name": result.name, "parameters": {}}
        outputs = [_output(part) for part in result.content]
        return {"call": call, "outputs": outputs, **own}


def _output(part: rq.ResultPart) -> Object:
    """Outputs are objects."""
    if isinstance(part, rq.Json):
        value: Any = plain_or_raw(part.json)
        return value if is_object(value) else {"output": value}
    return {"output": part.text if isinstance(part, rq.Text) else collect_text(msgspec.to_builtins(part))}


def _write_tool(tool: rq.Tool, draft: Writer) -> list[Object]:
    own, marks = draft.split_extra(tool.extra)
    if tool.kind in ("provider", "unknown"):
        draft.report_loss("tool", tool.name)
        return []
    given: Object = marks.get("given", {})
    made: Object = {"name": tool.name, "description": tool.description}
    if not marks.get("bare"):
        made["parameter_definitions"] = given if to_schema(given) == tool.schema else _definitions(tool, draft)
    return [{**made, **own}]


def _definitions(tool: rq.Tool, draft: Writer) -> Object:
    schema = tool.schema or {}
    needed = schema.get("required") or ()
    made: Object = {}
    for name, one in get_object(schema, "properties").items():
        said = as_object(one)
        word = said.get("type")
        if not isinstance(word, str) or said.keys() - {"type", "description"}:
            draft.report_loss("schema")
        kind = _TYPE_NAMES.get(str(word), "str")
        made[name] = {"description": said.get("description", ""), "type": kind, "required": name in needed}
    return made
