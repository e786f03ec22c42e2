"""Cohere Chat requests → canonical requests. A body with `message` is of version 1 and read in `request_v1`.

The plan before calls is reasoning, as in the decoder. Citations of earlier answers stay with their message.

Documents of a request become texts of the last user message, so that every other protocol sends them, too. A mark
restores them as documents here.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, cast

from msgspec.structs import replace

from penstock import _strict_fields as strict
from penstock import request as rq
from penstock._lenient_json import as_json
from penstock._markers import extract_markers, restore_free_text_calls, restore_input_text
from penstock._media import split_file_url
from penstock._protocols.cohere.request_v1 import SETTINGS, build_request, read_v1_request
from penstock._protocols.cohere.wire import NAME, PLAN_EXTRA
from penstock._request_writer import split_extra
from penstock._strict_fields import build_extra, empty_fields, unknown_fields
from penstock.errors import BadRequest

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock._lenient_fields import Object

_ROLES: dict[str, rq.Role] = {"system": "system", "user": "user", "assistant": "assistant", "tool": "tool"}
_REQUEST = SETTINGS | {"model", "messages", "tools", "tool_choice", "stream"}
_MESSAGE = frozenset({"role", "content", "tool_plan", "tool_calls", "tool_call_id"})
_CHOICES: dict[Any, rq.ChoiceMode] = {"REQUIRED": "required", "NONE": "none"}


def read_request(body: Object) -> rq.Request:
    """Reads a parsed body of either version."""
    strict.as_object(body)
    is_v1 = "message" in body and "messages" not in body
    return _read_documents(read_v1_request(body) if is_v1 else _read_v2_request(body))


def _read_v2_request(body: Object) -> rq.Request:
    messages = strict.read_objects(body, "messages", _read_message, need=True)
    request = build_request(body, _REQUEST, messages, partial(strict.read_function_tool, protocol=NAME))
    restore_free_text_calls(messages, request.tools)
    request.messages, request.choice = extract_markers(messages), _read_choice(body.get("tool_choice"))
    return request


# ── messages ──────────────────────────────────────────────────────────────────────────────────────


def _read_message(message: Object) -> rq.Message:
    role = strict.get_choice(message, "role", _ROLES)
    content = message.get("content")
    parts: list[rq.AnyPart] = _read_content(content, role)
    marks: Object = {"listed": isinstance(content, list) and len(parts) == 1}
    if role == "tool":
        result = rq.Result(strict.require_text(message, "tool_call_id"), "", cast("list[rq.ResultPart]", parts))
        result.extra = build_extra(NAME, {}, **marks)
        parts = [result]
        marks = {}
    elif role == "assistant":
        plan = strict.get_text(message, "tool_plan")
        reasoning = [rq.Reasoning(plan, extra=PLAN_EXTRA)] if plan else []
        parts = [*reasoning, *parts, *strict.read_objects(message, "tool_calls", _read_call)]
    extra = build_extra(NAME, unknown_fields(message, _MESSAGE), also=empty_fields(message, _MESSAGE), **marks)
    return rq.Message(role, parts, extra=extra)


def _read_content(content: Any, role: str) -> list[rq.AnyPart]:
    """Reads a string, a list of parts, or nothing."""
    if isinstance(content, str):
        return [rq.Text(content)] if content else []
    if content is None:
        return []
    if not isinstance(content, list):
        raise BadRequest("a string or a list of parts", content, "content")
    return strict.read_each(content, _read_part if role != "tool" else _read_result_part, "content")  # pyright: ignore[reportUnknownArgumentType]


def _read_call(call: Object) -> rq.Call:
    function = strict.get_object(call, "function")
    try:
        name, json = strict.require_text(function, "name"), restore_input_text(strict.get_text(function, "arguments"))
    except BadRequest as error:
        raise error.at("function") from None
    inner = unknown_fields(function, {"name", "arguments"})
    unknown = {**unknown_fields(call, {"id", "type", "function"}), **({"function": inner} if inner else {})}
    return rq.Call(
        strict.get_text(call, "id"), name, json, extra=build_extra(NAME, unknown, untyped="type" not in call)
    )


def _read_part(part: Object) -> rq.AnyPart:
    kind = part.get("type")
    read = _PART_READERS.get(kind) if isinstance(kind, str) else None
    return rq.Opaque(NAME, str(kind or ""), part) if read is None else read(part)


def _read_result_part(part: Object) -> Any:
    """Reads a part of a result. A document is a JSON value or a text."""
    if part.get("type") != "document":
        return _read_part(part)
    document = strict.get_object(part, "document")
    data = document.get("data")
    extra = build_extra(NAME, {}, document=unknown_fields(document, {"data"}), is_document=True)
    return rq.Text(data, extra=extra) if isinstance(data, str) else rq.Json(as_json(data), extra=extra)


def _read_text(part: Object) -> rq.Text:
    text = strict.require_text(part, "text")
    return rq.Text(text, extra=build_extra(NAME, unknown_fields(part, {"type", "text"}), empty=not text))


def _read_thinking(part: Object) -> rq.Reasoning:
    extra = build_extra(NAME, unknown_fields(part, {"type", "thinking"}))
    return rq.Reasoning(strict.require_text(part, "thinking"), extra=extra)


def _read_image(part: Object) -> rq.File:
    given = part.get("image_url")
    image: Object = {"url": given} if isinstance(given, str) else strict.get_object(part, "image_url")
    try:
        media, url, data = split_file_url(strict.require_text(image, "url"), "image/*")
    except BadRequest as error:
        raise error.at("image_url") from None
    detail = image.get("detail")
    known = {"url", "detail"} if isinstance(detail, str) else {"url"}
    extra = build_extra(NAME, unknown_fields(image, known), bare=isinstance(given, str))
    return rq.File(media, url, data, detail=detail if isinstance(detail, str) else "", extra=extra)


_PART_READERS: dict[str, Callable[[Object], rq.AnyPart]] = {
    "text": _read_text,
    "thinking": _read_thinking,
    "image_url": _read_image,
}


def _read_choice(choice: Any) -> rq.ToolChoice | None:
    if choice is None:
        return None
    if not isinstance(choice, str) or choice not in _CHOICES:
        raise BadRequest("REQUIRED or NONE", choice, "tool_choice")
    return rq.ToolChoice(_CHOICES[choice])


# ── documents ─────────────────────────────────────────────────────────────────────────────────────


def _read_documents(request: rq.Request) -> rq.Request:
    """Moves the documents of a request that was just read to the start of its last user message."""
    own = (request.extra or {}).get(NAME, {})
    given: Any = own.get("documents")
    last = next((message for message in reversed(request.messages) if message.role == "user"), None)
    if not isinstance(given, list) or not given or last is None:
        return request
    documents: list[Any] = given  # pyright: ignore[reportUnknownVariableType]
    if not all(isinstance(one, str | dict) for one in documents):
        return request
    texts = [rq.Text(_document_text(one), extra={NAME: {"_": {"document": {"as": one}}}}) for one in documents]
    last.parts[:0] = texts
    others = {key: value for key, value in own.items() if key != "documents"}
    request.extra = {NAME: others} if others else None
    return request


def split_documents(messages: list[rq.Message]) -> tuple[list[rq.Message], list[Any]]:
    """Returns the messages without the texts of documents, and the documents."""
    marks = [_document_mark(part) for message in messages if message.role == "user" for part in message.parts]
    documents = [one["as"] for one in marks if one]
    if not documents:
        return messages, []
    return [
        replace(message, parts=[part for part in message.parts if not _document_mark(part)])
        if message.role == "user"
        else message
        for message in messages
    ], documents


def _document_mark(part: rq.AnyPart) -> Object:
    """Returns the mark of a text that was a document and still has the same text; otherwise {}."""
    if type(part) is not rq.Text:
        return {}
    mark: Object = split_extra(part.extra, NAME)[1].get("document", {})
    return mark if "as" in mark and part.text == _document_text(mark["as"]) else {}


def _document_text(document: Any) -> str:
    """Returns the text of a document, below its title or id if it has one."""
    if isinstance(document, str):
        return document
    fields = cast("Object", document)
    data = fields.get("data", fields)
    name, text = fields.get("id"), data if isinstance(data, str) else as_json(data)
    if isinstance(data, dict):
        inner = cast("Object", data)
        if isinstance(inner.get("text"), str) and inner.keys() <= {"text", "title", "id"}:
            name, text = inner.get("title") or name, inner["text"]
    return f"[{name}]\n{text}" if isinstance(name, str) and name else text
