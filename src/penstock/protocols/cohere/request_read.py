"""Cohere Chat requests, version 2 → canonical; version 1 is told by its `message` and read in `request1.py`.

`write.py` is the way back. The plan before calls is reasoning, as in the decoder; citations of earlier answers stay
with their message.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from msgspec.structs import replace

from penstock import request as rq
from penstock import strict_fields as strict
from penstock.errors import BadRequest
from penstock.jsontext import as_json
from penstock.markers import grammar_of, restored, text_of
from penstock.markers.extract import free_calls
from penstock.media import of_url
from penstock.protocols.cohere.decode_v1 import NAME, PLAN
from penstock.protocols.cohere.request_settings import SETTINGS, read_settings
from penstock.protocols.cohere.request_v1 import read_request1
from penstock.request_writer import split_extra
from penstock.strict_fields import build_extra, empty_fields, unknown_fields

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.lenient_fields import Object

ROLES: dict[str, rq.Role] = {"system": "system", "user": "user", "assistant": "assistant", "tool": "tool"}
_REQUEST = SETTINGS | {"model", "messages", "tools", "tool_choice", "stream"}
_MESSAGE = frozenset({"role", "content", "tool_plan", "tool_calls", "tool_call_id"})
_FUNCTION = frozenset({"name", "description", "parameters"})
CHOICES: dict[Any, rq.ChoiceMode] = {"REQUIRED": "required", "NONE": "none"}


def read_request(body: Object) -> rq.Request:
    """A request of either version from its parsed body."""
    strict.as_object(body)
    if "message" in body and "messages" not in body:
        return brought(read_request1(body))
    return brought(_read(body))


def _read(body: Object) -> rq.Request:
    messages = strict.read_objects(body, "messages", read_message, need=True)
    tools = strict.read_objects(body, "tools", read_tool)
    free_calls(messages, tools)
    settings, marks = read_settings(body)
    also = empty_fields(body, _REQUEST)
    if body.get("stream") is False:
        also["stream"] = False
    return rq.Request(
        strict.get_text(body, "model"),
        restored(messages),
        tools,
        _choice(body.get("tool_choice")),
        settings,
        stream=strict.get_flag(body, "stream") or False,
        extra=build_extra(NAME, unknown_fields(body, _REQUEST), also=also, **marks),
    )


# ── messages ──────────────────────────────────────────────────────────────────────────────────────


def read_message(message: Object) -> rq.Message:
    """One message of any role."""
    role = strict.get_choice(message, "role", ROLES)
    content = message.get("content")
    parts: list[rq.AnyPart] = read_content(content, role)
    marks: Object = {"listed": isinstance(content, list) and len(parts) == 1}
    if role == "tool":
        result = rq.Result(strict.require_text(message, "tool_call_id"), "", cast("list[rq.ResultPart]", parts))
        result.extra = build_extra(NAME, {}, **marks)
        parts = [result]
        marks = {}
    elif role == "assistant":
        plan = strict.get_text(message, "tool_plan")
        said = [rq.Reasoning(plan, extra=PLAN)] if plan else []
        parts = [*said, *parts, *strict.read_objects(message, "tool_calls", read_call)]
    extra = build_extra(NAME, unknown_fields(message, _MESSAGE), also=empty_fields(message, _MESSAGE), **marks)
    return rq.Message(role, parts, extra=extra)


def read_content(content: Any, role: str) -> list[rq.AnyPart]:
    """Content: a string, a list of parts, or nothing."""
    if isinstance(content, str):
        return [rq.Text(content)] if content else []
    if content is None:
        return []
    if not isinstance(content, list):
        raise BadRequest("a string or a list of parts", content, "content")
    return strict.read_each(content, _part if role != "tool" else _result_part, "content")  # pyright: ignore[reportUnknownArgumentType]


def read_call(call: Object) -> rq.Call:
    """A tool call of an assistant's message."""
    said = strict.get_object(call, "function")
    try:
        name, json = strict.require_text(said, "name"), text_of(strict.get_text(said, "arguments"))
    except BadRequest as error:
        raise error.at("function") from None
    own = unknown_fields(call, {"id", "type", "function"})
    inner = unknown_fields(said, {"name", "arguments"})
    extra = build_extra(NAME, {**own, **({"function": inner} if inner else {})}, untyped="type" not in call)
    return rq.Call(strict.get_text(call, "id"), name, json, extra=extra)


def _part(part: Object) -> rq.AnyPart:
    kind = part.get("type")
    read = _PARTS.get(kind) if isinstance(kind, str) else None
    return rq.Opaque(NAME, str(kind or ""), part) if read is None else read(part)


def _result_part(part: Object) -> Any:
    """A document is a value, or a text, that can be cited."""
    if part.get("type") != "document":
        return _part(part)
    said = strict.get_object(part, "document")
    data, marks = said.get("data"), {"document": unknown_fields(said, {"data"}), "is_document": True}
    if isinstance(data, str):
        return rq.Text(data, extra=build_extra(NAME, {}, **marks))
    return rq.Json(as_json(data), extra=build_extra(NAME, {}, **marks))


