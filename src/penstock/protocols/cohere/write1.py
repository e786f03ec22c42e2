"""Canonical requests → Cohere Chat, version 1: the last message by itself, the others as history."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from penstock import request as rq
from penstock.carrying import input_of
from penstock.jsontext import is_object, plain_or_raw
from penstock.pick import as_object, table
from penstock.protocols.cohere.reading import NAME
from penstock.protocols.cohere.request1 import to_schema
from penstock.protocols.cohere.write_settings import write_settings
from penstock.writing import add, salvage, split, told

if TYPE_CHECKING:
    from penstock.pick import Object
    from penstock.protocols.cohere.write import Writer

_ROLES = {"system": "SYSTEM", "user": "USER", "assistant": "CHATBOT", "tool": "TOOL"}
_WORDS = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "array": "list", "object": "dict"}
_LOST: dict[type, str] = {rq.Source: "source", rq.Ask: "approval", rq.Reasoning: "reasoning"}


def write_request1(request: rq.Request, messages: list[rq.Message], draft: Writer) -> Object:
    """A body of version 1."""
    own, marks = split(request.extra, NAME)
    body: Object = {"model": request.model} if request.model else {}
    writer = _History(draft)
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
    tools = [made for tool in request.tools for made in _tool(tool, draft)]
    if tools:
        body["tools"] = tools
    if request.choice is not None and (request.choice.mode != "auto" or request.choice.names):
        draft.lose("choice")
    write_settings(request.settings, marks, draft, body)
    body.update(own)
    add(body, marks.get("also"))
    return body


class _History:
    """State: the calls so far, and whether the last of them were told by their results alone."""

    def __init__(self, draft: Writer) -> None:
        self._draft = draft
        self._calls: dict[str, Object] = {}
        self.implied = False

    def run(self, messages: list[rq.Message], body: Object) -> list[Object]:
        made: list[Object] = []
        for place, message in enumerate(messages):
            own, marks = self._draft.own(message.extra)
            if message.name:
                self._draft.lose("name")
            words = self._words(message)
            if message.role == "system" and (marks.get("preamble") or (not place and not made and not marks)):
                body["preamble"] = words
                continue
            entry: Object = {"role": marks.get("role") or _ROLES[message.role]}
            if words:
                entry["message"] = words
            self._tools(message, entry)
            if message.role != "tool":
                self.implied = bool(marks.get("implied"))
            if not marks.get("implied"):
                made.append({**entry, **own})
                add(made[-1], marks.get("also"))
        return made

    def _words(self, message: rq.Message) -> str:
        texts: list[str] = []
        for part in message.parts:
            if type(part) is rq.Text:
                self._draft.own(part.extra)
                texts.append(part.text)
            elif type(part) is rq.File:
                self._draft.lose("file", part.media)
                texts.append(told(part))
            elif type(part) is rq.Opaque:
                self._draft.lose("opaque")
                texts += [words for words in (salvage(part.data),) if words]
            elif type(part) in _LOST:
                self._draft.lose(_LOST[type(part)])
        if len(texts) > 1:
            self._draft.lose("order")
        return "\n".join(texts)

    def _tools(self, message: rq.Message, entry: Object) -> None:
        for part in message.parts:
            if type(part) is rq.Call and part.cut:
                self._draft.lose("cut-call")
            elif type(part) is rq.Call:
                entry.setdefault("tool_calls", []).append(self._call(part))
            elif type(part) is rq.Result:
                entry.setdefault("tool_results", []).append(self._result(part))

    def _call(self, call: rq.Call) -> Object:
        own, marks = self._draft.own(call.extra)
        if not marks.get("minted"):
            self._draft.lose("ids")
        given, carried = input_of(call)
        if carried:
            self._draft.carry(carried)
        self._calls[call.id] = {"name": call.name, "parameters": given, **own}
        return self._calls[call.id]

    def _result(self, result: rq.Result) -> Object:
        own, marks = self._draft.own(result.extra)
        call = marks.get("call") or self._calls.get(result.call) or {"name": result.name, "parameters": {}}
        outputs = [_output(part) for part in result.content]
        return {"call": call, "outputs": outputs, **own}


def _output(part: rq.ResultPart) -> Object:
    """Outputs are objects."""
    if isinstance(part, rq.Json):
        value: Any = plain_or_raw(part.json)
        return value if is_object(value) else {"output": value}
    return {"output": part.text if isinstance(part, rq.Text) else salvage(msgspec.to_builtins(part))}


def _tool(tool: rq.Tool, draft: Writer) -> list[Object]:
    own, marks = draft.own(tool.extra)
    if tool.kind in ("provider", "unknown"):
        draft.lose("tool", tool.name)
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
    for name, one in table(schema, "properties").items():
        said = as_object(one)
        word = said.get("type")
        if not isinstance(word, str) or said.keys() - {"type", "description"}:
            draft.lose("schema")
        kind = _WORDS.get(str(word), "str")
        made[name] = {"description": said.get("description", ""), "type": kind, "required": name in needed}
    return made
