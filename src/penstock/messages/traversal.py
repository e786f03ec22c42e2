"""Going through a request's parts: what is not changed is not copied, and nothing given is ever written to."""

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
    """The messages with each part of these kinds changed; None leaves it out. The same list if nothing changed."""
    made: list[rq.Message] | None = None
    for place, message in enumerate(messages):
        parts = change_list(message.parts, kinds, change)
        if parts is not message.parts:
            made = made or list(messages)
            made[place] = replace(message, parts=parts)
    return made or messages


def change_list(parts: list[Any], kinds: AbstractSet[type], change: Callable[[Any], Any]) -> list[Any]:
    """The parts with each of these kinds changed; the same list if none was."""
    made: list[Any] | None = None
    for place, part in enumerate(parts):
        if type(part) in kinds:
            new = change(part)
            if new is not part:
                made = list(parts) if made is None else made
                made[place] = new
    return parts if made is None else [part for part in made if part is not None]


def with_messages(request: rq.Request, messages: list[rq.Message]) -> rq.Request:
    """The request with other messages; itself if they are the ones it has."""
    return request if messages is request.messages else replace(request, messages=messages)


def without_item_ids(parts: Sequence[Any]) -> list[Any]:
    """Parts without the ids of their items, for a message whose reasoning was left out.

    OpenAI looks items up by their id and answers 400 if the reasoning that belongs to one is missing
    (https://github.com/laravel/ai/pull/1052). Calls and results belong together by the id of the call.
    """
    return [replace(part, item="") if getattr(part, "item", "") else part for part in parts]


class Survey(msgspec.Struct):
    """What was seen. Everything errs on the side of looking again."""

    plain: bool = True  # all words are ASCII, and nothing is kept for a protocol
    files: bool = False
    blank: bool = False  # a message or a text with nothing in it
    hints: int = 0  # cache points
    wrapped: bool = False  # calls or tools that are more than a name and a JSON object
    ids: set[str] = msgspec.field(default_factory=set[str])
    names: set[str] = msgspec.field(default_factory=set[str])


def survey(request: rq.Request) -> Survey:
    """What there is in a request."""
    seen = Survey()
    for tool in request.tools:
        seen.names.add(tool.name)
        if tool.cache:
            seen.hints += 1
        if tool.kind != "function" or tool.namespace:
            seen.wrapped = True
    seen.blank = not all(message.parts for message in request.messages)
    others = _texts((part for message in request.messages for part in message.parts), seen)
    for part in _texts(_others(others, seen), seen):
        _odd(part, seen)
    seen.plain = seen.plain and all(map(str.isascii, seen.ids)) and all(map(str.isascii, seen.names))
    return seen


def _texts(parts: Iterable[Any], seen: Survey) -> list[Any]:
    """Look at the texts; all others come out."""
    others: list[Any] = []
    kind = rq.Text
    for part in parts:
        if part.cache:
            seen.hints += 1
        if type(part) is not kind:
            others.append(part)
            continue
        text = part.text
        if part.extra is not None or not text.isascii():
            seen.plain = False
        if (text < "!" or not seen.plain) and (not text or text.isspace()):  # blank ASCII sorts before all words
            seen.blank = True
    return others


def _others(parts: Iterable[Any], seen: Survey) -> list[Any]:
    """Look at calls and results; what results hold comes out."""
    inside: list[Any] = []
    ids, names, call, result = seen.ids, seen.names, rq.Call, rq.Result
    for part in parts:
        if type(part) is call:
            if part.by == "client":
                ids.add(part.id)
                names.add(part.name)
            if part.extra is not None or part.form == "text" or not part.json.isascii():
                seen.plain, seen.wrapped = False, True
        elif type(part) is result:
            ids.add(part.call)
            if part.extra is not None:
                seen.plain = False
            inside += part.content
        else:
            _odd(part, seen)
    return inside


def _odd(part: Any, seen: Survey) -> None:
    if type(part) is rq.File:
        seen.files = True
    elif type(part) is rq.Ask:
        seen.ids.add(part.call)
    else:
        seen.plain = False
