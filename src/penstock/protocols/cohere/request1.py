"""Cohere Chat requests, version 1 → canonical: a message, the history before it, and results of tools.

Calls have no ids: they get one from their place, and results answer them by name and in order. A result whose call is
told nowhere else brings it along. `write1.py` is the way back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock import reading
from penstock import request as rq
from penstock.jsontext import as_json
from penstock.pick import as_object
from penstock.protocols.cohere.reading import NAME
from penstock.protocols.cohere.request_settings import SETTINGS, read_settings
from penstock.reading import Pairs, keep, rest, unsaid

if TYPE_CHECKING:
    from penstock.pick import Object

_ROLES: dict[str, rq.Role] = {"SYSTEM": "system", "USER": "user", "CHATBOT": "assistant", "TOOL": "tool"}
ROLES: dict[str, rq.Role] = {
    role: made for word, made in _ROLES.items() for role in (word, word.capitalize(), word.lower())
}
TYPES: dict[str, str] = {
    "str": "string", "string": "string", "int": "integer", "integer": "integer", "float": "number",
    "number": "number", "bool": "boolean", "boolean": "boolean", "list": "array", "array": "array", "dict": "object",
    "object": "object",
}  # fmt: skip
_REQUEST = SETTINGS | {"model", "message", "chat_history", "preamble", "tools", "tool_results", "stream"}


def read_request1(body: Object) -> rq.Request:
    """A request of version 1 from its parsed body."""
    reader = _History()
    messages = reader.preamble(reading.text(body, "preamble"))
    for row in reading.rows(body, "chat_history", reader.read):
        messages += row
    if body.get("message"):
        messages.append(rq.Message("user", [rq.Text(reading.needed(body, "message"))]))
    if body.get("tool_results"):
        messages += reader.answers(body, {})
    settings, marks = read_settings(body)
    also = unsaid(body, _REQUEST)
    if body.get("stream") is False:
        also["stream"] = False
    return rq.Request(
        reading.text(body, "model"),
        messages,
        reading.rows(body, "tools", _tool),
        None,
        settings,
        stream=reading.flag(body, "stream") or False,
        extra=keep(NAME, rest(body, _REQUEST), version=1, also=also, **marks),
    )


class _History:
    """State: the calls so far, and how many there were."""

    def __init__(self) -> None:
        self._pairs = Pairs()
        self._count = 0

    def preamble(self, text: str) -> list[rq.Message]:
        return [rq.Message("system", [rq.Text(text)], extra=keep(NAME, {}, preamble=True))] if text else []

    def read(self, entry: Object) -> list[rq.Message]:
        """One entry of the history."""
        role = reading.word(entry, "role", ROLES)
        known = {"role", "message", "tool_calls", "tool_results"}
        word = entry["role"]
        marks = {"role": word if word != word.upper() else "", "also": unsaid(entry, known)}
        extra: Any = keep(NAME, rest(entry, known), **marks)
        if role == "tool":
            return self.answers(entry, extra)
        said = reading.text(entry, "message")
        parts: list[rq.AnyPart] = [rq.Text(said)] if said else []
        if role == "assistant":
            self._pairs.begin()
            parts += reading.rows(entry, "tool_calls", self._call)
        return [rq.Message(role, parts, extra=extra)]

    def _call(self, call: Object) -> rq.Call:
        name = reading.needed(call, "name")
        id = self._pairs.call("", name, f"call_{self._count}")  # noqa: A001 — as the part calls it
        self._count += 1
        extra = keep(NAME, rest(call, {"name", "parameters"}), minted=True)
        return rq.Call(id, name, as_json(reading.table(call, "parameters")), extra=extra)

    def answers(self, entry: Object, extra: Any) -> list[rq.Message]:
        """Results, and behind whose calls they stand."""
        brought: list[rq.AnyPart] = []

        def read(result: Object) -> rq.Result:
            call = reading.table(result, "call")
            name = reading.text(call, "name")
            id = self._pairs.result("", name)  # noqa: A001 — as the part calls it
            if not id:
                brought.append(self._call({**call, "name": name}))
                id = self._pairs.result("", name)  # noqa: A001 — the same
            content: list[rq.ResultPart] = [
                rq.Json(as_json(output)) for output in reading.rows(result, "outputs", dict)
            ]  # fmt: skip
            extra = keep(NAME, rest(result, {"call", "outputs"}), call=call)
            return rq.Result(id, name, content, extra=extra)

        results: list[rq.AnyPart] = [*reading.rows(entry, "tool_results", read)]
        tool = rq.Message("tool", results, extra=extra or None)
        return [rq.Message("assistant", brought, extra=keep(NAME, {}, implied=True)), tool] if brought else [tool]


def _tool(tool: Object) -> rq.Tool:
    given = reading.table(tool, "parameter_definitions")
    own = rest(tool, {"name", "description", "parameter_definitions"})
    name, description = reading.needed(tool, "name"), reading.text(tool, "description")
    bare = "parameter_definitions" not in tool
    marks = {"given": given, "bare": bare}
    return rq.Tool(name, description, None if bare else to_schema(given), extra=keep(NAME, own, **marks))


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
