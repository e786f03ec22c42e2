"""One look at a whole request: what there is in it that some rule could concern, so that most rules need not look."""

from __future__ import annotations

from typing import Any

import msgspec

from penstock import request as rq


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
    _others(_texts([part for message in request.messages for part in message.parts], seen), seen)
    seen.plain = seen.plain and all(map(str.isascii, seen.ids)) and all(map(str.isascii, seen.names))
    return seen


def _texts(parts: list[Any], seen: Survey) -> list[Any]:
    """Look at the texts; all others come out."""
    others: list[Any] = []
    for part in parts:
        if part.cache:
            seen.hints += 1
        if type(part) is not rq.Text:
            others.append(part)
            continue
        text = part.text
        if part.extra is not None or not text.isascii():
            seen.plain = False
        if not text or text.isspace():
            seen.blank = True
    return others


def _others(parts: list[Any], seen: Survey) -> None:
    inside: list[Any] = []
    for part in parts:
        if type(part) is rq.Call:
            if part.by == "client":
                seen.ids.add(part.id)
                seen.names.add(part.name)
            if part.extra is not None or part.form == "text" or not part.json.isascii():
                seen.plain, seen.wrapped = False, True
        elif type(part) is rq.Result:
            seen.ids.add(part.call)
            if part.extra is not None:
                seen.plain = False
            inside += part.content
        else:
            _odd(part, seen)
    for part in _texts(inside, seen):
        _odd(part, seen)


def _odd(part: Any, seen: Survey) -> None:
    if type(part) is rq.File:
        seen.files = True
    elif type(part) is rq.Ask:
        seen.ids.add(part.call)
    else:
        seen.plain = False
