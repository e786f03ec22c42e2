"""Cache points: where a conversation's prompt is worth keeping, and never more of them than a target allows.

At the end of the tools, at the end of the system prompt, and at the last two things the user said, so that the next
turn finds the one and the turn after it the other. Hints of the client's own are left where they are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from penstock import request as rq

if TYPE_CHECKING:
    from penstock.diagnostics import Diagnostics

LIMIT = 4
TURNS = 2
USUAL = "5m"
_HOLDERS = frozenset({rq.Text, rq.File, rq.Result})  # parts that a hint may stand on


def place_points(request: rq.Request, limit: int = LIMIT, cache: str = USUAL) -> rq.Request:
    """The request with cache points, the most useful first, unless the client set its own."""
    if limit <= 0 or has_hints(request):
        return request
    messages, tools = list(request.messages), list(request.tools)
    ends = _ends(messages)
    offered = _last_tool(tools)
    spoken = [*ends[:1], *_prompt(messages)][:limit]
    left = limit - len(spoken)
    for place in offered[:left]:
        tools[place] = replace(tools[place], cache=cache)
    for place in (*spoken, *ends[1:][: max(left - len(offered), 0)]):
        messages[place] = _marked(messages[place], cache)
    return replace(request, messages=messages, tools=tools)


def _prompt(messages: list[rq.Message]) -> list[int]:
    """Where the system prompt ends."""
    front = next((place for place, one in enumerate(messages) if one.role != "system"), len(messages))
    return [place for place in range(front) if _holder(messages[place]) is not None][-1:]


def _last_tool(tools: list[rq.Tool]) -> list[int]:
    """The last tool that is there from the beginning: one that is loaded later may hold no hint."""
    later = [any(own.get("defer_loading") for own in (tool.extra or {}).values()) for tool in tools]
    return [place for place, deferred in enumerate(later) if not deferred][-1:]


def _ends(messages: list[rq.Message]) -> list[int]:
    """Where the last things that a user (or a tool) said end, the last first."""
    found: list[int] = []
    behind = ""
    for place in range(len(messages) - 1, -1, -1):
        role = "user" if messages[place].role in ("user", "tool") else messages[place].role
        if role == "user" and behind != "user" and _holder(messages[place]) is not None:
            found.append(place)
            if len(found) == TURNS:
                break
        behind = role
    return found


def _holder(message: rq.Message) -> int | None:
    """The last part that can hold a hint."""
    for place in range(len(message.parts) - 1, -1, -1):
        part = message.parts[place]
        if type(part) in _HOLDERS and not (type(part) is rq.Text and not part.text.strip()):
            return place
    return None


def _marked(message: rq.Message, cache: str) -> rq.Message:
    place = _holder(message)
    if place is None:
        return message
    parts = list(message.parts)
    parts[place] = replace(parts[place], cache=cache)
    return replace(message, parts=parts)


def has_hints(request: rq.Request) -> bool:
    """Whether the client said itself what to cache."""
    return any(tool.cache for tool in request.tools) or any(_hints(request.messages))


def _hints(messages: list[rq.Message]) -> list[int]:
    """How many hints each message has."""
    counts: list[int] = []
    for message in messages:
        count = 0
        for part in message.parts:
            if part.cache:
                count += 1
            if type(part) is rq.Result:
                for inner in part.content:
                    if inner.cache:
                        count += 1
        counts.append(count)
    return counts


def limit_points(request: rq.Request, limit: int, notes: Diagnostics) -> rq.Request:
    """At most so many cache points. Those of the tools and the prompt and the latest ones are worth the most."""
    tools = [place for place, tool in enumerate(request.tools) if tool.cache]
    counts = _hints(request.messages)
    extra = len(tools) + sum(counts) - limit
    if extra <= 0:
        return request
    notes.add("cache-points", f"the target takes {limit} cache points; the least useful {extra} were left out")
    made = list(request.messages)
    for place in sorted(range(len(made)), key=lambda place: (made[place].role == "system", place)):
        if extra > 0 and counts[place]:
            made[place], gone = _unmarked(made[place], extra)
            extra -= gone
    kept = list(request.tools)
    for place in tools[: max(extra, 0)]:
        kept[place] = replace(kept[place], cache="")
    return replace(request, messages=made, tools=kept)


def _unmarked(message: rq.Message, most: int) -> tuple[rq.Message, int]:
    """A message with up to so many hints fewer, the first of them first."""
    gone = 0
    parts: list[Any] = []
    for part in message.parts:
        if type(part) is rq.Result and gone < most and any(inner.cache for inner in part.content):
            content: list[Any] = []
            for inner in part.content:
                content.append(replace(inner, cache="") if inner.cache and gone < most else inner)
                gone += content[-1] is not inner
            part = replace(part, content=content)  # noqa: PLW2901 — the same part without its hints
        if part.cache and gone < most:
            part = replace(part, cache="")  # noqa: PLW2901 — as above
            gone += 1
        parts.append(part)
    return replace(message, parts=parts), gone
