"""Near the limit, what is old and bulky goes first: thinking of turns that are over, then contents of old results.

Calls and results stay in pairs, and the latest rounds stay whole. Counting is the caller's: a function from a message
to its tokens, asked once for each message and once for each that changed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec
from msgspec.structs import replace

from penstock import request as rq

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.diagnostics import Diagnostics

    Count: TypeAlias = Callable[[rq.Message], int]

CLEARED = "[the result was cleared to save context]"
NEAR = 0.9  # of the limit: when to begin
ENOUGH = 0.6  # of the limit: when to stop
KEEP = 3  # rounds of calls at the end that stay whole
_CHARACTERS = 4  # that make a token, roughly
_encode = msgspec.json.Encoder().encode


class Cleared(msgspec.Struct, frozen=True):
    """About how many tokens a conversation was, and is."""

    before: int
    after: int


def rough(message: rq.Message) -> int:
    """Tokens by size alone, for callers who cannot count any better. Files count a flat thousand each."""
    files = [part for part in message.parts if type(part) is rq.File]
    files += [part for one in message.parts if type(one) is rq.Result for part in one.content if type(part) is rq.File]
    data = sum(len(file.data) for file in files)
    return (len(_encode(message)) - data) // _CHARACTERS + 1000 * len(files)


def manage_context(
    request: rq.Request, notes: Diagnostics, *, limit: int, count: Count = rough, keep: int = KEEP,
    report: Callable[[Cleared], None] | None = None,
) -> rq.Request:  # fmt: skip
    """The request with old thinking and old results cleared, if it comes near the limit; itself if it does not."""
    tokens = [count(message) for message in request.messages]
    total = sum(tokens) + len(_encode(request.tools)) // _CHARACTERS
    if total < limit * NEAR:
        return request
    messages = list(request.messages)
    much = goal = total - int(limit * ENOUGH)  # how much should go
    for clear, places in ((_thinking, _over(messages)), (_results, _old(messages, keep))):
        for place in places:
            if goal <= 0:
                break
            new = clear(messages[place])
            if new is not messages[place]:
                goal -= tokens[place] - count(new)
                messages[place] = new
    changed = sum(new is not old for new, old in zip(messages, request.messages, strict=True))
    if not changed:
        notes.add("context-full", f"about {total} tokens are near the limit of {limit}, and nothing old can be cleared")
        return request
    notes.add("context-cleared", f"about {total} tokens are near the limit of {limit}; {changed} messages were cleared")
    if report is not None:
        report(Cleared(total, total - (much - goal)))
    return replace(request, messages=messages)


def _over(messages: list[rq.Message]) -> list[int]:
    """Assistants' messages of turns that are over: before the last thing that a user said."""
    last = max((place for place, message in enumerate(messages) if message.role == "user"), default=0)
    return [place for place in range(last) if messages[place].role == "assistant"]


def _old(messages: list[rq.Message], keep: int) -> list[int]:
    """Messages with results, without those of the last rounds."""
    rounds = 0
    for place in range(len(messages) - 1, -1, -1):
        if messages[place].role == "assistant" and any(type(part) is rq.Call for part in messages[place].parts):
            rounds += 1
            if rounds == keep:
                return [before for before in range(place) if messages[before].role == "tool"]
    return [] if keep else [place for place, message in enumerate(messages) if message.role == "tool"]


def _thinking(message: rq.Message) -> rq.Message:
    parts = [part for part in message.parts if type(part) is not rq.Reasoning]
    return replace(message, parts=parts) if parts and len(parts) < len(message.parts) else message


def _results(message: rq.Message) -> rq.Message:
    parts: list[Any] = [_emptied(part) if type(part) is rq.Result else part for part in message.parts]
    same = all(new is old for new, old in zip(parts, message.parts, strict=True))
    return message if same else replace(message, parts=parts)


def _emptied(result: rq.Result) -> rq.Result:
    if not result.content or result.by == "provider":
        return result
    only = result.content[0] if len(result.content) == 1 else None
    if type(only) is rq.Text and len(only.text) <= len(CLEARED):
        return result
    return replace(result, content=[rq.Text(CLEARED)])
