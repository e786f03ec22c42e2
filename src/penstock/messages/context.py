"""A conversation that is too long: old thinking and old tool results go first, then whole turns, oldest first.

The system prompt, the last user turn, and one half of a call and its result never go. It acts if a provider refused the
request for its length, or if even the lower bound of the estimate is over the limit; and it cuts once, well below the
limit, so that the next requests have the same beginning and prompt caches hold.
"""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec
from msgspec.structs import replace

from penstock import request as rq
from penstock.messages.traversal import without_item_ids

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


if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.diagnostics import Diagnostics

    Count: TypeAlias = Callable[[rq.Message], int]

CLEARED = "[the result was cleared to save context]"
NEAR = 0.5  # of the limit, by size alone: below that nothing is counted more closely
ENOUGH, STEP = 0.6, 0.2  # of the limit: about how much stays, and in which steps the rest goes
KEEP = 3  # rounds of calls at the end whose results stay whole
_CHARACTERS = 4  # that make a token, roughly
_encode = msgspec.json.Encoder().encode


class Cleared(msgspec.Struct, frozen=True):
    """About how many tokens a conversation was, and is; and how many whole turns were left out."""

    before: int
    after: int
    turns: int = 0


def rough(message: rq.Message) -> int:
    """Tokens by size alone, for callers who cannot count any better. Files count a flat thousand each."""
    files = [part for part in message.parts if type(part) is rq.File]
    files += [part for one in message.parts if type(one) is rq.Result for part in one.content if type(part) is rq.File]
    data = sum(len(file.data) for file in files)
    return (len(_encode(message)) - data) // _CHARACTERS + 1000 * len(files)


def manage_context(
    request: rq.Request, notes: Diagnostics, *, limit: int, count: Count = rough, keep: int = KEEP,
    refused: bool = False, report: Callable[[Cleared], None] | None = None,
) -> rq.Request:  # fmt: skip
    """The request cut to about 60% of the limit, if it is too long; itself if it is not.

    `refused`: a provider has said so, whatever the estimate says. A limit of 0 is unknown.
    """
    tokens = [count(message) for message in request.messages]
    total = sum(tokens) + len(_encode(request.tools)) // _CHARACTERS
    if not refused and _lowest(request, total, limit, count) <= limit:
        return request
    cut = _Cut(request.messages, tokens, _excess(total, min(limit, total) if limit else total), count)
    cut.clear(_thinking, _over(request.messages))
    cut.clear(_results, _old(request.messages, keep))
    cut.drop_turns()
    told = f"about {total} tokens are more than the limit of {limit}" if limit else f"about {total} tokens are too many"
    if not cut.cleared and not cut.turns:
        notes.add("context-full", f"{told}, and nothing old can be cleared")
        return request
    if cut.cleared:
        notes.add("context-cleared", f"{told}; old thinking or results of {cut.cleared} messages were cleared")
    if cut.turns:
        notes.add("context-dropped", f"{told}; the {cut.turns} oldest turns were left out")
    if limit and total - cut.gone > limit:
        notes.add("context-full", f"about {total - cut.gone} tokens are left, more than the limit of {limit}")
    if report is not None:
        report(Cleared(total, total - cut.gone, cut.turns))
    return replace(request, messages=cut.messages())


def _excess(total: int, size: int) -> int:
    """How many tokens must go so that about 60% of the size stays.

    In steps of 20%: a conversation that grows on is cut at the same place for a while, and its beginning stays cached.
    """
    step = size * STEP
    return ceil(ceil((total - size * (ENOUGH + STEP / 2)) / step) * step) if step else 0


def _lowest(request: rq.Request, total: int, limit: int, count: Count) -> int:
    """The fewest tokens that the request may have. Who counts by a function of his own is believed."""
    if count is not rough or total < limit * NEAR:
        return total if count is not rough else 0
    from penstock.tokens import HybridTokenEstimator  # noqa: PLC0415 — reads tables that most requests do not need

    return HybridTokenEstimator(prompts=0).estimate_conversation(request).low


class _Cut:
    """Messages being cut. `left` is how many tokens should still go, `gone` how many went."""

    def __init__(self, messages: list[rq.Message], tokens: list[int], left: int, count: Count) -> None:
        self._messages: list[rq.Message | None] = list(messages)
        self._tokens = list(tokens)
        self._count = count
        self.left, self.gone, self.cleared, self.turns = left, 0, 0, 0

    def messages(self) -> list[rq.Message]:
        return [message for message in self._messages if message is not None]

    def clear(self, change: Callable[[rq.Message], rq.Message], places: list[int]) -> None:
        """Change messages, the oldest first, until enough is gone."""
        for place in places:
            old = self._messages[place]
            if self.left <= 0 or old is None:
                return
            new = change(old)
            if new is not old:
                after = self._count(new)
                self._take(self._tokens[place] - after)
                self._messages[place], self._tokens[place] = new, after
                self.cleared += 1

    def drop_turns(self) -> None:
        """Leave out whole turns, the oldest first, until enough is gone. System messages stay where they are."""
        for places in _turns(self.messages()):
            if self.left <= 0:
                return
            for place in places:
                self._take(self._tokens[place])
                self._messages[place] = None
            self.turns += 1

    def _take(self, tokens: int) -> None:
        self.left -= tokens
        self.gone += tokens


def _turns(messages: list[rq.Message]) -> list[list[int]]:
    """The places of each turn before the last: what a user says, and all up to the next; no call is parted from its
    result; one that nobody answered is waited for by nobody. System messages are in none.
    """
    results = {
        part.call: place for place, message in enumerate(messages) for part in message.parts if type(part) is rq.Result
    }
    last = max((place for place, message in enumerate(messages) if message.role == "user"), default=0)
    turns: list[list[int]] = [[]]
    waiting: set[str] = set()
    for place, message in enumerate(messages):
        if message.role == "user" and not waiting:
            if place >= last:
                return [turn for turn in turns if turn]
            turns.append([])
        for part in message.parts:
            if type(part) is rq.Call and part.by == "client" and results.get(part.id, -1) >= place:
                waiting.add(part.id)
            elif type(part) is rq.Result:
                waiting.discard(part.call)
        if message.role != "system":
            turns[-1].append(place)
    return [turn for turn in turns[:-1] if turn]  # the last turn began before the last thing that the user said


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
    gone = len(message.parts) - len(parts)
    return replace(message, parts=without_item_ids(parts)) if parts and gone else message


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