def _text(part: Object) -> rq.Text:
    text = strict.require_text(part, "text")
    return rq.Text(text, extra=build_extra(NAME, unknown_fields(part, {"type", "text"}), empty=not text))


def _thinking(part: Object) -> rq.Reasoning:
    return rq.Reasoning(
        strict.require_text(part, "thinking"),
        extra=build_extra(NAME, unknown_fields(part, {"type", "thinking"})),
    )


def _image(part: Object) -> rq.File:
    given = part.get("image_url")
    said: Object = {"url": given} if isinstance(given, str) else strict.get_object(part, "image_url")
    try:
        media, url, data = of_url(strict.require_text(said, "url"), "image/*")
    except BadRequest as error:
        raise error.at("image_url") from None
    detail = said.get("detail")
    known = {"url", "detail"} if isinstance(detail, str) else {"url"}
    extra = build_extra(NAME, unknown_fields(said, known), bare=isinstance(given, str))
    return rq.File(media, url, data, detail=detail if isinstance(detail, str) else "", extra=extra)


_PARTS: dict[str, Callable[[Object], rq.AnyPart]] = {"text": _text, "thinking": _thinking, "image_url": _image}


# ── tools ─────────────────────────────────────────────────────────────────────────────────────────


def read_tool(tool: Object) -> rq.Tool:
    """A tool; one of a type without a word is kept whole."""
    if tool.get("type", "function") != "function":
        return rq.Tool(str(tool.get("name") or tool.get("type")), kind="unknown", extra={NAME: {"tool": tool}})
    return strict.read_object(tool, "function", lambda said: _function(tool, said))


def _function(tool: Object, said: Object) -> rq.Tool:
    schema = strict.get_object(said, "parameters") if said.get("parameters") is not None else None
    free = None if schema is None else grammar_of(schema)
    own = unknown_fields(said, _FUNCTION) if said.keys() - _FUNCTION else {}
    beside = unknown_fields(tool, {"type", "function"})
    extra = build_extra(NAME, {**own, **({"beside": beside} if beside else {})}, also=empty_fields(said, _FUNCTION))
    name, description = strict.require_text(said, "name"), strict.get_text(said, "description")
    if free is not None:
        return rq.Tool(name, description, free or None, kind="custom", extra=extra)
    return rq.Tool(name, description, schema, extra=extra)


def _choice(given: Any) -> rq.ToolChoice | None:
    if given is None:
        return None
    if not isinstance(given, str) or given not in CHOICES:
        raise BadRequest("REQUIRED or NONE", given, "tool_choice")
    return rq.ToolChoice(CHOICES[given])


FIELD = "documents"


def brought(request: rq.Request) -> rq.Request:
    """The request with its documents in front of what the user said last, in a message that was just read."""
    own = (request.extra or {}).get(NAME, {})
    given: Any = own.get(FIELD)
    last = next((message for message in reversed(request.messages) if message.role == "user"), None)
    if not isinstance(given, list) or not given or last is None:
        return request
    documents: list[Any] = given  # pyright: ignore[reportUnknownVariableType]
    if not all(isinstance(one, str | dict) for one in documents):
        return request
    last.parts[:0] = [rq.Text(_words(one), extra={NAME: {"_": {"document": {"as": one}}}}) for one in documents]
    left = {key: value for key, value in own.items() if key != FIELD}
    request.extra = {NAME: left} if left else None
    return request


def taken(messages: list[rq.Message]) -> tuple[list[rq.Message], list[Any]]:
    """The messages without those texts, and the documents that they were."""
    found = [_document(part) for message in messages if message.role == "user" for part in message.parts]
    documents = [one["as"] for one in found if one]
    if not documents:
        return messages, []
    return [
        replace(message, parts=[part for part in message.parts if not _document(part)])
        if message.role == "user"
        else message
        for message in messages
    ], documents


def _document(part: rq.AnyPart) -> Object:
    """How a text was said if it was a document, and still says the same."""
    mark: Object = split_extra(part.extra, NAME)[1].get("document", {}) if type(part) is rq.Text else {}
    return mark if "as" in mark and type(part) is rq.Text and part.text == _words(mark["as"]) else {}


def _words(document: Any) -> str:
    """What a document says: its text, with its title or id above where it has one."""
    if isinstance(document, str):
        return document
    given = cast("Object", document)
    data = given.get("data", given)
    if isinstance(data, str):
        name, text = given.get("id"), data
    else:
        name, text = given.get("id"), as_json(data)
        fields = cast("Object", data) if isinstance(data, dict) else {}
        if isinstance(fields.get("text"), str) and fields.keys() <= {"text", "title", "id"}:
            name, text = fields.get("title") or name, fields["text"]
    return f"[{name}]\n{text}" if isinstance(name, str) and name else text
