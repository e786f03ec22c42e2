"""Walks the parts of a request. Unchanged lists are not copied, and the given request is never modified."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from penstock import request as rq

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from collections.abc import Set as AbstractSet


def change_parts(
    messages: list[rq.Message], kinds: AbstractSet[type], change: Callable[[Any], Any]
) -> list[rq.Message]:
    """Returns the messages with parts of these kinds changed; None drops a part. The same list if nothing changed."""
    changed: list[rq.Message] | None = None
    for position, message in enumerate(messages):
        parts = change_list(message.parts, kinds, change)
        if parts is not message.parts:
            changed = changed or list(messages)
            changed[position] = replace(message, parts=parts)
    return changed or messages


def change_list(parts: list[Any], kinds: AbstractSet[type], change: Callable[[Any], Any]) -> list[Any]:
    """Returns the parts with those of these kinds changed; the same list if nothing changed."""
    changed: list[Any] | None = None
    for position, part in enumerate(parts):
        if type(part) in kinds:
            new = change(part)
            if new is not part:
                changed = list(parts) if changed is None else changed
                changed[position] = new
    return parts if changed is None else [part for part in changed if part is not None]


def with_messages(request: rq.Request, messages: list[rq.Message]) -> rq.Request:
    """Returns the request with other messages; itself if they are the same."""
    return request if messages is request.messages else replace(request, messages=messages)


def without_item_ids(parts: Sequence[Any]) -> list[Any]:
    """Returns parts without item ids, for a message whose reasoning was dropped.

    OpenAI looks items up by their id and answers 400 if the reasoning that belongs to one is missing
    (https://github.com/laravel/ai/pull/1052). Calls and results belong together by the id of the call.
    """
    return [replace(part, item="") if getattr(part, "item", "") else part for part in parts]


class RequestSurvey(msgspec.Struct):
    """What a request contains, so that most rules can be skipped. In doubt a flag is set, and the rule looks itself."""

    is_plain: bool = True  # all words are ASCII, and nothing is kept for a protocol
    has_files: bool = False
    has_blank: bool = False  # a message or a text with nothing in it
    cache_points: int = 0  # cache points
    has_wrapped_tools: bool = False  # calls or tools that are more than a name and a JSON object
    call_ids: set[str] = msgspec.field(default_factory=set[str])
    tool_names: set[str] = msgspec.field(default_factory=set[str])


def survey_request(request: rq.Request) -> RequestSurvey:
    """Looks through a request once."""
    found = RequestSurvey()
    for tool in request.tools:
        found.tool_names.add(tool.name)
        if tool.cache:
            found.cache_points += 1
        if tool.kind != "function" or tool.namespace:
            found.has_wrapped_tools = True
    parts: list[Any] = []
    for message in request.messages:
        if not message.parts:
            found.has_blank = True
        parts += message.parts
    others = _survey_texts(parts, found)
    if others:
        for part in _survey_texts(_survey_calls(others, found), found):
            _survey_rare_part(part, found)
    found.is_plain = found.is_plain and "".join(found.call_ids).isascii() and "".join(found.tool_names).isascii()
    return found


def _survey_texts(parts: Iterable[Any], found: RequestSurvey) -> list[Any]:
    """Surveys the texts; returns the other parts."""
    others: list[Any] = []
    kind = rq.Text
    for part in parts:
        if part.cache:
            found.cache_points += 1
        if type(part) is not kind:
            others.append(part)
            continue
        text = part.text
        if part.extra is not None or not text.isascii():
            found.is_plain = False
        if (text < "!" or not found.is_plain) and (not text or text.isspace()):  # blank ASCII sorts before all words
            found.has_blank = True
    return others


def _survey_calls(parts: Iterable[Any], found: RequestSurvey) -> list[Any]:
    """Surveys calls and results; returns the content of results."""
    inside: list[Any] = []
    call_ids, tool_names, call, result = found.call_ids, found.tool_names, rq.Call, rq.Result
    for part in parts:
        if type(part) is call:
            if part.by == "client":
                call_ids.add(part.id)
                tool_names.add(part.name)
            if part.extra is not None or part.form == "text" or not part.json.isascii():
                found.is_plain, found.has_wrapped_tools = False, True
        elif type(part) is result:
            call_ids.add(part.call)
            if part.extra is not None:
                found.is_plain = False
            inside += part.content
        else:
            _survey_rare_part(part, found)
    return inside


def _survey_rare_part(part: Any, found: RequestSurvey) -> None:
    if type(part) is rq.File:
        found.has_files = True
    elif type(part) is rq.Ask:
        found.call_ids.add(part.call)
    else:
        found.is_plain = False
