"""Documents that a request brings for its answer: beside the messages on the wire, in canonical form texts of the user.

So every other protocol is told what they say; this one gets them back as they were.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from msgspec.structs import replace

from penstock import request as rq
from penstock.jsontext import as_json
from penstock.protocols.cohere.reading import NAME
from penstock.writing import split

if TYPE_CHECKING:
    from penstock.pick import Object

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
    mark: Object = split(part.extra, NAME)[1].get("document", {}) if type(part) is rq.Text else {}
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
