"""One look at a whole request: what there is in it that some rule could concern, so that most rules need not look."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from penstock import request as rq

if TYPE_CHECKING:
    from penstock.messages.mapping import Rule


class Survey(msgspec.Struct):
    """What was seen. Everything errs on the side of looking again."""

    plain: bool = True  # all texts are ASCII, and nothing is kept for a protocol
    files: bool = False
    blank: bool = False  # a message or a text with nothing in it
    hints: int = 0  # cache points
    wrapped: bool = False  # calls or tools that are more than a name and a JSON object
    ids: set[str] = msgspec.field(default_factory=set[str])
    names: set[str] = msgspec.field(default_factory=set[str])

    def fit_ids(self, rule: Rule) -> bool:
        return not rule.strict or all(map(rule.matcher(), self.ids))

    def fit_names(self, rule: Rule) -> bool:
        return not self.wrapped and (not rule.strict or all(map(rule.matcher(), self.names)))


def survey(request: rq.Request) -> Survey:
    """What there is in a request."""
    seen = Survey()
    for tool in request.tools:
        seen.names.add(tool.name)
        if tool.cache:
            seen.hints += 1
        if tool.kind != "function" or tool.namespace:
            seen.wrapped = True
    for message in request.messages:
        if not message.parts:
            seen.blank = True
        _look(message.parts, seen)
    seen.plain = seen.plain and all(map(str.isascii, seen.ids)) and all(map(str.isascii, seen.names))
    return seen


def _look(parts: list[Any], seen: Survey) -> None:
    for part in parts:
        if part.cache:
            seen.hints += 1
        if type(part) is rq.Text:
            text = part.text
            if not text.isascii() or part.extra is not None:
                seen.plain = False
            if not text or text.isspace():
                seen.blank = True
        elif type(part) is rq.Result:
            seen.ids.add(part.call)
            if part.extra is not None:
                seen.plain = False
            _look(part.content, seen)
        else:
            _look_closer(part, seen)


def _look_closer(part: Any, seen: Survey) -> None:
    if type(part) is rq.Call:
        if part.by == "client":
            seen.ids.add(part.id)
            seen.names.add(part.name)
        if not part.json.isascii() or part.extra is not None or part.form == "text":
            seen.plain, seen.wrapped = False, True
    elif type(part) is rq.File:
        seen.files = True
    elif type(part) is rq.Ask:
        seen.ids.add(part.call)
    else:
        seen.plain = False
